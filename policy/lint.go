package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is something about a policy that its author should look at. The
// policy works as it is.
type Finding struct {
	// Check is one of "shadowed", "unreachable", "contradictory", "wide", "typo".
	Check string `json:"check"`
	Rule  Rule   `json:"rule"`
	// Other is the rule that it collides with.
	Other   *Rule  `json:"other,omitempty"`
	Message string `json:"message"`
}

// String returns "file:line:column: check: message".
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s", f.Rule.Origin, f.Check, f.Message)
}

// maxCompared bounds how many rules of one surface are compared each with each.
const maxCompared = 2000

// wideCommands are programs of which an allow for everything allows anything.
var wideCommands = map[string]string{
	"sudo": "runs anything as another user", "doas": "runs anything as another user", "su": "runs anything as another user",
	"env": "runs any program", "xargs": "runs any program", "nohup": "runs any program", "timeout": "runs any program", "nice": "runs any program",
	"setsid": "runs any program", "stdbuf": "runs any program", "time": "runs any program", "watch": "runs any program", "flock": "runs any program",
	"parallel": "runs any program", "command": "runs any program", "exec": "runs any program", "ssh": "runs any program on another machine, and on this one by option",
	"bash": "runs any text", "sh": "runs any text", "zsh": "runs any text", "dash": "runs any text", "ksh": "runs any text", "fish": "runs any text", "eval": "runs any text",
	"python": "runs any text", "python3": "runs any text", "node": "runs any text", "deno": "runs any text", "bun": "runs any text", "perl": "runs any text",
	"ruby": "runs any text", "php": "runs any text", "lua": "runs any text", "awk": "runs any text", "gawk": "runs any text", "osascript": "runs any text",
	"rm": "deletes anything that may be written", "dd": "overwrites anything that may be written", "find": "runs any program by -exec and deletes by -delete",
	"curl": "sends anything anywhere the network is open", "wget": "sends anything anywhere the network is open", "nc": "sends anything anywhere the network is open",
	"git": "runs programs by option and configuration, and pushes", "docker": "controls the whole machine", "podman": "controls the whole machine",
	"kubectl": "controls the whole cluster", "npx": "runs any package", "npm": "runs any script of the project", "make": "runs whatever the workspace says",
	"tar": "runs programs by option", "vim": "runs any program", "less": "runs any program", "crontab": "runs programs later", "systemctl": "runs programs later",
	"chmod": "changes what may be run", "tmux": "types into other sessions", "screen": "types into other sessions",
}

