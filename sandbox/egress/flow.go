package egress

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// flow is a connection to a target. What is written to it goes out, what is read from
// it came in.
type flow struct {
	net.Conn
	lease    *Lease
	question Question
	answered bool // somebody allowed it, no rule did
	count    *count
	idle     time.Duration
	last     atomic.Int64 // when something moved, in nanoseconds
	watch    *time.Timer

	closing sync.Once
	mu      sync.Mutex
	client  io.Closer // is closed with it; nil before there is one
	closed  bool
}

func (f *flow) touch() { f.last.Store(time.Now().UnixNano()) }

func (f *flow) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.count.received.Add(int64(n))
	f.touch()
	return n, err
}

func (f *flow) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	f.count.sent.Add(int64(n))
	f.touch()
	return n, err
}

// checkIdle closes a flow on which nothing moved for its idle time.
func (f *flow) checkIdle() {
	rest := f.idle - time.Since(time.Unix(0, f.last.Load()))
	if rest <= 0 {
		f.Close()
		return
	}
	f.watch.Reset(rest)
}

// bind makes the client's connection end with the flow.
func (f *flow) bind(client io.Closer) {
	f.mu.Lock()
	f.client = client
	closed := f.closed
	f.mu.Unlock()
	if closed {
		client.Close()
	}
}

// Close ends the connection, and the client's where it is bound to it.
func (f *flow) Close() error {
	f.closing.Do(func() {
		f.lease.mu.Lock()
		delete(f.lease.flows, f)
		watch := f.watch
		f.lease.mu.Unlock()
		if watch != nil {
			watch.Stop()
		}
		f.mu.Lock()
		client := f.client
		f.closed = true
		f.mu.Unlock()
		f.Conn.Close()
		if client != nil {
			client.Close()
		}
	})
	return nil
}

const copyBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

func pump(to io.Writer, from io.Reader) error {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	// Neither side may take a way around Read and Write, which count.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, *b)
	return err
}

// closeWrite tells the other side that nothing more comes.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		return
	}
	c.Close()
}

// relay carries bytes both ways until both sides are done. What the client says first
// is looked at before any of it goes out: see checkPreface.
func relay(client net.Conn, in *bufio.Reader, f *flow, headTime time.Duration) {
	f.bind(client)
	defer f.Close()
	out := make(chan struct{})
	go func() {
		defer close(out)
		if checkPreface(client, in, f.question.Target, headTime) != nil || pump(f, in) != nil {
			f.Close()
			return
		}
		closeWrite(f.Conn)
	}()
	if pump(client, f) != nil {
		f.Close()
	}
	closeWrite(client)
	<-out
}
