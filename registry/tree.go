package registry

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

const (
	journalName = "journal"
	lockName    = "lock"
	// AuditName is the audit's name in a tree's directory.
	AuditName = "audit.jsonl"

	// MaxLine is the longest line of a journal, in bytes, with its checksum and end.
	MaxLine = 64 << 10

	// maxTrees bounds how many directories List looks at.
	maxTrees = 10_000
)

var (
	// ErrNoTree is the error for a tree that is not there.
	ErrNoTree = errors.New("no such tree")
	// ErrHeld is the error of Lock when the tree's supervisor lives.
	ErrHeld = errors.New("the tree has a living supervisor")
	// ErrReadOnly is the error of writing to a tree that this process has not locked.
	ErrReadOnly = errors.New("the tree is not locked by this process")
)

// Tree is one tree's directories. It is made by Create or Open; the zero Tree can
// do nothing. Its methods may be called from several goroutines.
type Tree struct {
	id   string
	root *os.Root // of the tree's state directory, opened once and checked
	run  string

	mu      sync.Mutex
	lock    *flock.Flock // nil unless this process is the tree's supervisor
	hold    io.Closer    // the lock that can be asked for without being taken
	journal *durable.Appender
	// compactAt is the size at which the journal is next compacted.
	compactAt int64
}

// Create makes the directories of a new tree, locks it, and opens its journal.
// The id comes from NewID("t"); one that exists already is an error that is
// fs.ErrExist. The Places have been prepared.
func Create(p Places, id string) (*Tree, error) {
	if !validName(id) {
		return nil, fmt.Errorf("%w %q for a tree", ErrBadID, clip(id))
	}
	trees, err := durable.OpenDir(p.trees())
	if err != nil {
		return nil, err
	}
	defer trees.Close()
	runs, err := durable.OpenDir(p.Run)
	if err != nil {
		return nil, err
	}
	defer runs.Close()
	if err := trees.Mkdir(id, 0o700); err != nil {
		return nil, err
	}
	if err := runs.Mkdir(id, 0o700); err != nil {
		_ = trees.Remove(id)
		return nil, err
	}
	t, err := open(p, trees, id)
	if err != nil {
		return nil, err
	}
	if err := t.Lock(); err != nil {
		t.Close()
		return nil, err
	}
	if err := durable.SyncDir(trees); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Open opens a tree for reading; it needs no supervisor. Lock makes it writable,
// for a successor. A tree that is not there is ErrNoTree.
func Open(p Places, id string) (*Tree, error) {
	if !validName(id) {
		return nil, fmt.Errorf("%w %q for a tree", ErrBadID, clip(id))
	}
	trees, err := openTrees(p)
	if err != nil {
		return nil, err
	}
	if trees == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoTree, id)
	}
	defer trees.Close()
	return open(p, trees, id)
}

// openTrees returns nil without an error if there has never been a tree. The
// state directory itself is checked first: a directory is no safer than the one
// it is in.
func openTrees(p Places) (*os.Root, error) {
	state, err := durable.OpenDir(p.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer state.Close()
	trees, err := durable.OpenIn(state, "trees")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return trees, err
}

func open(p Places, trees *os.Root, id string) (*Tree, error) {
	root, err := durable.OpenIn(trees, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoTree, id)
	}
	if err != nil {
		return nil, err
	}
	return &Tree{id: id, root: root, run: filepath.Join(p.Run, id)}, nil
}

// ID is the tree's id.
func (t *Tree) ID() string { return t.id }

// Dir is the path of the tree's state directory.
func (t *Tree) Dir() string { return t.root.Name() }

// RunDir is the path of the tree's run directory, for sockets and channels. A
// tree that has ended may have none.
func (t *Tree) RunDir() string { return t.run }

// Root is the tree's state directory, open and checked. It is closed by Close.
func (t *Tree) Root() *os.Root { return t.root }

// Lock makes this process the tree's only writer for as long as it lives, ends a
// half line that a crash left in the journal, and opens it for AppendEvent. If
// somebody else is that, the error is ErrHeld. Locking twice does nothing.
func (t *Tree) Lock() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lock != nil {
		return nil
	}
	if err := t.lockFile(); err != nil {
		return err
	}
	journal, err := durable.OpenAppender(t.root, journalName, 0)
	if err == nil && journal.Size() == 0 {
		err = durable.SyncDir(t.root) // its name is new
	}
	if err != nil {
		t.unlock()
		return err
	}
	t.journal, t.compactAt = journal, compactFrom
	return nil
}

