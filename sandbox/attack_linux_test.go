package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// expectation is how an act goes confined. Every act is tried unconfined first, by the same
// user in the same world, and must succeed there, or the refusal would prove nothing.
type expectation struct {
	act string
	// want is "ok", or the error names that are a refusal, separated by spaces.
	want string
	// inView is want where the command has a view of its own; "" is the same.
	inView string
	// control says how the act goes unconfined; "" is "ok". Some acts are refused by the
	// system itself to an ordinary user: then rootControl holds for the superuser.
	control string
	// rootOnly acts can be controlled by the superuser alone.
	rootOnly bool
}

func check(t *testing.T, w world, p Profile, s script, cases []expectation) {
	t.Helper()
	var names []string
	for _, c := range cases {
		names = append(names, c.act)
	}
	controls := try(t, w, nil, s, names...)
	results := try(t, w, &p, s, names...)
	s.Grandson = true
	grandson := try(t, w, &p, s, names...)
	for _, c := range cases {
		control, want := c.control, c.want
		if control == "" {
			control = "ok"
		}
		if len(p.View) > 0 && c.inView != "" {
			want = c.inView
		}
		if got := controls[c.act]; !slices.Contains(strings.Fields(control), got) && !(c.rootOnly && w.UID != 0) {
			t.Errorf("control: %s unconfined: %s, want %s", c.act, got, control)
		}
		for who, got := range map[string]string{"command": results[c.act], "command's child": grandson[c.act]} {
			if !slices.Contains(strings.Fields(want), got) {
				t.Errorf("%s, by the %s: %s, want %s", c.act, who, got, want)
			}
		}
	}
}

func TestWorkspaceWriteLetsToolsWork(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		var cases []expectation
		for _, act := range []string{
			"write in workspace", "rename across", "truncate inside", "symlink inside", "hard link inside", "fifo inside",
			"read workspace", "list workspace", "chmod inside", "write in temp", "write in cache", "run from temp",
			"run listed toolchain", "run a shell", "write /dev/null", "read /dev/urandom", "read own status",
			"read /etc/passwd", "list /etc", "threads", "signal own child", "pipe to child", "unix pair", "packet pair", "route",
		} {
			cases = append(cases, expectation{act: act, want: "ok"})
		}
		check(t, w, p, script{}, cases)
	})
}

func TestReadOnlyKeepsTheWorkspace(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		p, _ := mustPlan(t, w.request(ModeReadOnly))
		check(t, w, p, script{}, []expectation{
			{act: "read workspace", want: "ok"},
			{act: "list workspace", want: "ok"},
			{act: "write in temp", want: "ok"},
			{act: "write in workspace", want: "EACCES", inView: "EROFS"},
			{act: "truncate inside", want: "EACCES", inView: "EROFS"},
			{act: "symlink inside", want: "EACCES", inView: "EROFS"},
			{act: "hard link inside", want: "EACCES", inView: "EROFS"},
			{act: "fifo inside", want: "EACCES", inView: "EROFS"},
			{act: "rename across", want: "EACCES", inView: "EROFS"},
		})
		r := w.request(ModeReadOnly)
		r.WorkspaceWrite = true
		p, _ = mustPlan(t, r)
		check(t, w, p, script{}, []expectation{{act: "write in workspace", want: "ok"}, {act: "write outside", want: "EACCES", inView: "ENOENT"}})
	})
}

