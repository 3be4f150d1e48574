package terminal

import "unicode/utf8"

// What the terminal sends is not only keys: answers to queries, mouse reports
// and pastes arrive on the same line. The lexer tells them apart, so that no
// byte inside one of them is ever taken for a key.

type tokenKind uint8

const (
	tokenKey    tokenKind = iota + 1 // one character by itself, r is set
	tokenCSI                         // ESC [ ... final, raw is the whole
	tokenAlt                         // ESC and one character, or SS3
	tokenString                      // OSC, DCS, APC, PM, SOS: only its end
	tokenPaste                       // a bracketed paste, only its end
	tokenJunk                        // bytes that are no text
)

type token struct {
	kind tokenKind
	r    rune
	raw  string // for tokenCSI: parameters and final byte, at most maxCSI
}

type lexState uint8

const (
	lexGround lexState = iota
	lexUTF8
	lexEscape
	lexCSI
	lexOne    // one more byte belongs to the sequence (SS3, Linux function keys)
	lexMouse  // three more bytes (X10 mouse)
	lexOSC    // ends with BEL or ST
	lexString // ends with ST
	lexPaste
)

const (
	maxCSI   = 64
	pasteEnd = "\x1b[201~"
)

// lexer cuts terminal input into tokens, one byte at a time. The zero lexer is
// between two tokens. Its memory is fixed.
type lexer struct {
	state lexState
	esc   bool // ESC seen inside a string
	buf   [maxCSI]byte
	n     int
	more  int // bytes still to come (lexUTF8, lexOne, lexMouse)
	match int // of pasteEnd
}

// inside reports whether the next byte continues a token.
func (l *lexer) inside() bool { return l.state != lexGround }

// loneEscape reports whether all that has come is one ESC.
func (l *lexer) loneEscape() bool { return l.state == lexEscape }

// giveUp forgets an incomplete token.
func (l *lexer) giveUp() { *l = lexer{} }

func (l *lexer) feed(b byte) (token, bool) {
	switch l.state {
	case lexGround:
		return l.ground(b)
	case lexUTF8:
		if b&0xc0 != 0x80 {
			l.giveUp()
			return token{kind: tokenJunk}, true
		}
		l.buf[l.n] = b
		l.n++
		if l.more--; l.more > 0 {
			return token{}, false
		}
		r, size := utf8.DecodeRune(l.buf[:l.n])
		n := l.n
		l.giveUp()
		if r == utf8.RuneError || size != n {
			return token{kind: tokenJunk}, true
		}
		return l.c1(r)
	case lexEscape:
		return l.escape(b)
	case lexCSI:
		switch {
		case b == 0x1b:
			l.giveUp()
			l.state = lexEscape
			return token{}, false
		case b == '[' && l.n == 0: // Linux console: ESC [ [ A
			l.giveUp()
			l.state, l.more = lexOne, 1
			return token{}, false
		case b >= 0x40 && b <= 0x7e:
			raw := string(l.buf[:l.n]) + string(rune(b))
			x10 := b == 'M' && l.n == 0
			l.giveUp()
			switch {
			case x10:
				l.state, l.more = lexMouse, 3
				return token{}, false
			case raw == "200~":
				l.state = lexPaste
				return token{}, false
			}
			return token{kind: tokenCSI, raw: raw}, true
		case b < 0x20 || b > 0x7e:
			l.giveUp()
			return token{kind: tokenJunk}, true
		}
		if l.n < len(l.buf) {
			l.buf[l.n] = b
			l.n++
		}
		return token{}, false
	case lexOne, lexMouse:
		if l.more--; l.more > 0 {
			return token{}, false
		}
		l.giveUp()
		return token{kind: tokenAlt}, true
	case lexOSC, lexString:
		// Only these ends: 0x9c may be a part of a letter, and an end that is
		// seen too late costs a second, one seen too early turns the rest of
		// an answer into keys.
		end := l.state == lexOSC && b == 0x07 || l.esc && b == '\\'
		l.esc = b == 0x1b
		if end {
			l.giveUp()
			return token{kind: tokenString}, true
		}
		return token{}, false
	case lexPaste:
		switch {
		case b == pasteEnd[l.match]:
			l.match++
		case b == pasteEnd[0]:
			l.match = 1
		default:
			l.match = 0
		}
		if l.match == len(pasteEnd) {
			l.giveUp()
			return token{kind: tokenPaste}, true
		}
		return token{}, false
	}
	l.giveUp()
	return token{kind: tokenJunk}, true
}

