package importer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// codex reads Codex's .rules files and its config.toml. Of all rules that match
// the strictest counts. An allow there means "outside of the sandbox, unasked";
// here it means unasked, inside.
func (b *builder) codex(files []File) error {
	b.final = true
	var byAction [3][]rule
	var tests []codexTest
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".toml") {
			if err := b.codexConfig(f); err != nil {
				return err
			}
			continue
		}
		calls, err := parseStarlark(f)
		if err != nil {
			return err
		}
		for _, c := range calls {
			switch c.name {
			case "prefix_rule":
				rules, more := b.codexPrefix(f.Name, c)
				for _, r := range rules {
					byAction[r.action] = append(byAction[r.action], r)
				}
				tests = append(tests, more...)
			case "network_rule":
				host, _ := c.arg("host", 0).(string)
				word, _ := c.arg("decision", 2).(string)
				a, ok := codexDecision(word)
				text := fmt.Sprintf("network_rule %s %s", host, word)
				if !ok || host == "" {
					b.note(f.Name, c.line, text, Dropped, "expected a host and allow, prompt or forbidden")
					continue
				}
				byAction[a] = append(byAction[a], rule{surface: "network", pattern: strings.ToLower(host), action: a, file: f.Name, line: c.line, text: text, exact: true})
			case "host_executable":
				name, _ := c.arg("name", 0).(string)
				b.note(f.Name, c.line, "host_executable "+name, Told, "a command is judged by its resolved program and by its name here")
			default:
				b.note(f.Name, c.line, c.name, Dropped, "not a rule that is known")
			}
		}
	}
	for _, a := range []policy.Action{policy.Allow, policy.Ask, policy.Deny} {
		for _, r := range byAction[a] {
			if a == policy.Allow {
				b.about(r, Narrowed, "allowed inside our sandbox, not outside of it")
			}
			b.add(r)
		}
	}
	// The rules' own examples are tests of the import.
	for _, t := range tests {
		r, ok := b.theirs("bash", t.command)
		if matched := ok && r.action <= t.action; t.match && !matched || !t.match && ok && r.line == t.line && r.file == t.file {
			b.note(t.file, t.line, t.command, Told, "the rule's own example does not hold: match %v", t.match)
		}
	}
	return nil
}

type codexTest struct {
	command, file string
	line          int
	match         bool
	action        policy.Action
}

func codexDecision(word string) (policy.Action, bool) {
	switch word {
	case "allow", "":
		return policy.Allow, true
	case "prompt":
		return policy.Ask, true
	case "forbidden", "deny":
		return policy.Deny, true
	}
	return policy.Deny, false
}

// maxAlternatives bounds what the alternatives of one rule multiply to.
const maxAlternatives = 256

func (b *builder) codexPrefix(file string, c call) ([]rule, []codexTest) {
	word, _ := c.arg("decision", 1).(string)
	action, ok := codexDecision(word)
	reason, _ := c.arg("justification", 2).(string)
	list, isList := c.arg("pattern", 0).([]any)
	text := "prefix_rule " + show(list) + " " + orWord(word, "allow")
	if !ok || !isList || len(list) == 0 {
		b.note(file, c.line, text, Dropped, "expected a list of words and allow, prompt or forbidden")
		return nil, nil
	}
	commands := []string{""}
	for _, e := range list {
		var words []string
		switch e := e.(type) {
		case string:
			words = []string{e}
		case []any:
			for _, alternative := range e {
				if s, ok := alternative.(string); ok {
					words = append(words, s)
				}
			}
		}
		if len(words) == 0 || len(words)*len(commands) > maxAlternatives {
			b.note(file, c.line, text, Dropped, "expected words or lists of words, together at most %d", maxAlternatives)
			return nil, nil
		}
		var next []string
		for _, c := range commands {
			for _, w := range words {
				next = append(next, strings.TrimPrefix(c+" "+w, " "))
			}
		}
		commands = next
	}
	var out []rule
	for _, command := range commands {
		if strings.ContainsAny(command, "*?\n\t'\"\\$`;&|<>(){}[]") || strings.Contains(command, "  ") {
			b.note(file, c.line, text, Dropped, "%q cannot be written as a pattern of words", command)
			continue
		}
		out = append(out, rule{surface: "bash", pattern: command + " *", action: action, reason: reason, file: file, line: c.line, text: text, exact: true})
	}
	var tests []codexTest
	for _, side := range []struct {
		name  string
		match bool
	}{{"match", true}, {"not_match", false}} {
		examples, _ := c.arg(side.name, -1).([]any)
		for _, e := range examples {
			command, ok := e.(string)
			if words, isList := e.([]any); isList {
				parts := make([]string, len(words))
				for i, w := range words {
					parts[i], _ = w.(string)
				}
				command, ok = strings.Join(parts, " "), true
			}
			if ok {
				tests = append(tests, codexTest{command, file, c.line, side.match, action})
			}
		}
	}
	return out, tests
}

