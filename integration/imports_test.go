package integration

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/sources"
)

// parts are the top-level parts, from the top down. An arrow may only point
// downward, and not even there where notDown forbids it.
var parts = []string{"cmd", "integration", "supervisor", "forwarding", "liveness", "registry", "sandbox", "policy"}

// notUp says of each part why nothing below it imports it.
var notUp = map[string]string{
	"cmd":         "the parts work without the command line: nothing imports cmd",
	"integration": "what is particular to one agent, or to tests, stays out of what every agent uses",
	"supervisor":  "the supervisor uses the parts; a part that used it could decide or start something by itself",
	"forwarding":  "what carries an ask is above what tells who is alive, who is registered and what is allowed",
	"liveness":    "the registry records processes; whether they live is asked of liveness by others",
	"registry":    "a sandbox and a decision depend on what they are given, not on the session that it is for",
	"sandbox":     "policy decides what is wanted; it never asks what this host can enforce",
}

// An arrow is an import of one part by another.
type arrow struct{ from, to string }

// notDown holds the arrows that point downward and are forbidden all the same.
var notDown = map[arrow]string{
	{"forwarding", "sandbox"}: "what carries an ask knows nothing of sandboxes: it must carry the asks of agents that have another one",
	{"liveness", "sandbox"}:   "whether a process lives does not depend on how it is confined",
	{"liveness", "policy"}:    "whether a process lives does not depend on what it may do",
	{"registry", "sandbox"}:   "the registry tells who there is, not how they are confined",
	{"registry", "policy"}:    "the registry tells who there is, not what they may do",
}

// forbidden says why the part from may not import the part to; "" if it may.
func forbidden(from, to string) string {
	f, t := slices.Index(parts, from), slices.Index(parts, to)
	switch {
	case from == to:
		return ""
	case from == "policy":
		return "policy is pure and imports no other part"
	case t < f:
		return notUp[to]
	}
	return notDown[arrow{from, to}]
}

// butNot takes some paths out of what banned bans.
func butNot(banned func(string) bool, except ...string) func(string) bool {
	return func(path string) bool { return banned(path) && !slices.Contains(except, path) }
}

// A restriction keeps imports out of everything below a directory.
type restriction struct {
	dir    string
	banned func(path string) bool
	why    string
}

var restrictions = []restriction{
	// Of the network, net/url and net/netip only read text.
	{"policy", butNot(anyOf("os", "net", "net/http", "syscall", "runtime", "path/filepath", "io/fs", "io/ioutil", "log", "log/slog",
		"math/rand", "math/rand/v2", "crypto/rand", "golang.org/x/sys", "golang.org/x/net", "golang.org/x/term"), "net/url", "net/netip"),
		"policy is pure: the same input gives the same decision everywhere, so files, clocks, chance and platform are kept out"},
	{"policy", func(p string) bool {
		return !isStandard(p) && !strings.HasPrefix(p, sources.Module) &&
			!anyOf("mvdan.cc/sh/v3", "github.com/tailscale/hujson", "github.com/go-json-experiment/json")(p)
	}, "policy imports the standard library, the shell parser and the two strict JSON readers; what else it needs is passed in"},
	{"supervisor/keeper", anyOf("github.com/urfave/cli", "github.com/rs/zerolog"),
		"the keeper starts in front of every command and holds every process: it links neither a command line nor a logger"},
	{"integration/testenv", func(p string) bool {
		return strings.HasPrefix(p, sources.Module+"/") && !strings.HasPrefix(p, sources.Module+"/integration/testenv")
	}, "a probe asks the host itself: with the code under test in it, a broken sandbox would skip its own tests"},
}

// elsewhere keeps an import to the places that are listed.
var elsewhere = []struct {
	path string
	dirs []string
	why  string
}{
	{"github.com/urfave/cli", []string{"cmd"}, "only the command line parses flags"},
	{"mvdan.cc/sh/v3", []string{"policy/shell"}, "one reading of shell text: two parsers would disagree on what a command does"},
	{"github.com/landlock-lsm/go-landlock", []string{"sandbox"}, "only the sandbox restricts a process"},
}

// clock are the functions of package time that read it. Time values may be
// passed to policy; asking what time it is may not.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

// anyOf matches import paths that are one of the given ones, or below one.
func anyOf(paths ...string) func(string) bool {
	return func(p string) bool {
		return slices.ContainsFunc(paths, func(q string) bool {
			return p == q || (strings.HasPrefix(p, q+"/") && p != "net/netip")
		})
	}
}

// isStandard tells the standard library's paths: their first element has no dot.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

