package registry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

func busyTree(t testing.TB, sessions, commands int) *Tree {
	t.Helper()
	dir := t.TempDir()
	p := Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	tree, err := Create(p, NewID("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	say := func(e Event) {
		if err := tree.AppendEvent(e, false); err != nil {
			t.Fatal(err)
		}
	}
	say(Event{Kind: TreeStarted, Tree: &TreeFacts{Cwd: "/src"}})
	for s := range sessions {
		session := fmt.Sprint("s-", s)
		parent := ""
		if s > 0 {
			parent = fmt.Sprint("s-", (s-1)/2)
		}
		say(Event{Kind: SessionStarted, Session: session, Starts: &SessionFacts{Parent: parent, Agent: "pi", Mode: "supervised", Strength: "enforced"}})
		say(Event{Kind: AskOpened, Session: session, Ask: "perm-open-" + session, Asks: &AskFacts{Surface: "bash", Value: "make"}})
		for c := range commands {
			command := fmt.Sprint("c-", s, "-", c)
			say(Event{Kind: CommandStarted, Session: session, Command: command, Runs: &CommandFacts{Agent: c == 0, Text: "git status", Leader: Process{PID: 1000*s + c}}})
			say(Event{Kind: AskClosed, Session: session, Ask: "perm-" + command, Answer: &Answer{Outcome: "allowed"}})
			if c%10 != 0 {
				say(Event{Kind: CommandEnded, Command: command, Exit: &Exit{Known: true}})
			}
		}
	}
	return tree
}

func told(t *testing.T, tree *Tree) string {
	t.Helper()
	s, problems := tree.State()
	if problems != nil {
		t.Fatal(problems)
	}
	s.Lines = 0
	text, err := json.Marshal([]any{s, s.Answers})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFaultCompaction(t *testing.T) {
	t.Parallel()
	tree := busyTree(t, 4, 700)
	before, size := told(t, tree), tree.journal.Size()
	// What a crash has left of an earlier compaction is in nobody's way, a link
	// to something precious neither.
	precious := filepath.Join(t.TempDir(), "precious")
	left := filepath.Join(tree.Dir(), newJournal)
	for _, plant := range []func() error{
		func() error { return os.WriteFile(left, []byte("half"), 0o600) },
		func() error {
			return errors.Join(os.WriteFile(precious, []byte("kept"), 0o600), os.Symlink(precious, left))
		},
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if err := tree.Compact(); err != nil {
			t.Fatal(err)
		}
		if after := told(t, tree); after != before {
			t.Fatalf("compaction made of\n%s\nthis\n%s", before, after)
		}
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "kept" {
		t.Fatalf("%q, %v", text, err)
	}
	if tree.journal.Size() > size*3/4 {
		t.Errorf("%d bytes became %d", size, tree.journal.Size())
	}
	// If the new journal cannot be made, the old one goes on.
	if err := errors.Join(os.MkdirAll(filepath.Join(left, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := tree.Compact(); err == nil {
		t.Fatal("a directory was taken for a file")
	}
	if err := tree.AppendEvent(Event{Kind: SessionStarted, Session: "s-later", Starts: &SessionFacts{}}, true); err != nil {
		t.Fatal(err)
	}
	if s, _ := tree.State(); s.Session("s-later") == nil {
		t.Fatal("a line went to the journal that nobody reads")
	}
	tree.Close()
	if err := tree.Compact(); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("compaction without the lock: %v", err)
	}
}

func TestGrownJournalIsCompacted(t *testing.T) {
	t.Parallel()
	tree := busyTree(t, 1, 300)
	size := tree.journal.Size()
	tree.compactAt = size + 1
	before := told(t, tree)
	if err := tree.AppendEvent(Event{Kind: SessionState, Session: "s-0", State: Running}, false); err != nil {
		t.Fatal(err)
	}
	if after := told(t, tree); after != before || tree.journal.Size() >= size || tree.compactAt != compactFrom {
		t.Fatalf("%d bytes became %d, next at %d", size, tree.journal.Size(), tree.compactAt)
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	tree := busyTree(b, 1, 0)
	for b.Loop() {
		if err := tree.AppendEvent(Event{Kind: SessionState, Session: "s-0", State: Running}, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkState1000 reads a tree of a thousand sessions.
func BenchmarkState1000(b *testing.B) {
	tree := busyTree(b, 1000, 2)
	for b.Loop() {
		if s, problems := tree.State(); problems != nil || len(s.order) != 1000 {
			b.Fatal(problems)
		}
	}
}