func TestFilesOutside(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		const refused, absent = "EACCES", "ENOENT"
		check(t, w, p, script{}, []expectation{
			{act: "write outside", want: refused, inView: absent},
			{act: "create outside", want: refused, inView: absent},
			{act: "mkdir outside", want: refused, inView: absent},
			{act: "unlink outside", want: refused, inView: absent},
			{act: "truncate outside", want: refused, inView: absent},
			{act: "open truncating outside", want: refused, inView: absent},
			{act: "rename outside", want: refused, inView: absent},
			{act: "rename out of workspace", want: "EACCES EXDEV", inView: absent},
			{act: "rename into workspace", want: "EACCES EXDEV", inView: absent},
			{act: "write through link", want: refused, inView: absent},
			{act: "create through link", want: refused, inView: absent},
			{act: "hard link into workspace", want: "EACCES EXDEV", inView: absent},
			{act: "symlink outside", want: refused, inView: absent},
			{act: "fifo outside", want: refused, inView: absent},
			{act: "read outside", want: refused, inView: absent},
			{act: "list outside", want: refused, inView: absent},
			{act: "write /tmp", want: refused, inView: "ok"},
			{act: "write /dev/shm", want: refused, inView: "ok"},
			{act: "open terminal", want: refused, inView: "ok"},
			{act: "list /", want: refused, inView: "ok"},
			{act: "list / through proc", want: refused, inView: "ok"},
			{act: "read outside through proc", want: refused, inView: absent},
			{act: "list home", want: refused, inView: "ok"},
			{act: "read ssh key", want: refused, inView: absent},
			{act: "read cargo credentials", want: refused, inView: absent},
			{act: "read history", want: refused, inView: absent},
			{act: "read other project", want: refused, inView: absent},
			{act: "read gh token", want: refused, inView: absent},
			{act: "read agent credentials", want: refused, inView: absent},
			{act: "read state", want: refused, inView: absent},
			{act: "list state", want: refused, inView: "ok"},
			{act: "write toolchain", want: refused, inView: "EROFS"},
			{act: "write own proc", want: refused},
			{act: "write /proc/sys", want: refused, rootOnly: true},
			{act: "write /sys", want: refused, inView: "EROFS EACCES", rootOnly: true},
			{act: "read /etc/shadow", want: refused, rootOnly: true},
			{act: "make device", want: "EACCES EPERM", rootOnly: true},
			{act: "make char device", want: "EACCES EPERM", rootOnly: true},
			// A program without a path is confined like any other: it ran, and its reading was refused.
			{act: "memfd program", want: "EACCES"},
		})
	})
}

// What this tier cannot refuse, asserted so that a change is seen. Each is in the report.
func TestLimitsOfThisTier(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		p, report := mustPlan(t, w.request(ModeWorkspaceWrite))
		peer, nice := target(t, uid), "ok"
		if uid == 0 {
			nice = "EPERM" // the peer has capabilities that the command lost
		}
		check(t, w, p, script{PID: peer}, []expectation{
			{act: "chmod outside", want: "ok"},
			{act: "utime outside", want: "ok"},
			{act: "stat outside", want: "ok"},
			{act: "write hard link made before", want: "ok"},
			{act: "peer command line", want: "ok"},
			{act: "peer nice", want: nice},
			{act: "inotify outside", want: "ok"},
		})
		for _, name := range []string{DegradedMetadata, DegradedNames, DegradedProcessList, DegradedProtected, DegradedLocalhost} {
			if !slices.Contains(report.Degradations, name) {
				t.Errorf("report does not name %q: %s", name, report.Strength)
			}
		}
	})
}

// The hooks of the workspace's own repository are out of reach where there is a view; its configuration,
// which can name others, is in none: the report says so.
func TestGitHooks(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		write(t, w.Workspace+"/.git/hooks/pre-commit", "exit 0")
		for _, path := range []string{"/.git", "/.git/hooks", "/.git/hooks/pre-commit"} {
			if err := os.Lchown(w.Workspace+path, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		p, report := mustPlan(t, w.request(ModeWorkspaceWrite))
		check(t, w, p, script{}, []expectation{
			{act: "write git config", want: "ok"},
			{act: "write git hook", want: "ok", inView: "EROFS"},
			{act: "new git hook", want: "ok", inView: "EROFS"},
			{act: "move git away", want: "ok", inView: "EBUSY"},
		})
		if !slices.Contains(report.Degradations, DegradedProtected) {
			t.Errorf("report: %s", report.Strength)
		}
	})
}

func TestSymlinkSwapRace(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		if got := try(t, w, nil, script{}, "swap race")["swap race"]; got != "ok" {
			t.Fatalf("control: the race is not won unconfined: %s", got)
		}
		if err := os.WriteFile(w.Outside+"/file", []byte("outside"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := try(t, w, &p, script{}, "swap race")["swap race"]; got != "EACCES" {
			t.Errorf("swap race confined: %s", got)
		}
		if text, err := os.ReadFile(w.Outside + "/file"); err != nil || string(text) != "outside" {
			t.Errorf("the file outside holds %q (%v)", text, err)
		}
	})
}

