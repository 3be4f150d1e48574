package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getpioneer/pioneer-super/policy"
)

// tunnelled opens a tunnel to an echo and shows that it carries.
func (w *world) tunnelled(l *Lease, target string) raw {
	w.t.Helper()
	conn := w.raw()
	if status, body := conn.ask("CONNECT " + target + " HTTP/1.1\r\n" + credentials(l) + "\r\n"); status != 200 {
		w.t.Fatalf("CONNECT %s: %d %q", target, status, body)
	}
	conn.carries(w.t)
	return conn
}

func (r raw) carries(t testing.TB) {
	t.Helper()
	io.WriteString(r, "abc")
	got := make([]byte, 3)
	if _, err := io.ReadFull(r.in, got); err != nil || string(got) != "abc" {
		t.Fatalf("%q %v", got, err)
	}
}

// ended waits for the end of the connection.
func (r raw) ended(t testing.TB) {
	t.Helper()
	if _, err := r.in.ReadByte(); err == nil {
		t.Error("a byte came")
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Errorf("the connection is open after %v", patience)
	}
}

func TestRevocationClosesTunnels(t *testing.T) {
	w := newWorld(t, Limits{})
	server, closed := echo(t)
	w.internet("a.example", publicA, 7, server)
	w.internet("b.example", publicB, 7, server)
	w.allow("a.example", "b.example")
	l, other := w.lease("c"), w.lease("other")
	a, b, c := w.tunnelled(l, "a.example:7"), w.tunnelled(l, "b.example:7"), w.tunnelled(other, "a.example:7")
	l.Withdraw(Target{"a.example", 7})
	a.ended(t)
	wait(t, "the end of the server's connection", closed)
	b.carries(t)
	l.Revoke("over")
	b.ended(t)
	wait(t, "the end of the server's connection", closed)
	c.carries(t)
	if status, _ := w.raw().ask("CONNECT a.example:7 HTTP/1.1\r\n" + credentials(l) + "\r\n"); status != 407 {
		t.Errorf("with the token of a lease that is over: %d", status)
	}
	l.Revoke("again")
	_, _, events := w.seen()
	if n := len(slices.DeleteFunc(events, func(e Event) bool { return e.Kind != Ended })); n != 2 {
		t.Errorf("%d ends of targets are recorded, want one for each of two", n)
	}
}

// A grant that ends takes its connections with it; what somebody answered stays.
func TestRecheck(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := echo(t)
	for _, name := range []string{"rule.example", "kept.example", "answered.example", "denied.example"} {
		w.internet(name, publicA, 7, server)
	}
	w.allow("rule.example", "kept.example", "denied.example")
	w.set(func() {
		w.asks = func(context.Context, Question) Verdict { return Verdict{Action: policy.Allow, Hold: true} }
	})
	l := w.lease("c")
	open := map[string]raw{}
	for name := range w.names {
		open[name] = w.tunnelled(l, name+":7")
	}
	w.mu.Lock()
	w.rules.Hosts, w.rules.DeniedHosts = []string{"kept.example"}, []string{"denied.example"}
	w.mu.Unlock()
	w.proxy.Recheck()
	open["rule.example"].ended(t)
	open["denied.example"].ended(t)
	open["kept.example"].carries(t)
	open["answered.example"].carries(t)
}

// A download in flight ends with the lease, and its client does not take what came
// for the whole.
func TestRevocationEndsAnAnswer(t *testing.T) {
	w := newWorld(t, Limits{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
		io.Copy(io.Discard, c) // until the proxy closes it
	})
	w.internet("a.example", publicA, 80, l.Addr().String())
	w.allow("a.example")
	lease := w.lease("c")
	r, err := w.client(lease).Get("http://a.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(r.Body, first); err != nil || r.StatusCode != 200 {
		t.Fatal(r.Status, err)
	}
	lease.Revoke("over")
	if _, err := io.ReadAll(r.Body); err == nil {
		t.Error("the answer looks whole")
	}
}

