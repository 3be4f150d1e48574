package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/forwarding/spool"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

const (
	// frontFD is the socket to the front, which made it: the tree's lifeline.
	frontFD = 3
	// defaultDepth is how many sessions may stand below each other.
	defaultDepth = 8
	maxCommands  = 256 // at once, per tree
	maxClients   = 128 // connections at once, per session
	maxLeft      = 128 // commands at once, per session, with those in the background
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
	host    sandbox.Host
	planner sandbox.Planner

	pool    *pool
	humans  *humans
	tickets tickets
	noise   noise // at the socket of human operations
	rules   atomic.Pointer[authorities]
	chained chained
	links   linkFolder

	front     *control.Conn
	notices   chan string // for its human
	ctx       context.Context
	cancel    context.CancelFunc
	forwarder *forwarder

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
	running  int
	closing  bool
}

// job is a request by its id: a repeated one gets the same result and has no
// second effect.
type job struct {
	done   chan struct{}
	is     [sha256.Size]byte // of the request
	result control.Result
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
		host:     sandbox.Probe(),
		sessions: map[string]*session{}, channels: map[string]*session{}, byKeeper: map[int]*command{},
		jobs: map[string]*job{}, spools: map[string]*spool.Spool{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
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
	go func() { done <- t.spawn(ctx, nil, nil, t.front, first) }()
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
	t.pool.shutdown()
	for reaper.Clear(nil, 5*time.Second) > 0 {
		t.note(audit.Row{Kind: audit.LimitReached, Reason: "processes do not end although they were killed; still trying"})
	}
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

// closeAll takes every session that was cut short off the books, leaves first:
// its channel in a foreign root is cleared, its end is written.
func (t *tree) closeAll() {
	t.mu.Lock()
	var rest []*session
	for _, s := range t.sessions {
		rest = append(rest, s)
	}
	t.mu.Unlock()
	slices.SortFunc(rest, func(a, b *session) int { return b.depth - a.depth })
	late := time.After(stopGrace)
	for _, s := range rest {
		t.mu.Lock()
		var commands []*command
		for _, c := range s.commands {
			commands = append(commands, c)
		}
		t.mu.Unlock()
		for _, c := range commands {
			select {
			case <-c.over:
			case <-late:
			}
		}
		t.close(s, "its tree was ended")
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

// listenHuman opens the socket of human operations. Its directory is in no
// session's view.
func (t *tree) listenHuman() (net.Listener, error) {
	dir := filepath.Join(t.store.RunDir(), "human")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	l, err := control.Listen(dir, "sock")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go t.serveHuman(control.NewConn(c))
		}
	}()
	return l, nil
}

// attachApprover makes an endpoint of the descriptor that the starter of the tree
// gave, before anything runs: an agent that asks at once must not be told that
// nobody can answer.
func (t *tree) attachApprover(files []*os.File) error {
	if len(files) != 1 {
		return errors.New("the descriptor did not arrive")
	}
	conn, err := control.FromFile(files[0])
	if err != nil {
		return err
	}
	if err := t.greet(conn, ""); err != nil {
		conn.Close()
		return fmt.Errorf("its other end did not greet: %w", err)
	}
	e := t.humans.attach(conn, ProofInherited)
	go t.serveEndpoint(e)
	return nil
}

// serveHuman serves one connection to the human socket. It has to give a proof
// first; before that it can do nothing.
func (t *tree) serveHuman(conn *control.Conn) {
	defer conn.Close()
	p, err := peerOf(conn.Unix())
	if err == nil {
		defer p.close()
		var why string
		if why, err = p.inSomeTree(); why != "" {
			err = errors.New(why)
		}
	}
	if err != nil {
		t.noteNoise(&t.noise, audit.Row{Kind: audit.AnswerRefused, Reason: "a connection to the human socket was refused: " + err.Error()})
		conn.Send(control.Message{Result: &control.Result{Exit: 126, Class: control.ClassRefused, Reason: err.Error()}})
		return
	}
	who := fmt.Sprintf("pid %d", p.pid)
	if err := t.greet(conn, ""); err != nil {
		return
	}
	m, err := request(conn, phraseTimeout)
	if err != nil || m.Request.Op != control.OpApprove || m.Request.Approve == nil {
		t.noteNoise(&t.noise, audit.Row{Kind: audit.AnswerRefused, Reason: errNotProven.Error() + " (" + who + ")"})
		conn.Send(control.Message{Result: &control.Result{Exit: 126, Class: control.ClassRefused, Reason: errNotProven.Error()}})
		return
	}
	proof, err := t.prove(conn, m.Request, who)
	if err == nil && !p.alive() {
		err = errPeerGone
	}
	if err != nil {
		conn.Send(control.Message{Result: &control.Result{Exit: 126, Class: control.ClassRefused, Reason: err.Error()}})
		return
	}
	conn.Send(control.Message{Notice: &control.Notice{Text: "paired"}})
	// The proof was this process's: whoever holds a copy of its descriptor after
	// its end is somebody else.
	over := make(chan struct{})
	defer close(over)
	go p.whenGone(over, func() { conn.Close() })
	t.serveEndpoint(t.humans.attach(conn, proof))
}

// serveEndpoint takes what a proven connection says, until it ends.
func (t *tree) serveEndpoint(e *endpoint) {
	conn, proof := e.conn, e.proof
	defer conn.Close()
	defer t.humans.detach(e)
	for {
		var m control.Message
		if conn.Recv(&m) != nil {
			return
		}
		switch {
		case m.Answer != nil:
			t.humans.answer(e, *m.Answer)
		case m.Request != nil && m.Request.Op == control.OpRevoke:
			result := t.revoke(m.Request.Grant, proof)
			conn.Send(control.Message{Result: &result})
		case m.Request != nil && m.Request.Op == control.OpStop:
			t.note(audit.Row{Kind: audit.LimitReached, Reason: "stopped by the human (" + string(proof) + ")"})
			if c := t.leader(); c != nil {
				c.end(int(unix.SIGTERM), int(stopGrace/time.Millisecond))
			}
		}
	}
}

// prove shows who is at the other end: by the phrase, else by a code that this
// connection's terminal shows and the human types in the tree's.
func (t *tree) prove(conn *control.Conn, r *control.Request, who string) (Proof, error) {
	if len(r.Approve.Phrase) > 0 {
		if t.humans.phraseProves(r.Approve.Phrase) {
			return ProofPhrase, nil
		}
		return "", errors.New("that is not the phrase of this tree")
	}
	if !t.humans.has(ProofTerminal) {
		return "", errors.New("this tree has no terminal in which the code could be typed, and no phrase was given")
	}
	code := pairingCode()
	if err := conn.Send(control.Message{Notice: &control.Notice{Text: "code " + code}}); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	if err := t.humans.pair(ctx, registry.NewID("pair"), code, who); err != nil {
		return "", err
	}
	return ProofPaired, nil
}

// answerFrom takes an answer that came over the front's own connection.
func (t *tree) answerFrom(conn *control.Conn, a control.Answer) {
	t.humans.mu.Lock()
	var from *endpoint
	for e := range t.humans.endpoints {
		if e.conn == conn {
			from = e
		}
	}
	t.humans.mu.Unlock()
	if from == nil {
		t.note(audit.Row{Kind: audit.AnswerRefused, Reason: errNotProven.Error()})
		return
	}
	t.humans.answer(from, a)
}

// greet exchanges hellos. A peer of another version is told both and refused.
func (t *tree) greet(conn *control.Conn, session string) error {
	conn.Unix().SetReadDeadline(time.Now().Add(greetTimeout))
	defer conn.Unix().SetReadDeadline(time.Time{})
	var m control.Message
	if err := conn.Recv(&m); err != nil {
		return err
	}
	if m.Hello == nil {
		return errors.New("the first frame is a hello")
	}
	if err := conn.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: t.opts.Build, Tree: t.root.Tree, Session: session}}); err != nil {
		return err
	}
	if m.Hello.Protocol != control.Protocol {
		err := fmt.Errorf("this client speaks protocol %d (build %s), the tree's supervisor %d (build %s)", m.Hello.Protocol, m.Hello.Build, control.Protocol, t.opts.Build)
		conn.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: err.Error()}})
		return err
	}
	return nil
}

