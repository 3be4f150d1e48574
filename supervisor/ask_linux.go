package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// Keys of the grant vector's lines.
const (
	keyWorkspace = "w"
	keyNetwork   = "x"
	keyOff       = "O"
)

// askHuman brings a wish to whoever may answer: a human endpoint, else a foreign
// parent, else nobody, which is a denial at once.
func (t *tree) askHuman(ctx context.Context, w *wish, v verdict, row audit.Event, digest string) (grant policy.GrantVector, by wire.DecisionSource, res control.Result, ok bool) {
	q := t.question(w, v, digest)
	answer, err := t.live(ctx, w.s, q, row, w)
	if err != nil {
		by = wire.Unavailable(err.Error())
		row.Kind, row.Decision, row.DecidedBy, row.Reason = audit.ApprovalResolved, "deny", by, err.Error()
		if errors.Is(err, context.Canceled) {
			row.Decision, row.Reason = "cancelled", "the asker is gone"
		}
		t.log.Write(row)
		t.asked(w.s, q.ID, "")
		return grant, by, refused("nobody", "%s: %s", v.unit, unavailable(err)), false
	}
	t.asked(w.s, q.ID, "")
	by = answer.by
	row.Kind, row.DecidedBy, row.Decision = audit.ApprovalResolved, by, answer.decision
	row.Proof = answer.proof
	if answer.decision == "deny" {
		row.Reason = answer.reason
		t.log.WriteSync(row)
		text := answer.who + " denied it"
		if answer.reason != "" {
			text += ": " + answer.reason
		}
		return grant, by, refused(answer.byWord, "%s", text), false
	}
	grant, refusedParts := answer.grant.Within(w.s.snap.Ceiling)
	if len(refusedParts) > 0 {
		row.Reason = "not given, above the ceiling: " + strings.Join(refusedParts, ", ")
	}
	row.Grant = grantWords(grant)
	if err := t.log.WriteSync(row); err != nil {
		return grant, by, notRecorded(err), false
	}
	if answer.decision == "allow_for_turn" {
		g := policy.Grant{ID: registry.NewID("g"), Session: w.s.id, Surface: v.surface, ScopeHash: scope(w.record), Vector: grant, From: answer.who + " at " + q.ID}
		t.mu.Lock()
		g.Turn = w.s.turn
		t.grants.Add(g)
		t.mu.Unlock()
	}
	if again, changed := t.reread(w); changed != "" {
		t.note(audit.Event{Kind: audit.DecisionDenied, Session: w.s.id, Request: w.record.ID, Reason: changed})
		return grant, by, refused("rule", "%s; ask again", changed), again
	}
	return grant, by, res, true
}

// reread looks at what can change while a human reads: it must be what was shown.
func (t *tree) reread(w *wish) (ok bool, changed string) {
	dir, err := w.k.question(prepareOrder(w.dir.Path))
	if err != nil || dir.Dev != w.dir.Dev || dir.Ino != w.dir.Ino {
		return false, fmt.Sprintf("%s is another directory than the one that was shown", w.dir.Path)
	}
	for _, word := range w.record.Words {
		f, err := w.k.question(lookupOrder(word.File.Path, word.File.SHA256 != ""))
		if err != nil || f.Dev != word.File.Dev || f.Ino != word.File.Ino || f.SHA256 != word.File.SHA256 {
			return false, fmt.Sprintf("%s changed while the question waited", word.File.Path)
		}
	}
	return true, ""
}

