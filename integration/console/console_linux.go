package console

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// Options say where a program runs and how large its terminal is.
type Options struct {
	// Dir is the working directory, Env the whole environment.
	Dir string
	Env []string
	// Columns and Rows are the size; 120 by 40 if zero.
	Columns, Rows uint16
	// Redirected sends standard output to a pipe instead of the terminal; see Output.
	Redirected bool
}

// A Console is a terminal with a program in it.
type Console struct {
	cmd    *exec.Cmd
	master *os.File

	mu      sync.Mutex
	printed []byte // all that came from the terminal
	read    int    // where Shows goes on
	output  []byte // of a redirected standard output

	done chan struct{} // closed when the program has ended
	idle chan struct{} // closed when nothing more can be printed
	err  error
}

// Start runs a program, as the leader of a session whose terminal it is. It is
// killed at the end of the test.
func Start(t testing.TB, o Options, argv ...string) *Console {
	t.Helper()
	testenv.Need(t, "pty")
	if o.Columns == 0 {
		o.Columns, o.Rows = 120, 40
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatalf("console: %v", err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Cols: o.Columns, Rows: o.Rows}); err != nil {
		t.Fatalf("console: %v", err)
	}
	c := &Console{cmd: exec.Command(argv[0], argv[1:]...), master: master, done: make(chan struct{}), idle: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = o.Dir, o.Env
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	var out *os.File
	if o.Redirected {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatalf("console: %v", err)
		}
		c.cmd.Stdout, out = writer, reader
		defer writer.Close()
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("console: %v", err)
	}
	slave.Close()
	var reads sync.WaitGroup
	reads.Go(func() { c.collect(master, &c.printed) })
	if out != nil {
		reads.Go(func() {
			c.collect(out, &c.output)
			out.Close()
		})
	}
	go func() {
		reads.Wait()
		close(c.idle)
	}()
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		select {
		case <-c.done:
		default:
			// It may end by itself just now.
			_ = c.cmd.Process.Kill()
			<-c.done
		}
		// Closing hangs up on whatever else holds the terminal.
		master.Close()
		if t.Failed() {
			t.Logf("%s showed:\n%s", strings.Join(argv, " "), c.Transcript())
		}
	})
	return c
}

func (c *Console) collect(from io.Reader, to *[]byte) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		*to = append(*to, buffer[:n]...)
		c.mu.Unlock()
		if err != nil {
			return // EIO is how a terminal says that nobody holds its other side
		}
	}
}

// PID is the program's process id.
func (c *Console) PID() int { return c.cmd.Process.Pid }

// Signal sends the program a signal.
func (c *Console) Signal(sig syscall.Signal) error { return c.cmd.Process.Signal(sig) }

// Type types text as it is; \r is the Enter key and \x03 Ctrl-C.
func (c *Console) Type(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c.master, text); err != nil {
		t.Fatalf("console: %v", err)
	}
}

// Resize changes the terminal's size.
func (c *Console) Resize(t testing.TB, columns, rows uint16) {
	t.Helper()
	if err := pty.Setsize(c.master, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		t.Fatalf("console: %v", err)
	}
}

// escapes are the control sequences that move or colour, which a transcript
// leaves out.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Za-z]|[ -/]*[0-~])`)

func plain(b []byte) string {
	return strings.ReplaceAll(escapes.ReplaceAllString(string(b), ""), "\r", "")
}

// Transcript is everything that was printed to the terminal, without control
// sequences.
func (c *Console) Transcript() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return plain(c.printed)
}

// Output is what a redirected standard output has received.
func (c *Console) Output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.output)
}

// Shows waits until all the texts have been printed since the last call of
// Shows that succeeded, and returns what was printed.
func (c *Console) Shows(t testing.TB, within time.Duration, texts ...string) string {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		ended := c.ended()
		c.mu.Lock()
		fresh := plain(c.printed[c.read:])
		all := true
		for _, text := range texts {
			all = all && strings.Contains(fresh, text)
		}
		if all {
			c.read = len(c.printed)
		}
		c.mu.Unlock()
		switch {
		case all:
			return fresh
		case ended:
			t.Fatalf("the program has ended (%v) and did not show %q, but:\n%s", c.err, texts, fresh)
		case time.Now().After(deadline):
			t.Fatalf("after %s the terminal does not show %q, but:\n%s", within, texts, fresh)
		}
	}
}

// ended reports whether the program has ended; what it printed is then read.
func (c *Console) ended() bool {
	select {
	case <-c.done:
	default:
		return false
	}
	select {
	case <-c.idle:
	case <-time.After(time.Second): // something else holds the terminal open
	}
	return true
}

// Status waits for the program to end and returns its exit status, 128+n after
// signal n.
func (c *Console) Status(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(within):
		t.Fatalf("after %s the program has not ended; it showed:\n%s", within, c.Transcript())
	}
	var exit *exec.ExitError
	if c.err != nil && !errors.As(c.err, &exit) {
		t.Fatalf("console: %v", c.err)
	}
	if ws := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}
