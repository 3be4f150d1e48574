package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// rpcTimeout bounds one question to a keeper. It answers from the file system: a
// network mount that hangs must not hold a request for ever.
const rpcTimeout = 20 * time.Second

var errKeeperGone = errors.New("the keeper of this command is gone")

// refillPause is how long a pool that is not empty waits before it starts another
// keeper.
const refillPause = 10 * time.Millisecond

// keeperProcess is the supervisor's side of one keeper.
type keeperProcess struct {
	pid   int
	stage int
	conn  *control.Conn
	room  bool // its command has namespaces of its own
	// ask serialises questions; found carries the one answer that is due. late is
	// why there are no more: an answer that came after its time would be taken for
	// that of the next question.
	ask    sync.Mutex
	late   error
	within time.Duration // for one answer
	found  chan keeper.File
	gone   chan struct{} // closed when nothing comes from it any more
	// reports carries everything else, in order, closed when the keeper is gone.
	reports chan keeper.Report
	// reaped is closed when it has ended and was waited for.
	reaped chan struct{}
	// clean is set when the keeper has said that nothing of its command is left.
	clean atomic.Bool
	// helped is set for a program of the chain, which is no keeper: it gets its
	// status.
	helped chan syscall.WaitStatus
}

// pool starts keepers and waits for them.
type pool struct {
	tree string
	dir  *os.File
	ops  zerolog.Logger
	// plain are those whose commands live in the host's namespaces.
	plain *stock

	over chan struct{} // closed when nothing more is started

	mu   sync.Mutex
	live map[int]*keeperProcess // by pid, from fork to reaping
	shut bool
	home string // what a helper has as HOME
}

// stock holds keepers of one kind that were started ahead, so that a command does not
// wait for two starts of this binary.
type stock struct {
	p     *pool
	start func() (*keeperProcess, error)
	warm  chan *keeperProcess
	quit  chan struct{} // closed when no more are wanted
	once  sync.Once
}

func newPool(tree string, dir *os.File, size int, ops zerolog.Logger) *pool {
	p := &pool{tree: tree, dir: dir, ops: ops, over: make(chan struct{}), live: map[int]*keeperProcess{}}
	p.plain = p.stock(size, func() (*keeperProcess, error) { return p.start(keeper.Plain, nil) })
	return p
}

func (p *pool) stock(size int, start func() (*keeperProcess, error)) *stock {
	s := &stock{p: p, start: start, warm: make(chan *keeperProcess, size), quit: make(chan struct{})}
	go s.fill()
	return s
}

// fill keeps the stock full. It pauses after a failure: a host that cannot fork
// must not be asked in a loop.
func (s *stock) fill() {
	for {
		k, err := s.start()
		if err != nil {
			if s.p.closed() || s.closed() {
				return
			}
			s.p.ops.Warn().Err(err).Msg("keeper not started")
			time.Sleep(100 * time.Millisecond)
			continue
		}
		select {
		case s.warm <- k:
		case <-s.quit:
			k.release()
			return
		}
		if len(s.warm) == cap(s.warm) {
			// One was just taken and there are more: the command that took it has
			// the processors first.
			time.Sleep(refillPause)
		}
	}
}

func (s *stock) closed() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// close gives up what is in stock.
func (s *stock) close() {
	s.once.Do(func() { close(s.quit) })
	for {
		select {
		case k := <-s.warm:
			k.release()
		default:
			return
		}
	}
}

func (p *pool) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shut
}

// take returns a keeper that nothing has used. It is used once.
func (s *stock) take() (*keeperProcess, error) {
	deadline := time.After(10 * time.Second)
	for {
		select {
		case k := <-s.warm:
			if k.alive() {
				return k, nil
			}
		case <-s.p.over:
			return nil, errors.New("the tree is ending")
		case <-s.quit:
			return nil, errors.New("the session is ending")
		case <-deadline:
			return nil, errors.New("no keeper could be started within 10 s: too many processes, or no memory")
		}
	}
}

func (k *keeperProcess) alive() bool {
	select {
	case r, ok := <-k.reports:
		return ok && r.Failed == nil
	default:
		return true
	}
}

