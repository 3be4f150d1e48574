package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// What an agent writes reaches the real terminal only through a filter. It lets
// through what draws, drops what makes a terminal do something else (write the
// clipboard, open files, print, lock the keyboard, change how it encodes
// answers), and remembers the modes that the agent set, so that a dialog can be
// drawn on a terminal in a known state and the agent's state can be put back.
// Only whole sequences are passed on: between two calls the terminal is never
// in the middle of one.

// Bounds of the filter; what is longer is dropped as a whole.
const (
	maxSequence = 256
	maxOSC      = 1024
	maxParams   = 32
)

type filterState uint8

const (
	filterGround filterState = iota
	filterUTF8
	filterEscape
	filterIntermediate // ESC and intermediate bytes
	filterCSI
	filterOSC
	filterString // DCS, APC, PM, SOS, title: never passed on
)

// filter is the parser. The zero filter is ready. It is not safe for
// concurrent use.
type filter struct {
	modes modes
	state filterState
	buf   []byte // the sequence so far, without ESC and its introducer
	over  bool   // buf overflowed: drop the sequence
	esc   bool   // ESC seen inside a string
	more  int    // bytes of a character still to come
	// asked: the agent sent something that a terminal answers.
	asked bool
	// mute drops what a terminal would answer: for a program that could not
	// read the answer.
	mute bool
	// dropped counts what was not passed on.
	dropped int
}

// pass appends to dst what of src the terminal may see.
func (f *filter) pass(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		if f.state == filterGround {
			// The fast path: a run of printable ASCII.
			j := i
			for j < len(src) && src[j] >= 0x20 && src[j] < 0x7f {
				j++
			}
			dst = append(dst, src[i:j]...)
			if i = j; i == len(src) {
				break
			}
		}
		dst = f.step(dst, src[i])
		i++
	}
	return dst
}

const replacement = "\uFFFD"

func (f *filter) reset() {
	f.state, f.buf, f.over, f.esc, f.more = filterGround, f.buf[:0], false, false, 0
}

func (f *filter) keep(b byte, limit int) {
	if len(f.buf) >= limit {
		f.over = true
		return
	}
	f.buf = append(f.buf, b)
}

// control passes a C0 control on, if it is one that moves the cursor, rings,
// or shifts character sets.
func (f *filter) control(dst []byte, b byte) []byte {
	switch b {
	case '\a', '\b', '\t', '\n', '\v', '\f', '\r':
		return append(dst, b)
	case 0x0e, 0x0f:
		f.modes.shifted = b == 0x0e
		return append(dst, b)
	}
	if b != 0 {
		f.dropped++ // ENQ makes a terminal type its answerback
	}
	return dst
}

func (f *filter) step(dst []byte, b byte) []byte {
	switch f.state {
	case filterGround:
		switch {
		case b == 0x1b:
			f.reset()
			f.state = filterEscape
		case b < 0x20:
			return f.control(dst, b)
		case b == 0x7f:
		case b < 0x80:
			return append(dst, b)
		case b >= 0xc2 && b <= 0xf4:
			f.reset()
			f.state, f.more = filterUTF8, 1
			if b >= 0xe0 {
				f.more++
			}
			if b >= 0xf0 {
				f.more++
			}
			f.buf = append(f.buf, b)
		default:
			return append(dst, replacement...)
		}
	case filterUTF8:
		if b&0xc0 != 0x80 {
			f.reset()
			return f.step(append(dst, replacement...), b)
		}
		f.buf = append(f.buf, b)
		if f.more--; f.more == 0 {
			r, size := utf8.DecodeRune(f.buf)
			switch {
			case r == utf8.RuneError && size <= 1:
				dst = append(dst, replacement...)
			case r < 0xa0:
				f.dropped++ // C1 controls in their eight-bit form
			default:
				dst = append(dst, f.buf...)
			}
			f.reset()
		}
	case filterEscape:
		switch {
		case b == '[':
			f.state = filterCSI
		case b == ']':
			f.state = filterOSC
		case b == 'P' || b == 'X' || b == '^' || b == '_' || b == 'k':
			f.state = filterString
		case b == 0x1b:
		case b >= 0x20 && b <= 0x2f:
			f.state = filterIntermediate
			f.keep(b, 4)
		case b == 0x18 || b == 0x1a:
			f.reset()
		case b < 0x20:
			return f.control(dst, b)
		case b >= 0x7f: // no sequence ends so
			f.dropped++
			f.reset()
		default:
			dst = f.escape(dst, b)
			f.reset()
		}
	case filterIntermediate:
		switch {
		case b == 0x1b:
			f.reset()
			f.state = filterEscape
		case b == 0x18 || b == 0x1a:
			f.reset()
		case b < 0x20:
			return f.control(dst, b)
		case b <= 0x2f:
			f.keep(b, 4)
		case b >= 0x7f:
			f.dropped++
			f.reset()
		default:
			dst = f.intermediate(dst, b)
			f.reset()
		}
	case filterCSI:
		switch {
		case b == 0x1b:
			f.reset()
			f.state = filterEscape
		case b == 0x18 || b == 0x1a:
			f.reset()
		case b < 0x20:
			return f.control(dst, b)
		case b <= 0x3f:
			f.keep(b, maxSequence)
		case b <= 0x7e:
			if f.over {
				f.dropped++
			} else {
				dst = f.csi(dst, b)
			}
			f.reset()
		default:
			f.reset()
		}
	case filterOSC, filterString:
		osc := f.state == filterOSC
		switch {
		case b == 0x18 || b == 0x1a:
			f.dropped++
			f.reset()
		case osc && b == 0x07, f.esc && b == '\\':
			if osc && !f.over {
				dst = f.osc(dst)
			} else {
				f.dropped++
			}
			f.reset()
		case f.esc:
			// ESC ends a string whatever follows.
			f.dropped++
			f.reset()
			f.state = filterEscape
			return f.step(dst, b)
		case b == 0x1b:
			f.esc = true
		default:
			if osc {
				f.keep(b, maxOSC)
			}
		}
	}
	return dst
}

