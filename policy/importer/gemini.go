package importer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// gemini reads Gemini CLI's policy files (TOML) and the tool lists of its
// settings.json. The matching rule with the highest priority wins, the file's
// tier before the number; of equal ones the first.
func (b *builder) gemini(files []File) error {
	type ranked struct {
		rule
		priority int64
		order    int
	}
	var all []ranked
	add := func(priority int64, r rule) { all = append(all, ranked{r, priority, len(all)}) }
	for _, f := range files {
		if !strings.HasSuffix(f.Name, ".toml") {
			if err := b.geminiSettings(f, func(r rule) { add(4_000_000, r) }); err != nil {
				return err
			}
			continue
		}
		tables, err := parseTOML(f)
		if err != nil {
			return err
		}
		tier := int64(4)
		if strings.HasPrefix(f.Name, "/etc/") {
			tier = 5
		}
		for _, t := range tables {
			switch {
			case t.name == "" && len(t.keys) == 0:
			case t.name == "rule" && t.array:
				v, _, _ := t.get("priority")
				n, _ := v.(int64)
				for _, r := range b.geminiRule(f.Name, t) {
					add(tier*1_000_000+min(max(n, 0), 999_999), r)
				}
			default:
				b.note(f.Name, t.line, orWord(t.name, "top level"), Dropped, "not a rule")
			}
		}
	}
	// The last rule that matches decides here, so the strongest comes last.
	slices.SortFunc(all, func(x, y ranked) int {
		if x.priority != y.priority {
			return int(x.priority - y.priority)
		}
		return y.order - x.order
	})
	for _, r := range all {
		b.add(r.rule)
	}
	return nil
}

func geminiDecision(word string) (policy.Action, bool) {
	switch word {
	case "allow":
		return policy.Allow, true
	case "ask_user":
		return policy.Ask, true
	case "deny":
		return policy.Deny, true
	}
	return policy.Deny, false
}

func (b *builder) geminiRule(file string, t table) []rule {
	word, _, _ := t.text("decision")
	tools := t.texts("toolName")
	prefixes := t.texts("commandPrefix")
	server, _, hasServer := t.text("mcpName")
	what := strings.TrimSpace(fmt.Sprintf("rule %s %s %s", strings.Join(tools, ","), strings.Join(prefixes, ","), word))
	action, ok := geminiDecision(word)
	if !ok {
		b.note(file, t.line, what, Dropped, "expected the decision allow, ask_user or deny")
		return nil
	}
	base := rule{action: action, file: file, line: t.line, text: what, exact: true}
	base.reason, _, _ = t.text("denyMessage")
	if base.reason == "" {
		base.reason, _, _ = t.text("deny_message")
	}
	drop := func(why string) []rule {
		if action == policy.Deny {
			why += "; it denied, so look for a way to deny it here"
		}
		b.note(file, t.line, what, Dropped, "%s", why)
		return nil
	}
	for _, k := range t.keys {
		switch k.name {
		case "toolName", "commandPrefix", "mcpName", "decision", "priority", "denyMessage", "deny_message", "commandRegex":
		case "allowRedirection", "allow_redirection":
			if k.value == true {
				b.note(file, k.line, what, Narrowed, "redirections are writes here and go through path rules")
			}
		case "modes":
			return drop("rules for single modes have no counterpart")
		case "subagent":
			return drop("rules for a subagent go into its agent file")
		case "interactive":
			return drop("rules for headless or interactive sessions have no counterpart")
		case "argsPattern", "toolAnnotations":
			return drop("what " + k.name + " says about the input has no counterpart")
		default:
			return drop("the field " + k.name + " is not known")
		}
	}
	if re, _, ok := t.text("commandRegex"); ok {
		p, literal := literalPrefix(re)
		if !literal {
			return drop("a regular expression that is more than a literal start")
		}
		// Without a word's end it matches longer words as well.
		prefixes = nil
		base.surface, base.pattern = "bash", p+"*"
		return []rule{base}
	}
	one := func(surface, pattern string) rule {
		r := base
		r.surface, r.pattern = surface, pattern
		return r
	}
	var out []rule
	if hasServer {
		if len(tools) == 0 {
			tools = []string{"*"}
		}
		for _, tool := range tools {
			tool = strings.TrimPrefix(tool, server+"__")
			if server == "*" {
				out = append(out, one("mcp", "*"))
				continue
			}
			out = append(out, one("mcp", server+":"+tool))
		}
		return out
	}
	if len(prefixes) > 0 && len(tools) == 0 {
		tools = []string{"run_shell_command"}
	}
	if len(tools) == 0 {
		tools = []string{"*"}
	}
	for _, tool := range tools {
		switch {
		case tool == "*":
			out = append(out, one("*", "*"))
		case policy.Classify(tool) == policy.KindShellCommand:
			if len(prefixes) == 0 {
				out = append(out, one("bash", "*"))
			}
			for _, p := range prefixes {
				p = strings.Join(strings.Fields(p), " ")
				if p == "" || strings.ContainsAny(p, "*?") {
					b.note(file, t.line, what, Dropped, "the prefix %q cannot be written", p)
					continue
				}
				out = append(out, one("bash", p+" *"))
			}
		case len(prefixes) > 0:
			b.note(file, t.line, what, Dropped, "a command prefix for %s, which is no shell", tool)
		case strings.ContainsAny(tool, "*?"):
			if strings.HasPrefix(tool, "mcp_") {
				out = append(out, one("mcp", strings.TrimPrefix(tool, "mcp_")))
				continue
			}
			if action == policy.Allow {
				b.note(file, t.line, what, Dropped, "a pattern of tools that allows")
				continue
			}
			out = append(out, one(tool, "*"))
		default:
			out = append(out, one(policy.ToolSurface(tool), "*"))
		}
	}
	return out
}

