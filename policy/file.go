package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	surfaceBash      = "bash"
	surfaceMCP       = "mcp"
	surfaceSkill     = "skill"
	surfaceNetwork   = "network"
	surfaceTask      = "task"
	surfacePath      = "path"
	surfacePathRead  = "path_read"
	surfacePathWrite = "path_write"

	// maxRules bounds the rules of one file.
	maxRules = 100_000
	// maxReason bounds the reason of a deny, in characters.
	maxReason = 500
)

// knownSurfaces are the surfaces that have a meaning of their own; every other
// name is the name of a tool.
var knownSurfaces = []string{
	surfaceBash, surfaceMCP, surfaceSkill, surfaceNetwork, surfaceTask, surfacePath, surfacePathRead, surfacePathWrite,
	"read", "write", "edit", "find", "grep", "ls",
}

func isPathSurface(s string) bool {
	return s == surfacePath || s == surfacePathRead || s == surfacePathWrite || s == "read" || s == "write" || s == "edit" ||
		s == "find" || s == "grep" || s == "ls"
}

// PolicyFile is a policy as it was written: rules in the order of the file, each
// with its position. The surface "path" is written out as its two directions.
type PolicyFile struct {
	Name string
	// Rules are those that name a surface.
	Rules []Rule
	// Universal is the rule "*", nil where the file has none. It counts only
	// where no mode was chosen.
	Universal *Rule

	set *ruleset
}

