package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/link"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// authorizers are the links of one state of the settings.
type authorizers struct {
	of       *policy.Settings
	links    []forwarding.Link
	reviewer *link.Reviewer
}

// chained holds the links, made anew where the settings are others.
type chained struct {
	mu   sync.Mutex
	made *authorizers
}

// authorizers returns the links that count under these rules: those of settings
// that a human took.
func (t *tree) authorizers(a *authorities) []forwarding.Link {
	s := a.newest().settings
	if s == nil || len(s.Links) == 0 {
		return nil
	}
	t.chained.mu.Lock()
	defer t.chained.mu.Unlock()
	if t.chained.made == nil || t.chained.made.of != s {
		t.chained.made = t.makeLinks(s)
	}
	return t.chained.made.links
}

func (t *tree) makeLinks(s *policy.Settings) *authorizers {
	out := &authorizers{of: s}
	for _, l := range s.Links {
		one := forwarding.Link{Name: l.Name, Cap: capOf(l.Limit)}
		switch {
		case l.Command != nil:
			p := link.Program{Argv: l.Command, Run: t.pool.helper, Timeout: time.Duration(l.Timeout)}
			if p.Timeout <= 0 {
				p.Timeout = forwarding.DefaultLinkTimeout
			}
			// The link's own limit comes first, so that what it says of it is told.
			one.Authorizer, one.Timeout = p, p.Timeout+time.Second
		case l.Name == policy.ReviewLink && s.Review != nil:
			out.reviewer = t.makeReviewer(s.Review)
			one.Authorizer, one.Timeout = out.reviewer, out.reviewer.Timeout+time.Second
			if l.Limit == "" {
				one.Cap = capOf(s.Review.Limit)
			}
		}
		// Anything else is a name that nobody registered: it is skipped, and told.
		out.links = append(out.links, one)
	}
	return out
}

func capOf(limit string) forwarding.Cap {
	switch limit {
	case "defer":
		return forwarding.CapDefer
	case "deny":
		return forwarding.CapDeny
	}
	return forwarding.CapAllow
}

func (t *tree) makeReviewer(s *policy.ReviewSettings) *link.Reviewer {
	r := &link.Reviewer{Provider: s.Provider, Model: s.Model, BaseURL: s.BaseURL, MaxDenials: s.MaxDenials, Timeout: time.Duration(s.Timeout), Transcript: t.spoken}
	if r.Timeout <= 0 {
		r.Timeout = forwarding.DefaultLinkTimeout
	}
	// The settings may come before the root session has its environment.
	r.Hide = func(text string) string { return hider(t.operatorEnv(), t.root.ReviewKey)(text) }
	switch {
	case s.KeyFile != "":
		r.Key = func() (string, error) { return readKey(s.KeyFile) }
	case s.KeyEnv != "":
		key := t.reviewKey(s.KeyEnv)
		r.Key = func() (string, error) {
			if key == "" {
				return "", fmt.Errorf("%s was not in the environment when the tree was started", s.KeyEnv)
			}
			return key, nil
		}
	}
	return r
}

// reviewKey is the key that the front took from the variable of that name.
func (t *tree) reviewKey(name string) string {
	first, err := policy.ParseSettings("config.jsonc", fileData(t.root.Settings))
	if err != nil || first.Review == nil || first.Review.KeyEnv != name {
		return ""
	}
	return t.root.ReviewKey
}

func fileData(f *control.File) []byte {
	if f == nil {
		return nil
	}
	return f.Data
}

// readKey reads a key that nobody else may read.
func readKey(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&0o077 != 0 || int(st.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s can be read by others, expected mode 0600 and this user as owner", path)
	}
	data, err := readRegular(path, 16<<10, true)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsAny(key, "\r\n\x00") {
		return "", fmt.Errorf("%s: expected one line", path)
	}
	return key, nil
}

// turnStarted tells the links that a session's turn is another.
func (t *tree) turnStarted(s *session) {
	t.chained.mu.Lock()
	defer t.chained.mu.Unlock()
	if t.chained.made != nil && t.chained.made.reviewer != nil {
		t.chained.made.reviewer.TurnStarted(s.id)
	}
}

// person is the human at this tree, as the end of one ask's chain.
type person struct {
	t    *tree
	q    control.Question
	said humanAnswer
	err  error
}

// Ask implements forwarding.Human.
func (p *person) Ask(ctx context.Context, _ forwarding.Facts) (forwarding.Decision, error) {
	if p.said, p.err = p.t.humans.ask(ctx, p.q); p.err != nil {
		return forwarding.Decision{}, p.err
	}
	return forwarding.Decision{Approved: p.said.allows(), Reason: p.said.Reason, DecidedBy: wire.ByUser("dialog")}, nil
}