// question notes that the terminal will answer, and reports whether it may be
// asked.
func (f *filter) question() bool {
	if f.mute {
		f.dropped++
		return false
	}
	f.asked = true
	return true
}

// escape handles ESC and one final byte.
func (f *filter) escape(dst []byte, b byte) []byte {
	switch b {
	case '=', '>':
		f.modes.keypad = b == '='
	case 'c':
		f.modes = modes{}
	case 'Z':
		if !f.question() {
			return dst
		}
	case '7', '8', 'D', 'E', 'H', 'M', 'N', 'O':
	default:
		f.dropped++
		return dst
	}
	return append(dst, 0x1b, b)
}

// intermediate handles ESC, intermediate bytes and a final one: character
// sets and line attributes. Never those that switch UTF-8 off or make the
// terminal answer in eight-bit controls.
func (f *filter) intermediate(dst []byte, b byte) []byte {
	if f.over || len(f.buf) == 0 {
		f.dropped++
		return dst
	}
	switch f.buf[0] {
	case '(', ')', '*', '+', '-', '.', '/':
		f.modes.designate(string(f.buf) + string(rune(b)))
	case '#':
		if len(f.buf) != 1 || !strings.ContainsRune("34568", rune(b)) {
			f.dropped++
			return dst
		}
	default:
		f.dropped++
		return dst
	}
	dst = append(dst, 0x1b)
	dst = append(dst, f.buf...)
	return append(dst, b)
}

// osc lets through the questions for colours, their reset, and shell marks.
// Not titles, clipboard, links, notifications, files, palette changes.
func (f *filter) osc(dst []byte) []byte {
	text := string(f.buf)
	code, rest, _ := strings.Cut(text, ";")
	ok := false
	switch code {
	case "10", "11", "12":
		ok = rest == "?" && f.question()
	case "4":
		index, question, _ := strings.Cut(rest, ";")
		n, err := strconv.Atoi(index)
		ok = err == nil && n >= 0 && n <= 255 && question == "?" && f.question()
	case "104", "110", "111", "112":
		ok = strings.Trim(rest, "0123456789;") == ""
	case "133":
		ok = len(rest) == 1 && strings.Contains("ABCD", rest)
	}
	if !ok {
		f.dropped++
		return dst
	}
	dst = append(dst, 0x1b, ']')
	dst = append(dst, f.buf...)
	return append(dst, 0x1b, '\\')
}

