package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

// ps returns what ps lists, by tree.
func (l *lab) ps() map[string]treeView {
	l.t.Helper()
	status, out := l.run("ps", "--json")
	if status != 0 {
		l.t.Fatalf("ps left with %d: %s", status, out)
	}
	views := map[string]treeView{}
	for line := range strings.Lines(out) {
		var v treeView
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			l.t.Fatalf("%q: %v", line, err)
		}
		views[v.Tree] = v
	}
	return views
}

// TestPs: trees in every state, what those that run use, and what they used in all
// when they have ended.
func TestPs(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	// It works until it is told to stop, with a child and a tool.
	l.script("agent.sh", `pioneer-super spawn --agent child -- sh busy.sh &
pioneer-super exec -- sh busy.sh &
touch up; while [ ! -e stop ]; do sleep 0.05; done`)
	l.script("busy.sh", `i=0; while [ ! -e stop ]; do i=$((i+1)); [ $((i % 100000)) = 0 ] && sleep 0.01; done`)

	lost := l.spawn(nil, "sh", "-c", "touch lost; while [ ! -e stop ]; do sleep 0.05; done")
	l.up("lost")
	lostTree := l.trees()[0]
	unix.Kill(supervisorOf(t, lost.Process.Pid), unix.SIGKILL)
	lost.wait(t, patience)
	if got := l.ps()[lostTree]; got.State != treeLost || got.Live == nil || got.Live.Processes != 0 || got.Sessions != 1 {
		t.Errorf("without its supervisor: %+v", got)
	}

	r := l.spawn([]string{"--agent", "root"}, "sh", "agent.sh")
	l.sessions("root", "child")
	var id string
	for _, tree := range l.trees() {
		if tree != lostTree {
			id = tree
		}
	}
	var got treeView
	await(t, patience, "figures of what runs", func() bool {
		got = l.ps()[id]
		return got.Live != nil && got.Live.CPUMillis > 100 && got.Commands == 3
	})
	if got.State != treeRunning || got.Agent != "root" || got.Sessions != 2 || got.Live.Processes < 5 || got.Live.Memory < 1<<20 {
		t.Errorf("while it runs: %+v %+v", got, got.Live)
	}
	if _, out := l.run("tree", id); !strings.Contains(out, "of processor time") {
		t.Errorf("tree shows no figures:\n%s", out)
	}
	l.give("stop", "")
	if code := r.wait(t, patience); code != 0 {
		t.Errorf("status %d: %s", code, r.stderr())
	}
	got = l.ps()[id]
	if got.State != treeEnded || got.Live != nil || got.Sessions != 0 || got.Used == nil || got.Used.CPUMicros < 100_000 || got.Used.MaxMemory < 1<<20 {
		t.Errorf("when it has ended: %+v %+v", got, got.Used)
	}
	// The totals are in the audit: of each command, and of a session with all below it.
	var commands, root int64
	rows, problems := audit.Read(filepath.Join(l.home, "state", "trees", id, registry.AuditName))
	if problems != nil {
		t.Error(problems)
	}
	for _, row := range rows {
		switch {
		case row.Kind == audit.CommandEnded:
			commands += row.Exit.Usage.CPUMicros
		case row.Kind == audit.SessionEnded && row.Agent == "root":
			root = row.Exit.Usage.CPUMicros
		}
	}
	if root == 0 || root != commands {
		t.Errorf("the root with all below it used %d µs, its commands %d", root, commands)
	}
	if status, out := l.run("ps"); status != 0 || !strings.Contains(out, treeEnded) || !strings.Contains(out, treeLost) {
		t.Errorf("%d\n%s", status, out)
	}

	// What is over goes, the audit only if told.
	if status, out := l.run("prune", "--older-than", "0s", "--dry-run"); status != 0 || strings.Count(out, "would delete") != 2 {
		t.Errorf("%d %s", status, out)
	}
	if status, out := l.run("prune"); status != 0 || !strings.HasPrefix(out, "nothing to delete: ") || strings.Count(out, "\n") != 1 {
		t.Errorf("nothing is a month old: %d %s", status, out)
	}
	if status, out := l.run("prune", "--older-than", "0s"); status != 0 || strings.Count(out, "its audit stays") != 2 {
		t.Errorf("%d %s", status, out)
	}
	if got := l.ps(); got[id].State != treePruned || got[lostTree].State != treePruned {
		t.Errorf("after it was pruned: %+v", got)
	}
	if status, out := l.run("log", id); status != 0 || !strings.Contains(out, "of processor time") {
		t.Errorf("its story is gone: %d %s", status, out)
	}
	if status, _ := l.run("prune", "--older-than", "0s", "--with-audit"); status != 0 || len(l.trees()) != 0 {
		t.Errorf("status %d, left %v", status, l.trees())
	}
}
