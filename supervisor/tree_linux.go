package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/getpioneer/pioneer-super/forwarding/spool"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

const (
	// frontFD is the socket to the front, which made it: the tree's lifeline.
	frontFD = 3
	// defaultDepth is how many sessions may stand below each other.
	defaultDepth = 8
	// maxJobs bounds the requests of one session that are remembered, and so those
	// that it makes in ten minutes: one noisy child takes no place of its siblings.
	maxJobs = 8192
	// maxNoise bounds the rows in ten minutes that tell of what one session tried
	// and had no effect: a disk that is full of them stops the whole tree.
	maxNoise  = 512
	stopGrace = 2 * time.Second
	// greetTimeout bounds how long a peer may take for its hello, and then for its
	// request.
	greetTimeout = 10 * time.Second
	// phraseTimeout bounds how long a human may type a phrase.
	phraseTimeout = 2 * time.Minute
)

// tree is one tree under this supervisor.
type tree struct {
	opts    Options
	root    control.Root
	places  registry.Places
	store   *registry.Tree
	log     *audit.Log
	ops     zerolog.Logger
	planner sandbox.Planner
	// base is what this host gives to one process; see host.
	base      sandbox.Host
	hostOnce  sync.Once
	hostFound sandbox.Host

	pool           *pool
	outbound       *outbound
	humans         *humans
	tickets        tickets
	noise          noise // at the socket of human operations
	rules          atomic.Pointer[authorities]
	chained        chained
	transcript     transcript
	observers      observers
	projectChanges int // seen by watchConfig alone
	links          linkFolder

	front     *control.Conn
	notices   chan string // for its human
	ctx       context.Context
	cancel    context.CancelFunc
	forwarder *forwarder

	clients  atomic.Int32   // connections of all sessions
	callers  atomic.Int32   // connections to the socket of human operations
	stops    sync.WaitGroup // what the human stops just now
	requests sync.WaitGroup // that are being carried out; see enter

	reloading sync.Mutex                  // held while rules are replaced
	offering  atomic.Pointer[authorities] // about which a human is being asked

	mu       sync.Mutex
	grants   policy.Grants
	sessions map[string]*session
	channels map[string]*session
	byKeeper map[int]*command
	jobs     map[string]*job
	spools   map[string]*spool.Spool
	first    *session
	reserved int // places of commands that do not run yet
	closing  bool
	counting bool // processes are being counted
}

// Main is the supervisor's entry: it serves one tree until its root session is
// over or the front is gone, and returns when no process of the tree is left.
func Main(opts Options) int {
	front, err := control.FromFile(os.NewFile(frontFD, "front"))
	if err != nil {
		return 125
	}
	fail := func(err error) int {
		front.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: err.Error()}})
		return 125
	}
	if err := reaper.BecomeSubreaper(); err != nil {
		return fail(err)
	}
	var hello, first control.Message
	if err := front.Recv(&hello); err != nil || hello.Hello == nil {
		return 125
	}
	if err := front.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: opts.Build}}); err != nil {
		return 125
	}
	files, err := front.RecvFiles(&first, 1)
	if err != nil || first.Request == nil || first.Request.Root == nil || first.Request.Command == nil {
		return fail(errors.New("the first request of a tree is its root"))
	}
	t, err := newTree(opts, front, *first.Request.Root)
	if err != nil {
		return fail(err)
	}
	return t.serve(first.Request, files)
}

