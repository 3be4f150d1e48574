package policy

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// ruleset is a list of rules made ready for questions. It is immutable and safe
// for concurrent use; what depends on the home directory is compiled on the
// first question with that home.
type ruleset struct {
	rules    []Rule
	hasHome  bool
	plain    *compiled // what a question without folding and home needs
	variants atomic.Pointer[[]variant]
	mu       sync.Mutex
}

type variant struct {
	home string
	fold bool
	c    *compiled
}

// maxVariants bounds how many homes one ruleset remembers.
const maxVariants = 8

// hit is a rule that matched.
type hit struct {
	rule   *Rule
	reason string
	value  string
	// partial: of some names of a query's shapes no rule speaks.
	partial bool
}

func newRuleset(rules []Rule) *ruleset {
	s := &ruleset{rules: rules}
	for i := range rules {
		s.hasHome = s.hasHome || homePrefix(rules[i].Pattern) > 0
	}
	if !s.hasHome {
		s.plain = compileRules(rules, "", false)
	}
	return s
}

func (s *ruleset) compiled(q *Query) *compiled {
	if s.plain != nil && !q.Fold {
		return s.plain
	}
	if known := s.variants.Load(); known != nil {
		for _, v := range *known {
			if v.home == q.Home && v.fold == q.Fold {
				return v.c
			}
		}
	}
	c := compileRules(s.rules, q.Home, q.Fold)
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []variant
	if known := s.variants.Load(); known != nil {
		all = *known
	}
	if len(all) >= maxVariants {
		all = all[1:]
	}
	all = append(slices.Clone(all), variant{q.Home, q.Fold, c})
	s.variants.Store(&all)
	return c
}

// compiled is a ruleset for one home.
type compiled struct {
	exact map[string]*table
	// wild holds the surfaces that are patterns, the most specific first.
	wild []wildSurface
}

type wildSurface struct {
	glob  glob
	table *table
}

// entry is one compiled rule.
type entry struct {
	glob   glob
	rule   *Rule
	order  int
	reason string
}

// table holds the rules of one surface, the most specific first.
type table struct {
	entries []entry
	index   index
}

func compileRules(rules []Rule, home string, fold bool) *compiled {
	c := &compiled{exact: map[string]*table{}}
	wild := map[string]*table{}
	for i := range rules {
		r := &rules[i]
		pathFold := fold && isPathSurface(r.Surface)
		g, ok := compilePattern(r.Pattern, home, pathFold)
		if !ok {
			if r.Action == Allow {
				continue
			}
			// The home is unknown: a rule that refuses takes any folder for it.
			if g, ok = compileGlob("", "*"+r.Pattern[homePrefix(r.Pattern):], pathFold); !ok {
				continue
			}
		}
		where := c.exact
		if strings.ContainsAny(r.Surface, "*?") {
			where = wild
		}
		t := where[r.Surface]
		if t == nil {
			t = &table{}
			where[r.Surface] = t
		}
		t.entries = append(t.entries, entry{glob: g, rule: r, order: i, reason: ruleReason(r)})
	}
	for _, t := range c.exact {
		t.finish()
	}
	for surface, t := range wild {
		t.finish()
		g, _ := compileGlob("", surface, false)
		c.wild = append(c.wild, wildSurface{g, t})
	}
	slices.SortFunc(c.wild, func(a, b wildSurface) int {
		if r := a.glob.compare(&b.glob); r != 0 {
			return r
		}
		return a.table.entries[0].order - b.table.entries[0].order
	})
	return c
}

// finish sorts so that the first match is the answer: by specificity; at equal
// specificity the more restrictive action; of equal ones the later line.
func (t *table) finish() {
	slices.SortFunc(t.entries, func(a, b entry) int {
		if r := a.glob.compare(&b.glob); r != 0 {
			return r
		}
		if a.rule.Action != b.rule.Action {
			return int(a.rule.Action) - int(b.rule.Action)
		}
		return b.order - a.order
	})
	t.index = newIndex(t.entries)
}

