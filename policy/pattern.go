package policy

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 4096

// Match says whether the pattern matches the whole value. "*" is any text, also
// none, also over "/" and newlines; "?" is one character; " *" at the very end
// may be missing as a unit; a leading "~", "$HOME" or "${HOME}", alone or before a
// slash, is home. There are no classes, braces or escapes, and case counts.
//
// Where home is unknown ("") a pattern that needs it matches nothing.
func Match(pattern, value, home string) bool {
	m, ok := compilePattern(pattern, home, false)
	return ok && m.match(value)
}

// any1 stands for "?" in a compiled segment. The byte is in no UTF-8 text.
const any1 = '\xff'

// glob is a compiled pattern.
type glob struct {
	// segments are the texts between stars; one segment means no star at all.
	segments []string
	// wild[i] says that segments[i] holds any1.
	wild []bool
	// optional says that the pattern ended in exactly one " *": then text before
	// it, matched to the end, is a match as well.
	optional bool
	// rank, from the most important part on.
	literal, stars, length int
}

// exact says that the glob has no wildcard at all.
func (g *glob) exact() bool { return len(g.segments) == 1 && !g.wild[0] }

// homePrefix returns the length of the leading spelling of the home directory,
// 0 if there is none.
func homePrefix(pattern string) int {
	for _, h := range [...]string{"~", "$HOME", "${HOME}"} {
		if strings.HasPrefix(pattern, h) && (len(pattern) == len(h) || pattern[len(h)] == '/' || pattern[len(h)] == '\\') {
			return len(h)
		}
	}
	return 0
}

