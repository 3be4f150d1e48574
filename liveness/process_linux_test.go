package liveness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that has exited and was not reaped answers signals and does nothing.
func TestFaultZombie(t *testing.T) {
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

func TestFaultStopped(t *testing.T) {
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

// Waiting costs no thread. How many threads the runtime has made says nothing:
// it makes some whenever a short call takes long on a busy machine and never
// ends them. What counts is how many are held by a wait.
func TestFaultManyWaitsFewThreads(t *testing.T) {
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

	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const n = 200
	const control = n / 4
	blocked := make(chan struct{}, control)
	for range control {
		go func() {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			blocked <- struct{}{}
		}()
	}
	eventually(t, func() bool { return threadsHeld(t) >= control },
		"control: waits that block their threads are not seen as such")

	done := make(chan error, n)
	for range n {
		go func() { done <- h.Wait(t.Context()) }()
	}
	eventually(t, func() bool { return threadsHeld(t) <= control+n/10 },
		"%d waits hold their threads", n)
	if len(done) > 0 {
		t.Fatalf("a wait is over before its process: %v", <-done)
	}
	end()
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for range control {
		<-blocked
	}
}

// eventually fails the test if a state of things does not come about.
func eventually(t *testing.T, holds func() bool, format string, args ...any) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf(format, args...)
		}
	}
}

// threadsHeld counts the threads of this process that wait inside the kernel
// for something other than the runtime's own scheduling.
func threadsHeld(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/syscall")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%d threads seen, %v", len(tasks), err)
	}
	held := 0
	for _, task := range tasks {
		raw, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		number, _, _ := strings.Cut(string(raw), " ")
		switch number {
		case "running\n", strconv.Itoa(unix.SYS_FUTEX), strconv.Itoa(unix.SYS_EPOLL_PWAIT), strconv.Itoa(unix.SYS_NANOSLEEP):
		default:
			held++
		}
	}
	return held
}
