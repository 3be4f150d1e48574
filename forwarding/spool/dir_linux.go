package spool

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func mtime(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }
func ctime(st *unix.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }

// renameExclusive gives a file its name unless that is taken.
func renameExclusive(at int, from, to string) error {
	err := unix.Renameat2(at, from, at, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // a file system without it
		return linkExclusive(at, from, to)
	}
	return err
}

// noOpenat2 is set once the kernel, or a filter, turned out not to have it.
var noOpenat2 atomic.Bool

// walkAtOnce lets the kernel walk: one call instead of one for each level, with
// the same refusal of links. Only the last level's owner and mode are looked at;
// those above were when the inbox was laid out.
func (d dir) walkAtOnce(names []string) (dir, error) {
	if noOpenat2.Load() {
		return dir{}, errors.ErrUnsupported
	}
	name := strings.Join(names, "/")
	how := unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_BENEATH}
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat2(d.fd, name, &how)
		return err
	})
	switch {
	case err == nil:
		return checked(fd, d.join(name))
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		noOpenat2.Store(true)
		return dir{}, errors.ErrUnsupported
	case errors.Is(err, unix.EAGAIN): // a rename came between; level by level then
		return dir{}, errors.ErrUnsupported
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		err = fmt.Errorf("%w: not a directory, or a symbolic link", ErrUnsafe)
	}
	return dir{}, fault("open", d.join(name), err)
}

// remoteTypes are file systems that another host may change.
var remoteTypes = map[int64]string{
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs",
	unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse", unix.AFS_SUPER_MAGIC: "afs", unix.CODA_SUPER_MAGIC: "coda",
}

// remote names the kind of file system that the directory is on, if another
// host may change it; "" if not.
func (d dir) remote() string {
	var st unix.Statfs_t
	if unix.Fstatfs(d.fd, &st) != nil {
		return ""
	}
	return remoteTypes[int64(st.Type)]
}
