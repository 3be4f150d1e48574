package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// runner is an agent that runs what it is told to: it takes the file q.N with one
// line of shell for each step, and leaves the statuses in a.N.
const runner = `n=1
while :; do
  while [ ! -e q.$n ]; do [ -e stop ] && exit 0; sleep 0.02; done
  while read -r line; do
    sh -c "$line" >>out 2>&1 </dev/null; echo $?
  done <q.$n >a.$n.new
  mv a.$n.new a.$n
  n=$((n+1))
done`

func keptAs(scope string, tree bool) func(*control.Answer) {
	return func(a *control.Answer) { a.Scope, a.Tree = scope, tree }
}

// given returns the ids of the grants that were given.
func (l *lab) given() []string {
	var out []string
	for _, r := range l.rows() {
		if id, _ := r.Details["grant"].(string); r.Kind == audit.GrantGiven {
			out = append(out, id)
		}
	}
	return out
}

func TestPatternGrants(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"task": "allow", "bash": {"*": "ask", "sh *": "allow", "ls -z*": "deny"}}}`)
	l.script("agent.sh", runner)
	l.script("mine", "#!/bin/sh\n")
	l.script("two.sh", "pioneer-super exec -- ls -a && pioneer-super exec -- ls -l")
	r, human := l.attended(nil, "sh", "agent.sh")
	a := &asks{l: l}

	name := a.post("pioneer-super exec -- ls -a", "pioneer-super exec -- ls -l", "pioneer-super exec -- ls -z", "pioneer-super exec -c 'ls -a; date'", "pioneer-super exec -- ./mine a")
	q := human.next()
	if !strings.HasPrefix(q.Pattern, "bash ls *") && !strings.HasPrefix(q.Pattern, "bash ls*") || !strings.Contains(q.Pattern, "/ls)") {
		t.Errorf("the pattern is shown as %q", q.Pattern)
	}
	if q.Always != "" {
		t.Errorf("a rule is offered although the settings do not let: %q", q.Always)
	}
	human.say(q, "allow_always")
	l.row(audit.AnswerRefused, "a rule in the policy was not offered")
	human.say(q, "allow_for_turn", keptAs("everything", false))
	l.row(audit.AnswerRefused, `scope "everything" was not offered`)
	human.say(q, "allow_for_turn", keptAs("pattern", false))
	// The second is covered, the third is a deny that no grant turns; of the list
	// the part that is not covered is asked; what the session can change has none.
	q = human.next()
	if !strings.Contains(q.Command, "date") || q.Pattern != "" {
		t.Errorf("asked %q with pattern %q", q.Command, q.Pattern)
	}
	human.say(q, "deny")
	q = human.next()
	if !strings.Contains(q.Command, "mine") || q.Pattern != "" {
		t.Errorf("asked %q with pattern %q", q.Command, q.Pattern)
	}
	human.say(q, "deny")
	if got := strings.ReplaceAll(l.want(name), "\n", " "); got != "0 0 126 126 126" {
		out, _ := os.ReadFile(filepath.Join(l.work, "out"))
		t.Errorf("%s\n%s", got, out)
	}

	// It is of this session: another one is asked. One for the tree covers it too.
	name = a.post("pioneer-super spawn -- sh two.sh", "pioneer-super exec -- ls -l")
	q = human.next()
	human.say(q, "allow_for_turn", keptAs("pattern", true))
	if got := l.want(name); got != "0\n0" {
		t.Errorf("in another session: %s", got)
	}
	human.quiet("both sessions are covered")

	// Listed from the disk; revoked by a human; the other one goes on.
	given := l.given()
	list := l.start("grants", "list")
	list.wait(t, 10*time.Second)
	if out := list.stdout(); len(given) != 2 || strings.Count(out, "\n") != 2 || !strings.Contains(out, given[0]+"  bash: ls") || !strings.Contains(out, "every session of the tree") {
		t.Errorf("%q lists\n%s%s", given, out, list.stderr())
	}
	human.conn.Send(control.Message{Request: &control.Request{ID: "r1", Op: control.OpRevoke, Grant: given[1]}})
	l.row(audit.GrantEnded, "revoked by the human (inherited)")
	name = a.post("pioneer-super exec -- ls -a", "pioneer-super spawn -- sh two.sh")
	q = human.next()
	human.say(q, "allow_for_turn", keptAs("pattern", true))
	if got := l.want(name); got != "0\n0" {
		t.Errorf("after one was revoked: %s", got)
	}

	// A turn ends all of them: the session's own and, at the root, the tree's.
	name = a.post("pioneer-super turn end", "pioneer-super exec -- ls -a")
	human.say(human.next(), "deny")
	if got := l.want(name); got != "0\n126" {
		t.Errorf("after the turn: %s", got)
	}
	ended := 0
	for _, row := range l.rows() {
		if row.Kind == audit.GrantEnded && strings.HasPrefix(row.Reason, "turn end") {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("%d grants ended with the turn, expected 2", ended)
	}
	list = l.start("grants", "list", "--json")
	list.wait(t, 10*time.Second)
	if list.stdout() != "" {
		t.Errorf("listed after the turn: %s", list.stdout())
	}
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestASessionsGrantsEndWithIt: what a child was given is told as ended.
func TestASessionsGrantsEndWithIt(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"task": "allow", "bash": {"*": "ask", "sh *": "allow"}}}`)
	l.script("agent.sh", runner)
	l.script("same.sh", "pioneer-super exec -- ls -a && pioneer-super exec -- ls -a")
	r, human := l.attended(nil, "sh", "agent.sh")
	a := &asks{l: l}
	name := a.post("pioneer-super spawn -- sh same.sh")
	human.say(human.next(), "allow_for_turn")
	if got := l.want(name); got != "0" {
		t.Errorf("the second time: %s", got)
	}
	l.row(audit.GrantEnded, "its session ended")
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestAlways writes the rule that was shown into the policy, and nothing else.
func TestAlways(t *testing.T) {
	l := newLab(t)
	const before = `{
  // Mine.
  "permission": {
    "bash": {
      "*": "ask", // the rest
      "sh *": "allow"
    }
  }
}
`
	path := l.configure("policy.jsonc", before)
	l.configure("config.jsonc", `{"allowAlways": true}`)
	l.script("agent.sh", runner)
	r, human := l.attended(nil, "sh", "agent.sh")
	a := &asks{l: l}
	name := a.post("pioneer-super exec -- ls -a", "pioneer-super exec -- ls -l", "pioneer-super exec -- date")
	q := human.next()
	if !strings.HasPrefix(q.Always, path+":7: \"ls ") {
		t.Errorf("the line is shown as %q", q.Always)
	}
	human.say(q, "allow_always")
	human.say(human.next(), "deny")
	if got := l.want(name); got != "0\n0\n126" {
		out, _ := os.ReadFile(filepath.Join(l.work, "out"))
		t.Errorf("%s\n%s", got, out)
	}
	after, err := os.ReadFile(path)
	_, line, _ := strings.Cut(q.Always, ": ")
	if want := strings.Replace(before, `"sh *": "allow"`, "\"sh *\": \"allow\",\n      "+line, 1); err != nil || string(after) != want {
		t.Errorf("the file is\n%sexpected\n%s", after, want)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	row := l.row(audit.ConfigLoaded, "a human's answer writes "+path)
	if row.Value == "" || row.Details["generation"] != 2.0 {
		t.Errorf("%+v", row)
	}
	human.quiet("the file that an answer wrote")
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestFaultAnswerAfterTheTurn: a turn that ended while somebody read takes
// what the answer would have kept with it.
func TestFaultAnswerAfterTheTurn(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"bash": {"*": "ask", "sh *": "allow"}}}`)
	l.script("agent.sh", `pioneer-super exec -- ls -a >/dev/null & first=$!
while [ ! -e go ]; do sleep 0.02; done
pioneer-super turn end; touch ended
wait $first; echo $?
pioneer-super exec -- ls -a >/dev/null; echo $?`)
	r, human := l.attended(nil, "sh", "agent.sh")
	q := human.next()
	l.give("go", "")
	l.up("ended")
	human.say(q, "allow_for_turn", keptAs("pattern", false))
	human.say(human.next(), "deny")
	r.wait(t, 10*time.Second)
	if r.stdout() != "0\n126\n" {
		t.Errorf("%q\n%s", r.stdout(), r.stderr())
	}
	l.row(audit.GrantEnded, "its turn ended while it was given")
}

// TestAGatesPatternRunsNothing: a pattern that was granted for an agent's own gate,
// where nobody knows which program it means, lets nothing run by that name.
func TestAGatesPatternRunsNothing(t *testing.T) {
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"bash": {"*": "ask", "sh *": "allow"}}}`)
	l.script("agent.sh", runner)
	r, human := l.attended(nil, "sh", "agent.sh")
	a := &asks{l: l}
	name := a.post("pioneer-super ask --surface bash --value 'ls -a'", "pioneer-super ask --surface bash --value 'ls -l'", "pioneer-super exec -- ls -l")
	q := human.next()
	if q.Pattern == "" {
		t.Fatal("no pattern is offered: nothing is shown")
	}
	human.say(q, "allow_for_turn", keptAs("pattern", false))
	human.say(human.next(), "deny")
	if got := strings.ReplaceAll(l.want(name), "\n", " "); got != "0 0 126" {
		t.Errorf("offered %q: %s", q.Pattern, got)
	}
	l.give("stop", "")
	r.wait(t, 10*time.Second)
}

