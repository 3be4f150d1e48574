package egress

import (
	"bufio"
	"context"
	"net"
	"time"
)

// client is one connection to the proxy.
type client struct {
	proxy   *Proxy
	conn    net.Conn
	in      *bufio.Reader
	session string
	names   *Names
}

func newClient(p *Proxy, conn net.Conn, session string, names *Names) *client {
	return &client{proxy: p, conn: conn, in: bufio.NewReaderSize(conn, p.config.Limits.Head), session: session, names: names}
}

// serve tells by the first byte what the client speaks.
func (c *client) serve() {
	c.conn.SetReadDeadline(time.Now().Add(c.proxy.config.Limits.HeadTime))
	first, err := c.in.Peek(1)
	if err != nil {
		return
	}
	if first[0] == socksVersion {
		c.socks()
		return
	}
	c.http()
}

// target brings an address of the resolver back to the name that it stands for.
func (c *client) target(t Target) (Target, error) {
	if c.names == nil {
		return t, nil
	}
	a, ok := t.Address()
	if !ok || !fake.Contains(a) {
		return t, nil
	}
	host, ok := c.names.Host(a)
	if !ok {
		return t, refused(kindUnreachable, "%s: the resolver gave this address to no name", t)
	}
	t.Host = host
	return t, nil
}

// waiting watches for the client going away while a question waits. What it sends in
// the meantime stays in the buffer; a client that fills it is not watched any longer.
func (c *client) waiting(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	over := make(chan struct{})
	c.conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(over)
		for {
			n := c.in.Buffered()
			if n == c.in.Size() {
				return
			}
			if _, err := c.in.Peek(n + 1); err != nil {
				cancel()
				return
			}
		}
	}()
	return ctx, func() {
		// The reader is nobody else's before the watch has ended.
		c.conn.SetReadDeadline(time.Unix(1, 0))
		<-over
		c.conn.SetReadDeadline(time.Time{})
		cancel()
	}
}
