package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Human is one person at one terminal. All methods may be called from any
// goroutine; questions are shown one after the other, in the order in which
// they were asked.
//
// A Human owns the terminal: nothing else may read it or change its modes
// until Close. It ignores SIGTTIN and SIGTTOU for the whole process, and takes
// SIGWINCH, SIGTSTP and SIGCONT.
type Human struct {
	requests chan any
	closing  chan struct{}
	finished chan struct{}
	once     sync.Once
	dev      *device

	mu    sync.Mutex
	hooks Hooks
}

// Hooks are what a person can ask for with a key while a relay runs. Each may
// be nil. They are called from the goroutine that runs Relay.
type Hooks struct {
	// Stop: the person wants the whole tree to be stopped (Ctrl-] q).
	Stop func()
	// Waiting lists what waits elsewhere, one line each (Ctrl-] a).
	Waiting func() []string
}

// look is what the environment says about the terminal.
type look struct {
	dumb  bool // no cursor movement: a dialog is printed line by line
	color bool
	ascii bool
}

func lookOf(getenv func(string) string) look {
	kind := getenv("TERM")
	locale := getenv("LC_ALL")
	if locale == "" {
		locale = getenv("LC_CTYPE")
	}
	if locale == "" {
		locale = getenv("LANG")
	}
	locale = strings.ToLower(strings.ReplaceAll(locale, "-", ""))
	return look{
		dumb:  kind == "" || kind == "dumb",
		color: getenv("NO_COLOR") == "",
		ascii: !strings.Contains(locale, "utf8"),
	}
}

// Open takes the terminal. It must be opened before the first child starts, so
// that no child can have it, and it should be an open of its own (/dev/tty),
// not an inherited standard stream. The file may be closed afterwards.
//
// The modes are as before until the first question or relay, and are put back
// whenever none is shown, and by Close. Where terminals are not supported the
// error is errors.ErrUnsupported.
func Open(tty *os.File) (*Human, error) { return open(tty, lookOf(os.Getenv)) }

func open(tty *os.File, as look) (*Human, error) {
	dev, err := openDevice(tty)
	if err != nil {
		return nil, fmt.Errorf("terminal %s: %w", tty.Name(), err)
	}
	in, err := dev.input()
	if err != nil {
		dev.free()
		return nil, fmt.Errorf("terminal %s: %w", tty.Name(), err)
	}
	h := &Human{
		requests: make(chan any),
		closing:  make(chan struct{}),
		finished: make(chan struct{}),
		dev:      dev,
	}
	l := &loop{h: h, dev: dev, in: in, look: as, signals: make(chan os.Signal, 16)}
	watchSignals(l.signals)
	go l.run()
	return h, nil
}

// SetHooks sets what the keys of a relay call.
func (h *Human) SetHooks(hooks Hooks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hooks = hooks
}

func (h *Human) getHooks() Hooks {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hooks
}

