package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustAdd(t testing.TB, s *Grants, gs ...Grant) {
	t.Helper()
	for _, g := range gs {
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
	}
}

func hashOf(q Query) string { return ScopeHash(q.kind(), q.Tool, q.Values) }

// judge asks in a session whose mode asks for commands.
func judge(t testing.TB, s *Grants, session string, q Query, file *PolicyFile) (Decision, *Grant) {
	t.Helper()
	return Judge([]*Authority{NewAuthority(session, restricted(Supervised), file)}, s, q, hashOf(q))
}

func TestAGrantTurnsAnAskAndNeverADeny(t *testing.T) {
	file := mustPolicy(t, `{"permission": {"bash": {"rm *": "deny"}}}`)
	var s Grants
	if d, _ := judge(t, &s, "a", bashQuery("npm publish"), file); d.Action != Ask {
		t.Fatalf("without a grant: %+v", d)
	}
	mustAdd(t, &s,
		Grant{ID: "1", Session: "a", Surface: "bash", Pattern: "npm *", Vector: GrantVector{Network: true}},
		Grant{ID: "2", Session: "a", Surface: "bash", Pattern: "rm *", Tree: true})
	d, g := judge(t, &s, "a", bashQuery("npm publish"), file)
	if d.Action != Allow || g == nil || g.ID != "1" || !g.Vector.Network || d.Rule.Origin.Authority != "grant" {
		t.Errorf("covered: %+v %+v", d, g)
	}
	if d, g := judge(t, &s, "a", bashQuery("rm x"), file); d.Action != Deny || g != nil {
		t.Errorf("a tree grant beat the session's own deny: %+v", d)
	}
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthority(t, "a", drawFile(t, "policy"), nil)
		q := drawQuery(t)
		var s Grants
		mustAdd2(t, &s, Grant{ID: "x", Session: "a", Surface: q.Surface, Pattern: "*"}, Grant{ID: "y", Session: "a", Surface: q.Surface, ScopeHash: hashOf(q), Tree: true})
		before := a.Decide(q)
		after, g := Judge([]*Authority{a}, &s, q, hashOf(q))
		if before.Action != Ask && (after.Action != before.Action || g != nil) {
			t.Fatalf("a grant changed a %s: %+v", before.Action, after)
		}
		if before.Action == Ask && after.Action != Allow {
			t.Fatalf("an exact grant did not settle an ask: %+v", after)
		}
	})
}

