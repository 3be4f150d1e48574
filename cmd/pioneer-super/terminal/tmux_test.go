//go:build linux || darwin

package terminal

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// updateVar makes the tests write the golden screens instead of comparing.
const updateVar = "PIONEER_UPDATE_GOLDEN"

// pane is a real terminal: one window of a tmux server of its own, with a
// shell in it.
type pane struct {
	t      *testing.T
	socket string
}

func newPane(t *testing.T, cols, rows int, env ...string) *pane {
	t.Helper()
	testenv.Need(t, "tmux", "bash")
	dir, err := os.MkdirTemp("", "pane") // a short path: socket names are limited
	if err != nil {
		t.Fatal(err)
	}
	p := &pane{t: t, socket: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-f", os.DevNull, "-S", p.socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	shell := "env -u NO_COLOR -u LC_ALL -u LC_CTYPE LANG=C.UTF-8 " + strings.Join(env, " ") + " bash --norc --noprofile"
	p.tmux("new-session", "-d", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), shell)
	p.tmux("set", "-g", "status", "off")
	p.tmux("resize-window", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows))
	p.wait("bash-")
	p.line("PS1='$ '; clear")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-f", os.DevNull, "-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (p *pane) keys(keys ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

func (p *pane) line(text string) {
	p.t.Helper()
	p.tmux("send-keys", "-l", text)
	p.keys("Enter")
}

// start runs the play in the pane's shell.
func (p *pane) start(play string) {
	p.t.Helper()
	program, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.line("clear; PIONEER_TERMINAL_PLAY='" + play + "' " + program)
}

// screen is what a person sees, without blanks at the ends of lines.
func (p *pane) screen() string {
	p.t.Helper()
	return p.tmux("capture-pane", "-p")
}

// until waits for a screen and returns the last one that there was.
func (p *pane) until(holds func(string) bool) string {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		if s := p.screen(); holds(s) || time.Now().After(end) {
			return s
		}
	}
}

func (p *pane) wait(want ...string) string {
	p.t.Helper()
	all := func(s string) bool {
		return !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(s, w) })
	}
	s := p.until(all)
	if !all(s) {
		p.t.Fatalf("never on the screen: %q, but\n%s", want, s)
	}
	return s
}

// ready waits for a dialog whose keys count.
func (p *pane) ready() string {
	p.t.Helper()
	counts := func(s string) bool { return strings.Contains(s, " deny") && !strings.Contains(s, "one moment") }
	s := p.until(counts)
	if !counts(s) {
		p.t.Fatalf("keys never count:\n%s", s)
	}
	return s
}

func (p *pane) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		time.Sleep(aloneFor + 50*time.Millisecond)
		p.keys(k)
		time.Sleep(aloneFor + 50*time.Millisecond)
	}
}

// golden waits until the screen is the golden one: a busy machine draws it late.
func (p *pane) golden(name string) {
	p.t.Helper()
	path := filepath.Join("testdata", name+".screen")
	if os.Getenv(updateVar) != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(p.screen()), 0o644); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	if got := p.until(func(s string) bool { return s == string(want) }); got != string(want) {
		p.t.Errorf("%s differs.\n--- got\n%s--- want\n%s", path, got, want)
	}
}

// TestScreens compares what a real terminal shows, cell by cell.
func TestScreens(t *testing.T) {
	for _, c := range []struct {
		name       string
		cols, rows int
		play       string
		keys       []string
		env        []string
	}{
		{"push-80x24", 80, 24, "ask:push", nil, nil},
		{"push-40x10", 40, 10, "ask:push", nil, nil},
		{"push-40x10-all", 40, 10, "ask:push", []string{"v", "Space"}, nil},
		{"push-120x40", 120, 40, "ask:push", []string{"v", "w"}, nil},
		{"hostile-80x24", 80, 24, "ask:hostile", nil, nil},
		{"hostile-40x10", 40, 10, "ask:hostile", []string{"v"}, nil},
		{"hostile-ascii", 80, 24, "ask:hostile", nil, []string{"LANG=C"}},
		{"long-80x24", 80, 24, "ask:long", nil, nil},
		{"long-80x24-end", 80, 24, "ask:long", []string{"v", "G"}, nil},
		{"pair-60x14", 60, 14, "ask:pair", nil, nil},
		{"small-80x24", 80, 24, "ask:small", nil, nil},
		{"tiny-20x5", 20, 5, "ask:push", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPane(t, c.cols, c.rows, c.env...)
			p.start(c.play)
			switch {
			case c.rows < minRows:
				p.wait("too small")
			case c.play == "ask:pair":
				p.wait("code from the other terminal")
			default:
				p.ready()
			}
			p.press(c.keys...)
			p.golden(c.name)
		})
	}
}

