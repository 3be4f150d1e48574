package supervisor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// verdict is the outcome of recorded authority, grants included.
type verdict struct {
	action   policy.Action
	decision policy.Decision
	unit     string
	surface  string
	grant    *policy.Grant
	// humanOnly: no grant, ticket, link or relay may allow it.
	humanOnly bool
}

// denial says which rule refused, and its reason.
func denial(v verdict) string {
	rule := v.decision.Rule
	out := fmt.Sprintf("denied by %s", originText(rule))
	if v.unit != "" {
		out = fmt.Sprintf("%s: %s", v.unit, out)
	}
	if rule.Reason != "" {
		out += ": " + rule.Reason
	}
	return out
}

func originText(r policy.Rule) string {
	at := r.Origin.Authority
	if r.Origin.File != "" {
		at = fmt.Sprintf("%s:%d:%d", r.Origin.File, r.Origin.Line, r.Origin.Column)
	}
	if r.Pattern == "" {
		return at
	}
	return fmt.Sprintf("rule %s %q (%s)", r.Surface, r.Pattern, at)
}

// judge asks the recorded authority of the session and every ancestor about each
// unit, and takes the most restrictive answer.
func (t *tree) judge(w *wish) verdict { return t.judgeWith(w, t.liveGrants()) }

// judgeWith is judge with these grants.
func (t *tree) judgeWith(w *wish, grants policy.Grants) verdict {
	if w.s == nil {
		// The root's own command is the operator's: nobody stands above it.
		return verdict{action: policy.Allow, surface: "spawn", decision: policy.Decision{Action: policy.Allow,
			Rule: policy.Rule{Surface: "spawn", Pattern: "*", Action: policy.Allow, Origin: policy.Origin{Authority: "operator"}}, Reason: "the operator started it"}}
	}
	if w.op == control.OpExec && t.itself(w) {
		return verdict{action: policy.Allow, surface: "bash", unit: w.record.Argv[0], decision: policy.Decision{Action: policy.Allow,
			Rule: policy.Rule{Surface: "bash", Pattern: "pioneer-super *", Action: policy.Allow, Origin: policy.Origin{Authority: "builtin"}}, Reason: "judged as the operation that it asks for"}}
	}
	// An unconfined session whose rules say nothing of commands is allowed what
	// cannot be seen through, and it is recorded.
	free := !w.s.restricted() && !w.mentions("bash")
	humanOnly := false
	var covered covering
	decide := func(q policy.Query) policy.Decision {
		if !free && len(w.changes) > 0 && q.Surface == "bash" && q.Floor == policy.Allow {
			q.Floor, q.FloorReason = policy.Ask, "<environment: "+strings.Join(w.changes, ", ")+">"
		}
		if len(w.record.Environment) > 0 || w.form != "" {
			q.ExactOnly = true
		}
		if w.look != nil {
			// A path is judged by where it leads as well as by how it is written.
			q = q.FollowLinks(w.look)
		}
		d, g := policy.Judge(w.chain, &grants, q, "")
		if g != nil && w.op != control.OpAsk && g.Surface == "bash" && g.Program == "" {
			// It was given for an agent's own gate, where no program was resolved: what
			// runs here may be another one.
			d, g = policy.Decide(w.chain, q), nil
		}
		humanOnly = humanOnly || d.HumanOnly
		covered.add(g)
		return d
	}
	out := verdict{action: policy.Allow, surface: "bash"}
	judged := false
	if w.analysis != nil && (w.op != control.OpSpawn || w.adapter == nil) {
		v := w.analysis.Judge(decide)
		out.action, out.decision, out.unit = v.Action, v.Decision, v.Unit
		if v.Reason != "" {
			out.decision.Reason = v.Reason
		}
		if out.decision.Rule.Surface == "" {
			out.decision.Rule = policy.Rule{Surface: "bash", Pattern: v.Sentinel, Action: v.Action, Origin: policy.Origin{Authority: "floor"}}
		}
		if free && v.Rules == policy.Allow {
			out.action = policy.Allow
		}
		judged = true
	}
	for _, q := range w.queries {
		d := decide(q)
		if !judged || d.Action < out.action {
			out.action, out.decision, out.surface = d.Action, d, q.Surface
			out.unit = first(q.Values)
			judged = true
		}
	}
	if w.form != "" && out.action == policy.Allow && !free {
		out.action = policy.Ask
		out.decision = policy.Decision{Action: policy.Ask, Rule: policy.Rule{Surface: "bash", Pattern: "<" + w.form + ">", Action: policy.Ask, Origin: policy.Origin{Authority: "floor"}},
			Reason: "a shell called in this form (" + w.form + ") reads what nobody has judged"}
	}
	if !judged {
		return verdict{action: policy.Deny, decision: policy.Decision{Reason: "nothing was judged"}}
	}
	out.humanOnly = humanOnly && out.action == policy.Ask
	if origin, on := w.rules.yolo(); on && out.action == policy.Ask && !out.humanOnly {
		// Also what was asked whatever the rules say.
		out.action = policy.Allow
		out.decision = policy.Decision{Action: policy.Allow, Reason: "yolo: asks are allowed",
			Rule: policy.Rule{Surface: out.surface, Pattern: "*", Action: policy.Allow, Origin: origin}}
	}
	if out.action == policy.Ask && !out.humanOnly {
		q := policy.Query{Surface: out.surface, Kind: out.decisionKind(), Values: []string{commandLine(w.record)}, ExactOnly: true}
		if g, ok := grants.Covers(w.s.id, q, scope(w.record)); ok {
			out.action, out.grant = policy.Allow, &g
		}
	} else if out.action == policy.Allow {
		out.grant = covered.grant(w)
	}
	return out
}

func (v verdict) decisionKind() policy.Kind { return policy.SurfaceKind(v.surface) }

// scope is the exact scope of a command for a grant of the turn: what runs, where,
// with which environment, and the content of what the session can change.
func scope(r policy.Record) string {
	words, err := json.Marshal(r.Words)
	if err != nil {
		panic("supervisor: words cannot be encoded: " + err.Error())
	}
	return policy.ScopeHash(policy.KindShellCommand, r.Op, append([]string{
		place(r.Dir), strings.Join(r.Environment, "\x00"), string(words), r.Streams[0],
	}, r.Argv...))
}

// place is a directory by name and by what cannot be renamed.
func place(f policy.File) string { return fmt.Sprintf("%s %d %d", f.Path, f.Dev, f.Ino) }

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// mentions says whether any authority above this session has an ask or a deny
// for the surface.
func (w *wish) mentions(surface string) bool {
	for _, a := range w.chain {
		if ask, deny := a.Mentions(surface); ask || deny {
			return true
		}
	}
	return false
}

// itself says whether the whole command is this binary, whose operations are
// judged when they arrive. Those of a tree of its own never arrive here: it is a
// command like any other.
func (t *tree) itself(w *wish) bool {
	if !w.analysis.Simple || len(w.analysis.Argv) < 2 || slices.ContainsFunc(w.analysis.Argv, leavesTree) {
		return false
	}
	switch w.analysis.Argv[1] {
	case "spawn", "exec", "ask", "check", "fs", "net", "context", "turn", "tree", "log", "version", "help":
	default:
		return false
	}
	word := w.analysis.Argv[0]
	for _, known := range w.record.Words {
		if known.Word == word {
			return t.links.is(known.File.Dev, known.File.Ino)
		}
	}
	return false
}

// leavesTree says whether a word is the flag by which a client leaves its tree,
// wherever it stands: what comes before it may take "--" for a value.
func leavesTree(word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name == "new-tree" && strings.HasPrefix(word, "-")
}
