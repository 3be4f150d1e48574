package supervisor

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/control"
)

const (
	maxCommands = 256 // at once, per tree
	maxLeft     = 128 // at once, per session, with those in the background
	// spareCommands are the last places of a tree: a branch of it gets one of them
	// only as long as it holds less than its share of the whole, so that one noisy
	// child leaves room for its siblings.
	spareCommands = maxCommands / 4

	maxClients = 128 // connections at once, per session
	// maxAllClients are connections at once, per tree; a session has the first
	// ownClients of its own beside them.
	maxAllClients = 1024
	ownClients    = 8
	// maxCallers are connections at once to the socket of human operations.
	maxCallers = 32
)

// seat is the place of a command in the budget of its tree, from its request until
// it runs; then the command itself holds it, until nothing of it is left.
type seat struct {
	t *tree
	s *session // that asked for it, nil for the front
	// free says that it is given back; under tree.mu.
	free bool
}

// admit reserves a place for a command. What a tool left in the background holds
// one as long as it lives.
func (t *tree) admit(s *session) (*seat, control.Result, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing || s != nil && s.ending {
		return nil, failed("the session is ending"), false
	}
	all := t.reserved + len(t.byKeeper)
	if all >= maxCommands {
		return nil, failed("%d commands run or wait in this tree, which is the limit", maxCommands), false
	}
	if s != nil && s.held() >= maxLeft {
		return nil, failed("%d commands of this session run or wait, those in the background with them, which is the limit", maxLeft), false
	}
	if share, held := t.share(s); all >= maxCommands-spareCommands && held >= share {
		return nil, failed("%d commands run or wait in this tree, and %d of them are of this branch, whose share is %d", all, held, share), false
	}
	t.reserved++
	if s != nil {
		s.reserved++
	}
	return &seat{t: t, s: s}, control.Result{}, true
}

// held is what a session holds of the budget. Its caller holds mu.
func (s *session) held() int { return s.reserved + len(s.commands) }

// share is what the branch of a session may hold when places are few, and what it
// holds: a branch is a child of the root with all below it, or the root alone. Its
// caller holds mu.
func (t *tree) share(s *session) (share, held int) {
	if s == nil {
		return maxCommands, 0
	}
	branch := s
	for branch.parent != nil && branch.parent.parent != nil {
		branch = branch.parent
	}
	root := branch
	if branch.parent != nil {
		root = branch.parent
	}
	share = maxCommands / (len(root.children) + 1)
	if branch == root {
		return share, root.held()
	}
	var add func(*session)
	add = func(s *session) {
		held += s.held()
		for _, c := range s.children {
			add(c)
		}
	}
	add(branch)
	return share, held
}

// taken gives the place to the command that was put on the tables under the same
// lock. Its caller holds mu.
func (x *seat) taken() {
	if x == nil || x.free {
		return
	}
	x.free = true
	x.t.reserved--
	if x.s != nil {
		x.s.reserved--
	}
}

// leave gives the place back, unless a command has it.
func (x *seat) leave() {
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	x.taken()
}

// acceptEach serves what connects until the listener is closed. A shortage, of
// descriptors say, passes: whoever causes it must not end the way of others.
func (t *tree) acceptEach(l *net.UnixListener, serve func(*control.Conn)) {
	pause := time.Millisecond
	for {
		u, err := l.AcceptUnix()
		switch {
		case err == nil:
			pause = time.Millisecond
			go serve(control.NewConn(u))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			t.ops.Warn().Err(err).Msg("a connection was not taken")
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
		}
	}
}

// connected counts a connection of a session, or says why there are too many.
func (t *tree) connected(s *session) error {
	mine, all := s.clients.Add(1), t.clients.Add(1)
	switch {
	case mine > maxClients:
		t.disconnected(s)
		return fmt.Errorf("%d clients of this session are connected, which is the limit", maxClients)
	case all > maxAllClients && mine > ownClients:
		t.disconnected(s)
		return fmt.Errorf("%d clients of this tree are connected, and %d of them are of this session", all-1, mine-1)
	}
	return nil
}

func (t *tree) disconnected(s *session) {
	s.clients.Add(-1)
	t.clients.Add(-1)
}
