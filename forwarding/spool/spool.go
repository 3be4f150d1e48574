package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
	"github.com/getpioneer/pioneer-super/registry"
)

// Options of a Spool. Zero values take the protocol's numbers.
type Options struct {
	// PID is what heartbeats name, this process if not positive. It must be one
	// that the readers see alive.
	PID int
	// PIDFor, if set, gives the pid for one channel's heartbeat: readers in a pid
	// namespace of their own see other numbers. Not positive means PID.
	PIDFor func(channel string) int
	// NoNotify looks every Poll instead of being told.
	NoNotify bool
	// AllPeersBeat says that every session served in this root writes a
	// heartbeat, so that none means that nobody serves. Otherwise a peer from
	// before heartbeats is thought possible, and waited for.
	AllPeersBeat bool

	// Timeout is how long a requester waits, and how long a request is served.
	Timeout time.Duration
	// Margin is how long before a requester's own limit its ask is denied for
	// want of an answer: 30 s, or a tenth of a short Timeout.
	Margin time.Duration
	Grace  time.Duration
	// Refresh and Stale are of heartbeats.
	Refresh time.Duration
	Stale   time.Duration
	// Poll is how often is looked without notification, Rescan how often with.
	Poll   time.Duration
	Rescan time.Duration
	// Retry is how often an answer that could not be written is tried again.
	Retry time.Duration

	// MaxOpen bounds the asks of one channel that wait for an answer, MaxFiles
	// the names that are read of one directory, MaxUsed the ids that one channel
	// may ever use.
	MaxOpen  int
	MaxFiles int
	MaxUsed  int

	// Now is the wall clock, for what is written and for ages of files. What is
	// waited for is measured with the monotonic clock.
	Now func() time.Time
}

// The limits where Options has none.
const (
	defaultRescan   = 5 * time.Second
	defaultRetry    = time.Second
	defaultMargin   = 30 * time.Second
	defaultMaxOpen  = 64
	defaultMaxFiles = 4096
	defaultMaxUsed  = 1 << 18
	// tmpAge is how old a half-written file must be to be taken for abandoned.
	tmpAge = time.Minute
)

func (o Options) withDefaults() Options {
	duration := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	number := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	duration(&o.Timeout, wire.Timeout)
	duration(&o.Margin, min(defaultMargin, o.Timeout/10))
	duration(&o.Grace, wire.Grace)
	duration(&o.Refresh, wire.Refresh)
	duration(&o.Stale, wire.Stale)
	duration(&o.Poll, wire.PollInterval)
	duration(&o.Rescan, defaultRescan)
	duration(&o.Retry, defaultRetry)
	number(&o.PID, os.Getpid())
	number(&o.MaxOpen, defaultMaxOpen)
	number(&o.MaxFiles, defaultMaxFiles)
	number(&o.MaxUsed, defaultMaxUsed)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Spool is a forwarding.Carrier on files.
type Spool struct {
	o     Options
	root  dir
	start time.Time // where monotonic readings count from
	hub   *hub      // nil without notification
	hubE  error     // why there is none

	mu     sync.Mutex
	closed bool
	inbox  map[string]*inbox // by encoded channel
	late   []lateAnswer
	work   sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context

	ops ops
}

// ops are the calls that tests make fail.
type ops struct {
	write func(d dir, name string, data []byte, exclusive bool, now time.Time) (fileID, error)
}

var _ forwarding.Carrier = (*Spool)(nil)

// Open opens a forwarding root, making it 0700 if it is not there. A root that
// is a link, belongs to somebody else or may be written by others is ErrUnsafe.
func Open(root string, o Options) (*Spool, error) {
	d, err := openRoot(root)
	if err != nil {
		return nil, fmt.Errorf("forwarding root: %w", err)
	}
	s := &Spool{o: o.withDefaults(), root: d, start: time.Now(), inbox: map[string]*inbox{},
		ops: ops{write: dir.write}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if !s.o.NoNotify {
		s.hub, s.hubE = joinHub()
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		s.beat()
	}()
	return s, nil
}

// Close ends every Serve and Ask and waits for them.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	if s.hub != nil {
		s.hub.leave()
	}
	s.sweepLate()
	s.root.close()
	return nil
}

// enter keeps Close waiting for one call.
func (s *Spool) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return forwarding.ErrClosed
	}
	s.work.Add(1)
	return nil
}