// live asks the live authority: the links of the chain in their order, then a human
// endpoint, else a foreign parent, else nobody, which is a denial at once.
func (t *tree) live(ctx context.Context, w *wish, v verdict, q control.Question) (liveAnswer, error) {
	human := &person{t: t, q: q}
	chain := forwarding.Chain{Links: t.authorizers(w.rules), Report: func(s forwarding.Step) { t.stepped(w, q, s) }}
	switch {
	case t.humans.reachable():
		chain.Terminal = forwarding.Local{Human: human}
	case t.forwarder != nil:
		chain.Terminal = t.forwarder.parent
	default:
		human.err = ErrNobody
		chain.Terminal = forwarding.Denying{}
	}
	facts := t.facts(w, v, q)
	t.observe(facts, nil)
	d := chain.Decide(ctx, facts)
	if ctx.Err() != nil {
		d = forwarding.Unanswered("withdrawn")
	}
	t.observe(facts, &d)
	switch {
	case ctx.Err() != nil:
		return liveAnswer{}, ctx.Err()
	case d.DecidedBy.Kind == wire.KindUser && human.said.Decision != "":
		t.heard(w.s, human.said)
		return t.human(w, human.said), nil
	case d.DecidedBy.Kind == wire.KindAuthorizer:
		out := liveAnswer{allowed: d.Approved, reason: d.Reason, who: "authorizer " + d.DecidedBy.Name, byWord: "authorizer", by: d.DecidedBy}
		if out.allowed {
			out.grant = preselected(w, q)
		}
		return out, nil
	case v.humanOnly:
		return liveAnswer{}, errHumanOnly
	case human.err != nil:
		return liveAnswer{}, human.err
	case d.Unavailable:
		return liveAnswer{}, errors.New("the parent session did not answer: " + d.Reason)
	}
	out := liveAnswer{allowed: d.Approved, reason: d.Reason, who: "the parent session", byWord: "parent", by: d.DecidedBy}
	if out.allowed {
		out.grant = preselected(w, q)
	}
	return out, nil
}

// human is what a person answered, with the lines that were on.
func (t *tree) human(w *wish, a humanAnswer) liveAnswer {
	out := liveAnswer{allowed: a.allows(), reason: a.Reason, who: "the human", byWord: "human", proof: string(a.Proof), by: wire.ByUser("dialog"), answer: a.Answer}
	for _, key := range a.Offers {
		switch key {
		case keyWorkspace:
			out.grant.WorkspaceWrite = true
		case keyNetwork:
			out.grant.Network = true
		case keyOff:
			out.grant.SandboxOff = true
		default:
			for i, e := range w.paths() {
				if key == pathKey(i) {
					out.grant.Paths = append(out.grant.Paths, e)
				}
			}
		}
	}
	return out
}

// stepped records what a link said where it did not decide; where it did, the
// decision says so.
func (t *tree) stepped(w *wish, q control.Question, s forwarding.Step) {
	said := ""
	switch {
	case errors.Is(s.Err, forwarding.ErrVacantLink):
		said = "is skipped: nobody provides a link of that name"
	case s.Err != nil:
		said = "passes the ask on: " + s.Err.Error()
	case s.Capped:
		said = "said " + s.Verdict.Outcome.String() + ", which the settings do not let count: the ask passes on"
	case s.Verdict.Outcome == forwarding.Defer:
		said = "passes the ask on"
		if s.Verdict.Reason != "" {
			said += ": " + s.Verdict.Reason
		}
	default:
		return
	}
	t.note(audit.Row{Kind: audit.AuthorizerPassed, Session: w.s.id, Agent: w.s.agent, RequestKey: q.ID, Surface: q.Surface, Reason: "authorizer " + s.Link + " " + prompt.Visible(said)})
}

// facts are what live authority is asked: a unit for each part that asks, since a
// link and a parent judge each by itself.
func (t *tree) facts(w *wish, v verdict, q control.Question) forwarding.Facts {
	s := w.s
	facts := forwarding.Facts{ID: q.ID, Session: s.id, Path: s.path(), Agent: s.agent, Source: wire.ToolCall, HumanOnly: v.humanOnly}
	whole := q.Command
	about := prompt.Facts{MatchedPattern: q.Rule}
	add := func(surface, value string, p prompt.Payload) {
		if q.Dir != "" {
			p.Evidence = append(p.Evidence, prompt.Evidence{Label: prompt.LabelDirectory, Text: q.Dir})
		}
		facts.Units = append(facts.Units, forwarding.Unit{Surface: surface, Value: value, MatchValues: []string{value}, Payload: p})
	}
	if w.analysis != nil && len(w.analysis.Units) > 0 && len(w.analysis.Problems) == 0 {
		for _, u := range w.analysis.Units {
			if d := policy.Decide(w.chain, policy.Query{Surface: "bash", Kind: policy.KindShellCommand, Values: []string{u.Text}, Floor: u.Floor, Home: t.root.Home}); d.Action == policy.Ask {
				add("bash", u.Text, prompt.Bash(about, u.Text, whole))
			}
		}
	}
	if len(facts.Units) == 0 {
		if q.Surface == "bash" || q.Surface == "task" {
			add("bash", whole, prompt.Bash(about, whole, whole))
		} else {
			add(q.Surface, whole, prompt.Tool(about, q.Surface, whole))
		}
	}
	return facts
}