// accept serves a session's own listener.
func (t *tree) accept(s *session) {
	for {
		u, err := s.listen.AcceptUnix()
		if err != nil {
			return
		}
		go t.serveClient(control.NewConn(u), s, nil)
	}
}

// serveClient serves one connection of an agent or tool of s. Its role is what
// the walk from the peer to its keeper says, or, for a connection that came
// through a command's own descriptor, that and the command must agree.
func (t *tree) serveClient(conn *control.Conn, s *session, through *command) {
	defer conn.Close()
	if s.clients.Add(1) > maxClients {
		s.clients.Add(-1)
		conn.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: fmt.Sprintf("%d clients of this session are connected, which is the limit", maxClients)}})
		return
	}
	defer s.clients.Add(-1)
	p, err := peerOf(conn.Unix())
	var caller *command
	if err == nil {
		defer p.close()
		caller, err = t.identify(p, s, through)
	}
	if err != nil {
		t.noteNoise(&s.noise, audit.Row{Kind: audit.PeerRefused, Session: s.id, Reason: err.Error()})
		conn.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: "refused: " + err.Error()}})
		return
	}
	if t.greet(conn, s.id) != nil {
		return
	}
	m, err := request(conn, greetTimeout)
	if err != nil {
		t.noteNoise(&s.noise, audit.Row{Kind: audit.PeerRefused, Session: s.id, Command: caller.id, Reason: err.Error()})
		res := failed("refused: %v", err)
		conn.Send(control.Message{Result: &res})
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	// One request a connection. What the client says after it is that it was
	// interrupted; its end means that it is gone.
	started := make(chan *command, 1)
	answered := make(chan struct{})
	go func() {
		defer cancel()
		var c *command
		for {
			var m control.Message
			err := conn.Recv(&m)
			if c == nil {
				select {
				case c = <-started:
				default:
				}
			}
			sig := int(unix.SIGTERM)
			if err == nil && m.Stop != nil {
				sig = m.Stop.Signal
			} else if err == nil {
				continue
			}
			select {
			case <-answered:
				// It has its status: what its tool left in the background stays.
				return
			default:
			}
			if c != nil {
				c.end(sig, int(stopGrace/time.Millisecond))
			}
			if err != nil || c == nil {
				return
			}
		}
	}()
	// The lifeline is the process as well as its connection: a copy of the
	// descriptor in another process must not keep a tool alive.
	go p.whenGone(ctx.Done(), func() { conn.Close() })
	result := t.once(s, m.Request, func() control.Result {
		return t.handle(ctx, s, caller, conn, m.Request, started)
	})
	close(answered)
	conn.Send(control.Message{Result: &result})
}

