package egress

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// ServeCaptured accepts connections of programs that ignore proxy settings, until l or
// the proxy is closed or the lease is over. They were made to an address of names: its
// name, and the port that was connected to, are the target. All belong to the lease.
func (l *Lease) ServeCaptured(listener net.Listener, names *Names) error {
	return l.proxy.accept(listener, func(conn net.Conn) { l.captured(conn, names) })
}

func (l *Lease) captured(conn net.Conn, names *Names) {
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return
	}
	c := newClient(l.proxy, conn, l.who.Session, names)
	t, err := c.target(Target{Host: local.Addr().Unmap().String(), Port: local.Port()})
	if err == nil && !fake.Contains(local.Addr().Unmap()) {
		err = refused(kindUnreachable, "%s is no address of the resolver", local)
	}
	if err != nil {
		reset(conn)
		return
	}
	if t.Port == 80 {
		c.captureHTTP(l, t)
		return
	}
	if l.enter() != nil {
		reset(conn)
		return
	}
	defer l.leave()
	f, err := l.connect(Captured, t, c.waiting)
	if err != nil {
		reset(conn)
		return
	}
	relay(conn, c.in, f, l.proxy.config.Limits.HeadTime)
}

// captureHTTP serves the requests on a captured port 80, each of which has to be for
// the host that was connected to.
func (c *client) captureHTTP(lease *Lease, t Target) {
	limits := c.proxy.config.Limits
	for within := limits.HeadTime; ; within = limits.IdleTime {
		c.conn.SetReadDeadline(time.Now().Add(within))
		r, hosts, err := readRequest(c.in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				c.fail(nil, http.StatusBadRequest, err.Error())
			}
			return
		}
		c.conn.SetReadDeadline(time.Time{})
		if r.Method == http.MethodConnect {
			c.fail(nil, http.StatusBadRequest, "a CONNECT to a server")
			return
		}
		if !c.forward(lease, r, hosts, &t) {
			return
		}
	}
}

// reset ends a connection so that its client sees an error and no end of data.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
