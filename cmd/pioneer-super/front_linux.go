package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/getpioneer/pioneer-super/cmd/pioneer-super/terminal"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

const maxConfigFile = 1 << 20

// spawn is a client of the tree that it finds; without one it is the front of a
// new tree.
func spawn(c *cli.Context) error {
	argv := c.Args().Slice()
	if len(argv) == 0 {
		return exit(125, "spawn: no command; expected pioneer-super spawn [flags] -- COMMAND [ARGUMENT...]")
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	if _, err := statusDescriptor(c); err != nil {
		return err
	}
	// What a script's unset variable leaves is no choice: never the widest mode, or
	// no cap, because of it.
	for _, flag := range []string{"mode", "cap", "policy", "cwd", "parent"} {
		if c.IsSet(flag) && c.String(flag) == "" {
			return exit(125, "--%s is empty; leave it out for the default", flag)
		}
	}
	for _, flag := range []string{"mode", "agent"} {
		if !utf8.ValidString(c.String(flag)) {
			return exit(125, "--%s %q is not UTF-8", flag, c.String(flag))
		}
	}
	request, err := wish(control.OpSpawn, c.String("cwd"))
	if err != nil {
		return exit(125, "%v", err)
	}
	request.Command.Argv = argv
	request.Spawn = &control.Spawn{Mode: c.String("mode"), Agent: c.String("agent")}
	if request.Spawn.Limits, err = limits(c); err != nil {
		return err
	}
	if path := c.String("cap"); path != "" {
		if request.Spawn.Cap, err = readFile("--cap", path); err != nil {
			return exit(125, "%v", err)
		}
	}
	if !c.Bool("new-tree") {
		conn, err := findTree(places)
		var dead deadTree
		switch {
		case err == nil:
			return nested(c, conn, request)
		case errors.As(err, &dead):
			warn("%v; this starts a new one", err)
		case !errors.Is(err, errNoTree):
			return exit(125, "%v", err)
		}
	}
	return front(c, places, request)
}

// limits reads the flags that end a session; one that is given is above zero.
func limits(c *cli.Context) (control.Limits, error) {
	for _, flag := range []string{"max-wall", "max-idle"} {
		if c.IsSet(flag) && c.Duration(flag) < time.Millisecond {
			return control.Limits{}, exit(125, "--%s %s: expected a millisecond or more, such as 90s or 10m", flag, c.Duration(flag))
		}
	}
	if n := c.Int("max-processes"); c.IsSet("max-processes") && (n < 1 || n > policy.MostProcesses) {
		return control.Limits{}, exit(125, "--max-processes %d: expected 1 to %d", n, policy.MostProcesses)
	}
	return control.Limits{WallMS: c.Duration("max-wall").Milliseconds(), IdleMS: c.Duration("max-idle").Milliseconds(), Processes: c.Int("max-processes")}, nil
}

// nested runs a request as a client of a tree above.
func nested(c *cli.Context, conn *control.Conn, request *control.Request) error {
	for _, flag := range []string{"policy", "headless", "interactive", "no-envelope", "sandbox-backend", "phrase", "approver-fd", "max-depth", "parent", "user-message"} {
		if c.IsSet(flag) && flag != "headless" {
			return exit(125, "--%s is for the root of a tree; this is inside one (--new-tree starts another)", flag)
		}
	}
	defer conn.Close()
	cl := &client{conn: conn}
	if human, err := ownTerminal(request); err == nil {
		cl.human = human
		defer human.Close()
	}
	result, _ := cl.run(request)
	if cl.human != nil {
		cl.human.Close()
	}
	return leave(result, c.Int("status-fd"))
}

// ownTerminal opens the terminal of a client whose streams are on one, for the
// relay. It answers nothing: it belongs to no human endpoint.
func ownTerminal(r *control.Request) (*terminal.Human, error) {
	if !slices.Contains(r.Command.Streams[:], string(sandbox.KindTerminal)) {
		return nil, errors.New("no stream is a terminal")
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return terminal.Open(tty)
}

// front starts a tree: the supervisor over an inherited socket, then a client
// like every other that happens to own a terminal, and the tree's lifeline.
func front(c *cli.Context, places registry.Places, request *control.Request) error {
	root := &control.Root{
		Tree: registry.NewID("t"), State: places.State, Run: places.Run, Config: places.Config,
		NoEnvelope: c.Bool("no-envelope"), Backend: c.String("sandbox-backend"), MaxDepth: c.Int("max-depth"),
		Reach: reach(),
	}
	switch root.Backend {
	case "", sandbox.BackendNamespaces, sandbox.BackendLandlock:
	default:
		return exit(125, "--sandbox-backend %q: expected %s or %s", root.Backend, sandbox.BackendNamespaces, sandbox.BackendLandlock)
	}
	if root.MaxDepth < 1 || root.MaxDepth > 64 {
		return exit(125, "--max-depth %d: expected 1 to 64", root.MaxDepth)
	}
	var err error
	if root.Executable, err = os.Executable(); err != nil {
		return exit(125, "%v", err)
	}
	if root.Home, err = os.UserHomeDir(); err != nil {
		return exit(125, "%v", err)
	}
	root.Bash, root.Sh = realShell("bash"), realShell("sh")
	if err := readRules(places, c.String("policy"), root); err != nil {
		return exit(125, "%v", err)
	}
	for _, path := range textsOf(c, "user-message") {
		f, err := readFile("--user-message", path)
		if err != nil {
			return exit(125, "%v", err)
		}
		root.UserMessages = append(root.UserMessages, *f)
		if err := supervisor.CheckUserMessages(root.UserMessages); err != nil {
			return exit(125, "--user-message: %v", err)
		}
	}
	var files []*os.File
	if n := c.Int("approver-fd"); n >= 0 {
		if n < 3 {
			return exit(125, "--approver-fd %d: expected a descriptor above 2", n)
		}
		f := os.NewFile(uintptr(n), "approver")
		if st, err := f.Stat(); err != nil || st.Mode()&os.ModeSocket == 0 {
			return exit(125, "--approver-fd %d: expected an open socket", n)
		}
		unix.CloseOnExec(n)
		root.Approver, files = true, []*os.File{f}
	}
	human, err := frontTerminal(c)
	if err != nil {
		return exit(125, "%v", err)
	}
	if human != nil {
		defer human.Close()
		root.Terminal = true
	}
	if c.Bool("phrase") {
		if root.Phrase, err = choosePhrase(root.Tree); err != nil {
			return exit(125, "--phrase: %v", err)
		}
	}
	root.GitConfig = gitConfig(root.Home)
	if root.Parent, err = foreignParent(c.String("parent")); err != nil {
		return exit(125, "--parent: %v", err)
	}
	request.Op, request.Root = control.OpRoot, root

	conn, err := startSupervisor()
	if err != nil {
		return exit(125, "supervisor: %v", err)
	}
	cl := &client{conn: conn, human: human}
	if human != nil {
		desk := newDesk(human, conn, root.Tree)
		cl.questions = desk.take
		human.SetHooks(terminal.Hooks{Stop: func() { cl.stop(int(unix.SIGTERM)) }, Waiting: desk.waiting})
	}
	result, ok := cl.run(request, files...)
	if human != nil {
		human.Close()
	}
	conn.Close()
	clearTree()
	if !ok {
		result.Reason = "the supervisor of this tree is gone; every process of the tree was ended"
	}
	return leave(result, c.Int("status-fd"))
}

// startSupervisor starts this very binary again, never a path: a session of its
// own, no terminal, an empty environment.
func startSupervisor() (*control.Conn, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := reaper.BecomeSubreaper(); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	// What this process was given beside its streams is for it alone: whoever waits
	// for the end of such a pipe must not wait for a keeper.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("close_range", err)
	}
	if _, err := syscall.ForkExec("/proc/self/exe", []string{supervisor.Name}, &syscall.ProcAttr{
		Dir:   "/",
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}); err != nil {
		return nil, os.NewSyscallError("fork", err)
	}
	// The operator's secrets are in this process's environment: nobody reads it.
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	conn, err := control.FromFile(ours)
	if err != nil {
		return nil, err
	}
	return greet(conn)
}

// clearTree ends whatever of the tree arrived at this process, and reaps it: of
// front, supervisor and keeper any two may be killed at once.
func clearTree() {
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return
		case err == nil && pid > 0, errors.Is(err, unix.EINTR):
			continue
		}
		// The supervisor ends by itself when it sees that this end is closed; what
		// else is here has lost its keeper.
		reaper.Clear(isSupervisor, time.Second)
		time.Sleep(time.Millisecond)
	}
	reaper.Clear(nil, 5*time.Second)
}

