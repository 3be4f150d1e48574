package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Authority is the composed recorded authority of one session: its mode as the
// default layer, refined by the policy, held by frontmatter and caps, under the
// hard guards. It is immutable and safe for concurrent use.
type Authority struct {
	session string
	snap    Snapshot
	guards  *Guards
	policy  *ruleset
	// universal is the policy's "*", nil where there is none or a mode was chosen.
	universal *answer
	baseline  *ruleset
	defaults  map[Kind]answer
	limits    []limit
	// invalid names the scope that is present and broken.
	invalid    string
	yolo       bool
	failClosed answer
	yoloAnswer answer
	unknown    answer
}

// limit is a layer that can only restrict.
type limit struct {
	rules     *ruleset
	universal *answer
	kinds     map[Kind]answer
	check     func(q *Query) (answer, bool)
}

// answer is a decision that is ready to be given out.
type answer struct {
	rule   Rule
	reason string
}

func (a answer) decision(value string) Decision {
	return Decision{Action: a.rule.Action, Rule: a.rule, Value: value, Reason: a.reason}
}

func newAnswer(action Action, surface, pattern, reason string, o Origin) answer {
	return answer{Rule{Surface: surface, Pattern: pattern, Action: action, Origin: o}, reason}
}

// Layers is everything that one session's authority is composed from. Only
// Session and Snapshot are needed.
type Layers struct {
	Session  string
	Snapshot Snapshot
	// Policy is the single global policy, nil for none.
	Policy *PolicyFile
	// Guards are the hard guards, nil for none.
	Guards *Guards
	// Frontmatter are the restrictions of the active agent; they can only
	// restrict.
	Frontmatter []*PolicyFile
	Caps        []*Cap
	// InvalidScope names a scope, other than the global policy, that is there and
	// cannot be read: then every allow becomes an ask.
	InvalidScope string
	// Yolo turns every ask into an allow but the human-only ones.
	Yolo bool
	// YoloOrigin says where it was switched on.
	YoloOrigin Origin
}

// NewAuthority composes the authority of a session from its snapshot, the
// policy (nil for none) and caps. The snapshot's own limits count as they are.
func NewAuthority(session string, snap Snapshot, file *PolicyFile, caps ...*Cap) *Authority {
	return Compose(Layers{Session: session, Snapshot: snap, Policy: file, Caps: caps})
}

// Compose makes the authority of a session.
func Compose(in Layers) *Authority {
	s := in.Snapshot
	a := &Authority{session: in.Session, snap: s, guards: in.Guards, yolo: in.Yolo, invalid: in.InvalidScope}
	own := func(o Origin) Origin { o.Session = in.Session; return o }

	if in.Policy != nil {
		a.policy = newRuleset(withSession(in.Policy.Rules, in.Session))
		if u := in.Policy.Universal; u != nil && s.Profile.Source == SourceDefaulted {
			o := own(u.Origin)
			ans := newAnswer(u.Action, "*", "*", ruleReason(u), o)
			a.universal = &ans
		}
		a.baseline = mcpBaseline(in.Policy, in.Session)
	}

	a.defaults = map[Kind]answer{}
	for _, k := range kinds {
		action := s.Profile.Mode.Default(k)
		a.defaults[k] = newAnswer(action, "*", "*", modeReason(s.Profile.Mode, k, action), own(Origin{Authority: "mode"}))
	}
	a.unknown = newAnswer(Deny, "*", "*", "this is no kind of action", own(Origin{Authority: "builtin"}))

	// What the snapshot holds below its mode's table came from a parent or cap.
	lowered := map[Kind]answer{}
	for _, k := range kinds {
		if have := s.Profile.Policy.Kinds[k]; have < s.Profile.Mode.Default(k) {
			lowered[k] = newAnswer(have, "*", "*", fmt.Sprintf("the session's profile says %s for %s", have, k), own(Origin{Authority: "profile"}))
		}
	}
	a.limits = append(a.limits, limit{kinds: lowered})
	a.addPolicyLimits(s.Profile.Policy, own(Origin{Authority: "profile"}), nil)
	a.addProcessLimits(s.Process, own(Origin{Authority: "profile"}), nil)
	a.limits = append(a.limits, limit{check: a.ceilingCheck(own(Origin{Authority: "ceiling"}))})

	for _, f := range in.Frontmatter {
		if f == nil {
			continue
		}
		l := limit{rules: newRuleset(withSession(f.Rules, in.Session))}
		if f.Universal != nil {
			ans := newAnswer(f.Universal.Action, "*", "*", ruleReason(f.Universal), own(f.Universal.Origin))
			l.universal = &ans
		}
		a.limits = append(a.limits, l)
	}
	for _, c := range in.Caps {
		if c != nil {
			a.addCap(c)
		}
	}
	a.failClosed = newAnswer(Ask, "*", "*", fmt.Sprintf("%s is there and cannot be read: what would be allowed is asked", in.InvalidScope), own(Origin{Authority: "fail-closed", File: in.InvalidScope}))
	y := in.YoloOrigin
	y.Authority = "yolo"
	a.yoloAnswer = newAnswer(Allow, "*", "*", "yolo: asks are allowed", own(y))
	return a
}

