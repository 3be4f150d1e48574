// Package reaper finds and ends the processes below one process. It is what
// front, supervisor and keeper share: each is a subreaper, so that whatever one
// of them loses arrives at the next.
//
// It refuses to know commands and sessions. No signal is ever sent to a number:
// only through a pidfd whose process was seen below the root while it was open.
package reaper
