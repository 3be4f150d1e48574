package policy

import (
	"fmt"
	"slices"
)

// Widening says what the new policy may allow beyond the old one: one line for
// each rule that might. None means that it can only restrict, in every mode and
// for every query; then it may take effect without a human. It errs to saying
// something. nil stands for no policy.
func Widening(before, after *PolicyFile) []string {
	var out []string
	if before == nil {
		before = &PolicyFile{}
	}
	if after == nil {
		after = &PolicyFile{}
	}
	out = append(out, widening(before.Rules, after.Rules)...)
	u, v := before.Universal, after.Universal
	switch {
	case u == nil && v != nil && v.Action == Allow:
		out = append(out, fmt.Sprintf("%s: \"*\" is allow now", v.Origin))
	case u != nil && v == nil && u.Action != Allow:
		out = append(out, fmt.Sprintf("%s: \"*\" was %s and is gone", u.Origin, u.Action))
	case u != nil && v != nil && v.Action > u.Action:
		out = append(out, fmt.Sprintf("%s: \"*\" was %s and is %s now", v.Origin, u.Action, v.Action))
	case u != nil && u.Action == Deny && len(out) == 0:
		for _, r := range after.Rules {
			if r.Action == Ask && !slices.ContainsFunc(before.Rules, func(o Rule) bool { return o.Surface == r.Surface && o.Pattern == r.Pattern }) {
				out = append(out, fmt.Sprintf("%s: %s \"%s\" is ask now, what no rule names is denied", r.Origin, r.Surface, r.Pattern))
			}
		}
	}
	return out
}

// WideningGuards is Widening for hard guards and protected writes.
func WideningGuards(before, after *Guards) []string {
	if before == nil {
		before = &Guards{}
	}
	if after == nil {
		after = &Guards{}
	}
	out := widening(before.Rules, after.Rules)
	for _, r := range before.ProtectedWrites {
		if !slices.ContainsFunc(after.ProtectedWrites, func(n Rule) bool { return n.Pattern == r.Pattern }) {
			out = append(out, fmt.Sprintf("%s: writes to %q were for humans only", r.Origin, r.Pattern))
		}
	}
	return out
}

type ruleKey struct{ surface, pattern string }

func widening(before, after []Rule) []string {
	// Of rules for the same thing the most restrictive counts.
	collect := func(rules []Rule) (map[ruleKey]Rule, []ruleKey) {
		m, order := map[ruleKey]Rule{}, []ruleKey(nil)
		for _, r := range rules {
			k := ruleKey{r.Surface, r.Pattern}
			had, there := m[k]
			if !there {
				order = append(order, k)
			}
			if !there || r.Action < had.Action {
				m[k] = r
			}
		}
		return m, order
	}
	was, wasOrder := collect(before)
	is, isOrder := collect(after)
	var out []string
	for _, k := range wasOrder {
		r := was[k]
		// What an allow allowed can be nothing more than allowed without it.
		if _, there := is[k]; !there && r.Action != Allow {
			out = append(out, fmt.Sprintf("%s: %s \"%s\" was %s and is gone", r.Origin, k.surface, k.pattern, r.Action))
		}
	}
	for _, k := range isOrder {
		r := is[k]
		old, there := was[k]
		switch {
		case there && r.Action > old.Action:
			out = append(out, fmt.Sprintf("%s: %s \"%s\" was %s and is %s now", r.Origin, k.surface, k.pattern, old.Action, r.Action))
		case there, r.Action == Deny:
		case r.Action == Allow:
			out = append(out, fmt.Sprintf("%s: %s \"%s\" is allow now", r.Origin, k.surface, k.pattern))
		default:
			// An ask that is new may take the place of a deny that matched.
			for _, o := range wasOrder {
				if was[o].Action == Deny && surfacesMeet(k.surface, o.surface) && mayDisplace(k, o) {
					out = append(out, fmt.Sprintf("%s: %s \"%s\" is ask now and may take the place of the deny %s \"%s\"", r.Origin, k.surface, k.pattern, was[o].Origin, o.pattern))
					break
				}
			}
		}
	}
	return out
}

// surfacesMeet says whether some surface could be named by both.
func surfacesMeet(a, b string) bool {
	return a == b || Match(a, b, "") || Match(b, a, "") || MayOverlap(a, b)
}

// mayDisplace says whether a rule for k could decide where one for o did. On
// surfaces with candidates an earlier candidate comes before any rank; among
// spellings of one thing the rank decides, and the patterns need not overlap.
func mayDisplace(k, o ruleKey) bool {
	if !isPathSurface(k.surface) {
		return true
	}
	if k.surface != o.surface {
		return CompareSpecificity(k.surface, o.surface) <= 0
	}
	// With a home that is spelled out the rank may be another one.
	return homePrefix(k.pattern) > 0 || homePrefix(o.pattern) > 0 || CompareSpecificity(k.pattern, o.pattern) <= 0
}

// LayerView is one layer of an authority as it is shown to a human.
type LayerView struct {
	// Layer is the authority: "hard-guard", "mode", "policy", "cap"…
	Layer string `json:"layer"`
	// Effect says in one sentence what the layer can do.
	Effect string `json:"effect"`
	Rules  []Rule `json:"rules,omitempty"`
}

// Show returns the layers of the authority in the order in which they count,
// each rule with its origin.
func (a *Authority) Show() []LayerView {
	var out []LayerView
	add := func(layer, effect string, rules []Rule) {
		if len(rules) > 0 {
			out = append(out, LayerView{layer, effect, rules})
		}
	}
	if a.guards != nil {
		add("hard-guard", "a deny is final; an allow means not blocked", a.guards.Rules)
	}
	if a.policy != nil {
		add("policy", "refines the mode for the surfaces that it names", a.policy.rules)
	}
	if a.universal != nil {
		add("policy", "the default, since no mode was chosen", []Rule{a.universal.rule})
	}
	if a.baseline != nil {
		add("baseline", "listing servers is allowed where a use of them is", a.baseline.rules)
	}
	var mode []Rule
	for i, d := range a.defaults {
		r := d.rule
		r.Surface = string(kinds[i])
		mode = append(mode, r)
	}
	add("mode", "what no rule names, by kind of action", mode)
	for i := range a.limits {
		l := &a.limits[i]
		if l.rules != nil {
			add("frontmatter", "can only restrict", l.rules.rules)
		}
		if l.universal != nil {
			add("frontmatter", "can only restrict what it does not name", []Rule{l.universal.rule})
		}
		var rules []Rule
		for k, ans := range l.kinds {
			if ans != nil {
				r := ans.rule
				r.Surface = string(kinds[k])
				rules = append(rules, r)
			}
		}
		if len(rules) > 0 {
			add(rules[0].Origin.Authority, "can only restrict, by kind of action", rules)
		}
		if l.check != nil && l.view.Effect != "" {
			out = append(out, l.view)
		}
	}
	if a.invalid != "" {
		add("fail-closed", "what would be allowed is asked, since "+a.invalid+" cannot be read", []Rule{a.failClosed.rule})
	}
	if a.yolo {
		add("yolo", "what would be asked is allowed, but what only a human may allow", []Rule{a.yoloAnswer.rule})
	}
	if a.guards != nil {
		add("protected", "only a human may let these be written", a.guards.ProtectedWrites)
	}
	return out
}
