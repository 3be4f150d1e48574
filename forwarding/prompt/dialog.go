package prompt

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// Budget bounds a rendering. Zero values take the defaults; Complete has none.
type Budget struct {
	// Rows is how many lines there are, 24 by default. The core of an ask is
	// shown whatever this says.
	Rows int
	// FieldWidth is how many characters of one field are shown, 400 by default.
	FieldWidth int
	// Width is the width of the terminal in cells; 0 does not wrap.
	Width int
	// Complete shows everything, wrapped to Width.
	Complete bool
}

// The defaults of Budget.
const (
	DefaultRows       = 24
	DefaultFieldWidth = 400
)

// Ellipsis marks what was left out. It has no count.
const Ellipsis = "…"

// Span is a run of text on one line. Text is safe to print as it is.
type Span struct {
	Text string
	// Flagged is the element that the ask is about.
	Flagged bool
	// Escaped is text that stands for a character that is not shown.
	Escaped bool
	// Cut is the mark of something left out.
	Cut bool
}

// Fact is one labelled part of a dialog. Its lines are at most as wide as the
// budget left for them beside the label.
type Fact struct {
	Label string
	Lines [][]Span
	// Core is what no rendering leaves out.
	Core bool
	// Model marks text that a model wrote.
	Model bool
}

// Dialog is what a person is shown.
type Dialog struct {
	Facts []Fact
	// LabelWidth is the width of the label column.
	LabelWidth int
	// Elided says that something was left out, so that the complete view is
	// worth offering.
	Elided bool
}

// Render lays an ask out for a person: first the core, which is always whole in
// its facts, then as much evidence as fits, each entry whole or not at all.
func Render(p Payload, b Budget) Dialog {
	if b.Rows <= 0 {
		b.Rows = DefaultRows
	}
	if b.FieldWidth <= 0 {
		b.FieldWidth = DefaultFieldWidth
	}
	r := renderer{budget: b, flagged: flaggedElements(p)}
	core := coreFacts(p)
	extra := evidenceFacts(p)
	for _, f := range append(append([]rawFact(nil), core...), extra...) {
		r.labels = max(r.labels, runewidth.StringWidth(shortLabel(f.label)))
	}
	var d Dialog
	d.LabelWidth = r.labels
	rows := 0
	for _, f := range core {
		fact := r.fact(f)
		rows += len(fact.Lines)
		d.Facts = append(d.Facts, fact)
	}
	// One row is kept for the mark that says that there is more.
	for i, f := range extra {
		fact := r.fact(f)
		reserve := 1
		if i == len(extra)-1 {
			reserve = 0
		}
		if !b.Complete && rows+len(fact.Lines)+reserve > b.Rows {
			d.Facts = append(d.Facts, Fact{Label: Ellipsis, Lines: [][]Span{{}}})
			r.cut = true
			break
		}
		rows += len(fact.Lines)
		d.Facts = append(d.Facts, fact)
	}
	d.Elided = r.cut
	return d
}

// rawFact is a fact before it is cut, wrapped and made visible.
type rawFact struct {
	label string
	texts []string
	core  bool
	model bool
	mark  bool // look for the flagged element
}

// valueLabel is how the value of an ask is called.
func valueLabel(k wire.Kind) string {
	switch k {
	case wire.KindBash, wire.KindBashExternalDirectory:
		return "command"
	case wire.KindMCP:
		return "target"
	case wire.KindTool:
		return "tool"
	case wire.KindPath, wire.KindExternalDirectory:
		return "path"
	case wire.KindSkill, wire.KindSkillRead:
		return "skill"
	}
	return "value"
}

func coreFacts(p Payload) []rawFact {
	c := p.Core
	var out []rawFact
	add := func(label string, texts ...string) {
		out = append(out, rawFact{label: label, texts: texts, core: true})
	}
	name := wire.Text(c.Requester.AgentName)
	if c.Requester.Forwarded {
		if name == "" {
			name = "unknown"
		}
		if id := wire.Text(c.Requester.SessionID); id != "" {
			name += " · session " + id
		}
		add("subagent", name)
	} else if name != "" {
		add("agent", name)
	}
	tool := wire.Text(c.ToolName)
	if tool != "" {
		text := tool
		if as := wire.Text(c.InvokedToolName); as != "" {
			text += " (invoked as " + as + ")"
		}
		add("tool", text)
	}
	label := valueLabel(p.Kind)
	if c.Surface != tool && c.Surface != label {
		add("surface", c.Surface)
	}
	if m := wire.Text(c.MatchedPattern); m != "" {
		add("rule", m)
	}
	if c.Value != "" && c.Value != tool {
		out = append(out, rawFact{label: label, texts: []string{c.Value}, core: true, mark: true})
	}
	if e := wire.Text(c.ExecutedUnit); e != "" {
		add("runs", e)
	}
	if x := wire.Text(c.CommandContext); x != "" {
		add("context", strings.ReplaceAll(x, "_", " "))
	}
	return out
}

func evidenceFacts(p Payload) []rawFact {
	var out []rawFact
	for _, e := range p.Evidence {
		f := rawFact{label: e.Label, texts: []string{e.Text}, mark: true}
		if e.Detail != nil {
			f.texts = append(f.texts, "→ "+*e.Detail)
		}
		out = append(out, f)
	}
	for _, a := range p.Annotations {
		out = append(out, rawFact{label: "note", texts: []string{"[" + a.Source + ", written by a model] " + a.Text}, model: true})
	}
	return out
}

