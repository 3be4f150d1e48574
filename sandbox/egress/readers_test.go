package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// hello is the first message of a TLS client.
func hello(t testing.TB, name string) []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		client.Close()
	}()
	head := make([]byte, recordHeader)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// records cuts the message of one record into records of that size.
func records(data []byte, size int) (out []byte) {
	for message := data[recordHeader:]; len(message) > 0; {
		n := min(size, len(message))
		out = append(append(out, data[0], data[1], data[2], byte(n>>8), byte(n)), message[:n]...)
		message = message[n:]
	}
	return out
}

func TestServerName(t *testing.T) {
	for _, want := range []string{"a.example", strings.Repeat("a23456789.", 20) + "example", ""} {
		whole := hello(t, want)
		for _, data := range [][]byte{whole, records(whole, 1), records(whole, 7), records(whole, 200)} {
			name, more, err := serverName(data)
			if name != want || more || err != nil {
				t.Errorf("%q %v %v, want %q", name, more, err, want)
			}
			for _, cut := range []int{0, 1, 4, 5, 6, len(data) / 2, len(data) - 1} {
				if name, more, err := serverName(data[:cut]); name != "" || !more || err != nil {
					t.Errorf("%d of %d bytes: %q %v %v", cut, len(data), name, more, err)
				}
			}
		}
	}
	good := hello(t, "a.example")
	for name, change := range map[string]func([]byte){
		"version": func(b []byte) { b[1] = 2 }, "empty record": func(b []byte) { b[3], b[4] = 0, 0 }, "long record": func(b []byte) { b[3] = 0xff },
		"message": func(b []byte) { b[5] = 2 }, "session": func(b []byte) { b[43] = 255 },
		"short message": func(b []byte) { b[6], b[7], b[8] = 0, 0, 40 },
	} {
		bad := bytes.Clone(good)
		change(bad)
		if got, more, err := serverName(bad); err == nil && !more {
			t.Errorf("%s: %q, want an error", name, got)
		}
	}
}

// A name that is read is in the message, and reading in parts reads the same.
func FuzzServerName(f *testing.F) {
	f.Add(hello(f, "a.example"))
	f.Add(records(hello(f, "a.example"), 9))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, more, err := serverName(data)
		if name != "" && (more || err != nil) {
			t.Fatalf("%q %v %v", name, more, err)
		}
		if more || err != nil || len(data) == 0 {
			return
		}
		// Cut short it is the same, an error, or not yet to be told.
		if early, more, err := serverName(data[:len(data)-1]); err == nil && !more && early != name {
			t.Fatalf("%q, and %q without the last byte", name, early)
		}
	})
}

// A request that is accepted has one host, which this package and net/http read alike.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"))
	f.Add([]byte("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"))
	f.Add([]byte("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReaderSize(bytes.NewReader(data), 4096)
		r, hosts, err := readRequest(in)
		if err != nil {
			return
		}
		target, err := requestTarget(r, hosts, nil)
		if err != nil {
			return
		}
		out := outgoing(r, target, &wholeBody{ReadCloser: r.Body})
		out.Body, out.ContentLength = nil, 0
		var sent bytes.Buffer
		if err := out.Write(&sent); err != nil {
			return
		}
		again, hosts, err := readRequest(bufio.NewReaderSize(&sent, 64<<10))
		if err != nil || len(hosts) != 1 {
			t.Fatalf("sent on as %q: %v", sent.String(), err)
		}
		if said, err := ParseTarget(hosts[0], 80); err != nil || said != target {
			t.Fatalf("judged %v, sent for %q", target, hosts[0])
		}
		if again.URL.Host != "" || again.Header.Get("Proxy-Authorization") != "" || again.Method != r.Method {
			t.Fatalf("sent on as %q", sent.String())
		}
	})
}

func FuzzSOCKSTarget(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x09a.example\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, data []byte) {
		readSOCKSPassword(bytes.NewReader(data))
		target, err := readSOCKSTarget(bytes.NewReader(data))
		if err != nil {
			return
		}
		if host, err := ParseHost(target.Host); err != nil || host != target.Host || target.Port == 0 {
			t.Fatalf("% x is %v (%v)", data, target, err)
		}
	})
}

func newRaw(c net.Conn) raw { return raw{c, bufio.NewReader(c)} }

// BenchmarkTunnel is what a CONNECT through the proxy carries, and beside it the same
// without the proxy.
func BenchmarkTunnel(b *testing.B) {
	const block = 1 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go http.Serve(l, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		data := make([]byte, block)
		for {
			if _, err := rw.Write(data); err != nil {
				return
			}
		}
	}))
	run := func(b *testing.B, conn net.Conn) {
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example:7\r\n\r\n")
		data := make([]byte, block)
		b.SetBytes(block)
		for b.Loop() {
			if _, err := io.ReadFull(conn, data); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		run(b, conn)
	})
	b.Run("proxy", func(b *testing.B) {
		w := newWorld(b, Limits{})
		w.internet("a.example", publicA, 7, l.Addr().String())
		w.allow("a.example")
		conn := w.raw()
		if status, body := conn.ask("CONNECT a.example:7 HTTP/1.1\r\n" + credentials(w.lease("c")) + "\r\n"); status != 200 {
			b.Fatal(status, body)
		}
		run(b, conn.Conn)
	})
}

// BenchmarkConnect is one decision, a connection and its end.
func BenchmarkConnect(b *testing.B) {
	w := newWorld(b, Limits{})
	server, _ := echo(b)
	w.internet("a.example", publicA, 7, server)
	w.allow("a.example")
	lease := w.lease("c")
	for b.Loop() {
		w.tunnelled(lease, "a.example:7").Close()
	}
}
