package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

func init() {
	helpers["caller"] = caller
	helpers["recycler"] = recycler
	helpers["listener"] = listener
}

// caller connects, says a word and goes, or stays until it is told to go.
func caller(args []string) int {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c.Write([]byte("yes"))
	if len(args) > 1 {
		fmt.Println("here")
		os.Stdin.Read(make([]byte, 1))
	}
	return 0
}

func helper(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{name}, args...)
	return cmd
}

// pidOnly is what a check that trusts SO_PEERCRED's number has.
func pidOnly(u *net.UnixConn) (pid int) {
	raw, err := u.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// outside is the naive rule: whoever does not live below a keeper is the human.
func outside(pid int) bool {
	chain, _ := reaper.Ancestors(pid, func(int) bool { return false })
	for _, p := range chain {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if name, _, _ := strings.Cut(string(line), "\x00"); name == keeper.KeeperName {
			return false
		}
	}
	return true
}

// ours is what the supervisor does with a connection to the human socket before
// it listens to a word.
func ours(u *net.UnixConn) error {
	p, err := peerOf(u)
	if err != nil {
		return err
	}
	defer p.close()
	why, err := p.inSomeTree()
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return err
}

func unixListener(t testing.TB) (*net.UnixListener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

func TestFaultExitedPeerIsNobody(t *testing.T) {
	testenv.Need(t, "peer-pidfd")
	l, path := unixListener(t)
	if out, err := helper("caller", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	word := make([]byte, 3)
	if _, err := u.Read(word); string(word) != "yes" {
		t.Fatalf("its answer is not there: %v", err)
	}
	if pid := pidOnly(u); pid <= 0 || !outside(pid) {
		t.Fatalf("the naive rule refuses process %d: nothing is shown", pid)
	}
	if err := ours(u); !errors.Is(err, errPeerGone) {
		t.Errorf("a process that is gone: %v", err)
	}
}

func TestALivePeerIsWhoItIs(t *testing.T) {
	testenv.Need(t, "peer-pidfd")
	l, path := unixListener(t)
	cmd := helper("caller", path, "stay")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	u, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	p, err := peerOf(u)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if p.pid != cmd.Process.Pid || !p.alive() {
		t.Fatalf("peer %+v, expected the live process %d", p, cmd.Process.Pid)
	}
	if err := ours(u); err != nil {
		t.Errorf("a live process outside of every tree has no role, but is not refused for being there: %v", err)
	}
	gone, over := make(chan bool, 1), make(chan struct{})
	go p.whenGone(over, func() { gone <- true })
	select {
	case <-gone:
		t.Fatal("told of its end while it lives")
	case <-time.After(50 * time.Millisecond):
	}
	in.Close()
	cmd.Wait()
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("not told of its end")
	}
	if p.alive() {
		t.Error("it is alive after its end")
	}
	// A waiter that is not needed any more goes.
	done := make(chan bool)
	q, err := selfPeer(t)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	go func() { q.whenGone(over, func() { t.Error("this very process was taken for gone") }); close(done) }()
	close(over)
	<-done
}

func selfPeer(t *testing.T) (peer, error) {
	t.Helper()
	a, b, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := control.FromFile(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); b.Close() })
	return peerOf(conn.Unix())
}

// inside starts a helper of its own pid namespace.
func inside(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	testenv.Need(t, "pidns", "mountns", "peer-pidfd")
	cmd := helper(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return cmd
}

func ownProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	return os.NewSyscallError("mount", unix.Mount("proc", "/proc", "proc", 0, ""))
}

// recycler lets a caller connect and end, gives its number to an innocent process
// and prints what the two rules say.
func recycler(args []string) int {
	self, err := os.Executable()
	if err == nil {
		err = ownProc()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	os.Remove(args[0])
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: args[0]})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	call := exec.Command(self)
	call.Args = []string{"caller", args[0]}
	if out, err := call.CombinedOutput(); err != nil {
		fmt.Println(err, string(out))
		return 1
	}
	u, err := l.AcceptUnix()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	pid := pidOnly(u)
	for range 2000 {
		// Threads take numbers too: try until the number is a process's.
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			fmt.Println(err)
			return 1
		}
		innocent := exec.Command("sleep", "100")
		if err := innocent.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		if innocent.Process.Pid == pid {
			fmt.Printf("naive %v\n", outside(pid))
			fmt.Printf("ours %v\n", ours(u))
			innocent.Process.Kill()
			return 0
		}
		innocent.Process.Kill()
		innocent.Wait()
	}
	fmt.Println("the number", pid, "did not come again")
	return 1
}

