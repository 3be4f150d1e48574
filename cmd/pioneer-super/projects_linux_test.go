package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

// projectAgent writes an agent's file into the workspace's own folder of agents.
func (l *lab) projectAgent(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.work, ".pioneer-super", "agents", name+".md")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		l.t.Fatal(err)
	}
	return path
}

const askTwo = `for v in a b; do pioneer-super ask --surface tool --value $v >/dev/null 2>&1; printf '%s ' $?; done`

// TestProjectAgents: the file of a trusted project restricts its agent there and
// allows nothing; that of any other project is ignored with one line.
func TestProjectAgents(t *testing.T) {
	l := newLab(t)
	if err := os.Mkdir(filepath.Join(l.work, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.configure("policy.jsonc", `{"permission": {"tool": {"*": "allow", "b": "deny"}, "task": "allow", "bash": "allow"}}`)
	file := l.projectAgent("worker", "---\npermission:\n  tool:\n    a: deny\n    b: allow\n---\n")
	l.script("agent.sh", askTwo+"\npioneer-super spawn --agent Worker -- sh -c '"+strings.ReplaceAll(askTwo, "'", `'\''`)+"'")
	run := func() (string, string) {
		r := l.start("spawn", "--headless", "--", "sh", "agent.sh")
		r.wait(t, 30*time.Second)
		return strings.TrimSpace(r.stdout()), r.stderr()
	}
	got, said := run()
	if got != "0 10 0 10" {
		t.Errorf("not trusted: %q\n%s", got, said)
	}
	l.configure("config.jsonc", fmt.Sprintf(`{"trustedProjects": [%q]}`, l.work))
	if got, said = run(); got != "0 10 10 10" || strings.Contains(said, "ignored") {
		t.Errorf("trusted: %q\n%s", got, said)
	}
	// A mistake fails closed, with its place; so does a file that is a link.
	os.WriteFile(file, []byte("---\npermission:\n  tool: maybe\n---\n"), 0o600)
	if got, said = run(); got != "0 10 12 10" || !strings.Contains(said, "worker.md:3:9") {
		t.Errorf("a mistake: %q\n%s", got, said)
	}
	os.Remove(file)
	os.WriteFile(filepath.Join(l.home, "empty.md"), nil, 0o600)
	if err := os.Symlink(filepath.Join(l.home, "empty.md"), file); err != nil {
		t.Fatal(err)
	}
	if got, said = run(); got != "0 10 12 10" || !strings.Contains(said, "cannot be read") {
		t.Errorf("a link: %q\n%s", got, said)
	}
	os.Remove(file)
	l.projectAgent("worker", "---\nenabled: false\n---\n")
	if got, said = run(); got != "0 10" || !strings.Contains(said, "is switched off by "+file) {
		t.Errorf("switched off: %q\n%s", got, said)
	}
}

// TestProjectIsIgnoredWithOneLine, for the agent whose file it has.
func TestProjectIsIgnoredWithOneLine(t *testing.T) {
	l := newLab(t)
	file := l.projectAgent("worker", "---\npermission: deny\n---\n")
	r := l.start("spawn", "--headless", "--agent", "worker", "--", "sh", "-c", askTwo)
	r.wait(t, 30*time.Second)
	if n := strings.Count(r.stderr(), file+" is ignored: "+l.work+" is not in trustedProjects of config.jsonc"); n != 1 || strings.TrimSpace(r.stdout()) != "0 0" {
		t.Errorf("%d lines, answers %q\n%s", n, r.stdout(), r.stderr())
	}
}

// TestProjectOnlyTightensWhileATreeRuns: a session that writes its own file gains
// nothing by it, asks nobody, and cannot keep the operator's changes out.
func TestProjectOnlyTightensWhileATreeRuns(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"*": "allow"}}`)
	l.configure("config.jsonc", fmt.Sprintf(`{"trustedProjects": [%q]}`, l.work))
	l.projectAgent("worker", "---\npermission:\n  tool:\n    a: deny\n---\n")
	l.script("agent.sh", station)
	r, human := l.attended([]string{"--agent", "worker"}, "sh", "agent.sh")
	a := &asks{l: l}
	if got := a.answers("tool|a", "tool|b"); got != "10 0" {
		t.Fatalf("at the start: %s", got)
	}
	l.projectAgent("worker", "---\npermission:\n  tool:\n    a: allow\n    b: deny\n---\n")
	l.row(audit.ConfigRefused, "counts from the next tree on")
	if got := a.answers("tool|a", "tool|b"); got != "10 0" {
		t.Errorf("loosened: %s", got)
	}
	l.projectAgent("worker", "---\npermission:\n  tool:\n    a: deny\n    b: deny\n---\n")
	l.row(audit.ConfigLoaded, "only restricts")
	if got := a.answers("tool|a", "tool|b"); got != "10 10" {
		t.Errorf("tightened: %s", got)
	}
	os.RemoveAll(filepath.Join(l.work, ".pioneer-super"))
	os.WriteFile(filepath.Join(l.work, ".pioneer-super"), nil, 0o600)
	l.configure("policy.jsonc", `{"permission": {"*": "allow", "tool": {"c": "deny"}}}`)
	await(t, 30*time.Second, "the operator's own change", func() bool { return a.answers("tool|a", "tool|b", "tool|c") == "10 10 10" })
	human.quiet("only a project changed")
	l.give("stop", "")
	r.wait(t, 30*time.Second)
}

// TestPolicyShowsTrustedProjects: policy show names the file and the place of every
// rule, check --agent counts it, config check reports its mistakes.
func TestPolicyShowsTrustedProjects(t *testing.T) {
	l := newLab(t)
	file := l.projectAgent("worker", "---\npermission:\n  tool:\n    a: deny\n---\n")
	product := func(args ...string) (int, string) {
		r := l.start(args...)
		code := r.wait(t, 30*time.Second)
		return code, r.stdout() + r.stderr()
	}
	ignored := file + " is ignored"
	if _, out := product("policy", "show", "--agent", "worker"); !strings.Contains(out, ignored) {
		t.Errorf("not trusted:\n%s", out)
	}
	l.configure("config.jsonc", fmt.Sprintf(`{"trustedProjects": [%q]}`, l.work))
	r := l.start("policy", "show", "--agent", "worker", "--json")
	r.wait(t, 30*time.Second)
	var shown shownAuthority
	if err := json.Unmarshal([]byte(r.stdout()), &shown); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, layer := range shown.Layers {
		if layer.Layer == "frontmatter" && layer.File != nil && layer.File.Path == file {
			found = len(layer.Rules) == 1 && layer.Rules[0].Origin.Line == 4 && layer.Rules[0].Origin.File == file
		}
	}
	if !found || strings.Contains(r.stdout(), ignored) {
		t.Errorf("trusted:\n%s", r.stdout())
	}
	if code, out := product("check", "--agent", "worker", "--surface", "tool", "--value", "a"); code != 10 || !strings.Contains(out, file) {
		t.Errorf("check: %d\n%s", code, out)
	}
	l.projectAgent("worker", "---\npermission:\n  tool: maybe\n---\n")
	if code, out := product("config", "check"); code != 1 || !strings.Contains(out, "worker.md:3:9") {
		t.Errorf("config check: %d\n%s", code, out)
	}
	link := filepath.Join(l.home, "link")
	if err := os.Symlink(l.work, link); err != nil {
		t.Fatal(err)
	}
	l.configure("config.jsonc", fmt.Sprintf(`{"trustedProjects": [%q, %q]}`, link, l.home+"/nowhere"))
	if code, out := product("config", "check"); code != 1 || !strings.Contains(out, "through a link") || !strings.Contains(out, "not there") {
		t.Errorf("config check: %d\n%s", code, out)
	}
}
