package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// The test binary plays three parts besides its own. As *stage* it reads a script, becomes
// the script's user, confines itself as a real stage does, and executes itself as
// *victim*, which tries acts and says how each went. As *target* it sleeps, to be attacked.
// So every act is tried after a real execve, in a program that took no part in
// confining itself; the same victim without confinement is the negative control.

const (
	scriptVariable = "SANDBOX_TEST_SCRIPT"
	ordinaryUser   = 65534
	// Under the race detector each process sleeps for a second before it exits, unless told not to.
	exitAtOnce = "GORACE=atexit_sleep_ms=0"
)

// script is what a stage is told.
type script struct {
	Part     string
	UID      int // become this user; 0 stays
	Profile  Profile
	Confine  bool
	Dir      string
	Acts     []string
	World    world
	Argv     []string // execute this instead of the victim
	Env      []string
	FD       int // a descriptor to try
	PID      int // a process to attack
	Grandson bool
	// Inner is how far into its namespaces a stage is: what it becomes next.
	Inner string
	// DeathSignal asks to be killed when the parent dies.
	DeathSignal bool
}

// binary is a copy of the test binary that every user can execute.
var binary string

// The main goroutine keeps the main thread: a goroutine that confines the main thread and
// ends would leave it parked and confined, where another thread ends with its goroutine.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if os.Getenv(scriptVariable) != "" {
		binary, _ = os.Executable()
		os.Exit(playPart())
	}
	dir, err := os.MkdirTemp("/tmp", "sandbox-binary-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		binary = filepath.Join(dir, "victim")
		err = copyExecutable("/proc/self/exe", binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func copyExecutable(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func playPart() int {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv(scriptVariable)), &s); err != nil {
		fmt.Fprintln(os.Stderr, "script:", err)
		return 125
	}
	var err error
	switch s.Part {
	case "stage":
		err = s.stage()
	case "victim":
		err = s.victim()
	case "target":
		_, err = io.Copy(io.Discard, os.Stdin) // until the test ends
	default:
		err = fmt.Errorf("no part %q", s.Part)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, s.Part+":", err)
		return 125
	}
	return 0
}

func (s script) stage() error {
	if s.UID != 0 && s.UID != os.Getuid() {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(s.UID), syscall.Setuid(s.UID)); err != nil {
			return err
		}
		// A process that changed its user is not dumpable; execve makes it so again, as a real
		// stage of that user is.
		again := s
		again.UID = 0
		return again.execute(binary, []string{"stage"})
	}
	if s.Confine && len(s.Profile.View) > 0 && s.Inner != "view" {
		return s.inward()
	}
	if s.DeathSignal {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return err
		}
	}
	if s.Dir != "" {
		if err := os.Chdir(s.Dir); err != nil {
			return err
		}
	}
	if s.Confine {
		if err := s.Profile.Confine(); err != nil {
			return err
		}
	}
	if len(s.Argv) > 0 {
		return syscall.Exec(s.Argv[0], s.Argv, s.Env)
	}
	s.Part = "victim"
	return s.execute(binary, []string{"victim"})
}

// inward starts the next process of those that stand between a session and its command: one in a
// network namespace with a loopback interface, in it the first of a command's namespaces,
// which makes the view, and in that the stage. Each ends as the next did.
func (s script) inward() error {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	switch s.Inner {
	case "":
		if s.Profile.Network {
			Namespaces(attr)
			s.Inner = "first"
			break
		}
		NetworkNamespace(attr)
		s.Inner = "network"
	case "network":
		if err := RaiseLoopback(); err != nil {
			return err
		}
		Namespaces(attr)
		s.Inner = "first"
	case "first":
		if err := s.Profile.Enter(); err != nil {
			return err
		}
		s.Inner = "view"
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(slices.Clone(s.Env), exitAtOnce, scriptVariable+"="+string(text))
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if s.FD == 3 {
		child.ExtraFiles = []*os.File{os.NewFile(3, "given")}
	}
	child.SysProcAttr = attr
	err = child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	}
	return err
}

func (s script) execute(path string, argv []string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, append(slices.Clone(s.Env), exitAtOnce, scriptVariable+"="+string(text)))
}

