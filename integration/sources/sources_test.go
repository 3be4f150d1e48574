package sources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, texts map[string]string) *Tree {
	t.Helper()
	tree, err := Parse(texts)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestSkips(t *testing.T) {
	tree := parse(t, map[string]string{
		"a/a_test.go": `package a
func TestA(t *testing.T) { t.Skip("no") }
func TestB(t *testing.T) { if testing.Short() { return } }
func TestC(tb testing.TB) { skip := tb.SkipNow; skip() }
func BenchmarkD(b *testing.B) { b.Run("x", func(b *testing.B) { b.Skipf("%d", 1) }) }
`,
		"a/property_test.go": `package a
func TestP(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { rt.Skip() }) }
func TestQ(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }
`,
		"a/mixed_test.go": `package a
func TestM(t *testing.T) { rapid.Check(t, func(t *rapid.T) {}); t.Skip() }
`,
		"a/a.go":                      "package a\nfunc f(r reader) { r.Skip() }\n",
		"integration/testenv/need.go": "package testenv\nfunc Need(t *testing.T) { t.Skip() }\n",
		"integration/testenv/need_test.go": `package testenv
func TestN(t *testing.T) { t.Skip() }
`,
	})
	want := []string{
		"a/a_test.go:2:28: Skip",
		"a/a_test.go:3:31: testing.Short",
		"a/a_test.go:4:37: SkipNow",
		"a/a_test.go:5:65: Skipf",
		"a/mixed_test.go:2:65: Skip",
	}
	if diff := cmp.Diff(want, tree.Skips()); diff != "" {
		t.Error(diff)
	}
}

func TestFuzzTargets(t *testing.T) {
	tree := parse(t, map[string]string{
		"b/b_test.go": `package b
func FuzzTwo(f *testing.F) {}
func FuzzOne(fz *testing.F) {}
func FuzzHelper(t *testing.T) {}
func (x T) FuzzMethod(f *testing.F) {}
func helper(f *testing.F) {}
`,
		"b/b.go":             "package b\nfunc FuzzNotATest(f *testing.F) {}\n",
		"a/windows_test.go":  "//go:build windows\n\npackage a\nfunc FuzzElsewhere(f *testing.F) {}\n",
		"c/nothing_test.go":  "package c\n",
		"c/external_test.go": "package c_test\nfunc FuzzExternal(f *testing.F) {}\n",
	})
	want := []FuzzTarget{{"a", "FuzzElsewhere"}, {"b", "FuzzOne"}, {"b", "FuzzTwo"}, {"c", "FuzzExternal"}}
	if diff := cmp.Diff(want, tree.FuzzTargets()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadFindsThisFile(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range tree.Files {
		seen[f.Path] = true
		if strings.HasPrefix(f.Path, "integration/tools/") {
			t.Errorf("%s belongs to a nested module", f.Path)
		}
	}
	for _, want := range []string{"integration/sources/sources_test.go", "cmd/pioneer-super/main.go", "policy/doc.go"} {
		if !seen[want] {
			t.Errorf("%s was not found", want)
		}
	}
}

func TestParseNamesTheBadFile(t *testing.T) {
	_, err := Parse(map[string]string{"x/bad.go": "package x\nfunc {\n"})
	if err == nil || !strings.Contains(err.Error(), "x/bad.go:2:6") {
		t.Errorf("error %v does not name the file and the place", err)
	}
}
