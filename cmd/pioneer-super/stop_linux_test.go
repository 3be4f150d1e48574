package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// stop asks for the end of a session over a proven connection.
func (a *attendant) stop(target string) control.Result {
	a.t.Helper()
	err := a.conn.Send(control.Message{Request: &control.Request{ID: registry.NewRequestID(), Op: control.OpStop, Target: target}})
	if err != nil {
		a.t.Fatal(err)
	}
	select {
	case r := <-a.results:
		return r
	case <-time.After(patience):
		a.t.Fatal("waited for the result of a stop")
		return control.Result{}
	}
}

// sessions waits until every agent that is named runs, and returns their sessions.
func (l *lab) sessions(agents ...string) map[string]*registry.SessionNode {
	l.t.Helper()
	out := map[string]*registry.SessionNode{}
	await(l.t, patience, "the sessions "+strings.Join(agents, ", "), func() bool {
		clear(out)
		var walk func([]*registry.SessionNode)
		walk = func(list []*registry.SessionNode) {
			for _, s := range list {
				if s.State == registry.Running {
					out[s.Agent] = s
				}
				walk(s.Children)
			}
		}
		for _, id := range l.trees() {
			state, _ := registry.Replay(filepath.Join(l.home, "state", "trees", id))
			walk(state.Sessions)
		}
		for _, name := range agents {
			if out[name] == nil {
				return false
			}
		}
		return true
	})
	return out
}

// journal returns the events of the lab's only tree, each as its kind, what it is
// about and the state.
func (l *lab) journal() []registry.Event {
	l.t.Helper()
	raw, err := os.ReadFile(filepath.Join(l.home, "state", "trees", l.trees()[0], "journal"))
	if err != nil {
		l.t.Fatal(err)
	}
	var out []registry.Event
	for line := range strings.Lines(string(raw)) {
		_, text, _ := strings.Cut(line, " ")
		var e registry.Event
		if json.Unmarshal([]byte(text), &e) == nil {
			out = append(out, e)
		}
	}
	return out
}

// gone says whether the process whose id a file of the workspace holds has ended.
func (l *lab) gone(file string) bool {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.work, file))
	if err != nil {
		l.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		l.t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err != nil || !strings.Contains(string(stat), l.marker)
}

// family is a root with two children, one of which has one itself; each leaves a
// daemon that ignores what can be ignored.
func family(l *lab) {
	l.script("agent.sh", `pioneer-super spawn --agent child --status-fd 3 -- sh child.sh 3>child.status 2>child.err &
pioneer-super spawn --agent sibling -- sh leaf.sh sibling &
`+runner)
	l.script("child.sh", `pioneer-super spawn --agent grandchild -- sh leaf.sh grandchild &
pioneer-super exec -- sh leaf.sh tool &
exec sh leaf.sh child`)
	l.script("leaf.sh", `(setsid sh -c 'trap "" TERM INT HUP; echo $$ >'$1.daemon'.new; mv '$1.daemon'.new '$1.daemon'; while :; do sleep 0.1; done' &)
while [ ! -e $1.daemon ]; do sleep 0.02; done
while :; do sleep 0.1; done`)
}

// TestStopFromInside: a session stops what is below it, leaves first, daemons that
// ignore signals among it, and nothing above or beside it.
func TestStopFromInside(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	family(l)
	r := l.spawn([]string{"--agent", "root"}, "sh", "agent.sh")
	s := l.sessions("root", "child", "sibling", "grandchild")
	l.up("child.daemon", "sibling.daemon", "grandchild.daemon", "tool.daemon")
	for _, name := range []string{"child", "sibling", "grandchild", "tool"} {
		if l.gone(name + ".daemon") {
			t.Fatalf("the daemon of %s does not run, so that its end shows nothing", name)
		}
	}
	a := &asks{l: l}
	name := a.post("pioneer-super stop "+s["root"].ID, "pioneer-super stop s-nosuchsession", "pioneer-super stop", "pioneer-super stop "+l.trees()[0],
		"pioneer-super stop --json "+s["child"].ID+" >stopped")
	if got := strings.ReplaceAll(l.want(name), "\n", " "); got != "126 126 2 126 0" {
		t.Errorf("its own, an unknown one, none, the tree, its child: %s\n%s", got, l.want("out"))
	}
	var stopped []control.Stopped
	for line := range strings.Lines(l.want("stopped") + "\n") {
		var one control.Stopped
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		stopped = append(stopped, one)
	}
	if len(stopped) != 2 || stopped[0].Agent != "grandchild" || stopped[1].Agent != "child" {
		t.Fatalf("stopped %+v", stopped)
	}
	for _, one := range stopped {
		if !one.Proven || one.Proof != registry.ProofWait || one.Forced == 0 || one.Survivors != 0 {
			t.Errorf("%+v", one)
		}
	}
	for _, name := range []string{"child", "grandchild", "tool"} {
		if !l.gone(name + ".daemon") {
			t.Errorf("the daemon of %s lives", name)
		}
	}
	if l.gone("sibling.daemon") {
		t.Error("the sibling's daemon was ended")
	}
	var end control.Result
	await(t, patience, "the end of the child's client", func() bool {
		data, _ := os.ReadFile(filepath.Join(l.work, "child.status"))
		return json.Unmarshal(data, &end) == nil
	})
	if end.Class != control.ClassStopped || end.Exit == 0 || !strings.Contains(end.Reason, "stopped by its ancestor root") {
		t.Errorf("the client of the child was told %+v", end)
	}
	row := l.row(audit.StopRequested, "stopped by its ancestor")
	if row.Session != s["child"].ID || row.Command == "" || row.Proof != "" {
		t.Errorf("in the audit as %+v", row)
	}
	l.give("stop", "")
	if code := r.wait(t, patience); code != 0 {
		t.Errorf("the root left with %d: %s", code, r.stderr())
	}
	l.nobody(patience)
}

