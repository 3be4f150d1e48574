package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAgentFileIsRead(t *testing.T) {
	a, err := ParseAgent("agents/reviewer.md", []byte(`---
name: reviewer   # the name
description: |
  Reads code: carefully
tools:
  - read
  - "grep"
model: { provider: x }
permission:
  # only looks
  "*": ask
  write: deny
  bash:
    "git *": allow
    git push *: deny   # never
    "rm: *":
      action: deny
      reason: "ask 'me' first"
  path:
    '*.env': deny
    ~/.ssh/*: deny
---
permission: allow
`))
	if err != nil {
		t.Fatal(err)
	}
	rule := func(surface, pattern string, action Action, reason string, line, column int) Rule {
		return Rule{surface, pattern, action, reason, Origin{Authority: "frontmatter", File: "agents/reviewer.md", Line: line, Column: column}}
	}
	want := []Rule{
		rule("path_read", "*.env", Deny, "", 20, 5), rule("path_write", "*.env", Deny, "", 20, 5),
		rule("path_read", "~/.ssh/*", Deny, "", 21, 5), rule("path_write", "~/.ssh/*", Deny, "", 21, 5),
		rule("write", "*", Deny, "", 12, 3),
		rule("bash", "git *", Allow, "", 14, 5), rule("bash", "git push *", Deny, "", 15, 5), rule("bash", "rm: *", Deny, "ask 'me' first", 16, 5),
	}
	if d := cmp.Diff(want, a.Permission.Rules); d != "" {
		t.Error(d)
	}
	if a.Name != "reviewer" || !a.Enabled || a.Permission.Universal == nil || a.Permission.Universal.Action != Ask {
		t.Errorf("%+v", a)
	}
}

func TestAgentFilesOnlyRestrict(t *testing.T) {
	a, err := ParseAgent("a.md", []byte("---\npermission:\n  bash:\n    '*': allow\n    rm *: deny\n  edit: allow\n---\n"))
	if err != nil {
		t.Fatal(err)
	}
	policy := mustPolicy(t, `{"permission": {"bash": {"*": "ask", "git *": "allow", "rm *": "allow"}, "edit": "deny"}}`)
	au := Compose(Layers{Session: "s", Snapshot: restricted(Supervised), Policy: policy, Frontmatter: []*PolicyFile{a.Permission}})
	for _, c := range []struct {
		q    Query
		want Action
	}{{bashQuery("rm x"), Deny}, {bashQuery("git status"), Allow}, {bashQuery("make"), Ask}, {NewQuery("edit", "/w/app/x"), Deny}} {
		if d := au.Decide(c.q); d.Action != c.want {
			t.Errorf("%v: %s by %s", c.q.Values, d.Action, d.Reason)
		}
	}
	d := au.Decide(bashQuery("rm x"))
	if d.Rule.Origin.Authority != "frontmatter" || d.Rule.Origin.Line != 5 {
		t.Errorf("%+v", d.Rule.Origin)
	}
}

