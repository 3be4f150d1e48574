package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// disk is a file that fails on demand: it has a size, and one operation may go
// wrong.
type disk struct {
	data     []byte
	capacity int // bytes that fit
	held     int // kept for the file beyond its end
	noHold   bool
	failSync bool
	failCut  bool
	lose     bool // write nothing and report an error
}

func (d *disk) Write(p []byte) (int, error) {
	if d.lose {
		return 0, syscall.EIO
	}
	room := d.capacity - len(d.data)
	if len(p) > room {
		d.data = append(d.data, p[:max(room, 0)]...)
		return max(room, 0), syscall.ENOSPC
	}
	d.data = append(d.data, p...)
	return len(p), nil
}

func (d *disk) Truncate(n int64) error {
	if d.failCut {
		return syscall.EIO
	}
	d.data = d.data[:n]
	return nil
}

func (d *disk) Sync() error {
	if d.failSync {
		return syscall.EIO
	}
	return nil
}

func (d *disk) Close() error { return nil }

func (d *disk) hold(off, n int64) error {
	if d.noHold {
		return errors.ErrUnsupported
	}
	if off+n > int64(d.capacity) {
		return syscall.ENOSPC
	}
	d.held = int(off + n)
	return nil
}

func TestFaultNothingOfAFailedLineStays(t *testing.T) {
	t.Parallel()
	d := &disk{capacity: 20, noHold: true}
	a := &Appender{f: d, path: "file"}
	ok := func(line string) {
		t.Helper()
		if err := a.Append([]byte(line), Ordinary, true); err != nil {
			t.Fatal(err)
		}
	}
	bad := func(line string, is error) {
		t.Helper()
		if err := a.Append([]byte(line), Ordinary, true); !errors.Is(err, is) {
			t.Fatalf("got %v, expected %v", err, is)
		}
	}
	ok("first")
	bad("longer than there is space for", ErrFull)
	ok("second")
	d.failSync = true
	bad("third", syscall.EIO)
	d.failSync = false
	if string(d.data) != "first\nsecond\n" {
		t.Fatalf("the file holds %q", d.data)
	}
	// While half a line cannot be taken away, nothing is put behind it.
	d.failCut = true
	bad("longer than there is space for", ErrFull)
	bad("x", syscall.EIO)
	d.failCut = false
	ok("fourth")
	if string(d.data) != "first\nsecond\nfourth\n" || a.Size() != int64(len(d.data)) {
		t.Fatalf("the file holds %q", d.data)
	}
	if err := a.Append([]byte("two\nlines"), Ordinary, false); err == nil {
		t.Error("two lines were written as one")
	}
	a.Close()
	bad("after", fs.ErrClosed)
}

// TestReserve fills a disk: ordinary lines end before it is full, and the end of
// the story still fits.
func TestReserve(t *testing.T) {
	t.Parallel()
	const reserve = 1000
	d := &disk{capacity: 200_000}
	a := &Appender{f: d, path: "file", reserve: reserve}
	line := []byte(strings.Repeat("x", 99))
	var err error
	n := 0
	for ; err == nil; n++ {
		err = a.Append(line, Ordinary, false)
	}
	if !errors.Is(err, ErrFull) || n < 1900 || !a.Reserved() {
		t.Fatalf("after %d lines: %v, reserved %v", n, err, a.Reserved())
	}
	for i := range reserve / 100 {
		if err := a.Append(line, Final, true); err != nil {
			t.Fatalf("final line %d: %v", i, err)
		}
	}
	if err := a.Append(line, Ordinary, false); !errors.Is(err, ErrFull) {
		t.Fatalf("an ordinary line in the reserve: %v", err)
	}
	// Space comes back: so do ordinary lines, and the reserve.
	d.capacity += 10_000
	if err := a.Append(line, Ordinary, false); err != nil || a.held < a.size+reserve {
		t.Fatalf("with space again: %v", err)
	}
	// Negative control: without a reserve the end of the story is lost.
	d = &disk{capacity: 1000}
	a = &Appender{f: d, path: "file"}
	for err = nil; err == nil; {
		err = a.Append(line, Ordinary, false)
	}
	if err := a.Append(line, Final, false); !errors.Is(err, ErrFull) || a.Reserved() {
		t.Fatalf("without a reserve: %v", err)
	}
	// A file system that keeps no space is used all the same, and says so.
	a = &Appender{f: &disk{capacity: 1000, noHold: true}, path: "file", reserve: reserve}
	if err := a.Append(line, Ordinary, false); err != nil || a.Reserved() {
		t.Fatalf("without a way to reserve: %v, %v", err, a.Reserved())
	}
}

// TestAppenderAgainstModel draws failures at every turn: the file is always the
// acknowledged lines and at most a part of one more.
func TestAppenderAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &disk{capacity: 400}
		a := &Appender{f: d, path: "file", reserve: int64(rapid.SampledFrom([]int{0, 50}).Draw(t, "reserve"))}
		model := ""
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			d.capacity += rapid.SampledFrom([]int{0, 0, 20, -30}).Draw(t, "space")
			d.failSync = rapid.Bool().Draw(t, "failSync")
			d.failCut = rapid.IntRange(0, 3).Draw(t, "failCut") == 0
			d.lose = rapid.IntRange(0, 4).Draw(t, "lose") == 0
			line := fmt.Sprintf("%d %s", n, strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "length")))
			need := rapid.SampledFrom([]Need{Ordinary, Final}).Draw(t, "need")
			if a.Append([]byte(line), need, rapid.Bool().Draw(t, "sync")) == nil {
				model += line + "\n"
			}
			if got := string(d.data); !strings.HasPrefix(got, model) || !d.failCut && !a.torn && got != model {
				t.Fatalf("the file is %q, acknowledged is %q", got, model)
			}
		}
		d.failCut = false
		a.Close()
		if got := string(d.data); got != model {
			t.Fatalf("in the end the file is %q, acknowledged is %q", got, model)
		}
	})
}

func TestAppenderOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	name := filepath.Join(dir, "file")
	for _, c := range []struct{ before, after string }{
		{"", "line\n"}, {"a\n", "a\nline\n"}, {"half", "half\nline\n"}, {"a\nhalf", "a\nhalf\nline\n"}, {"\n", "\nline\n"},
	} {
		if err := os.WriteFile(name, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := OpenAppender(root, "file", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Append([]byte("line"), Ordinary, true); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Size() != int64(len(c.after)) {
			t.Errorf("the reserve shows in the size: %v, %v", info, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != c.after {
			t.Errorf("%q became %q, %v", c.before, got, err)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestOpenFileMakesPrivateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := OpenFile(root, "new", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if info, err := os.Stat(filepath.Join(dir, "new")); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if _, err := OpenFile(root, "none", os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 101), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(root, "big", 100); !errors.Is(err, ErrNotOurs) {
		t.Error(err)
	}
	if text, err := ReadFile(root, "big", 101); err != nil || len(text) != 101 {
		t.Error(len(text), err)
	}
}
