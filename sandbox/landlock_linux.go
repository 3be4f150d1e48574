package sandbox

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights that come with each Landlock version. A version's rights are the sum of its
// own row and those before it.
var landlockRights = []struct {
	version int
	files   uint64
	network uint64
	scopes  uint64
}{
	{version: 1, files: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
	{version: 2, files: unix.LANDLOCK_ACCESS_FS_REFER},
	{version: landlockTruncate, files: unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{version: landlockNetwork, network: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP},
	{version: landlockIoctl, files: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	{version: landlockScopes, scopes: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
	{version: landlockUnix, files: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
}

// Rights by list. What a version lacks is masked out when a rule is added.
const (
	rightsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsExec = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	rightsList = unix.LANDLOCK_ACCESS_FS_READ_DIR
	// No device nodes, and no control of those that are there. Refer makes renaming from one
	// directory to another work; it never gives a file rights that it did not have.
	rightsWrite = rightsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	rightsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// rightsOfFiles are those that a rule on anything but a directory may carry.
	rightsOfFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// rulesetAttr is struct landlock_ruleset_attr.
type rulesetAttr struct {
	files   uint64
	network uint64
	scopes  uint64
}

// rulesetFor is what p's domain handles: everything handled and not granted is refused.
func rulesetFor(p Profile) rulesetAttr {
	var attr rulesetAttr
	for _, row := range landlockRights {
		if row.version > p.Landlock {
			continue
		}
		if p.Files {
			attr.files |= row.files
		}
		if !p.Network && !p.Loopback {
			attr.network |= row.network // no rule follows: no port at all
		}
		if p.Envelope {
			attr.scopes |= row.scopes
		}
	}
	return attr
}

// size is the length of the structure that a kernel of this version knows. A longer one
// is accepted only when the rest is zero, so the shortest that says everything is sent.
func (a rulesetAttr) size() uintptr {
	switch {
	case a.scopes != 0:
		return 24
	case a.network != 0:
		return 16
	}
	return 8
}

// ruleset makes p's domain, not yet in force; -1 when p has none.
func (p Profile) ruleset() (int, error) {
	attr := rulesetFor(p)
	if attr == (rulesetAttr{}) {
		return -1, nil
	}
	fd, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), attr.size(), 0)
	if errno != 0 {
		return -1, fmt.Errorf("landlock ruleset: %w", errno)
	}
	for _, rules := range []struct {
		name   string
		paths  []string
		rights uint64
		must   bool
	}{
		{"read", p.Read, rightsRead, false},
		{"exec", p.Exec, rightsExec, false},
		{"list", p.List, rightsList, false},
		{"write", p.Write, rightsWrite, true},
		{"devices", p.Devices, rightsDevice, false},
	} {
		for _, path := range rules.paths {
			err := addRule(int(fd), path, rules.rights&attr.files)
			if errors.Is(err, unix.ENOENT) && !rules.must {
				continue // gone since the plan was made: nothing to grant
			}
			if err != nil {
				_ = unix.Close(int(fd))
				return -1, fmt.Errorf("landlock %s rule for %q: %w", rules.name, path, err)
			}
		}
	}
	return int(fd), nil
}

// addRule grants rights on path and below. The path was real when the plan was made; a
// symbolic link anywhere in it now is somebody's doing and an error.
func addRule(ruleset int, path string, rights uint64) error {
	fd, err := openReal(path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if rights&^rightsOfFiles != 0 { // the kernel takes these for directories only
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return err
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= rightsOfFiles
		}
	}
	if rights == 0 {
		return nil
	}
	// struct landlock_path_beneath_attr is packed: 8 bytes of rights, 4 of descriptor.
	var attr [12]byte
	*(*uint64)(unsafe.Pointer(&attr[0])) = rights
	*(*int32)(unsafe.Pointer(&attr[8])) = int32(fd)
	_, _, errno := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr[0])), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// openReal opens path for naming it, following no symbolic link in it.
func openReal(path string) (int, error) {
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			// Not O_NOFOLLOW: with it the kernel opens a link at the end of the path instead of refusing it.
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ELOOP):
			return -1, errors.New("a symbolic link has taken the place of a directory")
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return openRealByName(path) // an older container runtime's filter does not know openat2
		}
		return fd, err
	}
}

func openRealByName(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	buf := make([]byte, maxPathBytes+1)
	n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), buf)
	if err == nil && string(buf[:n]) != path {
		err = fmt.Errorf("it now leads to %q", buf[:n])
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// landlockVersion asks the kernel for the version (flag 1) or the errata (flag 2).
func landlockVersion(flag uintptr) (int, error) {
	n, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, flag)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
