package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/getpioneer/pioneer-super/policy"
)

// escapeGlob keeps the characters of a text from being a pattern.
func escapeGlob(s string) string {
	if !strings.ContainsAny(s, `*?[]\`) {
		return s
	}
	return globEscaper.Replace(s)
}

var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`)

// unknownText stands in a glob for text that is known only when it runs.
const unknownText = policy.AnyText

// globShape returns the shape of a glob as bash reads it, with backslashes before
// what is no pattern. "**" counts as bash reads it with globstar, and a bracket
// expression as any one character.
func globShape(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '\\':
			if i++; i < len(glob) {
				b.WriteByte(glob[i])
			}
		case '*':
			if i+1 < len(glob) && glob[i+1] == '*' {
				for i+1 < len(glob) && glob[i+1] == '*' {
					i++
				}
				b.WriteString(policy.AnyText)
			} else {
				b.WriteString(policy.AnyName)
			}
		case '?':
			b.WriteString(policy.AnyOne)
		case '[':
			if end := bracketEnd(glob[i:]); end > 0 {
				b.WriteString(policy.AnyOne)
				i += end
			} else {
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// bracketEnd returns where the bracket expression at the start of s ends, 0 if
// none stands there.
func bracketEnd(s string) int {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	for first := i; i < len(s); i++ {
		switch {
		case s[i] == '/':
			return 0
		case s[i] == '\\':
			i++
		case s[i] == '[' && i+1 < len(s) && strings.IndexByte(":.=", s[i+1]) >= 0:
			if end := strings.Index(s[i+2:], s[i+1:i+2]+"]"); end >= 0 {
				i += end + 3
			}
		case s[i] == ']' && i > first:
			return i
		}
	}
	return 0
}

// shapeOf returns the shape of a word, "" where it is known.
func (w word) shapeOf() string {
	switch {
	case w.known():
		return ""
	case w.glob && w.pat == "":
		return globShape(w.val)
	case w.pat == "":
		return unknownText
	}
	return globShape(w.pat)
}

// wordPrefix is the glob of a word of which no more is known than how it begins.
func wordPrefix(w *syntax.Word) string {
	if len(w.Parts) > 0 {
		if l, ok := w.Parts[0].(*syntax.Lit); ok && !strings.HasPrefix(l.Value, "~") {
			if i := strings.IndexAny(l.Value, `{\*?[`); i > 0 {
				return l.Value[:i] + unknownText
			}
		}
	}
	return unknownText
}

// shapes are the spellings of the paths that a word of this shape may become in
// the directory dir, "" where that is not known.
func (z *analyzer) shapes(shape, dir string) []policy.Shape {
	if i := strings.Index(shape, policy.AnyText); i >= 0 && (strings.Contains(shape[i:], "/../") || strings.HasSuffix(shape, "/..")) {
		return []policy.Shape{{Text: policy.AnyText}}
	}
	out := make([]policy.Shape, 0, 4)
	put := func(s string, some bool) {
		for _, have := range out {
			if have.Text == s {
				return
			}
		}
		out = append(out, policy.Shape{Text: s, Some: some})
	}
	full := shape
	switch {
	case strings.HasPrefix(shape, "/"):
		full = path.Clean(shape)
	case strings.HasPrefix(shape, policy.AnyText):
	case dir == "":
		full = "/" + policy.AnyText + "/" + path.Clean(shape)
	default:
		full = path.Clean(dir + "/" + shape)
	}
	put(full, false)
	put(shape, false)
	// ".*" is also the folder above where it stands, as some shells read it.
	for i := range full {
		if full[i] != '/' || !strings.HasPrefix(full[i:], "/.") {
			continue
		}
		name, rest, more := strings.Cut(full[i+1:], "/")
		if name != ".." && maybeDot(name[1:]) && name != "." && name != full[i+1:] {
			put(path.Clean(full[:i]+"/../"+rest), true)
		} else if !more && name == "."+policy.AnyName {
			put(path.Clean(full[:i]+"/.."), true)
		}
	}
	if !strings.HasSuffix(full, policy.AnyText) && full != "/" {
		put(full+"/", true) // a folder is named with what lies in it
	}
	for _, s := range out[:len(out):len(out)] {
		if d := z.o.Dir; d != "" {
			if rest, ok := s.AnyBelow(d); ok {
				put(rest, true)
				put("./"+rest, true)
			}
		}
	}
	return out
}

// maybeDot reports whether what follows the first dot of a shape's element may be
// one more dot and nothing else: it holds dots and what is not known.
func maybeDot(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != '.' && c != policy.AnyOne[0] && c != policy.AnyName[0] && c != policy.AnyText[0] {
			return false
		}
	}
	return true
}

// unseen reports whether of a word nothing is known that could be compared: then
// rules about paths are asked about it as it is written. It is so for the folder
// of a cd, and for variables that the text itself does not set.
func (z *analyzer) unseen(w word, source string) bool {
	if !strings.HasPrefix(w.shapeOf(), policy.AnyText) {
		return false
	}
	if source == "cd" || z.knownValues(w) {
		return true
	}
	for _, name := range w.vars {
		if name != "" && z.vars[name] != nil && !z.numeric(name) {
			return false
		}
	}
	return len(w.vars) > 0
}

// piece is the word that stands in another word behind an option or a sign; glob
// is its part of [word.asGlob].
func (z *analyzer) piece(whole word, glob string) word {
	if strings.HasPrefix(glob, "~") {
		name, rest, _ := strings.Cut(glob, "/")
		if rest != "" || strings.HasSuffix(glob, "/") {
			rest = "/" + rest
		}
		if home := z.home(); name == "~" && home != "" {
			glob = escapeGlob(home) + rest
		} else {
			glob = "/" + unknownText + rest
		}
	}
	w := word{val: unescapeGlob(glob), lit: !strings.Contains(glob, unknownText), pat: glob, vars: whole.vars}
	w.glob = w.lit && globShape(glob) != w.val
	w.typed, w.prefix = w.val, w.val
	if !w.lit {
		w.typed, w.val = whole.typed, ""
		w.prefix, _, _ = strings.Cut(unescapeGlob(glob), unknownText)
	}
	w.norm = quote(w.typed)
	return w
}

func unescapeGlob(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// asGlob is the word as a glob, what is known of it escaped.
func (w word) asGlob() string {
	switch {
	case w.pat != "":
		return w.pat
	case w.known():
		return escapeGlob(w.val)
	case w.glob:
		return w.val
	}
	return escapeGlob(w.prefix) + unknownText
}

// scripted are programs in whose operands signs between slashes mean no path.
var scripted = fieldSet(`sed gsed awk gawk mawk nawk perl grep egrep fgrep zgrep rg ag ack sd jq yq tr`)

// attached records the paths that stand in one word with something else: behind
// "=" or "@" they are paths; behind another sign, or the letters of an option,
// they may be.
func (z *analyzer) attached(w word, mode int, name string, e env) {
	g := w.asGlob()
	if !strings.ContainsAny(g, "/~") || strings.Contains(g, "://") || scripted[name] {
		return
	}
	option := strings.HasPrefix(g, "-")
	from := 0
	for i := 0; i <= len(g); i++ {
		if i < len(g) && strings.IndexByte("=@:,", g[i]) < 0 {
			continue
		}
		part := g[from:i]
		certain := from > 0 && (g[from-1] == '=' || g[from-1] == '@')
		whole := from == 0 && i == len(g)
		key, _, _ := strings.Cut(g[:from], "=")
		from = i + 1
		switch {
		case startsPath(part) && !whole:
			z.attachedPath(z.piece(w, part), certain, mode, key, name, e)
		case option && len(key) == 0 && !strings.HasPrefix(part, "--") && len(part) > 2:
			// -I/x, -Idir/x, and several letters before the path.
			if strings.Contains(part[2:], "/") {
				z.attachedPath(z.piece(w, part[2:]), startsPath(part[2:]), mode, part[:2], name, e)
			}
			if at := strings.IndexByte(part, '/'); at > 2 && strings.Trim(part[1:at], letters) == "" {
				z.attachedPath(z.piece(w, part[at:]), false, mode, part[:at], name, e)
			}
		}
	}
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func startsPath(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

func (z *analyzer) attachedPath(w word, certain bool, mode int, key, name string, e env) {
	z.perhaps = !certain
	z.direction(w, mode, key, name, e)
	z.perhaps = false
}