// csi handles one control sequence with the final byte b.
func (f *filter) csi(dst []byte, b byte) []byte {
	prefix, params, inter, ok := splitCSI(f.buf)
	if !ok {
		f.dropped++
		return dst
	}
	pass := false
	kind := inter
	if prefix != 0 {
		kind = string(prefix) + inter
	}
	switch kind {
	case "":
		switch b {
		case '@', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'P', 'S', 'T',
			'X', 'Z', '`', 'a', 'b', 'd', 'e', 'f', 'g', 's', 'u':
			pass = true
		case 'm':
			f.modes.colour(params, string(f.buf))
			pass = true
		case 'c', 'n':
			pass = f.question()
		case 't': // only reports of sizes; the rest moves windows or types titles
			n := first(params, 0)
			pass = len(params) == 1 && (n == 14 || n == 16 || n == 18) && f.question()
		case 'r':
			pass = true
			f.modes.margins = ""
			if len(params) > 0 {
				f.modes.margins = string(f.buf)
			}
		case 'h', 'l':
			return f.setModes(dst, false, params, b == 'h')
		}
	case "?":
		switch b {
		case 'h', 'l':
			return f.setModes(dst, true, params, b == 'h')
		case 'J', 'K':
			pass = true
		case 'n', 'u', 'm':
			pass = f.question()
		}
	case ">":
		switch b {
		case 'c', 'q':
			pass = f.question()
		case 'm':
			// Only how keys are reported, never the other resources.
			switch {
			case len(params) == 0:
				f.modes.otherKeys, pass = 0, true
			case params[0] == 4 && len(params) <= 2:
				f.modes.otherKeys, pass = first(params[1:], 0), true
			}
		case 'n':
			if len(params) == 1 && params[0] == 4 {
				f.modes.otherKeys, pass = 0, true
			}
		case 'u':
			pass = f.modes.kitty().push(first(params, 0))
		}
	case "<":
		if b == 'u' {
			pass = f.modes.kitty().pop(max(1, first(params, 1)))
		}
	case "=":
		switch b {
		case 'c':
			pass = f.question()
		case 'u':
			how := 1
			if len(params) > 1 {
				how = params[1]
			}
			f.modes.kitty().change(first(params, 0), how)
			pass = true
		}
	case "!":
		if b == 'p' { // soft reset
			f.modes.soft()
			pass = true
		}
	case "$", "?$":
		switch b {
		case 'p':
			pass = f.question()
		case 'z', '{', 'x', 'v', 'r', 't':
			pass = prefix == 0
		}
	case " ":
		switch b {
		case 'q':
			f.modes.cursorShape = first(params, 0)
			pass = len(params) <= 1
		case '@', 'A':
			pass = true
		}
	case "\"":
		pass = b == 'q'
	case "#":
		pass = b == '{' || b == '}' || b == 'p' || b == 'q'
	case "'":
		pass = b == '}' || b == '~'
	}
	if !pass {
		f.dropped++
		return dst
	}
	dst = append(dst, 0x1b, '[')
	dst = append(dst, f.buf...)
	return append(dst, b)
}

func first(params []int, otherwise int) int {
	if len(params) == 0 {
		return otherwise
	}
	return params[0]
}

// splitCSI reads prefix, numbers and intermediate bytes. A sub-parameter
// (after a colon) is skipped.
func splitCSI(buf []byte) (prefix rune, params []int, inter string, ok bool) {
	i := 0
	if i < len(buf) && buf[i] >= '<' && buf[i] <= '?' {
		prefix = rune(buf[i])
		i++
	}
	if i < len(buf) && buf[i] >= '0' && buf[i] <= ';' {
		n, sub := 0, false
		for ; i < len(buf) && buf[i] >= '0' && buf[i] <= ';'; i++ {
			switch c := buf[i]; c {
			case ';':
				params, n, sub = append(params, n), 0, false
			case ':':
				sub = true
			default:
				if !sub {
					if n = n*10 + int(c-'0'); n > 1<<20 {
						return 0, nil, "", false
					}
				}
			}
		}
		params = append(params, n)
	}
	inter = string(buf[i:])
	for _, c := range []byte(inter) {
		if c < 0x20 || c > 0x2f {
			return 0, nil, "", false
		}
	}
	return prefix, params, inter, len(params) <= maxParams
}

// setModes passes on those modes of one sequence that an agent may set.
func (f *filter) setModes(dst []byte, private bool, params []int, on bool) []byte {
	var allowed []string
	for _, p := range params {
		if f.modes.setMode(private, p, on) {
			allowed = append(allowed, strconv.Itoa(p))
		} else {
			f.dropped++
		}
	}
	if len(allowed) == 0 {
		return dst
	}
	dst = append(dst, 0x1b, '[')
	if private {
		dst = append(dst, '?')
	}
	dst = append(dst, strings.Join(allowed, ";")...)
	if on {
		return append(dst, 'h')
	}
	return append(dst, 'l')
}

