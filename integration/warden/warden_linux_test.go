package warden_test

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/integration/warden"
)

func run(t *testing.T, see func(warden.Call) bool, text string) (status int, left []string, out string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", text)
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	w, err := warden.Prepare(cmd, see)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Started()
	if pid, err := w.Program(); err != nil || pid <= 0 {
		t.Errorf("program %d, %v", pid, err)
	}
	cmd.Wait()
	status, left, err = w.Wait()
	if err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	return status, left, b.String()
}

// TestTheLastOneIsWaitedFor: the end is that of the last process, however far it
// went from the program.
func TestTheLastOneIsWaitedFor(t *testing.T) {
	testenv.Need(t, "subreaper")
	status, left, out := run(t, nil, `(env -i setsid sh -c 'sleep 0.3; echo last' &) ; exit 7`)
	if status != 7 || left != nil || out != "last\n" {
		t.Errorf("status %d, left %v, %q", status, left, out)
	}
	if status, _, _ := run(t, nil, `kill -9 $$`); status != 128+9 {
		t.Errorf("status %d of a killed program", status)
	}
}

// TestACallIsShownBeforeItIsMade: a process that is killed there has not made it.
func TestACallIsShownBeforeItIsMade(t *testing.T) {
	testenv.Need(t, "subreaper", "seccomp-notify")
	dir := t.TempDir()
	text := `cd ` + dir + `; mkdir a; /bin/mkdir b; echo on; exit 3`
	var mu sync.Mutex
	var seen []string
	status, left, out := run(t, func(c warden.Call) bool {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, c.Role+" "+c.Name)
		return true
	}, text)
	if status != 3 || left != nil || out != "on\n" {
		t.Errorf("control: status %d, left %v, %q", status, left, out)
	}
	mu.Lock()
	shown := slices.Clone(seen)
	mu.Unlock()
	for _, want := range []string{"/bin/sh execve", "/bin/sh write", "/bin/sh exit_group"} {
		if !slices.Contains(shown, want) {
			t.Errorf("%q is not in %q", want, shown)
		}
	}
	status, left, out = run(t, func(c warden.Call) bool {
		if c.Role != "/bin/sh" || c.Name != "write" {
			return true
		}
		unix.Kill(c.PID, unix.SIGKILL)
		return false
	}, `echo said; exit 3`)
	if status != 128+9 || left != nil || out != "" {
		t.Errorf("status %d, left %v, %q: the killed program spoke", status, left, out)
	}
}