// Descriptors from 3 on do not reach the command, but for those that the profile keeps; a
// directory that is kept gives no rights that the rules do not give.
func TestInheritedDescriptors(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		dir, err := os.OpenFile(w.Outside, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		ask := func(p *Profile, act string) string {
			s := script{Part: "stage", UID: uid, World: w, Dir: w.Workspace, Acts: []string{act}, FD: 3, Env: w.environment()}
			if p != nil {
				s.Profile, s.Confine = *p, true
			}
			out, errs, err := run(t, s, dir)
			if err != nil {
				t.Fatalf("%v %s", err, errs)
			}
			return out
		}
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		if got := ask(nil, "see descriptor"); !strings.Contains(got, `"ok"`) {
			t.Fatalf("control: descriptor 3: %s", got)
		}
		if got := ask(&p, "see descriptor"); !strings.Contains(got, "EBADF") {
			t.Errorf("descriptor 3 confined: %s", got)
		}
		p.Descriptors = []int{3}
		if got := ask(&p, "see descriptor"); !strings.Contains(got, `"ok"`) {
			t.Errorf("descriptor 3 kept: %s", got)
		}
		if got := ask(nil, "write through fd"); !strings.Contains(got, `"ok"`) {
			t.Errorf("control: writing through it: %s", got)
		}
		if got := ask(&p, "write through fd"); !strings.Contains(got, "EACCES") {
			t.Errorf("writing through it confined: %s", got)
		}
	})
}

// A file that is given for reading cannot be opened again for writing.
func TestGivenFileIsNotReopened(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		file, err := os.Open(w.Outside + "/file")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		p.Descriptors = []int{3}
		for _, confine := range []bool{false, true} {
			s := script{Part: "stage", UID: uid, World: w, Dir: w.Workspace, Acts: []string{"reopen for writing"}, FD: 3, Profile: p, Confine: confine}
			out, errs, err := run(t, s, file)
			if want := choose(confine, "EACCES", `"ok"`); err != nil || !strings.Contains(out, want) {
				t.Errorf("confined %t: %s %v %s, want %s", confine, out, err, errs, want)
			}
		}
	})
}

func TestNetworkOff(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		sockets := listenPaths(t, w)
		defer sockets()
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		check(t, w, p, script{FD: listener.Addr().(*net.TCPAddr).Port}, []expectation{
			{act: "tcp", want: "EPERM", inView: "ok"},
			{act: "tcp6", want: "EPERM", inView: "ok"},
			{act: "udp", want: "EPERM", inView: "ok"},
			{act: "icmp", want: "EPERM", inView: "ok EACCES", control: "ok EACCES"},
			{act: "raw", want: "EPERM", rootOnly: true},
			{act: "packet", want: "EPERM", rootOnly: true},
			{act: "vsock", want: "EPERM", control: "ok EAFNOSUPPORT"},
			{act: "alg", want: "EPERM", control: "ok EAFNOSUPPORT"},
			{act: "mptcp", want: "EPERM", control: "ok EPROTONOSUPPORT"},
			{act: "sctp", want: "EPERM", control: "ok EPROTONOSUPPORT ESOCKTNOSUPPORT"},
			{act: "audit", want: "EPERM", control: "ok EPROTONOSUPPORT"},
			{act: "uevent", want: "EPERM"},
			{act: "unix", want: "EPERM"},
			{act: "datagram pair", want: "EPERM"},
			{act: "datagram pair to a path", want: "EPERM"},
			{act: "connect path", want: "EPERM"},
			{act: "connect abstract", want: "EPERM"},
			{act: "connect loopback", want: "EPERM", inView: "ECONNREFUSED"},
			{act: "listen loopback", want: "EPERM", inView: "ok"}, // a loopback of its own
		})
	})
}

