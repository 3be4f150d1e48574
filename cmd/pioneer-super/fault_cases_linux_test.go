package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// ends are the ways in which a tree is ended from outside.
var ends = map[string]func(g *guarded){
	"terminate":           func(g *guarded) { unix.Kill(g.front, unix.SIGTERM) },
	"kill the front":      func(g *guarded) { g.kill(g.front, "front") },
	"kill the supervisor": func(g *guarded) { g.kill(supervisorOf(g.lab.t, g.front), supervisor.Name) },
}

// TestFaultStarts: what cannot be started is told, is written down as not run, and
// leaves nothing.
func TestFaultStarts(t *testing.T) {
	testenv.Need(t, "subreaper")
	t.Parallel()
	l := newLab(t)
	l.give("plain", "no program")
	l.script("busy", "#!/bin/sh\nexit 0\n")
	l.script("odd", "#!/no/such/interpreter\n")
	written, err := os.OpenFile(filepath.Join(l.work, "busy"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	l.script("agent.sh", `for what in ./missing ./plain ./busy ./odd; do pioneer-super exec -- $what; echo "$what $?"; done`)
	g := l.guard(nil, nil, nil, "sh", "agent.sh")
	g.wait(t, 30*time.Second)
	g.settled()
	if got, want := g.stdout(), "./missing 127\n./plain 126\n./busy 125\n./odd 127\n"; got != want {
		t.Errorf("%q, expected %q: %s", got, want, g.stderr())
	}
	for _, r := range l.rowsOf(audit.CommandEnded) {
		if r.Exit.Known && r.Exit.Code != 0 {
			t.Errorf("a status was invented for what did not run: %+v", r.Exit)
		}
	}
}

// TestFaultManyProcesses: a tool of many processes, of which none minds TERM and a
// tenth are daemons, ends with its tree.
func TestFaultManyProcesses(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	n := 150
	if *faultLong {
		n = 2000
	}
	for name, end := range ends {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.script("agent.sh", fmt.Sprintf(`trap '' TERM INT HUP
i=0
while [ $i -lt %d ]; do
  i=$((i+1))
  case $i in *0) (setsid sleep 4001 &) ;; *) sleep 4000 & ;; esac
done
touch up
wait`, n))
			g := l.guard(nil, nil, nil, "sh", "agent.sh")
			l.up("up")
			if got := len(l.processes()); got < n {
				t.Fatalf("%d processes, expected more than %d: nothing is shown", got, n)
			}
			end(g)
			g.wait(t, 60*time.Second)
			g.settled()
			if name == "terminate" {
				for _, r := range l.rowsOf(audit.CommandEnded) {
					if r.Exit.Proof != "wait4" || !r.Exit.Forced {
						t.Errorf("it ended as %+v, expected the kernel's proof and that it was forced", r.Exit)
					}
				}
			}
		})
	}
}

