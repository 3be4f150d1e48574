package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/proxy"

	"github.com/getpioneer/pioneer-super/policy"
)

func get(t *testing.T, c *http.Client, url string) (status int, body string) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return r.StatusCode, string(data)
}

// raw is a connection to the proxy on which a test says what it likes.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func (w *world) raw() raw {
	w.t.Helper()
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return raw{c, bufio.NewReader(c)}
}

func credentials(l *Lease) string {
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+l.Token())) + "\r\n"
}

// ask sends a request and returns the answer, or 0 where the connection ended.
func (r raw) ask(text string) (status int, body string) {
	if _, err := io.WriteString(r, text); err != nil {
		return 0, err.Error()
	}
	response, err := http.ReadResponse(r.in, &http.Request{Method: strings.SplitN(text, " ", 2)[0]})
	if err != nil {
		return 0, err.Error()
	}
	if strings.HasPrefix(text, "CONNECT ") && response.StatusCode == 200 {
		return response.StatusCode, "" // what follows is the tunnel's
	}
	data, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(data)
}

func TestPlainHTTP(t *testing.T) {
	w := newWorld(t, Limits{})
	server, requests := page(t, "hello")
	w.internet("allowed.example", publicA, 80, server)
	w.internet("allowed.example", publicA, 8080, server)
	w.internet("denied.example", publicB, 80, server)
	w.allow("allowed.example:80")
	c := w.client(w.lease("c"))
	if status, body := get(t, c, "http://allowed.example/a?b=c"); status != 200 || body != "hello" {
		t.Errorf("allowed: %d %q", status, body)
	}
	for _, url := range []string{"http://denied.example/", "http://allowed.example:8080/", "http://x.allowed.example/", "http://allowed.example.evil.example/"} {
		if status, body := get(t, c, url); status != 403 || !strings.Contains(body, "the rules") {
			t.Errorf("%s: %d %q, want 403 and why", url, status, body)
		}
	}
	if got := requests(); !slices.Equal(got, []string{"GET allowed.example/a?b=c"}) {
		t.Errorf("the server saw %q", got)
	}
	looked, dialed, _ := w.seen()
	if !slices.Equal(looked, []string{"allowed.example."}) || !slices.Equal(dialed, []string{publicA + ":80"}) {
		t.Errorf("looked up %q, dialled %q: a denied name is not even looked up", looked, dialed)
	}
}

