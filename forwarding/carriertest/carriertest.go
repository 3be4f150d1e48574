// Package carriertest says what every forwarding.Carrier must do, as tests that
// a carrier runs on itself.
//
// It refuses to know how a carrier carries.
package carriertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
)

// Pair is the two ends of one carrier.
type Pair struct {
	// Server serves, Requester asks. They may be one carrier.
	Server, Requester forwarding.Carrier
	// Grace and Timeout are what the requester was set to. Both must be short:
	// the suite waits for them.
	Grace, Timeout time.Duration
}

// patience is how long anything may take that should happen at once.
const patience = 40 * time.Second

// Run runs the whole suite. open makes fresh ends for each test and closes them
// in its cleanup.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	tests := []struct {
		name string
		test func(*testing.T, Pair)
	}{
		{"an ask is answered, and nothing of it is lost on the way", roundTrip},
		{"a denial carries its reason and who decided", denial},
		{"the zero answer denies", zeroAnswer},
		{"an error of the handler denies as failed judging", handlerError},
		{"nothing waits behind a person", noHeadOfLine},
		{"each ask is handled once, however many come at a time", exactlyOnce},
		{"a requester that leaves withdraws its ask", withdrawal},
		{"an ask that expires is denied and its handler told", expiry},
		{"a target that nobody serves is given up after the grace", unserved},
		{"a session that starts to serve within the grace answers", lateServer},
		{"who stops serving tells those that wait", stopServing},
		{"a channel is served once", servedOnce},
		{"channels do not hear of each other", channels},
		{"hostile names carry nothing anywhere", hostileNames},
		{"an unusable id is replaced, a usable one kept", ids},
		{"liveness follows serving", livenessFollows},
		{"an answer is never wider than once", neverWider},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) { tt.test(t, open(t)) })
	}
}

// Handler is a forwarding.Handler out of a function. Its notices are kept.
type Handler struct {
	Decide func(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error)

	mu      sync.Mutex
	notices []forwarding.Notice
	changed chan struct{}
}

// NewHandler returns a handler that decides by a function.
func NewHandler(decide func(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error)) *Handler {
	return &Handler{Decide: decide, changed: make(chan struct{})}
}

// Allow answers every ask with yes.
func Allow() *Handler {
	return NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		return forwarding.Answer{Approved: true, DecidedBy: wire.ByRule("bash", "*", "global")}, nil
	})
}

// Handle implements forwarding.Handler.
func (h *Handler) Handle(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error) {
	return h.Decide(ctx, a)
}

// Notice implements forwarding.Handler.
func (h *Handler) Notice(n forwarding.Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, n)
	close(h.changed)
	h.changed = make(chan struct{})
}

// Notices returns what was told so far.
func (h *Handler) Notices() []forwarding.Notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]forwarding.Notice(nil), h.notices...)
}

// Await waits for a notice of a kind, about an id unless that is empty.
func (h *Handler) Await(t testing.TB, kind forwarding.NoticeKind, id string) forwarding.Notice {
	t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		changed := h.changed
		for _, n := range h.notices {
			if n.Kind == kind && (id == "" || n.ID == id) {
				h.mu.Unlock()
				return n
			}
		}
		h.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no notice %q about %q; got %+v", kind, id, h.Notices())
		}
	}
}

// Serve serves a channel until the test ends or stop is called, which waits.
// It returns when the channel is ready.
func Serve(t testing.TB, c forwarding.Carrier, channel string, h *Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, channel, h) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Serve(%s) ended with %v", channel, err)
				}
			case <-time.After(patience):
				t.Errorf("Serve(%s) did not end", channel)
			}
		})
	}
	t.Cleanup(stop)
	h.Await(t, forwarding.Serving, "")
	return stop
}

// Request returns a well-formed request.
func Request(value string) wire.Request {
	surface := "bash"
	return wire.Request{RequesterSessionID: "child-1", RequesterAgentName: "scout", Message: "Agent 'scout' requested bash command '" + value + "'. Allow this command?",
		Source: wire.ToolCall, Surface: &surface, Value: &value}
}

func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
}

func ask(t *testing.T, c forwarding.Carrier, target string, r wire.Request) (resp wire.Response, err error) {
	t.Helper()
	within(t, "Ask", func() { resp, err = c.Ask(context.Background(), target, r) })
	return resp, err
}

