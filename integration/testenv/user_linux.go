package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The uids that tests take from. They lie above what Debian gives to people
// (59999) and below nobody (65534), whose processes are often somebody else's.
const (
	firstFreeUID = 60100
	freeUIDs     = 4000
)

func asUser(t *testing.T, env []string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	uid, err := freeUID("/proc")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	// t.TempDir is below directories that only root may enter.
	base, err := os.MkdirTemp("", "as-user-")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	dirs := map[string]string{}
	for _, name := range []string{"home", "tmp", "run"} {
		dirs[name] = filepath.Join(base, name)
		if err := mkdirOwned(dirs[name], uid); err != nil {
			t.Fatalf("testenv: %v", err)
		}
	}
	work := filepath.Join(base, "work")
	if err := copyTree(work, ".", uid); err != nil {
		t.Fatalf("testenv: copying the package directory: %v", err)
	}
	binary := filepath.Join(base, "test")
	if err := copyFile(binary, "/proc/self/exe", 0o755); err != nil {
		t.Fatalf("testenv: copying the test binary: %v", err)
	}

	// The child is stopped before this test's own deadline, so that its output is seen.
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-5*time.Second))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run="+runPattern(t.Name()), "-test.v", "-test.count=1")
	cmd.Dir = work
	cmd.Env = append(userEnv(os.Environ()),
		"HOME="+dirs["home"], "TMPDIR="+dirs["tmp"], "XDG_RUNTIME_DIR="+dirs["run"], "PWD="+work)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}},
		Pdeathsig:  syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	switch outcomeOf(t.Name(), text, err) {
	case passed:
		t.Logf("testenv: as uid %d:\n%s", uid, text)
	case skipped:
		t.Skipf("testenv: as uid %d: %s", uid, text)
	default:
		t.Fatalf("testenv: as uid %d the test failed or did not run: %v\n%s", uid, err, text)
	}
	return false
}

// An outcome is what became of the test in the child. The zero value fails.
type outcome int

const (
	broke outcome = iota
	passed
	skipped
)

// outcomeOf reads the verbose output of a test binary that ran the named test
// and ended with err.
func outcomeOf(name, text string, err error) outcome {
	switch {
	case err != nil:
		return broke
	case strings.Contains(text, "--- SKIP: "+name+" "):
		return skipped
	case strings.Contains(text, "--- PASS: "+name+" "):
		return passed
	}
	return broke
}

// runPattern makes a -test.run pattern that matches one test name exactly.
func runPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// userEnv drops what names root's own places from an environment.
func userEnv(env []string) []string {
	var kept []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "HOME", name == "TMPDIR", name == "USER", name == "LOGNAME", name == "MAIL", name == "PWD", name == "OLDPWD",
			strings.HasPrefix(name, "XDG_"), strings.HasPrefix(name, "SUDO_"),
			strings.HasPrefix(name, "PIONEER_SUPER_"):
		default:
			kept = append(kept, e)
		}
	}
	return kept
}

// freeUID finds a uid that no account and no process uses. Test processes start
// from different places, so that two at once do not take the same one.
func freeUID(proc string) (int, error) {
	used := map[int]bool{}
	accounts, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(accounts), "\n") {
		if fields := strings.Split(line, ":"); len(fields) > 2 {
			if uid, err := strconv.Atoi(fields[2]); err == nil {
				used[uid] = true
			}
		}
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		// A process may be gone by now; then it uses nothing.
		if info, err := e.Info(); err == nil {
			used[int(info.Sys().(*syscall.Stat_t).Uid)] = true
		}
	}
	start := os.Getpid() % freeUIDs
	for i := range freeUIDs {
		if uid := firstFreeUID + (start+i)%freeUIDs; !used[uid] {
			return uid, nil
		}
	}
	return 0, fmt.Errorf("no unused uid from %d to %d", firstFreeUID, firstFreeUID+freeUIDs-1)
}

func mkdirOwned(path string, uid int) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Chown(path, uid, uid)
}

func copyFile(to, from string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// copyTree copies the regular files and directories below from, and gives them
// to uid. Links and special files of a package directory are no test data.
func copyTree(to, from string, uid int) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			if d.Name() == ".git" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return mkdirOwned(target, uid)
		case d.Type().IsRegular():
			info, err := d.Info()
			if err != nil {
				return err
			}
			if err := copyFile(target, path, info.Mode().Perm()|0o600); err != nil {
				return err
			}
			return os.Chown(target, uid, uid)
		}
		return nil
	})
}
