package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestModes(t *testing.T) {
	for _, m := range Modes() {
		if got, err := ParseMode(string(m)); err != nil || got != m {
			t.Errorf("%s: %v %v", m, got, err)
		}
	}
	for _, s := range []string{"", "Full_access", "yolo", "full access"} {
		_, err := ParseMode(s)
		if err == nil || !strings.Contains(err.Error(), "full_access, auto_accept_edits or supervised") {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, a := range append(Modes(), "", "x") {
		for _, b := range append(Modes(), "", "x") {
			m := StricterMode(a, b)
			if m != StricterMode(b, a) && (m.Rank() != 0 || StricterMode(b, a).Rank() != 0) || m.Rank() > a.Rank() || m.Rank() > b.Rank() {
				t.Errorf("stricter of %q and %q: %q", a, b, m)
			}
			for _, k := range Kinds() {
				if m.Default(k) > min(a.Default(k), b.Default(k)) {
					t.Errorf("%s is wider than %s and %s for %s", m, a, b, k)
				}
			}
		}
	}
}

func TestModesAnswerKindsAsTheTableSays(t *testing.T) {
	allow := map[Mode]string{
		FullAccess:      "file_read file_write shell_command network mcp_read mcp_write_or_unknown dynamic_skill_tool computer_use task_subagent internal unknown",
		AutoAcceptEdits: "file_read file_write mcp_read internal",
		Supervised:      "file_read mcp_read internal",
	}
	for m, list := range allow {
		for _, k := range Kinds() {
			want := Ask
			for _, word := range strings.Fields(list) {
				if word == string(k) {
					want = Allow
				}
			}
			if got := m.Default(k); got != want {
				t.Errorf("%s %s: %s, want %s", m, k, got, want)
			}
		}
		if m.Default("nonsense") != Deny || m.Default("") != Deny {
			t.Errorf("%s answers for what is no kind", m)
		}
	}
}

func restricted(m Mode) Snapshot {
	return Resolve(ResolveInput{
		Mode: m, Workspace: "/w/app", Cwd: "/w/app/src",
		ExtraRoots: []Entry{{Path: "/usr", Provenance: ProvenanceSystem}, {Path: "/home/u/go", Provenance: ProvenanceRuntime}, {Path: "/w/lib", Access: AccessWrite, Provenance: ProvenanceProject}},
		Backend:    "landlock", BackendAreas: RequiredAreas(), Degradations: []string{"unix.pathname"}, MaxDuration: time.Hour,
	})
}

func TestResolveFollowsTheTable(t *testing.T) {
	full := Resolve(ResolveInput{Cwd: "/w", Workspace: "/w"})
	if full.Profile.Mode != FullAccess || full.Profile.Source != SourceDefaulted || full.Enforcement.Strength != StrengthAdvisory ||
		full.Sandbox.Mode != SandboxUnrestricted || full.Sandbox.Tmp != TmpHost || full.Backend.Requirement != RequirementOptional ||
		full.Process.FilterEnvironment || !full.Open.WriteAll || full.Open.Network != NetworkEnabled {
		t.Errorf("nothing selected: %+v", full)
	}
	auto, sup := restricted(AutoAcceptEdits), restricted(Supervised)
	if auto.Profile.Source != SourceComposer || auto.Sandbox.Tmp != TmpIsolated || auto.Backend.Requirement != RequirementRequired || !auto.Process.FilterEnvironment {
		t.Errorf("auto_accept_edits: %+v", auto)
	}
	for _, c := range []struct {
		s           Snapshot
		path        string
		read, write bool
	}{
		{auto, "/w/app/x", true, true}, {auto, "/w/lib/x", true, true}, {auto, "/usr/bin/x", true, false}, {auto, "/home/u/go/x", true, false},
		{auto, "/home/u/.ssh/id", false, false}, {auto, "/w/other", false, false},
		{sup, "/w/app/x", true, false}, {sup, "/w/lib/x", true, false}, {sup, "/usr/bin/x", true, false}, {sup, "/home/u/.ssh/id", false, false},
	} {
		if c.s.Open.CanRead(c.path) != c.read || c.s.Open.CanWrite(c.path) != c.write {
			t.Errorf("%s %s: read %v write %v", c.s.Profile.Mode, c.path, c.s.Open.CanRead(c.path), c.s.Open.CanWrite(c.path))
		}
	}
	for _, s := range []Snapshot{auto, sup} {
		if s.Open.Network != NetworkDisabled || s.Open.SandboxOff || len(s.Open.Capabilities) != 0 {
			t.Errorf("%s opens %+v", s.Profile.Mode, s.Open)
		}
		if !equalSets(s.Ceiling.Canonical(), Everything()) {
			t.Errorf("%s: the ceiling is %+v, want everything the operator has", s.Profile.Mode, s.Ceiling)
		}
		if s.Enforcement.Status != StatusPartiallyActive || s.Enforcement.Strength != "enforced except unix.pathname" {
			t.Errorf("%+v", s.Enforcement)
		}
	}
	opened := Resolve(ResolveInput{Mode: Supervised, Hosts: []string{"proxy.golang.org"}, Capabilities: []string{"off", "ssh"}})
	if !opened.Open.CanReach("proxy.golang.org", "443") || opened.Open.SandboxOff || !opened.Open.Has("ssh") {
		t.Errorf("what the operator listed: %+v", opened.Open)
	}
}

func TestAModeThatDoesNotExistPermitsNothing(t *testing.T) {
	s := Resolve(ResolveInput{Mode: "root", Workspace: "/w", Cwd: "/w"})
	a := NewAuthority("s", s, mustPolicy(t, `{"permission": {"*": "allow", "x": "allow", "bash": "allow"}}`))
	for _, q := range []Query{bashQuery("ls"), {Surface: "x", Floor: Allow, RulesOnly: true}} {
		if d := a.Decide(q); d.Action != Deny {
			t.Errorf("a rule without a mode to refine: %+v", d)
		}
	}
	for _, k := range Kinds() {
		if d := a.Decide(Query{Surface: "x", Kind: k, Floor: Allow}); d.Action != Deny {
			t.Errorf("%s: %s", k, d.Action)
		}
	}
	if s.Open.CanRead("/w") || s.Ceiling.CanRead("/w") || s.Enforcement.Status != StatusUnavailable {
		t.Errorf("%+v", s)
	}
}

func TestEnforcementIsHonest(t *testing.T) {
	none := Resolve(ResolveInput{Mode: Supervised})
	if none.Enforcement.Status != StatusUnavailable || !cmp.Equal(none.Enforcement.Degradations, sorted(RequiredAreas())) {
		t.Errorf("no backend: %+v", none.Enforcement)
	}
	some := none.Enforced("landlock", []string{AreaFilesystem, AreaSecrets, AreaSignals}, nil)
	if some.Enforcement.Status != StatusUnavailable || !cmp.Equal(some.Enforcement.Degradations, []string{AreaNetwork}) {
		t.Errorf("no network filter: %+v", some.Enforcement)
	}
	if whole := none.Enforced("namespaces", RequiredAreas(), nil); whole.Enforcement.Status != StatusActive || whole.Enforcement.Strength != StrengthEnforced {
		t.Errorf("all areas: %+v", whole.Enforcement)
	}
	if s := (Snapshot{}).Enforced("", nil, nil); s.Enforcement.Status != StatusUnavailable {
		t.Errorf("the zero snapshot: %+v", s.Enforcement)
	}
}

func TestDigestsTellSnapshotsApart(t *testing.T) {
	base := restricted(AutoAcceptEdits)
	seen := map[string]string{base.Digest(): "base"}
	change := func(name string, f func(*Snapshot)) {
		s := restricted(AutoAcceptEdits)
		f(&s)
		d := s.Digest()
		if had, dup := seen[d]; dup {
			t.Errorf("%s has the digest of %s", name, had)
		}
		seen[d] = name
	}
	change("mode", func(s *Snapshot) { s.Profile.Mode = Supervised })
	change("source", func(s *Snapshot) { s.Profile.Source = SourceSystem })
	change("kinds", func(s *Snapshot) { s.Profile.Policy.Kinds[KindNetwork] = Deny })
	change("empty allow list", func(s *Snapshot) { s.Profile.Policy.AllowTools = [][]string{{}} })
	change("cwd", func(s *Snapshot) { s.Sandbox.Cwd = "/w/app" })
	change("open", func(s *Snapshot) { s.Open.Write = nil })
	change("ceiling", func(s *Snapshot) { s.Ceiling.SandboxOff = false })
	change("no family", func(s *Snapshot) { s.Process.AllowedFamilies = []string{} })
	change("duration", func(s *Snapshot) { s.Process.MaxDuration++ })
	change("wall", func(s *Snapshot) { s.Process.MaxWall++ })
	change("idle", func(s *Snapshot) { s.Process.MaxIdle++ })
	change("processes", func(s *Snapshot) { s.Process.MaxProcesses++ })
	change("approval", func(s *Snapshot) { s.Approval.AllowForTurn = false })
	change("generation", func(s *Snapshot) { s.Generation++ })
	change("parent cap", func(s *Snapshot) { s.ParentCap = &Cap{} })
	same := restricted(AutoAcceptEdits)
	same.Open.Read = append(same.Open.Read, same.Open.Read...)
	if same.Digest() != base.Digest() {
		t.Error("equal snapshots have different digests")
	}
	var back Snapshot
	if err := json.Unmarshal(base.Canonical(), &back); err != nil || back.Digest() != base.Digest() {
		t.Errorf("not read back as itself: %v", err)
	}
}

var (
	someMode = rapid.SampledFrom([]Mode{FullAccess, AutoAcceptEdits, Supervised})
	someWant = rapid.SampledFrom([]Mode{"", FullAccess, AutoAcceptEdits, Supervised, "nonsense"})
	someBool = rapid.Custom(func(t *rapid.T) *bool {
		switch rapid.IntRange(0, 2).Draw(t, "optional") {
		case 0:
			return nil
		case 1:
			v := false
			return &v
		}
		v := true
		return &v
	})
	someWords = rapid.SliceOfN(rapid.SampledFrom([]string{"git", "npm", "read", "/a/*", "bash"}), 0, 3)
	someCap   = rapid.Custom(func(t *rapid.T) *Cap {
		if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
			return nil
		}
		side := func(name string) *ResourcesCap {
			if rapid.Bool().Draw(t, name+" absent") {
				return nil
			}
			r := someResources.Draw(t, name)
			c := &ResourcesCap{ReadAll: someBool.Draw(t, "read all"), WriteAll: someBool.Draw(t, "write all"), Network: r.Network, DeniedHosts: r.DeniedHosts, SandboxOff: someBool.Draw(t, "off")}
			if rapid.Bool().Draw(t, "read there") {
				c.Read = append([]Entry{}, r.Read...)
			}
			if rapid.Bool().Draw(t, "write there") {
				c.Write = append([]Entry{}, r.Write...)
			}
			if r.Network == NetworkRestricted {
				c.Hosts = append([]string{}, r.Hosts...)
			}
			if rapid.Bool().Draw(t, "capabilities there") {
				c.Capabilities = append([]string{}, r.Capabilities...)
			}
			return c
		}
		c := &Cap{Name: "cap", Open: side("open"), Ceiling: side("ceiling")}
		if rapid.Bool().Draw(t, "profile") {
			c.Profile = &ProfileCap{Policy: &ToolPolicyCap{Kinds: map[Kind]Action{
				rapid.SampledFrom(Kinds()).Draw(t, "kind"): Action(rapid.IntRange(0, 2).Draw(t, "action")),
			}, DenyTools: someWords.Draw(t, "deny tools")}}
			if rapid.Bool().Draw(t, "mode there") {
				c.Profile.Mode = someMode.Draw(t, "mode")
			}
			if rapid.Bool().Draw(t, "allow list") {
				c.Profile.Policy.AllowTools = [][]string{someWords.Draw(t, "allow tools")}
			}
		}
		if rapid.Bool().Draw(t, "process") {
			c.Process = &ProcessCap{ShellEnabled: someBool.Draw(t, "shell"), MaxDuration: Duration(rapid.IntRange(0, 3).Draw(t, "max")) * Duration(time.Minute), Limits: someLimits(t), DeniedCommands: someWords.Draw(t, "denied")}
			if rapid.Bool().Draw(t, "families there") {
				c.Process.AllowedFamilies = append([]string{}, someWords.Draw(t, "families")...)
			}
		}
		if rapid.Bool().Draw(t, "sandbox") {
			c.Sandbox = &SandboxCap{Mode: rapid.SampledFrom(sandboxModes[:]).Draw(t, "sandbox mode")}
		}
		if rapid.Bool().Draw(t, "approval") {
			c.Approval = &ApprovalCap{AllowOnce: someBool.Draw(t, "once"), AllowForTurn: someBool.Draw(t, "turn")}
		}
		return c
	})
)

// notWider fails where the child permits what the parent does not.
func notWider(t *rapid.T, parent, child Snapshot) {
	t.Helper()
	fail := func(what string) {
		t.Fatalf("%s is wider\nparent %s\nchild  %s", what, parent.Canonical(), child.Canonical())
	}
	switch {
	case child.Profile.Mode.Rank() > parent.Profile.Mode.Rank():
		fail("mode")
	case child.Sandbox.Mode.rank() > parent.Sandbox.Mode.rank():
		fail("sandbox mode")
	case !child.Open.Within(parent.Open):
		fail("open")
	case !child.Ceiling.Within(parent.Ceiling):
		fail("ceiling")
	case !child.Open.Within(child.Ceiling):
		fail("open above its own ceiling: it")
	case child.Process.ShellEnabled && !parent.Process.ShellEnabled:
		fail("shell")
	case !child.Process.FilterEnvironment && parent.Process.FilterEnvironment:
		fail("environment")
	case parent.Process.MaxDuration != 0 && (child.Process.MaxDuration == 0 || child.Process.MaxDuration > parent.Process.MaxDuration):
		fail("duration")
	case !child.Process.Limits.Within(parent.Process.Limits):
		fail("limits")
	case child.Approval.AllowOnce && !parent.Approval.AllowOnce, child.Approval.AllowForTurn && !parent.Approval.AllowForTurn:
		fail("approval")
	case parent.Backend.Requirement == RequirementRequired && child.Backend.Requirement != RequirementRequired:
		fail("backend requirement")
	case parent.Sandbox.Tmp == TmpIsolated && child.Sandbox.Tmp != TmpIsolated:
		fail("tmp")
	}
	for _, k := range Kinds() {
		if child.Profile.Policy.Kinds[k] > parent.Profile.Policy.Kinds[k] {
			fail(string(k))
		}
	}
	if parent.Process.AllowedFamilies != nil {
		if child.Process.AllowedFamilies == nil {
			fail("families")
		}
		for _, f := range child.Process.AllowedFamilies {
			if !strings.Contains(fmt.Sprint(parent.Process.AllowedFamilies), f) {
				fail("family " + f)
			}
		}
	}
}

func TestAChildIsNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent := restricted(someMode.Draw(t, "mode"))
		parent, _ = Restrict(parent, someCap.Draw(t, "parent's cap"))
		for i := range 3 {
			want, limit := someWant.Draw(t, "want"), someCap.Draw(t, "cap")
			child, narrowed := Child(parent, want, limit, somePath.Draw(t, "cwd"))
			notWider(t, parent, child)
			if want.Rank() > parent.Profile.Mode.Rank() && len(narrowed) == 0 {
				t.Fatalf("generation %d: a wider mode was narrowed without a word", i)
			}
			if limit != nil && child.Profile.Source != SourceTaskCap {
				t.Fatalf("generation %d: a capped child has source %s", i, child.Profile.Source)
			}
			if _, err := json.Marshal(child); err != nil {
				t.Fatal(err)
			}
			parent = child
		}
	})
}

