package forwarding_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type link func(context.Context, forwarding.Facts) (forwarding.Verdict, error)

func (l link) Authorize(ctx context.Context, f forwarding.Facts) (forwarding.Verdict, error) {
	return l(ctx, f)
}

func says(o forwarding.Outcome, reason string) link {
	return func(context.Context, forwarding.Facts) (forwarding.Verdict, error) {
		return forwarding.Verdict{Outcome: o, Reason: reason}, nil
	}
}

type person func(context.Context, forwarding.Facts) (forwarding.Decision, error)

func (p person) Ask(ctx context.Context, f forwarding.Facts) (forwarding.Decision, error) {
	return p(ctx, f)
}

var yes = person(func(context.Context, forwarding.Facts) (forwarding.Decision, error) {
	return forwarding.Decision{Approved: true, DecidedBy: wire.ByUser("dialog")}, nil
})

func facts(units ...string) forwarding.Facts {
	f := forwarding.Facts{ID: "perm-1", Session: "s-3", Path: []string{"s-2", "s-1"}, Agent: "scout", Source: wire.ToolCall}
	for _, u := range units {
		f.Units = append(f.Units, forwarding.Unit{Surface: "bash", Value: u, Payload: prompt.Bash(prompt.Facts{MatchedPattern: "*"}, u, strings.Join(units, " && "))})
	}
	return f
}

func TestChain(t *testing.T) {
	allow := forwarding.Link{Name: "yes", Authorizer: says(forwarding.Allow, "fine"), Cap: forwarding.CapAllow}
	deny := forwarding.Link{Name: "no", Authorizer: says(forwarding.Deny, "bad"), Cap: forwarding.CapAllow}
	pass := forwarding.Link{Name: "pass", Authorizer: says(forwarding.Defer, ""), Cap: forwarding.CapAllow}
	capped := func(l forwarding.Link, c forwarding.Cap) forwarding.Link { l.Cap = c; return l }
	hang := forwarding.Link{Name: "hang", Cap: forwarding.CapAllow, Timeout: 20 * time.Millisecond, Authorizer: link(func(ctx context.Context, _ forwarding.Facts) (forwarding.Verdict, error) {
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // and does not care that it is over
		return forwarding.Verdict{Outcome: forwarding.Allow}, nil
	})}
	broken := forwarding.Link{Name: "broken", Cap: forwarding.CapAllow, Authorizer: link(func(context.Context, forwarding.Facts) (forwarding.Verdict, error) {
		return forwarding.Verdict{Outcome: forwarding.Allow}, errors.New("tripped")
	})}
	panics := forwarding.Link{Name: "panics", Cap: forwarding.CapAllow, Authorizer: link(func(context.Context, forwarding.Facts) (forwarding.Verdict, error) { panic("boom") })}
	vacant := forwarding.Link{Name: "vacant", Cap: forwarding.CapAllow}
	odd := forwarding.Link{Name: "odd", Cap: forwarding.CapAllow, Authorizer: says(forwarding.Outcome(9), "")}
	local := forwarding.Local{Human: yes}

	type want struct {
		approved bool
		kind     wire.DecisionKind
		by       string
		steps    string
	}
	for _, tt := range []struct {
		name  string
		chain forwarding.Chain
		want  want
	}{
		{"no link", forwarding.Chain{Terminal: local}, want{true, wire.KindUser, "", ""}},
		{"nothing at all", forwarding.Chain{}, want{false, wire.KindUnavailable, "", ""}},
		{"all pass", forwarding.Chain{Links: []forwarding.Link{pass, pass}, Terminal: local}, want{true, wire.KindUser, "", "pass:defer pass:defer"}},
		{"the first word counts: no", forwarding.Chain{Links: []forwarding.Link{pass, deny, allow}, Terminal: local}, want{false, wire.KindAuthorizer, "no", "pass:defer no:deny"}},
		{"the first word counts: yes", forwarding.Chain{Links: []forwarding.Link{allow, deny}, Terminal: forwarding.Denying{}}, want{true, wire.KindAuthorizer, "yes", "yes:allow"}},
		{"capped to deny", forwarding.Chain{Links: []forwarding.Link{capped(allow, forwarding.CapDeny)}, Terminal: forwarding.Denying{}}, want{false, wire.KindUnavailable, "", "yes:allow(capped)"}},
		{"capped to deny, denies", forwarding.Chain{Links: []forwarding.Link{capped(deny, forwarding.CapDeny)}, Terminal: local}, want{false, wire.KindAuthorizer, "no", "no:deny"}},
		{"capped to nothing", forwarding.Chain{Links: []forwarding.Link{capped(deny, 0), capped(allow, 0)}, Terminal: local}, want{true, wire.KindUser, "", "no:deny(capped) yes:allow(capped)"}},
		{"one hangs", forwarding.Chain{Links: []forwarding.Link{hang}, Terminal: local}, want{true, wire.KindUser, "", "hang:defer!"}},
		{"one hangs, nobody else", forwarding.Chain{Links: []forwarding.Link{hang}}, want{false, wire.KindUnavailable, "", "hang:defer!"}},
		{"one breaks", forwarding.Chain{Links: []forwarding.Link{broken, allow}, Terminal: local}, want{false, wire.KindGateError, "", "broken:defer!"}},
		{"one panics", forwarding.Chain{Links: []forwarding.Link{panics, allow}, Terminal: local}, want{false, wire.KindGateError, "", "panics:defer!"}},
		{"one is not there", forwarding.Chain{Links: []forwarding.Link{vacant, deny}, Terminal: local}, want{false, wire.KindAuthorizer, "no", "vacant:defer! no:deny"}},
		{"one says something odd", forwarding.Chain{Links: []forwarding.Link{odd}, Terminal: local}, want{false, wire.KindGateError, "", "odd:Outcome(9)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var steps []string
			tt.chain.Report = func(s forwarding.Step) {
				text := s.Link + ":" + s.Verdict.Outcome.String()
				if s.Capped {
					text += "(capped)"
				}
				if s.Err != nil {
					text += "!"
				}
				steps = append(steps, text)
			}
			d := tt.chain.Decide(context.Background(), facts("ls"))
			got := want{d.Approved, d.DecidedBy.Kind, d.DecidedBy.Name, strings.Join(steps, " ")}
			if got != tt.want {
				t.Errorf("got %+v, expected %+v: %+v", got, tt.want, d)
			}
			if d.Unavailable != (d.DecidedBy.Kind == wire.KindUnavailable) {
				t.Errorf("unavailable %t: %+v", d.Unavailable, d)
			}
		})
	}
}

