package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var someSurfaces = []string{"bash", "mcp", "path_read", "path_write", "read", "web*", "frob"}

func drawFile(t *rapid.T, name string) *PolicyFile {
	f := &PolicyFile{Name: name, Rules: drawRules(t, someSurfaces)}
	if rapid.Bool().Draw(t, "universal") {
		f.Universal = &Rule{Surface: "*", Pattern: "*", Action: Action(rapid.IntRange(0, 2).Draw(t, "universal action")), Origin: Origin{Authority: "policy"}}
	}
	return f
}

func drawQuery(t *rapid.T) Query {
	q := NewQuery(rapid.SampledFrom([]string{"bash", "mcp", "path", "path_read", "path_write", "read", "webfetch", "frob", "other"}).Draw(t, "surface"),
		rapid.SliceOfN(valueText, 0, 3).Draw(t, "values")...)
	q.Aliases = rapid.Bool().Draw(t, "aliases")
	q.Floor = Action(rapid.IntRange(0, 8).Draw(t, "floor"))
	if q.Floor > Allow {
		q.Floor = Allow
	}
	q.Home = homeText.Draw(t, "home")
	q.RulesOnly = rapid.IntRange(0, 4).Draw(t, "rules only") == 0
	return q
}

func drawAuthority(t *rapid.T, session string, policy *PolicyFile, guards *Guards) *Authority {
	in := Layers{Session: session, Policy: policy, Guards: guards}
	in.Snapshot = restricted(someMode.Draw(t, "mode"))
	if rapid.Bool().Draw(t, "defaulted") {
		in.Snapshot = Resolve(ResolveInput{})
	}
	in.Snapshot, _ = Restrict(in.Snapshot, someCap.Draw(t, "cap"))
	if rapid.Bool().Draw(t, "frontmatter") {
		in.Frontmatter = []*PolicyFile{drawFile(t, "agent.md")}
	}
	if c := someCap.Draw(t, "cap as layer"); c != nil {
		in.Caps = []*Cap{c}
	}
	if rapid.IntRange(0, 4).Draw(t, "invalid") == 0 {
		in.InvalidScope = "project"
	}
	in.Yolo = rapid.IntRange(0, 4).Draw(t, "yolo") == 0
	return Compose(in)
}

func TestEvaluationIsTotalAndDeterministic(t *testing.T) {
	var seen [3]int
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthority(t, "s", drawFile(t, "policy"), nil)
		q := drawQuery(t)
		d := a.Decide(q)
		if d.Action > Allow || d.Reason == "" || d.Rule.Origin.Authority == "" || d.Action != d.Rule.Action {
			t.Fatalf("no whole answer: %+v", d)
		}
		if diff := cmp.Diff(d, a.Decide(q)); diff != "" {
			t.Fatalf("asked twice:\n%s", diff)
		}
		seen[d.Action]++
	})
	for a, n := range seen {
		if n == 0 {
			t.Errorf("never %s: the test shows little", Action(a))
		}
	}
}

func TestOrderOfUnrelatedRulesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t, "policy")
		// Two rules are related only when they rank equal and say the same: then
		// the later one is named. The action is the same whatever the order.
		shuffled := &PolicyFile{Rules: rapid.Permutation(f.Rules).Draw(t, "order"), Universal: f.Universal}
		q := drawQuery(t)
		snap := restricted(someMode.Draw(t, "mode"))
		a, b := NewAuthority("s", snap, f).Decide(q), NewAuthority("s", snap, shuffled).Decide(q)
		if a.Action != b.Action {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}