// literalPrefix returns the text that a regular expression starts with, and
// whether that is all it says.
func literalPrefix(re string) (string, bool) {
	re = strings.TrimPrefix(re, "^")
	re = strings.TrimSuffix(re, ".*")
	var b strings.Builder
	for i := 0; i < len(re); i++ {
		c := re[i]
		if c == '\\' && i+1 < len(re) && strings.IndexByte(`.+-/()[]{}|^$`, re[i+1]) >= 0 {
			i++
			b.WriteByte(re[i])
			continue
		}
		if strings.IndexByte(`.*+?()[]{}|^$\`, c) >= 0 {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), b.Len() > 0
}

// geminiSettings reads tools.allowed and tools.exclude.
func (b *builder) geminiSettings(f File, add func(rule)) error {
	t, err := parseJSON(f)
	if err != nil {
		return err
	}
	read := func(action policy.Action, path ...string) {
		list, ok := t.get(path...)
		if !ok {
			return
		}
		for _, e := range list.elements() {
			text, _ := e.text()
			tool, spec, has := strings.Cut(strings.TrimSuffix(text, ")"), "(")
			r := rule{action: action, file: f.Name, line: e.line(), text: strings.Join(path, ".") + " " + text, exact: true}
			switch {
			case text == "" || has && policy.Classify(tool) != policy.KindShellCommand || strings.ContainsAny(spec, "*?"):
				b.about(r, Dropped, "expected a tool, or a shell tool with a prefix")
				continue
			case has:
				r.surface, r.pattern = "bash", strings.Join(strings.Fields(spec), " ")+" *"
			default:
				r.surface, r.pattern = policy.ToolSurface(tool), "*"
			}
			add(r)
		}
	}
	read(policy.Allow, "tools", "allowed")
	read(policy.Deny, "tools", "exclude")
	read(policy.Deny, "excludeTools")
	if mode, ok := t.get("general", "defaultApprovalMode"); ok {
		word, _ := mode.text()
		m := map[string]policy.Mode{"default": policy.Supervised, "auto_edit": policy.AutoAcceptEdits, "yolo": policy.FullAccess, "plan": policy.Supervised}[word]
		if m != "" {
			b.res.Mode = m
			b.note(f.Name, mode.line(), "defaultApprovalMode "+word, Kept, "mode %s", m)
		}
	}
	return nil
}