func withSession(rules []Rule, session string) []Rule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].Origin.Session = session
	}
	return out
}

func modeReason(m Mode, k Kind, action Action) string {
	if m == "" {
		return "the session has no mode: nothing is permitted"
	}
	switch action {
	case Allow:
		return fmt.Sprintf("mode %s allows %s", m, k)
	case Ask:
		return fmt.Sprintf("mode %s asks for %s", m, k)
	}
	return fmt.Sprintf("mode %s denies %s", m, k)
}

// Session returns the session whose authority this is.
func (a *Authority) Session() string { return a.session }

// Snapshot returns the snapshot that the authority was composed from.
func (a *Authority) Snapshot() Snapshot { return a.snap }

// Decide says what the recorded authority of this one session says about q. It
// always answers; a query without values, kind or floor is answered like any
// other, by whatever refuses it.
func (a *Authority) Decide(q Query) Decision {
	if d, ok := a.guards.decide(&q); ok {
		return d
	}
	return a.decide(&q)
}

func (a *Authority) decide(q *Query) Decision {
	d := a.base(q)
	for i := range a.limits {
		if ans, value, ok := a.limits[i].decide(q); ok && ans.rule.Action < d.Action {
			d = ans.decision(value)
		}
	}
	if q.Floor < d.Action {
		d = floorDecision(q, a.session)
	}
	if a.invalid != "" && d.Action == Allow {
		d = a.failClosed.decision(first(q.Values))
	}
	if a.yolo && d.Action == Ask {
		d = a.yoloAnswer.decision(first(q.Values))
	}
	if d.Action != Deny {
		if p, ok := a.guards.protected(q); ok {
			d = p
		}
	}
	return d
}

// base is the mode refined by the policy.
func (a *Authority) base(q *Query) Decision {
	if h, ok := a.explicit(q); ok {
		return h.decision()
	}
	if q.RulesOnly {
		return Decision{
			Action: Allow, Value: first(q.Values), Reason: "no rule speaks about " + q.Surface,
			Rule: Rule{Surface: q.Surface, Pattern: "*", Action: Allow, Origin: Origin{Authority: "builtin", Session: a.session}},
		}
	}
	kind := q.kind()
	ans, ok := a.defaults[kind]
	if !ok {
		return a.unknown.decision(first(q.Values))
	}
	d := ans.decision(first(q.Values))
	if d.Action != Deny {
		if r, ok := a.reach(kind, q, d.Action); ok {
			d = r.decision(first(q.Values))
		}
	}
	// The universal rule stands in for the default mode, it does not narrow it
	// and then widen it again: it is the default layer where nothing was chosen.
	if a.universal != nil {
		d = a.universal.decision(first(q.Values))
	}
	return d
}

// explicit finds the rule that names the query. The baseline stands below the
// policy for each candidate by itself, so that the order of candidates counts
// before it.
func (a *Authority) explicit(q *Query) (hit, bool) {
	if a.baseline == nil || q.Surface != surfaceMCP || q.Aliases {
		return a.policy.lookup(q)
	}
	one := *q
	for i := range q.Values {
		one.Values = q.Values[i : i+1]
		if h, ok := a.policy.lookup(&one); ok {
			return h, true
		}
		if h, ok := a.baseline.lookup(&one); ok {
			return h, true
		}
	}
	return hit{}, false
}

