package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// stubborn is a tree that does what keeps processes alive elsewhere: daemons that
// fork twice into sessions of their own, in the agent and in its tools, a child
// session, and programs that ignore every signal that can be ignored.
func stubborn(l *lab) {
	l.script("agent.sh", `trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM INT HUP; sleep 1000 & sleep 1001' &)
pioneer-super exec -- sh tool.sh tool &
pioneer-super spawn --agent child -- sh child.sh &
touch agent
wait; sleep 1004`)
	l.script("tool.sh", `trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM INT HUP; sleep 1002 & sleep 1003' &)
touch $1
sleep 1007`)
	l.script("child.sh", `trap '' TERM INT HUP
(setsid sleep 1005 &)
pioneer-super exec -- sh tool.sh grandchild &
touch child
sleep 1008`)
}

func (l *lab) up(names ...string) {
	l.t.Helper()
	for _, name := range names {
		await(l.t, 20*time.Second, "the file "+name, func() bool {
			_, err := os.Stat(filepath.Join(l.work, name))
			return err == nil
		})
	}
}

// TestFaultNoSurvivors ends a tree in every way that a tree ends, and looks for what is
// left of it.
func TestFaultNoSurvivors(t *testing.T) {
	testenv.Need(t, "pidfd")
	for _, mode := range []string{"full_access", "auto_accept_edits"} {
		for name, end := range map[string]func(t *testing.T, front, sup int, keepers []int){
			"interrupt":           func(t *testing.T, front, _ int, _ []int) { unix.Kill(front, unix.SIGINT) },
			"terminate":           func(t *testing.T, front, _ int, _ []int) { unix.Kill(front, unix.SIGTERM) },
			"hang up":             func(t *testing.T, front, _ int, _ []int) { unix.Kill(front, unix.SIGHUP) },
			"kill the front":      func(t *testing.T, front, _ int, _ []int) { unix.Kill(front, unix.SIGKILL) },
			"kill the supervisor": func(t *testing.T, _, sup int, _ []int) { unix.Kill(sup, unix.SIGKILL) },
			"kill front and supervisor": func(t *testing.T, front, sup int, _ []int) {
				unix.Kill(front, unix.SIGKILL)
				unix.Kill(sup, unix.SIGKILL)
			},
			"kill supervisor and front": func(t *testing.T, front, sup int, _ []int) {
				unix.Kill(sup, unix.SIGKILL)
				unix.Kill(front, unix.SIGKILL)
			},
			"kill supervisor and every keeper": func(t *testing.T, _, sup int, keepers []int) {
				unix.Kill(sup, unix.SIGKILL)
				for _, k := range keepers {
					unix.Kill(k, unix.SIGKILL)
				}
			},
			"kill every keeper and the front": func(t *testing.T, front, _ int, keepers []int) {
				for _, k := range keepers {
					unix.Kill(k, unix.SIGKILL)
				}
				unix.Kill(front, unix.SIGKILL)
			},
			"kill every keeper": func(t *testing.T, _, _ int, keepers []int) {
				for _, k := range keepers {
					unix.Kill(k, unix.SIGKILL)
				}
			},
		} {
			t.Run(mode+"/"+strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
				t.Parallel() // most of it is waiting for the graces that an end gives
				l := newLab(t)
				l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"sh *": "allow"}}}`)
				stubborn(l)
				r := l.spawn([]string{"--mode", mode}, "sh", "agent.sh")
				l.up("agent", "tool", "child", "grandchild")
				sup := supervisorOf(t, r.Process.Pid)
				keepers := keepersOf(sup)
				if len(keepers) < 4 {
					t.Fatalf("%d keepers hold a command, expected 4: two agents and two tools", len(keepers))
				}
				before := len(l.processes())
				if before < 10 {
					t.Fatalf("%d processes of the tree were found before its end, expected more: the search finds nothing", before)
				}
				end(t, r.Process.Pid, sup, keepers)
				r.wait(t, 15*time.Second)
				l.nobody(5 * time.Second)
			})
		}
	}
}

// TestFaultBackgroundEndsWithItsSession: what a tool leaves in the background outlives its client, is
// shown, and ends with its session.
func TestFaultBackgroundEndsWithItsSession(t *testing.T) {
	l := newLab(t)
	l.script("agent.sh", `pioneer-super exec -- sh -c 'setsid sleep 1234 >/dev/null 2>&1 </dev/null & echo left'
echo returned
sleep 1
touch later
while [ -e later ]; do sleep 0.05; done`)
	r := l.spawn(nil, "sh", "agent.sh")
	l.up("later")
	if got := r.stdout(); got != "left\nreturned\n" {
		t.Errorf("stdout %q, expected the tool's line and then the agent's", got)
	}
	found := false
	for _, what := range l.processes() {
		found = found || what == "sleep 1234"
	}
	if !found {
		t.Error("the background process of the tool is gone although its session lives")
	}
	os.Remove(filepath.Join(l.work, "later"))
	if code := r.wait(t, 15*time.Second); code != 0 {
		t.Errorf("exit %d: %s", code, r.stderr())
	}
	l.nobody(2 * time.Second)
}

// TestLinksOutOfTheWorkspaceAreJudgedByWhereTheyLead: a path that only looks as if
// it were inside is asked for before the sandbox refuses it.
func TestLinksOutOfTheWorkspaceAreJudgedByWhereTheyLead(t *testing.T) {
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"sh *": "allow", "cat *": "allow", "cp *": "allow"}}}`)
	outside := filepath.Join(l.home, "outside")
	if err := os.WriteFile(outside, []byte("outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out": outside, "new": filepath.Join(l.home, "not-there-yet"), "in": "agent.sh"} {
		if err := os.Symlink(to, filepath.Join(l.work, link)); err != nil {
			t.Fatal(err)
		}
	}
	l.script("agent.sh", `pioneer-super exec -- cat in >/dev/null; echo in $?
pioneer-super exec -- cat out; echo out $?
pioneer-super exec -- cp agent.sh new; echo new $?`)
	r := l.spawn([]string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
	if code := r.wait(t, 20*time.Second); code != 0 {
		t.Errorf("exit %d: %s", code, r.stderr())
	}
	if got, want := r.stdout(), "in 0\nout 126\nnew 126\n"; got != want {
		t.Errorf("stdout %q, want %q; stderr %s", got, want, r.stderr())
	}
	if !strings.Contains(r.stderr(), outside) {
		t.Errorf("the refusal does not name where the link leads: %s", r.stderr())
	}
}
