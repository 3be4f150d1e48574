package registry

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

// journalMachine drives a tree's journal against a model that keeps the events
// in memory. Property: after every step, crashes and damage included, what the
// journal tells is what the model's surviving events tell.
type journalMachine struct {
	places Places
	tree   *Tree
	id     string
	events []Event // acknowledged and not damaged, in order
	bad    int     // lines that damage has made useless
	next   int
	steps  int

	compacted bool // lines that tell nothing are then gone
}

func (m *journalMachine) read(t *rapid.T) string {
	got, _ := m.tree.State()
	got.Bad, got.Lines = 0, 0
	return state(t, got)
}

func (m *journalMachine) append(t *rapid.T, e Event) {
	m.next++
	e.Time = int64(m.next)
	if err := m.tree.AppendEvent(e, rapid.IntRange(0, 40).Draw(t, "durable") == 40); err != nil {
		t.Fatal(err)
	}
	m.events = append(m.events, e)
}

// pick draws an id that may or may not have been used, so that events that do
// not fit the state are drawn as well.
func pick(t *rapid.T, kind string) string {
	return fmt.Sprintf("%s-%d", kind, rapid.IntRange(0, 5).Draw(t, kind))
}

func (m *journalMachine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"startTree": func(t *rapid.T) { m.append(t, Event{Kind: TreeStarted, Tree: &TreeFacts{Cwd: "/"}}) },
		"endTree":   func(t *rapid.T) { m.append(t, Event{Kind: TreeEnded, Reason: "over"}) },
		"startSession": func(t *rapid.T) {
			parent := ""
			if rapid.Bool().Draw(t, "child") {
				parent = pick(t, "s")
			}
			m.append(t, Event{Kind: SessionStarted, Session: pick(t, "s"), Starts: &SessionFacts{Parent: parent, Mode: "supervised"}})
		},
		"state": func(t *rapid.T) {
			m.append(t, Event{Kind: SessionState, Session: pick(t, "s"), State: rapid.SampledFrom([]State{Starting, Running, Waiting, Stopping}).Draw(t, "state")})
		},
		"endSession": func(t *rapid.T) {
			m.append(t, Event{Kind: SessionEnded, Session: pick(t, "s"), Exit: &Exit{Known: true, Code: 1}})
		},
		"startCommand": func(t *rapid.T) {
			m.append(t, Event{Kind: CommandStarted, Session: pick(t, "s"), Command: pick(t, "c"), Runs: &CommandFacts{Agent: rapid.Bool().Draw(t, "agent"), Text: "x\ny"}})
		},
		"leaveCommand": func(t *rapid.T) {
			m.append(t, Event{Kind: CommandLeft, Command: pick(t, "c"), Exit: &Exit{Known: true, Code: 2}})
		},
		"endCommand": func(t *rapid.T) {
			m.append(t, Event{Kind: CommandEnded, Command: pick(t, "c"), Exit: &Exit{Known: rapid.Bool().Draw(t, "known")}})
		},
		"ask": func(t *rapid.T) {
			m.append(t, Event{Kind: AskOpened, Session: pick(t, "s"), Ask: pick(t, "perm"), Asks: &AskFacts{Value: "x"}})
		},
		"answer": func(t *rapid.T) {
			m.append(t, Event{Kind: AskClosed, Session: pick(t, "s"), Ask: pick(t, "perm"), Answer: &Answer{Outcome: rapid.SampledFrom([]string{"allowed", "denied", "unavailable", "withdrawn"}).Draw(t, "outcome")}})
		},
		"compact": func(t *rapid.T) {
			before := m.read(t)
			if err := m.tree.Compact(); err != nil {
				t.Fatal(err)
			}
			if after := m.read(t); after != before {
				t.Fatalf("compaction made of\n%s\nthis\n%s", before, after)
			}
			m.compacted = true
		},
		"reopen":    func(t *rapid.T) { m.reopen(t) },
		"crash":     m.crash,
		"scribble":  m.scribble,
		"refuseBad": func(t *rapid.T) { m.refuse(t) },
		"": func(t *rapid.T) {
			// Reading all of it after every step takes too long.
			if m.steps++; m.steps%5 == 0 {
				m.check(t)
			}
		},
	}
}

func (m *journalMachine) reopen(t *rapid.T) {
	if err := m.tree.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.tree, err = Open(m.places, m.id); err != nil {
		t.Fatal(err)
	}
	if err := m.tree.Lock(); err != nil {
		t.Fatal(err)
	}
}

