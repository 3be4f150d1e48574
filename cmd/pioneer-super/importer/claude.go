package importer

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/getpioneer/pioneer-super/policy"
)

var claudeRule = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_*.-]*)(?:\((.*)\))?$`)

// claude reads a settings.json. Deny comes before ask before allow there, however
// specific each is.
func (im *importing) claude(f File) error {
	root, err := im.object(f)
	if err != nil {
		return err
	}
	for _, m := range root {
		switch m.name {
		case "permissions":
			if m.members == nil {
				return im.wrong(m, "an object")
			}
		case "sandbox":
			im.note(m.at, "sandbox", "not carried over: the sandbox of restricted modes is ours, config.jsonc has its roots and hosts")
			continue
		default:
			continue
		}
		for _, p := range m.members {
			switch p.name {
			case "allow", "ask", "deny":
				action, _ := policy.ParseAction(p.name)
				list, ok := p.texts()
				if !ok {
					return im.wrong(p, "a list of rules")
				}
				for _, t := range list {
					im.claudeRule(t.text, action, t.at)
				}
			case "defaultMode":
				t, _ := p.text()
				mode := map[string]string{"default": "supervised", "plan": "supervised", "dontAsk": "supervised", "manual": "supervised",
					"acceptEdits": "auto_accept_edits, which does not let rm, mv and sed through as acceptEdits does", "bypassPermissions": "full_access"}[t]
				if mode == "" {
					mode = "none of ours"
				}
				im.note(p.at, "defaultMode "+t, "a mode is chosen by --mode, not by the policy: the nearest is %s", mode)
			case "additionalDirectories":
				im.note(p.at, p.name, `not carried over: "roots" of config.jsonc opens folders beside the workspace`)
			default:
				im.note(p.at, p.name, "not carried over: no rule of ours says this")
			}
		}
	}
	if len(im.rules) > 0 {
		im.note(place{file: f.Path}, "", "Claude Code runs about thirty commands that only read (ls, cat, git log, …) without a rule: here every command needs one")
	}
	return nil
}

func (im *importing) claudeRule(text string, action policy.Action, at place) {
	ranks := map[policy.Action]int{policy.Deny: 3, policy.Ask: 2, policy.Allow: 1}
	m := claudeRule.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		im.note(at, text, "left out: expected TOOL or TOOL(SPECIFIER)")
		return
	}
	name, spec := m[1], strings.TrimSpace(m[2])
	bare := m[2] == "" || spec == "*" || spec == "**"
	add := func(surface, pattern string) {
		im.add(rule{surface: surface, pattern: pattern, action: action, rank: ranks[action], at: at, source: text})
	}
	// unsupported carries a refusal as a question about the whole tool, so that
	// nothing that was refused runs unseen.
	unsupported := func(surface, why string) {
		if action == policy.Allow {
			im.note(at, text, "left out: %s", why)
			return
		}
		im.note(at, text, "carried as an ask for all of %s: %s", surface, why)
		im.add(rule{surface: surface, pattern: "*", action: policy.Ask, rank: ranks[policy.Ask], at: at, source: text})
	}
	switch {
	case name == "Bash":
		if p, ok := strings.CutSuffix(spec, ":*"); ok && !bare {
			add("bash", strings.TrimSpace(p)+" *")
		} else if bare {
			add("bash", "*")
		} else {
			add("bash", spec)
		}
	case strings.HasPrefix(name, "mcp__"):
		call, ok := policy.MCPName(strings.TrimSuffix(name, "__*"))
		switch {
		case !ok || strings.Contains(call.Server, "*"):
			unsupported("mcp", "expected mcp__SERVER or mcp__SERVER__TOOL")
		case call.Tool == "" || call.Tool == "*":
			add("mcp", call.Server)
			add("mcp", call.Server+":*")
		default:
			add("mcp", call.Server+":"+call.Tool)
		}
	case name == "WebFetch":
		if host, ok := strings.CutPrefix(spec, "domain:"); ok {
			add("network", host)
		} else if bare && action == policy.Allow {
			im.note(at, text, `left out: every host would be open to every tool; write "network": {"*": "allow"} if that is meant`)
		} else if bare {
			add("WebFetch", "*")
		} else {
			unsupported("WebFetch", "expected domain:HOST")
		}
	case name == "Agent" || name == "Task":
		if bare {
			add("task", "*")
		} else if strings.ContainsAny(spec, ":*") {
			unsupported("task", "only the name of an agent can be told")
		} else {
			add("task", spec)
		}
	case name == "Skill" || name == "SlashCommand":
		if bare {
			add("skill", "*")
		} else if strings.Contains(spec, "*") {
			unsupported("skill", "only the name of a skill can be told")
		} else {
			add("skill", strings.TrimPrefix(spec, "/"))
		}
	case policy.Classify(name) == policy.KindFileRead || policy.Classify(name) == policy.KindFileWrite:
		im.claudePath(text, name, spec, bare, action, ranks[action], at)
	case bare:
		add(name, "*")
	default:
		unsupported(name, "the specifier has no meaning here")
	}
}

// claudePath carries a rule about files. What refuses speaks about the path,
// whoever uses it; what allows speaks about the tools that it named.
func (im *importing) claudePath(text, name, spec string, bare bool, action policy.Action, rank int, at place) {
	write := policy.Classify(name) == policy.KindFileWrite
	surfaces := []string{"path_read"}
	switch {
	case write && action == policy.Allow:
		surfaces = []string{"edit", "write"}
	case write:
		surfaces = []string{"path_write"}
	case action == policy.Allow:
		surfaces = []string{"read", "find", "grep", "ls"}
	}
	patterns, exact := []string{"*"}, true
	if bare && action != policy.Allow && name != "Read" && name != "Edit" {
		// Only this tool is refused, not every way to touch a file.
		surfaces = []string{policy.ToolSurface(name)}
	}
	if !bare {
		var why string
		if patterns, exact, why = im.gitignore(spec); why != "" {
			if action == policy.Allow {
				im.note(at, text, "left out: %s", why)
				return
			}
			im.note(at, text, "carried as an ask for every path: %s", why)
			patterns, exact, action, rank = []string{"*"}, true, policy.Ask, 2
		}
	}
	inexact := false
	if !exact {
		if inexact = action == policy.Allow; inexact {
			action = policy.Ask
		} else {
			im.note(at, text, `wider here: "*" also matches "/"`)
		}
	}
	for _, s := range surfaces {
		for _, p := range patterns {
			im.add(rule{surface: s, pattern: p, action: action, rank: rank, at: at, source: text, inexact: inexact})
		}
	}
}

// gitignore turns a path pattern in the manner of gitignore into ours. exact is
// false where ours match more.
func (im *importing) gitignore(spec string) (patterns []string, exact bool, why string) {
	if strings.ContainsAny(spec, "[]\\!{}") {
		return nil, false, `patterns of ours have no "[", "!", "\" and "{"`
	}
	prefix, rest := "", spec
	anchored := true
	switch {
	case strings.HasPrefix(spec, "//"):
		prefix, rest = "/", strings.TrimLeft(spec, "/")
	case strings.HasPrefix(spec, "~/"):
		prefix, rest = "~/", spec[2:]
	case strings.HasPrefix(spec, "/"):
		dir := filepath.Dir(im.file.Path)
		abs, err := filepath.Abs(dir)
		if err != nil || filepath.Base(abs) != ".claude" {
			return nil, false, fmt.Sprintf("%q starts at the folder of the settings, and this file is in no .claude folder", spec)
		}
		prefix, rest = filepath.ToSlash(filepath.Dir(abs))+"/", spec[1:]
	case strings.HasPrefix(spec, "./"):
		rest = spec[2:]
	default:
		anchored = strings.Contains(strings.TrimSuffix(spec, "/"), "/")
	}
	for strings.HasPrefix(rest, "**/") {
		rest, anchored = rest[3:], prefix != "" && anchored
		if prefix != "" {
			rest = "*" + rest
			break
		}
	}
	all := false // everything below, and not the folder itself
	for _, end := range []string{"/**", "/**/*", "/"} {
		if s, ok := strings.CutSuffix(rest, end); ok && s != "" {
			rest, all = s, true
			break
		}
	}
	if rest == "" || rest == "**" {
		return []string{prefix + "*"}, true, ""
	}
	body := strings.ReplaceAll(strings.ReplaceAll(rest, "**/", "*"), "**", "*")
	exact = true
	for i := 0; i < len(rest); i++ {
		if rest[i] == '?' || rest[i] == '*' && (i == 0 || rest[i-1] != '*') && (i+1 == len(rest) || rest[i+1] != '*') {
			exact = false
		}
	}
	if !anchored && strings.HasPrefix(rest, "*") && strings.Count(rest, "*") == 1 && !strings.ContainsAny(rest, "/?") {
		// "*.env" at any depth is every path that ends so.
		patterns, exact = []string{body, body + "/*"}, true
		if all {
			patterns = patterns[1:]
		}
		return patterns, exact, ""
	}
	heads := []string{prefix + body}
	if !anchored && prefix == "" {
		heads = append(heads, "*/"+body)
	}
	for _, h := range heads {
		if !all {
			patterns = append(patterns, h)
		}
		patterns = append(patterns, h+"/*")
	}
	return patterns, exact, ""
}

