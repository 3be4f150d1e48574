package keeper

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// plumbing is how the client's streams reach the command.
type plumbing struct {
	child  []*os.File // 0, 1, 2 of the command; closed here after the start
	master *os.File   // of the pseudo-terminal, for the client
	slave  *os.File   // its other end, until the command has it
	stage  stage      // that has the terminal, where a room started it
	inputs []func()
	// outputs return when the last writer is gone and all was handed on; moved
	// counts their writes.
	outputs []func()
	pending sync.WaitGroup
	moved   atomic.Int64
}

// start begins to copy what cannot be passed as it is.
func (p *plumbing) start() {
	for _, c := range p.inputs {
		go c()
	}
	for _, c := range p.outputs {
		p.pending.Go(c)
	}
}

// drain waits until what the command wrote has been handed on. It gives up on a
// reader that takes nothing for that long, or at once when quit is closed.
func (p *plumbing) drain(quit <-chan struct{}, idle time.Duration) {
	done := make(chan struct{})
	go func() {
		p.pending.Wait()
		close(done)
	}()
	for last := int64(-1); last != p.moved.Load(); {
		last = p.moved.Load()
		select {
		case <-done:
			return
		case <-quit:
			return
		case <-time.After(idle):
		}
	}
}

// counted is a writer that is seen to go on.
type counted struct {
	to    io.Writer
	moved *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.moved.Add(int64(n))
	return n, err
}

// plumb passes pipes, files and /dev/null as they are; puts a pseudo-terminal of
// the keeper's in the place of each terminal, so that nobody in the tree holds
// the real one; and pipes in the place of sockets, since a socket carries
// descriptors as well as bytes.
func (k *keeper) plumb(o *Run, hand Hand, streams []*os.File) (*plumbing, *Failed) {
	p := &plumbing{}
	var slave *os.File
	done := func(failed *Failed) (*plumbing, *Failed) {
		closeAll(p.child)
		if p.master != nil {
			p.master.Close()
			p.slave.Close()
		}
		return nil, failed
	}
	for i, f := range streams {
		kind, err := sandbox.CheckStream(int(f.Fd()), i)
		if err != nil {
			return done(&Failed{Class: control.ClassFailed, Reason: err.Error()})
		}
		if o.Streams[i] != "" && string(kind) != o.Streams[i] {
			return done(&Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("descriptor %d is a %s now, it was a %s when this was decided", i, kind, o.Streams[i])})
		}
		switch kind {
		case sandbox.KindTerminal:
			if slave == nil {
				if k.room != nil {
					p.master, slave, p.stage, err = k.room.terminal(hand.Rows, hand.Cols)
				} else {
					p.master, slave, err = openTerminal(hand.Rows, hand.Cols)
				}
				if err != nil {
					return done(&Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("pseudo-terminal: %v", err)})
				}
			}
			f, p.slave = slave, slave
		case sandbox.KindSocketPair:
			if f, err = p.bridge(i, f); err != nil {
				return done(&Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("descriptor %d: %v", i, err)})
			}
			p.child = append(p.child, f)
			continue
		}
		dup, err := duplicate(f)
		if err != nil {
			return done(&Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("descriptor %d: %v", i, err)})
		}
		p.child = append(p.child, dup)
	}
	if slave != nil && k.room == nil {
		// The keeper leads its session (it was started so) and takes the terminal
		// as controlling: what it forks from now on has it.
		if err := unix.IoctlSetInt(int(slave.Fd()), unix.TIOCSCTTY, 0); err != nil {
			return done(&Failed{Class: control.ClassFailed, Reason: fmt.Sprintf("controlling terminal: %v", err)})
		}
	}
	return p, nil
}

// bridge replaces a socket by a pipe and copies.
func (p *plumbing) bridge(stream int, socket *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	end, err := duplicate(socket)
	if err != nil {
		r.Close()
		w.Close()
		return nil, err
	}
	if stream == 0 {
		p.inputs = append(p.inputs, func() { io.Copy(w, end); w.Close(); end.Close() })
		return r, nil
	}
	p.outputs = append(p.outputs, func() { io.Copy(counted{end, &p.moved}, r); r.Close(); end.Close() })
	return w, nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 4)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func openTerminal(rows, cols uint16) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "master")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	s, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	slave = os.NewFile(uintptr(s), "/dev/pts/"+strconv.Itoa(n))
	clamp := func(v, other uint16) uint16 {
		if v == 0 {
			return other
		}
		return min(v, 1000)
	}
	size := unix.Winsize{Row: clamp(rows, 24), Col: clamp(cols, 80)}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size); err != nil {
		master.Close()
		slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}