// flaggedElements are what the ask is about, to be marked in longer text.
func flaggedElements(p Payload) []string {
	if p.Kind != wire.KindBashExternalDirectory {
		return []string{p.Core.Value}
	}
	var out []string
	for _, e := range p.Evidence {
		if e.Label == LabelExternal {
			out = append(out, e.Text)
		}
	}
	return out
}

type renderer struct {
	budget  Budget
	flagged []string
	labels  int
	cut     bool
}

// fact cuts a field to its width, splits it at its newlines, makes it visible
// and wraps it.
func (r *renderer) fact(f rawFact) Fact {
	out := Fact{Label: shortLabel(f.label), Core: f.core, Model: f.model}
	for _, text := range f.texts {
		text, cut := clip(text, r.budget.FieldWidth, r.budget.Complete)
		r.cut = r.cut || cut
		marks := make([]bool, len(text)+1)
		if f.mark {
			for _, want := range r.flagged {
				markTokens(text, want, marks)
			}
		}
		offset := 0
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			spans := spansOf(line, marks[offset:])
			if cut && i == len(lines)-1 {
				spans = append(spans, Span{Text: Ellipsis, Cut: true})
			}
			out.Lines = append(out.Lines, r.wrap(spans)...)
			offset += len(line) + 1
		}
	}
	// A field of nothing but newlines must not push the rest off the screen.
	if most := max(4, r.budget.Rows/2); !r.budget.Complete && len(out.Lines) > most {
		out.Lines = append(out.Lines[:most-1:most-1], []Span{{Text: Ellipsis, Cut: true}})
		r.cut = true
	}
	return out
}

// maxLabel bounds a label, in cells: a peer writes those of its evidence.
const maxLabel = 24

func shortLabel(s string) string {
	s, _ = clip(s, maxLabel, false)
	return runewidth.Truncate(Visible(s), maxLabel, Ellipsis)
}

// clip cuts text to a number of characters, at a boundary of one.
func clip(text string, width int, complete bool) (string, bool) {
	if complete {
		return text, false
	}
	n := 0
	for i := range text {
		if n == width {
			return text[:i], true
		}
		n++
	}
	return text, false
}

// tokenByte reports whether c belongs to a word or a path.
func tokenByte(c byte) bool {
	return c == '_' || c == '/' || c == '.' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// markTokens marks the whole-token occurrences of want in text.
func markTokens(text, want string, marks []bool) {
	if want == "" {
		return
	}
	for from := 0; ; {
		i := strings.Index(text[from:], want)
		if i < 0 {
			return
		}
		start, end := from+i, from+i+len(want)
		if (start == 0 || !tokenByte(text[start-1]) || !tokenByte(want[0])) &&
			(end == len(text) || !tokenByte(text[end]) || !tokenByte(want[len(want)-1])) {
			for j := start; j < end; j++ {
				marks[j] = true
			}
			from = end
			continue
		}
		from = start + 1
	}
}

// spansOf makes one line visible and cuts it where marking changes.
func spansOf(line string, marks []bool) []Span {
	var out []Span
	for start := 0; start < len(line); {
		end := start + 1
		for end < len(line) && marks[end] == marks[start] {
			end++
		}
		for _, p := range pieces(line[start:end]) {
			out = append(out, Span{Text: p.text, Flagged: marks[start], Escaped: p.escaped})
		}
		start = end
	}
	return out
}

// wrap breaks spans to the width that is left beside the labels.
func (r *renderer) wrap(spans []Span) [][]Span {
	width := r.budget.Width - r.labels - len(" : ")
	if r.budget.Width <= 0 {
		return [][]Span{spans}
	}
	width = max(width, 8)
	var lines [][]Span
	var line []Span
	used := 0
	for _, s := range spans {
		var run strings.Builder
		flush := func() {
			if run.Len() > 0 {
				part := s
				part.Text = run.String()
				line = append(line, part)
				run.Reset()
			}
		}
		for _, c := range s.Text {
			w := runewidth.RuneWidth(c)
			if used+w > width {
				flush()
				lines = append(lines, line)
				line, used = nil, 0
			}
			run.WriteRune(c)
			used += w
		}
		flush()
	}
	return append(lines, line)
}

// Plain is the dialog as text without colour, one fact a line, continuation
// lines under the column.
func Plain(p Payload, b Budget) string { return Render(p, b).String() }

// String lays the dialog out in columns.
func (d Dialog) String() string {
	var b strings.Builder
	for _, f := range d.Facts {
		label := f.Label + strings.Repeat(" ", max(0, d.LabelWidth-runewidth.StringWidth(f.Label)))
		for i, line := range f.Lines {
			if i > 0 {
				label = strings.Repeat(" ", d.LabelWidth)
			}
			b.WriteString(label)
			if f.Label != Ellipsis {
				if i == 0 {
					b.WriteString(" : ")
				} else {
					b.WriteString("   ")
				}
			}
			for _, s := range line {
				b.WriteString(s.Text)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// JSON is the complete payload for a program. What it shows is the program's
// own affair: nothing is escaped beyond JSON.
func JSON(p Payload) ([]byte, error) { return p.Encode() }
