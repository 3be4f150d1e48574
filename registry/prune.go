package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

// ErrNotOver is the error of Prune for a tree of which something may live.
var ErrNotOver = errors.New("not proven to be over")

// Prune deletes what is kept of a tree that is over: its run directory, journal and
// exit files. Its audit stays, unless audit says that it goes as well. A tree whose
// supervisor lives is ErrHeld. One whose supervisor was lost is over if gone proves of
// every process that the journal names that it has ended, and else ErrNotOver.
//
// It may be cut short at any point and called again: the journal goes last, so that
// as long as something else is there it still tells what this was.
func Prune(p Places, id string, audit bool, gone func(Process) bool) error {
	t, err := Open(p, id)
	if err != nil {
		return err
	}
	defer t.Close()
	// Held while it goes, so that no successor takes over what is vanishing.
	if err := t.Lock(); err != nil {
		return err
	}
	state, _ := t.State()
	if err := state.over(gone); err != nil {
		return fmt.Errorf("tree %s: %w", id, err)
	}
	if audit {
		t.Close()
		return Remove(p, id)
	}
	runs, err := durable.OpenDir(p.Run)
	if err == nil {
		err = runs.RemoveAll(id)
		runs.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := t.root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		switch name {
		case AuditName, lockName, journalName:
			continue
		}
		if err := t.root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(t.root); err != nil {
		return err
	}
	if err := t.root.Remove(journalName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(t.root)
}

// over says why it is not proven that nothing of a tree lives. Its supervisor does
// not: whoever calls holds its lock.
func (s *TreeState) over(gone func(Process) bool) error {
	if s.Ended != 0 || s.Facts == nil && len(s.sessions) == 0 {
		return nil
	}
	if s.Facts == nil {
		return fmt.Errorf("%w: the beginning of its journal cannot be read", ErrNotOver)
	}
	named := []Process{s.Facts.Supervisor, s.Facts.Front}
	for _, c := range s.commands {
		if c.Ended == 0 {
			named = append(named, c.Keeper)
		}
	}
	for _, p := range named {
		if p.PID > 0 && !gone(p) {
			return fmt.Errorf("%w: process %d of it may live", ErrNotOver, p.PID)
		}
	}
	return nil
}