func roundTrip(t *testing.T, p Pair) {
	got := make(chan forwarding.Ask, 1)
	h := NewHandler(func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		if err := a.Standing(); err != nil {
			return forwarding.Answer{}, err
		}
		got <- a
		return forwarding.Answer{Approved: true, DecidedBy: wire.ByUser("dialog"), Responder: "root"}, nil
	})
	Serve(t, p.Server, "ch-1", h)
	r := Request("echo '<&>\u2028é😀\"\\' \x01\t\n")
	r.ID = "perm-one"
	boundary := "/x"
	r.AccessIntent = &wire.AccessIntent{Surface: "bash", MatchValues: []string{"a", "b"}, BoundaryValue: &boundary, Principal: wire.Principal{SessionID: "c", AgentName: "n"}}
	r.SessionApproval = &wire.SessionApproval{Grants: []wire.Grant{{Surface: "bash", Pattern: "echo *"}}}
	resp, err := ask(t, p.Requester, "ch-1", r)
	if err != nil || !resp.Approved || resp.State != wire.Approved || resp.ResponderSessionID != "root" || !resp.DecidedBy.Equal(wire.ByUser("dialog")) {
		t.Fatalf("response %+v, error %v", resp, err)
	}
	a := <-got
	if a.ID != "perm-one" || a.Channel != "ch-1" || a.Request.ID != a.ID || a.Digest == [32]byte{} {
		t.Errorf("ask %+v", a)
	}
	if *a.Request.Value != *r.Value || a.Request.Message != r.Message || a.Request.RequesterAgentName != "scout" {
		t.Errorf("request %+v, sent %+v", a.Request, r)
	}
	if in := a.Request.AccessIntent; in == nil || *in.BoundaryValue != boundary || len(in.MatchValues) != 2 {
		t.Errorf("access intent %+v", in)
	}
	if s := a.Request.SessionApproval; s == nil || len(s.Grants) != 1 || s.Surface != "bash" || s.Patterns[0] != "echo *" {
		t.Errorf("session approval %+v", s)
	}
	if d := time.Since(a.Created); d < -time.Minute || d > time.Minute {
		t.Errorf("created %s ago", d)
	}
}

func denial(t *testing.T, p Pair) {
	Serve(t, p.Server, "ch", NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		return forwarding.Answer{Reason: "not on my watch", DecidedBy: wire.ByRule("bash", "rm *", "global")}, nil
	}))
	resp, err := ask(t, p.Requester, "ch", Request("rm x"))
	if err != nil || resp.Approved || resp.Unavailable || resp.State != wire.DeniedWithReason || resp.DenialReason != "not on my watch" ||
		!resp.DecidedBy.Equal(wire.ByRule("bash", "rm *", "global")) {
		t.Fatalf("response %+v, error %v", resp, err)
	}
}

func zeroAnswer(t *testing.T, p Pair) {
	Serve(t, p.Server, "ch", NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) { return forwarding.Answer{}, nil }))
	if resp, err := ask(t, p.Requester, "ch", Request("x")); err != nil || resp.Approved || resp.State != wire.Denied {
		t.Fatalf("response %+v, error %v", resp, err)
	}
}

func handlerError(t *testing.T, p Pair) {
	Serve(t, p.Server, "ch", NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		return forwarding.Answer{Approved: true}, errors.New("the judge tripped")
	}))
	resp, err := ask(t, p.Requester, "ch", Request("x"))
	if err != nil || resp.Approved || resp.DecidedBy.Kind != wire.KindGateError || !strings.Contains(resp.DenialReason, "tripped") {
		t.Fatalf("response %+v, error %v", resp, err)
	}
}

func noHeadOfLine(t *testing.T, p Pair) {
	person := make(chan struct{})
	reached := make(chan struct{}, 1)
	Serve(t, p.Server, "ch", NewHandler(func(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		if *a.Request.Value == "slow" {
			reached <- struct{}{}
			select {
			case <-person:
			case <-ctx.Done():
			}
		}
		return forwarding.Answer{Approved: true}, nil
	}))
	slow := make(chan wire.Response, 1)
	go func() {
		resp, _ := p.Requester.Ask(context.Background(), "ch", Request("slow"))
		slow <- resp
	}()
	within(t, "the slow ask", func() { <-reached })
	for i := range 5 {
		if resp, err := ask(t, p.Requester, "ch", Request(fmt.Sprint("fast ", i))); err != nil || !resp.Approved {
			t.Fatalf("fast ask behind a slow one: %+v, %v", resp, err)
		}
	}
	select {
	case resp := <-slow:
		t.Fatalf("the slow ask was answered before its person: %+v", resp)
	default:
	}
	close(person)
	within(t, "the slow answer", func() {
		if resp := <-slow; !resp.Approved {
			t.Errorf("slow ask: %+v", resp)
		}
	})
}

