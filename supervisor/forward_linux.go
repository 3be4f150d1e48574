package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/spool"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/lineage"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// inventory says whether a variable is one by which children find a parent: no
// process of a tree inherits such a name from outside.
func inventory(name string) bool {
	return slices.ContainsFunc(lineage.Inventory(), func(v lineage.Variable) bool { return v.Name == name })
}

// openChannel gives a session its inbox. What it sees as its parent's id is the
// channel's: unguessable, and a directory of its own, so that the directory and
// no field in a file says who asks.
func (t *tree) openChannel(w *wish, s *session) error {
	s.channel = registry.NewID("ch")
	s.root = filepath.Join(t.store.RunDir(), "fwd", s.id)
	if w.adapter != nil && w.adapter.ForwardingRoot != nil {
		if root := w.adapter.ForwardingRoot(getter(s.base)); root != "" {
			s.root = root
		}
	}
	return os.MkdirAll(s.root, 0o700)
}

// channelDirs are what an agent that is confined by files needs for its channel.
func (s *session) channelDirs() []string { return []string{s.root} }

func (t *tree) spoolAt(root string) (*spool.Spool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sp := t.spools[root]; sp != nil {
		return sp, nil
	}
	// In a root of our own every peer is ours and writes heartbeats.
	own := strings.HasPrefix(root, t.store.RunDir()+"/")
	sp, err := spool.Open(root, spool.Options{PID: os.Getpid(), AllPeersBeat: own})
	if err == nil {
		t.spools[root] = sp
	}
	return sp, err
}

// serveForeign serves the session's channel until the session ends. It returns
// when the inbox is ready, so that no child starts before it is served.
func (t *tree) serveForeign(s *session) error {
	sp, err := t.spoolAt(s.root)
	if err != nil {
		return err
	}
	h := &foreign{t: t, s: s, ready: make(chan struct{})}
	failed := make(chan error, 1)
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		if err := sp.Serve(s.ctx, s.channel, h); err != nil {
			failed <- err
			t.note(audit.Row{Kind: audit.ChannelNotice, Session: s.id, Reason: "channel: " + err.Error()})
		}
	}()
	select {
	case <-h.ready:
		return nil
	case err := <-failed:
		return err
	}
}

// closeChannel gives up a spool that no other session uses.
func (t *tree) closeChannel(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.sessions {
		if other.root == s.root {
			return
		}
	}
	if sp := t.spools[s.root]; sp != nil {
		delete(t.spools, s.root)
		sp.Close()
	}
}

// foreign answers the asks of one session's channel: those of an agent's own
// permission gate, and of `ask`.
type foreign struct {
	t     *tree
	s     *session
	ready chan struct{}
	done  bool
}

// Notice implements forwarding.Handler. An answer that we did not write means
// that somebody on this channel answers asks itself: the session is stopped.
func (f *foreign) Notice(n forwarding.Notice) {
	switch n.Kind {
	case forwarding.Serving:
		if !f.done {
			f.done = true
			close(f.ready)
		}
		return
	case forwarding.Delivered:
		return
	case forwarding.Forged:
		f.t.note(audit.Row{Kind: audit.AnswerForged, Session: f.s.id, RequestKey: n.ID, Reason: prompt.Visible(n.Reason) + "; the session is stopped"})
		go f.t.endSession(f.s, ending{why: "an answer that nobody gave lay in its channel", stopped: true})
		return
	}
	f.t.noteNoise(&f.s.noise, audit.Row{Kind: audit.ChannelNotice, Session: f.s.id, RequestKey: n.ID, Reason: string(n.Kind) + ": " + prompt.Visible(n.Reason)})
}

// Handle implements forwarding.Handler.
func (f *foreign) Handle(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error) {
	t, s := f.t, f.s
	defer t.busy(s)()
	r := a.Request
	surface, value, tool := gate(r)
	text, whole := fullCommand(r)
	if surface == "bash" && whole {
		// The human sees at once all that the execution will be asked about.
		value = text
	}
	w := t.valueWish(s, a.ID, "agent", surface, value, tool)
	if surface == "bash" && !whole {
		w.warnings = append(w.warnings, "the agent told only this part of its command; what it runs through this tree is asked again")
	}
	if m := prompt.Mismatch(r); m != "" {
		w.warnings = append(w.warnings, m)
	}
	out := t.decide(ctx, w, a.Standing)
	answer := forwarding.Answer{Responder: s.channel, Approved: out.allowed, DecidedBy: out.by}
	if out.err != nil {
		return answer, out.err
	}
	if !out.allowed {
		answer.Reason = out.reason
	} else if surface == "bash" && whole && out.answered {
		t.tickets.add(s.id, ticketBinding(s, w.record))
	}
	return answer, nil
}

