package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

const (
	exitSuffix = ".exit"
	maxExit    = 8 << 10
	// maxExitFiles bounds one fold; what is over is folded by the next.
	maxExitFiles = 10_000
)

// ExitRecord is what a keeper leaves of its command: the only thing that it
// writes, in a file of its own.
type ExitRecord struct {
	Command string  `json:"command"`
	Time    int64   `json:"time"` // milliseconds since 1970
	Exit    Exit    `json:"exit"`
	Keeper  Process `json:"keeper,omitzero"`
}

// WriteExit writes <command>.exit into the directory that dir is open on, a
// tree's state directory. The keeper that writes it holds the directory and no
// path. The file is there as a whole or not at all, and never written twice: a
// second one is fs.ErrExist.
func WriteExit(dir *os.File, r ExitRecord) error {
	if !validName(r.Command) {
		return fmt.Errorf("%w %q for a command", ErrBadID, clip(r.Command))
	}
	r.Exit.Why = shorten(r.Exit.Why)
	text, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	line := append(durable.Frame(text), '\n')
	if len(line) > maxExit {
		return fmt.Errorf("exit of %s has %d bytes, at most %d are kept", r.Command, len(line), maxExit)
	}
	return publish(dir, r.Command+exitSuffix, line)
}

// FoldExits writes into the journal what keepers left in <command>.exit files,
// durably, and then removes the files. It returns what was new. A file that
// cannot be believed (a link, a pipe, too long, damaged, of another or an unknown
// command) stays where it is and is one of the problems. Only the tree's writer
// may fold.
func (t *Tree) FoldExits() ([]ExitRecord, []error) {
	if !t.Locked() {
		return nil, []error{fmt.Errorf("exits of tree %s: %w", t.id, ErrReadOnly)}
	}
	dir, err := t.root.Open(".")
	if err != nil {
		return nil, []error{err}
	}
	names, err := dir.Readdirnames(maxExitFiles)
	dir.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, []error{err}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, exitSuffix) })
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	// Damage elsewhere in the journal is not for this call to report.
	state, _ := t.State()
	var folded []ExitRecord
	var problems []error
	for _, name := range names {
		r, isNew, err := t.foldExit(state, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("exit file %s of tree %s: %w", clip(name), t.id, err))
		} else if isNew {
			folded = append(folded, r)
		}
	}
	return folded, problems
}

func (t *Tree) foldExit(state TreeState, name string) (r ExitRecord, isNew bool, err error) {
	raw, err := durable.ReadFile(t.root, name, maxExit)
	if err != nil {
		return r, false, err
	}
	text, err := durable.Unframe([]byte(strings.TrimSuffix(string(raw), "\n")))
	if err != nil {
		return r, false, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, false, err
	}
	if r.Command+exitSuffix != name {
		return r, false, fmt.Errorf("it speaks of command %q", clip(r.Command))
	}
	command := state.Command(r.Command)
	if command == nil {
		return r, false, errors.New("the journal knows no such command")
	}
	if command.State != Ended {
		err := t.AppendEvent(Event{Time: r.Time, Kind: CommandEnded, Session: command.Session, Command: r.Command, Exit: &r.Exit}, true)
		if err != nil {
			return r, false, err
		}
		isNew = true
	}
	if err := t.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, isNew, err
	}
	return r, isNew, nil
}
