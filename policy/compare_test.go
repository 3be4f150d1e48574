package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWideningOfAPolicy(t *testing.T) {
	parse := func(s string) *PolicyFile {
		t.Helper()
		if s == "" {
			return nil
		}
		f, err := ParsePolicy("p", []byte(`{"permission": {`+s+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		before, after, more string
	}{
		{`"bash": {"git *": "allow"}`, `"bash": {"git *": "allow"}`, ""},
		{`"bash": {"git *": "allow"}`, ``, ""},
		{`"bash": {"git *": "allow"}`, `"bash": {"git *": "allow", "git push *": "deny"}`, ""},
		{`"bash": {"git *": "allow"}`, `"bash": {"git *": "allow", "git push *": "ask"}`, ""},
		{`"bash": {"git *": "allow"}`, `"bash": {"git *": "ask"}`, ""},
		{`"bash": {"git *": "ask"}`, `"bash": {"git *": "deny"}`, ""},
		{``, `"bash": {"git *": "allow"}`, `bash "git *": allow`},
		{`"bash": {"git *": "deny"}`, ``, `deny is gone`},
		{`"bash": {"git *": "ask"}`, ``, `ask is gone`},
		{`"bash": {"git *": "deny"}`, `"bash": {"git *": "ask"}`, `ask instead of deny`},
		{`"bash": {"git *": "deny"}`, `"bash": {"git *": "deny", "git log": "ask"}`, `bash "git log": ask`},
		{`"path_read": {"/x/*": "deny"}`, `"path_read": {"/x/*": "deny"}, "read": {"/x/y": "ask"}`, `read "/x/y": ask`},
		{`"mcp*": {"*": "deny"}`, `"mcp*": {"*": "deny"}, "mcp": {"s_t": "ask"}`, `mcp "s_t": ask`},
		{`"*": "ask"`, `"*": "deny"`, ""},
		{``, `"*": "deny"`, `"*": deny`},
		{`"*": "ask"`, `"*": "allow"`, `"*": allow`},
		{`"*": "deny"`, `"*": "deny", "x": "ask"`, `x "*": ask`},
		{`"bash": {"c*": "deny"}`, `"bash": {"c*": "deny", "? ?*": "deny"}`, `"? ?*"`},
	} {
		got := strings.Join(parse(c.before).Widening(parse(c.after)), "\n")
		if c.more == "" && got != "" || c.more != "" && !strings.Contains(got, c.more) {
			t.Errorf("%s -> %s: %q, expected %q", c.before, c.after, got, c.more)
		}
	}
}

// TestNoWideningAllowsNothingMore is what the reload of a policy stands on: where
// nothing is said, no question has a more permissive answer, whatever the mode.
func TestNoWideningAllowsNothingMore(t *testing.T) {
	surfaces := []string{"bash", "mcp", "path_read", "path_write", "read", "tool", "t*", "path", "*p"}
	rules := rapid.Custom(func(t *rapid.T) string {
		var out []string
		for _, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(surfaces), 0, 4, rapid.ID[string]).Draw(t, "surfaces") {
			var patterns []string
			for _, p := range rapid.SliceOfNDistinct(rapid.StringMatching(`[/ab?* ]{1,4}`), 1, 4, rapid.ID[string]).Draw(t, "patterns") {
				patterns = append(patterns, fmt.Sprintf("%q: %q", p, rapid.SampledFrom(actionNames[:]).Draw(t, "action")))
			}
			out = append(out, fmt.Sprintf("%q: {%s}", s, strings.Join(patterns, ", ")))
		}
		if rapid.Bool().Draw(t, "universal") {
			out = append(out, fmt.Sprintf(`"*": %q`, rapid.SampledFrom(actionNames[:]).Draw(t, "action")))
		}
		return strings.Join(out, ", ")
	})
	proved := 0
	rapid.Check(t, func(t *rapid.T) {
		before, err := ParsePolicy("a", []byte(`{"permission": {`+rules.Draw(t, "before")+`}}`))
		if err != nil {
			t.Skip(err)
		}
		// The new file is the old one with a few rules changed, so that proofs happen.
		after := &PolicyFile{Name: "b", Universal: before.Universal}
		for _, r := range before.Rules {
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				continue
			case 1:
				r.Action = rapid.SampledFrom([]Action{Deny, Ask, Allow}).Draw(t, "other")
			}
			after.Rules = append(after.Rules, r)
		}
		for range rapid.IntRange(0, 2).Draw(t, "added") {
			after.Rules = append(after.Rules, Rule{Surface: rapid.SampledFrom(surfaces[:7]).Draw(t, "surface"),
				Pattern: rapid.StringMatching(`[/ab?* ]{1,4}`).Draw(t, "pattern"), Action: rapid.SampledFrom([]Action{Deny, Deny, Ask, Allow}).Draw(t, "action")})
		}
		if len(before.Widening(after)) > 0 {
			return
		}
		proved++
		for _, mode := range append(Modes(), "") {
			in := ResolveInput{Mode: mode, Source: SourceComposer, Workspace: "/a", Cwd: "/a"}
			if mode == "" {
				in.Mode, in.Source = FullAccess, SourceDefaulted
			}
			snap := Resolve(in)
			old, now := NewAuthority("s", snap, before), NewAuthority("s", snap, after)
			for range 8 {
				surface := rapid.SampledFrom([]string{"bash", "mcp", "path_read", "path_write", "read", "tool", "path", "ap"}).Draw(t, "asked")
				q := NewQuery(surface, rapid.SliceOfN(rapid.StringMatching(`[/ab ]{0,4}`), 1, 3).Draw(t, "values")...)
				was, is := old.Decide(q), now.Decide(q)
				if is.Action > was.Action {
					t.Fatalf("%s %q: %s (%s), was %s (%s)\nbefore %v\nafter %v", surface, q.Values, is.Action, is.Reason, was.Action, was.Reason, before.Rules, after.Rules)
				}
			}
		}
	})
	if proved == 0 {
		t.Error("nothing was proved: the test tests nothing")
	}
}

