package wire

import (
	"fmt"
	"strings"
)

// DecisionKind names who decided.
type DecisionKind string

// The kinds of the public protocol.
const (
	KindUser               DecisionKind = "user"
	KindAuthorizer         DecisionKind = "authorizer"
	KindRule               DecisionKind = "rule"
	KindSessionApproval    DecisionKind = "session_approval"
	KindYolo               DecisionKind = "yolo"
	KindInfrastructureRead DecisionKind = "infrastructure_read"
	KindUnavailable        DecisionKind = "unavailable"
	KindGateError          DecisionKind = "gate_error"
	KindForwarded          DecisionKind = "forwarded"
)

// DecisionSource says who made a decision. The zero value says nothing and is
// written as if the field were absent. Which fields count depends on Kind; the
// constructors set exactly those.
type DecisionSource struct {
	Kind DecisionKind
	// Via is "dialog" or "select" (user).
	Via string
	// Name is the link, Verdict "allow" or "deny" (authorizer).
	Name, Verdict string
	// Reason is null-able for an authorizer and required for unavailable and
	// gate_error.
	Reason *string
	// Surface is the gate (rule, session_approval).
	Surface string
	// Pattern is what matched (rule, session_approval, yolo).
	Pattern *string
	// Origin is the scope that a rule came from (rule).
	Origin *string
	// Responder is the session that answered, Decision what it said decided;
	// nil means that it did not say (forwarded).
	Responder *string
	Decision  *DecisionSource
}

// Null returns nil for "", else a pointer to s: the protocol writes null where
// there is nothing to say.
func Null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Text returns what p points to, "" for null.
func Text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// ByUser is a human's answer; via is "dialog" or "select".
func ByUser(via string) DecisionSource { return DecisionSource{Kind: KindUser, Via: via} }

// ByAuthorizer is a chain link's answer.
func ByAuthorizer(name string, allowed bool, reason string) DecisionSource {
	verdict := "deny"
	if allowed {
		verdict = "allow"
	}
	return DecisionSource{Kind: KindAuthorizer, Name: name, Verdict: verdict, Reason: Null(reason)}
}

// ByRule is recorded authority.
func ByRule(surface, pattern, origin string) DecisionSource {
	return DecisionSource{Kind: KindRule, Surface: surface, Pattern: Null(pattern), Origin: Null(origin)}
}

// ByGrant is an earlier answer that covers this ask.
func ByGrant(surface, pattern string) DecisionSource {
	return DecisionSource{Kind: KindSessionApproval, Surface: surface, Pattern: Null(pattern)}
}

// ByYolo is an ask that the operator's yolo mode let through.
func ByYolo(pattern string) DecisionSource {
	return DecisionSource{Kind: KindYolo, Pattern: Null(pattern)}
}

// ByInfrastructureRead is a read of the host's own files.
func ByInfrastructureRead() DecisionSource { return DecisionSource{Kind: KindInfrastructureRead} }

// Unavailable is a denial because nobody could be asked. It is never reported
// as a human's.
func Unavailable(reason string) DecisionSource {
	return DecisionSource{Kind: KindUnavailable, Reason: &reason}
}

// GateError is a denial because judging failed.
func GateError(reason string) DecisionSource {
	return DecisionSource{Kind: KindGateError, Reason: &reason}
}

// Forwarded is an answer that another session gave. An inner decision that
// would make the chain too deep to be read is left out, which says "not told":
// never shortened, which would name the wrong decider.
func Forwarded(responder string, inner DecisionSource) DecisionSource {
	d := DecisionSource{Kind: KindForwarded, Responder: Null(responder)}
	if inner.Kind != "" && inner.depth() < MaxDecisionDepth {
		d.Decision = &inner
	}
	return d
}

// depth counts the forwarded frames.
func (d DecisionSource) depth() int {
	n := 0
	for d.Kind == KindForwarded {
		n++
		if d.Decision == nil || n > MaxDecisionDepth {
			break
		}
		d = *d.Decision
	}
	return n
}

// EffectiveDecider unwraps the forwarded frames to who really decided. It
// reports false where that was not told: the result is then the last hop.
func (d DecisionSource) EffectiveDecider() (DecisionSource, bool) {
	for range MaxDecisionDepth {
		if d.Kind != KindForwarded {
			break
		}
		if d.Decision == nil {
			return d, false
		}
		d = *d.Decision
	}
	return d, d.Kind != KindForwarded && d.Kind != ""
}

// Resolution is the word that the review log uses for this decision.
func (d DecisionSource) Resolution(approved bool, state State) string {
	pick := func(yes, no string) string {
		if approved {
			return yes
		}
		return no
	}
	who, _ := d.EffectiveDecider()
	switch who.Kind {
	case KindRule:
		return pick("policy_allow", "policy_deny")
	case KindSessionApproval:
		return "session_approved"
	case KindInfrastructureRead:
		return "infrastructure_auto_allowed"
	case KindYolo:
		return "auto_approved"
	case KindAuthorizer:
		return pick("authorizer_allowed", "authorizer_denied")
	case KindUnavailable:
		return "confirmation_unavailable"
	case KindGateError:
		return "gate_error"
	}
	if approved && (state == ApprovedForSession || state == ApprovedForServingSession) {
		return "user_approved_for_session"
	}
	return pick("user_approved", "user_denied")
}

