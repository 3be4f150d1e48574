package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// attendant is a human endpoint over an inherited descriptor, whose answers a test
// gives.
type attendant struct {
	t         testing.TB
	conn      *control.Conn
	questions chan control.Question
	withdrawn chan string
	results   chan control.Result

	mu      sync.Mutex
	notices []string
}

// told is every notice that came so far, a line each.
func (a *attendant) told() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.notices, "\n")
}

// attended starts a tree whose questions the test answers.
func (l *lab) attended(flags []string, argv ...string) (*running, *attendant) {
	l.t.Helper()
	ours, theirs, err := control.Pair()
	if err != nil {
		l.t.Fatal(err)
	}
	defer theirs.Close()
	args := append([]string{"spawn", "--headless", "--approver-fd", "3"}, flags...)
	r := l.startAs(func(c *exec.Cmd) { c.ExtraFiles = []*os.File{theirs} }, append(append(args, "--"), argv...)...)
	a := &attendant{t: l.t, questions: make(chan control.Question, 16), withdrawn: make(chan string, 64), results: make(chan control.Result, 16)}
	if a.conn, err = control.FromFile(ours); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { a.conn.Close() })
	if err := a.conn.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: "test"}}); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		for {
			var m control.Message
			if a.conn.Recv(&m) != nil {
				return
			}
			if m.Question != nil {
				a.questions <- *m.Question
			}
			if m.Notice != nil {
				a.mu.Lock()
				a.notices = append(a.notices, m.Notice.Text)
				a.mu.Unlock()
			}
			if m.Withdraw != nil {
				a.withdrawn <- m.Withdraw.ID
			}
			if m.Result != nil {
				a.results <- *m.Result
			}
		}
	}()
	return r, a
}

// next waits for a question.
func (a *attendant) next() control.Question {
	a.t.Helper()
	select {
	case q := <-a.questions:
		return q
	case <-time.After(patience):
		a.t.Fatalf("waited %s for a question", patience)
		return control.Question{}
	}
}

// quiet fails if somebody is asked.
func (a *attendant) quiet(why string) {
	a.t.Helper()
	select {
	case q := <-a.questions:
		a.t.Errorf("%s: asked %q", why, q.Command)
	default:
	}
}

func (a *attendant) say(q control.Question, decision string, change ...func(*control.Answer)) {
	a.t.Helper()
	answer := &control.Answer{ID: q.ID, Digest: q.Digest, Decision: decision}
	for _, c := range change {
		c(answer)
	}
	if err := a.conn.Send(control.Message{Answer: answer}); err != nil {
		a.t.Fatal(err)
	}
}

// configure writes a file of the configuration directory.
func (l *lab) configure(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.home, "config", "pioneer-super", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// give writes a file into the workspace; want waits for one and returns it.
func (l *lab) give(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.work, name), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) want(name string) string {
	l.t.Helper()
	l.up(name)
	data, err := os.ReadFile(filepath.Join(l.work, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// rows returns the audit of the lab's only tree.
func (l *lab) rows() []audit.Row {
	l.t.Helper()
	found, _ := filepath.Glob(filepath.Join(l.home, "state", "trees", "*", "audit.jsonl"))
	if len(found) != 1 {
		l.t.Fatalf("%d trees have an audit, expected one", len(found))
	}
	rows, _ := audit.Read(found[0])
	return rows
}

// row waits for an audit row of that kind whose reason has these words.
func (l *lab) row(kind audit.Kind, words string) audit.Row {
	l.t.Helper()
	var out audit.Row
	await(l.t, 10*time.Second, "an audit row "+string(kind)+" with "+words, func() bool {
		for _, r := range l.rows() {
			if r.Kind == kind && strings.Contains(r.Reason, words) {
				out = r
				return true
			}
		}
		return false
	})
	return out
}

// station is an agent that asks what it is told to: it takes the file q.N with
// arguments of `ask`, one a line, and leaves the status of each in a.N.
const station = `n=1
while :; do
  while [ ! -e q.$n ]; do [ -e stop ] && exit 0; sleep 0.02; done
  while IFS='|' read -r surface value; do
    pioneer-super ask --surface "$surface" --value "$value" >/dev/null 2>err.$n </dev/null
    echo $?
  done <q.$n >a.$n.new
  mv a.$n.new a.$n
  n=$((n+1))
done`
