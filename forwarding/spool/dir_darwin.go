package spool

import (
	"time"

	"golang.org/x/sys/unix"
)

func mtime(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }
func ctime(st *unix.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }

// renameExclusive gives a file its name unless that is taken.
func renameExclusive(at int, from, to string) error { return linkExclusive(at, from, to) }
