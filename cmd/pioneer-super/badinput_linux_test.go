package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// TestBadInput: one line that names what is wrong and what was expected, and the
// status of the table.
func TestBadInput(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	put(t, filepath.Join(l.home, "cap.jsonc"), "{\n  // a comment\n  \"profile\": {\"mode\": \"everything\"}\n}")
	put(t, filepath.Join(l.home, "unknown.jsonc"), "{\n  \"sandbocks\": {}\n}")
	put(t, filepath.Join(l.home, "half.jsonc"), "{\n  \"open\": {")
	put(t, filepath.Join(l.home, "policy.jsonc"), "{\"permission\": {\n  \"bash\": {\"ls\": \"perhaps\"},\n  \"path_read\": 7\n}, \"extra\": 1}")
	put(t, filepath.Join(l.home, "large.jsonc"), strings.Repeat(" ", 2<<20))
	if err := unix.Mkfifo(filepath.Join(l.home, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(l.home, name) }
	for name, c := range map[string]struct {
		args []string
		env  []string
		code int
		says []string
	}{
		"no command":                    {[]string{"spawn", "--"}, nil, 125, []string{"spawn: no command"}},
		"no command for exec":           {[]string{"exec"}, nil, 125, []string{"exec: no command"}},
		"an empty command":              {[]string{"spawn", "--headless", "--", ""}, nil, 125, []string{"no command"}},
		"an unknown mode":               {[]string{"spawn", "--headless", "--mode", "yolo", "--", "true"}, nil, 125, []string{"--mode", "yolo", "supervised", "auto_accept_edits", "full_access"}},
		"a bad cap":                     {[]string{"spawn", "--headless", "--cap", at("cap.jsonc"), "--", "true"}, nil, 125, []string{"cap.jsonc:3:", "everything"}},
		"an unknown field":              {[]string{"spawn", "--headless", "--cap", at("unknown.jsonc"), "--", "true"}, nil, 125, []string{"unknown.jsonc:2:", "sandbocks"}},
		"half a cap":                    {[]string{"spawn", "--headless", "--cap", at("half.jsonc"), "--", "true"}, nil, 125, []string{"half.jsonc:2:"}},
		"no cap":                        {[]string{"spawn", "--headless", "--cap", at("none.jsonc"), "--", "true"}, nil, 125, []string{"--cap", "none.jsonc", "no such file"}},
		"a cap that is a directory":     {[]string{"spawn", "--headless", "--cap", l.home, "--", "true"}, nil, 125, []string{"--cap", "expected a regular file"}},
		"a cap that is a pipe":          {[]string{"spawn", "--headless", "--cap", at("fifo"), "--", "true"}, nil, 125, []string{"--cap", "expected a regular file"}},
		"a cap that is too large":       {[]string{"spawn", "--headless", "--cap", at("large.jsonc"), "--", "true"}, nil, 125, []string{"larger than 1 MiB"}},
		"all mistakes of a policy":      {[]string{"spawn", "--headless", "--policy", at("policy.jsonc"), "--", "true"}, nil, 125, []string{"policy.jsonc:2:", "perhaps", "policy.jsonc:3:", "extra"}},
		"no policy":                     {[]string{"spawn", "--headless", "--policy", at("none.jsonc"), "--", "true"}, nil, 125, []string{"--policy", "no such file"}},
		"no directory":                  {[]string{"spawn", "--headless", "--cwd", at("none"), "--", "true"}, nil, 125, []string{"--cwd", "no such file"}},
		"a directory that is a file":    {[]string{"spawn", "--headless", "--cwd", at("cap.jsonc"), "--", "true"}, nil, 125, []string{"--cwd", "expected a directory"}},
		"a depth of nothing":            {[]string{"spawn", "--headless", "--max-depth", "0", "--", "true"}, nil, 125, []string{"--max-depth 0", "1 to 64"}},
		"a number that is none":         {[]string{"spawn", "--max-depth", "many", "--", "true"}, nil, 125, []string{"many", "--help"}},
		"an unknown flag of spawn":      {[]string{"spawn", "--nice", "--", "true"}, nil, 125, []string{"nice", "spawn --help"}},
		"an unknown flag of exec":       {[]string{"exec", "--nice", "--", "true"}, nil, 125, []string{"nice", "exec --help"}},
		"an unknown flag":               {[]string{"tree", "--nice"}, nil, 2, []string{"nice", "tree --help"}},
		"an unknown command":            {[]string{"spwan"}, nil, 2, []string{`unknown command "spwan"`}},
		"headless and interactive":      {[]string{"spawn", "--headless", "--interactive", "--", "true"}, nil, 125, []string{"--headless and --interactive exclude each other"}},
		"interactive, no terminal":      {[]string{"spawn", "--interactive", "--", "true"}, nil, 125, []string{"--interactive: no terminal"}},
		"an approver that is no number": {[]string{"spawn", "--approver-fd", "1", "--", "true"}, nil, 125, []string{"--approver-fd 1", "above 2"}},
		"an approver that is not open":  {[]string{"spawn", "--approver-fd", "77", "--", "true"}, nil, 125, []string{"--approver-fd 77", "expected an open socket"}},
		"a status nowhere":              {[]string{"spawn", "--headless", "--status-fd", "77", "--", "true"}, nil, 125, []string{"--status-fd 77"}},
		"exec without a tree":           {[]string{"exec", "--", "true"}, nil, 125, []string{"no tree"}},
		"ask without a tree":            {[]string{"ask", "--surface", "bash", "--value", "ls"}, nil, 125, []string{"no tree"}},
		"ask without a surface":         {[]string{"ask", "--value", "ls"}, nil, 2, []string{"surface"}},
		"ask without a value":           {[]string{"ask", "--surface", "bash"}, nil, 2, []string{"--value or --tool"}},
		"turn of nothing":               {[]string{"turn", "around"}, nil, 2, []string{"expected start or end"}},
		"a tree that never was":         {[]string{"tree", "t-none"}, nil, 125, []string{"t-none"}},
		"a tree that is a path":         {[]string{"log", "../../etc"}, nil, 125, []string{"../../etc"}},
		"no tree at all":                {[]string{"tree"}, nil, 125, []string{"no tree was ever started"}},
		"nothing to approve":            {[]string{"approve"}, nil, 125, []string{"no tree is running"}},
		"a relative state":              {[]string{"spawn", "--", "true"}, []string{"PIONEER_SUPER_HOME=state"}, 125, []string{`PIONEER_SUPER_HOME is "state"`, "absolute"}},
		"a descriptor that is none":     {[]string{"exec", "--", "true"}, []string{"PIONEER_SUPER_FD=x"}, 125, []string{`PIONEER_SUPER_FD="x"`}},
		"a program that is not there":   {[]string{"spawn", "--headless", "--", "no-such-program"}, nil, 127, []string{"no-such-program: command not found"}},
		"a program that is none":        {[]string{"spawn", "--headless", "--", at("cap.jsonc") + "x"}, nil, 127, []string{"not found"}},
		"a directory for a program":     {[]string{"spawn", "--headless", "--", l.home}, nil, 126, []string{"is a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := &lab{t: t, home: t.TempDir(), work: l.work, marker: l.marker}
			r := own.startAs(func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, c.env...) }, c.args...)
			if code := r.wait(t, 20*time.Second); code != c.code {
				t.Errorf("status %d, expected %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(r.stderr(), want) {
					t.Errorf("not told %q, but: %s", want, r.stderr())
				}
			}
			if strings.Contains(r.stderr(), "goroutine ") || strings.Count(r.stderr(), "\n") > 12 {
				t.Errorf("told too much: %s", r.stderr())
			}
		})
	}
}

