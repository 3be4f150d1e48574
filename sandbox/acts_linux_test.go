package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// acts are what a victim can be told to try. Each returns nil when it succeeded, and
// leaves the world so that it can be tried again.
var acts = map[string]func(s script) error{
	// Inside.
	"write in workspace": func(s script) error { return os.WriteFile(s.World.Workspace+"/new", []byte("x"), 0o644) },
	"rename across":      renameAcross,
	"truncate inside":    func(s script) error { return os.Truncate(s.World.Workspace+"/main.txt", 4) },
	"symlink inside": func(s script) error {
		return remake(s.World.Workspace+"/s", func(p string) error { return os.Symlink("main.txt", p) })
	},
	"hard link inside": func(s script) error {
		return remake(s.World.Workspace+"/h", func(p string) error { return os.Link("main.txt", p) })
	},
	"write git hook": func(s script) error { return touch(s.World.Workspace + "/.git/hooks/pre-commit") },
	"new git hook":   func(s script) error { return remake(s.World.Workspace+"/.git/hooks/post-commit", create) },
	"move git away":  func(s script) error { return renameAndBack(s.World.Workspace+"/.git", s.World.Workspace+"/git") },
	"write git config": func(s script) error {
		return os.WriteFile(s.World.Workspace+"/.git/config", []byte("[core]\n"), 0o600)
	},
	"fifo inside": func(s script) error {
		return remake(s.World.Workspace+"/f", func(p string) error { return unix.Mkfifo(p, 0o600) })
	},
	"read workspace":       read(func(w world) string { return w.Workspace + "/main.txt" }),
	"list workspace":       func(s script) error { _, err := os.ReadDir(s.World.Workspace); return err },
	"chmod inside":         func(s script) error { return os.Chmod(s.World.Workspace+"/main.txt", 0o640) },
	"write in temp":        func(s script) error { return os.WriteFile(s.World.Temp+"/x", []byte("x"), 0o600) },
	"write in cache":       func(s script) error { return os.WriteFile(s.World.Cache+"/x", []byte("x"), 0o600) },
	"run from temp":        runFromTemp,
	"run listed toolchain": func(s script) error { return exec.Command(s.World.Home + "/.cargo/bin/tool").Run() },
	"run a shell":          func(script) error { return exec.Command("/bin/sh", "-c", "true").Run() },
	"write /dev/null":      func(script) error { return os.WriteFile("/dev/null", []byte("x"), 0) },
	"read /dev/urandom":    func(script) error { return readSome("/dev/urandom") },
	"read own status":      func(script) error { return readSome("/proc/self/status") },
	"read /etc/passwd":     func(script) error { return readSome("/etc/passwd") },
	"list /etc":            func(script) error { _, err := os.ReadDir("/etc"); return err },
	"threads":              threads,
	"signal own child":     signalOwnChild,
	"pipe to child":        func(script) error { return pipeToChild() },
	"memfd program":        memfdProgram,

	// Files outside.
	"write outside":  func(s script) error { return touch(s.World.Outside + "/file") },
	"create outside": func(s script) error { return remake(s.World.Outside+"/new", create) },
	"mkdir outside": func(s script) error {
		return remake(s.World.Outside+"/dir", func(p string) error { return os.Mkdir(p, 0o755) })
	},
	"unlink outside":          func(s script) error { return unlinkAndBack(s.World.Outside + "/empty/x") },
	"truncate outside":        func(s script) error { return os.Truncate(s.World.Outside+"/file", 3) },
	"open truncating outside": func(s script) error { return openWith(s.World.Outside+"/file", os.O_RDONLY|os.O_TRUNC) },
	"rename outside":          func(s script) error { return renameAndBack(s.World.Outside+"/file", s.World.Outside+"/file2") },
	"rename out of workspace": func(s script) error { return renameAndBack(s.World.Workspace+"/main.txt", s.World.Outside+"/main.txt") },
	"rename into workspace":   func(s script) error { return renameAndBack(s.World.Outside+"/file", s.World.Workspace+"/stolen") },
	"write through link":      func(s script) error { return touch(s.World.Workspace + "/link-file") },
	"create through link":     func(s script) error { return remake(s.World.Workspace+"/link-outside/new", create) },
	"hard link into workspace": func(s script) error {
		return remake(s.World.Workspace+"/hard", func(p string) error { return os.Link(s.World.Outside+"/file", p) })
	},
	"write hard link made before": func(s script) error { return touch(s.World.Workspace + "/linked-before") },
	"read outside":                read(func(w world) string { return w.Outside + "/file" }),
	"list outside":                func(s script) error { _, err := os.ReadDir(s.World.Outside); return err },
	"symlink outside": func(s script) error {
		return remake(s.World.Outside+"/s", func(p string) error { return os.Symlink("file", p) })
	},
	"fifo outside": func(s script) error {
		return remake(s.World.Outside+"/f", func(p string) error { return unix.Mkfifo(p, 0o600) })
	},
	"write through fd": writeThroughFD,
	"swap race":        swapRace,
	"chmod outside":    func(s script) error { return os.Chmod(s.World.Outside+"/file", 0o640) },
	"utime outside":    func(s script) error { return os.Chtimes(s.World.Outside+"/file", time.Unix(1, 0), time.Unix(1, 0)) },
	"stat outside":     func(s script) error { _, err := os.Stat(s.World.Outside + "/file"); return err },
	"write /tmp":       func(script) error { return remake("/tmp/sandbox-victim", create) },
	"write /dev/shm":   func(script) error { return remake("/dev/shm/sandbox-victim", create) },
	"make device":      func(s script) error { return remake(s.World.Workspace+"/dev", makeDevice) },
	"make char device": func(s script) error {
		return remake(s.World.Workspace+"/chr", func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, 1<<8|3) })
	},
	"open terminal":             func(script) error { return openPTY() },
	"write /proc/sys":           func(script) error { return openWith("/proc/sys/kernel/core_pattern", os.O_WRONLY) },
	"write own proc":            func(script) error { return openWith("/proc/self/oom_score_adj", os.O_WRONLY) },
	"write /sys":                func(script) error { return openWith("/sys/kernel/mm/ksm/run", os.O_WRONLY) },
	"list /":                    func(script) error { _, err := os.ReadDir("/"); return err },
	"list / through proc":       func(script) error { _, err := os.ReadDir("/proc/self/root/"); return err },
	"read outside through proc": read(func(w world) string { return "/proc/self/root" + w.Outside + "/file" }),
	"read /etc/shadow":          func(script) error { return readSome("/etc/shadow") },
	"list home":                 func(s script) error { _, err := os.ReadDir(s.World.Home); return err },
	"read ssh key":              read(func(w world) string { return w.Home + "/.ssh/id_ed25519" }),
	"read cargo credentials":    read(func(w world) string { return w.Home + "/.cargo/credentials.toml" }),
	"read history":              read(func(w world) string { return w.Home + "/.bash_history" }),
	"read other project":        read(func(w world) string { return w.Home + "/other-project/.env" }),
	"read gh token":             read(func(w world) string { return w.Home + "/.config/gh/hosts.yml" }),
	"read agent credentials":    read(func(w world) string { return w.Home + "/.claude/.credentials.json" }),
	"read state":                read(func(w world) string { return w.State + "/other/secret" }),
	"list state":                func(s script) error { _, err := os.ReadDir(s.World.State); return err },
	"write toolchain":           func(s script) error { return touch(s.World.Home + "/.cargo/bin/tool") },
	"reopen for writing":        func(s script) error { return openWith(fmt.Sprintf("/proc/self/fd/%d", s.FD), os.O_WRONLY) },
	"see descriptor":            seeDescriptor,

	// Network and sockets.
	"tcp":                     socket(unix.AF_INET, unix.SOCK_STREAM, 0),
	"tcp6":                    socket(unix.AF_INET6, unix.SOCK_STREAM, 0),
	"udp":                     socket(unix.AF_INET, unix.SOCK_DGRAM, 0),
	"icmp":                    socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP),
	"raw":                     socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"packet":                  socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"vsock":                   socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"alg":                     socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"mptcp":                   socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
	"sctp":                    socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
	"audit":                   socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
	"uevent":                  socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
	"route":                   socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
	"unix":                    socket(unix.AF_UNIX, unix.SOCK_STREAM, 0),
	"unix pair":               pair(unix.SOCK_STREAM | unix.SOCK_CLOEXEC),
	"packet pair":             pair(unix.SOCK_SEQPACKET),
	"datagram pair":           pair(unix.SOCK_DGRAM),
	"datagram pair to a path": datagramPairToPath,
	"connect path":            func(s script) error { return dial("unix", s.World.Outside+"/socket") },
	"connect abstract":        func(s script) error { return dial("unix", "@"+s.World.Root) },
	"connect loopback":        func(s script) error { return dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.FD)) },
	"listen loopback":         listenLoopback,
	"reach named server":      namedServer,

	// The kernel.
	"clone3":                 func(script) error { return call(unix.SYS_CLONE3, 0, 0) },
	"io_uring":               ioURing,
	"bpf":                    func(script) error { return call(unix.SYS_BPF, 0, 0, 0) },
	"perf":                   func(script) error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0) },
	"userfaultfd":            func(script) error { return call(unix.SYS_USERFAULTFD, 1<<30) },
	"keyctl":                 func(script) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err },
	"add_key":                func(script) error { return call(unix.SYS_ADD_KEY, 0, 0, 0, 0, 0) },
	"open by handle":         func(script) error { return call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
	"unshare user":           func(script) error { return namespace(unix.CLONE_NEWUSER) },
	"unshare mount":          func(script) error { return namespace(unix.CLONE_NEWNS) },
	"clone network":          func(script) error { return namespace(unix.CLONE_NEWNET) },
	"mount":                  func(s script) error { return unix.Mount("none", s.World.Workspace, "tmpfs", 0, "") },
	"umount":                 func(script) error { return unix.Unmount("/dev/shm/none", 0) },
	"setns":                  func(script) error { return setns() },
	"chroot":                 func(s script) error { return unix.Chroot(s.World.Workspace) },
	"syslog":                 func(script) error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil); return err },
	"push input":             func(script) error { return ioctl(0, unix.TIOCSTI) },
	"push input high":        func(script) error { return ioctl(0, 1<<32|unix.TIOCSTI) },
	"console":                func(script) error { return ioctl(0, unix.TIOCLINUX) },
	"undo no new privileges": func(script) error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) },
	"become root":            func(script) error { return unix.Setuid(0) },
	"become other":           func(script) error { return call(unix.SYS_SETUID, ordinaryUser-1) },
	"chown":                  func(s script) error { return os.Chown(s.World.Workspace+"/main.txt", 12345, 12345) },

	// Other processes.
	"signal peer": func(s script) error { return unix.Kill(s.PID, 0) },
	"stop peer": func(s script) error {
		return errors.Join(unix.Kill(s.PID, unix.SIGSTOP), unix.Kill(s.PID, unix.SIGCONT))
	},
	"signal thread":     func(s script) error { return unix.Tgkill(s.PID, s.PID, 0) },
	"signal by pidfd":   signalByPidfd,
	"trace peer":        tracePeer,
	"read peer memory":  readPeerMemory,
	"write peer memory": func(s script) error { return openWith(fmt.Sprintf("/proc/%d/mem", s.PID), os.O_RDWR) },
	"peer environ":      func(s script) error { return readSome(fmt.Sprintf("/proc/%d/environ", s.PID)) },
	"peer root":         func(s script) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/", s.PID)); return err },
	"peer cwd":          func(s script) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd/", s.PID)); return err },
	"peer fds":          func(s script) error { _, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", s.PID)); return err },
	"peer maps":         func(s script) error { return readSome(fmt.Sprintf("/proc/%d/maps", s.PID)) },
	"steal peer fd":     stealFD,
	"lower peer limit":  lowerPeerLimit,
	"signal by owner":   signalByOwner,
	"peer nice":         func(s script) error { return unix.Setpriority(unix.PRIO_PROCESS, s.PID, 19) },
	"System V memory":   func(script) error { return sharedMemory() },
	"message queue":     func(script) error { return messageQueue() },
	"peer oom":          func(s script) error { return openWith(fmt.Sprintf("/proc/%d/oom_score_adj", s.PID), os.O_WRONLY) },
	"inotify outside":   watchOutside,
	"peer limits":       func(s script) error { var old unix.Rlimit; return unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, nil, &old) },
	"peer command line": func(s script) error { return readSome(fmt.Sprintf("/proc/%d/cmdline", s.PID)) },
}