// modes is what an agent changed in its terminal. The zero modes are a
// terminal as it was found.
type modes struct {
	set         map[int]bool // private modes that differ from usual
	insert      bool
	newline     bool
	keypad      bool
	shifted     bool
	charsets    [4]string // designations of G0 to G3, without ESC
	margins     string    // parameters of the last CSI r
	colours     []string  // parameters of each CSI m since the last reset
	otherKeys   int
	cursorShape int
	alternate   int // the mode that switched to the alternate screen, or 0
	keys        kittyKeys
	altKeys     kittyKeys
}

// kitty is the keyboard state of the screen that is shown.
func (m *modes) kitty() *kittyKeys {
	if m.alternate != 0 {
		return &m.altKeys
	}
	return &m.keys
}

// soft is what a soft reset leaves.
func (m *modes) soft() {
	for _, p := range []int{1, 6, 7, 25, 69} {
		delete(m.set, p)
	}
	m.insert, m.keypad, m.shifted = false, false, false
	m.charsets, m.margins, m.colours = [4]string{}, "", nil
}

// designate notes a character set (the bytes after ESC).
func (m *modes) designate(seq string) {
	slot := strings.IndexByte("()*+", seq[0])
	if slot < 0 {
		slot = strings.IndexByte(" -./", seq[0])
	}
	if seq == "(B" || seq == ")B" || seq == "*B" || seq == "+B" {
		seq = ""
	}
	m.charsets[slot] = seq
}

// colour notes a CSI m. What is remembered is bounded: an agent that sets a
// hundred attributes without a reset gets the last ones back.
func (m *modes) colour(params []int, raw string) {
	if len(params) == 0 || params[0] == 0 {
		m.colours = nil
		if len(params) < 2 {
			return
		}
	}
	if len(m.colours) == 32 {
		m.colours = append([]string(nil), m.colours[1:]...)
	}
	m.colours = append(m.colours, raw)
}

// usualModes are the private modes that an agent may change, and how a terminal
// usually is.
var usualModes = map[int]bool{
	1: false, 5: false, 6: false, 7: true, 9: false, 12: false, 25: true, 45: false, 66: false, 69: false,
	1000: false, 1001: false, 1002: false, 1003: false, 1004: false, 1005: false, 1006: false, 1007: false,
	1015: false, 1016: false, 2004: false, 2026: false, 2027: false, 2031: false, 2048: false,
}

// setMode notes one mode and reports whether it may be set at all.
func (m *modes) setMode(private bool, p int, on bool) bool {
	if !private {
		switch p {
		case 4:
			m.insert = on
		case 20:
			m.newline = on
		default:
			return false
		}
		return true
	}
	switch p {
	case 47, 1047, 1049:
		m.alternate = 0
		if on {
			m.alternate = p
		} else {
			m.altKeys = kittyKeys{}
		}
		return true
	case 1048:
		return true
	}
	usual, known := usualModes[p]
	if !known {
		return false
	}
	if on == usual {
		delete(m.set, p)
	} else {
		if m.set == nil {
			m.set = map[int]bool{}
		}
		m.set[p] = true
	}
	if p == 69 && !on {
		m.margins = ""
	}
	return true
}

// modeOrder is the order in which modes are put back: origin before what
// depends on it, the cursor last.
var modeOrder = []int{
	2026, 5, 7, 45, 66, 69, 1, 9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016,
	2004, 2027, 2031, 2048, 12, 25,
}

