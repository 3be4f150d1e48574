package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// reply is what an unproven connection to the human socket was told.
type reply struct {
	Who    string
	Answer string
}

// answerAt connects to the socket of human operations and gives an answer to that
// question, proving nothing. With leave it does not wait for what it is told.
func answerAt(who, socket, id, digest string, leave bool) reply {
	conn, err := control.Dial(socket)
	if err != nil {
		return reply{who, "dial: " + err.Error()}
	}
	defer conn.Close()
	yes := control.Message{Answer: &control.Answer{ID: id, Digest: digest, Decision: "allow_once"}}
	conn.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: "hostile"}})
	conn.Send(yes)
	if leave {
		os.Exit(0)
	}
	conn.Unix().SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			return reply{who, "closed: " + err.Error()}
		}
		if m.Result != nil {
			return reply{who, fmt.Sprint(m.Result.Exit, " ", m.Result.Reason)}
		}
		if m.Question != nil {
			return reply{who, "attached: it was shown a question"}
		}
	}
}

var _ = part("answer", func(args []string) int {
	tell(answerAt(args[0], args[1], args[2], args[3], false))
	return 0
})

var _ = part("answer-and-leave", func(args []string) int {
	answerAt(args[0], args[1], args[2], args[3], true)
	return 0
})

// An agent that wants a command run and answers the ask itself, in every way that
// a process of a tree has.
var _ = part("answers-itself", func(args []string) int {
	tool := exec.Command("sh", "-c", "pioneer-super exec -- touch ran")
	tool.Stderr = os.Stderr
	if err := tool.Start(); err != nil {
		return 97
	}
	untilThere("ask")
	data, _ := os.ReadFile("ask")
	f := strings.Fields(string(data))
	tell(answerAt("agent", f[0], f[1], f[2], false))
	// A daemon of its own session: its parent is the keeper.
	for _, how := range []string{"answer", "answer-and-leave"} {
		cmd := exec.Command("setsid", "-f", "./"+hostileName, how, "daemon", f[0], f[1], f[2])
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Run()
	}
	os.WriteFile("answered", nil, 0o600)
	tool.Wait()
	fmt.Println("tool", tool.ProcessState.ExitCode())
	return 0
})

