package wire

import "fmt"

// State is the word of an answer.
type State string

// The states of the public protocol. ApprovedForServingSession is read for
// completeness and never written: it means a grant at the serving end.
const (
	Approved                  State = "approved"
	ApprovedForSession        State = "approved_for_session"
	ApprovedForServingSession State = "approved_for_serving_session"
	Denied                    State = "denied"
	DeniedWithReason          State = "denied_with_reason"
)

func (s State) known() bool {
	switch s {
	case Approved, ApprovedForSession, ApprovedForServingSession, Denied, DeniedWithReason:
		return true
	}
	return false
}

// approves reports whether the word is a yes.
func (s State) approves() bool {
	return s == Approved || s == ApprovedForSession || s == ApprovedForServingSession
}

// Width is how far a session grant reaches.
type Width string

// The widths of the public protocol; an unknown one is read as WidthProven.
const (
	WidthProven Width = "proven"
	WidthFamily Width = "family"
)

// Response is one answer. The zero value is a denial.
type Response struct {
	Approved           bool
	State              State
	DenialReason       string
	ResponderSessionID string
	// RespondedAt is milliseconds since the epoch, 0 where it was not usable.
	RespondedAt int64
	DecidedBy   DecisionSource
	Width       Width

	// Inconsistent is set where the file said both yes and no: it was read as a
	// denial. It is not written.
	Inconsistent bool
	// Unavailable is set where nobody answered, and never read from a file. It
	// is not written.
	Unavailable bool
}

// NoAnswer is the response for an ask that nobody could answer. The reason
// stands in both places, so that what the model is told and what is recorded
// cannot differ.
func NoAnswer(reason string) Response {
	return Response{State: Denied, DenialReason: reason, DecidedBy: Unavailable(reason), Unavailable: true}
}

var responseNames = []string{"approved", "state", "responderSessionId", "respondedAt", "denialReason", "decidedBy", "sessionGrantWidth"}

// ReadResponse reads a response. An error means that it is unusable and that
// the ask ends as unavailable.
func ReadResponse(data []byte) (Response, error) {
	const what = "response"
	v, err := object(what, data, MaxFile)
	if err != nil {
		return Response{}, err
	}
	if err := v.variants(what, "", responseNames...); err != nil {
		return Response{}, err
	}
	r := Response{Width: WidthProven}
	m, has := v.get("approved")
	yes, ok := m.boolean()
	if !has || !ok {
		return Response{}, &ReadError{What: what, Field: "approved", Problem: m.kindName() + ", true or false expected"}
	}
	state, err := v.required(what, "state")
	if err != nil {
		return Response{}, err
	}
	r.State = State(state)
	if !r.State.known() {
		return Response{}, &ReadError{What: what, Field: "state", Problem: fmt.Sprintf("%q is no known state", state)}
	}
	if r.ResponderSessionID, err = v.required(what, "responderSessionId"); err != nil {
		return Response{}, err
	}
	if m, has := v.get("respondedAt"); has && m.kind == kindNumber {
		r.RespondedAt, _ = millis(m.number)
	}
	if m, has := v.get("denialReason"); has {
		r.DenialReason, _ = m.str()
	}
	if m, has := v.get("decidedBy"); has {
		d, ok, err := readDecision(what, "decidedBy", m, 0)
		if err != nil {
			return Response{}, err
		}
		if ok {
			r.DecidedBy = d
		}
	}
	if m, has := v.get("sessionGrantWidth"); has {
		if s, _ := m.str(); Width(s) == WidthFamily {
			r.Width = WidthFamily
		}
	}
	// Peers let "approved" alone decide. A file that says both was not written
	// by one honest hand.
	r.Approved = yes && r.State.approves()
	if yes != r.State.approves() {
		r.Inconsistent = true
		r.DenialReason = fmt.Sprintf("the answer contradicts itself: approved is %t, state is %s", yes, r.State)
		r.State = Denied
	}
	return r, nil
}

// Encode writes the response. One that contradicts itself is refused.
func (r Response) Encode() ([]byte, error) {
	if !r.State.known() {
		return nil, fmt.Errorf("response: %w", unknown("state", string(r.State)))
	}
	if r.State.approves() != r.Approved {
		return nil, fmt.Errorf("response: approved is %t, state is %q", r.Approved, r.State)
	}
	if d := r.DecidedBy.depth(); d > MaxDecisionDepth {
		return nil, fmt.Errorf("response: decidedBy has %d forwarded frames, at most %d are read", d, MaxDecisionDepth)
	}
	w := &writer{}
	w.begin()
	w.boolean("approved", r.Approved)
	w.str("state", string(r.State))
	if r.DenialReason != "" {
		w.str("denialReason", r.DenialReason)
	}
	w.str("responderSessionId", r.ResponderSessionID)
	w.integer("respondedAt", r.RespondedAt)
	if r.DecidedBy.Kind != "" {
		w.object("decidedBy", func() { w.decision(r.DecidedBy) })
	}
	if r.Width == WidthFamily {
		w.str("sessionGrantWidth", string(r.Width))
	}
	w.end()
	return w.done("response", MaxFile)
}
