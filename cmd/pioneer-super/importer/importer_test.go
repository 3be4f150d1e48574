package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/policy"
)

// importText imports one file and reads what came of it back.
func importText(t *testing.T, tool, name, text string) (Result, *policy.PolicyFile) {
	t.Helper()
	r, err := Import(tool, []File{{name, []byte(text)}})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	f, err := policy.ParsePolicy("policy.jsonc", r.Policy)
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, r.Policy)
	}
	return r, f
}

func rules(f *policy.PolicyFile) map[string]string {
	out := map[string]string{}
	if f.Universal != nil {
		out["*"] = f.Universal.Action.String()
	}
	for _, r := range f.Rules {
		out[r.Surface+" "+r.Pattern] = r.Action.String()
	}
	return out
}

func notes(r Result) string {
	var b strings.Builder
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

func TestImports(t *testing.T) {
	for _, c := range []struct {
		name, tool, file, text string
		want                   map[string]string
		notes                  []string // each is in the notes
	}{
		{
			"a deny before an allow however specific", "claude-code", "settings.json",
			`{"permissions": {"allow": ["Bash(git push origin main)", "Bash(git:*)", "Bash(npm run test *)"], "ask": ["Bash(git commit *)"], "deny": ["Bash(git push *)", "Bash(* --force)"]}}`,
			map[string]string{"bash git *": "allow", "bash git commit *": "ask", "bash git push *": "deny", "bash * --force": "deny", "bash npm run test *": "ask"},
			[]string{
				"settings.json:1:28: Bash(git push origin main): left out: in Claude Code Bash(git push *) (line 1, deny) always decides before it",
				"Bash(npm run test *): narrowed to ask", "--hard-guards",
			},
		},
		{
			"files: what refuses speaks of paths, what allows of tools", "claude-code", "/w/.claude/settings.json",
			`{"permissions": {"allow": ["Read", "Edit(/src/**)", "Edit(docs/*.md)"], "deny": ["Read(.env)", "Read(//etc/shadow)", "Edit(~/.ssh/**)", "Read([a]b)"]}}`,
			map[string]string{
				"read *": "allow", "find *": "allow", "grep *": "allow", "ls *": "allow",
				"edit /w/src/*": "allow", "write /w/src/*": "allow",
				"edit docs/*.md": "ask", "edit docs/*.md/*": "ask", "write docs/*.md": "ask", "write docs/*.md/*": "ask",
				"path_read .env": "deny", "path_read .env/*": "deny", "path_read */.env": "deny", "path_read */.env/*": "deny",
				"path_read /etc/shadow": "deny", "path_read /etc/shadow/*": "deny", "path_write ~/.ssh/*": "deny", "path_read *": "ask",
			},
			[]string{`Edit(docs/*.md): narrowed to ask`, "Read([a]b): carried as an ask for every path"},
		},
		{
			"a narrowed rule that another covers is not needed", "claude-code", "settings.json",
			`{"permissions": {"allow": ["Edit(src/**)", "Edit(src/*.go)"]}}`,
			map[string]string{"edit src/*": "allow", "write src/*": "allow"}, nil,
		},
		{
			"servers, hosts, agents, skills", "claude-code", "settings.json",
			`{"permissions": {"allow": ["mcp__exa", "mcp__db__query", "WebFetch(domain:go.dev)", "WebFetch", "Agent(review)", "Skill(release)", "TodoWrite", "X(a:b)"],
			  "deny": ["mcp__evil__*", "WebSearch", "Agent(model:opus)", "???"], "defaultMode": "acceptEdits"}, "sandbox": {}}`,
			map[string]string{
				"mcp exa": "allow", "mcp exa:*": "allow", "mcp db:query": "allow", "network go.dev": "allow", "skill release": "allow",
				"TodoWrite *": "allow", "mcp evil": "deny", "mcp evil:*": "deny", "WebSearch *": "deny", "task *": "ask",
			},
			[]string{"WebFetch: left out", "X(a:b): left out", "Agent(model:opus): carried as an ask for all of task", "???: left out", "the nearest is auto_accept_edits", "sandbox: not carried over"},
		},
		{
			"the last rule wins", "opencode", "opencode.json",
			`{"permission": {"bash": {"* -x": "ask", "git push *": "deny", "git *": "allow", "git clean *": "ask", "rm *": "deny"}, "edit": "allow", "mcp_x": "deny", "webfetch": {"https://go.dev/*": "allow"}}}`,
			map[string]string{
				"bash git *": "allow", "bash git clean *": "ask", "bash * -x": "ask", "bash rm *": "deny", "edit *": "allow", "write *": "allow",
				"mcp mcp_x": "deny", "network go.dev": "allow",
			},
			[]string{"bash git push *: left out: in OpenCode bash git *", `OpenCode allows what no rule names`, "mcp_x: taken for a server's tool"},
		},
		{
			"a later * takes everything", "opencode", "opencode.json",
			`{"permission": {"bash": "deny", "*": "allow"}, "agent": {"plan": {"permission": "deny"}}}`,
			map[string]string{"*": "allow"},
			[]string{"bash: left out: in OpenCode * (line 1, allow)", "agent.plan.permission: not carried over"},
		},
		{"one word for all", "opencode", "opencode.json", `{"permission": "ask"}`, map[string]string{"*": "ask"}, nil},
		{
			"prefixes with alternatives, the strictest wins", "codex", "default.rules",
			"# rules\nprefix_rule(pattern=[\"git\", [\"push\", \"fetch\"]], decision=\"prompt\", match=[\"git push x\", [\"git\", \"pull\"]])\n" +
				"prefix_rule([\"git\"], \"allow\")\nprefix_rule(pattern = [\"rm\"],\n  decision = \"forbidden\", justification = 'keep \"it\"',)\nnetwork_rule(host=\"go.dev\", protocol=\"https\", decision=\"allow\")\nhost_executable(name=\"git\", paths=[\"/usr/bin/git\"])\nprefix_rule([\"echo\", \"a b\"])\n",
			map[string]string{"bash git push *": "ask", "bash git fetch *": "ask", "bash git *": "allow", "bash rm *": "deny", "network go.dev": "allow"},
			[]string{`its own example match "git pull" does not hold here`, "host_executable: not carried over", "wider here: it holds for every protocol", "inside the sandbox"},
		},
		{
			"priorities", "gemini", "p.toml",
			"[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"git status\", 'git log']\ndecision = \"allow\"\npriority = 100 # low\n\n" +
				"[[rule]]\ncommandRegex = '''^git (push|pull)'''\ndecision = \"deny\"\npriority = 200\ndenyMessage = \"no \\\"push\\\"\"\n\n" +
				"[[rule]]\ntoolName = [\"write_file\", \"replace\"]\ndecision = \"ask_user\"\nmodes = [\n  \"default\",\n]\n[[rule]]\nmcpName = \"exa\"\ntoolName = \"search\"\ndecision = \"allow\"\n" +
				"[[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \"x\"\ndecision = \"allow\"\n[[rule]]\ntoolName = \"web_fetch\"\ndecision=\"deny\"\nmodes=[\"plan\"]\n",
			map[string]string{"bash git status *": "allow", "bash git log *": "allow", "bash git push*": "deny", "bash git pull*": "deny", "write *": "ask", "edit *": "ask", "mcp exa:search": "allow", "web_fetch *": "deny"},
			[]string{"left out: argsPattern is a regular expression", "wider here: it holds in every mode"},
		},
	} {
		r, f := importText(t, c.tool, c.file, c.text)
		if d := cmp.Diff(c.want, rules(f)); d != "" {
			t.Errorf("%s: %s\n%s", c.name, d, notes(r))
		}
		for _, n := range c.notes {
			if !strings.Contains(notes(r), n) {
				t.Errorf("%s: no note %q in\n%s", c.name, n, notes(r))
			}
		}
	}
}

func TestGuardsHoldWhatNothingOverrides(t *testing.T) {
	r, _ := importText(t, "opencode", "o.json", `{"permission": {"bash": {"rm *": "deny", "rm -i *": "allow", "sudo *": "deny"}}}`)
	g, err := policy.ParseGuards("g", r.Guards)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Rules) != 1 || g.Rules[0].Pattern != "sudo *" {
		t.Errorf("%+v", g.Rules)
	}
}

