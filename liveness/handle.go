package liveness

import (
	"context"
	"fmt"
	"os"
)

// Handle holds on to one process, so that nothing done through it can reach a
// later process with the same number. It is safe for concurrent use; Close ends
// the waits.
type Handle struct {
	process Process
	impl    handle
}

// handle is what the operating system gives.
type handle interface {
	wait(ctx context.Context) error
	signal(sig os.Signal) error
	close() error
}

// Open takes hold of an identified process. It fails with ErrGone if the number
// meanwhile belongs to another, with errors.ErrUnsupported where the system has
// no such thing.
func Open(p Process) (*Handle, error) {
	if p.PID <= 0 || p.Start == 0 {
		return nil, fmt.Errorf("process %d: not identified", p.PID)
	}
	h, err := open(p)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", p.PID, err)
	}
	return &Handle{process: p, impl: h}, nil
}

// Process returns the identity that was opened.
func (h *Handle) Process() Process { return h.process }

// Wait returns nil once the process has exited, reaped or not. It costs no
// thread. It returns the context's error if that ends first, and os.ErrClosed
// after Close.
func (h *Handle) Wait(ctx context.Context) error { return h.impl.wait(ctx) }

// Signal sends a signal to this process and no other; ErrGone if it has ended.
func (h *Handle) Signal(sig os.Signal) error { return h.impl.signal(sig) }

// Close lets go of the process. It does not end it.
func (h *Handle) Close() error { return h.impl.close() }
