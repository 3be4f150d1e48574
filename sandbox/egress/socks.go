package egress

import (
	"errors"
	"io"
	"net/netip"
	"time"
)

// Numbers of SOCKS5 (RFC 1928; RFC 1929 for the password).
const (
	socksVersion  = 5
	socksPassword = 2
	socksNoMethod = 0xff
	socksAuth     = 1
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4

	socksOK          = 0
	socksFailed      = 1
	socksDenied      = 2
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

// errSOCKS is for what does not follow the protocol.
var errSOCKS = errors.New("malformed SOCKS5")

// socksError is a failure that has a number in a reply.
type socksError byte

func (socksError) Error() string { return "SOCKS5 request refused" }

// socks serves a SOCKS5 client: password, CONNECT, and no other way.
func (c *client) socks() {
	token, err := readSOCKSLogin(c)
	if err != nil {
		return
	}
	lease := c.proxy.lease(token, c.session)
	if lease == nil {
		c.conn.Write([]byte{socksAuth, 1})
		return
	}
	if _, err := c.conn.Write([]byte{socksAuth, 0}); err != nil {
		return
	}
	t, err := readSOCKSTarget(c.in)
	if err != nil {
		code := socksError(socksFailed)
		errors.As(err, &code)
		c.socksReply(byte(code))
		return
	}
	c.conn.SetReadDeadline(time.Time{})
	if err := lease.enter(); err != nil {
		c.socksReply(socksFailed)
		return
	}
	defer lease.leave()
	f, err := c.connect(lease, SOCKS, t)
	if err != nil {
		code := byte(socksDenied)
		if said := (*refusal)(nil); errors.As(err, &said) && said.kind != kindDenied {
			code = socksUnreachable
		}
		c.socksReply(code)
		return
	}
	if c.socksReply(socksOK) != nil {
		f.Close()
		return
	}
	relay(c.conn, c.in, f, c.proxy.config.Limits.HeadTime)
}

// socksReply answers a request; where the proxy is bound is nobody's business.
func (c *client) socksReply(code byte) error {
	_, err := c.conn.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

// readSOCKSLogin reads methods and password, and answers the methods.
func readSOCKSLogin(c *client) (token string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return "", err
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c.in, methods); err != nil {
		return "", err
	}
	offered := false
	for _, m := range methods {
		offered = offered || m == socksPassword
	}
	if head[0] != socksVersion || !offered {
		c.conn.Write([]byte{socksVersion, socksNoMethod})
		return "", errSOCKS
	}
	if _, err := c.conn.Write([]byte{socksVersion, socksPassword}); err != nil {
		return "", err
	}
	return readSOCKSPassword(c.in)
}

// readSOCKSPassword reads a name, which does not matter, and a password.
func readSOCKSPassword(in io.Reader) (string, error) {
	var version [1]byte
	if _, err := io.ReadFull(in, version[:]); err != nil {
		return "", err
	}
	if version[0] != socksAuth {
		return "", errSOCKS
	}
	if _, err := readCounted(in); err != nil {
		return "", err
	}
	return readCounted(in)
}

// readCounted reads a string after its length in one byte.
func readCounted(in io.Reader) (string, error) {
	var length [1]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, length[0])
	_, err := io.ReadFull(in, text)
	return string(text), err
}

// readSOCKSTarget reads a request. An error that is a socksError has its number.
func readSOCKSTarget(in io.Reader) (Target, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return Target{}, err
	}
	if head[0] != socksVersion || head[2] != 0 {
		return Target{}, errSOCKS
	}
	host := ""
	switch size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[head[3]]; {
	case size > 0:
		raw := make([]byte, size)
		if _, err := io.ReadFull(in, raw); err != nil {
			return Target{}, err
		}
		a, _ := netip.AddrFromSlice(raw)
		host = a.String()
	case head[3] == socksName:
		var err error
		if host, err = readCounted(in); err != nil {
			return Target{}, err
		}
	default:
		return Target{}, socksError(socksNoAddress)
	}
	var port [2]byte
	if _, err := io.ReadFull(in, port[:]); err != nil {
		return Target{}, err
	}
	if head[1] != socksConnect {
		return Target{}, socksError(socksNoCommand)
	}
	t := Target{Port: uint16(port[0])<<8 | uint16(port[1])}
	var err error
	t.Host, err = ParseHost(host)
	if err == nil && t.Port == 0 {
		err = errSOCKS
	}
	return t, err
}
