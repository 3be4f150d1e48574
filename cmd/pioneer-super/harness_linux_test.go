package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

func TestMain(m *testing.M) {
	code := m.Run()
	product.Remove()
	os.Exit(code)
}

// lab is one tree to be, in directories of its own.
type lab struct {
	t      testing.TB
	home   string // state, run and configuration
	work   string // the workspace
	marker string // in the environment of every process of the tree
	policy string
	extra  []string // further entries of env
}

func newLab(t testing.TB) *lab {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, home: filepath.Join(base, "home"), work: filepath.Join(base, "project"), marker: fmt.Sprintf("PS_TEST_MARKER=%d-%s", os.Getpid(), filepath.Base(base)+strconv.FormatInt(time.Now().UnixNano(), 36))}
	for _, d := range []string{l.home, l.work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// reaching are variables through which something could type for the human: what is
// offered depends on them.
var reaching = map[string]bool{
	"TMUX": true, "STY": true, "ZELLIJ": true, "KITTY_LISTEN_ON": true, "WEZTERM_UNIX_SOCKET": true, "DBUS_SESSION_BUS_ADDRESS": true, "DISPLAY": true, "WAYLAND_DISPLAY": true,
}

// env is what a client of this lab gets: the operator's, with places of its own.
func (l *lab) env() []string {
	var out []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "PIONEER_SUPER_") || strings.HasPrefix(name, "PI_") || strings.HasPrefix(name, "XDG_") || name == "CI" || reaching[name] {
			continue
		}
		out = append(out, e)
	}
	return append(append(out, "PIONEER_SUPER_HOME="+filepath.Join(l.home, "state"), "XDG_CONFIG_HOME="+filepath.Join(l.home, "config"), l.marker), l.extra...)
}

// rules writes a policy file outside the workspace.
func (l *lab) rules(text string) {
	l.t.Helper()
	l.policy = filepath.Join(l.home, "policy.jsonc")
	if err := os.WriteFile(l.policy, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// script writes an executable shell script into the workspace.
func (l *lab) script(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.work, name), []byte(text), 0o700); err != nil {
		l.t.Fatal(err)
	}
}

// running is a command of the product.
type running struct {
	*exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
	err bytes.Buffer
	end chan struct{}
}

func (r *running) stdout() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

func (r *running) stderr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err.String()
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// start runs the product with these arguments, in the workspace.
func (l *lab) start(args ...string) *running {
	l.t.Helper()
	return l.startAs(func(*exec.Cmd) {}, args...)
}

// startAs is start with a last word on how.
func (l *lab) startAs(how func(*exec.Cmd), args ...string) *running {
	l.t.Helper()
	r := &running{Cmd: exec.Command(product.Binary(l.t), args...), end: make(chan struct{})}
	r.Dir, r.Env = l.work, l.env()
	r.Stdout, r.Stderr = lockedWriter{&r.mu, &r.out}, lockedWriter{&r.mu, &r.err}
	r.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	how(r.Cmd)
	if err := r.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { r.Cmd.Wait(); close(r.end) }()
	l.t.Cleanup(func() {
		r.Process.Kill()
		<-r.end
		l.nobody(5 * time.Second)
	})
	return r
}

// spawn starts a headless tree.
func (l *lab) spawn(flags []string, argv ...string) *running {
	l.t.Helper()
	return l.spawnAs(func(*exec.Cmd) {}, flags, argv...)
}

func (l *lab) spawnAs(how func(*exec.Cmd), flags []string, argv ...string) *running {
	l.t.Helper()
	args := append([]string{"spawn", "--headless"}, flags...)
	if l.policy != "" {
		args = append(args, "--policy", l.policy)
	}
	return l.startAs(how, append(append(args, "--"), argv...)...)
}

// wait returns the exit status.
func (r *running) wait(t testing.TB, within time.Duration) int {
	t.Helper()
	within = max(within, patience)
	select {
	case <-r.end:
	case <-time.After(within):
		t.Fatalf("still running after %s\nstdout: %s\nstderr: %s", within, r.stdout(), r.stderr())
	}
	if s, ok := r.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return r.ProcessState.ExitCode()
}

// processes are those that carry the lab's marker or are this lab's supervisor and
// keepers, which have an empty environment.
func (l *lab) processes() map[int]string {
	out := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		words := splitNUL(line)
		if len(words) == 0 {
			continue
		}
		if err == nil && bytes.Contains(env, []byte(l.marker)) || l.owns(words) {
			out[pid] = strings.Join(words, " ")
		}
	}
	return out
}

// owns says whether that is the command line of a keeper, a room or a holder of a tree of this lab.
func (l *lab) owns(words []string) bool {
	if !slices.Contains([]string{keeper.KeeperName, keeper.RoomName, keeper.HolderName}, words[0]) || len(words) < 2 {
		return false
	}
	_, err := os.Stat(filepath.Join(l.home, "state", "trees", words[1]))
	return err == nil
}

// nobody fails if a process of the lab is left. Like wait and await it gives a
// busy machine at least its patience: that it ends is the promise, not when.
func (l *lab) nobody(within time.Duration) {
	l.t.Helper()
	within = max(within, patience)
	var left map[int]string
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		if left = l.processes(); len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for pid, what := range left {
		l.t.Errorf("survivor %d: %s", pid, what)
		unix.Kill(pid, unix.SIGKILL)
	}
}

// supervisorOf finds the supervisor below a front.
func supervisorOf(t testing.TB, front int) int {
	t.Helper()
	var found int
	await(t, 5*time.Second, "a supervisor", func() bool {
		for _, pid := range childrenOf(front) {
			if argv0(pid) == supervisor.Name {
				found = pid
				return true
			}
		}
		return false
	})
	return found
}

// keepersOf finds the keepers that hold a command: those with a child, or with a room that has
// one, that is not a waiting stage.
func keepersOf(sup int) []int {
	var out []int
	for _, pid := range childrenOf(sup) {
		if argv0(pid) != keeper.KeeperName {
			continue
		}
		children := childrenOf(pid)
		if len(children) == 1 && argv0(children[0]) == keeper.RoomName {
			children = childrenOf(children[0])
		}
		for _, child := range children {
			if argv0(child) != keeper.StageName {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

func argv0(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := splitNUL(line)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func childrenOf(pid int) []int {
	var out []int
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, f := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

func await(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	within = max(within, patience)
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", within, what)
		}
	}
}
