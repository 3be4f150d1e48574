package wire

import "time"

// The numbers of the public protocol. A peer that nobody controls waits, beats
// and gives up by these, so they change only together with the protocol.
const (
	// PollInterval is how often a peer without notification looks.
	PollInterval = 250 * time.Millisecond
	// Timeout is how long a requester waits for an answer.
	Timeout = 600 * time.Second
	// Grace is how long a target may be unserved before its requester gives up.
	Grace = 2 * time.Second
	// Refresh is how often a serving end renews its heartbeat.
	Refresh = time.Second
	// Stale is the age at which a heartbeat no longer counts as fresh.
	Stale = 5 * time.Second
	// MaxDecisionDepth is how many forwarded frames a decision may have. A
	// deeper one is refused whole: cut short it would name the wrong decider.
	MaxDecisionDepth = 4
)

// Limits of this implementation.
const (
	// MaxFile is the most bytes that are read of a request or a response.
	MaxFile = 256 << 10
	// MaxHeartbeat is the most bytes that are read of a heartbeat.
	MaxHeartbeat = 4 << 10
	// maxNesting bounds how deep a document may be nested.
	maxNesting = 64
)

// retryDelays is how long a transient error of the file system is waited out
// between attempts: three retries, 60 ms at most.
var retryDelays = [...]time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond}

// RetryDelays returns the waits between attempts of a rename or mkdir that the
// protocol repeats when another program holds the file for a moment.
func RetryDelays() []time.Duration { return append([]time.Duration(nil), retryDelays[:]...) }