// String is one line for people, such as "root-1 says: rule bash git *".
func (d DecisionSource) String() string {
	words := []string{string(d.Kind)}
	add := func(s ...string) {
		for _, w := range s {
			if w != "" {
				words = append(words, w)
			}
		}
	}
	switch d.Kind {
	case "":
		return "not told"
	case KindForwarded:
		who := Text(d.Responder)
		if who == "" {
			who = "another session"
		}
		if d.Decision == nil {
			return who + " says: not told"
		}
		return who + " says: " + d.Decision.String()
	case KindUser:
		add(d.Via)
	case KindAuthorizer:
		add(d.Name, d.Verdict, Text(d.Reason))
	default:
		add(d.Surface, Text(d.Pattern), Text(d.Origin), Text(d.Reason))
	}
	return strings.Join(words, " ")
}

// Equal reports whether two sources say the same.
func (d DecisionSource) Equal(o DecisionSource) bool {
	same := func(a, b *string) bool { return (a == nil) == (b == nil) && Text(a) == Text(b) }
	if d.Kind != o.Kind || d.Via != o.Via || d.Name != o.Name || d.Verdict != o.Verdict || d.Surface != o.Surface ||
		!same(d.Reason, o.Reason) || !same(d.Pattern, o.Pattern) || !same(d.Origin, o.Origin) || !same(d.Responder, o.Responder) ||
		(d.Decision == nil) != (o.Decision == nil) {
		return false
	}
	return d.Decision == nil || d.Decision.Equal(*o.Decision)
}

var decisionNames = []string{"kind", "via", "name", "verdict", "reason", "surface", "pattern", "origin", "responderSessionId", "decision"}

// readDecision reads a source; false means that it is unusable, an error that
// the document is a trap.
func readDecision(what, at string, v value, depth int) (DecisionSource, bool, error) {
	if v.kind != kindObject {
		return DecisionSource{}, false, nil
	}
	if err := v.variants(what, at, decisionNames...); err != nil {
		return DecisionSource{}, false, err
	}
	kind, _ := v.get("kind")
	d := DecisionSource{Kind: DecisionKind(kind.text)}
	ok := kind.kind == kindString
	text := func(name string) string {
		m, has := v.get(name)
		s, is := m.str()
		ok = ok && has && is
		return s
	}
	nullable := func(name string) *string {
		m, has := v.get(name)
		s, is := m.nullable()
		ok = ok && has && is
		return s
	}
	oneOf := func(s string, allowed ...string) string {
		for _, a := range allowed {
			if s == a {
				return s
			}
		}
		ok = false
		return s
	}
	switch d.Kind {
	case KindUser:
		d.Via = oneOf(text("via"), "dialog", "select")
	case KindAuthorizer:
		d.Name, d.Verdict, d.Reason = text("name"), oneOf(text("verdict"), "allow", "deny"), nullable("reason")
	case KindRule:
		d.Surface, d.Pattern, d.Origin = text("surface"), nullable("pattern"), nullable("origin")
	case KindSessionApproval:
		d.Surface, d.Pattern = text("surface"), nullable("pattern")
	case KindYolo:
		d.Pattern = nullable("pattern")
	case KindInfrastructureRead:
	case KindUnavailable, KindGateError:
		r := text("reason")
		d.Reason = &r
	case KindForwarded:
		if depth >= MaxDecisionDepth {
			return DecisionSource{}, false, nil
		}
		d.Responder = nullable("responderSessionId")
		inner, has := v.get("decision")
		if !has {
			return DecisionSource{}, false, nil
		}
		if inner.kind != kindNull {
			in, usable, err := readDecision(what, join(at, "decision"), inner, depth+1)
			if err != nil {
				return DecisionSource{}, false, err
			}
			ok = ok && usable
			d.Decision = &in
		}
	default:
		ok = false
	}
	if !ok {
		return DecisionSource{}, false, nil
	}
	return d, true, nil
}

func (w *writer) decision(d DecisionSource) {
	w.str("kind", string(d.Kind))
	switch d.Kind {
	case KindUser:
		w.str("via", d.Via)
	case KindAuthorizer:
		w.str("name", d.Name)
		w.str("verdict", d.Verdict)
		w.nullable("reason", d.Reason)
	case KindRule:
		w.str("surface", d.Surface)
		w.nullable("pattern", d.Pattern)
		w.nullable("origin", d.Origin)
	case KindSessionApproval:
		w.str("surface", d.Surface)
		w.nullable("pattern", d.Pattern)
	case KindYolo:
		w.nullable("pattern", d.Pattern)
	case KindInfrastructureRead:
	case KindUnavailable, KindGateError:
		w.str("reason", Text(d.Reason))
	case KindForwarded:
		w.nullable("responderSessionId", d.Responder)
		if d.Decision == nil {
			w.nullable("decision", nil)
		} else {
			w.object("decision", func() { w.decision(*d.Decision) })
		}
	default:
		if w.err == nil {
			w.err = fmt.Errorf("unknown decision kind %q", d.Kind)
		}
	}
}

// Encode returns the source as JSON, "null" for the zero value.
func (d DecisionSource) Encode() ([]byte, error) {
	if d.Kind == "" {
		return []byte("null"), nil
	}
	w := &writer{}
	w.begin()
	w.decision(d)
	w.end()
	return w.done("decision", MaxFile)
}
