package policy

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Edit is a policy file with one more rule.
type Edit struct {
	// Text is the whole new file.
	Text []byte
	// Line is the text that a human is shown before it is written, and Number
	// where it stands in the new file.
	Line   string
	Number int
}

// AddRule puts one rule into a policy file, in place: comments, order and layout
// of the rest stay as they are. Where the surface has a rule of exactly this
// pattern its action is replaced. A file that is no valid policy is not touched,
// and neither is one in which the new rule would not be what it says; then the
// error tells why.
//
// Empty data stands for no file.
func AddRule(name string, data []byte, surface, pattern string, action Action) (Edit, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{\n  \"permission\": {}\n}\n")
	}
	before, err := ParsePolicy(name, data)
	if err != nil {
		return Edit{}, err
	}
	if what, expected, _ := surfaceProblem(surface); what != "" || strings.ContainsAny(surface, "*?") {
		return Edit{}, fmt.Errorf("cannot add a rule for surface %q, expected %s", surface, or(expected, "the name of one surface"))
	}
	if pattern == "" || len(pattern) > maxPattern || strings.ContainsRune(pattern, 0) || !utf8.ValidString(pattern) || !utf8.ValidString(surface) {
		return Edit{}, fmt.Errorf("cannot add pattern %q for surface %q, expected UTF-8 text of 1 to %d bytes without NUL", short(pattern), surface, maxPattern)
	}
	if _, err := action.MarshalText(); err != nil {
		return Edit{}, err
	}
	root, err := hujson.Parse(data)
	if err != nil {
		return Edit{}, err
	}
	top := root.Value.(*hujson.Object)
	permission := find(top, "permission")
	if permission == nil {
		insert(top, "permission", &hujson.Object{}, data)
		permission = find(top, "permission")
	}
	block := permission.Value.(*hujson.Object)
	rules := find(block, surface)
	switch {
	case rules == nil:
		insert(block, surface, &hujson.Object{}, data)
		rules = find(block, surface)
	case rules.Value.Kind() == '"':
		// "bash": "ask" becomes {"*": "ask"} and has room for a second rule.
		star := &hujson.Object{}
		star.Members = append(star.Members, hujson.ObjectMember{
			Name:  hujson.Value{Value: hujson.String("*")},
			Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: rules.Value},
		})
		rules.Value = star
	}
	list := rules.Value.(*hujson.Object)
	word := hujson.String(action.String())
	if old := find(list, pattern); old != nil {
		old.Value = word
	} else {
		insert(list, pattern, word, data)
	}
	out := Edit{Text: root.Pack()}
	after, err := ParsePolicy(name, out.Text)
	if err != nil {
		return Edit{}, fmt.Errorf("the edited file would not be valid: %w", err)
	}
	if err := sameBut(before, after, surface, pattern, action); err != nil {
		return Edit{}, err
	}
	for _, r := range after.Rules {
		if r.Pattern == pattern && (r.Surface == surface || surface == surfacePath && r.Surface == surfacePathRead) {
			out.Number = r.Origin.Line
		}
	}
	lines := strings.Split(string(out.Text), "\n")
	if out.Number > 0 && out.Number <= len(lines) {
		out.Line = strings.TrimSpace(lines[out.Number-1])
	}
	return out, nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// sameBut checks that the edit changed the one rule and nothing else.
func sameBut(before, after *PolicyFile, surface, pattern string, action Action) error {
	type key struct{ surface, pattern string }
	collect := func(f *PolicyFile) map[key]Action {
		m := map[key]Action{}
		for _, r := range f.Rules {
			k := key{r.Surface, r.Pattern}
			if a, there := m[k]; !there || r.Action < a {
				m[k] = r.Action
			}
		}
		return m
	}
	want := collect(before)
	targets := []string{surface}
	if surface == surfacePath {
		targets = []string{surfacePathRead, surfacePathWrite}
	}
	got := collect(after)
	for _, s := range targets {
		k := key{s, pattern}
		if got[k] != action {
			return fmt.Errorf("another rule for %s %q says %s, so the new one would not count", s, pattern, got[k])
		}
		want[k] = action
	}
	if len(want) != len(got) {
		return fmt.Errorf("the edit would change other rules")
	}
	for k, a := range want {
		if got[k] != a {
			return fmt.Errorf("the edit would change the rule %s %q", k.surface, k.pattern)
		}
	}
	if (before.Universal == nil) != (after.Universal == nil) || before.Universal != nil && before.Universal.Action != after.Universal.Action {
		return fmt.Errorf("the edit would change the rule \"*\"")
	}
	return nil
}

