package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/pi"
	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// A tree of ours under a real Pi: nobody is at the tree's own terminal, so its
// asks go up to Pi, which shows them in its own dialog. This Pi's extension is
// the published one, which writes no heartbeats.

// TestTreeUnderRealPiRPC: Pi's user answers through its rpc client.
func TestTreeUnderRealPiRPC(t *testing.T) {
	testenv.Need(t, "landlock", "seccomp", "bash")
	model := pi.StartModel(t)
	b := newBench(t, model, nil, `{"bash": {"*": "ask", "*pioneer-super *": "allow"}}`)
	root := b.StartRoot(t, b.Env(), func(d pi.Dialog) (string, bool) {
		switch {
		case d.Method == "input":
			return "not today", true
		case strings.Contains(d.Title, "make clean"):
			return "No, provide reason", true
		}
		return "Yes", true
	})
	const script = "pioneer-super exec -- touch allowed; echo touch $?; pioneer-super ask --surface bash --value 'make clean' --json; echo ask $?"
	// Variables alone prove nothing: a file of the project can set them.
	unproven := b.Start(t, b.env(pi.Subagent(root.Session)...), b.spawn([]string{"--mode", "auto_accept_edits", "--headless"}, "sh", "-c", script)...)
	if unproven.Status(t, patience); !strings.Contains(unproven.Output(), "which nothing proves") || !strings.Contains(unproven.Output(), "touch 126") || len(root.Dialogs()) != 0 {
		t.Errorf("a parent that only the environment names was asked, or nobody was told: %s", unproven.Output())
	}
	p := b.Start(t, b.env(pi.Subagent(root.Session)...), b.spawn([]string{"--mode", "auto_accept_edits", "--headless", "--parent", root.Session}, "sh", "-c", script)...)
	if status := p.Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	for _, want := range []string{"touch 0", "ask 11", "not today", `"by":"parent"`} {
		if !strings.Contains(p.Output(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	dialogs := root.Dialogs()
	var titles []string
	for _, d := range dialogs {
		titles = append(titles, d.Method+": "+d.Title)
	}
	if len(dialogs) != 3 || !strings.Contains(dialogs[0].Title, "touch allowed") {
		t.Errorf("Pi's user was shown %q", titles)
	}
}

// TestTreeUnderRealPiTerminal: Pi's user answers in Pi's own dialog.
func TestTreeUnderRealPiTerminal(t *testing.T) {
	testenv.Need(t, "landlock", "seccomp", "bash", "tmux")
	model := pi.StartModel(t)
	b := newBench(t, model, nil, `{"bash": {"*": "ask"}}`)
	root := b.StartTerminalRoot(t, "root-tui", b.Env())
	p := b.Start(t, b.env(pi.Subagent("root-tui")...),
		b.spawn([]string{"--mode", "auto_accept_edits", "--headless", "--parent", "root-tui"}, "sh", "-c", "pioneer-super exec -- touch allowed")...)
	root.Shows(t, patience, "Permission Required (Subagent)", "touch allowed")
	time.Sleep(500 * time.Millisecond)
	root.Type(t, "y")
	root.Shows(t, patience, "Press y again to approve")
	root.Type(t, "y")
	if status := p.Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	root.Hides(t, patience, "Permission Required (Subagent)")
}
