package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// desk is the other end of an endpoint: what a human's client sees.
type desk struct {
	t    *testing.T
	conn *control.Conn
	e    *endpoint
	in   chan control.Message
}

type room struct {
	t *testing.T
	h *humans

	mu      sync.Mutex
	refused []string
}

func newRoom(t *testing.T, phrase []byte) *room {
	r := &room{t: t}
	r.h = newHumans(phrase, func(why string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, why)
	})
	return r
}

func (r *room) whys() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.refused, "\n")
}

func (r *room) seat(proof Proof) *desk {
	r.t.Helper()
	a, b, err := control.Pair()
	if err != nil {
		r.t.Fatal(err)
	}
	ours, err := control.FromFile(a)
	if err != nil {
		r.t.Fatal(err)
	}
	theirs, err := control.FromFile(b)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &desk{t: r.t, conn: theirs, e: r.h.attach(ours, proof), in: make(chan control.Message, 1024)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			var m control.Message
			if theirs.Recv(&m) != nil {
				return
			}
			d.in <- m
		}
	}()
	r.t.Cleanup(func() { r.h.detach(d.e); ours.Close(); theirs.Close(); <-done })
	return d
}

func (d *desk) next() control.Message {
	d.t.Helper()
	select {
	case m := <-d.in:
		return m
	case <-time.After(10 * time.Second):
		d.t.Fatal("nothing was shown")
	}
	return control.Message{}
}

func (d *desk) nothing(within time.Duration) {
	d.t.Helper()
	select {
	case m := <-d.in:
		d.t.Fatalf("shown: %+v", m)
	case <-time.After(within):
	}
}

type said struct {
	humanAnswer
	err error
}

func (r *room) ask(ctx context.Context, q control.Question) <-chan said {
	out := make(chan said, 1)
	go func() {
		a, err := r.h.ask(ctx, q)
		out <- said{a, err}
	}()
	return out
}

func open(t *testing.T, c <-chan said) {
	t.Helper()
	select {
	case a := <-c:
		t.Fatalf("the question was closed: %+v", a)
	case <-time.After(20 * time.Millisecond):
	}
}

func result(t *testing.T, c <-chan said) said {
	t.Helper()
	select {
	case a := <-c:
		return a
	case <-time.After(10 * time.Second):
		t.Fatal("the question is still open")
	}
	return said{}
}

var plain = control.Question{ID: "q1", Digest: "d1", Session: "s1", TurnAllowed: true,
	Offers: []control.Offer{{Key: "w", Changeable: true}, {Key: "x"}, {Key: "f", On: true}}}