// send hands one message to the loop, unless it has ended or ctx is done first.
func (h *Human) send(ctx context.Context, m any) error {
	select {
	case h.requests <- m:
		return nil
	case <-h.finished:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask shows the question and returns what the person says. It waits behind
// questions that came before, while the process is stopped, and while it is in
// the background.
//
// Errors: ErrQuestion (it cannot be shown), ErrTooMany, ErrExpired, ErrClosed,
// or the error of ctx: then the dialog has said that the question was withdrawn
// and is gone. With an error the Answer is zero.
func (h *Human) Ask(ctx context.Context, q Question) (Answer, error) {
	if err := q.validate(); err != nil {
		return Answer{}, err
	}
	p := &pending{q: q, reply: make(chan reply, 1)}
	if q.Expires > 0 {
		p.expires = time.Now().Add(q.Expires)
	}
	if err := h.send(ctx, p); err != nil {
		return Answer{}, err
	}
	select {
	case r := <-p.reply:
		return r.answer, r.err
	case <-h.finished:
	case <-ctx.Done():
		// Not for ever: the terminal itself may hang.
		patience := time.NewTimer(3 * time.Second)
		defer patience.Stop()
		select {
		case h.requests <- withdraw{p}:
			select {
			case <-p.reply:
			case <-h.finished:
			case <-patience.C:
			}
		case <-h.finished:
		case <-patience.C:
		}
		return Answer{}, ctx.Err()
	}
	select {
	case r := <-p.reply:
		return r.answer, r.err
	default:
		return Answer{}, ErrClosed
	}
}

// Notice shows one line of ours as soon as that does not spoil what an agent
// draws: at once where lines are being printed, else on the next dialog, with
// Ctrl-] a, or when the relay ends. The newest 32 are kept until then.
func (h *Human) Notice(line string) {
	_ = h.send(context.Background(), notice(line))
}

// Relay joins the terminal and the master side of a command's pseudo-terminal,
// until the last process has closed the other side (then it returns nil), ctx
// is done, or the terminal is closed. It takes over master's blocking mode; the
// caller closes master afterwards. There is one relay at a time.
//
// What the command writes is filtered: what draws gets through, what would make
// the terminal do something else does not. While a question is shown it is held.
//
// resize, which may be nil, is called with the size at the start, at each
// change, and twice in a row to make the command draw itself anew. It is called
// from the goroutine that runs Relay, with sizes in 1..1000.
//
// Keys: Ctrl-Z stops this process alone (Ctrl-] z sends one to the command),
// Ctrl-] q calls Hooks.Stop, Ctrl-] a shows what waits, Ctrl-] Ctrl-] sends one
// Ctrl-].
func (h *Human) Relay(ctx context.Context, master *os.File, resize func(rows, cols uint16)) error {
	return h.join(ctx, master, resize, true)
}

// Show is Relay without keys, for a command whose output is a terminal and
// whose input is not: the terminal stays in its modes, and questions that the
// command asks the terminal are dropped, since it could not read the answers.
// It goes on in the background, as the output of any job does.
func (h *Human) Show(ctx context.Context, master *os.File, resize func(rows, cols uint16)) error {
	return h.join(ctx, master, resize, false)
}

func (h *Human) join(ctx context.Context, master *os.File, resize func(rows, cols uint16), keys bool) error {
	side, err := openPseudo(master)
	if err != nil {
		return fmt.Errorf("relay %s: %w", master.Name(), err)
	}
	defer side.close()
	r := &relay{side: side, keys: keys, ended: make(chan error, 1), wake: make(chan struct{}, 1)}
	if err := h.send(ctx, r); err != nil {
		return err
	}
	for {
		select {
		case err := <-r.ended:
			return err
		case <-h.finished:
			return ErrClosed
		case <-ctx.Done():
			select {
			case h.requests <- endRelay{r}:
				select {
				case <-r.ended:
				case <-h.finished:
				}
			case <-h.finished:
			}
			return ctx.Err()
		case <-r.wake:
			r.work(ctx, h, resize)
		}
	}
}

// Close puts the terminal back as it was found and ends everything that waits
// with ErrClosed. It may be called more than once.
func (h *Human) Close() error {
	h.once.Do(func() { close(h.closing) })
	select {
	case <-h.finished:
	case <-time.After(2 * time.Second):
		h.dev.stop() // a terminal that takes no output must not hold us
		<-h.finished
	}
	return nil
}

// Messages to the loop.
type (
	pending struct {
		q       Question
		expires time.Time
		reply   chan reply
		told    bool // announced while in the background
		over    bool // answered
	}
	reply struct {
		answer Answer
		err    error
	}
	withdraw struct{ p *pending }
	notice   string
	endRelay struct{ r *relay }
	showPane struct{ lines []string }
)

// answer tells the asker, once: the first answer stands.
func (p *pending) answer(r reply) {
	if !p.over {
		p.over = true
		p.reply <- r
	}
}

// relay is one agent's pseudo-terminal, and what its caller's goroutine has to
// do for the loop.
type relay struct {
	side  *pseudo
	keys  bool // what is typed goes to the agent
	ended chan error
	wake  chan struct{}

	mu         sync.Mutex
	rows, cols int
	resized    bool
	nudged     bool
	stop       bool
	waiting    bool
}

// todo changes what is to be done, and wakes the goroutine that does it.
func (r *relay) todo(change func()) {
	r.mu.Lock()
	change()
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// betweenSizes is the time for a program to see the first of two sizes.
const betweenSizes = 60 * time.Millisecond

func (r *relay) work(ctx context.Context, h *Human, resize func(rows, cols uint16)) {
	r.mu.Lock()
	rows, cols, resized, nudged, stop, waiting := r.rows, r.cols, r.resized, r.nudged, r.stop, r.waiting
	r.resized, r.nudged, r.stop, r.waiting = false, false, false, false
	r.mu.Unlock()
	if resize != nil && nudged {
		other := rows - 1
		if rows < 3 {
			other = rows + 1
		}
		resize(uint16(other), uint16(cols))
		select {
		case <-time.After(betweenSizes):
		case <-ctx.Done():
		}
	}
	if resize != nil && (resized || nudged) {
		resize(uint16(rows), uint16(cols))
	}
	hooks := h.getHooks()
	if stop && hooks.Stop != nil {
		hooks.Stop()
	}
	if waiting {
		var lines []string
		if hooks.Waiting != nil {
			lines = hooks.Waiting()
		}
		_ = h.send(ctx, showPane{lines})
	}
}

var errBusy = errors.New("another relay is running")
