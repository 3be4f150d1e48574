//go:build unix

package durable

import (
	"io/fs"
	"syscall"
)

// owner returns the user that a file belongs to.
func owner(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// errQuota is the error of a user's exhausted quota.
const errQuota = syscall.EDQUOT