// TestHostileTerminal: what a real terminal types by itself answers nothing.
func TestHostileTerminal(t *testing.T) {
	t.Run("paste", func(t *testing.T) {
		t.Parallel()
		p := newPane(t, 80, 24)
		p.start("ask:small")
		p.ready()
		for _, text := range []string{"y", "yes\n", "\x1b[201~y", "\x1b[201~y\n"} {
			p.tmux("set-buffer", text)
			p.tmux("paste-buffer", "-p")
			time.Sleep(700 * time.Millisecond)
			if s := p.screen(); !strings.Contains(s, "command : ls") {
				t.Fatalf("pasting %q answered:\n%s", text, s)
			}
		}
		p.tmux("set-buffer", "yy") // without brackets
		p.tmux("paste-buffer")
		time.Sleep(700 * time.Millisecond)
		p.press("n")
		p.wait("answer: deny")
	})
	t.Run("prose", func(t *testing.T) {
		t.Parallel()
		p := newPane(t, 80, 24)
		p.start("ask:small")
		for _, k := range "yes you try to type y" {
			p.tmux("send-keys", "-l", string(k))
			time.Sleep(80 * time.Millisecond)
		}
		p.ready()
		p.press("y")
		p.wait("answer: allow_once")
	})
	t.Run("agent's queries", func(t *testing.T) {
		t.Parallel()
		p := newPane(t, 80, 24)
		p.tmux("set", "-g", "set-clipboard", "on")
		// Every query that has an answer, all the time.
		p.start(`relayask:while :; do printf "\033[5n\033[6n\033[c\033[>c\033]4;1;?\007\033]11;?\007\033]52;c;eXl5\007\033]52;c;?\007\033[>q\005"; sleep 0.02; done`)
		p.ready()
		time.Sleep(time.Second)
		s := p.screen()
		if !strings.Contains(s, "git push origin main") {
			t.Fatalf("answered, or drawn over:\n%s", s)
		}
		p.golden("relay-80x24")
		p.press("n")
		time.Sleep(300 * time.Millisecond)
		p.keys("C-]", "q")
		p.wait("relay over")
		// Nothing of the answers is typed into the shell.
		time.Sleep(300 * time.Millisecond)
		s = p.wait("$")
		if last := s[strings.LastIndex(s, "$"):]; strings.TrimSpace(last) != "$" {
			t.Errorf("typed into the shell: %q", last)
		}
		if got := p.tmux("list-buffers"); strings.TrimSpace(got) != "" {
			t.Errorf("the agent wrote the clipboard: %s", got)
		}
	})
	t.Run("clipboard, control", func(t *testing.T) {
		t.Parallel()
		p := newPane(t, 80, 24)
		p.tmux("set", "-g", "set-clipboard", "on")
		p.line(`printf '\033]52;c;eXl5\007'`)
		written := func(string) bool { return strings.Contains(p.tmux("list-buffers"), "yyy") }
		if p.until(written); !written("") {
			t.Errorf("control: this terminal has no clipboard to write: %q", p.tmux("list-buffers"))
		}
	})
}

const fullScreen = `exec bash --norc --noprofile -c "` +
	`draw() { printf \"\033[2J\033[HFULL \$(stty size)\"; }; trap draw WINCH; ` +
	`printf \"\033[?1049h\033[?1002h\033[?25l\"; stty -echo -icanon; draw; ` +
	`while :; do IFS= read -rsn1 -t 0.2 c && printf \" <%q>\" \"\$c\"; done"`

