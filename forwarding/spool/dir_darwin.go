package spool

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

func mtime(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }
func ctime(st *unix.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }

// renameExclusive gives a file its name unless that is taken.
func renameExclusive(at int, from, to string) error { return linkExclusive(at, from, to) }

// walkAtOnce needs a call that this system lacks.
func (d dir) walkAtOnce([]string) (dir, error) { return dir{}, errors.ErrUnsupported }

// remote names the kind of file system that the directory is on, if another
// host may change it; "" if not.
func (d dir) remote() string {
	var st unix.Statfs_t
	if unix.Fstatfs(d.fd, &st) != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}
