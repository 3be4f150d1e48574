package importer

import (
	"fmt"
	"strconv"
	"strings"
)

// table is one table of a TOML file in the order of the file; the first has no
// name.
type table struct {
	name  string
	line  int
	array bool
	keys  []tomlKey
}

type tomlKey struct {
	name  string
	line  int
	value any // string, int64, bool or []any
}

func (t table) get(name string) (any, int, bool) {
	for _, k := range t.keys {
		if k.name == name {
			return k.value, k.line, true
		}
	}
	return nil, 0, false
}

func (t table) text(name string) (string, int, bool) {
	v, line, _ := t.get(name)
	s, ok := v.(string)
	return s, line, ok
}

// texts returns a list of texts; one text is a list of one.
func (t table) texts(name string) []string {
	v, _, _ := t.get(name)
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// parseTOML reads the part of TOML that such settings use: tables, arrays of
// tables, and keys with texts, whole numbers, booleans and arrays. A value that
// it does not read (a date, a float, an inline table) is kept as its text in a
// value of type unread.
func parseTOML(f File) ([]table, error) {
	s := &starlark{file: f.Name, text: string(f.Data), line: 1}
	out := []table{{line: 1}}
	for {
		s.space(true)
		if s.pos >= len(s.text) {
			return out, nil
		}
		if s.take('[') {
			t := table{line: s.line, array: s.take('[')}
			end := strings.IndexAny(s.text[s.pos:], "]\n")
			if end < 0 || s.text[s.pos+end] != ']' {
				return nil, s.fail("a table without ]")
			}
			t.name = strings.TrimSpace(s.text[s.pos : s.pos+end])
			s.pos += end + 1
			if t.array && !s.take(']') {
				return nil, s.fail("an array of tables without ]]")
			}
			if t.name == "" {
				return nil, s.fail("a table without a name")
			}
			out = append(out, t)
			if err := s.endOfLine(); err != nil {
				return nil, err
			}
			continue
		}
		k := tomlKey{line: s.line}
		if c := s.text[s.pos]; c == '"' || c == '\'' {
			name, n, _, ok := quoted(s.text[s.pos:])
			if !ok {
				return nil, s.fail("a key without its closing quote")
			}
			k.name = name
			s.pos += n
		} else {
			end := strings.IndexAny(s.text[s.pos:], "=\n")
			if end < 0 || s.text[s.pos+end] != '=' {
				return nil, s.fail("expected KEY = VALUE")
			}
			k.name = strings.TrimSpace(s.text[s.pos : s.pos+end])
			s.pos += end
		}
		s.space(false)
		if !s.take('=') || k.name == "" {
			return nil, s.fail("expected KEY = VALUE")
		}
		s.space(false)
		v, err := s.tomlValue(0)
		if err != nil {
			return nil, err
		}
		k.value = v
		last := &out[len(out)-1]
		last.keys = append(last.keys, k)
		if err := s.endOfLine(); err != nil {
			return nil, err
		}
	}
}

type unread string

func (s *starlark) endOfLine() error {
	s.space(false)
	if s.pos < len(s.text) && s.text[s.pos] != '\n' {
		return s.fail(fmt.Sprintf("%q behind the value", cut(strings.SplitN(s.text[s.pos:], "\n", 2)[0], 40)))
	}
	return nil
}

func (s *starlark) tomlValue(depth int) (any, error) {
	if depth > 8 {
		return nil, s.fail("nested too deep")
	}
	if s.pos >= len(s.text) {
		return nil, s.fail("the file ends before a value")
	}
	switch c := s.text[s.pos]; {
	case c == '\'':
		// A literal text knows no escapes.
		q := "'"
		if strings.HasPrefix(s.text[s.pos:], "'''") {
			q = "'''"
		}
		body := s.text[s.pos+len(q):]
		end := strings.Index(body, q)
		if end < 0 || len(q) == 1 && strings.Contains(body[:end], "\n") {
			return nil, s.fail("a text without its end")
		}
		s.pos += end + 2*len(q)
		s.line += strings.Count(body[:end], "\n")
		return body[:end], nil
	case c == '"':
		v, n, lines, ok := quoted(s.text[s.pos:])
		if !ok {
			return nil, s.fail("a text without its end")
		}
		s.pos += n
		s.line += lines
		return v, nil
	case c == '[':
		s.pos++
		list := []any{}
		for {
			s.space(true)
			if s.take(']') {
				return list, nil
			}
			v, err := s.tomlValue(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			s.space(true)
			if !s.take(',') {
				s.space(true)
				if !s.take(']') {
					return nil, s.fail("expected , or ]")
				}
				return list, nil
			}
		}
	case c == '{':
		end := strings.IndexAny(s.text[s.pos:], "}\n")
		if end < 0 || s.text[s.pos+end] != '}' {
			return nil, s.fail("an inline table without }")
		}
		v := unread(s.text[s.pos : s.pos+end+1])
		s.pos += end + 1
		return v, nil
	}
	start := s.pos
	for s.pos < len(s.text) && strings.IndexByte(",] \t\r\n#", s.text[s.pos]) < 0 {
		s.pos++
	}
	switch w := s.text[start:s.pos]; w {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "":
		return nil, s.fail("expected a value")
	default:
		if n, err := strconv.ParseInt(strings.ReplaceAll(w, "_", ""), 10, 64); err == nil {
			return n, nil
		}
		return unread(w), nil
	}
}