func (t *Tree) lockFile() error {
	// Made and checked here, so that flock below only opens what is already good.
	f, err := durable.OpenFile(t.root, lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	lock := flock.New(filepath.Join(t.Dir(), lockName), flock.SetFlag(os.O_RDWR|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
	// Somebody who only looks may hold it for a moment where looking takes it.
	for attempt := 0; ; attempt++ {
		ok, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock of tree %s: %w", t.id, err)
		}
		if ok {
			break
		}
		if attempt == 4 {
			return fmt.Errorf("%w: %s", ErrHeld, t.id)
		}
		time.Sleep(10 * time.Millisecond)
	}
	named, err := t.root.Lstat(lockName)
	if err == nil {
		var locked fs.FileInfo
		if locked, err = lock.Stat(); err == nil && !os.SameFile(named, locked) {
			err = &durable.RefusedError{Path: lock.Path(), Is: "being exchanged", Want: "a file that stays"}
		}
	}
	if err != nil {
		lock.Close()
		return err
	}
	hold, err := holdFile(t.root)
	if err != nil {
		lock.Close()
		return fmt.Errorf("lock of tree %s: %w", t.id, err)
	}
	t.lock, t.hold = lock, hold
	return nil
}

func (t *Tree) unlock() {
	if t.hold != nil {
		t.hold.Close()
	}
	if t.lock != nil {
		t.lock.Close()
	}
	t.hold, t.lock = nil, nil
}

// Locked reports whether this process is the tree's writer.
func (t *Tree) Locked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lock != nil
}

// Alive reports whether the tree has a living supervisor, which is who holds the
// lock; on Linux without taking it even for a moment.
func (t *Tree) Alive() (bool, error) {
	if t.Locked() {
		return true, nil
	}
	f, err := durable.OpenFile(t.root, lockName, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return held(f)
}

// AppendEvent writes one line of the journal. It has been written when it
// returns nil, and outlives this process; a durable one outlives the machine
// (start and end of a session, what a human answered). On any error nothing of
// it is recorded, and what it would have told must not take effect.
func (t *Tree) AppendEvent(e Event, durable bool) error {
	line, err := encodeEvent(e)
	if err != nil {
		return fmt.Errorf("journal of tree %s: %w", t.id, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.journal == nil {
		return fmt.Errorf("journal of tree %s: %w", t.id, ErrReadOnly)
	}
	if err := t.journal.Append(line, 0, durable); err != nil {
		return err
	}
	if t.journal.Size() >= t.compactAt {
		// The event is recorded whether or not this works. If it does not, it is
		// tried again when the journal has doubled.
		_ = t.compact()
		t.compactAt = max(compactFrom, 2*t.journal.Size())
	}
	return nil
}

func encodeEvent(e Event) ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if e.Time == 0 {
		e.Time = time.Now().UnixMilli()
	}
	text, err := json.Marshal(e.bounded(), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	line := durable.Frame(text)
	if len(line)+1 > MaxLine {
		return nil, fmt.Errorf("event %s has %d bytes, at most %d are kept", e.Kind, len(line)+1, MaxLine)
	}
	return line, nil
}

// Close ends the journal and gives the lock up.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if t.journal != nil {
		err = t.journal.Close()
		t.journal = nil
	}
	t.unlock()
	return errors.Join(err, t.root.Close())
}

// TreeInfo is a tree as List finds it.
type TreeInfo struct {
	ID    string `json:"tree"`
	Alive bool   `json:"alive"`
	// Started is in milliseconds since 1970: what the journal says, else the
	// directory's time.
	Started int64      `json:"started"`
	Facts   *TreeFacts `json:"facts,omitzero"`
}

// List returns the trees of this user, newest first, without any supervisor. A
// directory that cannot be believed or read is among the problems, and the
// others are returned all the same.
func List(p Places) ([]TreeInfo, []error) {
	trees, err := openTrees(p)
	if err != nil {
		return nil, []error{err}
	}
	if trees == nil {
		return nil, nil
	}
	defer trees.Close()
	dir, err := trees.Open(".")
	if err != nil {
		return nil, []error{err}
	}
	names, err := dir.Readdirnames(maxTrees + 1)
	dir.Close()
	var problems []error
	if err != nil && !errors.Is(err, io.EOF) {
		problems = append(problems, err)
	}
	if len(names) > maxTrees {
		names = names[:maxTrees]
		problems = append(problems, fmt.Errorf("%s holds more than %d trees, the others are not listed", trees.Name(), maxTrees))
	}
	var list []TreeInfo
	for _, name := range names {
		info, err := inspect(p, trees, name)
		if errors.Is(err, ErrNoTree) {
			continue // removed in between
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b TreeInfo) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(b.ID, a.ID))
	})
	return list, problems
}

func inspect(p Places, trees *os.Root, name string) (TreeInfo, error) {
	if !validName(name) {
		return TreeInfo{}, fmt.Errorf("%s: %w %q", trees.Name(), ErrBadID, clip(name))
	}
	t, err := open(p, trees, name)
	if err != nil {
		return TreeInfo{}, err
	}
	defer t.Close()
	info := TreeInfo{ID: name}
	if info.Alive, err = t.Alive(); err != nil {
		return TreeInfo{}, err
	}
	dir, err := t.root.Stat(".")
	if err != nil {
		return TreeInfo{}, err
	}
	info.Started = dir.ModTime().UnixMilli()
	f, err := durable.OpenFile(t.root, journalName, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return info, nil
	}
	if err != nil {
		return TreeInfo{}, err
	}
	defer f.Close()
	// The first line is the tree's start, unless it is damaged.
	for line, err := range durable.Lines(f, MaxLine) {
		if err != nil {
			return TreeInfo{}, err
		}
		if e, err := decodeEvent(line); err == nil && e.Kind == TreeStarted {
			info.Started, info.Facts = e.Time, e.Tree
		}
		break
	}
	return info, nil
}

// Remove deletes the directories of a tree that is over. A tree with a living
// supervisor is ErrHeld.
func Remove(p Places, id string) error {
	t, err := Open(p, id)
	if err != nil {
		return err
	}
	defer t.Close()
	// Locked while it goes, so that no successor takes over what is vanishing.
	if err := t.Lock(); err != nil {
		return err
	}
	trees, err := openTrees(p)
	if err != nil {
		return err
	}
	defer trees.Close()
	runs, err := durable.OpenDir(p.Run)
	if err == nil {
		err = runs.RemoveAll(id)
		runs.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return trees.RemoveAll(id)
}
