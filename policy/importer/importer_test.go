package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/policy"
	"pgregory.net/rapid"
)

// load composes what an import proposes, in a mode that asks.
func load(t testing.TB, r *Result) *policy.Authority {
	t.Helper()
	p, err := policy.ParsePolicy("policy.jsonc", r.Policy)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Policy)
	}
	g, err := policy.ParseGuards("hard-guards.jsonc", r.Guards)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Guards)
	}
	return policy.Compose(policy.Layers{Session: "s", Snapshot: policy.Resolve(policy.ResolveInput{Mode: policy.Supervised, Workspace: "/w", Cwd: "/w"}), Policy: p, Guards: g})
}

func run(t *testing.T, agent string, opt Options, files ...File) *Result {
	t.Helper()
	r, err := Import(agent, files, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func notes(r *Result) string {
	var lines []string
	for _, n := range r.Notes {
		lines = append(lines, n.String())
	}
	return strings.Join(lines, "\n")
}

type verdict struct {
	surface, value string
	want           policy.Action
}

func check(t *testing.T, r *Result, want []verdict) {
	t.Helper()
	a := load(t, r)
	for _, v := range want {
		q := policy.NewQuery(v.surface, v.value)
		q.Home = "/home/u"
		if d := a.Decide(q); d.Action != v.want {
			t.Errorf("%s %q: %s, want %s (%s)", v.surface, v.value, d.Action, v.want, d.Reason)
		}
	}
	if t.Failed() {
		t.Logf("policy %s\nguards %s\n%s", r.Policy, r.Guards, notes(r))
	}
}

func mentions(t *testing.T, r *Result, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(notes(r), w) {
			t.Errorf("no note with %q in\n%s", w, notes(r))
		}
	}
}

func TestClaudeCode(t *testing.T) {
	r := run(t, "claude-code", Options{Root: "/w"}, File{"settings.json", []byte(`{
  "permissions": {
    "defaultMode": "acceptEdits",
    "allow": ["Bash(git:*)", "Bash(npm run test)", "Bash(git push origin *)", "Bash(tfx plan *)", "Read(//etc/hosts)", "Edit(/src/**)", "Edit(*.md)",
              "mcp__exa", "mcp__gh__read", "WebFetch(domain:Go.dev)", "WebSearch", "Task(reviewer)", "Skill(pdf)", "Tool(param:value)", "Bash(open"],
    "ask": ["Bash(git push:*)"],
    "deny": ["Bash(tfx destroy:*)", "Bash(rm *)", "Read(./secrets/**)", "Read(~/.ssh)", "Edit(.env)", "mcp__gh__delete", "WebFetch"],
    "additionalDirectories": ["/data"],
    "disableBypassPermissionsMode": "disable"
  },
  "hooks": {}
}`)})
	check(t, r, []verdict{
		{"bash", "git status", policy.Allow}, {"bash", "git", policy.Allow}, {"bash", "gitk", policy.Ask},
		{"bash", "git push", policy.Ask}, {"bash", "git push origin main", policy.Ask}, // ask comes before the narrower allow
		{"bash", "npm run test", policy.Allow}, {"bash", "npm run test:all", policy.Ask},
		{"bash", "tfx plan -o x", policy.Allow}, {"bash", "tfx planx", policy.Ask}, {"bash", "tfx destroy", policy.Deny}, {"bash", "rm -rf build", policy.Deny},
		{"read", "/etc/hosts", policy.Allow}, {"path_read", "secrets/key", policy.Deny}, {"path_read", "/home/u/.ssh/id", policy.Deny},
		{"edit", "/w/src/a/b.go", policy.Allow}, {"edit", "/w/other.go", policy.Ask}, {"write", "/w/src/x", policy.Allow}, {"path_write", ".env", policy.Deny}, {"path_write", "/w/sub/.env", policy.Deny},
		{"mcp", "exa:search", policy.Allow}, {"mcp", "gh:read", policy.Allow}, {"mcp", "gh:delete", policy.Deny}, {"mcp", "gh:write", policy.Ask},
		{"network", "go.dev", policy.Allow}, {"WebSearch", "x", policy.Allow}, {"WebFetch", "https://x", policy.Deny},
		{"task", "reviewer", policy.Allow}, {"task", "other", policy.Ask}, {"skill", "pdf", policy.Allow},
	})
	if r.Mode != policy.AutoAcceptEdits {
		t.Errorf("mode %q", r.Mode)
	}
	mentions(t, r,
		`settings.json:4: dropped: allow Bash(git push origin *): it never decides: ask Bash(git push:*) says ask for all of it`,
		`settings.json:5: dropped: allow Tool(param:value): rules on parameters`,
		`settings.json:5: dropped: allow Bash(open: no closing parenthesis`,
		`settings.json:4: dropped: allow Edit(*.md): a * that stops at slashes`,
		`settings.json:7: guard: deny Bash(rm *): bash "rm *"`,
		`narrowed: defaultMode acceptEdits`, `note: /data`, `dropped: permissions.disableBypassPermissionsMode`, `read-only commands`, `note: hooks`,
	)
}

func TestOpenCodeTakesTheLastMatch(t *testing.T) {
	r := run(t, "opencode", Options{}, File{"opencode.json", []byte(`{
  // mine
  "permission": {
    "read": "deny",
    "*": "ask",
    "bash": {"git push *": "deny", "git *": "allow", "rm *": "allow", "rm -rf *": "deny", "tfx *": "deny", "tfx plan *": "allow", "ls -la": "allow", "ls *": "ask", "x*y": "allow", "*y": "deny"},
    "webfetch": {"https://go.dev/*": "allow", "https://x.org/secret*": "deny"},
    "websearch": "allow",
    "web*": "deny",
    "glob": {"*": "allow", "*.env": "deny"},
    "edit": "allow",
    "external_directory": {"/data/*": "allow", "*": "ask"},
    "doom_loop": "ask",
  },
  "agent": {
    "review": {"permission": {"edit": "deny", "bash": {"*": "ask", "git log *": "allow"}}},
    "../evil": {"permission": {"edit": "deny"}}
  }
}`)})
	check(t, r, []verdict{
		{"bash", "git push origin", policy.Allow}, // the later git * wins there
		{"bash", "rm x", policy.Allow}, {"bash", "rm -rf x", policy.Deny}, {"bash", "tfx destroy", policy.Deny}, {"bash", "tfx plan -o", policy.Allow},
		{"bash", "ls -la", policy.Ask}, {"bash", "xay", policy.Deny}, {"webfetch", "https://x", policy.Deny}, {"websearch", "x", policy.Deny}, {"network", "go.dev", policy.Allow}, {"find", "/w/x", policy.Ask},
		{"edit", "/w/x", policy.Allow}, {"write", "/w/x", policy.Allow}, {"path_read", "/data/x", policy.Ask}, {"read", "/w/x", policy.Allow},
	})
	mentions(t, r,
		`opencode.json:6: dropped: bash "git push *": deny: it never decides: bash "git *": allow says allow for all of it`,
		`opencode.json:4: dropped: read "*": deny: it never decides: * "*": ask says ask for all of it`,
		`a rule for everything counts only where no mode was chosen`, `dropped: doom_loop`, `narrowed: glob "*.env": deny: what find is asked about`, `dropped: agent ../evil`, `what no rule names is allowed there`,
	)
	agent, err := policy.ParseAgent("review.md", r.Agents["review"])
	if err != nil || len(r.Agents) != 1 {
		t.Fatalf("%v %v", err, r.Agents)
	}
	if len(agent.Permission.Rules) != 4 || agent.Name != "review" {
		t.Errorf("%s", r.Agents["review"])
	}
	whole := run(t, "opencode", Options{}, File{"o.json", []byte(`{"permission": "allow"}`)})
	if !strings.Contains(string(whole.Policy), `"*": "allow"`) {
		t.Errorf("%s", whole.Policy)
	}
}

func TestCodex(t *testing.T) {
	r := run(t, "codex", Options{}, File{"default.rules", []byte(`# rules
prefix_rule(
    pattern = ["git", ["push", "fetch"]],
    decision = "prompt",
    justification = "talks to \"origin\"",
    match = ["git push origin", ["git", "fetch"]],
    not_match = ["git status"],
)
prefix_rule(["git"], "allow")
prefix_rule(pattern=["git", "push", "--dry-run"], decision="allow")
prefix_rule(pattern=["rm"], decision="forbidden", justification="no")
prefix_rule(pattern=["a b"], decision="allow", match=["nothing like it"])
prefix_rule(pattern=["we*rd"], decision="allow")
network_rule(host="Go.dev", protocol="https", decision="allow")
host_executable(name="git", paths=["/usr/bin/git"])
unknown_rule(x=[1, True, None])
`)}, File{"config.toml", []byte("sandbox_mode = \"workspace-write\" # mode\napproval_policy = 'on-request'\n[sandbox_workspace_write]\nwritable_roots = [\n \"/data\", # x\n]\nnetwork_access = true\n[model_providers.x]\nbase_url = \"http://x\"\n")})
	check(t, r, []verdict{
		{"bash", "git push origin", policy.Ask}, {"bash", "git fetch", policy.Ask}, {"bash", "git status", policy.Allow}, {"bash", "git", policy.Allow},
		{"bash", "git push --dry-run", policy.Ask}, // of all that match the strictest
		{"bash", "rm x", policy.Deny}, {"bash", "rmdir x", policy.Ask}, {"network", "go.dev", policy.Allow},
	})
	if r.Mode != policy.AutoAcceptEdits || !strings.Contains(string(r.Guards), `"reason": "no"`) {
		t.Errorf("mode %q\n%s", r.Mode, r.Guards)
	}
	mentions(t, r, "allowed inside our sandbox", `dropped: prefix_rule ["we*rd"] allow`, "the rule's own example does not hold", "dropped: unknown_rule", "note: host_executable git",
		`dropped: prefix_rule ["git", "push", "--dry-run"] allow: it never decides`, `config.toml:4: note: writable_roots ["/data"]`, "config.toml:1: narrowed: sandbox_mode")
}

func TestGeminiTakesTheHighestPriority(t *testing.T) {
	r := run(t, "gemini", Options{}, File{"my.toml", []byte(`
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git", "npm test"]
decision = "allow"
priority = 100

[[rule]]
toolName = "run_shell_command"
commandPrefix = "git push"
decision = "deny"
priority = 50
denyMessage = "never"

[[rule]]
toolName = "run_shell_command"
commandPrefix = "git commit"
decision = "ask_user"
priority = 200

[[rule]]
commandRegex = "^tfx (apply|plan)"
toolName = "run_shell_command"
decision = "allow"

[[rule]]
commandRegex = "^make "
toolName = "run_shell_command"
decision = "ask_user"

[[rule]]
mcpName = "gh"
toolName = ["read", "list"]
decision = "allow"

[[rule]]
toolName = "write_file"
decision = "deny"
modes = ["plan"]

[[rule]]
toolName = "replace"
decision = "deny"
deny_message = "no edits"

[[safety_checker]]
name = "x"
`)}, File{"settings.json", []byte(`{"tools": {"allowed": ["run_shell_command(ls)", "read_file(x)"], "exclude": ["web_fetch"]}, "general": {"defaultApprovalMode": "auto_edit"}}`)})
	check(t, r, []verdict{
		{"bash", "git push", policy.Allow}, // the allow has the higher priority there
		{"bash", "git status", policy.Allow}, {"bash", "git commit -m x", policy.Ask}, {"bash", "npm test", policy.Allow}, {"bash", "npm tests", policy.Ask},
		{"bash", "make all", policy.Ask}, {"mcp", "gh:read", policy.Allow}, {"mcp", "gh:write", policy.Ask}, {"edit", "/w/x", policy.Deny},
		{"bash", "ls -la", policy.Allow}, {"web_fetch", "x", policy.Deny}, {"write", "/w/x", policy.Ask},
	})
	mentions(t, r, "a regular expression that is more than a literal start", "rules for single modes have no counterpart; it denied", "dropped: safety_checker", "dropped: tools.allowed read_file(x)")
	if r.Mode != policy.AutoAcceptEdits {
		t.Errorf("mode %q", r.Mode)
	}
}

// Whatever the order of the source, what its rules decide is never looser here.
func TestAnImportIsNeverLooser(t *testing.T) {
	patterns := []string{"git *", "git push *", "git push origin *", "g*", "*push*", "git", "git p*", "* main", "*", "rm *", "rm -rf *", "a?c", "git push"}
	values := []string{"git", "git push", "git push origin main", "git pull", "rm -rf x", "rm", "go main", "abc", "git push origin", "git status main"}
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		final := rapid.Bool().Draw(t, "final")
		b := &builder{res: &Result{Agents: map[string][]byte{}}, final: final}
		surfaces := []string{"bash", "web*", "webfetch", "*"}
		for i := range rapid.IntRange(1, 7).Draw(t, "n") {
			r := rule{
				surface: rapid.SampledFrom(surfaces).Draw(t, "surface"), pattern: rapid.SampledFrom(patterns).Draw(t, "pattern"),
				action: policy.Action(rapid.IntRange(0, 2).Draw(t, "action")), file: "f", line: i + 1, exact: true,
			}
			if r.surface == "*" {
				r.pattern = "*"
			}
			r.text = fmt.Sprintf("%s %q %s #%d", r.surface, r.pattern, r.action, i)
			b.rules = append(b.rules, r)
		}
		if final {
			var sorted []rule
			for _, a := range []policy.Action{policy.Allow, policy.Ask, policy.Deny} {
				for _, r := range b.rules {
					if r.action == a {
						sorted = append(sorted, r)
					}
				}
			}
			b.rules = sorted
		}
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		p, err := policy.ParsePolicy("p", b.res.Policy)
		if err != nil {
			t.Fatal(err)
		}
		g, err := policy.ParseGuards("g", b.res.Guards)
		if err != nil {
			t.Fatal(err)
		}
		a := policy.Compose(policy.Layers{Session: "s", Snapshot: policy.Resolve(policy.ResolveInput{Mode: policy.Supervised}), Policy: p, Guards: g})
		for _, surface := range []string{"bash", "webfetch", "websearch"} {
			for _, v := range values {
				want, ok := b.theirs(surface, v)
				if !ok || want.surface == "*" {
					continue
				}
				q := policy.NewQuery(surface, v)
				q.RulesOnly = true
				d := a.Decide(q)
				if d.Rule.Origin.Authority == "builtin" {
					// No rule of ours: the mode decides, which is stricter than an
					// allow; a deny or ask may not get lost.
					if want.action != policy.Allow {
						t.Fatalf("%s %q: %s got lost\n%s\n%s\n%v", surface, v, want.text, b.res.Policy, b.res.Guards, b.res.Notes)
					}
					continue
				}
				compared++
				if d.Action > want.action {
					t.Fatalf("%s %q: theirs %s by %s, ours %s by %s\n%s\n%s", surface, v, want.action, want.text, d.Action, d.Reason, b.res.Policy, b.res.Guards)
				}
			}
		}
	})
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
}

