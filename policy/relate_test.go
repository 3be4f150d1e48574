package policy

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHowPatternsRelate(t *testing.T) {
	for _, c := range []struct {
		a, b             string
		covers, overlaps bool
		order            int
	}{
		{"git *", "git push *", true, true, 1},
		{"git push *", "git *", false, true, -1},
		{"git push *", "git pull *", false, false, 0},
		{"git *", "* --force", false, true, 0},
		{"git *", "git", true, true, 1},
		{"*.env", "src/*", false, true, 0},
		{"~/x", "/home/u/x", false, true, 0},
	} {
		if got := Covers(c.a, c.b); got != c.covers {
			t.Errorf("Covers(%q, %q) = %v", c.a, c.b, got)
		}
		if got := MayOverlap(c.a, c.b); got != c.overlaps {
			t.Errorf("MayOverlap(%q, %q) = %v", c.a, c.b, got)
		}
		if got := CompareSpecificity(c.a, c.b); c.order != 0 && got*c.order <= 0 {
			t.Errorf("CompareSpecificity(%q, %q) = %d", c.a, c.b, got)
		}
	}
}

// A relation that says no must never be wrong: an importer drops and narrows by it.
func TestRelationsHoldForEveryValue(t *testing.T) {
	text := rapid.StringMatching(`[ab ]{0,5}`)
	pattern := rapid.StringMatching(`[ab *?]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, v := pattern.Draw(t, "a"), pattern.Draw(t, "b"), text.Draw(t, "v")
		ma, mb := Match(a, v, ""), Match(b, v, "")
		if ma && mb && !MayOverlap(a, b) {
			t.Fatalf("%q and %q both match %q", a, b, v)
		}
		if mb && !ma && Covers(a, b) {
			t.Fatalf("%q is said to cover %q, and %q is only of the second", a, b, v)
		}
		if x, y := CompareSpecificity(a, b), CompareSpecificity(b, a); (x < 0) != (y > 0) || (x == 0) != (y == 0) {
			t.Fatalf("%q and %q: %d and %d", a, b, x, y)
		}
	})
}
