package main

import (
	"bytes"
	"encoding/json"
	"errors"
	flags "flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/getpioneer/pioneer-super/integration/product"
)

var updateGolden = flags.Bool("update", false, "write golden files instead of comparing")

// said is what a command did.
type said struct {
	code     int
	out, err string
}

// runHere runs a command in this process, as main does.
func runHere(stdin string, args ...string) said {
	var out, errs bytes.Buffer
	app := newApp()
	app.Reader, app.Writer, app.ErrWriter = strings.NewReader(stdin), &out, &errs
	err := app.Run(append([]string{"pioneer-super"}, args...))
	s := said{}
	var known exitError
	switch {
	case errors.As(err, &known):
		s.code = known.code
		if known.text != "" {
			errs.WriteString(known.text + "\n")
		}
	case err != nil:
		s.code = 2
		errs.WriteString(err.Error() + "\n")
	}
	s.out, s.err = out.String(), errs.String()
	return s
}

// configuration makes a configuration directory of its own and returns it.
func configuration(t *testing.T, files map[string]string) string {
	t.Helper()
	base := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(base, "config"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(base, "state"))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(base, "run"))
	t.Setenv("PIONEER_SUPER_HOME", "")
	os.Unsetenv("PIONEER_SUPER_HOME")
	t.Setenv("HOME", filepath.Join(base, "home"))
	dir := filepath.Join(base, "config", "pioneer-super")
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const samplePolicy = `{
  "permission": {
    "bash": {"git *": "allow", "git push *": {"action": "deny", "reason": "no pushing"}, "ls *": "allow"},
    "path": {"*.env": "deny"},
    "mcp": {"exa:*": "allow"},
    "edit": {"src/*": "allow"},
    "skill": "deny"
  }
}`

func TestCheckOneFile(t *testing.T) {
	dir := t.TempDir()
	p := write(t, filepath.Join(dir, "p.jsonc"), samplePolicy)
	all := write(t, filepath.Join(dir, "all.jsonc"), `{"permission": {"*": "allow", "bash": {"rm *": "deny"}}}`)
	// A file that is asked alone needs no home and no state.
	for _, v := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PIONEER_SUPER_HOME"} {
		t.Setenv(v, "relative/and/wrong")
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in the JSON, without white space
	}{
		{"a rule allows", []string{"--surface", "bash", "--value", "git status"}, 0, `"verdict":"allow","authority":"policy"`},
		{"a rule denies", []string{"--surface", "bash", "--value", "git push origin"}, 10, `"pattern":"gitpush*"`},
		{"no rule names it", []string{"--surface", "bash", "--value", "make"}, 13, `"authority":"builtin"`},
		{"the text of a command is taken apart", []string{"--surface", "bash", "--value", "git status && make"}, 13, `"value":"make"`},
		{"also behind a wrapper", []string{"--surface", "bash", "--value", "git log | xargs git push"}, 10, `"value":"gitpush…"`},
		{"an agent's shell tool", []string{"--tool", "Bash", "--value", "git push"}, 10, `"verdict":"deny"`},
		{"a path beside a command", []string{"--surface", "bash", "--value", "git status", "--path", "a", "--path", "x/.env"}, 10, `"surface":"path_write","pattern":"*.env"`},
		{"a path", []string{"--surface", "path_read", "--value", "x/.env"}, 10, `"pattern":"*.env"`},
		{"a path that no rule names", []string{"--surface", "path_read", "--value", "x"}, 13, `"verdict":"ask"`},
		{"an edit in a folder", []string{"--tool", "Edit", "--path", "src/a.go", "--cwd", dir}, 0, `"pattern":"src/*"`},
		{"an edit of two", []string{"--tool", "Edit", "--path", "src/a.go", "--path", "src/.env", "--cwd", dir}, 10, `"pattern":"*.env"`},
		{"a comma is part of a path", []string{"--tool", "Edit", "--path", "src/a,b/.env", "--cwd", dir}, 10, `src/a,b/.env`},
		{"a server's tool", []string{"--surface", "mcp", "--value", "exa:search"}, 0, `"exa:*"`},
		{"a server's tool by its name", []string{"--tool", "mcp__exa__search"}, 0, `"exa:*"`},
		{"a mode below the rules", []string{"--mode", "supervised", "--tool", "Read", "--path", "x", "--cwd", dir}, 0, `"authority":"mode"`},
		{"a mode asks", []string{"--mode", "supervised", "--surface", "bash", "--value", "make"}, 13, `modesupervisedasks`},
		{"flags behind arguments of other flags", []string{"--surface=bash", "--value=git status"}, 0, `"allow"`},
	} {
		got := runHere("", append([]string{"check", "--policy", p, "--json"}, c.args...)...)
		flat := strings.Join(strings.Fields(got.out), "")
		if got.code != c.code || !strings.Contains(flat, c.want) || got.err != "" {
			t.Errorf("%s: exit %d, want %d; no %s in\n%s%s", c.name, got.code, c.code, c.want, got.out, got.err)
		}
	}
	if got := runHere("", "check", "--policy", all, "--surface", "bash", "--value", "make"); got.code != 0 {
		t.Errorf(`"*" counts where no mode was chosen: %+v`, got)
	}
	if got := runHere("", "check", "--policy", all, "--mode", "supervised", "--surface", "bash", "--value", "make"); got.code != 13 {
		t.Errorf(`"*" does not count where a mode was chosen: %+v`, got)
	}
	if got := runHere("", "check", "--policy", all, "--shell", "$(echo rm) x"); got.code != 13 {
		t.Errorf("what cannot be seen through is an ask: %+v", got)
	}
}

