package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
	"github.com/getpioneer/pioneer-super/registry"
)

// errand is one ask on its way.
type errand struct {
	s          *Spool
	id, target string
	enc        string
	kick       chan struct{}
}

// Ask sends one request and waits for its answer. See forwarding.Carrier.
func (s *Spool) Ask(ctx context.Context, target string, r wire.Request) (wire.Response, error) {
	if err := s.enter(); err != nil {
		return unavailable(err, "the carrier is closed")
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	normal, ok := registry.NormalizeID(target)
	if !ok {
		return unavailable(forwarding.ErrNotSent, "no session to ask was named")
	}
	enc, err := registry.EncodeID(normal)
	if err != nil {
		return unavailable(forwarding.ErrNotSent, "the session to ask has an unusable id: "+err.Error())
	}
	e := &errand{s: s, target: normal, enc: enc, kick: make(chan struct{}, 1)}
	// The time is counted from here, by a clock that nobody can set.
	begun := time.Now()
	release, err := e.send(r)
	if err != nil {
		s.tidy(enc)
		return unavailable(errors.Join(forwarding.ErrNotSent, err), "the request could not be sent: "+plainReason(err))
	}
	defer release()
	return e.wait(ctx, begun)
}

// unavailable is a denial for want of an answer, in words and as an error.
func unavailable(err error, reason string) (wire.Response, error) {
	return wire.NoAnswer(reason), err
}

// send writes the request. A peer may tidy the directories away between their
// making and the writing, and an id may be taken: both are tried again.
func (e *errand) send(r wire.Request) (release func(), err error) {
	s := e.s
	s.sweepLate()
	r.TargetSessionID = e.target
	if r.CreatedAt == 0 {
		r.CreatedAt = s.o.Now().UnixMilli()
	}
	if r.RequesterSessionID == "" {
		r.RequesterSessionID = "unknown"
	}
	if r.RequesterAgentName == "" {
		r.RequesterAgentName = "unknown"
	}
	if r.Message == "" {
		r.Message = prompt.Sentence(prompt.ForRequest(r, ""))
	}
	if r.Source == "" {
		r.Source = wire.ToolCall
	}
	if !registry.ValidRequestID(r.ID) {
		r.ID = registry.NewRequestID()
	}
	const tries = 8
	for try := 1; ; try++ {
		data, err := r.Encode()
		if err != nil {
			return nil, err
		}
		release, err := e.post(r.ID, data)
		switch {
		case err == nil:
			e.id = r.ID
			return release, nil
		case try == tries:
			return nil, err
		case errors.Is(err, fs.ErrExist):
			r.ID = registry.NewRequestID()
		case !notThere(err):
			return nil, err
		}
	}
}

// post publishes the request, watching for its answer from before.
func (e *errand) post(id string, data []byte) (release func(), err error) {
	requests, responses, _, err := e.s.layout(e.enc)
	if err != nil {
		return nil, err
	}
	defer requests.close()
	defer responses.close()
	release = func() {}
	if e.s.hub != nil {
		// Without a watch the answer is found by looking.
		if r, err := e.s.hub.watch(responses.path, listener{kick: e.kick, arrivals: true}); err == nil {
			release = r
		}
	}
	if _, err := e.s.ops.write(requests, id+suffix, data, true, e.s.o.Now()); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// looks are the waits between looks at the response: an answer from policy is
// there within a millisecond or two, a person's takes seconds.
func looks(n int, slow time.Duration) time.Duration {
	switch {
	case n < 10:
		return time.Millisecond
	case n < 30:
		return 5 * time.Millisecond
	case n < 70:
		return 25 * time.Millisecond
	}
	return slow
}

// wait waits for the answer, for as long as somebody may give it.
func (e *errand) wait(ctx context.Context, begun time.Time) (wire.Response, error) {
	s := e.s
	judge := liveness.Judge{StaleAfter: s.o.Stale}
	var judgedAt, unservedSince time.Time
	state := liveness.Legacy
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		if resp, err, done := e.take(); done {
			return resp, err
		}
		now := time.Now()
		if judgedAt.IsZero() || now.Sub(judgedAt) >= min(s.o.Poll, s.o.Grace/4) {
			judgedAt = now
			o, _ := s.observe(e.target, e.enc)
			if state = judge.Observe(o); !state.Hopeless() {
				unservedSince = time.Time{}
			} else if unservedSince.IsZero() {
				unservedSince = now
			}
		}
		switch {
		case ctx.Err() != nil:
			return e.abandon(ctx.Err(), "the ask was withdrawn")
		case !unservedSince.IsZero() && now.Sub(unservedSince) >= s.o.Grace:
			return e.abandon(fmt.Errorf("%w: %s", forwarding.ErrUnserved, state),
				fmt.Sprintf("session '%s' is not serving forwarded permission requests (%s)", e.target, state))
		case now.Sub(begun) >= s.o.Timeout:
			return e.abandon(forwarding.ErrNoAnswer, fmt.Sprintf("session '%s' did not answer within %s", e.target, s.o.Timeout))
		}
		timer.Reset(min(looks(n, s.o.Poll), s.o.Timeout-now.Sub(begun)))
		select {
		case <-timer.C:
		case <-e.kick:
		case <-ctx.Done():
		}
	}
}

// take reads the answer if it is there, and tidies up after it.
func (e *errand) take() (wire.Response, error, bool) {
	responses, err := e.s.root.walk("sessions", e.enc, "responses")
	if err != nil {
		return wire.Response{}, nil, false
	}
	defer responses.close()
	name := e.id + suffix
	data, _, err := responses.read(name, wire.MaxFile)
	if notThere(err) {
		return wire.Response{}, nil, false
	}
	var resp wire.Response
	switch {
	case err == nil:
		resp, err = wire.ReadResponse(data)
	case !errors.Is(err, errNotRegular) && !errors.Is(err, errTooLarge) && !errors.Is(err, ErrUnsafe):
		// This end's own trouble, such as no descriptor left: it may pass.
		return wire.Response{}, nil, false
	}
	// The response first: a server that still finds the request would otherwise
	// take the answer's place for free.
	_ = responses.clear(name, e.s.o.Now())
	if requests, rerr := e.s.root.walk("sessions", e.enc, "requests"); rerr == nil {
		_ = requests.clear(name, e.s.o.Now())
		requests.close()
	}
	e.s.tidy(e.enc)
	if err != nil {
		resp, err = unavailable(fmt.Errorf("%w: %w", forwarding.ErrUnusable, err), "the answer could not be read: "+plainReason(err))
		return resp, err, true
	}
	if resp.RespondedAt == 0 {
		resp.RespondedAt = e.s.o.Now().UnixMilli()
	}
	return resp, nil, true
}

// abandon takes the request away, which makes it final: an answer that comes
// now is for nobody, and is removed when it is seen.
func (e *errand) abandon(err error, reason string) (wire.Response, error) {
	if requests, responses, ferr := e.s.find(e.enc); ferr == nil {
		_ = requests.clear(e.id+suffix, e.s.o.Now())
		_ = responses.remove(e.id + suffix)
		responses.close()
		requests.close()
	}
	e.s.mu.Lock()
	if len(e.s.late) < maxLate {
		e.s.late = append(e.s.late, lateAnswer{enc: e.enc, id: e.id, since: time.Now()})
	}
	e.s.mu.Unlock()
	e.s.tidy(e.enc)
	return unavailable(err, reason)
}

// lateAnswer is an abandoned ask whose answer may still come.
type lateAnswer struct {
	enc, id string
	since   time.Time
}

// maxLate bounds how many of those are remembered.
const maxLate = 1024

// sweepLate removes answers that came after their ask was abandoned.
func (s *Spool) sweepLate() {
	s.mu.Lock()
	s.late = slices.DeleteFunc(s.late, func(l lateAnswer) bool { return time.Since(l.since) > s.o.Timeout })
	late := slices.Clone(s.late)
	s.mu.Unlock()
	for _, l := range late {
		requests, responses, err := s.find(l.enc)
		if err != nil {
			continue
		}
		name := l.id + suffix
		if e, err := responses.stat(name); err == nil && e.mode.IsRegular() {
			_ = responses.remove(name)
		}
		responses.close()
		requests.close()
		s.tidy(l.enc)
	}
}
