package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

const (
	// maxRows bounds what Read keeps in memory.
	maxRows     = 200_000
	maxProblems = 100
)

// ErrTampered is the error of a file that no Log has written as it is.
var ErrTampered = errors.New("the audit was changed")

// lines opens the file at path, which only its owner may write, and yields its
// lines in bounded memory.
func lines(path string) (iter.Seq2[durable.Line, error], io.Closer, error) {
	root, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	f, err := durable.OpenFile(root, filepath.Base(path), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	return durable.Lines(f, MaxLine), f, nil
}

func decode(line durable.Line) (Row, error) {
	var r Row
	if line.Long {
		return r, fmt.Errorf("longer than %d bytes", MaxLine)
	}
	if err := json.Unmarshal(bytes.Clone(line.Text), &r); err != nil {
		return Row{}, err
	}
	return r, r.Check()
}

// Read returns the rows of the audit at path, and a problem for each line that
// is none. It needs no supervisor. It does not verify; Verify does.
func Read(path string) ([]Row, []error) {
	all, f, err := lines(path)
	if err != nil {
		return nil, []error{err}
	}
	defer f.Close()
	return read(all, path)
}

func read(all iter.Seq2[durable.Line, error], path string) ([]Row, []error) {
	var rows []Row
	var problems []error
	for line, err := range all {
		if err != nil {
			return rows, append(problems, err)
		}
		row, err := decode(line)
		if err != nil {
			if len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("%s:%d: %w", path, line.Number, err))
			}
			continue
		}
		if len(rows) == maxRows {
			return rows, append(problems, fmt.Errorf("%s: only its first %d rows were read", path, maxRows))
		}
		rows = append(rows, row)
	}
	return rows, problems
}

// WriteJSON copies the rows of the audit at path to w as they are, a line each.
// A line that is no row is left out and is among the problems; in what is
// written, no character is one that a terminal obeys, whoever wrote the file.
func WriteJSON(w io.Writer, path string) []error {
	all, f, err := lines(path)
	if err != nil {
		return []error{err}
	}
	defer f.Close()
	var problems []error
	for line, err := range all {
		if err != nil {
			return append(problems, err)
		}
		if _, err := decode(line); err != nil {
			if len(problems) < maxProblems {
				problems = append(problems, fmt.Errorf("%s:%d: %w", path, line.Number, err))
			}
			continue
		}
		if _, err := w.Write(append(printable(bytes.Clone(line.Text)), '\n')); err != nil {
			return append(problems, err)
		}
	}
	return problems
}

// Report is what Verify found.
type Report struct {
	Rows int    `json:"rows"`
	Head string `json:"head"` // of the file as it is now
	// Torn counts half lines that a crash left and a later row owns up to.
	Torn int `json:"torn,omitzero"`
	// HeadRow is the row that the given head belongs to: the last one unless the
	// tree went on. 0: no head was given, and a whole new chain would verify too.
	HeadRow int `json:"headRow,omitzero"`
}

// Verify checks the chain of the audit at path, which is of tree, and, unless
// head is empty, that head is in it. Any change of a line, and any line that was
// left out, put in or moved, is an error that is ErrTampered and names the line.
func Verify(path, tree, head string) (Report, error) {
	all, f, err := lines(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	return verify(all, path, tree, head)
}

func verify(all iter.Seq2[durable.Line, error], path, tree, head string) (Report, error) {
	report := Report{Head: Genesis(tree)}
	var seq uint64
	tampered := func(number int, format string, args ...any) error {
		return fmt.Errorf("%w: %s:%d: %s", ErrTampered, path, number, fmt.Sprintf(format, args...))
	}
	torn := 0 // lines just before that are no rows
	for line, err := range all {
		if err != nil {
			return report, err
		}
		row, err := decode(line)
		switch {
		case err != nil:
			// Half a line, and if the writer was killed again while it told of it,
			// another; the next row must say so.
			torn++
			report.Head = pastHalf(report.Head, line.Text)
			continue
		case row.Prev != report.Head:
			return report, tampered(line.Number, "it follows another line than the one before it")
		case row.Seq != seq+1:
			return report, tampered(line.Number, "it is number %d, expected %d", row.Seq, seq+1)
		case row.Tree != tree:
			return report, tampered(line.Number, "it is of tree %q, expected %q", row.Tree, tree)
		case (torn != 0) != (row.Kind == LogRecovered):
			return report, tampered(line.Number, "a half line and the row that tells of it do not go together")
		}
		report.Torn += torn
		torn = 0
		seq, report.Head = row.Seq, digest(line.Text)
		report.Rows++
		if report.Head == head {
			report.HeadRow = report.Rows
		}
	}
	report.Torn += torn // a tree that was killed and never taken over ends so
	if head != "" && report.HeadRow == 0 {
		return report, fmt.Errorf("%w: %s: no row has the head %.64q", ErrTampered, path, head)
	}
	return report, nil
}
