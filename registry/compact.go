package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

const (
	// compactFrom is the size in bytes below which a journal is left as it is.
	compactFrom = 16 << 20
	newJournal  = journalName + ".new"
)

// Compact writes the journal anew with only the lines that still tell something;
// what it tells stays the same. AppendEvent does it by itself when the journal
// has grown. A crash at any moment leaves the old journal or the new one whole.
// Only the tree's writer may compact.
func (t *Tree) Compact() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.journal == nil {
		return fmt.Errorf("journal of tree %s: %w", t.id, ErrReadOnly)
	}
	return t.compact()
}

func (t *Tree) compact() error {
	state, _ := replay(t.root)
	if err := t.root.Remove(newJournal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by a crash
	}
	f, err := durable.OpenFile(t.root, newJournal, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	err = writeEvents(f, state.events())
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = t.root.Remove(newJournal)
		return err
	}
	// Readers that have the old one open go on reading it; it tells the same.
	if err := t.root.Rename(newJournal, journalName); err != nil {
		return err
	}
	old := t.journal
	t.journal, err = durable.OpenAppender(t.root, journalName, 0)
	if err != nil {
		// Nothing may be appended to a file that nobody reads any more.
		t.journal = nil
		return errors.Join(err, old.Close())
	}
	return errors.Join(old.Close(), durable.SyncDir(t.root))
}

func writeEvents(f *os.File, events []Event) error {
	var batch []byte
	for _, e := range events {
		line, err := encodeEvent(e)
		if err != nil {
			return err
		}
		batch = append(append(batch, line...), '\n')
		if len(batch) >= 1<<20 {
			if _, err := f.Write(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	_, err := f.Write(batch)
	return err
}

// events are the fewest that lead to s: applied in order to an empty state, they
// give s again.
func (s *TreeState) events() []Event {
	var out []Event
	if s.Facts != nil {
		out = append(out, Event{Time: s.Started, Kind: TreeStarted, Tree: s.Facts})
	}
	if s.Ended != 0 {
		out = append(out, Event{Time: s.Ended, Kind: TreeEnded, Reason: s.Reason})
	}
	for _, node := range s.order {
		out = append(out, Event{Time: node.Started, Kind: SessionStarted, Session: node.ID, Starts: &node.SessionFacts})
		for _, ask := range node.Asks {
			out = append(out, Event{Time: ask.Since, Kind: AskOpened, Session: node.ID, Command: ask.Command, Ask: ask.ID, Asks: &ask.AskFacts})
		}
	}
	for _, answer := range s.Answers {
		out = append(out, Event{Time: answer.Time, Kind: AskClosed, Session: answer.Session, Ask: answer.ID, Answer: &answer.Answer})
	}
	for _, node := range s.order {
		for _, c := range node.Commands {
			out = append(out, Event{Time: c.Started, Kind: CommandStarted, Session: node.ID, Command: c.ID, Runs: &c.CommandFacts})
			switch c.State {
			case Background:
				out = append(out, Event{Time: c.Started, Kind: CommandLeft, Session: node.ID, Command: c.ID, Exit: c.Exit})
			case Ended:
				out = append(out, Event{Time: c.Ended, Kind: CommandEnded, Session: node.ID, Command: c.ID, Exit: c.Exit})
			}
		}
	}
	// Last, since the events above have counted again what they tell of.
	for _, node := range s.order {
		out = append(out, Event{Time: node.Started, Kind: SessionSummed, Session: node.ID, Exit: node.Exit, Sum: &Sum{
			State: node.State, PID: node.PID, Ended: node.Ended, Ran: node.Ran, Allowed: node.Allowed, Denied: node.Denied,
		}})
	}
	return out
}
