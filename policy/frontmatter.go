package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxFrontmatter bounds the front matter of an agent file, in bytes.
const maxFrontmatter = 256 << 10

// Agent is what the front matter of an agent file says about permission.
type Agent struct {
	// Name and Enabled are the fields of that name; Enabled is true unless the
	// file says false.
	Name    string
	Enabled bool
	// Permission is the "permission:" block, nil where there is none. It is used
	// as a restriction: whatever it allows, it can only take away.
	Permission *PolicyFile
	// Fields are the other top-level fields with a plain value, by name.
	Fields map[string]string
}

// ParseAgent reads the front matter of an agent's Markdown file. It understands
// the small part of YAML that such files use: maps by indentation, plain and
// quoted scalars, comments. Fields that it does not need it skips, whatever they
// hold; inside "permission:" everything else is a mistake, and each is reported
// with its position. A file without front matter restricts nothing.
func ParseAgent(name string, data []byte) (*Agent, error) {
	d := &document{name: name, data: data, starts: []int{0}}
	for i, c := range data {
		if c == '\n' {
			d.starts = append(d.starts, i+1)
		}
	}
	a := &Agent{Enabled: true, Fields: map[string]string{}}
	if !utf8.Valid(data) {
		d.problem(0, Problem{What: "the file is not UTF-8", Expected: "UTF-8 text"})
		return nil, d.err()
	}
	block, start, ok := frontmatter(data)
	if !ok {
		if start > 0 {
			d.problem(0, Problem{What: `front matter without an end`, Expected: `a line "---" after it`})
			return nil, d.err()
		}
		return a, nil
	}
	if len(block) > maxFrontmatter {
		d.problem(start, Problem{What: fmt.Sprintf("front matter of %d bytes", len(block)), Expected: fmt.Sprintf("at most %d", maxFrontmatter)})
		return nil, d.err()
	}
	r := yamlReader{doc: d, agent: a}
	r.lines(block, start)
	r.read()
	if err := d.err(); err != nil {
		return nil, err
	}
	if a.Permission != nil {
		a.Permission.set = newRuleset(a.Permission.Rules)
	}
	return a, nil
}

// frontmatter returns the text between the first line "---" and the next, and
// its offset. Without an end, start is above 0 and ok false.
func frontmatter(data []byte) (block []byte, start int, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if strings.TrimRight(string(first), " \t\r") != "---" {
		return nil, 0, false
	}
	start = len(first) + 1
	for off := 0; off <= len(rest); {
		line, _, more := bytes.Cut(rest[off:], []byte("\n"))
		if s := strings.TrimRight(string(line), " \t\r"); s == "---" || s == "..." {
			return rest[:off], start, true
		}
		if !more {
			break
		}
		off += len(line) + 1
	}
	return nil, start, false
}

type yamlLine struct {
	indent int
	text   string
	offset int // of text in the file
}

type yamlReader struct {
	doc   *document
	agent *Agent
	all   []yamlLine
}

func (r *yamlReader) lines(block []byte, start int) {
	off := start
	for line := range strings.Lines(string(block)) {
		text := strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimLeft(text, " ")
		if trimmed != "" && trimmed[0] != '#' {
			r.all = append(r.all, yamlLine{len(text) - len(trimmed), trimmed, off + len(text) - len(trimmed)})
		}
		off += len(line)
	}
}

func (r *yamlReader) problem(off int, what, expected, hint string) {
	r.doc.problem(off, Problem{What: what, Expected: expected, Hint: hint})
}

func (r *yamlReader) read() {
	seen := map[string]bool{}
	for i := 0; i < len(r.all); {
		l := r.all[i]
		end := i + 1
		for end < len(r.all) && r.all[end].indent > l.indent {
			end++
		}
		// A list may stand at the indentation of its key.
		for end < len(r.all) && strings.HasPrefix(r.all[end].text, "- ") && r.all[end].indent == l.indent {
			end++
		}
		key, val, valOff, ok := splitKey(l)
		body := r.all[i+1 : end]
		i = end
		if !ok || l.indent > 0 {
			continue // nothing that we know begins like this
		}
		if seen[key] && (key == "permission" || key == "enabled" || key == "name") {
			r.problem(l.offset, fmt.Sprintf("%q is there twice", key), "each name once", "")
			continue
		}
		seen[key] = true
		switch {
		case key == "permission":
			r.permission(l, val, valOff, body)
		case strings.EqualFold(key, "permission"), key == "permissions":
			r.problem(l.offset, fmt.Sprintf("unknown field %q", key), `"permission"`, "it would restrict nothing")
		case key == "enabled":
			switch v, _ := unquote(val); v {
			case "true":
			case "false":
				r.agent.Enabled = false
			default:
				r.problem(valOff, fmt.Sprintf("enabled: %q", v), "true or false", "")
			}
		default:
			if v, good := unquote(val); good && val != "" && len(body) == 0 {
				if key == "name" {
					r.agent.Name = v
				}
				r.agent.Fields[key] = v
			}
		}
	}
}

