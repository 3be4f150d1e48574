package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func probe() Host {
	h := Host{
		Root: os.Geteuid() == 0, UID: os.Geteuid(), Kernel: kernelRelease(), Arch: runtime.GOARCH, PtraceScope: ptraceScope(),
	}
	var err error
	if h.LandlockABI, err = landlockVersion(unix.LANDLOCK_CREATE_RULESET_VERSION); err != nil {
		h.LandlockABI, h.LandlockLack = 0, landlockLack(err)
	} else {
		h.LandlockErrata, _ = landlockVersion(unix.LANDLOCK_CREATE_RULESET_ERRATA) // 0 before errata were reported
	}
	h.probeSeccomp()
	if err := probeUserNamespaces(); err != nil {
		h.UserNamespacesLack = err.Error()
	} else {
		h.UserNamespaces = true
	}
	h.CgroupV2 = cgroupDelegated()
	if require(h) == nil {
		h.Backend = BackendLandlock
	}
	return h
}

func landlockLack(err error) string {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return "this kernel was built without it"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "it was switched off when this kernel was started (lsm=)"
	case errors.Is(err, unix.EPERM):
		return "the filter of a container refuses it"
	}
	return err.Error()
}

// probeSeccomp asks for each answer that our filter gives, and then offers a filter at
// address 0: a kernel that installs filters finds the address bad, others the request.
func (h *Host) probeSeccomp() {
	available := func(action uint32) error {
		_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
		if errno != 0 {
			return errno
		}
		return nil
	}
	h.SeccompNotify = available(unix.SECCOMP_RET_USER_NOTIF) == nil
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err == nil {
		h.Filtered = mode == unix.SECCOMP_MODE_FILTER
	}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	switch {
	case !haveFilter():
		h.SeccompLack = "no system call table for " + runtime.GOARCH
	case errno != unix.EFAULT:
		h.SeccompLack = fmt.Sprintf("this kernel installs no filters (%v)", errno)
	case available(filterKill) != nil || available(filterRefuse) != nil:
		h.SeccompLack = "this kernel's filters cannot kill a process"
	default:
		h.Seccomp = true
	}
}

// probeUserNamespaces makes a child in a user namespace with a mount namespace in it, in
// which the root is made private: what needs the capabilities that some systems withhold.
// The child is then to run a program that does not exist, and that this is its only
// complaint proves that everything before it worked.
func probeUserNamespaces() error {
	process, err := os.StartProcess("/proc/self/sandbox-probe-of-user-namespaces", []string{"probe"}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{nil, nil, nil},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Unshareflags: unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		},
	})
	switch {
	case err == nil:
		_, err = process.Wait()
		return fmt.Errorf("a program that does not exist was run (%v)", err)
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOSPC):
		return errors.New("their number is limited to what is in use (user.max_user_namespaces)")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return errors.New("the system refuses them to this user or program")
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// cgroupDelegated is true when this process's own version 2 group can be divided by it.
func cgroupDelegated() bool {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			var fs unix.Statfs_t
			if unix.Statfs(mount, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
				continue
			}
			dir := filepath.Join(mount, group)
			return unix.Access(dir, unix.W_OK|unix.X_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
		}
	}
	return false
}

func ptraceScope() int {
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return n
}

func kernelRelease() string {
	var uts unix.Utsname
	if unix.Uname(&uts) != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(uts.Release[:])
}
