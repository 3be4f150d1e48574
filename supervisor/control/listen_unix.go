//go:build unix

package control

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Listen binds a stream socket called name in dir. It works through an open
// descriptor of dir, so that the path has no length limit and no link of it is
// followed twice.
func Listen(dir, name string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	os.Remove(filepath.Join(dir, name))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: short(d, name)})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", filepath.Join(dir, name), err)
	}
	// The name belongs to the descriptor that is closed here: removing the
	// directory is its maker's.
	l.SetUnlinkOnClose(false)
	if err := unix.Fchmodat(int(d.Fd()), name, 0o600, 0); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Dial connects to the socket at path, whatever its length.
func Dial(path string) (*Conn, error) {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	u, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: short(d, filepath.Base(path))})
	if err != nil {
		return nil, err
	}
	return NewConn(u), nil
}
