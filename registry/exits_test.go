package registry_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/durable"
)

// keeperOf is what a keeper holds: the directory, open, and nothing else.
func keeperOf(t *testing.T, tree *registry.Tree) *os.File {
	t.Helper()
	dir, err := os.Open(tree.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

func TestFaultExitsOutliveTheSupervisor(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	tree := create(t, p)
	tell(t, tree, story[:4]...)
	tell(t, tree, story[6])
	dir := keeperOf(t, tree)
	exit := registry.ExitRecord{Command: "c-tool", Time: 99, Exit: registry.Exit{Known: true, Signal: 9, Proof: "wait4", Forced: true}, Keeper: registry.Process{PID: 50}}
	if err := registry.WriteExit(dir, exit); err != nil {
		t.Fatal(err)
	}
	if err := registry.WriteExit(dir, registry.ExitRecord{Command: "c-tool", Exit: registry.Exit{Known: true}}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a second account of one end: %v", err)
	}
	file := filepath.Join(tree.Dir(), "c-tool.exit")
	if info, err := os.Lstat(file); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	// The supervisor is lost in between; its successor folds.
	tree.Close()
	tree, err := registry.Open(p, tree.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := tree.Lock(); err != nil {
		t.Fatal(err)
	}
	folded, problems := tree.FoldExits()
	if problems != nil || len(folded) != 1 || folded[0] != exit {
		t.Fatalf("%+v, %v", folded, problems)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the file is still there: %v", err)
	}
	check := func() {
		t.Helper()
		state, problems := tree.State()
		command := state.Command("c-tool")
		if problems != nil || command.State != registry.Ended || command.Ended != 99 || *command.Exit != exit.Exit || state.Session("s-child").Ran != 1 {
			t.Fatalf("%+v, %v", command, problems)
		}
	}
	check()
	if folded, problems := tree.FoldExits(); folded != nil || problems != nil {
		t.Fatalf("folded twice: %+v, %v", folded, problems)
	}
	// A crash between the journal and the removal: the same file again.
	if err := registry.WriteExit(dir, exit); err != nil {
		t.Fatal(err)
	}
	if folded, problems := tree.FoldExits(); folded != nil || problems != nil {
		t.Fatalf("told twice: %+v, %v", folded, problems)
	}
	check()
}

func TestLeftThenEnded(t *testing.T) {
	t.Parallel()
	tree := create(t, prepared(t))
	tell(t, tree, story[:4]...)
	tell(t, tree, story[6], registry.Event{Kind: registry.CommandLeft, Command: "c-tool", Exit: &registry.Exit{Known: true, Code: 7}})
	state, _ := tree.State()
	if command := state.Command("c-tool"); command.State != registry.Background || command.Exit.Code != 7 {
		t.Fatalf("%+v", command)
	}
	tell(t, tree, registry.Event{Kind: registry.CommandEnded, Command: "c-tool", Exit: &registry.Exit{Proof: "wait4", Forced: true}})
	state, problems := tree.State()
	if command := state.Command("c-tool"); problems != nil || command.State != registry.Ended || *command.Exit != (registry.Exit{Known: true, Code: 7, Proof: "wait4", Forced: true}) {
		t.Fatalf("%+v, %v", command, problems)
	}
}

func TestHostileExitFiles(t *testing.T) {
	t.Parallel()
	frame := func(text string) func(string) error {
		return func(path string) error {
			return os.WriteFile(path, append(durable.Frame([]byte(text)), '\n'), 0o600)
		}
	}
	for name, c := range map[string]struct {
		file  string
		plant func(path string) error
		says  string
	}{
		"pipe":        {"c-tool.exit", mkfifo, "named pipe"},
		"link":        {"c-tool.exit", func(path string) error { return os.Symlink("/etc/passwd", path) }, "symbolic link"},
		"directory":   {"c-tool.exit", func(path string) error { return os.Mkdir(path, 0o700) }, "a directory"},
		"huge":        {"c-tool.exit", func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) }, "longer than"},
		"empty":       {"c-tool.exit", func(path string) error { return os.WriteFile(path, nil, 0o600) }, "damaged"},
		"no checksum": {"c-tool.exit", func(path string) error { return os.WriteFile(path, []byte(`{"command":"c-tool"}`), 0o600) }, "damaged"},
		"group-writable": {"c-tool.exit", func(path string) error {
			return errors.Join(frame(`{"command":"c-tool","exit":{"known":true}}`)(path), os.Chmod(path, 0o620))
		}, "group-writable"},
		"of another command": {"c-tool.exit", frame(`{"command":"c-root","exit":{"known":true}}`), `speaks of command "c-root"`},
		"of no command":      {"c-none.exit", frame(`{"command":"c-none","exit":{"known":true}}`), "knows no such command"},
		"names in two cases": {"c-tool.exit", frame(`{"Command":"c-tool"}`), `speaks of command ""`},
		"name twice":         {"c-tool.exit", frame(`{"command":"c-tool","command":"c-tool"}`), "duplicate"},
		"two lines":          {"c-tool.exit", func(path string) error { return os.WriteFile(path, []byte("00000000 {}\n00000000 {}\n"), 0o600) }, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := create(t, prepared(t))
			tell(t, tree, story[:4]...)
			tell(t, tree, story[6])
			path := filepath.Join(tree.Dir(), c.file)
			if err := c.plant(path); err != nil {
				t.Fatal(err)
			}
			// Files that are none of ours to fold stay out of it.
			if err := errors.Join(os.WriteFile(path+".tmp", nil, 0o600), registry.WriteExit(keeperOf(t, tree), registry.ExitRecord{Command: "c-root", Time: 5, Exit: registry.Exit{Known: true}})); err != nil {
				t.Fatal(err)
			}
			folded, problems := tree.FoldExits()
			if len(folded) != 1 || folded[0].Command != "c-root" || len(problems) != 1 || !strings.Contains(problems[0].Error(), c.says) || !strings.Contains(problems[0].Error(), c.file) {
				t.Fatalf("%+v, %v", folded, problems)
			}
			state, _ := tree.State()
			if command := state.Command("c-tool"); command.State != registry.Running {
				t.Fatalf("the hostile file ended %+v", command)
			}
			if _, err := os.Lstat(path); err != nil {
				t.Fatalf("the evidence is gone: %v", err)
			}
		})
	}
	dir := keeperOf(t, create(t, prepared(t)))
	for _, command := range []string{"", "..", "../x", "a/b", ".x"} {
		if err := registry.WriteExit(dir, registry.ExitRecord{Command: command}); !errors.Is(err, registry.ErrBadID) {
			t.Errorf("WriteExit of %q: %v", command, err)
		}
	}
}
