package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/pi"
	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// TestRealPiMarksItsTurns: with the extension that turn marks prints, a real Pi tells
// where its turn begins and ends; without it the whole session is one turn.
func TestRealPiMarksItsTurns(t *testing.T) {
	testenv.Need(t, "landlock", "seccomp", "bash")
	for _, c := range []struct {
		name   string
		marked bool
		want   []string
	}{{"without", false, nil}, {"with", true, []string{"turn start", "turn end"}}} {
		t.Run(c.name, func(t *testing.T) {
			model := pi.StartModel(t)
			b := newBench(t, model, nil, `{"bash": {"*": "allow"}}`)
			var more []string
			if c.marked {
				text, err := exec.Command(b.binary, "turn", "marks", "pi").Output()
				if err != nil {
					t.Fatal(err)
				}
				extension := filepath.Join(b.Agent, "turns.ts")
				if err := os.WriteFile(extension, text, 0o600); err != nil {
					t.Fatal(err)
				}
				more = []string{"-e", extension}
			}
			script := model.Script(pi.Bash("printf made > made"))
			p := b.Start(t, b.env(), b.spawn([]string{"--mode", "auto_accept_edits", "--headless"}, b.Print(script.Prompt(), more...)...)...)
			if status := p.Status(t, patience); status != 0 {
				t.Errorf("exit status %d", status)
			}
			var marked []string
			for _, row := range b.audit(t) {
				if row["event"] == "turn_marked" {
					reason, _ := row["reason"].(string)
					marked = append(marked, reason)
				}
			}
			if !slices.Equal(marked, c.want) {
				t.Errorf("marked %q, expected %q", marked, c.want)
			}
			if text, err := os.ReadFile(filepath.Join(b.Work, "made")); err != nil || string(text) != "made" {
				t.Errorf("the command left %q, %v", text, err)
			}
		})
	}
}