// listenPaths makes a stream and a datagram socket with a path and an abstract one, all
// outside, which every user may use.
func listenPaths(t *testing.T, w world) (stop func()) {
	t.Helper()
	stream, err := net.Listen("unix", w.Outside+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@"+w.Root)
	if err != nil {
		t.Fatal(err)
	}
	datagram, err := net.ListenPacket("unixgram", w.Outside+"/datagram")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{w.Outside + "/socket", w.Outside + "/datagram"} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return func() { _, _, _ = stream.Close(), abstract.Close(), datagram.Close() }
}

func TestNetworkGranted(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		r := w.request(ModeWorkspaceWrite)
		r.Network = true
		p, report := mustPlan(t, r)
		check(t, w, p, script{FD: listener.Addr().(*net.TCPAddr).Port}, []expectation{
			{act: "tcp", want: "ok"},
			{act: "udp", want: "ok"},
			{act: "connect loopback", want: "ok"}, // the limit that the report names
			{act: "listen loopback", want: "ok"},
			{act: "raw", want: "EPERM", rootOnly: true},
			{act: "packet", want: "EPERM", rootOnly: true},
			{act: "vsock", want: "EPERM", control: "ok EAFNOSUPPORT"},
			{act: "mptcp", want: "EPERM", control: "ok EPROTONOSUPPORT"},
			{act: "unix", want: "EPERM"},
			{act: "datagram pair", want: "EPERM"},
		})
		if !slices.Contains(report.Degradations, DegradedNetworkAll) || slices.Contains(report.Degradations, DegradedLocalhost) {
			t.Errorf("report: %s", report.Strength)
		}
	})
}

func TestUnixSocketsGranted(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		sockets := listenPaths(t, w)
		defer sockets()
		r := w.request(ModeWorkspaceWrite)
		r.UnixSockets = true
		p, report := mustPlan(t, r)
		outside := "ok" // the limit that the report names
		if p.Landlock >= landlockUnix {
			outside = "EACCES"
		}
		check(t, w, p, script{}, []expectation{
			{act: "unix", want: "ok"},
			{act: "reach named server", want: "ok"},
			{act: "datagram pair", want: "ok"},
			{act: "connect path", want: outside, inView: "ENOENT"},
			{act: "connect abstract", want: "EPERM", inView: "ECONNREFUSED"},
		})
		if !slices.Contains(report.Degradations, DegradedUnixSockets) {
			t.Errorf("report: %s", report.Strength)
		}
	})
}

func TestKernelSurface(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		check(t, w, p, script{}, []expectation{
			{act: "io_uring", want: "EPERM", control: "ok EPERM ENOSYS"},
			{act: "bpf", want: "EPERM", control: "EINVAL EFAULT EPERM E2BIG"},
			{act: "perf", want: "EPERM", control: "EFAULT EINVAL EACCES", rootOnly: true},
			{act: "userfaultfd", want: "EPERM", control: "EINVAL", rootOnly: true},
			{act: "keyctl", want: "EPERM"},
			{act: "add_key", want: "EPERM", control: "EFAULT EINVAL"},
			{act: "open by handle", want: "EPERM", control: "EFAULT EPERM"},
			{act: "clone3", want: "ENOSYS", control: "EINVAL"},
			{act: "unshare user", want: "EPERM"},
			{act: "unshare mount", want: "EPERM", rootOnly: true},
			{act: "clone network", want: "EPERM", rootOnly: true},
			{act: "mount", want: "EPERM", rootOnly: true, control: "ok"},
			{act: "umount", want: "EPERM", control: "ENOENT EPERM"},
			{act: "setns", want: "EPERM", rootOnly: true},
			{act: "chroot", want: "EPERM", rootOnly: true},
			{act: "syslog", want: "EPERM", control: "ok EPERM"},
			{act: "System V memory", want: "EPERM", inView: "ok"},
			{act: "message queue", want: "EPERM", inView: "ok EACCES", control: "ok ENOSYS"},
			{act: "undo no new privileges", want: "EINVAL", control: "EINVAL"},
		})
	})
}

