package terminal

import (
	"fmt"
	"strings"
	"time"
)

// Sizes of a terminal that are believed, in rows and columns.
const maxSize = 1000

// The smallest screen on which a question is shown at all.
const (
	minRows = 6
	minCols = 24
)

// shortRows bounds the body of the short view, shortField the characters of
// one field in it (but the command's).
const (
	shortRows  = 24
	shortField = 400
)

type style uint8

const (
	plain style = iota
	strong
	alarm
)

// row is one line of the screen: visible text, never wider than the screen.
type row struct {
	text  string
	style style
	// fact is the fact whose end this row is, or 0: when the row has been on
	// the screen, that fact has been seen.
	fact int
	// grant is the key of the toggle whose first row this is, or 0.
	grant rune
}

// field is one fact, before it is laid out.
type field struct {
	label string
	text  string // visible, may have several lines
	style style
	// rank orders the fields for the short view: low ranks first. rankAlways
	// is in every view.
	rank int
	// must: the fact has to be seen before anything is allowed.
	must bool
	// full: only in the complete view.
	full bool
	// whole: never shortened to shortField characters.
	whole bool
	// command: the one fact that the short view may cut.
	command bool
	// grant is the key of the toggle that this is, or 0.
	grant rune
	// hide: in no view now. It keeps its place, so that the numbers of the
	// facts stay the same while the screen changes.
	hide bool
}

const (
	rankAlways = iota
	rankHigh
	rankMiddle
	rankLow
	rankLast
)

// page lays out one question.
type page struct {
	q       *Question
	toggles map[rune]bool
	ascii   bool

	// The last layouts: a command of a megabyte is not laid out at every key.
	laid map[string]laidOut
}

type laidOut struct {
	rows   []row
	must   map[int]bool
	elided bool
}

// fact is the number of a toggle's fact, or 0.
func (p *page) fact(key rune) int {
	for i, f := range p.fields(false) {
		if f.grant == key {
			return i + 1
		}
	}
	return 0
}

func (p *page) how(lines bool) revealing { return revealing{lines: lines, ascii: p.ascii} }

func (p *page) line(s string) string {
	out, _ := reveal(s, p.how(false))
	return out
}

// unprotected reports whether a grant that ends the protection is on.
func (p *page) unprotected() bool {
	for _, t := range p.q.Offer {
		if t.OtherKey && p.toggles[t.Key] {
			return true
		}
	}
	return false
}

func (p *page) strength() string {
	switch {
	case p.unprotected():
		return "OFF for this"
	case p.q.Strength == "":
		return "unknown"
	}
	return p.line(p.q.Strength)
}

// name quotes a name that an agent gave itself, so that its borders are seen.
func (p *page) name(s string) string {
	return `"` + strings.ReplaceAll(p.line(s), `"`, `\"`) + `"`
}

func (p *page) who() string {
	if p.q.Agent != "" {
		return p.name(p.q.Agent)
	}
	if p.q.Session != "" {
		return "session " + p.line(p.q.Session)
	}
	return "somebody unnamed"
}

// header is the first line: who asks, and what holds it. The second result
// says that the strength did not fit.
func (p *page) header(cols int) (row, bool) {
	verb := " asks"
	if p.q.Code != "" {
		verb = " wants to pair"
	}
	right := " | sandbox: "
	if cols < 60 {
		right = " | "
	}
	room := cols - 1
	strength, short := cut(p.strength(), max(10, room*3/5-len(right)))
	who, _ := cut(p.who(), max(6, room-columns(strength)-len(right)-len(verb)))
	s := strong
	if p.unprotected() || strings.HasPrefix(p.q.Strength, "advisory") || p.q.Strength == "" {
		s = alarm
	}
	text, _ := cut(who+verb+right+strength, room)
	return row{text: text, style: s}, short
}