func find(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if lit, ok := o.Members[i].Name.Value.(hujson.Literal); ok && lit.String() == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// insert puts a member at the end of an object, laid out as the last one is.
func insert(o *hujson.Object, name string, v hujson.ValueTrimmed, data []byte) {
	m := hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: v},
	}
	if n := len(o.Members); n > 0 {
		last := &o.Members[n-1]
		// Comments of the last member stay behind it, the new one starts on a line
		// of its own if the last one did.
		space := lastLine(last.Name.BeforeExtra)
		tail := last.Value.AfterExtra
		if tail == nil && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
			m.Name.BeforeExtra = space
			if len(space) == 0 && n > 0 {
				m.Name.BeforeExtra = hujson.Extra(" ")
			}
			o.Members = append(o.Members, m)
			return
		}
		if tail != nil {
			// There was a trailing comma; what follows it is in the object's tail.
			// Keep it, so that the next edit is one line as well.
			m.Value.AfterExtra = hujson.Extra{}
		}
		// A comment on the line of the last member belongs to it.
		line, rest := firstLine(o.AfterExtra)
		if len(line) > 0 {
			m.Name.BeforeExtra = append(append(hujson.Extra{}, line...), space...)
		} else {
			m.Name.BeforeExtra = append(append(hujson.Extra{}, trimLast(rest)...), space...)
			rest = rest[len(trimLast(rest)):]
		}
		if len(line) == 0 && tail == nil {
			// Comments of their own lines before the brace stay above the new rule.
			m.Name.BeforeExtra = append(append(hujson.Extra{}, trimLast(o.AfterExtra)...), space...)
			rest = o.AfterExtra[len(trimLast(o.AfterExtra)):]
		}
		o.AfterExtra = rest
		o.Members = append(o.Members, m)
		return
	}
	// An empty object: one level deeper than its closing brace.
	if bytes.Contains(o.AfterExtra, []byte("\n")) {
		close := lastLine(o.AfterExtra)
		m.Name.BeforeExtra = append(append(hujson.Extra{}, trimLast(o.AfterExtra)...), append(close[:len(close):len(close)], indentUnit(data)...)...)
		o.AfterExtra = close
	} else if len(bytes.TrimSpace(o.AfterExtra)) > 0 {
		m.Name.BeforeExtra, o.AfterExtra = o.AfterExtra, nil
	}
	o.Members = append(o.Members, m)
}

// lastLine returns the last line break of an extra and the white space behind
// it, or its trailing white space where there is no line break.
func lastLine(e hujson.Extra) hujson.Extra {
	i := bytes.LastIndexByte(e, '\n')
	if i < 0 {
		i = len(bytes.TrimRight(e, " \t\r"))
	}
	if len(bytes.TrimSpace(e[i:])) > 0 {
		return nil
	}
	return bytes.Clone(e[i:])
}

// trimLast cuts what lastLine returns.
func trimLast(e hujson.Extra) hujson.Extra { return e[:len(e)-len(lastLine(e))] }

// firstLine parts an extra at its first line break, if there is a comment before
// it.
func firstLine(e hujson.Extra) (line, rest hujson.Extra) {
	i := bytes.IndexByte(e, '\n')
	if i < 0 || len(bytes.TrimSpace(e[:i])) == 0 {
		return nil, e
	}
	return e[:i], e[i:]
}

// indentUnit is the white space of the first indented line.
func indentUnit(data []byte) []byte {
	for line := range bytes.Lines(data) {
		if n := len(line) - len(bytes.TrimLeft(line, " \t")); n > 0 && n < len(line) {
			return line[:n]
		}
	}
	return []byte("  ")
}
