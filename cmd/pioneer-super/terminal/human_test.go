//go:build linux || darwin

package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// screen plays the terminal in front of a person: it records what is written,
// and answers queries, unless it is mute.
type screen struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	mute   bool
	delay  time.Duration

	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{}
}

var (
	askPlace  = regexp.MustCompile(`\x1b\[(\d+);(\d+)H\x1b\[6n`)
	askStatus = regexp.MustCompile(`\x1b\[5n`)
	askColour = regexp.MustCompile(`\x1b\]11;\?\x1b\\`)
)

func newScreen(t *testing.T, options ...func(*screen)) *screen {
	t.Helper()
	testenv.Need(t, "pty")
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, master: master, slave: slave, done: make(chan struct{})}
	for _, o := range options {
		o(s)
	}
	// Answers come late, not slowly: the delay is that of a line, so what many reads
	// ask is answered one delay later, not one delay after another.
	type late struct {
		due  time.Time
		text string
	}
	answers := make(chan late, 1024)
	go func() {
		defer close(s.done)
		for a := range answers {
			time.Sleep(time.Until(a.due))
			master.WriteString(a.text)
		}
	}()
	go func() {
		defer close(answers)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if s.mute {
				continue
			}
			var text strings.Builder
			for range askStatus.FindAll(buf[:n], -1) {
				text.WriteString("\x1b[0n")
			}
			for range askColour.FindAll(buf[:n], -1) {
				text.WriteString("\x1b]11;rgb:yyyy/nnnn/tttt\x1b\\")
			}
			for _, m := range askPlace.FindAllSubmatch(buf[:n], -1) {
				fmt.Fprintf(&text, "\x1b[%s;%sR", m[1], m[2])
			}
			answers <- late{time.Now().Add(s.delay), text.String()}
		}
	}()
	t.Cleanup(func() {
		slave.Close()
		master.Close()
		<-s.done
	})
	return s
}

func (s *screen) open(as look) *Human {
	s.t.Helper()
	h, err := open(s.slave, as)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { h.Close() })
	return h
}

func (s *screen) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// patience is how long a test waits for what must come, on a machine that has
// other work to do.
const patience = 30 * time.Second

// wait waits until want has been written, after the first from bytes.
func (s *screen) wait(from int, want string) int {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if i := strings.Index(s.written()[from:], want); i >= 0 {
			return from + i + len(want)
		}
	}
	s.t.Fatalf("never written: %q, but\n%q", want, s.written()[from:])
	return 0
}

func (s *screen) typed(keys string) {
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Error(err)
	}
}

// countsAfter is the time after which keys count on an idle machine.
const countsAfter = settleMost + 2*shownLeast

// counts waits until keys count: the time, and then what the dialog itself says of
// it, since a busy machine draws it late.
func (s *screen) counts() {
	s.t.Helper()
	time.Sleep(countsAfter)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text := s.written()
		if !strings.Contains(text[max(0, strings.LastIndex(text, "\x1b[1;1H")):], "keys do not count yet") {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("keys never count: %q", text)
		}
	}
}

