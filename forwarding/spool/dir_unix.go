//go:build linux || darwin

package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const errQuota = unix.EDQUOT

// euid is who we are; this process never changes it.
var euid = os.Geteuid()

// dir is an open directory. All work below it is by single names.
type dir struct {
	fd   int
	path string // for messages and watches; never opened
	once *sync.Once
}

func (d dir) close() { d.once.Do(func() { _ = unix.Close(d.fd) }) }

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// ignoringEINTR repeats a call that a signal interrupted, as every call on a
// slow or remote file system may be.
func ignoringEINTR(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openRoot opens the forwarding root, making it if it is not there.
func openRoot(path string) (dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return dir{}, err
	}
	if err := patiently(func() error { return os.MkdirAll(filepath.Dir(path), 0o700) }); err != nil {
		return dir{}, err
	}
	if err := patiently(func() error { return os.Mkdir(path, 0o700) }); err != nil && !errors.Is(err, fs.ErrExist) {
		return dir{}, err
	}
	return openDir(unix.AT_FDCWD, path, path)
}

// openDir opens one directory, refusing a link in its place, a foreign owner
// and one that others may write.
func openDir(at int, name, path string) (dir, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(at, name, openDirFlags, 0)
		return err
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return dir{}, fault("open", path, fmt.Errorf("%w: not a directory, or a symbolic link", ErrUnsafe))
	}
	if err != nil {
		return dir{}, fault("open", path, err)
	}
	return checked(fd, path)
}

// checked takes a descriptor of a directory, if nobody else may change that.
func checked(fd int, path string) (dir, error) {
	d := dir{fd: fd, path: path, once: new(sync.Once)}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		d.close()
		return dir{}, fault("stat", path, err)
	}
	if int(st.Uid) != euid {
		d.close()
		return dir{}, fault("open", path, fmt.Errorf("%w: it belongs to user %d, expected %d", ErrUnsafe, st.Uid, euid))
	}
	if st.Mode&0o022 != 0 {
		d.close()
		return dir{}, fault("open", path, fmt.Errorf("%w: mode %04o lets others write, expected 0700", ErrUnsafe, st.Mode&0o7777))
	}
	return d, nil
}

func (d dir) join(name string) string { return d.path + "/" + name }

// open opens a directory in this one.
func (d dir) open(name string) (dir, error) { return openDir(d.fd, name, d.join(name)) }

// walk opens a directory some levels down. No level may be a link.
func (d dir) walk(names ...string) (dir, error) {
	if sub, err := d.walkAtOnce(names); !errors.Is(err, errors.ErrUnsupported) {
		return sub, err
	}
	at := d
	for i, name := range names {
		sub, err := at.open(name)
		if i > 0 {
			at.close()
		}
		if err != nil {
			return dir{}, err
		}
		at = sub
	}
	return at, nil
}

// make opens a directory in this one, making it 0700 if it is not there.
func (d dir) make(name string) (dir, bool, error) {
	made := false
	err := patiently(func() error {
		err := ignoringEINTR(func() error { return unix.Mkdirat(d.fd, name, 0o700) })
		if err == nil {
			made = true
		}
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	})
	if err != nil {
		return dir{}, false, fault("mkdir", d.join(name), err)
	}
	sub, err := d.open(name)
	return sub, made, err
}

// stat says what is at a name, following nothing.
func (d dir) stat(name string) (entry, error) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return entry{}, fault("stat", d.join(name), err)
	}
	return entryOf(&st), nil
}

func entryOf(st *unix.Stat_t) entry {
	e := entry{fileID: fileID{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: mtime(st), ctime: ctime(st)}, owner: int(st.Uid)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		e.mode = fs.ModeDir
	case unix.S_IFLNK:
		e.mode = fs.ModeSymlink
	default:
		e.mode = fs.ModeIrregular
	}
	e.mode |= fs.FileMode(st.Mode & 0o777)
	return e
}

