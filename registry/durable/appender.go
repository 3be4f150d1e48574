package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// ErrFull is the error for a line that there is no space for. Nothing of the
// line is in the file.
var ErrFull = errors.New("no space to record it")

// Need says what a line may use.
type Need uint8

const (
	// Ordinary lines leave the reserve alone.
	Ordinary Need = iota
	// Final lines tell how something ended. They may use the reserve.
	Final
)

// step is how much is reserved at a time, so that few appends reserve anything.
const step = 64 << 10

// Appender adds whole lines to the end of a file. One process has one Appender
// for a file; its methods may be called from several goroutines.
type Appender struct {
	mu      sync.Mutex
	f       file
	path    string
	size    int64 // whole lines end here
	torn    bool  // the file may be longer than size
	broken  error
	reserve int64
	held    int64 // the file system keeps space for the file up to here
	noHold  bool  // the file system cannot keep space
}

// file is what an Appender does with an *os.File; tests put a failing one here.
type file interface {
	Write([]byte) (int, error)
	Truncate(int64) error
	Sync() error
	Close() error
	hold(off, n int64) error
}

type realFile struct{ *os.File }

func (f realFile) hold(off, n int64) error { return hold(f.File, off, n) }

// OpenAppender opens or makes name inside root for appending. A last line
// without an end, left by a crash, is ended, so that it damages no other.
// Reserve is how many bytes are kept free for Final lines, where the file system
// can (see Reserved).
func OpenAppender(root *os.Root, name string, reserve int64) (*Appender, error) {
	f, err := OpenFile(root, name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	a := &Appender{f: realFile{f}, path: f.Name(), reserve: reserve}
	if err := a.repair(f); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

func (a *Appender) repair(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	a.size = info.Size()
	a.held = a.size
	if a.size == 0 {
		return nil
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], a.size-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	return a.append([]byte{'\n'}, Final)
}

// Append writes line and its end with one write. When it returns nil the line
// outlives this process; with sync it outlives the machine. On an error the line
// is not in the file; an error that is ErrFull says that there is no space.
// A line that holds a line feed is refused.
func (a *Appender) Append(line []byte, need Need, sync bool) error {
	if bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("%s: a line that holds a line feed", a.path)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.size
	if err := a.append(append(line[:len(line):len(line)], '\n'), need); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	if err := a.f.Sync(); err != nil {
		// Whether it is on disk is unknown, and after a failed fsync the kernel
		// may forget that it had to write: the line counts as not written.
		a.size = before
		a.cut()
		return fmt.Errorf("%s: %w", a.path, full(err))
	}
	return nil
}

func (a *Appender) append(text []byte, need Need) error {
	if a.broken != nil {
		return a.broken
	}
	if a.torn {
		if err := a.cut(); err != nil {
			return fmt.Errorf("%s: the half line at its end stays: %w", a.path, err)
		}
	}
	if err := a.makeRoom(int64(len(text)), need); err != nil {
		return err
	}
	n, err := a.f.Write(text)
	if err == nil && n < len(text) {
		err = fmt.Errorf("wrote %d of %d bytes", n, len(text))
	}
	if err != nil {
		a.cut()
		return fmt.Errorf("%s: %w", a.path, full(err))
	}
	a.size += int64(n)
	return nil
}

// cut takes away what is behind the last whole line. While it cannot, nothing is
// appended: a line behind half a line would be lost with it.
func (a *Appender) cut() error {
	a.torn = true
	err := a.f.Truncate(a.size)
	if err == nil {
		a.torn, a.held = false, a.size
	}
	return err
}

// makeRoom keeps the reserve: an ordinary line is refused while there would be
// no space for the reserve behind it.
func (a *Appender) makeRoom(n int64, need Need) error {
	if a.reserve == 0 || a.noHold || a.size+n+a.reserve <= a.held {
		return nil
	}
	if need == Final && a.size+n <= a.held {
		return nil
	}
	err := a.f.hold(a.size, n+a.reserve+step)
	if err == nil {
		a.held = a.size + n + a.reserve + step
		return nil
	}
	if isFull(err) {
		if err = a.f.hold(a.size, n+a.reserve); err == nil {
			a.held = a.size + n + a.reserve
			return nil
		}
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL):
		a.noHold = true
		return nil
	case need == Final:
		return nil // perhaps the write still finds a few bytes
	}
	return fmt.Errorf("%s: %w", a.path, full(err))
}

// Reserved reports whether space is kept for Final lines; false before the first
// line, and where the file system cannot.
func (a *Appender) Reserved() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reserve > 0 && !a.noHold && a.held > a.size
}

// Sync makes every line so far outlive the machine.
func (a *Appender) Sync() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return a.broken
	}
	return a.f.Sync()
}

// Size is how long the file is, in bytes.
func (a *Appender) Size() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size
}

// Close gives the reserve back and closes the file. Appending later is an error.
func (a *Appender) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return nil
	}
	a.broken = fmt.Errorf("%s: %w", a.path, os.ErrClosed)
	if a.reserve > 0 || a.torn {
		_ = a.f.Truncate(a.size) // blocks beyond the end are only waste
	}
	return a.f.Close()
}

func full(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// isFull are the ways in which a file cannot grow: disk, quota, or a limit on
// this process.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) || errors.Is(err, syscall.EFBIG)
}
