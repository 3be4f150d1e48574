package supervisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// Keys of the grant vector's lines.
const (
	keyWorkspace = "w"
	keyNetwork   = "x"
	keyOff       = "O"
)

// reread looks at what can change while a human reads, and says what is not what
// was shown any more.
func (t *tree) reread(w *wish) (changed string) {
	dir, err := w.k.question(prepareOrder(w.dir.Path))
	if err != nil || dir.Dev != w.dir.Dev || dir.Ino != w.dir.Ino {
		return w.dir.Path + " is another directory than the one that was judged"
	}
	for _, word := range w.record.Words {
		f, err := w.k.question(lookupOrder(word.Word, w.path, word.File.SHA256 != ""))
		if err != nil || f.Dev != word.File.Dev || f.Ino != word.File.Ino || f.SHA256 != word.File.SHA256 {
			return word.Word + " is another file than the one that was judged"
		}
	}
	return ""
}

// errHumanOnly is for what neither a rule nor a relay may allow.
var errHumanOnly = errors.New("only a human at this tree may allow this, and none can be asked")

// unavailable is the sentence for an ask that nobody answered. It never says that
// a user denied.
func unavailable(err error) string {
	switch {
	case errors.Is(err, errHumanOnly):
		return err.Error()
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
	allowed bool
	reason  string
	who     string // "the human", "the parent session", "authorizer NAME"
	byWord  string // "human", "parent", "authorizer"
	proof   string
	by      wire.DecisionSource
	grant   policy.GrantVector
	answer  control.Answer // a person's, as it came
}

const maxPaths = 9

func pathKey(i int) string { return string(rune('1' + i)) }

// paths are what of the file system the text names outside what is open, and
// which a human may open for this one run.
func (w *wish) paths() []policy.Entry {
	if w.analysis == nil || w.s == nil || !w.s.restricted() {
		return nil
	}
	var out []policy.Entry
	add := func(path string, access policy.Access, open, may func(string) bool) {
		if len(out) < maxPaths && !open(path) && may(path) {
			out = append(out, policy.Entry{Path: path, Access: access, Provenance: policy.ProvenanceComposer})
		}
	}
	s := w.s.snap
	for _, p := range w.analysis.Needs.Writes {
		add(p, policy.AccessWrite, s.Open.CanWrite, s.Ceiling.CanWrite)
	}
	for _, p := range w.analysis.Needs.Reads {
		add(p, policy.AccessRead, s.Open.CanRead, s.Ceiling.CanRead)
	}
	for _, p := range w.analysis.Paths {
		// Through a link it is the place where it leads that has to be opened.
		if w.look == nil || p.Path == "" || p.Pattern {
			continue
		}
		real := policy.RealPath(p.Path, w.look)
		switch {
		case real == "" || real == p.Path:
		case p.Write:
			add(real, policy.AccessWrite, s.Open.CanWrite, s.Ceiling.CanWrite)
		default:
			add(real, policy.AccessRead, s.Open.CanRead, s.Ceiling.CanRead)
		}
	}
	return out
}

// question is what a human is shown: the record, why it is asked, and what an
// answer gives.
func (t *tree) question(w *wish, v verdict, digest string) control.Question {
	q := control.Question{
		ID: w.record.ID, Warnings: w.warnings, Digest: digest, Session: w.s.id, Agent: w.s.agent, Chain: w.s.names(),
		Tool: w.op, Surface: v.surface, Command: commandLine(w.record), Dir: w.record.Dir.Path,
		Reason: v.decision.Reason, Rule: originText(v.decision.Rule), Strength: w.profile.report.Strength,
		Environment: w.record.Environment,
	}
	if w.op == control.OpAsk {
		// Nothing runs here: what an answer covers is the agent's own gate.
		q.Strength = w.s.snap.Enforcement.Strength
		if w.record.Tool != "" {
			q.Tool = w.record.Tool
		}
		if w.record.Text == "" {
			q.Command = w.record.Value
		}
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
	if w.form != "" {
		q.Warnings = append(q.Warnings, "a shell called in this form ("+w.form+") reads what nobody has judged")
	}
	for _, word := range w.record.Words {
		if word.Changeable {
			q.Warnings = append(q.Warnings, fmt.Sprintf("%s is %s, which this session can change", word.Word, word.File.Path))
		}
	}
	if v.humanOnly {
		q.Warnings = append(q.Warnings, "a protected path: only a human may allow this, each time anew")
	}
	t.offers(w, &q)
	t.turnLine(w, v, &q)
	return q
}

func classOf(w *wish) string {
	if runsSessionFiles(w) {
		return shell.RunsSessionFiles.String()
	}
	return shell.FixedProgram.String()
}

func runsSessionFiles(w *wish) bool {
	return w.analysis != nil && w.analysis.Class() == shell.RunsSessionFiles
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
	for i, e := range w.paths() {
		q.Offers = append(q.Offers, control.Offer{Key: pathKey(i), Name: "path", Sentence: string(e.Access) + " " + e.Path, On: true, Changeable: true})
	}
	switch {
	case o.Network:
		// Where hosts are asked for one by one, nobody needs to give them all beforehand.
		proxied := w.profile.proxied()
		q.Offers = append(q.Offers, control.Offer{Key: keyNetwork, Name: "network", Sentence: "reach every host, for this one run", On: needs.Network && !proxied, Changeable: true})
		if needs.Network && proxied {
			q.Warnings = append(q.Warnings, "it wants the network: each host that it reaches through the proxy is asked for then, if no rule decides")
		}
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
func (t *tree) turnLine(w *wish, v verdict, q *control.Question) {
	if !w.s.snap.Approval.AllowForTurn || v.humanOnly {
		return
	}
	q.TurnPattern = "exactly this command in this directory, until the turn of " + w.s.title() + " ends"
	if len(q.Offers) > 0 && runsSessionFiles(w) {
		q.TurnPattern += "; once only if more is opened than the session has, because it runs files that the session can change"
	}
	q.TurnAllowed = true
	t.offerGrants(w, v, q)
	if t.typedForHuman() {
		q.TurnAllowed, q.TurnPhrase = false, t.humans.hasPhrase()
		q.Warnings = append(q.Warnings, "human_channel: reachable ("+strings.Join(t.root.Reach, ", ")+"): an unconfined session could type here for you, so allow for the turn needs the phrase")
	}
}

// typedForHuman says that something which a session can reach could type for the
// human: then what allows more than once needs the phrase.
func (t *tree) typedForHuman() bool { return len(t.root.Reach) > 0 && t.unconfined() }

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
	for _, e := range g.Paths {
		out = append(out, string(e.Access)+" "+e.Path)
	}
	return out
}

// decideOnly answers whether something may be done; nothing is run.
func (t *tree) decideOnly(ctx context.Context, s *session, role string, r *control.Request) control.Result {
	a := r.Ask
	if a.Surface == "" || a.Value == "" && a.Tool == "" {
		return control.Result{Exit: 2, Class: control.ClassFailed, Reason: "ask: a surface, and a value or a tool, are needed"}
	}
	value := a.Value
	if value == "" {
		value = a.Tool
	}
	w := t.valueWish(s, r.ID, role, a.Surface, value, a.Tool)
	out := t.decide(ctx, w, nil)
	res := control.Result{Class: control.ClassDecided, Session: s.id, Verdict: "deny", By: out.word, Reason: out.reason}
	switch {
	case out.err != nil:
		return failed("%s", out.reason)
	case out.allowed:
		res.Verdict = "allow"
	case out.word == "rule", out.word == "authorizer":
		res.Exit = 10
	case out.word == "nobody":
		res.Exit = 12
	default:
		res.Exit = 11
	}
	return res
}

// valueWish makes the record of a bare surface and value.
func (t *tree) valueWish(s *session, id, role, surface, value, tool string) *wish {
	if tool == surface {
		tool = "" // some gates say it twice
	}
	w := &wish{s: s, op: control.OpAsk}
	w.record = policy.Record{ID: id, Op: control.OpAsk, Role: role, Sessions: s.path(), Surface: surface, Value: value, Tool: tool,
		Dir: s.dir, Base: digestEnv(s.base), Snapshot: s.snap.Generation}
	w.judgeValue(surface, value, tool, t.root.Home)
	return w
}

// judgeValue fills a wish for a bare surface and value: shell text is analysed,
// everything else is one query.
func (w *wish) judgeValue(surface, value, tool, home string) {
	s := w.s
	w.record.Argv = []string{surface, value, tool}
	if surface == "bash" {
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
		if !filepath.IsAbs(value) {
			q.Values = append(q.Values, filepath.Join(s.snap.Sandbox.Cwd, value))
		}
	}
	w.queries = append(w.queries, q)
}
