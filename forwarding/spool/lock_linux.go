package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock is a lock that ends with whoever holds it, however that ends. It is seen
// across pid namespaces, where no pid says anything, and peers of the public
// protocol do not look at it.
type lock struct {
	file *os.File
	id   fileID
}

// lock takes the lock of a name, which stays with an open descriptor and not
// with a process: what this process forks and does not hand it cannot keep it.
func (d dir) lock(name string) (*lock, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, fault("open", d.join(name), err)
	}
	l := &lock{file: os.NewFile(uintptr(fd), name)}
	err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		l.release()
		return nil, fault("lock", d.join(name), err)
	}
	l.id = entryOf(&st).fileID
	return l, nil
}

func (l *lock) release() {
	if l != nil {
		_ = l.file.Close()
	}
}

// stands reports whether the lock is still the one that others find by name.
func (l *lock) stands(d dir, name string) bool {
	if l == nil {
		return false
	}
	e, err := d.stat(name)
	return err == nil && e.same(l.id)
}

// held says whether somebody holds the lock of a name, nil if that cannot be told.
func (d dir) held(name string) *bool {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	// A shared lock is asked for, which a descriptor for reading may.
	probe := unix.Flock_t{Type: unix.F_RDLCK}
	if unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &probe) != nil {
		return nil // a kernel, or a file system, without such locks
	}
	h := probe.Type != unix.F_UNLCK
	return &h
}
