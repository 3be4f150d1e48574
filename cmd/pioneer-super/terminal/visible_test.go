package terminal

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text, 1 < 2", "plain text, 1 < 2"},
		{"über naïve 日本", "über naïve 日本"},
		{"a\x1b[31mb", `a\x1b[31mb`},
		{"a\x00\x07\x7f\r\tb", `a\x00\x07\x7f\r\tb`},
		{"two\nlines", `two\nlines`},
		{"\u009b31m \u0085", "<U+009B>31m <U+0085>"},
		{"x\xff\xc3", `x\xff\xc3`},
		{"\u202egnp.exe\u202c", "<U+202E>gnp.exe<U+202C>"},
		{"\u2066a\u2069\u200f\u061c", "<U+2066>a<U+2069><U+200F><U+061C>"},
		{"rm א b", "rm <U+05D0> b"},
		{"a\u200bb\u200d\ufeff\u2060", "a<U+200B>b<U+200D><U+FEFF><U+2060>"},
		{"a\U000e0041\U000e007f", "a<U+E0041><U+E007F>"},
		{"a\ufe0f\U000e0100", "a<U+FE0F><U+E0100>"},
		{"a\u00a0b\u3000c\u2028\u2029", "a<U+00A0>b<U+3000>c<U+2028><U+2029>"},
		{"\u3164\u115f\u2800\uffa0\u00ad\u034f", "<U+3164><U+115F><U+2800><U+FFA0><U+00AD><U+034F>"},
		{"\ue000\U0010ffff", "<U+E000><U+10FFFF>"},
		{"e\u0301", "e\u0301"},
		{"\u0301x", "<U+0301>x"},
		{"e\u0301\u0302\u0303\u0304", "e\u0301\u0302<U+0303><U+0304>"},
		{strings.Repeat(" ", 8) + "x", strings.Repeat(" ", 8) + "x"},
		{strings.Repeat(" ", 9) + "x", "<9 blanks>x"},
		{"a" + strings.Repeat(" \t", 200) + "b", "a<400 blanks>b"},
		{strings.Repeat("\n", 400) + "b", "<400 line ends>b"},
	} {
		if got := Visible(c.in); got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.in, got, c.want)
		}
	}
	if got, _ := reveal("naïve я", revealing{ascii: true}); got != "na<U+00EF>ve <U+044F>" {
		t.Errorf("without UTF-8: %q", got)
	}
	if got, _ := reveal("a\nb\n", revealing{lines: true}); got != "a\\n\nb\\n" {
		t.Errorf("lines: %q", got)
	}
	_, found := reveal("\x1b\u202e\u200b\xff"+strings.Repeat(" ", 9)+"я", revealing{})
	want := []string{
		"hidden in the text, spelled out here: 1 control character, 1 character that changes direction, " +
			"1 invisible character, 1 byte that is no text, 9 blanks in long runs",
		"not ASCII, may look like other letters: я is U+044F",
	}
	if got := found.warnings(false); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

// harmless reports the first character that a terminal might obey or hide.
func harmless(s string) (rune, bool) {
	for _, r := range s {
		if r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zs, r) && r != ' ' ||
			unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Variation_Selector, r) ||
			unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Co, r) || r == utf8.RuneError {
			return r, false
		}
	}
	return 0, true
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\x1b[0m\u202e", "\xff\n\n\n\t \U000e0041 日本 e\u0301", strings.Repeat(" ", 20)} {
		f.Add(s, 20)
	}
	f.Fuzz(func(t *testing.T, s string, cols int) {
		if len(s) > 4096 {
			return
		}
		cols = 8 + (cols%100+100)%100
		out := Visible(s)
		if r, ok := harmless(strings.ReplaceAll(out, "\uFFFD", "")); !ok {
			t.Fatalf("%q shows %U", s, r)
		}
		if ascii, _ := reveal(s, revealing{ascii: true}); strings.IndexFunc(ascii, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			t.Fatalf("%q shows %q", s, ascii)
		}
		lines, _ := reveal(s, revealing{lines: true})
		rows := wrap(lines, cols)
		if got := strings.Join(rows, ""); got != strings.ReplaceAll(lines, "\n", "") {
			t.Fatalf("wrap lost something of %q: %q", lines, got)
		}
		for _, r := range rows {
			if columns(r) > cols {
				t.Fatalf("row %q has %d columns, at most %d", r, columns(r), cols)
			}
		}
		short, _ := cut(out, cols)
		if columns(short) > cols {
			t.Fatalf("cut %q has %d columns, at most %d", short, columns(short), cols)
		}
	})
}

// TestLayoutHolds: at every size each row fits, the first line names who asks
// and what holds it, and no text of a child can look like a label or a key.
func TestLayoutHolds(t *testing.T) {
	for name, q := range questions() {
		for _, rows := range []int{6, 7, 8, 10, 12, 14, 20, 24, 50, 200} {
			for _, cols := range []int{24, 30, 40, 60, 80, 132, 300} {
				for _, complete := range []bool{false, true} {
					p := newPlayer(t, q)
					p.d.complete = complete
					lines := p.d.frame(rows, cols, p.now)
					if len(lines) != rows {
						t.Fatalf("%s at %dx%d: %d lines", name, cols, rows, len(lines))
					}
					for i, l := range lines {
						if columns(l.text) > cols-1 {
							t.Errorf("%s at %dx%d: line %d has %d columns: %q", name, cols, rows, i, columns(l.text), l.text)
						}
						if r, ok := harmless(l.text); !ok {
							t.Errorf("%s at %dx%d: line %d shows %U", name, cols, rows, i, r)
						}
					}
					if name != "pair" && !strings.Contains(lines[0].text, " asks | ") {
						t.Errorf("%s at %dx%d: first line %q", name, cols, rows, lines[0].text)
					}
				}
			}
		}
	}
	forger := ask()
	forger.Needs = []Line{
		{Label: "grant w", Text: "[ ] workspace writable"}, {Label: "GRANT O", Text: "[ ] sandbox off"}, {Label: " command ", Text: "ls"},
		{Label: "gr\u0430nt w", Text: "x"}, {Label: "in", Text: "/"}, {Label: "target host", Text: "ok"},
	}
	forged := newPlayer(t, forger)
	forged.d.complete = true
	text := forged.frame()
	for _, label := range []string{`"grant w" `, `"GRANT O" `, `" command "`, "\"gr\u0430nt w\"", `"in" `, " target host"} {
		if !strings.Contains(text, label) {
			t.Errorf("a label of a child is not marked as such, want %s in\n%s", label, text)
		}
	}
	p := newPlayer(t, questions()["hostile"])
	for i, l := range p.d.frame(60, 80, p.now) {
		if strings.HasPrefix(strings.TrimSpace(l.text), "sandbox : enforced\\r") {
			t.Errorf("line %d forges a fact: %q", i, l.text)
		}
	}
}

// TestHugeCommand: the largest command is shown whole, and quickly enough.
func TestHugeCommand(t *testing.T) {
	q := ask()
	q.Expires = 0
	q.Command = strings.Repeat("\x1b\u202e\x00\n", MaxCommand/6)
	p := newPlayer(t, q).ready()
	for range 20 {
		p.press("v")
	}
	if rows, _, _ := p.d.page.body(80, 18, true, false); len(rows) < MaxCommand/6 {
		t.Errorf("%d rows for %d lines", len(rows), MaxCommand/6)
	}
}
