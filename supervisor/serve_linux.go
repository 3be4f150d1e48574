package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// job is a request by its id: a repeated one gets the same result and has no
// second effect.
type job struct {
	done   chan struct{}
	is     [sha256.Size]byte // of the request
	result control.Result
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
	t.acceptEach(s.listen, func(conn *control.Conn) { t.serveClient(conn, s, nil) })
}

// serveClient serves one connection of an agent or tool of s. Its role is what
// the walk from the peer to its keeper says, or, for a connection that came
// through a command's own descriptor, that and the command must agree.
func (t *tree) serveClient(conn *control.Conn, s *session, through *command) {
	defer conn.Close()
	if !t.enter() {
		return
	}
	defer t.requests.Done()
	if err := t.connected(s); err != nil {
		conn.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: err.Error()}})
		return
	}
	defer t.disconnected(s)
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
		defer t.busy(s)()
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
	case control.OpCheck:
		if r.Ask == nil {
			return failed("check: no question")
		}
		return t.check(s, caller.role(), r)
	case control.OpTurn:
		return t.turn(s, caller, r.Turn)
	case control.OpStop:
		return t.stop(r.Target, caller, "")
	}
	return failed("%s is no operation for an %s", r.Op, caller.role())
}

func failed(format string, args ...any) control.Result {
	return control.Result{Exit: 125, Class: control.ClassFailed, Reason: fmt.Sprintf(format, args...)}
}

func refused(by, format string, args ...any) control.Result {
	return control.Result{Exit: 126, Class: control.ClassRefused, Verdict: "deny", By: by, Reason: fmt.Sprintf(format, args...)}
}
