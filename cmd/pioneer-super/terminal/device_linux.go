package terminal

import "golang.org/x/sys/unix"

const getTermios = unix.TCGETS

// flush throws away what the terminal has received and nobody has read.
func (d *device) flush() { unix.IoctlSetInt(d.fd, unix.TCFLSH, unix.TCIFLUSH) }

// await waits until fd can be read or written, or wake can be read, for at most
// ms milliseconds (-1: for ever). A hang-up counts as ready. wake may be -1.
func await(fd, wake int, write bool, ms int) (ready, woken bool, err error) {
	events := int16(unix.POLLIN)
	if write {
		events = unix.POLLOUT
	}
	set := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set, ms)
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
		return set[0].Revents != 0, set[1].Revents != 0, nil
	}
}
