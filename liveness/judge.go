package liveness

import (
	"fmt"
	"time"
)

// State is what is known of whether a session is served.
type State uint8

const (
	// Absent: the peer knows heartbeats, and there is no usable one. This is the
	// zero value: not served.
	Absent State = iota
	// DeadPID: the process that the heartbeat names is gone.
	DeadPID
	// Stale: the process may be there, and has not renewed its heartbeat.
	Stale
	// Alive: a fresh heartbeat of a process that is not known to be gone.
	Alive
	// Legacy: a peer from before heartbeats. Nothing is known; waiting is right.
	Legacy
)

var stateNames = [...]string{Absent: "absent", DeadPID: "dead_pid", Stale: "stale", Alive: "alive", Legacy: "legacy"}

// String returns the word that logs use.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText writes the word.
func (s State) MarshalText() ([]byte, error) {
	if int(s) >= len(stateNames) {
		return nil, fmt.Errorf("liveness state %d is not defined", uint8(s))
	}
	return []byte(stateNames[s]), nil
}

// Served reports whether a session in this state is known to be served.
func (s State) Served() bool { return s == Alive }

// Hopeless reports whether a session in this state is known not to be served:
// if it stays so for the grace, nobody will answer.
func (s State) Hopeless() bool { return s != Alive && s != Legacy }

// Existence is what is known of one process.
type Existence uint8

const (
	// Unknowable: it cannot be told from here, as across a pid namespace. This is
	// the zero value.
	Unknowable Existence = iota
	// Exists: there is such a process. That one is not allowed to signal it
	// proves it too.
	Exists
	// Gone: there is none.
	Gone
)

// Record is what a heartbeat says.
type Record struct {
	PID       int
	UpdatedAt int64 // milliseconds since the epoch by the writer's clock
	// Lock says that the writer claims to hold a lock.
	Lock bool
}

// Observation is everything that was seen at one moment.
type Observation struct {
	// At is a monotonic reading, from any fixed point.
	At time.Duration
	// Wall is the observer's clock, to be compared with the record's.
	Wall time.Time
	// Legacy says that there is no place for heartbeats at all.
	Legacy bool
	// Record is the heartbeat, nil where there is no usable one.
	Record *Record
	// Process is what is known of the process that the record names.
	Process Existence
	// Exited is set where the observer itself learned of the server's end.
	Exited bool
	// Held says whether the lock beside the record is held, nil where that
	// could not be told.
	Held *bool
}

// Judge follows one session through successive observations. The zero value
// has seen nothing. It is not safe for concurrent use.
//
// The first observation can only compare clocks. From the second on what counts
// is that the record changed while the observer's monotonic clock ran, so that
// setting either clock, or sleeping, makes nobody dead who still beats, and
// nobody alive who stopped.
type Judge struct {
	// StaleAfter is the age at which a heartbeat is not fresh any more. Not
	// positive means that nothing is ever fresh.
	StaleAfter time.Duration

	seen      bool
	stamp     int64
	changedAt time.Duration
}

// Observe judges one more observation. Observations must come in the order of At.
func (j *Judge) Observe(o Observation) State {
	if o.Exited {
		return DeadPID
	}
	if o.Record == nil {
		j.seen = false
		if o.Legacy {
			return Legacy
		}
		return Absent
	}
	fresh := j.fresh(o)
	if o.Record.Lock && o.Held != nil && !*o.Held {
		return DeadPID // it said that it holds a lock, and that is free
	}
	held := o.Record.Lock && o.Held != nil
	if o.Process == Gone && !held {
		return DeadPID
	}
	if !fresh {
		return Stale
	}
	return Alive
}

// fresh keeps track of when the record was last seen to change.
func (j *Judge) fresh(o Observation) bool {
	switch {
	case !j.seen:
		j.seen, j.stamp = true, o.Record.UpdatedAt
		age := o.Wall.Sub(time.UnixMilli(o.Record.UpdatedAt))
		// A time in the future is a clock that differs: fresh until seen not to
		// change, which a forgery cannot outlast.
		j.changedAt = o.At - max(0, min(age, j.StaleAfter))
	case o.Record.UpdatedAt != j.stamp:
		j.stamp, j.changedAt = o.Record.UpdatedAt, o.At
	}
	return o.At-j.changedAt < j.StaleAfter
}
