package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

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
	go t.acceptEach(l, t.serveHuman)
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
	defer t.callers.Add(-1)
	if t.callers.Add(1) > maxCallers {
		conn.Send(control.Message{Result: &control.Result{Exit: 125, Class: control.ClassFailed, Reason: fmt.Sprintf("%d connections to the human socket are open, which is the limit", maxCallers)}})
		return
	}
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
		// It may have sent an answer and left without waiting for what it would be told.
		t.noteNoise(&t.noise, audit.Row{Kind: audit.AnswerRefused, Reason: errNotProven.Error() + " (" + who + ", " + err.Error() + ")"})
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
		t.noteNoise(&t.noise, audit.Row{Kind: audit.AnswerRefused, Reason: err.Error() + " (" + who + ")"})
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
			// Answers are taken meanwhile; the supervisor waits for it before it ends.
			t.stops.Go(func() {
				result := t.stop(m.Request.Target, nil, proof)
				conn.Send(control.Message{Result: &result})
			})
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