// TestPlacesThatAreNotOurs: state that somebody else could write is not used.
func TestPlacesThatAreNotOurs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(path string) error
		says  string
	}{
		"world-writable": {func(p string) error { return os.Chmod(p, 0o777) }, "is world-writable"},
		"a link": {func(p string) error {
			if err := os.Rename(p, p+".d"); err != nil {
				return err
			}
			return os.Symlink(p+".d", p)
		}, "is a symbolic link"},
		"a file": {func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.WriteFile(p, nil, 0o600)
		}, "expected a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			state := filepath.Join(l.home, "state")
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(state); err != nil {
				t.Fatal(err)
			}
			r := l.spawn(nil, "touch", "ran")
			if code := r.wait(t, 20*time.Second); code != 125 || l.there("ran") || !strings.Contains(r.stderr(), state) || !strings.Contains(r.stderr(), c.says) {
				t.Errorf("status %d, ran %v: %s", code, l.there("ran"), r.stderr())
			}
		})
	}
	t.Run("somebody else's", func(t *testing.T) {
		testenv.Need(t, "root")
		t.Parallel()
		l := newLab(t)
		state := filepath.Join(l.home, "state")
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(state, 60001, 60001); err != nil {
			t.Fatal(err)
		}
		r := l.spawn(nil, "touch", "ran")
		if code := r.wait(t, 20*time.Second); code != 125 || l.there("ran") || !strings.Contains(r.stderr(), "owned by user 60001") {
			t.Errorf("status %d: %s", code, r.stderr())
		}
	})
}

