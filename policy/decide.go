package policy

import (
	"fmt"
	"strings"
)

// Query is one unit to be judged: a command, a path, a tool call.
type Query struct {
	// Surface is the gate's name in rules: "bash", "mcp", "path_write", a tool.
	Surface string
	// Kind is what the mode's defaults speak about. "" means SurfaceKind(Surface).
	Kind Kind
	// Tool is the name of the tool that is called, where it is not the surface.
	Tool string
	// Values are what patterns are matched against. For path surfaces they are
	// aliases of one path, all equal; elsewhere they are candidates in order,
	// and the first that a rule names decides.
	Values []string
	// Aliases says that Values name one thing under several spellings: a path as
	// typed, absolute and canonical, or a command and its normal form. Then the
	// most specific rule that matches any of them decides.
	Aliases bool
	// Shapes, where there are any, are what a path may become that is known only
	// when it runs; rules are then asked about them, and Values are what is shown.
	Shapes []Shape
	// Floor, unless Allow, lowers every answer to it: what cannot be seen through
	// is at least an ask whatever the rules say. The zero value is Deny, so that a
	// query that nobody thought about is refused; NewQuery sets Allow.
	Floor Action
	// FloorReason says why, as a sentinel such as "<opaque-bash-wrapper>".
	FloorReason string
	// Home is what a leading ~ or $HOME in a pattern stands for. Where it is
	// unknown, refusing rules take any folder for it and allowing rules none.
	Home string

	// RulesOnly asks for explicit rules alone: where none speaks, the answer is
	// allow, since another query of the same call speaks for the kind. The path
	// gate of a tool call is asked so.
	RulesOnly bool
	// Fold compares path surfaces as Windows does.
	Fold bool
	// ExactOnly says that no pattern grant covers this: an option that executes,
	// a wrapper, an assignment, a redirection out of the roots. The grant of its
	// exact scope still does.
	ExactOnly bool
	// Program is the resolved file of the command, for grants that name one.
	Program string
	// Root is the directory root that the command runs in, for tree grants.
	Root string
}

// NewQuery returns a query without a floor.
func NewQuery(surface string, values ...string) Query {
	return Query{Surface: surface, Kind: SurfaceKind(surface), Values: values, Aliases: isPathSurface(surface), Floor: Allow}
}

// HostQuery asks about a host on a port: rules name either the host or both. The
// host comes as Resources.CanReach takes it.
func HostQuery(host, port string) Query {
	q := NewQuery(surfaceNetwork, joinHost(cleanHost(host), port), cleanHost(host))
	q.Aliases = true
	return q
}

func (q *Query) kind() Kind {
	if q.Kind == "" {
		return SurfaceKind(q.Surface)
	}
	return q.Kind
}

// paths returns the absolute spellings of a path query.
func (q *Query) paths() []string {
	if !q.Aliases {
		return nil
	}
	if k := q.kind(); k != KindFileRead && k != KindFileWrite {
		return nil
	}
	n := 0
	for _, v := range q.Values {
		if strings.HasPrefix(v, "/") {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case len(q.Values):
		return q.Values
	}
	out := make([]string, 0, n)
	for _, v := range q.Values {
		if strings.HasPrefix(v, "/") {
			out = append(out, v)
		}
	}
	return out
}

// Origin is where a rule stands.
type Origin struct {
	// Authority is one of "hard-guard", "protected", "mode", "baseline", "policy",
	// "frontmatter", "profile", "cap", "ceiling", "grant", "fail-closed", "yolo",
	// "builtin", "floor".
	Authority string `json:"authority"`
	// Session is the session whose authority it was, empty for the global one.
	Session string `json:"session,omitempty"`
	File    string `json:"file,omitempty"`
	// Line and Column count from 1; 0 means that there is no position.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// String returns "file:line:column", or the authority where there is no file.
func (o Origin) String() string {
	switch {
	case o.File != "" && o.Line > 0:
		return fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column)
	case o.File != "":
		return o.File
	}
	return o.Authority
}

// Rule is one line of recorded authority.
type Rule struct {
	Surface string `json:"surface"`
	Pattern string `json:"pattern"`
	Action  Action `json:"action"`
	// Reason is what a deny tells the agent.
	Reason string `json:"reason,omitempty"`
	Origin Origin `json:"origin"`
}

// Decision is what recorded authority says of one Query, and why.
type Decision struct {
	Action Action `json:"action"`
	// Rule is the one that decided; a mode's default is a rule as well.
	Rule Rule `json:"rule"`
	// Value is the candidate or alias that matched.
	Value string `json:"value"`
	// Reason is one sentence for humans.
	Reason string `json:"reason"`
	// HumanOnly says that only a human may turn this ask into an allow: no grant,
	// link, yolo or relay.
	HumanOnly bool `json:"human_only,omitempty"`
}
