package spool

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/registry"
)

// inbox serves one channel. One goroutine looks at the directories; each ask has
// one of its own, so that nothing waits behind a person.
type inbox struct {
	s       *Spool
	channel string
	enc     string
	h       forwarding.Handler
	kick    chan struct{}
	wg      sync.WaitGroup

	// mu guards what follows. A file of the inbox is published, and a response
	// entered here, under it, so that a look at the directory always finds both
	// or neither.
	mu      sync.Mutex
	open    map[string]*pending
	used    map[idHash]struct{} // ids that are over, for ever
	written map[string]fileID   // our answers that nobody has taken yet
	strange map[string]fileID   // foreign answers that were reported
	again   map[string]int      // how often an id was asked anew
	queue   []forwarding.Notice // to be told once mu is free
	flooded bool
	ended   bool

	beatMu     sync.Mutex
	announced  bool
	beatFailed bool
	beacon     beacon
}

// idHash is what is kept of a used id.
type idHash [16]byte

func hashID(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:16])
}

// pending is one ask from when it is read to when its answer is delivered.
type pending struct {
	id     string
	file   fileID
	digest [32]byte
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// answer is what is to be delivered, nil while it is asked.
	answer []byte
	// refused says that it was never asked: the file is as it was found, and
	// need not be readable.
	refused bool
	reason  string
	triedAt time.Time
	over    bool // delivered, withdrawn or replaced
}

// maxReplaced bounds how often one id is asked anew.
const maxReplaced = 8

func newInbox(s *Spool, channel, enc string, h forwarding.Handler) *inbox {
	return &inbox{s: s, channel: channel, enc: enc, h: h, kick: make(chan struct{}, 1), open: map[string]*pending{},
		used: map[idHash]struct{}{}, written: map[string]fileID{}, strange: map[string]fileID{}, again: map[string]int{}}
}

// flush tells what was queued while mu was held.
func (in *inbox) flush() {
	in.mu.Lock()
	queue := in.queue
	in.queue = nil
	in.mu.Unlock()
	for _, n := range queue {
		in.notice(n)
	}
}

func (in *inbox) laterLocked(n forwarding.Notice) { in.queue = append(in.queue, n) }

// useLocked remembers that an id is over. Once the channel has used all that it
// may, every request is refused and none need be remembered.
func (in *inbox) useLocked(id string) {
	delete(in.again, id)
	if len(in.used) < in.s.o.MaxUsed {
		in.used[hashID(id)] = struct{}{}
	}
}

func noticeDegraded(id, reason string, err error) forwarding.Notice {
	return forwarding.Notice{Kind: forwarding.Degraded, ID: id, Reason: reason, Err: err}
}

func (in *inbox) notice(n forwarding.Notice) {
	n.Channel = in.channel
	in.h.Notice(n)
}

