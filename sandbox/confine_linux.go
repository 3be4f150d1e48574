package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func (p Profile) confine() error {
	runtime.LockOSThread() // never undone: this thread must do no other work

	// What needs rights that the later steps take away comes first: the status file is
	// opened now and read at the end, the rules' places are opened, the program assembled.
	status, err := unix.Open("/proc/thread-self/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sandbox cannot verify itself: /proc/thread-self/status: %w", err)
	}
	defer func() { _ = unix.Close(status) }()
	if p.Landlock > 0 {
		if have, err := landlockVersion(unix.LANDLOCK_CREATE_RULESET_VERSION); have < p.Landlock {
			return fmt.Errorf("sandbox: the plan counts on Landlock version %d, this kernel gives %d (%w)", p.Landlock, have, orUnsupported(err))
		}
	}
	ruleset, err := p.ruleset()
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	unlisted, err := p.unlisted()
	if err != nil {
		return fmt.Errorf("sandbox cannot verify itself: a place that no rule names: %w", err)
	}
	defer func() { _ = unix.Close(unlisted) }()
	var program []bpf.RawInstruction
	if p.Strict || p.Guard {
		if program, err = p.program(); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}

	steps := []struct {
		name string
		do   func() error
	}{
		{"descriptors", p.closeDescriptors},
		{"limits", p.setLimits},
		{"no new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"capabilities", p.dropCapabilities},
		{"landlock", func() error { return enterDomain(ruleset) }},
		{"system call filter", func() error { return installFilter(program) }},
		{"verification", func() error { return p.verify(status, unlisted) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("sandbox %s: %w", step.name, err)
		}
	}
	return nil
}

func orUnsupported(err error) error {
	if err == nil {
		return errors.ErrUnsupported
	}
	return err
}

// closeDescriptors marks everything from 3 on to be closed by execve, but what p keeps.
// It cannot close at once: the runtime's own descriptors are among them.
func (p Profile) closeDescriptors() error {
	if err := unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range p.Descriptors {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("descriptor %d to keep: %w", fd, err)
		}
	}
	return nil
}

// setLimits lowers limits and never raises one. A core is written with the rights of the
// kernel or handed to a program outside, so a restricted command leaves none.
func (p Profile) setLimits() error {
	type setting struct {
		name     string
		resource int
		value    uint64
	}
	settings := []setting{
		{"cpu", unix.RLIMIT_CPU, p.Limits.CPU}, {"address space", unix.RLIMIT_AS, p.Limits.AddressSpace},
		{"processes", unix.RLIMIT_NPROC, p.Limits.Processes}, {"file size", unix.RLIMIT_FSIZE, p.Limits.FileSize},
		{"open files", unix.RLIMIT_NOFILE, p.Limits.OpenFiles},
	}
	for _, s := range settings {
		if s.value == 0 {
			continue
		}
		if err := lowerLimit(s.resource, s.value); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if p.Files {
		return lowerLimit(unix.RLIMIT_CORE, 0)
	}
	return nil
}

func lowerLimit(resource int, value uint64) error {
	var old unix.Rlimit
	if err := unix.Getrlimit(resource, &old); err != nil {
		return err
	}
	// unix.Setrlimit, not the bare call: the runtime must learn that its own value for open
	// files is not to be put back before execve.
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: min(old.Cur, value), Max: min(old.Max, value)})
}

