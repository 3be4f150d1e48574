package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

func TestFindPlaces(t *testing.T) {
	t.Parallel()
	type env map[string]string
	for name, c := range map[string]struct {
		env  env
		want Places
		says string
	}{
		"only HOME":      {env{"HOME": "/h"}, Places{"/h/.local/state/pioneer-super", "/h/.local/state/pioneer-super/run", "/h/.config/pioneer-super"}, ""},
		"all XDG":        {env{"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r/", "XDG_CONFIG_HOME": "/c/."}, Places{"/s/pioneer-super", "/r/pioneer-super", "/c/pioneer-super"}, ""},
		"our own":        {env{"HOME": "/h", "XDG_STATE_HOME": "/s", "PIONEER_SUPER_HOME": "/p"}, Places{"/p", "/p/run", "/h/.config/pioneer-super"}, ""},
		"empty is not":   {env{"HOME": "/h", "XDG_STATE_HOME": "", "PIONEER_SUPER_HOME": ""}, Places{"/h/.local/state/pioneer-super", "/h/.local/state/pioneer-super/run", "/h/.config/pioneer-super"}, ""},
		"no HOME needed": {env{"PIONEER_SUPER_HOME": "/p", "XDG_CONFIG_HOME": "/c"}, Places{"/p", "/p/run", "/c/pioneer-super"}, ""},

		"relative home":    {env{"HOME": "h"}, Places{}, `HOME is "h", expected an absolute path`},
		"relative state":   {env{"HOME": "/h", "XDG_STATE_HOME": "s"}, Places{}, `XDG_STATE_HOME is "s", expected`},
		"relative run":     {env{"HOME": "/h", "XDG_RUNTIME_DIR": "./r"}, Places{}, `XDG_RUNTIME_DIR is "./r", expected`},
		"relative config":  {env{"HOME": "/h", "XDG_CONFIG_HOME": "~/c"}, Places{}, `XDG_CONFIG_HOME is "~/c", expected`},
		"relative our own": {env{"HOME": "/h", "PIONEER_SUPER_HOME": ".."}, Places{}, `PIONEER_SUPER_HOME is "..", expected`},
		"with a zero":      {env{"HOME": "/h\x00/x"}, Places{}, `HOME is "/h\x00/x", expected`},
		"nobody's home":    {env{}, Places{}, "neither XDG_STATE_HOME nor HOME is set"},
	} {
		got, err := FindPlaces(func(name string) string { return c.env[name] }, 1<<30)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func local(string) (string, bool, error) { return "here", false, nil }

// refusals are ways in which each of the directories can be wrong. They are
// tried as root here and as an ordinary user in places_user_test.go.
func testRefusals(t *testing.T) {
	places := func(t *testing.T) (Places, map[string]string) {
		dir := t.TempDir()
		p := Places{State: filepath.Join(dir, "x", "state"), Run: filepath.Join(dir, "run"), Config: filepath.Join(dir, "config")}
		return p, map[string]string{"state": p.State, "trees": p.trees(), "run": p.Run, "config": p.Config}
	}
	for name, c := range map[string]struct {
		spoil func(path string) error
		is    string
	}{
		"symbolic link":  {func(path string) error { return errors.Join(os.Mkdir(path+".d", 0o700), os.Symlink(path+".d", path)) }, "is a symbolic link to"},
		"dangling link":  {func(path string) error { return os.Symlink("/nonexistent/x", path) }, "is a symbolic link to"},
		"group-writable": {func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o770)) }, "is group-writable (mode 0770)"},
		"world-writable": {func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o702)) }, "is world-writable (mode 0702)"},
		"sticky": {func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777|fs.ModeSticky))
		}, "is world-writable (mode 0777)"},
		"regular file": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "is a regular file"},
	} {
		for which := range map[string]int{"state": 0, "trees": 0, "run": 0, "config": 0} {
			t.Run(name+" as "+which, func(t *testing.T) {
				p, paths := places(t)
				path := paths[which]
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), c.spoil(path)); err != nil {
					t.Fatal(err)
				}
				err := p.prepare(local)
				if !errors.Is(err, durable.ErrNotOurs) || !strings.Contains(err.Error(), path+" "+c.is) || !strings.Contains(err.Error(), "expected a directory") {
					t.Fatalf("got %v", err)
				}
				// Negative control: the same place, mended, is fine.
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if err := p.prepare(local); err != nil {
					t.Fatalf("mended: %v", err)
				}
			})
		}
	}
	t.Run("readable by others is closed", func(t *testing.T) {
		p, _ := places(t)
		if err := errors.Join(os.MkdirAll(p.State, 0o700), os.Chmod(p.State, 0o755), p.prepare(local), p.prepare(local)); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{p.State, p.trees(), p.Run} {
			if info, err := os.Lstat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
				t.Errorf("%s: %v, %v", dir, info.Mode(), err)
			}
		}
		if _, err := os.Lstat(p.Config); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the configuration directory was made: %v", err)
		}
	})
}