// Lint looks for rules that do not do what their author may think: shadowed
// ones that change nothing, unreachable ones that can never decide,
// contradictory ones, dangerously wide ones, and likely typos. guards may be
// nil. Findings come in the order of the file.
func Lint(f *PolicyFile, guards *Guards) []Finding {
	var out []Finding
	add := func(check string, r Rule, other *Rule, format string, args ...any) {
		out = append(out, Finding{check, r, other, fmt.Sprintf(format, args...)})
	}
	if u := f.Universal; u != nil && u.Action == Allow {
		own := slices.ContainsFunc(f.Rules, func(r Rule) bool { return r.Surface == surfaceBash && r.Pattern == "*" })
		if own {
			add("wide", *u, nil, `"*" allows every tool that has no rule, where no mode was chosen`)
		} else {
			add("wide", *u, nil, `"*" allows every tool that has no rule, where no mode was chosen, and bash has no "*" of its own: every command runs`)
		}
	}
	bySurface := map[string][]lintRule{}
	var order []string
	for _, r := range f.Rules {
		if near := nearSurface(r.Surface); near != "" && !slices.Contains(order, r.Surface) {
			add("typo", r, nil, "no agent is known to have a tool %q; did you mean %q?", r.Surface, near)
		}
		if !slices.Contains(order, r.Surface) {
			order = append(order, r.Surface)
		}
		g, ok := compileGlob("", r.Pattern, false)
		if !ok {
			continue
		}
		bySurface[r.Surface] = append(bySurface[r.Surface], lintRule{r, g})
		lintPattern(r, add)
	}
	for _, surface := range order {
		rules := bySurface[surface]
		if len(rules) > maxCompared {
			add("shadowed", rules[0].Rule, nil, "%d rules on %s are too many to compare each with each", len(rules), surface)
			continue
		}
		lintPairs(rules, add)
	}
	if guards != nil {
		for _, r := range f.Rules {
			if r.Action == Deny {
				continue
			}
			for i := range guards.Rules {
				g := &guards.Rules[i]
				if g.Action == Deny && g.Surface == r.Surface && covers(g.Pattern, r.Pattern) &&
					!slices.ContainsFunc(guards.Rules, func(o Rule) bool {
						return o.Action == Allow && o.Surface == r.Surface && (covers(r.Pattern, o.Pattern) || covers(o.Pattern, r.Pattern))
					}) {
					add("unreachable", r, g, "the hard guard %s \"%s\" denies all of it", g.Origin, g.Pattern)
					break
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		if a.Rule.Origin.Line != b.Rule.Origin.Line {
			return a.Rule.Origin.Line - b.Rule.Origin.Line
		}
		return a.Rule.Origin.Column - b.Rule.Origin.Column
	})
	// A rule of a path family is there twice, once for each direction.
	return slices.CompactFunc(out, func(a, b Finding) bool {
		return a.Check == b.Check && a.Rule.Origin == b.Rule.Origin && a.Message == b.Message
	})
}

type lintRule struct {
	Rule
	glob glob
}

func lintPairs(rules []lintRule, add func(string, Rule, *Rule, string, ...any)) {
	for i := range rules {
		r := &rules[i]
		var next *lintRule // the most specific of the wider ones
		dead := false
		for j := range rules {
			o := &rules[j]
			if i == j || !coversGlob(&o.glob, o.Pattern, r.Pattern) {
				continue
			}
			switch c := o.glob.compare(&r.glob); {
			case c < 0 || c == 0 && coversGlob(&r.glob, r.Pattern, o.Pattern) && (o.Action < r.Action || o.Action == r.Action && j > i):
				// The other is asked first and takes everything.
				if dead {
					continue
				}
				dead = true
				if o.Action != r.Action && c == 0 {
					add("contradictory", r.Rule, &o.Rule, "%s says %s for the same, and the more restrictive counts", o.Origin, o.Action)
				} else {
					add("unreachable", r.Rule, &o.Rule, "\"%s\" at %s always decides before it", o.Pattern, o.Origin)
				}
			case c > 0:
				if next == nil || o.glob.compare(&next.glob) < 0 || o.glob.compare(&next.glob) == 0 && o.Action < next.Action {
					next = o
				}
			}
		}
		if dead || next == nil || next.Action != r.Action || r.Reason != "" {
			continue
		}
		// Without it the next wider rule would say the same, unless a rule between
		// them catches part of it.
		between := slices.ContainsFunc(rules, func(o lintRule) bool {
			return o.Action != r.Action && o.glob.compare(&next.glob) <= 0 && r.glob.compare(&o.glob) <= 0 && mayOverlap(&o.glob, &r.glob)
		})
		if !between {
			add("shadowed", r.Rule, &next.Rule, "\"%s\" at %s says %s for it anyway", next.Pattern, next.Origin, next.Action)
		}
	}
}

// coversGlob is covers with the wide side compiled.
func coversGlob(g *glob, wide, narrow string) bool {
	if wide == narrow {
		return true
	}
	if len(g.segments[0]) > 0 && !g.wild[0] && g.segments[0][0] != '~' && !g.optional && !strings.HasPrefix(narrow, g.segments[0]) {
		return false
	}
	return covers(wide, narrow)
}

// mayOverlap says whether some value could match both. It says yes unless their
// literal starts or ends differ.
func mayOverlap(a, b *glob) bool {
	ha, ta := a.ends()
	hb, tb := b.ends()
	n := min(len(ha), len(hb))
	m := min(len(ta), len(tb))
	return ha[:n] == hb[:n] && ta[len(ta)-m:] == tb[len(tb)-m:]
}

func lintPattern(r Rule, add func(string, Rule, *Rule, string, ...any)) {
	p := r.Pattern
	onlyStars := strings.Trim(p, "*") == ""
	switch {
	case r.Surface == surfaceBash:
		if hasList(p) {
			add("unreachable", r, nil, "each command of a line is judged by itself, without redirections: no command holds ; & | < or >")
		}
		if word, _, _ := strings.Cut(p, " "); strings.Contains(word, "=") && !strings.ContainsAny(word, "*?/") {
			add("unreachable", r, nil, "assignments in front of a command are not part of what is matched")
		}
		if r.Action != Allow {
			return
		}
		if onlyStars {
			add("wide", r, nil, "allows every command that no other rule names")
			return
		}
		head, tail, star := strings.Cut(p, "*")
		words := strings.Fields(head)
		if !star || strings.Trim(tail, "*") != "" {
			return
		}
		if len(words) == 0 || head != "" && !strings.HasSuffix(head, " ") && len(words) == 1 {
			add("wide", r, nil, "the name of the program is not whole: also other programs that start with %q", head)
			return
		}
		name := words[0][strings.LastIndexByte(words[0], '/')+1:]
		if why, ok := wideCommands[name]; ok && (len(words) == 1 || len(words) == 2 && (strings.HasPrefix(words[1], "-") || wrappers[name].flags != nil)) {
			add("wide", r, nil, "%s %s", name, why)
		}
	case isPathSurface(r.Surface):
		if strings.Contains(p, "/../") || strings.Contains(p, "//") || strings.HasSuffix(p, "/..") || strings.Contains(p, "/./") {
			add("unreachable", r, nil, "paths are clean when they are judged: they hold no //, /./ or /../")
		}
		if strings.HasPrefix(p, "./") {
			add("unreachable", r, nil, "relative paths are judged without \"./\" in front: write %q", strings.TrimPrefix(p, "./"))
		}
		if len(p) > 1 && strings.HasSuffix(p, "/") {
			add("unreachable", r, nil, "paths are judged without a slash at the end: write %q for what is inside", p+"*")
		}
		if strings.HasPrefix(p, "~") && homePrefix(p) == 0 {
			add("unreachable", r, nil, "only ~ alone or before a slash is a home directory")
		}
		write := r.Surface == surfacePathWrite || r.Surface == "write" || r.Surface == "edit"
		if r.Action == Allow && write && (onlyStars || p == "/*" || p == "/**" || homePrefix(p) > 0 && strings.Trim(p[homePrefix(p):], "/*") == "") {
			add("wide", r, nil, "allows to write start-up files, keys and the settings of other tools")
		}
	case r.Action == Allow && onlyStars && r.Surface == surfaceMCP:
		add("wide", r, nil, "allows every tool of every server")
	case r.Action == Allow && r.Surface == surfaceNetwork && onlyStars:
		add("wide", r, nil, "allows every host")
	case r.Action == Allow && r.Surface == surfaceTask && onlyStars:
		add("wide", r, nil, "allows to start every agent")
	}
}

// hasList says whether a command pattern holds an operator of the shell outside
// of quotes.
func hasList(p string) bool {
	quote := byte(0)
	for i := range len(p) {
		switch c := p[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte(";&|<>\n", c) >= 0:
			return true
		}
	}
	return false
}

// nearSurface returns the known surface that an unknown tool's name is a likely
// typo of.
func nearSurface(s string) string {
	if slices.Contains(knownSurfaces, s) || Classify(s) != KindUnknown || strings.ContainsAny(s, "*?") || len(s) < 3 {
		return ""
	}
	for _, k := range knownSurfaces {
		if len(k) > 3 && editDistance(s, k, 2) < 2 {
			return k
		}
	}
	return ""
}
