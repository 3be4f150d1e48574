package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// TestAChildIsNoWayOut: where a child is started, and as what, opens nothing.
func TestAChildIsNoWayOut(t *testing.T) {
	testenv.Need(t, "landlock")
	t.Parallel()
	for _, mode := range []string{"full_access", "auto_accept_edits", "supervised"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow"}}}`)
			out := filepath.Join(l.home, "elsewhere")
			if err := os.MkdirAll(filepath.Join(out, ".git"), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(out, "marked"), "SEEN\n")
			l.script("agent.sh", `
pioneer-super spawn --cwd $OUT -- cat marked
pioneer-super spawn --cwd $OUT -- touch written1
pioneer-super spawn --cwd $OUT --mode full_access -- cat marked
pioneer-super spawn --cwd / -- cat $OUT/marked
pioneer-super spawn --cwd $OUT/.. -- cat $OUT/marked
pioneer-super exec --cwd $OUT -- cat marked
pioneer-super exec --cwd $OUT -- touch written2
pioneer-super exec -c "cd $OUT && cat marked; echo x > written3"
pioneer-super spawn --mode full_access -- sh -c "cat $OUT/marked; touch $OUT/written4"
ln -s $OUT link; pioneer-super spawn --cwd link -- sh -c 'cat marked; touch written5'
exit 0`)
			r := l.spawnAs(func(c *exec.Cmd) { c.Env = append(c.Env, "OUT="+out) }, []string{"--mode", mode}, "sh", "agent.sh")
			if code := r.wait(t, 60*time.Second); code != 0 {
				t.Fatalf("status %d: %s", code, r.stderr())
			}
			written, _ := filepath.Glob(filepath.Join(out, "written*"))
			if seen := strings.Contains(r.stdout(), "SEEN"); mode == "full_access" && (!seen || len(written) != 5) {
				t.Errorf("the control saw it %v and wrote %v: nothing is shown\n%s", seen, written, r.stderr())
			} else if mode != "full_access" && (seen || len(written) != 0) {
				t.Errorf("it was seen %v, and %v were written\n%s%s", seen, written, r.stdout(), r.stderr())
			}
		})
	}
}

// TestNarrowing: each level gets at most what the one above has, and is told.
func TestNarrowing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"sh *": "allow", "cat *": "allow"}}}`)
	l.script("one.sh", `pioneer-super spawn --agent two --mode supervised -- sh two.sh`)
	l.script("two.sh", `pioneer-super spawn --agent three --mode full_access -- sh three.sh`)
	l.script("three.sh", `touch inside 2>/dev/null && echo wrote; pioneer-super exec -- cat one.sh >/dev/null && echo read; echo "depth $PIONEER_SUPER_DEPTH"; exit 5`)
	r := l.spawn([]string{"--mode", "auto_accept_edits", "--agent", "one"}, "sh", "one.sh")
	if code := r.wait(t, 30*time.Second); code != 5 {
		t.Errorf("status %d, expected 5 through three levels: %s", code, r.stderr())
	}
	if want := "mode full_access: narrowed to supervised, which is what the parent has"; strings.Count(r.stderr(), want) != 1 {
		t.Errorf("not told once that %q, but:\n%s", want, r.stderr())
	}
	if out := r.stdout(); strings.Contains(out, "wrote") || !strings.Contains(out, "read") || !strings.Contains(out, "depth 2") {
		t.Errorf("the third level printed %q", out)
	}
	_, tree := l.run("tree")
	for _, want := range []string{"one (", "two (", "three (", "auto_accept_edits", "supervised"} {
		if !strings.Contains(tree, want) {
			t.Errorf("tree does not show %q:\n%s", want, tree)
		}
	}
}

// TestCapsMeet: a cap of a child cannot widen, and what the ceiling forbids is
// never offered.
func TestCapsMeet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		above, below string // caps of the root and of its child
		offered      bool   // the network, to a tool of the child
	}{
		"no cap":                   {"", "", true},
		"a ceiling above":          {`{"ceiling": {"network": "disabled"}}`, "", false},
		"a ceiling below":          {"", `{"ceiling": {"network": "disabled"}}`, false},
		"a child that wants more":  {`{"ceiling": {"network": "disabled"}}`, `{"ceiling": {"network": "enabled"}, "open": {"network": "enabled"}}`, false},
		"a child that opens":       {"", `{"open": {"network": "enabled"}}`, true},
		"a sandbox that stays on ": {`{"ceiling": {"sandbox_off": false}}`, `{"ceiling": {"sandbox_off": true}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"sh *": "allow", "curl *": "ask"}}}`)
			flags := []string{"--mode", "auto_accept_edits"}
			if c.above != "" {
				put(t, filepath.Join(l.home, "above.jsonc"), c.above)
				flags = append(flags, "--cap", filepath.Join(l.home, "above.jsonc"))
			}
			cap := ""
			if c.below != "" {
				put(t, filepath.Join(l.work, "below.jsonc"), c.below)
				cap = "--cap below.jsonc"
			}
			l.script("child.sh", `pioneer-super exec -- curl http://127.0.0.1:1/`)
			r, a := l.withApprover(func(q control.Question) *control.Answer {
				// What was not offered is refused even if it is answered.
				return no(q)
			}, flags, "sh", "-c", "pioneer-super spawn "+cap+" -- sh child.sh")
			if code := r.wait(t, 30*time.Second); code != 126 {
				t.Fatalf("status %d: %s", code, r.stderr())
			}
			q := a.question(0)
			offered, off := false, false
			for _, o := range q.Offers {
				offered = offered || o.Key == "x"
				off = off || o.Key == "O"
			}
			if offered != c.offered {
				t.Errorf("the network is offered: %v, expected %v (%+v)", offered, c.offered, q.Offers)
			}
			if wantOff := !strings.Contains(c.above, "sandbox_off"); off != wantOff {
				t.Errorf("no sandbox is offered: %v, expected %v", off, wantOff)
			}
			if !offered && !strings.Contains(fmt.Sprint(q.Warnings), "can never be given") {
				t.Errorf("that it can never have it is not said: %v", q.Warnings)
			}
		})
	}
}

