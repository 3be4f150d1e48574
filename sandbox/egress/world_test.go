package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/getpioneer/pioneer-super/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to come; nothing is concluded from
// how long it took.
const patience = 60 * time.Second

// Addresses of the scripted internet.
const (
	publicA = "93.184.216.34"
	publicB = "151.101.1.6"
)

// world is a proxy in an internet of its own: the names, the servers and who may
// reach what are the test's.
type world struct {
	t        testing.TB
	proxy    *Proxy
	address  string // of the proxy's listener
	listener net.Listener

	mu      sync.Mutex
	names   map[string][]string // name without the root's dot, addresses
	looked  []string            // names that were looked up
	dialed  []string
	servers map[string]string // HOST:PORT of the internet, real address
	own     []netip.Addr
	rules   policy.Resources
	events  []Event
	fail    error // of Record
	asks    func(context.Context, Question) Verdict
	asked   []Question
}

func newWorld(t testing.TB, limits Limits) *world {
	w := &world{t: t, names: map[string][]string{}, servers: map[string]string{}, rules: policy.Resources{Network: policy.NetworkRestricted}}
	w.proxy = New(Config{Authority: w, Record: w.record, Resolver: w, Dial: w.dial, Own: w.ownAddresses, Limits: limits})
	t.Cleanup(w.proxy.Close)
	w.listener = w.serve("")
	w.address = w.listener.Addr().String()
	return w
}

// serve opens one more listener, for the tokens of that session.
func (w *world) serve(session string) net.Listener {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	w.t.Cleanup(func() { <-done })
	w.t.Cleanup(func() { l.Close() })
	go func() { defer close(done); w.proxy.Serve(l, session, nil) }()
	return l
}

func (w *world) record(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return w.fail
	}
	w.events = append(w.events, e)
	return nil
}

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, host)
	name, ok := strings.CutSuffix(host, ".")
	if !ok {
		return nil, fmt.Errorf("%q: a search list could complete this", host)
	}
	var out []netip.Addr
	for _, a := range w.names[name] {
		out = append(out, netip.MustParseAddr(a))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	real, ok := w.servers[address]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%s: connection refused", address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, real)
}

// Judge answers from the rules: what none of them names is asked where asks is set.
func (w *world) Judge(q Question) Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := Verdict{Listed: w.rules.Hosts, Denied: w.rules.DeniedHosts, Reason: "the rules"}
	port := fmt.Sprint(q.Target.Port)
	switch {
	case w.rules.CanReach(q.Target.Host, port):
		v.Action = policy.Allow
	case w.asks != nil && (policy.Resources{Network: policy.NetworkEnabled, DeniedHosts: w.rules.DeniedHosts}).CanReach(q.Target.Host, port):
		v.Action = policy.Ask
	}
	return v
}

func (w *world) Ask(ctx context.Context, q Question) Verdict {
	w.mu.Lock()
	w.asked = append(w.asked, q)
	answer := w.asks
	w.mu.Unlock()
	return answer(ctx, q)
}

// set changes what is scripted.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) ownAddresses() ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own, nil
}

func (w *world) allow(hosts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules.Hosts = append(slices.Clone(w.rules.Hosts), hosts...)
}

// internet puts a server at NAME (ADDRESS):PORT.
func (w *world) internet(name, address string, port int, server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.names[name], address) {
		w.names[name] = append(w.names[name], address)
	}
	w.servers[net.JoinHostPort(address, fmt.Sprint(port))] = server
}

func (w *world) seen() (looked, dialed []string, events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.looked), slices.Clone(w.dialed), slices.Clone(w.events)
}

// lease admits a command of session s.
func (w *world) lease(command string) *Lease {
	return w.proxy.Admit(Who{Session: "s", Command: command})
}

// client is an HTTP client of that lease; nil has no token.
func (w *world) client(l *Lease) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: w.address}
	if l != nil {
		proxy.User = url.UserPassword("x", l.Token())
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// page serves text, and says what it was asked for.
func page(t testing.TB, text string) (address string, requests func() []string) {
	var mu sync.Mutex
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.Method+" "+r.Host+r.RequestURI)
		mu.Unlock()
		fmt.Fprint(rw, text)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(got) }
}

// echo is a server that returns what it gets. It reports each end of a connection.
func echo(t testing.TB) (address string, ended <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan struct{}, 1024)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() {
					select {
					case ends <- struct{}{}:
					default: // more than anybody waits for
					}
				}()
				defer c.Close()
				pump(c, c)
			})
		}
	})
	return l.Addr().String(), ends
}

// wait waits for something to happen.
func wait(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: did not happen within %v", what, patience)
	}
}

// until waits for something to be so.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so after %v", what, patience)
		}
	}
}