func TestChildSaysWhyItHasWhatItHas(t *testing.T) {
	sup := restricted(Supervised)
	full := Resolve(ResolveInput{Workspace: "/w/app", Cwd: "/w/app", ExtraRoots: []Entry{{Path: "/usr", Provenance: ProvenanceSystem}}})
	for _, c := range []struct {
		name     string
		parent   Snapshot
		want     Mode
		mode     Mode
		source   Source
		narrowed string
	}{
		{"inherits", sup, "", Supervised, SourceInherited, ""},
		{"a wider wish is narrowed and said", sup, FullAccess, Supervised, SourceTaskCap, "mode full_access: narrowed to supervised"},
		{"the same wish is the child's own", sup, Supervised, Supervised, SourceComposer, ""},
		{"a stricter wish is the child's own", full, AutoAcceptEdits, AutoAcceptEdits, SourceComposer, ""},
		{"a default is inherited as such", full, "", FullAccess, SourceInherited, ""},
		{"no mode is no permission", full, "root", "", SourceTaskCap, "does not exist"},
	} {
		s, narrowed := Child(c.parent, c.want, nil, "/w/app/sub")
		if s.Profile.Mode != c.mode || s.Profile.Source != c.source || !strings.Contains(strings.Join(narrowed, "\n"), c.narrowed) || c.narrowed == "" && len(narrowed) > 0 {
			t.Errorf("%s: %s %s %q", c.name, s.Profile.Mode, s.Profile.Source, narrowed)
		}
	}
	auto, _ := Child(full, AutoAcceptEdits, nil, "/w/app/sub")
	if auto.Sandbox.Workspace != "/w/app" || !auto.Open.CanWrite("/w/app/x") || auto.Open.CanWrite("/usr/x") || !auto.Open.CanRead("/usr/x") || auto.Backend.Requirement != RequirementRequired {
		t.Errorf("a restricted child of a full parent: %s", auto.Canonical())
	}
	out, narrowed := Child(sup, "", nil, "/etc")
	if len(narrowed) == 0 || out.Open.CanRead("/etc/passwd") {
		t.Errorf("a directory outside: %q %s", narrowed, out.Canonical())
	}
	if s, _ := Child(full, "", nil, "/w/app"); s.ParentCap != nil || s.Sandbox.Tmp != TmpHost {
		t.Errorf("an unheld child has a parent cap: %s", s.Canonical())
	}
	if s, _ := Child(sup, "", nil, "/w/app"); s.ParentCap == nil || s.ParentCap.Profile.Mode != Supervised {
		t.Error("a held child has no parent cap")
	}
}

