package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock asks the kernel for its Landlock ABI version.
func landlock(want int) error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	if int(abi) < want {
		return fmt.Errorf("the kernel's Landlock ABI is %d, %d is needed", abi, want)
	}
	return nil
}

// seccomp asks whether a filter may answer a system call with an error number.
func seccomp() error { return seccompAction(unix.SECCOMP_RET_ERRNO) }

// seccompNotify asks whether a filter may hand a system call to another process.
func seccompNotify() error { return seccompAction(unix.SECCOMP_RET_USER_NOTIF) }

func seccompAction(action uint32) error {
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("seccomp(SECCOMP_GET_ACTION_AVAIL): %w", errno)
	}
	return nil
}

// inNamespaces runs a program in new namespaces. An ordinary user gets a user
// namespace with them, as the product does.
func inNamespaces(flags uintptr, argv ...string) error {
	attr := &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if attr.Cloneflags&syscall.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("clone with flags %#x: %w: %.200q", attr.Cloneflags, err, out)
	}
	return nil
}

func userNamespace() error { return inNamespaces(syscall.CLONE_NEWUSER, "true") }

func mountNamespace() error {
	// Mounting is what tests need of a mount namespace, so that is what is tried.
	return inNamespaces(syscall.CLONE_NEWNS, "sh", "-c", "mount --make-rprivate / && mount -t tmpfs -o size=64k none /tmp")
}

func pidNamespace() error { return inNamespaces(syscall.CLONE_NEWPID, "true") }

func netNamespace() error { return inNamespaces(syscall.CLONE_NEWNET, "true") }

func pidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	return unix.Close(fd)
}

// soPeerPidfd is SO_PEERPIDFD of the kernel's asm-generic/socket.h (Linux 6.5).
const soPeerPidfd = 77

func peerPidfd() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	fd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, soPeerPidfd)
	if err != nil {
		return fmt.Errorf("getsockopt(SO_PEERPIDFD): %w", err)
	}
	return unix.Close(fd)
}

func subreaper() error {
	// Reading the attribute tells that the kernel has it and changes nothing here.
	var is int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_GET_CHILD_SUBREAPER): %w", err)
	}
	return nil
}

func pty() (err error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, master.Close()) }()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("ioctl(TIOCSPTLCK): %w", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("ioctl(TIOCGPTN): %w", err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	return slave.Close()
}
