package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestGitWorksInLinkedTreesAndSubmodules(t *testing.T) {
	need(t, "git")
	w := newWorld(t, os.Getuid())
	write(t, w.Home+"/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n[safe]\n\tdirectory = *\n")
	outside := func(dir, text string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-ec", text)
		cmd.Dir, cmd.Env = dir, append(w.environment(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
	}
	outside(w.Home+"/other-project", "git init -q . && git add -f .env && git commit -qm one && git worktree add -q "+w.Home+"/linked -b side")
	outside(w.Workspace, "git init -q . && git submodule add -q "+w.Home+"/other-project module && git commit -qm two")
	for name, workspace := range map[string]string{"linked tree": w.Home + "/linked", "submodule": w.Workspace + "/module"} {
		t.Run(name, func(t *testing.T) {
			w := w
			w.Workspace = workspace
			env := environmentFor(t, w)
			const text = "echo x > new && git add new && git commit -qm three && git log --format=%s -1 && git status --short"
			p, _ := mustPlan(t, w.request(ModeWorkspaceWrite))
			if out, err := command(t, w, &p, env, "/bin/sh", "-ec", text); err == nil {
				t.Errorf("control: git works without its folders: %s", out)
			}
			read, write, err := GitFolders(workspace)
			if err != nil || len(write) == 0 {
				t.Fatalf("%q %q %v", read, write, err)
			}
			r := w.request(ModeWorkspaceWrite)
			r.ReadRoots, r.WriteRoots = read, write
			p, _ = mustPlan(t, r)
			if out := shell(t, w, &p, env, text); out != "three" {
				t.Errorf("git wrote %q", out)
			}
			if name == "linked tree" {
				for _, path := range []string{"hooks/pre-commit", "config"} {
					if out, err := command(t, w, &p, env, "/bin/sh", "-c", "echo x >> "+w.Home+"/other-project/.git/"+path); err == nil {
						t.Errorf("%s of the shared repository was written: %s", path, out)
					}
				}
			}
		})
	}
}

func TestGitFoldersBelieveOnlyWhatLeadsBack(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return filepath.Join(root, path) }
	for path, content := range map[string]string{
		"ws/.git": "gitdir: ../repo/.git/worktrees/ws\n", "repo/.git/worktrees/ws/commondir": "../..\n", "repo/.git/worktrees/ws/gitdir": at("ws/.git") + "\n",
		"repo/.git/objects/x": "", "repo/.git/refs/x": "", "other/.git/objects/x": "", "other/.git/refs/x": "",
		"other/.git/worktrees/o/commondir": "../..\n", "other/.git/worktrees/o/gitdir": at("o/.git") + "\n", "o/.git": "x",
		"other/.git/modules/m/config": "[core]\n\tworktree = ../../../m\n", "other/m/.git": "gitdir: ../.git/modules/m\n",
		"plain/.git/config": "", "none/file": "",
	} {
		write(t, at(path), content)
	}
	read, writes, err := GitFolders(at("ws"))
	if err != nil || !slices.Equal(read, []string{at("repo/.git")}) ||
		!slices.Equal(writes, []string{at("repo/.git/worktrees/ws"), at("repo/.git/objects"), at("repo/.git/refs")}) {
		t.Fatalf("an honest linked tree: %q %q %v", read, writes, err)
	}
	if _, writes, err := GitFolders(at("other/m")); err != nil || !slices.Equal(writes, []string{at("other/.git/modules/m")}) {
		t.Fatalf("an honest submodule: %q %v", writes, err)
	}
	for _, dir := range []string{"plain", "none"} {
		if read, writes, err := GitFolders(at(dir)); err != nil || len(read)+len(writes) != 0 {
			t.Errorf("%s: %q %q %v", dir, read, writes, err)
		}
	}
	for name, c := range map[string]struct{ path, content, want string }{
		"another tree's folder":     {"ws/.git", "gitdir: " + at("other/.git/worktrees/o"), "does not lead back"},
		"another repository":        {"ws/.git", "gitdir: " + at("other/.git"), "no such file"},
		"another submodule":         {"ws/.git", "gitdir: " + at("other/.git/modules/m"), "does not lead back"},
		"another shared repository": {"repo/.git/worktrees/ws/commondir", at("other/.git"), "is no working tree of"},
		"home":                      {"repo/.git/worktrees/ws/commondir", root, "is no working tree of"},
		"no gitdir:":                {"ws/.git", "hello", "does not begin with"},
		"a place that is not":       {"ws/.git", "gitdir: /nowhere", "no such file"},
		"two lines":                 {"ws/.git", "gitdir: /a\n/b", "path"},
		"nothing":                   {"ws/.git", "gitdir: ", `path ""`},
		"an endless file":           {"ws/.git", "gitdir: " + strings.Repeat("x", longestGitFile), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			old, err := os.ReadFile(at(c.path))
			if err != nil {
				t.Fatal(err)
			}
			defer write(t, at(c.path), string(old))
			write(t, at(c.path), c.content)
			read, writes, err := GitFolders(at("ws"))
			if err == nil || len(read)+len(writes) != 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q %q %v, want %q", read, writes, err, c.want)
			}
		})
	}
	for name, make := range map[string]func(string) error{
		"a link": func(p string) error { return os.Symlink(at("other/.git"), p) },
		"a pipe": func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		if err := os.Remove(at("ws/.git")); err != nil {
			t.Fatal(err)
		}
		if err := make(at("ws/.git")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := GitFolders(at("ws")); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