// serve runs the inbox until ctx ends.
func (in *inbox) serve(ctx context.Context) error {
	requests, responses, _, err := in.s.layout(in.enc)
	if err != nil {
		return err
	}
	err = in.prepare(requests, responses)
	reqPath, resPath := requests.path, responses.path
	requests.close()
	responses.close()
	if err != nil {
		return err
	}
	every := in.s.o.Rescan
	release, err := in.watch(reqPath, resPath)
	if err == nil {
		err = in.hears()
	}
	if err != nil {
		every = in.s.o.Poll
		in.notice(noticeDegraded("", fmt.Sprintf("not told of changes, looking every %s", every), err))
	}
	defer release()
	if err := in.announce(); err != nil {
		if !full(err) {
			return err
		}
		in.notice(noticeDegraded("", "the heartbeat cannot be written", err))
	}
	defer in.wg.Wait()
	defer in.finish()
	in.notice(forwarding.Notice{Kind: forwarding.Serving, Reason: "the inbox is ready"})

	timer := time.NewTimer(0)
	defer timer.Stop()
	blind := false // the last look failed
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.kick:
		case <-timer.C:
		}
		begun := time.Now()
		rebuilt, err := in.scan(ctx)
		// A look that costs much is followed by as long a rest: a child that
		// floods its own inbox gets half of one processor at most.
		if took := time.Since(begun); took > costly {
			rest(ctx, min(took, maxRest))
		}
		if err != nil && !blind {
			in.notice(noticeDegraded("", "the inbox cannot be read", err))
		}
		blind = err != nil
		if rebuilt && in.s.hub != nil {
			if err := errors.Join(in.s.hub.rearm(reqPath), in.s.hub.rearm(resPath)); err != nil {
				in.notice(noticeDegraded("", "not told of changes any more", err))
				every = in.s.o.Poll
			}
			in.notice(forwarding.Notice{Kind: forwarding.Rebuilt, Reason: "the inbox was gone and was made again"})
			kick(in.kick) // what came between the making and the watching
		}
		wait := every
		if blind {
			wait = in.s.o.Poll
		}
		if in.anyStuck() {
			wait = min(wait, in.s.o.Retry)
		}
		timer.Reset(wait)
	}
}

const (
	// costly is how long a look may take without a rest after it. An ordinary
	// one takes a fraction of a millisecond.
	costly  = 2 * time.Millisecond
	maxRest = 50 * time.Millisecond
)

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// watch asks to be woken, of files that go only by the first of the paths: a
// request that goes is withdrawn, an answer that goes was taken. The release
// function is never nil.
func (in *inbox) watch(paths ...string) (func(), error) {
	if in.s.hub == nil {
		if in.s.o.NoNotify {
			return func() {}, errors.New("notification is switched off")
		}
		return func() {}, in.s.hubE
	}
	var releases []func()
	release := func() {
		for _, r := range releases {
			r()
		}
	}
	for i, p := range paths {
		r, err := in.s.hub.watch(p, listener{kick: in.kick, arrivals: i > 0})
		if err != nil {
			release()
			return func() {}, err
		}
		releases = append(releases, r)
	}
	return release, nil
}

// hearing is how long a change that this end makes itself may take to be told.
const hearing = 250 * time.Millisecond

// hears finds out whether changes are told here at all: some file systems have
// no notification, and some only of what this host changes.
func (in *inbox) hears() error {
	requests, responses, err := in.directories()
	if err != nil {
		return err
	}
	defer requests.close()
	responses.close()
	if name := requests.remote(); name != "" {
		return fmt.Errorf("%s does not tell of what another host changes", name)
	}
	select {
	case <-in.kick:
	default:
	}
	if _, err := in.s.ops.write(requests, pin, nil, false, in.s.o.Now()); err != nil {
		return nil // a full disk tells nothing about hearing
	}
	select {
	case <-in.kick:
		return nil
	case <-time.After(hearing):
		return fmt.Errorf("a change was not told within %s", hearing)
	}
}

// prepare pins the inbox, so that a peer that tidies up does not take it away,
// and takes down which answers already lie there.
func (in *inbox) prepare(requests, responses dir) error {
	if err := in.pin(requests); err != nil && !full(err) {
		return err
	}
	names, _, err := responses.names(in.s.o.MaxFiles)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, name := range names {
		e, err := responses.stat(name)
		if err != nil {
			continue
		}
		// Left by an earlier end: not ours to take away while it is young, and
		// whoever waits for it has its answer.
		in.strange[name] = e.fileID
		if id, ok := strings.CutSuffix(name, suffix); ok {
			in.useLocked(id)
		}
	}
	return nil
}

func (in *inbox) pin(requests dir) error {
	if _, err := requests.stat(pin); err == nil {
		return nil
	}
	_, err := in.s.ops.write(requests, pin, nil, false, in.s.o.Now())
	return err
}

