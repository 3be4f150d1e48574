package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// Heartbeat says that a session's inbox is served.
type Heartbeat struct {
	SessionID string
	// PID is one that the reader of the heartbeat sees alive.
	PID int
	// UpdatedAt is milliseconds since the epoch.
	UpdatedAt int64

	// What follows is written by this implementation only; other readers skip it.

	// Boot is the id of the boot that the writer lives in, PIDNS the inode of
	// the pid namespace that PID is meant in, 0 where it is not said.
	Boot  string
	PIDNS uint64
	// Lock says that the writer holds the lock file beside the record.
	Lock bool
}

var heartbeatNames = []string{"sessionId", "pid", "updatedAt", "boot", "pidns", "lock"}

// ReadHeartbeat reads a heartbeat. Any error means that there is none.
func ReadHeartbeat(data []byte) (Heartbeat, error) {
	const what = "heartbeat"
	v, err := object(what, data, MaxHeartbeat)
	if err != nil {
		return Heartbeat{}, err
	}
	if err := v.variants(what, "", heartbeatNames...); err != nil {
		return Heartbeat{}, err
	}
	var h Heartbeat
	if h.SessionID, err = v.required(what, "sessionId"); err != nil {
		return Heartbeat{}, err
	}
	if h.SessionID == "" {
		return Heartbeat{}, &ReadError{What: what, Field: "sessionId", Problem: "empty"}
	}
	// Zero and negative numbers address process groups in kill(2).
	m, _ := v.get("pid")
	if m.kind != kindNumber || m.number < 1 || m.number > math.MaxInt32 || m.number != math.Trunc(m.number) {
		return Heartbeat{}, &ReadError{What: what, Field: "pid", Problem: m.kindName() + ", a positive whole number expected"}
	}
	h.PID = int(m.number)
	m, _ = v.get("updatedAt")
	at, ok := millis(m.number)
	if m.kind != kindNumber || !ok {
		return Heartbeat{}, &ReadError{What: what, Field: "updatedAt", Problem: m.kindName() + ", milliseconds since the epoch expected"}
	}
	h.UpdatedAt = at
	if m, has := v.get("boot"); has {
		h.Boot, _ = m.str()
	}
	if m, has := v.get("pidns"); has {
		// A string, since an inode need not fit a JavaScript number.
		s, _ := m.str()
		h.PIDNS, _ = strconv.ParseUint(s, 10, 64)
	}
	if m, has := v.get("lock"); has {
		h.Lock, _ = m.boolean()
	}
	return h, nil
}

// stampDigits is how many digits a time has from 2001 to 2286.
const stampDigits = 13

// Encode writes the heartbeat. The time always has 13 digits, so that it can be
// renewed in place; Stamp says where.
func (h Heartbeat) Encode() ([]byte, error) {
	if h.SessionID == "" || h.PID < 1 || h.PID > math.MaxInt32 {
		return nil, fmt.Errorf("heartbeat: session %q, pid %d: a name and a positive pid expected", h.SessionID, h.PID)
	}
	if len(strconv.FormatInt(h.UpdatedAt, 10)) != stampDigits || h.UpdatedAt < 0 {
		return nil, fmt.Errorf("heartbeat: time %d has not %d digits", h.UpdatedAt, stampDigits)
	}
	w := &writer{}
	w.begin()
	w.str("sessionId", h.SessionID)
	w.integer("pid", int64(h.PID))
	w.integer("updatedAt", h.UpdatedAt)
	if h.Boot != "" {
		w.str("boot", h.Boot)
	}
	if h.PIDNS != 0 {
		w.str("pidns", strconv.FormatUint(h.PIDNS, 10))
	}
	if h.Lock {
		w.boolean("lock", true)
	}
	w.end()
	return w.done("heartbeat", MaxHeartbeat)
}

// Stamp returns the offset of the digits of the time in an encoded heartbeat.
func Stamp(encoded []byte) (int64, error) {
	// The session id is quoted, so this cannot stand inside it.
	key := []byte(`,"updatedAt":`)
	at := bytes.LastIndex(encoded, key)
	if at < 0 || at+len(key)+stampDigits > len(encoded) {
		return 0, fmt.Errorf("heartbeat: no time in it")
	}
	return int64(at + len(key)), nil
}
