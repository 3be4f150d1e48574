package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
)

// captured is a session of programs that know no proxy: a resolver, and listeners on
// the addresses that it gives.
type captured struct {
	*world
	lease    *Lease
	names    *Names
	resolver *net.Resolver
}

func newCaptured(t *testing.T) *captured {
	w := newWorld(t, Limits{})
	c := &captured{world: w, lease: w.lease(""), names: NewNames()}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { udp.Close(); <-done })
	go func() { defer close(done); c.names.Serve(udp) }()
	c.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", udp.LocalAddr().String())
	}}
	return c
}

// address looks a name up as a program of the session does.
func (c *captured) address(name string) string {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	got, err := c.resolver.LookupNetIP(ctx, "ip4", name+".")
	if err != nil || len(got) != 1 {
		c.t.Fatalf("%s: %v %v", name, got, err)
	}
	return got[0].Unmap().String()
}

// catch listens on that address, and returns the port: Linux has all of 127.0.0.0/8.
func (c *captured) catch(address string, port int) int {
	c.t.Helper()
	l, err := net.Listen("tcp4", net.JoinHostPort(address, fmt.Sprint(port)))
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	c.t.Cleanup(func() { l.Close(); <-done })
	go func() { defer close(done); c.lease.ServeCaptured(l, c.names) }()
	return l.Addr().(*net.TCPAddr).Port
}

func TestCapturedPorts(t *testing.T) {
	c := newCaptured(t)
	s := tlsServer(t, "secret")
	allowed, denied := c.address("allowed.example"), c.address("denied.example")
	port := c.catch(allowed, 0)
	other := c.catch(denied, 0)
	c.internet("allowed.example", publicA, port, s.Listener.Addr().String())
	c.internet("denied.example", publicB, other, s.Listener.Addr().String())
	c.allow("allowed.example")
	handshake := func(address string, port int, name string) error {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", net.JoinHostPort(address, fmt.Sprint(port)), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := handshake(allowed, port, "allowed.example"); err != nil {
		t.Errorf("allowed: %v", err)
	}
	if err := handshake(allowed, port, "denied.example"); err == nil {
		t.Error("a server name that is not the address's passes")
	}
	_, before, _ := c.seen()
	if err := handshake(denied, other, "denied.example"); err == nil {
		t.Error("denied: reached")
	}
	if err := handshake(denied, other, "allowed.example"); err == nil {
		t.Error("a denied address is reached under an allowed name")
	}
	looked, dialed, _ := c.seen()
	if slices.Contains(looked, "denied.example.") || len(dialed) != len(before) {
		t.Errorf("looked up %q, dialled %q", looked, dialed)
	}
	// An address that was given to no name, and one that is not the resolver's.
	for _, address := range []string{"127.1.0.99", "127.0.0.1"} {
		if err := handshake(address, c.catch(address, 0), "allowed.example"); err == nil {
			t.Errorf("%s: reached", address)
		}
	}
}

// The proxy knows the addresses too: a program that resolves by itself and then uses
// the proxy is judged by the name.
func TestProxyKnowsTheResolversAddresses(t *testing.T) {
	c := newCaptured(t)
	server, _ := echo(t)
	c.internet("allowed.example", publicA, 7, server)
	c.allow("allowed.example")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() { defer close(done); c.proxy.Serve(l, "s", c.names) }()
	conn, err := socksDialer(t, l.Addr().String(), c.world.lease("c")).Dial("tcp", c.address("allowed.example")+":7")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for _, a := range []string{c.address("denied.example"), "127.1.9.9"} {
		if conn, err := socksDialer(t, l.Addr().String(), c.world.lease("c")).Dial("tcp", a+":7"); err == nil {
			conn.Close()
			t.Errorf("%s: reached", a)
		}
	}
}

