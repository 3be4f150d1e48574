package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// busy is a tree that works for as long as it is let: in each session two workers
// whose tools are asked for, one after the other, and below the root session child
// sessions that come and go. A worker writes down what it was told of each tool.
func busy(l *lab) {
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"sh effect.sh *": "ask"}}}`)
	for _, d := range []string{"effects", "results"} {
		if err := os.Mkdir(filepath.Join(l.work, d), 0o700); err != nil {
			l.t.Fatal(err)
		}
	}
	l.script("effect.sh", `echo x >>effects/$1; [ ${#1} -lt 9 ] || (setsid sleep 3003 &)`)
	l.script("worker.sh", `j=0
while [ ! -e finish ]; do
  j=$((j+1))
  pioneer-super exec -- sh effect.sh $1-$j </dev/null >/dev/null 2>&1
  echo "$1-$j $?" >>results/$1
done`)
	l.script("child.sh", `sh worker.sh $1-y & sh worker.sh $1-n &
k=0; while [ ! -e finish ] && [ $k -lt 40 ]; do sleep 0.05; k=$((k+1)); done`)
	l.script("agent.sh", `sh worker.sh r-y & sh worker.sh r-n &
k=0
while [ ! -e finish ]; do k=$((k+1)); pioneer-super spawn --agent c$k -- sh child.sh c$k </dev/null >/dev/null 2>&1; done &
wait`)
}

// answerBusy refuses what a worker does whose name says so.
func answerBusy(q control.Question) *control.Answer {
	if strings.Contains(q.Command, "-n-") {
		return no(q)
	}
	return once(q)
}

// bystanders are processes of the same user that belong to no tree: one that stays,
// and many that come and go, so that numbers are used again.
type bystanders struct {
	t    *testing.T
	stay *exec.Cmd
	stop chan struct{}
	done chan struct{}
	ran  atomic.Int64
}

func standBy(t *testing.T) *bystanders {
	t.Helper()
	b := &bystanders{t: t, stay: exec.Command("sleep", "1000000"), stop: make(chan struct{}), done: make(chan struct{})}
	if err := b.stay.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		for {
			select {
			case <-b.stop:
				return
			default:
			}
			if out, err := exec.Command("sleep", "0.005").CombinedOutput(); err != nil {
				t.Errorf("a bystander was hit: %v: %s", err, out)
			}
			b.ran.Add(1)
		}
	}()
	return b
}

// unharmed ends the bystanders, of which none may have ended before.
func (b *bystanders) unharmed() {
	b.t.Helper()
	close(b.stop)
	<-b.done
	if b.ran.Load() == 0 {
		b.t.Error("no bystander ran")
	}
	// A process that has ended and was not waited for is a zombie, which is not
	// signalled: only what lives can be asked to end.
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.stay.Process.Pid)); err != nil || strings.Contains(string(state), ") Z ") {
		b.t.Errorf("a bystander is gone: %v", err)
	}
	b.stay.Process.Kill()
	b.stay.Wait()
}

// strike kills one process of the tree, of a random role. The process is held by a
// descriptor while it is looked at, so that nobody else can be hit.
func (g *guarded) strike(r *rand.Rand) bool {
	all := append(g.below(g.front, 12), g.front)
	byRole := map[string][]int{}
	for _, pid := range all {
		role := argv0(pid)
		switch {
		case pid == g.front:
			role = "front"
		case role == supervisor.Name, role == keeper.KeeperName, role == keeper.StageName:
		case filepath.Base(role) == "pioneer-super":
			role = "client"
		case role == "":
			continue
		default:
			role = "program"
		}
		byRole[role] = append(byRole[role], pid)
	}
	// The two whose end is the tree's are rarer.
	role := []string{"client", "client", "client", "program", "program", "program", keeper.KeeperName, keeper.KeeperName, keeper.KeeperName,
		keeper.StageName, keeper.StageName, "front", supervisor.Name}[r.IntN(13)]
	if len(byRole[role]) == 0 {
		return false
	}
	pid := byRole[role][r.IntN(len(byRole[role]))]
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	mine := pid == g.front
	for _, again := range g.below(g.front, 12) {
		mine = mine || again == pid
	}
	if !mine {
		return false
	}
	g.mu.Lock()
	g.lost = g.lost || role == supervisor.Name
	g.killed = append(g.killed, fmt.Sprintf("%s %d", role, pid))
	g.mu.Unlock()
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// over says whether the front has ended.
func (g *guarded) over() bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.front))
	return err != nil || strings.Contains(string(state), ") Z ")
}