// fields are the facts in the order in which they are shown.
func (p *page) fields(strengthCut bool) []field {
	q := p.q
	var out []field
	var found hidden
	add := func(f field) {
		if f.text != "" {
			out = append(out, f)
		}
	}
	exact := func(s string, lines bool) string {
		text, h := reveal(s, p.how(lines))
		found.add(h)
		return text
	}

	command := exact(q.Command, true)
	arguments := make([]string, len(q.Argv))
	for i, a := range q.Argv {
		arguments[i] = exact(a, true)
	}
	if command == "" && len(arguments) > 0 {
		quoted := make([]string, len(q.Argv))
		for i, a := range q.Argv {
			quoted[i] = quote(a)
		}
		command = exact(strings.Join(quoted, " "), true)
	}
	executed := exact(q.Executed, false)
	directory := exact(q.Directory, false)
	pattern := exact(q.TurnPattern, false)
	wider, always := exact(q.GrantPattern, false), exact(q.Always, false)
	environment := make([]string, len(q.Environment))
	for i, e := range q.Environment {
		environment[i] = exact(e, false)
	}

	for _, w := range q.Warnings {
		add(field{label: "warning", text: p.line(w), style: alarm, must: true})
	}
	for _, w := range found.warnings(p.ascii) {
		add(field{label: "warning", text: p.line(w), style: alarm, must: true})
	}
	out = append(out, field{label: "sandbox", text: p.strength(), must: strengthCut, whole: true, hide: !strengthCut})
	var chain []string
	for _, c := range q.Chain {
		chain = append(chain, p.name(c))
	}
	add(field{label: "chain", text: strings.Join(chain, " > "), rank: rankMiddle})
	add(field{label: "session", text: p.line(q.Session), rank: rankLast})
	add(field{label: "tool", text: p.line(q.Tool), rank: rankMiddle})
	add(field{label: "kind", text: p.line(q.Class), rank: rankLast})
	label := "command"
	if q.Code != "" {
		label = "request"
	}
	add(field{label: label, text: command, style: strong, must: true, whole: true, command: true})
	for i, a := range arguments {
		if a == "" {
			a = "(empty)"
		}
		out = append(out, field{label: fmt.Sprintf("argv %d", i), text: a, full: true, whole: true})
	}
	if executed != command {
		add(field{label: "runs", text: executed, rank: rankHigh, must: true, whole: true})
	}
	add(field{label: "in", text: directory, rank: rankHigh, must: true, whole: true})
	for _, e := range environment {
		add(field{label: "sets", text: e, rank: rankHigh, must: true, whole: true})
	}
	add(field{label: "rule", text: p.line(q.Rule), rank: rankMiddle})
	add(field{label: "why", text: p.line(q.Reason), rank: rankMiddle})
	for _, l := range q.Needs {
		text := p.line(l.Text)
		if l.Detail != "" {
			text += "\n" + p.line(l.Detail)
		}
		add(field{label: p.evidence(l.Label), text: text, rank: rankLow})
	}
	for _, t := range q.Offer {
		out = append(out, p.toggle(t))
	}
	if q.keeping() {
		add(field{label: "turn", text: "t would also allow " + pattern, rank: rankHigh, must: true, whole: true})
		if q.GrantPattern != "" {
			add(field{label: "turn", text: "m would also allow " + wider + " for this turn", rank: rankHigh, must: true, whole: true})
		}
		if q.TreeAllowed {
			text := "T is t for every session of this tree, until the turn of its root ends"
			if q.GrantPattern != "" {
				text = "T and M are t and m for every session of this tree, until the turn of its root ends"
			}
			add(field{label: "turn", text: text, rank: rankLast})
		}
		if q.Always != "" {
			add(field{label: "always", text: "A would write " + always, rank: rankHigh, must: true, whole: true})
		}
	}
	number := p.line(q.ID)
	if q.Seq > 0 {
		number = strings.TrimSpace(fmt.Sprintf("#%d %s", q.Seq, number))
	}
	add(field{label: "ask", text: number, rank: rankLast})
	return out
}