// TestAPatternIsGivenAndRevokedInTerminals: the key and its word in the first
// terminal, the phrase in the second.
func TestAPatternIsGivenAndRevokedInTerminals(t *testing.T) {
	testenv.Need(t, "pty")
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"*": "ask", "sh *": "allow"}}}`)
	l.script("agent.sh", `pioneer-super exec -- ls -a >/dev/null; pioneer-super exec -- ls -l >/dev/null && touch given
while [ ! -e go ]; do sleep 0.05; done
pioneer-super exec -- ls -l >/dev/null; echo $? >last`)
	front := l.console("spawn", "--phrase", "--policy", l.policy, "--", "sh", "agent.sh")
	front.Shows(t, patience, "phrase for this tree")
	front.Type(t, "open sesame\r")
	front.Shows(t, patience, "m would also allow")
	press(t, front, "m")
	word := regexp.MustCompile(`type ([A-Z]+) for`).FindStringSubmatch(front.Shows(t, patience, "type "))
	if word == nil {
		t.Fatal("no word is shown")
	}
	for _, r := range strings.ToLower(word[1]) {
		front.Type(t, string(r))
		time.Sleep(60 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	front.Type(t, "\r")
	l.up("given")
	for _, c := range []struct {
		id     string
		status int
	}{{"g-none", 1}, {l.given()[0], 0}} {
		second := l.console("grants", "revoke", "--phrase", c.id)
		second.Shows(t, patience, "phrase of ")
		second.Type(t, "open sesame\r")
		if status := second.Status(t, patience); status != c.status {
			t.Errorf("revoke %s left with %d, expected %d", c.id, status, c.status)
		}
	}
	l.row(audit.GrantEnded, "revoked by the human (phrase)")
	l.give("go", "")
	front.Shows(t, patience, "ls -l")
	press(t, front, "n")
	if got := l.want("last"); got != "126" {
		t.Errorf("after it was revoked: %s", got)
	}
	front.Status(t, patience)
}