func newTree(opts Options, front *control.Conn, root control.Root) (*tree, error) {
	places := registry.Places{State: root.State, Run: root.Run, Config: root.Config}
	if err := places.Prepare(); err != nil {
		return nil, err
	}
	store, err := registry.Create(places, root.Tree)
	if err != nil {
		return nil, err
	}
	if err := store.Lock(); err != nil {
		store.Close()
		return nil, err
	}
	log, err := audit.Open(store)
	if err != nil {
		store.Close()
		return nil, err
	}
	ops, err := openOperations(store)
	if err != nil {
		return nil, err
	}
	if root.MaxDepth <= 0 {
		root.MaxDepth = defaultDepth
	}
	t := &tree{
		opts: opts, root: root, places: places, store: store, log: log, ops: ops, front: front, notices: make(chan string, 64),
		base:     sandbox.Probe(),
		sessions: map[string]*session{}, channels: map[string]*session{}, byKeeper: map[int]*command{},
		jobs: map[string]*job{}, spools: map[string]*spool.Spool{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.outbound = newOutbound(t)
	t.tickets.now = time.Now
	t.humans = newHumans(root.Phrase, func(why string) {
		t.log.Write(audit.Row{Kind: audit.AnswerRefused, Reason: why})
	})
	if err := t.firstRules(); err != nil {
		return nil, err
	}
	if t.links, err = prepareLinks(places.State); err != nil {
		return nil, err
	}
	dir, err := os.Open(store.Dir())
	if err != nil {
		return nil, err
	}
	policyName := "no policy file"
	if root.Policy != nil {
		policyName = "policy " + root.Policy.Name
	}
	if err := log.Write(audit.Row{Kind: audit.TreeStarted, Reason: policyName, Details: map[string]any{"generation": 1, "files": t.rules.Load().newest().files.sums()}}); err != nil {
		return nil, err
	}
	if err := t.takeUserMessages(); err != nil {
		return nil, err
	}
	t.pool = newPool(root.Tree, dir, 2, ops)
	t.pool.home = root.Home
	ops.Info().Str("tree", root.Tree).Str("build", opts.Build).Int("pid", os.Getpid()).Msg("supervisor runs")
	go t.pool.reap()
	return t, nil
}

// serve runs the tree.
func (t *tree) serve(first *control.Request, files []*os.File) int {
	if t.root.Terminal {
		defer t.humans.detach(t.humans.attach(t.front, ProofTerminal))
	}
	if t.root.Approver {
		if err := t.attachApprover(files); err != nil {
			t.front.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: "--approver-fd: " + err.Error()}})
			t.shutdown()
			return 125
		}
	}
	human, err := t.listenHuman()
	if err == nil {
		defer human.Close()
	}
	if t.root.Parent != nil {
		if t.forwarder, err = newForwarder(t.root.Parent); err != nil {
			t.note(audit.Row{Kind: audit.ChannelNotice, Reason: "the parent session cannot be asked: " + err.Error()})
		}
	}
	if err := t.journalTree(first.Command.Argv, first.Command.Dir); err != nil {
		t.front.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: notWritten(err).Error()}})
		t.shutdown()
		return 125
	}
	go t.tellFront()
	go t.watchConfig(t.ctx)
	ctx, cancel := context.WithCancel(t.ctx)
	done := make(chan control.Result, 1)
	t.requests.Go(func() { done <- t.spawn(ctx, nil, nil, t.front, first) })
	lost := make(chan struct{})
	var running *command
	var mu sync.Mutex
	go func() {
		defer close(lost)
		for {
			var m control.Message
			if t.front.Recv(&m) != nil {
				return
			}
			switch {
			case m.Answer != nil:
				t.answerFrom(t.front, *m.Answer)
			case m.Stop != nil:
				mu.Lock()
				if running == nil {
					running = t.leader()
				}
				c := running
				mu.Unlock()
				if c != nil {
					c.end(m.Stop.Signal, int(stopGrace/time.Millisecond))
				} else {
					cancel()
				}
			}
		}
	}()
	var result control.Result
	select {
	case result = <-done:
	case <-lost:
		// The lifeline is gone: nothing of the tree may outlive it.
		t.note(audit.Row{Kind: audit.LimitReached, Reason: "the first client is gone: everything is killed"})
		result = control.Result{Exit: 125, Class: control.ClassFailed, Reason: "the first client is gone"}
	}
	cancel()
	t.shutdown()
	t.front.Send(control.Message{Result: &result})
	t.stops.Wait()
	return 0
}