func TestChainWithoutUnits(t *testing.T) {
	if d := (forwarding.Chain{Terminal: forwarding.Local{Human: yes}}).Decide(context.Background(), facts()); d.Approved || d.DecidedBy.Kind != wire.KindGateError {
		t.Errorf("%+v", d)
	}
}

// What only a person may allow reaches no link, no parent and no default.
func TestHumanOnly(t *testing.T) {
	asked := false
	trap := forwarding.Link{Name: "trap", Cap: forwarding.CapAllow, Authorizer: link(func(context.Context, forwarding.Facts) (forwarding.Verdict, error) {
		asked = true
		return forwarding.Verdict{Outcome: forwarding.Allow}, nil
	})}
	f := facts("x")
	c := &carrier{answers: []wire.Response{{Approved: true, State: wire.Approved}}}
	parent := forwarding.Parent{Carrier: c, Target: "top", Self: "me"}
	for name, tt := range map[string]struct {
		terminal forwarding.Terminal
		want     bool
	}{"a person": {forwarding.Local{Human: yes}, true}, "a parent": {parent, false}, "nobody": {forwarding.Denying{}, false}, "none": {nil, false}} {
		chain := forwarding.Chain{Links: []forwarding.Link{trap}, Terminal: tt.terminal}
		if name == "a person" {
			if chain.Decide(context.Background(), f); !asked {
				t.Error("control: the link is not asked for what anybody may allow")
			}
			asked = false
		}
		f := f
		f.HumanOnly = true
		if d := chain.Decide(context.Background(), f); d.Approved != tt.want || asked || !tt.want && !d.Unavailable {
			t.Errorf("%s: %+v, link asked %t", name, d, asked)
		}
	}
	f.HumanOnly = true
	if d := parent.Decide(context.Background(), f); d.Approved || len(c.sent) != 0 {
		t.Errorf("a parent by itself: %+v, sent %d", d, len(c.sent))
	}
}

