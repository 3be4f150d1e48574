package terminal

import (
	"crypto/subtle"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// When keys count.
const (
	// settleMost is how long the answer to the status query is waited for.
	settleMost = 500 * time.Millisecond
	// shownLeast is how long a dialog is on the screen, and how long nothing
	// was typed, before a key counts.
	shownLeast = 400 * time.Millisecond
	// aloneFor is the time without any other byte before and after a key.
	aloneFor = 150 * time.Millisecond
	// enterAfter is the time between the last letter of a text and Enter: a
	// text that brings its Enter along was not typed.
	enterAfter = 20 * time.Millisecond
	// brokenAfter ends a sequence that never ends.
	brokenAfter = time.Second
	// wordTries is how many wrong words (or codes) one dialog takes.
	wordTries = 3
	// maxReason bounds what is typed, in characters.
	maxReason = 500
)

type stage uint8

const (
	settling stage = iota // waiting for the answer to the status query
	arming                // waiting for quiet
	armed                 // keys count
)

type entry uint8

const (
	menu entry = iota
	typeWord
	typeReason
	typeCode
	typePhrase
)

// dialog is one question on the screen. It is a state machine over bytes and
// times; it reads no clock and draws nothing itself.
type dialog struct {
	q       Question
	page    page
	later   bool // the question can be put aside
	ascii   bool
	started time.Time // for the time left
	expires time.Time // zero: never
	at, of  int       // place among the questions that wait

	// What the person did.
	entry    entry
	text     []rune
	word     string
	wordFor  rune // the toggle that the word switches on, or 't'
	wrong    int
	complete bool
	scroll   int
	message  string
	seen     map[int]bool

	// Keys.
	lex    lexer
	stage  stage
	until  time.Time // settling ends
	drawn  time.Time
	quiet  time.Time // since when nothing was typed
	last   time.Time // last byte
	key    rune      // a key that came alone so far, or 0
	keyAt  time.Time
	answer string // the exact answer to our status query: a CSI without ESC [

	// Results, read by the owner after each call.
	done    bool
	result  Answer
	suspend bool
	aside   bool
	redraw  bool

	// What the last frame left.
	must     map[int]bool
	factRow  map[rune]int
	bodyRows int
	bodyRoom int
	tooSmall bool
	elided   bool   // something is not in the short view
	remarked string // what the ruler says
}

func newDialog(q Question, now time.Time, ascii, later bool) *dialog {
	d := &dialog{q: q, ascii: ascii, later: later, started: now, seen: map[int]bool{}}
	if q.Expires > 0 {
		d.expires = now.Add(q.Expires)
	}
	toggles := map[rune]bool{}
	for _, t := range q.Offer {
		toggles[t.Key] = t.On
	}
	d.page = page{q: &d.q, toggles: toggles, ascii: ascii}
	if q.Code != "" {
		d.entry = typeCode
	}
	return d
}

// begin starts over with the keys: called when the dialog has just been drawn
// (again) and the status query was sent, after what had been typed before was
// thrown away. answer is what the terminal will say to the query.
func (d *dialog) begin(now time.Time, answer string) {
	d.lex.giveUp()
	d.stage, d.until = settling, now.Add(settleMost)
	d.drawn, d.quiet, d.last = now, now, now
	d.key, d.answer = 0, answer
	d.text = d.text[:0]
	if d.entry != typeCode {
		d.entry = menu
	}
}

// rearm demands quiet again: something came that no person types.
func (d *dialog) rearm(at time.Time, why string) {
	d.key = 0
	if d.stage == armed {
		d.stage = arming
	}
	d.quiet = at
	if why != "" {
		d.message = why
	}
	d.redraw = true
}

const (
	tooFast   = "ignored: press one key by itself"
	noPaste   = "ignored: a paste never answers"
	notSeen   = "not yet: v, then space to the end"
	tooSmall  = "too small to judge: n denies"
	alreadyEx = "Enter came too fast: press it again"
	noAnswer  = "Enter answers nothing: see the keys"
	noWord    = "another word: nothing was allowed"
	noWords   = "too many wrong words: y, n or r"
	noPhrase  = "no phrase: nothing was allowed"
	noTurn    = "the turn is not offered here"
	noChange  = "this line cannot be changed here"
)

// input takes what was read. early is when its first byte may have come at the
// earliest, at when it was read.
func (d *dialog) input(data []byte, early, at time.Time) {
	d.tick(early) // a key that had its quiet before this counts
	if d.done || d.suspend || d.aside || len(data) == 0 {
		return
	}
	apart := early.Sub(d.last) >= aloneFor
	typedApart := early.Sub(d.last) >= enterAfter
	d.last = at
	if d.key != 0 {
		d.rearm(at, tooFast)
	}
	inside := d.lex.inside()
	for i, b := range data {
		tok, whole := d.lex.feed(b)
		if d.stage == settling {
			if whole && tok.kind == tokenCSI && tok.raw == d.answer {
				d.stage = arming
			}
			d.quiet = at
			continue
		}
		if d.stage == arming {
			d.quiet = at
			continue
		}
		if !whole {
			continue
		}
		single := !inside && len(data) == tokenLen(tok) && i == len(data)-1
		d.token(tok, single && apart, single && typedApart, at)
		if d.done || d.suspend || d.aside {
			return
		}
	}
}

func tokenLen(t token) int {
	if t.kind == tokenKey {
		return utf8.RuneLen(t.r)
	}
	return -1
}

// token handles one token while keys count. alone: nothing else came before
// for long enough, nor with it.
func (d *dialog) token(t token, alone, apart bool, at time.Time) {
	switch t.kind {
	case tokenPaste:
		d.rearm(at, noPaste)
		return
	case tokenCSI:
		if !d.move(t.raw) {
			d.rearm(at, "")
		}
		return
	case tokenAlt, tokenString, tokenJunk:
		d.rearm(at, "")
		return
	}
	switch t.r {
	case 0x03:
		d.deny("")
		return
	case 0x1a:
		d.suspend = true
		return
	case 0x0c:
		d.redraw = true
		return
	}
	if d.entry != menu {
		d.edit(t.r, apart)
		return
	}
	switch t.r {
	case ' ', 'j':
		d.move(map[rune]string{' ': "6~", 'j': "B"}[t.r])
		return
	case 'b', 'k', 'g', 'G':
		d.move(map[rune]string{'b': "5~", 'k': "A", 'g': "H", 'G': "F"}[t.r])
		return
	case '\r', '\n', 0x04:
		d.message = noAnswer
		d.redraw = true
		return
	}
	if !alone {
		d.rearm(at, tooFast)
		return
	}
	if t.r < 0x20 || t.r > 0x7e {
		return
	}
	d.key, d.keyAt = t.r, at
}

// move scrolls, and reports whether the sequence was one that does.
func (d *dialog) move(raw string) bool {
	page := max(1, d.bodyRoom-1)
	switch raw {
	case "A":
		d.scroll--
	case "B":
		d.scroll++
	case "5~":
		d.scroll -= page
	case "6~":
		d.scroll += page
	case "H", "1~", "7~":
		d.scroll = 0
	case "F", "4~", "8~":
		d.scroll = d.bodyRows
	default:
		return false
	}
	d.message, d.redraw = "", true
	return true
}

// edit changes the text that is being typed.
func (d *dialog) edit(r rune, apart bool) {
	d.redraw = true
	switch r {
	case '\r', '\n':
		if !apart {
			d.message = alreadyEx
			return
		}
		d.enter()
	case 0x7f, 0x08:
		if len(d.text) > 0 {
			d.text = d.text[:len(d.text)-1]
		}
	case 0x15:
		d.text = d.text[:0]
	default:
		if r < 0x20 || !unicode.IsPrint(r) {
			return
		}
		limit := maxReason
		if d.entry != typeReason && d.entry != typePhrase {
			limit = 64
		}
		if len(d.text) < limit {
			d.text = append(d.text, r)
		}
	}
}

// enter takes the text.
func (d *dialog) enter() {
	text := string(d.text)
	switch d.entry {
	case typeReason:
		d.deny(text)
	case typeWord:
		d.text = d.text[:0]
		d.entry = menu
		if subtle.ConstantTimeCompare([]byte(strings.ToLower(strings.TrimSpace(text))), []byte(d.word)) != 1 {
			d.wrong++
			d.message = noWord
			return
		}
		if keeps(d.wordFor) {
			d.keep(d.wordFor)
			return
		}
		d.flip(d.wordFor, true)
	case typePhrase:
		d.text, d.entry = d.text[:0], menu
		switch {
		case text == "":
			d.message = noPhrase
			return
		case keeps(d.wordFor):
			d.keep(d.wordFor)
		default:
			d.allow(AllowOnce)
		}
		d.result.Phrase = text
	case typeCode:
		d.text = d.text[:0]
		if !d.seenAll() {
			d.message = d.unseen()
			return
		}
		if subtle.ConstantTimeCompare([]byte(code(text)), []byte(code(d.q.Code))) == 1 {
			d.allow(AllowOnce)
			d.result.Code = d.q.Code
			return
		}
		if d.wrong++; d.wrong >= wordTries {
			d.deny("three wrong codes were typed")
			return
		}
		d.message = fmt.Sprintf("another code (%d of %d)", d.wrong, wordTries)
	}
}

// code is a typed code without what people add to read it.
func code(s string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(s))
}