func exactlyOnce(t *testing.T, p Pair) {
	var handled sync.Map
	var twice atomic.Int32
	Serve(t, p.Server, "ch", NewHandler(func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		if _, before := handled.LoadOrStore(a.ID, true); before {
			twice.Add(1)
		}
		return forwarding.Answer{Approved: true, Reason: "", Responder: *a.Request.Value}, nil
	}))
	const n = 48
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			value := fmt.Sprint("v", i)
			resp, err := p.Requester.Ask(context.Background(), "ch", Request(value))
			if err != nil || !resp.Approved || resp.ResponderSessionID != value {
				t.Errorf("ask %d: %+v, %v", i, resp, err)
			}
		})
	}
	within(t, "all asks", wg.Wait)
	count := 0
	handled.Range(func(any, any) bool { count++; return true })
	if count != n || twice.Load() != 0 {
		t.Errorf("%d asks handled of %d, %d of them twice", count, n, twice.Load())
	}
}

func withdrawal(t *testing.T, p Pair) {
	causes := make(chan error, 1)
	started := make(chan forwarding.Ask, 1)
	h := NewHandler(func(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		started <- a
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return forwarding.Answer{Approved: true}, nil
	})
	Serve(t, p.Server, "ch", h)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		resp, err := p.Requester.Ask(ctx, "ch", Request("x"))
		if resp.Approved || !resp.Unavailable {
			t.Errorf("withdrawn ask: %+v", resp)
		}
		done <- err
	}()
	var a forwarding.Ask
	within(t, "the ask", func() { a = <-started })
	cancel()
	within(t, "the requester", func() {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("withdrawn ask: error %v", err)
		}
	})
	within(t, "the handler", func() {
		if err := <-causes; !errors.Is(err, forwarding.ErrWithdrawn) {
			t.Errorf("cause %v", err)
		}
	})
	if err := a.Standing(); !errors.Is(err, forwarding.ErrWithdrawn) {
		t.Errorf("Standing of a withdrawn ask: %v", err)
	}
	h.Await(t, forwarding.Withdrawn, a.ID)
}

func expiry(t *testing.T, p Pair) {
	cause := make(chan error, 1)
	Serve(t, p.Server, "ch", NewHandler(func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return forwarding.Answer{Approved: true}, nil // too late to count
	}))
	begun := time.Now()
	resp, err := ask(t, p.Requester, "ch", Request("x"))
	if err != nil || resp.Approved || resp.DecidedBy.Kind != wire.KindUnavailable {
		t.Errorf("expired ask: %+v, %v", resp, err)
	}
	if took := time.Since(begun); took > p.Timeout {
		t.Errorf("told after %s, the requester's own limit is %s", took, p.Timeout)
	}
	within(t, "the handler", func() {
		if err := <-cause; !errors.Is(err, forwarding.ErrExpired) {
			t.Errorf("cause %v", err)
		}
	})
}

func unserved(t *testing.T, p Pair) {
	// Somebody else is served here: this is no peer from before heartbeats.
	Serve(t, p.Server, "other", Allow())
	begun := time.Now()
	resp, err := ask(t, p.Requester, "nobody", Request("x"))
	if resp.Approved || !resp.Unavailable || !errors.Is(err, forwarding.ErrUnserved) || resp.DecidedBy.Kind != wire.KindUnavailable {
		t.Fatalf("response %+v, error %v", resp, err)
	}
	if *resp.DecidedBy.Reason != resp.DenialReason {
		t.Errorf("the agent is told %q, the record %q", resp.DenialReason, *resp.DecidedBy.Reason)
	}
	if took := time.Since(begun); took < p.Grace || took >= p.Timeout {
		t.Errorf("gave up after %s, grace %s, limit %s", took, p.Grace, p.Timeout)
	}
}

func lateServer(t *testing.T, p Pair) {
	Serve(t, p.Server, "other", Allow())
	got := make(chan wire.Response, 1)
	go func() {
		resp, _ := p.Requester.Ask(context.Background(), "late", Request("x"))
		got <- resp
	}()
	time.Sleep(p.Grace / 3)
	Serve(t, p.Server, "late", Allow())
	within(t, "the answer", func() {
		if resp := <-got; !resp.Approved {
			t.Errorf("response %+v", resp)
		}
	})
}

