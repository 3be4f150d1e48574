package policy

import (
	"cmp"
	"slices"
)

// Explanation is a decision with everything that was weighed.
type Explanation struct {
	Query    Explained         `json:"query"`
	Decision Decision          `json:"decision"`
	Sessions []SessionExplains `json:"sessions"`
}

// Explained is the query as it was judged.
type Explained struct {
	Surface string   `json:"surface"`
	Kind    Kind     `json:"kind"`
	Values  []string `json:"values"`
	Floor   Action   `json:"floor"`
}

// SessionExplains is what one session's authority weighed.
type SessionExplains struct {
	Session  string   `json:"session"`
	Mode     Mode     `json:"mode"`
	Decision Decision `json:"decision"`
	// Layers in the order in which they were asked; only those that spoke.
	Layers []LayerExplains `json:"layers"`
}

// LayerExplains is what one layer said.
type LayerExplains struct {
	// Layer is the authority: "hard-guard", "policy", "baseline", "mode", "cap"…
	Layer string `json:"layer"`
	// Verdict is what the layer said. A hard guard's allow means "not blocked".
	Verdict Action `json:"verdict"`
	Reason  string `json:"reason"`
	// Decided says that the session's answer is this layer's.
	Decided bool `json:"decided,omitempty"`
	// Rules are all that matched, the one that counts first, then those that lost
	// by rank.
	Rules []MatchedRule `json:"rules,omitempty"`
}

// MatchedRule is a rule that matched, and what it matched.
type MatchedRule struct {
	Rule  Rule   `json:"rule"`
	Value string `json:"value"`
	// Lost says why the rule does not count, "" for the one that does.
	Lost string `json:"lost,omitempty"`
}

// Explain is Decide with every layer and every matching rule, also those that
// lost. It is for humans: it costs as much as a scan of all rules.
func Explain(chain []*Authority, q Query) Explanation {
	e := Explanation{
		Query:    Explained{Surface: q.Surface, Kind: q.kind(), Values: q.Values, Floor: q.Floor},
		Decision: Decide(chain, q),
	}
	for _, a := range chain {
		e.Sessions = append(e.Sessions, a.explain(q))
	}
	return e
}

func (a *Authority) explain(q Query) SessionExplains {
	s := SessionExplains{Session: a.session, Mode: a.snap.Profile.Mode, Decision: a.Decide(q)}
	add := func(layer string, h hit, rules []MatchedRule) {
		s.Layers = append(s.Layers, LayerExplains{Layer: layer, Verdict: h.rule.Action, Reason: h.reason, Rules: rules})
	}
	if a.guards != nil {
		if h, ok := a.guards.set.lookup(&q); ok {
			add("hard-guard", h, a.guards.set.matching(&q))
		}
	}
	asking := question{Query: &q}
	if h, ok := a.explicit(&asking); ok {
		set := a.policy
		if h.rule.Origin.Authority == "baseline" {
			set = a.baseline
		}
		add(h.rule.Origin.Authority, h, set.matching(&q))
	} else {
		h := a.base(&asking)
		add(h.rule.Origin.Authority, h, nil)
	}
	for i := range a.limits {
		if h, ok := a.limits[i].decide(&q); ok {
			add(h.rule.Origin.Authority, h, a.limits[i].rules.matching(&q))
		}
	}
	if q.Floor != Allow {
		add("floor", floorHit(&q), nil)
	}
	if a.invalid != "" {
		add("fail-closed", a.failClosed.hit(first(q.Values)), nil)
	}
	if a.yolo {
		add("yolo", a.yoloAnswer.hit(first(q.Values)), nil)
	}
	if h, ok := a.guards.protected(&q); ok {
		add("protected", h, nil)
	}
	for i := range s.Layers {
		l := &s.Layers[i]
		if l.Verdict == s.Decision.Action && l.Reason == s.Decision.Reason {
			l.Decided = true
			break
		}
	}
	return s
}

// matching lists every rule that matches, the best first.
func (s *ruleset) matching(q *Query) []MatchedRule {
	if s == nil {
		return nil
	}
	type found struct {
		m     MatchedRule
		glob  glob
		wild  bool
		order int
		value int
	}
	var all []found
	for i, r := range s.rules {
		wild := r.Surface != q.Surface
		if wild && !(q.Surface == surfacePath && isDirection(r.Surface)) && !Match(r.Surface, q.Surface, "") {
			continue
		}
		g, ok := compilePattern(r.Pattern, q.Home, q.Fold && isPathSurface(r.Surface))
		if !ok && r.Action != Allow {
			g, ok = compileGlob("", "*"+r.Pattern[homePrefix(r.Pattern):], false)
		}
		if !ok {
			continue
		}
		if len(q.Shapes) > 0 {
			if slices.ContainsFunc(q.Shapes, g.meets) {
				all = append(all, found{MatchedRule{Rule: r, Value: first(q.Values)}, g, wild, i, 0})
			}
			continue
		}
		for n, v := range q.Values {
			if q.Fold && isPathSurface(r.Surface) {
				v = foldPath(v)
			}
			if !g.match(v) {
				continue
			}
			f := found{MatchedRule{Rule: r, Value: q.Values[n]}, g, wild, i, n}
			if q.Aliases {
				f.value = 0 // all spellings are equal
			}
			all = append(all, f)
			break
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		if a.value != b.value {
			return a.value - b.value
		}
		if a.wild != b.wild {
			if a.wild {
				return 1
			}
			return -1
		}
		return cmp.Or(a.glob.compare(&b.glob), cmp.Compare(a.m.Rule.Action, b.m.Rule.Action), cmp.Compare(b.order, a.order))
	})
	out := make([]MatchedRule, len(all))
	for i, f := range all {
		if i > 0 {
			best := all[0]
			switch {
			case f.value != best.value:
				f.m.Lost = "matches a later candidate"
			case f.wild && !best.wild:
				f.m.Lost = "the other rule names the surface"
			case best.glob.compare(&f.glob) != 0:
				f.m.Lost = "less specific"
			case f.m.Rule.Action != best.m.Rule.Action:
				f.m.Lost = "as specific, less restrictive"
			default:
				f.m.Lost = "says the same earlier"
			}
		}
		out[i] = f.m
	}
	return out
}

func isDirection(surface string) bool {
	return surface == surfacePathRead || surface == surfacePathWrite
}
