package shell

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is one argument after every expansion that is known without running
// anything.
type word struct {
	// norm is how the word is written in a normal form.
	norm string
	// val is the value after quote removal, where lit; else what is known.
	val string
	// lit: val is exactly the value (a pattern, if glob).
	lit  bool
	glob bool
	// multi: may become several words, or none.
	multi bool
	// prefix is the literal beginning of a word that is not lit.
	prefix string
	// vars are the variables that make the word unknown, if nothing else does.
	vars []string
	// typed is the text without quotes, unknown parts as written.
	typed string
	// pat is the word as a glob, with [unknownText] for what is not known; "" where
	// the fields above say all.
	pat string
	// plain: written without any quoting or expansion.
	plain bool
}

func literal(s string) word {
	return word{norm: quote(s), val: s, lit: true, prefix: s, typed: s}
}

func literals(ss []string) []word {
	ws := make([]word, len(ss))
	for i, s := range ss {
		ws[i] = literal(s)
	}
	return ws
}

// is reports whether the word is exactly s.
func (w word) is(s string) bool { return w.lit && !w.glob && w.val == s }

// known reports whether the value is certain and no pattern.
func (w word) known() bool { return w.lit && !w.glob }

// dash reports whether the word can be an option: it begins with a dash, or
// nothing is known of its beginning.
func (w word) dash() bool {
	if w.prefix != "" {
		return w.prefix[0] == '-'
	}
	return !w.lit
}

func normText(ws []word) string {
	switch len(ws) {
	case 0:
		return ""
	case 1:
		return ws[0].norm
	}
	n := 0
	for i := range ws {
		n += len(ws[i].norm) + 1
	}
	var b strings.Builder
	b.Grow(n)
	for i := range ws {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(ws[i].norm)
	}
	return b.String()
}

func values(ws []word) []string {
	vs := make([]string, len(ws))
	for i := range ws {
		if ws[i].lit {
			vs[i] = ws[i].val
		} else {
			vs[i] = ws[i].typed
		}
	}
	return vs
}

// safeByte says which bytes stand unquoted in a normal form.
var safeByte = func() (t [256]bool) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-32] = true, true
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for _, c := range "_@%+=:,./-^#!]{}~" {
		t[c] = true
	}
	return t
}()

