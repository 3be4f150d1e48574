package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Entry is what a plan needs to know of one place.
type Entry struct {
	// Path is the real path: absolute, no symbolic link in it.
	Path string
	// Dir is true for a directory.
	Dir bool
	// Device is true for a device node.
	Device bool
	// UID is the owner, -1 where the system has none.
	UID int
	// Open is true when everybody may read it, and for a directory also enter it.
	Open bool
	// Secret is true when this process may read it and everybody may not.
	Secret bool
	// Link is true when the name itself, in a listing, is a symbolic link.
	Link bool
}

// Lookup is how a plan sees the file system. The system's own is used when a request has
// none; a test hands in a small one.
type Lookup interface {
	// Resolve follows every symbolic link of an absolute path. A path that does not
	// exist is fs.ErrNotExist.
	Resolve(path string) (Entry, error)
	// List is what one directory holds, sorted by name, at most limit entries; more is
	// true when there were others. Entries are not followed: Path is dir joined with the name.
	List(dir string, limit int) (entries []Entry, more bool, err error)
}

// System is the [Lookup] of this system.
func System() Lookup { return system{} }

type system struct{}

func (system) Resolve(path string) (Entry, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Entry{}, err
	}
	info, err := os.Lstat(real)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(real, info), nil
}

func (system) List(dir string, limit int) ([]Entry, bool, error) {
	names, err := readNames(dir, limit)
	if err != nil {
		return nil, false, err
	}
	more := len(names) > limit
	slices.Sort(names)
	names = names[:min(limit, len(names))]
	out := make([]Entry, 0, len(names))
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue // gone since it was listed
		}
		out = append(out, entryOf(path, info))
	}
	return out, more, nil
}

func entryOf(path string, info fs.FileInfo) Entry {
	mode := info.Mode()
	open := mode.Perm()&0o004 != 0
	if mode.IsDir() {
		open = mode.Perm()&0o005 == 0o005
	}
	link := mode&fs.ModeSymlink != 0
	return Entry{
		Path: path, Dir: mode.IsDir(), Device: mode&fs.ModeDevice != 0, UID: ownerOf(info), Open: open,
		Secret: !open && !link && mayRead(path), Link: link,
	}
}

// readNames returns the names in dir, at most one more than limit.
func readNames(dir string, limit int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(limit + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
