package screen

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// Options say where and how large a program's terminal is.
type Options struct {
	// Dir is the working directory.
	Dir string
	// Env is the program's whole environment, but for what tmux adds (TERM, TMUX, TMUX_PANE).
	Env []string
	// Columns and Rows are the size; 100 by 30 if zero.
	Columns, Rows int
}

// A Screen is a terminal with a program in it.
type Screen struct {
	socket string
	// status is the file that holds the program's exit status once it has ended.
	status string
	env    []string
}

// keepStatus runs a program and keeps its exit status in the file $0. tmux does
// not always reap a program that ends while its screen is being read, so it
// cannot be asked. The traps are for the shell alone: a key that interrupts the
// program must not end the shell first. What waits at the end keeps the screen as
// the program left it, until the test ends it with the rest.
const keepStatus = `trap : INT QUIT TERM HUP; "$@"; s=$?; echo $s >"$0.new" && mv "$0.new" "$0"; exec sleep 3600`

// Start runs a program in a terminal that ends with the test.
func Start(t testing.TB, o Options, argv ...string) *Screen {
	t.Helper()
	testenv.Need(t, "tmux")
	// A socket's path is at most 107 bytes long; t.TempDir can be longer.
	dir, err := os.MkdirTemp("", "screen-")
	if err != nil {
		t.Fatalf("screen: %v", err)
	}
	s := &Screen{socket: filepath.Join(dir, "s"), status: filepath.Join(dir, "status"), env: o.Env}
	if o.Columns == 0 {
		o.Columns, o.Rows = 100, 30
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen at the end:\n%s", s.Text())
		}
		// A program may outlive its terminal: a hang-up can be ignored.
		leader, _ := s.tmux("display-message", "-p", "#{pane_pid}")
		// There is nothing to end where the program has ended by itself.
		_, _ = s.tmux("kill-server")
		if pid, err := strconv.Atoi(strings.TrimSpace(leader)); err == nil && pid > 1 {
			killSession(pid)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("screen: %v", err)
		}
	})
	command := []string{"-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(o.Columns), "-y", strconv.Itoa(o.Rows), "-c", o.Dir, "--",
		"sh", "-c", keepStatus, s.status}
	command = append(command, argv...)
	if out, err := s.tmux(command...); err != nil {
		t.Fatalf("screen: %v: %s", err, out)
	}
	return s
}

// killSession kills every process of a terminal session, which its leader names.
func killSession(leader int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if session, err := unix.Getsid(pid); err == nil && session == leader {
			// It may have ended between the two; then there is nothing to kill.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func (s *Screen) tmux(args ...string) (string, error) {
	path, err := exec.LookPath("tmux")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(path, append([]string{"-u", "-S", s.socket}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Text is what the screen shows now, without trailing spaces; the error text of
// tmux if there is no screen any more.
func (s *Screen) Text() string {
	out, err := s.tmux("capture-pane", "-p")
	if err != nil {
		return fmt.Sprintf("(no screen: %v: %s)", err, out)
	}
	lines := strings.Split(out, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Type types text as it is.
func (s *Screen) Type(t testing.TB, text string) {
	t.Helper()
	if out, err := s.tmux("send-keys", "-l", "--", text); err != nil {
		t.Fatalf("screen: %v: %s", err, out)
	}
}

// Press presses keys by tmux's names for them, such as Enter, Escape or C-c.
func (s *Screen) Press(t testing.TB, keys ...string) {
	t.Helper()
	if out, err := s.tmux(append([]string{"send-keys", "--"}, keys...)...); err != nil {
		t.Fatalf("screen: %v: %s", err, out)
	}
}

// Status waits until the program has ended and returns its exit status; what it
// showed last stays on the screen.
func (s *Screen) Status(t testing.TB, within time.Duration) int {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(30 * time.Millisecond) {
		text, err := os.ReadFile(s.status)
		if err == nil {
			status, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatalf("screen: %v", err)
			}
			return status
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the program has not ended (%v):\n%s", within, err, s.Text())
		}
	}
}

// Shows waits until the screen shows all the texts, and returns it.
func (s *Screen) Shows(t testing.TB, within time.Duration, texts ...string) string {
	t.Helper()
	return s.until(t, within, fmt.Sprintf("show %q", texts), func(screen string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(screen, text) })
	})
}

// Hides waits until the screen shows the text no more, and returns it.
func (s *Screen) Hides(t testing.TB, within time.Duration, text string) string {
	t.Helper()
	return s.until(t, within, fmt.Sprintf("hide %q", text), func(screen string) bool { return !strings.Contains(screen, text) })
}

func (s *Screen) until(t testing.TB, within time.Duration, what string, holds func(string) bool) string {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(30 * time.Millisecond) {
		text := s.Text()
		if holds(text) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the screen does not %s:\n%s", within, what, text)
		}
	}
}
