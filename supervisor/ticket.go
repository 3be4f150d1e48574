package supervisor

import (
	"sync"
	"time"
)

const (
	ticketLife = 60 * time.Second
	maxTickets = 16
)

// ticket lets one execution through without a second question, because the same
// command of the same session was just answered over the file protocol. It
// widens no sandbox.
type ticket struct {
	session string
	// binding is the digest of what the answer was given for: canonical text,
	// shell and options, directory, base environment and generations.
	binding string
	until   time.Time
}

// tickets is a session's answers that wait for their execution. It may be used by
// several goroutines.
type tickets struct {
	mu   sync.Mutex
	list []ticket
	now  func() time.Time
}

func (t *tickets) add(session, binding string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	mine := 0
	for _, k := range t.list {
		if k.session == session {
			mine++
		}
	}
	if mine >= maxTickets {
		return
	}
	t.list = append(t.list, ticket{session, binding, t.now().Add(ticketLife)})
}

// take uses up one ticket for exactly this.
func (t *tickets) take(session, binding string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	for i, k := range t.list {
		if k.session == session && k.binding == binding {
			t.list = append(t.list[:i], t.list[i+1:]...)
			return true
		}
	}
	return false
}

// drop ends the tickets of a session: its turn is over, or it is.
func (t *tickets) drop(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.list[:0]
	for _, k := range t.list {
		if k.session != session {
			kept = append(kept, k)
		}
	}
	t.list = kept
}

func (t *tickets) expire() {
	now := t.now()
	kept := t.list[:0]
	for _, k := range t.list {
		if k.until.After(now) {
			kept = append(kept, k)
		}
	}
	t.list = kept
}
