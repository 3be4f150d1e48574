package liveness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// probe asks the kernel with the null signal. Not being allowed to signal it
// proves that it is there.
func probe(pid int) Existence {
	switch err := unix.Kill(pid, 0); {
	case err == nil, errors.Is(err, unix.EPERM):
		return Exists
	case errors.Is(err, unix.ESRCH):
		return Gone
	}
	return Unknowable
}

var here = sync.OnceValues(func() (string, uint64) {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var st unix.Stat_t
	// The namespace of our children's pids is the one that we see pids in.
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		st.Ino = 0
	}
	return strings.TrimSpace(string(boot)), st.Ino
})

func identify(pid int) (Process, error) {
	boot, ns := here()
	p := Process{PID: pid, Boot: boot, PIDNS: ns}
	// The handle is taken first: if the number changes hands while /proc is
	// read, the handle says so afterwards.
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
		p.Handle = handleInode(fd)
	case errors.Is(err, unix.ESRCH):
		return Process{}, ErrGone
	case errors.Is(err, unix.EINVAL):
		return Process{}, fmt.Errorf("%w: not the leader of its threads", ErrGone)
	default: // ENOSYS, or a filter
		fd = -1
	}
	start, state, err := readStat(pid)
	if err != nil {
		return Process{}, err
	}
	if state == 'Z' || state == 'X' || fd >= 0 && ended(fd) {
		return Process{}, ErrGone
	}
	p.Start = start
	return p, nil
}

// pidfsMagic marks the file system whose inodes are one to a process. Before
// it, every pidfd shared one anonymous inode.
const pidfsMagic = 0x50494446

func handleInode(fd int) uint64 {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != pidfsMagic || unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// ended reports whether the process of a pidfd has exited.
func ended(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
}

// readStat reads the start time and the state from /proc/PID/stat. The name of
// the program stands in brackets and may hold anything, brackets too.
func readStat(pid int) (start uint64, state byte, err error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		// ESRCH comes from a read of a file that was opened just in time.
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			if probe(pid) == Exists {
				return 0, 0, fmt.Errorf("its /proc entry is not visible")
			}
			return 0, 0, ErrGone
		}
		return 0, 0, err
	}
	i := bytes.LastIndexByte(raw, ')')
	if i < 0 {
		return 0, 0, fmt.Errorf("unexpected /proc stat %q", raw)
	}
	fields := strings.Fields(string(raw[i+1:]))
	const startField = 22 - 3 // the field after the name is the third
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("short /proc stat %q", raw)
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	if err != nil || start == 0 {
		return 0, 0, fmt.Errorf("start time %q in /proc stat", fields[startField])
	}
	return start, fields[0][0], nil
}

// Stopped reports whether the process is stopped by a signal or a tracer: it
// can answer nothing and is not dead.
func Stopped(p Process) bool {
	_, state, err := readStat(p.PID)
	if err != nil || state != 'T' && state != 't' {
		return false
	}
	e, _ := p.Check()
	return e == Exists
}
