package terminal

import (
	"context"
	"errors"
	"os"
)

// Human is one person at one terminal.
type Human struct {
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

// Open takes the terminal. It must be opened before the first child starts, so
// that no child can have it, and it should be an open of its own (/dev/tty),
// not an inherited standard stream.
func Open(tty *os.File) (*Human, error) { return nil, errors.ErrUnsupported }

// SetHooks sets what the keys of a relay call.
func (h *Human) SetHooks(hooks Hooks) { h.hooks = hooks }

// Ask shows the question and returns the person's answer.
func (h *Human) Ask(ctx context.Context, q Question) (Answer, error) {
	if err := q.validate(); err != nil {
		return Answer{}, err
	}
	return Answer{}, ErrClosed
}

// Relay joins the terminal and a command's pseudo-terminal.
func (h *Human) Relay(ctx context.Context, master *os.File, resize func(rows, cols uint16)) error {
	return errors.ErrUnsupported
}

// Notice shows one line of ours.
func (h *Human) Notice(line string) {}

// Close restores the terminal.
func (h *Human) Close() error { return nil }
