package registry_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/registry"
)

func everyGone(registry.Process) bool  { return true }
func nobodyGone(registry.Process) bool { return false }

// left are the names in the directories of a tree.
func left(t *testing.T, p registry.Places, id string) string {
	t.Helper()
	var names []string
	for _, dir := range []string{filepath.Join(p.State, "trees", id), filepath.Join(p.Run, id)} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			names = append(names, filepath.Base(filepath.Dir(dir))+"/")
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

// over is a tree with everything that one may have, which nobody holds any more.
func over(t *testing.T, p registry.Places, events ...registry.Event) string {
	t.Helper()
	tree := create(t, p)
	tell(t, tree, events...)
	for _, name := range []string{registry.AuditName, "c-tool.exit", "supervisor.log"} {
		if err := os.WriteFile(filepath.Join(tree.Dir(), name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tree.RunDir(), "stale"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tree.Close()
	return tree.ID()
}

var ended = append(append([]registry.Event{}, story...), registry.Event{Time: 20, Kind: registry.TreeEnded})

func TestPruneKeepsTheAudit(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	id := over(t, p, ended...)
	// Again and again: it may have been cut short.
	for range 2 {
		if err := registry.Prune(p, id, false, nobodyGone); err != nil {
			t.Fatal(err)
		}
		if got := left(t, p, id); got != "trees/ audit.jsonl lock" {
			t.Fatalf("left: %s", got)
		}
	}
	if err := registry.Prune(p, id, true, nobodyGone); err != nil {
		t.Fatal(err)
	}
	if got := left(t, p, id); got != "" {
		t.Errorf("left: %s", got)
	}
	if err := registry.Prune(p, id, true, nobodyGone); !errors.Is(err, registry.ErrNoTree) {
		t.Errorf("once more: %v", err)
	}
}

func TestPruneLeavesWhatMayLive(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	living := create(t, p)
	tell(t, living, ended...)
	before := left(t, p, living.ID())
	if err := registry.Prune(p, living.ID(), true, everyGone); !errors.Is(err, registry.ErrHeld) || left(t, p, living.ID()) != before {
		t.Errorf("a tree with a supervisor: %v, left %s", err, left(t, p, living.ID()))
	}

	begun := append([]registry.Event{{Time: 1, Kind: registry.TreeStarted, Tree: &registry.TreeFacts{Supervisor: registry.Process{PID: 7, Start: 1}}}}, story[1:]...)
	lost := over(t, p, begun...)
	before = left(t, p, lost)
	if err := registry.Prune(p, lost, false, nobodyGone); !errors.Is(err, registry.ErrNotOver) || left(t, p, lost) != before {
		t.Errorf("a tree without an end whose processes may live: %v, left %s", err, left(t, p, lost))
	}
	if err := registry.Prune(p, lost, false, everyGone); err != nil || left(t, p, lost) != "trees/ audit.jsonl lock" {
		t.Errorf("one whose processes are gone: %v, left %s", err, left(t, p, lost))
	}
}

// TestPruneFollowsNoLink: what a link leads to is not deleted.
func TestPruneFollowsNoLink(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	id := over(t, p, ended...)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{filepath.Join(p.State, "trees", id, "inner"), filepath.Join(p.Run, id, "inner"), filepath.Join(p.State, "trees", "t-link")} {
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := registry.Prune(p, "t-link", true, everyGone); err == nil {
		t.Error("a link was taken for a tree")
	}
	if err := registry.Prune(p, id, true, everyGone); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Error(err)
	}
}