func TestLocal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(forwarding.ErrWithdrawn)
	gone := person(func(context.Context, forwarding.Facts) (forwarding.Decision, error) {
		return forwarding.Decision{Approved: true}, errors.New("the terminal is gone")
	})
	for name, d := range map[string]forwarding.Decision{
		"no person":    forwarding.Local{}.Decide(context.Background(), facts("x")),
		"person gone":  forwarding.Local{Human: gone}.Decide(context.Background(), facts("x")),
		"ask gone":     forwarding.Local{Human: yes}.Decide(ctx, facts("x")),
		"zero denying": forwarding.Denying{}.Decide(context.Background(), facts("x")),
	} {
		if d.Approved || !d.Unavailable || d.Reason == "" || wire.Text(d.DecidedBy.Reason) != d.Reason {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// carrier answers from a list and keeps what was sent.
type carrier struct {
	answers []wire.Response
	sent    []wire.Request
}

func (c *carrier) Serve(context.Context, string, forwarding.Handler) error { return nil }
func (c *carrier) Serving(string) liveness.State                           { return liveness.Alive }
func (c *carrier) Ask(_ context.Context, _ string, r wire.Request) (wire.Response, error) {
	c.sent = append(c.sent, r)
	if len(c.sent) > len(c.answers) {
		return wire.NoAnswer("nobody there"), forwarding.ErrUnserved
	}
	return c.answers[len(c.sent)-1], nil
}

func TestParent(t *testing.T) {
	ok := wire.Response{Approved: true, State: wire.Approved, ResponderSessionID: "top", DecidedBy: wire.ByUser("dialog")}
	lasting := ok
	lasting.State, lasting.Width = wire.ApprovedForSession, wire.WidthFamily
	no := wire.Response{State: wire.DeniedWithReason, DenialReason: "no", ResponderSessionID: "top", DecidedBy: wire.ByRule("bash", "x", "global")}
	silent := wire.Response{Approved: true, State: wire.Approved}
	for _, tt := range []struct {
		name    string
		units   []string
		answers []wire.Response
		want    forwarding.Decision
		sent    int
	}{
		{"yes", []string{"a"}, []wire.Response{ok}, forwarding.Decision{Approved: true, DecidedBy: wire.Forwarded("top", wire.ByUser("dialog"))}, 1},
		{"no", []string{"a"}, []wire.Response{no}, forwarding.Decision{Reason: "no", DecidedBy: wire.Forwarded("top", wire.ByRule("bash", "x", "global"))}, 1},
		{"each unit by itself", []string{"a", "b"}, []wire.Response{ok, ok}, forwarding.Decision{Approved: true, DecidedBy: wire.Forwarded("top", wire.ByUser("dialog"))}, 2},
		{"the second is no", []string{"a", "b", "c"}, []wire.Response{ok, no, ok}, forwarding.Decision{Reason: "no", DecidedBy: wire.Forwarded("top", wire.ByRule("bash", "x", "global"))}, 2},
		{"nobody", []string{"a", "b"}, []wire.Response{ok}, forwarding.Unanswered("nobody there"), 2},
		{"wider than asked", []string{"a"}, []wire.Response{lasting}, forwarding.Decision{Approved: true, Lasting: true, DecidedBy: wire.Forwarded("top", wire.ByUser("dialog"))}, 1},
		{"one of two wider", []string{"a", "b"}, []wire.Response{lasting, ok}, forwarding.Decision{Approved: true, DecidedBy: wire.Forwarded("top", wire.ByUser("dialog"))}, 2},
		{"an old parent", []string{"a"}, []wire.Response{silent}, forwarding.Decision{Approved: true, DecidedBy: wire.Forwarded("boss", wire.DecisionSource{})}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &carrier{answers: tt.answers}
			d := forwarding.Parent{Carrier: c, Target: "boss", Self: "me"}.Decide(context.Background(), facts(tt.units...))
			if diff := cmp.Diff(tt.want, d); diff != "" {
				t.Error(diff)
			}
			if len(c.sent) != tt.sent {
				t.Errorf("sent %d requests, expected %d", len(c.sent), tt.sent)
			}
			for i, r := range c.sent {
				if *r.Value != tt.units[i] || *r.Surface != "bash" || r.TargetSessionID != "boss" || r.RequesterSessionID != "me" || r.RequesterAgentName != "scout" ||
					(r.ID == "perm-1") != (len(tt.units) == 1) {
					t.Errorf("request %+v", r)
				}
				if len(tt.units) > 1 && !strings.Contains(r.Message, strings.Join(tt.units, " && ")) {
					t.Errorf("the whole text is not in %q", r.Message)
				}
				if last := r.Payload.Evidence[len(r.Payload.Evidence)-1]; last.Text != "s-3" || wire.Text(last.Detail) != "under s-2 < s-1" {
					t.Errorf("where it came from is %+v", last)
				}
				if _, err := r.Encode(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestParentRefuses(t *testing.T) {
	c := &carrier{answers: []wire.Response{{Approved: true, State: wire.Approved}}}
	p := forwarding.Parent{Carrier: c, Target: "boss", Self: "me"}
	for name, f := range map[string]forwarding.Facts{
		"no units":   facts(),
		"no value":   {Units: []forwarding.Unit{{Surface: "bash"}}},
		"no surface": {Units: []forwarding.Unit{{Value: "x"}}},
	} {
		if d := p.Decide(context.Background(), f); d.Approved || d.DecidedBy.Kind != wire.KindGateError {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := (forwarding.Parent{}).Decide(context.Background(), facts("x")); d.Approved || !d.Unavailable {
		t.Errorf("no carrier: %+v", d)
	}
	if len(c.sent) != 0 {
		t.Errorf("sent %+v", c.sent)
	}
	// A payload is made where the caller has none.
	if d := p.Decide(context.Background(), forwarding.Facts{Units: []forwarding.Unit{{Surface: "bash", Value: "ls"}}}); !d.Approved || c.sent[0].Payload.Core.Value != "ls" {
		t.Errorf("%+v, sent %+v", d, c.sent)
	}
	if _, err := c.sent[0].Encode(); err != nil {
		t.Error(err)
	}
}

func TestSelectTerminal(t *testing.T) {
	for _, state := range []liveness.State{liveness.Absent, liveness.DeadPID, liveness.Stale, liveness.Alive, liveness.Legacy} {
		for _, tt := range []struct {
			person, parent bool
			want           forwarding.Role
		}{
			{false, false, forwarding.RoleDenying}, {true, false, forwarding.RoleLocal}, {false, true, forwarding.RoleParent}, {true, true, map[bool]forwarding.Role{true: forwarding.RoleParent, false: forwarding.RoleLocal}[state == liveness.Alive]},
		} {
			if got := forwarding.SelectTerminal(tt.person, tt.parent, state); got != tt.want {
				t.Errorf("person %t, parent %t, %s: %s, expected %s", tt.person, tt.parent, state, got, tt.want)
			}
		}
	}
}

// Downward there is approved or a denial, whatever else an answer says.
func TestAnswerIsNeverWide(t *testing.T) {
	now := time.UnixMilli(1796040473680)
	for _, tt := range []struct {
		a    forwarding.Answer
		want wire.State
	}{
		{forwarding.Answer{}, wire.Denied}, {forwarding.Answer{Reason: "r"}, wire.DeniedWithReason}, {forwarding.Answer{Approved: true}, wire.Approved},
		{forwarding.Answer{Approved: true, Reason: "r", DecidedBy: wire.ByGrant("bash", "*")}, wire.Approved},
	} {
		r := tt.a.Response("ch", now)
		if r.State != tt.want || r.Width == wire.WidthFamily || r.ResponderSessionID != "ch" || r.RespondedAt != now.UnixMilli() {
			t.Errorf("%+v became %+v", tt.a, r)
		}
		if data, err := r.Encode(); err != nil || strings.Contains(string(data), "session\"") {
			t.Errorf("%s, %v", data, err)
		}
	}
}

func TestOutcomeWords(t *testing.T) {
	for _, o := range []forwarding.Outcome{forwarding.Allow, forwarding.Deny, forwarding.Defer} {
		if got, err := forwarding.ParseOutcome(o.String()); err != nil || got != o {
			t.Errorf("%s: %s, %v", o, got, err)
		}
	}
	for _, bad := range []string{"", "Allow", "yes"} {
		if o, err := forwarding.ParseOutcome(bad); err == nil || o != forwarding.Deny {
			t.Errorf("%q is %s", bad, o)
		}
	}
	if fmt.Sprint(forwarding.Outcome(0)) != "deny" {
		t.Error("the zero outcome does not deny")
	}
}
