// Package warden runs a program for a test as the reaper above it: it tells when
// the last process below has ended, which the kernel proves (wait4(2), ECHILD),
// and shows each call by which one of them changes something outside of itself
// before the call is made, so that a test can end a process exactly there.
//
// It refuses to know what it runs.
package warden
