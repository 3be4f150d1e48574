package policy

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Call is a tool call as an agent describes it, before it is classified.
type Call struct {
	// Tool is the name that the agent uses.
	Tool string
	// Paths are the files that it names, each under all its spellings (see
	// PathAliases). For a tool of another machine it is empty, and Remote is set.
	Paths [][]string
	// Remote says that a path in the input is none of this machine.
	Remote bool
	// MCP is set for a call to a server; Servers are the configured ones.
	MCP     *MCPCall
	Servers []string
	// Skill is the name of a skill that is loaded or whose file is read.
	Skill string
	// Host is the host, with or without port, that a network tool wants.
	Host string
	// Home as in Query.
	Home string
}

// Queries returns the gates that a tool call has to pass, in order: the skill,
// the paths, the tool itself; the most restrictive answer counts. A shell
// command is not taken apart here: that is the work of package shell.
func (c Call) Queries() []Query {
	var out []Query
	kind := Classify(c.Tool)
	if named, ok := MCPName(c.Tool); ok && c.MCP == nil {
		c.MCP = &named
	}
	if c.Skill != "" {
		q := NewQuery(surfaceSkill, c.Skill)
		q.RulesOnly = kind != KindDynamicSkillTool
		out = append(out, q)
	}
	surface := ToolSurface(c.Tool)
	directions := []string{surfacePathRead, surfacePathWrite}
	switch kind {
	case KindFileRead:
		directions = directions[:1]
	case KindFileWrite:
		directions = directions[1:]
	}
	if !c.Remote {
		for _, aliases := range c.Paths {
			for _, d := range directions {
				q := NewQuery(d, aliases...)
				q.RulesOnly = true
				out = append(out, q)
			}
		}
	}
	switch {
	case c.MCP != nil:
		q := NewQuery(surfaceMCP, MCPTargets(*c.MCP, c.Servers)...)
		q.Kind = c.MCP.Kind()
		out = append(out, q)
	case kind == KindDynamicSkillTool && c.Skill != "":
	case kind == KindNetwork && c.Host != "":
		tool := NewQuery(surface, c.Host)
		tool.RulesOnly = surface != surfaceNetwork
		out = append(out, tool)
		if surface != surfaceNetwork {
			out = append(out, NewQuery(surfaceNetwork, c.Host))
		}
	case len(c.Paths) > 0 && !c.Remote && (kind == KindFileRead || kind == KindFileWrite):
		for _, aliases := range c.Paths {
			q := NewQuery(surface, aliases...)
			q.Kind, q.Aliases = kind, true
			out = append(out, q)
		}
	default:
		q := NewQuery(surface, "*")
		q.Kind = kind
		out = append(out, q)
	}
	for i := range out {
		out[i].Home = c.Home
		out[i].Tool = c.Tool
	}
	return out
}

// ToolSurface returns the surface that rules use for an agent's tool: the file
// tools and shells of the common agents under their one name, every other tool
// under its own.
func ToolSurface(tool string) string {
	low := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(tool))
	switch Classify(tool) {
	case KindShellCommand:
		return surfaceBash
	case KindTaskSubagent:
		return surfaceTask
	case KindFileRead:
		switch {
		case strings.Contains(low, "grep"), low == "rg", strings.HasPrefix(low, "search"), low == "codebasesearch":
			return "grep"
		case strings.HasPrefix(low, "list"), low == "ls":
			return "ls"
		case strings.HasPrefix(low, "glob"), strings.HasPrefix(low, "find"), low == "filesearch":
			return "find"
		}
		return "read"
	case KindFileWrite:
		if strings.HasPrefix(low, "write") || strings.HasPrefix(low, "create") {
			return "write"
		}
		return "edit"
	case KindDynamicSkillTool:
		return surfaceSkill
	case KindMCPRead, KindMCPWriteOrUnknown:
		return surfaceMCP
	}
	return tool
}

// MCPCall is the input of a tool that talks to servers. Blank fields are absent.
type MCPCall struct{ Tool, Server, Connect, Describe, Search string }

// Kind says what the call does as far as its form tells: only looking something
// up is a read.
func (c MCPCall) Kind() Kind {
	if strings.TrimSpace(c.Tool) != "" || strings.TrimSpace(c.Connect) != "" {
		return KindMCPWriteOrUnknown
	}
	return KindMCPRead
}

// MCPTargets returns the names under which rules may speak about the call, the
// most specific first. servers are the names of the configured servers.
func MCPTargets(c MCPCall, servers []string) []string {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if n != "" && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	c = MCPCall{strings.TrimSpace(c.Tool), strings.TrimSpace(c.Server), strings.TrimSpace(c.Connect), strings.TrimSpace(c.Describe), strings.TrimSpace(c.Search)}
	tool := func(raw string) {
		name, server := raw, c.Server
		if s, t, ok := strings.Cut(raw, ":"); ok && strings.TrimSpace(s) != "" && strings.TrimSpace(t) != "" {
			name = strings.TrimSpace(t)
			if server == "" {
				server = strings.TrimSpace(s)
			}
		}
		if server != "" {
			add(server+"_"+name, server+":"+name, server)
		} else {
			known := slices.Clone(servers)
			slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
			for _, s := range known {
				s = strings.TrimSpace(s)
				if s != "" && strings.HasSuffix(name, "_"+s) && !strings.HasPrefix(name, s+"_") {
					add(s+"_"+name, s+":"+name, s)
				}
			}
		}
		add(name, raw)
	}
	switch {
	case c.Tool != "":
		tool(c.Tool)
		add("mcp_call")
	case c.Connect != "":
		add("mcp_connect_"+c.Connect, c.Connect, "mcp_connect")
	case c.Describe != "":
		tool(c.Describe)
		add("mcp_describe")
	case c.Search != "":
		if c.Server != "" {
			add("mcp_server_"+c.Server, c.Server)
		}
		add(c.Search, "mcp_search")
	case c.Server != "":
		add("mcp_server_"+c.Server, c.Server, "mcp_list")
	default:
		add("mcp_status")
	}
	add(surfaceMCP)
	return out
}

