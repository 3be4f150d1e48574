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
	defaults  [len(kinds)]*answer
	limits    []limit
	// invalid names the scope that is present and broken.
	invalid    string
	yolo       bool
	failClosed *answer
	yoloAnswer *answer
	unknown    *answer
}

// limit is a layer that can only restrict.
type limit struct {
	rules     *ruleset
	universal *answer
	// kinds has an answer for each kind, nil where it does not speak; it is nil
	// where it speaks about none.
	kinds []*answer
	check func(q *Query) *answer
	// view is how a check is shown.
	view LayerView
}

// answer is a decision that is ready to be given out.
type answer struct {
	rule   Rule
	reason string
}

func (a *answer) hit(value string) hit { return hit{rule: &a.rule, reason: a.reason, value: value} }

func newAnswer(action Action, surface, pattern, reason string, o Origin) *answer {
	return &answer{Rule{Surface: surface, Pattern: pattern, Action: action, Origin: o}, reason}
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
		a.policy = in.Policy.ruleset()
		if u := in.Policy.Universal; u != nil && s.Profile.Source == SourceDefaulted {
			o := own(u.Origin)
			ans := newAnswer(u.Action, "*", "*", ruleReason(u), o)
			a.universal = ans
		}
		a.baseline = mcpBaseline(in.Policy, in.Session)
	}

	for i, k := range kinds {
		action := s.Profile.Mode.Default(k)
		a.defaults[i] = newAnswer(action, "*", "*", modeReason(s.Profile.Mode, k, action), own(Origin{Authority: "mode"}))
	}
	a.unknown = newAnswer(Deny, "*", "*", "this is no kind of action", own(Origin{Authority: "builtin"}))

	if s.Profile.Mode.Rank() == 0 {
		// Rules refine a mode; where there is none they have nothing to refine.
		none := newAnswer(Deny, "*", "*", modeReason(s.Profile.Mode, KindUnknown, Deny), own(Origin{Authority: "mode"}))
		a.limits = append(a.limits, limit{check: func(*Query) *answer { return none }})
	}

	// What the snapshot holds below its mode's table came from a parent or cap.
	var lowered []*answer
	for _, k := range kinds {
		if have := s.Profile.Policy.Kinds[k]; have < s.Profile.Mode.Default(k) {
			lowered = setKind(lowered, k, newAnswer(have, "*", "*", fmt.Sprintf("the session's profile says %s for %s", have, k), own(Origin{Authority: "profile"})))
		}
	}
	a.limits = append(a.limits, limit{kinds: lowered})
	a.addPolicyLimits(s.Profile.Policy, own(Origin{Authority: "profile"}), nil)
	a.addProcessLimits(s.Process, own(Origin{Authority: "profile"}), nil)
	if !Everything().Within(s.Ceiling) {
		a.limits = append(a.limits, limit{check: a.ceilingCheck(own(Origin{Authority: "ceiling"})), view: ceilingView(s.Ceiling)})
	}

	for _, f := range in.Frontmatter {
		if f == nil {
			continue
		}
		l := limit{rules: f.ruleset()}
		if f.Universal != nil {
			ans := newAnswer(f.Universal.Action, "*", "*", ruleReason(f.Universal), own(f.Universal.Origin))
			l.universal = ans
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
	a.limits = slices.DeleteFunc(a.limits, func(l limit) bool {
		return l.check == nil && l.kinds == nil && l.universal == nil && (l.rules == nil || len(l.rules.rules) == 0)
	})
	return a
}

// setKind puts an answer for a kind into a table that may not be there yet.
func setKind(table []*answer, k Kind, ans *answer) []*answer {
	i := k.index()
	if i < 0 {
		return table
	}
	if table == nil {
		table = make([]*answer, len(kinds))
	}
	table[i] = ans
	return table
}

// kind returns the limit's answer for a kind.
func (l *limit) kind(k Kind) *answer {
	if i := k.index(); i >= 0 && l.kinds != nil {
		return l.kinds[i]
	}
	return nil
}

func modeReason(m Mode, k Kind, action Action) string {
	if m.Rank() == 0 {
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
	h, human := a.decide(&question{Query: &q})
	return h.decision(a.session, human)
}

// question is a query on its way through a chain. Sessions mostly share one
// policy, so what it answered is kept.
type question struct {
	*Query
	set *ruleset
	hit hit
	ok  bool
}

func (q *question) lookup(s *ruleset) (hit, bool) {
	if q.set != s || s == nil {
		q.set = s
		q.hit, q.ok = s.lookup(q.Query)
	}
	return q.hit, q.ok
}

// decide returns what decided, and whether only a human may allow it.
func (a *Authority) decide(question *question) (h hit, humanOnly bool) {
	q := question.Query
	h = a.base(question)
	if len(q.Shapes) > 0 && a.guards != nil {
		// A guard that the name may meet does not deny, but it is asked.
		if other, ok := a.guards.set.lookup(q); ok && other.rule.Action < h.rule.Action {
			h = other
		}
	}
	for i := range a.limits {
		if other, ok := a.limits[i].decide(q); ok && other.rule.Action < h.rule.Action {
			h = other
		}
	}
	if q.Floor < h.rule.Action {
		h = floorHit(q)
	}
	if a.invalid != "" && h.rule.Action == Allow {
		h = a.failClosed.hit(first(q.Values))
	}
	if a.yolo && h.rule.Action == Ask {
		h = a.yoloAnswer.hit(first(q.Values))
	}
	if h.rule.Action != Deny {
		if p, ok := a.guards.protected(q); ok {
			return p, true
		}
	}
	return h, false
}

// base is the mode refined by the policy.
func (a *Authority) base(question *question) hit {
	h, ok := a.explicit(question)
	if ok && !h.partial {
		return h
	}
	other := a.unnamed(question.Query)
	if ok && h.rule.Action <= other.rule.Action {
		return h
	}
	return other
}

// unnamed is what holds where no rule of the policy speaks.
func (a *Authority) unnamed(q *Query) hit {
	value := first(q.Values)
	if q.RulesOnly {
		return hit{rule: &silent, reason: silentReason, value: value}
	}
	i := q.kind().index()
	if i < 0 {
		return a.unknown.hit(value)
	}
	// The universal rule is the default layer where no mode was chosen.
	if a.universal != nil {
		return a.universal.hit(value)
	}
	ans := a.defaults[i]
	if ans.rule.Action != Deny {
		if r := a.reach(kinds[i], q, ans.rule.Action); r != nil {
			return r.hit(value)
		}
	}
	return ans.hit(value)
}

// silent is the answer of a gate that no rule speaks about.
var silent = Rule{Surface: "*", Pattern: "*", Action: Allow, Origin: Origin{Authority: "builtin"}}

const silentReason = "no rule speaks about this"

// explicit finds the rule that names the query. The baseline stands below the
// policy for each candidate by itself, so that the order of candidates counts
// before it.
func (a *Authority) explicit(q *question) (hit, bool) {
	if a.baseline == nil || q.Surface != surfaceMCP || q.Aliases {
		return q.lookup(a.policy)
	}
	one := *q.Query
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
func (a *Authority) reach(kind Kind, q *Query, action Action) *answer {
	own := Origin{Authority: "mode", Session: a.session}
	switch kind {
	case KindFileRead, KindFileWrite:
		if action != Allow {
			return nil
		}
		can := a.snap.Open.CanRead
		what := "read"
		if kind == KindFileWrite {
			can, what = a.snap.Open.CanWrite, "write"
		}
		for _, p := range q.paths() {
			if !can(p) {
				return newAnswer(Ask, "*", "*", fmt.Sprintf("%s is outside what the session may %s without asking", p, what), own)
			}
		}
	case KindNetwork:
		if action == Ask && q.Surface == surfaceNetwork && len(q.Values) > 0 {
			if name, port := splitHost(cleanHost(q.Values[0])); a.snap.Open.CanReach(name, port) {
				return newAnswer(Allow, "*", "*", fmt.Sprintf("host %s is open for the session", q.Values[0]), own)
			}
		}
	}
	return nil
}

// ceilingView shows a ceiling as rules.
func ceilingView(r Resources) LayerView {
	v := LayerView{Layer: "ceiling", Effect: "denies what no human may open"}
	add := func(surface, pattern string, a Action) {
		v.Rules = append(v.Rules, Rule{Surface: surface, Pattern: pattern, Action: a, Origin: Origin{Authority: "ceiling"}})
	}
	r = r.Canonical()
	if !r.ReadAll {
		add(surfacePathRead, "*", Deny)
		for _, e := range r.Read {
			add(surfacePathRead, e.Path+"/*", Allow)
		}
	}
	if !r.WriteAll {
		add(surfacePathWrite, "*", Deny)
		for _, e := range r.Write {
			add(surfacePathWrite, e.Path+"/*", Allow)
		}
	}
	if r.Network != NetworkEnabled {
		add(surfaceNetwork, "*", Deny)
		for _, h := range r.Hosts {
			add(surfaceNetwork, h, Allow)
		}
	}
	for _, h := range r.DeniedHosts {
		add(surfaceNetwork, h, Deny)
	}
	return v
}

// ceilingCheck denies what no human may open.
func (a *Authority) ceilingCheck(o Origin) func(*Query) *answer {
	ceiling := a.snap.Ceiling.Canonical()
	deny := func(format string, args ...any) *answer {
		return newAnswer(Deny, "*", "*", fmt.Sprintf(format, args...), o)
	}
	return func(q *Query) *answer {
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
		return nil
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
		a.limits = append(a.limits, limit{check: func(q *Query) *answer {
			if !speaks(q) {
				return nil
			}
			if len(q.Shapes) > 0 && paths {
				return denyShapes(deny, q, denyAt)
			}
			p, name, ok := matches(deny, q)
			if !ok {
				return nil
			}
			return newAnswer(Deny, surface, p, fmt.Sprintf("%s: %s is on the deny list (%q)", denyAt, name, p), denyAt)
		}, view: listView(denyAt, "denies what is on the list of "+surface+"s", surface, deny, Deny)})
	}
	for _, list := range allow {
		a.limits = append(a.limits, limit{check: func(q *Query) *answer {
			if !speaks(q) || q.kind() == KindInternal && !paths {
				return nil
			}
			if paths && len(q.Shapes) > 0 {
				return allowShapes(list, q, allowAt)
			}
			if paths {
				// Every absolute spelling has to be listed, or a link leads out.
				all := q.paths()
				if len(all) == 0 {
					all = q.Values
				}
				for _, v := range all {
					if !slices.ContainsFunc(list, func(p string) bool { return Match(p, v, q.Home) }) {
						return newAnswer(Deny, surface, "*", fmt.Sprintf("%s: %s is not on the allow list", allowAt, v), allowAt)
					}
				}
				return nil
			}
			if _, _, ok := matches(list, q); ok {
				return nil
			}
			return newAnswer(Deny, surface, "*", fmt.Sprintf("%s: %s is not on the allow list", allowAt, first(q.tools())), allowAt)
		}, view: listView(allowAt, "denies what is not on the list of "+surface+"s", surface, list, Allow)})
	}
}

// denyShapes denies what is on the list whatever it becomes, and asks for what may
// be on it.
func denyShapes(list []string, q *Query, at Origin) *answer {
	var asked *answer
	for _, p := range list {
		meets, covers := q.meetsPattern(p)
		if covers {
			return newAnswer(Deny, surfacePath, p, fmt.Sprintf("%s: %s is on the deny list (%q)", at, first(q.Values), p), at)
		}
		if meets && asked == nil {
			asked = newAnswer(Ask, surfacePath, p, fmt.Sprintf("%s: %s may be on the deny list (%q)", at, first(q.Values), p), at)
		}
	}
	return asked
}

// allowShapes denies what cannot be on the list, and asks for what may not be.
func allowShapes(list []string, q *Query, at Origin) *answer {
	any := false
	for _, p := range list {
		if homePrefix(p) > 0 && q.Home == "" {
			continue
		}
		meets, covers := q.meetsPattern(p)
		if covers {
			return nil
		}
		any = any || meets
	}
	if any {
		return newAnswer(Ask, surfacePath, "*", fmt.Sprintf("%s: %s may be off the allow list", at, first(q.Values)), at)
	}
	return newAnswer(Deny, surfacePath, "*", fmt.Sprintf("%s: %s is not on the allow list", at, first(q.Values)), at)
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
		a.limits = append(a.limits, limit{kinds: setKind(nil, KindShellCommand, off)})
	}
	if len(p.DeniedCommands) == 0 && p.AllowedFamilies == nil {
		return
	}
	denied, allowed := slices.Clone(p.DeniedCommands), slices.Clone(p.AllowedFamilies)
	deniedAt, allowedAt := where("denied_commands"), where("allowed_families")
	a.limits = append(a.limits, limit{check: func(q *Query) *answer {
		if q.kind() != KindShellCommand {
			return nil
		}
		for _, name := range q.commands() {
			if slices.Contains(denied, name) {
				return newAnswer(Deny, surfaceBash, name, fmt.Sprintf("%s: %s may not be started", deniedAt, name), deniedAt)
			}
			if p.AllowedFamilies != nil && !slices.Contains(allowed, name) {
				return newAnswer(Deny, surfaceBash, name, fmt.Sprintf("%s: %s is not among the programs that may be started", allowedAt, name), allowedAt)
			}
		}
		return nil
	}, view: processView(p, deniedAt)})
}

// listView shows a list of names.
func listView(o Origin, effect, surface string, list []string, a Action) LayerView {
	v := LayerView{Layer: o.Authority, Effect: effect}
	for _, p := range list {
		v.Rules = append(v.Rules, Rule{Surface: surface, Pattern: p, Action: a, Origin: o})
	}
	return v
}

func processView(p Process, o Origin) LayerView {
	v := listView(o, "limits which programs may be started", surfaceBash, p.DeniedCommands, Deny)
	if p.AllowedFamilies != nil {
		v.Rules = append(v.Rules, Rule{Surface: surfaceBash, Pattern: "*", Action: Deny, Origin: o})
		v.Rules = append(v.Rules, listView(o, "", surfaceBash, p.AllowedFamilies, Allow).Rules...)
	}
	return v
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
		var lowered []*answer
		// The mode of a cap is in the snapshot; here it binds the session whose
		// snapshot was made without it.
		if p.Mode != "" && p.Mode.Rank() < a.snap.Profile.Mode.Rank() {
			for _, k := range kinds {
				lowered = setKind(lowered, k, newAnswer(p.Mode.Default(k), "*", "*", fmt.Sprintf("%s: mode %s for %s", at("profile.mode"), p.Mode, k), at("profile.mode")))
			}
		}
		if p.Policy != nil {
			for k, action := range maps.All(p.Policy.Kinds) {
				field := "profile.policy.kinds." + string(k)
				if i := k.index(); i >= 0 && lowered != nil && lowered[i] != nil {
					action = min(action, lowered[i].rule.Action)
				}
				lowered = setKind(lowered, k, newAnswer(action, "*", "*", fmt.Sprintf("%s: %s for %s", at(field), action, k), at(field)))
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
		a.limits = append(a.limits, limit{check: held.ceilingCheck(at("ceiling")), view: ceilingView(held.snap.Ceiling)})
	}
}

func (l *limit) decide(q *Query) (hit, bool) {
	if l.check != nil {
		ans := l.check(q)
		if ans == nil {
			return hit{}, false
		}
		return ans.hit(first(q.Values)), true
	}
	var best hit
	if l.rules != nil {
		if h, ok := l.rules.lookup(q); ok {
			best = h
		}
		if l.universal != nil && !q.RulesOnly && (best.rule == nil || best.partial && l.universal.rule.Action < best.rule.Action) {
			best = l.universal.hit(first(q.Values))
		}
	}
	if l.kinds != nil && !q.RulesOnly {
		if ans := l.kind(q.kind()); ans != nil && (best.rule == nil || ans.rule.Action < best.rule.Action) {
			best = ans.hit(first(q.Values))
		}
	}
	return best, best.rule != nil
}

// decision is the hit as it is given out, under the session's name.
func (h hit) decision(session string, humanOnly bool) Decision {
	d := Decision{Action: h.rule.Action, Rule: *h.rule, Value: h.value, Reason: h.reason, HumanOnly: humanOnly && h.rule.Action == Ask}
	d.Rule.Origin.Session = session
	return d
}

func floorHit(q *Query) hit {
	pattern := q.FloorReason
	reason := "asked whatever the rules say: " + pattern
	if pattern == "" {
		pattern, reason = "<floor>", "what cannot be seen through is asked whatever the rules say"
	}
	if q.Floor == Deny {
		reason = "refused whatever the rules say: " + pattern
	}
	return hit{rule: &Rule{Surface: q.Surface, Pattern: pattern, Action: q.Floor, Origin: Origin{Authority: "floor"}}, reason: reason, value: first(q.Values)}
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
	asking := question{Query: &q}
	best, human := chain[0].decide(&asking)
	session := chain[0].session
	for _, a := range chain[1:] {
		h, only := a.decide(&asking)
		human = human || only
		if h.rule.Action < best.rule.Action {
			best, session = h, a.session
		}
	}
	return best.decision(session, human)
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
		if ans := l.kind(kind); ans != nil {
			ask = ask || ans.rule.Action == Ask
			deny = deny || ans.rule.Action == Deny
		}
	}
	if kind == KindShellCommand && (len(a.snap.Process.DeniedCommands) > 0 || a.snap.Process.AllowedFamilies != nil) {
		deny = true
	}
	return ask, deny
}
