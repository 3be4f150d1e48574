package audit

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/registry"
)

const smallDisk = "PIONEER_TEST_SMALL_DISK"

// TestFaultFullDiskAllowsNothing meets a real full disk: the row that would allow
// something is refused, the ends of what had begun are told all the same, and
// the chain is whole.
func TestFaultFullDiskAllowsNothing(t *testing.T) {
	if os.Getenv(smallDisk) != "" {
		fillDisk(t)
		return
	}
	testenv.Need(t, "mountns")
	cmd := exec.Command(os.Args[0], "-test.run=^TestFaultFullDiskAllowsNothing$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFaultFullDiskAllowsNothing") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fillDisk(t *testing.T) {
	dir := os.Getenv(smallDisk)
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", dir, "tmpfs", 0, "size=1m,mode=0700")); err != nil {
		t.Fatal(err)
	}
	p := registry.Places{State: dir + "/state", Run: dir + "/run"}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	tree, err := registry.Create(p, registry.NewID("t"))
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t, tree)
	write(t, l, run()[:3]...)
	if !l.Reserved() {
		t.Fatal("nothing is reserved on a tmpfs")
	}
	allow := run()[3]
	n := uint64(3)
	for ; err == nil; n++ {
		err = l.Write(allow)
	}
	if !errors.Is(err, ErrFull) || n < 100 {
		t.Fatalf("after %d rows: %v", n, err)
	}
	if _, rows := l.Head(); rows != n-1 {
		t.Fatalf("%d rows, %d were acknowledged", rows, n-1)
	}
	write(t, l, run()[7], run()[9], run()[10])
	if err := l.Write(allow); !errors.Is(err, ErrFull) {
		t.Fatalf("allowed on a full disk: %v", err)
	}
	head, rows := l.Head()
	if report, err := Verify(pathOf(tree), tree.ID(), head); err != nil || report.Rows != int(rows) {
		t.Fatal(report, err)
	}
}