// pristine is what brings a terminal from m to the state in which it was
// found, on its main screen. Only what was changed is touched, so that a
// terminal is asked for nothing that it may not know. resume is the way back.
func (m *modes) pristine() string {
	var b strings.Builder
	if m.alternate != 0 {
		b.WriteString(m.altKeys.down())
		b.WriteString("\x1b7") // cursor and colours, for the way back
	}
	if m.set[6] {
		b.WriteString("\x1b[?6l")
	}
	switch {
	case m.margins == "":
	case m.alternate != 0:
		b.WriteString("\x1b[r")
	default:
		b.WriteString("\x1b7\x1b[r\x1b8") // CSI r alone moves the cursor
	}
	if m.alternate != 0 {
		b.WriteString(privateMode(m.alternate, false))
	}
	b.WriteString(m.keys.down())
	for _, p := range modeOrder {
		if m.set[p] {
			b.WriteString(privateMode(p, usualModes[p]))
		}
	}
	if m.insert {
		b.WriteString("\x1b[4l")
	}
	if m.newline {
		b.WriteString("\x1b[20l")
	}
	if m.keypad {
		b.WriteString("\x1b>")
	}
	for slot, set := range m.charsets {
		if set != "" {
			b.WriteString("\x1b" + "()*+"[slot:slot+1] + "B")
		}
	}
	if m.shifted {
		b.WriteString("\x0f")
	}
	if m.otherKeys != 0 {
		b.WriteString("\x1b[>4;0m")
	}
	if m.cursorShape != 0 {
		b.WriteString("\x1b[0 q")
	}
	if len(m.colours) > 0 {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// resume brings a terminal from the state in which it was found to m.
func (m *modes) resume() string {
	var b strings.Builder
	b.WriteString(m.keys.up())
	if m.alternate != 0 {
		b.WriteString(privateMode(m.alternate, true))
		b.WriteString(m.altKeys.up())
	}
	if m.set[69] {
		b.WriteString(privateMode(69, true))
	}
	switch {
	case m.margins == "":
	case m.alternate != 0:
		b.WriteString("\x1b[" + m.margins + "r")
	default:
		b.WriteString("\x1b7\x1b[" + m.margins + "r\x1b8")
	}
	if m.alternate != 0 {
		b.WriteString("\x1b8")
	}
	if m.set[6] {
		b.WriteString("\x1b[?6h")
	}
	for _, p := range modeOrder {
		if m.set[p] && p != 69 {
			b.WriteString(privateMode(p, !usualModes[p]))
		}
	}
	if m.insert {
		b.WriteString("\x1b[4h")
	}
	if m.newline {
		b.WriteString("\x1b[20h")
	}
	if m.keypad {
		b.WriteString("\x1b=")
	}
	for _, set := range m.charsets {
		if set != "" {
			b.WriteString("\x1b" + set)
		}
	}
	if m.shifted {
		b.WriteString("\x0e")
	}
	if m.otherKeys != 0 {
		b.WriteString("\x1b[>4;" + strconv.Itoa(m.otherKeys) + "m")
	}
	if m.cursorShape != 0 {
		b.WriteString("\x1b[" + strconv.Itoa(m.cursorShape) + " q")
	}
	for _, c := range m.colours {
		b.WriteString("\x1b[" + c + "m")
	}
	return b.String()
}

// kittyKeys is the state of the kitty keyboard protocol on one screen: the
// flags in force, and those below that a pop brings back.
type kittyKeys struct {
	flags int
	stack []int
}

func (k *kittyKeys) push(flags int) bool {
	if len(k.stack) == 16 {
		return false
	}
	k.stack = append(k.stack, k.flags)
	k.flags = flags & 31
	return true
}

func (k *kittyKeys) pop(n int) bool {
	for ; n > 0 && len(k.stack) > 0; n-- {
		k.flags = k.stack[len(k.stack)-1]
		k.stack = k.stack[:len(k.stack)-1]
	}
	if n > 0 {
		k.flags = 0 // below the last one there are none
	}
	return true
}

func (k *kittyKeys) change(flags, how int) {
	switch flags &= 31; how {
	case 1:
		k.flags = flags
	case 2:
		k.flags |= flags
	case 3:
		k.flags &^= flags
	}
}

// down takes all flags of the screen away, up sets them again.
func (k *kittyKeys) down() string {
	var s string
	if n := len(k.stack); n > 0 {
		s = "\x1b[<" + strconv.Itoa(n) + "u"
	}
	if k.flags != 0 || len(k.stack) > 0 {
		s += "\x1b[=0u"
	}
	return s
}

func (k *kittyKeys) up() string {
	var s string
	for i, flags := range append(append([]int(nil), k.stack...), k.flags) {
		switch {
		case i > 0:
			s += "\x1b[>" + strconv.Itoa(flags) + "u"
		case flags != 0:
			s += "\x1b[=" + strconv.Itoa(flags) + "u"
		}
	}
	return s
}

func privateMode(p int, on bool) string {
	if on {
		return "\x1b[?" + strconv.Itoa(p) + "h"
	}
	return "\x1b[?" + strconv.Itoa(p) + "l"
}
