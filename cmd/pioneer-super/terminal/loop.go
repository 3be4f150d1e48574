package terminal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// The loop is the one goroutine that writes to the terminal and knows what is
// on it.

const (
	maxPending = 256
	maxNotes   = 32
	maxNote    = 1000
	// linger is how long a dialog says that its question is gone.
	linger = 600 * time.Millisecond
	// lookAgain is how often a process in the background looks whether it is in
	// front again: a shell need not tell.
	lookAgain = 250 * time.Millisecond
	// strayFor is how long an answer to a status query that was given up is
	// still kept from the agent.
	strayFor = 10 * time.Second
)

// place is what is on the terminal.
type place uint8

const (
	idle     place = iota // nothing of ours, modes as found
	relaying              // an agent
	board                 // a dialog, or the list of what waits
	away                  // we are stopped or in the background
)

// drawn reports whether something of the tree is on the terminal.
func (p place) drawn() bool { return p == relaying || p == board }

type loop struct {
	h       *Human
	dev     *device
	in      *reader
	handled uint64 // chunks taken from in
	look    look
	signals chan os.Signal

	at       place
	raw      bool // we read the keys
	behind   bool // not in the foreground
	remember bool // the modes may have been changed while we were stopped
	relay    *relay
	out      filter
	column0  bool // the agent's output ended a line

	queue   []*pending
	aside   []*pending
	dialog  *dialog // for queue[0]
	gone    time.Time
	pane    []string // shown instead of a dialog
	notes   []string
	lost    int // notes that were dropped
	stray   string
	strayTo time.Time

	keys   lexer // while relaying
	keyAt  time.Time
	prefix bool

	printed  string // on a terminal that only prints
	lastLine string

	failed error
}

func (l *loop) run() {
	defer close(l.h.finished)
	defer l.end()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for l.failed == nil {
		wait := time.Hour
		if at := l.deadline(); !at.IsZero() {
			wait = max(0, time.Until(at))
		}
		timer.Reset(wait)
		var agent chan chunk
		if l.relay != nil && l.at == relaying {
			agent = l.relay.side.out.chunks
		}
		select {
		case c := <-l.in.chunks:
			l.handled++
			l.input(c)
		case c := <-agent:
			l.output(c)
		case m := <-l.h.requests:
			l.message(m)
		case s := <-l.signals:
			l.signal(s)
		case <-timer.C:
			l.tick(time.Now())
		case <-l.h.closing:
			return
		}
		if l.failed == nil {
			l.settle()
		}
	}
}

// end answers everybody and puts the terminal back.
func (l *loop) end() {
	for _, p := range append(l.queue, l.aside...) {
		p.answer(reply{err: ErrClosed})
	}
	l.queue, l.aside, l.dialog, l.pane = nil, nil, nil, nil
	if l.failed == nil && l.at != away {
		l.enter(idle)
		l.flushNotes()
	}
	if l.raw {
		_ = l.dev.restore()
	}
	if l.relay != nil {
		l.relay.ended <- ErrClosed
	}
	l.in.stop()
	unwatchSignals(l.signals)
	l.dev.free()
}

func (l *loop) write(s string) {
	if s == "" || l.failed != nil {
		return
	}
	if err := l.dev.write([]byte(s)); err != nil {
		l.failed = err
	}
}

// wanted is where we should be now.
func (l *loop) wanted() place {
	switch {
	case !l.behind && (len(l.queue) > 0 || l.pane != nil):
		return board
	case l.relay != nil && (!l.behind || !l.relay.keys):
		return relaying
	case l.behind:
		return away
	}
	return idle
}

// needsRaw reports whether p is a place where we read the keys.
func (l *loop) needsRaw(p place) bool {
	return p == board || p == relaying && l.relay != nil && l.relay.keys
}

// settle goes there, and draws what has changed.
func (l *loop) settle() {
	want := l.wanted()
	if l.needsRaw(want) && !l.raw && !l.dev.foreground() {
		l.behind = true
		want = l.wanted()
	}
	if want != l.at {
		l.enter(want)
	}
	if l.behind {
		l.announce()
	}
	switch l.at {
	case board:
		switch {
		case l.dialog == nil && len(l.queue) > 0:
			l.show()
		case l.dialog != nil && l.dialog.redraw:
			l.draw()
		}
	case idle, relaying:
		l.flushNotes()
	}
}

