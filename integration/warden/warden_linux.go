package warden

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long the processes below may outlive the program before they
// are told as left. It bounds a failure and is no measure of a success.
const Patience = 40 * time.Second

// name is argv[0] of the process that reaps, staged that of the one that becomes
// the program.
const (
	name   = "test-warden"
	staged = "test-warden-stage"
)

// report is a line from the warden: first the program's number, then its end, then
// what was left.
type report struct {
	Program int      `json:"program,omitempty"`
	Status  *int     `json:"status,omitempty"` // 128+n for a signal
	Left    []string `json:"left,omitempty"`
	Done    bool     `json:"done,omitempty"`
}

// Ward is a program under a warden.
type Ward struct {
	see     func(Call) bool
	reports *os.File
	ours    []*os.File // ends that the child has copies of
	calls   *os.File   // brings the listener; nil without see

	program chan int
	done    chan struct{}
	mu      sync.Mutex
	end     report
	err     error
}

// Prepare changes cmd, which was not started, so that a warden runs it. If see is
// not nil it is called with every Call of the program and of what it starts, one at
// a time, before it is made, and says whether it is let through; a process whose call is
// not must have been killed. Started is to be called when cmd was started.
func Prepare(cmd *exec.Cmd, see func(Call) bool) (*Ward, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ward := &Ward{see: see, reports: r, ours: []*os.File{w}, program: make(chan int, 1), done: make(chan struct{})}
	listener := -1
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	number := 2 + len(cmd.ExtraFiles)
	if see != nil {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("socketpair", err)
		}
		theirs := os.NewFile(uintptr(pair[1]), "listener")
		ward.calls = os.NewFile(uintptr(pair[0]), "listener")
		ward.ours = append(ward.ours, theirs)
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
		listener = 2 + len(cmd.ExtraFiles)
	}
	cmd.Args = append([]string{name, strconv.Itoa(number), strconv.Itoa(listener), cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/exe"
	return ward, nil
}

// Started begins to listen.
func (w *Ward) Started() {
	for _, f := range w.ours {
		f.Close()
	}
	go w.listen()
	if w.calls != nil {
		go w.serve()
	}
}

func (w *Ward) listen() {
	defer close(w.done)
	defer w.reports.Close()
	lines := bufio.NewScanner(w.reports)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
			return
		}
		if r.Program != 0 {
			w.program <- r.Program
			continue
		}
		w.mu.Lock()
		w.end = r
		w.mu.Unlock()
	}
}

// Program is the number of the program's process.
func (w *Ward) Program() (int, error) {
	select {
	case pid := <-w.program:
		w.program <- pid
		return pid, nil
	case <-w.done:
	case <-time.After(Patience):
	}
	return 0, errors.New("warden: the program did not start")
}

// Wait returns the program's status, 128+n for a signal, when no process below the
// warden is left. Where some are left Patience after the program's end they are
// named, and were killed.
func (w *Ward) Wait() (status int, left []string, err error) {
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return 0, nil, w.err
	case w.end.Status == nil || !w.end.Done:
		return 0, nil, errors.New("warden: it was ended before the program")
	}
	return *w.end.Status, w.end.Left, nil
}

// A test binary that imports this package becomes the warden, or what it starts.
func init() {
	switch filepath.Base(os.Args[0]) {
	case name:
		os.Exit(reap(os.Args[1:]))
	case staged:
		os.Exit(become(os.Args[1:]))
	}
}

// reap is the warden's own process.
func reap(args []string) int {
	runtime.LockOSThread()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "warden:", err)
		return 99
	}
	number, err := strconv.Atoi(args[0])
	if err != nil {
		return fail(err)
	}
	listener, err := strconv.Atoi(args[1])
	if err != nil {
		return fail(err)
	}
	unix.CloseOnExec(number)
	out := json.NewEncoder(os.NewFile(uintptr(number), "reports"))
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fail(err)
	}
	// The program has the descriptors below the report's, as if there were no warden.
	files := make([]uintptr, number, listener+1+number)
	for fd := range files {
		files[fd] = uintptr(fd)
	}
	path, argv := args[2], args[3:]
	if listener >= 0 {
		files = append(files, uintptr(listener))
		path, argv = "/proc/self/exe", append([]string{staged, strconv.Itoa(number), path}, argv...)
	}
	program, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return fail(err)
	}
	if listener >= 0 {
		unix.Close(listener)
	}
	if err := out.Encode(report{Program: program}); err != nil {
		return fail(err)
	}
	end := report{}
	var late time.Time
	for {
		var status unix.WaitStatus
		flags := 0
		if end.Status != nil {
			flags = unix.WNOHANG
		}
		pid, err := unix.Wait4(-1, &status, flags|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			end.Done = true
			if err := out.Encode(end); err != nil {
				return fail(err)
			}
			return 0
		case err != nil:
			return fail(err)
		case pid == program:
			code := status.ExitStatus()
			if status.Signaled() {
				code = 128 + int(status.Signal())
			}
			end.Status, late = &code, time.Now().Add(Patience)
		case pid == 0 && time.Now().After(late):
			for _, child := range children() {
				end.Left = append(end.Left, describe(child))
				unix.Kill(child, unix.SIGKILL)
			}
			time.Sleep(20 * time.Millisecond)
		case pid == 0:
			time.Sleep(time.Millisecond)
		}
	}
}

func children() []int {
	var out []int
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		data, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// describe is a process for a failure: its number, its state as ps(1) has it, the
// kernel's function that it waits in, and its command line.
func describe(pid int) string {
	place := fmt.Sprintf("/proc/%d/", pid)
	status, _ := os.ReadFile(place + "status")
	_, rest, _ := strings.Cut(string(status), "State:\t")
	state, _, _ := strings.Cut(rest, "\n")
	wait, _ := os.ReadFile(place + "wchan")
	line, _ := os.ReadFile(place + "cmdline")
	return fmt.Sprintf("%d %s %s: %s", pid, state, wait, strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " "))
}
