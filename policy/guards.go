package policy

import "strings"

// Guards are the hard guards of a machine: rules that nothing loosens, and the
// paths that only a human may let be written. The file is global; a nil *Guards
// guards nothing.
type Guards struct {
	Name string
	// Rules deny, or say with allow that a narrower case is not blocked.
	Rules []Rule
	// ProtectedWrites are patterns of paths.
	ProtectedWrites []Rule

	set   *ruleset
	write *ruleset
}

// ParseGuards reads the hard-guard file:
//
//	{"permission": {SURFACE: "deny" | {PATTERN: "deny" | "allow" | {"action": "deny", "reason": TEXT}}},
//	 "protectedWrites": [PATTERN, …]}
//
// An allow only means "not blocked here". Mistakes are reported like those of a
// policy.
func ParseGuards(name string, data []byte) (*Guards, error) {
	d, root := parseDocument(name, data)
	if root == nil {
		return nil, d.err()
	}
	g := &Guards{Name: name}
	f := &PolicyFile{Name: name}
	for _, m := range root.members(`an object with "permission" and "protectedWrites"`) {
		switch m.name {
		case "$schema":
			m.value.text("the address of a schema")
		case "permission":
			f.read(m.value, "hard-guard", "deny or allow")
			if f.Universal != nil {
				m.value.problem(`"*" in hard guards`, "the names of surfaces", "")
			}
		case "protectedWrites":
			list, _ := m.value.elements("a list of path patterns")
			for _, e := range list {
				if s, ok := e.text("a path pattern"); ok && checkPattern(e, s) {
					g.ProtectedWrites = append(g.ProtectedWrites, Rule{Surface: surfacePathWrite, Pattern: s, Action: Ask, Origin: e.origin("protected")})
				}
			}
		default:
			m.unknown("permission", "protectedWrites", "$schema")
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	g.Rules = f.Rules
	g.set, g.write = newRuleset(g.Rules), newRuleset(g.ProtectedWrites)
	return g, nil
}

// decide returns the deny of a matching guard.
func (g *Guards) decide(q *Query) (Decision, bool) {
	if g == nil {
		return Decision{}, false
	}
	h, ok := g.set.lookup(q)
	if !ok || h.rule.Action != Deny {
		return Decision{}, false
	}
	return h.decision("", false), true
}

// protected returns the human-only ask for a write to a protected path.
func (g *Guards) protected(q *Query) (hit, bool) {
	if g == nil || len(g.ProtectedWrites) == 0 || q.kind() != KindFileWrite || len(q.Values) == 0 {
		return hit{}, false
	}
	write := *q
	write.Surface, write.Aliases = surfacePathWrite, true
	h, ok := g.write.lookup(&write)
	if ok {
		h.reason = strings.Replace(h.reason, "to be asked by ", "only a human may allow this write: ", 1)
	}
	return h, ok
}

// mcpBaseline lets servers be listed and searched where the policy allows any
// use of them, as long as no rule says otherwise.
func mcpBaseline(f *PolicyFile, session string) *ruleset {
	for _, r := range f.Rules {
		if r.Surface == surfaceMCP && r.Action == Allow {
			o := Origin{Authority: "baseline", Session: session, File: r.Origin.File, Line: r.Origin.Line, Column: r.Origin.Column}
			var rules []Rule
			for _, name := range []string{"mcp_status", "mcp_list", "mcp_search", "mcp_describe", "mcp_connect"} {
				rules = append(rules, Rule{Surface: surfaceMCP, Pattern: name, Action: Allow, Origin: o})
			}
			return newRuleset(rules)
		}
	}
	return nil
}
