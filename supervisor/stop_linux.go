package supervisor

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// ending is why a session ends.
type ending struct {
	why string
	// stopped says that it was ended before its agent was done.
	stopped bool
}

// tally is what the commands of a session that are over came to.
type tally struct {
	commands, forced, survivors int
	proof                       string // the weakest of theirs
	usage                       registry.Usage
}

func (a *tally) add(e registry.Exit) {
	a.commands++
	a.survivors += e.Survivors
	a.usage = a.usage.Add(e.Usage)
	if e.Forced {
		a.forced++
	}
	if strength(e.Proof) <= strength(a.proof) {
		a.proof = e.Proof
	}
}

// strength orders proofs, from none to that of a session in which nothing ever ran.
func strength(proof string) int {
	switch proof {
	case "":
		return 4
	case registry.ProofNothing:
		return 3
	case registry.ProofWait:
		return 2
	case registry.ProofCgroup:
		return 1
	}
	return 0
}

// exit is its agent's end with the proof for all of the session.
func (a tally) exit(agent registry.Exit) registry.Exit {
	agent.Proof, agent.Survivors = cmp.Or(a.proof, registry.ProofNothing), a.survivors
	agent.Forced, agent.Usage = a.forced > 0, a.usage
	return agent
}

// stop ends a session with all below it on somebody's word: on that of caller, a
// command of a session above it, or on a human's, whose proof it is. No caller
// ends its own session or one beside it.
func (t *tree) stop(target string, caller *command, proof Proof) control.Result {
	t.mu.Lock()
	s := t.sessions[target]
	if target == "" {
		s = t.first
	}
	if caller != nil && !below(s, caller.session) {
		s = nil
	}
	t.mu.Unlock()
	row := audit.Row{Kind: audit.StopRequested, Proof: string(proof), Reason: "stopped by the human (" + string(proof) + ")"}
	if caller != nil {
		row.Reason = "stopped by its ancestor " + caller.session.title() + " (" + caller.role() + ")"
		row.Command = caller.id
	}
	if s == nil {
		if caller != nil {
			return refused("rule", "no session %q runs below this one; only the human stops others", target)
		}
		return failed("no session %q runs in this tree; tree shows them", target)
	}
	row.Session, row.Agent, row.Chain = s.id, s.agent, s.requesters()
	t.note(row)
	out := control.Result{Class: control.ClassDecided, Stopped: t.endSession(s, ending{why: row.Reason, stopped: true})}
	for _, end := range out.Stopped {
		if !end.Proven {
			out.Exit, out.Class, out.Reason = 125, control.ClassFailed, "not everything is proven to have ended"
		}
	}
	return out
}

// below says whether s is a descendant of above.
func below(s, above *session) bool {
	for ; s != nil; s = s.parent {
		if s.parent == above {
			return above != nil
		}
	}
	return false
}

// result is how a session ended, for the client that started it. One that was
// stopped never looks as if it were complete.
func (s *session) result(agent control.Result) control.Result {
	agent.Session = s.id
	if !s.end.stopped {
		return agent
	}
	return agent.Stopping(s.end.why)
}

// endSession ends a session with all its children: leaves first, and in each
// session its tools before its agent. It returns when no process of it is left, with
// what the ends came to; several callers may wait for the same end, and the first
// says why it was.
func (t *tree) endSession(s *session, end ending) []control.Stopped {
	t.mu.Lock()
	if s.ending {
		t.mu.Unlock()
		<-s.ended
		return s.stopped
	}
	s.ending, s.end = true, end
	children := slices.Clone(s.children)
	t.mu.Unlock()
	t.journalStopping(s, end.why)
	parts := make([][]control.Stopped, len(children))
	var wait sync.WaitGroup
	for i, c := range children {
		wait.Go(func() {
			parts[i] = t.endSession(c, ending{why: "its parent session ended: " + end.why, stopped: true})
		})
	}
	wait.Wait()
	t.endCommands(s, func(c *command) bool { return !c.agent })
	t.endCommands(s, func(c *command) bool { return c.agent })
	t.close(s, slices.Concat(parts...))
	return s.stopped
}

// endCommands ends those commands of a session, all at once: TERM and CONT, KILL
// after the grace. It returns as soon as nothing of them is left.
func (t *tree) endCommands(s *session, which func(*command) bool) {
	t.mu.Lock()
	var commands []*command
	for _, c := range s.commands {
		if which(c) {
			commands = append(commands, c)
		}
	}
	t.mu.Unlock()
	for _, c := range commands {
		c.end(int(sigTERM), int(stopGrace/time.Millisecond))
	}
	late := time.After(stopGrace + 3*time.Second)
	for _, c := range commands {
		select {
		case <-c.over:
			continue
		case <-late:
			// A keeper that does not do its work is ended itself: what it had then
			// arrives at this process and is killed here.
			t.pool.kill(c.keeper.pid)
			<-c.over
		}
	}
}

// close takes a session off the books; below are the ends of those under it.
func (t *tree) close(s *session, below []control.Stopped) {
	s.over.Do(func() { t.closeOnce(s, below) })
}

func (t *tree) closeOnce(s *session, below []control.Stopped) {
	if s.cancel != nil {
		s.cancel()
	}
	if s.listen != nil {
		s.listen.Close()
	}
	if s.rooms != nil {
		s.rooms.close()
	}
	t.tickets.drop(s.id)
	t.mu.Lock()
	s.ending = true
	s.unlimit()
	gone := t.grants.EndSession(s.id)
	delete(t.sessions, s.id)
	delete(t.channels, s.channel)
	if s.parent != nil {
		s.parent.children = slices.DeleteFunc(s.parent.children, func(c *session) bool { return c == s })
	}
	t.mu.Unlock()
	t.endGrants(gone, "its session ended")
	if s.served != nil {
		// Its inbox is cleared before anybody is told that it is over: it may lie in
		// a directory that is not ours.
		select {
		case <-s.served:
		case <-time.After(stopGrace):
		}
	}
	t.closeChannel(s)
	t.mu.Lock()
	e, sum := s.tally.exit(s.exit), s.tally
	if s.parent != nil {
		s.parent.tally.usage = s.parent.tally.usage.Add(e.Usage)
	}
	e.Why = s.end.why
	t.mu.Unlock()
	t.journalSessionEnd(s, e)
	t.note(audit.Row{Kind: audit.SessionEnded, Session: s.id, Agent: s.agent, Reason: e.Why, Exit: &e})
	if s.ctl != "" {
		os.RemoveAll(filepath.Dir(s.ctl))
	}
	s.stopped = append(below, control.Stopped{Session: s.id, Agent: s.agent, Commands: sum.commands, Forced: sum.forced,
		Survivors: e.Survivors, Proof: e.Proof, Proven: e.Proven()})
	close(s.ended)
}

// closeAll takes every session that was cut short off the books, leaves first:
// its channel in a foreign root is cleared, its end is written.
func (t *tree) closeAll() {
	t.mu.Lock()
	var rest []*session
	for _, s := range t.sessions {
		rest = append(rest, s)
	}
	t.mu.Unlock()
	slices.SortFunc(rest, func(a, b *session) int { return b.depth - a.depth })
	late := time.After(stopGrace)
	for _, s := range rest {
		t.mu.Lock()
		var commands []*command
		for _, c := range s.commands {
			commands = append(commands, c)
		}
		if !s.ending {
			s.ending, s.end = true, ending{why: "its tree was ended", stopped: true}
		}
		t.mu.Unlock()
		for _, c := range commands {
			select {
			case <-c.over:
			case <-late:
			}
		}
		t.close(s, nil)
	}
}