func TestCapsOnRootsCompareResolvedComponents(t *testing.T) {
	parent := Snapshot{}
	parent = restricted(AutoAcceptEdits)
	parent.Ceiling = MeetResources(parent.Ceiling, Resources{ReadAll: true, Write: []Entry{{Path: "/w/app"}}})
	for path, kept := range map[string]bool{"/w/app-secrets": false, "/w/x": false, "/w/App": false, "/w/app": true, "/w/app/": true} {
		limit, err := ParseCap("cap.jsonc", fmt.Appendf(nil, `{"open": {"write": [%q]}, "ceiling": {"write": [%q]}}`, path, path))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		s, narrowed := Child(parent, "", limit, "/w/app")
		if got := s.Open.CanWrite(path); got != kept {
			t.Errorf("%s: writable %v, want %v", path, got, kept)
		}
		if kept == (len(narrowed) > 0) {
			t.Errorf("%s: narrowed %q", path, narrowed)
		}
	}
	// A path that leaves the root is refused in the file, with the clean form.
	_, err := ParseCap("cap.jsonc", []byte("{\"open\": {\n \"write\": [\"/w/app/../x\"]}}"))
	if err == nil || !strings.Contains(err.Error(), `cap.jsonc:2:12: path "/w/app/../x" is not clean, expected "/w/x"`) {
		t.Errorf("%v", err)
	}
}

func someLimits(t *rapid.T) Limits {
	return Limits{
		MaxWall: Duration(rapid.IntRange(0, 3).Draw(t, "wall")), MaxIdle: Duration(rapid.IntRange(0, 3).Draw(t, "idle")), MaxProcesses: rapid.IntRange(0, 3).Draw(t, "processes"),
	}
}

// TestLimitsMeet: the meet is commutative, associative and idempotent, and what it
// lets through, both sides let through.
func TestLimitsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := someLimits(t), someLimits(t), someLimits(t)
		m := a.Meet(b)
		if m != b.Meet(a) || m.Meet(c) != a.Meet(b.Meet(c)) || a.Meet(a) != a || !m.Within(a) || !m.Within(b) {
			t.Fatalf("%+v and %+v and %+v", a, b, c)
		}
		if (a == Limits{}) && m != b {
			t.Fatalf("no limit and %+v is %+v", b, m)
		}
	})
}
