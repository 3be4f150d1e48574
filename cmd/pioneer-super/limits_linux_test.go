package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// status waits for what --status-fd wrote into a file of the workspace.
func (l *lab) status(name string) control.Result {
	l.t.Helper()
	var r control.Result
	await(l.t, patience, "a status in "+name, func() bool {
		data, _ := os.ReadFile(filepath.Join(l.work, name))
		return json.Unmarshal(data, &r) == nil
	})
	return r
}

// stoppedBy checks that a session ended by a limit says so: in its status, in the
// audit, and in what tree shows.
func (l *lab) stoppedBy(r control.Result, limit string) {
	l.t.Helper()
	if r.Class != control.ClassStopped || r.Exit == 0 || !strings.Contains(r.Reason, limit) {
		l.t.Errorf("the client was told %+v", r)
	}
	if row := l.row(audit.LimitReached, limit); row.Session != r.Session {
		l.t.Errorf("in the audit as %+v", row)
	}
	if _, shown := l.run("tree"); !strings.Contains(shown, limit) {
		l.t.Errorf("tree shows\n%s", shown)
	}
}

// TestWallTime: a session is stopped when its time is over, with what it left, and
// its parent goes on. A child never has more than its parent.
func TestWallTime(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", `pioneer-super spawn --max-wall 1h --agent wide -- true 2>wide.err
pioneer-super spawn --max-wall 500ms --agent short --status-fd 3 -- sh short.sh 3>short.status
pioneer-super spawn --max-wall 500ms --agent quick --status-fd 3 -- true 3>quick.status
while :; do sleep 0.1; done`)
	l.script("short.sh", `(setsid sh -c 'trap "" TERM INT HUP; echo $$ >daemon.new; mv daemon.new daemon; while :; do sleep 0.1; done' &)
trap 'exit 0' TERM
while :; do sleep 0.1; done`)
	r, human := l.attended([]string{"--agent", "root", "--max-wall", "20m"}, "sh", "agent.sh")
	end := l.status("short.status")
	l.stoppedBy(end, "max_wall")
	if end.Exit != 143 {
		t.Errorf("an agent that left with 0 when it was stopped: status %d, expected 143", end.Exit)
	}
	if l.there("daemon") && !l.gone("daemon") {
		t.Error("its daemon lives")
	}
	if quick := l.status("quick.status"); quick.Class != control.ClassExited || quick.Exit != 0 {
		t.Errorf("one that was done in time: %+v", quick)
	}
	if got := l.want("wide.err"); !strings.Contains(got, "--max-wall 1h0m0s: the limit is 20m0s") {
		t.Errorf("a child that wants more is told %q", got)
	}
	human.stop("")
	r.wait(t, patience)
	l.nobody(patience)
}

// TestIdleTime: what counts is what a session asks for. As long as a tool of it runs
// it is not idle, whatever the agent does meanwhile.
func TestIdleTime(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", `pioneer-super exec -- sh -c 'while [ ! -e enough ]; do sleep 0.05; done'
echo $? >tool.new; mv tool.new tool
while :; do sleep 0.1; done`)
	const idle = 4 * time.Second
	began := time.Now()
	r := l.startAs(statusInto(l, "root.status"), "spawn", "--headless", "--max-idle", idle.String(), "--status-fd", "3", "--", "sh", "agent.sh")
	l.sessions("")
	time.Sleep(time.Until(began.Add(idle + idle/2)))
	select {
	case <-r.end:
		t.Fatalf("stopped while its tool ran: %s", r.stderr())
	default:
	}
	l.give("enough", "")
	if got := l.want("tool"); got != "0" {
		t.Errorf("the tool left with %s", got)
	}
	r.wait(t, patience)
	l.stoppedBy(l.status("root.status"), "max_idle")
	l.nobody(patience)
}

// TestProcessCount: the processes of child sessions and tools count with those of
// the agent.
func TestProcessCount(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", `pioneer-super spawn --max-processes 30 --agent few --status-fd 3 -- sh many.sh 5 few 3>few.status
pioneer-super spawn --max-processes 30 --agent many --status-fd 3 -- sh both.sh 3>many.status
while :; do sleep 0.1; done`)
	l.script("both.sh", `pioneer-super spawn -- sh many.sh 20 child & pioneer-super exec -- sh many.sh 20 tool`)
	l.script("many.sh", `n=0; while [ $n -lt $1 ]; do sleep 1000 & n=$((n+1)); done
touch $2; if [ $2 = few ]; then sleep 3; exit 0; fi; wait`)
	r, human := l.attended([]string{"--agent", "root"}, "sh", "agent.sh")
	if few := l.status("few.status"); few.Class != control.ClassExited || few.Exit != 0 {
		t.Errorf("one below its limit: %+v", few)
	}
	l.stoppedBy(l.status("many.status"), "max_processes")
	human.stop("")
	r.wait(t, patience)
	l.nobody(patience)
}

// TestCommandTime: a tool may run as long as the snapshot says, and what it leaves in
// the background no longer.
func TestCommandTime(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	limit := l.configure("cap.json", `{"process": {"max_duration": "700ms"}}`)
	l.script("agent.sh", `pioneer-super exec --status-fd 3 -- sleep 1000 3>slow.status
pioneer-super exec -- sh left.sh; echo $? >left.new; mv left.new left
while :; do sleep 0.1; done`)
	l.script("left.sh", `(setsid sh -c 'echo $$ >daemon.new; mv daemon.new daemon; while :; do sleep 0.1; done' &)
while [ ! -e daemon ]; do sleep 0.02; done`)
	r, human := l.attended([]string{"--agent", "root", "--cap", limit}, "sh", "agent.sh")
	end := l.status("slow.status")
	if end.Class != control.ClassStopped || end.Exit != 143 || !strings.Contains(end.Reason, "max_duration") {
		t.Errorf("the client was told %+v", end)
	}
	row := l.row(audit.LimitReached, "max_duration")
	if row.Command != end.Command {
		t.Errorf("in the audit as %+v", row)
	}
	l.want("left")
	await(t, patience, "the end of what a tool left", func() bool { return l.gone("daemon") })
	human.stop("")
	r.wait(t, patience)
	l.nobody(patience)
}

// TestLimitsThatAreNone: a flag that means nothing is told, and nothing runs.
func TestLimitsThatAreNone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, flag := range [][]string{{"--max-wall", "0s"}, {"--max-idle", "-1s"}, {"--max-processes", "0"}, {"--max-wall", "soon"}} {
		r := l.spawn(flag, "touch", "ran")
		if code := r.wait(t, patience); code != 125 || l.there("ran") || !strings.Contains(r.stderr(), flag[0][2:]) {
			t.Errorf("%v: status %d: %s", flag, code, r.stderr())
		}
	}
}

// statusInto gives a client descriptor 3, open on a file of the workspace.
func statusInto(l *lab, name string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		f, err := os.Create(filepath.Join(l.work, name))
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { f.Close() })
		c.ExtraFiles = []*os.File{f}
	}
}