// finish ends every open ask. Whoever waits is told at once; nobody will come.
func (in *inbox) finish() {
	in.mu.Lock()
	in.ended = true
	left := make([]*pending, 0, len(in.open))
	for _, p := range in.open {
		left = append(left, p)
	}
	in.mu.Unlock()
	for _, p := range left {
		in.settle(p, forwarding.Answer{Reason: "the session that answers stopped serving", DecidedBy: wire.Unavailable("the session that answers stopped serving")})
		p.cancel(context.Canceled)
	}
	in.withdraw()
	if requests, responses, err := in.directories(); err == nil {
		_ = requests.remove(pin)
		requests.close()
		responses.close()
	}
	in.s.tidy(in.enc)
}

func (in *inbox) directories() (requests, responses dir, err error) {
	return in.s.find(in.enc)
}

// anyStuck reports whether an answer waits to be written.
func (in *inbox) anyStuck() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.open {
		if p.answer != nil {
			return true
		}
	}
	return false
}

// scan looks at the whole inbox once. rebuilt says that directories had to be
// made again.
func (in *inbox) scan(ctx context.Context) (rebuilt bool, err error) {
	requests, responses, err := in.directories()
	if err != nil {
		// Gone, or something else stands in its place: what a child did to its own
		// inbox. Whatever is not a directory is moved away and the inbox made anew.
		// Whoever did it may be at it still, so it is tried more than once.
		for range 4 {
			in.unblock()
			if requests, responses, _, err = in.s.layout(in.enc); err == nil {
				break
			}
		}
		if err != nil {
			return false, err
		}
		rebuilt = true
	}
	defer requests.close()
	defer responses.close()
	if err := in.pin(requests); err != nil && !full(err) {
		return rebuilt, err
	}
	names, more, err := requests.names(in.s.o.MaxFiles)
	if err != nil {
		return rebuilt, err
	}
	in.flood(requests, names, more)

	var notices []forwarding.Notice
	var fresh []candidate
	present := make(map[string]bool, len(names))
	for _, name := range names {
		id, ok := strings.CutSuffix(name, suffix)
		if !ok {
			in.sweep(requests, name)
			continue
		}
		if !registry.ValidRequestID(id) {
			// No response can have this name, so nobody can be told.
			_ = requests.clear(name, in.s.o.Now())
			notices = append(notices, forwarding.Notice{Kind: forwarding.Dropped, ID: name, Reason: "the file name is no usable request id"})
			continue
		}
		present[id] = true
		if c, ok := in.look(requests, id); ok {
			fresh = append(fresh, c)
		}
	}
	in.vanished(requests, present, more)
	sort.Slice(fresh, func(i, j int) bool {
		a, b := fresh[i], fresh[j]
		if a.request.CreatedAt != b.request.CreatedAt {
			return a.request.CreatedAt < b.request.CreatedAt
		}
		return a.id < b.id
	})
	for _, c := range fresh {
		notices = append(notices, in.admit(ctx, requests, responses, c)...)
	}
	in.retry()
	notices = append(notices, in.forgeries(responses)...)
	in.flush()
	for _, n := range notices {
		in.notice(n)
	}
	return rebuilt, nil
}

// unblock moves away what stands where a directory of the inbox belongs. Only
// the inbox itself is touched: sessions/ and the root are not the child's.
func (in *inbox) unblock() {
	sessions, err := in.s.root.open("sessions")
	if err != nil {
		return
	}
	defer sessions.close()
	now := in.s.o.Now()
	misplaced := func(d dir, name string) bool {
		e, err := d.stat(name)
		if err == nil && e.mode.IsDir() {
			d.restrict(name)
			return false
		}
		return err == nil && d.clear(name, now) == nil
	}
	if misplaced(sessions, in.enc) {
		return
	}
	box, err := sessions.open(in.enc)
	if err != nil {
		return
	}
	defer box.close()
	misplaced(box, "requests")
	misplaced(box, "responses")
}

