//go:build unix

package shell

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/getpioneer/pioneer-super/policy"
)

// TestGlobsAgainstFiles really expands globs in a small tree: what is said of a
// glob is never less restrictive than what is said of a file that it becomes, and
// a deny is a deny for each of them.
func TestGlobsAgainstFiles(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "w")
	files := map[string]bool{}
	for _, f := range []string{"a", "ab", ".b", "sub/a", "sub/ab", "sub/deep/a", "bus/a", "bus/.b/ab"} {
		for _, base := range []string{"w", "x"} {
			p := filepath.Join(top, base, f)
			if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for ; p != top; p = filepath.Dir(p) {
				files[p] = true
			}
		}
	}
	t.Chdir(dir)
	r := rand.New(rand.NewPCG(7, 3))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	parts := []string{"a", "?b", "*", ".*", "s?b", "[sb]u[sb]", "sub", "b*", "d*p", ".b", "*s"}
	heads := []string{"", "./", "../w/", "../x/", "../*/", dir + "/", top + "/?/"}
	patterns := []string{"*/a", "sub/*", "/*/x/*", "*b", dir + "/sub/*", dir + "/*", top + "/x/sub/a", "bus/.b/*", "./sub/*", "*deep*", "../x/*"}
	actions := []string{"allow", "ask", "deny"}
	o := Options{Dir: dir, Home: "/home/u", Workspace: dir, Resolver: &diskResolver{files: files}}
	seen := map[policy.Action]int{}
	expanded := 0
	for range 1500 {
		word := pick(heads) + pick(parts)
		for range r.IntN(3) {
			word += "/" + pick(parts)
		}
		rs := newRules(map[string]string{"*": "allow"})
		spec := map[string]string{}
		for range 1 + r.IntN(3) {
			spec[pick(patterns)] = pick(actions)
		}
		for p, action := range spec {
			rs.read = append(rs.read, testRule("path_read", p, action))
		}
		judge := func(w string) policy.Action { return Analyze("cat "+w, o).Judge(rs.decide).Action }
		got := judge(word)
		seen[got]++
		found, err := filepath.Glob(word)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			expanded++
			one := judge(f)
			if one != policy.Allow && got == policy.Allow || got == policy.Deny && one != policy.Deny {
				t.Fatalf("%s: %q is %s, it becomes %s, which is %s", fmt.Sprint(spec), word, got, f, one)
			}
		}
	}
	if expanded < 500 || seen[policy.Allow] < 50 || seen[policy.Ask] < 50 || seen[policy.Deny] < 5 {
		t.Errorf("%d files, %v: the globs show too little of the %d files", expanded, seen, len(files))
	}
}