func read(path func(world) string) func(script) error {
	return func(s script) error { return readSome(path(s.World)) }
}

func readSome(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = f.Read(make([]byte, 64))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func openWith(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func create(path string) error { return openWith(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY) }

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("x"))
	return errors.Join(err, f.Close())
}

// remake makes something at path and takes it away again.
func remake(path string, do func(string) error) error {
	err := do(path)
	if err == nil {
		err = os.Remove(path)
	}
	return err
}

func unlinkAndBack(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

func renameAndBack(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return os.Rename(to, from)
}

func renameAcross(s script) error {
	w := s.World.Workspace
	return errors.Join(renameAndBack(w+"/main.txt", w+"/sub/main.txt"), renameAndBack(w+"/sub", w+"/sub2"))
}

func runFromTemp(s script) error {
	path := s.World.Temp + "/program"
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		return err
	}
	return errors.Join(exec.Command(path).Run(), os.Remove(path))
}

// threads makes enough threads that the C library's way of making them is not what is
// tested here: the runtime's is, with clone.
func threads(script) error {
	done := make(chan int)
	for range 8 {
		go func() { runtime.LockOSThread(); done <- unix.Gettid() }()
	}
	seen := map[int]bool{}
	for range 8 {
		seen[<-done] = true
	}
	if len(seen) < 2 {
		return errors.New("no threads were made")
	}
	return nil
}

