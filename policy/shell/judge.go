package shell

import (
	"fmt"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// Result is what recorded authority says of one unit or path.
type Result struct {
	// Unit is the normal form of the command, or the path.
	Unit    string `json:"unit"`
	Surface string `json:"surface"`
	Context string `json:"context,omitempty"`
	// Action counts floors; Rules is what the rules alone say.
	Action   policy.Action   `json:"action"`
	Rules    policy.Action   `json:"rules"`
	Decision policy.Decision `json:"decision"`
	// Form is the other spelling that decided, if one did.
	Form string `json:"form,omitempty"`
	// Sentinel and Why say what lowered the action below the rules.
	Sentinel string `json:"sentinel,omitempty"`
	Why      string `json:"why,omitempty"`
	// Index is the place in Analysis.Units or Analysis.Paths.
	Index int `json:"index"`
	// Ignored says that the result does not count: a transparent command that
	// no rule names, a path that no rule speaks of.
	Ignored bool `json:"ignored,omitempty"`
}

// Verdict is the answer for the whole text.
type Verdict struct {
	Action policy.Action `json:"action"`
	// Rules is the answer without floors and problems: what a mode that asks
	// nothing may use.
	Rules policy.Action `json:"rules"`
	// Unit is the command or path that decided, empty when a problem did.
	Unit    string `json:"unit,omitempty"`
	Context string `json:"context,omitempty"`
	// Decision is the one that decided.
	Decision policy.Decision `json:"decision"`
	// Sentinel and Reason say why, for machines and for humans.
	Sentinel string   `json:"sentinel,omitempty"`
	Reason   string   `json:"reason"`
	Problem  *Problem `json:"problem,omitempty"`
	Results  []Result `json:"results"`
}

// catchAll reports whether a decision comes from a rule that names nothing: a
// mode's default, or a pattern of wildcards only.
func catchAll(d policy.Decision) bool {
	switch d.Rule.Origin.Authority {
	case "mode", "baseline", "builtin", "fail-closed", "yolo":
		return true
	}
	return strings.Trim(d.Rule.Pattern, "*? ") == ""
}

func granted(d policy.Decision) bool { return d.Rule.Origin.Authority == "grant" }

// names reports whether a decision's rule names the program.
func names(d policy.Decision, head string) bool {
	first, _, _ := strings.Cut(d.Rule.Pattern, " ")
	if catchAll(d) || first == "" {
		return false
	}
	lit := first
	if i := strings.IndexAny(first, "*?"); i >= 0 {
		lit = first[:i]
	}
	if lit == "" {
		return false
	}
	return strings.HasPrefix(head, base(lit)) || first == head
}

// literalRule reports whether a rule is exactly this text, without wildcards.
func literalRule(d policy.Decision, text string) bool {
	return d.Rule.Pattern == text && !strings.ContainsAny(d.Rule.Pattern, "*?")
}

// query is the question that a unit puts to the rules under one text.
func (a *Analysis) query(u *Unit, text string) policy.Query {
	q := policy.NewQuery("bash", text)
	q.Home, q.Program, q.Root = a.home, u.File, a.root
	// No pattern covers what is floored, what sets variables and what was found
	// in a text that nobody could read.
	q.ExactOnly = u.Floor != policy.Allow || len(u.Assigns) > 0 || len(a.Problems) > 0
	return q
}

func (a *Analysis) pathQuery(p *PathUse) policy.Query {
	q := policy.NewQuery("path_read", p.aliases...)
	if p.Write {
		q = policy.NewQuery("path_write", p.aliases...)
	}
	if len(q.Values) == 0 {
		q.Values = []string{p.Typed}
	}
	q.Home, q.Root, q.Shapes = a.home, a.root, p.shapes
	// Inside the workspace, and where the direction is only possible, the rules
	// speak and the mode does not: the command's own query spoke for it.
	q.RulesOnly = p.Unproven || p.Path == "" || !outside(p.Path, a.root)
	if a.rulesAlone {
		q.RulesOnly = !p.Write || p.Source != "redirect"
	}
	return q
}

// Queries are the questions of a text for an evaluator that knows nothing of
// shells: every unit on "bash" and every path on "path_read" or "path_write",
// with all floors in force. [Analysis.Judge] is exact where these are only
// careful: it knows when a rule lifts a floor and which spellings count.
func (a *Analysis) Queries() []policy.Query {
	out := make([]policy.Query, 0, len(a.Units)+len(a.Paths))
	for i := range a.Units {
		u := &a.Units[i]
		q := a.query(u, u.Text)
		q.Floor, q.FloorReason = u.Floor, u.FloorReason
		if len(a.Problems) > 0 && q.Floor == policy.Allow {
			q.Floor, q.FloorReason = policy.Ask, a.Problems[0].Kind
		}
		out = append(out, q)
	}
	for i := range a.Paths {
		out = append(out, a.pathQuery(&a.Paths[i]))
	}
	return out
}

// Judge puts every unit and path to decide and returns the most restrictive
// answer with the unit and the rule that gave it. decide speaks for one
// authority; for several, Judge is called for each and the most restrictive
// verdict stands. A text with a problem is never allowed.
func (a *Analysis) Judge(decide func(policy.Query) policy.Decision) Verdict {
	v := Verdict{Action: policy.Allow, Rules: policy.Allow, Results: make([]Result, 0, len(a.Units)+len(a.Paths))}
	opaque := true // only transparent units: then they count
	for i := range a.Units {
		if !a.Units[i].Transparent {
			opaque = false
			break
		}
	}
	worst := -1
	for i := range a.Units {
		r := a.judgeUnit(i, opaque, decide)
		v.Results = append(v.Results, r)
		v.consider(&worst, r)
	}
	for i := range a.Paths {
		r := a.judgePath(i, decide)
		v.Results = append(v.Results, r)
		v.consider(&worst, r)
	}
	if worst >= 0 {
		r := v.Results[worst]
		v.Unit, v.Context, v.Decision, v.Sentinel = r.Unit, r.Context, r.Decision, r.Sentinel
		v.Reason = r.Why
		if v.Reason == "" {
			v.Reason = r.Decision.Reason
		}
	} else {
		v.Action, v.Rules = policy.Ask, policy.Ask
		v.Reason = "nothing in the text could be judged"
	}
	for i := range a.Problems {
		p := &a.Problems[i]
		if p.Action < v.Action || v.Problem == nil && v.Action == policy.Ask && p.Action == policy.Ask {
			if p.Action < v.Action {
				v.Action, v.Unit, v.Context = p.Action, "", ""
				v.Decision = policy.Decision{Action: p.Action, Reason: p.Message, Rule: policy.Rule{Surface: "bash", Action: p.Action, Origin: policy.Origin{Authority: "floor"}}}
			}
			v.Problem, v.Sentinel, v.Reason = p, p.Kind, p.Message
		}
	}
	return v
}

func (v *Verdict) consider(worst *int, r Result) {
	if r.Ignored {
		return
	}
	v.Rules = min(v.Rules, r.Rules)
	if *worst < 0 || r.Action < v.Results[*worst].Action {
		*worst = len(v.Results) - 1
	}
	v.Action = min(v.Action, r.Action)
}

func (a *Analysis) judgeUnit(i int, opaque bool, decide func(policy.Query) policy.Decision) Result {
	u := &a.Units[i]
	d := decide(a.query(u, u.Text))
	r := Result{Unit: u.Text, Surface: "bash", Context: u.Context, Action: d.Action, Rules: d.Action, Decision: d, Index: i}
	unnamed := !names(d, u.head)
	for _, f := range u.Forms {
		if f.unnamed && !unnamed {
			continue
		}
		fd := decide(a.query(u, f.Text))
		if catchAll(fd) {
			continue
		}
		if f.MayAllow && catchAll(d) && fd.Action > r.Action {
			r.Action, r.Rules, r.Decision, r.Form = fd.Action, fd.Action, fd, f.Text
			unnamed = false
			continue
		}
		if got := max(fd.Action, f.Cap); got < r.Action {
			r.Action, r.Rules, r.Decision, r.Form, r.Why = got, got, fd, f.Text, f.Why
		}
	}
	if u.Transparent && !opaque && u.Floor == policy.Allow && catchAll(r.Decision) {
		r.Ignored = true
		return r
	}
	if r.Action != policy.Allow {
		return r
	}
	if granted(r.Decision) {
		return r // exactly this was answered before
	}
	if u.Floor != policy.Allow && !u.lifted(&r) {
		r.Action, r.Sentinel, r.Why = u.Floor, u.FloorReason, u.FloorText
		// A grant may cover the floored unit where no rule does.
		q := a.query(u, u.Text)
		q.Floor, q.FloorReason = u.Floor, u.FloorReason
		if fd := decide(q); granted(fd) && fd.Action == policy.Allow {
			r.Action, r.Decision = policy.Allow, fd
		}
	}
	if r.Action == policy.Allow && !catchAll(r.Decision) && !a.byPath(u, &r, decide) {
		switch {
		case u.Resolution == "missing":
			r.Action, r.Sentinel, r.Why = policy.Ask, floorMissing, u.head+" is not found on the search path"
		case u.Changeable:
			r.Action, r.Sentinel = policy.Ask, floorChangeable
			r.Why = fmt.Sprintf("%s → %s (this session can change it)", u.head, u.File)
		}
	}
	return r
}

// lifted reports whether the author of an allow meant what the floor is for.
func (u *Unit) lifted(r *Result) bool {
	d := r.Decision
	if u.Floor == policy.Deny || catchAll(d) {
		return false
	}
	if literalRule(d, u.asWritten()) && u.exactEnough() {
		return true
	}
	for _, l := range u.Lift {
		if strings.Contains(d.Rule.Pattern, l) {
			return true
		}
	}
	return false
}

// asWritten is the text with everything that the normal form leaves out.
func (u *Unit) asWritten() string {
	for i := range u.Forms {
		if f := &u.Forms[i]; f.MayAllow && f.Why == asWritten {
			return f.Text
		}
	}
	return u.Text
}

const asWritten = "as written"

// exactEnough reports whether the text of the unit says everything about it, so
// that a rule for exactly this text can lift its floor.
func (u *Unit) exactEnough() bool {
	switch u.FloorReason {
	case floorExecutes, floorWrites, floorIndirection:
	case floorInline:
		if len(u.Lift) == 0 {
			return false
		}
	default:
		return false
	}
	for i := range u.words {
		if !u.words[i].lit {
			return false
		}
	}
	return true
}

// byPath reports whether the rule, or a rule for the file itself, names the file
// that a changeable program resolves to.
func (a *Analysis) byPath(u *Unit, r *Result, decide func(policy.Query) policy.Decision) bool {
	if !u.Changeable {
		return false
	}
	if first, _, _ := strings.Cut(r.Decision.Rule.Pattern, " "); strings.Contains(first, "/") {
		return true
	}
	_, rest, found := strings.Cut(u.Text, " ")
	for _, p := range []string{u.File, r.relativeOf(a, u.File)} {
		if p == "" {
			continue
		}
		text := quote(p)
		if found {
			text += " " + rest
		}
		d := decide(a.query(u, text))
		if first, _, _ := strings.Cut(d.Rule.Pattern, " "); d.Action == policy.Allow && strings.Contains(first, "/") && !catchAll(d) {
			r.Decision, r.Form = d, text
			return true
		}
	}
	return false
}

func (r *Result) relativeOf(a *Analysis, file string) string {
	if a.workspace != "" && strings.HasPrefix(file, a.workspace+"/") {
		return "./" + file[len(a.workspace)+1:]
	}
	return ""
}

func (a *Analysis) judgePath(i int, decide func(policy.Query) policy.Decision) Result {
	p := &a.Paths[i]
	q := a.pathQuery(p)
	d := decide(q)
	r := Result{Unit: p.Typed, Surface: q.Surface, Context: p.Source, Action: d.Action, Rules: d.Action, Decision: d, Index: i}
	written := a.rulesAlone && !q.RulesOnly
	if d.Action == policy.Allow || !written && d.Rule.Surface == "*" && d.Rule.Origin.Authority == "policy" {
		// A rule for everything is about tools; the gate of paths asks only
		// where a path is named or lies outside what the session may touch.
		r.Action, r.Rules, r.Ignored = policy.Allow, policy.Allow, catchAll(d)
	}
	if r.Action == policy.Allow && len(p.shapes) == 0 && p.Path != "" && p.Path != "/" && p.Source != "cd" && p.Source != "command" {
		// A rule for everything in a folder is met by who names the folder.
		q.Values, q.RulesOnly = make([]string, 0, len(p.aliases)), true
		for _, s := range p.aliases {
			q.Values = append(q.Values, strings.TrimSuffix(s, "/")+"/")
		}
		if in := decide(q); in.Action < policy.Allow && !catchAll(in) {
			r.Ignored = false
			r.Action, r.Rules, r.Decision, r.Sentinel = policy.Ask, policy.Ask, in, floorFolder
			r.Why = p.Typed + " is a folder of which a rule speaks: " + in.Reason
		}
	}
	if p.Unknown && r.Action == policy.Allow {
		r.Ignored = false
		r.Action, r.Sentinel, r.Why = policy.Ask, floorUnknownPath, "the text does not show which file "+p.Typed+" is"
	}
	return r
}
