package terminal

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// blankRun is the longest run of blanks, or of line ends, that is drawn as it
// is; a longer one is counted, since it can push what follows out of sight.
const blankRun = 8

// maxMarks is how many combining marks one character may carry before the rest
// are spelled out: a stack of them draws over the lines above.
const maxMarks = 2

// widths measures on the safe side: what some terminals draw in two columns
// counts two, so that a row never runs over the edge.
var widths = &runewidth.Condition{EastAsianWidth: true, StrictEmojiNeutral: false}

// Visible returns text from a child as one line that a terminal draws and does
// not obey. Control characters, escapes, direction marks, invisible and
// look-alike blank characters and invalid bytes are spelled out (\x1b,
// <U+202E>), and a long run of blanks is counted.
func Visible(s string) string {
	out, _ := reveal(s, revealing{})
	return out
}

// revealing says how text is made visible.
type revealing struct {
	// lines keeps a line end as a break, after its \n.
	lines bool
	// ascii spells out everything that is not ASCII, for terminals and locales
	// without UTF-8.
	ascii bool
}

// hidden counts what reveal had to spell out, so that a person is told even if
// a spelled-out character could be mistaken for text that was typed so.
type hidden struct {
	control   int // ESC and other control characters, but tab and line end
	direction int // bidirectional controls, and letters that run right to left
	invisible int // zero width, tags, fillers, blanks that are no space
	invalid   int // bytes that are not UTF-8
	blanks    int // blanks and line ends that were counted instead of drawn
	foreign   map[rune]int
}

func (h *hidden) add(o hidden) {
	h.control += o.control
	h.direction += o.direction
	h.invisible += o.invisible
	h.invalid += o.invalid
	h.blanks += o.blanks
	for r, n := range o.foreign {
		if h.foreign == nil {
			h.foreign = map[rune]int{}
		}
		h.foreign[r] += n
	}
}

// warnings says in whole sentences what was found. ascii is revealing.ascii.
func (h hidden) warnings(ascii bool) []string {
	var parts []string
	count := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	count(h.control, "control character", "control characters")
	count(h.direction, "character that changes direction", "characters that change direction")
	count(h.invisible, "invisible character", "invisible characters")
	count(h.invalid, "byte that is no text", "bytes that are no text")
	count(h.blanks, "blank in a long run", "blanks in long runs")
	var out []string
	if len(parts) > 0 {
		out = append(out, "hidden in the text, spelled out here: "+strings.Join(parts, ", "))
	}
	if len(h.foreign) > 0 && !ascii { // else it is spelled out already
		runes := make([]rune, 0, len(h.foreign))
		for r := range h.foreign {
			runes = append(runes, r)
		}
		sort.Slice(runes, func(i, j int) bool { return runes[i] < runes[j] })
		const most = 6
		var names []string
		for i, r := range runes {
			if i == most {
				names = append(names, fmt.Sprintf("and %d more", len(runes)-most))
				break
			}
			names = append(names, fmt.Sprintf("%c is U+%04X", r, r))
		}
		out = append(out, "not ASCII, may look like other letters: "+strings.Join(names, ", "))
	}
	return out
}

