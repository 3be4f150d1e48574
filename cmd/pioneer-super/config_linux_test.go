package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// asks puts questions to a station and returns the statuses.
type asks struct {
	l *lab
	n int
}

func (a *asks) post(lines ...string) string {
	a.n++
	name := fmt.Sprintf("q.%d", a.n)
	a.l.give(name+".new", strings.Join(lines, "\n")+"\n")
	if err := os.Rename(filepath.Join(a.l.work, name+".new"), filepath.Join(a.l.work, name)); err != nil {
		a.l.t.Fatal(err)
	}
	return fmt.Sprintf("a.%d", a.n)
}

func (a *asks) answers(lines ...string) string {
	a.l.t.Helper()
	return strings.ReplaceAll(a.l.want(a.post(lines...)), "\n", " ")
}

func TestEveryMistakeOfTheConfigurationIsToldAtTheStart(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"bash": {"git *": "alow"}, "Bash": "ask"}}`)
	l.configure("hard-guards.jsonc", `{"permission": {"bash": {"rm *": "ask"}}}`)
	l.configure("config.jsonc", `{"yollo": true, "authorizers": [{"name": "x", "command": ["/nowhere/x"]}]}`)
	r := l.start("spawn", "--headless", "--", "true")
	if code := r.wait(t, 10*time.Second); code != 125 {
		t.Errorf("exit %d, expected 125", code)
	}
	for _, want := range []string{`policy.jsonc:1:35: "alow", expected allow, ask or deny`, `surface "Bash"`, `hard-guards.jsonc:1:34: "ask", expected deny or allow`, `config.jsonc:1:2: unknown key "yollo"`} {
		if !strings.Contains(r.stderr(), want) {
			t.Errorf("no %q in\n%s", want, r.stderr())
		}
	}
	// A program that is not there is found once the file itself is right.
	l.configure("policy.jsonc", `{}`)
	l.configure("hard-guards.jsonc", `{}`)
	l.configure("config.jsonc", `{"authorizers": [{"name": "x", "command": ["/nowhere/x"]}]}`)
	r = l.start("spawn", "--headless", "--", "true")
	if code := r.wait(t, 10*time.Second); code != 125 || !strings.Contains(r.stderr(), "/nowhere/x") {
		t.Errorf("exit %d, %s", code, r.stderr())
	}
}

// TestAuthoritiesOfTheConfiguration asks the same of sessions with and without an
// agent's file: guards are final, an agent's file only restricts.
func TestAuthoritiesOfTheConfiguration(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"*": "ask", "task": "allow", "bash": {"sh *": "allow"}, "tool": {"*": "allow", "asked *": "ask"}, "path_write": {"*": "allow"}}}`)
	l.configure("hard-guards.jsonc", `{"permission": {"tool": {"drop *": "deny"}}, "protectedWrites": ["/protected/*"]}`)
	l.configure("agents/worker.md", "---\npermission:\n  tool:\n    \"w*\": deny\n    \"asked x\": allow\n    \"drop x\": allow\n---\nYou work.\n")
	l.configure("agents/broken.md", "---\npermission:\n  tool: maybe\n---\n")
	l.configure("agents/off.md", "---\nenabled: false\n---\n")
	l.script("ask.sh", `for q in "tool|fine" "tool|drop x" "tool|walk" "tool|asked x" "path_write|/protected/a" "path_write|/other"; do
  pioneer-super ask --surface "${q%%|*}" --value "${q#*|}" >>out.$1 2>&1; printf '%s ' $?; done; echo $1`)
	l.script("agent.sh", `sh ask.sh root
pioneer-super spawn --agent worker -- sh ask.sh worker
pioneer-super spawn --agent broken -- sh ask.sh broken
pioneer-super spawn --agent Off -- sh ask.sh off; echo $? off`)
	run := func() string {
		t.Helper()
		r := l.start("spawn", "--headless", "--", "sh", "agent.sh")
		r.wait(t, 20*time.Second)
		for _, want := range []string{"broken.md:3:9", "off.md"} {
			if !strings.Contains(r.stderr(), want) {
				t.Errorf("no %q in\n%s", want, r.stderr())
			}
		}
		return r.stdout()
	}
	if got, want := run(), "0 10 0 12 12 0 root\n0 10 10 12 12 0 worker\n12 10 12 12 12 12 broken\n126 off\n"; got != want {
		t.Errorf("got\n%sexpected\n%s", got, want)
	}
	if out, _ := os.ReadFile(filepath.Join(l.work, "out.root")); !strings.Contains(string(out), "only a human at this tree may allow this") {
		t.Errorf("a protected write is denied with another reason:\n%s", out)
	}
	// Yolo lets asks through, and neither a deny nor what only a human may allow.
	l.configure("config.jsonc", `{"yolo": true}`)
	if got, want := run(), "0 10 0 0 12 0 root\n0 10 10 0 12 0 worker\n0 10 0 0 12 0 broken\n126 off\n"; got != want {
		t.Errorf("yolo: got\n%sexpected\n%s", got, want)
	}
	found, _ := filepath.Glob(filepath.Join(l.home, "state", "trees", "*", "audit.jsonl"))
	yolo := false
	for _, f := range found {
		rows, _ := audit.Read(f)
		for _, r := range rows {
			yolo = yolo || r.DecidedBy != nil && r.DecidedBy.Kind == "yolo"
		}
	}
	if !yolo {
		t.Error("no decision is recorded as made by yolo")
	}
}