// flood handles more names than are read: what is no request goes, so that the
// requests among it come to light, and those that are too many are refused.
func (in *inbox) flood(requests dir, names []string, more bool) {
	in.mu.Lock()
	first := more && !in.flooded
	in.flooded = more
	in.mu.Unlock()
	if !more {
		return
	}
	if first {
		in.notice(forwarding.Notice{Kind: forwarding.Flooded, Reason: fmt.Sprintf("more than %d names in the inbox", in.s.o.MaxFiles)})
	}
	for _, name := range names {
		// A file that is being written is left to its writer, for a minute.
		if !strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, tmpSuffix) && name != pin {
			if requests.remove(name) != nil {
				_, _ = requests.removeDir(name)
			}
		}
	}
	kick(in.kick)
}

// sweep removes a half-written file that its writer will not finish.
func (in *inbox) sweep(d dir, name string) {
	if !strings.HasSuffix(name, tmpSuffix) {
		return
	}
	e, err := d.stat(name)
	if err != nil || in.s.o.Now().Sub(e.mtime) < tmpAge {
		return
	}
	if d.remove(name) != nil {
		_, _ = d.removeDir(name)
	}
}

// candidate is a request that is not known yet, as it was read once.
type candidate struct {
	id      string
	file    fileID
	digest  [32]byte
	request wire.Request
	problem string
}

// look compares one name with what is known of it, and reads it if it is new.
func (in *inbox) look(requests dir, id string) (candidate, bool) {
	name := id + suffix
	in.mu.Lock()
	p := in.open[id]
	in.mu.Unlock()
	if p != nil {
		if p.refused {
			return candidate{}, false
		}
		e, err := requests.stat(name)
		if err != nil || e.fileID == p.file {
			return candidate{}, false
		}
	}
	c := candidate{id: id}
	data, file, err := requests.read(name, wire.MaxFile)
	if notThere(err) {
		return candidate{}, false
	}
	c.file = file
	if err != nil {
		c.problem = readProblem(err)
		if e, serr := requests.stat(name); serr == nil {
			c.file = e.fileID
		}
	} else {
		c.digest = sha256.Sum256(data)
		c.request, err = wire.ReadRequest(data)
		if err != nil {
			c.problem = err.Error()
		}
	}
	if p != nil {
		in.mu.Lock()
		if p.over {
			in.mu.Unlock()
			return c, true
		}
		if c.problem == "" && c.digest == p.digest {
			p.file = c.file // the same ask, written again
			in.mu.Unlock()
			return candidate{}, false
		}
		in.again[id]++
		in.endLocked(p)
		in.mu.Unlock()
		p.cancel(forwarding.ErrReplaced)
		in.notice(forwarding.Notice{Kind: forwarding.Withdrawn, ID: id, Reason: forwarding.ErrReplaced.Error()})
	}
	return c, true
}

// readProblem is what a requester is told of a file that cannot be read.
func readProblem(err error) string {
	switch {
	case errors.Is(err, errNotRegular):
		return "the request is not a regular file"
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("the request is larger than %d bytes", wire.MaxFile)
	}
	return "the request cannot be read: " + plainReason(err)
}

// endLocked takes an ask out of the open ones.
func (in *inbox) endLocked(p *pending) {
	p.over = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if in.open[p.id] == p {
		delete(in.open, p.id)
	}
}

// vanished withdraws the asks whose request is gone.
func (in *inbox) vanished(requests dir, present map[string]bool, more bool) {
	var gone []*pending
	in.mu.Lock()
	for id, p := range in.open {
		if present[id] {
			continue
		}
		// The list may be older than the ask, or not have all names.
		if _, err := requests.stat(id + suffix); !notThere(err) {
			continue
		}
		in.endLocked(p)
		in.useLocked(id)
		gone = append(gone, p)
	}
	in.mu.Unlock()
	for _, p := range gone {
		p.cancel(forwarding.ErrWithdrawn)
		in.notice(forwarding.Notice{Kind: forwarding.Withdrawn, ID: p.id, Reason: forwarding.ErrWithdrawn.Error()})
	}
}