// enter changes what is on the terminal.
func (l *loop) enter(to place) {
	from := l.at
	switch from {
	case board:
		if l.dialog != nil && l.dialog.stage == settling && l.dialog.answer != "" {
			l.stray, l.strayTo = l.dialog.answer, time.Now().Add(strayFor)
		}
		l.dialog = nil
		if !l.look.dumb {
			l.write("\x1b[?2004l\x1b[0m\x1b[2J\x1b[?25h\x1b[?1049l")
		}
	case relaying:
		l.write(l.out.modes.pristine())
		if l.out.modes.alternate == 0 && !l.column0 && to != board {
			l.write("\r\n")
		}
	}
	if l.relay == nil {
		l.out.modes = modes{}
	}
	switch {
	case l.raw && !l.needsRaw(to):
		l.drain()
		l.in.park()
		l.raw = false
		if err := l.dev.restore(); err != nil && l.failed == nil {
			l.failed = err
		}
	case !l.raw && l.needsRaw(to):
		if err := l.dev.makeRaw(l.remember); err != nil && l.failed == nil {
			l.failed = err
			return
		}
		l.remember = false
		l.raw = true
		l.handled = l.in.resume()
	}
	l.at = to
	switch to {
	case board:
		if !l.look.dumb {
			l.write("\x1b[?1049h\x1b[0m\x1b[2J\x1b[?25l\x1b[?7h\x1b[?2004h")
		}
	case relaying:
		l.keys.giveUp()
		l.prefix = false
		l.write(l.out.modes.resume())
		if from == away || from == board && (l.out.modes.alternate != 0 || l.look.dumb) {
			l.relay.todo(func() { l.relay.nudged = true })
		}
	}
}

// drain throws away what the terminal still answers to an agent, so that it is
// not typed into whatever reads the terminal next.
func (l *loop) drain() {
	owed := l.out.asked || time.Now().Before(l.strayTo)
	l.out.asked, l.stray, l.strayTo = false, "", time.Time{}
	if !owed || l.look.dumb || l.failed != nil {
		return
	}
	// Answers come in the order of their questions, so what is waited for is the
	// answer to a last one. It is of a place that nobody else asks about: a status
	// report could be the agent's, and ours would then follow it.
	rows, cols := l.dev.size()
	last := fmt.Sprintf("%d;%d", 1+rand.IntN(rows), 1+rand.IntN(cols))
	l.write("\x1b7\x1b[" + last + "H\x1b[6n\x1b8")
	timer := time.NewTimer(settleMost)
	defer timer.Stop()
	var lex lexer
	for l.failed == nil {
		select {
		case c := <-l.in.chunks:
			l.handled++
			if c.err != nil {
				return
			}
			for _, b := range c.data {
				if t, ok := lex.feed(b); ok && t.kind == tokenCSI && t.raw == last+"R" {
					l.dev.flush()
					return
				}
			}
		case <-timer.C:
			l.dev.flush()
			return
		case <-l.h.closing:
			// Close is waiting; the rest of the time is short.
			select {
			case <-time.After(50 * time.Millisecond):
			case <-l.in.chunks:
				l.handled++
			}
			l.dev.flush()
			return
		}
	}
}

// show puts the first question on the board.
func (l *loop) show() {
	l.pane, l.printed = nil, ""
	p := l.queue[0]
	now := time.Now()
	d := newDialog(p.q, now, l.look.ascii, l.relay != nil)
	d.expires = p.expires
	d.at, d.of = 1, len(l.queue)+len(l.aside)
	if n := len(l.notes); n > 0 {
		d.message = l.notes[n-1]
	}
	l.dialog, l.gone = d, time.Time{}
	l.restart()
}

// restart draws the dialog and begins with its keys from nothing.
func (l *loop) restart() {
	l.dev.flush()
	l.draw()
	answer := ""
	if !l.look.dumb {
		rows, cols := l.dev.size()
		row, col := 1+rand.IntN(rows), 1+rand.IntN(cols)
		answer = fmt.Sprintf("%d;%dR", row, col)
		l.write(fmt.Sprintf("\x1b[%d;%dH\x1b[6n", row, col))
	}
	l.dialog.begin(time.Now(), answer)
}

// draw paints the dialog.
func (l *loop) draw() {
	l.dialog.redraw = false
	rows, cols := l.dev.size()
	l.dialog.of = len(l.queue) + len(l.aside)
	l.paint(l.dialog.frame(rows, cols, time.Now()), rows)
}

func (l *loop) paint(lines []row, rows int) {
	var b strings.Builder
	if l.look.dumb {
		l.print(lines)
		return
	}
	for i, r := range lines {
		if i == rows {
			break
		}
		fmt.Fprintf(&b, "\x1b[%d;1H", i+1)
		switch {
		case !l.look.color:
		case r.style == strong:
			b.WriteString("\x1b[1m")
		case r.style == alarm:
			b.WriteString("\x1b[1;33m")
		}
		b.WriteString(r.text)
		if l.look.color && r.style != plain {
			b.WriteString("\x1b[0m")
		}
		b.WriteString("\x1b[K")
	}
	if len(lines) < rows {
		b.WriteString("\x1b[J")
	}
	l.write(b.String())
}

