package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Question is a decision that somebody asks for by name: one line of a batch,
// the flags of a check, one row of a table of expectations.
type Question struct {
	// ID comes back with the answer.
	ID string `json:"id,omitempty"`
	// Surface and Value ask about one gate. Without a surface, Tool is asked about
	// as an agent's call.
	Surface string `json:"surface,omitempty"`
	Value   string `json:"value,omitempty"`
	Tool    string `json:"tool,omitempty"`
	// Paths are paths as they are typed, relative ones from Cwd.
	Paths []string `json:"paths,omitempty"`
	Kind  Kind     `json:"kind,omitempty"`
	// Agent names the agent file whose restrictions count, "" for none.
	Agent string `json:"agent,omitempty"`
	// Cwd is the directory, "" for the asker's own.
	Cwd string `json:"cwd,omitempty"`
}

// Verdict is the answer to a Question.
type Verdict struct {
	ID      string `json:"id,omitempty"`
	Verdict Action `json:"verdict"`
	// Authority is the layer that decided, Rule its rule.
	Authority string `json:"authority"`
	Rule      Rule   `json:"rule"`
	Value     string `json:"value"`
	Reason    string `json:"reason"`
	HumanOnly bool   `json:"human_only,omitempty"`
	// Explanations are there when they were asked for, one for each gate.
	Explanations []Explanation `json:"explanations,omitempty"`
	// Error is set, and the verdict a deny, where the question was none.
	Error string `json:"error,omitempty"`
}

// NewVerdict makes the answer to a question from a decision.
func NewVerdict(id string, d Decision) Verdict {
	return Verdict{ID: id, Verdict: d.Action, Authority: d.Rule.Origin.Authority, Rule: d.Rule, Value: d.Value, Reason: d.Reason, HumanOnly: d.HumanOnly}
}

// RefusedQuestion is the answer to what is no question: a deny that says why.
func RefusedQuestion(id string, err error) Verdict {
	return Verdict{ID: id, Authority: "builtin", Rule: Rule{Surface: "*", Pattern: "*", Origin: Origin{Authority: "builtin"}}, Reason: "not a question", Error: err.Error()}
}

// ParseQuestion reads one question as JSON. Unknown fields are refused; name is
// for error messages.
func ParseQuestion(name string, data []byte) (Question, error) {
	d, root := parseDocument(name, data)
	if root == nil {
		return Question{}, d.err()
	}
	var q Question
	for _, m := range root.members("an object: a question") {
		if !q.field(m) {
			m.unknown(questionFields...)
		}
	}
	if err := d.err(); err != nil {
		return Question{}, err
	}
	return q, q.Check()
}

var questionFields = []string{"id", "surface", "value", "tool", "path", "paths", "kind", "agent", "cwd"}

// field reads one member of a question; false for one that is none of them.
func (q *Question) field(m member) bool {
	switch m.name {
	case "id":
		q.ID, _ = m.value.text("a text")
	case "surface":
		q.Surface, _ = m.value.text("the name of a surface")
	case "value":
		q.Value, _ = m.value.text("a text")
	case "tool":
		q.Tool, _ = m.value.text("the name of a tool")
	case "path":
		if p, ok := m.value.text("a path"); ok {
			q.Paths = append(q.Paths, p)
		}
	case "paths":
		p, _ := m.value.texts("a list of paths")
		q.Paths = append(q.Paths, p...)
	case "kind":
		q.Kind = oneOf(m.value, kinds[:]...)
	case "agent":
		q.Agent, _ = m.value.text("the name of an agent")
	case "cwd":
		q.Cwd, _ = m.value.text("an absolute path")
	default:
		return false
	}
	return true
}

// Check says what keeps q from being a question.
func (q Question) Check() error {
	switch {
	case q.Surface == "" && q.Tool == "":
		return fmt.Errorf("a question needs \"surface\" or \"tool\"")
	case strings.ContainsAny(q.Surface, "*?"):
		return fmt.Errorf("surface %q, expected the name of one surface", q.Surface)
	case q.Cwd != "" && !strings.HasPrefix(q.Cwd, "/"):
		return fmt.Errorf("cwd %q, expected an absolute path", q.Cwd)
	case q.Surface == surfaceBash && q.Value == "":
		return fmt.Errorf("surface bash needs \"value\", the text of the command")
	}
	return nil
}

// Queries returns the gates that the question is about, the most restrictive
// answer counts. Canonical resolves links for a path that is absolute and clean,
// and may be nil. The text of a command is one value here; whoever has the shell
// analysis takes it apart instead.
func (q Question) Queries(cwd, home string, canonical func(string) string) []Query {
	if q.Cwd != "" {
		cwd = q.Cwd
	}
	aliases := func(p string) []string {
		all := PathAliases(p, cwd, home, "")
		if canonical != nil && len(all) > 0 {
			if c := canonical(all[0]); c != "" && !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
		return all
	}
	var paths [][]string
	for _, p := range q.Paths {
		if a := aliases(p); len(a) > 0 {
			paths = append(paths, a)
		}
	}
	if q.Surface == "" {
		c := Call{Tool: q.Tool, Paths: paths, Home: home}
		switch Classify(q.Tool) {
		case KindNetwork:
			c.Host = q.Value
		case KindDynamicSkillTool:
			c.Skill = q.Value
		case KindMCPRead, KindMCPWriteOrUnknown:
			if _, named := MCPName(q.Tool); !named && q.Value != "" {
				c.MCP = &MCPCall{Tool: q.Value}
			}
		}
		out := c.Queries()
		if q.Value != "" {
			for i := range out {
				if slices.Equal(out[i].Values, []string{"*"}) {
					out[i].Values = []string{q.Value}
				}
			}
		}
		return q.finish(out, home)
	}
	var out []Query
	if isPathSurface(q.Surface) {
		if q.Value != "" {
			paths = append(paths, aliases(q.Value))
		}
		for _, p := range paths {
			out = append(out, NewQuery(q.Surface, p...))
		}
	} else {
		for _, p := range paths {
			gate := NewQuery(surfacePath, p...)
			gate.RulesOnly = true
			out = append(out, gate)
		}
		if q.Surface == surfaceMCP {
			out = append(out, NewQuery(surfaceMCP, MCPTargets(MCPCall{Tool: q.Value}, nil)...))
		}
	}
	if len(out) == 0 || !isPathSurface(q.Surface) && q.Surface != surfaceMCP {
		out = append(out, NewQuery(q.Surface, q.Value))
	}
	return q.finish(out, home)
}

func (q Question) finish(out []Query, home string) []Query {
	for i := range out {
		out[i].Home = home
		if q.Tool != "" {
			out[i].Tool = q.Tool
		}
		if q.Kind != "" && !out[i].RulesOnly {
			out[i].Kind = q.Kind
		}
	}
	return out
}

// DecideAll asks about several gates of one call and returns the most
// restrictive answer, of equal ones the first.
func DecideAll(chain []*Authority, queries []Query) Decision {
	if len(queries) == 0 {
		return Decide(nil, Query{})
	}
	best := Decide(chain, queries[0])
	human := best.HumanOnly
	for _, q := range queries[1:] {
		d := Decide(chain, q)
		human = human || d.HumanOnly
		if d.Action < best.Action {
			best = d
		}
	}
	best.HumanOnly = human && best.Action == Ask
	return best
}
