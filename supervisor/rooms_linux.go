package supervisor

import (
	"fmt"
	"net"
	"sync"

	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// roomsAhead is how many keepers with rooms a session has in stock. Each holds three processes
// that wait.
const roomsAhead = 2

// rooms are a session's keepers whose commands have namespaces and a view of their own, all in
// one network namespace.
type rooms struct {
	p     *pool
	stock *stock
	// reach opens the way out in the network namespace of a holder.
	reach func(*keeper.Holder) (net.Listener, error)

	mu     sync.Mutex // the holder answers one at a time
	holder *keeper.Holder
	out    net.Listener // of that holder
	over   bool
}

func newRooms(p *pool, reach func(*keeper.Holder) (net.Listener, error)) *rooms {
	r := &rooms{p: p, reach: reach}
	r.stock = p.stock(roomsAhead, r.start)
	return r
}

// start starts a keeper in the session's network namespace. A holder that was lost is
// replaced: servers that listen in its network are then not reached by later commands.
func (r *rooms) start() (*keeperProcess, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, errKeeperGone
	}
	if r.holder == nil {
		holder, err := r.p.holder()
		if err != nil {
			return nil, err
		}
		out, err := r.reach(holder)
		if err != nil {
			holder.Close()
			return nil, err
		}
		r.holder, r.out = holder, out
	}
	k, err := r.p.start(keeper.WithRoom, r.holder)
	if err != nil && !r.p.known(r.holder.PID) {
		r.giveUp()
	}
	return k, err
}

// close gives up what waits, and the network namespace.
func (r *rooms) close() {
	r.stock.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.holder != nil {
		r.giveUp()
	}
}

func (r *rooms) giveUp() {
	r.holder.Close()
	r.out.Close()
	r.holder, r.out = nil, nil
}

// holder starts a holder and waits until it is ready.
func (p *pool) holder() (*keeper.Holder, error) {
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		return nil, errKeeperGone
	}
	h, err := keeper.ForkHolder(p.tree)
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	k := &keeperProcess{pid: h.PID, conn: h.Conn(), reaped: make(chan struct{})}
	k.clean.Store(true) // it leaves nothing that is to be ended
	p.live[h.PID] = k
	p.mu.Unlock()
	if err := h.Ready(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// tryRooms finds out whether commands can have namespaces and views here, by making them.
func (p *pool) tryRooms() error {
	h, err := p.holder()
	if err != nil {
		return err
	}
	defer h.Close()
	k, err := p.start(keeper.Trial, h)
	if err != nil {
		return err
	}
	k.release()
	return nil
}

// host is what this host can enforce. The part that takes processes to find out is found out
// when it is first asked for. A backend that the operator asked for by name is not replaced by a
// weaker one.
func (t *tree) host() (sandbox.Host, error) {
	t.hostOnce.Do(func() {
		t.hostFound = t.base
		switch {
		case t.hostFound.Backend == "":
		case t.root.Backend == sandbox.BackendLandlock:
			t.hostFound = t.hostFound.WithNamespaces(fmt.Errorf("switched off by --sandbox-backend %s", t.root.Backend))
		default:
			t.hostFound = t.hostFound.WithNamespaces(t.pool.tryRooms())
		}
	})
	if t.root.Backend == sandbox.BackendNamespaces && t.hostFound.Backend != t.root.Backend {
		return t.hostFound, fmt.Errorf("--sandbox-backend %s: %s", t.root.Backend, t.hostFound.NamespacesLack)
	}
	return t.hostFound, nil
}

// keeperFor takes a keeper for a tool of s: one with a room where that is what its tools have.
func (t *tree) keeperFor(s *session) (*keeperProcess, error) {
	if s != nil && s.rooms != nil {
		return s.rooms.stock.take()
	}
	return t.pool.plain.take()
}

// fit gives the wish a keeper that can carry its plan out. Most have it already.
func (t *tree) fit(w *wish) error {
	p := w.profile.profile
	room := len(p.View) > 0
	inSession := w.profile.proxied()
	if w.k.room == room && w.inSession == inSession {
		return nil
	}
	var k *keeperProcess
	var err error
	switch {
	case !room:
		k, err = t.pool.plain.take()
	case inSession:
		k, err = w.s.rooms.stock.take()
	default:
		k, err = t.pool.start(keeper.WithRoom, nil)
	}
	if err != nil {
		return err
	}
	dir, err := k.question(keeper.Order{Prepare: &keeper.Prepare{Dir: w.dir.Path}})
	if err == nil && (dir.Dev != w.dir.Dev || dir.Ino != w.dir.Ino) {
		err = fmt.Errorf("%s became another directory before the start", w.dir.Path)
	}
	if err != nil {
		k.release()
		return err
	}
	w.k.release()
	w.k, w.inSession = k, inSession
	return nil
}
