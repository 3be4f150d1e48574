package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/policy"
)

// What was imported is installed and asked: both files, and for each deny the
// policy alone, which is not enough.
func TestPolicyImport(t *testing.T) {
	for _, c := range []struct {
		name, tool, file, text string
		// want are verdicts of --shell in a mode that asks; alone is what the policy
		// without the guards says.
		want  map[string]int
		alone map[string]int
		said  []string
	}{
		{
			"a deny before an allow however specific", "claude-code", ".claude/settings.json",
			`{"permissions": {"allow": ["Bash(git push origin main)", "Bash(git:*)"], "ask": ["Bash(git commit *)"], "deny": ["Bash(git push *)", "Bash(* --force)"], "defaultMode": "acceptEdits"}}`,
			map[string]int{"git push origin main": 10, "git status": 0, "git commit -m x": 13, "git fetch --force": 10, "make": 13},
			map[string]int{"git push x": 0},
			[]string{":1: dropped: allow Bash(git push origin main): allow Bash(git:*) says the same", ":1: guard: deny Bash(git push *)", "start with --mode auto_accept_edits", "2 denies are in the hard guards and NOT in this policy"},
		},
		{
			"the last rule decides", "opencode", "opencode.json",
			`{"permission": {"bash": {"git *": "allow", "git push *": "deny", "rm *": "deny", "rm -i *": "allow"}}, "agent": {"plan": {"permission": {"bash": "deny"}}}}`,
			map[string]int{"git status": 0, "git push": 10, "rm x": 10, "rm -i x": 0},
			nil,
			[]string{"agent plan is restricted by a file of its own", "--agent plan > agents/plan.md"},
		},
		{
			"prefixes with alternatives, the strictest wins", "codex", "default.rules",
			"prefix_rule(pattern=[\"git\", [\"push\", \"fetch\"]], decision=\"prompt\")\nprefix_rule([\"git\"], \"allow\")\nprefix_rule(pattern=[\"git\", \"clean\"], decision=\"forbidden\", justification='keep \"it\"')\n",
			map[string]int{"git push": 13, "git fetch x": 13, "git status": 0, "git clean -n": 10},
			map[string]int{"git clean -n": 0},
			[]string{"1 deny is in the hard guards"},
		},
		{
			"priorities", "gemini", "p.toml",
			"[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git\"\ndecision = \"allow\"\npriority = 100\n[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git push\"\ndecision = \"deny\"\npriority = 200\n",
			map[string]int{"git status": 0, "git push": 10},
			nil, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := write(t, filepath.Join(t.TempDir(), c.file), c.text)
			rules := runHere("", "policy", "import", c.tool, p)
			guards := runHere("", "policy", "import", c.tool, p, "--hard-guards")
			if rules.code != 0 || guards.code != 0 {
				t.Fatalf("%+v\n%+v", rules, guards)
			}
			if _, err := policy.ParsePolicy("out", []byte(rules.out)); err != nil {
				t.Fatalf("%v\n%s", err, rules.out)
			}
			if !strings.Contains(guards.err, "INSTALL BOTH FILES") {
				t.Errorf("%s", guards.err)
			}
			for _, part := range c.said {
				if !strings.Contains(rules.err, part) {
					t.Errorf("no %q in\n%s", part, rules.err)
				}
			}
			ask := func(text string) int {
				return runHere("", "check", "--mode", "supervised", "--cwd", "/", "--shell", text).code
			}
			configuration(t, map[string]string{"policy.jsonc": rules.out})
			for text, want := range c.alone {
				if got := ask(text); got != want {
					t.Errorf("%q without the guards: %d, want %d", text, got, want)
				}
			}
			if len(c.alone) > 0 && !strings.Contains(rules.err, "INSTALL BOTH FILES") || len(c.alone) > 0 && !strings.Contains(rules.out, "Half of an import") {
				t.Errorf("it is not said that the policy is half of it:\n%s%s", rules.out, rules.err)
			}
			configuration(t, map[string]string{"policy.jsonc": rules.out, "hard-guards.jsonc": guards.out})
			for text, want := range c.want {
				if got := ask(text); got != want {
					t.Errorf("%q: %d, want %d\n%s%s", text, got, want, rules.out, guards.out)
				}
			}
		})
	}
}

