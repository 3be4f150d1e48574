package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// auditedTree is a tree with an audit and nothing else.
func auditedTree(t *testing.T) *tree {
	t.Helper()
	base := t.TempDir()
	places := registry.Places{State: base + "/state", Run: base + "/run", Config: base + "/config"}
	if err := places.Prepare(); err != nil {
		t.Fatal(err)
	}
	store, err := registry.Create(places, registry.NewID("t"))
	if err == nil {
		err = store.Lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close(); store.Close() })
	return &tree{store: store, log: log, ops: zerolog.Nop(), sessions: map[string]*session{}, byKeeper: map[int]*command{}}
}

// TestRefusalsDoNotFillTheDisk: whoever is refused can come again at once.
func TestRefusalsDoNotFillTheDisk(t *testing.T) {
	tr := auditedTree(t)
	loud, other := &session{id: "s-1"}, &session{id: "s-2"}
	for range 4 * maxNoise {
		tr.noteNoise(&loud.noise, audit.Row{Kind: audit.PeerRefused, Session: loud.id, Reason: "no hello"})
	}
	tr.noteNoise(&other.noise, audit.Row{Kind: audit.PeerRefused, Session: other.id, Reason: "no hello"})
	if _, rows := tr.log.Head(); rows != maxNoise+1 {
		t.Errorf("%d rows, expected %d and that of another session", rows, maxNoise)
	}
}

// TestWhatIsLeftInTheBackgroundCounts: its client has gone, its keeper has not.
func TestWhatIsLeftInTheBackgroundCounts(t *testing.T) {
	admitted := func(tr *tree, s *session) error {
		seat, res, ok := tr.admit(s)
		if !ok {
			return errors.New(res.Reason)
		}
		seat.leave()
		return nil
	}
	tr := &tree{byKeeper: map[int]*command{}}
	loud, quiet := &session{id: "s-1", commands: map[string]*command{}}, &session{id: "s-2", commands: map[string]*command{}}
	for i := range maxLeft {
		if err := admitted(tr, loud); err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
		c := &command{id: fmt.Sprint("c-", i), session: loud}
		loud.commands[c.id], tr.byKeeper[i+1] = c, c
	}
	if err := admitted(tr, loud); err == nil || !strings.Contains(err.Error(), "of this session") {
		t.Errorf("one more of that session: %v", err)
	}
	if err := admitted(tr, quiet); err != nil {
		t.Errorf("another session: %v", err)
	}
	for i := maxLeft; i < maxCommands; i++ {
		tr.byKeeper[i+1] = &command{session: quiet}
	}
	if err := admitted(tr, quiet); err == nil || !strings.Contains(err.Error(), "in this tree") {
		t.Errorf("one more of the tree: %v", err)
	}
}

// TestTellingDoesNotWait: the first client may be stopped.
func TestTellingDoesNotWait(t *testing.T) {
	tr := &tree{ops: zerolog.Nop(), notices: make(chan string, 2), humans: newHumans(nil, func(string) {})}
	for range 10 {
		tr.tell("the changed configuration is not taken")
	}
	if len(tr.notices) != 2 {
		t.Errorf("%d notices wait", len(tr.notices))
	}
}

// TestPlacesAreReserved: a request that waits for its answer holds its place as one
// that runs does, and gives it back once.
func TestPlacesAreReserved(t *testing.T) {
	tr := &tree{byKeeper: map[int]*command{}}
	var seats []*seat
	for i := range maxCommands {
		seat, res, ok := tr.admit(nil)
		if !ok {
			t.Fatalf("command %d: %s", i, res.Reason)
		}
		seats = append(seats, seat)
	}
	if _, res, ok := tr.admit(nil); ok || !strings.Contains(res.Reason, "in this tree") {
		t.Errorf("one more: %v %s", ok, res.Reason)
	}
	// One of them runs: the place is the command's now, and its request gives none
	// back.
	tr.mu.Lock()
	tr.byKeeper[1] = &command{}
	seats[0].taken()
	tr.mu.Unlock()
	seats[0].leave()
	if _, _, ok := tr.admit(nil); ok {
		t.Error("a place was given twice")
	}
	seats[1].leave()
	seats[1].leave()
	if _, _, ok := tr.admit(nil); !ok {
		t.Error("a place that was given back is not there")
	}
	if _, _, ok := tr.admit(nil); ok {
		t.Error("a place was given back twice")
	}
}

// TestANoisyBranchLeavesRoom: sessions below one child of the root take all that
// they get, and a sibling of that child still starts its commands.
func TestANoisyBranchLeavesRoom(t *testing.T) {
	tr := &tree{byKeeper: map[int]*command{}}
	root := &session{id: "s-root"}
	noisy, quiet := &session{id: "s-noisy", parent: root}, &session{id: "s-quiet", parent: root}
	root.children = []*session{noisy, quiet}
	for i := range 8 {
		noisy.children = append(noisy.children, &session{id: fmt.Sprint("s-", i), parent: noisy})
	}
	got := 0
	for range maxLeft {
		for _, s := range noisy.children {
			if _, _, ok := tr.admit(s); ok {
				got++
			}
		}
	}
	if got != maxCommands-spareCommands {
		t.Errorf("the noisy branch has %d commands, expected all but the %d spare ones", got, spareCommands)
	}
	for i := range spareCommands {
		if _, res, ok := tr.admit(quiet); !ok {
			t.Fatalf("command %d of its sibling: %s", i, res.Reason)
		}
	}
}

// TestConnectionBudgets: a full tree leaves each session a few of its own.
func TestConnectionBudgets(t *testing.T) {
	tr := &tree{}
	loud, quiet := &session{id: "s-loud"}, &session{id: "s-quiet"}
	for i := range maxClients {
		if err := tr.connected(loud); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if err := tr.connected(loud); err == nil {
		t.Error("one more of that session was taken")
	}
	tr.clients.Store(maxAllClients)
	for i := range ownClients {
		if err := tr.connected(quiet); err != nil {
			t.Errorf("connection %d of a session in a full tree: %v", i, err)
		}
	}
	if err := tr.connected(quiet); err == nil {
		t.Error("a session in a full tree has more than its own")
	}
	if n := loud.clients.Load(); n != maxClients {
		t.Errorf("%d connections are counted, expected %d", n, maxClients)
	}
}

// TestQuestionsOfSiblingsAreShown: those of one noisy session do not fill the queue of
// a person.
func TestQuestionsOfSiblingsAreShown(t *testing.T) {
	h := newHumans(nil, func(string) {})
	for i := range maxPerSession {
		h.waiting = append(h.waiting, &question{Question: control.Question{ID: fmt.Sprint("q-", i), Session: "s-loud"}})
	}
	h.waiting = append(h.waiting, &question{Question: control.Question{ID: "quiet", Session: "s-quiet"}})
	e := &endpoint{}
	var shown []string
	for {
		m, ok := h.next(e)
		if !ok {
			break
		}
		shown = append(shown, m.Question.ID)
	}
	if len(shown) != maxShown+1 || shown[maxShown] != "quiet" {
		t.Fatalf("shown %v", shown)
	}
	// One is answered: its end is told, and the next of that session comes.
	h.mu.Lock()
	h.close(h.waiting[0], "answered")
	h.mu.Unlock()
	if m, ok := h.next(e); !ok || m.Withdraw == nil {
		t.Errorf("expected the end of the first, got %+v", m)
	}
	if m, ok := h.next(e); !ok || m.Question == nil || m.Question.ID != fmt.Sprint("q-", maxShown) {
		t.Errorf("expected the next one, got %+v", m)
	}
}