func TestAddingADenyNeverAllowsMore(t *testing.T) {
	fired := 0
	rapid.Check(t, func(t *rapid.T) {
		f, q := drawFile(t, "policy"), drawQuery(t)
		deny := Rule{Surface: rapid.SampledFrom(someSurfaces).Draw(t, "deny surface"), Pattern: patternFor(t, valueText.Draw(t, "deny seed")), Action: Deny, Origin: Origin{Authority: "policy"}}
		if rapid.Bool().Draw(t, "about the query") {
			deny.Surface = q.Surface
			if len(q.Values) > 0 {
				deny.Pattern = patternFor(t, q.Values[0])
			}
		}
		if deny.Pattern == "" {
			deny.Pattern = "*"
		}
		at := rapid.IntRange(0, len(f.Rules)).Draw(t, "at")
		more := &PolicyFile{Rules: slices.Insert(slices.Clone(f.Rules), at, deny), Universal: f.Universal}
		snap := restricted(someMode.Draw(t, "mode"))
		before, after := NewAuthority("s", snap, f).Decide(q), NewAuthority("s", snap, more).Decide(q)
		if after.Action > before.Action {
			t.Fatalf("with %+v more is allowed:\n%+v\n%+v", deny, before, after)
		}
		if after.Action < before.Action {
			fired++
		}
	})
	if fired == 0 {
		t.Error("no deny ever counted")
	}
}

func TestAChildIsNeverLessRestrictiveThanAnAncestor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := drawFile(t, "policy")
		var guards *Guards
		if rapid.Bool().Draw(t, "guards") {
			guards = &Guards{set: newRuleset(drawRules(t, someSurfaces))}
		}
		var chain []*Authority
		for i := range rapid.IntRange(1, 5).Draw(t, "depth") {
			chain = append(chain, drawAuthority(t, string(rune('a'+i)), policy, guards))
		}
		q := drawQuery(t)
		d := Decide(chain, q)
		own := Deny
		for i, a := range chain {
			one := a.Decide(q)
			if d.Action > one.Action {
				t.Fatalf("session %s says %s, the chain %s", a.Session(), one.Action, d.Action)
			}
			if i == 0 {
				own = one.Action
			}
			if i == 0 || one.Action < own {
				own = one.Action
			}
		}
		if d.Action != own {
			t.Fatalf("the chain says %s, the most restrictive %s", d.Action, own)
		}
		if s := d.Rule.Origin.Session; s != "" && !slices.ContainsFunc(chain, func(a *Authority) bool {
			return a.Session() == s && a.Decide(q).Action == d.Action
		}) {
			t.Fatalf("names session %q, which does not say so", s)
		}
	})
}

func TestCapsAndFrontmatterOnlyRestrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Layers{Session: "s", Policy: drawFile(t, "policy"), Snapshot: restricted(someMode.Draw(t, "mode"))}
		q := drawQuery(t)
		free := Compose(in).Decide(q)
		in.Caps = []*Cap{someCap.Draw(t, "cap")}
		in.Frontmatter = []*PolicyFile{drawFile(t, "agent")}
		held := Compose(in).Decide(q)
		if held.Action > free.Action {
			t.Fatalf("free %+v\nheld %+v", free, held)
		}
	})
}