// start starts a keeper of that kind, in the network namespace of holder where there is one.
func (p *pool) start(kind string, holder *keeper.Holder) (*keeperProcess, error) {
	ours, theirs, err := control.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := control.FromFile(ours)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		conn.Close()
		return nil, errKeeperGone
	}
	// Known before it runs: a child of the supervisor that is in no table is taken
	// for the orphan of a dead keeper.
	var pid int
	if holder != nil {
		pid, err = holder.Keeper(p.tree, kind, theirs, p.dir)
	} else {
		pid, err = keeper.ForkKeeper(p.tree, kind, theirs, p.dir, 0)
	}
	if err != nil {
		p.mu.Unlock()
		conn.Close()
		return nil, err
	}
	k := &keeperProcess{
		pid: pid, conn: conn, room: kind == keeper.WithRoom, found: make(chan keeper.File, 1), gone: make(chan struct{}),
		reaped: make(chan struct{}), within: rpcTimeout, reports: make(chan keeper.Report, 8),
	}
	p.live[pid] = k
	p.mu.Unlock()
	theirs.Close() // held here, the end of a keeper that says nothing would never be seen
	var first keeper.Report
	if err = k.conn.Recv(&first); err == nil && first.Ready == nil {
		err = errKeeperGone
		if first.Failed != nil {
			err = errors.New(first.Failed.Reason)
		}
	}
	if err != nil {
		k.clean.Store(true) // nothing ran
		k.conn.Close()
		return nil, fmt.Errorf("keeper %d did not start: %w", pid, err)
	}
	k.stage = first.Ready.Stage
	go k.read()
	return k, nil
}

func (k *keeperProcess) read() {
	defer close(k.reports)
	defer close(k.gone)
	defer k.conn.Close() // now, and not when the collector finds it
	for {
		var r keeper.Report
		if err := k.conn.Recv(&r); err != nil {
			return
		}
		if r.Found != nil {
			select {
			case k.found <- *r.Found:
			default: // nobody asked: an answer that came after its time
			}
			continue
		}
		if r.Ended != nil {
			k.clean.Store(true)
		}
		k.reports <- r
	}
}

// question sends one order that is answered with a file.
func (k *keeperProcess) question(o keeper.Order) (keeper.File, error) {
	k.ask.Lock()
	defer k.ask.Unlock()
	if k.late != nil {
		return keeper.File{}, k.late
	}
	if err := k.conn.Send(o); err != nil {
		return keeper.File{}, errKeeperGone
	}
	timeout := time.NewTimer(k.within)
	defer timeout.Stop()
	select {
	case f := <-k.found:
		return f, nil
	case <-k.gone:
		return keeper.File{}, errKeeperGone
	case <-timeout.C:
		k.late = fmt.Errorf("the file system did not answer within %s", k.within)
		return keeper.File{}, k.late
	}
}

// release gives up a keeper that has run nothing.
func (k *keeperProcess) release() {
	k.clean.Store(true)
	k.conn.Close()
}

// known says whether pid is a keeper of this tree that was not reaped.
func (p *pool) known(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live[pid] != nil
}

// reap waits for every child of the supervisor, for as long as it runs. A keeper
// that ends before it said so leaves its command behind: what then arrives here
// is killed, again and again until nothing is left.
func (p *pool) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // no child at all: the pool is between two starts
			time.Sleep(5 * time.Millisecond)
			continue
		}
		p.mu.Lock()
		k := p.live[pid]
		delete(p.live, pid)
		p.mu.Unlock()
		if k != nil && k.reaped != nil {
			close(k.reaped)
		}
		if k != nil && k.helped != nil {
			k.helped <- syscall.WaitStatus(status)
			go reaper.Clear(p.known, 10*time.Second)
			continue
		}
		// The socket is left to its reader: what the keeper said last is still in it.
		if !p.closed() && (k == nil || !k.clean.Load()) {
			p.ops.Info().Int("pid", pid).Bool("keeper", k != nil).Msg("what a lost keeper left is ended")
			go reaper.Clear(p.known, 10*time.Second)
		}
	}
}

// clearAfter ends what a lost keeper left, and says what was seen of it.
func (p *pool) clearAfter(k *keeperProcess) (proof string, survivors int) {
	select {
	case <-k.reaped:
	case <-time.After(5 * time.Second):
		return "unknown: its keeper does not end", 0
	}
	if left := reaper.Clear(p.known, 5*time.Second); left > 0 {
		return "unknown: processes of it did not end", left
	}
	return "unknown: its keeper was lost, and no process that it left was seen", 0
}

// kill ends a keeper of this tree. It is a child that was not reaped, so that the
// number is its own.
func (p *pool) kill(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live[pid] != nil {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// shutdown starts nothing more and lets every keeper go: each sees the end of
// its socket and ends what it runs.
func (p *pool) shutdown() {
	p.mu.Lock()
	if !p.shut {
		close(p.over)
	}
	p.shut = true
	all := make([]*keeperProcess, 0, len(p.live))
	for _, k := range p.live {
		all = append(all, k)
	}
	p.mu.Unlock()
	for _, k := range all {
		if k.conn != nil {
			k.conn.Close()
		}
	}
}
