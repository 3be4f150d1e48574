//go:build unix

package control

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func rights(files []*os.File) (oob []byte, release func(), err error) {
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return nil, nil, err
		}
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return nil, nil, err
		}
	}
	return unix.UnixRights(fds...), func() {}, nil
}

func rightsSpace(limit int) int { return unix.CmsgSpace((limit + 1) * 4) }

func readMsg(u *net.UnixConn, b, oob []byte) (n, oobn int, truncated bool, err error) {
	n, oobn, flags, _, err := u.ReadMsgUnix(b, oob)
	return n, oobn, flags&unix.MSG_CTRUNC != 0, err
}

func parseRights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// Pair returns two connected unix stream sockets, both close-on-exec.
func Pair() (a, b *os.File, err error) {
	return pair(unix.SOCK_STREAM)
}

// PacketPair returns two connected unix sockets that keep message boundaries.
func PacketPair() (a, b *os.File, err error) {
	return pair(unix.SOCK_SEQPACKET)
}

func pair(kind int) (a, b *os.File, err error) {
	// Darwin has no SOCK_CLOEXEC: hold off forks until the flags are set.
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "pair"), os.NewFile(uintptr(fds[1]), "pair"), nil
}
