package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

var errHead = errors.New("malformed head of a request")

// peekHead returns the head of the request that comes next, its empty line included,
// and consumes nothing. Lines end with CR LF and with nothing else, so that every
// reader of the head sees the same lines.
func peekHead(in *bufio.Reader) ([]byte, error) {
	for want := 1; ; {
		if _, err := in.Peek(want); err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				return nil, fmt.Errorf("%w: longer than %d bytes", errHead, in.Size())
			}
			return nil, err
		}
		data, _ := in.Peek(in.Buffered())
		head, _, whole := bytes.Cut(data, []byte("\r\n\r\n"))
		for i, c := range head {
			switch {
			case c == '\n' && (i == 0 || head[i-1] != '\r'), c == '\r' && i+1 < len(head) && head[i+1] != '\n', c == 0:
				return nil, fmt.Errorf("%w: a line that does not end with CR LF", errHead)
			}
		}
		if whole {
			return data[:len(head)+4], nil
		}
		want = len(data) + 1
	}
}

// hostFields returns the values of the Host fields of a head.
func hostFields(head []byte) ([]string, error) {
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	var out []string
	for _, line := range lines[1:] {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			return nil, fmt.Errorf("%w: a folded field", errHead)
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimRight(name, " \t") != name {
			return nil, fmt.Errorf("%w: a line that is no field", errHead)
		}
		if strings.EqualFold(name, "host") {
			out = append(out, strings.Trim(value, " \t"))
		}
	}
	return out, nil
}

// readRequest reads the next request. Its body follows in in.
func readRequest(in *bufio.Reader) (r *http.Request, hosts []string, err error) {
	head, err := peekHead(in)
	if err != nil {
		return nil, nil, err
	}
	if hosts, err = hostFields(head); err != nil {
		return nil, nil, err
	}
	r, err = http.ReadRequest(in)
	return r, hosts, err
}

// http serves the requests of one client, each judged by itself.
func (c *client) http() {
	limits := c.proxy.config.Limits
	for first := true; ; first = false {
		within := limits.HeadTime
		if !first {
			within = limits.IdleTime
		}
		c.conn.SetReadDeadline(time.Now().Add(within))
		r, hosts, err := readRequest(c.in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				c.fail(nil, http.StatusBadRequest, err.Error())
			}
			return
		}
		c.conn.SetReadDeadline(time.Time{})
		lease := c.proxy.lease(basicPassword(r.Header.Get("Proxy-Authorization")), c.session)
		switch {
		case lease == nil:
			if !c.fail(r, http.StatusProxyAuthRequired, "this command has no token for the proxy") {
				return
			}
		case r.Method == http.MethodConnect:
			c.tunnel(lease, r, hosts)
			return
		default:
			if !c.forward(lease, r, hosts, nil) {
				return
			}
		}
	}
}

// basicPassword is the password of Basic credentials (RFC 7617); "" if there is none.
func basicPassword(field string) string {
	scheme, encoded, _ := strings.Cut(field, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(pair), ":")
	return password
}

// tunnel serves a CONNECT.
func (c *client) tunnel(lease *Lease, r *http.Request, hosts []string) {
	t, err := ParseTarget(r.RequestURI, 0)
	if err == nil {
		err = sameHosts(hosts, t)
	}
	if err == nil && (r.ContentLength != 0 || len(r.TransferEncoding) > 0) {
		err = errors.New("a CONNECT with a body")
	}
	if err != nil {
		c.fail(nil, http.StatusBadRequest, err.Error())
		return
	}
	if err := lease.enter(); err != nil {
		c.refuse(nil, err)
		return
	}
	defer lease.leave()
	f, err := c.connect(lease, Connect, t)
	if err != nil {
		c.refuse(nil, err)
		return
	}
	if _, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		f.Close()
		return
	}
	relay(c.conn, c.in, f, c.proxy.config.Limits.HeadTime)
}

func (c *client) connect(lease *Lease, protocol Protocol, t Target) (*flow, error) {
	t, err := c.target(t)
	if err != nil {
		return nil, err
	}
	return lease.connect(protocol, t, c.waiting)
}

// sameHosts refuses Host fields that are more than one or another than the target.
func sameHosts(hosts []string, t Target) error {
	if len(hosts) == 0 {
		return nil
	}
	if len(hosts) > 1 {
		return fmt.Errorf("%d Host fields, expected one", len(hosts))
	}
	said, err := ParseTarget(hosts[0], t.Port)
	if err != nil {
		return err
	}
	if said != t {
		return fmt.Errorf("the Host field says %s, the request %s", said, t)
	}
	return nil
}

