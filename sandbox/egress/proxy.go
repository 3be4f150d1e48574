package egress

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound what a proxy holds. A zero field takes the default.
type Limits struct {
	// Connections are client connections open at once, of one listener and of one lease.
	Connections int // 256
	// Pending are asks of one lease that wait for an answer at once.
	Pending int // 8
	// Targets are different targets that one lease may try.
	Targets int // 1024
	// Head is the largest head of a request or first message of TLS, in bytes.
	Head int // 32768
	// HeadTime is how long a head may take to arrive, DialTime how long a name and a
	// connection may take, IdleTime how long nothing may happen on a connection.
	HeadTime time.Duration // 30 s
	DialTime time.Duration // 30 s
	IdleTime time.Duration // 10 min
}

func (l Limits) withDefaults() Limits {
	number := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	span := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	number(&l.Connections, 256)
	number(&l.Pending, 8)
	number(&l.Targets, 1024)
	number(&l.Head, 32<<10)
	span(&l.HeadTime, 30*time.Second)
	span(&l.DialTime, 30*time.Second)
	span(&l.IdleTime, 10*time.Minute)
	return l
}

// Resolver turns a name into addresses; *net.Resolver is one. The name comes with the
// root's dot, so that no search list of the host completes it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config is what a proxy is made of. Authority is required.
type Config struct {
	Authority Authority
	// Record writes an event down before it takes effect: where it fails for an
	// allow, nothing is dialled. nil records nothing. It must not call the proxy.
	Record func(Event) error
	// Resolver is the host's if nil, Dial a plain dialler, Own the addresses of this
	// host's interfaces, which are refused unless listed.
	Resolver Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Own      func() ([]netip.Addr, error)
	Limits   Limits
}

// EventKind says what an Event tells.
type EventKind string

const (
	// Allowed and Denied: the first decision of its kind about a target in a lease.
	Allowed EventKind = "allowed"
	Denied  EventKind = "denied"
	// Ended: the lease is over; one event for each target that was reached or refused.
	Ended EventKind = "ended"
)

// Event is something to write down.
type Event struct {
	Kind EventKind
	Question
	Reason string
	// Answered says that somebody decided by answering, and no rule.
	Answered bool
	// Of an Ended: how many connections were made and refused, and the bytes that went
	// out and came in.
	Connections, Refused int64
	Sent, Received       int64
}

// Proxy filters the connections of many leases. Its methods may be called at the same
// time.
type Proxy struct {
	config Config

	mu      sync.Mutex
	leases  map[[sha256.Size]byte]*Lease // by the digest of their token
	closers map[io.Closer]struct{}
	closed  bool
	serving sync.WaitGroup
}

// New returns a proxy that serves nothing yet.
func New(c Config) *Proxy {
	c.Limits = c.Limits.withDefaults()
	if c.Record == nil {
		c.Record = func(Event) error { return nil }
	}
	if c.Resolver == nil {
		// The pure resolver, whatever this was built with: it can be cancelled.
		c.Resolver = &net.Resolver{PreferGo: true}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{KeepAlive: time.Minute}).DialContext
	}
	if c.Own == nil {
		c.Own = OwnAddresses
	}
	return &Proxy{config: c, leases: map[[sha256.Size]byte]*Lease{}, closers: map[io.Closer]struct{}{}}
}

// ErrClosed is what serving ends with after Close.
var ErrClosed = errors.New("the proxy is closed")

// Admit makes a lease for one invocation. It ends with Revoke.
func (p *Proxy) Admit(who Who) *Lease {
	var secret [24]byte
	rand.Read(secret[:]) // never fails (crypto/rand)
	l := &Lease{
		proxy: p, who: who, token: base64.RawURLEncoding.EncodeToString(secret[:]),
		answers: map[Target]Verdict{}, asks: map[Target]*ask{}, flows: map[*flow]struct{}{}, counts: map[Target]*count{},
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.digest = sha256.Sum256([]byte(l.token))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.cancel(ErrClosed)
	} else {
		p.leases[l.digest] = l
	}
	return l
}

// lease finds the lease of a token that may use a listener of the session; "" is a
// listener of every session.
func (p *Proxy) lease(token, session string) *Lease {
	digest := sha256.Sum256([]byte(token))
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.leases[digest]
	if l == nil || session != "" && l.who.Session != session {
		return nil
	}
	return l
}

// Recheck judges every open connection again, after rules changed or grants ended, and
// closes those that would not be made any more. A connection that somebody allowed by
// answering stays unless it is denied now.
func (p *Proxy) Recheck() {
	p.mu.Lock()
	leases := make([]*Lease, 0, len(p.leases))
	for _, l := range p.leases {
		leases = append(leases, l)
	}
	p.mu.Unlock()
	for _, l := range leases {
		l.recheck()
	}
}

// Serve accepts clients that speak HTTP or SOCKS5, until l or the proxy is closed.
// session, unless empty, is the only one whose tokens count here; names, unless nil,
// is the resolver whose addresses its clients may have been given.
func (p *Proxy) Serve(l net.Listener, session string, names *Names) error {
	return p.accept(l, func(conn net.Conn) { newClient(p, conn, session, names).serve() })
}

// accept hands each connection to serve, on a goroutine of its own and at most as many
// at once as the limits say.
func (p *Proxy) accept(l net.Listener, serve func(net.Conn)) error {
	if !p.track(l) {
		l.Close()
		return ErrClosed
	}
	defer p.untrack(l)
	var open atomic.Int64
	for {
		conn, err := l.Accept()
		if err != nil {
			var passing interface{ Temporary() bool }
			if errors.As(err, &passing) && passing.Temporary() {
				time.Sleep(50 * time.Millisecond) // out of descriptors: one may come back
				continue
			}
			if p.isClosed() {
				return ErrClosed
			}
			return err
		}
		if open.Add(1) > int64(p.config.Limits.Connections) || !p.track(conn) {
			open.Add(-1)
			conn.Close()
			continue
		}
		go func() {
			defer open.Add(-1)
			defer p.untrack(conn)
			defer conn.Close()
			serve(conn)
		}()
	}
}

func (p *Proxy) track(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.closers[c] = struct{}{}
	p.serving.Add(1)
	return true
}

func (p *Proxy) untrack(c io.Closer) {
	p.mu.Lock()
	delete(p.closers, c)
	p.mu.Unlock()
	p.serving.Done()
}

func (p *Proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Close ends every listener, lease and connection, and returns when nothing of them
// runs any more.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	var closers []io.Closer
	for c := range p.closers {
		closers = append(closers, c)
	}
	var leases []*Lease
	for _, l := range p.leases {
		leases = append(leases, l)
	}
	p.mu.Unlock()
	for _, c := range closers {
		c.Close()
	}
	for _, l := range leases {
		l.Revoke(ErrClosed.Error())
	}
	p.serving.Wait()
}