func TestWideningOfGuardsAgentsAndSettings(t *testing.T) {
	guards := func(s string) *Guards {
		g, err := ParseGuards("g", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	a := guards(`{"permission": {"bash": {"rm *": "deny"}}, "protectedWrites": ["/p/*"]}`)
	for after, more := range map[string]bool{
		`{"permission": {"bash": {"rm *": "deny", "dd *": "deny"}}, "protectedWrites": ["/p/*", "/q"]}`: false,
		`{"permission": {"bash": {"rm *": "deny", "rm x": "allow"}}, "protectedWrites": ["/p/*"]}`:      true,
		`{"permission": {"bash": {"rm *": "deny"}}}`:                                                    true,
		`{"protectedWrites": ["/p/*"]}`:                                                                 true,
		`{"permission": {"bash": {"rm *": "allow"}}, "protectedWrites": ["/p/*"]}`:                      true,
		`{"permission": {"bash": {"rm *": "deny"}, "mcp": {"x": "deny"}}, "protectedWrites": ["/p/*"]}`: false,
	} {
		if got := a.Widening(guards(after)); len(got) > 0 != more {
			t.Errorf("%s: %q", after, got)
		}
	}
	if len(a.Widening(nil)) != 2 || (*Guards)(nil).Widening(a) != nil {
		t.Error("no file")
	}
	agent := func(s string) *Agent {
		g, err := ParseAgent("m", []byte("---\n"+s+"\n---\n"))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	one := agent("permission:\n  bash:\n    \"rm *\": deny")
	for after, more := range map[string]bool{
		"permission:\n  bash:\n    \"rm *\": deny\n  mcp: deny":   false,
		"permission:\n  \"*\": deny\n  bash:\n    \"rm *\": deny": false,
		"permission:\n  bash:\n    \"rm *\": ask":                 true,
		"name: x": true,
		"enabled: false\npermission:\n  bash:\n    \"rm *\": deny": false,
	} {
		if got := one.Widening(agent(after)); len(got) > 0 != more {
			t.Errorf("%s: %q", after, got)
		}
	}
	if len(agent("enabled: false").Widening(agent("name: x"))) == 0 || len(one.Widening(nil)) == 0 {
		t.Error("an agent that is enabled again, or has no file any more, is more")
	}
	if len(agent("permission: deny").Widening(agent("permission:\n  bash: ask"))) == 0 {
		t.Error("a rule beside a universal deny is more")
	}
	set := func(s string) *Settings {
		g, err := ParseSettings("c", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for after, more := range map[string]bool{
		`{}`: false, `{"hosts": ["x.y"]}`: false, `{"yolo": true}`: true, `{"allowAlways": true}`: true,
		`{"authorizers": ["x"]}`: true, `{"autoReview": {"provider": "openai", "model": "m"}}`: true,
	} {
		if got := (*Settings)(nil).Widening(set(after)); len(got) > 0 != more {
			t.Errorf("%s: %q", after, got)
		}
	}
}

func TestLinkSettings(t *testing.T) {
	s, err := ParseSettings("c", []byte(`{"authorizers": ["auto-review", {"name": "mine", "command": ["/usr/bin/x", "-a"], "timeout": "2s", "limit": "deny"}, "gone"],
 "autoReview": {"provider": "anthropic", "model": "m", "baseURL": "http://127.0.0.1:8080/", "apiKeyEnv": "KEY", "maxDenials": 2}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Links) != 3 || s.Links[1].Command[1] != "-a" || s.Links[1].Limit != "deny" || s.Review.BaseURL != "http://127.0.0.1:8080" || s.Review.MaxDenials != 2 {
		t.Errorf("%+v %+v", s.Links, s.Review)
	}
	_, err = ParseSettings("c", []byte(`{"authorizers": ["a", "a", "", {"name": "b", "command": ["sh"]}, {"name": "auto-review", "command": ["/x"]}, {"nam": "c"}],
 "autoReview": {"provider": "gpt", "baseURL": "http://example.com", "timeout": "1h", "apiKeyEnv": "K=v", "maxDenials": 0}}`))
	for _, want := range []string{
		`link "a" is there twice`, `link name ""`, "the absolute path of a program", "this one is built in", `unknown key "nam"`,
		"openai or anthropic", "on this machine", `"1h"`, "the key itself does not belong", "from 1 to 100", "without provider or model",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	for _, bad := range []string{"ftp://x", "https://u:p@x", "https://x?k=v", "http://localhost:1", "http://10.0.0.1", "https://", "x"} {
		if badEndpoint(bad) == "" {
			t.Errorf("%s accepted", bad)
		}
	}
}