// unavailable is the sentence for an ask that nobody answered. It never says that
// a user denied.
func unavailable(err error) string {
	switch {
	case errors.Is(err, ErrNobody):
		return "needs an answer, and nobody can answer: no terminal, no approver and no parent is attached"
	case errors.Is(err, ErrTooManyAsks):
		return "needs an answer, and " + err.Error()
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "needs an answer: " + err.Error()
}

// liveAnswer is what live authority said.
type liveAnswer struct {
	decision string
	reason   string
	who      string // "the human", "the parent session"
	byWord   string // "human", "parent"
	proof    string
	by       wire.DecisionSource
	grant    policy.GrantVector
}

// live asks the terminal authority. The audit has the request before anybody
// sees it.
func (t *tree) live(ctx context.Context, s *session, q control.Question, row audit.Event, w *wish) (liveAnswer, error) {
	row.Kind, row.Request = audit.ApprovalRequested, q.ID
	if err := t.log.Write(row); err != nil {
		return liveAnswer{}, fmt.Errorf("the question could not be written down: %w", err)
	}
	if !t.humans.reachable() && t.forwarder != nil {
		t.asked(s, q.ID, q.Command)
		return t.forwarder.ask(ctx, s, q, w)
	}
	if t.humans.reachable() {
		t.asked(s, q.ID, q.Command)
	}
	a, err := t.humans.ask(ctx, q)
	if err != nil {
		return liveAnswer{}, err
	}
	out := liveAnswer{decision: a.Decision, reason: a.Reason, who: "the human", byWord: "human", proof: string(a.Proof), by: wire.ByUser("dialog")}
	for _, key := range a.Offers {
		switch key {
		case keyWorkspace:
			out.grant.WorkspaceWrite = true
		case keyNetwork:
			out.grant.Network = true
		case keyOff:
			out.grant.SandboxOff = true
		}
	}
	return out, nil
}

// question is what a human is shown: the record, why it is asked, and what an
// answer gives.
func (t *tree) question(w *wish, v verdict, digest string) control.Question {
	q := control.Question{
		ID: w.record.ID, Digest: digest, Session: w.s.id, Agent: w.s.agent, Chain: w.s.names(),
		Tool: w.op, Surface: v.surface, Command: commandLine(w.record), Dir: w.record.Dir.Path,
		Reason: v.decision.Reason, Rule: originText(v.decision.Rule), Strength: w.profile.report.Strength,
		Environment: w.record.Environment,
	}
	if w.s.restricted() && w.agent && w.adapter != nil {
		q.Strength += " (this program: control envelope alone)"
	}
	if v.unit != "" && v.unit != q.Command {
		q.Needs = append(q.Needs, control.Line{Name: "asks for", Text: v.unit})
	}
	if w.analysis != nil {
		for _, u := range w.analysis.Units {
			if u.Executed != "" {
				q.Executed = u.Executed
			}
		}
		q.Class = classOf(w)
		for _, s := range w.analysis.Needs.Sentences {
			q.Needs = append(q.Needs, control.Line{Name: "note", Text: s})
		}
		if len(w.analysis.Needs.Hosts) > 0 {
			q.Needs = append(q.Needs, control.Line{Name: "hosts", Text: strings.Join(w.analysis.Needs.Hosts, ", ")})
		}
		for _, p := range w.analysis.Problems {
			q.Warnings = append(q.Warnings, p.Message)
		}
	}
	for _, word := range w.record.Words {
		if word.Changeable {
			q.Warnings = append(q.Warnings, fmt.Sprintf("%s is %s, which this session can change", word.Word, word.File.Path))
		}
	}
	t.offers(w, &q)
	t.turnLine(w, &q)
	return q
}

func classOf(w *wish) string {
	for _, u := range w.analysis.Units {
		if u.Class == shell.RunsSessionFiles {
			return u.Class.String()
		}
	}
	return shell.FixedProgram.String()
}

// offers are the lines of the grant vector, preselected from the analysis.
func (t *tree) offers(w *wish, q *control.Question) {
	if !w.s.restricted() || w.op == control.OpAsk || w.agent && w.adapter != nil {
		return
	}
	o := w.record.Offered
	needs := shell.Needs{}
	if w.analysis != nil {
		needs = w.analysis.Needs
	}
	if o.WorkspaceWrite {
		q.Offers = append(q.Offers, control.Offer{Key: keyWorkspace, Name: "workspace", Sentence: "write files in " + w.s.snap.Sandbox.Workspace, On: true, Changeable: true})
	}
	switch {
	case o.Network:
		q.Offers = append(q.Offers, control.Offer{Key: keyNetwork, Name: "network", Sentence: "reach every host, for this one run", On: needs.Network, Changeable: true})
	case needs.Network && w.s.snap.Open.Network != policy.NetworkEnabled:
		q.Warnings = append(q.Warnings, "it wants the network, which this session can never be given")
	}
	if o.SandboxOff {
		q.Offers = append(q.Offers, control.Offer{Key: keyOff, Name: "no sandbox", Sentence: "run with everything that you can do yourself", Changeable: true, Strong: true})
	}
	if slices.ContainsFunc(needs.Capabilities, func(c string) bool { return c == "ssh" || c == "gpg" || c == "docker" }) {
		q.Warnings = append(q.Warnings, "it wants "+strings.Join(needs.Capabilities, ", ")+": in this sandbox no agent or daemon socket can be reached; without the sandbox (O) it can")
	}
}

// turnLine says what "allow for the turn" would cover. Where something that a
// session can reach could type for the human, the wide answer needs the phrase.
func (t *tree) turnLine(w *wish, q *control.Question) {
	if !w.s.snap.Approval.AllowForTurn {
		return
	}
	q.TurnPattern = "exactly this command in this directory, until the turn of " + w.s.title() + " ends"
	q.TurnAllowed = true
	if len(t.root.Reach) > 0 && t.unconfined() {
		q.TurnAllowed = false
		q.Warnings = append(q.Warnings, "human_channel: reachable ("+strings.Join(t.root.Reach, ", ")+"): an unconfined session could type here for you, so allow for the turn needs the phrase")
	}
}

// unconfined says whether any session of the tree could reach what the operator
// can.
func (t *tree) unconfined() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		if !s.restricted() || s.adapter != nil {
			return true
		}
	}
	return false
}