// reach corrects the mode's default by what is open: a read outside the roots is
// asked, a host that the operator opened is not.
func (a *Authority) reach(kind Kind, q *Query, action Action) (answer, bool) {
	own := Origin{Authority: "mode", Session: a.session}
	switch kind {
	case KindFileRead, KindFileWrite:
		if action != Allow {
			return answer{}, false
		}
		can := a.snap.Open.CanRead
		what := "read"
		if kind == KindFileWrite {
			can, what = a.snap.Open.CanWrite, "write"
		}
		for _, p := range q.paths() {
			if !can(p) {
				return newAnswer(Ask, "*", "*", fmt.Sprintf("%s is outside what the session may %s without asking", p, what), own), true
			}
		}
	case KindNetwork:
		if action == Ask && q.Surface == surfaceNetwork && len(q.Values) > 0 {
			if name, port := splitHost(cleanHost(q.Values[0])); a.snap.Open.CanReach(name, port) {
				return newAnswer(Allow, "*", "*", fmt.Sprintf("host %s is open for the session", q.Values[0]), own), true
			}
		}
	}
	return answer{}, false
}

// ceilingCheck denies what no human may open.
func (a *Authority) ceilingCheck(o Origin) func(*Query) (answer, bool) {
	ceiling := a.snap.Ceiling.Canonical()
	deny := func(format string, args ...any) (answer, bool) {
		return newAnswer(Deny, "*", "*", fmt.Sprintf(format, args...), o), true
	}
	return func(q *Query) (answer, bool) {
		switch q.kind() {
		case KindFileRead:
			if !ceiling.ReadAll {
				for _, p := range q.paths() {
					if !ceiling.CanRead(p) {
						return deny("%s is above the session's ceiling: reading it cannot be granted", p)
					}
				}
			}
		case KindFileWrite:
			if !ceiling.WriteAll {
				if len(ceiling.Write) == 0 {
					return deny("the session's ceiling permits no writing")
				}
				for _, p := range q.paths() {
					if !ceiling.CanWrite(p) {
						return deny("%s is above the session's ceiling: writing it cannot be granted", p)
					}
				}
			}
		case KindNetwork:
			if ceiling.Network == NetworkDisabled {
				return deny("the session's ceiling permits no network")
			}
			if q.Surface == surfaceNetwork && len(q.Values) > 0 {
				if name, port := splitHost(cleanHost(q.Values[0])); !ceiling.CanReach(name, port) {
					return deny("host %s is above the session's ceiling", q.Values[0])
				}
			}
		}
		return answer{}, false
	}
}

func (a *Authority) addPolicyLimits(p ToolPolicy, o Origin, at map[string]Origin) {
	where := func(field string) Origin {
		if found, ok := at["profile.policy."+field]; ok {
			found.Session = o.Session
			return found
		}
		return o
	}
	a.addNameLimits(p.AllowTools, p.DenyTools, false, where("allow_tools"), where("deny_tools"))
	a.addNameLimits(p.AllowPaths, p.DenyPaths, true, where("allow_paths"), where("deny_paths"))
}

// addNameLimits adds allow and deny lists of tools or paths.
func (a *Authority) addNameLimits(allow [][]string, deny []string, paths bool, allowAt, denyAt Origin) {
	matches := func(list []string, q *Query) (string, string, bool) {
		for _, p := range list {
			if !paths {
				for _, name := range q.tools() {
					if Match(p, name, "") {
						return p, name, true
					}
				}
				continue
			}
			for _, v := range q.Values {
				if Match(p, v, q.Home) || homePrefix(p) > 0 && q.Home == "" && Match("*"+p[homePrefix(p):], v, "") {
					return p, v, true
				}
			}
		}
		return "", "", false
	}
	speaks := func(q *Query) bool {
		if !paths {
			return true
		}
		k := q.kind()
		return q.Aliases && len(q.Values) > 0 && (k == KindFileRead || k == KindFileWrite)
	}
	surface := "tool"
	if paths {
		surface = surfacePath
	}
	if len(deny) > 0 {
		a.limits = append(a.limits, limit{check: func(q *Query) (answer, bool) {
			if !speaks(q) {
				return answer{}, false
			}
			p, name, ok := matches(deny, q)
			return newAnswer(Deny, surface, p, fmt.Sprintf("%s: %s is on the deny list (%q)", denyAt, name, p), denyAt), ok
		}})
	}
	for _, list := range allow {
		a.limits = append(a.limits, limit{check: func(q *Query) (answer, bool) {
			if !speaks(q) || q.kind() == KindInternal && !paths {
				return answer{}, false
			}
			if paths {
				// Every absolute spelling has to be listed, or a link leads out.
				all := q.paths()
				if len(all) == 0 {
					all = q.Values
				}
				for _, v := range all {
					if !slices.ContainsFunc(list, func(p string) bool { return Match(p, v, q.Home) }) {
						return newAnswer(Deny, surface, "*", fmt.Sprintf("%s: %s is not on the allow list", allowAt, v), allowAt), true
					}
				}
				return answer{}, false
			}
			if _, _, ok := matches(list, q); ok {
				return answer{}, false
			}
			return newAnswer(Deny, surface, "*", fmt.Sprintf("%s: %s is not on the allow list", allowAt, first(q.tools())), allowAt), true
		}})
	}
}

