package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/carriertest"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/liveness"
)

// inside names the variable under which the test binary is started again in
// namespaces of its own, to run the one test that started it.
const inside = "SPOOL_TEST_INSIDE"

// alone runs the calling test again with a user and a mount namespace of its
// own, where it may mount, and set limits that hold for nobody else. It reports
// whether this is that run; if not, the test is over.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		return true
	}
	testenv.Need(t, "userns", "mountns")
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// tiny mounts a file system of a few pages and returns its place.
func tiny(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("tiny", dir, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillDisk takes all blocks, or all inodes, and returns what gives them back.
func fillDisk(t *testing.T, dir string, inodes bool) (release func()) {
	t.Helper()
	fill := filepath.Join(dir, "fill")
	must(t, os.Mkdir(fill, 0o700))
	for i := range 4096 {
		f, err := os.Create(filepath.Join(fill, fmt.Sprint(i)))
		for !inodes && err == nil {
			_, err = f.Write(make([]byte, 512))
		}
		_ = f.Close()
		if err != nil {
			return func() { must(t, os.RemoveAll(fill)) }
		}
	}
	t.Fatal("the disk does not fill")
	return nil
}

// A full disk loses no decision and asks nobody twice, and a requester is told.
func TestFaultFullDisk(t *testing.T) {
	if !alone(t) {
		return
	}
	for name, options := range map[string]string{"no blocks": "size=64k,mode=0700", "no inodes": "size=1m,nr_inodes=24,mode=0700"} {
		t.Run(name, func(t *testing.T) {
			disk := tiny(t, options)
			var asked atomic.Int32
			reached, free := make(chan struct{}), make(chan struct{})
			y := &yard{t: t, root: filepath.Join(disk, "r"), h: carriertest.NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
				if asked.Add(1) == 1 {
					close(reached)
				}
				<-free
				return forwarding.Answer{Approved: true}, nil
			})}
			o := quick()
			y.s = mustOpen(t, y.root, o)
			carriertest.Serve(t, y.s, channel, y.h)
			y.post("a", "x")
			<-reached
			release := fillDisk(t, disk, name == "no inodes")
			close(free)
			if n := y.h.Await(t, forwarding.Stuck, "a"); !errors.Is(n.Err, syscall.ENOSPC) || !strings.Contains(n.Reason, "no space left") {
				t.Errorf("notice %+v", n)
			}
			// Meanwhile the heartbeat goes on in its place, and another ask is told.
			client := mustOpen(t, y.root, o)
			resp, err := client.Ask(context.Background(), channel, carriertest.Request("y"))
			if resp.Approved || !resp.Unavailable || !errors.Is(err, forwarding.ErrNotSent) || !strings.Contains(resp.DenialReason, "no space left") {
				t.Errorf("an ask on a full disk: %+v, %v", resp, err)
			}
			time.Sleep(2 * o.Stale)
			if s := client.Serving(channel); !s.Served() {
				t.Errorf("%s on a full disk", s)
			}
			if there(y.response("a")) {
				t.Fatal("control: the disk is not full")
			}
			release()
			if r := y.take("a"); !r.Approved {
				t.Errorf("answer %+v", r)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// Where there is no watch to be had, asks are answered all the same, by looking.
func TestFaultNoWatchesLeft(t *testing.T) {
	if !alone(t) {
		return
	}
	for _, limit := range []string{"max_inotify_instances", "max_inotify_watches"} {
		t.Run(limit, func(t *testing.T) {
			path := "/proc/sys/user/" + limit
			old, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte("0"), 0o644))
			t.Cleanup(func() { _ = os.WriteFile(path, old, 0o644) })
			y := newYard(t, quick(), allow)
			if on, _ := y.s.Watching(); on && limit == "max_inotify_instances" {
				t.Fatal("control: there is a watcher")
			}
			if n := y.h.Await(t, forwarding.Degraded, ""); n.Err == nil {
				t.Errorf("notice %+v", n)
			}
			client := mustOpen(t, y.root, quick())
			for range 5 {
				begun := time.Now()
				if resp, err := client.Ask(context.Background(), channel, carriertest.Request("x")); err != nil || !resp.Approved {
					t.Fatalf("%+v, %v", resp, err)
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("took %s", took)
				}
			}
		})
	}
}

// A queue of events that overflows loses events and no asks.
func TestFaultOverflow(t *testing.T) {
	y := newYard(t, quick(), allow)
	// The watcher is kept from reading while more happens than it can be told.
	y.s.hub.mu.Lock()
	for range 10000 { // two events each; 16384 are kept
		path := y.box("requests", "noise")
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Remove(path))
	}
	const n = 20
	for i := range n {
		y.post(fmt.Sprint("id-", i), "x")
	}
	y.s.hub.mu.Unlock()
	eventually(t, "an overflow", func() bool { return y.s.hub.lost.Load() > 0 })
	for i := range n {
		if r := y.take(fmt.Sprint("id-", i)); !r.Approved {
			t.Errorf("answer %+v", r)
		}
	}
}

// Descriptors that run out are waited out, not taken for an answer.
func TestFaultNoDescriptorsLeft(t *testing.T) {
	if !alone(t) {
		return
	}
	y := newYard(t, quick(), allow)
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	small := old
	small.Cur = uint64(len(open) + 8)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &small))
	var files []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		files = append(files, f)
	}
	// Nothing can be opened: the request that is already on its way waits.
	if err := os.Rename(y.box("requests", ".keep"), y.box("requests", ".kept")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	y.h.Await(t, forwarding.Degraded, "")
	for _, f := range files {
		_ = f.Close()
	}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	y.post("a", "x")
	if r := y.take("a"); !r.Approved {
		t.Errorf("answer %+v", r)
	}
}

