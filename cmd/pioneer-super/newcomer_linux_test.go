package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// TestInstalledOutside: the operator's binary lies on PATH where the sandbox cannot
// read; a program of the tree that says pioneer-super gets ours, at any depth.
func TestInstalledOutside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.extra = []string{"PATH=" + filepath.Dir(product.Binary(t)) + ":/usr/local/bin:/usr/bin:/bin"}
	l.rules(`{"permission": {"bash": {"*": "allow"}, "task": {"*": "allow"}}}`)
	l.script("child.sh", "#!/bin/sh\nexec pioneer-super exec -- sh -c 'pioneer-super exec -- echo deep'\n")
	r := l.spawn([]string{"--mode", "auto_accept_edits"}, "bash", "-c", `pioneer-super spawn --mode supervised -- bash -c "pioneer-super exec -- sh child.sh"`)
	if code := r.wait(t, 30*time.Second); code != 0 || strings.TrimSpace(r.stdout()) != "deep" {
		t.Fatalf("exit %d\nstdout: %s\nstderr: %s", code, r.stdout(), r.stderr())
	}
}

// TestFlagsThatSayNothing: an empty flag is not the default, and one that cannot be
// sent does not look like a lost supervisor.
func TestFlagsThatSayNothing(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"mode", ""}, {"cap", ""}, {"policy", ""}, {"cwd", ""}, {"parent", ""}, {"mode", "\xff"}, {"agent", "\xff"}} {
		l := newLab(t)
		r := l.start("spawn", "--headless", "--"+c[0], c[1], "--", "touch", "ran")
		code := r.wait(t, 30*time.Second)
		if code != 125 || !strings.HasPrefix(r.stderr(), "pioneer-super: --"+c[0]+" ") || strings.Contains(r.stderr(), "tree") {
			t.Errorf("--%s %q: exit %d, %s", c[0], c[1], code, r.stderr())
		}
		if _, err := os.Stat(filepath.Join(l.work, "ran")); err == nil {
			t.Errorf("--%s %q: it ran", c[0], c[1])
		}
	}
}

// TestChildNamesUs: a yes to a child whose text calls this binary starts it: the
// file that was judged is the one that its PATH leads to.
func TestChildNamesUs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.extra = []string{"PATH=" + filepath.Dir(product.Binary(t)) + ":/usr/local/bin:/usr/bin:/bin"}
	l.rules(`{"permission": {"task": {"*": "allow"}}}`)
	r, human := l.attended([]string{"--mode", "auto_accept_edits", "--policy", l.policy}, "bash", "-c",
		`pioneer-super spawn --mode supervised -- bash -c 'pioneer-super exec -- echo deep'; echo "left with $?"`)
	for _, want := range []string{"bash -c 'pioneer-super exec -- echo deep'", "echo deep"} {
		q := human.next()
		if q.Command != want {
			t.Errorf("asked %q, expected %q", q.Command, want)
		}
		human.say(q, "allow_once")
	}
	if code := r.wait(t, 30*time.Second); code != 0 || r.stdout() != "deep\nleft with 0\n" {
		t.Fatalf("exit %d\nstdout: %s\nstderr: %s", code, r.stdout(), r.stderr())
	}
}

// TestWhatWePrint: our own messages are drawn and not obeyed, are bounded, are
// whole sentences, and output that did not arrive is an error.
func TestWhatWePrint(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	long := strings.Repeat("x", 50_000)
	for _, args := range [][]string{
		{"spawn", "--cwd", "/no\x1b[2J", "--", "true"},
		{"exec", "--cwd", "/no\x1b[2J", "--", "true"},
		{"spawn", "--headless", "--", long},
		{"tree", long},
	} {
		r := l.start(args...)
		if code := r.wait(t, 30*time.Second); code == 0 {
			t.Errorf("%.40q: exit 0", args)
		}
		if said := r.stderr(); strings.Contains(said, "\x1b") || len(said) > 10_000 || said == "" {
			t.Errorf("%.40q says %d bytes: %.200q", args, len(said), said)
		}
	}
	r := l.spawn([]string{"--mode", "auto_accept_edits"}, "bash", "-c", `env -i PATH="$PATH" HOME="$HOME" PIONEER_SUPER_HOME="$PWD/state" pioneer-super spawn -- touch ran`)
	if code := r.wait(t, 30*time.Second); code != 125 || strings.Contains(r.stderr(), "%!") || !strings.Contains(r.stderr(), "lives but cannot be reached") {
		t.Errorf("exit %d: %s", code, r.stderr())
	}
	for _, args := range [][]string{{"tree"}, {"tree", "--json"}, {"log"}, {"log", "--json"}} {
		r := l.startAs(func(c *exec.Cmd) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { full.Close() })
			c.Stdout = full
		}, args...)
		if code := r.wait(t, 30*time.Second); code != 125 {
			t.Errorf("%q to a full device: exit %d", args, code)
		}
	}
}