func TestUploadsAndStreams(t *testing.T) {
	w := newWorld(t, Limits{})
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Hop", "User-Agent"} {
			if v := r.Header.Get(name); v != "" {
				t.Errorf("the server got %s: %s", name, v)
			}
		}
		switch r.URL.Path {
		case "/stream":
			fmt.Fprint(rw, "first")
			rw.(http.Flusher).Flush()
			<-release
			fmt.Fprint(rw, "second")
		case "/redirect":
			http.Redirect(rw, r, "http://denied.example/", http.StatusFound)
		default:
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(rw, n, err)
		}
	}))
	defer s.Close()
	w.internet("allowed.example", publicA, 80, s.Listener.Addr().String())
	w.allow("allowed.example")
	lease := w.lease("c")
	c := w.client(lease)
	const size = 5 << 20
	for name, body := range map[string]io.Reader{"counted": bytes.NewReader(make([]byte, size)), "chunked": io.LimitReader(zeros{}, size)} {
		request, _ := http.NewRequest("POST", "http://allowed.example/", body)
		request.Header.Set("Expect", "100-continue")
		request.Header.Set("User-Agent", "")
		request.Header.Set("Connection", "X-Hop")
		request.Header.Set("X-Hop", "1")
		r, err := c.Do(request)
		if err != nil {
			t.Fatal(name, err)
		}
		data, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if string(data) != fmt.Sprint(size, " ", nil) && string(data) != fmt.Sprint(size, error(nil)) {
			t.Errorf("%s: %s", name, data)
		}
	}
	request, _ := http.NewRequest("GET", "http://allowed.example/stream", nil)
	request.Header.Set("User-Agent", "")
	r, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(r.Body, first); err != nil || string(first) != "first" {
		t.Errorf("%q %v: what was said first has not come", first, err)
	}
	close(release)
	if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q %v", rest, err)
	}
	r.Body.Close()
	request, _ = http.NewRequest("GET", "http://allowed.example/redirect", nil)
	request.Header.Set("User-Agent", "")
	if r, err = c.Do(request); err != nil || r.StatusCode != 302 {
		t.Fatalf("a redirect is handed on and not followed: %v %v", r, err)
	}
	r.Body.Close()
	// One connection can end with an answer that has no length, for a client that is old.
	old := w.raw()
	if status, body := old.ask("POST http://allowed.example/ HTTP/1.0\r\nContent-Length: 3\r\n" + credentials(lease) + "\r\nabc"); status != 200 || !strings.HasPrefix(body, "3") {
		t.Errorf("HTTP/1.0: %d %q", status, body)
	}
	lease.Revoke("over")
	_, _, events := w.seen()
	last := events[len(events)-1]
	if last.Kind != Ended || last.Sent < 2*size || last.Connections != 5 || last.Target.Host != "allowed.example" {
		t.Errorf("the end of the lease is recorded as %+v", last)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The same connection may carry requests to several hosts, with several tokens: each
// is judged by itself.
func TestEveryRequestOnAConnection(t *testing.T) {
	w := newWorld(t, Limits{})
	server, requests := page(t, "hello")
	w.internet("allowed.example", publicA, 80, server)
	w.internet("denied.example", publicB, 80, server)
	w.allow("allowed.example")
	a, b := w.lease("a"), w.lease("b")
	conn := w.raw()
	ask := func(host string, l *Lease, want int) {
		t.Helper()
		if status, body := conn.ask("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n" + credentials(l) + "\r\n"); status != want {
			t.Errorf("%s: %d %q, want %d", host, status, body, want)
		}
	}
	ask("allowed.example", a, 200)
	ask("denied.example", a, 403)
	ask("allowed.example", b, 200)
	b.Revoke("over")
	ask("allowed.example", b, 407)
	ask("allowed.example", a, 200)
	if got := requests(); len(got) != 3 {
		t.Errorf("the server saw %q", got)
	}
}

// What a request says twice it has to say the same way.
func TestMalformedRequests(t *testing.T) {
	w := newWorld(t, Limits{Head: 4096})
	server, requests := page(t, "hello")
	w.internet("allowed.example", publicA, 80, server)
	w.internet("denied.example", publicB, 80, server)
	w.allow("allowed.example", "allowed.example:443")
	l := w.lease("c")
	with := credentials(l)
	if status, _ := w.raw().ask("GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n"); status != 200 {
		t.Fatalf("well-formed: %d", status)
	}
	before := len(requests())
	for name, text := range map[string]string{
		"another host":           "GET http://allowed.example/ HTTP/1.1\r\nHost: denied.example\r\n" + with + "\r\n",
		"two hosts":              "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nHost: denied.example\r\n" + with + "\r\n",
		"two equal hosts":        "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nhost: allowed.example\r\n" + with + "\r\n",
		"another port":           "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example:81\r\n" + with + "\r\n",
		"no host":                "GET http://allowed.example/ HTTP/1.1\r\n" + with + "\r\n",
		"origin form":            "GET / HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"no scheme":              "GET //allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"https":                  "GET https://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"ftp":                    "GET ftp://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"user":                   "GET http://denied.example@allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"zero byte":              "GET http://allowed.example\x00.denied.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"escape":                 "GET http://allowed.example%2edenied.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"folded":                 "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n .evil\r\n" + with + "\r\n",
		"bare line feeds":        "GET http://allowed.example/ HTTP/1.1\nHost: allowed.example\n\n" + with + "\r\n",
		"bare carriage return":   "GET http://allowed.example/ HTTP/1.1\r\nX: a\rHost: denied.example\r\nHost: allowed.example\r\n" + with + "\r\n",
		"space before the colon": "GET http://allowed.example/ HTTP/1.1\r\nHost : allowed.example\r\n" + with + "\r\n",
		"long head":              "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + with + "X: " + strings.Repeat("x", 8192) + "\r\n\r\n",
		"bad length":             "POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 1, 2\r\n" + with + "\r\nab",
		"connect, other host":    "CONNECT allowed.example:443 HTTP/1.1\r\nHost: denied.example:443\r\n" + with + "\r\n",
		"connect, no port":       "CONNECT allowed.example HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"connect, path":          "CONNECT allowed.example:443/x HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"connect, url":           "CONNECT http://allowed.example:443 HTTP/1.1\r\nHost: allowed.example\r\n" + with + "\r\n",
		"connect with a body":    "CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 3\r\n" + with + "\r\nabc",
		"no HTTP":                "hello\r\n\r\n",
		"SOCKS4":                 "\x04\x01\x00\x50\x00\x00\x00\x01x\x00allowed.example\x00\r\n\r\n",
	} {
		if status, body := w.raw().ask(text); status != 400 && status != 0 {
			t.Errorf("%s: %d %q, want 400", name, status, body)
		}
	}
	if got := requests()[before:]; len(got) != 0 {
		t.Errorf("the server saw %q", got)
	}
	if _, dialed, _ := w.seen(); len(dialed) != 1 {
		t.Errorf("dialled %q", dialed)
	}
}

// tlsServer serves TLS under any name.
func tlsServer(t *testing.T, text string) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, text) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestConnect(t *testing.T) {
	w := newWorld(t, Limits{})
	s := tlsServer(t, "secret")
	w.internet("allowed.example", publicA, 443, s.Listener.Addr().String())
	w.internet("denied.example", publicB, 443, s.Listener.Addr().String())
	w.allow("allowed.example")
	l := w.lease("c")
	c := w.client(l)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	if status, body := get(t, c, "https://allowed.example/"); status != 200 || body != "secret" {
		t.Errorf("allowed: %d %q", status, body)
	}
	if _, err := c.Get("https://denied.example/"); err == nil || !strings.Contains(err.Error(), "denied.example:443: the rules") {
		t.Errorf("denied: %v, want why", err)
	}
	// The name in the first message has to be the one that was allowed.
	for name, works := range map[string]bool{"allowed.example": true, "ALLOWED.example": true, "": true, "denied.example": false, "allowed.example.denied.example": false} {
		conn := w.raw()
		if status, body := conn.ask("CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\n" + credentials(l) + "\r\n"); status != 200 {
			t.Fatalf("CONNECT: %d %q", status, body)
		}
		inner := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := inner.Handshake(); (err == nil) != works {
			t.Errorf("server name %q: %v", name, err)
		}
	}
	// So has the Host of a request that is not encrypted.
	server, requests := page(t, "plain")
	w.internet("allowed.example", publicA, 8000, server)
	for host, want := range map[string]int{"allowed.example:8000": 200, "allowed.example": 200, "denied.example": 0, "allowed.example:1": 0} {
		conn := w.raw()
		if status, body := conn.ask("CONNECT allowed.example:8000 HTTP/1.1\r\n" + credentials(l) + "\r\n"); status != 200 {
			t.Fatalf("CONNECT: %d %q", status, body)
		}
		if status, body := conn.ask("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"); status != want {
			t.Errorf("host %s: %d %q, want %d", host, status, body, want)
		}
	}
	if got := requests(); len(got) != 2 {
		t.Errorf("the server saw %q", got)
	}
}