// The superuser keeps its number and loses its power.
func TestCapabilitiesAreGone(t *testing.T) {
	eachBackend(t, func(t *testing.T, uid int, backend string) {
		w := newWorld(t, uid, backend)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		check(t, w, p, script{}, []expectation{
			{act: "chown", want: "EPERM", inView: "EPERM EINVAL", rootOnly: true},
			{act: "become other", want: "EPERM", inView: "EPERM EINVAL", rootOnly: true}, // last: unconfined it succeeds, and lasts
		})
		out, err := command(t, w, &p, nil, "/bin/grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status")
		if err != nil {
			t.Fatal(err, out)
		}
		for line := range strings.Lines(out) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			value = strings.TrimSpace(value)
			want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2"}[name]
			if strings.HasPrefix(name, "Cap") {
				if want = "0000000000000000"; name == "CapBnd" && uid != 0 {
					continue // an ordinary user may not change it; without new privileges it gives nothing
				}
			}
			if value != want {
				t.Errorf("after execve %s is %s, want %s", name, value, want)
			}
		}
	})
}

// A superuser that works on another user's files keeps the one capability that this takes, and
// the file rules still hold against it.
func TestForeignWorkspaceKeepsOneCapability(t *testing.T) {
	if os.Getuid() != 0 {
		// Only the superuser can own a foreign workspace; as an ordinary user the plan must not keep it.
		w := newWorld(t, os.Getuid())
		if p, _ := mustPlan(t, w.request(ModeWorkspaceWrite)); p.KeepDACOverride {
			t.Error("an ordinary user keeps CAP_DAC_OVERRIDE")
		}
		return
	}
	w := newWorld(t, ordinaryUser)
	if err := os.Chmod(w.Workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	w.UID = 0
	p, report := mustPlan(t, w.request(ModeWorkspaceWrite))
	if !p.KeepDACOverride || !slices.Contains(report.Degradations, DegradedDACOverride) {
		t.Fatalf("profile %v, report %s", p.KeepDACOverride, report.Strength)
	}
	without := p
	without.KeepDACOverride = false
	if got := try(t, w, &without, script{Dir: "/"}, "write in workspace")["write in workspace"]; got != "EACCES" {
		t.Errorf("control: without the capability: %s", got)
	}
	check(t, w, p, script{}, []expectation{
		{act: "write in workspace", want: "ok"},
		{act: "write outside", want: "EACCES"},
		{act: "read ssh key", want: "EACCES"},
		{act: "become other", want: "EPERM"},
	})
}

// target starts a process of uid that does nothing, to be attacked, and returns its id.
func target(t *testing.T, uid int) int {
	t.Helper()
	return targetUnder(t, uid, nil)
}

func targetUnder(t *testing.T, uid int, p *Profile) int {
	t.Helper()
	s := script{Part: "stage", UID: uid, Argv: []string{"/bin/sleep", "600"}, Dir: "/"}
	if p != nil {
		s.Profile, s.Confine = *p, true
	}
	cmd := start(t, s)
	awaitName(t, cmd.Process.Pid, "sleep")
	return cmd.Process.Pid
}

// awaitName waits until process pid has executed the program of that name.
func awaitName(t *testing.T, pid int, name string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(comm)) == name {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d did not become %s", pid, name)
		}
	}
}

func start(t *testing.T, s script) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = []string{exitAtOnce, scriptVariable + "=" + toJSON(t, s)}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd
}

