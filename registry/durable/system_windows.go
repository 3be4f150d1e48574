package durable

import (
	"io/fs"
	"syscall"
)

// owner is not known here: access lists take the place of owners and modes.
func owner(fs.FileInfo) (uid int, known bool) { return 0, false }

// errQuota is the error of a user's exhausted quota.
const errQuota = syscall.Errno(1295) // ERROR_DISK_QUOTA_EXCEEDED