// A protocol in which the server speaks first, and ends that come one after the other.
func TestTunnelsCarryAnything(t *testing.T) {
	w := newWorld(t, Limits{})
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "220 ready\r\n")
			data, _ := io.ReadAll(c)
			fmt.Fprintf(c, "got %q", data)
			c.Close()
		}
	}()
	w.internet("mail.example", publicA, 25, server.Addr().String())
	w.allow("mail.example")
	conn := w.raw()
	if status, _ := conn.ask("CONNECT mail.example:25 HTTP/1.1\r\n" + credentials(w.lease("c")) + "\r\n"); status != 200 {
		t.Fatal(status)
	}
	if line, err := conn.in.ReadString('\n'); err != nil || line != "220 ready\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	io.WriteString(conn, "PUSH on\r\n\x00\x01")
	conn.Conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(conn.in); err != nil || string(rest) != `got "PUSH on\r\n\x00\x01"` {
		t.Errorf("%q %v", rest, err)
	}
}

func socksDialer(t *testing.T, address string, l *Lease) proxy.Dialer {
	t.Helper()
	auth := &proxy.Auth{User: "x", Password: "wrong"}
	if l != nil {
		auth.Password = l.Token()
	}
	d, err := proxy.SOCKS5("tcp", address, auth, proxy.Direct)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSOCKS(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := echo(t)
	w.internet("allowed.example", publicA, 7, server)
	w.allow("allowed.example", publicA)
	l := w.lease("c")
	for _, target := range []string{"allowed.example:7", "ALLOWED.example.:7", publicA + ":7", "[::ffff:" + publicA + "]:7"} {
		c, err := socksDialer(t, w.address, l).Dial("tcp", target)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, "abc")
		got := make([]byte, 3)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "abc" {
			t.Errorf("%s: %q %v", target, got, err)
		}
		c.Close()
	}
	for _, target := range []string{"denied.example:7", "127.0.0.1:7", "[::1]:7", "a%b:7"} {
		if c, err := socksDialer(t, w.address, l).Dial("tcp", target); err == nil {
			c.Close()
			t.Errorf("%s: reached", target)
		}
	}
	if c, err := socksDialer(t, w.address, nil).Dial("tcp", "allowed.example:7"); err == nil {
		c.Close()
		t.Error("reached with a wrong token")
	}
	// No password offered, UDP, BIND, an unknown kind of address.
	conn := w.raw()
	conn.Write([]byte{5, 1, 0})
	if answer, _ := io.ReadAll(conn.in); !bytes.Equal(answer, []byte{5, 0xff}) {
		t.Errorf("without a password: % x", answer)
	}
	login := append([]byte{5, 1, 2, 1, 1, 'x', byte(len(l.Token()))}, l.Token()...)
	for name, c := range map[string]struct {
		request []byte
		code    byte
	}{
		"BIND": {[]byte{5, 2, 0, 1, 1, 2, 3, 4, 0, 7}, 7}, "UDP": {[]byte{5, 3, 0, 1, 1, 2, 3, 4, 0, 7}, 7},
		"address": {[]byte{5, 1, 0, 9}, 8}, "port": {[]byte{5, 1, 0, 1, 1, 2, 3, 4, 0, 0}, 1}, "reserved": {[]byte{5, 1, 1, 1, 1, 2, 3, 4, 0, 7}, 1},
	} {
		conn := w.raw()
		conn.Write(append(slices.Clone(login), c.request...))
		answer, _ := io.ReadAll(conn.in)
		if len(answer) != 14 || answer[5] != c.code {
			t.Errorf("%s: % x, want %d", name, answer, c.code)
		}
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t, Limits{})
	server, requests := page(t, "hello")
	w.internet("allowed.example", publicA, 80, server)
	w.allow("allowed.example")
	l := w.lease("c")
	if status, _ := get(t, w.client(l), "http://allowed.example/"); status != 200 {
		t.Fatal(status)
	}
	if status, _ := get(t, w.client(nil), "http://allowed.example/"); status != 407 {
		t.Errorf("without a token: %d", status)
	}
	for _, field := range []string{"Basic", "Basic ", "Basic !", "Bearer " + l.Token(), "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Token()+":")), "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+l.Token()+"x"))} {
		if status, _ := w.raw().ask("GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nProxy-Authorization: " + field + "\r\n\r\n"); status != 407 {
			t.Errorf("%q: %d", field, status)
		}
	}
	// The listener of one session takes no token of another.
	mine, other := w.serve("s"), w.serve("other")
	w.address = mine.Addr().String()
	if status, _ := get(t, w.client(l), "http://allowed.example/"); status != 200 {
		t.Errorf("own listener: %d", status)
	}
	w.address = other.Addr().String()
	if status, _ := get(t, w.client(l), "http://allowed.example/"); status != 407 {
		t.Errorf("listener of another session: %d", status)
	}
	if got := requests(); len(got) != 2 {
		t.Errorf("the server saw %q", got)
	}
	if again := w.lease("c"); again.Token() == l.Token() {
		t.Error("two leases have one token")
	}
}

