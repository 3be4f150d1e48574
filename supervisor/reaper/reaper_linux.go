package reaper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
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
	// Used is the processor time that it and the children that it waited for used,
	// in clock ticks; Memory is its resident set, in pages.
	Used   uint64
	Memory uint64
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
	if len(fields) < 22 {
		return Process{}, fmt.Errorf("/proc/%d/stat has %d fields after the name, expected 22 or more", pid, len(fields))
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: parent: %w", pid, err)
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: start time: %w", pid, err)
	}
	p := Process{PID: pid, Parent: parent, Start: start, State: fields[0][0], Name: string(stat[open+1 : end])}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, _ := strconv.ParseUint(string(field), 10, 64)
		p.Used += ticks
	}
	p.Memory, _ = strconv.ParseUint(string(fields[21]), 10, 64)
	return p, nil
}

// Descendants returns what lives below root, leaves first. Zombies are not in it.
// A child of root that spare names is left out with all that is below it.
func Descendants(root int, spare func(child int) bool) ([]Process, error) {
	out, _, err := descendants(root, spare)
	return out, err
}

// descendants is Descendants, with the parents that were not seen: each is one that
// may not be looked at, or that went while /proc was read, and then who was below
// it is seen below nobody.
func descendants(root int, spare func(child int) bool) (out []Process, missing []int, err error) {
	table, missing, err := lookAll()
	if err != nil {
		return nil, nil, err
	}
	return table.Below(root, spare), missing, nil
}

// Table is every process that was seen in one pass over /proc, by its parent.
type Table map[int][]Process

// Below returns what lives below root, as Descendants does.
func (children Table) Below(root int, spare func(child int) bool) []Process {
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
	return out
}

// LookAll reads every process that can be seen.
func LookAll() (Table, error) {
	children, _, err := lookAll()
	return children, err
}

// lookAll is LookAll, with the parents that are none of what was seen, in order.
func lookAll() (children Table, missing []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	children = Table{}
	seen := map[int]bool{0: true}
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
			seen[pid] = true
		}
	}
	for parent := range children {
		if !seen[parent] {
			missing = append(missing, parent)
		}
	}
	slices.Sort(missing)
	return children, missing, nil
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
	n, _, _ := signalAll(root, sig, spare)
	return n
}

func signalAll(root int, sig unix.Signal, spare func(child int) bool) (n int, missing []int, err error) {
	all, missing, err := descendants(root, spare)
	for _, p := range all {
		if p.Signal(sig) == nil {
			n++
		}
	}
	return n, missing, err
}

// Clear ends everything below the calling process but the children that spare
// names, and returns 0 when nothing of it is seen any more, or the number that is
// left after limit, 1 if that cannot be read. It does not reap: whoever waits for children does.
//
// That nothing is seen is no proof, since a process can be born behind the reader of
// /proc while its parent goes before it: it counts when it is seen twice in a row
// and no further parent is missing. The proof is wait4(2), see Childless.
//
// From the third pass on everything is stopped before it is killed, so that a
// program that forks faster than one pass cannot outrun it.
func Clear(spare func(child int) bool, limit time.Duration) int {
	self := os.Getpid()
	deadline := time.Now().Add(limit)
	wait := time.Millisecond
	empty := 0
	var before []int
	for pass := 0; ; pass++ {
		if pass >= 3 {
			SignalAll(self, unix.SIGSTOP, spare)
		}
		n, missing, err := signalAll(self, unix.SIGKILL, spare)
		if n > 0 || err != nil {
			empty = 0
		} else if slices.Equal(missing, before) {
			empty++
		}
		before = missing
		switch {
		case empty == 2:
			return 0
		case time.Now().After(deadline) && err != nil:
			return max(n, 1) // nobody can say
		case time.Now().After(deadline):
			return n
		}
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// Childless says whether the calling process has no child at all, which the kernel
// knows: below a subreaper that has none nothing is left.
func Childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil), unix.ECHILD)
}