func TestMistakesHaveAPlace(t *testing.T) {
	for _, c := range []struct{ tool, text, want string }{
		{"claude-code", `{"permissions": {"allow": "Bash"}}`, `f:1:18: "allow", expected a list of rules`},
		{"claude-code", `{"permissions": []}`, "f:1:2"},
		{"claude-code", `[]`, "f:1:1: expected an object"},
		{"claude-code", `{"permissions": `, "f: line 1"},
		{"claude-code", strings.Repeat(`[`, 5000), "levels of nesting"},
		{"opencode", `{"permission": {"bash": {"x": "maybe"}}}`, `f:1:26: "x", expected allow, ask or deny`},
		{"opencode", `{"permission": 3}`, "f:1:2"},
		{"codex", "x = 1\n", `f:1:1: "x": only calls`},
		{"codex", "prefix_rule(pattern=[\"a\"], decision=\"maybe\")", `f:1:1: decision "maybe", expected allow, prompt or forbidden`},
		{"codex", "prefix_rule(pattern=[\"a)", "f:1:22: a string without an end"},
		{"codex", "prefix_rule(decision=\"allow\")", "expected pattern"},
		{"codex", "prefix_rule(" + strings.Repeat("[", 100), "levels of nesting"},
		{"codex", "prefix_rule([\"a\"], pattern=[\"b\"])", "there twice"},
		{"gemini", "[[rule]]\ntoolName = \"x\"\n", `f:1:1: rule with decision ""`},
		{"gemini", "[[rule]]\ndecision = allow\n", "f:2:12: expected a literal"},
		{"gemini", "[[rule]]\ndecision = \"deny\" x\n", "expected the end of the line"},
		{"gemini", "[[rule]]\ntoolName = 3\ndecision = \"deny\"\n", "f:2:12: toolName: expected a text"},
		{"nobody", "", `unknown tool "nobody", expected claude-code, opencode, codex, gemini`},
	} {
		_, err := Import(c.tool, []File{{"f", []byte(c.text)}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: %v, want %q", c.tool, c.text, err, c.want)
		}
	}
}

func TestReadFolders(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b.rules", "a.rules", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("# nothing\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Read("codex", dir)
	if err != nil || len(files) != 2 || filepath.Base(files[0].Path) != "a.rules" {
		t.Errorf("%v %v", files, err)
	}
	if _, err := Read("claude-code", dir); err == nil || !strings.Contains(err.Error(), "a folder") {
		t.Errorf("%v", err)
	}
	if _, err := Read("gemini", dir); err == nil {
		t.Error("a folder without a file was read")
	}
	if _, err := Read("codex", filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file was read")
	}
}

// Whatever the order or list that decides there, here nothing is allowed that was
// not allowed there; and with the guards nothing runs that was denied.
func TestNothingIsLooserThanItWas(t *testing.T) {
	pattern := rapid.SampledFrom([]string{"*", "a *", "a b *", "a b c", "* c", "a * c", "b *", "a b", "*b*", "a*"})
	value := rapid.SampledFrom([]string{"a", "a b", "a b c", "a c", "b", "b c", "c", "ab", "a b x c", "x"})
	action := rapid.SampledFrom([]policy.Action{policy.Allow, policy.Ask, policy.Deny})
	rapid.Check(t, func(t *rapid.T) {
		strictest := rapid.Bool().Draw(t, "strictest")
		im := &importing{title: "There"}
		for i := range rapid.IntRange(1, 6).Draw(t, "n") {
			a := action.Draw(t, "action")
			rank := i
			if strictest {
				rank = 3 - int(a)
			}
			im.add(rule{surface: "bash", pattern: pattern.Draw(t, "pattern"), action: a, rank: rank, source: "r"})
		}
		there := func(v string) policy.Action {
			best, got := -1, policy.Ask
			for _, r := range im.rules {
				if policy.Match(r.pattern, v, "") && r.rank >= best {
					best, got = r.rank, r.action
				}
			}
			return got
		}
		want := map[string]policy.Action{}
		v := value.Draw(t, "v")
		want[v] = there(v)
		guardRules := im.guards()
		before := append([]rule{}, im.rules...)
		im.settle()
		f, err := policy.ParsePolicy("p", write(im.rules))
		if err != nil {
			t.Fatal(err)
		}
		g, err := policy.ParseGuards("g", write(guardRules))
		if err != nil {
			t.Fatal(err)
		}
		snap := policy.Resolve(policy.ResolveInput{Mode: policy.Supervised})
		q := policy.NewQuery("bash", v)
		alone := policy.NewAuthority("s", snap, f).Decide(q).Action
		if alone == policy.Allow && want[v] != policy.Allow {
			t.Fatalf("%q: allowed here, %s there\n%+v\n%s", v, want[v], before, write(im.rules))
		}
		guarded := policy.Compose(policy.Layers{Snapshot: snap, Policy: f, Guards: g}).Decide(q).Action
		if strictest && guarded > want[v] {
			t.Fatalf("%q: %s with the guards, %s there\n%+v\n%s", v, guarded, want[v], before, write(im.rules))
		}
	})
}

func FuzzImport(f *testing.F) {
	f.Add(uint8(0), `{"permissions": {"allow": ["Bash(git *)", "Edit(/x/**)"], "deny": ["mcp__a"]}}`)
	f.Add(uint8(1), `{"permission": {"bash": {"*": "ask"}}}`)
	f.Add(uint8(2), "prefix_rule([\"git\", [\"a\", \"b\"]], \"prompt\")")
	f.Add(uint8(3), "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\n")
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		tool := Tools()[int(which)%len(Tools())]
		r, err := Import(tool, []File{{"f", []byte(text)}})
		if err != nil && strings.Contains(err.Error(), "does not hold") {
			t.Fatalf("%s: %v\n%q", tool, err, text)
		}
		_ = r
	})
}