// TestWhoChildrenSayTheyAre: names in the environment find a tree and prove
// nothing.
func TestWhoChildrenSayTheyAre(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow"}}}`)
	l.script("agent.sh", `echo "$PIONEER_SUPER_SOCKET $PIONEER_SUPER_SESSION" > parent
try() { "$@" >out 2>&1; echo "status $?: $(cat out)"; }
pioneer-super spawn -- sh child.sh
echo here
try env -i PATH=$PATH HOME=$HOME PIONEER_SUPER_HOME=$PIONEER_SUPER_HOME pioneer-super exec -- echo by-ancestry
try env PIONEER_SUPER_SESSION=s-other PIONEER_SUPER_DEPTH=0 pioneer-super exec -- echo by-name
rm -rf away; mv $(dirname $(dirname $PIONEER_SUPER_SOCKET)) away 2>/dev/null`)
	l.script("child.sh", `read socket session < parent
try() { "$@" >out 2>&1; echo "status $?: $(cat out)"; }
try env PIONEER_SUPER_SOCKET=$socket PIONEER_SUPER_SESSION=$session pioneer-super exec -- echo as-parent
try env PIONEER_SUPER_SOCKET=$socket PIONEER_SUPER_SESSION=$session pioneer-super turn start
try env PIONEER_SUPER_SOCKET=/nowhere/ctl pioneer-super exec -- echo as-itself
try env PIONEER_SUPER_DEPTH=0 PIONEER_SUPER_SESSION=x PIONEER_SUPER_TREE=t-x pioneer-super exec -- echo still-itself`)
	r := l.spawn([]string{"--mode", "full_access"}, "sh", "agent.sh")
	r.wait(t, 30*time.Second)
	out := r.stdout()
	for _, want := range []string{"this is the socket of", "status 0: still-itself", "status 0: as-itself", "status 0: by-ancestry", "status 0: by-name"} {
		if !strings.Contains(out, want) {
			t.Errorf("not %q, but:\n%s\n%s", want, out, r.stderr())
		}
	}
	if strings.Contains(out, "as-parent\n") || strings.Count(out, "status 125: pioneer-super: ") < 2 {
		t.Errorf("a child spoke as its parent:\n%s", out)
	}
}

// TestADeadTreeAndOneOutOfReach: a tree that has ended is one warning and a new
// root; one that lives and cannot be reached is never a silent new one.
func TestADeadTreeAndOneOutOfReach(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.spawn(nil, "sh", "-c", "env | grep ^PIONEER_SUPER_ > env")
	if code := first.wait(t, 20*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, first.stderr())
	}
	data, err := os.ReadFile(filepath.Join(l.work, "env"))
	if err != nil {
		t.Fatal(err)
	}
	old := func(c *exec.Cmd) {
		for line := range strings.Lines(string(data)) {
			if !strings.HasPrefix(line, "PIONEER_SUPER_HOME") {
				c.Env = append(c.Env, strings.TrimSpace(line))
			}
		}
	}
	r := l.spawnAs(old, nil, "touch", "again")
	if code := r.wait(t, 20*time.Second); code != 0 || !l.there("again") || strings.Count(r.stderr(), "has ended") != 1 {
		t.Errorf("spawn after its tree: status %d: %s", code, r.stderr())
	}
	r = l.startAs(old, "exec", "--", "touch", "exec-ran")
	if code := r.wait(t, 20*time.Second); code != 125 || l.there("exec-ran") || !strings.Contains(r.stderr(), "has ended") {
		t.Errorf("exec after its tree: status %d: %s", code, r.stderr())
	}

	// A confined tool whose descriptor a program in between has closed.
	l2 := newLab(t)
	l2.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow"}}}`)
	l2.script("tool.sh", `pioneer-super exec -- echo reached
eval "exec $PIONEER_SUPER_FD>&-"
for how in "" "env -i PATH=$PATH PIONEER_SUPER_HOME=$PIONEER_SUPER_HOME HOME=$HOME"; do
	$how pioneer-super exec -- touch ran-exec; echo "exec $?"
	$how pioneer-super spawn --headless -- touch ran-spawn; echo "spawn $?"
done`)
	r = l2.spawn([]string{"--mode", "auto_accept_edits"}, "sh", "-c", "pioneer-super exec -- sh tool.sh")
	if code := r.wait(t, 40*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	if out := r.stdout(); !strings.Contains(out, "reached") || strings.Count(out, "exec 125") != 2 || strings.Count(out, "spawn 125") != 2 || l2.there("ran-exec") || l2.there("ran-spawn") {
		t.Errorf("with the descriptor closed:\n%s%s", out, r.stderr())
	}
	if !strings.Contains(r.stderr(), "cannot be reached") {
		t.Errorf("not told that it cannot be reached: %s", r.stderr())
	}
}

