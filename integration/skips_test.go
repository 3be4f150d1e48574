package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/sources"
)

func TestOnlyTestenvSkips(t *testing.T) {
	tree := loadTree(t)
	tests := 0
	for _, f := range tree.Files {
		if f.Test() {
			tests++
		}
	}
	if tests == 0 {
		t.Fatal("no test file was found: nothing was checked")
	}
	for _, s := range tree.Skips() {
		t.Errorf("%s: a test says what it needs with testenv.Need, and nothing else skips", s)
	}
}

// TestEveryFuzzTargetIsRun holds CI to the list that is made from the sources,
// and the list to hold something: a fuzz step over an empty list passes for ever.
func TestEveryFuzzTargetIsRun(t *testing.T) {
	if len(loadTree(t).FuzzTargets()) == 0 {
		t.Fatal("there is no fuzz target: nothing would be fuzzed")
	}
	root, err := sources.Root()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`citool" fuzz`, `-fuzz "^$target\$"`} {
		if !strings.Contains(string(script), want) {
			t.Errorf(".ci/run does not fuzz what citool lists: it lacks %s", want)
		}
	}
}