func TestAsks(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := page(t, "hello")
	for _, name := range []string{"yes.example", "once.example", "no.example"} {
		w.internet(name, publicA, 80, server)
	}
	answer := make(chan struct{})
	answers := func(_ context.Context, q Question) Verdict {
		<-answer
		switch q.Target.Host {
		case "yes.example":
			return Verdict{Action: policy.Allow, Hold: true}
		case "once.example":
			return Verdict{Action: policy.Allow}
		}
		return Verdict{Action: policy.Deny, Reason: "the human denied it", Hold: true}
	}
	w.set(func() { w.asks = answers })
	l := w.lease("c")
	first := true
	statuses := func(host string, n int) (out []int) {
		results := make(chan int, n)
		for range n {
			go func() {
				status, _ := w.raw().ask("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n" + credentials(l) + "\r\n")
				results <- status
			}()
		}
		if first {
			first = false
			until(t, "everybody waits for one answer", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				a := l.asks[Target{host, 80}]
				return a != nil && a.waiters == n
			})
			close(answer)
		}
		for range n {
			out = append(out, <-results)
		}
		return out
	}
	if got := statuses("yes.example", 5); !slices.Equal(got, []int{200, 200, 200, 200, 200}) {
		t.Errorf("%v", got)
	}
	w.set(func() {
		if len(w.asked) != 1 || w.asked[0].Who != (Who{"s", "c"}) || w.asked[0].Protocol != HTTP {
			t.Errorf("asked %+v, want one question", w.asked)
		}
	})
	for range 2 {
		for host, want := range map[string]int{"yes.example": 200, "once.example": 200, "no.example": 403} {
			if got := statuses(host, 1); got[0] != want {
				t.Errorf("%s: %v, want %d", host, got, want)
			}
		}
	}
	times := map[string]int{}
	w.set(func() {
		for _, q := range w.asked {
			times[q.Target.Host]++
		}
	})
	if fmt.Sprint(times) != "map[no.example:1 once.example:2 yes.example:1]" {
		t.Errorf("asked %v times", times)
	}
}

// A client that goes away takes its question with it.
func TestAsksAreWithdrawn(t *testing.T) {
	w := newWorld(t, Limits{Pending: 2})
	asked, withdrawn := make(chan struct{}, 8), make(chan struct{}, 8)
	answers := func(ctx context.Context, q Question) Verdict {
		asked <- struct{}{}
		<-ctx.Done()
		withdrawn <- struct{}{}
		return Verdict{Action: policy.Allow, Hold: true} // too late
	}
	w.set(func() { w.asks = answers })
	l := w.lease("c")
	start := func(host string) raw {
		conn := w.raw()
		fmt.Fprintf(conn, "CONNECT %s:443 HTTP/1.1\r\n%s\r\n", host, credentials(l))
		return conn
	}
	a, b := start("a.example"), start("b.example")
	wait(t, "the first question", asked)
	wait(t, "the second question", asked)
	// More than the limit is an error at once, and no reason to drop the others.
	if status, body := start("c.example").ask(""); status != 503 || !strings.Contains(body, "2 questions") {
		t.Errorf("third: %d %q", status, body)
	}
	// Another command of the session is not hindered.
	other := w.lease("other")
	conn := w.raw()
	fmt.Fprintf(conn, "CONNECT a.example:443 HTTP/1.1\r\n%s\r\n", credentials(other))
	wait(t, "the question of another command", asked)
	a.Close()
	wait(t, "the withdrawal", withdrawn)
	start("d.example")
	wait(t, "a new question in the place of the one that is gone", asked)
	l.Revoke("over")
	wait(t, "the withdrawal of b", withdrawn)
	wait(t, "the withdrawal of d", withdrawn)
	if status, body := b.ask(""); status != 403 || !strings.Contains(body, "over") {
		t.Errorf("a question of a lease that ended: %d %q", status, body)
	}
	if _, dialed, _ := w.seen(); len(dialed) != 0 {
		t.Errorf("dialled %q", dialed)
	}
}

