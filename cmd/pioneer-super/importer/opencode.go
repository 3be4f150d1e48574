package importer

import (
	"net/url"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// opencode reads an opencode.json. The last rule that matches decides there, and
// what no rule names is allowed.
func (im *importing) opencode(f File) error {
	root, err := im.object(f)
	if err != nil {
		return err
	}
	universal := false
	for _, m := range root {
		switch m.name {
		case "permission":
			if text, ok := m.text(); ok {
				action, err := policy.ParseAction(text)
				if err != nil {
					return im.wrong(m, "allow, ask or deny")
				}
				universal = true
				im.ranked("*", "*", action, m.at, `"permission"`)
				continue
			}
			if m.members == nil {
				return im.wrong(m, "allow, ask, deny or an object")
			}
			for _, key := range m.members {
				universal = universal || key.name == "*"
				if err := im.opencodeKey(key); err != nil {
					return err
				}
			}
		case "agent", "mode":
			for _, a := range m.members {
				for _, p := range a.members {
					if p.name == "permission" || p.name == "tools" {
						im.note(p.at, m.name+"."+a.name+"."+p.name, "not carried over: restrictions of one agent belong into agents/%s.md of the configuration directory", a.name)
					}
				}
			}
		case "tools":
			im.note(m.at, "tools", "not carried over: which tools are offered is the agent's; a deny in the policy refuses the calls")
		}
	}
	if !universal {
		im.note(place{file: f.Path}, "", `OpenCode allows what no rule names, here it is asked: write "*": "allow" into the policy if that is meant`)
	}
	return nil
}

func (im *importing) ranked(surface, pattern string, action policy.Action, at place, source string) {
	im.add(rule{surface: surface, pattern: pattern, action: action, rank: len(im.rules), at: at, source: source})
}

func (im *importing) opencodeKey(key member) error {
	rows := key.members
	if text, ok := key.text(); ok {
		if _, err := policy.ParseAction(text); err != nil {
			return im.wrong(key, "allow, ask or deny")
		}
		rows = []member{{name: "*", at: key.at, value: key.value}}
	} else if rows == nil {
		return im.wrong(key, "allow, ask, deny or an object of patterns")
	}
	for _, row := range rows {
		text, _ := row.text()
		action, err := policy.ParseAction(text)
		if err != nil {
			return im.wrong(row, "allow, ask or deny")
		}
		im.opencodeRow(key.name, row.name, action, row.at)
	}
	return nil
}

func (im *importing) opencodeRow(key, pattern string, action policy.Action, at place) {
	source := key
	if pattern != "*" {
		source += " " + pattern
	}
	every := strings.Trim(pattern, "*") == ""
	add := func(surfaces ...string) {
		rank := len(im.rules)
		for _, s := range surfaces {
			im.add(rule{surface: s, pattern: pattern, action: action, rank: rank, at: at, source: source})
		}
	}
	lost := func(surface, why string) {
		if action == policy.Allow {
			im.note(at, source, "left out: %s", why)
			return
		}
		im.note(at, source, "carried as an ask for all of %s: %s", surface, why)
		im.ranked(surface, "*", policy.Ask, at, source)
	}
	switch key {
	case "*":
		if every {
			add("*")
		} else {
			lost("bash", `a pattern under "*" speaks of every tool at once`)
		}
	case "bash", "task", "skill", "read":
		add(key)
	case "edit":
		add("edit", "write")
	case "list":
		add("ls")
	case "glob", "grep":
		surface := map[string]string{"glob": "find", "grep": "grep"}[key]
		if every {
			add(surface)
		} else {
			lost(surface, "it speaks of what is searched for, rules of ours speak of where")
		}
	case "webfetch":
		host := ""
		if u, err := url.Parse(strings.TrimRight(pattern, "*")); err == nil {
			host = u.Host
		}
		switch {
		case every:
			add("webfetch")
			if action == policy.Allow {
				im.note(at, source, "narrowed: the tool may be used, each host still needs a rule on network")
			}
		case host != "" && !strings.ContainsAny(host, "*?") && strings.Trim(pattern[strings.Index(pattern, host)+len(host):], "/*") == "":
			im.ranked("network", host, action, at, source)
		default:
			lost("webfetch", "rules on the network speak of whole hosts")
		}
	case "external_directory":
		im.note(at, source, `not carried over: a restricted mode asks for what lies outside its roots; "roots" of config.jsonc opens more, rules on "path" refuse`)
	default:
		switch {
		case !every:
			lost(key, "patterns on this tool's input have no meaning here")
		case strings.Contains(key, "_") || strings.Contains(key, "*"):
			im.note(at, source, "taken for a server's tool")
			im.ranked("mcp", key, action, at, source)
		case strings.ContainsAny(key, " ?") || key == "":
			lost("mcp", "no tool has this name")
		default:
			add(key)
		}
	}
}