func signalOwnChild(script) error {
	child := exec.Command("/bin/sleep", "60")
	if err := child.Start(); err != nil {
		return err
	}
	if err := child.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("child ended with %v", err)
	}
	return nil
}

func pipeToChild() error {
	out, err := exec.Command("/bin/sh", "-c", "echo a | cat").Output()
	if err == nil && string(out) != "a\n" {
		err = fmt.Errorf("read %q", out)
	}
	return err
}

// memfdProgram runs a program that has no path, and expects it to be confined like any other.
func memfdProgram(s script) error {
	fd, err := unix.MemfdCreate("program", 0)
	if err != nil {
		return err
	}
	program, err := os.ReadFile("/bin/cat")
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, program); err != nil {
		return err
	}
	cat := exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd), s.World.Outside+"/file")
	var exit *exec.ExitError
	if err := cat.Run(); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return unix.EACCES // it ran, and was refused the file
	} else {
		return err
	}
}

// seeDescriptor looks for the directory that the test opened; the number itself may have
// been given to something of the runtime.
func seeDescriptor(s script) error {
	var stat unix.Stat_t
	if err := unix.Fstat(s.FD, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.EBADF
	}
	return nil
}

func writeThroughFD(s script) error {
	fd, err := unix.Openat(s.FD, "new-through-fd", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Close(fd), unix.Unlinkat(s.FD, "new-through-fd", 0))
}

