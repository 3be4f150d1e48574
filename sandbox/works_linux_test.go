package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// need fails a test for lack of a program: these are in every image that builds this project.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err)
		}
	}
}

// shell runs text with bash under p.
func shell(t *testing.T, w world, p *Profile, env []string, text string) string {
	t.Helper()
	out, err := command(t, w, p, env, "/bin/bash", "--norc", "--noprofile", "-p", "-e", "-c", text)
	if err != nil {
		t.Errorf("%s: %v\n%s", text, err, out)
	}
	return out
}

func environmentFor(t *testing.T, w world) []string {
	t.Helper()
	home, err := os.ReadFile(w.Home + "/.gitconfig")
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.Cache+"/gitconfig", string(GitConfig(home)))
	return CacheEnvironment(w.Cache, map[string]string{"HOME": w.Home, "GOPROXY": "off"})
}

func TestGitWorksInside(t *testing.T) {
	need(t, "git")
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		write(t, w.Home+"/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n[credential]\n\thelper = store\n")
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		env := environmentFor(t, w)
		// The trap that the copy is for: git ends when its configuration exists and cannot be read.
		if out, err := command(t, w, &p, nil, "/usr/bin/git", "init", "-q"); err == nil {
			t.Errorf("control: git without the copy works: %s", out)
		}
		out := shell(t, w, &p, env, `git init -q . && git add . && git commit -qm one && git status --short && git mv main.txt sub/moved.txt &&
			git commit -qam two && git stash list && git worktree add -q wt && git log --format=%an%n%s | sort`)
		if out != "A\nA\none\ntwo" {
			t.Errorf("git wrote %q", out)
		}
	})
}

func TestGoBuildWorksInside(t *testing.T) {
	need(t, "go")
	w := newWorld(t, os.Getuid())
	write(t, w.Workspace+"/go.mod", "module example.org/hello\n\ngo 1.24\n")
	// A package without imports: a program would have the whole runtime compiled, with an empty cache.
	write(t, w.Workspace+"/hello.go", "package hello\n\nfunc Twice(n int) int { return 2 * n }\n")
	p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	if out := shell(t, w, &p, append(environmentFor(t, w), "GOFLAGS=-modcacherw -p=1", "CGO_ENABLED=0"), "go build -o hello.a . && go build -v . && test -s hello.a && echo built"); !strings.HasSuffix(out, "built") {
		t.Errorf("go build: %s", out)
	}
}

// A module that the operator has is found in the host's cache, without network.
func TestHostModulesAreFound(t *testing.T) {
	need(t, "go")
	w := newWorld(t, os.Getuid())
	download := w.Home + "/go/pkg/mod/cache/download/example.org/dep/@v/"
	write(t, download+"list", "v1.0.0\n")
	write(t, download+"v1.0.0.info", `{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`)
	write(t, download+"v1.0.0.mod", "module example.org/dep\n")
	write(t, w.Workspace+"/go.mod", "module example.org/hello\n\ngo 1.24\n\nrequire example.org/dep v1.0.0\n")
	p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	env := append(environmentFor(t, w), "GONOSUMDB=*", "GOFLAGS=-mod=mod -modcacherw")
	if out := shell(t, w, &p, env, "go list -m all"); !strings.Contains(out, "example.org/dep v1.0.0") {
		t.Errorf("go list: %s", out)
	}
}

func TestOrdinaryProgramsWorkInside(t *testing.T) {
	need(t, "mkfifo", "tar", "make", "find")
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		write(t, w.Workspace+"/Makefile", "all:\n\techo made > made\n")
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		for _, c := range [][2]string{
			{"mkfifo pipe && (echo through > pipe &) && cat pipe", "through"},
			{"make -s && cat made", "made"},
			{`tar cf a.tar sub && tar xf a.tar -C "$TMPDIR" && rm a.tar`, ""},
			{`mktemp -d | grep -c "^$TMPDIR/"`, "1"},
			{"cat <<< here", "here"},
			{"diff <(echo a) <(echo a)", ""},
			{"(echo y > /dev/stderr) 2>&1 | cat; echo x > /dev/null", "y"},
			{"find . -name deep.txt", "./sub/deep.txt"},
			{"ls /usr/bin | head -1 | wc -l", "1"},
			{"kill -0 $$; sleep 100 & kill %1; wait || true", ""},
			{"exec 3<>main.txt; echo b >&3; head -1 main.txt", "b"},
			{"chmod +x main.txt && rm -rf sub && mkdir -p a/b && mv a c && rmdir c/b", ""},
		} {
			text, want := c[0], c[1]
			if got := shell(t, w, &p, nil, text); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	})
}

