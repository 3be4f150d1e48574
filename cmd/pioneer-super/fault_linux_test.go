package main

import (
	stdflag "flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/integration/warden"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

var (
	faultLong = stdflag.Bool("fault.long", false, "run the tests of faults whole: every crash point, and as many kills and trials as the figures speak of")
	faultSeed = stdflag.Uint64("fault.seed", 0, "what the tests of faults draw from; 0 takes one from the clock")
)

// chance is what a test of faults draws from. A failure tells the seed.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *faultSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-fault.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// guarded is a tree below a warden, whose questions come to the test.
type guarded struct {
	*running
	*approver
	lab   *lab
	ward  *warden.Ward
	front int

	mu sync.Mutex
	// lost is set when the test has killed the supervisor: then nobody is left who
	// could write how things ended.
	lost bool
	// killed are the processes that the test has ended, for a failure.
	killed []string
}

// guard starts a tree below a warden. see is the warden's, or nil.
func (l *lab) guard(see func(warden.Call) bool, answer func(control.Question) *control.Answer, flags []string, argv ...string) *guarded {
	l.t.Helper()
	g := &guarded{lab: l}
	g.running, g.approver = l.withApproverAs(func(c *exec.Cmd) {
		var err error
		if g.ward, err = warden.Prepare(c, see); err != nil {
			l.t.Fatal(err)
		}
	}, func() { g.ward.Started() }, answer, flags, argv...)
	var err error
	if g.front, err = g.ward.Program(); err != nil {
		l.t.Fatalf("%v: %s", err, g.stderr())
	}
	return g
}

// kill ends a process of the tree and remembers what it was.
func (g *guarded) kill(pid int, what string) {
	if unix.Kill(pid, unix.SIGKILL) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = append(g.killed, fmt.Sprintf("%s %d", what, pid))
	g.lost = g.lost || what == supervisor.Name
}

// settled waits for the end of the tree and holds it to what every end must leave:
// no process, whatever it did to get away, a journal that can be read, an audit
// that verifies and, if somebody was there to write it, tells every end once.
func (g *guarded) settled() {
	t := g.lab.t
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, left, err := g.ward.Wait()
		for _, what := range left {
			t.Errorf("left when the tree was over: %s", what)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ended:
	case <-time.After(3 * warden.Patience):
		t.Errorf("the tree does not end; its processes: %v", g.lab.processes())
		g.lab.nobody(0)
		return
	}
	g.lab.nobody(5 * time.Second)
	g.mu.Lock()
	lost, killed := g.lost, g.killed
	g.mu.Unlock()
	for _, id := range g.lab.trees() {
		g.lab.books(id, !lost)
	}
	if t.Failed() {
		t.Logf("killed: %v\nstderr: %s", killed, g.stderr())
	}
}

// books holds the journal and the audit of a tree that is over to what they must
// be. Where whole is set its supervisor was there until the end.
func (l *lab) books(id string, whole bool) {
	t := l.t
	t.Helper()
	places := registry.Places{State: filepath.Join(l.home, "state"), Run: filepath.Join(l.home, "state", "run"), Config: filepath.Join(l.home, "config")}
	tree, err := registry.Open(places, id)
	if err != nil {
		t.Errorf("tree %s: %v", id, err)
		return
	}
	defer tree.Close()
	if alive, err := tree.Alive(); err != nil || alive {
		t.Errorf("tree %s has a supervisor: %v, %v", id, alive, err)
	}
	state, problems := tree.State()
	for _, p := range problems {
		t.Errorf("journal: %v", p)
	}
	path := filepath.Join(tree.Dir(), registry.AuditName)
	if _, err := os.Stat(path); os.IsNotExist(err) && !whole {
		return // its supervisor ended before it had one
	}
	report, err := audit.Verify(path, id, "")
	if err != nil {
		t.Errorf("audit: %v", err)
	}
	rows, problems := audit.Read(path)
	if whole && (report.Torn > 0 || len(problems) > 0) {
		t.Errorf("audit: %d half lines: %v", report.Torn, problems)
	}
	open, resolved := map[string]int{}, map[string]int{}
	for _, r := range rows {
		switch r.Kind {
		case audit.SessionStarted:
			open[r.Session]++
		case audit.SessionEnded:
			open[r.Session]--
		case audit.CommandStarted:
			open[r.Command]++
		case audit.CommandEnded:
			open[r.Command]--
		case audit.ApprovalResolved:
			if resolved[r.RequestKey]++; resolved[r.RequestKey] > 1 {
				t.Errorf("request %s is answered a second time", r.RequestKey)
			}
		}
	}
	for what, n := range open {
		if n < 0 || whole && n != 0 {
			t.Errorf("audit: %s was started %d times more than it ended", what, n)
		}
	}
	if !whole {
		return
	}
	if len(rows) == 0 || rows[len(rows)-1].Kind != audit.TreeEnded {
		t.Errorf("audit: its last row does not tell the end of the tree")
	}
	if state.Ended == 0 {
		t.Errorf("journal: the tree has no end")
	}
	for _, s := range state.Sessions {
		l.ended(s)
	}
	if _, err := os.Lstat(tree.RunDir()); !os.IsNotExist(err) {
		t.Errorf("the run directory is there: %v", err)
	}
}

func (l *lab) ended(s *registry.SessionNode) {
	l.t.Helper()
	if s.State != registry.Ended {
		l.t.Errorf("journal: session %s is %s", s.ID, s.State)
	}
	if len(s.Asks) > 0 {
		l.t.Errorf("journal: session %s still asks %v", s.ID, s.Asks)
	}
	for _, c := range s.Commands {
		if c.State != registry.Ended {
			l.t.Errorf("journal: command %s of %s is %s", c.ID, s.ID, c.State)
		}
	}
	for _, child := range s.Children {
		l.ended(child)
	}
}

// story is a short life with every step that starts or stops something: tools that
// a rule allows, a human allows and a human refuses, an ask over files, a child
// session, and daemons in both.
func story(l *lab) {
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"sh *": "allow", "sh effect.sh asked": "ask", "sh effect.sh refused": "ask", "git status": "allow"}}}`)
	l.script("effect.sh", `echo x >>effect-$1`)
	l.script("agent.sh", `pioneer-super exec -- sh effect.sh rule
