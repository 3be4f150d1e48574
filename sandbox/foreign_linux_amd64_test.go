package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	acts["x32 call"] = func(script) error { return call(0x40000000 | unix.SYS_GETPID) }
	acts["i386 call"] = func(script) error {
		// mov eax, 20 (getpid in the i386 table); int 0x80; ret. The result register is also the
		// one in which a Go function returns a word.
		code := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3}
		page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		copy(page, code)
		if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC); err != nil {
			return err
		}
		entry := &struct{ code *byte }{&page[0]}
		function := *(*func() uintptr)(unsafe.Pointer(&entry))
		if pid := int32(function()); int(pid) != os.Getpid() {
			return syscall.Errno(-pid)
		}
		return nil
	}
}

// Calls by another architecture's numbers reach other calls than the filter thinks.
func TestForeignArchitectureIsKilled(t *testing.T) {
	w := newWorld(t, os.Getuid())
	p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	if got := try(t, w, nil, script{}, "i386 call")["i386 call"]; got != "ok" {
		t.Fatalf("control: an i386 call unconfined: %s", got)
	}
	s := script{Part: "stage", World: w, Acts: []string{"i386 call"}, Profile: p, Confine: true, Dir: w.Workspace}
	out, errs, err := run(t, s)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSYS {
		t.Fatalf("an i386 call confined: %v, want death by SIGSYS\n%s%s", err, out, errs)
	}
	envelope, _ := EnvelopeOnly(Probe())
	if got := try(t, w, &envelope, script{}, "i386 call")["i386 call"]; got != "ok" {
		t.Errorf("an i386 call in the envelope: %s", got)
	}
	results := try(t, w, &p, script{}, "x32 call")
	if results["x32 call"] != "ENOSYS" {
		text, _ := json.Marshal(results)
		t.Errorf("x32 call: %s, want ENOSYS", text)
	}
}