// print is paint for a terminal that only prints: what stands there already is
// not printed again, but for the last line if that has changed.
func (l *loop) print(lines []row) {
	texts := make([]string, 0, len(lines))
	for _, r := range lines {
		if r.text != "" {
			texts = append(texts, r.text+"\r\n")
		}
	}
	all := strings.Join(texts, "")
	last := ""
	if lines[len(lines)-1].text != "" {
		last = texts[len(texts)-1]
	}
	above := strings.TrimSuffix(all, last)
	switch {
	case above != l.printed:
		l.write("\r\n" + all)
	case last != l.lastLine:
		l.write(last)
	}
	l.printed, l.lastLine = above, last
}

// drawPane paints the list of what waits.
func (l *loop) drawPane() {
	rows, cols := l.dev.size()
	lines := []row{{text: "pioneer-super: what waits", style: strong}}
	for _, s := range l.pane {
		for _, w := range wrap(s, cols-2) {
			lines = append(lines, row{text: " " + w})
		}
	}
	if len(lines) > rows-1 {
		more := len(lines) - (rows - 2)
		lines = append(lines[:max(1, rows-2)], row{text: fmt.Sprintf(" [+%d lines]", more)})
	}
	foot, _ := cut(" any key goes back", cols-1)
	l.paint(append(lines, row{text: foot, style: strong}), rows)
}

// deadline is when tick has something to do.
func (l *loop) deadline() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if l.dialog != nil {
		if !l.gone.IsZero() {
			sooner(l.gone)
		} else {
			sooner(l.dialog.deadline())
			if !l.dialog.expires.IsZero() && !l.look.dumb {
				sooner(time.Now().Truncate(time.Second).Add(time.Second))
			}
		}
	}
	for _, p := range l.queue {
		if l.gone.IsZero() || p != l.queue[0] {
			sooner(p.expires)
		}
	}
	for _, p := range l.aside {
		sooner(p.expires)
	}
	if l.behind {
		sooner(time.Now().Add(lookAgain))
	}
	return next
}

func (l *loop) tick(now time.Time) {
	if l.behind {
		l.comeBack()
	}
	for _, p := range append(append([]*pending(nil), l.queue...), l.aside...) {
		if !p.over && !p.expires.IsZero() && !now.Before(p.expires) {
			l.withdraw(p, reply{err: ErrExpired}, "the time is over: nothing was allowed")
		}
	}
	d := l.dialog
	if d == nil {
		return
	}
	if !l.gone.IsZero() {
		if !now.Before(l.gone) {
			l.finish()
		}
		return
	}
	if d.keyDue(now) && l.in.beyond(l.handled) {
		return // what was typed after it comes first
	}
	d.tick(now)
	if d.remark(now) != d.remarked {
		d.redraw = true
	}
	l.outcome()
}

// outcome acts on what the person did.
func (l *loop) outcome() {
	d := l.dialog
	switch {
	case d == nil || !l.gone.IsZero():
	case d.done:
		l.queue[0].answer(reply{answer: d.result})
		l.finish()
	case d.aside:
		p := l.queue[0]
		l.finish()
		l.aside = append(l.aside, p)
	case d.suspend:
		d.suspend = false
		l.suspend()
	}
}

// finish takes the first question off the board.
func (l *loop) finish() {
	l.queue = l.queue[1:]
	l.gone = time.Time{}
	if len(l.queue) > 0 {
		l.dialog = nil
	}
	// Otherwise enter still wants to know whether its query was answered.
	if len(l.queue) == 0 && l.at != board {
		l.dialog = nil
	}
}

// withdraw ends a question that nobody answered here.
func (l *loop) withdraw(p *pending, r reply, why string) {
	for i, q := range l.aside {
		if q == p {
			l.aside = append(l.aside[:i:i], l.aside[i+1:]...)
			p.answer(r)
			return
		}
	}
	for i, q := range l.queue {
		if q != p {
			continue
		}
		switch {
		case i > 0 || l.dialog == nil:
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			if l.dialog != nil {
				l.dialog.redraw = true
			}
			p.answer(r)
		case l.gone.IsZero():
			// Said on the board for a moment, then for good.
			l.gone = time.Now().Add(linger)
			l.dialog.message, l.dialog.entry = why, menu
			l.draw()
			p.answer(r)
		}
		name := l.dialogName(p)
		l.note(fmt.Sprintf("ask %s: %s", name, why))
		return
	}
}