// TestNobodyAnswersWithoutProof tries to answer an open ask from everywhere but
// over the connection that is proven.
func TestNobodyAnswersWithoutProof(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	l.rules(`{"permission": {"bash": {"touch *": "ask"}}}`)
	r, a := l.withApprover(nil, nil, "./hostile", "answers-itself")
	q := a.question(0)
	if q.Command != "touch ran" {
		t.Fatalf("asked %q", q.Command)
	}
	socket := filepath.Join(l.home, "state", "run", l.trees()[0], "human", "sock")
	if _, err := os.Stat(socket); err != nil {
		matches, _ := filepath.Glob(filepath.Join(l.home, "state", "run", "*", "*"))
		t.Fatalf("%v; there is %v", err, matches)
	}

	// The naive rule would take this very process: same user, outside the tree.
	u, err := control.Dial(socket)
	if err != nil {
		t.Fatalf("the human socket cannot be reached at all, so that nothing is shown: %v", err)
	}
	u.Close()

	told := []reply{answerAt("outside", socket, q.ID, q.Digest, false)}
	// Exited before anything is read of it.
	for range 5 {
		cmd := exec.Command(filepath.Join(l.work, "hostile"), "answer-and-leave", "gone", socket, q.ID, q.Digest)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	// A second tree of the same user.
	other := newLab(t)
	other.hostile()
	second := other.spawn(nil, "./hostile", "answer", "second tree", socket, q.ID, q.Digest)
	if code := second.wait(t, 20*time.Second); code != 0 {
		t.Fatalf("the second tree left with %d: %s", code, second.stderr())
	}
	// Inside the tree.
	if err := os.WriteFile(filepath.Join(l.work, "ask.new"), []byte(socket+" "+q.ID+" "+q.Digest), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Rename(filepath.Join(l.work, "ask.new"), filepath.Join(l.work, "ask"))
	l.up("answered")
	for _, want := range []string{"outside 126 nothing proves", `"second tree","Answer":"126 it is a process of the tree t-`,
		`"agent","Answer":"126 it is a process of the tree t-`, `"daemon","Answer":"126 it is a process of the tree t-`} {
		await(t, 30*time.Second, want, func() bool { return strings.Contains(fmt.Sprint(told)+second.stdout()+r.stdout(), want) })
	}
	if l.there("ran") {
		t.Fatal("the command ran without an answer")
	}
	await(t, 30*time.Second, "nine refusals in the audit", func() bool { return len(l.rowsOf(audit.AnswerRefused)) >= 9 })
	status, tree := l.run("tree", "--json")
	if status != 0 || !strings.Contains(tree, q.ID) {
		t.Errorf("the ask is not open any more: %s", tree)
	}

	// An answer that does not fit is refused too, and leaves the question open.
	a.says(control.Answer{ID: q.ID, Digest: strings.Repeat("0", 64), Decision: "allow_once"})
	a.says(control.Answer{ID: q.ID, Digest: q.Digest, Decision: "allow_once", Offers: []string{"O"}})
	a.says(control.Answer{ID: q.ID, Digest: q.Digest, Decision: "allow"})
	await(t, 30*time.Second, "three more refusals in the audit", func() bool { return len(l.rowsOf(audit.AnswerRefused)) >= 12 })
	if l.there("ran") {
		t.Fatal("the command ran with an answer that does not fit")
	}

	// The same words over the proven connection: the first stands, the second is nothing.
	a.says(*once(q))
	a.says(*no(q))
	if code := r.wait(t, 20*time.Second); code != 0 || !strings.Contains(r.stdout(), "tool 0") || !l.there("ran") {
		t.Fatalf("with a proof: status %d, ran %v\n%s%s", code, l.there("ran"), r.stdout(), r.stderr())
	}
	resolved := l.rowsOf(audit.ApprovalResolved)
	if len(resolved) != 1 || resolved[0].Decision != "allow" || resolved[0].Proof != "inherited" || resolved[0].DecidedBy.Kind != "user" {
		t.Errorf("the audit says %+v", resolved)
	}
}

// run runs the product to its end, outside of every tree.
func (l *lab) run(args ...string) (status int, out string) {
	l.t.Helper()
	r := l.start(args...)
	return r.wait(l.t, 30*time.Second), r.stdout() + r.stderr()
}

// TestTheApproverIsThereFromTheStart: an agent that asks before the operator's
// program has said a word must not be told that nobody can answer.
func TestTheApproverIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"touch *": "ask"}}}`)
	ours, theirs, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	r := l.spawnAs(func(c *exec.Cmd) { c.ExtraFiles = []*os.File{theirs} }, []string{"--approver-fd", "3"}, "sh", "-c", "pioneer-super exec -- touch ran")
	theirs.Close()
	conn, err := control.FromFile(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	time.Sleep(500 * time.Millisecond)
	conn.Send(control.Message{Hello: &control.Hello{Protocol: control.Protocol, Build: "slow"}})
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			t.Fatalf("%v\n%s", err, r.stderr())
		}
		if m.Question != nil {
			conn.Send(control.Message{Answer: once(*m.Question)})
			break
		}
	}
	if code := r.wait(t, 20*time.Second); code != 0 || !l.there("ran") {
		t.Errorf("status %d, ran %v: %s", code, l.there("ran"), r.stderr())
	}

	// One that never speaks, or speaks something else, is told at the start.
	l2 := newLab(t)
	ours, theirs, err = control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	ours.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	r = l2.spawnAs(func(c *exec.Cmd) { c.ExtraFiles = []*os.File{theirs} }, []string{"--approver-fd", "3"}, "touch", "started")
	theirs.Close()
	if code := r.wait(t, 20*time.Second); code != 125 || !strings.Contains(r.stderr(), "--approver-fd") || l2.there("started") {
		t.Errorf("status %d, started %v: %s", code, l2.there("started"), r.stderr())
	}
	ours.Close()
}

// TestApproverIsNoStreamOfTheAgent: the descriptor for answers goes to nobody
// else.
func TestApproverIsNoStreamOfTheAgent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r, _ := l.withApprover(nil, nil, "sh", "-c", "ls /proc/self/fd; pioneer-super exec -- ls /proc/self/fd")
	if code := r.wait(t, 20*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	// 0, 1, 2 and the directory that ls itself reads, twice.
	if got := strings.Fields(r.stdout()); len(got) != 8 {
		t.Errorf("descriptors %v, expected 0 1 2 3 twice", got)
	}
}
