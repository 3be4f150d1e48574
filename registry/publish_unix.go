//go:build unix

package registry

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// publish puts text into dir under name, at once and only if the name is free.
func publish(dir *os.File, name string, text []byte) error {
	at := int(dir.Fd())
	temp := name + ".tmp"
	fd, err := unix.Openat(at, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "openat", Path: temp, Err: err}
	}
	f := os.NewFile(uintptr(fd), temp)
	n, err := f.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		// link(2), unlike rename(2), refuses to replace: the first account of a
		// command's end stands.
		if err = unix.Linkat(at, temp, at, name, 0); err != nil {
			err = &os.LinkError{Op: "linkat", Old: temp, New: name, Err: err}
		}
	}
	_ = unix.Unlinkat(at, temp, 0)
	return err
}