// TestCopiesOfOtherBinaries: every build leaves a copy of itself in the state; those
// that no tree uses go, the least recently used first.
func TestCopiesOfOtherBinaries(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bin := filepath.Join(l.home, "state", "bin")
	at := func(n int) string { return filepath.Join(bin, "old-"+strconv.Itoa(n)) }
	for n := range 8 {
		if err := os.MkdirAll(filepath.Join(at(n), "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-time.Duration(n+1) * time.Hour)
		if err := os.Chtimes(at(n), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(l.home, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	used, err := os.Open(at(6)) // as a tree of that binary has it
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	if err := unix.Flock(int(used.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	r := l.spawn(nil, "bash", "-c", "pioneer-super exec -- true")
	if code := r.wait(t, 30*time.Second); code != 0 {
		t.Fatalf("exit %d: %s", code, r.stderr())
	}
	for n := range 8 {
		_, err := os.Stat(at(n))
		if want := n < 4 || n == 6; (err == nil) != want {
			t.Errorf("old-%d: %v, expected to stay: %v", n, err, want)
		}
	}
	if entries, _ := os.ReadDir(bin); len(entries) != 6 {
		t.Errorf("%d copies, expected 6", len(entries))
	}
}

// TestTreeShowsTheOneThatRuns: one that is at work is shown though another was started and ended since.
func TestTreeShowsTheOneThatRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.spawn([]string{"--agent", "at-work"}, "sh", "-c", "touch up; while [ ! -e stop ]; do sleep 0.05; done")
	l.up("up")
	if code := l.spawn([]string{"--agent", "short", "--new-tree"}, "true").wait(t, patience); code != 0 {
		t.Fatalf("the second tree left with %d", code)
	}
	if status, out := l.run("tree"); status != 0 || !strings.Contains(out, "at-work") || strings.Contains(out, "short") {
		t.Errorf("while one runs: status %d\n%s", status, out)
	}
	l.touch("stop")
	r.wait(t, patience)
	if status, out := l.run("tree"); status != 0 || !strings.Contains(out, "short") || strings.Contains(out, "at-work") {
		t.Errorf("when none runs: status %d\n%s", status, out)
	}
}

// TestYesToWhatIsNotThere: a yes for a file outside that does not exist lets a reader see that, and tells a
// writer what can be done, before anything runs; in namespaces /tmp is the session's own.
func TestYesToWhatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{sandbox.BackendLandlock, sandbox.BackendNamespaces} {
		t.Run(backend, func(t *testing.T) {
			if backend == sandbox.BackendNamespaces {
				needRooms(t)
			}
			t.Parallel()
			l := newLab(t)
			missing := filepath.Join(l.home, "outside-and-missing")
			temporary := "/tmp/" + filepath.Base(l.home) + strconv.Itoa(os.Getpid())
			l.script("agent.sh", `pioneer-super exec -- cat `+missing+` 2>&1; echo "read $?"
pioneer-super exec -- touch `+missing+` 2>&1; echo "write $?"
pioneer-super exec -c 'echo kept >`+temporary+` && cat `+temporary+`' 2>&1; echo "temporary $?"`)
			r, human := l.attended([]string{"--mode", "auto_accept_edits", "--sandbox-backend", backend}, "sh", "agent.sh")
			for range 3 {
				q := human.next()
				human.say(q, "allow_once", func(a *control.Answer) {
					for _, o := range q.Offers {
						if o.On { // what a key alone says yes to
							a.Offers = append(a.Offers, o.Key)
						}
					}
				})
			}
			r.wait(t, patience)
			want := []string{"cat: " + missing + ": No such file or directory\nread 1\n", missing + " does not exist, and a yes opens only what is there", "write 125\n"}
			if backend == sandbox.BackendNamespaces {
				want = append(want, "kept\ntemporary 0\n")
			} else {
				want = append(want, temporary+" does not exist", "temporary 125\n")
			}
			for _, w := range want {
				if !strings.Contains(r.stdout(), w) {
					t.Errorf("not said: %q\n%s%s", w, r.stdout(), r.stderr())
				}
			}
			for _, path := range []string{missing, temporary} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was made outside", path)
				}
			}
		})
	}
}

// TestProgramOutsideTheView: a program of the user's PATH that a view does not show is not only said to be missing.
func TestProgramOutsideTheView(t *testing.T) {
	needRooms(t)
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"*": "allow"}}}`)
	bin := filepath.Join(l.home, "bin")
	program := filepath.Join(bin, "only-outside")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(program, []byte("#!/bin/sh\necho ran\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", program).Output(); err != nil || string(out) != "ran\n" {
		t.Fatalf("outside: %v, %q", err, out)
	}
	l.extra = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin"}
	r := l.spawn(inRooms, "sh", "-c", "pioneer-super exec -- only-outside")
	if code := r.wait(t, patience); code != 127 || r.stdout() != "" || !strings.Contains(r.stderr(), program+": not there in this sandbox: outside of what the session may read") {
		t.Errorf("status %d, %q\n%s", code, r.stdout(), r.stderr())
	}
}
