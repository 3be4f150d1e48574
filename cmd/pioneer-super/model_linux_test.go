package main

import (
	stdflag "flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// model is what a tree should look like: which sessions there are, below whom, and
// what is asked in each.
type model struct {
	parent map[string]string // of a living session; "" for the root's
	asks   map[string]string // open question -> its session
	n      int               // names that were given
}

func (m *model) name(prefix string) string { m.n++; return prefix + strconv.Itoa(m.n) }

func (m *model) depth(s string) (n int) {
	for ; s != ""; s = m.parent[s] {
		n++
	}
	return n
}

// end takes a session away with all below it, and what they ask.
func (m *model) end(s string) {
	for child, parent := range maps.Clone(m.parent) {
		if parent == s {
			m.end(child)
		}
	}
	delete(m.parent, s)
	maps.DeleteFunc(m.asks, func(_, in string) bool { return in == s })
}

// String is the model in the form that seen gives the tree.
func (m *model) String() string {
	var out []string
	for s, parent := range m.parent {
		out = append(out, "session "+s+" below "+parent)
	}
	for ask, s := range m.asks {
		out = append(out, "ask "+ask+" of "+s)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// seen is the tree as somebody else reads it from its journal.
func (l *lab) seen() string {
	ids := l.trees()
	if len(ids) != 1 {
		return fmt.Sprintf("%d trees", len(ids))
	}
	places := registry.Places{State: filepath.Join(l.home, "state"), Run: filepath.Join(l.home, "state", "run"), Config: filepath.Join(l.home, "config")}
	tree, err := registry.Open(places, ids[0])
	if err != nil {
		return err.Error()
	}
	defer tree.Close()
	state, problems := tree.State()
	if len(problems) > 0 {
		return fmt.Sprint(problems)
	}
	var out []string
	var walk func(s *registry.SessionNode, parent string)
	walk = func(s *registry.SessionNode, parent string) {
		if s.State != registry.Ended {
			out = append(out, "session "+s.Agent+" below "+parent)
		}
		for _, a := range s.Asks {
			out = append(out, "ask "+strings.TrimPrefix(a.Value, "sh effect.sh ")+" of "+s.Agent)
		}
		for _, c := range s.Children {
			walk(c, s.Agent)
		}
	}
	for _, s := range state.Sessions {
		walk(s, "")
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// puppet is an agent that does what it is told through a pipe.
const puppet = `exec 3<>in-$1
echo $$ >agent-$1.new; mv agent-$1.new agent-$1
while read -r op what <&3; do case $op in
spawn) mkfifo in-$what; sh -c 'echo $$ >client-$1; exec pioneer-super spawn --agent $1 -- sh puppet.sh $1' - $what 3>&- </dev/null >/dev/null 2>&1 & ;;
ask) (sh -c 'echo $$ >client-$1; exec pioneer-super exec -- sh effect.sh $1' - $what 3>&- </dev/null >/dev/null 2>&1; echo $? >told-$what.new; mv told-$what.new told-$what) & ;;
quit) exit 0 ;;
esac; done`

// rapidTB reports to the property that is checked, so that a failure is tried
// again with less.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (t rapidTB) Error(args ...any)            { t.rt.Helper(); t.rt.Error(args...) }
func (t rapidTB) Errorf(f string, args ...any) { t.rt.Helper(); t.rt.Errorf(f, args...) }
func (t rapidTB) Fatal(args ...any)            { t.rt.Helper(); t.rt.Fatal(args...) }
func (t rapidTB) Fatalf(f string, args ...any) { t.rt.Helper(); t.rt.Fatalf(f, args...) }
func (t rapidTB) Log(args ...any)              { t.rt.Log(args...) }
func (t rapidTB) Logf(f string, args ...any)   { t.rt.Logf(f, args...) }
func (t rapidTB) Failed() bool                 { return t.rt.Failed() }
func (t rapidTB) Helper()                      { t.rt.Helper() }

// TestFaultModel compares a tree with a model of it while sessions are started and
// ended, by themselves and by force, and questions asked, answered and given up.
func TestFaultModel(t *testing.T) {
	testenv.Need(t, "pidfd", "subreaper")
	checks, steps := "3", "12"
	if *faultLong {
		checks, steps = "60", "30"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.steps": steps, "rapid.nofailfile": "true"} {
		old := stdflag.Lookup(name).Value.String()
		if err := stdflag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stdflag.Set(name, old) }) // the flags are those of every property
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := &play{t: t, rt: rt}
		p.begin()
		rt.Repeat(p.actions())
		p.finish()
	})
}

// play is a tree beside its model. One that is over is followed by another.
type play struct {
	t  *testing.T
	rt *rapid.T
	l  *lab
	g  *guarded
	m  *model
}

func (p *play) must(err error) {
	if err != nil {
		p.rt.Fatal(err)
	}
}

func (p *play) begin() {
	l := newLab(p.t)
	l.t = rapidTB{p.t, p.rt}
	p.l = l
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"sh puppet.sh *": "allow", "sh effect.sh *": "ask"}}}`)
	l.script("puppet.sh", puppet)
	l.script("effect.sh", `echo x >>effect-$1`)
	p.must(unix.Mkfifo(filepath.Join(l.work, "in-root"), 0o600))
	p.g = l.guard(nil, nil, []string{"--agent", "root"}, "sh", "puppet.sh", "root")
	p.m = &model{parent: map[string]string{"root": ""}, asks: map[string]string{}}
	p.pidIn("agent-root")
}

// finish ends the tree and looks at what is left of it.
func (p *play) finish() {
	if len(p.m.parent) > 0 {
		p.tell("root", "quit", "")
	}
	p.g.running.wait(p.l.t, 60*time.Second)
	p.g.settled()
	files, _ := filepath.Glob(filepath.Join(p.l.work, "effect-*"))
	for _, f := range files {
		if data, _ := os.ReadFile(f); string(data) != "x\n" {
			p.rt.Errorf("%s: %q", f, data)
		}
	}
}

func (p *play) pidIn(file string) int {
	p.l.up(file)
	data, err := os.ReadFile(filepath.Join(p.l.work, file))
	p.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	p.must(err)
	return pid
}

func (p *play) tell(s, op, what string) {
	f, err := os.OpenFile(filepath.Join(p.l.work, "in-"+s), os.O_WRONLY|unix.O_NONBLOCK, 0)
	p.must(err)
	_, err = fmt.Fprintln(f, op, what)
	p.must(err)
	p.must(f.Close())
}

func (p *play) kill(pid int, what string) {
	if pid <= 1 || argv0(pid) == "" {
		p.rt.Fatalf("%s has no process %d", what, pid)
	}
	p.g.kill(pid, what)
}

// session draws one that lives; the root's, whose end is the tree's, rarely.
func (p *play) session(ends bool) string {
	if len(p.m.parent) == 0 {
		p.finish()
		p.begin()
	}
	all := slices.Sorted(maps.Keys(p.m.parent))
	if ends && rapid.IntRange(0, 4).Draw(p.rt, "root") > 0 {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "root" })
	}
	if len(all) == 0 {
		return p.spawn("root")
	}
	return rapid.SampledFrom(all).Draw(p.rt, "session")
}

func (p *play) spawn(parent string) string {
	child := p.m.name("s")
	p.tell(parent, "spawn", child)
	p.m.parent[child] = parent
	p.pidIn("agent-" + child)
	return child
}

func (p *play) asked(ask string) (q control.Question, is bool) {
	for _, q := range p.g.asked() {
		if q.Command == "sh effect.sh "+ask {
			return q, true
		}
	}
	return q, false
}

func (p *play) ask(s string) string {
	ask := p.m.name("a")
	p.tell(s, "ask", ask)
	p.m.asks[ask] = s
	await(p.l.t, 20*time.Second, "the question "+ask, func() bool { _, is := p.asked(ask); return is })
	return ask
}

// open draws a question that waits.
func (p *play) open() string {
	if len(p.m.asks) == 0 {
		return p.ask(p.session(false))
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(p.m.asks))).Draw(p.rt, "ask")
}

func (p *play) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"spawn": func(rt *rapid.T) {
			s := p.session(false)
			if p.m.depth(s) > 3 || len(p.m.parent) > 8 {
				rt.Skip("enough")
			}
			p.spawn(s)
		},
		"ask": func(rt *rapid.T) {
			if len(p.m.asks) > 6 {
				rt.Skip("enough")
			}
			p.ask(p.session(false))
		},
		"answer": func(rt *rapid.T) {
			ask := p.open()
			q, _ := p.asked(ask)
			answer, status, effect := once(q), "0\n", "x\n"
			if rapid.Bool().Draw(rt, "refuse") {
				answer, status, effect = no(q), "126\n", ""
			}
			p.g.says(*answer)
			p.l.up("told-" + ask)
			told, _ := os.ReadFile(filepath.Join(p.l.work, "told-"+ask))
			did, _ := os.ReadFile(filepath.Join(p.l.work, "effect-"+ask))
			if string(told) != status || string(did) != effect {
				rt.Fatalf("%s: told %q, did %q; expected %q, %q", ask, told, did, status, effect)
			}
			delete(p.m.asks, ask)
		},
		"answer what is gone": func(rt *rapid.T) {
			gone := slices.DeleteFunc(p.g.asked(), func(q control.Question) bool {
				_, is := p.m.asks[strings.TrimPrefix(q.Command, "sh effect.sh ")]
				return is
			})
			if len(gone) == 0 || len(p.m.parent) == 0 {
				rt.Skip("nothing is gone")
			}
			p.g.says(*once(rapid.SampledFrom(gone).Draw(rt, "question")))
		},
		"client of an ask killed": func(*rapid.T) {
			ask := p.open()
			p.kill(p.pidIn("client-"+ask), "client")
			delete(p.m.asks, ask)
		},
		"client of a session killed": func(rt *rapid.T) {
			s := p.session(true)
			if s == "root" {
				rt.Skip("the root session has the front for a client")
			}
			p.kill(p.pidIn("client-"+s), "client")
			p.m.end(s)
		},
		"agent quits": func(*rapid.T) {
			s := p.session(true)
			p.tell(s, "quit", "")
			p.m.end(s)
		},
		"agent killed": func(*rapid.T) {
			s := p.session(true)
			p.kill(p.pidIn("agent-"+s), "agent")
			p.m.end(s)
		},
		"keeper killed": func(rt *rapid.T) {
			s := p.session(true)
			pid := keeperOf(p.g.front, p.pidIn("agent-"+s))
			p.kill(pid, keeper.KeeperName)
			p.m.end(s)
		},
		"supervisor killed": func(rt *rapid.T) {
			if len(p.m.parent) == 0 || rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
				rt.Skip("not now")
			}
			p.kill(supervisorOf(p.l.t, p.g.front), supervisor.Name)
			p.m.end("root")
		},
		"": p.compare,
	}
}

// compare holds the journal to the model.
func (p *play) compare(rt *rapid.T) {
	if p.g.lost {
		return // nobody is left who could write it down
	}
	want := p.m.String()
	got := ""
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if got = p.l.seen(); got == want {
			break
		}
		if time.Now().After(deadline) {
			rt.Fatalf("the journal has\n%s\n\nexpected\n%s\n\n%s", got, want, p.g.stderr())
		}
	}
	for ask := range p.m.asks {
		if p.l.there("effect-" + ask) {
			rt.Fatalf("%s was done and not answered", ask)
		}
	}
}

// keeperOf finds the keeper right above a process.
func keeperOf(front, pid int) int {
	for _, sup := range childrenOf(front) {
		for _, k := range childrenOf(sup) {
			if argv0(k) == keeper.KeeperName && slices.Contains(childrenOf(k), pid) {
				return k
			}
		}
	}
	return 0
}
