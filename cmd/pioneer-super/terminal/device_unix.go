//go:build linux || darwin

package terminal

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// device is a terminal that this process owns the far side of, on a
// descriptor of its own.
type device struct {
	fd    int
	saved *term.State // as it was found
	raw   bool

	wakeR, wakeW *os.File // readable once stop was called
	once         sync.Once
}

func openDevice(tty *os.File) (*device, error) {
	fd, err := duplicate(tty)
	if err != nil {
		return nil, err
	}
	if !term.IsTerminal(fd) {
		unix.Close(fd)
		return nil, errors.New("not a terminal")
	}
	saved, err := term.GetState(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	d := &device{fd: fd, saved: saved}
	if d.wakeR, d.wakeW, err = os.Pipe(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return d, nil
}

// duplicate returns a descriptor that lives as long as we want, whatever
// becomes of f. It does not change f's blocking mode: that is shared with
// whoever else holds the same open file.
func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	if cerr := raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3)
	}); cerr != nil {
		return -1, cerr
	}
	return fd, err
}

// stop makes every wait of this device return for good.
func (d *device) stop() { d.once.Do(func() { d.wakeW.Close() }) }

// free closes the descriptors. No other call may follow or be under way.
func (d *device) free() {
	d.stop()
	d.wakeR.Close()
	unix.Close(d.fd)
}

// size returns rows and columns, in 1..1000; 24 by 80 where the terminal does
// not tell.
func (d *device) size() (rows, cols int) {
	cols, rows, err := term.GetSize(d.fd)
	if err != nil || rows <= 0 || cols <= 0 {
		return 24, 80
	}
	return min(rows, maxSize), min(cols, maxSize)
}

// makeRaw switches to raw mode. With remember it takes what it finds as the
// state to go back to.
func (d *device) makeRaw(remember bool) error {
	if remember {
		saved, err := term.GetState(d.fd)
		if err != nil {
			return err
		}
		d.saved = saved
	}
	if _, err := term.MakeRaw(d.fd); err != nil {
		return err
	}
	d.raw = true
	return nil
}

func (d *device) restore() error {
	d.raw = false
	return term.Restore(d.fd, d.saved)
}

// foreground reports whether this process may use the terminal now. A terminal
// that controls nobody here is always ours.
func (d *device) foreground() bool {
	group, err := unix.IoctlGetInt(d.fd, unix.TIOCGPGRP)
	if err != nil {
		return errors.Is(err, unix.ENOTTY)
	}
	return group == unix.Getpgrp()
}

var errStopped = errors.New("stopped")

// write writes all of b. It waits for a slow terminal until stop is called.
func (d *device) write(b []byte) error { return writeAll(d.fd, int(d.wakeR.Fd()), b) }

func writeAll(fd, wake int, b []byte) error {
	for len(b) > 0 {
		ready, woken, err := await(fd, wake, true, -1)
		if err != nil {
			return err
		}
		if woken && !ready {
			return errStopped
		}
		// A small piece: on a descriptor that blocks, what was said to be
		// ready has room for about this much.
		n, err := unix.Write(fd, b[:min(len(b), 1024)])
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			if woken {
				return errStopped
			}
			continue
		case err != nil:
			return err
		case n <= 0:
			return io.ErrShortWrite
		}
		b = b[n:]
	}
	return nil
}

// cooked reports whether the terminal behind a pseudo-terminal's master edits
// lines, that is, whether its program is no full-screen one.
func cooked(fd int) bool {
	t, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil && t.Lflag&unix.ICANON != 0
}

// chunk is what one read gave. early is when its first byte may have arrived
// at the earliest, at when it was read.
type chunk struct {
	data  []byte
	early time.Time
	at    time.Time
	err   error // io.EOF, or errAway
}

// errAway: the process is not in the foreground and must not read.
var errAway = errors.New("in the background")

// reader reads a descriptor in a goroutine of its own, one chunk ahead.
type reader struct {
	fd       int
	terminal *device // set for the real terminal
	chunks   chan chunk
	finished chan struct{}

	wakeR, wakeW *os.File

	mu      sync.Mutex
	change  *sync.Cond
	on      bool
	stopped bool
	parked  bool
	cancel  chan struct{} // closed to give up delivering
	reads   uint64
}

// input starts reading the terminal, parked at first.
func (d *device) input() (*reader, error) { return startReader(d.fd, d) }

func startReader(fd int, terminal *device) (*reader, error) {
	r := &reader{fd: fd, terminal: terminal, chunks: make(chan chunk), finished: make(chan struct{})}
	r.change = sync.NewCond(&r.mu)
	var err error
	if r.wakeR, r.wakeW, err = os.Pipe(); err != nil {
		return nil, err
	}
	go r.run()
	return r, nil
}

// resume lets it read and returns how many chunks were read before; park returns when it does not read any more, and what it
// had read but not delivered is gone.
func (r *reader) resume() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on && !r.stopped {
		r.on, r.cancel = true, make(chan struct{})
		r.change.Broadcast()
	}
	return r.reads
}

func (r *reader) park() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return
	}
	r.on = false
	close(r.cancel)
	r.wakeW.Write([]byte{0})
	for !r.parked && !r.stopped {
		r.change.Wait()
	}
}

// stop ends the goroutine and waits for it.
func (r *reader) stop() {
	r.mu.Lock()
	if r.on {
		r.on = false
		close(r.cancel)
	}
	r.stopped = true
	r.wakeW.Write([]byte{0})
	r.change.Broadcast()
	r.mu.Unlock()
	<-r.finished
	r.wakeR.Close()
	r.wakeW.Close()
}

