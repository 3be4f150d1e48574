package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/console"
	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

const patience = 30 * time.Second

// console runs the product in a terminal of its own.
func (l *lab) console(args ...string) *console.Console {
	l.t.Helper()
	l.t.Cleanup(func() { l.nobody(5 * time.Second) })
	return console.Start(l.t, console.Options{Dir: l.work, Env: append(l.env(), "TERM=xterm-256color", "LANG=C.UTF-8")}, append([]string{product.Binary(l.t)}, args...)...)
}

// press gives a key by itself, after the time in which a key does not count.
func press(t *testing.T, c *console.Console, key string) {
	t.Helper()
	time.Sleep(1200 * time.Millisecond)
	c.Type(t, key)
	time.Sleep(300 * time.Millisecond)
}

// TestASecondTerminalPairs: the code that it shows is typed in the first; then it
// answers, and the audit says how it was proven.
func TestASecondTerminalPairs(t *testing.T) {
	testenv.Need(t, "pty")
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"touch *": "ask"}}}`)
	l.script("agent.sh", `touch up; while [ ! -e go ]; do sleep 0.05; done; pioneer-super exec -- touch ran`)
	front := l.console("spawn", "--policy", l.policy, "--", "sh", "agent.sh")
	l.up("up")

	// A code that nobody typed right is no proof.
	wrong := l.console("approve")
	wrong.Shows(t, patience, "type this in the terminal of the tree")
	front.Shows(t, patience, "wants to pair")
	time.Sleep(1200 * time.Millisecond)
	for range 3 {
		for _, r := range "aaaaaaaa" {
			front.Type(t, string(r))
			time.Sleep(30 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		front.Type(t, "\r")
		time.Sleep(300 * time.Millisecond)
	}
	if code := wrong.Status(t, patience); code != 126 {
		t.Errorf("with a wrong code approve left with %d", code)
	}

	second := l.console("approve")
	shown := second.Shows(t, patience, "code ")
	code := regexp.MustCompile(`code ([a-z0-9]{4}-[a-z0-9]{4})`).FindStringSubmatch(shown)
	if code == nil {
		t.Fatalf("no code is shown: %s", shown)
	}
	front.Shows(t, patience, "wants to pair")
	if strings.Contains(front.Transcript(), code[1]) {
		t.Error("the first terminal shows the code that has to be typed in it")
	}
	time.Sleep(1200 * time.Millisecond)
	for _, r := range code[1] {
		front.Type(t, string(r))
		time.Sleep(30 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	front.Type(t, "\r")
	second.Shows(t, patience, "this terminal now answers")

	l.touch("go")
	second.Shows(t, patience, "touch ran")
	front.Shows(t, patience, "touch ran")
	press(t, second, "y")
	if status := front.Status(t, patience); status != 0 || !l.there("ran") {
		t.Errorf("status %d, ran %v", status, l.there("ran"))
	}
	var proofs []string
	for _, row := range l.rowsOf(audit.ApprovalResolved) {
		proofs = append(proofs, row.Proof)
	}
	if fmt.Sprint(proofs) != "[paired]" {
		t.Errorf("proven by %v", proofs)
	}
	if len(l.rowsOf(audit.AnswerRefused)) == 0 {
		t.Error("the wrong code is not in the audit")
	}
}

// TestThePhraseProves: and three wrong ones lock this way for the tree.
func TestThePhraseProves(t *testing.T) {
	testenv.Need(t, "pty")
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"touch *": "ask"}}}`)
	l.script("agent.sh", `touch up; while [ ! -e go ]; do sleep 0.05; done; pioneer-super exec -- touch ran; touch asked; while [ ! -e finish ]; do sleep 0.05; done`)
	front := l.console("spawn", "--phrase", "--policy", l.policy, "--", "sh", "agent.sh")
	front.Shows(t, patience, "phrase for this tree")
	front.Type(t, "open sesame\r")
	l.up("up")
	say := func(phrase string) *console.Console {
		c := l.console("approve", "--phrase")
		c.Shows(t, patience, "phrase of ")
		c.Type(t, phrase+"\r")
		return c
	}
	second := say("open sesame")
	second.Shows(t, patience, "this terminal now answers")
	l.touch("go")
	second.Shows(t, patience, "touch ran")
	press(t, second, "y")
	l.up("asked")
	if !l.there("ran") {
		t.Error("the answer had no effect")
	}
	resolved := l.rowsOf(audit.ApprovalResolved)
	if len(resolved) != 1 || resolved[0].Proof != "phrase" {
		t.Errorf("resolved as %+v", resolved)
	}
	for _, phrase := range []string{"guess", "guess again", "and again", "open sesame"} {
		if status := say(phrase).Status(t, patience); status != 126 {
			t.Errorf("%q: status %d, expected 126", phrase, status)
		}
	}
	if got := len(l.rowsOf(audit.AnswerRefused)); got < 3 {
		t.Errorf("%d refusals are in the audit", got)
	}
	for _, shown := range []string{front.Transcript(), second.Transcript()} {
		if strings.Contains(shown, "sesame") {
			t.Error("the phrase was shown")
		}
	}
	l.touch("finish")
	if status := front.Status(t, patience); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestTheTerminalStopsAndGoesOn: Ctrl-Z stops this client, the shell above gets its
