package audit

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/registry"
)

const writerState, writerRun, writerTree = "PIONEER_TEST_WRITER_STATE", "PIONEER_TEST_WRITER_RUN", "PIONEER_TEST_WRITER_TREE"

// TestFaultKilledWriterLosesNothing kills a supervisor's writer with SIGKILL at random
// moments, again and again on the same tree. What it had acknowledged is in
// journal and audit, once and in order; nothing that follows is damaged; the
// chain verifies against the last head.
func TestFaultKilledWriterLosesNothing(t *testing.T) {
	if os.Getenv(writerTree) != "" {
		writeUntilKilled(t)
		return
	}
	p := registry.Places{State: t.TempDir() + "/state", Run: t.TempDir() + "/run"}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	tree, err := registry.Create(p, registry.NewID("t"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.AppendEvent(registry.Event{Kind: registry.SessionStarted, Session: "s-1", Starts: &registry.SessionFacts{}}, true); err != nil {
		t.Fatal(err)
	}
	tree.Close()
	var acknowledged []string
	const rounds = 12
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFaultKilledWriterLosesNothing$")
		cmd.Env = append(os.Environ(), writerState+"="+p.State, writerRun+"="+p.Run, writerTree+"="+tree.ID(), fmt.Sprint("PIONEER_TEST_ROUND=", round))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatalf("round %d: the writer wrote nothing: %v", round, cmd.Wait())
		}
		acknowledged = append(acknowledged, lines.Text())
		kill := time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { cmd.Process.Kill() })
		for lines.Scan() {
			acknowledged = append(acknowledged, lines.Text())
		}
		kill.Stop()
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("round %d: the writer ended by itself: %v", round, err)
		}
	}
	tree, err = registry.Open(p, tree.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if alive, err := tree.Alive(); alive || err != nil {
		t.Fatalf("the lock outlived its holder: %v, %v", alive, err)
	}
	if err := tree.Lock(); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, tree)
	write(t, l, Row{Kind: TreeEnded})
	head, _ := l.Head()
	report, err := Verify(pathOf(tree), tree.ID(), head)
	if err != nil || report.Torn > rounds {
		t.Fatalf("%+v, %v", report, err)
	}
	rows, _ := Read(pathOf(tree))
	var told []string
	for _, row := range rows {
		if row.Kind == LimitReached {
			told = append(told, row.Reason)
		}
	}
	// The one that was being written when it was killed may be there as well.
	at := 0
	for _, reason := range told {
		if at < len(acknowledged) && reason == acknowledged[at] {
			at++
		}
	}
	if at != len(acknowledged) || len(told) > len(acknowledged)+rounds {
		t.Fatalf("%d of %d acknowledged rows are there, of %d", at, len(acknowledged), len(told))
	}
	state, problems := tree.State()
	if state.Bad > rounds || len(state.Session("s-1").Commands) == 0 || state.Session("s-1").Ran < len(acknowledged)-1 {
		t.Fatalf("the journal tells of %d commands, %d were acknowledged, problems %v", state.Session("s-1").Ran, len(acknowledged), problems)
	}
	t.Logf("%d rows acknowledged, %d there, %d torn, %d bad lines", len(acknowledged), len(told), report.Torn, state.Bad)
}

func writeUntilKilled(t *testing.T) {
	tree, err := registry.Open(registry.Places{State: os.Getenv(writerState), Run: os.Getenv(writerRun)}, os.Getenv(writerTree))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Lock(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(tree)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		id := os.Getenv("PIONEER_TEST_ROUND") + "-" + strconv.Itoa(n)
		write(t, l, Row{Kind: LimitReached, Reason: id, Value: "some text, so that a row has a length"})
		for _, e := range []registry.Event{
			{Kind: registry.CommandStarted, Session: "s-1", Command: "c-" + id, Runs: &registry.CommandFacts{Text: id}},
			{Kind: registry.CommandEnded, Command: "c-" + id, Exit: &registry.Exit{}},
		} {
			if err := tree.AppendEvent(e, n%10 == 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stdout.WriteString(id + "\n"); err != nil {
			t.Fatal(err)
		}
	}
}