func TestPolicyImportOfAgents(t *testing.T) {
	p := write(t, filepath.Join(t.TempDir(), "o.json"), `{"permission": {"bash": "allow"}, "agent": {"plan": {"permission": {"bash": "deny"}}}}`)
	got := runHere("", "policy", "import", "opencode", p, "--agent", "plan")
	if a, err := policy.ParseAgent("plan.md", []byte(got.out)); err != nil || got.code != 0 || len(a.Permission.Rules) != 1 {
		t.Errorf("%v %+v", err, got)
	}
	if got := runHere("", "policy", "import", "opencode", p, "--agent", "x"); got.code != 2 || !strings.Contains(got.err, `--agent "x": expected plan`) || got.out != "" {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "policy", "import", "opencode", p, "--agent", "plan", "--hard-guards"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

// A leading slash means the project, where it is known which.
func TestPolicyImportKnowsTheProject(t *testing.T) {
	base := t.TempDir()
	text := `{"permissions": {"allow": ["Edit(/src/**)"], "deny": ["Edit(/src/gen/**)"]}}`
	project := write(t, filepath.Join(base, "project", ".claude", "settings.json"), text)
	user := write(t, filepath.Join(base, "home", ".claude", "settings.json"), text)
	t.Setenv("HOME", filepath.Join(base, "home"))
	if got := runHere("", "policy", "import", "claude-code", project); !strings.Contains(got.out, `"`+base+`/project/src/*": "allow"`) {
		t.Errorf("%+v", got)
	}
	got := runHere("", "policy", "import", "claude-code", user)
	if strings.Contains(got.out, "allow\",") || !strings.Contains(got.err, "dropped: allow Edit(/src/**)") {
		t.Errorf("of the settings of a user it is not known: %+v", got)
	}
	if got := runHere("", "policy", "import", "claude-code", user, "--hard-guards"); !strings.Contains(got.out, `"*/src/gen/*": "deny"`) {
		t.Errorf("a deny holds everywhere then: %+v", got)
	}
}

func TestPolicyImportReadsFolders(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b.rules", "a.rules", "c.rules/x", "notes.txt"} {
		write(t, filepath.Join(dir, n), "# nothing\n")
	}
	files, err := readImport(dir, "Codex", []string{"config.toml", "*.rules"})
	if err != nil || len(files) != 2 || filepath.Base(files[0].Name) != "a.rules" {
		t.Errorf("%v %v", files, err)
	}
	claude := filepath.Join(t.TempDir(), ".claude")
	write(t, filepath.Join(claude, "settings.json"), `{"permissions": {"allow": ["Bash(git *)"]}}`)
	write(t, filepath.Join(claude, "settings.local.json"), `{"permissions": {"deny": ["Bash(git push *)"]}}`)
	if got := runHere("", "policy", "import", "claude-code", claude, "--hard-guards"); got.code != 0 || !strings.Contains(got.out, "git push *") {
		t.Errorf("the files of all layers count together: %+v", got)
	}
	crowd := t.TempDir()
	for i := range maxImportFiles + 1 {
		write(t, filepath.Join(crowd, fmt.Sprintf("%d.rules", i)), "")
	}
	latin := write(t, filepath.Join(t.TempDir(), "o.json"), "{\"\xe9\": 1}")
	huge := write(t, filepath.Join(t.TempDir(), "o.json"), strings.Repeat(" ", maxImportFile))
	good := write(t, filepath.Join(t.TempDir(), "settings.json"), `{"permissions": {}}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "expected the name of a tool"},
		{[]string{"claude-code"}, "expected the name of a tool"},
		{[]string{"claude-code", good, good}, "expected the name of a tool"},
		{[]string{"emacs", good}, `unknown tool "emacs", expected claude-code, opencode, codex, gemini`},
		{[]string{"claude-code", good + "x"}, good + "x"},
		{[]string{"claude-code", dir}, "0 files of Claude Code, expected 1 to 100 named settings.json or settings.local.json"},
		{[]string{"codex", crowd}, "101 files"},
		{[]string{"codex", good}, good + ":1"},
		{[]string{"opencode", latin}, "not UTF-8"},
		{[]string{"opencode", huge}, "expected at most"},
		{[]string{"claude-code", good, "--agent", "x"}, "there are no rules for single agents"},
	} {
		if got := runHere("", append([]string{"policy", "import"}, c.args...)...); got.code != 2 || !strings.Contains(got.err, c.want) || got.out != "" {
			t.Errorf("%q: %+v, want %q", c.args, got, c.want)
		}
	}
	if err := os.Symlink(good, filepath.Join(dir, "settings.json")); err != nil {
		t.Fatal(err)
	}
	if got := runHere("", "policy", "import", "claude-code", dir); got.code != 0 {
		t.Errorf("a linked file: %+v", got)
	}
}