// member is one member of an object, or one element of a list.
type member struct {
	name    string
	at      place
	value   hujson.Value
	members []member // of an object, in order
	isList  bool
	list    []member
}

type textAt struct {
	text string
	at   place
}

func (m member) text() (string, bool) {
	lit, ok := m.value.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", false
	}
	return lit.String(), true
}

func (m member) texts() ([]textAt, bool) {
	if !m.isList {
		return nil, false
	}
	var out []textAt
	for _, e := range m.list {
		s, ok := e.text()
		if !ok {
			return nil, false
		}
		out = append(out, textAt{s, e.at})
	}
	return out, true
}

func (im *importing) wrong(m member, expected string) error {
	return fmt.Errorf("%s:%d:%d: %q, expected %s", m.at.file, m.at.line, m.at.column, m.name, expected)
}

// object reads a JSON file with comments whose root is an object.
func (im *importing) object(f File) ([]member, error) {
	depth := 0
	inString := false
	for i := 0; i < len(f.Data); i++ {
		switch c := f.Data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			// The reader recurses.
			if depth++; depth > 1000 {
				return nil, fmt.Errorf("%s: more than 1000 levels of nesting", f.Path)
			}
		case !inString && (c == '}' || c == ']'):
			depth--
		}
	}
	v, err := hujson.Parse(f.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %s, expected JSON with comments", f.Path, strings.TrimPrefix(err.Error(), "hujson: "))
	}
	root := im.value("", v, v.StartOffset, 0)
	if root.members == nil {
		return nil, fmt.Errorf("%s:1:1: expected an object of settings", f.Path)
	}
	return root.members, nil
}

func (im *importing) value(name string, v hujson.Value, offset, depth int) member {
	m := member{name: name, at: im.at(offset), value: v}
	if depth > maxDepth {
		return m
	}
	switch x := v.Value.(type) {
	case *hujson.Object:
		m.members = []member{}
		for _, e := range x.Members {
			key, _ := e.Name.Value.(hujson.Literal)
			m.members = append(m.members, im.value(key.String(), e.Value, e.Name.StartOffset, depth+1))
		}
	case *hujson.Array:
		m.isList = true
		for _, e := range x.Elements {
			m.list = append(m.list, im.value("", e, e.StartOffset, depth+1))
		}
	}
	return m
}
