package lineage

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/getpioneer/pioneer-super/registry"
)

// Input is where to look. A nil function knows nothing, and an empty path is not
// compared, so that the zero Input is a root.
type Input struct {
	// Own is this process's own session id, if it has one.
	Own string
	// LookupEnv is os.LookupEnv.
	LookupEnv func(name string) (value string, set bool)
	// Registered returns the parent that a registry holds for a session, and
	// whether it holds the session at all.
	Registered func(session string) (parent string, known bool)
	// AgentDir is the directory of Pi's agent (PI_CODING_AGENT_DIR); sessions of
	// its subagents are kept in subagent-sessions there. SessionDir is where this
	// process's own session is kept.
	AgentDir, SessionDir string
	// FoldCase compares those two without regard to case.
	FoldCase bool
	// Proven reports whether the process in the heartbeat of a session is an
	// ancestor of this one, and in words why or why not.
	Proven func(session string) (ancestor bool, why string)
	// PiAncestor reports whether an ancestor of this process is the Pi of that
	// session, and in words why or why not.
	PiAncestor func(session string) (ancestor bool, why string)
	// Nested says in words what else shows that this process runs inside a
	// supervised tree, whatever its environment says; empty if nothing does.
	Nested string
}

// Candidate is one thing that might name the parent.
type Candidate struct {
	Name   string `json:"name"` // of the variable, or "registry"
	Value  string `json:"value"`
	Used   bool   `json:"used"`
	Proven bool   `json:"proven"`
	Why    string `json:"why"`
}

// Context is the answer. The zero Context is a root.
type Context struct {
	IsChild bool `json:"isChild"`
	// Parent is the session that asks go to, empty if none could be found.
	Parent string `json:"parent"`
	// Source is where Parent comes from, "registry" or "env"; without a Parent,
	// what shows that this is a child, "env" or "directory"; else "none".
	Source string `json:"source"`
	// Proven: more than the environment names the parent.
	Proven bool `json:"proven"`
	// Nested: this process runs inside a supervised tree, which is not proof of
	// a place in it.
	Nested string `json:"nested,omitempty"`
	// Why tells, a sentence each, what was found in the order of the search.
	Why        []string    `json:"why"`
	Candidates []Candidate `json:"candidates"`
}

// maxShown bounds a value of the environment in the answer.
const maxShown = 200

// Detect searches registry, environment and directories, in this order, and
// tells all that it found. A value that names this session itself is skipped: a
// request in one's own inbox is answered by nobody.
func Detect(in Input) Context {
	c := Context{Source: "none", Why: []string{}, Candidates: []Candidate{}}
	own, _ := registry.NormalizeID(in.Own)
	d := detection{in: in, own: own, c: &c}
	d.registry()
	d.environment()
	d.piShell()
	d.directory()
	if in.Nested != "" {
		c.Nested = in.Nested
		c.say("nested, not proven: %s", in.Nested)
	}
	switch {
	case c.Parent != "" && !c.Proven:
		c.say("the parent %s is named by the environment only, which proves nothing", show(c.Parent))
	case c.IsChild && c.Parent == "":
		c.say("a child, but nothing usable names its parent: asks cannot be forwarded")
	case !c.IsChild:
		c.say("nothing says that this is a child: it is a root")
	}
	return c
}

type detection struct {
	in  Input
	own string
	c   *Context
}

func (c *Context) say(format string, args ...any) {
	c.Why = append(c.Why, fmt.Sprintf(format, args...))
}

// child notes the first thing that shows a child.
func (c *Context) child(source string) {
	if !c.IsChild {
		c.IsChild, c.Source = true, source
	}
}

func (d *detection) registry() {
	if d.in.Registered == nil || d.own == "" {
		return
	}
	parent, known := d.in.Registered(d.own)
	if !known {
		return
	}
	d.c.child("registry")
	d.c.say("the registry holds this session")
	d.consider("registry", parent, func(string) (bool, string) { return true, "the registry holds it" })
}

