package pi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience is how long a real Pi may take for one step on a machine that has
// other work to do.
const patience = 3 * time.Minute

// TestRealPiHarness proves the harness itself, without any program of ours: a
// real Pi asks over the file protocol, and what the test answers is what it does.
func TestRealPiHarness(t *testing.T) {
	model := StartModel(t)
	lab := NewLab(t, model, Options{})
	script := model.Script(Bash("echo yes > approved"), Bash("echo no > denied"))
	inbox := lab.Inbox("root-1")
	child := lab.Start(t, lab.Env(Subagent("root-1")...), lab.Print(script.Prompt())...)

	first := inbox.Next(t, patience)
	if _, err := os.Stat(filepath.Join(lab.Work, "approved")); err == nil {
		t.Error("the command ran before it was approved")
	}
	if first.Surface == nil || *first.Surface != "bash" || first.TargetSessionID != "root-1" || !strings.Contains(first.Message, "echo yes > approved") {
		t.Errorf("the ask is not the one of this command: %+v", first)
	}
	inbox.Answer(t, first, true, "approved", "")
	second := inbox.Next(t, patience)
	inbox.Answer(t, second, false, "denied_with_reason", "not on my watch")

	if status := child.Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	results := script.Results(t, time.Second)
	if len(results) != 2 || !strings.HasSuffix(results[1], "Reason: not on my watch.") {
		t.Errorf("the model was told %q", results)
	}
	if text, err := os.ReadFile(filepath.Join(lab.Work, "approved")); err != nil || string(text) != "yes\n" {
		t.Errorf("approved: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(lab.Work, "denied")); err == nil {
		t.Error("the denied command ran")
	}
}

// TestRealPiHarnessShellPath shows that Pi runs its shell tool with the program
// of its settings: what our sandbox depends on.
func TestRealPiHarnessShellPath(t *testing.T) {
	model := StartModel(t)
	dir := t.TempDir()
	shell := filepath.Join(dir, "bash")
	if err := os.WriteFile(shell, []byte("#!/bin/sh\nprintf 'shell got %s arguments, the first %s: ' \"$#\" \"$1\"\nexec /bin/sh \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	lab := NewLab(t, model, Options{ShellPath: shell, Permission: map[string]any{"*": "allow"}})
	script := model.Script(Bash("echo ran"))
	if status := lab.Start(t, lab.Env(), lab.Print(script.Prompt())...).Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	got := script.Results(t, time.Second)
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if diff := cmp.Diff([]string{"shell got 2 arguments, the first -c: ran"}, got); diff != "" {
		t.Error(diff)
	}
}

// ask is a request as a child of the root would write it.
func ask(id, target, value string) Request {
	surface := "bash"
	return Request{
		ID: id, CreatedAt: time.Now().UnixMilli(), RequesterSessionID: "child-1", TargetSessionID: target, RequesterAgentName: "scout",
		Message: "Current agent requested bash command '" + value + "'. Allow this command?", Source: "tool_call", Surface: &surface, Value: &value,
	}
}

func TestRealPiHarnessRoots(t *testing.T) {
	model := StartModel(t)
	t.Run("rpc", func(t *testing.T) {
		lab := NewLab(t, model, Options{})
		root := lab.StartRoot(t, lab.Env(), func(d Dialog) (string, bool) {
			if d.Method == "select" {
				return "No, provide reason", true
			}
			return "later", true
		})
		inbox, request := lab.Inbox(root.Session), ask("1-a-1", root.Session, "make clean")
		inbox.Ask(t, request)
		got := inbox.Response(t, request, patience)
		if got.Approved || got.DenialReason == nil || *got.DenialReason != "later" {
			t.Errorf("the response is %+v", got)
		}
		if d := root.Dialogs(); len(d) != 2 || !strings.Contains(d[0].Title, "make clean") {
			t.Errorf("the dialogs were %+v", d)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		lab := NewLab(t, model, Options{})
		root := lab.StartTerminalRoot(t, "root-tui", lab.Env())
		inbox, request := lab.Inbox("root-tui"), ask("1-a-1", "root-tui", "make clean")
		inbox.Ask(t, request)
		root.Shows(t, patience, "Permission Required (Subagent)", "make clean")
		root.Type(t, "y")
		root.Shows(t, patience, "Press y again to approve")
		root.Type(t, "y")
		if got := inbox.Response(t, request, patience); !got.Approved || got.State != "approved" || got.ResponderSessionID != "root-tui" {
			t.Errorf("the response is %+v", got)
		}
	})
}
