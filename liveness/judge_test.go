package liveness

import (
	"testing"
	"time"
)

func TestFaultClocksAndHeartbeats(t *testing.T) {
	const stale = 5 * time.Second
	wall := time.UnixMilli(1796040473680)
	yes, no := true, false
	// beat is an observation, at a monotonic second, of a heartbeat written at a
	// second of the writer's clock, when the observer's clock says wallS.
	beat := func(at, stamp, wallS float64, process Existence) Observation {
		return Observation{At: time.Duration(at * float64(time.Second)), Wall: wall.Add(time.Duration(wallS * float64(time.Second))),
			Record: &Record{PID: 7, UpdatedAt: wall.UnixMilli() + int64(stamp*1000)}, Process: process}
	}
	with := func(o Observation, change func(*Observation)) Observation { change(&o); return o }
	type step struct {
		o    Observation
		want State
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"nothing was ever seen", []step{{Observation{}, Absent}}},
		{"a peer from before heartbeats", []step{{Observation{Legacy: true}, Legacy}, {Observation{Legacy: true, At: time.Hour}, Legacy}}},
		{"a fresh heartbeat", []step{{beat(0, 0, 0, Exists), Alive}}},
		{"one just not stale", []step{{beat(0, 0, 4.999, Exists), Alive}}},
		{"one just stale", []step{{beat(0, 0, 5, Exists), Stale}}},
		{"its process is gone", []step{{beat(0, 0, 0, Gone), DeadPID}}},
		{"its process is gone and it is stale", []step{{beat(0, 0, 60, Gone), DeadPID}}},
		{"a process that cannot be seen from here", []step{{beat(0, 0, 0, Unknowable), Alive}, {beat(6, 0, 6, Unknowable), Stale}}},
		{"it goes on beating", []step{{beat(0, 0, 0, Exists), Alive}, {beat(4, 4, 4, Exists), Alive}, {beat(8, 8, 8, Exists), Alive}}},
		{"it stops beating", []step{{beat(0, 0, 0, Exists), Alive}, {beat(4, 0, 4, Exists), Alive}, {beat(5, 0, 5, Exists), Stale}}},
		{"stopped, then continued", []step{{beat(0, 0, 0, Exists), Alive}, {beat(6, 0, 6, Exists), Stale}, {beat(7, 7, 7, Exists), Alive}}},
		{"the observer's clock is set forward an hour", []step{{beat(0, 0, 0, Exists), Alive}, {beat(1, 1, 3601, Exists), Alive}, {beat(2, 2, 3602, Exists), Alive}}},
		{"the observer's clock is set back an hour", []step{{beat(0, 0, 0, Exists), Alive}, {beat(1, 1, -3599, Exists), Alive}, {beat(7, 1, -3593, Exists), Stale}}},
		{"the writer's clock is set back an hour", []step{{beat(0, 0, 0, Exists), Alive}, {beat(1, -3600, 1, Exists), Alive}, {beat(2, -3599, 2, Exists), Alive}}},
		{"clocks an hour apart, first look: behind", []step{{beat(0, -3600, 0, Exists), Stale}, {beat(1, -3599, 1, Exists), Alive}}},
		{"clocks an hour apart, first look: ahead", []step{{beat(0, 3600, 0, Exists), Alive}, {beat(1, 3601, 1, Exists), Alive}}},
		{"a forged time in the future does not last", []step{{beat(0, 1e9, 0, Exists), Alive}, {beat(4, 1e9, 4, Exists), Alive}, {beat(5, 1e9, 5, Exists), Stale}}},
		{"the machine slept", []step{{beat(0, 0, 0, Exists), Alive}, {beat(1, 0, 3600, Exists), Alive}, {beat(2, 3601, 3601, Exists), Alive}}},
		{"the record goes away", []step{{beat(0, 0, 0, Exists), Alive}, {Observation{At: time.Second}, Absent}}},
		{"the record goes away and comes back old", []step{{beat(0, 0, 0, Exists), Alive}, {Observation{At: time.Second}, Absent}, {beat(9, 0, 9, Exists), Stale}}},
		{"its end was seen, whatever the file says", []step{{with(beat(0, 0, 0, Exists), func(o *Observation) { o.Exited = true }), DeadPID}}},
		{"it holds its lock, in another namespace", []step{{with(beat(0, 0, 0, Gone), func(o *Observation) { o.Record.Lock, o.Held = true, &yes }), Alive}}},
		{"it let go of its lock", []step{{with(beat(0, 0, 0, Exists), func(o *Observation) { o.Record.Lock, o.Held = true, &no }), DeadPID}}},
		{"a lock that it never said to hold", []step{{with(beat(0, 0, 0, Exists), func(o *Observation) { o.Held = &no }), Alive}, {with(beat(1, 1, 1, Gone), func(o *Observation) { o.Held = &yes }), DeadPID}}},
		{"it holds its lock and hangs", []step{{with(beat(0, 0, 9, Exists), func(o *Observation) { o.Record.Lock, o.Held = true, &yes }), Stale}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := Judge{StaleAfter: stale}
			for i, s := range tt.steps {
				if got := j.Observe(s.o); got != s.want {
					t.Errorf("step %d: %s, expected %s", i+1, got, s.want)
				}
			}
		})
	}
	if s := (&Judge{}).Observe(beat(0, 0, 0, Exists)); s != Stale {
		t.Errorf("a judge that was told no age says %s", s)
	}
}

func TestStates(t *testing.T) {
	for s, want := range map[State]struct {
		word             string
		served, hopeless bool
	}{Absent: {"absent", false, true}, DeadPID: {"dead_pid", false, true}, Stale: {"stale", false, true}, Alive: {"alive", true, false}, Legacy: {"legacy", false, false}} {
		if s.String() != want.word || s.Served() != want.served || s.Hopeless() != want.hopeless {
			t.Errorf("%s: served %t, hopeless %t", s, s.Served(), s.Hopeless())
		}
		if text, err := s.MarshalText(); err != nil || string(text) != want.word {
			t.Errorf("%s, %v", text, err)
		}
	}
	if _, err := State(9).MarshalText(); err == nil || State(9).Served() {
		t.Error("a state out of range has a word, or is served")
	}
}
