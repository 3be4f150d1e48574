package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/registry"
)

// examine runs the doctor in the lab's workspace.
func (l *lab) examine(want int) *diagnosis {
	l.t.Helper()
	r := l.start("doctor", "--json")
	if code := r.wait(l.t, 30*time.Second); code != want {
		l.t.Fatalf("doctor left with %d, expected %d\n%s%s", code, want, r.stdout(), r.stderr())
	}
	var d diagnosis
	if err := json.Unmarshal([]byte(r.stdout()), &d); err != nil {
		l.t.Fatalf("doctor --json: %v\n%s", err, r.stdout())
	}
	return &d
}

// TestDoctorSaysWhatTreesGet: the strength that the doctor promises for a mode is the
// one that a session of that mode has.
func TestDoctorSaysWhatTreesGet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	promised := map[string]string{}
	for _, m := range l.examine(0).Modes {
		promised[string(m.Mode)] = m.Report.Strength
	}
	if len(promised) != 3 {
		t.Fatalf("promised %v, expected a line for each of three modes", promised)
	}
	for mode, want := range promised {
		if code := l.start("spawn", "--headless", "--mode", mode, "--", "true").wait(t, 60*time.Second); code != 0 {
			t.Fatalf("%s: exit %d", mode, code)
		}
		r := l.start("tree", "--json")
		r.wait(t, 30*time.Second)
		var tree registry.TreeState
		if err := json.Unmarshal([]byte(r.stdout()), &tree); err != nil || len(tree.Sessions) != 1 {
			t.Fatalf("%s: %v\n%s", mode, err, r.stdout())
		}
		if got := tree.Sessions[0].Strength; got != want {
			t.Errorf("%s: the doctor promised %q, the session has %q", mode, want, got)
		}
	}
}

// TestDoctorFindsWhatStandsInTheWay, and makes nothing.
func TestDoctorFindsWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	in := func(d *diagnosis, parts ...string) bool {
		for _, o := range d.Obstacles {
			found := true
			for _, p := range parts {
				found = found && strings.Contains(o, p)
			}
			if found {
				return true
			}
		}
		return false
	}

	l := newLab(t)
	if d := l.examine(0); len(d.Obstacles) > 0 || d.Start.Workspace != l.work {
		t.Errorf("nothing is wrong: %q, workspace %s", d.Obstacles, d.Start.Workspace)
	}
	if made, err := os.ReadDir(l.home); err != nil || len(made) > 0 {
		t.Errorf("it made %v, %v", made, err)
	}

	l.configure("policy.jsonc", `{"permission": {"bash": {"ls": "alow"}}}`)
	if d := l.examine(1); !in(d, "policy.jsonc", "1 mistake;") {
		t.Errorf("a mistake in the policy: %q", d.Obstacles)
	}
	l.configure("policy.jsonc", `{}`)

	state := filepath.Join(l.home, "state")
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	if d := l.examine(1); !in(d, "state directory", state) {
		t.Errorf("others may write the state: %q", d.Obstacles)
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}

	// A binary that the session could change: the start is refused with the same words.
	own := filepath.Join(l.work, "pioneer-super")
	data, err := os.ReadFile(product.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, data, 0o700); err != nil {
		t.Fatal(err)
	}
	self := func(args ...string) (int, string) {
		r := l.startAs(func(c *exec.Cmd) { c.Path = own }, args...)
		code := r.wait(t, 30*time.Second)
		return code, r.stdout() + r.stderr()
	}
	code, said := self("doctor")
	if code != exitFindings || !strings.Contains(said, "In the way: a restricted session in "+l.work) {
		t.Errorf("doctor of a binary in the workspace: exit %d\n%s", code, said)
	}
	_, why, _ := strings.Cut(said, "In the way: a restricted session in "+l.work+": ")
	why, _, _ = strings.Cut(why, "\n")
	if code, said := self("spawn", "--headless", "--mode", "supervised", "--", "true"); code != 125 || why == "" || !strings.Contains(said, why) {
		t.Errorf("the start: exit %d, expected 125 and %q\n%s", code, why, said)
	}
}

// TestDoctorForAPerson: the page says what counts, in this order.
func TestDoctorForAPerson(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.extra = []string{"TMUX=/tmp/tmux-0/default,1,0"}
	bin := filepath.Join(l.home, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "claude"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.extra = append(l.extra, "PATH="+bin+":"+os.Getenv("PATH"))
	r := l.start("doctor")
	if code := r.wait(t, 30*time.Second); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, r.stdout(), r.stderr())
	}
	rest := r.stdout()
	for _, want := range []string{
		"pioneer-super ", "This host\n", "file rules", "What each mode gives to tools here\n", "full_access ", "auto_accept_edits ", "supervised ",
		"Agents on your PATH\n", "claude ", "no adapter", "Who else could type or act for you\n", "tmux", "--phrase",
		"Directories\n", filepath.Join(l.home, "state"), "Nothing stands in the way of a restricted session.",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not there, or not in its place\n%s", want, r.stdout())
		}
		rest = after
	}
}