// leader is the root session's agent, once it runs.
func (t *tree) leader() *command {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		return nil
	}
	return t.first.leader
}

// rootSession is the root session; there is one for as long as a client can ask.
func (t *tree) rootSession() *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// shutdown ends every process of the tree and closes its books.
func (t *tree) shutdown() {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	t.cancel()
	t.outbound.proxy.Close()
	t.pool.shutdown()
	for {
		left := reaper.Clear(nil, 5*time.Second)
		if reaper.Childless() {
			break
		}
		if left > 0 {
			t.note(audit.Row{Kind: audit.LimitReached, Reason: "processes do not end although they were killed; still trying"})
		}
		time.Sleep(time.Millisecond)
	}
	t.awaitRequests()
	t.closeAll()
	if _, problems := t.store.FoldExits(); len(problems) > 0 {
		t.note(audit.Row{Kind: audit.LimitReached, Reason: "exit files: " + errors.Join(problems...).Error()})
	}
	head, rows := t.log.Head()
	t.note(audit.Row{Kind: audit.TreeEnded, Reason: fmt.Sprintf("audit head %s after %d rows", head, rows)})
	t.store.AppendEvent(registry.Event{Kind: registry.TreeEnded}, true)
	t.log.Close()
	os.RemoveAll(t.store.RunDir())
	t.store.Close()
}

// enter counts a request that is being carried out, so that what it writes down is
// in the books before they are closed. It is false when the tree ends.
func (t *tree) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return false
	}
	t.requests.Add(1)
	return true
}

// awaitRequests waits, no longer than a stop may take, for the requests that were
// being carried out: no process is left that they could wait for.
func (t *tree) awaitRequests() {
	idle := make(chan struct{})
	go func() {
		t.requests.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(stopGrace + 3*time.Second):
		t.ops.Warn().Msg("requests are not over although no process of the tree is left")
	}
}

// note writes an audit line whose failure decides nothing.
func (t *tree) note(e audit.Row) {
	if err := t.log.Write(e); err != nil {
		t.ops.Error().Err(err).Str("event", string(e.Kind)).Msg("audit row lost")
	}
}

// noise counts rows that anybody can have written as often as he likes.
type noise struct {
	mu   sync.Mutex
	from time.Time
	n    int
}

// noteNoise writes such a row, unless there were too many: the last one says so.
func (t *tree) noteNoise(n *noise, r audit.Row) {
	n.mu.Lock()
	if now := time.Now(); now.Sub(n.from) > 10*time.Minute {
		n.from, n.n = now, 0
	}
	n.n++
	count := n.n
	n.mu.Unlock()
	if count > maxNoise {
		return
	}
	if count == maxNoise {
		r.Reason += fmt.Sprintf("; this is the %dth such row in ten minutes, and more are not written", maxNoise)
	}
	t.note(r)
}

// turn ends a session's turn, and with it what was granted for it. Only an agent
// may say that one starts.
func (t *tree) turn(s *session, caller *command, what string) control.Result {
	if what != "end" && (what != "start" || !caller.agent) {
		return failed("turn: expected start (from an agent) or end, not %q from a %s", what, caller.role())
	}
	t.mu.Lock()
	s.turn++
	gone := t.grants.EndTurn(s.id)
	if s.parent == nil {
		gone = append(gone, t.grants.EndTreeTurn()...)
	}
	t.mu.Unlock()
	t.endGrants(gone, "turn "+what+" of session "+s.title())
	t.tickets.drop(s.id)
	t.turnStarted(s)
	t.note(audit.Row{Kind: audit.TurnMarked, Session: s.id, Reason: "turn " + what})
	return control.Result{Class: control.ClassDecided, Session: s.id}
}

// turnOf is the number of a session's turn.
func (t *tree) turnOf(s *session) uint64 {
	if s == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.turn
}
