package liveness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// The test binary is its own victim: with this variable it waits for its input
// to end, and says before that it is there.
const victim = "LIVENESS_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" {
		fmt.Println("here")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts a victim; end lets it exit and reaps it.
func start(t testing.TB) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victim+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

func TestIdentify(t *testing.T) {
	pid, end := start(t)
	p, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Identify(pid)
	if err != nil || !Same(p, again) || p != again {
		t.Errorf("%+v and %+v, %v", p, again, err)
	}
	if e, err := p.Check(); e != Exists || err != nil {
		t.Errorf("alive: %d, %v", e, err)
	}
	self, err := Identify(os.Getpid())
	if err != nil || Same(p, self) {
		t.Errorf("the child is the test: %+v, %v", self, err)
	}
	end()
	if e, err := p.Check(); e != Gone || err != nil {
		t.Errorf("after its end: %d, %v", e, err)
	}
	if _, err := Identify(pid); !errors.Is(err, ErrGone) {
		t.Errorf("Identify after its end: %v", err)
	}
}

func TestFaultNumbersAreReused(t *testing.T) {
	pid, _ := start(t)
	p, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Process)
		want   Existence
	}{
		"control":            {func(*Process) {}, Exists},
		"started earlier":    {func(p *Process) { p.Start-- }, Gone},
		"an earlier boot":    {func(p *Process) { p.Boot = "00000000-0000-0000-0000-000000000000" }, Gone},
		"another namespace":  {func(p *Process) { p.PIDNS++ }, Unknowable},
		"another handle":     {func(p *Process) { p.Handle += 1000 }, Gone},
		"never identified":   {func(p *Process) { *p = Process{PID: pid} }, Unknowable},
		"no number":          {func(p *Process) { p.PID = 0 }, Unknowable},
		"a group of numbers": {func(p *Process) { p.PID = -pid }, Unknowable},
		"less is known":      {func(p *Process) { p.Boot, p.PIDNS, p.Handle = "", 0, 0 }, Exists},
	} {
		q := p
		tt.change(&q)
		if runtime.GOOS != "linux" && (q.Boot != p.Boot || q.PIDNS != p.PIDNS || q.Handle != p.Handle) {
			continue // told on Linux only
		}
		if name == "another handle" && p.Handle == 0 {
			continue // a kernel without an inode for each process
		}
		if got, err := q.Check(); got != tt.want || (err != nil) != (tt.want == Unknowable) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}

func TestSame(t *testing.T) {
	full := Process{PID: 7, Start: 100, Boot: "b", PIDNS: 1, Handle: 9}
	for name, tt := range map[string]struct {
		a, b Process
		want bool
	}{
		"itself":            {full, full, true},
		"the zero value":    {Process{}, Process{}, false},
		"no start":          {Process{PID: 7}, Process{PID: 7}, false},
		"negative":          {Process{PID: -7, Start: 1}, Process{PID: -7, Start: 1}, false},
		"another number":    {full, Process{PID: 8, Start: 100}, false},
		"another start":     {full, Process{PID: 7, Start: 101}, false},
		"another boot":      {full, Process{PID: 7, Start: 100, Boot: "c"}, false},
		"another namespace": {full, Process{PID: 7, Start: 100, PIDNS: 2}, false},
		"another handle":    {full, Process{PID: 7, Start: 100, Handle: 8}, false},
		"less is known":     {full, Process{PID: 7, Start: 100}, true},
	} {
		if got := Same(tt.a, tt.b); got != tt.want || Same(tt.b, tt.a) != got {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestProbe(t *testing.T) {
	pid, end := start(t)
	_, ns := Here()
	for name, tt := range map[string]struct {
		pid  int
		ns   uint64
		want Existence
	}{"child": {pid, 0, Exists}, "child, our namespace": {pid, ns, Exists}, "zero addresses our group": {0, 0, Gone}, "minus one addresses everybody": {-1, 0, Gone},
		"our group": {-os.Getpid(), 0, Gone}, "no such": {math.MaxInt32, 0, Gone}, "init, ours to signal or not": {1, 0, Exists}} {
		if got := Probe(tt.pid, tt.ns); got != tt.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	if ns != 0 && Probe(pid, ns+1) != Unknowable {
		t.Error("a number of another namespace was probed")
	}
	end()
	if Probe(pid, 0) != Gone {
		t.Error("the child is still there")
	}
	for _, bad := range []int{0, -1} {
		if _, err := Identify(bad); err == nil {
			t.Errorf("process %d was identified", bad)
		}
	}
}

func TestHandle(t *testing.T) {
	pid, end := start(t)
	p, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(p)
	if errors.Is(err, errors.ErrUnsupported) {
		if runtime.GOOS == "linux" {
			t.Fatal("Linux has this")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Start--
	if _, err := Open(other); !errors.Is(err, ErrGone) {
		t.Errorf("opened what has the number of another: %v", err)
	}
	if _, err := Open(Process{PID: pid}); err == nil {
		t.Error("opened what was never identified")
	}
	short, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	waits := make(chan error, 3)
	for range 3 {
		go func() { waits <- h.Wait(context.Background()) }()
	}
	if err := h.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for a living process: %v", err)
	}
	select {
	case err := <-waits:
		t.Fatalf("another wait ended with it: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	if err := h.Signal(os.Interrupt); err != nil && !errors.Is(err, ErrGone) {
		t.Errorf("signal: %v", err)
	}
	end()
	for range 3 {
		select {
		case err := <-waits:
			if err != nil {
				t.Errorf("wait: %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the end was not noticed")
		}
	}
	if err := h.Signal(os.Interrupt); !errors.Is(err, ErrGone) {
		t.Errorf("signal after the end: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Wait(context.Background()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("wait after Close: %v", err)
	}
	if _, err := Open(p); !errors.Is(err, ErrGone) {
		t.Errorf("opened what ended: %v", err)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	pid, _ := start(t)
	p, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(p)
	if errors.Is(err, errors.ErrUnsupported) && runtime.GOOS != "linux" {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Wait(context.Background()) }()
	time.Sleep(20 * time.Millisecond)
	_ = h.Close()
	select {
	case err := <-done:
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Close did not end the wait")
	}
}