func TestCheckJSONSaysWhatDecided(t *testing.T) {
	p := write(t, filepath.Join(t.TempDir(), "p.jsonc"), samplePolicy)
	got := runHere("", "check", "--policy", p, "--surface", "bash", "--value", "git push", "--json")
	var v struct {
		Verdict, Authority, Pattern, File, Reason, Value string
		Line, Column                                     int
		Rule                                             struct{ Surface, Pattern, Action, Reason string }
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		t.Fatal(err)
	}
	if v.Verdict != "deny" || v.Authority != "policy" || v.Pattern != "git push *" || v.File != p || v.Line != 3 || v.Column != 32 ||
		!strings.Contains(v.Reason, "no pushing") || v.Value != "git push" || v.Rule.Surface != "bash" || v.Rule.Action != "deny" || v.Rule.Reason != "no pushing" {
		t.Errorf("%+v\n%s", v, got.out)
	}
	// A floor is no rule: what decided is the floor, not the rule that allows.
	got = runHere("", "check", "--policy", p, "--shell", "git -c core.pager=x log", "--json")
	if got.code != 13 || !strings.Contains(got.out, `"authority": "floor"`) || !strings.Contains(got.out, `"sentinel"`) {
		t.Errorf("%+v", got)
	}
}

func TestCheckUsage(t *testing.T) {
	dir := t.TempDir()
	p := write(t, filepath.Join(dir, "p.jsonc"), samplePolicy)
	bad := write(t, filepath.Join(dir, "bad.jsonc"), `{"permission": {"bash": {"git *": "alow"}, "path-read": "deny"}}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "nothing is asked"},
		{[]string{"--surface", "bash", "--value", "x", "--batch"}, "more than one thing is asked"},
		{[]string{"--surface", "bash"}, `surface bash needs "value"`},
		{[]string{"--value", "x"}, `needs "surface" or "tool"`},
		{[]string{"--surface", "*", "--value", "x"}, "the name of one surface"},
		{[]string{"--surface", "bash", "--value", "x", "y"}, `unexpected argument "y"`},
		{[]string{"--shell", "x", "--dialect", "fish"}, `--dialect: "fish", expected bash, sh, zsh, powershell, cmd`},
		{[]string{"--shell", "x", "--mode", "yolo"}, "--mode: unknown mode"},
		{[]string{"--shell", "x", "--agent", "a"}, "--agent"},
		{[]string{"--tools"}, "expected the names of tools"},
		{[]string{"--tools", "Bash", "--nonsense"}, "--nonsense"},
		{[]string{"--shell", "x", "--policy", ""}, "--policy: expected the name of a file"},
		{[]string{"--shell", "x", "--policy", filepath.Join(dir, "none")}, "none"},
		{[]string{"--shell", "x", "--policy", dir}, "a folder, expected a file"},
		{[]string{"--shell", "x", "--policy", bad}, bad + `:1:35: "alow", expected allow, ask or deny`},
		{[]string{"--shell", "x", "--policy", bad}, `did you mean "path_read"?`},
	} {
		args := append([]string{"check"}, c.args...)
		if !slices.Contains(args, "--policy") {
			args = append(args[:1:1], append([]string{"--policy", p}, args[1:]...)...)
		}
		got := runHere("", args...)
		if got.code != 2 || !strings.Contains(got.err, c.want) || got.out != "" {
			t.Errorf("%q: exit %d\n%s%s, want %q", c.args, got.code, got.out, got.err, c.want)
		}
	}
	if got := runHere(strings.Repeat("x", maxShellText+1), "check", "--policy", p, "--shell", "-"); got.code != 2 {
		t.Errorf("endless input: %+v", got)
	}
	if got := runHere("git status", "check", "--policy", p, "--shell", "-"); got.code != 0 {
		t.Errorf("text from standard input: %+v", got)
	}
}

func TestCheckComposed(t *testing.T) {
	configuration(t, map[string]string{
		"policy.jsonc":      `{"permission": {"bash": {"git *": "allow", "make *": "allow"}, "path_write": {"/srv/x/*": "allow"}}}`,
		"hard-guards.jsonc": `{"permission": {"bash": {"git push *": "deny"}}, "protectedWrites": ["*/.git/config"]}`,
		"config.jsonc":      `{"roots": [{"path": "/srv/cache", "access": "write"}]}`,
		"agents/careful.md": "---\npermission:\n  bash:\n    make *: ask\n---\nBe careful.\n",
		"agents/broken.md":  "---\npermission:\n  bash: maybe\n---\n",
	})
	work := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"a guard is final", []string{"--surface", "bash", "--value", "git push"}, 10, `"hard-guard"`},
		{"the policy allows", []string{"--mode", "supervised", "--surface", "bash", "--value", "make"}, 0, `"policy"`},
		{"an agent's file restricts", []string{"--mode", "supervised", "--agent", "careful", "--surface", "bash", "--value", "make"}, 13, "careful.md"},
		{"a broken agent's file makes asks of allows", []string{"--mode", "supervised", "--agent", "broken", "--surface", "bash", "--value", "make"}, 13, `"fail-closed"`},
		{"nothing selected is full access", []string{"--surface", "bash", "--value", "frobnicate"}, 0, `"mode"`},
		{"full access with rules that deny is not blind", []string{"--shell", "$(x) y"}, 13, `"floor"`},
		{"a write outside of the roots", []string{"--mode", "auto_accept_edits", "--surface", "path_write", "--value", "/etc/x"}, 13, "outside"},
		{"a write inside", []string{"--mode", "auto_accept_edits", "--surface", "path_write", "--value", "x.go"}, 0, `"mode"`},
		{"a root of the settings", []string{"--mode", "auto_accept_edits", "--surface", "path_write", "--value", "/srv/cache/x"}, 0, `"mode"`},
		{"a protected write", []string{"--mode", "full_access", "--surface", "path_write", "--value", ".git/config"}, 13, `"human_only": true`},
	} {
		got := runHere("", append([]string{"check", "--json", "--cwd", work}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.out, c.want) {
			t.Errorf("%s: exit %d, want %d and %s\n%s%s", c.name, got.code, c.code, c.want, got.out, got.err)
		}
	}
	got := runHere("", "check", "--agent", "broken", "--mode", "supervised", "--surface", "bash", "--value", "make", "--explain")
	if !strings.Contains(got.out, "composed from the files of") || !strings.Contains(got.err, "broken.md:3:") {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "check", "--agent", "../x", "--shell", "ls"); got.code != 2 || !strings.Contains(got.err, "without slashes") {
		t.Errorf("%+v", got)
	}
}

func TestFullAccessWithoutRulesAllowsWhatCannotBeSeenThrough(t *testing.T) {
	configuration(t, map[string]string{"policy.jsonc": `{"permission": {"network": {"x.org": "deny"}}}`})
	if got := runHere("", "check", "--shell", "$(x) y", "--json"); got.code != 0 || !strings.Contains(got.out, "would be recorded") {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "check", "--mode", "supervised", "--shell", "$(x) y"); got.code != 13 {
		t.Errorf("%+v", got)
	}
}

func TestBrokenConfigurationIsNoAnswer(t *testing.T) {
	dir := configuration(t, map[string]string{"policy.jsonc": `{"permission": {"bash": "yes"}}`, "hard-guards.jsonc": `{"permission": {"bash": "ask"}}`})
	got := runHere("", "check", "--shell", "ls")
	if got.code != 2 || !strings.Contains(got.err, dir+"/policy.jsonc:1:25") || !strings.Contains(got.err, dir+"/hard-guards.jsonc:1:") {
		t.Errorf("every mistake of every file is said: %+v", got)
	}
}

func TestCheckBatch(t *testing.T) {
	p := write(t, filepath.Join(t.TempDir(), "p.jsonc"), samplePolicy)
	lines := []string{
		`{"id": "1", "surface": "bash", "value": "git status"}`,
		`{"shell": "git status; git push", "dialect": "bash", "id": "2"}`,
		`nonsense`,
		`{"id": "4", "surface": "bash", "valeu": "x"}`,
		``,
		`{"tool": "Edit", "paths": ["x/.env"]}`,
		`{"shell": "x", "dialect": "fish"}`,
		`{"shell": 3}`,
		`{"shell": "x", "shell": "y"}`,
		`{"id": "8", "surface": "bash", "value": "` + strings.Repeat("a", maxBatchLine) + `"}`,
		`{"id": "9", "surface": "skill", "value": "x"}`,
		strings.Repeat("[", 100_000),
		`{"id": "11", "tool": "Read", "agent": "x"}`,
	}
	got := runHere(strings.Join(lines, "\n"), "check", "--policy", p, "--batch")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	type row struct{ ID, Verdict, Error string }
	var rows []row
	for line := range strings.Lines(got.out) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Error != "" {
			if !strings.Contains(r.Error, "line ") || r.Verdict != "deny" {
				t.Errorf("%+v", r)
			}
			r.Error = "said"
		}
		rows = append(rows, r)
	}
	want := []row{
		{"1", "allow", ""},
		{"2", "deny", ""},
		{"", "deny", "said"},
		{"4", "deny", "said"},
		{"", "deny", ""},
		{"", "deny", "said"},
		{"", "deny", "said"},
		{"", "deny", "said"},
		{"", "deny", "said"},
		{"9", "deny", ""},
		{"", "deny", "said"},
		{"11", "deny", "said"},
	}
	if d := cmp.Diff(want, rows); d != "" {
		t.Error(d)
	}
}

// Whoever asks may wait for each answer before the next question.
func TestBatchStreams(t *testing.T) {
	p := write(t, filepath.Join(t.TempDir(), "p.jsonc"), samplePolicy)
	in, questions := io.Pipe()
	answers, out := io.Pipe()
	app := newApp()
	app.Reader, app.Writer = in, out
	done := make(chan error, 1)
	go func() { done <- app.Run([]string{"pioneer-super", "check", "--policy", p, "--batch"}); out.Close() }()
	dec := json.NewDecoder(answers)
	for i := range 3 {
		fmt.Fprintf(questions, `{"id": "%d", "shell": "git status"}`+"\n", i)
		var a struct{ ID, Verdict string }
		if err := dec.Decode(&a); err != nil || a.ID != fmt.Sprint(i) || a.Verdict != "allow" {
			t.Fatalf("%v %+v", err, a)
		}
	}
	questions.CloseWithError(errors.New("the line is cut"))
	var known exitError
	if err := <-done; !errors.As(err, &known) || known.code != 125 {
		t.Errorf("a reading that fails: %v", err)
	}
}

func TestCheckTools(t *testing.T) {
	p := write(t, filepath.Join(t.TempDir(), "p.jsonc"), `{"permission": {"skill": "deny", "bash": {"*": "deny", "ls *": "allow"}, "Frob": "deny"}}`)
	got := runHere("", "check", "--policy", p, "--tools", "Skill", "Bash", "Frob", "--json")
	var v struct {
		Tools []struct {
			Tool   string
			Denied bool
		}
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 0 {
		t.Fatalf("%v %+v", err, got)
	}
	if len(v.Tools) != 3 || !v.Tools[0].Denied || v.Tools[1].Denied || !v.Tools[2].Denied {
		t.Errorf("%+v", v)
	}
	got = runHere("", "check", "--policy", p, "--tools", "Skill", "Bash")
	if !strings.Contains(got.out, "Skill  denied") || !strings.Contains(got.out, "Bash   may be used") {
		t.Errorf("%s", got.out)
	}
}

func TestCheckShellExplains(t *testing.T) {
	p := write(t, filepath.Join(t.TempDir(), "p.jsonc"), samplePolicy)
	got := runHere("", "check", "--policy", p, "--cwd", "/srv", "--shell", "cd app && timeout 5 git push > out/.env", "--explain")
	for _, want := range []string{
		"verdict    deny", "because of git push", "in list, by timeout", "deny   write /srv/app/out/.env", "p.jsonc:3:32", "no pushing", "lost: less specific", "unresolved",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	got = runHere("", "check", "--policy", p, "--shell", "Get-Item x", "--dialect", "powershell", "--json")
	if got.code != 13 || !strings.Contains(got.out, `"dialect": "powershell"`) {
		t.Errorf("%+v", got)
	}
}

func TestCheckResolves(t *testing.T) {
	work := t.TempDir()
	work, err := filepath.EvalSymlinks(work)
	if err != nil {
		t.Fatal(err)
	}
	p := write(t, filepath.Join(t.TempDir(), "p.jsonc"), `{"permission": {"bash": {"tool *": "allow", "cat *": "allow", "nosuch *": "allow"}, "path_read": {"/etc/hostname": "deny"}}}`)
	write(t, filepath.Join(work, "bin", "tool"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(work, "bin", "tool"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(work, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, c := range []struct {
		text string
		code int
		want string
	}{
		{"tool", 13, "this session can change it"},
		{"nosuch", 13, "not found"},
		{"cat link", 10, "/etc/hostname"},
		{"cat x", 0, `"resolution": "file"`},
	} {
		got := runHere("", "check", "--policy", p, "--cwd", work, "--resolve", "--json", "--shell", c.text)
		if got.code != c.code || !strings.Contains(got.out, c.want) {
			t.Errorf("%q: exit %d, want %d and %q\n%s%s", c.text, got.code, c.code, c.want, got.out, got.err)
		}
	}
	// A link to what is not there yet leads to it; a circle leads nowhere.
	for name, to := range map[string]string{"dangling": "../" + filepath.Base(work) + "/new/../secret", "circle": "circle"} {
		if err := os.Symlink(to, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := canonical(filepath.Join(work, "dangling")), filepath.Join(work, "secret"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := canonical(filepath.Join(work, "circle")), filepath.Join(work, "circle"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Only --resolve follows links, and an explanation without it says so.
	if got := runHere("", "check", "--policy", p, "--cwd", work, "--shell", "cat link", "--explain"); got.code != 0 || !strings.Contains(got.out, "links are not followed (--resolve)") || strings.Contains(got.out, "/etc/hostname") {
		t.Errorf("without a resolver: %+v", got)
	}
	if got := runHere("", "check", "--policy", p, "--cwd", work, "--shell", "cat link", "--explain", "--resolve"); got.code != 10 || strings.Contains(got.out, "not followed") {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "check", "--policy", p, "--cwd", work, "--json", "--shell", "tool"); got.code != 0 || !strings.Contains(got.out, `"resolution": "unresolved"`) {
		t.Errorf("without a resolver: %+v", got)
	}
}

// The table of commands that users of such gates reported, through the binary.
func TestCommandTableThroughTheBinary(t *testing.T) {
	bin := product.Binary(t)
	work := t.TempDir()
	work, err := filepath.EvalSymlinks(work)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(work, "a.txt"), "x\n")
	write(t, filepath.Join(work, ".git", "HEAD"), "ref: refs/heads/main\n")
	if err := os.MkdirAll(filepath.Join(work, "build"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(work, "outside-link")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../policy/shell/testdata/commands.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	exceptions, err := os.ReadFile("../../policy/shell/testdata/exceptions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(exceptions)) {
		var e struct{ ID, Got string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		known[e.ID] = e.Got
	}
	type row struct {
		ID, Command, Floor, Best string
		Policy                   map[string]json.RawMessage
	}
	// One process answers all rows of the same flags and policy.
	type batch struct {
		args      []string
		rows      []row
		questions strings.Builder
	}
	batches := map[string]*batch{}
	for line := range strings.Lines(string(data)) {
		var c row
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		args := []string{"check", "--batch", "--home", "/home/u", "--cwd", work}
		bash, permission := map[string]json.RawMessage{}, map[string]any{}
		for k, v := range c.Policy {
			switch {
			case k == "outside_cwd":
				// The roots of a session: outside of them a path is asked for.
				args = append(args, "--mode", "auto_accept_edits", "--resolve")
			case v[0] == '{':
				permission[k] = v
			default:
				bash[k] = v
			}
		}
		permission["bash"] = bash
		text, err := json.Marshal(map[string]any{"permission": permission})
		if err != nil {
			t.Fatal(err)
		}
		key := strings.Join(args, " ") + string(text)
		b := batches[key]
		if b == nil {
			p := write(t, filepath.Join(t.TempDir(), "policy.jsonc"), string(text))
			b = &batch{args: append(args, "--policy", p)}
			batches[key] = b
		}
		question, err := json.Marshal(map[string]string{"id": c.ID, "shell": c.Command})
		if err != nil {
			t.Fatal(err)
		}
		b.rows = append(b.rows, c)
		b.questions.Write(append(question, '\n'))
	}
	type verdict struct {
		ID, Verdict string
		Shell       struct {
			Commands []struct{ Words []string }
		}
	}
	total, best := 0, 0
	judge := func(c row, v verdict) {
		rm := slices.ContainsFunc(v.Shell.Commands, func(u struct{ Words []string }) bool {
			return len(u.Words) > 0 && filepath.Base(u.Words[0]) == "rm"
		})
		ok := map[string]bool{
			"allow": true, "ask": v.Verdict != "allow", "deny": v.Verdict == "deny", "not-allow": v.Verdict != "allow",
			"not-rm": v.Verdict != "allow" || !rm,
		}[c.Floor]
		if !ok {
			t.Errorf("%s: %q is %s, looser than %s", c.ID, c.Command, v.Verdict, c.Floor)
		}
		total++
		if v.Verdict == c.Best {
			best++
		} else if known[c.ID] != v.Verdict {
			t.Errorf("%s: %q is %s, best is %s, and no exception says so", c.ID, c.Command, v.Verdict, c.Best)
		}
	}
	for _, b := range batches {
		cmd := exec.Command(bin, b.args...)
		cmd.Dir, cmd.Stdin = work, strings.NewReader(b.questions.String())
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", b.args, err)
		}
		answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(answers) != len(b.rows) {
			t.Fatalf("%q: %d answers to %d questions", b.args, len(answers), len(b.rows))
		}
		for i, c := range b.rows {
			var v verdict
			if err := json.Unmarshal([]byte(answers[i]), &v); err != nil || v.ID != c.ID {
				t.Fatalf("%s: %v: %s", c.ID, err, answers[i])
			}
			judge(c, v)
		}
	}
	t.Logf("%d of %d as a careful reader has it", best, total)
	if total < 180 || best*100 < total*95 {
		t.Errorf("%d of %d are as a careful reader has it", best, total)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		{"check"}, {"policy", "show"}, {"policy", "lint"}, {"policy", "test"}, {"policy", "import"},
		{"config", "schema"}, {"config", "init"}, {"config", "check"}, {"prompt-section"}, {"policy"}, {"config"},
	} {
		got := runHere("", append(slices.Clone(args), "--help")...)
		golden := filepath.Join("testdata", "help", strings.Join(args, "-")+".txt")
		if *updateGolden {
			write(t, golden, got.out)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got.code != 0 || got.out != string(want) {
			t.Errorf("%q: %s", args, cmp.Diff(string(want), got.out))
		}
		list := "FLAGS:\n"
		if args[len(args)-1] == "policy" || args[len(args)-1] == "config" {
			list = "COMMANDS:\n"
		}
		for _, part := range []string{"USAGE:\n   pioneer-super " + strings.Join(args, " "), list, "EXAMPLES:\n   pioneer-super "} {
			if !strings.Contains(got.out, part) {
				t.Errorf("%q: no %q", args, part)
			}
		}
		for line := range strings.Lines(got.out) {
			if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
				t.Errorf("%q: white space at the end of %q", args, line)
			}
		}
	}
}
