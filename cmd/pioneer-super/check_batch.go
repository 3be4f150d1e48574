package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/tailscale/hujson"

	"github.com/getpioneer/pioneer-super/policy"
)

// maxBatchLine bounds one question, in bytes.
const maxBatchLine = 1 << 20

// batch answers one question for each line, in order, as each line arrives. A line
// that is no question gets an answer that says so.
func (k *checker) batch(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, 64<<10)
	out := bufio.NewWriter(w)
	for number := 1; ; number++ {
		line, long, err := readLine(in, maxBatchLine)
		if err != nil && !errors.Is(err, io.EOF) {
			return exit(125, "line %d: %v", number, err)
		}
		if len(bytes.TrimSpace(line)) > 0 || long {
			ans := k.line(fmt.Sprintf("line %d", number), line, long)
			if err := printJSON(out, ans, false); err != nil {
				return exit(125, "line %d: %v", number, err)
			}
			// Whoever asks may wait for this answer before the next question.
			if err := out.Flush(); err != nil {
				return exit(125, "standard output: %v", err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads one line without its end. Of a line over the limit it keeps
// nothing, and the next call continues behind it.
func readLine(in *bufio.Reader, limit int) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > limit {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), long, err
		}
	}
}

// shellQuestion is a line about shell text.
type shellQuestion struct {
	ID      string `json:"id"`
	Shell   string `json:"shell"`
	Dialect string `json:"dialect"`
	Cwd     string `json:"cwd"`
}

func (k *checker) line(name string, line []byte, long bool) answer {
	if long {
		return refused("", fmt.Errorf("%s: more than %d bytes", name, maxBatchLine))
	}
	if isShellQuestion(line) {
		var q shellQuestion
		if err := json.Unmarshal(line, &q, json.RejectUnknownMembers(true)); err != nil {
			return refused(idOf(line), fmt.Errorf("%s: %w, expected \"shell\" and optionally \"dialect\", \"cwd\", \"id\"", name, err))
		}
		if q.Dialect == "" {
			q.Dialect = "bash"
		}
		dialect, err := parseDialect(q.Dialect)
		if err != nil {
			return refused(q.ID, fmt.Errorf("%s: dialect: %w", name, err))
		}
		if q.Cwd != "" && q.Cwd[0] != '/' {
			return refused(q.ID, fmt.Errorf("%s: cwd %q, expected an absolute path", name, q.Cwd))
		}
		return k.shell(policy.Question{ID: q.ID, Cwd: q.Cwd}, q.Shell, dialect)
	}
	q, err := policy.ParseQuestion(name, line)
	if err != nil {
		if q.ID == "" {
			q.ID = idOf(line)
		}
		var problems policy.Problems
		if !errors.As(err, &problems) {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return refused(q.ID, err)
	}
	if q.Agent != "" {
		return refused(q.ID, fmt.Errorf("%s: agent %q: one batch is asked of one authority, expected the flag --agent", name, q.Agent))
	}
	return k.question(q)
}

// isShellQuestion says whether the line is an object with a member "shell".
func isShellQuestion(line []byte) bool {
	_, ok := member(line, "shell")
	return ok
}

// idOf finds the id of a line that is no question otherwise, so that the answer
// can be told apart.
func idOf(line []byte) string {
	v, ok := member(line, "id")
	if !ok {
		return ""
	}
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' || len(lit) > 256 {
		return ""
	}
	return lit.String()
}

func member(line []byte, name string) (hujson.Value, bool) {
	// The reader recurses, and lines come from anywhere.
	if bytes.Count(line, []byte("[")) > 1000 || bytes.Count(line, []byte("{")) > 1000 {
		return hujson.Value{}, false
	}
	v, err := hujson.Parse(line)
	if err != nil {
		return hujson.Value{}, false
	}
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return hujson.Value{}, false
	}
	for _, m := range obj.Members {
		if lit, ok := m.Name.Value.(hujson.Literal); ok && lit.Kind() == '"' && lit.String() == name {
			return m.Value, true
		}
	}
	return hujson.Value{}, false
}

// refused is the answer to what is no question: a deny that says why.
func refused(id string, err error) answer {
	v := policy.RefusedQuestion(id, err)
	return answer{ID: v.ID, Verdict: v.Verdict, Authority: v.Authority, Rule: nil, Reason: v.Reason, Error: v.Error}
}
