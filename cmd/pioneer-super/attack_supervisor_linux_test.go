package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/control"
)

var _ = part("large-asks", func([]string) int {
	// A request that just fits into a frame: what is said about it does not.
	r := &control.Request{ID: "large", Op: control.OpExec, Command: &control.Command{Argv: []string{"touch", strings.Repeat("x", 4000)}, Dir: args0(os.Getwd())}}
	for n := control.MaxFrame / 6; ; n -= 16 {
		r.Command.Env = []string{"PATH=" + os.Getenv("PATH"), "LARGE=" + strings.Repeat("\x01", n)}
		if body, err := json.Marshal(control.Message{Request: r}); err == nil && len(body) <= control.MaxFrame {
			break
		}
	}
	got := ask1(r)
	tell(outcome{Name: "large", Status: got.Exit, Said: got.Reason[max(0, len(got.Reason)-200):]})
	code, out := ourselves(nil, "ask", "--surface", "bash", "--value", "touch small")
	tell(outcome{Name: "small", Status: code, Said: out})
	return 0
})

func args0(s string, _ error) string { return s }

// TestALargeAskIsItsAskersFailure: what a person's client cannot be sent must not
// cost the tree that client.
func TestALargeAskIsItsAskersFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"*": "ask"}}`)
	l.hostile()
	r, _ := l.withApprover(allowAll, nil, "./hostile", "large-asks")
	if code := r.wait(t, 60*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	told := outcomes(t, r.stdout())
	if o := told["large"]; o.Status != 126 || !strings.Contains(o.Said, "too large to be shown") {
		t.Errorf("%+v", o)
	}
	if o := told["small"]; o.Status != 0 {
		t.Errorf("after it: %+v", o)
	}
}

// TestATreeOfItsOwnIsJudgedAsACommand: what a new tree runs, this one does not judge.
func TestATreeOfItsOwnIsJudgedAsACommand(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "deny", "pioneer-super spawn -- *": "allow"}}}`)
	l.script("agent.sh", `pioneer-super exec -- touch direct; echo "direct $?"
pioneer-super exec -- pioneer-super spawn --new-tree --headless -- touch tree; echo "tree $?"
pioneer-super exec -- pioneer-super spawn -new-tree=true --headless -- touch tree; echo "tree $?"
pioneer-super exec -c 'pioneer-super spawn --agent -- --new-tree --headless -- touch tree'; echo "tree $?"
pioneer-super exec -- pioneer-super exec -- touch inner; echo "inner $?"`)
	r := l.spawn([]string{"--mode", "full_access"}, "sh", "agent.sh")
	r.wait(t, 40*time.Second)
	if l.there("tree") || strings.Count(r.stdout(), "tree 126\n") != 3 {
		t.Errorf("a new tree ran what this one denies:\n%s", r.stdout())
	}
}