func (s *screen) modes() *term.State {
	s.t.Helper()
	st, err := term.GetState(int(s.slave.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// unread returns what waits in the terminal for the next reader.
func (s *screen) unread() string {
	s.t.Helper()
	fd := int(s.slave.Fd())
	old, err := term.MakeRaw(fd) // canonical mode would hide an unfinished line
	if err != nil {
		s.t.Fatal(err)
	}
	defer term.Restore(fd, old)
	var got []byte
	for {
		ready, _, err := await(fd, -1, false, 100)
		if err != nil || !ready {
			return string(got)
		}
		buf := make([]byte, 256)
		n, err := s.slave.Read(buf)
		if err != nil || n == 0 {
			return string(got)
		}
		got = append(got, buf[:n]...)
	}
}

var (
	normal    = look{color: true}
	allFields = cmp.Exporter(func(reflect.Type) bool { return true })
)

type outcome struct {
	answer Answer
	err    error
}

func asking(h *Human, ctx context.Context, q Question) chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		a, err := h.Ask(ctx, q)
		ch <- outcome{a, err}
	}()
	return ch
}

func (s *screen) expect(ch chan outcome) outcome {
	s.t.Helper()
	select {
	case o := <-ch:
		return o
	case <-time.After(patience):
		s.t.Fatalf("no answer; the screen:\n%q", s.written())
		return outcome{}
	}
}

func TestAskOnARealTerminal(t *testing.T) {
	for name, option := range map[string]func(*screen){
		"answers": func(*screen) {},
		"mute":    func(s *screen) { s.mute = true },
		"slow":    func(s *screen) { s.delay = 200 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScreen(t, option)
			before := s.modes()
			h := s.open(normal)
			s.typed("y") // before anything was asked
			ch := asking(h, t.Context(), ask())
			at := s.wait(0, "\x1b[6n")
			s.typed("y") // before the terminal has answered
			s.counts()
			select {
			case o := <-ch:
				t.Fatalf("keys typed before it was drawn decided: %+v", o)
			default:
			}
			s.typed("\x1b[200~y\x1b[201~")
			time.Sleep(2 * shownLeast)
			s.typed("y")
			o := s.expect(ch)
			if o.err != nil || o.answer.Decision != AllowOnce {
				t.Fatalf("%+v", o)
			}
			s.wait(at, "\x1b[?1049l")
			h.Close()
			if diff := cmp.Diff(before, s.modes(), allFields); diff != "" {
				t.Errorf("modes are not as before: %s", diff)
			}
			if _, err := h.Ask(t.Context(), ask()); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(normal)
	ctx, cancel := context.WithCancel(t.Context())
	ch := asking(h, ctx, ask())
	at := s.wait(0, "one moment")
	cancel()
	if o := s.expect(ch); !errors.Is(o.err, context.Canceled) || o.answer.Decision != "" {
		t.Fatalf("%+v", o)
	}
	at = s.wait(at, "withdrawn")
	at = s.wait(at, "\x1b[?1049l")
	s.wait(at, "withdrawn") // and it stays to be read
	// The next question is asked as if nothing had been.
	ch = asking(h, t.Context(), ask())
	s.wait(at, "one moment")
	s.counts()
	s.typed("n")
	if o := s.expect(ch); o.err != nil || o.answer.Decision != Deny {
		t.Fatalf("%+v", o)
	}
}

func TestQuestionsQueueAndExpire(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(normal)
	first := ask()
	first.Expires = 900 * time.Millisecond
	a := asking(h, t.Context(), first)
	s.wait(0, "asks you")
	q := questions()["small"]
	b := asking(h, t.Context(), q)
	at := s.wait(0, "1 of 2")
	if o := s.expect(a); !errors.Is(o.err, ErrExpired) || o.answer.Decision != "" {
		t.Fatalf("%+v", o)
	}
	s.wait(at, "ls")
	s.counts()
	s.typed("y")
	if o := s.expect(b); o.err != nil || o.answer.Decision != AllowOnce {
		t.Fatalf("%+v", o)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var all []chan outcome
	for range maxPending + 1 {
		all = append(all, asking(h, ctx, q))
	}
	refused := 0
	deadline := time.After(patience)
	for refused == 0 {
		for _, ch := range all {
			select {
			case o := <-ch:
				if !errors.Is(o.err, ErrTooMany) {
					t.Fatalf("%+v", o)
				}
				refused++
			case <-deadline:
				t.Fatal("nobody was refused")
			default:
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d were refused, want 1", refused)
	}
	cancel()
}

func TestCloseAndHangUp(t *testing.T) {
	t.Run("close", func(t *testing.T) {
		s := newScreen(t)
		before := s.modes()
		h := s.open(normal)
		ch := asking(h, t.Context(), ask())
		s.wait(0, "one moment")
		h.Close()
		if o := s.expect(ch); !errors.Is(o.err, ErrClosed) || o.answer.Decision != "" {
			t.Fatalf("%+v", o)
		}
		s.wait(0, "\x1b[?1049l")
		if diff := cmp.Diff(before, s.modes(), allFields); diff != "" {
			t.Errorf("modes are not as before: %s", diff)
		}
	})
	t.Run("hang-up", func(t *testing.T) {
		s := newScreen(t)
		h := s.open(normal)
		ch := asking(h, t.Context(), ask())
		s.wait(0, "one moment")
		s.master.Close()
		if o := s.expect(ch); o.err == nil || o.answer.Decision != "" {
			t.Fatalf("%+v", o)
		}
		if _, err := h.Ask(t.Context(), ask()); !errors.Is(err, ErrClosed) {
			t.Errorf("after the hang-up: %v", err)
		}
	})
	t.Run("a terminal that takes no output", func(t *testing.T) {
		testenv.Need(t, "pty")
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		h, err := open(slave, normal)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := h.send(ctx, notice(strings.Repeat("x", 500)))
			cancel()
			if err != nil {
				break
			}
		}
		start := time.Now()
		h.Close()
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("Close took %v", d)
		}
	})
	t.Run("no terminal", func(t *testing.T) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		if _, err := Open(null); err == nil || !strings.Contains(err.Error(), os.DevNull) {
			t.Errorf("%v", err)
		}
	})
}

// agent is a program behind a pseudo-terminal of its own, played by the test.
type agent struct {
	master, tty *os.File
	sizes       chan [2]uint16
	over        chan error
}

func relayed(t *testing.T, h *Human) *agent {
	t.Helper()
	return joined(t, h.Relay)
}

func joined(t *testing.T, join func(context.Context, *os.File, func(rows, cols uint16)) error) *agent {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := term.MakeRaw(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	a := &agent{master: master, tty: tty, sizes: make(chan [2]uint16, 64), over: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		a.over <- join(ctx, master, func(r, c uint16) { a.sizes <- [2]uint16{r, c} })
	}()
	t.Cleanup(func() {
		cancel()
		tty.Close()
		master.Close()
	})
	if got := a.size(t); got != [2]uint16{24, 80} {
		t.Fatalf("first size %v", got)
	}
	return a
}

func (a *agent) size(t *testing.T) [2]uint16 {
	t.Helper()
	select {
	case s := <-a.sizes:
		return s
	case <-time.After(patience):
		t.Fatal("no size came")
		return [2]uint16{}
	}
}

// expect waits until the agent was typed want, or, if want is empty, sees that
// nothing comes.
func (a *agent) expect(t *testing.T, want string) {
	t.Helper()
	var got []byte
	within := patience
	if want == "" {
		within = 300 * time.Millisecond
	}
	for end := time.Now().Add(within); time.Now().Before(end); {
		ready, _, err := await(int(a.tty.Fd()), -1, false, 50)
		if err != nil {
			t.Fatal(err)
		}
		if ready {
			buf := make([]byte, 4096)
			n, err := a.tty.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
		} else if want != "" && string(got) == want {
			return
		}
	}
	if string(got) != want {
		t.Errorf("the agent was typed %q, want %q", got, want)
	}
}

func TestRelayAndAsk(t *testing.T) {
	t.Parallel()
	s := newScreen(t, func(s *screen) { s.delay = 150 * time.Millisecond })
	h := s.open(normal)
	a := relayed(t, h)

	a.tty.WriteString("\x1b[?1049h\x1b[?1002h\x1b[?1006h\x1b[?25l\x1b[?1h\x1b[31mAGENT DRAWS")
	at := s.wait(0, "AGENT DRAWS")
	s.typed("hello\x1b[A")
	a.expect(t, "hello\x1b[A")
	// Control: an answer of the terminal does reach the agent.
	a.tty.WriteString("\x1b]11;?\x07")
	a.expect(t, "\x1b]11;rgb:yyyy/nnnn/tttt\x1b\\")

	// The agent asks its terminal for answers full of letters, just before: they
	// come while the dialog is up, and are nobody's keys.
	for range 5 {
		a.tty.WriteString("\x1b]11;?\x07\x1b[5n")
	}
	a.tty.WriteString("QUERIES")
	at = s.wait(at, "QUERIES")
	ch := asking(h, t.Context(), ask())
	at = s.wait(at, "one moment")
	if got := s.written()[:at]; !strings.Contains(got, "\x1b[?1002l") || !strings.Contains(got, "\x1b[?1049l") {
		t.Errorf("the agent's modes were not taken back for the dialog: %q", got)
	}
	// While it waits the agent's output is held, queries too.
	a.tty.WriteString("FORGED\x1b]11;?\x07")
	s.counts()
	if got := s.written(); strings.Contains(got, "FORGED") {
		t.Fatal("the agent draws over the dialog")
	}
	select {
	case o := <-ch:
		t.Fatalf("decided by the agent's queries: %+v", o)
	default:
	}
	s.typed("y")
	if o := s.expect(ch); o.err != nil || o.answer.Decision != AllowOnce {
		t.Fatalf("%+v", o)
	}
	// Its modes are back, it draws again and is told to.
	at = s.wait(at, "FORGED")
	restored := s.written()
	restored = restored[strings.LastIndex(restored, "pioneer-super asks"):]
	for _, m := range []string{"\x1b[?1049h", "\x1b[?1002h", "\x1b[?1006h", "\x1b[?25l", "\x1b[?1h", "\x1b[31m"} {
		if !strings.Contains(restored[:strings.Index(restored, "FORGED")], m) {
			t.Errorf("not put back: %q in %q", m, restored)
		}
	}
	if one, two := a.size(t), a.size(t); one != [2]uint16{23, 80} || two != [2]uint16{24, 80} {
		t.Errorf("made to draw by sizes %v, %v", one, two)
	}
	a.expect(t, "\x1b]11;rgb:yyyy/nnnn/tttt\x1b\\")

	// A second relay has to wait its turn.
	if err := h.Relay(t.Context(), a.master, nil); !errors.Is(err, errBusy) {
		t.Errorf("second relay: %v", err)
	}

	// The end: modes as found, nothing left to be typed into the shell.
	a.tty.WriteString("\x1b]11;?\x07\x1b[6n\x1b[5nbye")
	s.wait(at, "bye")
	a.tty.Close()
	select {
	case err := <-a.over:
		if err != nil {
			t.Errorf("Relay: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the relay does not end")
	}
	h.Close()
	if got := s.unread(); got != "" {
		t.Errorf("left for the shell: %q", got)
	}
}

// TestNothingIsLeftToType is the control of the end of TestRelayAndAsk: without
// us the terminal's answer is what the next reader gets.
func TestNothingIsLeftToType(t *testing.T) {
	s := newScreen(t)
	s.slave.WriteString("\x1b]11;?\x1b\\")
	time.Sleep(100 * time.Millisecond)
	if got := s.unread(); !strings.Contains(got, "rgb:yyyy") {
		t.Fatalf("control: %q", got)
	}
}

// TestShow: output alone. The terminal stays as it is, nothing is asked of it,
// and a dialog still holds the output.
func TestShow(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	before := s.modes()
	h := s.open(normal)
	a := joined(t, h.Show)
	a.tty.WriteString("one\x1b]11;?\x07\x1b[6n\x1b[5n\x1b[c\x1bZ\x1b[31mtwo")
	at := s.wait(0, "two")
	if got := s.written(); got != "one\x1b[31mtwo" {
		t.Errorf("written %q", got)
	}
	if diff := cmp.Diff(before, s.modes(), allFields); diff != "" {
		t.Errorf("modes changed: %s", diff)
	}
	ch := asking(h, t.Context(), ask())
	at = s.wait(at, "one moment")
	a.tty.WriteString("FORGED")
	s.counts()
	if strings.Contains(s.written(), "FORGED") {
		t.Fatal("the command draws over the dialog")
	}
	s.typed("n")
	if o := s.expect(ch); o.err != nil || o.answer.Decision != Deny {
		t.Fatalf("%+v", o)
	}
	at = s.wait(at, "FORGED")
	h.Notice("note")
	s.wait(at, "pioneer-super: note")
	if diff := cmp.Diff(before, s.modes(), allFields); diff != "" {
		t.Errorf("modes are not put back: %s", diff)
	}
	a.tty.Close()
	if err := <-a.over; err != nil {
		t.Error(err)
	}
}

func TestRelayKeys(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(normal)
	stopped := make(chan bool, 1)
	h.SetHooks(Hooks{
		Stop:    func() { stopped <- true },
		Waiting: func() []string { return []string{"ask #9 waits \x1b[31m elsewhere"} },
	})
	a := relayed(t, h)
	for _, c := range []struct{ in, want string }{
		{"\x1d\x1d", "\x1d"}, {"\x1dz", "\x1a"}, {"\x1dx", ""}, {"\x1b[200~\x1dq\x1a\x1b[201~", "\x1b[200~\x1dq\x1a\x1b[201~"},
		{"\x1b", "\x1b"}, {"\x03\x04\r", "\x03\x04\r"}, {"\x1b[93;5u\x1b[93;5u", "\x1d"}, {"日本", "日本"},
	} {
		s.typed(c.in)
		a.expect(t, c.want)
	}
	select {
	case <-stopped:
		t.Fatal("a paste stopped the tree")
	default:
	}
	s.typed("\x1da")
	at := s.wait(0, `ask #9 waits \x1b[31m elsewhere`)
	s.typed("x")
	s.wait(at, "\x1b[?1049l")
	a.expect(t, "")
	s.typed("\x1dq")
	select {
	case <-stopped:
	case <-time.After(2 * time.Second):
		t.Fatal("Ctrl-] q does not stop")
	}
	// Ctrl-Z: nobody could continue this process, and the agent gets nothing.
	s.typed("\x1a")
	a.expect(t, "")
}

// TestPutAside: l takes the dialog away, Ctrl-] a brings it back.
func TestPutAside(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(normal)
	a := relayed(t, h)
	ch := asking(h, t.Context(), ask())
	at := s.wait(0, "l later")
	s.counts()
	s.typed("l")
	at = s.wait(at, "\x1b[?1049l")
	s.typed("to the agent")
	a.expect(t, "to the agent")
	s.typed("\x1da")
	at = s.wait(at, "was put aside")
	s.typed(" ")
	s.wait(at, "one moment")
	s.counts()
	s.typed("n")
	if o := s.expect(ch); o.err != nil || o.answer.Decision != Deny {
		t.Fatalf("%+v", o)
	}
}

// TestDeafAgent: an agent that reads nothing does not hold the dialog.
func TestDeafAgent(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(normal)
	relayed(t, h)
	for range 300 {
		s.typed(strings.Repeat("x", 1000))
	}
	ch := asking(h, t.Context(), ask())
	s.wait(0, "one moment")
	s.counts()
	s.typed("n")
	if o := s.expect(ch); o.err != nil || o.answer.Decision != Deny {
		t.Fatalf("%+v", o)
	}
}

func TestDumbTerminal(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(lookOf(func(name string) string {
		return map[string]string{"TERM": "dumb", "LANG": "en_US.UTF-8"}[name]
	}))
	ch := asking(h, t.Context(), questions()["small"])
	s.wait(0, "one moment")
	time.Sleep(countsAfter + settleMost)
	s.typed("y")
	if o := s.expect(ch); o.err != nil || o.answer.Decision != AllowOnce {
		t.Fatalf("%+v", o)
	}
	if got := s.written(); strings.Contains(got, "\x1b") {
		t.Errorf("escapes on a dumb terminal: %q", got)
	}
	if n := strings.Count(s.written(), "command : ls"); n != 1 {
		t.Errorf("the question was printed %d times:\n%s", n, s.written())
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	h := s.open(normal)
	h.Notice("one\x1b[2J\nline")
	s.wait(0, `pioneer-super: one\x1b[2J\nline`)

	a := relayed(t, h)
	a.tty.WriteString("\x1b[?1049hFULL")
	at := s.wait(0, "FULL")
	for i := range maxNotes + 5 {
		h.Notice(fmt.Sprintf("note %d", i))
	}
	if got := s.written()[at:]; got != "" {
		t.Errorf("a full-screen agent was drawn over: %q", got)
	}
	a.tty.Close()
	at = s.wait(at, "5 earlier lines were dropped")
	s.wait(at, fmt.Sprintf("note %d", maxNotes+4))
}

func TestNoColor(t *testing.T) {
	t.Parallel()
	for _, as := range []look{{color: true}, {}} {
		s := newScreen(t)
		h := s.open(as)
		ch := asking(h, t.Context(), questions()["small"])
		s.wait(0, "one moment")
		s.counts()
		s.typed("n")
		s.expect(ch)
		if got := strings.Contains(s.written(), "\x1b[1;33m"); got != as.color {
			t.Errorf("%+v: colours %v", as, got)
		}
	}
}

func TestLookOf(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		env  func(string) string
		want look
	}{
		{env("TERM", "xterm", "LANG", "en_US.UTF-8"), look{color: true}},
		{env("TERM", "xterm", "LANG", "C"), look{color: true, ascii: true}},
		{env("TERM", "xterm", "LANG", "en_US.UTF-8", "LC_ALL", "POSIX"), look{color: true, ascii: true}},
		{env("TERM", "xterm", "LC_CTYPE", "de_DE.utf8", "NO_COLOR", "1"), look{}},
		{env("TERM", "dumb", "LANG", "C.UTF-8"), look{dumb: true, color: true}},
		{env("LANG", "C.UTF-8"), look{dumb: true, color: true}},
	} {
		if got := lookOf(c.env); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
