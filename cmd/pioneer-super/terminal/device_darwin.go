package terminal

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const getTermios = unix.TIOCGETA

// flush throws away what the terminal has received and nobody has read.
func (d *device) flush() {
	const readSide = 1 // FREAD
	unix.IoctlSetPointerInt(d.fd, unix.TIOCFLUSH, readSide)
}

// await waits until fd can be read or written, or wake can be read, for at most
// ms milliseconds (-1: for ever). A hang-up counts as ready. wake may be -1.
//
// It uses select, because poll on this system does not work for terminals.
func await(fd, wake int, write bool, ms int) (ready, woken bool, err error) {
	if fd >= unix.FD_SETSIZE || wake >= unix.FD_SETSIZE {
		return false, false, fmt.Errorf("descriptor %d is beyond what select can watch", max(fd, wake))
	}
	for {
		var r, w unix.FdSet
		if write {
			w.Set(fd)
		} else {
			r.Set(fd)
		}
		if wake >= 0 {
			r.Set(wake)
		}
		var timeout *unix.Timeval
		if ms >= 0 {
			t := unix.NsecToTimeval(int64(ms) * 1e6)
			timeout = &t
		}
		n, err := unix.Select(max(fd, wake)+1, &r, &w, nil, timeout)
		if err == unix.EINTR {
			if ms == 0 {
				return false, false, nil
			}
			continue
		}
		if err != nil {
			return false, false, err
		}
		if n == 0 {
			return false, false, nil
		}
		return r.IsSet(fd) || w.IsSet(fd), wake >= 0 && r.IsSet(wake), nil
	}
}