// Who answers has seen an address; that opens this address and nothing beside it.
func TestAnsweredAddress(t *testing.T) {
	w := newWorld(t, Limits{})
	server, _ := page(t, "hello")
	w.internet("intranet.example", "10.0.0.1", 80, server)
	answers := func(_ context.Context, q Question) Verdict {
		if q.Class() == "private" || q.Target.Host == "intranet.example" {
			return Verdict{Action: policy.Allow, Hold: true}
		}
		return Verdict{}
	}
	w.set(func() { w.asks = answers })
	c := w.client(w.lease("c"))
	for url, want := range map[string]int{"http://10.0.0.1/": 200, "http://intranet.example/": 403, "http://127.0.0.1/": 403} {
		if status, body := get(t, c, url); status != want {
			t.Errorf("%s: %d %q, want %d", url, status, body, want)
		}
	}
}

func TestFlood(t *testing.T) {
	w := newWorld(t, Limits{Connections: 8, Targets: 4})
	server, _ := echo(t)
	w.internet("a.example", publicA, 7, server)
	w.allow("a.example")
	w.address = w.serve("s").Addr().String()
	l := w.lease("c")
	var open []raw
	for range 8 {
		open = append(open, w.tunnelled(l, "a.example:7"))
	}
	if status, body := w.raw().ask("CONNECT a.example:7 HTTP/1.1\r\n" + credentials(l) + "\r\n"); status != 0 {
		t.Errorf("one more on this listener: %d %q", status, body)
	}
	// On another listener, which the flood of the first does not fill, the command has its limit all the same.
	w.address = w.listener.Addr().String()
	if status, body := w.raw().ask("CONNECT a.example:7 HTTP/1.1\r\n" + credentials(l) + "\r\n"); status != 503 || !strings.Contains(body, "8 connections") {
		t.Errorf("one more of this command: %d %q", status, body)
	}
	w.tunnelled(w.lease("other"), "a.example:7")
	for _, r := range open {
		r.carries(t)
		r.Close()
	}
	until(t, "the connections are over", func() bool { return l.open.Load() == 0 })
	w.tunnelled(l, "a.example:7")
	for i := range 8 {
		want := 403
		if i >= 3 {
			want = 503 // four targets with a.example
		}
		if status, body := w.raw().ask(fmt.Sprintf("CONNECT n%d.example:7 HTTP/1.1\r\n%s\r\n", i, credentials(l))); status != want {
			t.Errorf("target %d: %d %q, want %d", i, status, body, want)
		}
	}
}

// What stands still is ended.
func TestIdle(t *testing.T) {
	const short = 20_000_000 // ns
	w := newWorld(t, Limits{HeadTime: short, IdleTime: short})
	server, closed := echo(t)
	w.internet("a.example", publicA, 7, server)
	w.allow("a.example")
	l := w.lease("c")
	conn := w.raw()
	if status, _ := conn.ask("CONNECT a.example:7 HTTP/1.1\r\n" + credentials(l) + "\r\n"); status == 200 {
		conn.ended(t)
		wait(t, "the end of the server's connection", closed)
	}
	for _, text := range []string{"", "G", "GET http://a.example/ HTTP/1.1\r\n", "\x05", "\x05\x01\x02\x01"} {
		conn := w.raw()
		io.WriteString(conn, text)
		io.Copy(io.Discard, conn.in)
		conn.ended(t)
	}
}

func TestClose(t *testing.T) {
	w := newWorld(t, Limits{})
	server, closed := echo(t)
	w.internet("a.example", publicA, 7, server)
	w.allow("a.example")
	l := w.lease("c")
	tunnel, silent := w.tunnelled(l, "a.example:7"), w.raw()
	w.proxy.Close()
	tunnel.ended(t)
	silent.ended(t)
	wait(t, "the end of the server's connection", closed)
	if _, err := net.Dial("tcp", w.address); err == nil {
		t.Error("the listener is open")
	}
	if err := w.proxy.Serve(w.listener, "", nil); err != ErrClosed {
		t.Errorf("serving after the end: %v", err)
	}
	late := w.proxy.Admit(Who{Session: "s"})
	if _, err := late.connect(HTTP, Target{"a.example", 7}, nil); err == nil {
		t.Error("a lease of a closed proxy connects")
	}
}
