// Package importer turns the permission rules of other agents into a policy.
//
// It simulates the precedence of the tool that the rules come from and refuses to
// let anything through that the tool would not: what cannot be carried over
// exactly is narrowed or left out, and every such rule is a note. It refuses to
// know how our rules are evaluated beyond how patterns relate.
package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/getpioneer/pioneer-super/policy"
)

const (
	maxFile  = 4 << 20 // bytes of one file
	maxFiles = 100     // files of one folder
	maxRules = 5000    // rules of one import: each is compared with each
	maxDepth = 32      // nesting of lists and objects
)

// File is one file of another tool.
type File struct {
	Path string
	Data []byte
}

// Note is something about one rule that its owner has to know.
type Note struct {
	File         string
	Line, Column int
	// Rule is the rule as the other tool writes it; empty for a note about the file.
	Rule string
	What string
}

// String returns "file:line:column: rule: what".
func (n Note) String() string {
	s := n.File
	if n.Line > 0 {
		s = fmt.Sprintf("%s:%d:%d", n.File, n.Line, n.Column)
	}
	if n.Rule != "" {
		s += ": " + n.Rule
	}
	return s + ": " + n.What
}

// Result is what came of an import.
type Result struct {
	// Policy is a policy file, Guards a hard-guard file with the denies that
	// nothing of the other tool overrides.
	Policy, Guards []byte
	Notes          []Note
}

type tool struct {
	name, title string
	ext         []string // of files in a folder; empty means that a folder is none
	read        func(*importing, File) error
}

var tools = []tool{
	{"claude-code", "Claude Code", nil, (*importing).claude},
	{"opencode", "OpenCode", nil, (*importing).opencode},
	{"codex", "Codex", []string{".rules"}, (*importing).codex},
	{"gemini", "Gemini CLI", []string{".toml"}, (*importing).gemini},
}

// Tools returns the names of the tools whose rules can be read.
func Tools() []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.name)
	}
	return out
}

func find(name string) (tool, error) {
	for _, t := range tools {
		if t.name == name {
			return t, nil
		}
	}
	return tool{}, fmt.Errorf("unknown tool %q, expected %s", name, strings.Join(Tools(), ", "))
}

// Read reads the file at path, or the files of the folder in the order of their
// names, as far as the tool has such folders.
func Read(name, path string) ([]File, error) {
	t, err := find(name)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if st.IsDir() {
		if len(t.ext) == 0 {
			return nil, fmt.Errorf("%s: a folder, expected the settings file of %s", path, t.title)
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		paths = nil
		for _, e := range entries {
			if slices.Contains(t.ext, filepath.Ext(e.Name())) && e.Type().IsRegular() {
				paths = append(paths, filepath.Join(path, e.Name()))
			}
		}
		if len(paths) == 0 || len(paths) > maxFiles {
			return nil, fmt.Errorf("%s: %d files ending in %s, expected 1 to %d", path, len(paths), strings.Join(t.ext, " or "), maxFiles)
		}
	}
	var out []File
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		f.Close()
		if err != nil {
			return nil, err
		}
		if len(data) > maxFile {
			return nil, fmt.Errorf("%s: more than %d bytes", p, maxFile)
		}
		if !utf8.Valid(data) {
			return nil, fmt.Errorf("%s: not UTF-8 text", p)
		}
		out = append(out, File{p, data})
	}
	return out, nil
}

// Import reads the rules of the files.
func Import(name string, files []File) (Result, error) {
	t, err := find(name)
	if err != nil {
		return Result{}, err
	}
	im := &importing{title: t.title}
	var names []string
	for _, f := range files {
		im.file = f
		if err := t.read(im, f); err != nil {
			return Result{}, err
		}
		names = append(names, f.Path)
	}
	if len(im.rules) > maxRules {
		return Result{}, fmt.Errorf("%s: %d rules, expected at most %d", names[0], len(im.rules), maxRules)
	}
	guards := im.guards()
	im.settle()
	out := Result{Notes: im.notes}
	head := fmt.Sprintf("Imported from %s: %s.", t.title, strings.Join(names, ", "))
	out.Policy = write(im.rules, head, "The most specific rule decides; a tie goes to the more restrictive one.")
	out.Guards = write(guards, head, "What is denied here is denied whatever any rule says.")
	if _, err := policy.ParsePolicy("import", out.Policy); err != nil {
		return Result{}, fmt.Errorf("the imported policy does not hold: %w", err)
	}
	if _, err := policy.ParseGuards("import", out.Guards); err != nil {
		return Result{}, fmt.Errorf("the imported guards do not hold: %w", err)
	}
	return out, nil
}

// rule is a rule of the other tool in our words.
type rule struct {
	surface, pattern string
	action           policy.Action
	reason           string
	// rank says who wins there, where two rules match: the higher.
	rank int
	at   place
	// source is the rule as it is written there.
	source string
	// inexact is an allow whose pattern is wider here: it became an ask.
	inexact bool
}

type place struct {
	file         string
	line, column int
}

type importing struct {
	title string
	file  File
	rules []rule
	notes []Note
}

func (im *importing) note(at place, source, format string, args ...any) {
	// One rule there may be several here.
	if n := (Note{at.file, at.line, at.column, source, fmt.Sprintf(format, args...)}); !slices.Contains(im.notes, n) {
		im.notes = append(im.notes, n)
	}
}

