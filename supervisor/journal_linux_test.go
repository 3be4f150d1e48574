package supervisor

import (
	"testing"

	"github.com/getpioneer/pioneer-super/registry"
)

// TestNothingIsAskedOfASessionThatEnded: a question that was being made while its
// session ended is not in the journal, which would not be readable with it. What was
// open before is told closed.
func TestNothingIsAskedOfASessionThatEnded(t *testing.T) {
	tr := auditedTree(t)
	if err := tr.store.AppendEvent(registry.Event{Kind: registry.TreeStarted, Tree: &registry.TreeFacts{}}, false); err != nil {
		t.Fatal(err)
	}
	s := &session{id: registry.NewID("s")}
	if err := tr.journalSession(s); err != nil {
		t.Fatal(err)
	}
	tr.asked(s, registry.NewRequestID(), "bash", "early")
	if state, problems := tr.store.State(); len(problems) > 0 || len(state.Session(s.id).Asks) != 1 {
		t.Fatalf("an open question: %v, %+v", problems, state.Session(s.id))
	}
	tr.journalSessionEnd(s, registry.Exit{Known: true})
	late := registry.NewRequestID()
	tr.asked(s, late, "bash", "late")
	tr.answered(s, late, "withdrawn", "the session is ending")
	state, problems := tr.store.State()
	if len(problems) > 0 {
		t.Errorf("the journal: %v", problems)
	}
	if n := state.Session(s.id); n.State != registry.Ended || len(n.Asks) > 0 {
		t.Errorf("the session: %+v", n)
	}
}
