package durable

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

const smallDisk = "PIONEER_TEST_SMALL_DISK"

// TestFaultFullDisk meets a real full disk: a tmpfs of 256 KiB in a mount namespace
// of its own.
func TestFaultFullDisk(t *testing.T) {
	if os.Getenv(smallDisk) != "" {
		fillDisk(t)
		return
	}
	testenv.Need(t, "mountns")
	cmd := exec.Command(os.Args[0], "-test.run=^TestFaultFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFaultFullDisk") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fillDisk(t *testing.T) {
	dir := os.Getenv(smallDisk)
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", dir, "tmpfs", 0, "size=256k,mode=0700")); err != nil {
		t.Fatal(err)
	}
	root, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 499))
	fill := func(name string, reserve int64) (*Appender, int) {
		a, err := OpenAppender(root, name, reserve)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			if err := a.Append(line, Ordinary, false); err != nil {
				if !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
				return a, n
			}
		}
	}
	a, n := fill("kept", 32<<10)
	if n < 200 || !a.Reserved() {
		t.Fatalf("only %d lines, reserved %v", n, a.Reserved())
	}
	// Somebody else takes all that is left.
	if f, err := os.Create(filepath.Join(dir, "filler")); err == nil {
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
	}
	if err := a.Append(line, Ordinary, false); !errors.Is(err, ErrFull) {
		t.Fatalf("an ordinary line on a full disk: %v", err)
	}
	for i := range 60 {
		if err := a.Append(line, Final, true); err != nil {
			t.Fatalf("final line %d on a full disk: %v", i, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "kept"))
	if err != nil || len(text) != 500*(n+60) || strings.Count(string(text), "\n") != n+60 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	// Negative control: without a reserve the first final line has no space.
	if err := os.Remove(filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	a, _ = fill("bare", 0)
	if err := a.Append(line, Final, true); !errors.Is(err, ErrFull) {
		t.Fatalf("a final line without a reserve: %v", err)
	}
	text, err = os.ReadFile(filepath.Join(dir, "bare"))
	if err != nil || len(text)%500 != 0 {
		t.Fatalf("half a line was left: %d bytes, %v", len(text), err)
	}
}
