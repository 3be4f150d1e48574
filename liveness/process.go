package liveness

import (
	"errors"
	"fmt"
)

// Errors about processes.
var (
	// ErrGone: there is no such process, or what has its number is another one.
	ErrGone = errors.New("process is gone")
	// ErrForeign: the process was identified in another pid namespace or boot,
	// so its number means nothing here.
	ErrForeign = errors.New("process was identified elsewhere")
)

// Process identifies one process beyond its number, which is used again: here
// a whole round of numbers takes seconds, in a small namespace milliseconds.
// Values are comparable; a zero field is one that could not be told.
type Process struct {
	PID int `json:"pid"`
	// Start is when it started: clock ticks since boot on Linux, milliseconds
	// since the epoch elsewhere.
	Start uint64 `json:"start"`
	// Boot is the id of the boot, empty where the system has none.
	Boot string `json:"boot,omitempty"`
	// PIDNS is the inode of the pid namespace that PID is meant in.
	PIDNS uint64 `json:"pidns,omitempty"`
	// Handle is the inode of its pidfd, which is never used twice in one boot.
	Handle uint64 `json:"handle,omitempty"`
}

// Identify returns what tells the process with this number, in the caller's
// pid namespace, from any other. ErrGone if there is none; a zombie is gone.
func Identify(pid int) (Process, error) {
	if pid <= 0 {
		return Process{}, fmt.Errorf("process %d: a positive pid expected", pid)
	}
	p, err := identify(pid)
	if err != nil {
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return p, nil
}

// Same reports whether two identities are of one process. What one of them does
// not know is not compared, but the start must be known to both.
func Same(a, b Process) bool {
	if a.PID <= 0 || a.PID != b.PID || a.Start == 0 || a.Start != b.Start {
		return false
	}
	differ := func(x, y uint64) bool { return x != 0 && y != 0 && x != y }
	return !(a.Boot != "" && b.Boot != "" && a.Boot != b.Boot) && !differ(a.PIDNS, b.PIDNS) && !differ(a.Handle, b.Handle)
}

// Check says whether the identified process still runs. Unknowable comes with
// the reason; Gone and Exists come without an error.
func (p Process) Check() (Existence, error) {
	if p.PID <= 0 || p.Start == 0 {
		return Unknowable, fmt.Errorf("process %d: not identified", p.PID)
	}
	boot, ns := here()
	if p.Boot != "" && boot != "" && p.Boot != boot {
		return Gone, nil // whatever ran in an earlier boot ended with it
	}
	if p.PIDNS != 0 && ns != 0 && p.PIDNS != ns {
		return Unknowable, fmt.Errorf("process %d: %w: pid namespace %d, ours is %d", p.PID, ErrForeign, p.PIDNS, ns)
	}
	now, err := Identify(p.PID)
	switch {
	case errors.Is(err, ErrGone):
		return Gone, nil
	case err != nil:
		return Unknowable, err
	case Same(p, now):
		return Exists, nil
	}
	return Gone, nil
}

// Probe says whether there is a process with this number in the caller's pid
// namespace, whichever it is. A number that is not positive is never probed,
// since it addresses groups of processes: Gone. A number that is meant in
// another namespace (ns not 0 and not ours) is Unknowable.
func Probe(pid int, ns uint64) Existence {
	if pid <= 0 {
		return Gone
	}
	if _, ours := here(); ns != 0 && ours != 0 && ns != ours {
		return Unknowable
	}
	return probe(pid)
}

// Here returns the ids of the boot and the pid namespace that this process
// lives in, empty and 0 where the system has none.
func Here() (boot string, pidns uint64) { return here() }
