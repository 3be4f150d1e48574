package policy

// Query is one unit to be judged: a command, a path, a tool call.
type Query struct {
	// Surface is the gate's name in rules: "bash", "mcp", "path_write", a tool.
	Surface string
	// Kind is what the mode's defaults speak about.
	Kind Kind
	// Values are what patterns are matched against. For path surfaces they are
	// aliases of one path, all equal; elsewhere they are candidates in order,
	// and the first that a rule names decides.
	Values []string
	// Aliases says that Values name one path.
	Aliases bool
	// Floor, unless Allow, lowers an allow to it: what cannot be seen through
	// is at least an ask whatever the rules say.
	Floor Action
	// FloorReason says why, as a sentinel such as "<opaque-bash-wrapper>".
	FloorReason string
	// Home is what a leading ~ or $HOME in a pattern stands for.
	Home string
}

// Origin is where a rule stands.
type Origin struct {
	// Authority is one of "hard-guard", "mode", "baseline", "policy",
	// "frontmatter", "cap", "grant", "fail-closed", "yolo", "builtin", "floor".
	Authority string `json:"authority"`
	// Session is the session whose authority it was, empty for the global one.
	Session string `json:"session,omitempty"`
	File    string `json:"file,omitempty"`
	// Line and Column count from 1; 0 means that there is no position.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
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
}