// permission reads the block into rules.
func (r *yamlReader) permission(l yamlLine, val string, valOff int, body []yamlLine) {
	f := &PolicyFile{Name: r.doc.name}
	r.agent.Permission = f
	if val != "" {
		// "permission: deny" speaks about everything.
		if a, ok := r.action(val, valOff); ok {
			f.Universal = &Rule{Surface: "*", Pattern: "*", Action: a, Origin: r.origin(l.offset)}
		}
		for _, b := range body {
			r.problem(b.offset, "a map below a plain value", "one of them", "")
		}
		return
	}
	if len(body) == 0 {
		r.problem(l.offset, `"permission" says nothing`, "surfaces with allow, ask or deny", "")
		return
	}
	var family, rules []Rule
	seen := map[string]bool{}
	indent := body[0].indent
	for i := 0; i < len(body); {
		s := body[i]
		end := i + 1
		for end < len(body) && body[end].indent > s.indent {
			end++
		}
		inner := body[i+1 : end]
		i = end
		surface, val, valOff, ok := splitKey(s)
		switch {
		case s.indent != indent:
			r.problem(s.offset, fmt.Sprintf("indented by %d", s.indent), fmt.Sprintf("%d as the surface before", indent), "")
			continue
		case !ok:
			r.problem(s.offset, fmt.Sprintf("%q", short(s.text)), "SURFACE: allow, ask or deny", "")
			continue
		case seen[surface]:
			r.problem(s.offset, fmt.Sprintf("%q is there twice", surface), "each name once", "")
			continue
		}
		seen[surface] = true
		if !r.checkSurface(surface, s.offset) {
			continue
		}
		var got []Rule
		if val != "" {
			a, ok := r.action(val, valOff)
			for _, b := range inner {
				r.problem(b.offset, "a map below a plain value", "one of them", "")
			}
			if !ok {
				continue
			}
			if surface == "*" {
				f.Universal = &Rule{Surface: "*", Pattern: "*", Action: a, Origin: r.origin(s.offset)}
				continue
			}
			got = []Rule{{Surface: surface, Pattern: "*", Action: a, Origin: r.origin(s.offset)}}
		} else {
			if surface == "*" {
				r.problem(s.offset, `patterns under "*"`, "allow, ask or deny: patterns need the name of a surface", "")
				continue
			}
			if len(inner) == 0 {
				r.problem(s.offset, fmt.Sprintf("%q says nothing", surface), "allow, ask or deny, or patterns", "")
			}
			got = r.patterns(surface, inner)
		}
		if surface != surfacePath {
			rules = append(rules, got...)
			continue
		}
		for _, rule := range got {
			for _, direction := range []string{surfacePathRead, surfacePathWrite} {
				rule.Surface = direction
				family = append(family, rule)
			}
		}
	}
	f.Rules = append(family, rules...)
}

func (r *yamlReader) patterns(surface string, body []yamlLine) []Rule {
	var out []Rule
	seen := map[string]bool{}
	for i := 0; i < len(body); {
		l := body[i]
		end := i + 1
		for end < len(body) && body[end].indent > l.indent {
			end++
		}
		inner := body[i+1 : end]
		i = end
		pattern, val, valOff, ok := splitKey(l)
		switch {
		case l.indent != body[0].indent:
			r.problem(l.offset, fmt.Sprintf("indented by %d", l.indent), fmt.Sprintf("%d as the pattern before", body[0].indent), "")
		case !ok:
			r.problem(l.offset, fmt.Sprintf("%q", short(l.text)), "PATTERN: allow, ask or deny", "a pattern that starts with * or & needs quotes")
		case pattern == "":
			r.problem(l.offset, "an empty pattern", `a pattern such as "git *"`, "")
		case len(pattern) > maxPattern:
			r.problem(l.offset, fmt.Sprintf("a pattern of %d bytes", len(pattern)), fmt.Sprintf("at most %d", maxPattern), "")
		case seen[pattern]:
			r.problem(l.offset, fmt.Sprintf("%q is there twice", pattern), "each pattern once", "")
		case val == "":
			rule := Rule{Surface: surface, Pattern: pattern, Action: Deny, Origin: r.origin(l.offset)}
			if r.deny(&rule, l, inner) {
				out = append(out, rule)
			}
		default:
			for _, b := range inner {
				r.problem(b.offset, "a map below a plain value", "one of them", "")
			}
			if a, ok := r.action(val, valOff); ok {
				out = append(out, Rule{Surface: surface, Pattern: pattern, Action: a, Origin: r.origin(l.offset)})
			}
		}
		seen[pattern] = true
	}
	return out
}