// ours are the first words of the labels that only we may set.
var ours = map[string]bool{
	"warning": true, "sandbox": true, "chain": true, "session": true, "tool": true, "kind": true, "command": true,
	"request": true, "argv": true, "always": true, "runs": true, "in": true, "sets": true, "rule": true, "why": true, "grant": true,
	"fixed": true, "turn": true, "ask": true,
}

// evidence is a label that may come from a child: it is quoted where it could
// pass for one of ours.
func (p *page) evidence(label string) string {
	name, _ := cut(p.line(label), 16)
	first, _, _ := strings.Cut(strings.ToLower(name), " ")
	switch {
	case name == "":
		return "needs"
	case ours[first], strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ") != "",
		strings.TrimSpace(name) != name:
		return `"` + name + `"`
	}
	return name
}

// toggle is one line of the grant vector. What is granted with the next key is
// always a fact that must be seen; what is only offered need not be.
func (p *page) toggle(t Toggle) field {
	on := p.toggles[t.Key]
	box := "[ ] "
	if on {
		box = "[x] "
	}
	text := box + p.line(t.Name)
	if t.Sentence != "" {
		text += ": " + p.line(t.Sentence)
	}
	f := field{label: "grant " + string(t.Key), text: text, rank: rankLow, whole: true, grant: t.Key}
	switch {
	case !t.Changeable:
		f.label = "fixed"
	case t.OtherKey:
		f.text += " (needs a word)"
	}
	if on {
		f.rank, f.must = rankHigh, true
		if t.OtherKey {
			f.style = alarm
		}
	}
	return f
}

// quote shows an argument so that its borders are seen.
func quote(a string) string {
	if a != "" && strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=,@%") == "" {
		return a
	}
	return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
}

// lay breaks one fact into rows. Rows after the first carry a bar where the
// label would stand, so that no text can look like a label.
func (f *field) lay(fact, labels, cols, limit int) []row {
	text := f.text
	if !f.whole && limit > 0 {
		text, _ = cut(text, shortField)
	}
	var rows []row
	head := fmt.Sprintf(" %-*s : ", labels, f.label)
	for i, line := range wrap(text, cols-1-labels-4) {
		rows = append(rows, row{text: head + line, style: f.style})
		if i == 0 {
			head = fmt.Sprintf(" %-*s | ", labels, "")
		}
	}
	rows[0].grant = f.grant
	if limit > 0 && len(rows) > limit {
		more := len(rows) - limit + 1
		rows = rows[:limit-1]
		return append(rows, row{text: missing(more, "line", cols), style: f.style})
	}
	rows[len(rows)-1].fact = fact
	return rows
}

// body lays out the facts. The short view has at most room rows and may leave
// facts out; elided says so. If what must be seen does not fit a short view
// either, the complete one is returned. Facts are numbered from 1.
func (p *page) body(cols, room int, complete bool, strengthCut bool) (rows []row, must map[int]bool, elided bool) {
	key := fmt.Sprint(cols, room, complete, strengthCut, p.toggles)
	l, ok := p.laid[key]
	if !ok {
		l.rows, l.must, l.elided = p.layOut(cols, room, complete, strengthCut)
		if len(p.laid) >= 4 || p.laid == nil {
			p.laid = map[string]laidOut{}
		}
		p.laid[key] = l
	}
	return l.rows, l.must, l.elided
}

func (p *page) layOut(cols, room int, complete bool, strengthCut bool) (rows []row, must map[int]bool, elided bool) {
	fields := p.fields(strengthCut)
	must = map[int]bool{}
	labels := 0
	for i, f := range fields {
		if f.must {
			must[i+1] = true
		}
		if !f.hide && (complete || !f.full) {
			labels = max(labels, columns(f.label))
		}
	}
	if !complete {
		if rows, elided, ok := p.short(fields, labels, cols, min(room, shortRows)); ok {
			return rows, must, elided
		}
	}
	for i := range fields {
		if !fields[i].hide {
			rows = append(rows, fields[i].lay(i+1, labels, cols, 0)...)
		}
	}
	return rows, must, !complete
}