// swapRace swaps a directory with a link that leads outside while opening a file in it for
// writing: what is opened must be judged where it is, not where it was said to be.
func swapRace(s script) error {
	w := s.World.Workspace
	// An earlier race may have left the two the wrong way round.
	if err := errors.Join(os.RemoveAll(w+"/race"), os.RemoveAll(w+"/race-link"), os.MkdirAll(w+"/race", 0o755), os.WriteFile(w+"/race/file", nil, 0o644)); err != nil {
		return err
	}
	if err := os.Symlink(s.World.Outside, w+"/race-link"); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, w+"/race", unix.AT_FDCWD, w+"/race-link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 20000 {
		f, err := os.OpenFile(w+"/race/file", os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, _ = f.Write([]byte("!"))
			_ = f.Close()
		}
	}
	close(stop)
	<-done
	if text, err := readUnconfined(s.World.Outside + "/file"); err == nil && strings.Contains(text, "!") {
		return nil // the control: the race can be won
	}
	return unix.EACCES
}

// readUnconfined is for acts whose success is a content outside; inside the sandbox it fails,
// and the test reads the file itself.
func readUnconfined(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

func makeDevice(path string) error { return unix.Mknod(path, unix.S_IFBLK|0o600, 7<<8) }

func openPTY() error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = master.Close() }()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	return openWith(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY)
}