// quote writes a value so that it reads back as one word, without quotes where
// they would change nothing.
func quote(s string) string {
	if s == "" {
		return "''"
	}
	safe, hidden := true, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !unicode.IsPrint(r) || r == utf8.RuneError {
				hidden = true
			}
			i += n - 1
			continue
		}
		if c < 0x20 && c != '\n' && c != '\t' || c == 0x7f {
			hidden = true
		}
		if !safeByte[c] {
			safe = false
		}
	}
	switch {
	case hidden:
		return quoteANSI(s)
	case s == "[", s == "[[":
		return s
	case safe && s[0] != '~' && s[0] != '#' && !braces(s):
		return s
	case !strings.Contains(s, "'"):
		return "'" + s + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// braces reports whether a brace of s could count: bash may expand it, or braceShape
// finds it odd, as a closing one alone.
func braces(s string) bool {
	return strings.ContainsAny(s, "{}") && (strings.Contains(s, ",") || strings.Contains(s, ".."))
}

func quoteANSI(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			b.WriteString(`\x`)
			b.WriteString(strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\x`)
			b.WriteString(strconv.FormatUint(uint64(r)|0x100, 16)[1:])
		case !unicode.IsPrint(r):
			if r > 0xffff {
				b.WriteString(`\U`)
				b.WriteString(strconv.FormatUint(uint64(r)|1<<32, 16)[1:])
			} else {
				b.WriteString(`\u`)
				b.WriteString(strconv.FormatUint(uint64(r)|0x10000, 16)[1:])
			}
		default:
			b.WriteRune(r)
		}
		i += n
	}
	b.WriteByte('\'')
	return b.String()
}

// unquoteANSI reads the inside of $'…' as bash does. ok is false where bash
// versions differ or the result would not be text.
func unquoteANSI(s string) (_ string, ok bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 >= len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		switch c = s[i]; c {
		case 'a':
			b.WriteByte(7)
		case 'b':
			b.WriteByte(8)
		case 'e', 'E':
			b.WriteByte(27)
		case 'f':
			b.WriteByte(12)
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte(11)
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			j := i + 1
			for j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7' {
				j++
			}
			n, _ := strconv.ParseUint(s[i:j], 8, 16)
			if n&0xff == 0 {
				return b.String(), true // bash ends the string here
			}
			b.WriteByte(byte(n))
			i = j - 1
		case 'x', 'u', 'U':
			most := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			j := i + 1
			for j < len(s) && j <= i+most && isHex(s[j]) {
				j++
			}
			if j == i+1 { // no digits; \x{…} is another form
				return "", false
			}
			n, _ := strconv.ParseUint(s[i+1:j], 16, 64)
			switch {
			case n == 0:
				return b.String(), true
			case c == 'x':
				b.WriteByte(byte(n))
			case n > unicode.MaxRune || !utf8.ValidRune(rune(n)):
				return "", false
			default:
				b.WriteRune(rune(n))
			}
			i = j - 1
		case 'c':
			return "", false
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), utf8.ValidString(b.String())
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// builder collects one or several words from the parts of a syntax word.
type builder struct {
	z     *analyzer
	split bool // $IFS separates words here
	out   []word

	norm, val strings.Builder
	pat       strings.Builder
	any       bool
	dyn       bool
	glob      bool
	multi     bool
	quoted    bool
	prefix    string
	prefixed  bool // prefix is final
	vars      []string
	opaque    bool // unknown for another reason than a variable
	tilde     bool // begins with the home directory
	typed     strings.Builder
}

func (b *builder) text(s string, pattern bool) {
	if pattern {
		b.unquoted(s, true)
		return
	}
	b.pat.WriteString(escapeGlob(s))
	b.write(s, false)
}

// unquoted is text for what no quotes keep from being part of a pattern.
func (b *builder) unquoted(s string, pattern bool) {
	b.pat.WriteString(s)
	b.write(s, pattern)
}

func (b *builder) write(s string, pattern bool) {
	b.any = true
	if pattern {
		b.glob = true
		b.norm.WriteString(s)
	} else if s != "" {
		b.norm.WriteString(quoteInner(s, b.norm.Len() == 0))
	}
	b.val.WriteString(s)
	b.typed.WriteString(s)
	if !b.prefixed {
		b.prefix += s
	}
}

// quoteInner is quote for a part of a word.
func quoteInner(s string, first bool) string {
	q := quote(s)
	if !first && (s[0] == '~' || s[0] == '#') && q == "'"+s+"'" {
		if safe := quote("x" + s); safe == "x"+s {
			return s
		}
	}
	return q
}

func (b *builder) unknown(src string) {
	b.any, b.dyn, b.prefixed = true, true, true
	b.pat.WriteString(unknownText)
	b.norm.WriteString(src)
	b.typed.WriteString(src)
}

func (b *builder) flush() {
	if !b.any {
		return
	}
	w := word{norm: b.norm.String(), val: b.val.String(), lit: !b.dyn, glob: b.glob, multi: b.multi || b.glob,
		prefix: b.prefix, typed: b.typed.String(), plain: !b.dyn && !b.glob && !b.quoted}
	if b.dyn || b.glob {
		w.pat = b.pat.String()
	}
	if b.dyn && !b.opaque {
		w.vars = b.vars
	}
	if w.lit && w.norm == "" {
		w.norm = "''"
	}
	if w.lit && !w.glob {
		if home := b.z.home(); b.tilde && strings.HasPrefix(w.val, home) {
			w.norm = "~"
			if rest := w.val[len(home):]; rest != "" {
				w.norm += quoteInner(rest, false)
			}
		} else {
			w.norm = quote(w.val)
		}
	}
	b.out = append(b.out, w)
	*b = builder{z: b.z, split: b.split, out: b.out}
}

// fields expands a command word or loop item: braces, then the rest.
func (z *analyzer) fields(w *syntax.Word) []word {
	if w == nil {
		return nil
	}
	if len(w.Parts) == 1 {
		if l, ok := w.Parts[0].(*syntax.Lit); ok && plainLit(l.Value) {
			return []word{{norm: l.Value, val: l.Value, lit: true, prefix: l.Value, typed: l.Value, plain: true}}
		}
	}
	switch braceShape(w.Parts) {
	case braceOdd:
		// bash and the library disagree about braces that do not close as they
		// should: visit what is in the word, and know nothing of it.
		for _, p := range w.Parts {
			z.wordPart(p)
		}
		if z.o.Dialect == Bash {
			return []word{{norm: z.slice(w), typed: z.slice(w), multi: true, pat: wordPrefix(w)}}
		}
	case braceExpands:
		if z.o.Dialect != Bash {
			break
		}
		copied := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
		if syntax.SplitBraces(copied) {
			if all, ok := z.brace(copied.Parts, maxBraces); ok {
				var out []word
				for _, parts := range all {
					out = append(out, z.parts(parts, true)...)
				}
				return out
			}
			for _, p := range w.Parts {
				z.wordPart(p)
			}
			return []word{{norm: z.slice(w), typed: z.slice(w), multi: true, pat: wordPrefix(w)}}
		}
	}
	return z.parts(w.Parts, true)
}

type braceKind uint8

const (
	braceNone    braceKind = iota // no braces that expand
	braceExpands                  // lists and sequences, well formed
	braceOdd                      // anything else with a comma or two dots
)

// braceShape looks at the unquoted braces of a word.
func braceShape(parts []syntax.WordPart) braceKind {
	type group struct {
		commas, dots bool
	}
	var open []group
	any, sep, odd := false, false, false
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			continue
		}
		s := l.Value
		for i := 0; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '{':
				any = true
				open = append(open, group{})
			case '}':
				any = true
				if len(open) == 0 {
					odd = true
					continue
				}
				g := open[len(open)-1]
				open = open[:len(open)-1]
				if g.commas == g.dots {
					odd = true // neither, or both
				}
			case ',':
				sep = true
				if len(open) > 0 {
					open[len(open)-1].commas = true
				}
			case '.':
				if i+1 < len(s) && s[i+1] == '.' {
					sep = true
					i++
					if len(open) > 0 {
						open[len(open)-1].dots = true
					}
				}
			}
		}
	}
	switch {
	case !any || !sep:
		return braceNone
	case odd || len(open) > 0:
		return braceOdd
	}
	return braceExpands
}

func plainLit(s string) bool {
	if s == "" || s[0] == '~' || s[0] == '#' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !safeByte[s[i]] || s[i] == '{' || s[i] == '}' {
			return s == "[" || s == "{}"
		}
	}
	// A tilde after = or : is expanded in assignments only.
	return true
}

// single expands a word where bash makes one of it: assignment, redirection,
// here-string, case subject.
func (z *analyzer) single(w *syntax.Word) word {
	if w == nil {
		return literal("")
	}
	ws := z.parts(w.Parts, false)
	switch len(ws) {
	case 0:
		return literal("")
	case 1:
		return ws[0]
	}
	return word{norm: z.slice(w), typed: z.slice(w)}
}

// brace expands brace expressions to the lists of parts that bash makes.
func (z *analyzer) brace(parts []syntax.WordPart, room int) ([][]syntax.WordPart, bool) {
	out := [][]syntax.WordPart{nil}
	for _, p := range parts {
		be, isBrace := p.(*syntax.BraceExp)
		if !isBrace {
			for i := range out {
				out[i] = append(out[i], p)
			}
			continue
		}
		var alts [][]syntax.WordPart
		if be.Sequence {
			seq, ok := sequence(be, room)
			if !ok {
				return nil, false
			}
			for _, s := range seq {
				alts = append(alts, []syntax.WordPart{&syntax.Lit{Value: s}})
			}
		} else {
			for _, e := range be.Elems {
				sub, ok := z.brace(e.Parts, room)
				if !ok {
					return nil, false
				}
				alts = append(alts, sub...)
				if len(alts) > room {
					return nil, false
				}
			}
		}
		if len(out)*len(alts) > room {
			return nil, false
		}
		var next [][]syntax.WordPart
		for _, o := range out {
			for _, a := range alts {
				next = append(next, append(append([]syntax.WordPart(nil), o...), a...))
			}
		}
		out = next
	}
	return out, true
}

func sequence(be *syntax.BraceExp, room int) ([]string, bool) {
	lit := func(w *syntax.Word) string { return w.Lit() }
	from, to := lit(be.Elems[0]), lit(be.Elems[1])
	step := int64(1)
	if len(be.Elems) > 2 {
		s, err := strconv.ParseInt(lit(be.Elems[2]), 10, 32)
		if err != nil {
			return nil, false
		}
		step = s
	}
	a, err1 := strconv.ParseInt(from, 10, 32)
	b, err2 := strconv.ParseInt(to, 10, 32)
	letters := err1 != nil && err2 != nil && len(from) == 1 && len(to) == 1
	if letters {
		a, b = int64(from[0]), int64(to[0])
		if a > 'Z' != (b > 'Z') {
			return nil, false // through punctuation
		}
	} else if err1 != nil || err2 != nil || len(from) > 1 && from[0] == '0' || len(to) > 1 && to[0] == '0' {
		return nil, false // padded numbers: not worth knowing
	}
	if step < 0 {
		step = -step
	}
	if step == 0 {
		step = 1
	}
	var out []string
	for {
		if len(out) > room {
			return nil, false
		}
		if letters {
			out = append(out, string(rune(a)))
		} else {
			out = append(out, strconv.FormatInt(a, 10))
		}
		if a == b || a < b && a+step > b || a > b && a-step < b {
			return out, true
		}
		if a < b {
			a += step
		} else {
			a -= step
		}
	}
}

func (z *analyzer) parts(parts []syntax.WordPart, split bool) []word {
	b := &builder{z: z, split: split}
	for i, p := range parts {
		b.part(p, false, i == 0, i == len(parts)-1)
	}
	b.flush()
	return b.out
}

func (b *builder) part(p syntax.WordPart, quoted, first, last bool) {
	z := b.z
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			b.text(unescapeDouble(p.Value), false)
		} else {
			b.lit(p.Value, first, last)
		}
	case *syntax.SglQuoted:
		b.quoted = true
		if !p.Dollar {
			b.text(p.Value, false)
			return
		}
		s, ok := unquoteANSI(p.Value)
		if !ok {
			b.opaque = true
			b.unknown(z.slice(p))
			return
		}
		b.text(s, false)
	case *syntax.DblQuoted:
		b.quoted = true
		if p.Dollar {
			// $"…" is translated by a message catalogue that the environment names.
			b.opaque = true
			for _, q := range p.Parts {
				z.wordPart(q)
			}
			b.unknown(z.slice(p))
			return
		}
		b.any = true
		plain := true
		for _, q := range p.Parts {
			if _, ok := q.(*syntax.Lit); !ok {
				plain = false
			}
		}
		if plain {
			for _, q := range p.Parts {
				b.part(q, true, false, false)
			}
			return
		}
		b.norm.WriteByte('"')
		save := b.norm.String()
		for _, q := range p.Parts {
			b.part(q, true, false, false)
		}
		// Inside double quotes the source itself is the most readable form.
		b.norm.Reset()
		b.norm.WriteString(save[:len(save)-1])
		b.norm.WriteString(z.slice(p))
	case *syntax.ParamExp:
		b.param(p, quoted)
	case *syntax.BraceExp:
		// Only reached where braces stay unexpanded.
		b.opaque = true
		b.unknown("{…}")
	default:
		// Substitutions, arithmetic, extended globs: whatever they hold is
		// visited, what they yield is not known.
		z.wordPart(p)
		if !quoted {
			b.multi = true
		}
		if _, ok := p.(*syntax.ArithmExp); !ok {
			b.opaque = true
		} else {
			b.vars = append(b.vars, "")
		}
		b.unknown(z.slice(p))
	}
}

// lit takes an unquoted literal apart: backslashes, globs, a leading tilde.
func (b *builder) lit(s string, first, last bool) {
	if first && s != "" && s[0] == '~' {
		end := strings.IndexByte(s, '/')
		if end < 0 && !last {
			// ~"x" is not a home directory: quoting ends the prefix.
			b.text("~", false)
			s = s[1:]
		} else {
			user := s
			if end >= 0 {
				user = s[:end]
			}
			home := b.z.home()
			switch {
			case user == "~" && home != "":
				b.any, b.tilde = true, true
				b.norm.WriteString(user)
				b.val.WriteString(home)
				b.pat.WriteString(escapeGlob(home))
				b.typed.WriteString(user)
				b.prefix = home
			default:
				// The home of somebody, or a folder that the shell remembers.
				b.opaque = true
				b.pat.WriteByte('/')
				b.unknown(user)
			}
			s = s[len(user):]
		}
	}
	for s != "" {
		i := strings.IndexAny(s, `\*?[`)
		if i < 0 {
			b.unquoted(s, false)
			return
		}
		if i > 0 {
			b.unquoted(s[:i], false)
		}
		switch s[i] {
		case '\\':
			b.quoted = true
			if i+1 >= len(s) {
				b.text(`\`, false)
				return
			}
			_, n := utf8.DecodeRuneInString(s[i+1:])
			b.text(s[i+1:i+1+n], false)
			s = s[i+1+n:]
		case '[':
			// A bracket is a pattern only with its partner, which may stand in
			// another part of the word.
			b.unquoted("[", !last || strings.IndexByte(s[i+1:], ']') >= 0)
			s = s[i+1:]
		default:
			b.text(s[i:i+1], true)
			s = s[i+1:]
		}
	}
}

func unescapeDouble(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (b *builder) param(p *syntax.ParamExp, quoted bool) {
	z := b.z
	z.paramExp(p)
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	src := z.slice(p)
	if simpleParam(p) {
		if v, ok := z.constant(name); ok && (quoted || !strings.ContainsAny(v, " \t\n*?[")) {
			if name == "HOME" && b.val.Len() == 0 && !b.dyn {
				b.tilde = true
			}
			b.any = true
			b.norm.WriteString(src)
			b.typed.WriteString(src)
			b.val.WriteString(v)
			b.pat.WriteString(escapeGlob(v))
			if !b.prefixed {
				b.prefix += v
			}
			b.quoted = true
			return
		}
	}
	// Unquoted $IFS, whole or sliced, is white space unless the text sets it.
	if name == "IFS" && !quoted && (simpleParam(p) || p.Slice != nil) && !z.assigned["IFS"] && p.Exp == nil && p.Repl == nil && !p.Length {
		if b.split {
			b.flush()
		} else {
			b.opaque = true
			b.unknown(src)
		}
		return
	}
	if !quoted {
		b.multi = true
	} else if name == "@" || strings.HasSuffix(src, "[@]}") {
		b.multi = true
	}
	switch {
	case simpleParam(p) && isName(name):
		b.vars = append(b.vars, name)
	case simpleParam(p) && (name == "#" || name == "?" || name == "$" || name == "!"), p.Length:
		b.vars = append(b.vars, "")
	default:
		b.opaque = true
	}
	b.unknown(src)
}

func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// simpleParam reports whether p is $name or ${name} and nothing else.
func simpleParam(p *syntax.ParamExp) bool {
	return p.Param != nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.NestedParam == nil && p.Index == nil && len(p.Modifiers) == 0 && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil &&
		p.Split == syntax.OptUnset && p.GlobSubst == syntax.OptUnset && p.RcExpand == syntax.OptUnset
}