func stopServing(t *testing.T, p Pair) {
	started := make(chan struct{}, 1)
	stop := Serve(t, p.Server, "ch", NewHandler(func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		started <- struct{}{}
		<-ctx.Done()
		return forwarding.Answer{}, ctx.Err()
	}))
	got := make(chan wire.Response, 1)
	begun := time.Now()
	go func() {
		resp, _ := p.Requester.Ask(context.Background(), "ch", Request("x"))
		got <- resp
	}()
	within(t, "the ask", func() { <-started })
	stop()
	within(t, "the answer", func() {
		if resp := <-got; resp.Approved {
			t.Errorf("response %+v", resp)
		}
	})
	if took := time.Since(begun); took > p.Timeout/2 {
		t.Errorf("told after %s", took)
	}
	if s := p.Requester.Serving("ch"); s.Served() {
		t.Errorf("still %s after the end", s)
	}
}

func servedOnce(t *testing.T, p Pair) {
	Serve(t, p.Server, "ch", Allow())
	within(t, "the second Serve", func() {
		if err := p.Server.Serve(context.Background(), " ch ", Allow()); !errors.Is(err, forwarding.ErrServed) {
			t.Errorf("second Serve: %v", err)
		}
	})
}

func channels(t *testing.T, p Pair) {
	for _, name := range []string{"a", "b", "a/b c!~*'()", "..."} {
		Serve(t, p.Server, name, NewHandler(func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
			return forwarding.Answer{Approved: a.Channel == name}, nil
		}))
	}
	for _, name := range []string{"a", "b", "a/b c!~*'()", "..."} {
		resp, err := ask(t, p.Requester, name, Request("x"))
		if err != nil || !resp.Approved || resp.ResponderSessionID != name {
			t.Errorf("channel %q: %+v, %v", name, resp, err)
		}
	}
}

func hostileNames(t *testing.T, p Pair) {
	for _, name := range []string{"", " ", "unknown", "UNKNOWN", ".", "..", "a\xff", strings.Repeat("x", 300)} {
		resp, err := ask(t, p.Requester, name, Request("x"))
		if resp.Approved || !resp.Unavailable || !errors.Is(err, forwarding.ErrNotSent) {
			t.Errorf("target %q: %+v, %v", name, resp, err)
		}
		if err := p.Server.Serve(context.Background(), name, Allow()); err == nil {
			t.Errorf("channel %q is served", name)
		}
		if s := p.Requester.Serving(name); s != liveness.Absent {
			t.Errorf("target %q is %s", name, s)
		}
	}
}

func ids(t *testing.T, p Pair) {
	seen := make(chan string, 1)
	Serve(t, p.Server, "ch", NewHandler(func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		seen <- a.ID
		return forwarding.Answer{Approved: true}, nil
	}))
	for _, tt := range []struct {
		id   string
		kept bool
	}{{"perm-1", true}, {"1796039034917-htatw5p1-15779", true}, {"", false}, {"../../x", false}, {"..", false}, {"a b", false}, {strings.Repeat("x", 201), false}} {
		r := Request("x")
		r.ID = tt.id
		if resp, err := ask(t, p.Requester, "ch", r); err != nil || !resp.Approved {
			t.Errorf("id %q: %+v, %v", tt.id, resp, err)
			continue
		}
		if got := <-seen; (got == tt.id) != tt.kept {
			t.Errorf("id %q became %q", tt.id, got)
		}
	}
}

func livenessFollows(t *testing.T, p Pair) {
	Serve(t, p.Server, "other", Allow())
	if s := p.Requester.Serving("ch"); s.Served() {
		t.Errorf("%s before it serves", s)
	}
	stop := Serve(t, p.Server, "ch", Allow())
	if s := p.Requester.Serving("ch"); s != liveness.Alive {
		t.Errorf("%s while it serves", s)
	}
	stop()
	if s := p.Requester.Serving("ch"); s.Served() {
		t.Errorf("%s after it stopped", s)
	}
}

func neverWider(t *testing.T, p Pair) {
	Serve(t, p.Server, "ch", NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		return forwarding.Answer{Approved: true, DecidedBy: wire.ByGrant("bash", "echo *")}, nil
	}))
	r := Request("echo hi")
	r.SessionApproval = &wire.SessionApproval{Grants: []wire.Grant{{Surface: "bash", Pattern: "*"}}}
	if resp, err := ask(t, p.Requester, "ch", r); err != nil || resp.State != wire.Approved || resp.Width == wire.WidthFamily {
		t.Errorf("response %+v, %v", resp, err)
	}
}
