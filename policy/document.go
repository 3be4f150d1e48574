package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

const (
	// maxFile bounds every configuration file, in bytes.
	maxFile = 4 << 20
	// maxDepth bounds how deep a file may nest; the readers recurse.
	maxDepth = 32
	// maxProblems bounds how many mistakes of one file are listed.
	maxProblems = 200
)

// Problem is one mistake in a file, with what was expected instead.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1, columns in characters.
	Line   int    `json:"line"`
	Column int    `json:"column"`
	What   string `json:"what"`
	// Expected and Hint may be empty.
	Expected string `json:"expected,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

// Error returns "file:line:column: what, expected what (hint)".
func (p Problem) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.What)
	if p.Expected != "" {
		s += ", expected " + p.Expected
	}
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// Problems is every mistake of a file, in the order of the file. As an error it
// is one line for each.
type Problems []Problem

// Error returns one line for each mistake.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// document is a JSON-with-comments file that is being read. Mistakes collect in
// it, so that one reading reports them all.
type document struct {
	name     string
	data     []byte
	starts   []int // offset of each line
	problems Problems
}

// value is a place in a document.
type value struct {
	doc *document
	v   *hujson.Value
}

// member is one member of an object.
type member struct {
	name  string
	key   value
	value value
}

// parseDocument reads the text up to its syntax. On a syntax error the document
// has one problem and the value is nil.
func parseDocument(name string, data []byte) (*document, *value) {
	d := &document{name: name, data: data, starts: []int{0}}
	for i, c := range data {
		if c == '\n' {
			d.starts = append(d.starts, i+1)
		}
	}
	switch {
	case len(data) > maxFile:
		d.problem(0, Problem{What: fmt.Sprintf("the file has %d bytes", len(data)), Expected: fmt.Sprintf("at most %d", maxFile)})
		return d, nil
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		d.problem(0, Problem{What: "the file starts with a byte order mark", Expected: "plain UTF-8"})
		return d, nil
	case !utf8.Valid(data):
		off := 0
		for off < len(data) {
			r, n := utf8.DecodeRune(data[off:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			off += n
		}
		d.problem(off, Problem{What: fmt.Sprintf("byte 0x%02x is not UTF-8", data[off]), Expected: "UTF-8 text"})
		return d, nil
	}
	if off, deep := tooDeep(data); deep {
		d.problem(off, Problem{What: fmt.Sprintf("more than %d levels of nesting", maxDepth)})
		return d, nil
	}
	v, err := hujson.Parse(data)
	if err != nil {
		d.syntaxError(err)
		return d, nil
	}
	return d, &value{d, &v}
}

var hujsonPosition = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

func (d *document) syntaxError(err error) {
	p := Problem{File: d.name, Line: 1, Column: 1, What: err.Error(), Expected: "JSON with comments"}
	if m := hujsonPosition.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Column, _ = strconv.Atoi(m[2])
		p.What = m[3]
	}
	if len(bytes.TrimSpace(d.data)) == 0 {
		p.What, p.Hint = "the file is empty", "an empty object {} says nothing and is valid"
	}
	d.problems = append(d.problems, p)
}

// tooDeep finds the bracket that opens one level too many. It skips strings and
// comments; on text that is no JSON it may count wrongly, and the parser speaks.
func tooDeep(data []byte) (int, bool) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"' && data[i] != '\n'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			if i+1 < len(data) && data[i+1] == '/' {
				for i < len(data) && data[i] != '\n' {
					i++
				}
			} else if i+1 < len(data) && data[i+1] == '*' {
				end := bytes.Index(data[i+2:], []byte("*/"))
				if end < 0 {
					return 0, false
				}
				i += 2 + end + 1
			}
		case '[', '{':
			if depth++; depth > maxDepth {
				return i, true
			}
		case ']', '}':
			depth--
		}
	}
	return 0, false
}

// position turns an offset into line and column.
func (d *document) position(off int) (line, column int) {
	off = min(max(off, 0), len(d.data))
	i, found := slices.BinarySearch(d.starts, off)
	if !found {
		i--
	}
	return i + 1, utf8.RuneCount(d.data[d.starts[i]:off]) + 1
}

func (d *document) problem(off int, p Problem) {
	if len(d.problems) > maxProblems {
		return
	}
	p.File = d.name
	p.Line, p.Column = d.position(off)
	if len(d.problems) == maxProblems {
		p.What, p.Expected, p.Hint = "too many mistakes, the rest is not listed", "", ""
	}
	d.problems = append(d.problems, p)
}

// err returns the collected problems as an error, nil if there is none.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return d.problems
}

func (v value) origin(authority string) Origin {
	line, column := v.doc.position(v.v.StartOffset)
	return Origin{Authority: authority, File: v.doc.name, Line: line, Column: column}
}

func (v value) problem(what, expected, hint string) {
	v.doc.problem(v.v.StartOffset, Problem{What: what, Expected: expected, Hint: hint})
}

// describe names the value for an error message, shortened.
func (v value) describe() string {
	switch v.v.Value.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	s := string(v.doc.data[v.v.StartOffset:v.v.EndOffset])
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

func (v value) kind() hujson.Kind { return v.v.Value.Kind() }

// members returns the members of an object in order. A repeated name and a name
// that is no text are problems; of a repeated one the first is returned.
func (v value) members(expected string) []member {
	obj, ok := v.v.Value.(*hujson.Object)
	if !ok {
		v.problem(v.describe(), expected, "")
		return nil
	}
	seen := map[string]int{}
	var out []member
	for i := range obj.Members {
		m := &obj.Members[i]
		key := value{v.doc, &m.Name}
		name, ok := key.text("a name")
		if !ok {
			continue
		}
		if first, again := seen[name]; again {
			line, column := v.doc.position(first)
			key.problem(fmt.Sprintf("%q is there twice", name), "each name once", fmt.Sprintf("first at line %d, column %d", line, column))
			continue
		}
		seen[name] = m.Name.StartOffset
		out = append(out, member{name, key, value{v.doc, &m.Value}})
	}
	return out
}

// elements returns the elements of an array.
func (v value) elements(expected string) ([]value, bool) {
	arr, ok := v.v.Value.(*hujson.Array)
	if !ok {
		v.problem(v.describe(), expected, "")
		return nil, false
	}
	out := make([]value, len(arr.Elements))
	for i := range arr.Elements {
		out[i] = value{v.doc, &arr.Elements[i]}
	}
	return out, true
}

// text returns a string; half of a surrogate pair is a problem, since other
// readers of the same file would see another string.
func (v value) text(expected string) (string, bool) {
	lit, ok := v.v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		v.problem(v.describe(), expected, "")
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, []byte(lit))
	if err != nil {
		v.problem("a string with half of a surrogate pair", "whole characters", "")
		return "", false
	}
	return string(s), true
}

func (v value) boolean() (b, ok bool) {
	if lit, isLit := v.v.Value.(hujson.Literal); isLit && (lit.Kind() == 't' || lit.Kind() == 'f') {
		return lit.Bool(), true
	}
	v.problem(v.describe(), "true or false", "")
	return false, false
}

// texts returns an array of strings.
func (v value) texts(expected string) ([]string, bool) {
	list, ok := v.elements(expected)
	if !ok {
		return nil, false
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, good := e.text("a string")
		if !good {
			ok = false
			continue
		}
		out = append(out, s)
	}
	return out, ok
}

// unknown reports a member that has no meaning here, with the nearest of the
// names that have one.
func (m member) unknown(known ...string) {
	hint := ""
	if near := nearest(m.name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	m.key.problem(fmt.Sprintf("unknown key %q", m.name), join(known), hint)
}

// nearest returns the known word that is the likely meaning of a typo, or "".
func nearest(word string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if strings.EqualFold(word, k) {
			return k
		}
		d := editDistance(strings.ToLower(word), strings.ToLower(k), bestDistance)
		if d < bestDistance && d*2 < max(len(k), 3) {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours; it may stop at limit.
func editDistance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if len(x)-len(y) >= limit || len(y)-len(x) >= limit || len(x) > 200 || len(y) > 200 {
		return limit
	}
	var before, last []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, row = last, row, make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(y)]
}
