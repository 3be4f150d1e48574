package console

import (
	"strings"
	"testing"
	"time"
)

const patience = 30 * time.Second

func TestConsole(t *testing.T) {
	c := Start(t, Options{Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Columns: 91, Rows: 17},
		"sh", "-c", `printf '\033[1mname?\033[0m '; read -r n </dev/tty; stty size; echo "hello $n"; exit 7`)
	c.Shows(t, patience, "name? ")
	c.Type(t, "é b\r")
	if got := c.Shows(t, patience, "hello"); !strings.Contains(got, "17 91\nhello é b") {
		t.Errorf("the terminal shows %q", got)
	}
	if status := c.Status(t, patience); status != 7 {
		t.Errorf("exit status %d", status)
	}
}

func TestConsoleKeys(t *testing.T) {
	c := Start(t, Options{Env: []string{"PATH=/usr/bin:/bin"}}, "sh", "-c", "echo ready; exec sleep 100")
	c.Shows(t, patience, "ready")
	c.Type(t, "\x03")
	if status := c.Status(t, patience); status != 130 {
		t.Errorf("exit status %d after Ctrl-C, want 130", status)
	}
}

func TestConsoleRedirected(t *testing.T) {
	c := Start(t, Options{Env: []string{"PATH=/usr/bin:/bin"}, Redirected: true}, "sh", "-c", "echo data; echo speech >&2")
	c.Shows(t, patience, "speech")
	c.Status(t, patience)
	for !c.ended() {
		time.Sleep(time.Millisecond)
	}
	if c.Output() != "data\n" || strings.Contains(c.Transcript(), "data") {
		t.Errorf("output %q, transcript %q", c.Output(), c.Transcript())
	}
}