// Terminals and shared memory are off unless asked for, and named then.
func TestPseudoterminalsAndSharedMemory(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		r := w.request(ModeWorkspaceWrite)
		r.SharedMemory, r.Pseudoterminals = true, true
		p, report := mustPlan(t, r)
		check(t, w, p, script{}, []expectation{
			{act: "open terminal", want: "ok"},
			{act: "write /dev/shm", want: "ok"},
			{act: "write outside", want: "EACCES"},
		})
		for _, name := range []string{DegradedSharedMemory, DegradedTerminals} {
			if !slices.Contains(report.Degradations, name) {
				t.Errorf("report does not name %q: %s", name, report.Strength)
			}
		}
		if python := "/usr/bin/python3"; unix.Access(python, unix.X_OK) == nil {
			got := shell(t, w, &p, nil, python+` -c '
import multiprocessing, pty, os
m, s = pty.openpty()
q = multiprocessing.Queue(); q.put(1)
multiprocessing.Lock()
print(os.isatty(s), q.get())'`)
			if got != "True 1" {
				t.Errorf("python: %s", got)
			}
		}
	})
}

// The command's own terminal can be opened by its name, and no other.
func TestOwnTerminalAlone(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		_, own := openPair(t)
		_, other := openPair(t)
		for _, f := range []*os.File{own, other} {
			if err := os.Chown(f.Name(), uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		r := w.request(ModeWorkspaceWrite)
		r.Terminal = own.Name()
		p, _ := mustPlan(t, r)
		text := "(: < %s) 2>/dev/null && echo opened"
		for path, want := range map[string]string{own.Name(): "opened", other.Name(): ""} {
			act := strings.ReplaceAll(text, "%s", path)
			if got, _ := command(t, w, nil, nil, "/bin/bash", "-c", act); got != "opened" {
				t.Fatalf("control: %s: %q", path, got)
			}
			if got, _ := command(t, w, &p, nil, "/bin/bash", "-c", act); got != want {
				t.Errorf("%s confined: %q, want %q", path, got, want)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		r := w.request(ModeWorkspaceWrite)
		r.Limits = Limits{CPU: 1, FileSize: 4096, OpenFiles: 32, AddressSpace: 1 << 40}
		p, _ := mustPlan(t, r)
		if got := shell(t, w, &p, nil, "ulimit -n; ulimit -c; ulimit -f; ulimit -t"); got != "32\n0\n4\n1" {
			t.Errorf("limits: %s", got)
		}
		if out, err := command(t, w, nil, nil, "/bin/bash", "-c", "head -c 9000 /dev/zero > big && echo ok"); out != "ok" {
			t.Fatalf("control: %s %v", out, err)
		}
		if out, _ := command(t, w, &p, nil, "/bin/bash", "-c", "head -c 9000 /dev/zero > big2 && echo ok"); strings.Contains(out, "ok") {
			t.Errorf("a file over the limit was written: %s", out)
		}
		started := time.Now()
		_, err := command(t, w, &p, nil, "/bin/bash", "-c", "while :; do :; done")
		if err == nil || time.Since(started) > 30*time.Second {
			t.Errorf("a loop over its processor time: %v", err)
		}
	})
}

// A fork bomb is contained by the limit on an ordinary user's processes.
func TestProcessLimit(t *testing.T) {
	uid := os.Getuid()
	if uid == 0 {
		uid = 61234 // a user with no other processes: the count is the user's
	}
	w := newWorld(t, uid)
	r := w.request(ModeWorkspaceWrite)
	text := "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1 & done; echo all; kill $(jobs -p)"
	p, _ := mustPlan(t, r)
	if out, _ := command(t, w, &p, nil, "/bin/bash", "-c", text); !strings.Contains(out, "all") {
		t.Fatalf("control: %s", out)
	}
	if os.Getuid() == 0 {
		r.Limits.Processes = 10
		p, _ = mustPlan(t, r)
		if out, _ := command(t, w, &p, nil, "/bin/bash", "-c", text); !strings.Contains(out, "Resource temporarily unavailable") {
			t.Errorf("twenty processes under a limit of ten: %s", out)
		}
	}
}

// While hundreds of threads of one process confine themselves and execute, the process is
// as free as before.
func TestTheProcessStaysFree(t *testing.T) {
	w := newWorld(t, os.Getuid())
	p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	before := openDescriptors(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	var faults []error
	for range 100 {
		group.Go(func() {
			done := make(chan error, 1)
			go func() { // a thread of its own, which ends with this goroutine
				err := p.Confine()
				if err == nil {
					if _, opened := os.ReadFile(w.Outside + "/file"); !errors.Is(opened, syscall.EACCES) {
						err = errors.New("the confined thread reads outside")
					}
				}
				done <- err
			}()
			err := <-done
			err = errors.Join(err, os.WriteFile(filepath.Join(w.Outside, "free"), nil, 0o600), dialNothing())
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		})
	}
	group.Wait()
	if err := errors.Join(faults...); err != nil {
		t.Error(err)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err == nil && statusFields(text)["Seccomp"] != 0 && !threadEnds(task.Name()) {
			t.Errorf("thread %s is confined and alive", task.Name())
		}
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// threadEnds waits for a confined thread, whose goroutine is gone, to end.
func threadEnds(id string) bool {
	for range 500 {
		if _, err := os.Stat("/proc/self/task/" + id); err != nil {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func dialNothing() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Whatever cannot be carried out as planned is an error and nothing runs.
func TestConfineRefuses(t *testing.T) {
	w := newWorld(t, os.Getuid())
	good, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	swapped := w.Root + "/swapped"
	if err := os.MkdirAll(swapped, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Profile)
		want   string
	}{
		"the zero value":            {func(p *Profile) { *p = Profile{} }, "empty"},
		"a kernel with less":        {func(p *Profile) { p.Landlock = 4000 }, "counts on Landlock version 4000"},
		"a write root that is gone": {func(p *Profile) { p.Write = append(p.Write, w.Root+"/gone") }, "no such file"},
		"a write root that became a link": {func(p *Profile) {
			_ = os.Remove(swapped)
			_ = os.Symlink(w.Outside, swapped)
			p.Write = append(p.Write, swapped)
		}, "symbolic link"},
		"a descriptor that is not open": {func(p *Profile) { p.Descriptors = []int{999} }, "descriptor 999"},
	} {
		p := good
		p.Write, p.Read = slices.Clone(p.Write), slices.Clone(p.Read)
		c.change(&p)
		s := script{Part: "stage", World: w, Dir: w.Workspace, Argv: []string{"/bin/echo", "ran"}, Profile: p, Confine: true}
		out, errs, err := run(t, s)
		if err == nil || strings.Contains(out, "ran") || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %v, wrote %q and %q, want %q", name, err, out, errs, c.want)
		}
	}
}

// The seventeenth domain inside each other is a clean error.
func TestTooManyDomains(t *testing.T) {
	p, _ := EnvelopeOnly(Probe())
	done := make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil && n < 40; n++ {
			err = p.Confine()
		}
		done <- err
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "too many domains") {
		t.Errorf("confining again and again: %v", err)
	}
}

// A profile survives its way through JSON to the process that puts it on.
func TestProfileTravels(t *testing.T) {
	w := newWorld(t, os.Getuid())
	p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Profile
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.String() != p.String() {
		t.Errorf("came back as\n%s", back)
	}
}