func below(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// badImports lists every import of the tree that the rules forbid, with the
// reason. reach holds, for each package directory, what its non-test files
// import, directly or through packages of this module.
func badImports(tree *sources.Tree) []string {
	var bad []string
	direct := map[string]map[string]bool{}
	for _, f := range tree.Files {
		from, _, _ := strings.Cut(f.Path, "/")
		for i, p := range f.Imports() {
			at := tree.At(f.Syntax.Imports[i])
			if !f.Test() {
				if direct[f.Dir()] == nil {
					direct[f.Dir()] = map[string]bool{}
				}
				direct[f.Dir()][p] = true
			}
			if rel, ok := strings.CutPrefix(p, sources.Module+"/"); ok {
				to, _, _ := strings.Cut(rel, "/")
				if f.Test() && below(rel, "integration/testenv") {
					continue // every test may say what it needs
				}
				if !f.Test() && below(rel, "integration/testenv") && from != "integration" {
					bad = append(bad, fmt.Sprintf("%s imports %s: test support stays out of the product", at, rel))
					continue
				}
				if !slices.Contains(parts, to) {
					bad = append(bad, fmt.Sprintf("%s imports %s: it is no part of the design", at, rel))
				} else if why := forbidden(from, to); why != "" {
					bad = append(bad, fmt.Sprintf("%s imports %s: %s", at, rel, why))
				}
			}
			if f.Test() {
				continue
			}
			for _, e := range elsewhere {
				if anyOf(e.path)(p) && !slices.ContainsFunc(e.dirs, func(d string) bool { return below(f.Dir(), d) }) {
					bad = append(bad, fmt.Sprintf("%s imports %s: %s", at, p, e.why))
				}
			}
		}
		if from == "policy" && !f.Test() {
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(clock, sel.Sel.Name) {
					bad = append(bad, fmt.Sprintf("%s uses time.%s: policy has no clock, a time is passed in", tree.At(n), sel.Sel.Name))
				}
				return true
			})
		}
	}
	for _, r := range restrictions {
		for dir := range direct {
			if !below(dir, r.dir) {
				continue
			}
			for p, via := range reach(direct, dir) {
				if r.banned(p) {
					bad = append(bad, fmt.Sprintf("%s reaches %s through %s: %s", dir, p, via, r.why))
				}
			}
		}
	}
	slices.Sort(bad)
	return bad
}

// reach follows the imports of a package through this module. It returns each
// path that is reached and the directory that imports it.
func reach(direct map[string]map[string]bool, dir string) map[string]string {
	reached := map[string]string{}
	seen := map[string]bool{}
	var visit func(string)
	visit = func(d string) {
		if seen[d] {
			return
		}
		seen[d] = true
		for p := range direct[d] {
			if _, ok := reached[p]; !ok {
				reached[p] = d
			}
			if rel, ok := strings.CutPrefix(p, sources.Module+"/"); ok {
				visit(rel)
			}
		}
	}
	visit(dir)
	return reached
}

