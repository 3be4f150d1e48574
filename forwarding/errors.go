package forwarding

import "errors"

// Why Ask came back without an answer.
var (
	// ErrUnserved: nobody served the target for the whole grace.
	ErrUnserved = errors.New("nobody serves the target session")
	// ErrNoAnswer: the time limit passed.
	ErrNoAnswer = errors.New("the target did not answer in time")
	// ErrUnusable: there was an answer, and it could not be read.
	ErrUnusable = errors.New("the answer could not be read")
	// ErrNotSent: the request could not be delivered.
	ErrNotSent = errors.New("the request could not be sent")
)

// Why a channel cannot be served.
var (
	// ErrServed: this carrier already serves the channel.
	ErrServed = errors.New("the channel is already served")
	// ErrClosed: the carrier was closed.
	ErrClosed = errors.New("the carrier is closed")
)