func isSupervisor(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	words := splitNUL(line)
	return len(words) == 1 && words[0] == supervisor.Name
}

// frontTerminal opens the terminal for dialogs, before any child exists. No
// terminal is no error: then nobody answers here.
func frontTerminal(c *cli.Context) (*terminal.Human, error) {
	if c.Bool("headless") && c.Bool("interactive") {
		return nil, errors.New("--headless and --interactive exclude each other")
	}
	if c.Bool("headless") || os.Getenv("CI") != "" && !c.Bool("interactive") {
		return nil, nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		if c.Bool("interactive") {
			return nil, fmt.Errorf("--interactive: no terminal: %w", err)
		}
		return nil, nil
	}
	return terminal.Open(tty)
}

func choosePhrase(tree string) ([]byte, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	phrase, err := readPhrase(tty, "phrase for this tree (not shown): ")
	if err != nil {
		return nil, err
	}
	if len(phrase) < 4 {
		return nil, errors.New("expected at least 4 characters")
	}
	return supervisor.HashPhrase(tree, string(phrase)), nil
}

// readPhrase asks for a line that is not shown. The terminal shows nothing from
// before it asks: whoever types fast does not show the beginning.
func readPhrase(tty *os.File, ask string) ([]byte, error) {
	fd := int(tty.Fd())
	state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	defer unix.IoctlSetTermios(fd, unix.TCSETS, state)
	silent := *state
	silent.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &silent); err != nil {
		return nil, os.NewSyscallError("ioctl", err)
	}
	fmt.Fprint(tty, ask)
	phrase, err := term.ReadPassword(fd)
	fmt.Fprintln(tty)
	return phrase, err
}

