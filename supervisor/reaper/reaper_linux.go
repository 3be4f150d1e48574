package reaper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one process as it was seen: a number means nothing without the
// start time (clock ticks since boot, proc_pid_stat(5) field 22).
type Process struct {
	PID    int
	Parent int
	Start  uint64
	State  byte
	Name   string
}

// BecomeSubreaper makes orphaned descendants children of this process
// (PR_SET_CHILD_SUBREAPER).
func BecomeSubreaper() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// Look reads one process. A process that is gone is unix.ESRCH.
func Look(pid int) (Process, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			err = unix.ESRCH
		}
		return Process{}, err
	}
	return parse(pid, stat)
}

func parse(pid int, stat []byte) (Process, error) {
	// The name may hold blanks and parentheses: it ends at the last one.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("/proc/%d/stat has %d fields after the name, expected 20 or more", pid, len(fields))
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: parent: %w", pid, err)
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: start time: %w", pid, err)
	}
	return Process{PID: pid, Parent: parent, Start: start, State: fields[0][0], Name: string(stat[open+1 : end])}, nil
}

// Descendants returns what lives below root, leaves first. Zombies are not in it.
// A child of root that spare names is left out with all that is below it.
func Descendants(root int, spare func(child int) bool) ([]Process, error) {
	children, err := table()
	if err != nil {
		return nil, err
	}
	var out []Process
	var walk func(pid, depth int)
	walk = func(pid, depth int) {
		if depth > 4096 {
			return
		}
		for _, p := range children[pid] {
			if depth == 0 && spare != nil && spare(p.PID) {
				continue
			}
			walk(p.PID, depth+1)
			if p.State != 'Z' && p.State != 'X' {
				out = append(out, p)
			}
		}
	}
	walk(root, 0)
	return out, nil
}

func table() (map[int][]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	children := map[int][]Process{}
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := Look(pid); err == nil {
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	return children, nil
}

// Ancestors returns pid and its parents up to the first that spare names, or to
// the top. A parent that cannot be read ends it with the error.
func Ancestors(pid int, stop func(int) bool) ([]Process, error) {
	var out []Process
	for depth := 0; pid > 0 && depth < 4096; depth++ {
		p, err := Look(pid)
		if err != nil {
			return out, err
		}
		out = append(out, p)
		if stop(pid) {
			return out, nil
		}
		pid = p.Parent
	}
	return out, nil
}

// Signal sends sig if p is still the process that was seen, through a pidfd.
// One that has ended meanwhile is no error.
func (p Process) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	// The number is only trusted while the descriptor is open and the start time
	// still is the one that was seen.
	now, err := Look(p.PID)
	if err != nil || now.Start != p.Start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// SignalAll sends sig to everything below root but the children that spare names
// and what is below them, leaves first, and returns to how many.
func SignalAll(root int, sig unix.Signal, spare func(child int) bool) int {
	all, err := Descendants(root, spare)
	if err != nil {
		return 0
	}
	n := 0
	for _, p := range all {
		if p.Signal(sig) == nil {
			n++
		}
	}
	return n
}

// Clear ends everything below the calling process but the children that spare
// names, and returns 0 when nothing of it is left, or the number that is left
// after limit. It does not reap: whoever waits for children does.
//
// From the third pass on everything is stopped before it is killed, so that a
// program that forks faster than one pass cannot outrun it.
func Clear(spare func(child int) bool, limit time.Duration) int {
	self := os.Getpid()
	deadline := time.Now().Add(limit)
	wait := time.Millisecond
	for pass := 0; ; pass++ {
		if pass >= 3 {
			SignalAll(self, unix.SIGSTOP, spare)
		}
		n := SignalAll(self, unix.SIGKILL, spare)
		if n == 0 || time.Now().After(deadline) {
			return n
		}
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
	}
}
