//go:build !unix

package control

import (
	"errors"
	"net"
)

// Listen is not built for this system.
func Listen(dir, name string) (*net.UnixListener, error) { return nil, errors.ErrUnsupported }

// Dial is not built for this system.
func Dial(path string) (*Conn, error) { return nil, errors.ErrUnsupported }