// read returns the bytes of a regular file of ours that has at most limit, and
// which file that was. A link is not followed, a FIFO does not block, a device
// is not opened, and a file that is larger is not read.
func (d dir) read(name string, limit int) ([]byte, fileID, error) {
	// Looked at before it is opened, since opening some devices acts.
	e, err := d.stat(name)
	if err != nil {
		return nil, fileID{}, err
	}
	if !e.mode.IsRegular() {
		return nil, e.fileID, fault("read", d.join(name), errNotRegular)
	}
	var fd int
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	if errors.Is(err, unix.ELOOP) {
		return nil, fileID{}, fault("read", d.join(name), errNotRegular)
	}
	if err != nil {
		return nil, fileID{}, fault("open", d.join(name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fileID{}, fault("stat", d.join(name), err)
	}
	e = entryOf(&st)
	switch {
	case !e.mode.IsRegular():
		return nil, e.fileID, fault("read", d.join(name), errNotRegular)
	case e.owner != euid:
		return nil, e.fileID, fault("read", d.join(name), fmt.Errorf("%w: it belongs to user %d", ErrUnsafe, e.owner))
	case e.size > int64(limit):
		return nil, e.fileID, fault("read", d.join(name), fmt.Errorf("%w: %d bytes, at most %d expected", errTooLarge, e.size, limit))
	}
	buf := make([]byte, min(int(e.size)+1, limit+1))
	n := 0
	for {
		var got int
		err := ignoringEINTR(func() (err error) {
			got, err = unix.Read(fd, buf[n:])
			return err
		})
		if err != nil {
			return nil, e.fileID, fault("read", d.join(name), err)
		}
		if got == 0 {
			return buf[:n], e.fileID, nil
		}
		if n += got; n > limit {
			return nil, e.fileID, fault("read", d.join(name), fmt.Errorf("%w: more than %d bytes", errTooLarge, limit))
		}
		if n == len(buf) { // it grew while it was read
			buf = append(buf, make([]byte, min(len(buf), limit+1-n))...)
		}
	}
}

// write publishes data under a name: whole or not at all, 0600, and, if
// exclusive, only where nothing is there (fs.ErrExist otherwise). It is not
// synced: a power cut ends both ends of an ask.
func (d dir) write(name string, data []byte, exclusive bool, now time.Time) (fileID, error) {
	tmp := tmpName(name, now)
	var fd int
	for try := 0; ; try++ {
		err := ignoringEINTR(func() (err error) {
			fd, err = unix.Openat(d.fd, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
			return err
		})
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EEXIST) || try == 16 {
			return fileID{}, fault("create", d.join(tmp), err)
		}
		now = now.Add(time.Millisecond) // another writer of this name in this millisecond
		tmp = tmpName(name, now)
	}
	id, err := fill(fd, data)
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, tmp, 0)
		return fileID{}, fault("write", d.join(tmp), err)
	}
	err = patiently(func() error {
		return ignoringEINTR(func() error {
			if exclusive {
				return renameExclusive(d.fd, tmp, name)
			}
			return unix.Renameat(d.fd, tmp, d.fd, name)
		})
	})
	if err != nil {
		_ = unix.Unlinkat(d.fd, tmp, 0)
		return fileID{}, fault("rename", d.join(name), err)
	}
	return id, nil
}

func fill(fd int, data []byte) (fileID, error) {
	for len(data) > 0 {
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = unix.Write(fd, data)
			return err
		})
		if err != nil {
			return fileID{}, err
		}
		if n == 0 {
			return fileID{}, io.ErrShortWrite
		}
		data = data[n:]
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, err
	}
	return entryOf(&st).fileID, nil
}

// linkExclusive is rename that refuses to replace, out of link and unlink.
func linkExclusive(at int, from, to string) error {
	if err := unix.Linkat(at, from, at, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(at, from, 0)
}

// remove takes a file, link or pipe away. That it is not there is no error.
func (d dir) remove(name string) error {
	err := ignoringEINTR(func() error { return unix.Unlinkat(d.fd, name, 0) })
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fault("remove", d.join(name), err)
}

// removeDir takes an empty directory away and reports whether it is gone. That
// it is not empty is no error.
func (d dir) removeDir(name string) (bool, error) {
	err := ignoringEINTR(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) })
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return false, nil
	}
	return false, fault("rmdir", d.join(name), err)
}

// clear takes whatever is at a name out of the way: what cannot be removed,
// such as a directory with something in it, gets a name that no reader lists.
func (d dir) clear(name string, now time.Time) error {
	err := d.remove(name)
	if err == nil {
		return nil
	}
	if gone, _ := d.removeDir(name); gone {
		return nil
	}
	return fault("rename", d.join(name), unix.Renameat(d.fd, name, d.fd, tmpName(name, now)))
}

// restrict gives a directory of ours in this one the mode that it must have.
func (d dir) restrict(name string) {
	_ = unix.Fchmodat(d.fd, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

// names lists at most limit names, and says whether there are more.
func (d dir) names(limit int) ([]string, bool, error) {
	// A descriptor of its own, since the position of one is shared.
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(d.fd, ".", openDirFlags, 0)
		return err
	})
	if err != nil {
		return nil, false, fault("open", d.path, err)
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	list, err := f.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// stampAt overwrites a few bytes of a file that this end wrote, which needs no
// free block and no new inode. The file must still be the one that id names.
func (d dir) stampAt(name string, id fileID, offset int64, digits []byte) error {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fault("open", d.join(name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault("stat", d.join(name), err)
	}
	if now := entryOf(&st); !now.same(id) || now.size != id.size || st.Nlink != 1 {
		return fault("write", d.join(name), fs.ErrNotExist)
	}
	n, err := unix.Pwrite(fd, digits, offset)
	if err == nil && n != len(digits) {
		err = io.ErrShortWrite
	}
	return fault("write", d.join(name), err)
}
