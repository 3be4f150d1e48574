package forwarding

import (
	"context"
	"errors"
	"fmt"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
)

// Denying is the terminal where no live authority exists.
type Denying struct{ Reason string }

// Decide denies at once, as unavailable.
func (d Denying) Decide(context.Context, Facts) Decision {
	if d.Reason == "" {
		d.Reason = "no live authority was reachable"
	}
	return Unanswered(d.Reason)
}

func (Denying) human() bool { return false }

// Human is what asks a person at this tree. The error is for a person who could
// not be asked, or who went away: the ask ends as unavailable.
type Human interface {
	Ask(ctx context.Context, f Facts) (Decision, error)
}

// Local is the terminal of a person at this tree.
type Local struct{ Human Human }

// Decide asks the person.
func (l Local) Decide(ctx context.Context, f Facts) Decision {
	if l.Human == nil {
		return Unanswered("no person can be asked")
	}
	d, err := l.Human.Ask(ctx, f)
	switch {
	case ctx.Err() != nil:
		return Unanswered(context.Cause(ctx).Error())
	case err != nil:
		return Unanswered(err.Error())
	}
	return d
}

func (Local) human() bool { return true }

// Parent is the terminal that puts an ask to another session: another
// supervisor, or a foreign agent that serves.
type Parent struct {
	Carrier Carrier
	// Target is the parent's session, Self the session that we ask as.
	Target string
	Self   string
	// Agent is the name that we ask under, "unknown" if empty.
	Agent string
}

// Decide sends one request for each unit, one after the other, and allows only
// if every one was allowed: a parent judges each by rules of its own, and a text
// that held several would be matched as one. The first no ends it. What the
// parent answers is recorded as the parent's word, whoever it says decided.
func (p Parent) Decide(ctx context.Context, f Facts) Decision {
	if p.Carrier == nil {
		return Unanswered("no parent can be reached")
	}
	if f.HumanOnly {
		return Unanswered("only a person at this tree may allow this")
	}
	if len(f.Units) == 0 {
		return Failed(errors.New("an ask without a unit was put to the parent"))
	}
	all := Decision{Approved: true, Lasting: true}
	for i, u := range f.Units {
		r, err := p.request(f, u, i)
		if err != nil {
			return Failed(err)
		}
		// The response says in words what the error would.
		answer, _ := p.Carrier.Ask(ctx, p.Target, r)
		d := p.decision(answer)
		if !d.Approved {
			return d
		}
		all.Lasting = all.Lasting && d.Lasting
		all.DecidedBy = d.DecidedBy
	}
	return all
}

// decision reads the parent's answer.
func (p Parent) decision(r wire.Response) Decision {
	if r.Unavailable {
		return Unanswered(r.DenialReason)
	}
	responder := r.ResponderSessionID
	if responder == "" {
		responder = p.Target
	}
	return Decision{
		Approved:  r.Approved,
		Reason:    r.DenialReason,
		DecidedBy: wire.Forwarded(responder, r.DecidedBy),
		Lasting:   r.Approved && r.State == wire.ApprovedForSession,
	}
}

// request builds what one unit is asked with. The id is a fresh one on each hop
// but for a single unit, whose id this end already minted for the ask.
func (p Parent) request(f Facts, u Unit, index int) (wire.Request, error) {
	if u.Surface == "" || u.Value == "" {
		return wire.Request{}, fmt.Errorf("unit %d has surface %q and value %q: a parent applies its rules only if both are given", index+1, u.Surface, u.Value)
	}
	agent := f.Agent
	if agent == "" {
		agent = p.Agent
	}
	if agent == "" {
		agent = "unknown"
	}
	payload := u.Payload
	if payload.Kind == "" {
		payload = prompt.Tool(prompt.Facts{}, u.Surface, "")
		payload.Kind, payload.Core.ToolName, payload.Core.Value = wire.KindAskForwarded, nil, u.Value
	}
	payload.Core.Requester = wire.Requester{AgentName: wire.Null(agent)}
	// Where it came from is said by us and shown as said by us.
	if f.Session != "" {
		payload.Evidence = append(append([]wire.Evidence(nil), payload.Evidence...), wire.Evidence{Label: "asked by session", Text: f.Session, Detail: pathDetail(f.Path)})
	}
	r := wire.Request{
		RequesterSessionID: p.Self, TargetSessionID: p.Target, RequesterAgentName: agent,
		Message: prompt.Sentence(payload), Source: f.Source, Surface: &u.Surface, Value: &u.Value, Payload: &payload,
	}
	if len(f.Units) == 1 {
		r.ID = f.ID
	}
	if len(u.Suggested) > 0 {
		r.SessionApproval = &wire.SessionApproval{Grants: u.Suggested}
	}
	if len(u.MatchValues) > 0 {
		r.AccessIntent = &wire.AccessIntent{Surface: u.Surface, MatchValues: u.MatchValues, BoundaryValue: u.Boundary,
			Principal: wire.Principal{SessionID: p.Self, AgentName: agent}}
	}
	return r, nil
}

func pathDetail(path []string) *string {
	if len(path) == 0 {
		return nil
	}
	text := "under " + path[0]
	for _, s := range path[1:] {
		text += " < " + s
	}
	return &text
}

func (Parent) human() bool { return false }

// Role says which terminal a session's asks end at.
type Role string

const (
	// RoleDenying: nobody can answer.
	RoleDenying Role = "denying"
	// RoleLocal: a person here.
	RoleLocal Role = "local"
	// RoleParent: another session, which runs its own chain.
	RoleParent Role = "parent"
)

// SelectTerminal says where asks end, from whether a person can answer here and
// whether another session is the parent, and in which state that is. A person is
// asked here unless the parent is known to serve; without a person an unknown
// parent is worth waiting for.
func SelectTerminal(person, parent bool, state liveness.State) Role {
	switch {
	case parent && (state.Served() || !person):
		return RoleParent
	case person:
		return RoleLocal
	}
	return RoleDenying
}
