package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hold keeps space for n bytes at off without making the file longer.
func hold(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