// reveal makes text visible. It works in one pass over the input and its
// result is at most about ten times as long.
func reveal(s string, how revealing) (string, hidden) {
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	var found hidden
	marks := maxMarks // a mark without a base before it is spelled out
	for i := 0; i < len(s); {
		if n := runOf(s[i:], " \t"); n > blankRun {
			fmt.Fprintf(&b, "<%d blanks>", n)
			found.blanks += n
			i, marks = i+n, maxMarks
			continue
		}
		if n := runOf(s[i:], "\n"); n > blankRun {
			fmt.Fprintf(&b, "<%d line ends>", n)
			if how.lines && i+n < len(s) {
				b.WriteByte('\n')
			}
			found.blanks += n
			i, marks = i+n, maxMarks
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size <= 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
			found.invalid++
			i, marks = i+1, maxMarks
			continue
		}
		i += size
		switch {
		case r == '\n':
			b.WriteString(`\n`)
			if how.lines && i < len(s) {
				b.WriteByte('\n')
			}
			marks = maxMarks
		case r == '\t':
			b.WriteString(`\t`)
			marks = maxMarks
		case r == '\r':
			b.WriteString(`\r`)
			found.control++
			marks = maxMarks
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
			found.control++
			marks = maxMarks
		case r < 0x7f:
			b.WriteByte(byte(r))
			marks = 0
		case r < 0xa0:
			fmt.Fprintf(&b, "<U+%04X>", r)
			found.control++
			marks = maxMarks
		case turns(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
			found.direction++
			marks = maxMarks
		case unicode.Is(unicode.M, r) && !ignorable(r):
			if marks < maxMarks && !how.ascii {
				b.WriteRune(r)
				found.note(r)
			} else {
				fmt.Fprintf(&b, "<U+%04X>", r)
				found.invisible++
			}
			marks++
		case ignorable(r) || !unicode.IsPrint(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
			found.invisible++
			marks = maxMarks
		case how.ascii:
			fmt.Fprintf(&b, "<U+%04X>", r)
			found.note(r)
			marks = maxMarks
		default:
			b.WriteRune(r)
			found.note(r)
			marks = 0
		}
	}
	return b.String(), found
}

// note remembers a character that is drawn but is not ASCII. The number of
// different ones is bounded, their count is not needed exactly.
func (h *hidden) note(r rune) {
	if h.foreign == nil {
		h.foreign = map[rune]int{}
	}
	if len(h.foreign) < 4096 {
		h.foreign[r]++
	}
}

// runOf returns how many bytes at the start of s are in set (ASCII).
func runOf(s, set string) int {
	n := 0
	for n < len(s) && strings.IndexByte(set, s[n]) >= 0 {
		n++
	}
	return n
}

// turns reports characters that change the order in which a line is drawn:
// the explicit controls, and letters of scripts that run from right to left,
// because terminals that reorder lines do so for these without any control.
func turns(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200e, r == 0x200f,
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x206f:
		return true
	case r >= 0x0590 && r <= 0x08ff, r >= 0xfb1d && r <= 0xfdff, r >= 0xfe70 && r <= 0xfefe,
		r >= 0x10800 && r <= 0x10fff, r >= 0x1e800 && r <= 0x1efff:
		return true
	}
	return false
}

// ignorable reports characters that are letters, marks or symbols by category
// and still draw nothing (Unicode's Default_Ignorable_Code_Point, and the blank
// Braille pattern).
func ignorable(r rune) bool {
	switch {
	case r == 0x00ad, r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5,
		r >= 0x180b && r <= 0x180f, r == 0x2800, r == 0x3164, r == 0xffa0,
		r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// width is the number of columns of one character, on the safe side.
func width(r rune) int {
	if r >= 0x20 && r < 0x7f {
		return 1
	}
	return widths.RuneWidth(r)
}

// columns is the number of columns of visible text.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += width(r)
	}
	return n
}

// cut shortens visible text to at most max columns. What is cut is counted in
// the mark, so that an end typed by a child cannot pass for it.
func cut(s string, max int) (string, bool) {
	if columns(s) <= max {
		return s, false
	}
	total := utf8.RuneCountInString(s)
	for keep := max; keep > 0; keep-- {
		head, n := prefix(s, keep)
		mark := fmt.Sprintf("[+%d]", total-n)
		if columns(head)+len(mark) <= max {
			return head + mark, true
		}
	}
	head, _ := prefix(s, max)
	return head, true
}

// prefix returns the longest start of s with at most max columns, and its
// number of characters.
func prefix(s string, max int) (string, int) {
	used, n := 0, 0
	for i, r := range s {
		w := width(r)
		if used+w > max {
			return s[:i], n
		}
		used += w
		n++
	}
	return s, n
}

// wrap breaks visible text into rows of at most max columns. Nothing is lost:
// the rows joined are the text without its line breaks. It breaks behind a
// blank where one is near the edge.
func wrap(s string, max int) []string {
	if max < 2 {
		max = 2
	}
	var rows []string
	for _, line := range strings.Split(s, "\n") {
		for {
			head, _ := prefix(line, max)
			if len(head) == len(line) {
				rows = append(rows, line)
				break
			}
			if head == "" { // one character wider than the row: take it anyway
				_, size := utf8.DecodeRuneInString(line)
				head = line[:size]
			}
			if at := strings.LastIndexByte(head, ' '); at >= len(head)*2/3 && at+1 < len(head) {
				head = head[:at+1]
			}
			// A spelled-out character stays in one piece.
			if at := strings.LastIndexByte(head, '<'); at > 0 && len(head)-at < len("<U+10FFFF>") &&
				strings.HasPrefix(line[at:], "<U+") && strings.IndexByte(head[at:], '>') < 0 {
				head = head[:at]
			}
			rows = append(rows, head)
			line = line[len(head):]
		}
	}
	return rows
}
