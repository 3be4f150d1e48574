package policy

import (
	"path"
	"strings"
	"unicode/utf8"
)

// A Shape is a set of names: what a word may become that is expanded only when
// it runs, such as a glob, the home of another user or an unknown variable. A
// [Query] with shapes is answered for all of these names at once: allowed only
// where each is allowed, denied only where each is denied, else asked.
type Shape struct {
	// Text is a name with [AnyOne], [AnyName] and [AnyText] in place of what is
	// not known.
	Text string
	// Some says that only some of the names meant have this spelling.
	Some bool
}

// The parts of a shape that stand for more than themselves. Their bytes are in
// no UTF-8 text.
const (
	// AnyOne is one character but a slash.
	AnyOne = "\xff"
	// AnyName is any text without a slash, also none.
	AnyName = "\xfe"
	// AnyText is any text, also none.
	AnyText = "\xfd"
)

// maxShape is the length from which the rest of a shape is taken for anything.
const maxShape = 1024

// ShapeText returns the shape of a literal text. What is no UTF-8 is any text.
func ShapeText(s string) string {
	if !utf8.ValidString(s) {
		return AnyText
	}
	return s
}

func (s Shape) bounded() string {
	if len(s.Text) <= maxShape {
		return s.Text
	}
	cut := maxShape
	for cut > 0 && !utf8.RuneStart(s.Text[cut]) {
		cut--
	}
	return s.Text[:cut] + AnyText
}

// literal returns the text before the first part that is not known.
func (s Shape) literal() string {
	if i := strings.IndexFunc(s.Text, func(r rune) bool { return r == utf8.RuneError }); i >= 0 {
		return s.Text[:i]
	}
	return s.Text
}

// meets says whether some name of the shape matches the glob.
func (g *glob) meets(s Shape) bool {
	head := g.segments[0]
	if g.optional && len(g.segments) == 2 {
		head = head[:len(head)-1]
	}
	if i := strings.IndexByte(head, any1); i >= 0 {
		head = head[:i]
	}
	literal := s.literal()
	if n := min(len(head), len(literal)); head[:n] != literal[:n] {
		return false
	}
	shape := s.bounded()
	pattern := strings.Join(g.segments, AnyText)
	if meet(shape, pattern) {
		return true
	}
	return g.optional && meet(shape, strings.TrimSuffix(pattern, " "+AnyText))
}

// coversShape says whether every name of the shape matches the glob. It may answer no
// where a cleverer proof would find a yes.
func (g *glob) coversShape(s Shape) bool {
	if strings.Contains(s.Text, AnyName) || strings.Contains(s.Text, AnyText) {
		// A "?" takes one character, these may be none or many.
		for _, w := range g.wild {
			if w {
				return false
			}
		}
	}
	// No literal of a pattern equals the bytes of what is not known: only its
	// wildcards take them.
	return g.match(s.bounded())
}

// The tokens of a shape or pattern beside its characters.
const (
	tokenOne  rune = -1 - iota // AnyOne in a shape
	tokenName                  // AnyName
	tokenText                  // AnyText, "*"
	tokenWild                  // "?" in a pattern, which takes a slash too
)

func tokens(s string, one rune) []rune {
	out := make([]rune, 0, len(s))
	for i := 0; i < len(s); {
		switch s[i] {
		case AnyOne[0]:
			out = append(out, one)
			i++
		case AnyName[0]:
			out = append(out, tokenName)
			i++
		case AnyText[0]:
			out = append(out, tokenText)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			out = append(out, r)
			i += n
		}
	}
	return out
}

// meet says whether some text is of both, in time of the product of the lengths.
func meet(shape, pattern string) bool {
	a, b := tokens(shape, tokenOne), tokens(pattern, tokenWild)
	row, next := make([]bool, len(b)+1), make([]bool, len(b)+1)
	row[0] = true
	for i := 0; i <= len(a); i++ {
		clear(next)
		for j := 0; j <= len(b); j++ {
			if !row[j] {
				continue
			}
			if i < len(a) && many(a[i]) {
				next[j] = true
				if j < len(b) && !many(b[j]) && (a[i] == tokenText || b[j] != '/') {
					row[j+1] = true
				}
			}
			if j < len(b) && many(b[j]) {
				row[j+1] = true
				if i < len(a) && !many(a[i]) {
					next[j] = true
				}
			}
			if i < len(a) && j < len(b) && !many(a[i]) && !many(b[j]) && alike(a[i], b[j]) {
				next[j+1] = true
			}
		}
		if i == len(a) {
			return row[len(b)]
		}
		row, next = next, row
	}
	return false
}

func many(t rune) bool { return t == tokenName || t == tokenText }