// compilePattern returns false where the pattern needs a home and there is none,
// or is no UTF-8. fold compares as Windows paths do.
func compilePattern(pattern, home string, fold bool) (glob, bool) {
	literalHome := ""
	if n := homePrefix(pattern); n > 0 {
		literalHome = strings.TrimRight(home, `/\`)
		if home == "" || !utf8.ValidString(home) {
			return glob{}, false
		}
		pattern = pattern[n:]
		if literalHome == "" && pattern == "" {
			literalHome = "/"
		}
	}
	return compileGlob(literalHome, pattern, fold)
}

// compileGlob compiles a pattern behind a literal text.
func compileGlob(literal, pattern string, fold bool) (glob, bool) {
	if !utf8.ValidString(pattern) || !utf8.ValidString(literal) {
		return glob{}, false
	}
	g := glob{length: utf8.RuneCountInString(literal) + utf8.RuneCountInString(pattern)}
	g.stars = strings.Count(pattern, "*")
	g.literal = g.length - g.stars - strings.Count(pattern, "?")
	if fold {
		literal, pattern = foldPath(literal), foldPath(pattern)
	}
	g.optional = strings.HasSuffix(pattern, " *")
	pattern = strings.ReplaceAll(pattern, "?", string([]byte{any1}))
	for len(pattern) > 0 {
		i := strings.IndexByte(pattern, '*')
		if i < 0 {
			break
		}
		g.segments = append(g.segments, literal+pattern[:i])
		literal = ""
		pattern = strings.TrimLeft(pattern[i:], "*")
		if pattern == "" {
			g.segments = append(g.segments, "")
		}
	}
	if pattern != "" || len(g.segments) == 0 {
		g.segments = append(g.segments, literal+pattern)
	}
	g.wild = make([]bool, len(g.segments))
	for i, s := range g.segments {
		g.wild[i] = strings.IndexByte(s, any1) >= 0
	}
	return g, true
}

// foldPath brings Windows paths into one form.
func foldPath(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", `\`) }

// compare orders by rank: the more specific comes first. 0 means that rank does
// not tell them apart.
func (g *glob) compare(o *glob) int {
	switch {
	case g.exact() && !o.exact():
		return -1
	case o.exact() && !g.exact():
		return 1
	}
	return cmp.Or(cmp.Compare(o.literal, g.literal), cmp.Compare(g.stars, o.stars), cmp.Compare(o.length, g.length))
}

// match reports whether the glob matches the whole value, in time linear in the
// value for each segment.
func (g *glob) match(v string) bool {
	last := len(g.segments) - 1
	if g.optional && g.matchBare(v) {
		return true
	}
	if last == 0 {
		return g.matchAt(0, v) == len(v)
	}
	n := g.matchAt(0, v)
	if n < 0 {
		return false
	}
	v = v[n:]
	for i := 1; i < last; i++ {
		seg := g.segments[i]
		if !g.wild[i] {
			at := strings.Index(v, seg)
			if at < 0 {
				return false
			}
			v = v[at+len(seg):]
			continue
		}
		for {
			if n := g.matchAt(i, v); n >= 0 {
				v = v[n:]
				break
			}
			if v == "" {
				return false
			}
			_, size := utf8.DecodeRuneInString(v)
			v = v[size:]
		}
	}
	return g.matchEnd(last, v)
}

// matchBare matches the pattern without its final " *".
func (g *glob) matchBare(v string) bool {
	// The final segment is empty and the one before ends with the space.
	bare := glob{segments: g.segments[:len(g.segments)-1], wild: g.wild[:len(g.wild)-1]}
	last := len(bare.segments) - 1
	if last == 0 {
		s := bare.segments[0]
		if !bare.wild[0] {
			return len(v) == len(s)-1 && v == s[:len(s)-1]
		}
	}
	bare.segments = append([]string(nil), bare.segments...)
	bare.segments[last] = bare.segments[last][:len(bare.segments[last])-1]
	return bare.match(v)
}

// matchAt matches segment i at the start of v and returns how many bytes it
// took, -1 for no match.
func (g *glob) matchAt(i int, v string) int {
	seg := g.segments[i]
	if !g.wild[i] {
		if strings.HasPrefix(v, seg) {
			return len(seg)
		}
		return -1
	}
	pos := 0
	for j := 0; j < len(seg); j++ {
		switch {
		case pos >= len(v):
			return -1
		case seg[j] == any1:
			_, size := utf8.DecodeRuneInString(v[pos:])
			pos += size
		case seg[j] == v[pos]:
			pos++
		default:
			return -1
		}
	}
	return pos
}

// matchEnd matches segment i at the end of v.
func (g *glob) matchEnd(i int, v string) bool {
	seg := g.segments[i]
	if !g.wild[i] {
		return strings.HasSuffix(v, seg)
	}
	for j := len(seg) - 1; j >= 0; j-- {
		switch {
		case v == "":
			return false
		case seg[j] == any1:
			_, size := utf8.DecodeLastRuneInString(v)
			v = v[:len(v)-size]
		case seg[j] == v[len(v)-1]:
			v = v[:len(v)-1]
		default:
			return false
		}
	}
	return true
}

// covers says whether every value that narrow matches, wide matches too. It may
// answer no where a cleverer proof would find a yes.
func covers(wide, narrow string) bool {
	if wide == narrow {
		return true
	}
	if homePrefix(wide) > 0 != (homePrefix(narrow) > 0) {
		return false
	}
	if strings.HasSuffix(narrow, " *") && !covers(wide, narrow[:len(narrow)-2]) {
		return false
	}
	// Read the wildcards of narrow as characters that only wildcards of wide can
	// take: then a match of wide holds for whatever they stand for.
	g, ok := compileGlob("", wide, false)
	if !ok {
		return false
	}
	if strings.Contains(narrow, "*") {
		// A "?" of wide takes one character, a "*" of narrow may be none or many.
		for _, w := range g.wild {
			if w {
				return false
			}
		}
	}
	const starRune, oneRune = "\uf8ff", "\uf8fe"
	return g.match(strings.NewReplacer("*", starRune, "?", oneRune).Replace(narrow))
}

// checkPattern reports a pattern that can mean nothing.
func checkPattern(v value, s string) bool {
	switch {
	case s == "":
		v.problem("an empty pattern", "a pattern such as \"git *\", or \"*\" for everything", "")
	case len(s) > maxPattern:
		v.problem(fmt.Sprintf("a pattern of %d bytes", len(s)), fmt.Sprintf("at most %d", maxPattern), "")
	case strings.ContainsRune(s, 0):
		v.problem("a pattern with a NUL character", "text without it", "")
	default:
		return true
	}
	return false
}