func TestFaultReusedNumberIsNobody(t *testing.T) {
	_, path := unixListener(t)
	out, err := inside(t, "recycler", path+"2").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "naive true") {
		t.Errorf("the naive rule is not deceived, so that nothing is shown: %s", out)
	}
	if !strings.Contains(string(out), "ours "+errPeerGone.Error()) {
		t.Errorf("the process that got the number was taken for the one that spoke: %s", out)
	}
}

// listener is a supervisor in a pid namespace of its own: it prints what it makes
// of a peer from elsewhere.
func listener(args []string) int {
	if err := ownProc(); err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: args[0]})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("listening")
	u, err := l.AcceptUnix()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("number %d, naive %v\nours %v\n", pidOnly(u), outside(pidOnly(u)), ours(u))
	return 0
}

func TestFaultPeerOfAnotherNamespaceIsNobody(t *testing.T) {
	l, path := unixListener(t)
	t.Run("above", func(t *testing.T) {
		cmd := inside(t, "listener", path+"2")
		out, _ := cmd.StdoutPipe()
		cmd.Stderr = cmd.Stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		text := make([]byte, 4096)
		n, _ := out.Read(text)
		c, err := net.Dial("unix", path+"2")
		if err != nil {
			t.Fatalf("%v: %s", err, text[:n])
		}
		defer c.Close()
		var rest []byte
		for {
			n, err := out.Read(text)
			rest = append(rest, text[:n]...)
			if err != nil {
				break
			}
		}
		if !strings.Contains(string(rest), "number 0, naive true") || !strings.Contains(string(rest), "ours the process at the other end is in another pid namespace") {
			t.Errorf("%s", rest)
		}
	})
	t.Run("below", func(t *testing.T) {
		cmd := inside(t, "caller", path, "stay")
		in, _ := cmd.StdinPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		u, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if pid := pidOnly(u); pid != cmd.Process.Pid || !outside(pid) {
			t.Errorf("the naive rule refuses process %d: nothing is shown", pid)
		}
		if err := ours(u); err == nil || !strings.Contains(err.Error(), "another pid namespace") && !strings.Contains(err.Error(), "another user namespace") {
			t.Errorf("%v", err)
		}
		in.Close()
		cmd.Wait()
	})
}

// TestADescriptorOfAnotherCommandIsRefused: a connection that came through the
// descriptor of one command and was made by a process of another has no role.
func TestADescriptorOfAnotherCommandIsRefused(t *testing.T) {
	testenv.Need(t, "peer-pidfd")
	p, err := selfPeer(t)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	mine, sibling := &session{id: "s1"}, &session{id: "s2"}
	c, other := &command{id: "c1", session: mine}, &command{id: "c2", session: mine}
	// This process stands for a keeper with a process of its command.
	tr := &tree{pool: &pool{live: map[int]*keeperProcess{os.Getpid(): {pid: os.Getpid()}}}, byKeeper: map[int]*command{os.Getpid(): c}}
	for name, x := range map[string]struct {
		s       *session
		through *command
		why     string
	}{
		"its own socket":                {mine, nil, ""},
		"its own descriptor":            {mine, c, ""},
		"a sibling command's":           {mine, other, "the descriptor was given to another command"},
		"the socket of another session": {sibling, nil, "this is the socket of s2"},
	} {
		got, err := tr.identify(p, x.s, x.through)
		if x.why == "" && (err != nil || got != c) || x.why != "" && (err == nil || !strings.Contains(err.Error(), x.why) || got != nil) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	tr.byKeeper = map[int]*command{}
	if got, err := tr.identify(p, mine, nil); err == nil {
		t.Errorf("below a keeper without a command: %v", got)
	}
	tr.pool.live = map[int]*keeperProcess{}
	if got, err := tr.identify(p, mine, nil); err == nil {
		t.Errorf("below no keeper: %v", got)
	}
}