func (d *dialog) unseen() string {
	if d.tooSmall {
		return tooSmall
	}
	return notSeen
}

// press is a key that came alone.
func (d *dialog) press(r rune) {
	d.message, d.redraw = "", true
	switch r {
	case 'y', 't', 'm', 'T', 'M', 'A':
		if !d.seenAll() {
			d.message = d.unseen()
			return
		}
		switch {
		case r == 'y' && d.q.AllowPhrase:
			d.askPhrase(r)
		case r == 'y':
			d.allow(AllowOnce)
		case !d.q.keeping() || !d.q.offers(r):
			d.message = noTurn
		case d.q.TurnAllowed:
			d.askWord(r)
		default:
			d.askPhrase(r)
		}
	case 'n':
		d.deny("")
	case 'r':
		d.entry, d.text = typeReason, d.text[:0]
	case 'v':
		d.complete, d.scroll = !d.complete, 0
	case 'l':
		if d.later {
			d.aside = true
		}
	default:
		for _, t := range d.q.Offer {
			if t.Key != r {
				continue
			}
			on := d.page.toggles[r]
			switch {
			case !t.Changeable:
				d.message = noChange
			case t.OtherKey && !on:
				d.askWord(r)
			default:
				d.flip(r, !on)
			}
			return
		}
		d.message = fmt.Sprintf("%q answers nothing here", r)
	}
}

