package warden

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Call is a system call that a process is about to make. It waits until it is let
// through, or for the end of its process.
type Call struct {
	PID  int    // the process, not the thread
	Role string // argv[0] of the process, as it was before the call
	Name string
}

// watched are the calls by which a process changes something outside of itself, or
// becomes something else. Those that only start a thread, or open a file that is
// there, are let through.
var watched = map[uint32]string{
	unix.SYS_EXECVE: "execve", unix.SYS_CLONE: "clone", unix.SYS_CLONE3: "clone3", unix.SYS_EXIT_GROUP: "exit_group", unix.SYS_SETSID: "setsid",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_OPENAT: "openat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_LINKAT: "linkat", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_FSYNC: "fsync",
	unix.SYS_FALLOCATE: "fallocate", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FLOCK: "flock", unix.SYS_SENDMSG: "sendmsg", unix.SYS_CONNECT: "connect",
	unix.SYS_BIND: "bind", unix.SYS_LISTEN: "listen", unix.SYS_SOCKETPAIR: "socketpair", unix.SYS_DUP3: "dup3", unix.SYS_PRCTL: "prctl",
	unix.SYS_LANDLOCK_RESTRICT_SELF: "landlock_restrict_self", unix.SYS_SECCOMP: "seccomp", unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_KILL: "kill",
}

// The kernel's offsets in struct seccomp_data (linux/seccomp.h), little endian.
const (
	dataNumber = 0
	dataArgs   = 16
)

// program hands the watched calls to a listener and lets all others through. A call
// of another architecture has other numbers; nothing here makes one.
func program() ([]unix.SockFilter, error) {
	prog := []bpf.Instruction{bpf.LoadAbsolute{Off: dataNumber, Size: 4}}
	for number := range watched {
		hand := []bpf.Instruction{bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}}
		switch number {
		case unix.SYS_CLONE:
			hand = unless(0, unix.CLONE_THREAD, hand)
		case unix.SYS_OPENAT:
			hand = append([]bpf.Instruction{
				bpf.LoadAbsolute{Off: dataArgs + 8*2, Size: 4},
				bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_CREAT, SkipTrue: 1},
				bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
			}, hand...)
		}
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: uint8(len(hand))})
		prog = append(prog, hand...)
	}
	prog = append(prog, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return nil, err
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}

// unless lets a call through whose argument has those bits.
func unless(arg, bits uint32, hand []bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArgs + 8*arg, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: bits, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	}, hand...)
}

// become puts the filter on this process, gives its listener away over the
// descriptor that is named, and becomes the program.
func become(args []string) int {
	fail := func(what string, err error) int {
		fmt.Fprintf(os.Stderr, "warden: %s: %v\n", what, err)
		return 99
	}
	socket, err := strconv.Atoi(args[0])
	if err != nil {
		return fail("descriptor", err)
	}
	unix.CloseOnExec(socket)
	filter, err := program()
	if err != nil {
		return fail("filter", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fail("prctl", err)
	}
	// The filter is on this thread alone. The listener is given away by another one,
	// whose calls nobody has to let through.
	runtime.LockOSThread()
	listener, sent, ready := make(chan int), make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(ready)
		sent <- unix.Sendmsg(socket, []byte{0}, unix.UnixRights(<-listener), nil, 0)
	}()
	<-ready
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fail("seccomp", errno)
	}
	unix.CloseOnExec(int(fd))
	listener <- int(fd)
	if err := <-sent; err != nil {
		return fail("sendmsg", err)
	}
	return fail(args[1], syscall.Exec(args[1], args[2:], os.Environ()))
}

// notification is struct seccomp_notif, answer struct seccomp_notif_resp.
type notification struct {
	id     uint64
	thread uint32
	_      uint32
	number uint32
	_      uint32
	_      uint64
	_      [6]uint64
}

type answer struct {
	id    uint64
	_     int64
	_     int32
	flags uint32
}

// serve shows the calls until no process is left that could make one.
func (w *Ward) serve() {
	defer w.calls.Close()
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(w.calls.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return // the program could not be started, which Wait tells
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return
	}
	defer unix.Close(fds[0])
	for {
		poll := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			if poll[0].Revents != 0 {
				return
			}
			continue
		}
		var got notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fds[0]), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&got))); errno != 0 {
			continue // it was killed meanwhile
		}
		if pid, role := who(int(got.thread)); pid != 0 && !w.see(Call{PID: pid, Role: role, Name: watched[got.number]}) {
			continue
		}
		said := answer{id: got.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		unix.Syscall(unix.SYS_IOCTL, uintptr(fds[0]), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&said)))
	}
}

// who is the process that a thread belongs to, and its argv[0]; 0 if it is gone.
func who(thread int) (pid int, role string) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return 0, ""
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTgid:\t"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if pid, err = strconv.Atoi(string(line)); err != nil {
		return 0, ""
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return 0, ""
	}
	first, _, _ := bytes.Cut(args, []byte{0})
	return pid, string(first)
}