// dropCapabilities empties the bounding, ambient, permitted, effective and inheritable
// sets. The bounding set matters to a superuser, who gets its capabilities back from there at
// execve; an ordinary user may not change it and, without new privileges, need not.
func (p Profile) dropCapabilities() error {
	if !p.DropCapabilities {
		return nil
	}
	keep := func(c int) bool { return p.KeepDACOverride && c == unix.CAP_DAC_OVERRIDE }
	for c := 0; c < 64; c++ {
		have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // beyond the last one of this kernel
		}
		if err != nil {
			return err
		}
		if have == 0 || keep(c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if p.KeepDACOverride {
		data[0].Permitted = 1 << unix.CAP_DAC_OVERRIDE
		data[0].Effective = 1 << unix.CAP_DAC_OVERRIDE
	}
	return unix.Capset(&header, &data[0])
}

func enterDomain(ruleset int) error {
	if ruleset < 0 {
		return nil
	}
	_, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
	_ = unix.Close(ruleset)
	switch errno {
	case 0:
		return nil
	case unix.E2BIG:
		return errors.New("too many domains inside each other: the kernel allows 16")
	}
	return errno
}

func (p Profile) program() ([]bpf.RawInstruction, error) {
	var code []bpf.Instruction
	var err error
	if p.Strict {
		code, err = filter(runtime.GOARCH, filterRules{Network: p.Network || p.Loopback, UnixSockets: p.UnixSockets, SharedMemory: p.SharedMemory})
	} else {
		code, err = guardFilter(runtime.GOARCH)
	}
	if err != nil {
		return nil, err
	}
	return bpf.Assemble(code)
}

// installFilter puts the program on this thread. bpf.RawInstruction has the layout of
// struct sock_filter.
func installFilter(program []bpf.RawInstruction) error {
	if len(program) == 0 {
		return nil
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// verify reads back what the kernel says of this thread and then tries, once each, what
// must be refused now.
func (p Profile) verify(status, unlisted int) error {
	buf := make([]byte, 16<<10)
	n, err := unix.Pread(status, buf, 0)
	if err != nil {
		return err
	}
	fields := statusFields(buf[:n])
	want := map[string]uint64{"NoNewPrivs": 1}
	if p.Strict || p.Guard {
		want["Seccomp"] = unix.SECCOMP_MODE_FILTER
	}
	if p.DropCapabilities {
		var kept uint64
		if p.KeepDACOverride {
			kept = 1 << unix.CAP_DAC_OVERRIDE
		}
		want["CapEff"], want["CapPrm"], want["CapInh"], want["CapAmb"] = kept, kept, 0, 0
		if unix.Geteuid() == 0 || unix.Getuid() == 0 {
			want["CapBnd"] = kept
		}
	}
	for name, value := range want {
		if got, ok := fields[name]; !ok || got != value {
			return fmt.Errorf("%s is %#x after confinement, expected %#x", name, got, value)
		}
	}
	return p.tryForbidden(unlisted)
}

// unlisted is a directory that no file rule names: the host's root, and in a view, whose root may
// be listed, one that is mounted nowhere.
func (p Profile) unlisted() (int, error) {
	if len(p.View) > 0 {
		return newMount("tmpfs", 0)
	}
	return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func (p Profile) tryForbidden(unlisted int) error {
	if p.Files {
		fd, err := unix.Openat(unlisted, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		if !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("a directory that no rule names can still be opened (%v): the file rules do not hold", err)
		}
	}
	if len(p.View) > 0 {
		if err := unix.Mkdir("/.view", 0o700); !errors.Is(err, unix.EROFS) && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("the root of the view can be written (%v): the mounts do not hold", err)
		}
	}
	if p.Strict {
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("a socket of a refused family was answered %v: the system call filter does not hold", err)
		}
	}
	parent := unix.Getppid()
	if p.Guard && parent > 0 {
		var same unix.Rlimit // what is there already, should the filter not hold
		err := unix.Prlimit(parent, unix.RLIMIT_CORE, nil, &same)
		if err == nil {
			err = unix.Prlimit(parent, unix.RLIMIT_CORE, &same, nil)
		}
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("the parent's limits can still be changed (%v): the system call filter does not hold", err)
		}
	}
	if p.Envelope && parent > 0 {
		if err := unix.Kill(parent, 0); !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("the parent can still be signalled (%v): the envelope does not hold", err)
		}
	}
	return nil
}

// statusFields reads the numeric lines of a status file. Capabilities are in hexadecimal,
// the others in decimal, and those of interest here mean the same in both.
func statusFields(text []byte) map[string]uint64 {
	fields := map[string]uint64{}
	for line := range bytes.Lines(text) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64); err == nil {
			fields[string(name)] = n
		}
	}
	return fields
}
