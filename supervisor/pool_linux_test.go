package supervisor

import (
	"errors"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// keeperPair is the supervisor's side of a keeper that this test plays.
func keeperPair(t *testing.T) (*keeperProcess, *control.Conn) {
	t.Helper()
	a, b, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := control.FromFile(a)
	if err != nil {
		t.Fatal(err)
	}
	its, err := control.FromFile(b)
	if err != nil {
		t.Fatal(err)
	}
	k := &keeperProcess{conn: ours, found: make(chan keeper.File, 1), gone: make(chan struct{}), reports: make(chan keeper.Report, 8)}
	k.within = rpcTimeout
	go k.read()
	t.Cleanup(func() { ours.Close(); its.Close(); <-k.gone })
	return k, its
}

func TestFaultKeeperIsGone(t *testing.T) {
	k, its := keeperPair(t)
	time.AfterFunc(50*time.Millisecond, func() { its.Close() })
	begun := time.Now()
	if _, err := k.question(prepareOrder("/")); !errors.Is(err, errKeeperGone) || time.Since(begun) > rpcTimeout/2 {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}

// TestALateAnswerIsNoAnswerToTheNext: a file system of the child's can hold an
// answer back for as long as it likes.
func TestALateAnswerIsNoAnswerToTheNext(t *testing.T) {
	k, its := keeperPair(t)
	k.within = 50 * time.Millisecond
	if _, err := k.question(lookupOrder("slow", "/bin", false)); err == nil {
		t.Fatal("answered by nobody")
	}
	if err := its.Send(keeper.Report{Found: &keeper.File{Kind: "file", Path: "/bin/slow"}}); err != nil {
		t.Fatal(err)
	}
	if f, err := k.question(lookupOrder("next", "/bin", false)); err == nil {
		t.Errorf("the next question was answered with %+v", f)
	}
}