func TestMistakesInAgentFiles(t *testing.T) {
	_, err := ParseAgent("a.md", []byte(`---
enabled: maybe
Permission: deny
permission:
  bash:
    git *: alow
    *rm: deny
    x: [deny]
    "unclosed: deny
    y:
      reason: z
    w:
      action: allow
  Bash: deny
  path-read: deny
   odd: deny
  "*":
    x: deny
  empty:
  bash: deny
  list:
  - deny
---`))
	want := []string{
		`a.md:2:10: enabled: "maybe", expected true or false`,
		`a.md:3:1: unknown field "Permission", expected "permission" (it would restrict nothing)`,
		`a.md:6:12: "alow", expected allow, ask or deny (did you mean "allow"?)`,
		`a.md:7:5: "*rm: deny", expected PATTERN: allow, ask or deny (a pattern that starts with * or & needs quotes)`,
		`a.md:8:8: "[deny]", expected allow, ask or deny`,
		`a.md:9:5: "\"unclosed: deny", expected PATTERN: allow, ask or deny (a pattern that starts with * or & needs quotes)`,
		`a.md:10:5: pattern "y" without an action, expected allow, ask or deny`,
		`a.md:13:15: "allow", expected deny: only a deny has a reason`,
		`a.md:14:3: surface "Bash", expected "bash": case counts`,
		`a.md:15:3: surface "path-read", expected path, path_read or path_write (did you mean "path_read"?)`,
		`a.md:17:3: patterns under "*", expected allow, ask or deny: patterns need the name of a surface`,
		`a.md:19:3: "empty" says nothing, expected allow, ask or deny, or patterns`,
		`a.md:20:3: "bash" is there twice, expected each name once`,
		`a.md:21:3: "list" says nothing, expected allow, ask or deny, or patterns`,
		`a.md:22:3: "- deny", expected SURFACE: allow, ask or deny`,
	}
	if err == nil {
		t.Fatal("accepted")
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Error(d)
	}
	for name, text := range map[string]string{
		"no end":         "---\npermission: deny\n",
		"no UTF-8":       "---\n\xff\n---\n",
		"says nothing":   "---\npermission:\n---\n",
		"tabs":           "---\npermission:\n\tbash: deny\n---\n",
		"an inline map":  "---\npermission: {bash: deny}\n---\n",
		"an anchor":      "---\npermission: &x\n  bash: deny\n---\n",
		"plural":         "---\npermissions:\n  bash: deny\n---\n",
		"twice":          "---\npermission: deny\npermission: allow\n---\n",
		"a bad surface":  "---\npermission:\n  external_directory: deny\n---\n",
		"value and map":  "---\npermission: deny\n  bash: deny\n---\n",
		"a long pattern": "---\npermission:\n  bash:\n    " + strings.Repeat("x", 5000) + ": deny\n---\n",
	} {
		if a, err := ParseAgent("a.md", []byte(text)); err == nil {
			t.Errorf("%s was accepted: %+v", name, a)
		}
	}
	for name, text := range map[string]string{
		"no front matter": "# hello\npermission: deny\n", "empty": "", "without permission": "---\nname: x\n---\n", "windows lines": "---\r\npermission: deny\r\n---\r\n",
	} {
		if _, err := ParseAgent("a.md", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	off, err := ParseAgent("a.md", []byte("---\nenabled: false\n---\n"))
	if err != nil || off.Enabled {
		t.Errorf("enabled: false: %+v %v", off, err)
	}
	deny, err := ParseAgent("a.md", []byte("---\r\npermission: deny\r\n---\r\n"))
	if err != nil || deny.Permission.Universal == nil || deny.Permission.Universal.Action != Deny {
		t.Errorf("permission: deny: %+v %v", deny, err)
	}
}

func FuzzParseAgent(f *testing.F) {
	f.Add("---\npermission:\n  bash:\n    \"git *\": allow\n    'x': deny # y\n  path: ask\n---\nbody")
	f.Add("---\nname: x\npermission: deny\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAgent("f", []byte(text))
		if (a == nil) != (err != nil) {
			t.Fatal("neither an agent nor a mistake")
		}
		if err != nil {
			var ps Problems
			if !errors.As(err, &ps) || len(ps) == 0 || ps[0].Line < 1 || ps[0].Column < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		if a.Permission == nil {
			return
		}
		free := NewAuthority("s", Resolve(ResolveInput{}), nil)
		held := Compose(Layers{Session: "s", Snapshot: Resolve(ResolveInput{}), Frontmatter: []*PolicyFile{a.Permission}})
		for _, r := range a.Permission.Rules {
			q := NewQuery(r.Surface, r.Pattern)
			if held.Decide(q).Action > free.Decide(q).Action {
				t.Fatalf("%+v widened", r)
			}
		}
	})
}