// No process outside can be signalled, traced or read: neither a plain one (as supervisor and
// keeper are), nor one confined alike (a sibling), from any kind of profile. The envelope alone
// stops it all, and lets the same be done to one's own children.
func TestPeersAreOutOfReach(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		strict, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		envelope, report := EnvelopeOnly(hostOf(w))
		if slices.Contains(report.Degradations, DegradedSuperuser) != (uid == 0) {
			t.Errorf("uid %d: envelope report %v", uid, report)
		}
		peers := map[string]int{
			"plain": target(t, uid), "strict": targetUnder(t, uid, &strict), "envelope": targetUnder(t, uid, &envelope),
		}
		for from, p := range map[string]Profile{"strict": strict, "envelope": envelope} {
			for kind, pid := range peers {
				t.Run("from "+from+" to "+kind, func(t *testing.T) {
					// A superuser that keeps its capabilities reads these past every domain (the kernel
					// lets CAP_PERFMON through since 6.13): a limit that the report names.
					readable := "EACCES EPERM"
					if from == "envelope" && uid == 0 {
						readable += " ok"
					}
					check(t, w, p, script{PID: pid}, []expectation{
						{act: "signal peer", want: "EPERM"},
						{act: "stop peer", want: "EPERM"},
						{act: "signal thread", want: "EPERM"},
						{act: "signal by pidfd", want: "EPERM"},
						{act: "trace peer", want: "EPERM"},
						{act: "read peer memory", want: "EPERM"},
						{act: "write peer memory", want: "EACCES EPERM"},
						{act: "peer environ", want: readable},
						{act: "peer root", want: "EACCES EPERM"},
						{act: "peer cwd", want: "EACCES EPERM"},
						{act: "peer fds", want: "EACCES EPERM"},
						{act: "peer maps", want: readable},
						{act: "steal peer fd", want: "EPERM"},
						{act: "lower peer limit", want: "EPERM"},
						{act: "peer limits", want: "ok"}, // reading them is not refused
					})
				})
			}
		}
	})
}

// The kernel can be told to signal for somebody, who then is the one that must not reach out.
func TestSignalsByTheKernelStayInside(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		strict, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		envelope, _ := EnvelopeOnly(hostOf(w))
		const act = "signal by owner"
		if got := try(t, w, nil, script{PID: target(t, uid)}, act)[act]; got != "ok" {
			t.Fatalf("control: %s", got)
		}
		for name, p := range map[string]Profile{"strict": strict, "envelope": envelope} {
			if got := try(t, w, &p, script{PID: target(t, uid)}, act)[act]; got != "EPERM" {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// The envelope hinders nothing else: files, sockets, and a sandbox that the program brings.
func TestEnvelopeHindersNothingElse(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		sockets := listenPaths(t, w)
		defer sockets()
		p, report := EnvelopeOnly(hostOf(w))
		if report.Strength != StrengthAdvisory {
			t.Errorf("strength %q", report.Strength)
		}
		check(t, w, p, script{}, []expectation{
			{act: "write outside", want: "ok"},
			{act: "read ssh key", want: "ok"},
			{act: "tcp", want: "ok"},
			{act: "connect path", want: "ok"},
			{act: "connect abstract", want: "EPERM"},
			{act: "unshare user", want: "ok"},
			{act: "signal own child", want: "ok"},
			{act: "open terminal", want: "ok"},
			{act: "System V memory", want: "ok"},
			{act: "io_uring", want: "ok"},
		})
		if out, err := command(t, w, &p, nil, "/usr/bin/unshare", "-Urm", "/bin/sh", "-c", "mount -t tmpfs none "+w.Outside); err != nil {
			t.Errorf("a sandbox inside the envelope: %v %s", err, out)
		}
		if out, err := command(t, w, &p, nil, "/bin/grep", "NoNewPrivs", "/proc/self/status"); err != nil || !strings.HasSuffix(out, "1") {
			t.Errorf("NoNewPrivs: %q %v", out, err)
		}
	})
}

// A strict sandbox refuses the making of namespaces, and so any sandbox inside.
func TestStrictRefusesASandboxInside(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		if out, err := command(t, w, nil, nil, "/usr/bin/unshare", "-Urm", "/bin/true"); err != nil {
			t.Fatalf("control: %v %s", err, out)
		}
		if out, err := command(t, w, &p, nil, "/usr/bin/unshare", "-Urm", "/bin/true"); err == nil || !strings.Contains(out, "not permitted") {
			t.Errorf("unshare: %v %s", err, out)
		}
	})
}

