package seatbelt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// form is one form of a profile: a list, a symbol, a string or an expression (#"…").
type form struct {
	list []form
	kind rune // '(' list, 'a' symbol, '"' string, '#' expression
	text string
}

func (f form) head() string {
	if f.kind == '(' && len(f.list) > 0 && f.list[0].kind == 'a' {
		return f.list[0].text
	}
	return ""
}

// readProfile reads a whole text, so far as a profile uses the language. What is left over, not
// closed or not known is a failure.
func readProfile(t rapid.TB, text string) []form {
	t.Helper()
	forms, rest, err := readForms(text)
	if err == nil && rest != "" {
		err = fmt.Errorf("left over: %.60q", rest)
	}
	if err != nil {
		t.Fatalf("the profile cannot be read: %v\n%s", err, text)
	}
	return forms
}

func readForms(text string) (forms []form, rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \n")
		switch {
		case text == "" || text[0] == ')':
			return forms, text, nil
		case text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '(':
			list, after, err := readForms(text[1:])
			if err != nil {
				return nil, "", err
			}
			if after == "" {
				return nil, "", fmt.Errorf("not closed: %.60q", text)
			}
			forms, text = append(forms, form{kind: '(', list: list}), after[1:]
		case text[0] == '"' || strings.HasPrefix(text, `#"`):
			open := strings.IndexByte(text, '"') + 1
			length := strings.IndexByte(text[open:], '"')
			if length < 0 {
				return nil, "", fmt.Errorf("not closed: %.60q", text)
			}
			content := text[open : open+length]
			if text[0] == '"' && strings.Contains(content, `\`) {
				return nil, "", fmt.Errorf("a string with an escape: %.60q", text)
			}
			forms, text = append(forms, form{kind: rune(text[0]), text: content}), text[open+length+1:]
		default:
			length := strings.IndexAny(text, " \n()\";")
			if length <= 0 {
				return nil, "", fmt.Errorf("not a symbol: %.60q", text)
			}
			forms, text = append(forms, form{kind: 'a', text: text[:length]}), text[length:]
		}
	}
}

// judge decides as the documentation of the language says: of the rules for an operation
// the last whose filters match.
type judge struct {
	t      rapid.TB
	rules  []form
	params map[string]string
}

func newJudge(t rapid.TB, r Rules) *judge {
	t.Helper()
	p, err := r.Profile()
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{t: t, params: map[string]string{}}
	for _, param := range p.Params {
		if _, twice := j.params[param.Name]; twice {
			t.Errorf("parameter %s is set twice", param.Name)
		}
		j.params[param.Name] = param.Value
	}
	j.rules = readProfile(t, p.Text)
	return j
}

// act is an operation on a path, or on an address for the network.
type act struct {
	operation string
	path      string
	directory bool
	address   string // "tcp localhost:80", "unix"
}

func (j *judge) allows(a act) bool {
	j.t.Helper()
	allowed, decided := false, false
	for _, rule := range j.rules {
		verb := rule.head()
		if verb != "allow" && verb != "deny" {
			continue
		}
		named, filters := false, []form(nil)
		for _, f := range rule.list[1:] {
			if f.kind != 'a' {
				filters = append(filters, f)
				continue
			}
			prefix, all := strings.CutSuffix(f.text, "*")
			named = named || f.text == "default" || f.text == a.operation || all && strings.HasPrefix(a.operation, prefix)
		}
		if named && (len(filters) == 0 || slices.ContainsFunc(filters, func(f form) bool { return j.matches(f, a) })) {
			allowed, decided = verb == "allow", true
		}
	}
	if !decided {
		j.t.Fatalf("no rule decides %+v", a)
	}
	return allowed
}

func (j *judge) matches(f form, a act) bool {
	j.t.Helper()
	rest := f.list[1:]
	switch f.head() {
	case "require-all":
		return !slices.ContainsFunc(rest, func(f form) bool { return !j.matches(f, a) })
	case "require-any":
		return slices.ContainsFunc(rest, func(f form) bool { return j.matches(f, a) })
	case "literal":
		return a.path == j.value(rest[0])
	case "subpath":
		return a.path != "" && within(a.path, j.value(rest[0]))
	case "regex":
		return a.path != "" && regexp.MustCompile(rest[0].text).MatchString(a.path)
	case "vnode-type":
		return a.directory && rest[0].text == "DIRECTORY"
	case "remote", "local":
		return j.reaches(rest, a)
	case "target", "sysctl-name", "sysctl-name-prefix", "global-name", "ipc-posix-name":
		return false // none of the acts that are asked about
	}
	j.t.Fatalf("unknown filter %q", f.head())
	return false
}

func (j *judge) reaches(rest []form, a act) bool {
	protocol, address, _ := strings.Cut(a.address, " ")
	if rest[0].text == "unix-socket" {
		return protocol == "unix" && (len(rest) == 1 || j.matches(rest[1], a))
	}
	if protocol == "unix" || protocol == "" || rest[0].text != "ip" && rest[0].text != protocol {
		return false
	}
	if len(rest) == 1 {
		return true
	}
	host, port, _ := strings.Cut(rest[1].text, ":")
	atHost, atPort, _ := strings.Cut(address, ":")
	return (host == "*" || host == atHost) && (port == "*" || port == atPort)
}

func (j *judge) value(f form) string {
	j.t.Helper()
	if f.head() == "param" {
		value, ok := j.params[f.list[1].text]
		if !ok {
			j.t.Fatalf("parameter %q has no value", f.list[1].text)
		}
		return value
	}
	return f.text
}