func (l *loop) dialogName(p *pending) string {
	if p.q.Seq > 0 {
		return fmt.Sprintf("#%d by %q", p.q.Seq, p.q.Agent)
	}
	return fmt.Sprintf("by %q", p.q.Agent)
}

func (l *loop) message(m any) {
	switch m := m.(type) {
	case *pending:
		if len(l.queue)+len(l.aside) >= maxPending {
			m.answer(reply{err: ErrTooMany})
			return
		}
		l.queue = append(l.queue, m)
		if l.dialog != nil {
			l.dialog.redraw = true
		}
	case withdraw:
		l.withdraw(m.p, reply{}, "withdrawn, nothing was allowed")
	case notice:
		l.note(string(m))
	case *relay:
		if l.relay != nil {
			m.ended <- errBusy
			return
		}
		l.relay, l.out, l.column0 = m, filter{mute: !m.keys}, true
		rows, cols := l.dev.size()
		m.todo(func() { m.rows, m.cols, m.resized = rows, cols, true })
	case endRelay:
		if l.relay == m.r {
			l.endRelay(nil)
		}
	case showPane:
		if l.at != relaying {
			return
		}
		l.pane = nil
		for _, p := range l.aside {
			l.pane = append(l.pane, Visible(fmt.Sprintf("ask %s was put aside", l.dialogName(p))))
		}
		for _, s := range m.lines {
			l.pane = append(l.pane, Visible(s))
		}
		l.pane = append(l.pane, l.notes...)
		l.notes = nil
		if len(l.pane) == 0 {
			l.pane = []string{"nothing"}
		}
		l.enter(board)
		l.dev.flush()
		l.drawPane()
	}
}

func (l *loop) endRelay(err error) {
	r := l.relay
	l.relay = nil
	// The questions that were put aside cannot be called up any more.
	l.queue = append(l.queue, l.aside...)
	l.aside = nil
	if l.at == relaying {
		l.enter(idle) // settle goes on from there
	}
	l.out = filter{}
	r.ended <- err
}

// output passes on what an agent wrote.
func (l *loop) output(c chunk) {
	if c.err != nil {
		l.endRelay(nil)
		return
	}
	b := l.out.pass(nil, c.data)
	if len(b) > 0 {
		last := b[len(b)-1]
		l.column0 = last == '\n' || last == '\r'
		l.write(string(b))
	}
}

// input takes what came from the terminal.
func (l *loop) input(c chunk) {
	switch {
	case c.err == errAway:
		l.in.park()
		l.at, l.raw, l.behind, l.dialog = away, false, true, nil
		l.revive()
		return
	case c.err != nil:
		l.failed = ErrClosed
		return
	}
	switch l.at {
	case board:
		switch {
		case l.pane != nil:
			l.pane = nil
			l.queue = append(l.queue, l.aside...)
			l.aside = nil
		case l.dialog != nil && l.gone.IsZero():
			l.dialog.input(c.data, c.early, c.at)
			l.outcome()
		}
	case relaying:
		l.typed(c)
	}
}

// revive makes a question that was going to vanish from the board vanish now.
func (l *loop) revive() {
	if !l.gone.IsZero() {
		l.finish()
		l.dialog = nil
	}
}

// typed passes keys to the agent, but for those that are ours.
func (l *loop) typed(c chunk) {
	if l.keys.loneEscape() && c.early.Sub(l.keyAt) > 50*time.Millisecond ||
		l.keys.inside() && c.early.Sub(l.keyAt) > brokenAfter {
		l.keys.giveUp()
	}
	l.keyAt = c.at
	var pass []byte
	start, whole := 0, !l.keys.inside()
	suspend := false
	for i, b := range c.data {
		t, ok := l.keys.feed(b)
		if !ok {
			continue
		}
		raw := c.data[start : i+1]
		begun := whole
		start, whole = i+1, true
		if begun && l.command(t, &pass, &suspend) {
			continue
		}
		pass = append(pass, raw...)
	}
	pass = append(pass, c.data[start:]...)
	if len(pass) > 0 && !l.relay.side.keys.send(pass) {
		l.write("\a")
	}
	if suspend {
		l.suspend()
	}
}

