package supervisor

import (
	"context"
	"strings"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

const (
	maxArgs = 1 << 20 // bytes of argument vector and environment together
	maxWord = 512     // command words and scripts that one record binds
)

// wish is a request while it is being judged.
type wish struct {
	s        *session
	caller   *command // nil: the front
	op       string
	k        *keeperProcess
	seat     *seat
	dir      keeper.File
	env      []string // what the command would get
	path     string   // the PATH on which its words were found
	program  keeper.File
	analysis *shell.Analysis
	record   policy.Record
	queries  []policy.Query // beside the analysis
	profile  plan
	adapter  *Adapter
	agent    bool
	form     string
	warnings []string
	look     func(path string) (real string, there bool) // from the keeper; nil for a value alone
	received time.Time
	changes  []string // names of the environment that change what a command means
	// inSession: k is one of the session's rooms.
	inSession bool
	// rules are those that it is judged under, chain the authorities that they make
	// for its session and every session above.
	rules *authorities
	chain []*policy.Authority
	// turn and treeTurn are those of its session and of the root, when it was judged.
	turn, treeTurn uint64
}

// exec judges and runs a tool.
func (t *tree) exec(ctx context.Context, s *session, caller *command, conn *control.Conn, r *control.Request, started chan<- *command) control.Result {
	received := time.Now()
	seat, res, ok := t.admit(s)
	if !ok {
		return res
	}
	defer seat.leave()
	k, err := t.keeperFor(s)
	if err != nil {
		return failed("%v", err)
	}
	w := &wish{s: s, caller: caller, op: control.OpExec, k: k, inSession: k.room, seat: seat, received: received}
	kept := false
	defer func() {
		if !kept {
			k.release()
		}
	}()
	if res, ok := t.prepare(w, r); !ok {
		return res
	}
	out, res, ok := t.settle(ctx, w)
	if !ok {
		return res
	}
	kept = true
	return t.run(ctx, w, out, conn, started)
}

// settle decides a wish that is to be run, and looks again at what can change
// while somebody reads. Without ok it is not run, and res says why.
func (t *tree) settle(ctx context.Context, w *wish) (out outcome, res control.Result, ok bool) {
	out = t.decide(ctx, w, nil)
	switch {
	case out.err != nil:
		return out, failed("%s", out.reason), false
	case !out.allowed:
		return out, refused(out.word, "%s", out.reason), false
	}
	if out.word == "rule" {
		// Nobody had time to change anything; the keeper looks once more anyway.
		return out, res, true
	}
	if changed := t.reread(w); changed != "" {
		t.note(audit.Row{Kind: audit.DecisionDenied, Session: w.s.id, RequestKey: w.record.ID, Decision: "deny", Reason: changed,
			DecidedBy: decider(wire.GateError(changed)), Record: w.record.Digest()})
		return out, refused("rule", "%s; ask again", changed), false
	}
	return out, res, true
}

// commandLine is the record's command as one line, for humans and for patterns.
func commandLine(r policy.Record) string {
	if r.Text != "" {
		return strings.TrimSuffix(r.Text, "\n")
	}
	return shell.Quote(r.Argv)
}

// offered is what an answer to this wish may give.
func (t *tree) offered(w *wish) policy.GrantVector {
	if w.s == nil || !w.s.restricted() {
		return policy.GrantVector{}
	}
	c := w.s.snap.Ceiling
	ws := w.s.snap.Sandbox.Workspace
	return policy.GrantVector{
		WorkspaceWrite: ws != "" && !w.s.snap.Open.CanWrite(ws) && c.CanWrite(ws),
		Network:        w.s.snap.Open.Network != policy.NetworkEnabled && c.Network == policy.NetworkEnabled,
		SandboxOff:     c.SandboxOff,
	}
}

// row is the audit line of a decision about w.
func (t *tree) row(w *wish, v verdict, digest string) audit.Row {
	r := audit.Row{
		RequestKey: w.record.ID, Record: digest, Surface: v.surface, Value: commandLine(w.record), ToolID: w.op,
		Reason: v.decision.Reason, Cwd: w.record.Dir.Path, ActionKind: string(v.decisionKind()),
		Details: map[string]any{"role": w.record.Role},
	}
	if w.op == control.OpAsk && w.record.Text == "" {
		r.Value = w.record.Value
	}
	if v.unit != "" && v.unit != r.Value {
		r.Details["unit"] = v.unit
	}
	if w.form != "" {
		r.Details["form"] = w.form
	}
	if w.s != nil {
		r.Session, r.Agent, r.Chain = w.s.id, w.s.agent, w.s.requesters()
		r.Mode, r.Source = string(w.s.snap.Profile.Mode), string(w.s.snap.Profile.Source)
	}
	if w.caller != nil {
		r.Command = w.caller.id
	}
	return r
}