func ruleReason(r *Rule) string {
	var b strings.Builder
	b.WriteString(r.Origin.String())
	b.WriteString(": ")
	switch r.Action {
	case Allow:
		b.WriteString("allowed by ")
	case Ask:
		b.WriteString("to be asked by ")
	default:
		b.WriteString("denied by ")
	}
	b.WriteString(r.Surface)
	b.WriteString(" ")
	b.WriteString(strconv.Quote(r.Pattern))
	if r.Reason != "" {
		// One line, whatever the file has.
		b.WriteString(": ")
		b.WriteString(strings.Join(strings.Fields(r.Reason), " "))
	}
	return b.String()
}

// find returns the most specific rule of the surface that matches a value.
func (t *table) find(values []string, aliases, fold bool) (hit, bool) {
	best, bestValue := len(t.entries), ""
	for _, v := range values {
		folded := v
		if fold {
			folded = foldPath(v)
		}
		if i := t.index.find(t.entries, folded, best); i < best {
			best, bestValue = i, v
			if !aliases {
				break
			}
		}
	}
	if best == len(t.entries) {
		return hit{}, false
	}
	e := &t.entries[best]
	return hit{rule: e.rule, reason: e.reason, value: bestValue}, true
}

// surface answers a question about one surface. Rules that name it come before
// rules whose surface is a pattern.
func (c *compiled) surface(surface string, q *Query, values []string) (hit, bool) {
	fold := q.Fold && isPathSurface(surface)
	if t := c.exact[surface]; t != nil {
		if h, ok := t.find(values, q.Aliases, fold); ok {
			return h, true
		}
	}
	for i := range c.wild {
		w := &c.wild[i]
		if !w.glob.match(surface) {
			continue
		}
		h, ok := w.table.find(values, q.Aliases, false)
		if !ok {
			continue
		}
		// Another surface pattern of the same rank may say something else.
		for j := i + 1; j < len(c.wild) && w.glob.compare(&c.wild[j].glob) == 0; j++ {
			if !c.wild[j].glob.match(surface) {
				continue
			}
			if other, ok := c.wild[j].table.find(values, q.Aliases, false); ok {
				h = moreSpecific(h, other)
			}
		}
		return h, true
	}
	return hit{}, false
}

// moreSpecific picks between hits of two tables as one table would.
func moreSpecific(a, b hit) hit {
	ga, _ := compileGlob("", a.rule.Pattern, false)
	gb, _ := compileGlob("", b.rule.Pattern, false)
	switch r := ga.compare(&gb); {
	case r < 0:
		return a
	case r > 0:
		return b
	case b.rule.Action <= a.rule.Action:
		return b
	}
	return a
}

// lookup answers a question about a query: the candidates in order, or all the
// aliases at once; a path family is both of its directions, the more restrictive.
func (s *ruleset) lookup(q *Query) (hit, bool) {
	if s == nil || len(s.rules) == 0 {
		return hit{}, false
	}
	c := s.compiled(q)
	if q.Surface != surfacePath {
		return c.candidates(q.Surface, q)
	}
	r, okR := c.candidates(surfacePathRead, q)
	w, okW := c.candidates(surfacePathWrite, q)
	switch {
	case !okW, okR && r.rule.Action < w.rule.Action:
		return r, okR
	}
	return w, okW
}

func (c *compiled) candidates(surface string, q *Query) (hit, bool) {
	if len(q.Shapes) > 0 {
		return c.shapes(surface, q)
	}
	if q.Aliases || len(q.Values) < 2 {
		return c.surface(surface, q, q.Values)
	}
	for i := range q.Values {
		if h, ok := c.surface(surface, q, q.Values[i:i+1]); ok {
			return h, true
		}
	}
	return hit{}, false
}

// mentions says whether any rule that could speak about the surface asks or
// denies.
func (s *ruleset) mentions(surface string) (ask, deny bool) {
	if s == nil {
		return false, false
	}
	for i := range s.rules {
		r := &s.rules[i]
		if r.Surface != surface && !(surface == surfacePath && isPathSurface(r.Surface)) && !Match(r.Surface, surface, "") {
			continue
		}
		ask = ask || r.Action == Ask
		deny = deny || r.Action == Deny
	}
	return ask, deny
}
