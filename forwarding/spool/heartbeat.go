package spool

import (
	"strconv"
	"strings"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
	"github.com/getpioneer/pioneer-super/registry"
)

// beacon is the heartbeat of one channel as it was last published.
type beacon struct {
	file   fileID
	record wire.Heartbeat
	offset int64
	lock   *lock // nil where there are none
}

const lockSuffix = ".lock"

// beat renews all heartbeats in one pass, until the spool ends. It never
// depends on whether somebody thinks about an ask.
func (s *Spool) beat() {
	tick := time.NewTicker(s.o.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		boxes := make([]*inbox, 0, len(s.inbox))
		for _, in := range s.inbox {
			boxes = append(boxes, in)
		}
		s.mu.Unlock()
		if len(boxes) == 0 {
			continue
		}
		serving, _, err := s.root.make("serving")
		for _, in := range boxes {
			in.refresh(serving, err)
		}
		if err == nil {
			serving.close()
		}
	}
}

// openServing opens the place of heartbeats, making it if it is not there. A
// place that we made is marked: that it exists says nothing about other peers.
func (s *Spool) openServing() (dir, error) {
	serving, made, err := s.root.make("serving")
	if err != nil {
		return dir{}, err
	}
	if made {
		if _, err := serving.write(marker, nil, false, s.o.Now()); err != nil && !full(err) {
			serving.close()
			return dir{}, err
		}
	}
	return serving, nil
}

// refresh renews one heartbeat, if it was announced.
func (in *inbox) refresh(serving dir, err error) {
	in.beatMu.Lock()
	defer in.beatMu.Unlock()
	if !in.announced {
		return
	}
	if err == nil {
		err = in.stampLocked(serving)
	}
	if err != nil && !in.beatFailed {
		in.notice(noticeDegraded("", "the heartbeat cannot be written", err))
	}
	in.beatFailed = err != nil
}

// announce publishes the heartbeat for the first time.
func (in *inbox) announce() error {
	serving, err := in.s.openServing()
	if err != nil {
		return err
	}
	defer serving.close()
	in.s.sweepServing(serving)
	in.beatMu.Lock()
	defer in.beatMu.Unlock()
	in.announced = true
	_ = serving.remove(in.enc + endedSuffix)
	return in.publishLocked(serving)
}

// withdraw takes the heartbeat away, if it is still ours.
func (in *inbox) withdraw() {
	in.beatMu.Lock()
	defer in.beatMu.Unlock()
	in.announced = false
	defer func() {
		in.beacon.lock.release()
		in.beacon.lock = nil
	}()
	serving, err := in.s.root.open("serving")
	if err != nil {
		return
	}
	defer serving.close()
	if in.beacon.lock.stands(serving, in.enc+lockSuffix) {
		_ = serving.remove(in.enc + lockSuffix)
	}
	if e, err := serving.stat(in.enc + suffix); err == nil && e.same(in.beacon.file) {
		// What was served once and is not any more is no peer from before
		// heartbeats; without this note nobody could tell.
		_, _ = serving.write(in.enc+endedSuffix, nil, false, in.s.o.Now())
		_ = serving.remove(in.enc + suffix)
	}
}

// endedSuffix marks a session that stopped serving in good order.
const endedSuffix = ".ended"

// stampLocked overwrites the time in place, a hundred times cheaper than a new
// file and possible on a full disk. What is not our file any more is published
// again.
func (in *inbox) stampLocked(serving dir) error {
	b := &in.beacon
	if b.lock != nil && !b.lock.stands(serving, in.enc+lockSuffix) {
		return in.publishLocked(serving) // taken away from under us: a new one
	}
	stamp := in.s.o.Now().UnixMilli()
	digits := strconv.FormatInt(stamp, 10)
	if b.offset > 0 && len(digits) == len(strconv.FormatInt(b.record.UpdatedAt, 10)) {
		if err := serving.stampAt(in.enc+suffix, b.file, b.offset, []byte(digits)); err == nil {
			b.record.UpdatedAt = stamp
			return nil
		}
	}
	return in.publishLocked(serving)
}

