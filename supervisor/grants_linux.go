package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// maxGrants bounds the grants that live at once in a tree.
const maxGrants = 512

// liveGrants is the set as it is now. Adding to or taking from the tree's set
// changes no set that was returned.
func (t *tree) liveGrants() policy.Grants {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grants
}

// rootOf is the directory root that a wish is judged for.
func rootOf(w *wish) string {
	if w.analysis != nil {
		if q := w.analysis.Queries(); len(q) > 0 {
			return q[0].Root
		}
	}
	return ""
}

// covering keeps the pattern grants that made allows of asks while one wish is
// judged.
type covering struct{ used []policy.Grant }

func (c *covering) add(g *policy.Grant) {
	if g != nil && !slices.ContainsFunc(c.used, func(have policy.Grant) bool { return have.ID == g.ID }) {
		c.used = append(c.used, *g)
	}
}

// grant is what the wish was allowed by, nil for none. Its resources go to an
// invocation that it covers as a whole: where others had a part in the yes, none
// of theirs do.
func (c *covering) grant(w *wish) *policy.Grant {
	if len(c.used) == 0 {
		return nil
	}
	g := c.used[0]
	parts := len(w.queries)
	if w.analysis != nil {
		parts += len(w.analysis.Units)
	}
	if len(c.used) > 1 || parts != 1 {
		g.Vector = policy.GrantVector{}
	}
	return &g
}

// suggest is the pattern grant that a human may be offered for a wish, without
// session and turn. It is offered only where it is safe to show a pattern: one plain
// command of a program that the session cannot change, in the environment of its
// session, or one call; and only if with it the very wish would not be asked.
func (t *tree) suggest(w *wish, v verdict) (policy.Grant, bool) {
	none := policy.Grant{}
	if v.humanOnly || len(w.changes) > 0 || len(w.record.Environment) > 0 || w.form != "" {
		return none, false
	}
	g := policy.Grant{ID: "suggested", Session: w.s.id, From: w.s.id, Surface: v.surface}
	var q policy.Query
	switch {
	case w.analysis != nil && len(w.queries) == 0:
		a := w.analysis
		if !a.Simple || len(a.Units) != 1 || len(a.Problems) > 0 || v.surface != "bash" {
			return none, false
		}
		u := a.Units[0]
		if u.Floor != policy.Allow || len(u.Assigns) > 0 || u.Changeable || u.Class != shell.FixedProgram || runsSessionFiles(w) {
			return none, false
		}
		q = a.Queries()[0]
		g.Program = u.File
	case w.analysis == nil && len(w.queries) == 1:
		q = w.queries[0]
	default:
		return none, false
	}
	value := ""
	if i := slices.IndexFunc(q.Values, filepath.IsAbs); policy.IsPathSurface(q.Surface) && i >= 0 {
		value = q.Values[i]
	} else if len(q.Values) > 0 {
		value = q.Values[0]
	}
	g.Pattern = policy.SuggestPattern(q.Surface, value)
	// What is no pattern is the exact grant; what is only wildcards says nothing.
	if !strings.ContainsAny(g.Pattern, "*?") || strings.Trim(g.Pattern, "*? ./~") == "" || g.Pattern == value {
		return none, false
	}
	if policy.CheckOffer(q, g.Pattern, g.Pattern) != nil || g.Check() != nil {
		return none, false
	}
	trial := t.liveGrants()
	if trial.Add(g) != nil || t.judgeWith(w, trial).action != policy.Allow {
		return none, false
	}
	return g, true
}

// offerGrants says in a question what may be kept: for the turn by a pattern, for
// every session of the tree, and in the policy itself.
func (t *tree) offerGrants(w *wish, v verdict, q *control.Question) {
	q.TreeAllowed = true
	g, ok := t.suggest(w, v)
	if !ok {
		return
	}
	q.Pattern = v.surface + " " + g.Pattern
	if g.Program != "" {
		q.Pattern += " (" + g.Program + ")"
	}
	if edit, err := t.always(w, g); err == nil {
		q.Always = fmt.Sprintf("%s:%d: %s", t.root.PolicyPath, edit.Number, edit.Line)
	}
}

// always is the policy with a rule for the grant, where the operator's settings let
// an answer write one and no other change of the files waits.
func (t *tree) always(w *wish, g policy.Grant) (policy.Edit, error) {
	a := w.rules
	if !a.allowAlways() || a.pending != nil {
		return policy.Edit{}, errors.New("the settings do not let an answer write into the policy")
	}
	return policy.AddRule(t.root.PolicyPath, fileData(a.newest().files.Policy), g.Surface, g.Pattern, policy.Allow)
}

// keep gives what a human's answer keeps. What cannot be kept is allowed this once.
func (t *tree) keep(w *wish, v verdict, out outcome, a control.Answer) error {
	switch a.Decision {
	case "allow_for_turn":
		return t.grantTurn(w, v, out, a)
	case "allow_always":
		g, ok := t.suggest(w, v)
		err := errors.New("no pattern can be offered for it any more")
		if ok {
			err = t.writeAlways(w, g)
		}
		if err != nil {
			t.note(audit.Row{Kind: audit.ConfigRefused, Session: w.s.id, Value: g.Pattern, Reason: "no rule was written, it is allowed this once: " + err.Error()})
			t.tell("no rule was written, it is allowed this once: " + err.Error())
		}
	}
	return nil
}

