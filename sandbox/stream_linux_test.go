package sandbox

import (
	"net"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestStreamKinds(t *testing.T) {
	dir := t.TempDir()
	open := func(path string, flags int) int {
		t.Helper()
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_CREAT*b2i(strings.HasPrefix(path, dir) && flags&unix.O_DIRECTORY == 0 && flags&unix.O_PATH == 0), 0o600)
		if err != nil {
			t.Fatal(path, err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	socketPair := func(kind int) int {
		t.Helper()
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fds[0]
	}
	listener, err := net.Listen("unix", dir+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	raw := func(family, kind int, connect unix.Sockaddr) int {
		t.Helper()
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		if err == nil && connect != nil {
			err = unix.Connect(fd, connect)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	// An abstract name that begins with a zero byte.
	abstract := raw(unix.AF_UNIX, unix.SOCK_STREAM, nil)
	if err := bindRaw(abstract, []byte{0, 0, 'x'}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(abstract, 1); err != nil {
		t.Fatal(err)
	}
	toAbstract := raw(unix.AF_UNIX, unix.SOCK_STREAM, nil)
	if err := connectRaw(toAbstract, []byte{0, 0, 'x'}); err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	master, slave := openPair(t)
	file := dir + "/file"
	for name, c := range map[string]struct {
		fd   int
		want Kind
		say  string
	}{
		"pipe, reading end":                  {pipe[0], KindPipe, ""},
		"pipe, writing end":                  {pipe[1], KindPipe, ""},
		"file":                               {open(file, unix.O_RDWR), KindFile, ""},
		"/dev/null":                          {open("/dev/null", unix.O_RDWR), KindNull, ""},
		"terminal":                           {int(slave.Fd()), KindTerminal, ""},
		"terminal's master":                  {int(master.Fd()), KindTerminal, ""},
		"socket pair":                        {socketPair(unix.SOCK_STREAM), KindSocketPair, ""},
		"directory":                          {open(dir, unix.O_RDONLY|unix.O_DIRECTORY), "", "a directory"},
		"O_PATH file":                        {open(file, unix.O_PATH), "", "O_PATH"},
		"O_PATH directory":                   {open(dir, unix.O_PATH), "", "O_PATH"},
		"/dev/zero":                          {open("/dev/zero", unix.O_RDWR), "", "the character device 1:5"},
		"epoll":                              {epoll, "", "no file, pipe, device or socket"},
		"datagram pair":                      {socketPair(unix.SOCK_DGRAM), "", "unix socket of type 2"},
		"packet pair":                        {socketPair(unix.SOCK_SEQPACKET), "", "unix socket of type 5"},
		"unconnected socket":                 {raw(unix.AF_UNIX, unix.SOCK_STREAM, nil), "", "without a peer"},
		"socket with a peer that has a name": {raw(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: dir + "/socket"}), "", "whose peer has a name"},
		"socket with a peer whose name begins with zero": {toAbstract, "", "whose peer has a name"},
		"internet socket": {raw(unix.AF_INET, unix.SOCK_STREAM, nil), "", "a socket of family 2"},
		"closed":          {9999, "", "bad file descriptor"},
		"negative":        {-1, "", "bad file descriptor"},
	} {
		kind, err := StreamKind(c.fd)
		if kind != c.want || (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %q, %v; want %q, %q", name, kind, err, c.want, c.say)
		}
	}
	listenFile, err := listener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listenFile.Close() }()
	if _, err := StreamKind(int(listenFile.Fd())); err == nil {
		t.Error("a listening socket passes")
	}
	if os.Getuid() == 0 {
		node := dir + "/block"
		if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))); err == nil {
			if fd, err := unix.Open(node, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
				if _, err := StreamKind(fd); err == nil || !strings.Contains(err.Error(), "block device") {
					t.Errorf("block device: %v", err)
				}
			}
		}
	}

	reading, writing := open(file, unix.O_RDONLY), open(file, unix.O_WRONLY)
	for name, c := range map[string]struct {
		fd, stream int
		say        string
	}{
		"reading as 0": {reading, 0, ""}, "writing as 1": {writing, 1, ""}, "both as 2": {open(file, unix.O_RDWR), 2, ""},
		"writing as 0": {writing, 0, "open for writing only"}, "reading as 1": {reading, 1, "open for reading only"},
		"pipe's reading end as 2": {pipe[0], 2, "open for reading only"}, "stream 3": {reading, 3, "expected 0, 1 or 2"},
		"directory as 0": {open(dir, unix.O_RDONLY|unix.O_DIRECTORY), 0, "stream 0: descriptor"},
	} {
		_, err := CheckStream(c.fd, c.stream)
		if (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
}

func bindRaw(fd int, name []byte) error    { return rawAddress(unix.SYS_BIND, fd, name) }
func connectRaw(fd int, name []byte) error { return rawAddress(unix.SYS_CONNECT, fd, name) }

func rawAddress(call uintptr, fd int, name []byte) error {
	address := append([]byte{familyUnix, 0}, name...)
	_, _, errno := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
	if errno != 0 {
		return errno
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
