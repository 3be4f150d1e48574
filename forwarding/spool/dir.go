package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// Why something on disk is not used.
var (
	// ErrUnsafe: a directory or file that somebody else could change, or that
	// leads elsewhere.
	ErrUnsafe = errors.New("not safe to use")
	// errNotRegular: a request or response that is no plain file.
	errNotRegular = errors.New("not a regular file")
	// errTooLarge: a file over its limit.
	errTooLarge = errors.New("too large")
)

// fileID tells one state of one file from any other.
type fileID struct {
	dev, ino uint64
	size     int64
	mtime    time.Time
	ctime    time.Time
}

// same reports whether two states are of one file, changed or not.
func (f fileID) same(o fileID) bool { return f.dev == o.dev && f.ino == o.ino }

// entry is what is at a name.
type entry struct {
	fileID
	mode  fs.FileMode
	owner int
}

// fault is an error at a path below the root.
func fault(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// transient reports whether an error of rename or mkdir goes away by itself:
// another program, such as a scanner, holds the file for a moment.
func transient(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EACCES)
}

// patiently repeats do while its error is transient, within the protocol's
// budget of 60 ms. Any other error comes back at once.
func patiently(do func() error) error {
	err := do()
	for _, wait := range wire.RetryDelays() {
		if err == nil || !transient(err) {
			break
		}
		time.Sleep(wait)
		err = do()
	}
	return err
}

const (
	suffix    = ".json"
	tmpSuffix = ".tmp"
	pin       = ".keep"
	marker    = ".pioneer-super"
)

// tmpName is the name of a file while it is written, as the protocol has it:
// readers list only names that end in .json.
func tmpName(final string, now time.Time) string {
	return final + "." + strconv.Itoa(os.Getpid()) + "." + strconv.FormatInt(now.UnixMilli(), 10) + tmpSuffix
}

// full reports whether an error says that the disk, or this user's part of it, is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// plainReason is what an agent is told of an error: the fact without paths.
func plainReason(err error) string {
	if full(err) {
		return "no space left on the device that holds the inbox"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Sprintf("%s: %v", p.Op, p.Err)
	}
	return strings.TrimSpace(err.Error())
}
