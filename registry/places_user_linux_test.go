package registry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/registry/durable"
)

// Root passes permission checks for the wrong reasons, so the same table holds
// for an ordinary user.
func TestPrepareRefusesAsUser(t *testing.T) {
	if !testenv.AsUser(t) {
		return
	}
	testRefusals(t)
	// What belongs to somebody else is refused although it can be read and, like
	// /var/tmp's owner's, looks proper.
	for _, p := range []Places{
		{State: "/usr/share", Run: filepath.Join(t.TempDir(), "run")},
		{State: filepath.Join(t.TempDir(), "state"), Run: "/usr/lib"},
		{State: filepath.Join(t.TempDir(), "state"), Run: filepath.Join(t.TempDir(), "run"), Config: "/etc"},
	} {
		if err := p.prepare(local); !errors.Is(err, durable.ErrNotOurs) && !errors.Is(err, os.ErrPermission) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestForeignOwnersAreRefused(t *testing.T) {
	testenv.Need(t, "root")
	dir := t.TempDir()
	p := Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Config: filepath.Join(dir, "config")}
	if err := errors.Join(p.prepare(local), os.Mkdir(p.Config, 0o755)); err != nil {
		t.Fatal(err)
	}
	tree, err := Create(p, "t-1")
	if err != nil {
		t.Fatal(err)
	}
	tree.Close()
	for _, path := range []string{p.State, p.trees(), p.Run, p.Config} {
		if err := os.Chown(path, 60001, 0); err != nil {
			t.Fatal(err)
		}
		if err := p.prepare(local); !errors.Is(err, durable.ErrNotOurs) || !strings.Contains(err.Error(), path+" is owned by user 60001, expected a directory of user 0") {
			t.Errorf("%s of somebody else: %v", path, err)
		}
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.prepare(local); err != nil {
		t.Fatalf("given back: %v", err)
	}
	for _, path := range []string{tree.Dir(), filepath.Join(tree.Dir(), journalName), filepath.Join(tree.Dir(), lockName)} {
		if err := os.Lchown(path, 60001, 0); err != nil {
			t.Fatal(err)
		}
		again, err := Open(p, "t-1")
		if err == nil {
			err = again.Lock()
			again.Close()
		}
		if !errors.Is(err, durable.ErrNotOurs) {
			t.Errorf("%s of somebody else: %v", path, err)
		}
		if err := os.Lchown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}