// killed names the variable under which the test binary serves a channel until
// it is killed.
const killed = "SPOOL_TEST_SERVER"

// A server that was killed is known to be gone at once, by its lock: the pid in
// its heartbeat means nothing to a reader in a namespace of its own, and the
// heartbeat is fresh for seconds.
func TestFaultKilledServer(t *testing.T) {
	if root := os.Getenv(killed); root != "" {
		o := Options{PIDFor: func(string) int { return 1 }} // as across a pid namespace: 1 is always there
		carriertest.Serve(t, mustOpen(t, root, o), channel, carriertest.NewHandler(func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
			<-ctx.Done()
			return forwarding.Answer{}, ctx.Err()
		}))
		must(t, os.WriteFile(filepath.Join(root, "ready"), nil, 0o600))
		select {}
	}
	root := filepath.Join(t.TempDir(), "r")
	server := exec.Command("/proc/self/exe", "-test.run", "^TestFaultKilledServer$", "-test.timeout", "60s")
	server.Env = append(os.Environ(), killed+"="+root)
	must(t, server.Start())
	defer server.Wait()
	defer server.Process.Kill()
	eventually(t, "the server", func() bool { return there(filepath.Join(root, "ready")) })

	o := Options{Grace: 500 * time.Millisecond} // the heartbeat's own age stays at 5 s
	client := mustOpen(t, root, o)
	if s := client.Serving(channel); s != liveness.Alive {
		t.Fatalf("control: %s while it serves", s)
	}
	type result struct {
		resp wire.Response
		err  error
	}
	got := make(chan result, 1)
	go func() {
		resp, err := client.Ask(context.Background(), channel, carriertest.Request("x"))
		got <- result{resp, err}
	}()
	time.Sleep(200 * time.Millisecond)
	begun := time.Now()
	must(t, server.Process.Kill())
	select {
	case r := <-got:
		if r.resp.Approved || !errors.Is(r.err, forwarding.ErrUnserved) {
			t.Errorf("%+v, %v", r.resp, r.err)
		}
		if took := time.Since(begun); took > patience/2 {
			t.Errorf("given up after %s", took)
		}
	case <-time.After(patience):
		t.Error("still waiting for what cannot come")
	}
	if s := client.Serving(channel); s != liveness.DeadPID {
		t.Errorf("%s after it was killed", s)
	}
}

// A lock that is taken away comes back, and meanwhile nobody is declared dead.
func TestFaultLockIsMended(t *testing.T) {
	y := newYard(t, quick(), allow)
	path := filepath.Join(y.root, "serving", channel+lockSuffix)
	if !there(path) {
		t.Fatal("control: no lock")
	}
	must(t, os.Remove(path))
	if s := y.s.Serving(channel); s != liveness.Alive {
		t.Errorf("%s without its lock", s)
	}
	eventually(t, "a new lock", func() bool { return there(path) })
	eventually(t, "a served session", func() bool { return y.s.Serving(channel) == liveness.Alive })
	y.stop()
	if there(path) {
		t.Error("the lock outlives its session")
	}
}