// prompt, asks go on to be answered, and fg goes on with the agent.
func TestTheTerminalStopsAndGoesOn(t *testing.T) {
	testenv.Need(t, "pty", "bash")
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"echo *": "allow"}}}`)
	l.script("agent.sh", `echo "agent up"; while read -r line; do echo "got <$line>"; [ "$line" = end ] && exit 3; done`)
	c := console.Start(t, console.Options{Dir: l.work, Env: append(l.env(), "TERM=xterm-256color", "LANG=C.UTF-8", "PS1=prompt> ", "HOME="+l.home)},
		"bash", "--norc", "--noprofile", "-i")
	t.Cleanup(func() { l.nobody(5 * time.Second) })
	c.Shows(t, patience, "prompt> ")
	c.Type(t, product.Binary(t)+" spawn --policy "+l.policy+" -- sh agent.sh\r")
	c.Shows(t, patience, "agent up")
	c.Type(t, "first\r")
	c.Shows(t, patience, "got <first>")
	c.Type(t, "\x1a")
	c.Shows(t, patience, "Stopped", "prompt> ")
	c.Type(t, "echo back $((6*7))\r")
	c.Shows(t, patience, "back 42")
	c.Type(t, "fg\r")
	c.Shows(t, patience, "spawn")
	time.Sleep(300 * time.Millisecond)
	c.Type(t, "second\r")
	c.Shows(t, patience, "got <second>")
	c.Type(t, "end\r")
	c.Shows(t, patience, "prompt> ")
	c.Type(t, "echo status $?\r")
	c.Shows(t, patience, "status 3")
	c.Type(t, "exit\r")
	c.Status(t, patience)
}

// TestTheTerminalsSizeAndKeys: the agent's terminal is as large as this one, also
// after it changed, is its own and not the real one, and Ctrl-C reaches the agent
// as a key does.
func TestTheTerminalsSizeAndKeys(t *testing.T) {
	testenv.Need(t, "pty")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", `stty size; tty; trap 'stty size' WINCH; trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.05; done`)
	c := console.Start(t, console.Options{Dir: l.work, Env: append(l.env(), "TERM=xterm-256color", "LANG=C.UTF-8")},
		"sh", "-c", `echo "real $(tty)"; exec "$0" spawn -- sh agent.sh`, product.Binary(t))
	c.Shows(t, patience, "40 120", "ready")
	names := regexp.MustCompile(`/dev/pts/\d+`).FindAllString(c.Transcript(), -1)
	if len(names) != 2 || names[0] == names[1] {
		t.Errorf("the real terminal and the agent's are %v", names)
	}
	c.Resize(t, 77, 21)
	c.Shows(t, patience, "21 77")
	c.Type(t, "\x03")
	c.Shows(t, patience, "interrupted")
	if status := c.Status(t, patience); status != 4 {
		t.Errorf("status %d, expected the agent's own 4", status)
	}
	l.nobody(5 * time.Second)
}

// TestNobodyInTheTreeHasTheRealTerminal: not as a descriptor, and not as its
// controlling terminal, whatever its streams are.
func TestNobodyInTheTreeHasTheRealTerminal(t *testing.T) {
	testenv.Need(t, "pty")
	t.Parallel()
	l := newLab(t)
	l.script("agent.sh", `touch up; (exec 3<>/dev/tty) 2>/dev/null && touch opened; while [ ! -e finish ]; do sleep 0.05; done`)
	c := console.Start(t, console.Options{Dir: l.work, Env: append(l.env(), "TERM=xterm-256color")}, "sh", "-c",
		`"$0" spawn -- sh agent.sh </dev/null >out 2>err; exit $?`, product.Binary(t))
	t.Cleanup(func() { l.nobody(5 * time.Second) })
	l.up("up")
	time.Sleep(100 * time.Millisecond)
	if l.there("opened") {
		t.Error("an agent without a terminal opened /dev/tty")
	}
	// The control: the shell above the client has it, and it is found so.
	if !holdsTerminal(c.PID()) {
		t.Error("the shell holds no terminal: the search finds nothing")
	}
	others := 0
	for pid, what := range l.processes() {
		if pid == c.PID() || strings.Contains(what, " spawn ") {
			continue
		}
		if others++; holdsTerminal(pid) {
			t.Errorf("process %d (%s) holds a terminal", pid, what)
		}
	}
	if others < 2 {
		t.Errorf("%d other processes of the tree were found", others)
	}
	l.touch("finish")
	if status := c.Status(t, patience); status != 0 {
		t.Errorf("status %d", status)
	}
}

func holdsTerminal(pid int) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, "/dev/pts/") || to == "/dev/tty" {
			return true
		}
	}
	return false
}
