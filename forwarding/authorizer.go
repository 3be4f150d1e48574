package forwarding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// Facts are what a live authority may know of an ask. They are the child's
// facts as this tree's own end fixed them; a requester's directory and identity
// as it claims them itself are not among them.
type Facts struct {
	// ID names the ask across its whole way where the carrier allows that.
	ID string
	// Session is the one that asks, Path its ancestors from the parent to the
	// root, for whoever shows or relays where the ask came from.
	Session string
	Path    []string
	// Agent is the asking agent's name, empty where it has none.
	Agent  string
	Source wire.Source
	// Units are the judged parts that need an answer. All must be allowed.
	Units []Unit
	// HumanOnly says that only a person at this tree may answer: no link is
	// asked, and no other terminal may allow it.
	HumanOnly bool
}

// Unit is one judged part of an ask.
type Unit struct {
	// Surface is the gate, Value the part that was judged: both are needed by
	// a parent that applies rules of its own.
	Surface string
	Value   string
	// MatchValues and Boundary are what rules are matched with.
	MatchValues []string
	Boundary    *string
	Payload     prompt.Payload
	// Suggested is what a wider answer may cover, as this end computed it.
	Suggested []wire.Grant
}

// Outcome is what a link says.
type Outcome uint8

const (
	// Deny is the zero value.
	Deny Outcome = iota
	// Defer passes the ask on.
	Defer
	// Allow allows it once.
	Allow
)

var outcomeNames = [...]string{Deny: "deny", Defer: "defer", Allow: "allow"}

// String returns the word that a link answers with.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// ParseOutcome reads that word. Case counts.
func ParseOutcome(s string) (Outcome, error) {
	for o, name := range outcomeNames {
		if s == name {
			return Outcome(o), nil
		}
	}
	return Deny, fmt.Errorf("unknown verdict %q, expected allow, deny or defer", s)
}

// Verdict is what a link says and why.
type Verdict struct {
	Outcome Outcome
	Reason  string
}

// Authorizer is one link of the chain. An error is no verdict: it ends the ask
// as a denial because judging failed. It must be safe for concurrent use.
type Authorizer interface {
	Authorize(ctx context.Context, f Facts) (Verdict, error)
}

// Decision is what the end of a chain says. It has no way to defer.
type Decision struct {
	Approved bool
	Reason   string
	// DecidedBy is the one who broke the loop, and no one else.
	DecidedBy wire.DecisionSource
	// Unavailable says that nobody could answer: never reported as a person's no.
	Unavailable bool
	// Lasting says that the answer was given for longer than this once. What it
	// covers is what the unit suggested; whether it is kept is this tree's affair.
	Lasting bool
}

// Unanswered is the decision where nobody could be asked.
func Unanswered(reason string) Decision {
	return Decision{Reason: reason, DecidedBy: wire.Unavailable(reason), Unavailable: true}
}

// Failed is the decision where judging itself failed.
func Failed(err error) Decision {
	reason := err.Error()
	return Decision{Reason: reason, DecidedBy: wire.GateError(reason)}
}

// Terminal is the live authority at the end of a chain. It must answer.
type Terminal interface {
	Decide(ctx context.Context, f Facts) Decision
	// human reports whether a person at this tree answers. Only this package
	// makes terminals, so that none can claim it.
	human() bool
}

// Cap bounds what a link's word counts for.
type Cap uint8

const (
	// CapDefer lets a link say nothing. It is the zero value: a link counts only
	// where the operator's configuration says how far.
	CapDefer Cap = iota
	// CapDeny lets a link deny; its allow passes on.
	CapDeny
	// CapAllow lets a link allow and deny.
	CapAllow
)

// DefaultLinkTimeout is how long a link may take.
const DefaultLinkTimeout = 30 * time.Second

// Link is one configured authorizer.
type Link struct {
	Name       string
	Authorizer Authorizer
	Cap        Cap
	// Timeout is how long it may take before the ask passes on, DefaultLinkTimeout
	// if not positive.
	Timeout time.Duration
}