// keeps says whether a key is for an allow that outlives its question.
func keeps(key rune) bool { return containsRune("tmTMA", key) }

// offers says whether the question has what the key keeps, beside TurnAllowed.
func (q *Question) offers(key rune) bool {
	switch key {
	case 'm':
		return q.GrantPattern != ""
	case 'T':
		return q.TreeAllowed
	case 'M':
		return q.TreeAllowed && q.GrantPattern != ""
	case 'A':
		return q.Always != ""
	}
	return key == 't'
}

// keep is an allow that outlives its question.
func (d *dialog) keep(key rune) {
	if key == 'A' {
		d.allow(AllowAlways)
		return
	}
	d.allow(AllowForTurn)
	d.result.Pattern, d.result.Tree = key == 'm' || key == 'M', key == 'T' || key == 'M'
}

func (d *dialog) askWord(purpose rune) {
	if d.wrong >= wordTries {
		d.message = noWords
		return
	}
	d.word = pickWord(d.word)
	d.wordFor = purpose
	d.entry, d.text = typeWord, d.text[:0]
}

// askPhrase lets the phrase of the tree be typed.
func (d *dialog) askPhrase(purpose rune) {
	d.wordFor = purpose
	d.entry, d.text = typePhrase, d.text[:0]
}

// flip changes a line of the grant vector. Its new text has to be seen.
func (d *dialog) flip(key rune, on bool) {
	d.page.toggles[key] = on
	delete(d.seen, d.page.fact(key))
	if at, ok := d.factRow[key]; ok && (at < d.scroll || at >= d.scroll+d.bodyRoom) {
		d.scroll = at
	}
}

func (d *dialog) allow(decision string) {
	toggles := map[rune]bool{}
	for k, on := range d.page.toggles {
		toggles[k] = on
	}
	d.done, d.result = true, Answer{Decision: decision, Toggles: toggles}
}

func (d *dialog) deny(reason string) {
	d.done, d.result = true, Answer{Decision: Deny, Reason: strings.TrimSpace(reason)}
}

// seenAll reports whether everything that must be seen has been on the screen.
func (d *dialog) seenAll() bool {
	if d.must == nil || d.tooSmall {
		return false
	}
	for fact := range d.must {
		if !d.seen[fact] {
			return false
		}
	}
	return true
}