// gate is what of a request rules are asked about. The public extension sends
// for file tools the tool's name as value, and names the true gate only in what
// it suggests.
func gate(r wire.Request) (surface, value, tool string) {
	surface, value = wire.Text(r.Surface), wire.Text(r.Value)
	tool = surface
	if r.Payload != nil {
		if r.Payload.Core.Surface != "" {
			surface = r.Payload.Core.Surface
		}
		if r.Payload.Core.Value != "" {
			value = r.Payload.Core.Value
		}
		tool = wire.Text(r.Payload.Core.ToolName)
	}
	if r.AccessIntent != nil && r.AccessIntent.Surface != "" {
		surface = r.AccessIntent.Surface
	} else if r.SessionApproval != nil && len(r.SessionApproval.Grants) > 0 {
		surface = r.SessionApproval.Grants[0].Surface
	}
	if surface == "" {
		surface = "unknown"
	}
	return surface, value, tool
}

const (
	oldMarker = "(full command: '"
	oldTail   = "'). Allow this command?"
)

// fullCommand is the whole text of a shell ask, where it is told without doubt: in
// the payload's evidence, or, on the oldest wire, in prose that names it exactly
// once. The prose is never parsed to find out what to run: what runs is judged
// again, from its own text.
func fullCommand(r wire.Request) (string, bool) {
	if r.Payload != nil {
		for _, e := range r.Payload.Evidence {
			if e.Label == "full command" {
				return e.Text, true
			}
		}
		return r.Payload.Core.Value, r.Payload.Core.Value != ""
	}
	m := r.Message
	if strings.Count(m, oldMarker) == 1 && strings.HasSuffix(m, oldTail) {
		return m[strings.Index(m, oldMarker)+len(oldMarker) : len(m)-len(oldTail)], true
	}
	if v := wire.Text(r.Value); v != "" && !strings.Contains(m, "full command") && strings.Contains(m, "bash command '"+v+"'") {
		return v, true
	}
	return wire.Text(r.Value), false
}

// ticketBinding is what an answer over the file protocol was given for, and what
// an execution must be to ride on it.
func ticketBinding(s *session, r policy.Record) string {
	text := r.Text
	if text == "" {
		text = shell.Quote(r.Argv)
	}
	return policy.ScopeHash(policy.KindShellCommand, "ticket", []string{
		text, place(r.Dir), strings.Join(r.Environment, "\x00"), fmt.Sprint(r.Policy, " ", r.Snapshot), s.id,
	})
}

// rides says whether an execution can be what was answered before: by its agent's
// own client, and with nothing beyond what the answer was given for. A gate tells
// text alone; options, positional parameters, another shell, a form that reads
// what nobody has seen, and a bare word that leads to a file of the session's are
// asked.
func (w *wish) rides() bool {
	if w.op != control.OpExec || w.caller == nil || !w.caller.agent || w.form != "" {
		return false
	}
	if w.record.Text != "" && !slices.Equal(w.record.Argv, append(append([]string{"bash"}, bashOptions...), w.record.Text, "bash")) {
		return false
	}
	return !slices.ContainsFunc(w.record.Words, func(word policy.Word) bool {
		return word.Changeable && !strings.Contains(word.Word, "/")
	})
}

// forwarder puts asks to a foreign parent, as a well-behaved child of it: one for
// each unit, since the parent judges each by rules of its own. It can allow once what
// this tree left as an ask, and nothing more.
type forwarder struct {
	parent forwarding.Parent
	spool  *spool.Spool
}

func newForwarder(p *control.Parent) (*forwarder, error) {
	sp, err := spool.Open(p.Root, spool.Options{PID: os.Getpid()})
	if err != nil {
		return nil, err
	}
	return &forwarder{spool: sp, parent: forwarding.Parent{Carrier: sp, Target: p.Session, Self: p.Own}}, nil
}

// preselected is the grant vector as the question offered it: a parent can say
// yes or no, and change no line. It never turns the sandbox off.
func preselected(w *wish, q control.Question) policy.GrantVector {
	g := policy.GrantVector{Paths: w.paths()}
	for _, o := range q.Offers {
		switch {
		case !o.On || o.Strong:
		case o.Key == keyWorkspace:
			g.WorkspaceWrite = true
		case o.Key == keyNetwork:
			g.Network = true
		}
	}
	return g
}
