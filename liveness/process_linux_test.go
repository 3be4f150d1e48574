package liveness

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that has exited and was not reaped answers signals and does nothing.
func TestZombieIsGone(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	p, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		e, err := p.Check()
		if e == Gone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d, %v", e, err)
		}
		time.Sleep(time.Millisecond)
	}
	if Probe(p.PID, 0) != Exists {
		t.Error("control: there is no zombie")
	}
	if _, err := Open(p); !errors.Is(err, ErrGone) {
		t.Errorf("opened a zombie: %v", err)
	}
}

func TestStopped(t *testing.T) {
	pid, _ := start(t)
	p, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if Stopped(p) {
		t.Error("control: stopped before it was")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	deadline := time.Now().Add(5 * time.Second)
	for !Stopped(p) {
		if time.Now().After(deadline) {
			t.Fatal("not seen as stopped")
		}
		time.Sleep(time.Millisecond)
	}
	if e, _ := p.Check(); e != Exists {
		t.Errorf("a stopped process is %d", e)
	}
}

// The name of a program stands in /proc and may be anything.
func TestNameWithBrackets(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	odd := t.TempDir() + "/a) Z 1 (b"
	if err := os.Link(self, odd); err != nil {
		data, rerr := os.ReadFile(self)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if err := os.WriteFile(odd, data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(odd)
	cmd.Env = append(os.Environ(), victim+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
	if err != nil || !strings.Contains(string(raw), "(a) Z 1 (b)") {
		t.Fatalf("control: %s, %v", raw, err)
	}
	if p, err := Identify(cmd.Process.Pid); err != nil || p.Start == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Waiting costs no thread.
func TestManyWaitsFewThreads(t *testing.T) {
	pid, end := start(t)
	p, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(p)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const n = 200
	done := make(chan error, n)
	for range n {
		go func() { done <- h.Wait(t.Context()) }()
	}
	time.Sleep(100 * time.Millisecond)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if len(threads) > 20+2*runtime.GOMAXPROCS(0) {
		t.Errorf("%d threads for %d waits", len(threads), n)
	}
	end()
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
