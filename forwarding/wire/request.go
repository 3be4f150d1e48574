package wire

import "fmt"

// Source says what kind of call the gate stood in front of.
type Source string

// The sources of the public protocol; anything else is read as ToolCall.
const (
	ToolCall   Source = "tool_call"
	SkillInput Source = "skill_input"
	SkillRead  Source = "skill_read"
)

// Grant is what a wider approval would cover.
type Grant struct{ Surface, Pattern string }

// SessionApproval is what the requester suggests to be approved for longer. A
// peer's suggestion can be far wider than its ask; it is shown, never obeyed.
// Old peers know Surface and Patterns, new ones Grants; both are written.
type SessionApproval struct {
	Surface  string
	Patterns []string
	Grants   []Grant
}

// AccessIntent is what the gate judged, as it says itself.
type AccessIntent struct {
	// Surface is the gate surface, such as "path_read".
	Surface string
	// MatchValues are the aliases or the one value that rules are matched with.
	MatchValues []string
	// BoundaryValue is the canonical path, nil where there is none.
	BoundaryValue *string
	// RequesterCwd is provenance only.
	RequesterCwd string
	Principal    Principal
}

// Principal is stamped by the end that escalates.
type Principal struct{ SessionID, AgentName string }

// Request is one ask as it lies in an inbox.
type Request struct {
	ID string
	// CreatedAt is milliseconds since the epoch by the requester's clock.
	CreatedAt          int64
	RequesterSessionID string
	TargetSessionID    string
	RequesterAgentName string
	// Message is the sentence that peers up to version 25 require and show.
	Message string
	Source  Source
	// Surface and Value are for display; nil is null.
	Surface *string
	Value   *string

	SessionApproval *SessionApproval
	Payload         *Payload
	AccessIntent    *AccessIntent

	// Dropped names the optional fields that were malformed and are treated as
	// absent. It is not written.
	Dropped []string
}

var requestNames = []string{"id", "createdAt", "requesterSessionId", "targetSessionId", "requesterAgentName", "message", "source", "surface", "value",
	"sessionApproval", "payload", "accessIntent"}

// ReadRequest reads a request. An error means that it must be answered with a
// denial; the file's name, never the id inside, says where that goes.
func ReadRequest(data []byte) (Request, error) {
	const what = "request"
	v, err := object(what, data, MaxFile)
	if err != nil {
		return Request{}, err
	}
	if err := v.variants(what, "", requestNames...); err != nil {
		return Request{}, err
	}
	r := Request{Source: ToolCall}
	for _, f := range []struct {
		name string
		to   *string
	}{{"id", &r.ID}, {"requesterSessionId", &r.RequesterSessionID}, {"targetSessionId", &r.TargetSessionID}, {"requesterAgentName", &r.RequesterAgentName}} {
		if *f.to, err = v.required(what, f.name); err != nil {
			return Request{}, err
		}
	}
	created, has := v.get("createdAt")
	at, ok := millis(created.number)
	if !has || created.kind != kindNumber || !ok {
		return Request{}, &ReadError{What: what, Field: "createdAt", Problem: created.kindName() + ", milliseconds since the epoch expected"}
	}
	r.CreatedAt = at
	return r, r.readOptional(what, v)
}

// readOptional narrows each optional field on its own.
func (r *Request) readOptional(what string, v value) error {
	drop := func(name string) { r.Dropped = append(r.Dropped, name) }
	if m, has := v.get("message"); has {
		if s, ok := m.str(); ok {
			r.Message = s
		} else {
			drop("message")
		}
	}
	if m, has := v.get("source"); has {
		s, _ := m.str()
		switch Source(s) {
		case ToolCall, SkillInput, SkillRead:
			r.Source = Source(s)
		default:
			drop("source")
		}
	}
	for _, f := range []struct {
		name string
		to   **string
	}{{"surface", &r.Surface}, {"value", &r.Value}} {
		if m, has := v.get(f.name); has {
			s, ok := m.nullable()
			if !ok {
				drop(f.name)
			}
			*f.to = s
		}
	}
	if m, has := v.get("sessionApproval"); has {
		a, dropped, err := readApproval(what, m)
		if err != nil {
			return err
		}
		r.SessionApproval = a
		for _, d := range dropped {
			drop(d)
		}
	}
	if m, has := v.get("payload"); has {
		p, ok, err := readPayload(what, m)
		if err != nil {
			return err
		}
		if ok {
			r.Payload = &p
		} else {
			drop("payload")
		}
	}
	if m, has := v.get("accessIntent"); has {
		a, ok, err := readIntent(what, m)
		if err != nil {
			return err
		}
		if ok {
			r.AccessIntent = &a
		} else {
			drop("accessIntent")
		}
	}
	return nil
}