func orWord(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func show(v any) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = show(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}

func (b *builder) codexConfig(f File) error {
	tables, err := parseTOML(f)
	if err != nil {
		return err
	}
	for _, t := range tables {
		switch t.name {
		case "":
			if v, line, ok := t.text("sandbox_mode"); ok {
				mode := map[string]policy.Mode{"read-only": policy.Supervised, "workspace-write": policy.AutoAcceptEdits, "danger-full-access": policy.FullAccess}[v]
				if mode == "" {
					b.note(f.Name, line, "sandbox_mode "+v, Dropped, "not a mode that is known")
				} else {
					b.res.Mode = mode
					b.note(f.Name, line, "sandbox_mode "+v, Narrowed, "mode %s: there commands run in the sandbox unasked, here they are asked", mode)
				}
			}
			if v, line, ok := t.text("approval_policy"); ok {
				b.note(f.Name, line, "approval_policy "+v, Told, "the mode says what is asked")
			}
		case "sandbox_workspace_write":
			for _, k := range t.keys {
				switch k.name {
				case "writable_roots":
					b.note(f.Name, k.line, "writable_roots "+show(k.value), Told, "give them to a session as extra roots; a policy opens no roots")
				case "network_access":
					b.note(f.Name, k.line, "network_access "+show(k.value), Told, "hosts that are open without a question are listed in the configuration")
				}
			}
		case "shell_environment_policy":
			b.note(f.Name, t.line, t.name, Told, "restricted sessions get a filtered environment")
		}
	}
	return nil
}

// call is one call of a .rules file with literal arguments.
type call struct {
	name       string
	line       int
	positional []any
	named      map[string]any
}

func (c call) arg(name string, place int) any {
	if v, ok := c.named[name]; ok {
		return v
	}
	if place >= 0 && place < len(c.positional) {
		return c.positional[place]
	}
	return nil
}

// parseStarlark reads the part of Starlark that rule files use: calls whose
// arguments are texts, numbers, True, False, None and lists of those.
func parseStarlark(f File) ([]call, error) {
	s := &starlark{file: f.Name, text: string(f.Data), line: 1}
	var out []call
	for {
		s.space(true)
		if s.pos >= len(s.text) {
			return out, nil
		}
		c := call{line: s.line, named: map[string]any{}}
		if c.name = s.word(); c.name == "" {
			return nil, s.fail("expected a call such as prefix_rule(…)")
		}
		s.space(false)
		if !s.take('(') {
			return nil, s.fail("expected ( behind " + c.name + ": only calls with literal arguments are read")
		}
		for {
			s.space(true)
			if s.take(')') {
				break
			}
			start := s.pos
			if name := s.word(); name != "" && name != "True" && name != "False" && name != "None" {
				s.space(true)
				if !s.take('=') {
					return nil, s.fail("expected = behind " + name)
				}
				s.space(true)
				v, err := s.value(0)
				if err != nil {
					return nil, err
				}
				c.named[name] = v
			} else {
				s.pos = start
				v, err := s.value(0)
				if err != nil {
					return nil, err
				}
				c.positional = append(c.positional, v)
			}
			s.space(true)
			if !s.take(',') {
				s.space(true)
				if !s.take(')') {
					return nil, s.fail("expected , or )")
				}
				break
			}
		}
		out = append(out, c)
	}
}

type starlark struct {
	file, text string
	pos, line  int
}

func (s *starlark) fail(what string) error { return fmt.Errorf("%s:%d: %s", s.file, s.line, what) }

func (s *starlark) space(lines bool) {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r' || c == ';':
			s.pos++
		case c == '\n' && lines:
			s.line++
			s.pos++
		case c == '#':
			for s.pos < len(s.text) && s.text[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

func (s *starlark) take(c byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *starlark) word() string {
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= '0' && c <= '9' && s.pos > start) {
			break
		}
		s.pos++
	}
	return s.text[start:s.pos]
}

func (s *starlark) value(depth int) (any, error) {
	if depth > 8 {
		return nil, s.fail("nested too deep")
	}
	if s.pos >= len(s.text) {
		return nil, s.fail("the file ends inside a call")
	}
	switch c := s.text[s.pos]; {
	case c == '"' || c == '\'':
		v, n, lines, ok := quoted(s.text[s.pos:])
		if !ok {
			return nil, s.fail("a text without its end")
		}
		s.pos += n
		s.line += lines
		return v, nil
	case c == '[' || c == '(':
		s.pos++
		end := byte(']')
		if c == '(' {
			end = ')'
		}
		list := []any{}
		for {
			s.space(true)
			if s.take(end) {
				return list, nil
			}
			v, err := s.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			s.space(true)
			if !s.take(',') {
				s.space(true)
				if !s.take(end) {
					return nil, s.fail("expected , or " + string(end))
				}
				return list, nil
			}
		}
	}
	start := s.pos
	for s.pos < len(s.text) && strings.IndexByte(",)] \t\r\n#", s.text[s.pos]) < 0 {
		s.pos++
	}
	switch w := s.text[start:s.pos]; w {
	case "True":
		return true, nil
	case "False":
		return false, nil
	case "None":
		return nil, nil
	default:
		if n, err := strconv.ParseInt(w, 10, 64); err == nil {
			return n, nil
		}
		return nil, s.fail(fmt.Sprintf("%q: only texts, numbers, True, False, None and lists are read", cut(w, 40)))
	}
}

// quoted reads a text in single, double or triple quotes.
func quoted(s string) (v string, n, lines int, ok bool) {
	q := s[:1]
	if len(s) >= 3 && s[1] == s[0] && s[2] == s[0] {
		q = s[:3]
	}
	var b strings.Builder
	for i := len(q); i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], q):
			return b.String(), i + len(q), lines, true
		case s[i] == '\\' && i+1 < len(s):
			switch c := s[i+1]; c {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case '\\', '\'', '"', '/':
				b.WriteByte(c)
			case '\n':
				lines++
			default:
				b.WriteString(s[i : i+2])
			}
			i += 2
		case s[i] == '\n' && len(q) == 1:
			return "", 0, 0, false
		default:
			if s[i] == '\n' {
				lines++
			}
			b.WriteByte(s[i])
			i++
		}
	}
	return "", 0, 0, false
}
