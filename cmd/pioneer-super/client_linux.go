package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/cmd/pioneer-super/terminal"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// fixedControl is where a session's control directory appears inside a sandbox
// that mounts it.
const fixedControl = "/run/pioneer-super/ctl.d/ctl"

var errNoTree = errors.New("no tree: this process is not below a running pioneer-super")

// deadTree says that there is evidence of a tree which has ended.
type deadTree struct{ id string }

func (d deadTree) Error() string {
	return "the tree " + d.id + ", which this process was started in, has ended"
}

// findTree connects to the tree that this process belongs to: by the inherited
// descriptor, the socket's name, the control directory's fixed place, then the
// registry by the ancestors of this process. Evidence of a tree that lives and
// cannot be reached is an error, never a silent new root.
func findTree(places registry.Places) (*control.Conn, error) {
	var tried []error
	if fd, ok := os.LookupEnv("PIONEER_SUPER_FD"); ok {
		n, err := strconv.Atoi(fd)
		if err != nil || n < 3 || n > 1<<20 {
			return nil, fmt.Errorf("PIONEER_SUPER_FD=%q: expected the number of a descriptor", fd)
		}
		conn, err := openChannel(n)
		if err == nil {
			// A tree that answers lives, also if its answer is no.
			return greet(conn)
		}
		tried = append(tried, fmt.Errorf("descriptor %d (PIONEER_SUPER_FD): %w", n, err))
	}
	for _, path := range []string{os.Getenv("PIONEER_SUPER_SOCKET"), fixedControl} {
		if path == "" || path == fixedControl && !exists(path) {
			continue
		}
		conn, err := control.Dial(path)
		if err == nil {
			if conn, err = greet(conn); err == nil {
				return conn, nil
			}
			return nil, err
		}
		tried = append(tried, err)
	}
	id := os.Getenv("PIONEER_SUPER_TREE")
	path, above := byAncestry(places)
	if path != "" {
		conn, err := control.Dial(path)
		if err == nil {
			return greet(conn)
		}
		tried = append(tried, err)
	}
	switch {
	case above != "":
		// A keeper above this process lives, whatever can be seen of its tree here.
		id = above
	case id == "" && len(tried) == 0:
		return nil, errNoTree
	case id == "":
		return nil, deadTree{"(unnamed)"}
	default:
		tree, err := registry.Open(places, id)
		if errors.Is(err, os.ErrNotExist) {
			return nil, deadTree{id}
		}
		if err != nil {
			tried = append(tried, err)
			break
		}
		alive, err := tree.Alive()
		tree.Close()
		if err == nil && !alive {
			return nil, deadTree{id}
		}
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("the tree %s lives but cannot be reached: a program in between took the variables and the descriptor by which it is found", id)
	}
	return nil, fmt.Errorf("the tree %s lives but cannot be reached (%w); a program in between may have closed the descriptor", id, errors.Join(tried...))
}

func openChannel(n int) (*control.Conn, error) {
	var st unix.Stat_t
	if err := unix.Fstat(n, &st); err != nil {
		return nil, err
	}
	// A copy: what this process starts keeps the number.
	dup, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	packet, err := control.NewPacket(os.NewFile(uintptr(dup), "supervisor"))
	if err != nil {
		return nil, err
	}
	defer packet.Close()
	return packet.Open()
}

// byAncestry looks in the registry for the living tree that this process stands
// in by its ancestors, and for its session's socket.
func byAncestry(places registry.Places) (socket, tree string) {
	chain, _ := reaper.Ancestors(os.Getppid(), func(int) bool { return false })
	above := make([]registry.Process, len(chain))
	for i, p := range chain {
		above[i] = registry.Process{PID: p.PID, Start: p.Start}
	}
	standing, found, _ := registry.Above(places, above)
	if !found {
		// A keeper of a tree in another state directory is evidence all the same.
		for _, p := range chain {
			if id := keeperTree(p.PID); id != "" {
				return "", id
			}
		}
		return "", ""
	}
	if standing.Session == "" {
		return "", standing.Tree
	}
	return filepath.Join(standing.RunDir, "s", standing.Session, "ctl.d", "ctl"), standing.Tree
}

// keeperTree returns the tree whose keeper that process is.
func keeperTree(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	words := splitNUL(line)
	if len(words) == 2 && words[0] == keeper.KeeperName {
		return words[1]
	}
	return ""
}

func splitNUL(b []byte) []string {
	var out []string
	start := 0
	for i, c := range b {
		if c == 0 {
			out = append(out, string(b[start:i]))
			start = i + 1
		}
	}
	return out
}