// readApproval takes the two shapes apart: each counts only if it is well formed.
func readApproval(what string, v value) (*SessionApproval, []string, error) {
	if v.kind != kindObject {
		return nil, []string{"sessionApproval"}, nil
	}
	if err := v.variants(what, "sessionApproval", "surface", "patterns", "grants"); err != nil {
		return nil, nil, err
	}
	var a SessionApproval
	var dropped []string
	if m, has := v.get("grants"); has {
		ok := m.kind == kindArray && len(m.items) > 0
		for _, item := range m.items {
			if err := item.variants(what, "sessionApproval.grants", "surface", "pattern"); err != nil {
				return nil, nil, err
			}
			r := reader{v: item, ok: item.kind == kindObject}
			g := Grant{Surface: r.text("surface"), Pattern: r.text("pattern")}
			ok = ok && r.ok && g.Surface != ""
			a.Grants = append(a.Grants, g)
		}
		if !ok {
			a.Grants = nil
			dropped = append(dropped, "sessionApproval.grants")
		}
	}
	surface, hasSurface := v.get("surface")
	patterns, hasPatterns := v.get("patterns")
	if hasSurface || hasPatterns {
		s, ok := surface.str()
		list, isList := patterns.strings()
		if ok && isList && s != "" {
			a.Surface, a.Patterns = s, list
		} else {
			dropped = append(dropped, "sessionApproval.surface")
		}
	}
	if a.Grants == nil && a.Surface == "" {
		return nil, []string{"sessionApproval"}, nil
	}
	return &a, dropped, nil
}

func readIntent(what string, v value) (AccessIntent, bool, error) {
	if v.kind != kindObject {
		return AccessIntent{}, false, nil
	}
	if err := v.variants(what, "accessIntent", "surface", "matchValues", "boundaryValue", "requesterCwd", "principal"); err != nil {
		return AccessIntent{}, false, err
	}
	who, _ := v.get("principal")
	if err := who.variants(what, "accessIntent.principal", "sessionId", "agentName"); err != nil {
		return AccessIntent{}, false, err
	}
	values, _ := v.get("matchValues")
	list, ok := values.strings()
	r := reader{v: v, ok: ok}
	p := reader{v: who, ok: who.kind == kindObject}
	a := AccessIntent{Surface: r.text("surface"), MatchValues: list, BoundaryValue: r.nullable("boundaryValue"), RequesterCwd: r.text("requesterCwd"),
		Principal: Principal{SessionID: p.text("sessionId"), AgentName: p.text("agentName")}}
	if !r.ok || !p.ok {
		return AccessIntent{}, false, nil
	}
	return a, true, nil
}

func unknown(what, word string) error { return fmt.Errorf("unknown %s %q", what, word) }

// both fills in the half of a suggestion that the other generation of peers
// reads. Old peers know one surface only: they get the patterns of the first.
func (a SessionApproval) both() SessionApproval {
	if len(a.Grants) == 0 {
		for _, p := range a.Patterns {
			a.Grants = append(a.Grants, Grant{Surface: a.Surface, Pattern: p})
		}
	}
	if a.Surface == "" && len(a.Grants) > 0 {
		a.Surface, a.Patterns = a.Grants[0].Surface, []string{}
		for _, g := range a.Grants {
			if g.Surface == a.Surface {
				a.Patterns = append(a.Patterns, g.Pattern)
			}
		}
	}
	return a
}

// Encode writes the request so that every known reader accepts it: with the
// message that old ones require and the payload that new ones read, and with
// both shapes of a suggestion. An empty message is refused, since old readers
// show nothing else.
func (r Request) Encode() ([]byte, error) {
	if r.Message == "" {
		return nil, fmt.Errorf("request: message is empty, a sentence for old readers expected")
	}
	w := &writer{}
	w.begin()
	w.str("id", r.ID)
	w.integer("createdAt", r.CreatedAt)
	w.str("requesterSessionId", r.RequesterSessionID)
	w.str("targetSessionId", r.TargetSessionID)
	w.str("requesterAgentName", r.RequesterAgentName)
	w.str("message", r.Message)
	switch r.Source {
	case "":
	case ToolCall, SkillInput, SkillRead:
		w.str("source", string(r.Source))
	default:
		return nil, fmt.Errorf("request: %w", unknown("source", string(r.Source)))
	}
	w.nullable("surface", r.Surface)
	w.nullable("value", r.Value)
	if r.SessionApproval != nil {
		if a := r.SessionApproval.both(); a.Surface != "" {
			w.object("sessionApproval", func() {
				w.str("surface", a.Surface)
				w.strings("patterns", a.Patterns)
				if len(a.Grants) > 0 {
					w.list("grants", len(a.Grants), func(i int) {
						w.begin()
						w.str("surface", a.Grants[i].Surface)
						w.str("pattern", a.Grants[i].Pattern)
						w.end()
					})
				}
			})
		}
	}
	if r.Payload != nil {
		w.object("payload", func() { w.payload(*r.Payload) })
	}
	if a := r.AccessIntent; a != nil {
		w.object("accessIntent", func() {
			w.str("surface", a.Surface)
			w.strings("matchValues", a.MatchValues)
			w.nullable("boundaryValue", a.BoundaryValue)
			w.str("requesterCwd", a.RequesterCwd)
			w.object("principal", func() {
				w.str("sessionId", a.Principal.SessionID)
				w.str("agentName", a.Principal.AgentName)
			})
		})
	}
	w.end()
	return w.done("request", MaxFile)
}
