package registry

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

// holdFile takes an open-file-description lock beside the flock: it can be asked
// for (F_OFD_GETLK) without being taken, so that however many look, none is ever
// in the way of a supervisor that starts.
func holdFile(root *os.Root) (io.Closer, error) {
	f, err := durable.OpenFile(root, lockName, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrHeld
		}
		return nil, err
	}
	return f, nil
}

func held(f *os.File) (bool, error) {
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole); err != nil {
		return false, err
	}
	return whole.Type != unix.F_UNLCK, nil
}