// Unserved returns the sessions whose inbox in this root holds requests and that
// nobody serves: an agent without a terminal whose own children address it. Who
// owns such a session may serve it.
func (s *Spool) Unserved() []string {
	sessions, err := s.root.open("sessions")
	if err != nil {
		return nil
	}
	defer sessions.close()
	names, _, err := sessions.names(s.o.MaxFiles)
	if err != nil {
		return nil
	}
	var out []string
	for _, enc := range names {
		id, err := url.PathUnescape(enc)
		if err != nil {
			continue
		}
		// Only what would be encoded to just this name is an inbox.
		if again, err := registry.EncodeID(id); err != nil || again != enc || s.Serving(id).Served() {
			continue
		}
		requests, err := s.root.walk("sessions", enc, "requests")
		if err != nil {
			continue
		}
		files, _, err := requests.names(s.o.MaxFiles)
		requests.close()
		if err == nil && slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, suffix) }) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Watching reports whether the spool is told of changes, and if not, why not.
func (s *Spool) Watching() (bool, error) { return s.hub != nil, s.hubE }

// Serve answers the asks of one channel. See forwarding.Carrier. When it ends,
// whoever still waits is told so, and the heartbeat is withdrawn.
func (s *Spool) Serve(ctx context.Context, channel string, h forwarding.Handler) error {
	id, ok := registry.NormalizeID(channel)
	if !ok {
		return fmt.Errorf("channel %q: it names no session", channel)
	}
	enc, err := registry.EncodeID(id)
	if err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	in := newInbox(s, id, enc, h)
	s.mu.Lock()
	if s.inbox[enc] != nil {
		s.mu.Unlock()
		return fmt.Errorf("channel %q: %w", id, forwarding.ErrServed)
	}
	s.inbox[enc] = in
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.inbox, enc)
		s.mu.Unlock()
	}()
	if err := in.serve(ctx); err != nil {
		return fmt.Errorf("channel %q: %w", id, err)
	}
	return nil
}

// layout opens the directories of one inbox, making what is missing. rebuilt
// says that something had to be made.
func (s *Spool) layout(enc string) (requests, responses dir, made bool, err error) {
	sessions, m, err := s.root.make("sessions")
	if err != nil {
		return dir{}, dir{}, false, err
	}
	defer sessions.close()
	made = made || m
	box, m, err := sessions.make(enc)
	if err != nil {
		return dir{}, dir{}, made, err
	}
	defer box.close()
	made = made || m
	if requests, m, err = box.make("requests"); err != nil {
		return dir{}, dir{}, made, err
	}
	made = made || m
	if responses, m, err = box.make("responses"); err != nil {
		requests.close()
		return dir{}, dir{}, made, err
	}
	return requests, responses, made || m, nil
}

// find opens the directories of one inbox without making anything.
func (s *Spool) find(enc string) (requests, responses dir, err error) {
	if requests, err = s.root.walk("sessions", enc, "requests"); err != nil {
		return dir{}, dir{}, err
	}
	if responses, err = s.root.walk("sessions", enc, "responses"); err != nil {
		requests.close()
		return dir{}, dir{}, err
	}
	return requests, responses, nil
}

// tidy removes what is empty, in the protocol's order: the place for answers
// goes only after the place for requests is gone. The other way round, a
// request that is still pending has nowhere to be answered.
func (s *Spool) tidy(enc string) {
	box, err := s.root.walk("sessions", enc)
	if err != nil {
		return
	}
	defer box.close()
	for _, name := range []string{"requests", "responses"} {
		if gone, _ := box.removeDir(name); !gone {
			return
		}
	}
	if sessions, err := s.root.open("sessions"); err == nil {
		_, _ = sessions.removeDir(enc)
		sessions.close()
	}
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Serving says whether somebody serves the target now. One look compares clocks
// and believes a record that is fresh; see liveness.Judge.
func (s *Spool) Serving(target string) liveness.State {
	id, ok := registry.NormalizeID(target)
	if !ok {
		return liveness.Absent
	}
	enc, err := registry.EncodeID(id)
	if err != nil {
		return liveness.Absent
	}
	j := liveness.Judge{StaleAfter: s.o.Stale}
	o, _ := s.observe(id, enc)
	return j.Observe(o)
}

// Heartbeat returns the record of a served session as it lies there, and
// whether it counts. Whoever is named a parent by an environment compares the
// process in it with its own ancestors.
func (s *Spool) Heartbeat(target string) (wire.Heartbeat, liveness.State, error) {
	id, ok := registry.NormalizeID(target)
	if !ok {
		return wire.Heartbeat{}, liveness.Absent, fmt.Errorf("target %q names no session", target)
	}
	enc, err := registry.EncodeID(id)
	if err != nil {
		return wire.Heartbeat{}, liveness.Absent, err
	}
	j := liveness.Judge{StaleAfter: s.o.Stale}
	o, h := s.observe(id, enc)
	return h, j.Observe(o), nil
}
