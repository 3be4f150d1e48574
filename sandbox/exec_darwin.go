package sandbox

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Execute replaces this process by the program at path, with argv and env, confined by p. It
// returns only with an error, and then the process may be limited and its descriptors
// marked: it must end. Descriptors from 3 on are closed but for p.Descriptors.
func (p Profile) Execute(path string, argv, env []string) error {
	program, args, err := p.SeatbeltCommand(path, argv)
	if err != nil {
		return err
	}
	if err := p.markDescriptors(); err != nil {
		return fmt.Errorf("sandbox descriptors: %w", err)
	}
	if err := p.setLimits(); err != nil {
		return fmt.Errorf("sandbox limits: %w", err)
	}
	return fmt.Errorf("sandbox: %s: %w", program, unix.Exec(program, args, env))
}

// markDescriptors has every open descriptor from 3 on closed by execve, but those to keep.
// One that another thread opens meanwhile is Go's, which marks its own.
func (p Profile) markDescriptors() error {
	names, err := readNames("/dev/fd", 1<<16)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < 3 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	for _, fd := range p.Descriptors {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("descriptor %d to keep: %w", fd, err)
		}
	}
	return nil
}

func (p Profile) setLimits() error {
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"cpu", unix.RLIMIT_CPU, p.Limits.CPU},
		{"address space", unix.RLIMIT_AS, p.Limits.AddressSpace},
		{"processes", unix.RLIMIT_NPROC, p.Limits.Processes},
		{"file size", unix.RLIMIT_FSIZE, p.Limits.FileSize},
		{"open files", unix.RLIMIT_NOFILE, p.Limits.OpenFiles},
	} {
		if limit.value == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(limit.resource, &now); err != nil {
			return fmt.Errorf("%s: %w", limit.name, err)
		}
		hard := min(limit.value, now.Max)
		if err := unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: min(hard, now.Cur), Max: hard}); err != nil {
			return fmt.Errorf("%s: %w", limit.name, err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("core files: %w", err)
	}
	return nil
}