// request reads the one request of a connection. A client that is silent must not
// hold its place for ever.
func request(conn *control.Conn, within time.Duration) (control.Message, error) {
	conn.Unix().SetReadDeadline(time.Now().Add(within))
	defer conn.Unix().SetReadDeadline(time.Time{})
	var m control.Message
	if err := conn.Recv(&m); err != nil {
		return m, err
	}
	if m.Request == nil {
		return m, errors.New("the second frame is a request")
	}
	return m, nil
}

// identify names the command below whose keeper the peer lives.
func (t *tree) identify(p peer, s *session, through *command) (*command, error) {
	pid, err := p.keeperAbove(t.pool.known)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	c := t.byKeeper[pid]
	t.mu.Unlock()
	switch {
	case c == nil:
		return nil, errors.New("the process is not below a keeper of this tree")
	case c.session != s:
		return nil, fmt.Errorf("the process belongs to session %s, this is the socket of %s", c.session.id, s.id)
	case through != nil && c != through:
		return nil, errors.New("the descriptor was given to another command")
	}
	return c, nil
}

// once runs a request unless its id was seen: then it gives the first result.
func (t *tree) once(s *session, r *control.Request, run func() control.Result) control.Result {
	if !registry.ValidRequestID(r.ID) {
		return failed("request id %q: expected letters, digits, '.', '_' and '-'", r.ID)
	}
	whole, err := json.Marshal(r)
	if err != nil {
		return failed("request: %v", err)
	}
	key, is := s.id+"/"+r.ID, sha256.Sum256(whole)
	t.mu.Lock()
	if j := t.jobs[key]; j != nil {
		t.mu.Unlock()
		if j.is != is {
			return failed("request id %q was used for another request", r.ID)
		}
		<-j.done
		return j.result
	}
	if s.jobs >= maxJobs {
		t.mu.Unlock()
		return failed("%d requests were made by this session in ten minutes, which is the limit", maxJobs)
	}
	j := &job{done: make(chan struct{}), is: is}
	t.jobs[key] = j
	s.jobs++
	t.mu.Unlock()
	j.result = run()
	close(j.done)
	time.AfterFunc(10*time.Minute, func() {
		t.mu.Lock()
		delete(t.jobs, key)
		s.jobs--
		t.mu.Unlock()
	})
	return j.result
}

