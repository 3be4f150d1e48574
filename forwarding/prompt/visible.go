package prompt

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks in a row are shown as marks. More than
// that is used to paint over the neighbouring lines.
const maxMarks = 4

// Visible returns s with everything that a terminal would obey, or that a
// person would not see, written out: control characters, escapes and the bytes
// of invalid UTF-8 as \x1b; line and paragraph separators, direction overrides,
// zero-width and blank-looking characters as \u202e. Letters, marks, numbers,
// punctuation, symbols and the plain space stay. The result is one line, is
// valid UTF-8, and Visible of it is itself.
func Visible(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for _, p := range pieces(s) {
		b.WriteString(p.text)
	}
	return b.String()
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// piece is a run of text that is either as it came or written out.
type piece struct {
	text    string
	escaped bool
}

// pieces cuts s into runs.
func pieces(s string) []piece {
	var out []piece
	var run strings.Builder
	running := false
	flush := func() {
		if run.Len() > 0 {
			out = append(out, piece{run.String(), running})
			run.Reset()
		}
	}
	add := func(text string, escaped bool) {
		if escaped != running {
			flush()
			running = escaped
		}
		run.WriteString(text)
	}
	marks := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.In(r, unicode.Mn, unicode.Me) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && n == 1:
			add(fmt.Sprintf(`\x%02x`, s[i]), true)
		case hidden(r) || marks > maxMarks:
			add(spell(r), true)
		default:
			add(s[i:i+n], false)
		}
		i += n
	}
	flush()
	return out
}

// spell writes a character out.
func spell(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	switch {
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// blank are characters that count as letters, marks or symbols and show as
// nothing, or as a plain space.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, // soft hyphen
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // grapheme joiner
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, // Arabic letter mark
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x200b, Hi: 0x200f, Stride: 1}, // zero width, direction marks
		{Lo: 0x2028, Hi: 0x202e, Stride: 1}, // separators, embeddings, overrides
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, // joiners, isolates
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // empty braille
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // half-width Hangul filler
		{Lo: 0xfff0, Hi: 0xfffb, Stride: 1}, // annotation anchors
	},
	R32: []unicode.Range32{
		{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1}, // shorthand controls
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, // musical controls
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, more selectors
	},
}

// hidden reports whether r must be written out. IsPrint already excludes
// controls, format characters, private use, surrogates and every space but the
// plain one.
func hidden(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(blank, r) }