// tools returns the names that a tool list is matched against.
func (q *Query) tools() []string {
	if q.Tool != "" && q.Tool != q.Surface {
		return []string{q.Tool, q.Surface}
	}
	return []string{q.Surface}
}

func (a *Authority) addProcessLimits(p Process, o Origin, at map[string]Origin) {
	where := func(field string) Origin {
		if found, ok := at["process."+field]; ok {
			found.Session = o.Session
			return found
		}
		return o
	}
	if !p.ShellEnabled {
		off := newAnswer(Deny, surfaceBash, "*", "the session has no shell", where("shell_enabled"))
		a.limits = append(a.limits, limit{kinds: map[Kind]answer{KindShellCommand: off}})
	}
	if len(p.DeniedCommands) == 0 && p.AllowedFamilies == nil {
		return
	}
	denied, allowed := slices.Clone(p.DeniedCommands), slices.Clone(p.AllowedFamilies)
	deniedAt, allowedAt := where("denied_commands"), where("allowed_families")
	a.limits = append(a.limits, limit{check: func(q *Query) (answer, bool) {
		if q.kind() != KindShellCommand {
			return answer{}, false
		}
		for _, name := range q.commands() {
			if slices.Contains(denied, name) {
				return newAnswer(Deny, surfaceBash, name, fmt.Sprintf("%s: %s may not be started", deniedAt, name), deniedAt), true
			}
			if p.AllowedFamilies != nil && !slices.Contains(allowed, name) {
				return newAnswer(Deny, surfaceBash, name, fmt.Sprintf("%s: %s is not among the programs that may be started", allowedAt, name), allowedAt), true
			}
		}
		return answer{}, false
	}})
}

