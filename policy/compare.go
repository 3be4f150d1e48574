package policy

import (
	"fmt"
	"reflect"
	"strings"
)

// Widening says what a policy that replaces another may allow that the other did
// not, a line for each reason; nil means that it provably only restricts. Either
// may be nil, for no file.
//
// The proof is a simple one, so that it can be believed: a new deny lowers what it
// matches and nothing else; an allow that is gone leaves something that is no more
// than an allow; an allow that became an ask or a deny, and an ask that became a
// deny, are lower where they stood. A new ask may stand in front of a deny, so it
// counts as restricting only where no deny could speak about its surface.
// Everything else is taken for more.
func (f *PolicyFile) Widening(next *PolicyFile) []string {
	if f == nil {
		f = &PolicyFile{}
	}
	if next == nil {
		next = &PolicyFile{}
	}
	out := rulesWidening(f.Rules, next.Rules, f.Universal)
	switch a, b := f.Universal, next.Universal; {
	case a == nil && b == nil, a != nil && b != nil && b.Action <= a.Action:
	case b == nil:
		out = append(out, fmt.Sprintf(`the rule "*": %s is gone (%s)`, a.Action, a.Origin))
	default:
		out = append(out, fmt.Sprintf(`"*": %s (%s)`, b.Action, b.Origin))
	}
	return out
}

// restrictionWidening is Widening for a file that can only take away: without it there is
// no limit, so that a universal rule which comes in restricts.
func (f *PolicyFile) restrictionWidening(next *PolicyFile) []string {
	switch {
	case f == nil:
		return nil
	case next == nil:
		return []string{fmt.Sprintf("the restrictions of %s are gone", f.Name)}
	}
	out := rulesWidening(f.Rules, next.Rules, f.Universal)
	if a, b := f.Universal, next.Universal; a != nil && (b == nil || b.Action > a.Action) {
		out = append(out, fmt.Sprintf(`the rule "*": %s is gone or says more (%s)`, a.Action, a.Origin))
	}
	return out
}

type ruleKey struct{ surface, pattern string }

// collect keeps of rules of one surface and pattern the one that counts.
func collect(rules []Rule) (map[ruleKey]Rule, []ruleKey) {
	m := map[ruleKey]Rule{}
	var order []ruleKey
	for _, r := range rules {
		k := ruleKey{r.Surface, r.Pattern}
		have, there := m[k]
		if !there {
			order = append(order, k)
		}
		if !there || r.Action < have.Action {
			m[k] = r
		}
	}
	return m, order
}

func rulesWidening(before, after []Rule, universal *Rule) []string {
	old, oldOrder := collect(before)
	now, nowOrder := collect(after)
	var out []string
	for _, k := range oldOrder {
		if _, there := now[k]; !there && old[k].Action != Allow {
			out = append(out, fmt.Sprintf("%s %q: %s is gone (%s)", k.surface, k.pattern, old[k].Action, old[k].Origin))
		}
	}
	for _, k := range nowOrder {
		r := now[k]
		have, there := old[k]
		switch {
		case there && r.Action <= have.Action:
			continue
		case there:
			out = append(out, fmt.Sprintf("%s %q: %s instead of %s (%s)", k.surface, k.pattern, r.Action, have.Action, r.Origin))
			continue
		case r.Action == Deny && (k.pattern == "*" || strings.Trim(k.pattern, "*? ") != ""):
			continue
		case r.Action == Ask && !deniesNear(before, k.surface, universal):
			continue
		}
		out = append(out, fmt.Sprintf("%s %q: %s (%s)", k.surface, k.pattern, r.Action, r.Origin))
	}
	return out
}

// deniesNear says whether a deny could speak about what the surface speaks about,
// under whatever spelling or candidate.
func deniesNear(rules []Rule, surface string, universal *Rule) bool {
	if universal != nil && universal.Action == Deny {
		return true
	}
	for _, r := range rules {
		if r.Action == Deny && (r.Surface == surface || isPathSurface(r.Surface) && isPathSurface(surface) || MayOverlap(r.Surface, surface)) {
			return true
		}
	}
	return false
}

// Widening says what hard guards that replace others may let through; nil means
// nothing. Either may be nil.
func (g *Guards) Widening(next *Guards) []string {
	if g == nil {
		return nil
	}
	if next == nil {
		next = &Guards{}
	}
	var out []string
	old, oldOrder := collect(g.Rules)
	now, nowOrder := collect(next.Rules)
	for _, k := range oldOrder {
		if r, there := now[k]; old[k].Action == Deny && (!there || r.Action != Deny) {
			out = append(out, fmt.Sprintf("hard guard %s %q is gone (%s)", k.surface, k.pattern, old[k].Origin))
		}
	}
	for _, k := range nowOrder {
		if _, there := old[k]; !there && now[k].Action != Deny {
			out = append(out, fmt.Sprintf("hard guard %s %q: not blocked (%s)", k.surface, k.pattern, now[k].Origin))
		}
	}
	kept := map[string]bool{}
	for _, r := range next.ProtectedWrites {
		kept[r.Pattern] = true
	}
	for _, r := range g.ProtectedWrites {
		if !kept[r.Pattern] {
			out = append(out, fmt.Sprintf("writes to %q are not for a human only any more (%s)", r.Pattern, r.Origin))
		}
	}
	return out
}

// Widening says what an agent's file that replaces another may allow; nil means
// nothing. Either may be nil, for no file.
func (a *Agent) Widening(next *Agent) []string {
	if a == nil {
		return nil
	}
	if next == nil {
		next = &Agent{Enabled: true}
	}
	out := a.Permission.restrictionWidening(next.Permission)
	if !a.Enabled && next.Enabled {
		out = append(out, "the agent may be started again")
	}
	return out
}

// Widening says what settings that replace others may allow in a tree that runs;
// nil means nothing. What only a new tree reads (roots, hosts, capabilities, the
// longest duration) does not count. Either may be nil.
func (s *Settings) Widening(next *Settings) []string {
	if s == nil {
		s = &Settings{}
	}
	if next == nil {
		next = &Settings{}
	}
	var out []string
	if next.Yolo && !s.Yolo {
		out = append(out, fmt.Sprintf("yolo: every ask is allowed (%s)", next.YoloOrigin))
	}
	if next.AllowAlways && !s.AllowAlways {
		out = append(out, "allowAlways: an answer may write a rule into the policy")
	}
	if !reflect.DeepEqual(plainLinks(s.Links), plainLinks(next.Links)) {
		out = append(out, "the authorizers are others")
	}
	if !reflect.DeepEqual(plainReview(s.Review), plainReview(next.Review)) {
		out = append(out, "the model reviewer is another")
	}
	return out
}

// plainLinks leaves out where the links stand.
func plainLinks(list []LinkSettings) []LinkSettings {
	out := make([]LinkSettings, len(list))
	for i, l := range list {
		l.Origin = Origin{}
		out[i] = l
	}
	return out
}

func plainReview(r *ReviewSettings) ReviewSettings {
	if r == nil {
		return ReviewSettings{}
	}
	out := *r
	out.Origin = Origin{}
	return out
}