// deny reads "action: deny" and "reason: …".
func (r *yamlReader) deny(rule *Rule, l yamlLine, body []yamlLine) bool {
	action, good := false, true
	for _, b := range body {
		key, val, valOff, ok := splitKey(b)
		v, quoted := unquote(val)
		switch {
		case !ok || !quoted:
			r.problem(b.offset, fmt.Sprintf("%q", short(b.text)), "action: deny or reason: TEXT", "")
			good = false
		case key == "action" && v == "deny":
			action = true
		case key == "action":
			r.problem(valOff, fmt.Sprintf("%q", v), "deny: only a deny has a reason", "")
			good = false
		case key == "reason":
			if n := utf8.RuneCountInString(v); n > maxReason {
				r.problem(valOff, fmt.Sprintf("a reason of %d characters", n), fmt.Sprintf("at most %d", maxReason), "")
				good = false
			}
			rule.Reason = v
		default:
			r.problem(b.offset, fmt.Sprintf("unknown key %q", key), "action or reason", "")
			good = false
		}
	}
	if !action && good {
		r.problem(l.offset, fmt.Sprintf("pattern %q without an action", rule.Pattern), "allow, ask or deny", "")
		good = false
	}
	return good
}

func (r *yamlReader) action(val string, off int) (Action, bool) {
	v, ok := unquote(val)
	if ok {
		if a, err := ParseAction(v); err == nil {
			return a, true
		}
	}
	hint := ""
	if near := nearest(v, actionNames[:]); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	r.problem(off, fmt.Sprintf("%q", short(v)), "allow, ask or deny", hint)
	return Deny, false
}

func (r *yamlReader) origin(off int) Origin {
	line, column := r.doc.position(off)
	return Origin{Authority: "frontmatter", File: r.doc.name, Line: line, Column: column}
}

func (r *yamlReader) checkSurface(s string, off int) bool {
	what, expected, hint := surfaceProblem(s)
	if what == "" {
		return true
	}
	r.problem(off, what, expected, hint)
	return false
}

// splitKey takes "key: value" apart. A key with quotes is taken out of them; a
// plain key that YAML would read as something else is refused.
func splitKey(l yamlLine) (key, val string, valOff int, ok bool) {
	s := l.text
	rest := ""
	if s[0] == '"' || s[0] == '\'' {
		end := quotedEnd(s)
		if end < 0 {
			return "", "", 0, false
		}
		key, ok = unquote(s[:end])
		rest = strings.TrimLeft(s[end:], " ")
		if !ok || !strings.HasPrefix(rest, ":") {
			return "", "", 0, false
		}
		rest = rest[1:]
	} else {
		if strings.IndexByte("-?[]{}&*!|>%@`#,", s[0]) >= 0 && !(s[0] == '*' && (s == "*:" || strings.HasPrefix(s, "*: "))) {
			return "", "", 0, false
		}
		i := strings.Index(s, ": ")
		if i < 0 {
			if !strings.HasSuffix(s, ":") {
				return "", "", 0, false
			}
			i = len(s) - 1
		}
		key, rest = strings.TrimRight(s[:i], " "), s[i+1:]
		if strings.Contains(key, " #") {
			return "", "", 0, false
		}
	}
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return "", "", 0, false
	}
	val = strings.TrimLeft(rest, " \t")
	valOff = l.offset + len(s) - len(val)
	return key, stripComment(val), valOff, true
}

// stripComment cuts " # …" behind a value, outside of quotes.
func stripComment(val string) string {
	if val == "" || val[0] == '#' {
		return ""
	}
	from := 0
	if val[0] == '"' || val[0] == '\'' {
		if from = quotedEnd(val); from < 0 {
			return val
		}
	}
	if i := strings.Index(val[from:], " #"); i >= 0 {
		val = val[:from+i]
	}
	return strings.TrimRight(val, " \t")
}

// quotedEnd returns the offset behind the closing quote of a text that starts
// with one, -1 without.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[i] == s[0] && s[0] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return -1
}

// unquote returns the text of a scalar; false for what is no simple one.
func unquote(s string) (string, bool) {
	if s == "" {
		return "", true
	}
	switch s[0] {
	case '\'':
		if quotedEnd(s) != len(s) {
			return s, false
		}
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'"), true
	case '"':
		if quotedEnd(s) != len(s) {
			return s, false
		}
		var b strings.Builder
		for i := 1; i < len(s)-1; i++ {
			c := s[i]
			if c == '\\' {
				i++
				switch s[i] {
				case '"', '\\', '/':
					c = s[i]
				case 'n':
					c = '\n'
				case 't':
					c = '\t'
				default:
					return s, false
				}
			}
			b.WriteByte(c)
		}
		return b.String(), true
	}
	if slices.Contains([]byte("[]{}&*!|>%@`,"), s[0]) {
		return s, false
	}
	return s, true
}

func short(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
