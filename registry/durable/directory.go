package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotOurs is what every refusal of a directory or file is, whatever was
// wrong with it.
var ErrNotOurs = errors.New("not safe to use")

// RefusedError says why a directory or file is not believed.
type RefusedError struct {
	Path string
	Is   string // what was found
	Want string // what was expected
}

// Error names the path, what it is and what was expected.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is %s, expected %s", e.Path, e.Is, e.Want)
}

// Unwrap makes every refusal ErrNotOurs.
func (e *RefusedError) Unwrap() error { return ErrNotOurs }

// MakeDir makes path, and what is missing above it, as a directory with mode
// 0700. What exists already must pass CheckDir; if it is ours and only readable
// by others, it is closed to them.
func MakeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := OpenDir(path)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o700 {
		// Of the open directory: the name may have come to mean another.
		return root.Chmod(".", 0o700)
	}
	return nil
}

// CheckDir returns nil if path is a directory and no link, belongs to this user,
// and nobody else may write in it; else a *RefusedError, or the error of looking.
func CheckDir(path string) error {
	root, err := OpenDir(path)
	if err != nil {
		return err
	}
	return root.Close()
}

// OpenDir opens a directory that passes CheckDir. The check is of what was
// opened, so that exchanging the name later changes nothing. The last element of
// path may be no link; links above it are the operator's own affair.
func OpenDir(path string) (*os.Root, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := refuse(path, named, true); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return opened(root, path, named)
}

// OpenIn is OpenDir for a directory directly inside parent.
func OpenIn(parent *os.Root, name string) (*os.Root, error) {
	path := filepath.Join(parent.Name(), name)
	named, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := refuse(path, named, true); err != nil {
		return nil, err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return opened(root, path, named)
}

func opened(root *os.Root, path string, named fs.FileInfo) (*os.Root, error) {
	info, err := root.Stat(".")
	if err == nil && !os.SameFile(info, named) {
		err = &RefusedError{path, "being exchanged", "a directory that stays"}
	}
	if err == nil {
		err = refuse(path, info, true)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// OpenFile opens name directly inside root and returns it only if it is a
// regular file and no link, belongs to this user, and nobody else may write it.
// It never waits: a pipe that somebody planted is refused, not read.
func OpenFile(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	path := filepath.Join(root.Name(), name)
	named, err := root.Lstat(name)
	switch {
	case err == nil:
		if err := refuse(path, named, false); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist) || flag&os.O_CREATE == 0:
		return nil, err
	default:
		flag |= os.O_EXCL // what appears in between is somebody else's
	}
	f, err := root.OpenFile(name, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && named != nil && !os.SameFile(info, named) {
		err = &RefusedError{path, "being exchanged", "a file that stays"}
	}
	if err == nil {
		err = refuse(path, info, false)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads name inside root as OpenFile opens it. A file of more than most
// bytes is an error, and no more than that is ever read.
func ReadFile(root *os.Root, name string, most int) ([]byte, error) {
	f, err := OpenFile(root, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, &RefusedError{filepath.Join(root.Name(), name), fmt.Sprintf("longer than %d bytes", most), "less"}
	}
	return text, nil
}

// SyncDir makes the names inside root durable.
func SyncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// refuse judges what was found at path.
func refuse(path string, info fs.FileInfo, dir bool) error {
	want, kind := "a regular file", info.Mode().IsRegular()
	if dir {
		want, kind = "a directory", info.IsDir()
	}
	if !kind {
		return &RefusedError{path, what(path, info.Mode()), want}
	}
	me := os.Geteuid()
	want = fmt.Sprintf("%s of user %d that no other user may write", want, me)
	if owner, known := owner(info); known && owner != me {
		return &RefusedError{path, fmt.Sprintf("owned by user %d", owner), want}
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		who := "group"
		if perm&0o002 != 0 {
			who = "world"
		}
		return &RefusedError{path, fmt.Sprintf("%s-writable (mode %04o)", who, perm), want}
	}
	return nil
}

func what(path string, mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		if to, err := os.Readlink(path); err == nil {
			return fmt.Sprintf("a symbolic link to %q", to)
		}
		return "a symbolic link"
	case mode.IsDir():
		return "a directory"
	case mode.IsRegular():
		return "a regular file"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}
