package integration

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/sources"
)

// TestEveryFaultHasItsTest holds docs/faults.md to the tests: each that it names is
// there, and each test of a fault is named.
func TestEveryFaultHasItsTest(t *testing.T) {
	root, err := sources.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	word := regexp.MustCompile("`[a-z/-]+`|Test[A-Za-z]+")
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(line, "|")
		if len(columns) != 5 {
			continue
		}
		dir := ""
		for _, w := range word.FindAllString(columns[3], -1) {
			if w[0] == '`' {
				dir = strings.Trim(w, "`")
				continue
			}
			named[dir+" "+w] = true
		}
	}
	if len(named) == 0 {
		t.Fatal("the table names no test: nothing is shown")
	}
	there := map[string]bool{}
	for _, f := range loadTree(t).Files {
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !f.Test() || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			name := f.Dir() + " " + fn.Name.Name
			there[name] = true
			if strings.HasPrefix(fn.Name.Name, "TestFault") && !named[name] {
				t.Errorf("docs/faults.md does not name %s", name)
			}
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("docs/faults.md names %s, which is not there", name)
		}
	}
}