// admit starts a new ask, or refuses it.
func (in *inbox) admit(ctx context.Context, requests, responses dir, c candidate) []forwarding.Notice {
	now := in.s.o.Now()
	waited := max(0, now.Sub(c.file.mtime))
	if waited > in.s.o.Timeout {
		// Whoever wrote this gave up long ago.
		in.mu.Lock()
		in.useLocked(c.id)
		in.mu.Unlock()
		_ = requests.clear(c.id+suffix, now)
		return []forwarding.Notice{{Kind: forwarding.Dropped, ID: c.id, Reason: fmt.Sprintf("the request is %s old", waited.Round(time.Second))}}
	}
	reason := c.problem
	if reason == "" {
		reason = in.check(c, now)
	}
	limit := in.s.o.Timeout - in.s.o.Margin - waited
	if reason == "" && limit <= 0 {
		reason = "the request was found too late to be answered"
	}

	in.mu.Lock()
	hash := hashID(c.id)
	if _, twice := in.used[hash]; twice {
		if _, err := requests.stat(c.id + suffix); notThere(err) {
			in.mu.Unlock() // it was answered, and taken away, since it was read
			return nil
		}
		file, mine := in.written[c.id+suffix]
		if e, err := responses.stat(c.id + suffix); mine && err == nil && e.same(file) {
			// Answered, the answer not yet taken, and the request still there:
			// its removal failed, or it was put back.
			in.mu.Unlock()
			_ = requests.clear(c.id+suffix, now)
			return nil
		}
		if reason == "" {
			reason = "the request id was used before"
		}
	}
	switch {
	case in.ended:
		in.mu.Unlock()
		return nil
	case reason != "":
	case in.again[c.id] > maxReplaced:
		reason = fmt.Sprintf("the request was replaced more than %d times", maxReplaced)
	case len(in.used) >= in.s.o.MaxUsed:
		reason = fmt.Sprintf("this channel has used all its %d request ids", in.s.o.MaxUsed)
	case in.askingLocked() >= in.s.o.MaxOpen:
		reason = fmt.Sprintf("%d requests of this channel already wait for an answer", in.s.o.MaxOpen)
	}
	askCtx, cancel := context.WithCancelCause(ctx)
	p := &pending{id: c.id, file: c.file, digest: c.digest, cancel: cancel}
	in.open[c.id] = p
	if reason != "" {
		p.refused, p.reason = true, reason
		in.mu.Unlock()
		in.settle(p, forwarding.Answer{Reason: reason, DecidedBy: wire.GateError(reason)})
		cancel(context.Canceled)
		return []forwarding.Notice{{Kind: forwarding.Refused, ID: c.id, Reason: reason}}
	}
	p.timer = time.AfterFunc(limit, func() {
		reason := fmt.Sprintf("nobody answered within %s", in.s.o.Timeout-in.s.o.Margin)
		in.settle(p, forwarding.Answer{Reason: reason, DecidedBy: wire.Unavailable(reason)})
		cancel(forwarding.ErrExpired)
	})
	in.mu.Unlock()

	ask := forwarding.NewAsk(forwarding.Ask{ID: c.id, Channel: in.channel, Created: time.UnixMilli(c.request.CreatedAt), Request: c.request, Digest: c.digest},
		func() error { return in.standing(p) })
	in.wg.Add(1)
	go func() {
		defer in.wg.Done()
		answer, err := in.h.Handle(askCtx, ask)
		if err != nil {
			answer = forwarding.Answer{Reason: err.Error(), DecidedBy: wire.GateError(err.Error())}
		}
		in.settle(p, answer)
		cancel(context.Canceled)
	}()
	return nil
}