// add takes a rule; a pattern that no policy may hold is a note.
func (im *importing) add(r rule) {
	if r.action != policy.Deny {
		r.reason = ""
	}
	if n := utf8.RuneCountInString(r.reason); n > 500 {
		r.reason = string([]rune(r.reason)[:499]) + "…"
	}
	if _, err := policy.ParsePolicy("policy", write([]rule{r})); err != nil {
		var problems policy.Problems
		why := err.Error()
		if errors.As(err, &problems) {
			why = problems[0].What
		}
		im.note(r.at, r.source, "left out: no policy of ours can hold it: %s", why)
		return
	}
	im.rules = append(im.rules, r)
}

// at returns the place of an offset in the file that is read.
func (im *importing) at(offset int) place {
	offset = min(max(offset, 0), len(im.file.Data))
	before := im.file.Data[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	start := bytes.LastIndexByte(before, '\n') + 1
	return place{im.file.Path, line, utf8.RuneCount(before[start:]) + 1}
}

// meets says whether some question could match both, and covers whether
// everything of s is also of r.
func (r *rule) meets(s *rule) bool {
	return (r.surface == s.surface || r.surface == "*" || s.surface == "*") &&
		(r.surface == "*" || s.surface == "*" || policy.MayOverlap(r.pattern, s.pattern))
}

func (r *rule) covers(s *rule) bool {
	return r.surface == "*" || r.surface == s.surface && policy.Covers(r.pattern, s.pattern)
}

// beats says whether r decides here where both match.
func (r *rule) beats(s *rule) bool {
	if r.surface != s.surface {
		return s.surface == "*"
	}
	if c := policy.CompareSpecificity(r.pattern, s.pattern); c != 0 {
		return c < 0
	}
	return r.action <= s.action
}

// guards are the denies that no other rule overrides there.
func (im *importing) guards() []rule {
	var out []rule
	for i := range im.rules {
		d := &im.rules[i]
		if d.action != policy.Deny || d.surface == "*" {
			continue
		}
		if slices.ContainsFunc(out, func(r rule) bool { return r.surface == d.surface && r.pattern == d.pattern }) {
			continue
		}
		if !slices.ContainsFunc(im.rules, func(r rule) bool { return r.rank > d.rank && r.action != policy.Deny && r.meets(d) }) {
			out = append(out, *d)
		}
	}
	return out
}

// settle makes the most specific rule mean what the rank meant there. A rule that
// would win here and did not there is left out where the other takes all of it;
// else it is lowered until it allows nothing that was not allowed.
func (im *importing) settle() {
	var kept []rule
	for i := range im.rules {
		s := im.rules[i]
		if other := im.takenBy(i); other != nil {
			if other.action != s.action || other.pattern != s.pattern || other.surface != s.surface {
				im.note(s.at, s.source, "left out: in %s %s (line %d, %s) always decides before it", im.title, other.source, other.at.line, other.action)
			}
			continue
		}
		if s.inexact {
			if slices.ContainsFunc(im.rules, func(r rule) bool { return !r.inexact && r.action == policy.Allow && r.covers(&s) }) {
				continue // another rule allows all of it anyway
			}
			im.note(s.at, s.source, `narrowed to ask: "*" also matches "/" here, so that more would be allowed`)
		}
		for j := range im.rules {
			r := &im.rules[j]
			if r.rank <= s.rank || r.action == s.action || !r.meets(&s) || r.beats(&s) {
				continue
			}
			if s.action > r.action {
				to := max(r.action, policy.Ask)
				if s.action == to {
					continue
				}
				more := ""
				if r.action == policy.Deny {
					more = "; a hard guard keeps the deny for what both match (--hard-guards)"
				}
				im.note(s.at, s.source, "narrowed to %s: in %s %s (line %d, %s) decides where both match, here the more specific one would%s", to, im.title, r.source, r.at.line, r.action, more)
				s.action = to
			} else {
				im.note(s.at, s.source, "stricter here: in %s %s (line %d, %s) decides where both match", im.title, r.source, r.at.line, r.action)
			}
		}
		kept = append(kept, s)
	}
	im.rules = kept
}

// takenBy returns the rule of a higher rank that decides everything of rule i.
func (im *importing) takenBy(i int) *rule {
	s := &im.rules[i]
	for j := range im.rules {
		r := &im.rules[j]
		same := r.surface == s.surface && r.pattern == s.pattern
		switch {
		case i == j:
		case r.rank > s.rank && r.covers(s) && (r.action != s.action || same):
			return r
		case r.rank == s.rank && same && j > i:
			return r
		}
	}
	return nil
}

// write prints rules as a file of ours, surfaces in the order in which they came.
func write(rules []rule, comments ...string) []byte {
	var b bytes.Buffer
	for _, c := range comments {
		b.WriteString("// " + strings.Join(strings.Fields(c), " ") + "\n")
	}
	b.WriteString("{\n  \"permission\": {")
	var surfaces []string
	for _, r := range rules {
		if !slices.Contains(surfaces, r.surface) {
			surfaces = append(surfaces, r.surface)
		}
	}
	for i, surface := range surfaces {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    " + quoted(surface) + ": ")
		first := true
		for _, r := range rules {
			if r.surface != surface {
				continue
			}
			if surface == "*" {
				b.WriteString(quoted(r.action.String()))
				break
			}
			if first {
				b.WriteString("{\n")
			} else {
				b.WriteString(",\n")
			}
			first = false
			b.WriteString("      " + quoted(r.pattern) + ": ")
			if r.reason != "" {
				b.WriteString(`{"action": "deny", "reason": ` + quoted(r.reason) + "}")
			} else {
				b.WriteString(quoted(r.action.String()))
			}
		}
		if surface != "*" {
			b.WriteString("\n    }")
		}
	}
	if len(surfaces) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("}\n}\n")
	return b.Bytes()
}

func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
