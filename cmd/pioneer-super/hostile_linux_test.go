package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// hostileName is argv[0] under which this test binary is a program of a tree: an
// agent or a tool that does what only a hostile one does.
const hostileName = "hostile"

// parts are what that program can be told to do, by name. They are registered by
// package variables, which are set before init runs.
var parts = map[string]func(args []string) int{}

func part(name string, do func(args []string) int) string {
	parts[name] = do
	return name
}

func init() {
	if filepath.Base(os.Args[0]) != hostileName {
		return
	}
	do := parts[os.Args[1]]
	if do == nil {
		fmt.Fprintln(os.Stderr, "no such part:", os.Args[1])
		os.Exit(99)
	}
	os.Exit(do(os.Args[2:]))
}

// hostile puts the program into the workspace, as ./hostile.
func (l *lab) hostile() {
	l.t.Helper()
	to := filepath.Join(l.work, hostileName)
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	if os.Link(self, to) == nil {
		return
	}
	from, err := os.Open(self)
	if err != nil {
		l.t.Fatal(err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err == nil {
		_, err = io.Copy(f, from)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// tell prints a line of JSON for the test.
func tell(v any) {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(out))
}

// ourselves runs the product from inside the tree and returns its status and
// what it printed.
func ourselves(how func(*exec.Cmd), args ...string) (status int, out string) {
	cmd := exec.Command("pioneer-super", args...)
	if how != nil {
		how(cmd)
	}
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// untilThere waits for a file.
func untilThere(path string) {
	for range 6000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "waited 30 s for", path)
	os.Exit(98)
}

// approver is a program of the operator's that answers over an inherited
// descriptor.
type approver struct {
	t    testing.TB
	conn *control.Conn

	mu        sync.Mutex
	questions []control.Question
	withdrawn []control.Withdraw
	// answer, if set, is asked about each question at once; nil leaves it open.
	answer func(control.Question) *control.Answer
}

// withApprover starts a headless tree whose asks come to the returned approver.
func (l *lab) withApprover(answer func(control.Question) *control.Answer, flags []string, argv ...string) (*running, *approver) {
	l.t.Helper()
	return l.withApproverAs(func(*exec.Cmd) {}, func() {}, answer, flags, argv...)
}

// withApproverAs is withApprover with a last word on how, and one when the tree has
// been started.
func (l *lab) withApproverAs(how func(*exec.Cmd), started func(), answer func(control.Question) *control.Answer, flags []string, argv ...string) (*running, *approver) {
	l.t.Helper()
	ours, theirs, err := control.Pair()
	if err != nil {
		l.t.Fatal(err)
	}
	r := l.spawnAs(func(c *exec.Cmd) { c.ExtraFiles = []*os.File{theirs}; how(c) }, append(flags, "--approver-fd", "3"), argv...)
	started()
	theirs.Close()
	conn, err := control.FromFile(ours)
	if err != nil {
		l.t.Fatal(err)
	}
	a := &approver{t: l.t, conn: conn, answer: answer}
	l.t.Cleanup(func() { conn.Close() })
	if err := conn.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: "test"}}); err != nil {
		l.t.Fatal(err)
	}
	go a.read()
	return r, a
}

func (a *approver) read() {
	for {
		var m control.Message
		if a.conn.Recv(&m) != nil {
			return
		}
		a.mu.Lock()
		if m.Withdraw != nil {
			a.withdrawn = append(a.withdrawn, *m.Withdraw)
		}
		var said *control.Answer
		if m.Question != nil {
			a.questions = append(a.questions, *m.Question)
			if a.answer != nil {
				said = a.answer(*m.Question)
			}
		}
		a.mu.Unlock()
		if said != nil {
			a.conn.Send(control.Message{Answer: said})
		}
	}
}

func (a *approver) asked() []control.Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.questions)
}

// question waits for the n-th question, from 0.
func (a *approver) question(n int) control.Question {
	a.t.Helper()
	await(a.t, 20*time.Second, fmt.Sprintf("question %d", n), func() bool { return len(a.asked()) > n })
	return a.asked()[n]
}

func (a *approver) says(answer control.Answer) {
	a.t.Helper()
	if err := a.conn.Send(control.Message{Answer: &answer}); err != nil {
		a.t.Fatal(err)
	}
}

// once allows one question, with these lines on.
func once(q control.Question, offers ...string) *control.Answer {
	return &control.Answer{ID: q.ID, Digest: q.Digest, Decision: "allow_once", Offers: offers}
}

func forTurn(q control.Question, offers ...string) *control.Answer {
	return &control.Answer{ID: q.ID, Digest: q.Digest, Decision: "allow_for_turn", Offers: offers}
}

func no(q control.Question) *control.Answer {
	return &control.Answer{ID: q.ID, Digest: q.Digest, Decision: "deny", Reason: "not this"}
}

// trees are the ids of the lab's trees, oldest first.
func (l *lab) trees() []string {
	entries, _ := os.ReadDir(filepath.Join(l.home, "state", "trees"))
	slices.SortFunc(entries, func(a, b os.DirEntry) int {
		x, _ := a.Info()
		y, _ := b.Info()
		if x == nil || y == nil {
			return 0
		}
		return x.ModTime().Compare(y.ModTime())
	})
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// audit reads the audit of the lab's only tree.
func (l *lab) audit() []audit.Row {
	l.t.Helper()
	ids := l.trees()
	if len(ids) != 1 {
		l.t.Fatalf("the lab has the trees %v, expected one", ids)
	}
	rows, _ := audit.Read(filepath.Join(l.home, "state", "trees", ids[0], "audit.jsonl"))
	return rows
}

func (l *lab) rowsOf(kind audit.Kind) []audit.Row {
	l.t.Helper()
	return slices.DeleteFunc(l.audit(), func(r audit.Row) bool { return r.Kind != kind })
}

// there says whether a file is in the workspace.
func (l *lab) there(name string) bool {
	_, err := os.Lstat(filepath.Join(l.work, name))
	return err == nil
}

// touch makes a file in the workspace: the sign for which a program waits.
func (l *lab) touch(name string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.work, name), nil, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// asOrdinaryUser runs the calling test again as an ordinary user, with the binary
// that is tested readable for it. It returns false where that was done.
func asOrdinaryUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "product-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(product.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "pioneer-super")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return testenv.AsUser(t, product.BinaryVar+"="+to)
}

// allowAll answers yes to everything, with every line on that can be.
func allowAll(q control.Question) *control.Answer {
	var on []string
	for _, o := range q.Offers {
		if o.Changeable && !o.Strong {
			on = append(on, o.Key)
		}
	}
	return once(q, on...)
}