// keyDue reports whether a key has been alone for long enough, so that the
// owner first makes sure that nothing more was typed.
func (d *dialog) keyDue(now time.Time) bool {
	return d.key != 0 && !now.Before(d.keyAt.Add(aloneFor))
}

// tick lets time pass.
func (d *dialog) tick(now time.Time) {
	if d.done {
		return
	}
	if d.stage == settling && !now.Before(d.until) {
		d.stage = arming
	}
	if d.lex.inside() && now.Sub(d.last) >= aloneFor && d.lex.loneEscape() {
		d.lex.giveUp()
		if d.stage == armed {
			d.escape()
		}
	}
	if d.lex.inside() && now.Sub(d.last) >= brokenAfter {
		d.lex.giveUp()
		d.rearm(now, "")
	}
	if d.stage == arming && !d.lex.inside() {
		from := d.drawn
		if d.quiet.After(from) {
			from = d.quiet
		}
		if !now.Before(from.Add(shownLeast)) {
			d.stage, d.redraw = armed, true
		}
	}
	if d.keyDue(now) {
		r := d.key
		d.key = 0
		d.press(r)
	}
}

// escape is the Escape key by itself.
func (d *dialog) escape() {
	d.redraw = true
	switch d.entry {
	case typeWord, typeReason, typePhrase:
		d.entry, d.text, d.message = menu, d.text[:0], ""
	case typeCode:
		d.text = d.text[:0]
	case menu:
		if d.complete {
			d.complete, d.scroll = false, 0
		}
	}
}

// deadline is when tick has something to do, or zero.
func (d *dialog) deadline() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if d.stage == settling {
		sooner(d.until)
	}
	if d.lex.loneEscape() {
		sooner(d.last.Add(aloneFor))
	} else if d.lex.inside() {
		sooner(d.last.Add(brokenAfter))
	}
	if d.stage == arming && !d.lex.inside() {
		from := d.drawn
		if d.quiet.After(from) {
			from = d.quiet
		}
		sooner(from.Add(shownLeast))
	}
	if d.key != 0 {
		sooner(d.keyAt.Add(aloneFor))
	}
	return next
}