// askingLocked counts the asks that somebody still thinks about.
func (in *inbox) askingLocked() int {
	n := 0
	for _, p := range in.open {
		if p.answer == nil {
			n++
		}
	}
	return n
}

// check says why a readable request is not asked, "" if it is.
func (in *inbox) check(c candidate, now time.Time) string {
	r := c.request
	if r.ID != c.id {
		return "the request's id is not the name of its file"
	}
	if target, ok := registry.NormalizeID(r.TargetSessionID); !ok || target != in.channel {
		return "the request is addressed to another session"
	}
	if age := now.Sub(time.UnixMilli(r.CreatedAt)); age > in.s.o.Timeout {
		return "the request says that it is older than a request can be"
	}
	return ""
}

// standing says whether an ask is still there as it was read.
func (in *inbox) standing(p *pending) error {
	requests, responses, err := in.directories()
	if err != nil {
		return forwarding.ErrWithdrawn
	}
	defer requests.close()
	responses.close()
	in.mu.Lock()
	over := p.over
	in.mu.Unlock()
	if over {
		return forwarding.ErrWithdrawn
	}
	return unchanged(requests, p)
}

// unchanged reads the request again. The same bytes in another file are the
// same ask.
func unchanged(requests dir, p *pending) error {
	name := p.id + suffix
	if p.refused {
		if _, err := requests.stat(name); err != nil {
			return forwarding.ErrWithdrawn
		}
		return nil
	}
	data, _, err := requests.read(name, wire.MaxFile)
	if notThere(err) {
		return forwarding.ErrWithdrawn
	}
	if err != nil || sha256.Sum256(data) != p.digest {
		return forwarding.ErrReplaced
	}
	return nil
}

// settle gives an ask its answer, once: whoever comes second is too late.
func (in *inbox) settle(p *pending, a forwarding.Answer) {
	data := in.encode(a)
	in.mu.Lock()
	if !p.over && p.answer == nil {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.answer = data
		in.deliverLocked(p)
	}
	in.mu.Unlock()
	in.flush()
}

// encode makes the bytes of an answer. An answer that cannot be written, for
// want of room or for what its text holds, becomes a denial that says so.
func (in *inbox) encode(a forwarding.Answer) []byte {
	if len(a.Reason) > maxReason {
		a.Reason = strings.ToValidUTF8(a.Reason[:maxReason], "") + "…"
	}
	a.Reason = strings.ToValidUTF8(a.Reason, "\ufffd")
	now := in.s.o.Now()
	data, err := a.Response(in.channel, now).Encode()
	if err == nil {
		return data
	}
	// Who decided is what cannot be written; the decision stands without it.
	a.DecidedBy = wire.DecisionSource{}
	if !utf8.ValidString(a.Responder) {
		a.Responder = ""
	}
	if data, err = a.Response(in.channel, now).Encode(); err == nil {
		return data
	}
	reason := "the answer could not be written"
	data, _ = forwarding.Answer{Reason: reason, DecidedBy: wire.GateError(reason)}.Response(in.channel, now).Encode()
	return data
}

// maxReason bounds the reason in a response.
const maxReason = 8 << 10