// Step is what one link said, for the record.
type Step struct {
	Link    string
	Verdict Verdict
	// Capped says that the link may not say that much, and the ask passed on.
	Capped bool
	// Err is why the link said nothing: ErrLinkTimeout, ErrVacantLink, or its own.
	Err error
}

// Why a link said nothing.
var (
	// ErrLinkTimeout: the link took too long; the ask passed on.
	ErrLinkTimeout = errors.New("the link did not answer in time")
	// ErrVacantLink: the configuration names a link that nobody registered; the
	// ask passed on.
	ErrVacantLink = errors.New("the link is not registered")
)

// Chain is the links in the order of the configuration and the terminal that
// decides what they leave open. With no link the terminal decides; with no
// terminal what is left open is denied.
type Chain struct {
	Links    []Link
	Terminal Terminal
	// Report, if set, is told each link's step as it is made.
	Report func(Step)
}

// Decide asks the links in order until one of them decides, then the terminal.
// An ask for a person only skips the links, and every terminal but a person's
// denies it.
func (c Chain) Decide(ctx context.Context, f Facts) Decision {
	if len(f.Units) == 0 {
		return Failed(errors.New("an ask without a unit was put to the chain"))
	}
	if f.HumanOnly {
		if c.Terminal == nil || !c.Terminal.human() {
			return Unanswered("only a person at this tree may allow this, and none can be asked")
		}
		return c.Terminal.Decide(ctx, f)
	}
	for _, link := range c.Links {
		step, decision := link.ask(ctx, f)
		if c.Report != nil {
			c.Report(step)
		}
		if decision != nil {
			return *decision
		}
		if ctx.Err() != nil {
			return Unanswered("the ask ended while authorizer '" + link.Name + "' was asked")
		}
	}
	if c.Terminal == nil {
		return Unanswered("no live authority was reachable")
	}
	return c.Terminal.Decide(ctx, f)
}

// ask asks one link. A nil decision passes the ask on.
func (l Link) ask(ctx context.Context, f Facts) (Step, *Decision) {
	step := Step{Link: l.Name, Verdict: Verdict{Outcome: Defer}}
	if l.Authorizer == nil {
		step.Err = ErrVacantLink
		return step, nil
	}
	timeout := l.Timeout
	if timeout <= 0 {
		timeout = DefaultLinkTimeout
	}
	type said struct {
		verdict Verdict
		err     error
	}
	linkCtx, cancel := context.WithTimeoutCause(ctx, timeout, ErrLinkTimeout)
	defer cancel()
	// A link that ignores its context must not hold the ask: it is left behind,
	// and its late word goes into a channel that nobody reads.
	answer := make(chan said, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				answer <- said{err: fmt.Errorf("panic: %v", p)}
			}
		}()
		v, err := l.Authorizer.Authorize(linkCtx, f)
		answer <- said{v, err}
	}()
	var got said
	select {
	case got = <-answer:
	case <-linkCtx.Done():
		got = said{err: linkCtx.Err()}
	}
	if got.err != nil {
		step.Err = got.err
		if linkCtx.Err() != nil { // too late, or nobody asks any more
			step.Err = context.Cause(linkCtx)
			return step, nil
		}
		d := Failed(fmt.Errorf("authorizer '%s': %w", l.Name, got.err))
		return step, &d
	}
	step.Verdict = got.verdict
	switch got.verdict.Outcome {
	case Defer:
		return step, nil
	case Allow:
		if l.Cap < CapAllow {
			step.Capped = true
			return step, nil
		}
	case Deny:
		if l.Cap < CapDeny {
			step.Capped = true
			return step, nil
		}
	default:
		d := Failed(fmt.Errorf("authorizer '%s' gave %s, expected allow, deny or defer", l.Name, got.verdict.Outcome))
		return step, &d
	}
	allowed := got.verdict.Outcome == Allow
	return step, &Decision{Approved: allowed, Reason: got.verdict.Reason, DecidedBy: wire.ByAuthorizer(l.Name, allowed, got.verdict.Reason)}
}
