//go:build !unix

package control

import (
	"errors"
	"net"
	"os"
)

func rights([]*os.File) ([]byte, func(), error)  { return nil, nil, errors.ErrUnsupported }
func rightsSpace(int) int                        { return 0 }
func parseRights(oob []byte) ([]*os.File, error) { return nil, nil }
func Pair() (a, b *os.File, err error)           { return nil, nil, errors.ErrUnsupported }
func PacketPair() (a, b *os.File, err error)     { return nil, nil, errors.ErrUnsupported }
func readMsg(u *net.UnixConn, b, oob []byte) (n, oobn int, truncated bool, err error) {
	n, err = u.Read(b)
	return n, 0, false, err
}
