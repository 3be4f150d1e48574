package forwarding

import (
	"context"
	"errors"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
)

// Carrier brings asks to the end that serves them, and answers, withdrawals and
// signs of life back. Files are one implementation. It carries; it never judges.
// It is safe for concurrent use.
type Carrier interface {
	// Serve answers the asks of one channel until ctx ends, which it returns as
	// nil, or until the channel cannot be served any more. The handler is told
	// Serving, once, before it is asked anything: a requester that starts after
	// that is never missed. Two Serves of one channel in one Carrier are an error.
	Serve(ctx context.Context, channel string, h Handler) error
	// Ask sends one request to the session that target names and waits for its
	// answer. The response can always be used: what nobody answered, in time or
	// readably, is a denial with Unavailable set and the reason in it, and the
	// error then says the same to a program. An empty or unusable id is replaced
	// by a fresh one. Ending ctx withdraws the request.
	Ask(ctx context.Context, target string, r wire.Request) (wire.Response, error)
	// Serving says whether somebody serves the target now.
	Serving(target string) liveness.State
}

// Handler is the end that serves a channel.
type Handler interface {
	// Handle decides one ask. It is called once for each, concurrently, and may
	// take as long as a person does. When the requester withdraws the ask,
	// replaces it or cannot wait any longer, ctx ends with a cause (ErrWithdrawn,
	// ErrReplaced, ErrExpired) and what Handle returns is discarded. An error is
	// answered as a denial because judging failed. It must not panic.
	Handle(ctx context.Context, a Ask) (Answer, error)
	// Notice reports what happened on the channel besides asks. It must return
	// soon, since the channel waits for it.
	Notice(n Notice)
}

// Ask is one request that came in.
type Ask struct {
	// ID names the ask inside its channel. It is the carrier's own, checked
	// name, never one that only the request claims.
	ID string
	// Channel is the inbox that it came in by. That, and no field of the
	// request, says who asks.
	Channel string
	// Created is when the requester says that it asked.
	Created time.Time
	Request wire.Request
	// Digest is of the bytes as they were read, once.
	Digest [32]byte

	standing func() error
}

// NewAsk is for carriers: standing says whether the ask still stands as it was
// read, with ErrWithdrawn or ErrReplaced if not.
func NewAsk(a Ask, standing func() error) Ask {
	a.standing = standing
	return a
}

// Standing reports whether the ask is still there, unchanged. Whoever is about
// to record a decision, or a grant that it carries, asks this first: a late
// answer to a request that is gone records nothing.
func (a Ask) Standing() error {
	if a.standing == nil {
		return nil
	}
	return a.standing()
}

// Why an ask needs no answer any more; the cause of a handler's context.
var (
	// ErrWithdrawn: the requester took the request away.
	ErrWithdrawn = errors.New("the request was withdrawn")
	// ErrReplaced: another request took its place, and is asked by itself.
	ErrReplaced = errors.New("the request was replaced while it was asked")
	// ErrExpired: the requester cannot wait much longer and is told so.
	ErrExpired = errors.New("nobody answered in time")
)

// Answer is what Handle returns. The zero value denies.
type Answer struct {
	Approved bool
	// Reason is told to the agent.
	Reason    string
	DecidedBy wire.DecisionSource
	// Responder is the session that answers, the channel's own if empty.
	Responder string
}

// Response turns the answer into what is written downward: approved or a denial
// and nothing wider, since a child that was told "for the session" would record
// a pattern of its own and stop asking.
func (a Answer) Response(channel string, now time.Time) wire.Response {
	r := wire.Response{Approved: a.Approved, State: wire.Denied, ResponderSessionID: a.Responder, RespondedAt: now.UnixMilli(), DecidedBy: a.DecidedBy}
	if r.ResponderSessionID == "" {
		r.ResponderSessionID = channel
	}
	switch {
	case a.Approved:
		r.State = wire.Approved
	case a.Reason != "":
		r.State, r.DenialReason = wire.DeniedWithReason, a.Reason
	}
	return r
}

// NoticeKind says what a Notice is about.
type NoticeKind string

const (
	// Serving: the inbox is ready, its heartbeat is published.
	Serving NoticeKind = "serving"
	// Forged: something lies among the answers that this end did not write.
	// Somebody on this channel answers asks itself.
	Forged NoticeKind = "forged"
	// Refused: a request was answered with a denial without being asked.
	Refused NoticeKind = "refused"
	// Dropped: a request was removed without an answer, since nobody waits for one.
	Dropped NoticeKind = "dropped"
	// Withdrawn: an ask went away before its answer.
	Withdrawn NoticeKind = "withdrawn"
	// Stuck: an answer could not be delivered and is tried again, as it is.
	Stuck NoticeKind = "stuck"
	// Delivered: an answer was delivered.
	Delivered NoticeKind = "delivered"
	// Flooded: there is more in the inbox than is read.
	Flooded NoticeKind = "flooded"
	// Rebuilt: the inbox was gone and was made again.
	Rebuilt NoticeKind = "rebuilt"
	// Degraded: something works worse than it should, such as notification that
	// is not available, or a heartbeat that cannot be written.
	Degraded NoticeKind = "degraded"
)

// Notice is something that happened on a channel. Its text may quote a peer and
// must be made visible before it is shown.
type Notice struct {
	Kind    NoticeKind
	Channel string
	// ID is the ask that it is about, or the name of the file where that is no id.
	ID string
	// Reason is one sentence.
	Reason string
	// Err is what happened underneath, nil where nothing failed.
	Err error
}