func alike(shape, pattern rune) bool {
	switch {
	case pattern == tokenWild:
		return true
	case shape == tokenOne:
		return pattern != '/'
	}
	return shape == pattern
}

// fate is what the rules of a surface say of all the names of a query's shapes.
type fate struct {
	worst *entry
	// every: there was no rule that does not deny.
	every bool
	// closed is the rule that decides what no more specific one does.
	closed *entry
}

// consider goes through the rules from the most specific one on.
func (t *table) consider(q *Query, f *fate) {
	for i := range t.entries {
		e := &t.entries[i]
		meets, covers := false, false
		for _, s := range q.Shapes {
			if !e.glob.meets(s) {
				continue
			}
			meets = true
			if !s.Some && e.glob.coversShape(s) {
				covers = true
				break
			}
		}
		if !meets {
			continue
		}
		if f.worst == nil {
			f.every = true
		}
		if f.worst == nil || e.rule.Action < f.worst.rule.Action {
			f.worst = e
		}
		f.every = f.every && e.rule.Action == Deny
		if covers {
			if f.closed == nil {
				f.closed = e
			}
			return
		}
	}
}

// shapes answers for the shapes of a query, as surface does for its values.
func (c *compiled) shapes(surface string, q *Query) (hit, bool) {
	var f fate
	if t := c.exact[surface]; t != nil {
		t.consider(q, &f)
	}
	for i := 0; i < len(c.wild) && f.closed == nil; i++ {
		if c.wild[i].glob.match(surface) {
			// Others of the same rank may say something else of the same names.
			for j := i; j < len(c.wild) && c.wild[i].glob.compare(&c.wild[j].glob) == 0; j++ {
				if c.wild[j].glob.match(surface) {
					c.wild[j].table.consider(q, &f)
				}
			}
		}
	}
	return f.hit(q)
}

func (f *fate) hit(q *Query) (hit, bool) {
	value := first(q.Values)
	switch {
	case f.worst == nil, f.closed == nil && f.worst.rule.Action == Allow:
		return hit{}, false
	case f.closed != nil && (f.every || f.worst.rule.Action == Allow):
		return hit{rule: f.closed.rule, reason: f.closed.reason, value: value}, true
	}
	rule := *f.worst.rule
	if rule.Action == Ask {
		return hit{rule: f.worst.rule, reason: f.worst.reason, value: value, partial: f.closed == nil}, true
	}
	rule.Action = Ask
	return hit{rule: &rule, reason: mayBe + f.worst.reason, value: value, partial: f.closed == nil}, true
}

// mayBe stands before the reason of a deny that a name meets only perhaps.
const mayBe = "the name is known only when it runs, and may be one that is "

// meetsPattern says whether a pattern may match, and whether it matches
// whatever the name becomes.
func (q *Query) meetsPattern(p string) (meets, covers bool) {
	g, ok := compilePattern(p, q.Home, q.Fold)
	if !ok {
		if g, ok = compileGlob("", "*"+p[homePrefix(p):], q.Fold); !ok {
			return false, false
		}
	}
	for _, s := range q.Shapes {
		if g.meets(s) {
			meets = true
			covers = covers || !s.Some && g.coversShape(s)
		}
	}
	return meets, covers
}

// AnyBelow says whether some name of the shape is dir or lies below it, and
// returns what then follows dir, as a shape.
func (s Shape) AnyBelow(dir string) (rest string, ok bool) {
	if dir == "/" {
		dir = ""
	}
	depth := strings.Count(dir, "/")
	at := 0
	for n := 0; ; n++ {
		if n > depth {
			break
		}
		end := strings.IndexByte(s.Text[at:], '/')
		part := s.Text[at:]
		if end >= 0 {
			part = part[:end]
		}
		if i := strings.Index(part, AnyText); i >= 0 {
			// It may hold the rest of dir, and more.
			if meet(s.Text[:at+i]+AnyText, dir+"/"+AnyText) {
				return s.Text[at+i:], true
			}
			return "", false
		}
		if end < 0 {
			return "", false
		}
		if n == depth {
			if meet(s.Text[:at+end], dir) {
				return s.Text[at+end+1:], true
			}
			return "", false
		}
		at += end + 1
	}
	return "", false
}

// followShapes adds where the known folders of shapes really lead.
func followShapes(shapes []Shape, real func(string) (string, bool)) []Shape {
	out := shapes
	for _, s := range shapes {
		literal := s.literal()
		at := strings.LastIndexByte(literal, '/')
		if at < 0 || literal[0] != '/' || s.Some {
			continue
		}
		dir := path.Clean("/" + literal[:at])
		if to := RealPath(dir, real); to != "" && to != dir {
			out = append(out[:len(out):len(out)], Shape{Text: strings.TrimSuffix(to, "/") + s.Text[at:]})
		}
	}
	return out
}