func grantWords(g policy.GrantVector) []string {
	var out []string
	if g.WorkspaceWrite {
		out = append(out, "workspace writable")
	}
	if g.Network {
		out = append(out, "network")
	}
	if g.SandboxOff {
		out = append(out, "no sandbox")
	}
	return out
}

// decideOnly answers whether something may be done; nothing is run.
func (t *tree) decideOnly(ctx context.Context, s *session, role string, r *control.Request) control.Result {
	a := r.Ask
	w := &wish{s: s, op: control.OpAsk}
	w.record = policy.Record{ID: r.ID, Op: control.OpAsk, Role: role, Sessions: s.path(), Surface: a.Surface, Value: a.Value, Tool: a.Tool,
		Dir: policy.File{Path: s.snap.Sandbox.Cwd}, Base: digestEnv(s.base), Policy: 1, Snapshot: s.snap.Generation, Argv: []string{}}
	w.judgeValue(a.Surface, a.Value, a.Tool, t.root.Home)
	if a.Surface == "" || a.Value == "" && a.Tool == "" {
		return control.Result{Exit: 2, Class: control.ClassFailed, Reason: "ask: surface and value are needed"}
	}
	v := t.judge(w)
	digest := w.record.Digest()
	row := t.row(w, v, digest)
	row.Value, row.Surface = a.Value, a.Surface
	res := control.Result{Class: control.ClassDecided, Session: s.id}
	switch v.action {
	case policy.Allow:
		row.Kind, row.Decision, row.Cached = audit.DecisionAllowed, "allow", v.grant != nil
		row.DecidedBy = wire.ByRule(v.surface, v.decision.Rule.Pattern, v.decision.Rule.Origin.Authority)
		if err := t.log.Write(row); err != nil {
			return notRecorded(err)
		}
		res.Verdict, res.By, res.Reason = "allow", "rule", originText(v.decision.Rule)
		return res
	case policy.Deny:
		row.Kind, row.Decision = audit.DecisionDenied, "deny"
		row.DecidedBy = wire.ByRule(v.surface, v.decision.Rule.Pattern, v.decision.Rule.Origin.Authority)
		t.log.Write(row)
		res.Exit, res.Verdict, res.By, res.Reason = 10, "deny", "rule", denial(v)
		return res
	}
	q := t.question(w, v, digest)
	q.Command, q.Tool = a.Value, a.Tool
	answer, err := t.live(ctx, s, q, row, w)
	t.asked(s, q.ID, "")
	row.Kind = audit.ApprovalResolved
	if err != nil {
		row.Decision, row.Reason, row.DecidedBy = "deny", err.Error(), wire.Unavailable(err.Error())
		t.log.Write(row)
		res.Exit, res.Verdict, res.By, res.Reason = 12, "deny", "nobody", unavailable(err)
		return res
	}
	row.Decision, row.DecidedBy, row.Proof = answer.decision, answer.by, answer.proof
	if answer.decision == "deny" {
		row.Reason = answer.reason
		t.log.WriteSync(row)
		res.Exit, res.Verdict, res.By, res.Reason = 11, "deny", answer.byWord, answer.who+" denied it"
		if answer.reason != "" {
			res.Reason += ": " + answer.reason
		}
		return res
	}
	if err := t.log.WriteSync(row); err != nil {
		return notRecorded(err)
	}
	if answer.decision == "allow_for_turn" {
		t.mu.Lock()
		t.grants.Add(policy.Grant{ID: registry.NewID("g"), Session: s.id, Surface: v.surface, ScopeHash: scope(w.record), Turn: s.turn, From: answer.who + " at " + q.ID})
		t.mu.Unlock()
	}
	res.Verdict, res.By, res.Reason = "allow", answer.byWord, answer.who+" allowed it"
	return res
}

// judgeValue fills a wish for a bare surface and value: shell text is analysed,
// everything else is one query.
func (w *wish) judgeValue(surface, value, tool, home string) {
	s := w.s
	w.record.Argv = []string{surface, value, tool}
	if surface == "bash" {
		w.op = control.OpExec
		w.record.Text = value
		w.analysis = shell.Analyze(value, shell.Options{Dir: s.snap.Sandbox.Cwd, Home: home, Workspace: s.snap.Sandbox.Workspace})
		if c := w.analysis.Canonical; c != "" {
			w.record.Text = c
		}
		return
	}
	q := policy.Query{Surface: surface, Kind: policy.SurfaceKind(surface), Tool: tool, Values: []string{value}, Floor: policy.Allow, Home: home}
	if tool != "" && q.Kind == policy.KindUnknown {
		q.Kind = policy.Classify(tool)
	}
	if strings.HasPrefix(surface, "path") {
		q.Aliases = true
		q.Values = policy.PathAliases(value, s.snap.Sandbox.Cwd, home, "")
	}
	w.queries = append(w.queries, q)
}
