package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// countPause is how often processes are counted, while a session runs that has a
// limit on them. Nothing tells of a fork.
const countPause = time.Second

// limits are the timers of a session, under tree.mu.
type limits struct {
	wall, idle *time.Timer
	// busy counts what the session waits for: its requests, those of its tools and
	// its asks. A child session is the request that started it.
	busy int
}

func wantedLimits(l control.Limits) policy.Limits {
	return policy.Limits{
		MaxWall: policy.Duration(l.WallMS) * policy.Duration(time.Millisecond), MaxIdle: policy.Duration(l.IdleMS) * policy.Duration(time.Millisecond),
		MaxProcesses: l.Processes,
	}
}

// limited puts the limits that are wanted on a session, and says what of them it
// cannot have because a session above has less.
func limited(s *session, want policy.Limits) []string {
	got := s.snap.Process.Limits.Meet(want)
	s.snap.Process.Limits = got
	var narrowed []string
	say := func(flag string, wanted, has any) {
		narrowed = append(narrowed, fmt.Sprintf("%s %v: the limit is %v", flag, wanted, has))
	}
	if want.MaxWall > got.MaxWall {
		say("--max-wall", want.MaxWall, got.MaxWall)
	}
	if want.MaxIdle > got.MaxIdle {
		say("--max-idle", want.MaxIdle, got.MaxIdle)
	}
	if want.MaxProcesses > got.MaxProcesses {
		say("--max-processes", want.MaxProcesses, got.MaxProcesses)
	}
	return narrowed
}

// limit starts the timers of a session. Who reaches a limit is stopped like one
// whom a human stops.
func (t *tree) limit(s *session) {
	l := s.snap.Process.Limits
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.ending {
		return
	}
	if d := time.Duration(l.MaxWall); d > 0 {
		s.limits.wall = time.AfterFunc(d, func() { t.overLimit(s, fmt.Sprintf("its wall time of %s is over (max_wall)", d)) })
	}
	if d := time.Duration(l.MaxIdle); d > 0 {
		s.limits.idle = time.AfterFunc(d, func() {
			t.mu.Lock()
			busy := s.limits.busy > 0
			t.mu.Unlock()
			if !busy {
				t.overLimit(s, fmt.Sprintf("it asked for nothing and ran nothing for %s (max_idle)", d))
			}
		})
	}
	if l.MaxProcesses > 0 && !t.counting {
		t.counting = true
		go t.count()
	}
}

// busy marks a request of a session until the function that it returns is called.
func (t *tree) busy(s *session) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.limits.busy++; s.limits.idle != nil {
		s.limits.idle.Stop()
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if s.limits.busy--; s.limits.busy == 0 && s.limits.idle != nil && !s.ending {
			s.limits.idle.Reset(time.Duration(s.snap.Process.MaxIdle))
		}
	}
}

// unlimit ends the timers of a session that is over. Its caller holds mu.
func (s *session) unlimit() {
	for _, timer := range []*time.Timer{s.limits.wall, s.limits.idle} {
		if timer != nil {
			timer.Stop()
		}
	}
}

func (t *tree) overLimit(s *session, why string) {
	t.mu.Lock()
	over := s.ending
	t.mu.Unlock()
	if over {
		return
	}
	t.note(audit.Row{Kind: audit.LimitReached, Session: s.id, Agent: s.agent, Chain: s.requesters(), Reason: why + "; the session is stopped"})
	t.endSession(s, ending{why: why, stopped: true})
}

// count looks at the number of processes of every session that has a limit on it,
// for as long as there is one.
func (t *tree) count() {
	tick := time.NewTicker(countPause)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		if !t.countOnce() {
			return
		}
	}
}

// countOnce reports whether there is something to be counted.
func (t *tree) countOnce() bool {
	t.mu.Lock()
	var counted []*session
	for _, s := range t.sessions {
		if s.snap.Process.MaxProcesses > 0 {
			counted = append(counted, s)
		}
	}
	if t.counting = len(counted) > 0; !t.counting {
		t.mu.Unlock()
		return false
	}
	t.mu.Unlock()
	table, err := reaper.LookAll()
	if err != nil {
		t.ops.Warn().Err(err).Msg("processes not counted")
		return true
	}
	// The deepest first: when it is gone, those above it may have few enough.
	slices.SortFunc(counted, func(a, b *session) int { return b.depth - a.depth })
	spared := map[*session]bool{}
	for _, s := range counted {
		if spared[s] {
			continue
		}
		n := 0
		for _, keeper := range t.keepersOf(s) {
			n += len(table.Below(keeper, nil))
		}
		if most := s.snap.Process.MaxProcesses; n > most {
			for up := s.parent; up != nil; up = up.parent {
				spared[up] = true
			}
			go t.overLimit(s, fmt.Sprintf("it has %d processes, at most %d may run (max_processes)", n, most))
		}
	}
	return true
}

// keepersOf are the keepers of a session and of all below it.
func (t *tree) keepersOf(s *session) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []int
	var walk func(*session)
	walk = func(s *session) {
		for _, c := range s.commands {
			out = append(out, c.keeper.pid)
		}
		for _, child := range s.children {
			walk(child)
		}
	}
	walk(s)
	return out
}

// limitCommand bounds how long a tool may run, what it leaves in the background
// with it.
func (t *tree) limitCommand(c *command) {
	d := time.Duration(c.session.snap.Process.MaxDuration)
	if d <= 0 || c.agent {
		return
	}
	timer := time.AfterFunc(d, func() {
		why := fmt.Sprintf("the command ran for %s (max_duration)", d)
		t.mu.Lock()
		c.why = why
		t.mu.Unlock()
		t.note(audit.Row{Kind: audit.LimitReached, Session: c.session.id, Agent: c.session.agent, Command: c.id, Reason: why + "; it is stopped"})
		c.end(int(sigTERM), int(stopGrace/time.Millisecond))
	})
	go func() {
		<-c.over
		timer.Stop()
	}()
}
