package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
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
		res, ok := tr.admit(s)
		if !ok {
			return errors.New(res.Reason)
		}
		tr.leave()
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
