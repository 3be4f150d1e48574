package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func streamKind(fd int) (Kind, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return "", fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if flags&unix.O_PATH != 0 {
		return "", fmt.Errorf("descriptor %d is an O_PATH descriptor, which only names a place", fd)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return "", fmt.Errorf("descriptor %d: %w", fd, err)
	}
	refuse := func(what string) (Kind, error) {
		return "", fmt.Errorf("descriptor %d is %s; expected a pipe, a terminal, a regular file, /dev/null or an unnamed socket pair", fd, what)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return KindPipe, nil
	case unix.S_IFREG:
		// A file that was never in any directory is memory, which its maker maps
		// and changes while the command reads it. The kernel names it so.
		if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
			return "", fmt.Errorf("descriptor %d: %w", fd, err)
		} else if stat.Nlink == 0 && strings.HasPrefix(name, "/memfd:") {
			return refuse("memory without a file")
		}
		return KindFile, nil
	case unix.S_IFDIR:
		return refuse("a directory")
	case unix.S_IFBLK:
		return refuse("a block device")
	case unix.S_IFSOCK:
		return socketKind(fd, refuse)
	case unix.S_IFCHR:
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return KindTerminal, nil
		}
		major, minor := unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev))
		if major == 1 && minor == 3 {
			return KindNull, nil
		}
		return refuse(fmt.Sprintf("the character device %d:%d", major, minor))
	}
	return refuse("no file, pipe, device or socket")
}

// socketKind accepts a connected stream socket of which neither end has a name: what
// socketpair makes. Peers that were found by a name or an address are something else.
func socketKind(fd int, refuse func(string) (Kind, error)) (Kind, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return "", fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if family != unix.AF_UNIX {
		return refuse(fmt.Sprintf("a socket of family %d", family))
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return "", fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if kind != unix.SOCK_STREAM {
		return refuse(fmt.Sprintf("a unix socket of type %d", kind))
	}
	name, err := addressLength(unix.SYS_GETSOCKNAME, fd)
	if err != nil || name != unnamed {
		return refuse("a unix socket with a name")
	}
	peer, err := addressLength(unix.SYS_GETPEERNAME, fd)
	if errors.Is(err, unix.ENOTCONN) {
		return refuse("a unix socket without a peer")
	}
	if err != nil || peer != unnamed {
		return refuse("a unix socket whose peer has a name")
	}
	return KindSocketPair, nil
}

// unnamed is the length of a unix address that is its family alone.
const unnamed = 2

// addressLength asks for the length of an address, which the ready-made calls do not tell: to
// them an abstract name that begins with a zero byte looks like none.
func addressLength(call uintptr, fd int) (int, error) {
	var address unix.RawSockaddrUnix
	length := uint32(unsafe.Sizeof(address))
	_, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&address)), uintptr(unsafe.Pointer(&length)))
	if errno != 0 {
		return 0, errno
	}
	return int(length), nil
}

func streamDirection(fd, stream int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("descriptor %d: %w", fd, err)
	}
	mode := flags & unix.O_ACCMODE
	switch {
	case stream == 0 && mode == unix.O_WRONLY:
		return fmt.Errorf("descriptor %d is open for writing only", fd)
	case stream > 0 && mode == unix.O_RDONLY:
		return fmt.Errorf("descriptor %d is open for reading only", fd)
	}
	return nil
}
