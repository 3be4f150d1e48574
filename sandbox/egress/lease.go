package egress

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
)

// Lease is the right of one invocation to use the proxy. Its methods may be called at
// the same time.
type Lease struct {
	proxy  *Proxy
	who    Who
	token  string
	digest [sha256.Size]byte
	ctx    context.Context
	cancel context.CancelCauseFunc
	open   atomic.Int64 // client connections

	mu      sync.Mutex
	answers map[Target]Verdict // that hold for the lease
	asks    map[Target]*ask
	flows   map[*flow]struct{}
	counts  map[Target]*count
}

// count is what happened with one target.
type count struct {
	allowed, denied      bool // was recorded
	connections, refused atomic.Int64
	sent, received       atomic.Int64
}

// ask is a question that waits for an answer, with everybody who wants to know.
type ask struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}
	verdict Verdict
}

// Token is what a client proves itself with: the password of the proxy, whatever the
// user's name.
func (l *Lease) Token() string { return l.token }

// Who is the invocation that the lease is for.
func (l *Lease) Who() Who { return l.who }

// Revoke ends the lease: no new connection, its open ones are closed, its asks are
// withdrawn, and what happened is recorded. Further calls do nothing.
func (l *Lease) Revoke(why string) {
	l.proxy.mu.Lock()
	delete(l.proxy.leases, l.digest)
	l.proxy.mu.Unlock()
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.cancel(errors.New(why))
	flows, counts := l.flows, l.counts
	l.flows, l.counts, l.answers = map[*flow]struct{}{}, map[Target]*count{}, map[Target]Verdict{}
	l.mu.Unlock()
	for f := range flows {
		f.Close()
	}
	for t, c := range counts {
		// What cannot be written down here has been decided and recorded before.
		_ = l.proxy.config.Record(Event{
			Kind: Ended, Question: Question{Who: l.who, Target: t}, Reason: why,
			Connections: c.connections.Load(), Refused: c.refused.Load(), Sent: c.sent.Load(), Received: c.received.Load(),
		})
	}
}

// Withdraw forgets the answer that was given for the target in this lease and closes
// the connections to it.
func (l *Lease) Withdraw(t Target) {
	l.mu.Lock()
	delete(l.answers, t)
	var closing []*flow
	for f := range l.flows {
		if f.question.Target == t {
			closing = append(closing, f)
		}
	}
	l.mu.Unlock()
	for _, f := range closing {
		f.Close()
	}
}

func (l *Lease) recheck() {
	l.mu.Lock()
	flows := make([]*flow, 0, len(l.flows))
	for f := range l.flows {
		flows = append(flows, f)
	}
	l.mu.Unlock()
	for _, f := range flows {
		switch l.proxy.config.Authority.Judge(f.question).Action {
		case policy.Allow:
		case policy.Ask:
			if !f.answered {
				f.Close()
			}
		default:
			f.Close()
		}
	}
}

// enter counts a client connection of the lease. Each nil is followed by one leave.
func (l *Lease) enter() error {
	if l.open.Add(1) > int64(l.proxy.config.Limits.Connections) {
		l.open.Add(-1)
		return refused(kindBusy, "%d connections of this command are open, which is the limit", l.proxy.config.Limits.Connections)
	}
	return nil
}

func (l *Lease) leave() { l.open.Add(-1) }

// refusal is why a connection is not made.
type refusal struct {
	kind   refusalKind
	reason string
}

func (r *refusal) Error() string { return r.reason }

type refusalKind int

const (
	kindDenied refusalKind = iota
	kindBusy
	kindUnreachable
)

func refused(kind refusalKind, format string, args ...any) error {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// connect decides about the target, resolves it and dials. waiting is called where
// somebody has to be asked: it returns a context that ends when the client goes away,
// and a function that ends the watch.
func (l *Lease) connect(protocol Protocol, t Target, waiting func(context.Context) (context.Context, func())) (*flow, error) {
	q := Question{Who: l.who, Protocol: protocol, Target: t}
	c, err := l.counted(t)
	if err != nil {
		return nil, err
	}
	v, answered, err := l.decide(q, waiting)
	if err == nil {
		err = l.record(q, c, v, answered)
	}
	if err != nil {
		c.refused.Add(1)
		return nil, err
	}
	ctx, stop := context.WithTimeout(l.ctx, l.proxy.config.Limits.DialTime)
	defer stop()
	conn, err := l.proxy.dial(ctx, t, v)
	if err != nil {
		c.refused.Add(1)
		if r := (*refusal)(nil); errors.As(err, &r) && r.kind == kindDenied {
			_ = l.first(&c.denied, Event{Kind: Denied, Question: q, Reason: r.reason})
		}
		return nil, err
	}
	f := &flow{Conn: conn, lease: l, question: q, answered: answered, count: c, idle: l.proxy.config.Limits.IdleTime}
	f.touch()
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		conn.Close()
		return nil, l.over()
	}
	l.flows[f] = struct{}{}
	f.watch = time.AfterFunc(f.idle, f.checkIdle)
	l.mu.Unlock()
	c.connections.Add(1)
	return f, nil
}

func (l *Lease) over() error { return refused(kindDenied, "%v", context.Cause(l.ctx)) }

func (l *Lease) counted(t Target) (*count, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, l.over()
	}
	c := l.counts[t]
	if c == nil {
		if len(l.counts) >= l.proxy.config.Limits.Targets {
			return nil, refused(kindBusy, "%d different targets were tried by this command, which is the limit", len(l.counts))
		}
		c = &count{}
		l.counts[t] = c
	}
	return c, nil
}