// TestFaultHoppers: programs that leave their parent and their session as fast as
// they can are caught.
func TestFaultHoppers(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	trials := 2
	if *faultLong {
		trials = 100
	}
	for name, end := range ends {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for range trials {
				l := newLab(t)
				l.script("hop.sh", `echo >>hops; setsid sh hop.sh >/dev/null 2>&1 </dev/null &`)
				l.script("agent.sh", `sh hop.sh; pioneer-super exec -- sh hop.sh; sh hop.sh; touch up; exec sleep 4005`)
				g := l.guard(nil, nil, nil, "sh", "agent.sh")
				l.up("up")
				hops := func() int { data, _ := os.ReadFile(filepath.Join(l.work, "hops")); return len(data) }
				begun := hops()
				await(t, 20*time.Second, "twenty hops", func() bool { return hops() >= begun+20 })
				end(g)
				g.wait(t, 60*time.Second)
				g.settled()
				still := hops()
				time.Sleep(20 * time.Millisecond)
				if now := hops(); now != still {
					t.Errorf("it still hops: %d and then %d", still, now)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestFaultGrowing: a tree that grows and asks for more while it is stopped gets
// nothing more, and each end is told once however often it is asked for.
func TestFaultGrowing(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow"}}}`)
	l.script("agent.sh", `trap '' TERM
(while :; do sleep 4006 & sleep 0.01; done) &
(while :; do pioneer-super exec -- sh -c 'trap "" TERM; sleep 4007' </dev/null >/dev/null 2>&1 & sleep 0.05; done) &
(while :; do pioneer-super spawn -- sh -c 'trap "" TERM; sleep 4008' </dev/null >/dev/null 2>&1 & sleep 0.1; done) &
touch up
wait`)
	g := l.guard(nil, nil, nil, "sh", "agent.sh")
	l.up("up")
	await(t, 30*time.Second, "a session below", func() bool { return len(l.rowsOf(audit.SessionStarted)) > 2 })
	for range 3 {
		unix.Kill(g.front, unix.SIGTERM)
	}
	g.wait(t, 60*time.Second)
	g.settled()
}

// TestFaultStoppedMembers: what was stopped is continued, so that it can end itself.
func TestFaultStoppedMembers(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	t.Parallel()
	l := newLab(t)
	l.script("member.sh", `trap 'touch ended-itself; exit' TERM; touch up; while :; do sleep 0.02; done`)
	l.script("agent.sh", `sh member.sh & p=$!
while [ ! -e up ]; do sleep 0.02; done
kill -STOP $p; touch stopped; wait; wait`)
	g := l.guard(nil, nil, nil, "sh", "agent.sh")
	l.up("stopped")
	unix.Kill(g.front, unix.SIGTERM)
	g.wait(t, 60*time.Second)
	g.settled()
	if !l.there("ended-itself") {
		t.Error("it was not continued, or not given the time to end itself")
	}
}

// A test binary under the product's names is the product, with one thing more: its
// supervisor tells, on SIGUSR1, what its goroutines do.
func init() {
	switch filepath.Base(os.Args[0]) {
	case supervisor.Name:
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGUSR1)
		go func() {
			for range asked {
				tellGoroutines()
			}
		}()
	case keeper.KeeperName, keeper.StageName, "pioneer-super":
	default:
		return
	}
	main()
}

func goroutinesFile(pid int) string {
	return filepath.Join("/tmp", fmt.Sprintf("pioneer-super-goroutines.%d", pid))
}

func tellGoroutines() {
	var b bytes.Buffer
	fmt.Fprintln(&b, runtime.NumGoroutine())
	pprof.Lookup("goroutine").WriteTo(&b, 1)
	to := goroutinesFile(os.Getpid())
	if os.WriteFile(to+".new", b.Bytes(), 0o600) == nil {
		os.Rename(to+".new", to)
	}
}

// goroutines asks a supervisor for the number of its goroutines and what they are.
func goroutines(t *testing.T, pid int) (int, string) {
	t.Helper()
	file := goroutinesFile(pid)
	os.Remove(file)
	defer os.Remove(file)
	if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var text string
	await(t, 20*time.Second, "the goroutines of the supervisor", func() bool {
		data, err := os.ReadFile(file)
		text = string(data)
		return err == nil
	})
	first, rest, _ := strings.Cut(text, "\n")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return n, rest
}

// TestFaultNothingLeaks: after commands and sessions that came and went, and
// clients, tools and keepers that were killed, a supervisor holds what it held.
func TestFaultNothingLeaks(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rounds := 4
	if *faultLong {
		rounds = 300
	}
	l := newLab(t)
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow", "git status": "ask"}}}`)
	l.script("agent.sh", `while read -r round; do
pioneer-super exec -- true
pioneer-super exec -- git status
pioneer-super ask --surface bash --value 'git log' >/dev/null
pioneer-super spawn -- sh -c 'pioneer-super exec -- true; (setsid sleep 4009 &)'
pioneer-super exec -- sh -c 'echo $PPID >keeper; sleep 4010' & c=$!
while [ ! -s keeper ]; do sleep 0.01; done
touch killme; while [ -e killme ]; do sleep 0.01; done
wait $c; rm keeper
pioneer-super exec -- sleep 4011 & c=$!
sleep 0.05; kill -9 $c; wait $c
echo "round $round"
done`)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, _ := l.withApproverAs(func(c *exec.Cmd) {
		c.Path, c.Args[0], c.Stdin = self, "pioneer-super", in
	}, func() {}, func(q control.Question) *control.Answer { return no(q) }, nil, "sh", "agent.sh")
	t.Cleanup(func() { out.Close() })
	sup := supervisorOf(t, r.Process.Pid)
	round := func(n int) {
		t.Helper()
		fmt.Fprintln(out, n)
		l.up("killme")
		// The keeper of a tool that runs is its parent.
		data, err := os.ReadFile(filepath.Join(l.work, "keeper"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || argv0(pid) != keeper.KeeperName {
			t.Fatalf("%q is no keeper: %v", data, err)
		}
		unix.Kill(pid, unix.SIGKILL)
		os.Remove(filepath.Join(l.work, "killme"))
		await(t, 30*time.Second, "the end of the round", func() bool { return strings.Contains(r.stdout(), fmt.Sprintf("round %d\n", n)) })
	}
	descriptors := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", sup))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	// quiet waits for the least that it holds: what is being ended goes by itself.
	quiet := func(fds, gos int) (int, int, string) {
		var what string
		leastF, leastG := 1<<30, 1<<30
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && (leastF > fds || leastG > gos); time.Sleep(50 * time.Millisecond) {
			n, text := goroutines(t, sup)
			if n < leastG {
				leastG, what = n, text
			}
			leastF = min(leastF, descriptors())
		}
		return leastF, leastG, what
	}
	// What the first rounds open for good is no leak.
	for n := range 2 {
		round(n)
	}
	time.Sleep(3 * time.Second) // a tool that was cut short has a grace of two
	fds, gos, _ := quiet(1<<29, 1<<29)
	for n := range rounds {
		round(2 + n)
	}
	f, g, what := quiet(fds, gos)
	t.Logf("%d rounds: %d descriptors and %d goroutines before, %d and %d after", rounds, fds, gos, f, g)
	if f > fds {
		t.Errorf("%d descriptors, and %d before %d rounds", f, fds, rounds)
	}
	if g > gos {
		t.Errorf("%d goroutines, and %d before %d rounds: %s", g, gos, rounds, what)
	}
	out.Close()
	if code := r.wait(t, 30*time.Second); code != 0 {
		t.Errorf("status %d: %s", code, r.stderr())
	}
	l.nobody(5 * time.Second)
	l.books(l.trees()[0], true)
}