// A name is a way out by itself: what is in it may be anything. It stays here.
func TestNamesNeverLeave(t *testing.T) {
	c := newCaptured(t)
	secret := "mzxw6ytboi.mzxw6ytboi.attacker.example"
	address := c.address(secret)
	port := c.catch(address, 0)
	conn, err := net.Dial("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
	if err == nil {
		conn.SetDeadline(time.Now().Add(patience))
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || n != 0 {
			t.Errorf("a denied connection: %d %v, want it reset", n, err)
		}
		conn.Close()
	}
	if looked, dialed, events := c.seen(); len(looked)+len(dialed) != 0 || len(events) != 1 || events[0].Kind != Denied || events[0].Target.Host != secret {
		t.Errorf("looked up %q, dialled %q, recorded %+v", looked, dialed, events)
	}
	// Allowed, it is looked up.
	c.allow("*.attacker.example")
	if conn, err := net.Dial("tcp", net.JoinHostPort(address, fmt.Sprint(port))); err == nil {
		conn.SetDeadline(time.Now().Add(patience))
		conn.Read(make([]byte, 1))
		conn.Close()
	}
	if looked, _, _ := c.seen(); !slices.Equal(looked, []string{secret + "."}) {
		t.Errorf("looked up %q", looked)
	}
}

// Requests that are not encrypted are judged one by one, and a refused one is told why.
func TestCapturedHTTP(t *testing.T) {
	c := newCaptured(t)
	server, requests := page(t, "hello")
	c.internet("allowed.example", publicA, 80, server)
	c.allow("allowed.example")
	client, inside := net.Pipe()
	t.Cleanup(func() { client.Close() })
	address := c.address("allowed.example")
	denied := c.address("denied.example")
	serve := func(inside net.Conn, address string) {
		defer inside.Close()
		c.lease.captured(at{inside, address}, c.names)
	}
	done := make(chan struct{}, 2)
	go func() { serve(inside, address); done <- struct{}{} }()
	conn := newRaw(client)
	for range 2 {
		if status, body := conn.ask("GET /x HTTP/1.1\r\nHost: allowed.example\r\n\r\n"); status != 200 || body != "hello" {
			t.Errorf("allowed: %d %q", status, body)
		}
	}
	if status, _ := conn.ask("GET /x HTTP/1.1\r\nHost: denied.example\r\n\r\n"); status != 400 {
		t.Errorf("another host on the same connection: %d", status)
	}
	wait(t, "the end of the connection", done)
	for _, text := range []string{
		"GET http://denied.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n", "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
		"CONNECT allowed.example:80 HTTP/1.1\r\nHost: allowed.example:80\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
	} {
		client, inside := net.Pipe()
		go func() { serve(inside, address); done <- struct{}{} }()
		if status, body := newRaw(client).ask(text); status != http.StatusBadRequest {
			t.Errorf("%q: %d %q", text, status, body)
		}
		client.Close()
		wait(t, "the end of the connection", done)
	}
	client, inside = net.Pipe()
	go func() { serve(inside, denied); done <- struct{}{} }()
	if status, body := newRaw(client).ask("GET / HTTP/1.1\r\nHost: denied.example\r\nConnection: close\r\n\r\n"); status != 403 || !strings.Contains(body, "denied.example:80: the rules") {
		t.Errorf("denied: %d %q", status, body)
	}
	client.Close()
	wait(t, "the end of the connection", done)
	if got := requests(); !slices.Equal(got, []string{"GET allowed.example/x", "GET allowed.example/x"}) {
		t.Errorf("the server saw %q", got)
	}
}

// at is a connection that was made to port 80 of an address.
type at struct {
	net.Conn
	address string
}

func (a at) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(a.address), 80))
}

// An ask of a captured connection is the session's: no command is known, so it holds
// for this connection alone unless the authority says more.
func TestCapturedAsk(t *testing.T) {
	c := newCaptured(t)
	server, _ := echo(t)
	address := c.address("ask.example")
	port := c.catch(address, 0)
	c.internet("ask.example", publicA, port, server)
	c.set(func() { c.asks = func(context.Context, Question) Verdict { return Verdict{Action: policy.Allow} } })
	for range 2 {
		conn, err := net.Dial("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		newRaw(conn).carries(t)
		conn.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) != 2 || c.asked[0].Who != (Who{Session: "s"}) || c.asked[0].Target != (Target{"ask.example", uint16(port)}) {
		t.Errorf("asked %+v", c.asked)
	}
}
