package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/supervisor/keeper"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// peer is who is at the other end of a socket, from the socket itself. With a
// pidfd the number means one process for as long as it is open.
type peer struct {
	pid   int
	uid   int
	pidfd int // -1 where the kernel has none
}

var errPeerGone = errors.New("the process at the other end is gone, or cannot be inspected")

// soPeerPidfd is SO_PEERPIDFD of socket(7), Linux 6.5.
const soPeerPidfd = 77

func peerOf(u *net.UnixConn) (peer, error) {
	raw, err := u.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	p := peer{pidfd: -1}
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			inner = err
			return
		}
		p.pid, p.uid = int(cred.Pid), int(cred.Uid)
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soPeerPidfd); err == nil {
			p.pidfd = n
			unix.CloseOnExec(n)
		} else if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			// The kernel has it and the process is gone.
			inner = errPeerGone
		}
	})
	if err == nil {
		err = inner
	}
	if err == nil && p.pid <= 0 {
		err = fmt.Errorf("the process at the other end is in another pid namespace: %w", errPeerGone)
	}
	if err == nil && p.uid != os.Getuid() {
		err = fmt.Errorf("the process at the other end belongs to uid %d, this tree to %d", p.uid, os.Getuid())
	}
	if err != nil {
		p.close()
		return peer{}, err
	}
	return p, nil
}

func (p peer) close() {
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
	}
}

// alive says whether the process still runs. Without a pidfd it cannot be known.
func (p peer) alive() bool {
	if p.pidfd < 0 {
		return false
	}
	return !readable(p.pidfd)
}

// whenGone calls do once the process has ended, unless over ends first. It waits
// for a descriptor of its own: close may come at any time. Where the kernel gives
// no pidfd there is nothing to wait for, and the connection's end has to do.
func (p peer) whenGone(over <-chan struct{}, do func()) {
	if p.pidfd < 0 {
		return
	}
	fd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return
	}
	// In the runtime's poller, which a pidfd is made for: it costs no thread.
	if unix.SetNonblock(fd, true) != nil {
		unix.Close(fd)
		return
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return
	}
	gone := make(chan error, 1)
	go func() { gone <- raw.Read(func(fd uintptr) bool { return readable(int(fd)) }) }()
	select {
	case <-over:
		file.Close()
		<-gone
	case err := <-gone:
		file.Close()
		if err == nil {
			do()
		}
	}
}

func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// keeperAbove walks from the peer up to the first process that known names. The
// walk counts only if the peer is alive after it and is read twice the same:
// numbers are reused.
func (p peer) keeperAbove(known func(int) bool) (int, error) {
	walk := func() (int, uint64, error) {
		chain, err := reaper.Ancestors(p.pid, known)
		if err != nil {
			return 0, 0, errPeerGone
		}
		last := chain[len(chain)-1]
		if !known(last.PID) {
			return 0, chain[0].Start, nil
		}
		return last.PID, chain[0].Start, nil
	}
	first, start, err := walk()
	if err != nil {
		return 0, err
	}
	second, again, err := walk()
	if err != nil {
		return 0, err
	}
	if first != second || start != again || !p.alive() {
		return 0, errPeerGone
	}
	return first, nil
}

// inSomeTree says whether the peer lives below a keeper of any tree, or in other
// namespaces than this process: it is then refused as a human whatever it knows.
func (p peer) inSomeTree() (string, error) {
	for _, ns := range []string{"pid", "user"} {
		mine, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			return "", err
		}
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.pid, ns))
		if err != nil {
			return "", errPeerGone
		}
		if mine != theirs {
			return "it is in another " + ns + " namespace", nil
		}
	}
	chain, err := reaper.Ancestors(p.pid, func(int) bool { return false })
	if err != nil {
		return "", errPeerGone
	}
	for _, a := range chain {
		if name, tree := processName(a.PID); name == keeper.KeeperName {
			return "it is a process of the tree " + tree, nil
		}
	}
	if !p.alive() {
		return "", errPeerGone
	}
	return "", nil
}