func TestGuardsAreFinal(t *testing.T) {
	guards, err := ParseGuards("hard-guards.jsonc", []byte(`{"permission": {"bash": {"rm *": "deny", "rm -i *": "allow"}, "path": {"~/.ssh/*": {"action": "deny", "reason": "keys stay"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	in := Layers{
		Session: "s", Snapshot: Resolve(ResolveInput{}), Guards: guards, Yolo: true,
		Policy: mustPolicy(t, `{"permission": {"*": "allow", "bash": {"rm *": "allow", "rm -rf build": "allow", "rm -i *": "ask"}}}`),
	}
	a := Compose(in)
	path := NewQuery("path_write", "/home/u/.ssh/id")
	path.Home = "/home/u"
	for _, c := range []struct {
		name string
		q    Query
		want Action
		by   string
	}{
		{"a guard's deny beats an exact allow and yolo", bashQuery("rm -rf build"), Deny, "hard-guard"},
		{"a guard's allow only means not blocked", bashQuery("rm -i x"), Allow, "yolo"},
		{"a guard covers both directions of a path", path, Deny, "hard-guard"},
		{"what no guard names is judged as ever", bashQuery("ls"), Allow, "policy"},
	} {
		d := Decide([]*Authority{a}, c.q)
		if d.Action != c.want || d.Rule.Origin.Authority != c.by {
			t.Errorf("%s: %s by %s", c.name, d.Action, d.Rule.Origin.Authority)
		}
	}
	if d := a.Decide(path); d.Rule.Reason != "keys stay" || d.Rule.Origin.Line != 1 || d.Rule.Origin.Column == 0 {
		t.Errorf("the reason and place of a guard: %+v", d.Rule)
	}
	noHome := NewQuery("path_write", "/root/.ssh/id")
	if d := a.Decide(noHome); d.Action != Deny {
		t.Errorf("with an unknown home a guard on ~ says %s", d.Action)
	}
	for _, bad := range []string{`{"permission": {"bash": "ask"}}`, `{"permission": {"*": "deny"}}`, `{"protectedWrites": "x"}`, `{"protectWrites": []}`} {
		if _, err := ParseGuards("g", []byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestProtectedWritesAreForHumansOnly(t *testing.T) {
	guards, err := ParseGuards("g", []byte(`{"protectedWrites": ["*/.git/hooks/*", "~/.bashrc"]}`))
	if err != nil {
		t.Fatal(err)
	}
	write := func(p string) Query { q := NewQuery("path_write", p); q.Home = "/home/u"; return q }
	a := Compose(Layers{Session: "s", Snapshot: Resolve(ResolveInput{}), Guards: guards, Yolo: true, Policy: mustPolicy(t, `{"permission": {"path": {"*/hooks/no": "deny"}}}`)})
	chain := []*Authority{a}
	d := Decide(chain, write("/w/.git/hooks/pre-commit"))
	if d.Action != Ask || !d.HumanOnly || d.Rule.Origin.Authority != "protected" {
		t.Fatalf("in full access, under yolo: %+v", d)
	}
	if d := Decide(chain, write("/w/.git/hooks/no")); d.Action != Deny || d.HumanOnly {
		t.Errorf("a deny stays: %+v", d)
	}
	if d := Decide(chain, write("/w/.git/config")); d.Action != Allow {
		t.Errorf("another path: %+v", d)
	}
	read := NewQuery("path_read", "/w/.git/hooks/pre-commit")
	if d := Decide(chain, read); d.Action != Allow {
		t.Errorf("a read: %+v", d)
	}
	tool := NewQuery("edit", "/w/.git/hooks/pre-commit")
	if d := Decide(chain, tool); !d.HumanOnly {
		t.Errorf("an edit tool: %+v", d)
	}
	var grants Grants
	q := write("/w/.git/hooks/pre-commit")
	hash := ScopeHash(q.Kind, "", q.Values)
	for _, g := range []Grant{{ID: "1", Session: "s", Surface: "path_write", ScopeHash: hash}, {ID: "2", Session: "s", Surface: "path_write", Pattern: "*"}} {
		if err := grants.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	if d, g := Judge(chain, &grants, q, hash); d.Action != Ask || g != nil {
		t.Errorf("a grant settled a protected write: %+v", d)
	}
	// One ancestor's guard is enough, and it is still said to be human only.
	plain := Compose(Layers{Session: "c", Snapshot: restricted(Supervised)})
	if d := Decide([]*Authority{plain, a}, q); d.Action != Ask || !d.HumanOnly {
		t.Errorf("below a guarded parent: %+v", d)
	}
}

func TestOverlays(t *testing.T) {
	policy := mustPolicy(t, `{"permission": {"bash": {"*": "ask", "rm *": "deny", "ls *": "allow"}}}`)
	in := Layers{Session: "s", Snapshot: restricted(Supervised), Policy: policy}
	floored := bashQuery("ls $(x)")
	floored.Floor, floored.FloorReason = Ask, "<opaque-bash-wrapper>"
	for _, c := range []struct {
		name    string
		invalid string
		yolo    bool
		q       Query
		want    Action
		by      string
	}{
		{"no overlay", "", false, bashQuery("ls"), Allow, "policy"},
		{"a broken scope turns allow into ask", "project", false, bashQuery("ls"), Ask, "fail-closed"},
		{"a broken scope leaves a deny", "project", false, bashQuery("rm x"), Deny, "policy"},
		{"yolo turns ask into allow", "", true, bashQuery("make"), Allow, "yolo"},
		{"yolo leaves a deny", "", true, bashQuery("rm -rf build"), Deny, "policy"},
		{"yolo comes after a broken scope", "project", true, bashQuery("ls"), Allow, "yolo"},
		{"a floor lowers an allow", "", false, floored, Ask, "floor"},
		{"yolo settles what was asked after the rules", "", true, floored, Allow, "yolo"},
	} {
		in.InvalidScope, in.Yolo = c.invalid, c.yolo
		d := Compose(in).Decide(c.q)
		if d.Action != c.want || d.Rule.Origin.Authority != c.by {
			t.Errorf("%s: %s by %s (%s)", c.name, d.Action, d.Rule.Origin.Authority, d.Reason)
		}
	}
	deny := bashQuery("ls")
	deny.Floor = Deny
	in.InvalidScope, in.Yolo = "", true
	if d := Compose(in).Decide(deny); d.Action != Deny {
		t.Errorf("yolo lifted a floor that denies: %+v", d)
	}
}

func TestCandidatesAreTriedInOrder(t *testing.T) {
	policy := mustPolicy(t, `{"permission": {"mcp": {"exa:*": "allow", "exa": "deny", "mcp_call": "ask"}}}`)
	a := NewAuthority("s", restricted(Supervised), policy)
	for _, c := range []struct {
		name   string
		values []string
		want   Action
		value  string
	}{
		{"the first that a rule names", []string{"exa_search", "exa:search", "exa"}, Allow, "exa:search"},
		{"in their order", []string{"exa", "exa:search"}, Deny, "exa"},
		{"a later one", []string{"x", "y", "mcp_call"}, Ask, "mcp_call"},
		{"none named: the mode, with the first", []string{"x", "y"}, Ask, "x"},
		{"listing is in the baseline", []string{"mcp_list", "mcp"}, Allow, "mcp_list"},
	} {
		q := NewQuery("mcp", c.values...)
		if d := a.Decide(q); d.Action != c.want || d.Value != c.value {
			t.Errorf("%s: %s on %q", c.name, d.Action, d.Value)
		}
	}
	closed := NewAuthority("s", restricted(Supervised), mustPolicy(t, `{"permission": {"mcp": {"*": "deny", "exa:*": "allow"}}}`))
	if d := closed.Decide(NewQuery("mcp", "mcp_list", "mcp")); d.Action != Deny {
		t.Errorf("the baseline beat a rule: %+v", d)
	}
	none := NewAuthority("s", restricted(Supervised), mustPolicy(t, `{"permission": {"mcp": {"exa:*": "ask"}}}`))
	if d := none.Decide(NewQuery("mcp", "mcp_list", "mcp")); d.Action != Ask {
		t.Errorf("a baseline without any allow: %+v", d)
	}
}

func TestOnePatternProtectsAFileUnderEverySpelling(t *testing.T) {
	a := NewAuthority("s", Resolve(ResolveInput{Mode: AutoAcceptEdits, Workspace: "/w", Cwd: "/w/app"}), mustPolicy(t,
		`{"permission": {"path": {"*": "allow", "*/secrets/*": "deny"}}}`))
	for _, spelling := range [][]string{
		{"/w/app/secrets/key", "secrets/key"},
		{"secrets/key", "/w/app/secrets/key"},
		{"link", "/w/app/link", "/w/app/secrets/key"},
	} {
		if d := a.Decide(NewQuery("path_read", spelling...)); d.Action != Deny || d.Value != "/w/app/secrets/key" {
			t.Errorf("%q: %s on %q", spelling, d.Action, d.Value)
		}
	}
}

func TestWildcardSurfaces(t *testing.T) {
	a := NewAuthority("s", restricted(Supervised), mustPolicy(t, `{"permission": {"web*": {"*": "deny", "https://go.dev/*": "allow"}, "websearch": "ask", "w*": "allow"}}`))
	for _, c := range []struct {
		surface, value string
		want           Action
	}{
		{"webfetch", "https://x.org", Deny}, {"webfetch", "https://go.dev/doc", Allow},
		{"websearch", "https://x.org", Ask}, {"wander", "x", Allow}, {"other", "x", Ask},
	} {
		if d := a.Decide(NewQuery(c.surface, c.value)); d.Action != c.want {
			t.Errorf("%s %s: %s by %s", c.surface, c.value, d.Action, d.Reason)
		}
	}
}

func TestReachBeyondOpenIsAskedAndBeyondTheCeilingDenied(t *testing.T) {
	snap := restricted(AutoAcceptEdits)
	snap.Ceiling = MeetResources(snap.Ceiling, Resources{Read: []Entry{{Path: "/w"}, {Path: "/etc"}}, Write: []Entry{{Path: "/w/app"}, {Path: "/w/lib"}}, Network: NetworkRestricted, Hosts: []string{"go.dev"}})
	snap.Open = MeetResources(snap.Open, snap.Ceiling)
	a := NewAuthority("s", snap, mustPolicy(t, `{"permission": {"path": {"/etc/hosts": "allow", "/home/*": "allow"}, "network": {"evil.org": "allow"}}}`))
	for _, c := range []struct {
		name string
		q    Query
		want Action
		by   string
	}{
		{"a write in the workspace", NewQuery("path_write", "/w/app/x", "x"), Allow, "mode"},
		{"a read outside the roots is asked", NewQuery("path_read", "/etc/passwd"), Ask, "mode"},
		{"the operator's rule opens it", NewQuery("path_read", "/etc/hosts"), Allow, "policy"},
		{"above the ceiling no rule opens", NewQuery("path_read", "/home/u/x"), Deny, "ceiling"},
		{"a write above the ceiling", NewQuery("path_write", "/etc/hosts"), Deny, "ceiling"},
		{"a link that leads out", NewQuery("path_write", "/w/app/link", "/home/u/x"), Deny, "ceiling"},
		{"a host within the ceiling is asked", NewQuery("network", "go.dev"), Ask, "mode"},
		{"a host above it is denied against a rule", NewQuery("network", "evil.org"), Deny, "ceiling"},
		{"an unknown tool of the network", NewQuery("webfetch", "https://go.dev"), Ask, "mode"},
	} {
		if d := a.Decide(c.q); d.Action != c.want || d.Rule.Origin.Authority != c.by {
			t.Errorf("%s: %s by %s (%s)", c.name, d.Action, d.Rule.Origin.Authority, d.Reason)
		}
	}
	open := Resolve(ResolveInput{Mode: Supervised, Hosts: []string{"proxy.golang.org"}})
	if d := NewAuthority("s", open, nil).Decide(NewQuery("network", "proxy.golang.org:443")); d.Action != Allow {
		t.Errorf("a host that the operator opened: %+v", d)
	}
}

func TestRulesOnlyNeverPromptsForWhatNoRuleNames(t *testing.T) {
	a := NewAuthority("s", restricted(Supervised), mustPolicy(t, `{"permission": {"path": {"*.env": "deny"}}}`))
	q := NewQuery("path_write", "/w/app/x")
	q.RulesOnly = true
	if d := a.Decide(q); d.Action != Allow || d.Rule.Origin.Authority != "builtin" {
		t.Errorf("%+v", d)
	}
	q.Values = []string{"/w/app/.env"}
	if d := a.Decide(q); d.Action != Deny {
		t.Errorf("%+v", d)
	}
}

func TestCapsAsLayersNameTheirLine(t *testing.T) {
	limit, err := ParseCap("cap.jsonc", []byte("{\n  \"profile\": {\"policy\": {\n    \"kinds\": {\"task_subagent\": \"deny\"},\n    \"deny_tools\": [\"web*\"],\n    \"allow_paths\": [\"/w/*\"]}},\n  \"process\": {\"denied_commands\": [\"curl\"]}\n}"))
	if err != nil {
		t.Fatal(err)
	}
	a := NewAuthority("s", Resolve(ResolveInput{}), nil, limit)
	for _, c := range []struct {
		name string
		q    Query
		want Action
		line int
	}{
		{"a kind", NewQuery("task", "reviewer"), Deny, 3},
		{"a tool by pattern", NewQuery("webfetch", "x"), Deny, 4},
		{"a path off the list", NewQuery("path_read", "/etc/x"), Deny, 5},
		{"a path on the list", NewQuery("path_read", "/w/x"), Allow, 0},
		{"a path whose link leads off the list", NewQuery("path_read", "/w/x", "/etc/x"), Deny, 5},
		{"a command by its name", bashQuery("/usr/bin/curl x"), Deny, 6},
		{"another command", bashQuery("ls"), Allow, 0},
	} {
		d := a.Decide(c.q)
		if d.Action != c.want || c.line > 0 && d.Rule.Origin.Line != c.line {
			t.Errorf("%s: %s at %s (%s)", c.name, d.Action, d.Rule.Origin, d.Reason)
		}
		if c.want == Deny && d.Rule.Origin.Authority != "cap" {
			t.Errorf("%s: by %s", c.name, d.Rule.Origin.Authority)
		}
	}
	tools, err := ParseCap("cap.jsonc", []byte(`{"profile": {"policy": {"allow_tools": ["read", "grep"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	only := NewAuthority("s", Resolve(ResolveInput{}), nil, tools)
	for surface, want := range map[string]Action{"read": Allow, "grep": Allow, "bash": Deny, "edit": Deny, "todowrite": Allow} {
		if d := only.Decide(NewQuery(surface, "x")); d.Action != want {
			t.Errorf("tool list: %s is %s", surface, d.Action)
		}
	}
}

func TestMentions(t *testing.T) {
	full := Resolve(ResolveInput{Mode: FullAccess})
	for _, c := range []struct {
		policy    string
		ask, deny bool
	}{
		{`{"permission": {}}`, false, false},
		{`{"permission": {"bash": "allow"}}`, false, false},
		{`{"permission": {"bash": {"rm *": "deny"}}}`, false, true},
		{`{"permission": {"bash": {"rm *": "ask"}}}`, true, false},
		{`{"permission": {"path": "deny"}}`, false, false},
		{`{"permission": {"b*": {"x": "deny"}}}`, false, true},
		{`{"permission": {"*": "deny"}}`, false, false}, // a mode was chosen
	} {
		if ask, deny := NewAuthority("s", full, mustPolicy(t, c.policy)).Mentions("bash"); ask != c.ask || deny != c.deny {
			t.Errorf("%s: ask %v deny %v", c.policy, ask, deny)
		}
	}
	guards, _ := ParseGuards("g", []byte(`{"permission": {"bash": {"x": "deny"}}}`))
	if _, deny := Compose(Layers{Snapshot: full, Guards: guards}).Mentions("bash"); !deny {
		t.Error("a guard is not mentioned")
	}
}

func TestReasonsAreOneLine(t *testing.T) {
	a := NewAuthority("s", restricted(Supervised), mustPolicy(t, "{\"permission\": {\"bash\": {\"a\\nb\": {\"action\": \"deny\", \"reason\": \"two\\nlines\"}}}}"))
	if d := a.Decide(bashQuery("a\nb")); d.Action != Deny || strings.Contains(d.Reason, "\n") {
		t.Errorf("%q", d.Reason)
	}
}