pioneer-super exec -- sh effect.sh asked
pioneer-super exec -- sh effect.sh refused
pioneer-super ask --surface bash --value 'git status' >/dev/null
pioneer-super spawn --agent child -- sh child.sh
(env -i setsid sleep 3000 &)
exit 5`)
	l.script("child.sh", `pioneer-super exec -- sh -c '(setsid sleep 3001 &) ; exec sh effect.sh child'
(env -i setsid sleep 3002 &)`)
}

// answerStory is the human of a story.
func answerStory(q control.Question) *control.Answer {
	if strings.Contains(q.Command, "refused") {
		return no(q)
	}
	return once(q)
}

// effects holds what was done to what was decided.
func (g *guarded) effects() (done []string) {
	t := g.lab.t
	t.Helper()
	asked := map[string]int{}
	for _, q := range g.asked() {
		if asked[q.Command]++; asked[q.Command] > 1 {
			t.Errorf("asked twice: %s", q.Command)
		}
	}
	var rows []audit.Row
	if ids := g.lab.trees(); len(ids) == 1 {
		rows, _ = audit.Read(filepath.Join(g.lab.home, "state", "trees", ids[0], registry.AuditName))
	}
	files, _ := filepath.Glob(filepath.Join(g.lab.work, "effect-*"))
	for _, f := range files {
		name := strings.TrimPrefix(filepath.Base(f), "effect-")
		data, err := os.ReadFile(f)
		if err != nil || string(data) != "x\n" && len(data) > 0 {
			t.Errorf("effect %s: %q, %v; expected one", name, data, err)
		}
		if len(data) > 0 { // else its tool was killed when it had just begun
			done = append(done, name)
		}
		allowed, started := false, false
		for _, r := range rows {
			if !strings.Contains(r.Value, "effect.sh "+name) {
				continue
			}
			allowed = allowed || r.Kind == audit.DecisionAllowed || r.Kind == audit.ApprovalResolved && r.Decision == "allow"
			started = started || r.Kind == audit.CommandStarted && allowed
		}
		if !allowed || !started {
			t.Errorf("effect %s: allowed %v, started %v in the audit: what is not recorded took effect", name, allowed, started)
		}
	}
	if slices.Contains(done, "refused") {
		t.Error("what a human refused was done")
	}
	return done
}

// role is what a process is in a tree.
func (g *guarded) role(c warden.Call) string {
	switch {
	case c.Role == supervisor.Name, c.Role == keeper.KeeperName, c.Role == keeper.StageName:
		return c.Role
	case filepath.Base(c.Role) != "pioneer-super":
		return ""
	case c.PID == g.front:
		return "front"
	}
	return "client"
}

var roles = []string{"front", "client", supervisor.Name, keeper.KeeperName, keeper.StageName}

// TestFaultCrash ends a process of every role at its calls to the kernel, between
// one step of start, life and stop and the next, and in half of them another process
// with it.
func TestFaultCrash(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper", "seccomp-notify", "landlock")
	r := chance(t)
	// The control: whole, it does what the story says, and its calls are counted.
	calls := map[string]int{}
	t.Run("control", func(t *testing.T) {
		l := newLab(t)
		story(l)
		var g *guarded
		var made []warden.Call
		g = l.guard(func(c warden.Call) bool {
			made = append(made, c)
			return true
		}, answerStory, []string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
		if code := g.wait(t, 30*time.Second); code != 0 {
			t.Fatalf("the warden left with %d: %s", code, g.stderr())
		}
		g.settled()
		if got := g.effects(); !slices.Equal(got, []string{"asked", "child", "rule"}) {
			t.Errorf("the effects are %q: %s", got, g.stderr())
		}
		for _, c := range made {
			calls[g.role(c)]++
		}
	})
	t.Logf("calls: %v", calls)
	type point struct {
		role string
		at   int
		also string
	}
	var points []point
	for _, role := range roles {
		if calls[role] == 0 {
			t.Fatalf("no call of a %s was seen", role)
		}
		n := 5
		if *faultLong {
			n = calls[role]
		}
		for i := range n {
			at := 1 + i
			if !*faultLong {
				at = 1 + r.IntN(calls[role])
			}
			p := point{role: role, at: at}
			if r.IntN(2) == 0 {
				p.also = []string{"front", supervisor.Name, keeper.KeeperName}[r.IntN(3)]
			}
			points = append(points, p)
		}
	}
	limit := make(chan struct{}, 3)
	for _, p := range points {
		t.Run(fmt.Sprintf("%s/%d+%s", p.role, p.at, p.also), func(t *testing.T) {
			t.Parallel()
			limit <- struct{}{}
			defer func() { <-limit }()
			l := newLab(t)
			story(l)
			var g *guarded
			known := make(chan struct{})
			n := 0
			g = l.guard(func(c warden.Call) bool {
				<-known
				role := g.role(c)
				if role != p.role {
					return true
				}
				if n++; n != p.at {
					return true
				}
				g.kill(c.PID, role)
				g.killAlso(p.also, c.PID)
				return false
			}, answerStory, []string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
			close(known)
			g.wait(t, 3*warden.Patience)
			g.settled()
			g.effects()
		})
	}
}

// killAlso ends another process of that role, if there is one now.
func (g *guarded) killAlso(role string, not int) {
	switch role {
	case "front":
		g.kill(g.front, role)
	case supervisor.Name, keeper.KeeperName:
		for _, pid := range g.below(g.front, 3) {
			if pid != not && argv0(pid) == role {
				g.kill(pid, role)
				return
			}
		}
	}
}

// below are the processes down to that depth below one.
func (g *guarded) below(pid, depth int) []int {
	if depth == 0 {
		return nil
	}
	var out []int
	for _, child := range childrenOf(pid) {
		out = append(append(out, child), g.below(child, depth-1)...)
	}
	return out
}