// TestDepth: the limit is an error of its own, at the level where it is reached.
func TestDepth(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.script("deeper.sh", `echo "depth $PIONEER_SUPER_DEPTH"; pioneer-super spawn -- sh deeper.sh; s=$?; [ $s = 125 ] && touch limit; exit $s`)
	r := l.spawn([]string{"--max-depth", "3"}, "sh", "deeper.sh")
	if code := r.wait(t, 40*time.Second); code != 125 {
		t.Errorf("status %d", code)
	}
	if got := strings.Count(r.stdout(), "depth "); got != 4 || strings.Count(r.stderr(), "depth limit: session") != 1 || !strings.Contains(r.stderr(), "at depth 3 of at most 3") {
		t.Errorf("%d levels\n%s%s", got, r.stdout(), r.stderr())
	}
}

// TestTheControlDirectoryReplaced: a client that is led to another socket tells
// nobody anything, and the tree's own goes on.
func TestTheControlDirectoryReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	r := l.spawn(nil, "./hostile", "replace")
	if code := r.wait(t, 40*time.Second); code != 0 {
		t.Fatalf("status %d: %s%s", code, r.stdout(), r.stderr())
	}
	got := outcomes(t, r.stdout())
	if o := got["another version"]; o.Status != 125 || o.Ran || !strings.Contains(o.Said, "protocol") || !strings.Contains(o.Said, "build evil-build") {
		t.Errorf("%+v", o)
	}
	for _, name := range []string{"silent", "gone", "before"} {
		if o := got[name]; name == "before" && (o.Status != 0 || !o.Ran) || name != "before" && (o.Status != 125 || o.Ran) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

var _ = part("replace", func([]string) int {
	try := func(name string) {
		os.Remove("ran")
		code, out := ourselves(nil, "exec", "--", "touch", "ran")
		_, err := os.Stat("ran")
		tell(outcome{Name: name, Status: code, Said: out, Ran: err == nil})
	}
	try("before")
	dir := filepath.Dir(os.Getenv("PIONEER_SUPER_SOCKET"))
	evil, _ := filepath.Abs("evil")
	os.Mkdir(evil, 0o700)
	if err := os.Rename(dir, dir+".away"); err != nil {
		fmt.Println(err)
		return 1
	}
	os.Symlink(evil, dir)
	l, err := net.Listen("unix", filepath.Join(evil, "ctl"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	say := make(chan bool, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conn := control.NewConn(c.(*net.UnixConn))
			var m control.Message
			conn.Recv(&m)
			if <-say {
				conn.Send(control.Message{Hello: &control.Hello{Protocol: 99, Build: "evil-build"}})
				conn.Recv(&m)
			}
			conn.Close()
		}
	}()
	say <- true
	try("another version")
	say <- false
	try("silent")
	l.Close()
	os.RemoveAll(evil)
	try("gone")
	return 0
})

// TestFaultFullDisk: what cannot be written down is not allowed, and the reason names
// the disk.
func TestFaultFullDisk(t *testing.T) {
	testenv.Need(t, "root", "mountns")
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"touch ran": "allow"}}}`)
	l.script("agent.sh", `pioneer-super exec -- touch before || exit 90
dd if=/dev/zero of=$STATE/fill bs=64k 2>/dev/null; dd if=/dev/zero of=$STATE/fill2 bs=1 2>/dev/null
i=0; while [ $i -lt 40 ]; do
	pioneer-super exec -- touch ran; s=$?
	[ $s = 125 ] && break
	[ -e ran ] || break
	rm -f ran; i=$((i+1))
done
echo "status $s, ran $([ -e ran ] && echo yes || echo no)"
rm -f $STATE/fill $STATE/fill2
pioneer-super exec -- touch after; echo "after $?"`)
	state := filepath.Join(l.home, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	size, err := os.Stat(product.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	r := l.startAs(func(c *exec.Cmd) {
		c.Env = append(c.Env, "STATE="+state)
		c.Args = append([]string{"sh", "-c", `mount -t tmpfs -o size=$SIZE,mode=700 none "$STATE" && exec "$@"`, "sh", c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
		c.Env = append(c.Env, fmt.Sprintf("SIZE=%d", size.Size()+(3<<20)))
		c.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	}, "spawn", "--headless", "--policy", l.policy, "--", "sh", "agent.sh")
	if code := r.wait(t, 60*time.Second); code != 0 {
		t.Fatalf("status %d: %s%s", code, r.stdout(), r.stderr())
	}
	if !strings.Contains(r.stdout(), "status 125, ran no") || !strings.Contains(r.stderr(), "no space left") {
		t.Errorf("%s%s", r.stdout(), r.stderr())
	}
	if !strings.Contains(r.stdout(), "after 0") {
		t.Errorf("it does not go on when there is room again: %s%s", r.stdout(), r.stderr())
	}
}