// frame lays out the whole screen of rows by cols and notes what is seen on it.
// The last row is always the message.
func (d *dialog) frame(rows, cols int, now time.Time) []row {
	if rows < minRows || cols < minCols {
		d.tooSmall = true
		text, _ := cut("too small, n denies", max(1, cols-1))
		return []row{{text: text, style: alarm}}
	}
	d.tooSmall, d.remarked = false, d.remark(now)
	header, strengthCut := d.page.header(cols)
	d.elided = true // the longest list of keys, until the facts are laid out
	keys := flow(d.keys(cols), cols)
	roomy := rows >= 14
	room := rows - 1 - len(keys) - 1
	if roomy {
		room -= 2
	}
	if room < 1 { // many keys on a small screen
		keys = keys[:max(1, len(keys)-(1-room))]
		room = 1
	}
	body, must, elided := d.page.body(cols, room, d.complete, strengthCut)
	d.must = must
	d.bodyRows, d.bodyRoom = len(body), room
	d.scroll = max(0, min(d.scroll, len(body)-room))
	d.locate(body)
	shown := body[d.scroll:min(len(body), d.scroll+room)]
	for _, r := range shown {
		if r.fact != 0 {
			d.seen[r.fact] = true
		}
	}
	// Only now is it known whether allow is open and what is left out; the keys
	// say so.
	d.elided = elided
	if again := flow(d.keys(cols), cols); len(again) <= len(keys) {
		keys = again
	}

	out := []row{header}
	if roomy {
		out = append(out, ruler(d.remark(now), cols))
	}
	out = append(out, shown...)
	for len(out) < rows-1-len(keys)-b2i(roomy) {
		out = append(out, row{})
	}
	if roomy {
		remark := ""
		if len(body) > room {
			remark = fmt.Sprintf("lines %d to %d of %d; space, b, arrows", d.scroll+1, d.scroll+len(shown), len(body))
		} else if elided {
			remark = "short view, v shows all"
		}
		out = append(out, ruler(remark, cols))
	}
	out = append(out, keys...)
	return append(out, d.prompt(cols, len(body) > room, roomy, len(shown), len(body)))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// locate remembers in which row each toggle stands, to scroll there.
func (d *dialog) locate(body []row) {
	d.factRow = map[rune]int{}
	for i, r := range body {
		if r.grant != 0 {
			d.factRow[r.grant] = i
		}
	}
}

func (d *dialog) remark(now time.Time) string {
	text := "pioneer-super asks you"
	if d.of > 1 {
		text += fmt.Sprintf(", %d of %d", d.at, d.of)
	}
	if !d.expires.IsZero() {
		text += ", " + remaining(d.expires.Sub(now))
	}
	return text
}

// keys are the keys of the list at the foot.
func (d *dialog) keys(cols int) []string {
	narrow := cols < 60
	pick := func(long, short string) string {
		if narrow {
			return short
		}
		return long
	}
	switch d.entry {
	case typeReason:
		return []string{"Enter denies with this", "Esc back", "Ctrl-C denies"}
	case typeWord, typePhrase:
		return []string{"Enter confirms", "Esc back", "Ctrl-C denies"}
	case typeCode:
		return []string{"Enter pairs", "Ctrl-C denies", pick("arrows scroll", "arrows")}
	}
	once := pick("y allow once", "y once")
	if d.page.unprotected() {
		once = pick("y allow once WITHOUT SANDBOX", "y once NO SANDBOX")
	}
	turn := pick("t allow for this turn", "t turn")
	if !d.seenAll() {
		once, turn = pick("(y after the end)", "(y)"), pick("(t after the end)", "(t)")
	}
	keys := []string{once}
	if d.q.keeping() {
		keys = append(keys, turn)
		if d.q.GrantPattern != "" {
			keys = append(keys, pick("m allow more like it for this turn", "m more"))
		}
	}
	keys = append(keys, "n deny", pick("r deny with a reason", "r reason"))
	if d.complete {
		keys = append(keys, pick("v short view", "v short"))
	} else if d.elided {
		keys = append(keys, pick("v show all", "v all"))
	}
	if d.later {
		keys = append(keys, "l later")
	}
	return keys
}

// prompt is the last row: what is being typed, or what to know now.
func (d *dialog) prompt(cols int, scrolls, roomy bool, shown, total int) row {
	var text string
	switch d.entry {
	case typeWord:
		what := "allow this for the turn"
		switch d.wordFor {
		case 'm':
			what = "allow the pattern for the turn"
		case 'T':
			what = "allow this for the turn in the whole tree"
		case 'M':
			what = "allow the pattern for the turn in the whole tree"
		case 'A':
			what = "write the rule into the policy"
		}
		if !keeps(d.wordFor) {
			for _, t := range d.q.Offer {
				if t.Key == d.wordFor {
					what = d.page.line(t.Name)
				}
			}
		}
		head := fmt.Sprintf(" type %s for %s: ", strings.ToUpper(d.word), what)
		if columns(head) > cols-12 {
			head = fmt.Sprintf(" type %s: ", strings.ToUpper(d.word))
		}
		text = head
	case typeReason:
		text = " reason: "
	case typePhrase:
		text = " phrase of this tree (not shown): "
		if columns(text) > cols-4 {
			text = " phrase: "
		}
	case typeCode:
		text = " code from the other terminal: "
		if columns(text) > cols-12 {
			text = " code: "
		}
	}
	if text != "" {
		if d.message != "" && len(d.text) == 0 {
			text = " " + d.message + "; " + strings.TrimSpace(text) + " "
			if columns(text) > cols-4 {
				text = " " + d.message
			}
		}
		typed, _ := reveal(string(d.text), revealing{ascii: d.ascii})
		if d.entry == typePhrase {
			typed = ""
		}
		for columns(text)+columns(typed) > cols-2 && typed != "" {
			_, size := utf8.DecodeRuneInString(typed)
			typed = typed[size:]
		}
		text, _ = cut(text+typed+"_", cols-1)
		return row{text: text, style: strong}
	}
	switch {
	case d.message != "":
		text = " " + d.message
	case d.stage != armed:
		text = " one moment: keys do not count yet"
	case !d.seenAll() && !d.complete:
		text = " y opens at the end: v, then space"
	case !d.seenAll():
		text = fmt.Sprintf(" y opens at the end: space (%d of %d)", d.scroll+shown, total)
	case scrolls && !roomy:
		text = fmt.Sprintf(" lines %d to %d of %d: space, b, arrows", d.scroll+1, d.scroll+shown, total)
	}
	text, _ = cut(text, cols-1)
	return row{text: text}
}