// crash loses the writer in the middle of a line that was never acknowledged.
func (m *journalMachine) crash(t *rapid.T) {
	line, err := encodeEvent(Event{Time: 1, Kind: TreeEnded, Reason: "never told"})
	if err != nil {
		t.Fatal(err)
	}
	m.tree.Close()
	m.damage(t, line[:rapid.IntRange(1, len(line)-1).Draw(t, "written")])
	m.reopen(t)
}

// scribble puts a line of noise where the journal ends.
func (m *journalMachine) scribble(t *rapid.T) {
	m.tree.Close()
	noise := rapid.SliceOfN(rapid.ByteRange(1, 255), 1, 40).Draw(t, "noise")
	m.damage(t, slices.DeleteFunc(noise, func(b byte) bool { return b == '\n' }))
	m.reopen(t)
}

func (m *journalMachine) damage(t *rapid.T, text []byte) {
	f, err := os.OpenFile(filepath.Join(m.places.trees(), m.id, journalName), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 {
		m.bad++
	}
}

func (m *journalMachine) refuse(t *rapid.T) {
	if err := m.tree.AppendEvent(Event{Kind: SessionState, Session: "s-1", State: "root"}, false); err == nil {
		t.Fatal("a bad event was written")
	}
}

func (m *journalMachine) check(t *rapid.T) {
	want, misfits := newState(), 0
	for _, e := range m.events {
		want.Lines++
		if want.apply(roundTrip(t, e)) != nil {
			misfits++
		}
	}
	got, problems := m.tree.State()
	if m.compacted {
		want.Lines = got.Lines
	} else if got.Bad != m.bad+misfits || len(problems) != min(got.Bad, maxProblems) && got.Bad <= maxProblems {
		t.Fatalf("%d bad lines and %d problems, expected %d: %v", got.Bad, len(problems), m.bad+misfits, problems)
	}
	want.Bad, want.ID, want.Alive = got.Bad, m.id, true
	if a, b := state(t, got), state(t, want); a != b {
		t.Fatalf("the journal tells\n%s\nthe model\n%s", a, b)
	}
	m.invariants(t, got)
}

// invariants hold of every state, whatever led to it.
func (m *journalMachine) invariants(t *rapid.T, s TreeState) {
	seen := map[string]bool{}
	var walk func(nodes []*SessionNode)
	walk = func(nodes []*SessionNode) {
		for _, node := range nodes {
			if seen[node.ID] {
				t.Fatalf("session %s stands in the tree twice", node.ID)
			}
			seen[node.ID] = true
			if node.State == Ended && len(node.Asks) > 0 {
				t.Fatalf("session %s has ended and asks", node.ID)
			}
			walk(node.Children)
		}
	}
	walk(s.Sessions)
	if len(seen) != len(s.sessions) {
		t.Fatalf("%d of %d sessions stand in the tree", len(seen), len(s.sessions))
	}
	for id := range s.asks {
		if s.answered[id] {
			t.Fatalf("request %s is open and answered", id)
		}
	}
}

func roundTrip(t *rapid.T, e Event) Event {
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back Event
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func state(t *rapid.T, s TreeState) string {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := json.Marshal(s.Answers)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + string(answers)
}

func TestJournalAgainstModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := &journalMachine{places: p, id: NewID("t")}
		var err error
		if m.tree, err = Create(p, m.id); err != nil {
			t.Fatal(err)
		}
		defer func() {
			m.tree.Close()
			if err := Remove(p, m.id); err != nil {
				t.Fatal(err)
			}
		}()
		t.Repeat(m.actions())
		m.check(t)
	})
}

func FuzzReplay(f *testing.F) {
	for _, e := range []Event{
		{Time: 1, Kind: TreeStarted, Tree: &TreeFacts{}},
		{Time: 2, Kind: SessionStarted, Session: "s-1", Starts: &SessionFacts{Parent: "s-1"}},
		{Time: 3, Kind: AskClosed, Session: "s-1", Ask: "a", Answer: &Answer{Outcome: "denied"}},
	} {
		line, err := encodeEvent(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(line, '\n'), string(line[9:]))
	}
	f.Add([]byte("\n\n\x00"), `{"event":"session_state","session":"s-1","state":"ended"}`)
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		// Noise as it comes, and text that has the right checksum.
		framed, err := encodeEvent(Event{Time: 1, Kind: SessionStarted, Session: "s-1", Starts: &SessionFacts{}})
		if err != nil {
			t.Fatal(err)
		}
		journal := append(append(framed, '\n'), raw...)
		journal = append(append(journal, '\n'), frameText(text)...)
		got, _ := read(bytes.NewReader(journal), "journal")
		if got.Session("s-1") == nil {
			t.Fatal("a good line was lost")
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}

func frameText(text string) []byte {
	return durable.Frame([]byte(text))
}