// beyond reports whether more than the first n chunks were read, or wait in
// the terminal.
func (r *reader) beyond(n uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reads != n {
		return true
	}
	ready, _, err := await(r.fd, -1, false, 0)
	return err != nil || ready
}

func (r *reader) run() {
	defer close(r.finished)
	wake := int(r.wakeR.Fd())
	buf := make([]byte, 32<<10)
	var last time.Time
	for {
		r.mu.Lock()
		for !r.on && !r.stopped {
			r.parked = true
			r.change.Broadcast()
			r.change.Wait()
		}
		r.parked = false
		stopped, cancel := r.stopped, r.cancel
		r.mu.Unlock()
		if stopped {
			return
		}
		// What is there already may have come at any time since the last read.
		early := last
		ready, woken, err := await(r.fd, wake, false, 0)
		if err == nil && !ready && !woken {
			ready, woken, err = await(r.fd, wake, false, -1)
			early = time.Now()
		}
		if woken {
			var drain [64]byte
			r.wakeR.Read(drain[:])
		}
		c := chunk{err: err}
		if err == nil {
			if !ready {
				continue
			}
			r.mu.Lock()
			if !r.on {
				r.mu.Unlock()
				continue
			}
			if r.terminal != nil && !r.terminal.foreground() {
				c.err = errAway
			} else {
				n, rerr := unix.Read(r.fd, buf)
				switch {
				case rerr == unix.EAGAIN || rerr == unix.EINTR:
					r.mu.Unlock()
					continue
				case rerr != nil || n <= 0:
					c.err = io.EOF // a terminal that went away reads as either
				default:
					c.data = append([]byte(nil), buf[:n]...)
				}
			}
			r.reads++
			r.mu.Unlock()
		}
		last = time.Now()
		c.early, c.at = early, last
		select {
		case r.chunks <- c:
		case <-cancel:
			continue
		}
		if c.err != nil {
			// Until park and resume, there is nothing more to read.
			<-cancel
		}
	}
}

// keySink writes keys to a pseudo-terminal without ever making its caller
// wait: an agent that reads nothing must not stop the dialog.
type keySink struct {
	fd       int
	queue    chan []byte
	finished chan struct{}

	wakeR, wakeW *os.File
}

func startKeySink(fd int) (*keySink, error) {
	s := &keySink{fd: fd, queue: make(chan []byte, 256), finished: make(chan struct{})}
	var err error
	if s.wakeR, s.wakeW, err = os.Pipe(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.finished)
		wake := int(s.wakeR.Fd())
		for b := range s.queue {
			if writeAll(s.fd, wake, b) != nil {
				for range s.queue { // gone or stopped: swallow what still comes
				}
			}
		}
	}()
	return s, nil
}

// send queues a copy of b and reports whether there was room.
func (s *keySink) send(b []byte) bool {
	select {
	case s.queue <- append([]byte(nil), b...):
		return true
	default:
		return false
	}
}

// stop drops what is not written yet and waits for the goroutine.
func (s *keySink) stop() {
	s.wakeW.Close()
	close(s.queue)
	<-s.finished
	s.wakeR.Close()
}

// pseudo is the master side of an agent's pseudo-terminal.
type pseudo struct {
	fd   int
	out  *reader
	keys *keySink
}

func openPseudo(master *os.File) (*pseudo, error) {
	fd, err := duplicate(master)
	if err != nil {
		return nil, err
	}
	// The relay is the only user of this open file, and a write to it must not
	// block once the agent stops reading.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	p := &pseudo{fd: fd}
	if p.keys, err = startKeySink(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if p.out, err = startReader(fd, nil); err != nil {
		p.keys.stop()
		unix.Close(fd)
		return nil, err
	}
	p.out.resume()
	return p, nil
}

func (p *pseudo) cooked() bool { return cooked(p.fd) }

func (p *pseudo) close() {
	p.out.stop()
	p.keys.stop()
	unix.Close(p.fd)
}

// Signals of a terminal.
var (
	sigResize   os.Signal = unix.SIGWINCH
	sigStop     os.Signal = unix.SIGTSTP
	sigContinue os.Signal = unix.SIGCONT
)

// watchSignals tells ch of resizes, stops and continues. SIGTTIN and SIGTTOU
// are ignored from here on: a process that is in the background must not be
// stopped by a question that comes up.
func watchSignals(ch chan os.Signal) {
	signal.Ignore(unix.SIGTTIN, unix.SIGTTOU)
	signal.Notify(ch, sigResize, sigStop, sigContinue)
}

func unwatchSignals(ch chan os.Signal) {
	signal.Stop(ch)
	signal.Reset(unix.SIGTTIN, unix.SIGTTOU)
}

// stoppable reports whether somebody could continue us: a shell with job
// control in the same session, in another process group.
func stoppable() bool {
	parent := unix.Getppid()
	own, err1 := unix.Getsid(0)
	theirs, err2 := unix.Getsid(parent)
	group, err3 := unix.Getpgid(parent)
	return err1 == nil && err2 == nil && err3 == nil && own == theirs && group != unix.Getpgrp()
}

// stopSelf stops this process, and the others of its job, so that a shell sees
// the whole pipeline stopped. It returns when somebody continued us.
//
// The signals that this causes here arrive on ch and mean nothing any more.
func stopSelf(ch chan os.Signal) {
	unix.Kill(0, unix.SIGTSTP)
	unix.Kill(unix.Getpid(), unix.SIGSTOP)
	// Ours comes for certain, however late a busy machine delivers it: taken for
	// another one, it would stop this process again. What else comes is near it.
	quiet := 2 * time.Second
	for {
		select {
		case s := <-ch:
			if s == sigStop {
				quiet = 20 * time.Millisecond
			}
		case <-time.After(quiet):
			return
		}
	}
}