func (t *tree) handle(ctx context.Context, s *session, caller *command, conn *control.Conn, r *control.Request, started chan<- *command) control.Result {
	switch r.Op {
	case control.OpExec:
		if r.Command == nil {
			return failed("exec: no command")
		}
		return t.exec(ctx, s, caller, conn, r, started)
	case control.OpSpawn:
		if r.Command == nil || r.Spawn == nil {
			return failed("spawn: no command")
		}
		return t.spawn(ctx, s, caller, conn, r)
	case control.OpAsk:
		if r.Ask == nil {
			return failed("ask: no question")
		}
		return t.decideOnly(ctx, s, caller.role(), r)
	case control.OpTurn:
		return t.turn(s, caller, r.Turn)
	}
	return failed("%s is no operation for an %s", r.Op, caller.role())
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

func failed(format string, args ...any) control.Result {
	return control.Result{Exit: 125, Class: control.ClassFailed, Reason: fmt.Sprintf(format, args...)}
}

func refused(by, format string, args ...any) control.Result {
	return control.Result{Exit: 126, Class: control.ClassRefused, Verdict: "deny", By: by, Reason: fmt.Sprintf(format, args...)}
}

// resolver answers the shell analysis from the keeper's view.
type resolver struct {
	k    *keeperProcess
	path string
	s    *session
	seen map[string]keeper.File
}

func (r *resolver) find(word string) keeper.File {
	if f, ok := r.seen[word]; ok {
		return f
	}
	f, err := r.k.question(keeper.Order{Lookup: &keeper.Lookup{Word: word, Path: r.path}})
	if err != nil {
		f = keeper.File{Error: err.Error()}
	}
	if len(r.seen) < 4096 {
		r.seen[word] = f
	}
	return f
}

// inspect looks at a path, not along PATH. Its answers are kept apart: a word and
// a path may be spelled the same.
func (r *resolver) inspect(path string) keeper.File {
	key := "\x00" + path
	if f, ok := r.seen[key]; ok {
		return f
	}
	f, err := r.k.question(lookupOrder(path, "", false))
	if err != nil {
		return keeper.File{}
	}
	if len(r.seen) < 4096 {
		r.seen[key] = f
	}
	return f
}

// Lookup implements shell.Resolver.
func (r *resolver) Lookup(word string) (string, bool, bool) {
	f := r.find(word)
	if f.Kind != "file" {
		return "", false, false
	}
	return f.Real, r.s.mayWrite(f.Real), true
}

// Exists implements shell.Resolver.
func (r *resolver) Exists(path string) bool { return r.inspect(path).Kind != "" }

// mayWrite says whether the session can change that file: now, or with what a
// human may still open for it. For an unconfined session, which can change what
// its operator can, it is the workspace that counts: the rest is said by
// "advisory".
func (s *session) mayWrite(path string) bool {
	if w := s.snap.Sandbox.Workspace; w != "" && strings.HasPrefix(path, w+"/") {
		return true
	}
	return s.restricted() && s.snap.Open.CanWrite(path)
}