func loadTree(t *testing.T) *sources.Tree {
	t.Helper()
	root, err := sources.Root()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := sources.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestArrowsPointDownward(t *testing.T) {
	tree := loadTree(t)
	seen := map[string]bool{}
	for _, f := range tree.Files {
		part, _, _ := strings.Cut(f.Path, "/")
		seen[part] = true
	}
	for _, part := range parts {
		if !seen[part] {
			t.Errorf("the part %s has no file: the rules would hold of nothing", part)
		}
	}
	for _, b := range badImports(tree) {
		t.Error(b)
	}
}

func TestEveryForbiddenArrowHasAReason(t *testing.T) {
	for i, from := range parts {
		for _, to := range parts[:i] {
			if forbidden(from, to) == "" {
				t.Errorf("nothing says why %s may not import %s", from, to)
			}
		}
	}
	for a, why := range notDown {
		if slices.Index(parts, a.from) >= slices.Index(parts, a.to) {
			t.Errorf("%v points upward already", a)
		}
		if why == "" {
			t.Errorf("%v is forbidden without a reason", a)
		}
	}
}

// TestArrowsCatch shows each rule a file that breaks it, and one that does not.
func TestArrowsCatch(t *testing.T) {
	file := func(pkg string, imports ...string) string {
		return "package " + pkg + "\nimport (\n\t\"" + strings.Join(imports, "\"\n\t\"") + "\"\n)\n"
	}
	m := sources.Module + "/"
	tests := []struct {
		name  string
		files map[string]string
		want  string // part of the one complaint; "" for none
	}{
		{"downward", map[string]string{"supervisor/a.go": file("supervisor", m+"policy", m+"forwarding/wire", "os")}, ""},
		{"upward", map[string]string{"forwarding/a.go": file("forwarding", m+"supervisor/control")}, "the supervisor uses the parts"},
		{"upward from a test", map[string]string{"registry/a_test.go": file("registry", m+"forwarding")}, "what carries an ask"},
		{"testenv from a test", map[string]string{"sandbox/a_test.go": file("sandbox", m+"integration/testenv")}, ""},
		{"testenv from the product", map[string]string{"cmd/pioneer-super/a.go": file("main", m+"integration/testenv")}, "test support"},
		{"the command line", map[string]string{"integration/a.go": file("integration", m+"cmd/pioneer-super/terminal")}, "nothing imports cmd"},
		{"registry to policy", map[string]string{"registry/a.go": file("registry", m+"policy")}, "not what they may do"},
		{"sandbox to policy", map[string]string{"sandbox/a.go": file("sandbox", m+"policy")}, ""},
		{"policy to itself", map[string]string{"policy/a.go": file("policy", m+"policy/shell", "net/netip", "time")}, ""},
		{"policy to a part", map[string]string{"policy/a.go": file("policy", m+"registry")}, "policy is pure"},
		{"policy to files", map[string]string{"policy/shell/a.go": file("shell", "os/exec")}, "policy is pure"},
		{"policy to the clock", map[string]string{"policy/a.go": file("policy", "time") + "var t = time.Now\n"}, "no clock"},
		{"policy to a library", map[string]string{"policy/a.go": file("policy", "github.com/google/uuid")}, "passed in"},
		{"shell parsing elsewhere", map[string]string{"supervisor/a.go": file("supervisor", "mvdan.cc/sh/v3/syntax")}, "one reading"},
		{"flags elsewhere", map[string]string{"supervisor/a.go": file("supervisor", "github.com/urfave/cli/v2")}, "only the command line"},
		{"the keeper's logger, at one remove", map[string]string{
			"supervisor/keeper/a.go":  file("keeper", m+"supervisor/control"),
			"supervisor/control/a.go": file("control", "github.com/rs/zerolog"),
		}, "links neither"},
		{"a part that nobody designed", map[string]string{"cmd/pioneer-super/a.go": file("main", m+"util")}, "no part of the design"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tree, err := sources.Parse(tc.files)
			if err != nil {
				t.Fatal(err)
			}
			bad := badImports(tree)
			switch {
			case tc.want == "" && len(bad) > 0:
				t.Errorf("complaints about nothing: %q", bad)
			case tc.want != "" && !slices.ContainsFunc(bad, func(b string) bool { return strings.Contains(b, tc.want) }):
				t.Errorf("complaints %q do not say %q", bad, tc.want)
			}
		})
	}
}

// badComments lists packages that do not have exactly one package comment that
// begins as go doc shows it.
func badComments(tree *sources.Tree) []string {
	comments := map[string][]string{}
	for _, f := range tree.Files {
		if f.Test() {
			if f.Syntax.Doc != nil {
				comments[f.Dir()] = append(comments[f.Dir()], f.Path+": a test file")
			}
			continue
		}
		if _, ok := comments[f.Dir()]; !ok {
			comments[f.Dir()] = nil
		}
		if f.Syntax.Doc == nil {
			continue
		}
		start := "Package " + f.Syntax.Name.Name + " "
		if f.Syntax.Name.Name == "main" {
			start = "Command " + f.Dir()[strings.LastIndex(f.Dir(), "/")+1:] + " "
		}
		if !strings.HasPrefix(f.Syntax.Doc.Text(), start) {
			comments[f.Dir()] = append(comments[f.Dir()], f.Path+": does not begin with "+start)
		}
		comments[f.Dir()] = append(comments[f.Dir()], f.Path)
	}
	var bad []string
	for dir, found := range comments {
		if len(found) != 1 || strings.Contains(found[0], ": ") {
			bad = append(bad, fmt.Sprintf("%s: one package comment is wanted, there are %d: %q", dir, len(found), found))
		}
	}
	slices.Sort(bad)
	return bad
}

func TestOnePackageCommentEach(t *testing.T) {
	for _, b := range badComments(loadTree(t)) {
		t.Error(b)
	}
}

func TestPackageCommentsCatch(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		bad   int
	}{
		{"one", map[string]string{"a/doc.go": "// Package a is a.\npackage a\n", "a/b.go": "package a\n", "a/a_test.go": "package a\n"}, 0},
		{"none", map[string]string{"a/b.go": "package a\n"}, 1},
		{"two", map[string]string{"a/doc.go": "// Package a is a.\npackage a\n", "a/b.go": "// Package a is b.\npackage a\n"}, 1},
		{"another name", map[string]string{"a/doc.go": "// Package b is a.\npackage a\n"}, 1},
		{"a file's comment", map[string]string{"a/doc.go": "// Package a is a.\npackage a\n", "a/b.go": "// b.go does b.\npackage a\n"}, 1},
		{"a command", map[string]string{"x/a/main.go": "// Command a does a.\npackage main\n"}, 0},
	}
	for _, tc := range tests {
		tree, err := sources.Parse(tc.files)
		if err != nil {
			t.Fatal(err)
		}
		if bad := badComments(tree); len(bad) != tc.bad {
			t.Errorf("%s: %q, want %d complaints", tc.name, bad, tc.bad)
		}
	}
}
