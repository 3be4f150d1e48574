package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/cmd/pioneer-super/terminal"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// desk is a human endpoint: it shows questions in a terminal, where they queue in
// the order in which they came, and sends back what was answered.
type desk struct {
	human *terminal.Human
	conn  *control.Conn
	tree  string

	mu   sync.Mutex
	seq  int
	open []*shownQuestion
}

type shownQuestion struct {
	control.Question
	cancel context.CancelFunc
}

func newDesk(human *terminal.Human, conn *control.Conn, tree string) *desk {
	return &desk{human: human, conn: conn, tree: tree}
}

// take gets a question or a withdrawal from the supervisor.
func (d *desk) take(m control.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case m.Question != nil:
		d.seq++
		ctx, cancel := context.WithCancel(context.Background())
		q := &shownQuestion{*m.Question, cancel}
		d.open = append(d.open, q)
		go d.serve(ctx, q, d.seq)
	case m.Withdraw != nil:
		for _, q := range d.open {
			if q.ID == m.Withdraw.ID && q.Digest == m.Withdraw.Digest {
				q.cancel()
			}
		}
	}
}

// waiting lists what waits, one line each.
func (d *desk) waiting() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, q := range d.open {
		out = append(out, fmt.Sprintf("%s: %s", q.Session, q.Command))
	}
	return out
}

func (d *desk) serve(ctx context.Context, q *shownQuestion, seq int) {
	defer q.cancel()
	a, err := d.human.Ask(ctx, shown(q.Question, seq))
	d.mu.Lock()
	d.open = slices.DeleteFunc(d.open, func(o *shownQuestion) bool { return o == q })
	d.mu.Unlock()
	switch {
	case ctx.Err() != nil, errors.Is(err, terminal.ErrClosed):
		return
	case err != nil:
		// Not the person's no: it could not be asked, and that is what is said.
		d.human.Notice("the question could not be shown: " + err.Error())
		d.conn.Send(control.Message{Answer: &control.Answer{ID: q.ID, Digest: q.Digest, Decision: "unavailable", Reason: err.Error()}})
		return
	}
	answer := given(q.Question, a)
	if a.Phrase != "" {
		answer.Phrase = supervisor.HashPhrase(d.tree, a.Phrase)
	}
	d.conn.Send(control.Message{Answer: answer})
}

// shown turns the supervisor's question into the terminal's.
func shown(q control.Question, seq int) terminal.Question {
	out := terminal.Question{
		ID: q.ID, Seq: seq, Session: q.Session, Agent: q.Agent, Chain: q.Chain, Tool: q.Tool, Command: q.Command, Executed: q.Executed,
		Directory: q.Dir, Reason: q.Reason, Rule: q.Rule, Strength: q.Strength, Class: q.Class, Environment: q.Environment,
		TurnPattern: q.TurnPattern, TurnAllowed: q.TurnAllowed, TurnPhrase: q.TurnPhrase, AllowPhrase: q.PhraseNeeded, Warnings: q.Warnings, Code: q.Code,
		GrantPattern: q.Pattern, TreeAllowed: q.TreeAllowed, Always: q.Always,
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
	if out.Tree = a.Tree; a.Pattern {
		out.Scope = "pattern"
	}
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
func humanConn(c *cli.Context, name string) (conn *control.Conn, human *terminal.Human, id string, err error) {
	places, err := findPlaces()
	if err != nil {
		return nil, nil, "", exit(125, "%v", err)
	}
	tree, err := namedTree(places, name, true)
	if err != nil {
		return nil, nil, "", err
	}
	defer tree.Close()
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, "", exit(125, "this needs a terminal: %v", err)
	}
	conn, err = control.Dial(humanSocket(tree))
	if err == nil {
		conn, err = greet(conn)
	}
	if err != nil {
		return nil, nil, "", exit(125, "tree %s: %v", tree.ID(), err)
	}
	// From here on nobody looks into this process: what is typed in it proves the
	// human. Before, the supervisor had to look where it lives.
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	request := &control.Request{ID: registry.NewRequestID(), Op: control.OpApprove, Approve: &control.Approve{}}
	if c.Bool("phrase") {
		phrase, err := readPhrase(tty, "phrase of "+tree.ID()+" (not shown): ")
		if err != nil {
			return nil, nil, "", exit(125, "phrase: %v", err)
		}
		request.Approve.Phrase = supervisor.HashPhrase(tree.ID(), string(phrase))
	}
	if err := conn.Send(control.Message{Request: request}); err != nil {
		return nil, nil, "", exit(125, "%v", err)
	}
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			return nil, nil, "", exit(125, "tree %s: %v", tree.ID(), err)
		}
		switch {
		case m.Result != nil:
			return nil, nil, "", exit(m.Result.Exit, "%s", prompt.Visible(m.Result.Reason))
		case m.Notice != nil && m.Notice.Text == "paired":
			human, err := terminal.Open(tty)
			if err != nil {
				conn.Close()
				return nil, nil, "", exit(125, "%v", err)
			}
			return conn, human, tree.ID(), nil
		case m.Notice != nil:
			fmt.Fprintf(tty, "type this in the terminal of the tree %s: %s\n", tree.ID(), prompt.Visible(m.Notice.Text))
		}
	}
}

func approve(c *cli.Context) error {
	conn, human, tree, err := humanConn(c, c.Args().First())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer human.Close()
	human.Notice("this terminal now answers; Ctrl-C ends it")
	d := newDesk(human, conn, tree)
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			human.Notice("the tree has ended")
			return nil
		}
		if m.Notice != nil {
			human.Notice(m.Notice.Text)
		}
		d.take(m)
	}
}
