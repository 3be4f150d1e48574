package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/durable"
)

// ErrFull is the error for a row that there is no space for. What it would have
// told is not allowed.
var ErrFull = durable.ErrFull

// reserve is kept free for the rows that tell how things ended: some four
// hundred of usual length.
const reserve = 256 << 10

// Log is the audit of one tree, opened for writing by its supervisor. Its
// methods may be called from several goroutines.
type Log struct {
	tree string
	now  func() time.Time

	mu   sync.Mutex
	file *durable.Appender
	seq  uint64
	prev string // what the next row's Prev is
}

// Genesis is the Prev of a tree's first row.
func Genesis(tree string) string { return digest([]byte("pioneer-super audit 1 " + tree)) }

func digest(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// pastHalf is the Prev of what follows a line that is no row. Such a line does
// not name the one before it, so that both are hashed.
func pastHalf(prev string, line []byte) string {
	return digest(append([]byte(prev+" "), line...))
}

// Open opens the audit of a tree that this process has locked, or begins it. An
// audit that ends in half a line is continued behind a row that says so.
func Open(t *registry.Tree) (*Log, error) { return openLog(t, reserve) }

func openLog(t *registry.Tree, reserve int64) (*Log, error) {
	if !t.Locked() {
		return nil, fmt.Errorf("audit of tree %s: %w", t.ID(), registry.ErrReadOnly)
	}
	l := &Log{tree: t.ID(), now: time.Now, prev: Genesis(t.ID())}
	half, err := l.resume(t.Root())
	if err != nil {
		return nil, err
	}
	l.file, err = durable.OpenAppender(t.Root(), registry.AuditName, reserve)
	if err != nil {
		return nil, err
	}
	if half {
		err = l.Write(Row{Kind: LogRecovered, Reason: "the line before this one was being written when its writer was killed"})
	}
	if err == nil {
		err = durable.SyncDir(t.Root())
	}
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// resume finds where an earlier writer of the file stopped.
func (l *Log) resume(root *os.Root) (half bool, err error) {
	f, err := durable.OpenFile(root, registry.AuditName, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	for line, err := range durable.Lines(f, MaxLine) {
		if err != nil {
			return false, err
		}
		row, err := decode(line)
		// Whether or not its end was written already: the row that tells of it is
		// not there.
		if half = err != nil; half {
			l.prev = pastHalf(l.prev, line.Text)
		} else {
			l.seq, l.prev = row.Seq, digest(line.Text)
		}
	}
	return half, nil
}

// Write writes one row. When it returns nil the row outlives this process; the
// answer of a human, a grant, and the start or end of a session or tree also
// outlive the machine. On any error nothing is recorded, and what the row would
// have told must not take effect.
func (l *Log) Write(r Row) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("audit of tree %s: %w", l.tree, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Seq, r.Prev, r.Tree = l.seq+1, l.prev, l.tree
	r.Time = l.now().UTC().Truncate(time.Millisecond)
	line, err := encode(&r)
	if err != nil {
		return fmt.Errorf("audit of tree %s: %w", l.tree, err)
	}
	need := durable.Ordinary
	if r.final() {
		need = durable.Final
	}
	if err := l.file.Append(line, need, r.synced()); err != nil {
		return fmt.Errorf("audit of tree %s: %w", l.tree, err)
	}
	l.seq, l.prev = r.Seq, digest(line)
	return nil
}

// Sync makes every row so far outlive the machine.
func (l *Log) Sync() error { return l.file.Sync() }

// Head is the hash of the last row, and how many rows there are: what is shown
// when the tree ends, and what Verify takes.
func (l *Log) Head() (head string, rows uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prev, l.seq
}

// Reserved reports whether space is kept for the rows that tell how things end.
// False is a weakness to name: on a full disk the end of the story may be lost.
func (l *Log) Reserved() bool { return l.file.Reserved() }

// Close gives the reserve back. Writing later is an error.
func (l *Log) Close() error { return l.file.Close() }
