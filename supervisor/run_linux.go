package supervisor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// run carries the record out: intent first, then the keeper, then the answer.
func (t *tree) run(ctx context.Context, w *wish, out outcome, conn *control.Conn, started chan<- *command) control.Result {
	if err := t.plan(w, out.grant); err != nil {
		w.k.release()
		return failed("sandbox: %v", err)
	}
	if err := t.fit(w); err != nil {
		w.k.release()
		return failed("sandbox: %v", err)
	}
	c := &command{
		id: registry.NewID("c"), session: w.s, agent: w.agent, keeper: w.k, record: w.record, received: w.received,
		result: make(chan control.Result, 1), over: make(chan struct{}),
	}
	t.mu.Lock()
	if w.s.ending || t.closing {
		t.mu.Unlock()
		w.k.release()
		return failed("the session is ending")
	}
	if w.inSession {
		c.lease = t.outbound.admit(c)
		w.env = withEnv(w.env, proxyEnvironment(c.lease.Token())...)
	}
	w.s.commands[c.id] = c
	t.byKeeper[w.k.pid] = c
	w.seat.taken() // the command itself counts from here on
	t.mu.Unlock()
	told := false // that it starts
	gone := func(res control.Result) control.Result {
		w.k.release()
		t.forget(c)
		if told {
			ended := registry.Exit{Proof: registry.ProofNothing, Why: res.Reason}
			t.note(audit.Row{Kind: audit.CommandEnded, Session: w.s.id, Agent: w.s.agent, Command: c.id, Exit: &ended})
			t.journalCommandEnd(c, ended)
		}
		return res
	}
	row := t.row(w, verdict{surface: "bash"}, w.record.Digest())
	row.Kind, row.Command, row.Reason, row.Grants = audit.CommandStarted, c.id, "", grantWords(out.grant)
	row.Strength, row.Missing = w.profile.report.Strength, w.profile.report.Degradations
	row.Details["plan"] = w.profile.digest
	if err := t.log.Write(row); err != nil {
		return gone(failed("%v", notWritten(err)))
	}
	told = true
	if err := t.journalCommand(c); err != nil {
		return gone(failed("%v", notWritten(err)))
	}
	// The client is asked last: one that is gone wants nothing.
	if ctx.Err() != nil {
		return gone(failed("cancelled: the client is gone"))
	}
	ours, theirs, err := control.Pair()
	if err != nil {
		return gone(failed("%v", err))
	}
	order := keeper.Order{Run: &keeper.Run{
		Command: c.id, File: w.program, Argv: w.record.Argv, Env: withEnv(w.env, "PWD="+w.dir.Real), Umask: w.record.Umask,
		Dir: w.dir, Terminal: slices.Contains(w.record.Streams[:], string(sandbox.KindTerminal)),
		Profile: w.profile.profile, Unconfined: w.profile.off, Streams: w.record.Streams, Path: getter(w.env)("PATH"),
	}}
	for _, word := range w.record.Words {
		order.Run.Pinned = append(order.Run.Pinned, keeper.Pin{Word: word.Word, Dev: word.File.Dev, Ino: word.File.Ino, SHA256: word.File.SHA256})
	}
	files := []*os.File{ours}
	if !w.profile.profile.UnixSockets {
		mine, its, err := control.PacketPair()
		if err != nil {
			ours.Close()
			theirs.Close()
			return gone(failed("%v", err))
		}
		order.Run.Channel = true
		files = append(files, its)
		go t.serveChannel(c, mine)
	}
	err = w.k.conn.Send(order, files...)
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		theirs.Close()
		return gone(failed("%v", errKeeperGone))
	}
	err = conn.Send(control.Message{Start: &control.Start{Command: c.id, Session: w.s.id, Terminal: order.Run.Terminal}}, theirs)
	theirs.Close()
	if err != nil {
		return gone(failed("cancelled: the client is gone"))
	}
	select {
	case started <- c:
	default:
	}
	if ctx.Err() != nil {
		// The client went just before it could be told what it had started.
		c.end(int(sigTERM), int(stopGrace/time.Millisecond))
	}
	if w.agent {
		t.mu.Lock()
		w.s.leader = c
		t.mu.Unlock()
	}
	t.limitCommand(c)
	go t.watch(c)
	return <-c.result
}

// watch follows a command until no process of it is left.
func (t *tree) watch(c *command) {
	answered := false
	answer := func(r control.Result) {
		if !answered {
			answered = true
			r.Session, r.Command = c.session.id, c.id
			t.mu.Lock()
			why := c.why
			t.mu.Unlock()
			if why != "" {
				r = r.Stopping(why)
			}
			c.result <- r
		}
	}
	proof := ""
	var end control.Result
	var ended registry.Exit
	for r := range c.keeper.reports {
		switch {
		case r.Started != nil:
			c.startup = time.Since(c.received)
		case r.Failed != nil:
			exit := 125
			switch r.Failed.Class {
			case control.ClassNotFound:
				exit = 127
			case control.ClassRefused:
				exit = 126
			}
			end = control.Result{Exit: exit, Class: r.Failed.Class, Reason: r.Failed.Reason}
			answer(end)
			proof = registry.ProofNothing
		case r.Leader != nil:
			end = control.Result{Exit: r.Leader.Code, Class: control.ClassExited, Leftovers: r.Leader.Left}
			if r.Leader.Signal != 0 {
				end.Class = control.ClassSignaled
				end.Reason = fmt.Sprintf("ended by signal %d", r.Leader.Signal)
			}
			ended.Known, ended.Code, ended.Signal = true, r.Leader.Code, r.Leader.Signal
			if r.Leader.Left > 0 {
				t.journalLeft(c, r.Leader.Code, r.Leader.Signal, r.Leader.Left)
			}
			if c.agent {
				// An agent's end is its session's: nobody is told before it is over.
				go t.endSession(c.session, ending{why: "its agent ended"})
				continue
			}
			answer(end)
		case r.Ended != nil:
			proof = r.Ended.Proof
			ended.Forced, ended.Usage = r.Ended.Killed > 0, r.Ended.Usage
		}
	}
	if proof == "" {
		// The keeper itself was killed. What it had arrives at this process once it is
		// reaped, and is ended here; what is then seen is what is said.
		proof, ended.Survivors = t.pool.clearAfter(c.keeper)
		if end.Class == "" {
			end = control.Result{Exit: 137, Class: control.ClassFailed, Reason: "the process that kept this command was killed, and the command with it"}
		}
	}
	ended.Proof, ended.Why = proof, end.Reason
	t.mu.Lock()
	c.session.tally.add(ended)
	if c.agent {
		c.session.exit = ended
	}
	t.mu.Unlock()
	row := audit.Row{Kind: audit.CommandEnded, Session: c.session.id, Agent: c.session.agent, Command: c.id, Exit: &ended}
	if c.startup > 0 {
		row.Details = map[string]any{"startupMicros": c.startup.Microseconds()}
	}
	t.note(row)
	t.journalCommandEnd(c, ended)
	// Only now: whoever waits for its end finds it written down.
	t.forget(c)
	answer(end)
}

// forget takes a command off the tables: it is over.
func (t *tree) forget(c *command) {
	t.mu.Lock()
	if t.byKeeper[c.keeper.pid] == c {
		delete(t.byKeeper, c.keeper.pid)
	}
	delete(c.session.commands, c.id)
	ended := c.ended
	c.ended = true
	t.mu.Unlock()
	t.outbound.end(c)
	if !ended {
		close(c.over)
	}
}