// writeAlways puts the rule that the human saw into the policy, all or nothing, and
// takes the file as it then is.
func (t *tree) writeAlways(w *wish, g policy.Grant) error {
	t.reloading.Lock()
	defer t.reloading.Unlock()
	if t.rules.Load() != w.rules {
		return errRulesChanged
	}
	edit, err := t.always(w, g)
	if err != nil {
		return err
	}
	files := w.rules.newest().files
	now, err := ReadConfig(t.root.Config, t.root.PolicyPath)
	if err != nil {
		return err
	}
	if now.withoutProjects().digest() != files.withoutProjects().digest() {
		return errors.New("the files changed since the line was shown")
	}
	files.Policy = &control.File{Name: t.root.PolicyPath, Data: edit.Text}
	next, err := parseRules(files)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s:%d: %s", t.root.PolicyPath, edit.Number, edit.Line)
	if err := t.log.Write(audit.Row{Kind: audit.ConfigLoaded, Session: w.s.id, Surface: g.Surface, Value: g.Pattern, Reason: "a human's answer writes " + line,
		Record: w.record.Digest(), Details: map[string]any{"generation": w.rules.generation + 1, "files": files.sums()}}); err != nil {
		return notWritten(err)
	}
	if err := replaceFile(t.root.PolicyPath, edit.Text); err != nil {
		return err
	}
	t.install(&authorities{proven: []*rules{next}})
	t.tell("written: " + line)
	return nil
}

// replaceFile replaces a file whole, behind a symbolic link if there is one, with
// the mode that it has.
func replaceFile(path string, data []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	mode := os.FileMode(0o600)
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".policy-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}

// grantTurn keeps an answer for the rest of the turn, with what it gave, within the
// ceiling of its session: for exactly this command in this directory, or for the
// pattern that was shown; for this agent, or for every session of the tree.
//
// What runs files that the session can change is not given more than the session
// has for later: the files of then are not those that were judged.
func (t *tree) grantTurn(w *wish, v verdict, out outcome, a control.Answer) error {
	once := func(why string) error {
		t.note(audit.Row{Kind: audit.GrantEnded, Session: w.s.id, Surface: v.surface, Value: commandLine(w.record), Record: w.record.Digest(), Reason: "once only: " + why})
		return nil
	}
	if len(grantWords(out.grant)) > 0 && runsSessionFiles(w) {
		return once("it runs files that this session can change, with more than the session has")
	}
	g := policy.Grant{Session: w.s.id, From: w.s.id, Surface: v.surface, ScopeHash: scope(w.record)}
	if a.Scope == "pattern" {
		var ok bool
		if g, ok = t.suggest(w, v); !ok {
			return once("no pattern can be offered for it any more")
		}
		g.Root = rootOf(w)
	}
	g.ID, g.Vector, g.Tree = registry.NewID("g"), out.grant, a.Tree
	if err := g.Check(); err != nil {
		return once(err.Error())
	}
	details := map[string]any{"grant": g.ID}
	if g.Pattern != "" {
		details["pattern"] = g.Pattern
	}
	if g.Program != "" {
		details["program"] = g.Program
	}
	if g.Tree {
		details["tree"] = true
	}
	t.mu.Lock()
	full := len(t.grants.List()) >= maxGrants
	t.mu.Unlock()
	if full {
		return once(fmt.Sprintf("%d grants live in this tree, which is the limit", maxGrants))
	}
	if err := t.log.Write(audit.Row{Kind: audit.GrantGiven, Session: w.s.id, Agent: w.s.agent, Surface: v.surface, Value: commandLine(w.record),
		Reason: "for the turn", Grants: grantWords(out.grant), Record: w.record.Digest(), Details: details}); err != nil {
		return notWritten(err)
	}
	t.mu.Lock()
	g.Turn = w.s.turn
	ended := w.s.ending || w.s.turn != w.turn || g.Tree && t.first.turn != w.treeTurn
	var err error
	if !ended {
		err = t.grants.Add(g)
	}
	t.mu.Unlock()
	if ended {
		t.endGrants([]policy.Grant{g}, "its turn ended while it was given")
	}
	return err
}

// endGrants tells of grants that are gone.
func (t *tree) endGrants(gone []policy.Grant, why string) {
	if len(gone) > 0 {
		t.outbound.proxy.Recheck()
	}
	for _, g := range gone {
		t.note(audit.Row{Kind: audit.GrantEnded, Session: g.Session, Surface: g.Surface, Value: g.Pattern, Reason: why, Details: map[string]any{"grant": g.ID}})
	}
}

// revoke ends one grant, because a human says so.
func (t *tree) revoke(id string, proof Proof) control.Result {
	t.mu.Lock()
	g, ok := t.grants.Revoke(id)
	t.mu.Unlock()
	if !ok {
		return control.Result{Exit: 1, Class: control.ClassRefused, Reason: fmt.Sprintf("no grant %q lives in this tree; grants list shows them", id)}
	}
	t.endGrants([]policy.Grant{g}, "revoked by the human ("+string(proof)+")")
	return control.Result{Class: control.ClassDecided, Reason: "revoked " + id}
}