// TestProtectedWritesAreForAHumanEachTime: no grant stands for them.
func TestProtectedWritesAreForAHumanEachTime(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"path_write": {"*": "allow"}}}`)
	l.configure("hard-guards.jsonc", `{"protectedWrites": ["/protected/*"]}`)
	l.script("agent.sh", station)
	r, human := l.attended(nil, "sh", "agent.sh")
	a := &asks{l: l}
	got := a.post("path_write|/protected/a", "path_write|/protected/a")
	q := human.next()
	if q.TurnAllowed || q.TurnPattern != "" {
		t.Errorf("a protected write is offered for the turn: %+v", q)
	}
	human.say(q, "allow_for_turn")
	l.row(audit.AnswerRefused, "allow for the turn was not offered")
	human.say(q, "allow_once")
	human.say(human.next(), "deny")
	if got := l.want(got); got != "0\n11" {
		t.Errorf("answers %q, expected the first allowed and the second asked again and denied", got)
	}
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestReload changes the policy under a running tree.
func TestReload(t *testing.T) {
	l := newLab(t)
	const first = `{"permission": {"tool": {"a": "allow", "b": "allow", "c": "ask"}}}`
	l.configure("policy.jsonc", first)
	l.script("agent.sh", station)
	r, human := l.attended(nil, "sh", "agent.sh")
	a := &asks{l: l}
	if got := a.answers("tool|a", "tool|b"); got != "0 0" {
		t.Fatalf("at the start: %s", got)
	}
	// Restricting: at once, and nobody is asked.
	l.configure("policy.jsonc", `{"permission": {"tool": {"a": "deny", "b": "allow", "c": "ask"}}}`)
	l.row(audit.ConfigLoaded, "only restricts")
	if got := a.answers("tool|a", "tool|b"); got != "10 0" {
		t.Errorf("after a restriction: %s", got)
	}
	human.quiet("a restriction")
	// Broken: the old rules stay.
	l.configure("policy.jsonc", `{"permission": {"tool": {"a": "allow"`)
	l.row(audit.ConfigRefused, "policy.jsonc:1:")
	if got := a.answers("tool|a", "tool|b"); got != "10 0" {
		t.Errorf("after a broken file: %s", got)
	}
	await(t, 5*time.Second, "a word on stderr", func() bool { return strings.Contains(r.stderr(), "not taken, the rules that were there stay") })

	// A question that waits is asked again under the new rules; an answer to the
	// old one has no effect. What the change takes away holds while it waits.
	waiting := a.post("tool|c", "tool|a", "tool|b")
	old := human.next()
	l.configure("policy.jsonc", `{"permission": {"tool": {"a": "allow", "b": "deny", "c": "ask"}}}`)
	var again, change control.Question
	for again.ID == "" || change.ID == "" {
		if q := human.next(); q.Surface == "configuration" {
			change = q
		} else {
			again = q
		}
	}
	if old.Digest == again.Digest {
		t.Error("the record is the same under other rules")
	}
	if text := fmt.Sprint(change.Needs); !strings.Contains(text, `tool "a" was deny and is allow now`) || strings.Contains(text, `tool "b"`) {
		t.Errorf("the change is shown as %s", text)
	}
	human.say(old, "allow_once") // refused: it is for another record
	human.say(again, "deny")
	if got := strings.ReplaceAll(l.want(waiting), "\n", " "); got != "11 10 10" {
		t.Errorf("while the change waits: %s, expected c denied by the human, a and b by rules", got)
	}
	human.say(change, "allow_once")
	taken := l.row(audit.ConfigLoaded, "a human took it")
	if taken.Proof != "inherited" {
		t.Errorf("proof %q", taken.Proof)
	}
	if got := a.answers("tool|a", "tool|b"); got != "0 10" {
		t.Errorf("after a human took it: %s", got)
	}
	// A denial keeps what was added out, for good.
	l.configure("policy.jsonc", `{"permission": {"tool": {"*": "allow"}}}`)
	human.say(human.next(), "deny")
	l.row(audit.ConfigRefused, "did not take")
	if got := a.answers("tool|b"); got != "10" {
		t.Errorf("after a human declined it: %s", got)
	}
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestReloadWithoutAHuman takes what restricts, and nothing that allows more, from
// files that appear, change and go.
func TestReloadWithoutAHuman(t *testing.T) {
	l := newLab(t)
	l.configure("hard-guards.jsonc", `{"permission": {"tool": {"g": "deny"}}}`)
	l.script("agent.sh", station)
	r := l.start("spawn", "--headless", "--", "sh", "agent.sh")
	a := &asks{l: l}
	if got := a.answers("tool|a", "tool|g"); got != "0 10" {
		t.Fatalf("at the start: %s", got)
	}
	if err := os.Remove(filepath.Join(l.home, "config", "pioneer-super", "hard-guards.jsonc")); err != nil {
		t.Fatal(err)
	}
	l.row(audit.ConfigRefused, "tool \"g\" was deny and is gone")
	if got := a.answers("tool|g"); got != "10" {
		t.Errorf("without the guards: %s", got)
	}
	await(t, 5*time.Second, "a word on stderr", func() bool { return strings.Contains(r.stderr(), "no human can take it here") })
	l.configure("hard-guards.jsonc", `{"permission": {"tool": {"g": "deny", "a": "deny"}}}`)
	l.row(audit.ConfigLoaded, "only restricts")
	if got := a.answers("tool|a", "tool|g"); got != "10 10" {
		t.Errorf("with a further guard: %s", got)
	}
	// A ticket or record of before is of another generation.
	generations := map[any]bool{}
	for _, row := range l.rows() {
		if row.Kind == audit.ConfigLoaded {
			generations[row.Details["generation"]] = true
		}
	}
	if len(generations) != 2 {
		t.Errorf("generations %v, expected two", generations)
	}
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestWhatIsFixedAtTheStart says so when it changes, to every endpoint and in the
// audit, and asks nobody.
func TestWhatIsFixedAtTheStart(t *testing.T) {
	l := newLab(t)
	l.configure("config.jsonc", `{"roots": ["/opt/one"], "maxDuration": "1h"}`)
	l.script("agent.sh", station)
	r, human := l.attended(nil, "sh", "agent.sh")
	if got := (&asks{l: l}).answers("tool|a"); got != "0" {
		t.Fatalf("at the start: %s", got)
	}
	l.configure("config.jsonc", `{"roots": ["/opt/one", "/opt/two"], "hosts": ["example.org"], "maxDuration": "1h"}`)
	const line = "roots, hosts of config.jsonc changed: this tree keeps what it was started with, the next one takes it"
	l.row(audit.ConfigRefused, line)
	await(t, patience, "a line on stderr", func() bool { return strings.Contains(r.stderr(), line) })
	await(t, patience, "a notice at the endpoint", func() bool { return strings.Contains(human.told(), line) })
	human.quiet("a value that is fixed")
	l.give("stop", "")
	r.wait(t, patience)
}

// TestReloadWhereSomethingCouldType: an unconfined session that changes the policy and
// types "y" in a multiplexer gains nothing. The phrase takes the change, and where none
// was chosen nothing does.
func TestReloadWhereSomethingCouldType(t *testing.T) {
	testenv.Need(t, "pty")
	const before, after = `{"permission": {"tool": {"a": "deny", "b": "allow"}}}`, `{"permission": {"tool": {"a": "allow", "b": "deny"}}}`
	t.Run("with a phrase", func(t *testing.T) {
		l := newLab(t)
		l.extra = []string{"TMUX=/nowhere/socket,1,0"}
		l.configure("policy.jsonc", before)
		l.script("agent.sh", "touch up\n"+station)
		front := l.console("spawn", "--phrase", "--", "sh", "agent.sh")
		front.Shows(t, patience, "phrase for this tree")
		front.Type(t, "sesieahoex\r")
		l.up("up")
		a := &asks{l: l}
		l.configure("policy.jsonc", after)
		front.Shows(t, patience, "take the changed configuration")
		// A key that comes too early does not count, and is given again.
		take := func(phrase string, done func() bool) {
			t.Helper()
			const entry = "phrase of this tree"
			before := strings.Count(front.Transcript(), entry)
			until := func(key string, ok func() bool) {
				t.Helper()
				for deadline := time.Now().Add(2 * patience); !ok(); {
					if time.Now().After(deadline) {
						t.Fatalf("no key %q is taken:\n%s", key, front.Transcript())
					}
					press(t, front, key)
					for range 100 {
						if !ok() {
							time.Sleep(20 * time.Millisecond)
						}
					}
				}
			}
			until("y", func() bool { return strings.Count(front.Transcript(), entry) > before })
			front.Type(t, "\x15") // a second y, if there was one
			for _, r := range phrase {
				front.Type(t, string(r))
				time.Sleep(30 * time.Millisecond)
			}
			until("\r", done)
		}
		refused := func() bool { return len(l.rowsOf(audit.AnswerRefused)) > 0 }
		take("xoxo", refused)
		if got := a.answers("tool|a", "tool|b"); got != "10 10" {
			t.Errorf("after a y: %s", got)
		}
		take("sesieahoex", func() bool {
			for _, row := range l.rowsOf(audit.ConfigLoaded) {
				if strings.Contains(row.Reason, "a human took it") && row.Proof == "phrase" {
					return true
				}
			}
			return false
		})
		if got := a.answers("tool|a", "tool|b"); got != "0 10" {
			t.Errorf("after the phrase: %s", got)
		}
		if strings.Contains(front.Transcript(), "sesieahoex") {
			t.Error("the phrase was shown")
		}
		l.give("stop", "")
		front.Status(t, patience)
	})
	t.Run("without one", func(t *testing.T) {
		l := newLab(t)
		l.extra = []string{"TMUX=/nowhere/socket,1,0"}
		l.configure("policy.jsonc", before)
		l.script("agent.sh", station)
		r, human := l.attended(nil, "sh", "agent.sh")
		a := &asks{l: l}
		if got := a.answers("tool|a", "tool|b"); got != "10 0" {
			t.Fatalf("at the start: %s", got)
		}
		l.configure("policy.jsonc", after)
		l.row(audit.ConfigRefused, "tmux could type for the human, and no phrase was chosen")
		if got := a.answers("tool|a", "tool|b"); got != "10 10" {
			t.Errorf("after the change: %s", got)
		}
		human.quiet("nobody can take it")
		l.give("stop", "")
		r.wait(t, patience)
	})
}