// decide asks the authority; what it leaves open is answered by what holds for the
// lease, or by somebody.
func (l *Lease) decide(q Question, waiting func(context.Context) (context.Context, func())) (v Verdict, answered bool, err error) {
	v = l.proxy.config.Authority.Judge(q)
	if v.Action != policy.Ask {
		return v.granted(q.Target), false, nil
	}
	l.mu.Lock()
	held, ok := l.answers[q.Target]
	l.mu.Unlock()
	if !ok {
		ctx, stop := waiting(l.ctx)
		defer stop()
		if held, err = l.await(ctx, q); err != nil {
			return Verdict{}, false, err
		}
		// The answer may have become a grant: then the connection ends with that.
		if now := l.proxy.config.Authority.Judge(q); held.Action == policy.Allow && now.Action != policy.Ask {
			return now.granted(q.Target), false, nil
		}
	}
	return held.opened(q.Target), true, nil
}

// await puts the question, once for all who want to know the same at the same time.
func (l *Lease) await(ctx context.Context, q Question) (Verdict, error) {
	l.mu.Lock()
	a := l.asks[q.Target]
	if a == nil {
		if len(l.asks) >= l.proxy.config.Limits.Pending {
			l.mu.Unlock()
			return Verdict{}, refused(kindBusy, "%d questions of this command wait for an answer, which is the limit", l.proxy.config.Limits.Pending)
		}
		asking, cancel := context.WithCancel(l.ctx)
		a = &ask{cancel: cancel, done: make(chan struct{})}
		l.asks[q.Target] = a
		go l.put(asking, a, q)
	}
	a.waiters++
	l.mu.Unlock()
	select {
	case <-a.done:
		return a.verdict, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.waiters--; a.waiters == 0 {
		a.cancel()
		if l.asks[q.Target] == a {
			delete(l.asks, q.Target) // who comes now asks anew
		}
	}
	if l.ctx.Err() != nil {
		return Verdict{}, l.over()
	}
	return Verdict{}, refused(kindUnreachable, "the client went away while %s was asked", q.Target)
}

func (l *Lease) put(ctx context.Context, a *ask, q Question) {
	defer a.cancel()
	v := l.proxy.config.Authority.Ask(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Action != policy.Allow {
		v.Action = policy.Deny
	}
	if v.Hold && ctx.Err() == nil {
		l.answers[q.Target] = v
	}
	if l.asks[q.Target] == a {
		delete(l.asks, q.Target)
	}
	a.verdict = v
	close(a.done)
}

// record writes the first decision of its kind about a target down; an allow that
// cannot be written down is none.
func (l *Lease) record(q Question, c *count, v Verdict, answered bool) error {
	reason := v.Reason
	if reason == "" {
		reason = "no rule allows it"
	}
	if v.Action != policy.Allow {
		_ = l.first(&c.denied, Event{Kind: Denied, Question: q, Reason: reason, Answered: answered}) // a denial stands either way
		return refused(kindDenied, "%s: %s", q.Target, reason)
	}
	if err := l.first(&c.allowed, Event{Kind: Allowed, Question: q, Reason: v.Reason, Answered: answered}); err != nil {
		return refused(kindDenied, "%s: the decision could not be written down (%v), so it is not allowed", q.Target, err)
	}
	return nil
}

func (l *Lease) first(was *bool, e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *was {
		return nil
	}
	err := l.proxy.config.Record(e)
	*was = err == nil
	return err
}

// maxAddresses is how many addresses of one name are looked at.
const maxAddresses = 16

// fallback is after how long without an answer the next address is tried beside the
// one before (RFC 8305, section 5).
const fallback = 300 * time.Millisecond

// dial resolves the target once and connects to an address that was looked at.
func (p *Proxy) dial(ctx context.Context, t Target, v Verdict) (net.Conn, error) {
	addrs, err := p.addresses(ctx, t)
	if err != nil {
		return nil, refused(kindUnreachable, "%s: %v", t, err)
	}
	own, err := p.config.Own()
	if err != nil {
		return nil, refused(kindUnreachable, "%s: the addresses of this host cannot be told: %v", t, err)
	}
	var good []netip.AddrPort
	why := "it has no address"
	for _, a := range addrs[:min(len(addrs), maxAddresses)] {
		if said := v.admit(t.Port, a, own); said != "" {
			why = said
			continue
		}
		good = append(good, netip.AddrPortFrom(a.Unmap(), t.Port))
	}
	if len(good) == 0 {
		return nil, refused(kindDenied, "%s: %s", t, why)
	}
	conn, err := p.race(ctx, good)
	if err != nil {
		return nil, refused(kindUnreachable, "%s: %v", t, err)
	}
	return conn, nil
}

func (p *Proxy) addresses(ctx context.Context, t Target) ([]netip.Addr, error) {
	if a, ok := t.Address(); ok {
		return []netip.Addr{a}, nil
	}
	if _, ok := t.literal(); ok {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	return p.config.Resolver.LookupNetIP(ctx, "ip", t.Host+".")
}

// race connects to the first address that answers.
func (p *Proxy) race(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type made struct {
		conn net.Conn
		err  error
	}
	results := make(chan made)
	started, running := 0, 0
	start := func() {
		a := addrs[started]
		started++
		running++
		go func() {
			conn, err := p.config.Dial(ctx, "tcp", a.String())
			select {
			case results <- made{conn, err}:
			case <-ctx.Done():
				if conn != nil {
					conn.Close()
				}
			}
		}()
	}
	start()
	next := time.NewTicker(fallback)
	defer next.Stop()
	var failed error
	for running > 0 {
		select {
		case r := <-results:
			running--
			if r.err == nil {
				return r.conn, nil
			}
			if failed == nil {
				failed = r.err
			}
			if started < len(addrs) {
				start()
			}
		case <-next.C:
			if started < len(addrs) {
				start()
			}
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), failed)
		}
	}
	return nil, failed
}
