package control

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotAConnection says that a message over a command's descriptor brought no
// unix stream socket.
var ErrNotAConnection = errors.New("the message brought no connection")

// Packet is the way to the supervisor of a process that may not open sockets: a
// connected SOCK_SEQPACKET descriptor over which ends of fresh pairs are sent.
type Packet struct{ u *net.UnixConn }

// NewPacket takes over one end and closes f.
func NewPacket(f *os.File) (*Packet, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, ErrNotAConnection
	}
	return &Packet{u}, nil
}

// Close closes this end.
func (p *Packet) Close() error { return p.u.Close() }

// Open makes a connection by sending one end of a fresh pair: the credentials
// that the supervisor sees on it are this process's.
func (p *Packet) Open() (*Conn, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	oob, release, err := rights([]*os.File{theirs})
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer release()
	if _, _, err := p.u.WriteMsgUnix([]byte{1}, oob, nil); err != nil {
		ours.Close()
		return nil, err
	}
	return FromFile(ours)
}

// Accept returns the next connection. ErrNotAConnection concerns one message
// alone; every other error ends the channel.
func (p *Packet) Accept() (*Conn, error) {
	var b [1]byte
	oob := make([]byte, rightsSpace(1))
	n, oobn, truncated, err := readMsg(p.u, b[:], oob)
	if err != nil {
		return nil, err
	}
	files, err := parseRights(oob[:oobn])
	if n == 0 && len(files) == 0 {
		return nil, net.ErrClosed
	}
	if err != nil || truncated || len(files) != 1 {
		for _, f := range files {
			f.Close()
		}
		return nil, ErrNotAConnection
	}
	kind, err := unix.GetsockoptInt(int(files[0].Fd()), unix.SOL_SOCKET, unix.SO_TYPE)
	domain, derr := unix.GetsockoptInt(int(files[0].Fd()), unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || derr != nil || kind != unix.SOCK_STREAM || domain != unix.AF_UNIX {
		files[0].Close()
		return nil, ErrNotAConnection
	}
	c, err := FromFile(files[0])
	if err != nil {
		return nil, ErrNotAConnection
	}
	return c, nil
}