func (d *detection) environment() {
	for _, v := range inventory {
		value, set := d.lookup(v.Name)
		if !set {
			continue
		}
		if v.Role == Marker {
			// Any value counts, also "0": so it is read by the public extension.
			d.c.child("env")
			d.c.say("%s is set, as %s does for its children", v.Name, v.Spawner)
			continue
		}
		if d.consider(v.Name, value, d.proven) {
			d.c.child("env")
			d.c.say("%s names a parent, as %s has it", v.Name, v.Spawner)
		}
	}
}

func (d *detection) proven(session string) (bool, string) {
	if d.in.Proven == nil {
		return false, "nothing can tell whether its process is an ancestor"
	}
	return d.in.Proven(session)
}

// piShell is the last resort: a shell tool of Pi carries no parent variable, only
// the id of the session whose tool it is, which every process below inherits for
// ever. So it counts only while that Pi is an ancestor.
func (d *detection) piShell() {
	value, set := d.lookup(piSession)
	if !set {
		return
	}
	if mark, _ := d.lookup(piShell); mark != "true" {
		d.c.Candidates = append(d.c.Candidates, Candidate{Name: piSession, Value: show(value), Why: piShell + " is not true"})
		return
	}
	ancestor, why := false, "nothing can tell whether that Pi is an ancestor"
	if d.in.PiAncestor != nil {
		if id, ok := registry.NormalizeID(value); ok {
			ancestor, why = d.in.PiAncestor(id)
		}
	}
	if !ancestor {
		d.c.Candidates = append(d.c.Candidates, Candidate{Name: piSession, Value: show(value), Why: why})
		return
	}
	if d.consider(piSession, value, func(string) (bool, string) { return true, why }) {
		d.c.child("env")
		d.c.say("%s names the Pi that this runs below", piSession)
	}
}

func (d *detection) directory() {
	if d.in.AgentDir == "" || d.in.SessionDir == "" {
		return
	}
	root := filepath.Join(d.in.AgentDir, "subagent-sessions")
	if within(root, d.in.SessionDir, d.in.FoldCase) {
		d.c.child("directory")
		d.c.say("its sessions are kept in %s", show(root))
	}
}

// within reports whether path is root or below it. Both are absolute.
func within(root, path string, fold bool) bool {
	if fold {
		root, path = strings.ToLower(root), strings.ToLower(path)
	}
	if !filepath.IsAbs(root) || !filepath.IsAbs(path) {
		return false
	}
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// consider notes a candidate, uses it if it is the first that can be used, and
// reports whether it names another session at all.
func (d *detection) consider(name, value string, proof func(string) (bool, string)) bool {
	candidate := Candidate{Name: name, Value: show(value)}
	defer func() { d.c.Candidates = append(d.c.Candidates, candidate) }()
	id, ok := registry.NormalizeID(value)
	switch {
	case !ok:
		candidate.Why = "it names no session"
		return false
	case id == d.own:
		candidate.Why = "it names this session itself"
		return false
	}
	if _, err := registry.EncodeID(id); err != nil {
		candidate.Why = err.Error()
		return false
	}
	candidate.Proven, candidate.Why = proof(id)
	if d.c.Parent != "" {
		candidate.Why = "another came first; " + candidate.Why
		return true
	}
	candidate.Used = true
	d.c.Parent, d.c.Proven = id, candidate.Proven
	d.c.Source = "env"
	if name == "registry" {
		d.c.Source = "registry"
	}
	return true
}

// lookup returns a variable that is not blank. A set but blank one says nothing.
func (d *detection) lookup(name string) (string, bool) {
	if d.in.LookupEnv == nil {
		return "", false
	}
	value, _ := d.in.LookupEnv(name)
	return value, strings.TrimSpace(value) != ""
}

// show bounds a value and makes it safe to print.
func show(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	quoted := fmt.Sprintf("%q", s)
	if quoted[1:len(quoted)-1] == s {
		return s
	}
	return quoted
}