func TestDenyBeatsAllow(t *testing.T) {
	w := newWorld(t, Limits{})
	server, requests := page(t, "hello")
	for _, name := range []string{"a.example", "bad.a.example", "fine.a.example", "hidden.a.example"} {
		w.internet(name, publicA, 80, server)
	}
	w.set(func() {
		w.names["hidden.a.example"] = []string{publicB}
		w.servers[publicB+":80"] = server
	})
	w.allow("*.a.example")
	c := w.client(w.lease("c"))
	if status, _ := get(t, c, "http://hidden.a.example/"); status != 200 {
		t.Fatalf("before: %d", status)
	}
	// A denied address is denied under every name.
	w.set(func() {
		w.rules.DeniedHosts = []string{"bad.a.example", publicB}
		w.asks = func(context.Context, Question) Verdict { return Verdict{Action: policy.Allow} }
	})
	for name, want := range map[string]int{"fine.a.example": 200, "bad.a.example": 403, "BAD.a.example.": 403, "hidden.a.example": 403, publicB: 403} {
		if status, body := get(t, c, "http://"+name+"/"); status != want {
			t.Errorf("%s: %d %q, want %d", name, status, body, want)
		}
	}
	if got := requests(); len(got) != 2 {
		t.Errorf("the server saw %q", got)
	}
}