// TestPowerInAWritableRoot: a session that could change what has power over it is
// not started. The message names the path and says where it may lie.
func TestPowerInAWritableRoot(t *testing.T) {
	t.Parallel()
	binary, err := os.ReadFile(product.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	const rules = `{"permission": {"bash": {"*": "ask"}}}`
	for name, c := range map[string]struct {
		set  func(t *testing.T, l *lab, r *exec.Cmd) // and what to start it with
		says []string
	}{
		"the binary": {func(t *testing.T, l *lab, c *exec.Cmd) {
			put(t, filepath.Join(l.work, "pioneer-super"), string(binary))
			c.Path = filepath.Join(l.work, "pioneer-super")
		}, []string{"running binary", "/project/pioneer-super", "install"}},
		"the binary behind a link": {func(t *testing.T, l *lab, c *exec.Cmd) {
			put(t, filepath.Join(l.work, "ps"), string(binary))
			linkTo(t, filepath.Join(l.work, "ps"), filepath.Join(l.home, "pioneer-super"))
			c.Path = filepath.Join(l.home, "pioneer-super")
		}, []string{"running binary", "/project/ps", "install"}},
		"the policy": {func(t *testing.T, l *lab, c *exec.Cmd) {
			put(t, filepath.Join(l.work, "p.jsonc"), rules)
			c.Args = flag(c.Args, "--policy", filepath.Join(l.work, "p.jsonc"))
		}, []string{"policy", "/project/p.jsonc", "move it elsewhere"}},
		"the policy behind a link": {func(t *testing.T, l *lab, c *exec.Cmd) {
			put(t, filepath.Join(l.work, "dotfiles.jsonc"), rules)
			linkTo(t, filepath.Join(l.work, "dotfiles.jsonc"), filepath.Join(l.home, "p.jsonc"))
			c.Args = flag(c.Args, "--policy", filepath.Join(l.home, "p.jsonc"))
		}, []string{"policy", "/project/dotfiles.jsonc", "move it elsewhere"}},
		"a link on the way to the policy": {func(t *testing.T, l *lab, c *exec.Cmd) {
			put(t, filepath.Join(l.home, "p.jsonc"), rules)
			linkTo(t, l.home, filepath.Join(l.work, "way"))
			c.Args = flag(c.Args, "--policy", filepath.Join(l.work, "way", "p.jsonc"))
		}, []string{"policy", "/project/way", "move it elsewhere"}},
		"the state": {func(t *testing.T, l *lab, c *exec.Cmd) {
			c.Env = append(c.Env, "PIONEER_SUPER_HOME="+filepath.Join(l.work, ".state"))
		}, []string{"state", "/project/.state"}},
		"the run directory": {func(t *testing.T, l *lab, c *exec.Cmd) {
			put(t, filepath.Join(l.work, "x"), "")
			if err := os.Mkdir(filepath.Join(l.work, "run"), 0o700); err != nil {
				t.Fatal(err)
			}
			c.Env = append(c.Env, "XDG_RUNTIME_DIR="+filepath.Join(l.work, "run"))
		}, []string{"run directory", "/project/run"}},
		"the configuration": {func(t *testing.T, l *lab, c *exec.Cmd) {
			if err := os.MkdirAll(filepath.Join(l.work, "config", "pioneer-super"), 0o700); err != nil {
				t.Fatal(err)
			}
			c.Env = append(c.Env, "XDG_CONFIG_HOME="+filepath.Join(l.work, "config"))
		}, []string{"configuration directory", "/project/config"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := func(mode string) (int, *running, *lab) {
				l := newLab(t)
				r := l.startAs(func(cmd *exec.Cmd) { c.set(t, l, cmd) }, "spawn", "--headless", "--mode", mode, "--", "touch", "ran")
				return r.wait(t, 30*time.Second), r, l
			}
			// The control: it is the place alone that is refused.
			if code, r, l := start("full_access"); code != 0 || !l.there("ran") {
				t.Fatalf("control: status %d: %s", code, r.stderr())
			}
			modes := []string{"auto_accept_edits"}
			if name == "the policy" {
				modes = append(modes, "supervised") // a human may open the workspace there
			}
			for _, mode := range modes {
				code, r, l := start(mode)
				if code != 125 || l.there("ran") {
					t.Errorf("%s: status %d, ran %v: %s", mode, code, l.there("ran"), r.stderr())
				}
				for _, want := range c.says {
					if !strings.Contains(r.stderr(), want) {
						t.Errorf("%s: not told %q, but: %s", mode, want, r.stderr())
					}
				}
			}
		})
	}
}

func linkTo(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// flag puts a flag behind the command's name.
func flag(args []string, add ...string) []string {
	return append(append(append([]string(nil), args[:2]...), add...), args[2:]...)
}
