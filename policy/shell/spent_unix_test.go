//go:build unix

package shell

import (
	"syscall"
	"testing"
	"time"
)

// spent is the processor time of this process so far: unlike the time of day it
// does not count what a busy machine gives to others.
func spent(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