// An allowed name leads nowhere but to the public internet, whatever it resolves to.
func TestAddressesAreChecked(t *testing.T) {
	w := newWorld(t, Limits{})
	server, requests := page(t, "hello")
	w.set(func() { w.own = []netip.Addr{netip.MustParseAddr("198.41.0.4")} })
	w.allow("*.a.example")
	lease := w.lease("c")
	c := w.client(lease)
	bad := []string{
		"127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "fe80::1", "fd00::1", "0.0.0.0", "::", "224.0.0.1",
		"::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "198.41.0.4", "255.255.255.255",
	}
	for i, a := range bad {
		name := fmt.Sprintf("n%d.a.example", i)
		w.internet(name, a, 80, server)
		w.internet(name, netip.MustParseAddr(a).Unmap().String(), 80, server)
		if status, body := get(t, c, "http://"+name+"/"); status != 403 || !strings.Contains(body, "no public address") {
			t.Errorf("%s: %d %q", a, status, body)
		}
		literal := "http://" + net.JoinHostPort(a, "80") + "/"
		if status, body := get(t, c, literal); status != 403 {
			t.Errorf("%s: %d %q", literal, status, body)
		}
	}
	for _, odd := range []string{"127.1", "0x7f.1", "2130706433", "017700000001", "0", "localhost", "x.localhost"} {
		if status, body := get(t, c, "http://"+odd+"/"); status != 403 {
			t.Errorf("%s: %d %q", odd, status, body)
		}
	}
	if _, dialed, _ := w.seen(); len(dialed) != 0 || len(requests()) != 0 {
		t.Fatalf("dialled %q", dialed)
	}
	// Listed by its address it is reached, under its name and by itself; by that address alone.
	w.allow("10.0.0.1:80", "localhost:80")
	w.set(func() { w.servers["127.0.0.1:80"] = server })
	for _, host := range []string{"n3.a.example", "10.0.0.1", "0xa000001", "localhost", "127.0.0.1"} {
		want := 200
		if host == "127.0.0.1" {
			want = 403 // its name is listed, it is not
		}
		if status, body := get(t, c, "http://"+host+"/"); status != want {
			t.Errorf("%s, listed: %d %q, want %d", host, status, body, want)
		}
	}
	if status, _ := get(t, c, "http://n4.a.example/"); status != 403 {
		t.Errorf("192.168.0.1 is reached because 10.0.0.1 is listed: %d", status)
	}
}

// Between the check and the connection no name is looked up again.
func TestRebinding(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := page(t, "hello")
	w.internet("rebind.example", publicA, 80, server)
	w.set(func() { w.servers["127.0.0.1:80"] = server })
	w.allow("rebind.example")
	c := w.client(w.lease("c"))
	for i := range 100 {
		w.mu.Lock()
		w.names["rebind.example"] = [][]string{{publicA}, {"127.0.0.1"}, {"127.0.0.1", publicA}, {publicA, "127.0.0.1"}}[i%4]
		w.mu.Unlock()
		want := 200
		if i%4 == 1 {
			want = 403
		}
		if status, body := get(t, c, "http://rebind.example/"); status != want {
			t.Fatalf("round %d: %d %q, want %d", i, status, body, want)
		}
	}
	looked, dialed, _ := w.seen()
	if len(looked) != 100 {
		t.Errorf("100 requests looked %d names up", len(looked))
	}
	for _, a := range dialed {
		if a != publicA+":80" {
			t.Fatalf("dialled %s", a)
		}
	}
}

// The next address is tried where the first does not answer.
func TestSecondAddress(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := page(t, "hello")
	w.internet("two.example", publicA, 80, server)
	w.set(func() { delete(w.servers, publicA+":80") })
	w.internet("two.example", publicB, 80, server)
	w.allow("*.example", "two.example")
	if status, body := get(t, w.client(w.lease("c")), "http://two.example/"); status != 200 {
		t.Errorf("%d %q", status, body)
	}
	for _, host := range []string{"none.example", "two.example:81"} {
		if status, body := get(t, w.client(w.lease("c")), "http://"+host+"/"); status != 502 {
			t.Errorf("%s: %d %q, want 502", host, status, body)
		}
	}
}

func TestNothingIsDialledUnrecorded(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := page(t, "hello")
	w.internet("allowed.example", publicA, 80, server)
	w.allow("allowed.example")
	w.set(func() { w.fail = errors.New("no space left") })
	c := w.client(w.lease("c"))
	if status, body := get(t, c, "http://allowed.example/"); status != 403 || !strings.Contains(body, "no space left") {
		t.Errorf("%d %q", status, body)
	}
	if looked, dialed, _ := w.seen(); len(looked)+len(dialed) != 0 {
		t.Errorf("looked up %q, dialled %q", looked, dialed)
	}
	w.mu.Lock()
	w.fail = nil
	w.mu.Unlock()
	for range 3 {
		if status, _ := get(t, c, "http://allowed.example/"); status != 200 {
			t.Errorf("recorded: %d", status)
		}
	}
	if _, _, events := w.seen(); len(events) != 1 || events[0].Kind != Allowed {
		t.Errorf("recorded %+v, want the first decision alone", events)
	}
}
