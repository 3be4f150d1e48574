package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// outcome is what was decided about one wish, by whom, and what it gives.
type outcome struct {
	allowed bool
	// word is who decided: "rule", "human", "parent", "authorizer", "nobody", "failure".
	word string
	by   wire.DecisionSource
	// answered says that it was live authority that allowed it, now or for the turn.
	answered bool
	// reason is one sentence for whoever asked.
	reason string
	// grant is all that the invocation gets beside what is open.
	grant policy.GrantVector
	// err is set where nothing was decided: it could not be written down, or the
	// asker is gone.
	err error
}

func undecided(err error) outcome { return outcome{word: "failure", reason: err.Error(), err: err} }

// maxRejudged is how often one wish is judged anew because the rules changed while
// it was asked.
const maxRejudged = 16

// errRulesChanged ends a question whose rules do not count any more.
var errRulesChanged = errors.New("the rules changed while this was asked")

// decide takes a wish through recorded authority, grants, tickets and live
// authority, and writes each step down before it takes effect. It is the only way
// to an allow, whoever asks and by whichever channel. standing, unless nil, says
// whether the ask still is the one that was shown.
//
// One state of the rules counts from the first step to the last. Where another
// replaced it while somebody was asked, no answer is used: it is judged again.
func (t *tree) decide(ctx context.Context, w *wish, standing func() error) outcome {
	for range maxRejudged {
		w.rules = t.rules.Load()
		w.chain = w.s.under(w.rules)
		w.record.Policy = w.rules.generation
		w.turn, w.treeTurn = t.turnOf(w.s), t.turnOf(t.rootSession())
		if out, stands := t.decideUnder(ctx, w, standing); stands {
			return out
		}
	}
	return undecided(fmt.Errorf("%w, %d times", errRulesChanged, maxRejudged))
}

