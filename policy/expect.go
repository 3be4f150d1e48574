package policy

import (
	"fmt"
	"strings"
)

// Expectations is a table that a user keeps beside the policy: questions, each
// with the verdict that it has to get.
type Expectations struct {
	Name string
	// Mode, Workspace, Cwd and Home are what the questions are asked under; Mode
	// "" means that nothing was selected.
	Mode                 Mode
	Workspace, Cwd, Home string
	Rows                 []Expectation
}

// Expectation is one row.
type Expectation struct {
	Question
	Verdict Action
	// Rule and Authority, unless "", have to be what decided.
	Rule, Authority string
	Origin          Origin
}

// Failure is a row that did not get what it expects.
type Failure struct {
	Expectation Expectation
	Got         Verdict
	// What says what differs.
	What string
}

// String returns "file:line:column: what".
func (f Failure) String() string { return fmt.Sprintf("%s: %s", f.Expectation.Origin, f.What) }

// ParseExpectations reads a table of expectations:
//
//	{"mode": "supervised", "workspace": "/w", "cwd": "/w", "home": "/home/u",
//	 "expect": [{"surface": "bash", "value": "git push", "verdict": "deny", "rule": "git push *"}, …]}
//
// Mistakes are reported like those of a policy.
func ParseExpectations(name string, data []byte) (*Expectations, error) {
	d, root := parseDocument(name, data)
	if root == nil {
		return nil, d.err()
	}
	e := &Expectations{Name: name, Workspace: "/work", Cwd: "/work", Home: "/home/user"}
	cwdSet := false
	absolute := func(m member) string {
		s, ok := m.value.text("an absolute path")
		if !ok {
			return ""
		}
		if cleanPath(s) == "" {
			m.value.problem(fmt.Sprintf("path %q", s), "an absolute path", "")
		}
		return cleanPath(s)
	}
	for _, m := range root.members(`an object with "expect"`) {
		switch m.name {
		case "$schema":
			m.value.text("the address of a schema")
		case "mode":
			e.Mode = oneOf(m.value, modes[:]...)
		case "workspace":
			e.Workspace = absolute(m)
		case "cwd":
			e.Cwd, cwdSet = absolute(m), true
		case "home":
			e.Home = absolute(m)
		case "expect":
			rows, _ := m.value.elements("a list of expectations")
			for _, row := range rows {
				e.row(row)
			}
		default:
			m.unknown("mode", "workspace", "cwd", "home", "expect", "$schema")
		}
	}
	if !cwdSet {
		e.Cwd = e.Workspace
	}
	if len(e.Rows) == 0 && len(d.problems) == 0 {
		root.problem("no expectations", `at least one row in "expect"`, "a table that expects nothing passes whatever the policy says")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Expectations) row(v value) {
	x := Expectation{Origin: v.origin("expectation")}
	verdict := false
	before := len(v.doc.problems)
	for _, m := range v.members("an object: a question with its verdict") {
		switch m.name {
		case "verdict":
			x.Verdict, verdict = readAction(m.value, "allow, ask or deny")
		case "rule":
			x.Rule, _ = m.value.text("the pattern that has to decide")
		case "authority":
			x.Authority, _ = m.value.text("the authority that has to decide")
		case "comment":
			m.value.text("a text")
		default:
			if !x.field(m) {
				m.unknown(append([]string{"verdict", "rule", "authority", "comment"}, questionFields...)...)
			}
		}
	}
	if len(v.doc.problems) > before {
		return
	}
	if !verdict {
		v.problem(`no "verdict"`, "allow, ask or deny", "")
		return
	}
	if err := x.Check(); err != nil {
		v.problem(strings.TrimPrefix(err.Error(), "a question "), `"surface" and "value", or "tool"`, "")
		return
	}
	e.Rows = append(e.Rows, x)
}

// Snapshot returns the snapshot under which the table is asked.
func (e *Expectations) Snapshot() Snapshot {
	return Resolve(ResolveInput{Mode: e.Mode, Workspace: e.Workspace, Cwd: e.Cwd})
}

// Run asks every question and returns the rows that did not get what they
// expect. answer decides one question; nil asks the chain itself, with the text
// of a command as one value.
func (e *Expectations) Run(chain []*Authority, answer func(Question) Verdict) []Failure {
	if answer == nil {
		answer = func(q Question) Verdict {
			return NewVerdict(q.ID, DecideAll(chain, q.Queries(e.Cwd, e.Home, nil)))
		}
	}
	var out []Failure
	for _, x := range e.Rows {
		got := answer(x.Question)
		var what string
		subject := strings.TrimSpace(strings.Join(append([]string{or(x.Surface, x.Tool), x.Value}, x.Paths...), " "))
		switch {
		case got.Error != "":
			what = fmt.Sprintf("%s: %s", subject, got.Error)
		case got.Verdict != x.Verdict:
			what = fmt.Sprintf("%s: %s, expected %s (%s)", subject, got.Verdict, x.Verdict, got.Reason)
		case x.Rule != "" && x.Rule != got.Rule.Pattern:
			what = fmt.Sprintf("%s: decided by %q, expected %q (%s)", subject, got.Rule.Pattern, x.Rule, got.Reason)
		case x.Authority != "" && x.Authority != got.Authority:
			what = fmt.Sprintf("%s: decided by %s, expected %s (%s)", subject, got.Authority, x.Authority, got.Reason)
		default:
			continue
		}
		out = append(out, Failure{x, got, what})
	}
	return out
}
