package importer

import (
	"path"
	"regexp"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// claude reads Claude Code's settings.json files. There a deny comes before an
// ask before an allow, whatever is more specific; files of all layers count
// together.
func (b *builder) claude(files []File) error {
	b.final = true
	var byAction [3][]rule
	for _, f := range files {
		t, err := parseJSON(f)
		if err != nil {
			return err
		}
		permissions, _ := t.get("permissions")
		if permissions.v == nil {
			b.note(f.Name, 0, "permissions", Told, "the file has none")
			continue
		}
		for _, m := range permissions.members() {
			switch m.name {
			case "allow", "ask", "deny":
				action, _ := policy.ParseAction(m.name)
				for _, e := range m.value.elements() {
					text, ok := e.text()
					if !ok {
						b.note(f.Name, e.line(), m.name, Dropped, "an entry that is no text")
						continue
					}
					base := rule{action: action, file: f.Name, line: e.line(), text: m.name + " " + text, exact: true}
					byAction[action] = append(byAction[action], b.claudeRule(base, text)...)
				}
			case "defaultMode":
				mode, _ := m.value.text()
				b.claudeMode(f.Name, m.value.line(), mode)
			case "additionalDirectories":
				for _, e := range m.value.elements() {
					dir, _ := e.text()
					b.note(f.Name, e.line(), dir, Told, "give it to a session as an extra root; a policy opens no roots")
				}
			default:
				b.note(f.Name, m.key.line(), "permissions."+m.name, Dropped, "it has no counterpart")
			}
		}
		if sandbox, ok := t.get("sandbox"); ok {
			b.note(f.Name, sandbox.line(), "sandbox", Told, "our own sandbox runs every shell tool; allowed domains become hosts of the configuration")
		}
		if env, ok := t.get("env"); ok {
			b.note(f.Name, env.line(), "env", Dropped, "environment is not part of a policy")
		}
		if hooks, ok := t.get("hooks"); ok {
			b.note(f.Name, hooks.line(), "hooks", Told, "a hook can be a link of the authorizer chain")
		}
	}
	// Later is stronger, so the asks come behind the allows, the denies last.
	for _, a := range []policy.Action{policy.Allow, policy.Ask, policy.Deny} {
		b.rules = append(b.rules, byAction[a]...)
	}
	b.note(files[0].Name, 0, "read-only commands", Told, "about thirty commands such as ls, cat and git log run unasked there; here they are asked unless a rule allows them")
	return nil
}

func (b *builder) claudeMode(file string, line int, mode string) {
	text := "defaultMode " + mode
	set := func(m policy.Mode) {
		if b.res.Mode == "" || m.Rank() < b.res.Mode.Rank() {
			b.res.Mode = m
		}
	}
	switch mode {
	case "default", "manual", "":
		set(policy.Supervised)
		b.note(file, line, text, Kept, "mode supervised")
	case "acceptEdits":
		set(policy.AutoAcceptEdits)
		b.note(file, line, text, Narrowed, "mode auto_accept_edits, which asks for rm, mv and sed -i")
	case "plan":
		set(policy.Supervised)
		b.note(file, line, text, Narrowed, "mode supervised, the nearest")
	case "bypassPermissions":
		set(policy.FullAccess)
		b.note(file, line, text, Kept, "mode full_access")
	default:
		set(policy.Supervised)
		b.note(file, line, text, Narrowed, "mode supervised: this one has no counterpart")
	}
}

// claudeRule translates one rule; none where it cannot be carried over.
func (b *builder) claudeRule(base rule, text string) []rule {
	tool, spec, has := strings.Cut(text, "(")
	if has {
		if !strings.HasSuffix(spec, ")") {
			b.about(base, Dropped, "no closing parenthesis")
			return nil
		}
		spec = strings.TrimSuffix(spec, ")")
	}
	tool = strings.TrimSpace(tool)
	one := func(surface, pattern string) []rule {
		r := base
		r.surface, r.pattern = surface, pattern
		return []rule{r}
	}
	spread := func(pattern string, surfaces ...string) []rule {
		var out []rule
		for _, s := range surfaces {
			out = append(out, one(s, pattern)...)
		}
		return out
	}
	if i := strings.IndexByte(spec, ':'); has && i > 0 && tool != "Bash" && tool != "WebFetch" && tool != "Skill" && !strings.HasPrefix(tool, "mcp__") && tool != "Read" && tool != "Edit" && tool != "Write" {
		b.about(base, Dropped, "rules on parameters of a tool have no counterpart")
		return nil
	}
	switch {
	case tool == "":
		b.about(base, Dropped, "no tool")
		return nil
	case tool == "Bash":
		switch {
		case !has || spec == "" || spec == "*":
			return one("bash", "*")
		case strings.HasSuffix(spec, ":*"):
			// A prefix at a word's end; our trailing " *" is optional.
			return one("bash", strings.TrimSuffix(spec, ":*")+" *")
		}
		return one("bash", spec)
	case tool == "Read", tool == "Glob", tool == "Grep", tool == "LS":
		surfaces := map[string][]string{"Read": {"read", "grep", "find", "ls"}, "Glob": {"find"}, "Grep": {"grep"}, "LS": {"ls"}}[tool]
		if base.action != policy.Allow && (has || tool == "Read") {
			surfaces = []string{"path_read"}
		}
		return b.claudePaths(base, spec, has, surfaces)
	case tool == "Edit", tool == "Write", tool == "MultiEdit", tool == "NotebookEdit":
		surfaces := []string{"edit", "write"}
		if base.action != policy.Allow {
			surfaces = []string{"path_write"}
		}
		return b.claudePaths(base, spec, has, surfaces)
	case strings.HasPrefix(tool, "mcp__"):
		c, ok := policy.MCPName(tool)
		if !ok {
			b.about(base, Dropped, "the name of a server is missing")
			return nil
		}
		if c.Tool == "" || c.Tool == "*" {
			return append(one("mcp", c.Server+":*"), one("mcp", c.Server)...)
		}
		return one("mcp", c.Server+":"+c.Tool)
	case tool == "WebFetch" && has:
		host, ok := strings.CutPrefix(spec, "domain:")
		if !ok {
			b.about(base, Dropped, "expected domain:HOST")
			return nil
		}
		return one("network", strings.ToLower(host))
	case tool == "WebFetch", tool == "WebSearch":
		return one(tool, "*")
	case tool == "Task", tool == "Agent":
		return one("task", orStar(spec))
	case tool == "Skill":
		if p, ok := strings.CutSuffix(spec, ":*"); ok {
			spec = p + " *"
		}
		return one("skill", orStar(spec))
	case has && spec != "" && spec != "*":
		b.about(base, Dropped, "what a rule says about the input of this tool is not known")
		return nil
	case strings.ContainsAny(tool, " \t*?"):
		b.about(base, Dropped, "not the name of a tool")
		return nil
	}
	return spread("*", policy.ToolSurface(tool))
}

func orStar(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

// claudePaths translates a path in the manner of gitignore.
func (b *builder) claudePaths(base rule, spec string, has bool, surfaces []string) []rule {
	patterns, exact := []string{"*"}, true
	if has && spec != "" && spec != "*" && spec != "**" {
		patterns, exact = b.gitignore(spec)
	}
	if !exact && base.action == policy.Allow {
		b.about(base, Dropped, "a * that stops at slashes cannot be written, and a wider pattern would allow more")
		return nil
	}
	var out []rule
	for _, s := range surfaces {
		for _, p := range patterns {
			r := base
			r.surface, r.pattern, r.exact = s, p, exact
			out = append(out, r)
		}
	}
	return out
}

// classes are gitignore's [a-z], for which we have one character.
var classes = regexp.MustCompile(`\[[^\]/]+\]`)

// gitignore returns our patterns for one of gitignore's, and whether they mean
// the same: our star crosses slashes.
func (b *builder) gitignore(spec string) ([]string, bool) {
	anchored, exact := true, true
	switch {
	case strings.HasPrefix(spec, "//"):
		spec = spec[1:]
	case strings.HasPrefix(spec, "~/"):
	case strings.HasPrefix(spec, "/"):
		// Without the folder of the settings any folder has to do.
		exact = b.opt.Root != ""
		spec = path.Join("/", spec)
		if exact {
			spec = path.Join(b.opt.Root, spec)
		} else {
			spec = "*" + spec
		}
	case strings.HasPrefix(spec, "./"):
		spec = strings.TrimPrefix(spec, "./")
	default:
		anchored = strings.Contains(strings.TrimSuffix(spec, "/"), "/")
	}
	whole := spec
	tail := false
	for _, end := range []string{"/**", "/"} {
		if s, ok := strings.CutSuffix(spec, end); ok {
			spec, tail = s, true
			break
		}
	}
	exact = exact && !strings.ContainsAny(spec, "*?[")
	spec = classes.ReplaceAllString(spec, "?")
	// A folder stands for what is in it. Only "dir/**" leaves out the folder.
	out := []string{spec + "/*"}
	if !tail || strings.HasSuffix(whole, "/") && !strings.HasSuffix(whole, "/**") {
		out = append(out, spec)
	}
	if !anchored {
		// Without a slash it matches at any depth.
		for _, p := range out[:len(out):len(out)] {
			out = append(out, "*/"+p)
		}
	}
	return out, exact
}