// forward serves one request. captured is the target where the connection was caught:
// then the request is in origin form; else it is in absolute form. It reports whether
// the client's connection can be used again.
func (c *client) forward(lease *Lease, r *http.Request, hosts []string, captured *Target) bool {
	t, err := requestTarget(r, hosts, captured)
	if err != nil {
		c.fail(nil, http.StatusBadRequest, err.Error())
		return false
	}
	if err := lease.enter(); err != nil {
		return c.refuse(r, err)
	}
	defer lease.leave()
	var f *flow
	if captured != nil {
		f, err = lease.connect(HTTP, t, c.waiting)
	} else {
		f, err = c.connect(lease, HTTP, t)
	}
	if err != nil {
		return c.refuse(r, err)
	}
	defer f.Close()
	f.bind(closerFunc(func() error {
		// Only what waits on this request ends with its flow; the client's own connection is
		// ended by whoever serves it.
		c.conn.SetReadDeadline(time.Unix(1, 0))
		return nil
	}))
	body := &wholeBody{ReadCloser: r.Body}
	out := outgoing(r, t, body)
	if strings.EqualFold(r.Header.Get("Expect"), "100-continue") && out.Body != nil {
		if _, err := io.WriteString(c.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return f, nil },
		DisableKeepAlives:  true,
		DisableCompression: true,
		// A response may take as long as the connection may be idle.
		ResponseHeaderTimeout:  c.proxy.config.Limits.IdleTime,
		MaxResponseHeaderBytes: int64(c.proxy.config.Limits.Head),
	}
	response, err := transport.RoundTrip(out.WithContext(lease.ctx))
	if err != nil {
		c.fail(nil, http.StatusBadGateway, t.String()+": "+err.Error())
		return false
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		c.fail(nil, http.StatusBadGateway, t.String()+": it changes the protocol unasked")
		return false
	}
	dropHopByHop(response.Header)
	keep := !r.Close && r.ProtoAtLeast(1, 1) && (out.Body == nil || body.read)
	// The connection to the server ends with the response; this one need not. What has no
	// length has an end all the same: chunks, or the end of the connection.
	response.Close = !keep
	response.ProtoMajor, response.ProtoMinor, response.TransferEncoding = 1, r.ProtoMinor, nil
	if response.ContentLength < 0 && r.ProtoMinor > 0 {
		response.TransferEncoding = []string{"chunked"}
	}
	response.Request = r
	if err := response.Write(c.conn); err != nil {
		return false
	}
	c.conn.SetReadDeadline(time.Time{})
	return keep
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

// wholeBody knows whether a body was read to its end: only then the next request
// begins where reading stopped.
type wholeBody struct {
	io.ReadCloser
	read bool
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read = b.read || errors.Is(err, io.EOF)
	return n, err
}

// requestTarget is where a request wants to go, which its Host field has to say too.
func requestTarget(r *http.Request, hosts []string, captured *Target) (Target, error) {
	if captured != nil {
		if r.URL.Host != "" || r.URL.Scheme != "" || !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*" {
			return Target{}, fmt.Errorf("request for %q: expected a path", clip(r.RequestURI))
		}
		if len(hosts) != 1 {
			return Target{}, fmt.Errorf("%d Host fields, expected one", len(hosts))
		}
		return *captured, sameHosts(hosts, *captured)
	}
	switch {
	case r.URL.Scheme != "http" || r.URL.Opaque != "":
		return Target{}, fmt.Errorf("request for %q: expected http://HOST/…, or CONNECT", clip(r.RequestURI))
	case r.URL.User != nil:
		return Target{}, errors.New("a request with a user's name in its URL")
	}
	t, err := ParseTarget(r.URL.Host, 80)
	if err != nil {
		return Target{}, err
	}
	if len(hosts) == 0 && r.ProtoAtLeast(1, 1) {
		return Target{}, errors.New("no Host field")
	}
	return t, sameHosts(hosts, t)
}

// hopByHop are the fields that are between two ends of a connection (RFC 9110,
// section 7.6.1), with those for a proxy.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func dropHopByHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// outgoing is the request as it is sent on: written anew, to the target, with its path
// and fields and nothing of how it came.
func outgoing(r *http.Request, t Target, body *wholeBody) *http.Request {
	out := &http.Request{
		Method: r.Method,
		URL: &url.URL{
			Scheme: "http", Host: t.String(),
			Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery,
		},
		Host:          hostField(t),
		Header:        r.Header.Clone(),
		ContentLength: r.ContentLength,
		ProtoMajor:    1, ProtoMinor: 1,
	}
	if r.RequestURI == "*" {
		out.URL.Path, out.URL.Opaque = "", "*"
	}
	if r.ContentLength != 0 {
		out.Body = body
	}
	dropHopByHop(out.Header)
	for _, name := range []string{"Host", "Expect"} {
		out.Header.Del(name)
	}
	if len(out.Header["User-Agent"]) == 0 {
		out.Header["User-Agent"] = []string{""} // says nothing, instead of naming a library
	}
	return out
}

func hostField(t Target) string {
	if t.Port != 80 {
		return t.String()
	}
	if strings.Contains(t.Host, ":") {
		return "[" + t.Host + "]"
	}
	return t.Host
}

// refuse answers a request that is not carried out.
func (c *client) refuse(r *http.Request, err error) bool {
	status := http.StatusForbidden
	if said := (*refusal)(nil); errors.As(err, &said) {
		switch said.kind {
		case kindBusy:
			status = http.StatusServiceUnavailable
		case kindUnreachable:
			status = http.StatusBadGateway
		}
	}
	return c.fail(r, status, err.Error())
}

// fail answers with a status. r is the request if its connection can be used again;
// it reports whether it can.
func (c *client) fail(r *http.Request, status int, reason string) bool {
	keep := r != nil && !r.Close && r.ContentLength == 0 && len(r.TransferEncoding) == 0
	reason = plain(reason)
	text := "pioneer-super: " + reason + "\n"
	var b strings.Builder
	// Many programs show nothing but the status line.
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n", status, reason, len(text))
	if status == http.StatusProxyAuthRequired {
		b.WriteString("Proxy-Authenticate: Basic realm=\"pioneer-super\"\r\n")
	}
	if !keep {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if r == nil || r.Method != http.MethodHead {
		b.WriteString(text)
	}
	_, err := io.WriteString(c.conn, b.String())
	return err == nil && keep
}

// plain makes one line of printable ASCII.
func plain(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '?'
		}
	}
	return string(out[:min(len(out), 512)])
}
