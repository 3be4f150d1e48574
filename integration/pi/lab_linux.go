package pi

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options say how an agent directory differs from the usual one.
type Options struct {
	// Dir is the directory to make everything in; one of the test's own if empty.
	Dir string
	// Permission is the "permission" object of the permission extension's
	// configuration. The default allows everything but bash, which asks.
	Permission map[string]any
	// ShellPath is the program that Pi runs its shell tool with ("shellPath");
	// Pi looks for bash itself if it is empty.
	ShellPath string
	// Settings are further entries of Pi's settings.json.
	Settings map[string]any
}

// A Lab is a fresh place for one Pi: its configuration, a HOME, and a directory
// to work in.
type Lab struct {
	Installation
	// Dir holds all the others.
	Dir string
	// Agent is Pi's agent directory (PI_CODING_AGENT_DIR).
	Agent string
	// Work is where Pi runs.
	Work string
	// Home is HOME, Temp is TMPDIR.
	Home, Temp string
}

// NewLab makes a Lab whose Pi asks the given model. It fails the test if it
// cannot.
func NewLab(t testing.TB, model *Model, o Options) *Lab {
	t.Helper()
	l := &Lab{Installation: Installed(t), Dir: o.Dir}
	if l.Dir == "" {
		l.Dir = t.TempDir()
	}
	l.Agent, l.Work = filepath.Join(l.Dir, "agent"), filepath.Join(l.Dir, "work")
	l.Home, l.Temp = filepath.Join(l.Dir, "home"), filepath.Join(l.Dir, "tmp")
	extension := filepath.Join(l.Agent, "extensions", "pi-permission-system")
	for _, d := range []string{extension, l.Work, l.Home, l.Temp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatalf("pi: %v", err)
		}
	}
	if o.Permission == nil {
		o.Permission = map[string]any{"*": "allow", "bash": map[string]string{"*": "ask"}}
	}
	settings := map[string]any{
		"defaultProvider": "scripted", "defaultModel": "scripted", "quietStartup": true,
		"packages": []string{l.PermissionSystem()},
	}
	if o.ShellPath != "" {
		settings["shellPath"] = o.ShellPath
	}
	for name, value := range o.Settings {
		settings[name] = value
	}
	for path, value := range map[string]any{
		filepath.Join(l.Agent, "models.json"): map[string]any{"providers": map[string]any{"scripted": map[string]any{
			"baseUrl": model.url, "api": "openai-completions", "apiKey": "unused", "models": []map[string]string{{"id": "scripted"}},
		}}},
		filepath.Join(l.Agent, "settings.json"): settings,
		filepath.Join(extension, "config.json"): map[string]any{"permission": o.Permission},
	} {
		text, err := json.MarshalIndent(value, "", "  ")
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatalf("pi: %v", err)
		}
	}
	return l
}

// Env is the whole environment for a Pi of this lab, with extra entries at its
// end. Nothing of the test's own environment is in it.
func (l *Lab) Env(extra ...string) []string {
	return append([]string{
		"PATH=" + l.Bin() + ":/usr/local/bin:/usr/bin:/bin",
		"LANG=C.UTF-8", "TERM=xterm-256color", "HOME=" + l.Home, "TMPDIR=" + l.Temp,
		"PI_CODING_AGENT_DIR=" + l.Agent, "PI_OFFLINE=1", "PI_TELEMETRY=0", "PI_SKIP_VERSION_CHECK=1",
	}, extra...)
}

// Print is the command line of a Pi that works on one prompt without a user and
// ends.
func (l *Lab) Print(prompt string, args ...string) []string {
	return append(append([]string{"pi", "-p"}, args...), prompt)
}

// Subagent is the environment that makes a Pi without a user send its asks to
// the session named parent.
func Subagent(parent string) []string {
	return []string{"PI_IS_SUBAGENT=1", "PI_SUBAGENT_PARENT_SESSION=" + parent}
}

// A Process is a program that a test started and that does not outlive it.
type Process struct {
	cmd    *exec.Cmd
	output output
	ended  chan struct{} // closed when err is set
	err    error
}

// Start starts argv in the lab's working directory and environment, with no
// input and in a process group of its own.
func (l *Lab) Start(t testing.TB, env []string, argv ...string) *Process {
	t.Helper()
	path, err := l.look(argv[0])
	if err != nil {
		t.Fatalf("pi: %v", err)
	}
	p := &Process{cmd: exec.Command(path, argv[1:]...)}
	p.cmd.Args[0] = argv[0]
	p.cmd.Dir, p.cmd.Env = l.Work, env
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.start(t)
	return p
}

// look finds a program in the lab's PATH rather than in the test's.
func (l *Lab) look(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path, err := exec.LookPath(filepath.Join(l.Bin(), name)); err == nil {
		return path, nil
	}
	return exec.LookPath(name)
}

func (p *Process) start(t testing.TB) {
	t.Helper()
	p.ended = make(chan struct{})
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A process that outlives its leader may hold the pipes: they are given up soon after it.
	p.cmd.WaitDelay = 2 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("pi: %v", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s printed:\n%s", strings.Join(p.cmd.Args, " "), p.output.String())
		}
	})
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what the process has printed so far, on both streams.
func (p *Process) Output() string { return p.output.String() }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal to the process alone.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill kills the process and its group.
func (p *Process) Kill() {
	select {
	case <-p.ended:
		// The group's id may be another's by now; only while its leader is unreaped is it known to be ours.
	default:
		// The process may have ended between the two; then there is nothing to kill.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// Status waits for the process to end and returns its exit status, 128+n after
// signal n.
func (p *Process) Status(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		t.Fatalf("%s has not ended after %s; it printed:\n%s", strings.Join(p.cmd.Args, " "), within, p.output.String())
	}
	var exit *exec.ExitError
	switch {
	case p.err == nil, errors.Is(p.err, exec.ErrWaitDelay):
		return p.cmd.ProcessState.ExitCode()
	case errors.As(p.err, &exit):
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	t.Fatalf("%s: %v", strings.Join(p.cmd.Args, " "), p.err)
	return 0
}

// output collects what a process prints while the test reads it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