// short picks the facts for a view of at most room rows: what must be seen
// first, then by rank, each whole or not at all. Only the command may be cut.
func (p *page) short(fields []field, labels, cols, room int) (rows []row, elided, ok bool) {
	laid := make([][]row, len(fields))
	command := -1
	used := 0
	for i := range fields {
		if fields[i].command {
			command = i
		} else if fields[i].rank == rankAlways && !fields[i].full && !fields[i].hide {
			laid[i] = fields[i].lay(i+1, labels, cols, shortRows)
			used += len(laid[i])
		}
	}
	least := 0
	var whole []row
	if command >= 0 {
		whole = fields[command].lay(command+1, labels, cols, 0)
		least = min(len(whole), max(2, room/2))
	}
	if used+least > room {
		return nil, false, false
	}
	used += least
	left := 0
	for rank := rankHigh; rank <= rankLast; rank++ {
		for i := range fields {
			if fields[i].rank != rank || fields[i].full {
				continue
			}
			candidate := fields[i].lay(i+1, labels, cols, shortRows)
			if used+len(candidate) > room {
				left++
				continue
			}
			laid[i] = candidate
			used += len(candidate)
		}
	}
	if left > 0 && used == room {
		// One row is needed to say that something is missing: it takes the
		// place of the least important fact.
		for rank := rankLast; rank >= rankHigh && used == room; rank-- {
			for i := len(fields) - 1; i >= 0 && used == room; i-- {
				if fields[i].rank == rank && laid[i] != nil {
					used -= len(laid[i])
					laid[i] = nil
					left++
				}
			}
		}
		if used == room {
			return nil, false, false
		}
	}
	if command >= 0 {
		limit := least + room - used
		if left > 0 {
			limit--
		}
		if limit < 1 {
			return nil, false, false
		}
		if len(whole) <= limit {
			laid[command] = whole
		} else {
			laid[command] = fields[command].lay(command+1, labels, cols, limit)
			elided = true
		}
	}
	for i := range fields {
		rows = append(rows, laid[i]...)
		if fields[i].full {
			elided = true
		}
	}
	if left > 0 {
		elided = true
		rows = append(rows, row{text: missing(left, "fact", cols)})
	}
	return rows, elided, true
}

// missing is the mark of a short view that something is not in it.
func missing(n int, what string, cols int) string {
	if n != 1 {
		what += "s"
	}
	if cols < 50 {
		return fmt.Sprintf(" [+%d %s: v]", n, what)
	}
	return fmt.Sprintf(" [+%d %s: v shows all]", n, what)
}

// flow joins items into rows of at most cols-1 columns.
func flow(items []string, cols int) []row {
	var rows []row
	text := ""
	for _, item := range items {
		item, _ = cut(item, cols-2)
		switch {
		case text == "":
			text = " " + item
		case columns(text)+3+columns(item) > cols-1:
			rows = append(rows, row{text: text, style: strong})
			text = " " + item
		default:
			text += "   " + item
		}
	}
	if text != "" {
		rows = append(rows, row{text: text, style: strong})
	}
	return rows
}

// ruler is a line across the screen with a remark in it.
func ruler(remark string, cols int) row {
	if remark != "" {
		remark, _ = cut(" "+remark+" ", max(0, cols-6))
	}
	n := min(cols-1, maxSize) - 2 - columns(remark)
	return row{text: "--" + remark + strings.Repeat("-", max(0, n))}
}

// remaining says how much time is left, coarse enough not to flicker.
func remaining(d time.Duration) string {
	switch {
	case d <= 0:
		return "time is over"
	case d < time.Minute:
		return fmt.Sprintf("%d s left", int((d+time.Second-1)/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min left", int(d/time.Minute))
	}
	return fmt.Sprintf("%d h left", int(d/time.Hour))
}