// reach lists what could type into this terminal, or act for this user, on
// behalf of a process that can reach its socket.
func reach() []string {
	var out []string
	for _, r := range []struct{ variable, name string }{
		{"TMUX", "tmux"}, {"STY", "screen"}, {"ZELLIJ", "zellij"}, {"KITTY_LISTEN_ON", "kitty"}, {"WEZTERM_UNIX_SOCKET", "wezterm"},
		{"DBUS_SESSION_BUS_ADDRESS", "session bus"}, {"DISPLAY", "display"}, {"WAYLAND_DISPLAY", "display"},
	} {
		if os.Getenv(r.variable) != "" {
			out = append(out, r.name)
		}
	}
	if unix.Access("/var/run/docker.sock", unix.W_OK) == nil {
		out = append(out, "docker")
	}
	return out
}

// realShell finds a shell on the operator's PATH, by absolute path.
func realShell(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	return path
}

// gitConfig is the operator's own git configuration, nothing if there is none.
func gitConfig(home string) []byte {
	path := os.Getenv("GIT_CONFIG_GLOBAL")
	if path == "" {
		path = filepath.Join(home, ".gitconfig")
	}
	f, err := readFile("git configuration", path)
	if err != nil {
		return nil
	}
	return f.Data
}

// readFile opens what a flag names with this process's own rights.
func readFile(flag, path string) (*control.File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(abs, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %s: expected a regular file", flag, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if len(data) > maxConfigFile {
		return nil, fmt.Errorf("%s %s: larger than 1 MiB", flag, path)
	}
	return &control.File{Name: abs, Data: data}, nil
}
