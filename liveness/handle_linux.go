package liveness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pidfd is a descriptor of the process, waited for by the runtime's poller.
type pidfd struct {
	file *os.File
	once sync.Once
	gone chan struct{} // closed by close
}

func open(p Process) (handle, error) {
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		return nil, ErrGone
	case errors.Is(err, unix.ENOSYS):
		return nil, errors.ErrUnsupported
	case err != nil:
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	// The identity is compared after the descriptor is held: from here on the
	// number cannot change hands unnoticed.
	switch state, err := p.Check(); {
	case state == Gone:
		_ = file.Close()
		return nil, ErrGone
	case state != Exists:
		_ = file.Close()
		return nil, err
	}
	return &pidfd{file: file, gone: make(chan struct{})}, nil
}

// wait waits on a duplicate of its own: closing that is the one way to end a
// read of the poller that cannot be mistaken by another reader.
func (p *pidfd) wait(ctx context.Context) error {
	own, err := p.duplicate()
	if err != nil {
		return err
	}
	defer own.Close()
	raw, err := own.SyscallConn()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- raw.Read(func(fd uintptr) bool { return ended(int(fd)) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.gone:
		err = os.ErrClosed
	}
	_ = own.Close()
	if <-done == nil {
		return nil // it exited just then
	}
	return err
}

func (p *pidfd) duplicate() (*os.File, error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if cerr := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return nil, os.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

func (p *pidfd) signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: a system signal expected", sig)
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return ErrGone
	}
	return sent
}

func (p *pidfd) close() error {
	p.once.Do(func() { close(p.gone) })
	return p.file.Close()
}