func (l *lexer) ground(b byte) (token, bool) {
	switch {
	case b == 0x1b:
		l.state = lexEscape
		return token{}, false
	case b < 0x80:
		return token{kind: tokenKey, r: rune(b)}, true
	case b >= 0xc2 && b <= 0xf4:
		l.state, l.more = lexUTF8, 1
		if b >= 0xe0 {
			l.more++
		}
		if b >= 0xf0 {
			l.more++
		}
		l.buf[0], l.n = b, 1
		return token{}, false
	case b >= 0x80 && b < 0xa0:
		// A terminal that answers with eight-bit controls.
		return l.c1(rune(b))
	}
	return token{kind: tokenJunk}, true
}

// c1 handles one decoded character above ASCII, which may be a control.
func (l *lexer) c1(r rune) (token, bool) {
	switch r {
	case 0x9b:
		l.state = lexCSI
	case 0x9d:
		l.state = lexOSC
	case 0x90, 0x98, 0x9e, 0x9f:
		l.state = lexString
	case 0x8e, 0x8f:
		l.state, l.more = lexOne, 1
	default:
		if r < 0xa0 {
			return token{kind: tokenJunk}, true
		}
		return token{kind: tokenKey, r: r}, true
	}
	return token{}, false
}

func (l *lexer) escape(b byte) (token, bool) {
	l.giveUp()
	switch b {
	case '[':
		l.state = lexCSI
	case ']':
		l.state = lexOSC
	case 'P', 'X', '^', '_':
		l.state = lexString
	case 'O', 'N':
		l.state, l.more = lexOne, 1
	case 0x1b:
		l.state = lexEscape
	default:
		return token{kind: tokenAlt}, true
	}
	return token{}, false
}

// ctrlKey reports the letter or sign that was pressed with Ctrl, also where the
// agent switched the keyboard to reports (CSI 93;5u, CSI 27;5;93~).
func ctrlKey(t token) (rune, bool) {
	switch t.kind {
	case tokenKey:
		if t.r > 0 && t.r < 0x20 {
			return t.r + 0x40, true
		}
	case tokenCSI:
		if code, mods, press, ok := reportedKey(t.raw); ok && press && mods&^lockModifiers == 4 {
			if code >= 'a' && code <= 'z' {
				code -= 0x20
			}
			return code, true
		}
	}
	return 0, false
}

// plainKey reports the character of a key without Ctrl or Alt.
func plainKey(t token) (rune, bool) {
	switch t.kind {
	case tokenKey:
		return t.r, t.r >= 0x20
	case tokenCSI:
		if code, mods, press, ok := reportedKey(t.raw); ok && press && mods&^lockModifiers&^1 == 0 && code >= 0x20 {
			return code, true
		}
	}
	return 0, false
}

// lockModifiers are Caps Lock and Num Lock in a reported key.
const lockModifiers = 64 | 128

// reportedKey reads the key reports of xterm (CSI 27;mods;code~) and of the
// kitty keyboard protocol (CSI code:alt;mods:event u). mods has the one that
// both add taken off; press is false for the release of a key.
func reportedKey(raw string) (code rune, mods int, press, ok bool) {
	if raw == "" {
		return 0, 0, false, false
	}
	final := raw[len(raw)-1]
	var field [3][2]int
	f, s, digits := 0, 0, 0
	for i := 0; i < len(raw)-1; i++ {
		switch c := raw[i]; {
		case c >= '0' && c <= '9':
			if digits++; digits > 7 {
				return 0, 0, false, false
			}
			if f < 3 && s < 2 {
				field[f][s] = field[f][s]*10 + int(c-'0')
			}
		case c == ';':
			f, s, digits = f+1, 0, 0
		case c == ':':
			s, digits = s+1, 0
		default:
			return 0, 0, false, false
		}
	}
	mod := func(m int) int {
		if m > 0 {
			return m - 1
		}
		return 0
	}
	switch {
	case final == 'u' && f <= 2:
		return rune(field[0][0]), mod(field[1][0]), field[1][1] != 3, field[0][0] > 0
	case final == '~' && f == 2 && field[0][0] == 27:
		return rune(field[2][0]), mod(field[1][0]), true, field[2][0] > 0
	}
	return 0, 0, false, false
}
