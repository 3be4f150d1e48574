package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/cmd/pioneer-super/terminal"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// desk is a human endpoint: it shows questions in a terminal, one at a time and in
// the order in which they came, and sends back what was answered.
type desk struct {
	human *terminal.Human
	conn  *control.Conn

	mu    sync.Mutex
	open  map[string]context.CancelFunc
	order []control.Question
	more  chan struct{}
}

func newDesk(human *terminal.Human, conn *control.Conn) *desk {
	d := &desk{human: human, conn: conn, open: map[string]context.CancelFunc{}, more: make(chan struct{}, 1)}
	go d.serve()
	return d
}

// take gets a question or a withdrawal from the supervisor.
func (d *desk) take(m control.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case m.Question != nil:
		d.order = append(d.order, *m.Question)
		select {
		case d.more <- struct{}{}:
		default:
		}
	case m.Withdraw != nil:
		if cancel := d.open[m.Withdraw.ID]; cancel != nil {
			cancel()
			return
		}
		for i, q := range d.order {
			if q.ID == m.Withdraw.ID {
				d.order = append(d.order[:i], d.order[i+1:]...)
				return
			}
		}
	}
}

// waiting lists what waits, one line each.
func (d *desk) waiting() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, q := range d.order {
		out = append(out, fmt.Sprintf("%s: %s", q.Session, q.Command))
	}
	return out
}

func (d *desk) serve() {
	for seq := 1; ; {
		d.mu.Lock()
		if len(d.order) == 0 {
			d.mu.Unlock()
			<-d.more
			continue
		}
		q := d.order[0]
		d.order = d.order[1:]
		ctx, cancel := context.WithCancel(context.Background())
		d.open[q.ID] = cancel
		d.mu.Unlock()
		a, err := d.human.Ask(ctx, shown(q, seq))
		withdrawn := ctx.Err() != nil
		cancel()
		d.mu.Lock()
		delete(d.open, q.ID)
		d.mu.Unlock()
		seq++
		switch {
		case errors.Is(err, terminal.ErrClosed):
			return
		case withdrawn:
			continue
		case err != nil:
			d.human.Notice("the question could not be shown: " + err.Error())
			d.conn.Send(control.Message{Answer: &control.Answer{ID: q.ID, Digest: q.Digest, Decision: "deny", Reason: "the question could not be shown"}})
			continue
		}
		d.conn.Send(control.Message{Answer: given(q, a)})
	}
}

// shown turns the supervisor's question into the terminal's.
func shown(q control.Question, seq int) terminal.Question {
	out := terminal.Question{
		ID: q.ID, Seq: seq, Session: q.Session, Agent: q.Agent, Chain: q.Chain, Tool: q.Tool, Command: q.Command, Executed: q.Executed,
		Directory: q.Dir, Reason: q.Reason, Rule: q.Rule, Strength: q.Strength, Class: q.Class, Environment: q.Environment,
		TurnPattern: q.TurnPattern, TurnAllowed: q.TurnAllowed, Warnings: q.Warnings, Code: q.Code,
	}
	for _, n := range q.Needs {
		out.Needs = append(out.Needs, terminal.Line{Label: n.Name, Text: n.Text})
	}
	for _, o := range q.Offers {
		out.Offer = append(out.Offer, terminal.Toggle{Key: []rune(o.Key)[0], Name: o.Name, Sentence: o.Sentence, On: o.On, Changeable: o.Changeable, OtherKey: o.Strong})
	}
	return out
}

func given(q control.Question, a terminal.Answer) *control.Answer {
	out := &control.Answer{ID: q.ID, Digest: q.Digest, Decision: a.Decision, Reason: a.Reason, Code: a.Code}
	if q.Pairing && a.Code != "" {
		out.Decision = "code"
	}
	for _, o := range q.Offers {
		if a.Toggles[[]rune(o.Key)[0]] {
			out.Offers = append(out.Offers, o.Key)
		}
	}
	return out
}

// humanConn connects to a tree's socket for human operations and proves who is
// here: by the phrase, or by a code that is typed in the tree's own terminal.
func humanConn(c *cli.Context) (*control.Conn, *terminal.Human, error) {
	places, err := findPlaces()
	if err != nil {
		return nil, nil, exit(125, "%v", err)
	}
	tree, err := namedTree(places, c.Args().First(), true)
	if err != nil {
		return nil, nil, err
	}
	defer tree.Close()
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, exit(125, "this needs a terminal: %v", err)
	}
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	request := &control.Request{ID: registry.NewRequestID(), Op: control.OpApprove, Approve: &control.Approve{}}
	if c.Bool("phrase") {
		fmt.Fprint(tty, "phrase of "+tree.ID()+" (not shown): ")
		phrase, err := term.ReadPassword(int(tty.Fd()))
		fmt.Fprintln(tty)
		if err != nil {
			return nil, nil, exit(125, "phrase: %v", err)
		}
		request.Approve.Phrase = supervisor.HashPhrase(tree.ID(), string(phrase))
	}
	conn, err := control.Dial(humanSocket(tree))
	if err == nil {
		conn, err = greet(conn)
	}
	if err != nil {
		return nil, nil, exit(125, "tree %s: %v", tree.ID(), err)
	}
	if err := conn.Send(control.Message{Request: request}); err != nil {
		return nil, nil, exit(125, "%v", err)
	}
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			return nil, nil, exit(125, "tree %s: %v", tree.ID(), err)
		}
		switch {
		case m.Result != nil:
			return nil, nil, exit(m.Result.Exit, "%s", prompt.Visible(m.Result.Reason))
		case m.Notice != nil && m.Notice.Text == "paired":
			human, err := terminal.Open(tty)
			if err != nil {
				conn.Close()
				return nil, nil, exit(125, "%v", err)
			}
			return conn, human, nil
		case m.Notice != nil:
			fmt.Fprintf(tty, "type this in the terminal of the tree %s: %s\n", tree.ID(), prompt.Visible(m.Notice.Text))
		}
	}
}

func approve(c *cli.Context) error {
	conn, human, err := humanConn(c)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer human.Close()
	human.Notice("this terminal now answers; Ctrl-C ends it")
	d := newDesk(human, conn)
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			human.Notice("the tree has ended")
			return nil
		}
		d.take(m)
	}
}

func stop(c *cli.Context) error {
	conn, human, err := humanConn(c)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer human.Close()
	if err := conn.Send(control.Message{Request: &control.Request{ID: registry.NewRequestID(), Op: control.OpStop}}); err != nil {
		return exit(125, "%v", err)
	}
	for {
		var m control.Message
		if conn.Recv(&m) != nil {
			return nil
		}
	}
}
