//go:build !linux

package liveness

import (
	"github.com/shirou/gopsutil/v3/process"
)

func here() (string, uint64) { return "", 0 }

func probe(pid int) Existence {
	there, err := process.PidExists(int32(pid))
	switch {
	case err != nil:
		return Unknowable
	case there:
		return Exists
	}
	return Gone
}

func identify(pid int) (Process, error) {
	if probe(pid) == Gone {
		return Process{}, ErrGone
	}
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return Process{}, err
	}
	start, err := p.CreateTime()
	if err != nil {
		return Process{}, err
	}
	if status, err := p.Status(); err == nil {
		for _, s := range status {
			if s == process.Zombie {
				return Process{}, ErrGone
			}
		}
	}
	return Process{PID: pid, Start: uint64(start)}, nil
}

// Stopped reports whether the process is stopped: it can answer nothing and is
// not dead.
func Stopped(p Process) bool {
	q, err := process.NewProcess(int32(p.PID))
	if err != nil {
		return false
	}
	status, err := q.Status()
	if err != nil {
		return false
	}
	for _, s := range status {
		if s == process.Stop {
			e, _ := p.Check()
			return e == Exists
		}
	}
	return false
}
