package importer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner reads literals as Starlark and TOML write them.
type scanner struct {
	im   *importing
	data string
	pos  int
}

func (s *scanner) fail(offset int, format string, args ...any) error {
	at := s.im.at(offset)
	return fmt.Errorf("%s:%d:%d: %s", at.file, at.line, at.column, fmt.Sprintf(format, args...))
}

func (s *scanner) end() bool { return s.pos >= len(s.data) }

func (s *scanner) peek() byte {
	if s.end() {
		return 0
	}
	return s.data[s.pos]
}

// skip goes over white space and comments; over ends of lines only if they mean
// nothing here.
func (s *scanner) skip(lines bool) {
	for !s.end() {
		switch c := s.data[s.pos]; {
		case c == '#':
			for !s.end() && s.data[s.pos] != '\n' {
				s.pos++
			}
		case c == ' ' || c == '\t' || c == '\r' || lines && c == '\n':
			s.pos++
		default:
			return
		}
	}
}

// name reads an identifier, "" where there is none.
func (s *scanner) name() string {
	start := s.pos
	for !s.end() {
		c := s.data[s.pos]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c >= '0' && c <= '9' {
			s.pos++
			continue
		}
		break
	}
	return s.data[start:s.pos]
}

// text reads a string in one or three quotes of either kind. In raw kinds a
// backslash is a backslash.
func (s *scanner) text(raw byte) (string, error) {
	start := s.pos
	quote := s.data[s.pos]
	mark := string(quote)
	if strings.HasPrefix(s.data[s.pos:], strings.Repeat(mark, 3)) {
		mark = strings.Repeat(mark, 3)
	}
	s.pos += len(mark)
	var b strings.Builder
	if len(mark) == 3 && strings.HasPrefix(s.data[s.pos:], "\n") && raw != 0 {
		s.pos++ // TOML leaves out the first end of line
	}
	for {
		if s.end() {
			return "", s.fail(start, "a string without an end, expected %s", mark)
		}
		if strings.HasPrefix(s.data[s.pos:], mark) {
			s.pos += len(mark)
			return b.String(), nil
		}
		c := s.data[s.pos]
		switch {
		case c == '\n' && len(mark) == 1:
			return "", s.fail(start, "a string without an end on its line, expected %s", mark)
		case c == '\\' && quote != raw:
			s.pos++
			if err := s.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
}

func (s *scanner) escape(b *strings.Builder) error {
	at := s.pos - 1
	if s.end() {
		return s.fail(at, `a backslash at the end`)
	}
	c := s.data[s.pos]
	s.pos++
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case strings.IndexByte(`\"'/`, c) >= 0:
		b.WriteByte(c)
	case c == 'n':
		b.WriteByte('\n')
	case c == 't':
		b.WriteByte('\t')
	case c == 'r':
		b.WriteByte('\r')
	case c == '\n':
		for !s.end() && strings.IndexByte(" \t\n", s.data[s.pos]) >= 0 {
			s.pos++
		}
	case digits > 0:
		if s.pos+digits > len(s.data) {
			return s.fail(at, `an escape without its digits`)
		}
		n, err := strconv.ParseUint(s.data[s.pos:s.pos+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return s.fail(at, `the escape \%c%s, expected a character`, c, s.data[s.pos:s.pos+digits])
		}
		b.WriteRune(rune(n))
		s.pos += digits
	default:
		return s.fail(at, `the escape \%c, expected one of \\ \" \n \t \r \x \u`, c)
	}
	return nil
}

// literal is a value: text, number, boolean, list or table.
type literal struct {
	offset int
	kind   byte // 's', 'n', 'b', 'l', 't'
	text   string
	number int
	yes    bool
	list   []literal
	table  map[string]literal
}

// texts returns a text or a list of texts as a list.
func (l literal) texts() ([]string, bool) {
	switch l.kind {
	case 's':
		return []string{l.text}, true
	case 'l':
		var out []string
		for _, e := range l.list {
			if e.kind != 's' {
				return nil, false
			}
			out = append(out, e.text)
		}
		return out, true
	}
	return nil, false
}

// value reads a literal. raw is the quote whose strings know no escapes, 0 for
// none.
func (s *scanner) value(raw byte, depth int) (literal, error) {
	if depth > maxDepth {
		return literal{}, s.fail(s.pos, "more than %d levels of nesting", maxDepth)
	}
	l := literal{offset: s.pos}
	switch c := s.peek(); {
	case c == '"' || c == '\'':
		text, err := s.text(raw)
		l.kind, l.text = 's', text
		return l, err
	case c == '[' || c == '(':
		l.kind = 'l'
		closing := map[byte]byte{'[': ']', '(': ')'}[c]
		s.pos++
		for {
			s.skip(true)
			if s.peek() == closing {
				s.pos++
				return l, nil
			}
			e, err := s.value(raw, depth+1)
			if err != nil {
				return l, err
			}
			l.list = append(l.list, e)
			s.skip(true)
			if s.peek() == ',' {
				s.pos++
			} else if s.peek() != closing {
				return l, s.fail(s.pos, "expected , or %c", closing)
			}
		}
	case c == '{':
		l.kind, l.table = 't', map[string]literal{}
		s.pos++
		for {
			s.skip(true)
			if s.peek() == '}' {
				s.pos++
				return l, nil
			}
			key, err := s.key(raw)
			if err != nil {
				return l, err
			}
			s.skip(true)
			if c := s.peek(); c != '=' && c != ':' {
				return l, s.fail(s.pos, "expected = behind %q", key)
			}
			s.pos++
			s.skip(true)
			e, err := s.value(raw, depth+1)
			if err != nil {
				return l, err
			}
			l.table[key] = e
			s.skip(true)
			if s.peek() == ',' {
				s.pos++
			} else if s.peek() != '}' {
				return l, s.fail(s.pos, "expected , or }")
			}
		}
	}
	start := s.pos
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	word := s.name()
	switch {
	case word == "true" || word == "True":
		l.kind, l.yes = 'b', true
	case word == "false" || word == "False":
		l.kind = 'b'
	default:
		n, err := strconv.Atoi(strings.ReplaceAll(s.data[start:s.pos], "_", ""))
		if err != nil {
			return l, s.fail(start, "expected a literal: a string, a list, a whole number, true or false")
		}
		l.kind, l.number = 'n', n
	}
	return l, nil
}

// key reads a name, bare or in quotes.
func (s *scanner) key(raw byte) (string, error) {
	if c := s.peek(); c == '"' || c == '\'' {
		return s.text(raw)
	}
	start := s.pos
	key := s.name()
	if key == "" {
		return "", s.fail(start, "expected a name")
	}
	return key, nil
}