// A plan for an older kernel, carried out on this one, is exactly as weak as its report says.
func TestOlderKernels(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		for _, c := range []struct {
			version int
			signals string
		}{{landlockTruncate, "ok"}, {landlockNetwork, "ok"}, {landlockIoctl, "ok"}, {landlockScopes, "EPERM"}} {
			w := newWorld(t, uid)
			sockets := listenPaths(t, w)
			r := w.request(ModeWorkspaceWrite)
			r.Host.LandlockABI = c.version
			p, report := mustPlan(t, r)
			if named := slices.Contains(report.Degradations, DegradedSignals); named != (c.signals == "ok") {
				t.Errorf("version %d: report %s", c.version, report.Strength)
			}
			if named := slices.Contains(report.Degradations, DegradedDevices); named != (c.version < landlockIoctl) {
				t.Errorf("version %d: report %s", c.version, report.Strength)
			}
			check(t, w, p, script{PID: target(t, uid)}, []expectation{
				{act: "signal peer", want: c.signals},
				{act: "trace peer", want: "EPERM"},
				{act: "read peer memory", want: "EPERM"},
				{act: "write outside", want: "EACCES"},
				{act: "truncate outside", want: "EACCES"},
				{act: "read ssh key", want: "EACCES"},
				{act: "rename across", want: "ok"},
				{act: "tcp", want: "EPERM"},
				{act: "connect abstract", want: "EPERM"}, // the filter refuses it where the domain cannot
				{act: "connect path", want: "EPERM"},
				{act: "write in workspace", want: "ok"},
			})
			sockets()
		}
	})
}

// The signal that a keeper asks for, should it die itself, still comes.
func TestDeathSignalSurvives(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		out, err := command(t, w, &p, nil, "/bin/sh", "-c", "sleep 0.1; echo end")
		if err != nil || out != "end" {
			t.Fatalf("%q %v", out, err)
		}
		s := script{Part: "stage", UID: uid, World: w, Dir: w.Workspace, Argv: []string{"/bin/sleep", "600"}, Profile: p, Confine: true, DeathSignal: true}
		middle := exec.Command("/bin/sh", "-c", binary+` & echo $!; read x`)
		middle.Env = []string{exitAtOnce, scriptVariable + "=" + toJSON(t, s), "PATH=/usr/bin:/bin"}
		stdin, err := middle.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := middle.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := middle.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscan(stdout, &pid); err != nil {
			t.Fatal(err)
		}
		awaitName(t, pid, "sleep")
		if err := middle.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = stdin.Close()
		_ = middle.Wait()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if err != nil || strings.Contains(string(text), ") Z ") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the command outlived its parent")
			}
		}
	})
}

// Set-user-id programs gain nothing.
func TestNoNewPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only the superuser can prepare a set-user-id program; the status file is checked elsewhere")
		return
	}
	w := newWorld(t, ordinaryUser)
	suid := filepath.Join(w.Temp, "id")
	if err := copyExecutable("/usr/bin/id", suid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(suid, 0o4755); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, w, nil, nil, suid, "-u"); err != nil || out != "0" {
		t.Fatalf("control: set-user-id program as ordinary user: %q %v", out, err)
	}
	p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
	envelope, _ := EnvelopeOnly(hostOf(w))
	for name, profile := range map[string]Profile{"strict": p, "envelope": envelope} {
		if out, err := command(t, w, &profile, nil, suid, "-u"); err != nil || out != strconv.Itoa(ordinaryUser) {
			t.Errorf("%s: %q %v", name, out, err)
		}
	}
}

func TestTerminalInput(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
		_, slave := openPair(t)
		ask := func(p *Profile, act string) string {
			s := script{Part: "stage", UID: uid, World: w, Dir: w.Workspace, Acts: []string{act}, Env: w.environment()}
			if p != nil {
				s.Profile, s.Confine = *p, true
			}
			cmd := exec.Command(binary)
			cmd.Env = []string{exitAtOnce, scriptVariable + "=" + toJSON(t, s)}
			cmd.Stdin, cmd.Stderr = slave, os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if got := ask(nil, "push input"); !strings.Contains(got, `"ok"`) && !strings.Contains(got, "EIO") {
			t.Fatalf("control: pushing input unconfined: %s", got) // EIO where the system forbids it (dev.tty.legacy_tiocsti)
		}
		for _, act := range []string{"push input", "push input high", "console"} {
			if got := ask(&p, act); !strings.Contains(got, "EPERM") {
				t.Errorf("%s confined: %s", act, got)
			}
		}
	})
}