// TestStopByTheHuman: a session, then the tree, each with its proof in the audit.
func TestStopByTheHuman(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	family(l)
	r, human := l.attended([]string{"--agent", "root"}, "sh", "agent.sh")
	s := l.sessions("root", "child", "sibling", "grandchild")
	l.up("child.daemon", "sibling.daemon", "grandchild.daemon", "tool.daemon")
	if got := human.stop("s-nosuchsession"); got.Exit != 125 || len(got.Stopped) != 0 {
		t.Errorf("an unknown session: %+v", got)
	}
	got := human.stop(s["grandchild"].ID)
	if got.Exit != 0 || len(got.Stopped) != 1 || !got.Stopped[0].Proven {
		t.Errorf("the grandchild: %+v", got)
	}
	if !l.gone("grandchild.daemon") || l.gone("child.daemon") {
		t.Error("the wrong one was ended")
	}
	got = human.stop("")
	if got.Exit != 0 || len(got.Stopped) != 3 || got.Stopped[2].Agent != "root" {
		t.Errorf("the tree: %+v", got)
	}
	if code := r.wait(t, patience); code == 0 || !strings.Contains(r.stderr(), "stopped by the human (inherited)") {
		t.Errorf("the root left with %d: %s", code, r.stderr())
	}
	l.nobody(patience)
	for _, row := range l.rowsOf(audit.StopRequested) {
		if row.Proof != "inherited" {
			t.Errorf("%+v", row)
		}
	}
	if n := len(l.rowsOf(audit.StopRequested)); n != 2 {
		t.Errorf("%d stops are in the audit, expected 2", n)
	}
	for _, row := range l.rowsOf(audit.SessionEnded) {
		if row.Exit.Proof != registry.ProofWait || !row.Exit.Proven() {
			t.Errorf("session %s ended with %+v", row.Agent, row.Exit)
		}
	}
}

// TestASessionWithADaemonIsNotComplete: its agent has ended, what it left has not.
// The journal has its end after theirs, and calls it stopping in between.
func TestASessionWithADaemonIsNotComplete(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", `(setsid sh -c 'trap "" TERM INT HUP; echo $$ >daemon.new; mv daemon.new daemon; while :; do sleep 0.1; done' &)
while [ ! -e daemon ]; do sleep 0.02; done
exit 0`)
	r := l.spawn(nil, "sh", "agent.sh")
	if code := r.wait(t, patience); code != 0 {
		t.Errorf("status %d: %s", code, r.stderr())
	}
	if !l.gone("daemon") {
		t.Error("the daemon lives, and its session is called complete")
	}
	var order []string
	for _, e := range l.journal() {
		switch e.Kind {
		case registry.CommandLeft, registry.CommandEnded, registry.SessionEnded:
			order = append(order, string(e.Kind))
		case registry.SessionState:
			order = append(order, string(e.State))
		}
		if e.Kind == registry.SessionEnded && (!e.Exit.Forced || !e.Exit.Proven()) {
			t.Errorf("the session's end is %+v", e.Exit)
		}
	}
	if got := strings.Join(order, " "); got != "command_left stopping command_ended session_ended" {
		t.Errorf("the journal has %s", got)
	}
}

// TestAnEndThatNothingProvesIsUnknown: a keeper is killed, and with it the only
// process that could have said that nothing of its command is left.
func TestAnEndThatNothingProvesIsUnknown(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", runner)
	l.script("tool.sh", `echo $$ >tool.new; mv tool.new tool; while :; do sleep 0.1; done`)
	r, human := l.attended([]string{"--agent", "root"}, "sh", "agent.sh")
	a := &asks{l: l}
	name := a.post("pioneer-super exec -- sh tool.sh")
	l.up("tool")
	pid, _ := strconv.Atoi(l.want("tool"))
	parent := 0
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fmt.Sscan(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1], &parent)
	unix.Kill(parent, unix.SIGKILL)
	l.want(name)
	if !l.gone("tool") {
		t.Error("the tool lives without its keeper")
	}
	got := human.stop("")
	if got.Exit != 125 || len(got.Stopped) != 1 || got.Stopped[0].Proven || !strings.HasPrefix(got.Stopped[0].Proof, "unknown: its keeper was lost") {
		t.Errorf("stopped as %+v", got)
	}
	r.wait(t, patience)
	l.nobody(patience)
}
