package importer

import (
	"maps"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// gemini reads a policy .toml. The rule of the highest priority decides there, of
// equal ones the first.
func (im *importing) gemini(f File) error {
	s := &scanner{im: im, data: string(f.Data)}
	var table map[string]literal
	at, what := 0, ""
	flush := func() error {
		if table == nil {
			return nil
		}
		defer func() { table = nil }()
		if what != "rule" {
			im.note(im.at(at), what, "not carried over: no rule of ours says this")
			return nil
		}
		return im.geminiRule(s, at, table)
	}
	for s.skip(true); !s.end(); s.skip(true) {
		start := s.pos
		if s.peek() == '[' {
			if err := flush(); err != nil {
				return err
			}
			line, _, _ := strings.Cut(s.data[s.pos:], "\n")
			line, _, _ = strings.Cut(line, "#")
			s.pos += len(line)
			line = strings.TrimSpace(line)
			name := strings.TrimSpace(strings.Trim(line, "[]"))
			if name == "" || !strings.HasSuffix(line, "]") {
				return s.fail(start, "expected [[rule]]")
			}
			table, at, what = map[string]literal{}, start, name
			continue
		}
		key, err := s.key('\'')
		if err != nil {
			return err
		}
		for s.peek() == '.' {
			s.pos++
			more, err := s.key('\'')
			if err != nil {
				return err
			}
			key += "." + more
		}
		s.skip(false)
		if s.peek() != '=' {
			return s.fail(s.pos, "expected = behind %q", key)
		}
		s.pos++
		s.skip(false)
		v, err := s.value('\'', 0)
		if err != nil {
			return err
		}
		if table == nil {
			table, at, what = map[string]literal{}, start, key
		}
		if _, twice := table[key]; twice {
			return s.fail(start, "%q is there twice", key)
		}
		table[key] = v
		if s.skip(false); !s.end() && s.peek() != '\n' {
			return s.fail(s.pos, "expected the end of the line")
		}
	}
	return flush()
}

// geminiRule carries one [[rule]].
func (im *importing) geminiRule(s *scanner, at int, t map[string]literal) error {
	where := im.at(at)
	texts := func(names ...string) ([]string, error) {
		for _, n := range names {
			if v, ok := t[n]; ok {
				list, ok := v.texts()
				if !ok {
					return nil, s.fail(v.offset, "%s: expected a text or a list of texts", n)
				}
				return list, nil
			}
		}
		return nil, nil
	}
	var action policy.Action
	switch word := t["decision"].text; word {
	case "allow":
		action = policy.Allow
	case "ask_user":
		action = policy.Ask
	case "deny":
		action = policy.Deny
	default:
		return s.fail(at, "rule with decision %q, expected allow, ask_user or deny", word)
	}
	if p, ok := t["priority"]; ok && (p.kind != 'n' || p.number < -1e6 || p.number > 1e6) {
		return s.fail(p.offset, "priority: expected a whole number")
	}
	tools, err := texts("toolName", "tool_name")
	if err != nil {
		return err
	}
	servers, err := texts("mcpName", "mcp_name")
	if err != nil {
		return err
	}
	prefixes, err := texts("commandPrefix", "command_prefix")
	if err != nil {
		return err
	}
	modes, err := texts("modes")
	if err != nil {
		return err
	}
	source := "rule " + strings.Join(slices.Concat(servers, tools, prefixes), " ")
	// Earlier rules of the same priority win.
	rank := t["priority"].number*1_000_000 - len(im.rules)
	reason := t["denyMessage"].text
	if reason == "" {
		reason = t["deny_message"].text
	}
	add := func(surface, pattern string, action policy.Action) {
		im.add(rule{surface: surface, pattern: pattern, action: action, reason: reason, rank: rank, at: where, source: source})
	}
	// A condition that cannot be told: then the rule speaks of more here.
	for _, name := range slices.Sorted(maps.Keys(t)) {
		v := t[name]
		switch name {
		case "toolName", "tool_name", "mcpName", "mcp_name", "decision", "priority", "denyMessage", "deny_message", "commandPrefix", "command_prefix",
			"commandRegex", "command_regex", "argsPattern", "args_pattern", "modes", "allowRedirection", "allow_redirection", "name", "description":
		case "subagent", "interactive", "toolAnnotations", "tool_annotations":
			if action == policy.Allow {
				im.note(im.at(v.offset), source, "left out: its condition %q has no meaning here", name)
				return nil
			}
			im.note(im.at(v.offset), source, "wider here: it holds without its condition %q", name)
		default:
			im.note(im.at(v.offset), source, "unknown key %q is not carried over", name)
		}
	}
	if len(modes) > 0 && !slices.Contains(modes, "default") {
		if action == policy.Allow {
			im.note(where, source, "left out: it holds only in the modes %s", strings.Join(modes, ", "))
			return nil
		}
		im.note(where, source, "wider here: it holds in every mode, not only in %s", strings.Join(modes, ", "))
	}
	if r, ok := t["allowRedirection"]; ok && r.yes {
		im.note(im.at(r.offset), source, "redirections are writes here and go through the rules on path_write")
	}
	conditions := func(surface string) bool {
		for _, name := range []string{"argsPattern", "args_pattern"} {
			if v, ok := t[name]; ok {
				if action == policy.Allow {
					im.note(im.at(v.offset), source, "left out: %s is a regular expression on the tool's input", name)
				} else {
					im.note(im.at(v.offset), source, "carried as an ask for all of %s: %s is a regular expression on the tool's input", surface, name)
					add(surface, "*", policy.Ask)
				}
				return true
			}
		}
		return false
	}
	if len(servers) > 0 {
		for _, server := range servers {
			if conditions("mcp") {
				return nil
			}
			if strings.ContainsAny(server, "?[") {
				return s.fail(at, "mcpName %q, expected a name", server)
			}
			if len(tools) == 0 || slices.Contains(tools, "*") {
				if server != "*" {
					add("mcp", server, action)
				}
				add("mcp", server+":*", action)
				continue
			}
			for _, tool := range tools {
				add("mcp", server+":"+tool, action)
			}
		}
		return nil
	}
	if len(tools) == 0 && (len(prefixes) > 0 || t["commandRegex"].kind != 0 || t["command_regex"].kind != 0) {
		tools = []string{"run_shell_command"}
	}
	if len(tools) == 0 {
		tools = []string{"*"}
	}
	for _, tool := range tools {
		surface := policy.ToolSurface(tool)
		if tool == "*" {
			surface = "*"
		} else if server, name, ok := strings.Cut(tool, "__"); ok {
			add("mcp", server+":"+name, action)
			continue
		} else if strings.ContainsAny(tool, "*? ") {
			im.note(where, source, "the name %q is taken for tools of servers", tool)
			add("mcp", tool, action)
			continue
		}
		if conditions(surface) {
			continue
		}
		if surface == "bash" {
			im.geminiCommands(where, source, t, prefixes, action, add)
			continue
		}
		add(surface, "*", action)
		if action == policy.Allow && policy.Classify(tool) == policy.KindNetwork {
			im.note(where, source, "narrowed: the tool may be used, each host still needs a rule on network")
		}
	}
	return nil
}

func (im *importing) geminiCommands(at place, source string, t map[string]literal, prefixes []string, action policy.Action, add func(string, string, policy.Action)) {
	for _, p := range prefixes {
		if strings.ContainsAny(p, "*?") {
			if action == policy.Allow {
				im.note(at, source, "left out: %q holds what is a wildcard here", p)
				continue
			}
			im.note(at, source, "wider here: %q holds what is a wildcard", p)
		}
		add("bash", strings.TrimRight(p, " ")+" *", action)
	}
	regex := t["commandRegex"].text
	if regex == "" {
		regex = t["command_regex"].text
	}
	switch {
	case regex != "":
		patterns, exact := commandRegex(regex)
		if !exact && action == policy.Allow {
			im.note(at, source, "left out: the expression %q is no plain prefix", regex)
			return
		}
		if !exact {
			im.note(at, source, "carried as an ask for %q: the expression %q is no plain prefix", patterns[0], regex)
			action = policy.Ask
		}
		for _, p := range patterns {
			add("bash", p, action)
		}
	case len(prefixes) == 0:
		add("bash", "*", action)
	}
}

const regexSpecials = `\.+*?()|[]{}^$`

// commandRegex turns an expression that is anchored at the start alone into
// patterns: a literal prefix, or one with alternatives behind it. Where it is
// neither, the one pattern is a prefix that everything it matches starts with.
func commandRegex(regex string) (patterns []string, exact bool) {
	literal := strings.TrimPrefix(regex, "^")
	i := strings.IndexAny(literal, regexSpecials)
	if i < 0 {
		return []string{literal + "*"}, true
	}
	literal, rest := literal[:i], literal[i:]
	anything := func(s string) bool { return s == "" || s == ".*" || s == ".*$" }
	if anything(rest) {
		return []string{literal + "*"}, true
	}
	if group, ok := strings.CutPrefix(rest, "("); ok {
		inside, after, closed := strings.Cut(strings.TrimPrefix(group, "?:"), ")")
		if closed && anything(after) && !strings.ContainsAny(strings.ReplaceAll(inside, "|", ""), regexSpecials) {
			for _, one := range strings.Split(inside, "|") {
				patterns = append(patterns, literal+one+"*")
			}
			return patterns, true
		}
	}
	if strings.ContainsRune(rest, '|') && rest[0] != '(' {
		literal = "" // another alternative may start anyhow
	} else if strings.IndexByte("?*{", rest[0]) >= 0 && literal != "" {
		literal = literal[:len(literal)-1]
	}
	return []string{literal + "*"}, false
}
