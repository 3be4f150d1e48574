package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckWritableRoots(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for _, d := range []string{"ws/bin", "ws/dotfiles", "bin", "state/trees", "other"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"bin/linked": "../ws/bin/tool", "ws/link-to-safe": "../bin/tool", "policy": "ws/dotfiles/policy.jsonc", "alias": "ws", "ws/self": "self",
		"ws/through": "../other",
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"bin/tool", "ws/bin/tool", "ws/dotfiles/policy.jsonc"} {
		if err := os.WriteFile(at(file), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ws := []string{at("ws")}
	const what = "running binary"
	for name, c := range map[string]struct {
		roots []string
		path  string
		want  string // "" passes
	}{
		"outside":                       {ws, at("bin/tool"), ""},
		"inside":                        {ws, at("ws/bin/tool"), "the running binary " + at("ws/bin/tool") + " lies in " + at("ws") + ", which this tree may write; install it elsewhere, for example: install -m 0755 "},
		"a link that leads inside":      {ws, at("bin/linked"), "the running binary " + at("ws/bin/tool") + " lies in"},
		"a link inside that leads out":  {ws, at("ws/link-to-safe"), "is reached through the link " + at("ws/link-to-safe") + ", which lies in " + at("ws")},
		"a directory link inside":       {ws, at("ws/through/tool"), "is reached through the link " + at("ws/through")},
		"a dotfile link":                {ws, at("policy"), "lies in " + at("ws")},
		"the root by another name":      {[]string{at("alias")}, at("ws/bin/tool"), "lies in " + at("ws")},
		"the root itself":               {ws, at("ws"), "lies in " + at("ws")},
		"not there yet, inside":         {ws, at("ws/new/policy.jsonc"), "lies in " + at("ws")},
		"not there yet, outside":        {ws, at("new/policy.jsonc"), ""},
		"a name that only begins alike": {ws, dir + "/wsx/tool", ""},
		"a root inside the state":       {[]string{at("state/trees")}, at("state"), at("state/trees") + ", which this tree may write, lies in the running binary " + at("state")},
		"a link to itself":              {ws, at("ws/self"), "more than 40 symbolic links"},
		"a relative path":               {ws, "tool", "not absolute"},
		"no roots":                      {nil, at("ws/bin/tool"), ""},
		"the second root":               {[]string{at("other"), at("ws")}, at("ws/bin/tool"), "lies in " + at("ws")},
		"a root that is not there":      {[]string{at("gone")}, at("gone/tool"), "lies in " + at("gone")},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckWritableRoots(c.roots, map[string]string{c.path: what})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q", err, c.want)
			}
		})
	}
	err = CheckWritableRoots(ws, map[string]string{at("policy"): "policy", at("ws/bin/tool"): what})
	if err == nil || strings.Count(err.Error(), "refused: ") != 2 || !strings.Contains(err.Error(), "move it elsewhere") {
		t.Errorf("two mistakes: %v", err)
	}
	if err := CheckWritableRoots([]string{"relative"}, nil); err == nil {
		t.Error("a relative root passes")
	}
}

func TestWorkspace(t *testing.T) {
	const home, state = "/home/u", "/home/u/.local/state/pioneer-super"
	for name, c := range map[string]struct {
		dir  string
		git  string
		want string // a path, or what the error says
	}{
		"here":                     {"/home/u/p", "/home/u/p", "/home/u/p"},
		"above":                    {"/home/u/p/a/b", "/home/u/p", "/home/u/p"},
		"the nearest":              {"/home/u/p/sub/x", "/home/u/p/sub", "/home/u/p/sub"},
		"none: the directory":      {"/srv/x/y", "", "/srv/x/y"},
		"/":                        {"/", "", "/ is the whole system"},
		"a repository in /":        {"/srv/x", "/", "/, the nearest directory above /srv/x with .git in it, is the whole system"},
		"home":                     {"/home/u", "", "/home/u holds the home directory"},
		"a repository in home":     {"/home/u/docs", "/home/u", "the nearest directory above /home/u/docs with .git in it, holds the home directory"},
		"above home":               {"/home", "", "/home holds the home directory"},
		"above the state":          {"/home/u/.local", "", "holds our state"},
		"the state":                {state, "", "holds our state"},
		"in the state":             {state + "/trees/x", "", "lies in our state"},
		"relative":                 {"p", "", "is not absolute"},
		"empty":                    {"", "", "empty path"},
		"not in its shortest form": {"/home/u/../u/p", "", "shortest form"},
	} {
		got, err := Workspace(c.dir, home, state, func(path string) bool { return c.git != "" && path == filepath.Join(c.git, ".git") })
		if strings.HasPrefix(c.want, "/") && !strings.Contains(c.want, " ") {
			if err != nil || got != c.want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		} else if err == nil || got != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	// A container's user may have / for a home; that says nothing about where work is done.
	if got, err := Workspace("/srv/x", "/", "", func(string) bool { return false }); err != nil || got != "/srv/x" {
		t.Errorf("home is /: %q, %v", got, err)
	}
}
