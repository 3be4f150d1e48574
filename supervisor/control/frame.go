package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/go-json-experiment/json"
)

// MaxFrame is the most bytes of one frame: an argument vector and an environment
// of 1 MiB (the kernel's own order of size), twice for JSON's escapes.
const MaxFrame = 2 << 20

// ErrFrameTooLarge says that the peer announced, or the caller wants to send,
// more than MaxFrame bytes.
var ErrFrameTooLarge = errors.New("control frame larger than 2 MiB")

// Conn is one connection of the control protocol: frames of four bytes of length
// (big endian) and that many bytes of JSON, over a connected unix stream socket.
//
// One goroutine may receive while others send.
type Conn struct {
	u    *net.UnixConn
	send sync.Mutex
}

// NewConn takes over a connected unix stream socket.
func NewConn(u *net.UnixConn) *Conn { return &Conn{u: u} }

// FromFile makes a Conn of an inherited or received descriptor and closes f.
func FromFile(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %s is no socket: %w", f.Name(), err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %s is no unix socket", f.Name())
	}
	return NewConn(u), nil
}

// Close closes the connection. A receiver that waits returns io.EOF or an error
// that wraps net.ErrClosed.
func (c *Conn) Close() error { return c.u.Close() }

// Unix returns the socket, for its credentials.
func (c *Conn) Unix() *net.UnixConn { return c.u }

// Send writes one frame. Descriptors travel with its first byte; the receiver
// gets its own copies, the caller keeps its.
func (c *Conn) Send(v any, files ...*os.File) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > MaxFrame {
		return ErrFrameTooLarge
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	frame = append(frame, body...)
	c.send.Lock()
	defer c.send.Unlock()
	if len(files) == 0 {
		_, err = c.u.Write(frame)
		return err
	}
	oob, release, err := rights(files)
	if err != nil {
		return err
	}
	defer release()
	n, _, err := c.u.WriteMsgUnix(frame, oob, nil)
	if err != nil {
		return err
	}
	if n < len(frame) {
		_, err = c.u.Write(frame[n:])
	}
	return err
}

// Fits says whether v can be sent. Some room is left for what its sender adds.
func Fits(v any) bool {
	body, err := json.Marshal(v)
	return err == nil && len(body) <= MaxFrame-1024
}

// Recv reads one frame without a control buffer: the kernel drops descriptors
// that the peer attached, so none is ever held that was not asked for.
func (c *Conn) Recv(v any) error {
	var head [4]byte
	if _, err := io.ReadFull(c.u, head[:]); err != nil {
		return err
	}
	return c.body(head, v)
}

// RecvFiles reads one frame and at most limit descriptors that came with it, all
// close-on-exec. More than limit is an error and none is kept.
func (c *Conn) RecvFiles(v any, limit int) ([]*os.File, error) {
	var head [4]byte
	oob := make([]byte, rightsSpace(limit))
	n, oobn, truncated, err := readMsg(c.u, head[:], oob)
	if err != nil {
		return nil, err
	}
	files, err := parseRights(oob[:oobn])
	if err == nil && (truncated || len(files) > limit) {
		err = fmt.Errorf("more than %d descriptors came with one frame", limit)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && n < len(head) {
		_, err = io.ReadFull(c.u, head[n:])
	}
	if err == nil {
		err = c.body(head, v)
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, err
	}
	return files, nil
}

func (c *Conn) body(head [4]byte, v any) error {
	size := binary.BigEndian.Uint32(head[:])
	if size > MaxFrame {
		return ErrFrameTooLarge
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.u, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	// Exact names, no duplicates, no invalid UTF-8: what the library does unless
	// told otherwise. An unknown member is a peer of another version.
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("control frame: %w", err)
	}
	return nil
}