// commands returns the base names of the program that a shell query starts.
func (q *Query) commands() []string {
	var out []string
	if q.Program != "" {
		out = append(out, path.Base(q.Program))
	}
	for _, v := range q.Values {
		if words := strings.Fields(v); len(words) > 0 {
			if name := path.Base(words[0]); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

func (a *Authority) addCap(c *Cap) {
	o := Origin{Authority: "cap", Session: a.session, File: c.Name}
	at := func(field string) Origin {
		if found, ok := c.At[field]; ok {
			found.Session = a.session
			return found
		}
		return o
	}
	if p := c.Profile; p != nil {
		lowered := map[Kind]answer{}
		if p.Mode != "" {
			for _, k := range kinds {
				lowered[k] = newAnswer(p.Mode.Default(k), "*", "*", fmt.Sprintf("%s: mode %s for %s", at("profile.mode"), p.Mode, k), at("profile.mode"))
			}
			// The mode as such is in the snapshot; here it binds only sessions
			// whose snapshot was made without the cap.
			if a.snap.Profile.Mode.Rank() <= p.Mode.Rank() {
				clear(lowered)
			}
		}
		if p.Policy != nil {
			for k, action := range maps.All(p.Policy.Kinds) {
				field := "profile.policy.kinds." + string(k)
				lowered[k] = newAnswer(action, "*", "*", fmt.Sprintf("%s: %s for %s", at(field), action, k), at(field))
			}
			a.addPolicyLimits(ToolPolicy{
				AllowTools: p.Policy.AllowTools, DenyTools: p.Policy.DenyTools, AllowPaths: p.Policy.AllowPaths, DenyPaths: p.Policy.DenyPaths,
			}, o, c.At)
		}
		a.limits = append(a.limits, limit{kinds: lowered})
	}
	if p := c.Process; p != nil {
		a.addProcessLimits(Process{
			ShellEnabled: p.ShellEnabled == nil || *p.ShellEnabled, DeniedCommands: p.DeniedCommands, AllowedFamilies: p.AllowedFamilies,
		}, o, c.At)
	}
	if c.Ceiling != nil {
		held := &Authority{session: a.session, snap: Snapshot{Ceiling: c.Ceiling.Top()}}
		a.limits = append(a.limits, limit{check: held.ceilingCheck(at("ceiling"))})
	}
}

func (l *limit) decide(q *Query) (answer, string, bool) {
	if l.check != nil {
		ans, ok := l.check(q)
		return ans, first(q.Values), ok
	}
	var best answer
	value, found := first(q.Values), false
	if l.rules != nil {
		if h, ok := l.rules.lookup(q); ok {
			best, value, found = answer{*h.rule, h.reason}, h.value, true
		} else if l.universal != nil && !q.RulesOnly {
			best, found = *l.universal, true
		}
	}
	if ans, ok := l.kinds[q.kind()]; ok && !q.RulesOnly && (!found || ans.rule.Action < best.rule.Action) {
		best, value, found = ans, first(q.Values), true
	}
	return best, value, found
}

func (h hit) decision() Decision {
	return Decision{Action: h.rule.Action, Rule: *h.rule, Value: h.value, Reason: h.reason}
}

func floorDecision(q *Query, session string) Decision {
	pattern := q.FloorReason
	reason := "asked whatever the rules say: " + pattern
	if pattern == "" {
		pattern, reason = "<floor>", "what cannot be seen through is asked whatever the rules say"
	}
	if q.Floor == Deny {
		reason = "refused whatever the rules say: " + pattern
	}
	return Decision{
		Action: q.Floor, Value: first(q.Values), Reason: reason,
		Rule: Rule{Surface: q.Surface, Pattern: pattern, Action: q.Floor, Origin: Origin{Authority: "floor", Session: session}},
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Decide asks the session's own authority and those of its ancestors, and
// returns the most restrictive answer; of equal ones the nearest session's. A
// hard guard of any of them comes before everything. An empty chain denies.
func Decide(chain []*Authority, q Query) Decision {
	if len(chain) == 0 {
		return Decision{Action: Deny, Value: first(q.Values), Reason: "no session has authority over this", Rule: Rule{
			Surface: q.Surface, Pattern: "*", Action: Deny, Origin: Origin{Authority: "builtin"},
		}}
	}
	var asked *Guards
	for _, a := range chain {
		if a.guards == nil || a.guards == asked {
			continue
		}
		asked = a.guards
		if d, ok := a.guards.decide(&q); ok {
			return d
		}
	}
	best := chain[0].decide(&q)
	human := best.HumanOnly
	for _, a := range chain[1:] {
		d := a.decide(&q)
		human = human || d.HumanOnly
		if d.Action < best.Action {
			best = d
		}
	}
	best.HumanOnly = human && best.Action == Ask
	return best
}

// Judge is Decide and then the grants: an ask that a live grant covers becomes
// an allow. A deny stays, and so does an ask that is for a human only. The grant
// that settled it is returned, nil for none; its vector is the invocation's.
func Judge(chain []*Authority, grants *Grants, q Query, hash string) (Decision, *Grant) {
	d := Decide(chain, q)
	if d.Action != Ask || d.HumanOnly || grants == nil || len(chain) == 0 {
		return d, nil
	}
	g, ok := grants.Covers(chain[0].session, q, hash)
	if !ok {
		return d, nil
	}
	pattern := g.Pattern
	if pattern == "" {
		pattern = "<exact>"
	}
	return Decision{
		Action: Allow, Value: first(q.Values), Reason: fmt.Sprintf("granted before: %s (grant %s of session %s)", pattern, g.ID, g.Session),
		Rule: Rule{Surface: g.Surface, Pattern: pattern, Action: Allow, Origin: Origin{Authority: "grant", Session: g.Session}},
	}, &g
}

// Mentions says whether any rule of this authority that speaks about the
// surface asks or denies. Where a mode allows everything, text that cannot be
// seen through is allowed unless there is one.
func (a *Authority) Mentions(surface string) (ask, deny bool) {
	add := func(s *ruleset) {
		x, y := s.mentions(surface)
		ask, deny = ask || x, deny || y
	}
	add(a.policy)
	if a.guards != nil {
		add(a.guards.set)
	}
	if a.universal != nil {
		ask = ask || a.universal.rule.Action == Ask
		deny = deny || a.universal.rule.Action == Deny
	}
	kind := SurfaceKind(surface)
	for i := range a.limits {
		l := &a.limits[i]
		add(l.rules)
		if l.universal != nil {
			ask = ask || l.universal.rule.Action == Ask
			deny = deny || l.universal.rule.Action == Deny
		}
		if ans, ok := l.kinds[kind]; ok {
			ask = ask || ans.rule.Action == Ask
			deny = deny || ans.rule.Action == Deny
		}
	}
	if kind == KindShellCommand && (len(a.snap.Process.DeniedCommands) > 0 || a.snap.Process.AllowedFamilies != nil) {
		deny = true
	}
	return ask, deny
}
