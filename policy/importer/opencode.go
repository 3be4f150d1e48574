package importer

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// openCode reads OpenCode's opencode.json files. The last rule that matches
// wins, over surfaces as well; what no rule names is allowed.
func (b *builder) openCode(files []File) error {
	for _, f := range files {
		t, err := parseJSON(f)
		if err != nil {
			return err
		}
		if p, ok := t.get("permission"); ok {
			b.openCodeBlock(f.Name, p, b.add)
		} else {
			b.note(f.Name, 0, "permission", Told, "the file has none")
		}
		agents, _ := t.get("agent")
		if agents.v == nil {
			continue
		}
		for _, m := range agents.members() {
			p, ok := m.value.get("permission")
			if !ok {
				continue
			}
			if m.name == "" || strings.ContainsAny(m.name, "/\\\x00") || strings.HasPrefix(m.name, ".") {
				b.note(f.Name, m.key.line(), "agent "+m.name, Dropped, "not a name for an agent file")
				continue
			}
			b.openCodeAgent(f.Name, m.name, p)
		}
	}
	b.note(files[0].Name, 0, "default", Narrowed, "what no rule names is allowed there; here the mode decides. To have the same, choose full_access knowingly")
	return nil
}

func (b *builder) openCodeBlock(file string, p tree, add func(rule)) {
	if word, ok := p.text(); ok {
		if a, ok := openCodeAction(word); ok {
			add(rule{surface: "*", pattern: "*", action: a, file: file, line: p.line(), text: "permission " + word, exact: true})
		} else {
			b.note(file, p.line(), "permission "+word, Dropped, "expected allow, ask or deny")
		}
		return
	}
	for _, m := range p.members() {
		surfaces, told := openCodeSurfaces(m.name)
		if told != "" {
			b.note(file, m.key.line(), m.name, Dropped, "%s", told)
			continue
		}
		one := func(t tree, pattern string) {
			word, _ := t.text()
			text := fmt.Sprintf("%s %q: %s", m.name, pattern, word)
			a, ok := openCodeAction(word)
			if !ok || pattern == "" {
				b.note(file, t.line(), text, Dropped, "expected a pattern and allow, ask or deny")
				return
			}
			for _, s := range surfaces {
				if s == "*" && pattern != "*" {
					b.note(file, t.line(), text, Dropped, "patterns need the name of a surface")
					continue
				}
				if strings.ContainsAny(s, " \t") {
					b.note(file, t.line(), text, Dropped, "not the name of a tool")
					continue
				}
				r := rule{surface: s, pattern: pattern, action: a, file: file, line: t.line(), text: text, exact: true}
				if strings.Trim(pattern, "*") != "" && !comparable(s) {
					if s == "webfetch" {
						if host := urlHost(pattern); host != "" {
							r.surface, r.pattern = "network", host
							add(r)
							continue
						}
					}
					if a == policy.Allow {
						b.about(r, Dropped, "what %s is asked about is not what our rules see of it", s)
						continue
					}
					// A part that cannot be told apart is asked as a whole.
					r.pattern, r.action = "*", policy.Ask
					b.about(r, Narrowed, "what %s is asked about is not what our rules see of it: all of it is asked", s)
				}
				add(r)
			}
		}
		if _, ok := m.value.text(); ok {
			one(m.value, "*")
			continue
		}
		for _, e := range m.value.members() {
			one(e.value, e.name)
		}
	}
}

// comparable says whether patterns of the surface speak about the same text
// there and here: a search's pattern or a tool's own input does not.
func comparable(surface string) bool {
	switch surface {
	case "bash", "read", "edit", "write", "ls", "task", "skill", "path_read", "path_write":
		return true
	}
	return false
}

var urlPattern = regexp.MustCompile(`^(?:https?://)?((?:\*\.)?[a-z0-9.-]+\.[a-z]+(?::[0-9]+)?)(?:/\*{0,2})?$`)

// urlHost returns the host of a pattern that speaks about a whole host.
func urlHost(pattern string) string {
	if m := urlPattern.FindStringSubmatch(strings.ToLower(pattern)); m != nil {
		return m[1]
	}
	return ""
}

func openCodeAction(word string) (policy.Action, bool) {
	a, err := policy.ParseAction(word)
	return a, err == nil
}

// openCodeSurfaces maps a key to our surfaces, or says why there is none.
func openCodeSurfaces(key string) (surfaces []string, told string) {
	switch key {
	case "":
		return nil, "an empty key"
	case "*", "bash", "read", "grep", "task", "skill":
		return []string{key}, ""
	case "edit":
		return []string{"edit", "write"}, ""
	case "glob":
		return []string{"find"}, ""
	case "list":
		return []string{"ls"}, ""
	case "external_directory":
		return []string{"path_read", "path_write"}, ""
	case "doom_loop", "question":
		return nil, "not a permission here"
	case "write", "find", "ls", "path", "path_read", "path_write", "mcp", "network":
		return nil, "it names a tool there and something else here"
	}
	if strings.HasPrefix(strings.ToLower(key), "path") {
		return nil, "it names a tool there and may be a path surface here"
	}
	return []string{key}, ""
}

// openCodeAgent makes an agent file; such files only restrict.
func (b *builder) openCodeAgent(file, name string, p tree) {
	inner := &builder{res: &Result{}, opt: b.opt}
	inner.openCodeBlock(file, p, inner.add)
	s := inner.settle()
	for _, n := range inner.res.Notes {
		n.Rule = "agent " + name + ": " + n.Rule
		b.res.Notes = append(b.res.Notes, n)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "---\nname: %s\npermission:\n", yamlText(name))
	n := 0
	// A deny that specificity would let through comes first and again as ask for
	// what it covers: an agent file has no guards, so the looser rule is left out.
	rules := s.policy
	for _, g := range s.guards {
		if g.action != policy.Deny {
			continue
		}
		var kept []rule
		for _, r := range rules {
			if r.surface == g.surface && r.action != policy.Deny && policy.MayOverlap(r.pattern, g.pattern) && policy.CompareSpecificity(r.pattern, g.pattern) <= 0 {
				b.note(r.file, r.line, "agent "+name+": "+r.text, Dropped, "here it would win over %s", g.text)
				continue
			}
			kept = append(kept, r)
		}
		rules = append(kept, g)
	}
	seen := map[string]bool{}
	for _, r := range rules {
		if seen[r.surface] {
			continue
		}
		seen[r.surface] = true
		if r.surface == "*" {
			fmt.Fprintf(&out, "  \"*\": %s\n", r.action)
			n++
			continue
		}
		fmt.Fprintf(&out, "  %s:\n", yamlText(r.surface))
		for _, x := range rules {
			if x.surface != r.surface {
				continue
			}
			if strings.ContainsAny(x.pattern, "\n\r") {
				b.note(x.file, x.line, "agent "+name+": "+x.text, Dropped, "a pattern over several lines")
				continue
			}
			fmt.Fprintf(&out, "    %s: %s # %s\n", yamlText(x.pattern), x.action, comment(x))
			n++
		}
	}
	out.WriteString("---\n")
	if n == 0 {
		return
	}
	text := []byte(out.String())
	if _, err := policy.ParseAgent(name+".md", text); err != nil {
		b.note(file, p.line(), "agent "+name, Dropped, "%s", oneLine(err.Error()))
		return
	}
	b.res.Agents[name] = text
	b.note(file, p.line(), "agent "+name, Kept, "agent file %s.md; it can only restrict", name)
}

// yamlText quotes a scalar.
func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