func mustAdd2(t *rapid.T, s *Grants, gs ...Grant) {
	for _, g := range gs {
		if err := s.Add(g); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGrantsBelongToTheInstanceUnlessGivenToTheTree(t *testing.T) {
	var s Grants
	q := bashQuery("npm publish")
	mustAdd(t, &s, Grant{ID: "1", Session: "child-c", Surface: "bash", ScopeHash: hashOf(q)})
	for session, want := range map[string]Action{"child-c": Allow, "parent": Ask, "sibling-d": Ask} {
		if d, _ := judge(t, &s, session, q, nil); d.Action != want {
			t.Errorf("%s: %s", session, d.Action)
		}
	}
	mustAdd(t, &s, Grant{ID: "2", Session: "child-c", Surface: "bash", ScopeHash: hashOf(q), Tree: true, Root: "/w/app"})
	q.Root = "/w/app"
	if d, _ := judge(t, &s, "sibling-d", q, nil); d.Action != Allow {
		t.Errorf("a tree grant for a sibling: %s", d.Action)
	}
	q.Root = "/w/other"
	if d, _ := judge(t, &s, "sibling-d", q, nil); d.Action != Ask {
		t.Errorf("a tree grant in another folder: %s", d.Action)
	}
}

func TestGrantsEndWithTheirTurn(t *testing.T) {
	var s Grants
	mustAdd(t, &s,
		Grant{ID: "a", Session: "a", Surface: "bash", Pattern: "x *"},
		Grant{ID: "b", Session: "b", Surface: "bash", Pattern: "x *"},
		Grant{ID: "tree", Session: "a", Surface: "bash", Pattern: "x *", Tree: true})
	ids := func(gs []Grant) string {
		var out []string
		for _, g := range gs {
			out = append(out, g.ID)
		}
		return strings.Join(out, " ")
	}
	if got := ids(s.EndTurn("a")); got != "a" {
		t.Errorf("the end of a's turn ended %q", got)
	}
	if got := ids(s.List()); got != "b tree" {
		t.Errorf("left: %q", got)
	}
	if got := ids(s.EndTreeTurn()); got != "tree" {
		t.Errorf("the end of the root's turn ended %q", got)
	}
	if _, ok := s.Revoke("b"); !ok {
		t.Error("b could not be revoked")
	}
	if _, ok := s.Revoke("b"); ok {
		t.Error("b was revoked twice")
	}
	if d, _ := judge(t, &s, "b", bashQuery("x y"), nil); d.Action != Ask {
		t.Errorf("after the revoke: %s", d.Action)
	}
}

func TestWhatIsNoGrantIsRefused(t *testing.T) {
	var s Grants
	for name, g := range map[string]Grant{
		"no id":                {Session: "a", Surface: "bash", Pattern: "x"},
		"no session":           {ID: "1", Surface: "bash", Pattern: "x"},
		"no surface":           {ID: "1", Session: "a", Pattern: "x"},
		"every surface":        {ID: "1", Session: "a", Surface: "*", Pattern: "x"},
		"nothing covered":      {ID: "1", Session: "a", Surface: "bash"},
		"both":                 {ID: "1", Session: "a", Surface: "bash", Pattern: "x", ScopeHash: "y"},
		"tree and sandbox off": {ID: "1", Session: "a", Surface: "bash", Pattern: "x", Tree: true, Vector: GrantVector{SandboxOff: true}},
		"tree and off":         {ID: "1", Session: "a", Surface: "bash", Pattern: "x", Tree: true, Vector: GrantVector{Capabilities: []string{"off"}}},
		"no text":              {ID: "1", Session: "a", Surface: "bash", Pattern: "\xff"},
	} {
		if err := s.Add(g); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	mustAdd(t, &s, Grant{ID: "1", Session: "a", Surface: "bash", Pattern: "x"})
	if err := s.Add(Grant{ID: "1", Session: "b", Surface: "bash", Pattern: "y"}); err == nil {
		t.Error("an id was used twice")
	}
}

func TestAPatternGrantCoversNoMoreThanWasMeant(t *testing.T) {
	var s Grants
	mustAdd(t, &s, Grant{ID: "git", Session: "a", Surface: "bash", Pattern: "git status *", Program: "/usr/bin/git"})
	query := func(command string, change func(*Query)) Query {
		q := bashQuery(command)
		q.Program = "/usr/bin/git"
		if change != nil {
			change(&q)
		}
		return q
	}
	for _, c := range []struct {
		name string
		q    Query
		want Action
	}{
		{"the same command", query("git status", nil), Allow},
		{"with arguments", query("git status -s", nil), Allow},
		{"another subcommand", query("git push", nil), Ask},
		{"another program of the name", query("git status", func(q *Query) { q.Program = "/tmp/git" }), Ask},
		{"an option that executes", query("git status -c x", func(q *Query) { q.ExactOnly = true }), Ask},
		{"behind a wrapper", query("git status", func(q *Query) { q.Floor, q.FloorReason = Ask, "<indirection-bash-wrapper>" }), Ask},
		{"on another surface", NewQuery("frob", "git status"), Ask},
	} {
		if d, _ := judge(t, &s, "a", c.q, nil); d.Action != c.want {
			t.Errorf("%s: %s", c.name, d.Action)
		}
	}
	exact := query("sudo git status", func(q *Query) { q.ExactOnly, q.Floor = true, Ask })
	mustAdd(t, &s, Grant{ID: "exact", Session: "a", Surface: "bash", ScopeHash: hashOf(exact)})
	if d, _ := judge(t, &s, "a", exact, nil); d.Action != Allow {
		t.Errorf("the exact scope of a wrapper: %s", d.Action)
	}
}

func TestAnApprovedStarIsAStarAndNoPattern(t *testing.T) {
	var s Grants
	q := bashQuery("ls *.txt")
	mustAdd(t, &s, Grant{ID: "1", Session: "a", Surface: "bash", ScopeHash: hashOf(q)})
	for command, want := range map[string]Action{"ls *.txt": Allow, "ls x.txt": Ask, "ls x.md": Ask, "ls /etc": Ask} {
		if d, _ := judge(t, &s, "a", bashQuery(command), nil); d.Action != want {
			t.Errorf("%s: %s", command, d.Action)
		}
	}
}

func TestAPathGrantDoesNotFollowALinkOut(t *testing.T) {
	var s Grants
	mustAdd(t, &s, Grant{ID: "1", Session: "a", Surface: "path_write", Pattern: "/w/app/*"})
	for _, c := range []struct {
		name   string
		values []string
		want   Action
	}{
		{"inside", []string{"/w/app/x", "x"}, Allow},
		{"a link that stays", []string{"/w/app/l", "/w/app/x"}, Allow},
		{"a link that leads out", []string{"/w/app/l", "/etc/passwd"}, Ask},
		{"dots that lead out", []string{"/w/app/../x"}, Ask},
	} {
		if d, _ := judge(t, &s, "a", NewQuery("path_write", c.values...), nil); d.Action != c.want {
			t.Errorf("%s: %s", c.name, d.Action)
		}
	}
}

func TestResourcesGoOnlyToWhatTheGrantCovers(t *testing.T) {
	var s Grants
	push := bashQuery("git push")
	mustAdd(t, &s, Grant{ID: "1", Session: "a", Surface: "bash", ScopeHash: hashOf(push), Vector: GrantVector{
		Paths: []Entry{{Path: "/home/u/.ssh", Access: AccessRead}}, Hosts: []string{"github.com"},
	}})
	snap := restricted(Supervised)
	open := func(q Query) Resources {
		d, g := judge(t, &s, "a", q, nil)
		if d.Action != Allow || g == nil {
			return snap.Open
		}
		return g.Vector.Apply(snap)
	}
	if r := open(push); !r.CanRead("/home/u/.ssh/id") || !r.CanReach("github.com", "22") || r.CanReach("evil.org", "22") || r.CanWrite("/home/u/.ssh/id") {
		t.Errorf("the granted push has %+v", r)
	}
	for _, command := range []string{"cat /home/u/.ssh/id", "curl github.com", "npm test", "git push --force"} {
		if r := open(bashQuery(command)); r.CanRead("/home/u/.ssh/id") || r.CanReach("github.com", "22") {
			t.Errorf("%s rides on the grant", command)
		}
	}
}

func TestAVectorStaysUnderTheCeiling(t *testing.T) {
	whole := GrantVector{
		WorkspaceWrite: true, Network: true, SandboxOff: true,
		Paths: []Entry{{Path: "/data/in", Access: AccessRead}, {Path: "/data/out", Access: AccessWrite}, {Path: "/data/x"}},
		Hosts: []string{"go.dev", "bad host"}, Capabilities: []string{"ssh", "sudo"},
	}
	kept, refused := whole.Within(Everything())
	if !kept.WorkspaceWrite || !kept.Network || !kept.SandboxOff || len(kept.Paths) != 2 || !slices.Equal(kept.Hosts, []string{"go.dev"}) || !slices.Equal(kept.Capabilities, []string{"ssh"}) || len(refused) != 3 {
		t.Errorf("under everything: %+v, refused %q", kept, refused)
	}
	kept, refused = whole.Within(Resources{})
	if !kept.IsZero() || len(refused) != 10 {
		t.Errorf("under nothing: %+v, refused %q", kept, refused)
	}
	rapid.Check(t, func(t *rapid.T) {
		snap := restricted(someMode.Draw(t, "mode"))
		snap, _ = Restrict(snap, someCap.Draw(t, "cap"))
		v := GrantVector{
			WorkspaceWrite: rapid.Bool().Draw(t, "workspace"), Network: rapid.Bool().Draw(t, "network"), SandboxOff: rapid.Bool().Draw(t, "off"),
			Paths: []Entry{{Path: somePath.Draw(t, "path"), Access: rapid.SampledFrom([]Access{AccessRead, AccessWrite, ""}).Draw(t, "access")}},
			Hosts: []string{someHost.Draw(t, "host")}, Capabilities: []string{someCapability.Draw(t, "capability")},
		}
		got := v.Apply(snap)
		if !got.Within(snap.Ceiling) {
			t.Fatalf("%+v is above the ceiling %+v", got, snap.Ceiling)
		}
		if !snap.Open.Within(got) {
			t.Fatalf("a grant took something away: open %+v, with the grant %+v", snap.Open, got)
		}
	})
}

func TestScopeHashesAreOfTheWholeScope(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range []string{
		ScopeHash(KindShellCommand, "bash", []string{"a", "b"}), ScopeHash(KindShellCommand, "bash", []string{"a b"}),
		ScopeHash(KindShellCommand, "bash", []string{"a", "b", ""}), ScopeHash(KindShellCommand, "sh", []string{"a", "b"}),
		ScopeHash(KindNetwork, "bash", []string{"a", "b"}), ScopeHash(KindShellCommand, "bash", nil),
		ScopeHash(KindShellCommand, "bash", []string{"\xff"}), ScopeHash(KindShellCommand, "bash", []string{"\xfe"}),
		ScopeHash(KindShellCommand, "bash", []string{"\ufffd"}), ScopeHash(KindShellCommand, "bash", []string{"<"}), ScopeHash(KindShellCommand, "bash", []string{`\u003c`}),
	} {
		if len(h) != 64 || seen[h] {
			t.Errorf("%s", h)
		}
		seen[h] = true
	}
	// Known, so that a grant that is written down stays valid.
	if got := ScopeHash(KindNetwork, "x", []string{"y"}); got != "6c90b14d04f8d480814124c2af56ed6ff90d72adfa36719f1879bda49cffaeba" {
		t.Errorf("the scope's hash is %s", got)
	}
}

func TestOffersAreNoWiderThanShown(t *testing.T) {
	q := bashQuery("git push origin")
	for _, c := range []struct {
		offered, shown string
		ok             bool
	}{
		{"git push *", "git push *", true}, {"git push origin", "git push *", true}, {"git *", "git push *", false},
		{"git status *", "git *", false}, {"", "git *", false}, {"*", "*", true},
	} {
		if err := CheckOffer(q, c.offered, c.shown); (err == nil) != c.ok {
			t.Errorf("%q for %q: %v", c.offered, c.shown, err)
		}
	}
	q.ExactOnly = true
	if CheckOffer(q, "git push *", "git push *") == nil {
		t.Error("a pattern for what can only be granted exactly")
	}
}