func (s script) victim() error {
	if s.Grandson {
		s.Grandson = false
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		child := exec.Command(binary)
		child.Env = append(slices.Clone(s.Env), exitAtOnce, scriptVariable+"="+string(text))
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return child.Run()
	}
	results := map[string]string{}
	for _, name := range s.Acts {
		act, ok := acts[name]
		if !ok {
			return fmt.Errorf("no act %q", name)
		}
		results[name] = outcome(act(s))
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// outcome is "ok" or the name of the error number, so that tests can tell a refusal from a
// mistake of the act.
func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// world is the small system that a test plays in.
type world struct {
	Root, Home, Workspace, Outside, Temp, State, Cache string
	UID                                                int
	// Backend is that of the plans, "" for what stands on file rules alone.
	Backend string
}

// newWorld makes a world that belongs to uid.
func newWorld(t testing.TB, uid int, backend ...string) world {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "sandbox-world-")
	if err != nil {
		t.Fatal(err)
	}
	w := world{
		Root: root, Home: root + "/home", Workspace: root + "/home/project", Outside: root + "/outside", Temp: root + "/run/session/tmp",
		State: root + "/run", Cache: root + "/run/session/cache", UID: uid,
		Backend: BackendLandlock,
	}
	t.Cleanup(func() {
		// The act "mount" of a control without a sandbox works as root, and hides the workspace from what removes it.
		for unix.Unmount(w.Workspace, unix.MNT_DETACH) == nil {
		}
		if err := os.RemoveAll(root); errors.Is(err, unix.EBUSY) {
			t.Errorf("a mount is left: %v", err)
		}
	})
	if len(backend) > 0 {
		w.Backend = backend[0]
	}
	for path, content := range map[string]string{
		"/home/.ssh/id_ed25519": "secret", "/home/.cargo/credentials.toml": "secret", "/home/.cargo/bin/tool": "#!/bin/sh\necho tool\n",
		"/home/.gitconfig": "[user]\n\tname = A\n", "/home/.bash_history": "secret", "/home/other-project/.env": "secret",
		"/home/.config/gh/hosts.yml": "secret", "/home/.claude/.credentials.json": "secret",
		"/home/project/main.txt": "main", "/home/project/sub/deep.txt": "deep",
		"/outside/file": "outside", "/outside/empty/x": "", "/run/other/secret": "secret",
	} {
		write(t, root+path, content)
	}
	for _, dir := range []string{w.Temp, w.Cache, w.Outside + "/target"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Link(w.Outside+"/file", w.Workspace+"/linked-before"), os.Chmod(root+"/home/.cargo/bin/tool", 0o755),
		os.Symlink(w.Outside, w.Workspace+"/link-outside"), os.Symlink(w.Outside+"/file", w.Workspace+"/link-file")); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(root, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// hostOf is the host as the world's user sees it.
func hostOf(w world) Host {
	h := Probe()
	h.UID, h.Root, h.Backend = w.UID, w.UID == 0, w.Backend
	return h
}

func (w world) request(mode string) Request {
	return Request{
		Workspace: w.Workspace, Cwd: w.Workspace, Home: w.Home, Temp: w.Temp, CacheDir: w.Cache, Mode: mode,
		Executables: []string{binary}, Deny: []string{w.State}, Host: hostOf(w),
	}
}

func mustPlan(t testing.TB, r Request) (Profile, Report) {
	t.Helper()
	p, report, err := Plan(r)
	if err != nil {
		t.Fatal(err)
	}
	return p, report
}

func (w world) environment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=" + w.Home, "TMPDIR=" + w.Temp, "LANG=C"}
}

// run plays s to its end and returns what it wrote.
func run(t testing.TB, s script, files ...*os.File) (string, string, error) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), exitAtOnce, scriptVariable+"="+string(text))
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// try runs acts under p, or unconfined when p is nil, and returns how each went.
func try(t testing.TB, w world, p *Profile, s script, names ...string) map[string]string {
	t.Helper()
	s.Part, s.UID, s.World, s.Acts, s.Env = "stage", w.UID, w, names, w.environment()
	if s.Dir == "" {
		s.Dir = w.Workspace
	}
	if p != nil {
		s.Profile, s.Confine = *p, true
	}
	out, errs, err := run(t, s)
	if err != nil {
		t.Fatalf("victim: %v\n%s%s", err, out, errs)
	}
	var results map[string]string
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatalf("victim wrote %q: %v", out, err)
	}
	return results
}

// eachBackend runs f as every user with the plans of every backend.
func eachBackend(t *testing.T, f func(t *testing.T, uid int, backend string)) {
	for _, backend := range []string{BackendLandlock, BackendNamespaces} {
		t.Run(backend, func(t *testing.T) {
			eachUser(t, func(t *testing.T, uid int) {
				if backend == BackendNamespaces {
					needNamespaces(t)
				}
				f(t, uid, backend)
			})
		})
	}
}

func needNamespaces(t *testing.T) { testenv.Need(t, "userns", "mountns", "pidns", "netns") }

// eachUser runs f as the superuser and as an ordinary user. A test that is not run by the
// superuser cannot become another user and plays itself.
func eachUser(t *testing.T, f func(t *testing.T, uid int)) {
	users := []int{os.Getuid()}
	if os.Getuid() == 0 {
		users = append(users, ordinaryUser)
	}
	for _, uid := range users {
		t.Run("uid "+strconv.Itoa(uid), func(t *testing.T) { f(t, uid) })
	}
}

// command runs a program under p in the workspace and returns its output.
func command(t testing.TB, w world, p *Profile, env []string, argv ...string) (string, error) {
	t.Helper()
	s := script{Part: "stage", UID: w.UID, World: w, Dir: w.Workspace, Argv: argv, Env: append(w.environment(), env...)}
	if p != nil {
		s.Profile, s.Confine = *p, true
	}
	out, errs, err := run(t, s)
	return strings.TrimSpace(out + errs), err
}

func toJSON(t testing.TB, s script) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// openPair makes a pseudo-terminal.
func openPair(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The pair lives as long as its master, whether or not the test looks at it.
	t.Cleanup(func() { _, _ = master.Close(), slave.Close() })
	return master, slave
}
