package screen

import (
	"testing"
	"time"
)

func TestScreen(t *testing.T) {
	s := Start(t, Options{Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin", "GREETING=what is it?"}},
		"sh", "-c", `stty -echo; echo "$GREETING"; read -r line; clear; echo "it is <$line>, $(tput cols)"; exit 3`)
	s.Shows(t, 10*time.Second, "what is it?")
	s.Type(t, "Enter; é")
	s.Press(t, "Enter")
	s.Shows(t, 10*time.Second, "it is <Enter; é>, 100")
	s.Hides(t, 10*time.Second, "what is it?")
	if status := s.Status(t, 10*time.Second); status != 3 {
		t.Errorf("exit status %d, want 3", status)
	}
}
