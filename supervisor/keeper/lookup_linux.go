package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxDigest bounds the content that is read for a digest.
	maxDigest = 64 << 20
	maxPath   = 256 // entries of PATH that are searched
)

// lookup answers for the prepared directory. It opens nothing but a regular file
// whose digest is wanted.
func (k *keeper) lookup(l *Lookup) File {
	at := func(p string) string {
		if filepath.IsAbs(p) || k.dirID.Real == "" {
			return p
		}
		return filepath.Join(k.dirID.Real, p)
	}
	switch {
	case l.Path == "" || strings.Contains(l.Word, "/"):
		f := inspect(at(l.Word), l.Digest)
		if l.Path != "" && f.Kind == "file" && !executable(f.Path) {
			f.NotExecutable = true
		}
		return f
	}
	var refused File
	for i, dir := range filepath.SplitList(l.Path) {
		if i >= maxPath {
			break
		}
		if dir == "" {
			dir = "."
		}
		p := filepath.Join(at(dir), l.Word)
		var st unix.Stat_t
		if unix.Stat(p, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if !executable(p) {
			refused = File{Path: p, NotExecutable: true}
			continue
		}
		return inspect(p, l.Digest)
	}
	return refused
}

func executable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}

func inspect(path string, digest bool) File {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		// A dangling link is there as well.
		if unix.Lstat(path, &st) != nil {
			return File{}
		}
	}
	f := File{Path: path, Real: path, Dev: uint64(st.Dev), Ino: st.Ino, Kind: "other"}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		f.Real = real
	} else if to, err := os.Readlink(path); err == nil {
		// Dangling: what is written through it is made where it leads.
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		f.Real = filepath.Clean(to)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		f.Kind = "dir"
	case unix.S_IFREG:
		f.Kind = "file"
		if digest {
			f.SHA256 = digestOf(f.Real, st.Size)
		}
	}
	return f
}

// digestOf is the SHA-256 of a file, "" of one that is too large or cannot be read.
func digestOf(path string, size int64) string {
	if size > maxDigest {
		return ""
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxDigest+1)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