func (in *inbox) publishLocked(serving dir) error {
	pid := in.s.o.PID
	boot, ns := liveness.Here()
	if in.s.o.PIDFor != nil {
		if p := in.s.o.PIDFor(in.channel); p > 0 && p != pid {
			pid, ns = p, 0 // meant in a namespace that only the caller knows
		}
	}
	if !in.beacon.lock.stands(serving, in.enc+lockSuffix) {
		in.beacon.lock.release()
		// Without a lock the heartbeat says so, and is judged by its freshness.
		in.beacon.lock, _ = serving.lock(in.enc + lockSuffix)
	}
	record := wire.Heartbeat{SessionID: in.channel, PID: pid, UpdatedAt: in.s.o.Now().UnixMilli(), Boot: boot, PIDNS: ns, Lock: in.beacon.lock != nil}
	data, err := record.Encode()
	if err != nil {
		return err
	}
	offset, err := wire.Stamp(data)
	if err != nil {
		return err
	}
	name := in.enc + suffix
	file, err := serving.write(name, data, false, in.s.o.Now())
	if err != nil {
		// Something that a rename cannot replace, such as a directory, stands there.
		if e, serr := serving.stat(name); serr == nil && !e.mode.IsRegular() {
			if cerr := serving.clear(name, in.s.o.Now()); cerr == nil {
				file, err = serving.write(name, data, false, in.s.o.Now())
			}
		}
	}
	if err != nil {
		return err
	}
	in.beacon = beacon{file: file, record: record, offset: offset, lock: in.beacon.lock}
	return nil
}

// sweepServing removes heartbeats that are unusable, and stale ones whose
// process is gone. One that is merely stale may belong to a process that was
// stopped; a fresh one without a process to a reader in another namespace.
func (s *Spool) sweepServing(serving dir) {
	names, _, err := serving.names(s.o.MaxFiles)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasSuffix(name, lockSuffix) {
			if held := serving.held(name); held != nil && !*held {
				_ = serving.remove(name) // one that is just being taken comes back
			}
			continue
		}
		if strings.HasSuffix(name, endedSuffix) {
			if e, err := serving.stat(name); err == nil && s.o.Now().Sub(e.mtime) > s.o.Timeout {
				_ = serving.remove(name)
			}
			continue
		}
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		data, _, err := serving.read(name, wire.MaxHeartbeat)
		if err != nil {
			continue
		}
		h, err := wire.ReadHeartbeat(data)
		stale := s.o.Now().Sub(time.UnixMilli(h.UpdatedAt)) >= s.o.Stale
		if err != nil || stale && liveness.Probe(h.PID, h.PIDNS) == liveness.Gone {
			_ = serving.remove(name)
		}
	}
}

// observe looks at the heartbeat of a target.
func (s *Spool) observe(id, enc string) (liveness.Observation, wire.Heartbeat) {
	o := liveness.Observation{At: time.Since(s.start), Wall: s.o.Now()}
	serving, err := s.root.open("serving")
	if err != nil {
		o.Legacy = notThere(err) && !s.o.AllPeersBeat
		return o, wire.Heartbeat{}
	}
	defer serving.close()
	data, _, err := serving.read(enc+suffix, wire.MaxHeartbeat)
	if err == nil {
		h, err := wire.ReadHeartbeat(data)
		if named, ok := registry.NormalizeID(h.SessionID); err == nil && ok && named == id {
			o.Record = &liveness.Record{PID: h.PID, UpdatedAt: h.UpdatedAt, Lock: h.Lock}
			o.Process = liveness.Probe(h.PID, h.PIDNS)
			if h.Lock {
				o.Held = serving.held(enc + lockSuffix)
			}
			return o, h
		}
		return o, wire.Heartbeat{}
	}
	if notThere(err) && !s.o.AllPeersBeat {
		_, ended := serving.stat(enc + endedSuffix)
		o.Legacy = notThere(ended) && s.onlyOurs(serving)
	}
	return o, wire.Heartbeat{}
}

// onlyOurs reports whether the place of heartbeats was made by this
// implementation and holds none of a peer that would have made it itself. Then
// a target without one may still be a peer from before heartbeats.
func (s *Spool) onlyOurs(serving dir) bool {
	if _, err := serving.stat(marker); err != nil {
		return false
	}
	names, more, err := serving.names(s.o.MaxFiles)
	if err != nil || more {
		return false
	}
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		data, _, err := serving.read(name, wire.MaxHeartbeat)
		if err != nil {
			continue
		}
		if h, err := wire.ReadHeartbeat(data); err == nil && h.Boot == "" {
			return false
		}
	}
	return true
}
