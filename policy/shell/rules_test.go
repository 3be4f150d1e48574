package shell

import (
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// ruleSet is an evaluator for tests: patterns of one authority, most specific
// wins.
type ruleSet struct {
	bash, read, write []policy.Rule
	home              string
	// roots, when set, make every path outside an ask.
	roots    string
	follow   func(string) string
	fallback policy.Action
}

func newRules(spec map[string]string) *ruleSet {
	rs := &ruleSet{home: "/home/u", fallback: policy.Ask}
	for pat, act := range spec {
		rs.bash = append(rs.bash, testRule("bash", pat, act))
	}
	return rs
}

func testRule(surface, pat, act string) policy.Rule {
	a, err := policy.ParseAction(act)
	if err != nil {
		panic(err)
	}
	return policy.Rule{Surface: surface, Pattern: pat, Action: a, Origin: policy.Origin{Authority: "policy"}}
}

// wildMatch matches * and ? against the whole value; a trailing " *" is optional.
func wildMatch(pat, s string) bool {
	if p, ok := strings.CutSuffix(pat, " *"); ok && !strings.HasSuffix(p, "*") && wild(p, s) {
		return true
	}
	return wild(pat, s)
}

func wild(p, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

func specificity(p string) (exact bool, lits, stars int) {
	stars = strings.Count(p, "*")
	lits = len(p) - stars - strings.Count(p, "?")
	return stars == 0 && !strings.Contains(p, "?"), lits, stars
}

func better(a, b policy.Rule) bool {
	ea, la, sa := specificity(a.Pattern)
	eb, lb, sb := specificity(b.Pattern)
	switch {
	case ea != eb:
		return ea
	case la != lb:
		return la > lb
	case sa != sb:
		return sa < sb
	}
	return a.Action < b.Action
}

func (rs *ruleSet) decide(q policy.Query) policy.Decision {
	list := rs.bash
	switch q.Surface {
	case "path_read":
		list = rs.read
	case "path_write":
		list = rs.write
	}
	var best *policy.Rule
	value := ""
	for i := range list {
		pat := list[i].Pattern
		if strings.HasPrefix(pat, "~/") {
			pat = rs.home + pat[1:]
		}
		for _, v := range q.Values {
			if wildMatch(pat, v) && (best == nil || better(list[i], *best)) {
				best, value = &list[i], v
			}
		}
	}
	if q.Aliases && rs.roots != "" {
		p := q.Values[0]
		if rs.follow != nil {
			p = rs.follow(p)
		}
		if strings.HasPrefix(p, "/") && p != rs.roots && !strings.HasPrefix(p, rs.roots+"/") || !slices.ContainsFunc(q.Values, func(s string) bool { return strings.HasPrefix(s, "/") }) {
			return policy.Decision{Action: policy.Ask, Rule: policy.Rule{Surface: q.Surface, Pattern: "outside", Action: policy.Ask, Origin: policy.Origin{Authority: "policy"}}, Value: p, Reason: "outside the roots"}
		}
	}
	if best == nil {
		act := rs.fallback
		return policy.Decision{Action: act, Rule: policy.Rule{Surface: q.Surface, Pattern: "*", Action: act, Origin: policy.Origin{Authority: "mode"}}, Reason: "default"}
	}
	act := best.Action
	if act == policy.Allow && q.Floor < act {
		act = q.Floor
	}
	return policy.Decision{Action: act, Rule: *best, Value: value, Reason: "rule " + best.Pattern}
}