func socket(family, kind, protocol int) func(script) error {
	return func(script) error {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func pair(kind int) func(script) error {
	return func(script) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
		if err != nil {
			return err
		}
		if _, err := unix.Write(fds[0], []byte("x")); err != nil {
			return err
		}
		if n, err := unix.Read(fds[1], make([]byte, 1)); n != 1 || err != nil {
			return fmt.Errorf("read %d bytes: %v", n, err)
		}
		return errors.Join(unix.Close(fds[0]), unix.Close(fds[1]))
	}
}

// datagramPairToPath sends from one end of an unconnected kind of pair to a socket with a path.
func datagramPairToPath(s script) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: s.World.Outside + "/datagram"})
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

func listenLoopback(script) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return l.Close()
}

func namedServer(s script) error {
	path := s.World.Temp + "/inside"
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return errors.Join(dial("unix", path), l.Close())
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	return nil
}

func ioURing(script) error {
	var params [120]byte
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// namespace starts a child in a new namespace, of a program that does not exist: reaching
// that complaint means that the namespace was made.
func namespace(flag uintptr) error {
	_, err := syscall.ForkExec("/proc/self/none", []string{"none"}, &syscall.ProcAttr{
		Env: []string{}, Sys: &syscall.SysProcAttr{Cloneflags: flag},
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func setns() error {
	fd, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Setns(fd, unix.CLONE_NEWNS)
}

func ioctl(fd int, request uintptr) error {
	x := byte('x')
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&x)))
	if errno != 0 {
		return errno
	}
	return nil
}

func signalByPidfd(s script) error {
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

func tracePeer(s script) error {
	runtime.LockOSThread()
	if err := unix.PtraceSeize(s.PID); err != nil {
		return err
	}
	return nil // ended with the victim
}

func readPeerMemory(s script) error {
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err := unix.ProcessVMReadv(s.PID, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil // allowed, and nothing there
	}
	return err
}

func stealFD(s script) error {
	pidfd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(pidfd, 0, 0)
	return err
}

// lowerPeerLimit takes a limit away from another process that it can then never get back;
// with the right one, that process ends.
func lowerPeerLimit(s script) error {
	var old unix.Rlimit
	if err := unix.Prlimit(s.PID, unix.RLIMIT_CORE, nil, &old); err != nil {
		return err
	}
	return unix.Prlimit(s.PID, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: old.Max}, nil)
}

// signalByOwner has the kernel signal another process, as the owner of a pipe that becomes readable.
func signalByOwner(s script) error {
	fds := make([]int, 2)
	if err := unix.Pipe(fds); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, s.PID); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC); err != nil {
		return err
	}
	if _, err := unix.Write(fds[1], []byte("x")); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond)
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
	if err == nil && !strings.Contains(string(state), ") Z ") {
		return unix.EPERM // it lives: the signal, whose default is to end a process, did not arrive
	}
	return nil
}

func watchOutside(s script) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(fd, s.World.Outside, unix.IN_ALL_EVENTS)
	return errors.Join(err, unix.Close(fd))
}

// sharedMemory makes, attaches and removes a segment that every process of the user could attach.
func sharedMemory() error {
	id, err := unix.SysvShmGet(0x5a4d, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return err
	}
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err == nil {
		memory[0] = 1
		err = unix.SysvShmDetach(memory)
	}
	_, remove := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return errors.Join(err, remove)
}

func messageQueue() error {
	name := append([]byte("sandbox-victim"), 0)
	fd, _, errno := syscall.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	_ = unix.Close(int(fd))
	return call(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0])))
}