func TestImportsThatAreNone(t *testing.T) {
	for _, c := range []struct{ agent, name, text, want string }{
		{"emacs", "x", "{}", "unknown agent"},
		{"claude-code", "s.json", "{", "s.json"},
		{"claude-code", "s.json", "[]", "s.json:1"},
		{"codex", "r.rules", "prefix_rule(pattern=[f(x)])", "r.rules:1"},
		{"codex", "r.rules", "x = 1\n", "r.rules:1"},
		{"codex", "r.rules", "a(\n\"x", "r.rules:2"},
		{"codex", "c.toml", "[a\n", "c.toml:1"},
		{"gemini", "g.toml", "[[rule]]\ndecision = \n", "g.toml:2"},
		{"gemini", "g.toml", "decision", "g.toml:1"},
		{"opencode", "o.json", strings.Repeat(`{"a":`, 100), "nested too deep"},
	} {
		_, err := Import(c.agent, []File{{c.name, []byte(c.text)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v", c.agent, c.text, err)
		}
	}
	if _, err := Import("codex", nil, Options{}); err == nil {
		t.Error("no file was accepted")
	}
	if _, err := Import("codex", []File{{"x", make([]byte, maxFile+1)}}, Options{}); err == nil {
		t.Error("a huge file was accepted")
	}
}

func FuzzImport(f *testing.F) {
	f.Add("claude-code", `{"permissions": {"allow": ["Bash(git:*)", "Edit(/a/**)"], "deny": ["Read(~/x)"]}}`)
	f.Add("opencode", `{"permission": {"bash": {"a *": "allow", "*": "deny"}, "*": "ask"}, "agent": {"x": {"permission": "deny"}}}`)
	f.Add("codex", "prefix_rule(pattern=[\"a\", [\"b\", \"c\"]], decision=\"prompt\", match=[\"a b\"])")
	f.Add("gemini", "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"a\", 'b']\ndecision = \"deny\"\npriority = 3\n")
	f.Fuzz(func(t *testing.T, agent, text string) {
		for _, name := range []string{"x.toml", "x.json"} {
			r, err := Import(agent, []File{{name, []byte(text)}}, Options{})
			if err != nil {
				continue
			}
			if _, err := policy.ParsePolicy("p", r.Policy); err != nil {
				t.Fatalf("%v\n%s", err, r.Policy)
			}
			if _, err := policy.ParseGuards("g", r.Guards); err != nil {
				t.Fatalf("%v\n%s", err, r.Guards)
			}
		}
	})
}
