package testenv

import (
	"errors"
	"strings"
	"testing"
)

// recorder stands in for a test, so that what Need does to one can be seen.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; panic(r) }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }
func (r *recorder) need(names ...string) (out *recorder) {
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	out = r
	Need(r, names...)
	return r
}

func withFeatures(t *testing.T, fs ...feature) {
	t.Helper()
	saved := features
	features = fs
	clear(probed.results)
	t.Cleanup(func() {
		features = saved
		clear(probed.results)
	})
}

func TestNeed(t *testing.T) {
	withFeatures(t,
		feature{name: "here", probe: func() error { return nil }},
		feature{name: "gone", probe: func() error { return errors.New("no such thing") }},
		feature{name: "who", probe: func() error { return errors.New("somebody else") }, personal: true},
	)
	tests := []struct {
		name, require   string
		need            []string
		skipped, failed bool
	}{
		{"what is there runs", "", []string{"here"}, false, false},
		{"what is missing skips", "", []string{"here", "gone"}, true, false},
		{"a required feature that is missing fails", "gone", []string{"here", "gone"}, false, true},
		{"a requirement of another feature still skips", "here", []string{"gone"}, true, false},
		{"all requires the host's features", "all", []string{"gone"}, false, true},
		{"all does not require to be somebody", "all", []string{"who"}, true, false},
		{"who runs can be required by name", "who", []string{"who"}, false, true},
		{"spaces and empty items are harmless", " here , gone ,", []string{"gone"}, false, true},
		{"an unknown feature fails", "", []string{"warp"}, false, true},
		{"an unknown requirement fails even what could run", "warp", []string{"here"}, false, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(RequireVar, tc.require)
			got := (&recorder{TB: t}).need(tc.need...)
			if got.skipped != tc.skipped || got.failed != tc.failed {
				t.Errorf("skipped %v, failed %v; want %v, %v", got.skipped, got.failed, tc.skipped, tc.failed)
			}
		})
	}
}

func TestProbeRunsOnce(t *testing.T) {
	runs := 0
	withFeatures(t, feature{name: "slow", about: "something", probe: func() error { runs++; return errors.New("missing") }})
	for range 3 {
		missing, err := probe("slow")
		if err != nil || missing == nil || !strings.Contains(missing.Error(), "something: missing") {
			t.Fatalf("probe: %v, %v", missing, err)
		}
	}
	if runs != 1 {
		t.Errorf("the probe ran %d times", runs)
	}
}

func TestHasPanicsOnUnknownFeature(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Has("warp")
}

// TestEveryProbeAnswers runs each real probe and says what this host has.
func TestEveryProbeAnswers(t *testing.T) {
	for _, name := range Names() {
		missing, err := probe(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%-18s %v", name, missing)
	}
	if Has("root") == Has("ordinary-user") {
		t.Error("root and ordinary-user must exclude each other")
	}
}
