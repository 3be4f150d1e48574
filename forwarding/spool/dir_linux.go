package spool

import (
	"errors"
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