// TestFaultStorm kills random processes at random moments, under load.
func TestFaultStorm(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	t.Parallel()
	r := chance(t)
	want := 40
	if *faultLong {
		want = 1000
	}
	b := standBy(t)
	kills, trees, told, effects := 0, 0, 0, 0
	for kills < want && !t.Failed() {
		trees++
		t.Run(fmt.Sprint("tree ", trees), func(t *testing.T) {
			l := newLab(t)
			busy(l)
			mode := []string{"full_access", "auto_accept_edits"}[r.IntN(2)]
			g := l.guard(nil, answerBusy, []string{"--mode", mode}, "sh", "agent.sh")
			await(t, 30*time.Second, "work", func() bool { return g.over() || len(g.asked()) > 0 })
			for n := 0; n < 25 && kills < want && !g.over(); n++ {
				time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
				if g.strike(r) {
					kills++
				}
			}
			l.touch("finish")
			g.wait(t, 60*time.Second)
			g.settled()
			a, b := g.answers()
			told, effects = told+a, effects+b
		})
	}
	b.unharmed()
	t.Logf("%d kills in %d trees; %d tools were told how they ended, %d had their effect; %d bystanders came and went", kills, trees, told, effects, b.ran.Load())
}

// answers holds what every worker was told to what was answered and done.
func (g *guarded) answers() (told, effects int) {
	t := g.lab.t
	t.Helper()
	asked := map[string]int{}
	for _, q := range g.asked() {
		if asked[q.Command]++; asked[q.Command] > 1 {
			t.Errorf("asked twice: %s", q.Command)
		}
	}
	done := map[string]int{}
	files, _ := filepath.Glob(filepath.Join(g.lab.work, "effects", "*"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		n := strings.Count(string(data), "x\n")
		if n > 1 {
			t.Errorf("effect %s was had %d times", name, n)
		}
		if n > 0 { // else its tool was killed when it had just begun
			done[name] = n
		}
		if strings.Contains(name, "-n-") {
			t.Errorf("effect %s was refused and is there", name)
		}
	}
	requested, allowed, started := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, id := range g.lab.trees() {
		rows, _ := audit.Read(filepath.Join(g.lab.home, "state", "trees", id, registry.AuditName))
		for _, r := range rows {
			switch {
			case r.Kind == audit.ApprovalRequested:
				requested[r.RequestKey] = true
			case r.Kind == audit.ApprovalResolved:
				delete(requested, r.RequestKey)
				allowed[strings.TrimPrefix(r.Value, "sh effect.sh ")] = r.Decision == "allow"
			case r.Kind == audit.CommandStarted:
				started[strings.TrimPrefix(r.Value, "sh effect.sh ")] = true
			}
		}
	}
	if len(requested) > 0 && !g.lost {
		t.Errorf("%d requests were never answered: %v", len(requested), requested)
	}
	for name := range done {
		if !allowed[name] || !started[name] {
			t.Errorf("effect %s: allowed %v, started %v in the audit: what is not recorded took effect", name, allowed[name], started[name])
		}
	}
	files, _ = filepath.Glob(filepath.Join(g.lab.work, "results", "*"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			name, status, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok {
				continue // its writer was killed
			}
			told++
			if status == "0" && done[name] != 1 || status == "126" && done[name] != 0 {
				t.Errorf("tool %s: its client was told %s, its effect was had %d times", name, status, done[name])
			}
		}
	}
	return told, len(done)
}