// greet exchanges versions.
func greet(conn *control.Conn) (*control.Conn, error) {
	// One that refuses says so without listening: its word comes before the error
	// of a write that it did not wait for.
	sent := conn.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: build()}})
	conn.Unix().SetReadDeadline(time.Now().Add(10 * time.Second))
	defer conn.Unix().SetReadDeadline(time.Time{})
	var m control.Message
	if err := conn.Recv(&m); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the supervisor did not answer: %w", cmp.Or(sent, err))
	}
	switch {
	case m.Result != nil:
		conn.Close()
		return nil, errors.New(m.Result.Reason)
	case m.Hello == nil:
		conn.Close()
		return nil, errors.New("the supervisor did not say its version")
	case m.Hello.Protocol != control.Protocol:
		conn.Close()
		return nil, fmt.Errorf("this is protocol %d (build %s), the tree's supervisor speaks %d (build %s)", control.Protocol, build(), m.Hello.Protocol, m.Hello.Build)
	}
	return conn, nil
}

// wish makes the request of a command from what this process has.
func wish(op string, cwd string) (*control.Request, error) {
	dir, err := directory(cwd)
	if err != nil {
		return nil, err
	}
	mask := unix.Umask(0)
	unix.Umask(mask)
	r := &control.Request{ID: registry.NewRequestID(), Op: op, Command: &control.Command{Dir: dir, Env: environment(), Umask: mask}}
	for i := range 3 {
		kind, err := sandbox.StreamKind(i)
		if err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i, err)
		}
		r.Command.Streams[i] = string(kind)
	}
	return r, nil
}

// environment is this process's, without entries that are no text: they could
// neither be shown nor judged.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		if utf8.ValidString(e) {
			return false
		}
		name, _, _ := strings.Cut(e, "=")
		warn("environment entry %s is not UTF-8: left out", prompt.Visible(name))
		return true
	})
}

// text says what of a request is no text.
func text(r *control.Request) error {
	if r.Command == nil {
		return nil
	}
	for i, a := range r.Command.Argv {
		if !utf8.ValidString(a) {
			return fmt.Errorf("argument %d is not UTF-8: what cannot be shown is not run", i)
		}
	}
	if !utf8.ValidString(r.Command.Text) {
		return errors.New("the shell text is not UTF-8: what cannot be shown is not run")
	}
	if !utf8.ValidString(r.Command.Dir) {
		return fmt.Errorf("the directory's name is not UTF-8: %s", prompt.Visible(r.Command.Dir))
	}
	return nil
}

func directory(cwd string) (string, error) {
	if cwd == "" {
		return os.Getwd()
	}
	dir, err := filepath.Abs(cwd)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("--cwd: %w", err)
	}
	if !st.IsDir() {
		return "", fmt.Errorf("--cwd %s: expected a directory", cwd)
	}
	return dir, nil
}

// client runs one request to its end: it holds the streams and the terminal,
// forwards signals, and believes the status that it is told.
type client struct {
	conn  *control.Conn
	human *terminal.Human // nil: this client owns no terminal
	// questions takes what a human endpoint is asked; nil for any other client.
	questions func(control.Message)

	mu    sync.Mutex
	wires *control.Conn // to the keeper, once it has the streams
	stops int
}

// run sends r and returns how it ended. ok is false when the supervisor was lost.
func (c *client) run(r *control.Request, files ...*os.File) (result control.Result, ok bool) {
	if err := text(r); err != nil {
		return control.Result{Exit: 125, Class: control.ClassFailed, Reason: err.Error()}, true
	}
	if err := c.conn.Send(control.Message{Request: r}, files...); err != nil {
		return control.Result{Exit: 125, Class: control.ClassFailed, Reason: "the supervisor is gone: " + err.Error()}, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGCONT)
	defer signal.Stop(signals)
	go c.forward(ctx, signals)
	relay := make(chan struct{})
	close(relay)
	for {
		var m control.Message
		got, err := c.conn.RecvFiles(&m, 1)
		if err != nil {
			return control.Result{Exit: 125, Class: control.ClassFailed, Reason: "the supervisor is gone"}, false
		}
		switch {
		case m.Start != nil && len(got) == 1:
			relay = make(chan struct{})
			go c.hand(ctx, r, got[0], relay)
		case m.Notice != nil:
			c.notice(m.Notice.Text)
		case m.Question != nil, m.Withdraw != nil:
			if c.questions != nil {
				c.questions(m)
			}
		case m.Result != nil:
			// What the command wrote to its terminal is shown before this leaves; a
			// background process may hold the terminal open for ever.
			select {
			case <-relay:
			case <-time.After(200 * time.Millisecond):
			}
			return *m.Result, true
		}
	}
}

func (c *client) notice(text string) {
	if c.human != nil {
		c.human.Notice(text)
		return
	}
	warn("%s", prompt.Visible(text))
}