// deliverLocked writes the answer of an ask that still stands and takes the
// request away. What cannot be written stays decided and is tried again.
func (in *inbox) deliverLocked(p *pending) {
	requests, responses, err := in.directories()
	if err != nil {
		if notThere(err) { // the request is gone with its inbox
			in.endLocked(p)
			in.useLocked(p.id)
			kick(in.kick)
			return
		}
		in.stuckLocked(p, err)
		return
	}
	defer requests.close()
	defer responses.close()
	switch err := unchanged(requests, p); {
	case errors.Is(err, forwarding.ErrWithdrawn):
		in.endLocked(p)
		in.useLocked(p.id)
		in.laterLocked(forwarding.Notice{Kind: forwarding.Withdrawn, ID: p.id, Reason: err.Error()})
		return
	case err != nil:
		// The decision was about something else. The next look asks what is there.
		in.again[p.id]++
		in.endLocked(p)
		p.cancel(forwarding.ErrReplaced)
		in.laterLocked(forwarding.Notice{Kind: forwarding.Withdrawn, ID: p.id, Reason: err.Error()})
		kick(in.kick)
		return
	}
	name := p.id + suffix
	file, err := in.s.ops.write(responses, name, p.answer, true, in.s.o.Now())
	switch {
	case err == nil:
		in.written[name] = file
		n := forwarding.Notice{Kind: forwarding.Delivered, ID: p.id, Reason: p.reason}
		// A requester takes the answer before the request. With the request gone
		// and the answer still there, it left just before the answer came.
		if _, rerr := requests.stat(name); notThere(rerr) {
			if e, serr := responses.stat(name); serr == nil && e.same(file) && responses.remove(name) == nil {
				delete(in.written, name)
				n.Kind, n.Reason = forwarding.Withdrawn, forwarding.ErrWithdrawn.Error()
			}
		}
		in.laterLocked(n)
	case errors.Is(err, fs.ErrExist):
		// Somebody else's answer stands. It is reported by the look that follows.
		kick(in.kick)
	default:
		in.stuckLocked(p, err)
		return
	}
	in.endLocked(p)
	in.useLocked(p.id)
	_ = requests.clear(name, in.s.o.Now())
}

// stuckLocked keeps a decision whose delivery failed.
func (in *inbox) stuckLocked(p *pending, err error) {
	if p.triedAt.IsZero() {
		in.laterLocked(forwarding.Notice{Kind: forwarding.Stuck, ID: p.id, Reason: "the answer cannot be written and is tried again: " + plainReason(err), Err: err})
		kick(in.kick) // whoever waits for the next look must wait less
	}
	p.triedAt = time.Now()
}

// retry delivers what could not be delivered before.
func (in *inbox) retry() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.open {
		if p.answer != nil && time.Since(p.triedAt) >= in.s.o.Retry {
			in.deliverLocked(p)
		}
	}
}

// forgeries reports every answer that this end did not write, once, and forgets
// the ones of ours that were taken.
func (in *inbox) forgeries(responses dir) []forwarding.Notice {
	var out []forwarding.Notice
	// The list is made under mu too: one from before an answer was published
	// would say that it was already taken.
	in.mu.Lock()
	defer in.mu.Unlock()
	names, more, err := responses.names(in.s.o.MaxFiles)
	if err != nil {
		return nil
	}
	present := make(map[string]bool, len(names))
	now := in.s.o.Now()
	for _, name := range names {
		if strings.HasSuffix(name, tmpSuffix) { // no reader looks at it
			in.sweep(responses, name)
			continue
		}
		present[name] = true
		e, err := responses.stat(name)
		if err != nil {
			continue
		}
		if mine, ok := in.written[name]; ok && mine.same(e.fileID) && mine.size == e.size && mine.mtime.Equal(e.mtime) {
			if now.Sub(e.mtime) > in.s.o.Timeout { // whoever asked is gone
				_ = responses.remove(name)
			}
			continue
		}
		if seen, ok := in.strange[name]; ok && seen == e.fileID {
			if now.Sub(e.mtime) > in.s.o.Timeout {
				_ = responses.clear(name, now)
			}
			continue
		}
		in.strange[name] = e.fileID
		out = append(out, forwarding.Notice{Kind: forwarding.Forged, ID: strings.TrimSuffix(name, suffix), Reason: "an answer that this session did not write"})
	}
	if more {
		return out // what was not listed may still be there
	}
	for name := range in.written {
		if !present[name] {
			delete(in.written, name)
		}
	}
	for name := range in.strange {
		if !present[name] {
			delete(in.strange, name)
		}
	}
	return out
}