func TestTheFirstValidAnswerStands(t *testing.T) {
	r := newRoom(t, nil)
	first, second := r.seat(ProofTerminal), r.seat(ProofPaired)
	asked := r.ask(t.Context(), plain)
	for _, d := range []*desk{first, second} {
		if m := d.next(); m.Question == nil || m.Question.ID != "q1" {
			t.Fatalf("shown %+v", m)
		}
	}
	stranger := &endpoint{proof: ProofTerminal, conn: first.conn}
	for why, bad := range map[string]struct {
		from *endpoint
		a    control.Answer
	}{
		"another record":              {first.e, control.Answer{ID: "q1", Digest: "d2", Decision: "allow_once"}},
		"no digest":                   {first.e, control.Answer{ID: "q1", Decision: "allow_once"}},
		"a pattern nobody offered":    {first.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_always"}},
		"no decision":                 {first.e, control.Answer{ID: "q1", Digest: "d1"}},
		"a line nobody offered":       {first.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once", Offers: []string{"O"}}},
		"a line that cannot be moved": {first.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once", Offers: []string{"x"}}},
		"an endpoint that is none":    {stranger, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once"}},
	} {
		before := r.whys()
		r.h.answer(bad.from, bad.a)
		open(t, asked)
		if r.whys() == before {
			t.Errorf("%s: nothing was told to the audit", why)
		}
	}
	r.h.answer(second.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once", Offers: []string{"w", "f"}})
	r.h.answer(first.e, control.Answer{ID: "q1", Digest: "d1", Decision: "deny"})
	a := result(t, asked)
	if a.err != nil || a.Decision != "allow_once" || a.Proof != ProofPaired || fmt.Sprint(a.Offers) != "[w f]" {
		t.Fatalf("answered %+v", a)
	}
	for _, d := range []*desk{first, second} {
		if m := d.next(); m.Withdraw == nil || m.Withdraw.ID != "q1" {
			t.Errorf("after the answer: %+v", m)
		}
	}
}

func TestTurnNeedsItsOfferOrThePhrase(t *testing.T) {
	phrase := HashPhrase("t1", "open sesame")
	r := newRoom(t, phrase)
	d := r.seat(ProofTerminal)
	q := plain
	q.TurnAllowed, q.TurnPattern = false, ""
	// What has no pattern is never kept, whoever asks for it.
	q.ID, q.Digest = "q0", "d0"
	never := r.ask(t.Context(), q)
	d.next()
	r.h.answer(d.e, control.Answer{ID: "q0", Digest: "d0", Decision: "allow_for_turn", Phrase: phrase})
	open(t, never)
	q = plain
	q.TurnAllowed, q.TurnPattern = false, "exactly this"
	asked := r.ask(t.Context(), q)
	d.next()
	turn := control.Answer{ID: "q1", Digest: "d1", Decision: "allow_for_turn"}
	r.h.answer(d.e, turn)
	open(t, asked)
	turn.Phrase = HashPhrase("t1", "open barley")
	r.h.answer(d.e, turn)
	open(t, asked)
	turn.Phrase = phrase
	r.h.answer(d.e, turn)
	if a := result(t, asked); a.err != nil || a.Decision != "allow_for_turn" {
		t.Fatalf("with the phrase: %+v", a)
	}
}

// TestAnAllowThatNeedsThePhrase: without it the question stays open, and is shown
// again where its dialog was closed by a wrong one.
func TestAnAllowThatNeedsThePhrase(t *testing.T) {
	phrase := HashPhrase("t1", "open sesame")
	r := newRoom(t, phrase)
	d := r.seat(ProofTerminal)
	q := plain
	q.PhraseNeeded = true
	asked := r.ask(t.Context(), q)
	d.next()
	for _, a := range []control.Answer{
		{ID: "q1", Digest: "d1", Decision: "allow_once"},
		{ID: "q1", Digest: "d1", Decision: "allow_once", Phrase: HashPhrase("t2", "open sesame")},
	} {
		r.h.answer(d.e, a)
		open(t, asked)
		if m := d.next(); m.Question == nil || m.Question.ID != "q1" {
			t.Fatalf("after an answer without the phrase: %+v", m)
		}
	}
	r.h.answer(d.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once", Phrase: phrase})
	if a := result(t, asked); a.err != nil || a.Decision != "allow_once" || a.Proof != ProofPhrase {
		t.Fatalf("with the phrase: %+v", a)
	}
	// A denial needs nothing.
	q.ID, q.Digest = "q2", "d2"
	asked = r.ask(t.Context(), q)
	for m := d.next(); m.Question == nil; m = d.next() {
	}
	r.h.answer(d.e, control.Answer{ID: "q2", Digest: "d2", Decision: "deny"})
	if a := result(t, asked); a.err != nil || a.Decision != "deny" || a.Proof != ProofTerminal {
		t.Fatalf("a denial: %+v", a)
	}
}

func TestNoticesReachEveryEndpointButOne(t *testing.T) {
	r := newRoom(t, nil)
	first, second := r.seat(ProofTerminal), r.seat(ProofPaired)
	r.h.notify("changed", first.e.conn)
	if m := second.next(); m.Notice == nil || m.Notice.Text != "changed" {
		t.Errorf("the second was told %+v", m)
	}
	r.ask(t.Context(), plain)
	if m := first.next(); m.Question == nil {
		t.Errorf("the first was told %+v", m)
	}
}

func TestThreeWrongPhrasesLock(t *testing.T) {
	right := HashPhrase("t1", "open sesame")
	r := newRoom(t, right)
	if !r.h.phraseProves(right) {
		t.Fatal("the right phrase is refused: nothing is shown")
	}
	for i := range maxWrongPhrases {
		if r.h.phraseProves(HashPhrase("t1", fmt.Sprint("guess", i))) {
			t.Fatal("a wrong phrase proves")
		}
	}
	if r.h.phraseProves(right) {
		t.Error("the right phrase proves after three wrong ones")
	}
	if n := strings.Count(r.whys(), "wrong phrase"); n != maxWrongPhrases {
		t.Errorf("%d wrong phrases were told to the audit", n)
	}
	// The phrase of one tree is none of another, and no phrase is no way in.
	if newRoom(t, right).h.phraseProves(HashPhrase("t2", "open sesame")) {
		t.Error("the phrase proves for another tree")
	}
	if newRoom(t, nil).h.phraseProves(nil) {
		t.Error("a tree without a phrase is opened by none")
	}
}

func TestPairingIsForTheTerminalAlone(t *testing.T) {
	for name, typed := range map[string]struct {
		answer control.Answer
		ok     bool
	}{
		"the code":     {control.Answer{Decision: "code", Code: "abcd-efgh"}, true},
		"another code": {control.Answer{Decision: "code", Code: "abcd-efgi"}, false},
		"no code":      {control.Answer{Decision: "code"}, false},
		"a denial":     {control.Answer{Decision: "deny"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, nil)
			front, paired := r.seat(ProofTerminal), r.seat(ProofPaired)
			done := make(chan error, 1)
			go func() { done <- r.h.pair(t.Context(), "p1", "abcd-efgh", "pid 7") }()
			m := front.next()
			if m.Question == nil || !m.Question.Pairing || !strings.Contains(m.Question.Reason, "pid 7") {
				t.Fatalf("shown %+v", m)
			}
			paired.nothing(50 * time.Millisecond)
			// Somebody who is paired cannot pair others, and yes is no code.
			r.h.answer(paired.e, control.Answer{ID: "p1", Digest: "p1", Decision: "code", Code: "abcd-efgh"})
			r.h.answer(front.e, control.Answer{ID: "p1", Digest: "p1", Decision: "allow_once"})
			select {
			case err := <-done:
				t.Fatalf("ended with %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			typed.answer.ID, typed.answer.Digest = "p1", "p1"
			r.h.answer(front.e, typed.answer)
			if err := <-done; (err == nil) != typed.ok {
				t.Errorf("paired: %v", err)
			}
		})
	}
}

func TestNobodyIsTheAnswerAtOnce(t *testing.T) {
	r := newRoom(t, nil)
	begun := time.Now()
	if _, err := r.h.ask(t.Context(), plain); !errors.Is(err, ErrNobody) || time.Since(begun) > time.Second {
		t.Fatalf("without an endpoint: %v after %s", err, time.Since(begun))
	}
	// The last one goes while a question waits: it is denied after the grace, not
	// at once and not never. One that comes back meanwhile is shown it again.
	d := r.seat(ProofTerminal)
	asked := r.ask(t.Context(), plain)
	d.next()
	r.h.detach(d.e)
	open(t, asked)
	back := r.seat(ProofTerminal)
	if m := back.next(); m.Question == nil || m.Question.ID != "q1" {
		t.Fatalf("shown to the one that came back: %+v", m)
	}
	begun = time.Now()
	r.h.detach(back.e)
	a := result(t, asked)
	if waited := time.Since(begun); !errors.Is(a.err, ErrNobody) || waited < lostEndpointWait/2 || waited > 3*lostEndpointWait {
		t.Fatalf("after the last one went: %+v after %s", a, waited)
	}
	// A late answer of the one that went decides nothing.
	r.h.answer(back.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once"})
	if !strings.Contains(r.whys(), errNotProven.Error()) {
		t.Errorf("a late answer was not told to the audit: %s", r.whys())
	}
}

func TestAnAskerThatGoesWithdraws(t *testing.T) {
	r := newRoom(t, nil)
	d := r.seat(ProofTerminal)
	ctx, cancel := context.WithCancel(t.Context())
	asked := r.ask(ctx, plain)
	d.next()
	cancel()
	if a := result(t, asked); !errors.Is(a.err, context.Canceled) {
		t.Fatalf("%+v", a)
	}
	if m := d.next(); m.Withdraw == nil || m.Withdraw.ID != "q1" {
		t.Fatalf("shown %+v", m)
	}
	r.h.answer(d.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once"})
	if r.whys() != "" {
		t.Errorf("an answer to a question that is gone is no attack: %s", r.whys())
	}
}

func TestOneNoisySessionDoesNotTakeEveryPlace(t *testing.T) {
	r := newRoom(t, nil)
	r.seat(ProofTerminal)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan said
	for i := range maxPerSession {
		q := plain
		q.ID = fmt.Sprint("noisy", i)
		waiting = append(waiting, r.ask(ctx, q))
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.h.mu.Lock()
		n := len(r.h.waiting)
		r.h.mu.Unlock()
		if n == maxPerSession {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d questions wait", n)
		}
	}
	q := plain
	q.ID = "one too many"
	if _, err := r.h.ask(ctx, q); !errors.Is(err, ErrTooManyAsks) {
		t.Errorf("one more of that session: %v", err)
	}
	q.ID, q.Session = "sibling", "s2"
	sibling := r.ask(ctx, q)
	open(t, sibling)
	cancel()
	for _, w := range append(waiting, sibling) {
		result(t, w)
	}
}

// A front that is stopped reads nothing, and its connection is the tree's lifeline.
func TestAnEndpointThatDoesNotReadIsKept(t *testing.T) {
	r := newRoom(t, nil)
	a, b, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := control.FromFile(a)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	stopped, err := control.FromFile(b)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	slow := r.h.attach(ours, ProofTerminal)
	defer r.h.detach(slow)
	other := r.seat(ProofPaired)
	// More than the socket holds, and then many that come and go.
	large := plain
	large.ID, large.Command = "large", strings.Repeat("x", 1<<20)
	first := r.ask(t.Context(), large)
	if m := other.next(); m.Question == nil || m.Question.ID != "large" {
		t.Fatalf("shown to the one that reads: %+v", m.Question != nil)
	}
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		q := plain
		q.ID = fmt.Sprint("gone", i)
		asked := r.ask(ctx, q)
		if m := other.next(); m.Question == nil || m.Question.ID != q.ID {
			t.Fatalf("shown %+v", m)
		}
		cancel()
		result(t, asked)
		if m := other.next(); m.Withdraw == nil || m.Withdraw.ID != q.ID {
			t.Fatalf("shown %+v", m)
		}
	}
	time.Sleep(5500 * time.Millisecond) // longer than a write was once given
	last := r.ask(t.Context(), plain)
	open(t, first)
	open(t, last)
	for _, want := range []string{"large", "q1"} {
		var m control.Message
		if err := stopped.Recv(&m); err != nil || m.Question == nil || m.Question.ID != want {
			t.Fatalf("read late: %v, %+v, expected the question %s", err, m.Withdraw, want)
		}
	}
	r.h.answer(slow, control.Answer{ID: "large", Digest: "d1", Decision: "deny"})
	r.h.answer(slow, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once"})
	if a := result(t, last); a.err != nil || a.Decision != "allow_once" {
		t.Errorf("answered %+v", a)
	}
	if a := result(t, first); a.err != nil || a.Decision != "deny" {
		t.Errorf("answered %+v", a)
	}
}

func TestAQuestionThatFitsInNoFrameIsItsAskersFailure(t *testing.T) {
	r := newRoom(t, nil)
	d := r.seat(ProofTerminal)
	q := plain
	q.Surface = strings.Repeat("x", control.MaxFrame/2)
	q.Rule = q.Surface
	if _, err := r.h.ask(t.Context(), q); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	asked := r.ask(t.Context(), plain)
	if m := d.next(); m.Question == nil || m.Question.ID != "q1" {
		t.Fatalf("the endpoint afterwards: %+v", m)
	}
	r.h.answer(d.e, control.Answer{ID: "q1", Digest: "d1", Decision: "deny"})
	result(t, asked)
}

// An id is its client's word, and a child may repeat its sibling's.
func TestTwoQuestionsWithOneId(t *testing.T) {
	r := newRoom(t, nil)
	d := r.seat(ProofTerminal)
	ctx, cancel := context.WithCancel(t.Context())
	copied := plain
	copied.Session, copied.Digest = "s2", "d2"
	theirs := r.ask(ctx, copied)
	d.next()
	mine := r.ask(t.Context(), plain)
	d.next()
	cancel()
	result(t, theirs)
	if m := d.next(); m.Withdraw == nil || m.Withdraw.ID != "q1" || m.Withdraw.Digest != "d2" {
		t.Fatalf("withdrawn %+v", m.Withdraw)
	}
	open(t, mine)
	theirs = r.ask(t.Context(), copied)
	d.next()
	r.h.answer(d.e, control.Answer{ID: "q1", Digest: "d2", Decision: "deny"})
	if a := result(t, theirs); a.err != nil || a.Decision != "deny" {
		t.Errorf("the second of that id: %+v", a)
	}
	open(t, mine)
	r.h.answer(d.e, control.Answer{ID: "q1", Digest: "d1", Decision: "allow_once"})
	if a := result(t, mine); a.err != nil || a.Decision != "allow_once" {
		t.Errorf("the first of that id: %+v", a)
	}
	if r.whys() != "" {
		t.Errorf("refused: %s", r.whys())
	}
}

// TestThatItCouldNotBeShownIsNoAnswer: also from an endpoint that came after the
// last one went.
func TestThatItCouldNotBeShownIsNoAnswer(t *testing.T) {
	for name, late := range map[string]bool{"at once": false, "after the last one went": true} {
		r := newRoom(t, nil)
		d := r.seat(ProofTerminal)
		asked := r.ask(t.Context(), plain)
		d.next()
		if late {
			r.h.detach(d.e)
			time.Sleep(100 * time.Millisecond)
			d = r.seat(ProofPaired)
			d.next()
		}
		r.h.answer(d.e, control.Answer{ID: "q1", Digest: "d1", Decision: "unavailable", Reason: "no screen"})
		if a := result(t, asked); !errors.Is(a.err, ErrNobody) || a.allows() {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, decision := range []string{"", "deny", "unavailable", "code", "ALLOW_ONCE"} {
		if (humanAnswer{Answer: control.Answer{Decision: decision}}).allows() {
			t.Errorf("%q allows", decision)
		}
	}
}