// command handles a key that is ours and reports whether it was.
func (l *loop) command(t token, pass *[]byte, suspend *bool) bool {
	if t.kind == tokenCSI && l.stray != "" && t.raw == l.stray && time.Now().Before(l.strayTo) {
		l.stray, l.strayTo = "", time.Time{}
		return true
	}
	ctrl, isCtrl := ctrlKey(t)
	if !l.prefix {
		switch {
		case isCtrl && ctrl == ']':
			l.prefix = true
			return true
		case isCtrl && ctrl == 'Z':
			*suspend = true
			return true
		}
		if t.kind == tokenCSI { // the release of a key of ours
			code, _, press, ok := reportedKey(t.raw)
			return ok && !press && (code == ']' || code == 'z')
		}
		return false
	}
	if t.kind == tokenCSI {
		// Releases, and modifiers by themselves, are not the next key.
		if code, _, press, ok := reportedKey(t.raw); ok && (!press || code >= 0xe000 && code <= 0xf8ff) {
			return true
		}
	}
	l.prefix = false
	key, isKey := plainKey(t)
	switch {
	case isCtrl && ctrl == ']':
		*pass = append(*pass, 0x1d)
	case isCtrl && ctrl == 'Z', isKey && key == 'z':
		*pass = append(*pass, 0x1a)
	case isKey && key == 'q':
		l.relay.todo(func() { l.relay.stop = true })
	case isKey && key == 'a':
		l.relay.todo(func() { l.relay.waiting = true })
	default:
		l.write("\a")
	}
	return true
}

func (l *loop) signal(s os.Signal) {
	switch s {
	case sigResize:
		if l.relay != nil {
			rows, cols := l.dev.size()
			r := l.relay
			r.todo(func() { r.rows, r.cols, r.resized = rows, cols, true })
		}
		if l.at == board {
			if !l.look.dumb {
				l.write("\x1b[2J")
			}
			if l.dialog != nil {
				l.draw()
			} else if l.pane != nil {
				l.drawPane()
			}
		}
	case sigStop:
		l.suspend()
	case sigContinue:
		// Stopped and continued by somebody else: whatever the modes were,
		// they are not to be relied on.
		if l.at.drawn() {
			l.in.park()
			l.revive()
			l.at, l.raw, l.dialog = away, false, nil
		}
		l.comeBack()
	}
}

// suspend stops this process until it is continued.
func (l *loop) suspend() {
	if !stoppable() {
		const why = "no shell could continue this process, so it does not stop"
		if l.dialog != nil {
			l.dialog.message, l.dialog.redraw = why, true
		} else {
			l.note(why)
		}
		return
	}
	l.revive()
	was := l.at
	l.enter(away)
	l.dialog = nil
	stopSelf(l.signals)
	l.remember = was != away
	l.comeBack()
}

// comeBack looks whether the terminal is ours again.
func (l *loop) comeBack() {
	was := l.behind
	l.behind = !l.dev.foreground()
	// What a shell set before it put us in front is what to go back to.
	l.remember = l.remember || was && !l.behind
	if l.behind && !was {
		for _, p := range l.queue {
			p.told = false
		}
	}
	if !l.behind && l.relay != nil {
		rows, cols := l.dev.size()
		r := l.relay
		r.todo(func() { r.rows, r.cols, r.resized = rows, cols, true })
	}
}

// announce tells a person who looks at something else that we ask.
func (l *loop) announce() {
	for _, p := range l.queue {
		if !p.told {
			p.told = true
			l.write("\r\n\apioneer-super: " + Visible(fmt.Sprintf("ask %s waits: fg brings it here", l.dialogName(p))) + "\r\n")
		}
	}
}

// note keeps a line of ours until it can be shown.
func (l *loop) note(s string) {
	text, _ := reveal(s, revealing{ascii: l.look.ascii})
	text, _ = cut(text, maxNote)
	if len(l.notes) == maxNotes {
		l.notes = append([]string(nil), l.notes[1:]...)
		l.lost++
	}
	l.notes = append(l.notes, text)
	if l.dialog != nil && l.gone.IsZero() && l.dialog.message == "" {
		l.dialog.message, l.dialog.redraw = text, true
	}
}

// flushNotes prints the notes where that spoils nothing: on a terminal that is
// not drawn on, or between the lines of an agent that prints lines.
func (l *loop) flushNotes() {
	if len(l.notes) == 0 {
		return
	}
	if l.at == relaying && (l.out.modes.alternate != 0 || l.relay.keys && !l.relay.side.cooked()) {
		return
	}
	var b strings.Builder
	if l.at == relaying && !l.column0 {
		b.WriteString("\r\n")
	}
	if l.lost > 0 {
		fmt.Fprintf(&b, "pioneer-super: %d earlier lines were dropped\r\n", l.lost)
	}
	for _, n := range l.notes {
		b.WriteString("pioneer-super: " + n + "\r\n")
	}
	l.notes, l.lost, l.column0 = nil, 0, true
	l.write(b.String())
}
