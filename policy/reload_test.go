package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWidening(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing changed", `"bash": {"a": "ask"}`, `"bash": {"a": "ask"}`, ""},
		{"only the reason", `"bash": {"a": "deny"}`, `"bash": {"a": {"action": "deny", "reason": "x"}}`, ""},
		{"a new deny", `"bash": {"a": "ask"}`, `"bash": {"a": "ask", "b": "deny"}`, ""},
		{"an allow is gone", `"bash": {"a": "allow"}`, ``, ""},
		{"stricter", `"bash": {"a": "allow"}`, `"bash": {"a": "ask"}`, ""},
		{"another order", `"bash": {"a": "ask", "b": "deny"}`, `"bash": {"b": "deny", "a": "ask"}`, ""},
		{"a new allow", ``, `"bash": {"a": "allow"}`, `bash "a" is allow now`},
		{"a deny is gone", `"bash": {"a": "deny"}`, ``, `bash "a" was deny and is gone`},
		{"an ask is gone", `"bash": {"a": "ask"}`, ``, `bash "a" was ask and is gone`},
		{"looser", `"bash": {"a": "deny"}`, `"bash": {"a": "ask"}`, `was deny and is ask now`},
		{"a new ask where nothing is denied", `"bash": {"x": "allow"}`, `"bash": {"x": "allow", "a": "ask"}`, ""},
		{"a new ask beside a deny", `"bash": {"git *": "deny"}`, `"bash": {"git *": "deny", "git push *": "ask"}`, `may take the place of the deny`},
		{"a new ask below a deny", `"path": {"/w/secret": "deny"}`, `"path": {"/w/secret": "deny", "/w/*": "ask"}`, ""},
		{"the default", `"*": "ask"`, `"*": "allow"`, `"*" was ask and is allow now`},
		{"the default is gone", `"*": "deny"`, ``, `"*" was deny and is gone`},
		{"a stricter default", `"*": "allow"`, `"*": "ask"`, ""},
		{"the family still says it", `"path": {"x": "deny"}`, `"path_read": {"x": "deny"}, "path_write": {"x": "deny"}`, ""},
		{"half of the family", `"path": {"x": "deny"}`, `"path_write": {"x": "deny"}`, `path_read "x" was deny and is gone`},
	} {
		got := strings.Join(Widening(mustPolicy(t, `{"permission": {`+c.before+`}}`), mustPolicy(t, `{"permission": {`+c.after+`}}`)), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := Widening(mustPolicy(t, `{"permission": {"bash": "deny"}}`), nil); len(got) != 1 {
		t.Errorf("a policy that is deleted: %q", got)
	}
	if got := Widening(nil, nil); got != nil {
		t.Errorf("%q", got)
	}
	a, _ := ParseGuards("g", []byte(`{"permission": {"bash": {"rm *": "deny"}}, "protectedWrites": ["a"]}`))
	b, _ := ParseGuards("g", []byte(`{"permission": {"bash": {"rm *": "deny", "rm -i *": "allow"}}}`))
	if got := WideningGuards(a, b); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := WideningGuards(nil, a); got != nil {
		t.Errorf("new guards widen: %q", got)
	}
	if got := WideningGuards(a, nil); len(got) != 2 {
		t.Errorf("no more guards: %q", got)
	}
}

// Where nothing is said to widen, no query gets more than before.
func TestWhatDoesNotWidenOnlyRestricts(t *testing.T) {
	silent, changed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		before := drawFile(t, "before")
		after := &PolicyFile{Rules: slices.Clone(before.Rules), Universal: before.Universal}
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			switch rapid.IntRange(0, 3).Draw(t, "edit") {
			case 0:
				if n := len(after.Rules); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "gone")
					after.Rules = slices.Delete(after.Rules, i, i+1)
				}
			case 1:
				after.Rules = append(after.Rules, drawRules(t, someSurfaces)[0])
			case 2:
				if n := len(after.Rules); n > 0 {
					after.Rules[rapid.IntRange(0, n-1).Draw(t, "changed")].Action = Action(rapid.IntRange(0, 2).Draw(t, "to"))
				}
			case 3:
				after.Universal = drawFile(t, "universal").Universal
			}
		}
		if len(Widening(before, after)) > 0 {
			return
		}
		silent++
		snap := restricted(someMode.Draw(t, "mode"))
		if rapid.Bool().Draw(t, "defaulted") {
			snap = Resolve(ResolveInput{})
		}
		for range 10 {
			q := drawQuery(t)
			x, y := NewAuthority("s", snap, before).Decide(q), NewAuthority("s", snap, after).Decide(q)
			if y.Action > x.Action {
				t.Fatalf("%+v:\nbefore %+v\nafter  %+v\n%v\n%v", q, x, y, before.Rules, after.Rules)
			}
			if y.Action < x.Action {
				changed++
			}
		}
	})
	if silent == 0 || changed == 0 {
		t.Fatalf("%d edits were silent, %d queries changed: the test shows nothing", silent, changed)
	}
}

func TestShowNamesEveryLayer(t *testing.T) {
	guards, err := ParseGuards("g", []byte(`{"permission": {"bash": {"rm *": "deny"}}, "protectedWrites": ["*/hooks/*"]}`))
	if err != nil {
		t.Fatal(err)
	}
	limit, err := ParseCap("cap", []byte(`{"profile": {"policy": {"kinds": {"network": "deny"}, "deny_tools": ["web*"], "allow_paths": ["/w/*"]}}, "ceiling": {"write": ["/w"], "hosts": ["go.dev"]}, "process": {"denied_commands": ["curl"], "allowed_families": ["git"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := ParseAgent("a.md", []byte("---\npermission:\n  \"*\": ask\n  bash: deny\n---\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := Compose(Layers{
		Session: "s", Snapshot: Resolve(ResolveInput{}), Guards: guards, Caps: []*Cap{limit}, Frontmatter: []*PolicyFile{agent.Permission},
		Policy: mustPolicy(t, `{"permission": {"*": "allow", "mcp": {"exa:*": "allow"}}}`), InvalidScope: "project", Yolo: true,
	})
	var got []string
	for _, l := range a.Show() {
		if l.Effect == "" || len(l.Rules) == 0 {
			t.Errorf("%+v", l)
		}
		for _, r := range l.Rules {
			if r.Origin.Authority == "" || r.Action > Allow {
				t.Errorf("%s: a rule without origin: %+v", l.Layer, r)
			}
		}
		if len(got) == 0 || got[len(got)-1] != l.Layer {
			got = append(got, l.Layer)
		}
	}
	want := []string{"hard-guard", "policy", "baseline", "mode", "frontmatter", "cap", "ceiling", "fail-closed", "yolo", "protected"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWindowsPathsFold(t *testing.T) {
	a := NewAuthority("s", Resolve(ResolveInput{Mode: Supervised}), mustPolicy(t, `{"permission": {"path": {"C:/Secrets/*": "deny"}, "bash": {"Git *": "allow"}}}`))
	q := NewQuery("path_read", `c:\secrets\Key`)
	if d := a.Decide(q); d.Action == Deny {
		t.Fatal("denied without folding: the test shows nothing")
	}
	q.Fold = true
	if d := a.Decide(q); d.Action != Deny || d.Value != `c:\secrets\Key` {
		t.Errorf("%+v", d)
	}
	b := bashQuery("git status")
	b.Fold = true
	if d := a.Decide(b); d.Action != Ask {
		t.Errorf("commands fold: %+v", d)
	}
}