// decideUnder decides under the rules of w. It reports false where they were
// replaced while it was asked.
func (t *tree) decideUnder(ctx context.Context, w *wish, standing func() error) (outcome, bool) {
	v := t.judge(w)
	if w.op != control.OpAsk {
		if err := t.plan(w, policy.GrantVector{}); err != nil {
			return undecided(fmt.Errorf("sandbox: %w", err)), true
		}
		w.record.Plan = w.profile.text
	}
	w.record.Offered = t.offered(w)
	digest := w.record.Digest()
	row := t.row(w, v, digest)
	switch {
	case v.action == policy.Allow:
		out := outcome{allowed: true, word: "rule", by: ruleOf(v), reason: originText(v.decision.Rule)}
		if v.grant != nil {
			out.answered = true
			out.by, row.Cached = wire.ByGrant(v.surface, v.grant.ID), true
			// A grant for the tree was given within another session's ceiling.
			out.grant, _ = v.grant.Vector.WithinSession(w.s.snap)
		}
		return t.settled(w, out, row, audit.DecisionAllowed), true
	case v.action != policy.Ask:
		return t.settled(w, outcome{word: "rule", by: ruleOf(v), reason: denial(v)}, row, audit.DecisionDenied), true
	case !v.humanOnly && w.rides() && t.tickets.take(w.s.id, ticketBinding(w.s, w.record)):
		row.Cached = true
		return t.settled(w, outcome{allowed: true, word: "human", by: wire.ByGrant(v.surface, "ticket"), reason: "this command was just answered"}, row, audit.DecisionAllowed), true
	}
	q := t.question(w, v, digest)
	row.RequestKey = q.ID
	request := row
	request.Kind = audit.ApprovalRequested
	if err := t.log.Write(request); err != nil {
		return undecided(notWritten(err)), true
	}
	t.asked(w.s, q.ID, v.surface, q.Command)
	asking, stop := w.rules.while(ctx)
	said, err := t.live(asking, w, v, q)
	stop()
	if ctx.Err() == nil && t.rules.Load() != w.rules {
		reason := errRulesChanged.Error() + ": it is judged again"
		t.settled(w, outcome{word: "nobody", by: wire.Unavailable(reason), reason: reason}, row, audit.ApprovalResolved)
		t.answered(w.s, q.ID, "withdrawn", reason)
		return outcome{}, false
	}
	if err == nil && standing != nil {
		err = standing()
	}
	switch {
	case ctx.Err() != nil || err != nil && standing != nil && errors.Is(err, standing()):
		reason := "the asker is gone"
		if cause := context.Cause(ctx); cause != nil {
			reason = cause.Error()
		} else if err != nil {
			reason = err.Error()
		}
		out := t.settled(w, outcome{word: "nobody", by: wire.Unavailable(reason), reason: reason}, row, audit.ApprovalResolved)
		t.answered(w.s, q.ID, "withdrawn", reason)
		out.err = errors.New(reason)
		return out, true
	case err != nil:
		reason := unavailable(err)
		if v.unit != "" {
			reason = v.unit + ": " + reason
		}
		if v.decision.Reason != "" {
			reason += "; it was asked because " + v.decision.Reason
		}
		t.answered(w.s, q.ID, "unavailable", reason)
		return t.settled(w, outcome{word: "nobody", by: wire.Unavailable(err.Error()), reason: reason}, row, audit.ApprovalResolved), true
	}
	row.Proof = said.proof
	out := outcome{word: said.byWord, by: said.by, allowed: said.allowed, answered: true, reason: said.who + " allowed it"}
	if !out.allowed {
		out.reason = said.who + " denied it"
		if said.reason != "" {
			out.reason += ": " + said.reason
		}
		row.Reason = said.reason
		t.answered(w.s, q.ID, "denied", said.reason)
		return t.settled(w, out, row, audit.ApprovalResolved), true
	}
	var above []string
	if out.grant, above = said.grant.WithinSession(w.s.snap); len(above) > 0 {
		row.Reason = "not given: " + strings.Join(above, ", ")
	}
	row.Grants = grantWords(out.grant)
	out = t.settled(w, out, row, audit.ApprovalResolved)
	if out.err == nil && said.byWord == "human" {
		if err := t.keep(w, v, out, said.answer); err != nil {
			return undecided(err), true
		}
	}
	t.answered(w.s, q.ID, "allowed", "")
	return out, true
}

// settled writes a decision down. What is not recorded is not allowed.
func (t *tree) settled(w *wish, out outcome, row audit.Row, kind audit.Kind) outcome {
	row.Kind, row.DecidedBy = kind, decider(out.by)
	row.Decision = "deny"
	if out.allowed {
		row.Decision = "allow"
	} else if row.Reason == "" || kind == audit.ApprovalResolved && out.word == "nobody" {
		row.Reason = out.reason
	}
	if err := t.log.Write(row); err != nil && out.allowed {
		return undecided(notWritten(err))
	}
	return out
}

func ruleOf(v verdict) wire.DecisionSource {
	if v.action == policy.Allow && v.decision.Rule.Origin.Authority == "yolo" {
		return wire.ByYolo(v.decision.Rule.Pattern)
	}
	return wire.ByRule(v.surface, v.decision.Rule.Pattern, originText(v.decision.Rule))
}

// decider is the provenance in the audit's form.
func decider(d wire.DecisionSource) *audit.Decider {
	out := &audit.Decider{Kind: string(d.Kind), Via: d.Via, Name: d.Name, Verdict: d.Verdict, Reason: wire.Text(d.Reason),
		Surface: d.Surface, Pattern: wire.Text(d.Pattern), Origin: wire.Text(d.Origin), Responder: wire.Text(d.Responder)}
	if d.Decision != nil {
		out.Decision = decider(*d.Decision)
	}
	return out
}

func notWritten(err error) error {
	return fmt.Errorf("the decision could not be written down (%w), so it is not allowed", err)
}