func TestPrepareRefuses(t *testing.T) { testRefusals(t) }

func TestFaultNetworkFileSystem(t *testing.T) {
	t.Parallel()
	for _, remote := range []string{"state", "run"} {
		dir := t.TempDir()
		p := Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
		err := p.prepare(func(path string) (string, bool, error) { return "nfs", filepath.Base(path) == remote, nil })
		if err == nil {
			t.Fatalf("%s on a network was taken", remote)
		}
		for _, want := range []string{p.State, p.Run, "nfs", "PIONEER_SUPER_HOME", "XDG_RUNTIME_DIR"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not name %s", remote, err, want)
			}
		}
	}
	p := Places{State: filepath.Join(t.TempDir(), "s"), Run: filepath.Join(t.TempDir(), "r")}
	if err := p.prepare(func(string) (string, bool, error) { return "", false, errors.ErrUnsupported }); err != nil {
		t.Errorf("where it cannot be told: %v", err)
	}
	if err := p.prepare(func(string) (string, bool, error) { return "", false, errors.New("statfs is broken") }); err == nil {
		t.Error("a failed look was taken for a local disk")
	}
	if runtime.GOOS == "linux" {
		if kind, remote, err := durable.Network("/proc"); err != nil || remote {
			t.Errorf("/proc: %s, %v, %v", kind, remote, err)
		}
	}
	if err := (Places{}).Prepare(); err == nil {
		t.Error("no places at all were prepared")
	}
}

func TestAbove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	proc := func(pid int) Process { return Process{PID: pid, Start: uint64(pid) * 10, Boot: "b"} }
	var trees []*Tree
	for n := range 2 {
		tree, err := Create(p, NewID("t"))
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		trees = append(trees, tree)
		base := 100 * (n + 1)
		for _, e := range []Event{
			{Kind: TreeStarted, Tree: &TreeFacts{Front: proc(base), Supervisor: proc(base + 1)}},
			{Kind: SessionStarted, Session: "s-1", Starts: &SessionFacts{}},
			{Kind: CommandStarted, Session: "s-1", Command: "c-1", Runs: &CommandFacts{Agent: true, Keeper: proc(base + 2), Leader: proc(base + 3)}},
			{Kind: CommandStarted, Session: "s-1", Command: "c-2", Runs: &CommandFacts{Keeper: proc(base + 4)}},
			{Kind: CommandEnded, Command: "c-2", Exit: &Exit{}},
		} {
			if err := tree.AppendEvent(e, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	find := func(pids ...int) string {
		var ancestors []Process
		for _, pid := range pids {
			ancestors = append(ancestors, proc(pid))
		}
		s, ok, problems := Above(p, ancestors)
		if problems != nil {
			t.Fatal(problems)
		}
		if !ok {
			return "none"
		}
		for n, tree := range trees {
			if tree.ID() == s.Tree && s.RunDir == tree.RunDir() {
				return strings.Join([]string{string(rune('0' + n)), s.Session, s.Command, s.As}, " ")
			}
		}
		return "another tree"
	}
	for want, pids := range map[string][]int{
		"none":             {9, 8, 1},
		"0 s-1 c-1 leader": {9, 103, 102, 101, 100, 1},
		"0 s-1 c-1 keeper": {9, 102, 101, 100, 1},
		"1   supervisor":   {201, 200},
		"1   front":        {9, 200, 102}, // the nearer tree
		"1 s-1 c-1 keeper": {204, 202},    // 204 was the keeper of what has ended
	} {
		if got := find(pids...); got != want {
			t.Errorf("below %v: %q, expected %q", pids, got, want)
		}
	}
	reused := proc(102)
	reused.Start++
	if s, ok, _ := Above(p, []Process{reused}); ok {
		t.Errorf("a number that came again is %+v", s)
	}
	if _, ok, _ := Above(p, []Process{{PID: 102}}); !ok {
		t.Error("an ancestor of which only the number is known was missed")
	}
	trees[0].Close()
	if got := find(103, 102, 101, 100); got != "none" {
		t.Errorf("below a dead tree: %q", got)
	}
}
