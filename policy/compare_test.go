package policy

import (
	"strings"
	"testing"
)

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
		if got := WideningGuards(a, guards(after)); len(got) > 0 != more {
			t.Errorf("%s: %q", after, got)
		}
	}
	if len(WideningGuards(a, nil)) != 2 || WideningGuards(nil, a) != nil {
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