// TestFullScreenAgent: a dialog over an agent that draws, a stop by Ctrl-Z in
// both, and another size.
func TestFullScreenAgent(t *testing.T) {
	t.Parallel()
	p := newPane(t, 80, 24)
	p.start("relayask:" + fullScreen)
	p.wait("FULL 24 80")
	p.ready()
	p.press("C-z")
	p.wait("Stopped")
	// Cleared, so that the next "Stopped" is of the next stop.
	p.line("clear; stty -a | grep -c ' icanon'; echo shell wor''ks")
	s := p.wait("shell works")
	if !strings.Contains("\n"+s, "\n1\n") {
		t.Errorf("the shell got a raw terminal:\n%s", s)
	}
	p.line("fg")
	p.ready()
	p.press("x") // answers nothing
	p.press("n")
	s = p.wait("FULL 24 80")
	if strings.Contains(s, "pioneer-super") {
		t.Errorf("rest of the dialog:\n%s", s)
	}
	p.keys("k")
	p.wait("<k>")
	p.tmux("resize-window", "-x", "70", "-y", "20")
	p.wait("FULL 20 70")
	p.keys("C-z")
	p.wait("Stopped")
	p.line("fg")
	p.wait("FULL 20 70")
	p.keys("C-]", "q")
	s = p.wait("relay over")
	if !strings.Contains(s, "answered deny") {
		t.Errorf("the note is lost:\n%s", s)
	}
	if got := p.tmux("display", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}"); strings.TrimSpace(got) != "0 0 1" {
		t.Errorf("left behind (alternate, mouse, cursor): %s", got)
	}
}

// TestLinesAgent: an agent that draws between its lines finds the screen, the
// cursor and its colours as they were.
func TestLinesAgent(t *testing.T) {
	t.Parallel()
	p := newPane(t, 80, 24)
	p.start(`relayask:stty raw -echo; printf "\033[2J\033[H"; for i in 1 2 3; do printf "line $i\r\n"; done; ` +
		`printf "\033[32;1m> input\033[5G"; cat >/dev/null`)
	p.wait("line 3") // the command that was typed has "> input" as well
	p.wait("> input")
	const cursor = "#{cursor_x},#{cursor_y} #{alternate_on}"
	before, at := p.tmux("capture-pane", "-p", "-e"), p.tmux("display", "-p", cursor)
	p.ready()
	p.press("n")
	p.wait("> input")
	same := func(string) bool {
		return p.tmux("capture-pane", "-p", "-e") == before && p.tmux("display", "-p", cursor) == at
	}
	if p.until(same); !same("") {
		t.Errorf("the screen was\n%q\nand is\n%q", before, p.tmux("capture-pane", "-p", "-e"))
	}
	if now := p.tmux("display", "-p", cursor); now != at {
		t.Errorf("cursor, alternate screen: were %s, are %s", at, now)
	}
	p.keys("C-]", "q")
	p.wait("relay over")
}

// TestBackground: a question in the background waits, tells, and does not touch
// the shell's terminal.
func TestBackground(t *testing.T) {
	t.Parallel()
	p := newPane(t, 80, 24)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.line("clear; PIONEER_TERMINAL_PLAY=ask:push " + program + " &")
	p.wait(`ask #17 by "fixer" waits: fg brings it here`)
	p.line("echo y; echo shell wor''ks")
	p.wait("shell works")
	p.line("fg")
	p.ready()
	p.press("y")
	p.wait("answer: allow_once")
	// The modes in which the shell starts programs are as they were.
	p.line("clear; stty -a | grep -c ' icanon'; stty -a | grep -c ' echo '; echo modes rea''d")
	if s := p.wait("modes read"); !strings.HasPrefix(s, "1\n1\n") {
		t.Errorf("the shell's terminal is spoilt:\n%s", s)
	}

	// Output alone goes on in the background.
	p.line("clear; PIONEER_TERMINAL_PLAY='show:for i in 1 2 3 4; do echo tick $i; sleep 0.1; done' " + program + " &")
	p.wait("tick 4", "relay over")
}

// TestWithdrawnScreen: the person sees that the question is gone.
func TestWithdrawnScreen(t *testing.T) {
	t.Parallel()
	p := newPane(t, 80, 24)
	p.start("withdraw:push")
	p.wait("asks you", "withdrawn, nothing was allowed")
	s := p.wait("deadline exceeded", `ask #17 by "fixer": withdrawn`)
	if strings.Contains(s, "asks you") {
		t.Errorf("rest of the dialog:\n%s", s)
	}
}
