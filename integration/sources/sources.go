// Package sources reads the module's own Go files as text, for the tests and
// the CI steps that hold the code to its shape: which part imports which, where
// a test skips, which fuzz targets there are. It reads every file whatever its
// build constraints, so that what is wrong on another platform is seen on this
// one.
//
// It refuses to know what any of the code does.
package sources

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the module path that Load expects in go.mod.
const Module = "github.com/getpioneer/pioneer-super"

// A File is one parsed Go file of the module.
type File struct {
	// Path is relative to the module root, with slashes.
	Path string
	// Text is what the file holds, Syntax what the parser made of it.
	Text   string
	Syntax *ast.File
}

// Dir is the file's package directory relative to the module root; "." is the root.
func (f File) Dir() string { return path.Dir(f.Path) }

// Test reports whether only tests compile the file.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Imports lists the import paths of the file, in its order.
func (f File) Imports() []string {
	var paths []string
	for _, spec := range f.Syntax.Imports {
		// The parser has accepted the literal, so it can be unquoted.
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err)
		}
		paths = append(paths, p)
	}
	return paths
}

// A Tree is the Go files of a module, sorted by path.
type Tree struct {
	Files []File
	// Positions tells where a node of any file's Syntax stands.
	Positions *token.FileSet
}

// Root finds the module's root directory from the working directory upward.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+Module+"\n") {
			return dir, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no directory from here upward has the go.mod of %s", Module)
		}
		dir = parent
	}
}

// Load parses every Go file of the module at root. It leaves out what the go
// command leaves out of "./...": directories named testdata or beginning with a
// dot or an underscore, and nested modules; node_modules too.
func Load(root string) (*Tree, error) {
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel == "." {
				return nil
			}
			base := d.Name()
			if base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
				return filepath.SkipDir
			}
			if _, err := os.Lstat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts[filepath.ToSlash(rel)] = string(text)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Parse(texts)
}

// Parse makes a Tree of file texts by path, as if a module held them.
func Parse(texts map[string]string) (*Tree, error) {
	tree := &Tree{Positions: token.NewFileSet()}
	for name, text := range texts {
		syntax, err := parser.ParseFile(tree.Positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		tree.Files = append(tree.Files, File{Path: name, Text: text, Syntax: syntax})
	}
	slices.SortFunc(tree.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return tree, nil
}

// At says where a node stands: path:line:column.
func (t *Tree) At(n ast.Node) string { return t.Positions.Position(n.Pos()).String() }

// A FuzzTarget is one fuzz function.
type FuzzTarget struct {
	// Dir is its package directory relative to the module root.
	Dir string
	// Name is the function's name.
	Name string
}

// FuzzTargets lists the functions that the go command would fuzz, by directory
// and name.
func (t *Tree) FuzzTargets() []FuzzTarget {
	var targets []FuzzTarget
	for _, f := range t.Files {
		if !f.Test() {
			continue
		}
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Fuzz") || len(fn.Type.Params.List) != 1 {
				continue
			}
			if pointerTo(fn.Type.Params.List[0].Type) == "testing.F" {
				targets = append(targets, FuzzTarget{Dir: f.Dir(), Name: fn.Name.Name})
			}
		}
	}
	slices.SortFunc(targets, func(a, b FuzzTarget) int {
		return strings.Compare(a.Dir+"\x00"+a.Name, b.Dir+"\x00"+b.Name)
	})
	return targets
}

// pointerTo returns "pkg.Name" for the type expression *pkg.Name, else "".
func pointerTo(expr ast.Expr) string {
	star, ok := expr.(*ast.StarExpr)
	if !ok {
		return ""
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + sel.Sel.Name
}

// Skips lists the places where a test file outside integration/testenv skips or
// makes its work depend on -short, as "path:line:column: what". Discarding a
// generated value (Skip of a *rapid.T) is no skip of a test.
func (t *Tree) Skips() []string {
	var found []string
	for _, f := range t.Files {
		if !f.Test() || f.Dir() == "integration/testenv" {
			continue
		}
		generators := map[string]bool{}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncType); ok {
				for _, p := range fn.Params.List {
					if pointerTo(p.Type) == "rapid.T" {
						for _, name := range p.Names {
							generators[name.Name] = true
						}
					}
				}
			}
			return true
		})
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on, _ := sel.X.(*ast.Ident)
			switch sel.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				// A file that uses one name for both kinds is held to the strict reading.
				if on != nil && generators[on.Name] && !t.takesTest(f, on.Name) {
					return true
				}
				found = append(found, t.At(n)+": "+sel.Sel.Name)
			case "Short":
				if on != nil && on.Name == "testing" {
					found = append(found, t.At(n)+": testing.Short")
				}
			}
			return true
		})
	}
	return found
}

// takesTest reports whether some function of the file that skips through name
// takes it as a test rather than as a generator.
func (t *Tree) takesTest(f File, name string) bool {
	takes := false
	var visit func(n ast.Node, test bool)
	visit = func(n ast.Node, test bool) {
		ast.Inspect(n, func(m ast.Node) bool {
			var typ *ast.FuncType
			var body *ast.BlockStmt
			switch fn := m.(type) {
			case *ast.FuncDecl:
				typ, body = fn.Type, fn.Body
			case *ast.FuncLit:
				typ, body = fn.Type, fn.Body
			case *ast.SelectorExpr:
				on, ok := fn.X.(*ast.Ident)
				if ok && on.Name == name && test && strings.HasPrefix(fn.Sel.Name, "Skip") {
					takes = true
				}
				return true
			default:
				return true
			}
			if body == nil {
				return false
			}
			inner := test
			for _, p := range typ.Params.List {
				for _, n := range p.Names {
					if n.Name == name {
						inner = pointerTo(p.Type) != "rapid.T"
					}
				}
			}
			visit(body, inner)
			return false
		})
	}
	visit(f.Syntax, true)
	return takes
}
