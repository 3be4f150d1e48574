package policy

import "slices"

// index finds the first entry of a sorted table that matches, without trying
// them all. Every pattern is filed under one short text that a matching value
// has to hold: its whole text where it has no wildcard, else four bytes of a
// literal part, the four that the fewest patterns share, else what it starts or
// ends with. Only patterns like "*" or "*a*" are tried for every value.
type index struct {
	whole map[string]int32
	grams gramTable
	heads map[uint32][]int32
	tails map[uint32][]int32
	rest  []int32
}

const gramSize = 4

// longValue is the length from which a value's repeated grams are remembered, so
// that a text that repeats itself does not try the same patterns again.
const longValue = 256

// gramTable maps four bytes to the entries that are filed under them. It is a
// hash table with open addressing behind a bitmap that most questions end at.
type gramTable struct {
	filter  [1 << 10]uint64
	shift   uint
	keys    []uint32
	slots   []int32 // index into buckets, plus one
	buckets [][]int32
}

func gramHash(g uint32) uint32 { return g * 2654435761 }

func newIndex(entries []entry) index {
	ix := index{whole: map[string]int32{}, heads: map[uint32][]int32{}, tails: map[uint32][]int32{}}
	// How many patterns hold a gram decides under which of its grams each is filed.
	counts := map[uint32]int32{}
	seen := map[uint32]bool{}
	for i := range entries {
		g := &entries[i].glob
		if g.exact() {
			continue
		}
		clear(seen)
		g.literals(func(lit string) {
			for k := 0; k+gramSize <= len(lit); k++ {
				if gram := gramAt(lit, k); !seen[gram] {
					seen[gram] = true
					counts[gram]++
				}
			}
		})
	}
	filed := map[uint32][]int32{}
	for i := range entries {
		g := &entries[i].glob
		place := int32(i)
		if g.exact() {
			if _, there := ix.whole[g.segments[0]]; !there {
				ix.whole[g.segments[0]] = place
			}
			continue
		}
		best, fewest := uint32(0), int32(0)
		g.literals(func(lit string) {
			for k := 0; k+gramSize <= len(lit); k++ {
				if gram := gramAt(lit, k); fewest == 0 || counts[gram] < fewest {
					best, fewest = gram, counts[gram]
				}
			}
		})
		if fewest > 0 {
			filed[best] = append(filed[best], place)
			continue
		}
		head, tail := g.ends()
		switch {
		case head != "":
			k := shortKey(head[:min(len(head), gramSize-1)])
			ix.heads[k] = append(ix.heads[k], place)
		case tail != "":
			k := shortKey(tail[max(0, len(tail)-gramSize+1):])
			ix.tails[k] = append(ix.tails[k], place)
		default:
			ix.rest = append(ix.rest, place)
		}
	}
	ix.grams.build(filed)
	return ix
}

// literals calls f with each run of literal text that every match holds.
func (g *glob) literals(f func(string)) {
	for i, s := range g.segments {
		if g.optional && i == len(g.segments)-2 {
			s = s[:len(s)-1] // the space may be missing
		}
		start := 0
		for j := 0; j <= len(s); j++ {
			if j == len(s) || s[j] == any1 {
				if j > start {
					f(s[start:j])
				}
				start = j + 1
			}
		}
	}
}

// ends returns the literal text at the start and at the end of every match.
func (g *glob) ends() (head, tail string) {
	head = g.segments[0]
	if g.optional && len(g.segments) == 2 {
		head = head[:len(head)-1]
	}
	if i := slices.Index([]byte(head), any1); i >= 0 {
		head = head[:i]
	}
	if !g.optional {
		tail = g.segments[len(g.segments)-1]
		for i := len(tail) - 1; i >= 0; i-- {
			if tail[i] == any1 {
				tail = tail[i+1:]
				break
			}
		}
	}
	return head, tail
}

func gramAt(s string, i int) uint32 {
	_ = s[i+gramSize-1]
	return uint32(s[i])<<24 | uint32(s[i+1])<<16 | uint32(s[i+2])<<8 | uint32(s[i+3])
}

// shortKey packs one to three bytes with their number.
func shortKey(s string) uint32 {
	k := uint32(len(s)) << 24
	for i := range len(s) {
		k |= uint32(s[i]) << (8 * i)
	}
	return k
}

func (t *gramTable) build(filed map[uint32][]int32) {
	if len(filed) == 0 {
		return
	}
	size, bits := 16, uint(4)
	for size < 4*len(filed) {
		size, bits = size*2, bits+1
	}
	t.shift = 32 - bits
	t.keys, t.slots = make([]uint32, size), make([]int32, size)
	// In the order of the grams, so that the same rules give the same table.
	grams := make([]uint32, 0, len(filed))
	for g := range filed {
		grams = append(grams, g)
	}
	slices.Sort(grams)
	for _, g := range grams {
		h := gramHash(g)
		t.filter[h>>22] |= 1 << (h >> 16 & 63)
		at := int(h >> t.shift)
		for t.slots[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		t.buckets = append(t.buckets, filed[g])
		t.keys[at], t.slots[at] = g, int32(len(t.buckets))
	}
}

// bucket returns the number of the gram's bucket, -1 for none.
func (t *gramTable) bucket(g uint32) int {
	h := gramHash(g)
	if t.filter[h>>22]>>(h>>16&63)&1 == 0 {
		return -1
	}
	for at := int(h >> t.shift); t.slots[at] != 0; at = (at + 1) & (len(t.slots) - 1) {
		if t.keys[at] == g {
			return int(t.slots[at]) - 1
		}
	}
	return -1
}

// find returns the place of the first entry before limit that matches, limit if
// there is none.
func (ix *index) find(entries []entry, value string, limit int) int {
	if i, ok := ix.whole[value]; ok && int(i) < limit {
		limit = int(i)
	}
	try := func(places []int32) {
		for _, i := range places {
			if int(i) >= limit {
				return
			}
			if entries[i].glob.match(value) {
				limit = int(i)
				return
			}
		}
	}
	if len(ix.grams.buckets) > 0 && len(value) >= gramSize {
		var tried []uint64
		if len(value) > longValue {
			tried = make([]uint64, (len(ix.grams.buckets)+63)/64)
		}
		gram := gramAt(value, 0)
		for i := gramSize; ; i++ {
			if b := ix.grams.bucket(gram); b >= 0 {
				if tried == nil {
					try(ix.grams.buckets[b])
				} else if tried[b/64]>>(b%64)&1 == 0 {
					tried[b/64] |= 1 << (b % 64)
					try(ix.grams.buckets[b])
				}
			}
			if i == len(value) {
				break
			}
			gram = gram<<8 | uint32(value[i])
		}
	}
	for n := 1; n < gramSize && n <= len(value); n++ {
		if len(ix.heads) > 0 {
			try(ix.heads[shortKey(value[:n])])
		}
		if len(ix.tails) > 0 {
			try(ix.tails[shortKey(value[len(value)-n:])])
		}
	}
	try(ix.rest)
	return limit
}