// ParsePolicy reads a policy file:
//
//	{"permission": {SURFACE: ACTION | {PATTERN: ACTION | {"action": "deny", "reason": TEXT}}}}
//
// It is JSON with comments. Every mistake is reported at once, each with its
// position, and nothing of a file with a mistake is returned.
func ParsePolicy(name string, data []byte) (*PolicyFile, error) {
	d, root := parseDocument(name, data)
	if root == nil {
		return nil, d.err()
	}
	f := &PolicyFile{Name: name}
	for _, m := range root.members("an object with \"permission\"") {
		switch m.name {
		case "$schema":
			m.value.text("the address of a schema")
		case "permission":
			f.read(m.value, "policy", "allow, ask or deny")
		default:
			m.unknown("permission", "$schema")
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	f.set = newRuleset(f.Rules)
	return f, nil
}

// ruleset returns the rules made ready for questions. Parsing has done it; a file
// that was put together by hand is compiled each time.
func (f *PolicyFile) ruleset() *ruleset {
	if f.set != nil {
		return f.set
	}
	return newRuleset(f.Rules)
}

// NeedsHome says whether a rule starts with ~ or $HOME: then the home directory
// has to be known before the file can be used in full.
func (f *PolicyFile) NeedsHome() (Rule, bool) {
	if f != nil {
		for _, r := range f.Rules {
			if homePrefix(r.Pattern) > 0 {
				return r, true
			}
		}
	}
	return Rule{}, false
}

// read takes the surfaces of a permission block.
func (f *PolicyFile) read(v value, authority, actions string) {
	// A family is written out before the explicit directions, wherever it stands,
	// so that of equal rules the explicit one is the later.
	var family, rules []Rule
	for _, m := range v.members("an object of surfaces") {
		if !checkSurface(m) {
			continue
		}
		if m.name == "*" {
			if m.value.kind() == '{' {
				m.value.problem(`patterns under "*"`, actions+": patterns need the name of a surface", "")
				continue
			}
			if a, ok := readAction(m.value, actions); ok && f.allowed(m.value, a, actions) {
				f.Universal = &Rule{Surface: "*", Pattern: "*", Action: a, Origin: m.key.origin(authority)}
			}
			continue
		}
		got := f.readSurface(m, authority, actions)
		if len(family)+len(rules)+len(got) > maxRules {
			m.key.problem("too many rules", fmt.Sprintf("at most %d", maxRules), "")
			return
		}
		if m.name != surfacePath {
			rules = append(rules, got...)
			continue
		}
		for _, r := range got {
			for _, direction := range []string{surfacePathRead, surfacePathWrite} {
				r.Surface = direction
				family = append(family, r)
			}
		}
	}
	f.Rules = slices.Concat(f.Rules, family, rules)
}

// allowed says whether the action is among those that this file may use.
func (f *PolicyFile) allowed(v value, a Action, actions string) bool {
	if strings.Contains(actions, a.String()) {
		return true
	}
	v.problem(fmt.Sprintf("%q", a), actions, "")
	return false
}

func (f *PolicyFile) readSurface(m member, authority, actions string) []Rule {
	if m.value.kind() != '{' {
		a, ok := readAction(m.value, actions+", or an object of patterns")
		if !ok || !f.allowed(m.value, a, actions) {
			return nil
		}
		return []Rule{{Surface: m.name, Pattern: "*", Action: a, Origin: m.key.origin(authority)}}
	}
	var out []Rule
	for _, p := range m.value.members("") {
		if !checkPattern(p.key, p.name) {
			continue
		}
		r := Rule{Surface: m.name, Pattern: p.name, Origin: p.key.origin(authority)}
		ok := false
		if p.value.kind() == '{' {
			r.Action, r.Reason, ok = readDeny(p.value)
		} else if r.Action, ok = readAction(p.value, actions+` or {"action": "deny", "reason": …}`); ok {
			ok = f.allowed(p.value, r.Action, actions)
		}
		if ok {
			out = append(out, r)
		}
	}
	return out
}

// readDeny reads {"action": "deny", "reason": …}.
func readDeny(v value) (Action, string, bool) {
	reason, seen := "", false
	ok := true
	for _, m := range v.members("") {
		switch m.name {
		case "action":
			seen = true
			if a, good := readAction(m.value, "deny: only a deny has a reason"); !good {
				ok = false
			} else if a != Deny {
				m.value.problem(fmt.Sprintf("%q", a), "deny: only a deny has a reason", "")
				ok = false
			}
		case "reason":
			s, good := m.value.text("a text")
			if n := utf8.RuneCountInString(s); n > maxReason {
				m.value.problem(fmt.Sprintf("a reason of %d characters", n), fmt.Sprintf("at most %d", maxReason), "")
				good = false
			}
			reason, ok = s, ok && good
		default:
			m.unknown("action", "reason")
			ok = false
		}
	}
	if !seen && ok {
		v.problem(`an object without "action"`, `{"action": "deny", "reason": …}`, "")
		ok = false
	}
	return Deny, reason, ok
}

// checkSurface reports names that would never match what the author meant.
func checkSurface(m member) bool {
	what, expected, hint := surfaceProblem(m.name)
	if what == "" {
		return true
	}
	m.key.problem(what, expected, hint)
	return false
}

// surfaceProblem says what is wrong with the name of a surface, "" for nothing.
func surfaceProblem(s string) (what, expected, hint string) {
	named := fmt.Sprintf("surface %q", s)
	switch {
	case s == "":
		return "an empty surface", "the name of a surface such as \"bash\"", ""
	case len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return named, "a name of at most 256 characters without spaces", ""
	case s != "*" && strings.Trim(s, "*?") == "":
		return named, `"*" for every surface`, ""
	case s == "external_directory" || strings.HasPrefix(s, "external_directory_"):
		return named, `rules on "path", "path_read" or "path_write"`, "paths outside the workspace are judged by the same rules as those inside"
	case misspeltPath(s) != "":
		return named, "path, path_read or path_write", fmt.Sprintf("did you mean %q?", misspeltPath(s))
	}
	for _, known := range knownSurfaces {
		if s != known && strings.EqualFold(s, known) {
			return named, fmt.Sprintf("%q: case counts", known), ""
		}
	}
	return "", "", ""
}

// misspeltPath returns the path surface that a name was meant to be, "" if it is
// one or is something else.
func misspeltPath(s string) string {
	low := strings.ReplaceAll(strings.ToLower(s), "-", "_")
	if slices.Contains(knownSurfaces, s) || !strings.HasPrefix(low, surfacePath) || strings.ContainsAny(s, "*?") {
		return ""
	}
	near := nearest(low, []string{surfacePath, surfacePathRead, surfacePathWrite})
	if near == "" && strings.HasPrefix(low, "path_") {
		near = surfacePath
	}
	return near
}

// CheckSurface says whether the name can stand as a surface in a policy.
func CheckSurface(name string) error {
	what, expected, hint := surfaceProblem(name)
	switch {
	case what == "":
		return nil
	case hint != "":
		return fmt.Errorf("%s, expected %s (%s)", what, expected, hint)
	}
	return fmt.Errorf("%s, expected %s", what, expected)
}