// MCPName takes apart the name under which agents list a server's tool:
// "mcp__server__tool". It is false for another name.
func MCPName(tool string) (MCPCall, bool) {
	rest, ok := strings.CutPrefix(tool, "mcp__")
	if !ok {
		return MCPCall{}, false
	}
	server, name, ok := strings.Cut(rest, "__")
	if server == "" || ok && name == "" {
		return MCPCall{}, false
	}
	return MCPCall{Server: server, Tool: name}, true
}

// PathAliases returns the spellings of one path: absolute, relative to the
// directory where it is inside, as typed, and canonical. canonical is what the
// path resolves to with its links followed, "" where nobody looked. cwd is
// absolute and clean.
func PathAliases(typed, cwd, home, canonical string) []string {
	clean := CleanTyped(typed, home)
	var out []string
	add := func(s string) {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if clean == "" {
		return nil
	}
	abs := clean
	if !strings.HasPrefix(clean, "/") {
		abs = path.Join(cwd, clean)
	}
	abs = path.Clean(abs)
	add(abs)
	if below(cwd, abs) && cwd != "" {
		rel := strings.TrimPrefix(strings.TrimPrefix(abs, cwd), "/")
		if rel == "" {
			rel = "."
		}
		add(rel)
	}
	add(clean)
	add(canonical)
	return out
}

// CleanTyped takes the decorations off a path as agents write it: white space
// around it, one quote at each side, a leading "@", the home directory.
func CleanTyped(typed, home string) string {
	s := strings.TrimSpace(typed)
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		s = s[1:]
	}
	if s != "" && (s[len(s)-1] == '"' || s[len(s)-1] == '\'') {
		s = s[:len(s)-1]
	}
	s = strings.TrimPrefix(s, "@")
	if n := homePrefix(s); n > 0 && home != "" {
		s = strings.TrimRight(home, "/") + s[n:]
		if s == "" {
			s = "/"
		}
	}
	return s
}

// Exposed says whether a tool is worth offering to an agent at all: it is not
// when everything about it is denied whatever its input. That is advice; the
// gates decide each call.
func Exposed(chain []*Authority, tool string) (bool, Decision) {
	surface := ToolSurface(tool)
	q := NewQuery(surface)
	if kind := Classify(tool); kind != KindUnknown {
		q.Kind = kind
	}
	q.Tool = tool
	for _, a := range chain {
		if d, denied := a.deniesAll(&q); denied {
			return false, d
		}
	}
	if len(chain) == 0 {
		return false, Decide(nil, q)
	}
	return true, Decision{}
}

// deniesAll says whether no value could get anything but a deny.
func (a *Authority) deniesAll(q *Query) (Decision, bool) {
	if a.guards != nil {
		if h, ok := a.guards.set.deniesAll(q); ok {
			return h.decision("", false), true
		}
	}
	for i := range a.limits {
		l := &a.limits[i]
		if h, ok := l.rules.deniesAll(q); ok {
			return h.decision(a.session, false), true
		}
		if l.universal != nil && l.universal.rule.Action == Deny && !l.rules.names(q.Surface) {
			return l.universal.hit("").decision(a.session, false), true
		}
		if ans := l.kind(q.kind()); ans != nil && ans.rule.Action == Deny {
			return ans.hit("").decision(a.session, false), true
		}
		if l.check != nil {
			if ans := l.check(q); ans != nil && ans.rule.Action == Deny {
				return ans.hit("").decision(a.session, false), true
			}
		}
	}
	if h, ok := a.policy.deniesAll(q); ok {
		return h.decision(a.session, false), true
	}
	if !a.policy.names(q.Surface) {
		if h := a.base(&question{Query: q}); h.rule.Action == Deny {
			return h.decision(a.session, false), true
		}
	}
	return Decision{}, false
}

// names says whether any rule speaks about the surface.
func (s *ruleset) names(surface string) bool {
	return s != nil && slices.ContainsFunc(s.rules, func(r Rule) bool { return Match(r.Surface, surface, "") })
}

// deniesAll finds the rule that denies every value of the surface: a deny of
// "*" beside which nothing but denies stands.
func (s *ruleset) deniesAll(q *Query) (hit, bool) {
	if s == nil {
		return hit{}, false
	}
	var all *Rule
	for i := range s.rules {
		r := &s.rules[i]
		if !Match(r.Surface, q.Surface, "") {
			continue
		}
		if r.Action != Deny {
			return hit{}, false
		}
		if strings.Trim(r.Pattern, "*") == "" {
			all = r
		}
	}
	if all == nil {
		return hit{}, false
	}
	return hit{rule: all, reason: ruleReason(all)}, true
}