// hand gives the streams and the directory to the keeper, and relays the
// pseudo-terminal that it gives back.
func (c *client) hand(ctx context.Context, r *control.Request, socket *os.File, done chan<- struct{}) {
	defer close(done)
	conn, err := control.FromFile(socket)
	if err != nil {
		return
	}
	dir, err := os.OpenFile(r.Command.Dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		conn.Close()
		warn("%v", err)
		return
	}
	h := keeper.Hand{Streams: r.Command.Streams}
	for fd := range 3 {
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			h.Rows, h.Cols = size.Row, size.Col
			break
		}
	}
	err = conn.Send(h, os.Stdin, os.Stdout, os.Stderr, dir)
	dir.Close()
	if err != nil {
		conn.Close()
		return
	}
	var taken keeper.Wire
	files, err := conn.RecvFiles(&taken, 1)
	if err != nil {
		conn.Close()
		return
	}
	c.mu.Lock()
	c.wires = conn
	c.mu.Unlock()
	go c.listen(conn)
	if len(files) == 1 {
		c.relay(ctx, r, files[0])
	}
}

// listen hears from the keeper that the command was stopped by its terminal: then
// this client stops as well, so that the shell above gets its prompt.
func (c *client) listen(conn *control.Conn) {
	for {
		var w keeper.Wire
		if conn.Recv(&w) != nil {
			return
		}
		if w.Stopped {
			c.suspend()
		}
	}
}

func (c *client) suspend() {
	if c.human != nil {
		// It puts the terminal back first.
		unix.Kill(os.Getpid(), unix.SIGTSTP)
		return
	}
	unix.Kill(os.Getpid(), unix.SIGSTOP)
}

// relay carries bytes between the command's terminal and this one. Keys are read
// only where this client's own standard input is the terminal.
func (c *client) relay(ctx context.Context, r *control.Request, master *os.File) {
	defer master.Close()
	fit := func(rows, cols uint16) { resize(master, rows, cols) }
	switch {
	case c.human == nil:
		// No terminal could be opened although a stream is one: its bytes are worth
		// more than its looks.
		out := os.Stdout
		if r.Command.Streams[1] != string(sandbox.KindTerminal) {
			out = os.Stderr
		}
		io.Copy(out, master)
	case r.Command.Streams[0] == string(sandbox.KindTerminal):
		c.human.Relay(ctx, master, fit)
	default:
		c.human.Show(ctx, master, fit)
	}
}

func resize(master *os.File, rows, cols uint16) {
	unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
}

// forward passes signals on. An interrupt ends the command; a second one does not
// wait for it.
func (c *client) forward(ctx context.Context, signals <-chan os.Signal) {
	for {
		var s os.Signal
		select {
		case <-ctx.Done():
			return
		case s = <-signals:
		}
		sig := s.(unix.Signal)
		switch sig {
		case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
			c.stop(int(sig))
		case unix.SIGTSTP:
			if c.human == nil {
				c.wire(unix.SIGTSTP)
				c.suspend()
			}
		case unix.SIGCONT:
			c.wire(unix.SIGCONT)
		default:
			c.wire(sig)
		}
	}
}

func (c *client) stop(sig int) {
	c.mu.Lock()
	c.stops++
	if c.stops > 1 {
		sig = int(unix.SIGKILL)
	}
	c.mu.Unlock()
	c.conn.Send(control.Message{Stop: &control.Stop{Signal: sig}})
}

func (c *client) wire(sig unix.Signal) {
	c.mu.Lock()
	conn := c.wires
	c.mu.Unlock()
	if conn != nil {
		conn.Send(keeper.Wire{Signal: int(sig)})
	}
}

// leave prints what there is to say about an end and returns the status.
func leave(r control.Result, statusFD int) error {
	if statusFD >= 0 {
		if f := os.NewFile(uintptr(statusFD), "status"); f != nil {
			line, _ := json.Marshal(r)
			f.Write(append(line, '\n'))
		}
	}
	switch r.Class {
	case control.ClassExited, control.ClassSignaled, control.ClassDecided:
		return silent(r.Exit)
	}
	// A stopped one has its agent's own status; why it was stopped is said beside it.
	return exit(r.Exit, "%s", visibleLines(r.Reason))
}

// visibleLines shows several lines as such, each further one set in, so that none
// can be taken for another message of ours.
func visibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = prompt.Visible(lines[i])
	}
	return strings.Join(lines, "\n  ")
}

// statusDescriptor is what --status-fd names, -1 for nothing.
func statusDescriptor(c *cli.Context) (int, error) {
	n := c.Int("status-fd")
	if !c.IsSet("status-fd") {
		return -1, nil
	}
	if n < 0 {
		return -1, exit(125, "--status-fd %d: expected the number of a descriptor", n)
	}
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFL, 0)
	if err != nil {
		return -1, exit(125, "--status-fd %d: %v", n, err)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return -1, exit(125, "--status-fd %d: open for reading only", n)
	}
	if n > 2 {
		// It is for what this process says, and for nothing that it starts.
		unix.CloseOnExec(n)
	}
	return n, nil
}

func silent(code int) error {
	if code == 0 {
		return nil
	}
	return exitError{code: code}
}
