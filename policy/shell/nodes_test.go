package shell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// libraryNodes reads the parser's own source: every type that is a node, with
// its fields.
func libraryNodes(t *testing.T) map[string]string {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "mvdan.cc/sh/v3/syntax").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	fset := token.NewFileSet()
	pkgs, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil || len(pkgs) == 0 {
		t.Fatalf("no source: %v", err)
	}
	methods := map[string]map[string]bool{}
	structs := map[string]string{}
	for _, name := range pkgs {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					continue
				}
				if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
					if id, ok := star.X.(*ast.Ident); ok {
						if methods[id.Name] == nil {
							methods[id.Name] = map[string]bool{}
						}
						methods[id.Name][d.Name.Name] = true
					}
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					st, ok := ts.Type.(*ast.StructType)
					if !ok {
						continue
					}
					var fields []string
					for _, f := range st.Fields.List {
						for _, n := range f.Names {
							fields = append(fields, n.Name)
						}
					}
					structs[ts.Name.Name] = strings.Join(fields, " ")
				}
			}
		}
	}
	nodes := map[string]string{}
	for name, fields := range structs {
		part := name == "Slice" || name == "Replace" || name == "Expansion"
		if part || methods[name]["Pos"] && methods[name]["End"] && ast.IsExported(name) {
			nodes[name] = fields
		}
	}
	return nodes
}

// TestEveryNodeIsHandled fails when the library gets a node type, or a field of
// one, that this package does not know.
func TestEveryNodeIsHandled(t *testing.T) {
	nodes := libraryNodes(t)
	if len(nodes) < 40 {
		t.Fatalf("only %d node types were found", len(nodes))
	}
	// What the package names in its own type switches and signatures.
	handled := map[string]bool{}
	for _, file := range []string{"walk.go", "command.go", "words.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name == "collect" || fn.Name.Name == "static" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				star, ok := n.(*ast.StarExpr)
				if !ok {
					return true
				}
				if sel, ok := star.X.(*ast.SelectorExpr); ok {
					if id, ok := sel.X.(*ast.Ident); ok && id.Name == "syntax" {
						handled[sel.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	// A comment runs nothing and is not part of what is judged.
	handled["Comment"] = true
	// These are no nodes of their own; paramExp reads their fields.
	handled["Slice"], handled["Replace"], handled["Expansion"] = true, true, true
	var lines []string
	for name, fields := range nodes {
		if !handled[name] {
			t.Errorf("node type %s has no handler", name)
		}
		lines = append(lines, name+": "+fields)
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/nodes.txt"
	if os.Getenv("PIONEER_TEST_UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the library's nodes changed: look at each new field, then renew %s\n--- now\n%s--- known\n%s", golden, got, want)
	}
}

// TestUnknownNodeIsRefused: what has no handler is never an allow.
func TestUnknownNodeIsRefused(t *testing.T) {
	a := &Analysis{}
	z := newAnalyzer(a, Options{})
	z.command(nil, env{})
	z.wordPart(nil)
	z.testExpr(nil)
	if len(a.Problems) == 0 {
		t.Fatal("no problem is noted")
	}
	if v := a.Judge(newRules(map[string]string{"*": "allow"}).decide); v.Action.String() == "allow" {
		t.Fatal("it is allowed")
	}
}
