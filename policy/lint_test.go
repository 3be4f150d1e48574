package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLint(t *testing.T) {
	guards, err := ParseGuards("g", []byte(`{"permission": {"bash": {"rm *": "deny"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, permission, want string }{
		{"nothing to say", `"bash": {"*": "ask", "ls *": "allow", "git status": "allow", "git push *": "deny"}`, ""},
		{"shadowed by a wider rule", `"bash": {"ls *": "allow", "ls -la": "allow"}`, `shadowed: "ls *" at p:1:26 says allow for it anyway`},
		{"not when a rule between says otherwise", `"bash": {"*": "allow", "ls -l*": "ask", "ls -la": "allow"}`, "wide: allows every command"},
		{"not when it has its own reason", `"bash": {"*": "deny", "rmdir *": {"action": "deny", "reason": "no"}}`, ""},
		{"unreachable behind a pattern of higher rank", `"grep": {"a**": "allow", "a*": "deny"}`, `unreachable: "a*" at`},
		{"contradictory through the family", `"path": {"/w/x": "allow"}, "path_write": {"/w/x": "deny"}`, "contradictory: p:1:59 says deny for the same, and the more restrictive counts"},
		{"unreachable: a list", `"bash": {"a && b": "deny"}`, "unreachable: each command of a line"},
		{"not in quotes", `"bash": {"echo \"a;b\"": "deny"}`, ""},
		{"unreachable: an assignment", `"bash": {"FOO=1 a": "deny"}`, "unreachable: assignments"},
		{"unreachable: a path that is not clean", `"path": {"/a/../b": "deny"}`, "unreachable: paths are clean"},
		{"unreachable: a folder with a slash", `"path": {"/a/": "deny"}`, `write "/a/*"`},
		{"unreachable: dot slash", `"path": {"./a": "deny"}`, `write "a"`},
		{"unreachable: another's home", `"path": {"~root/x": "deny"}`, "only ~ alone"},
		{"unreachable behind a guard", `"bash": {"rm -r *": "allow"}`, `unreachable: the hard guard`},
		{"wide: everything", `"*": "allow"`, "every command runs"},
		{"wide: a wrapper", `"bash": {"sudo *": "allow"}`, "wide: sudo runs anything as another user"},
		{"wide: a wrapper with an option", `"bash": {"sudo -n *": "allow"}`, "wide: sudo"},
		{"wide: an interpreter", `"bash": {"python3 *": "allow"}`, "wide: python3 runs any text"},
		{"wide: by full path", `"bash": {"/usr/bin/env *": "allow"}`, "wide: env"},
		{"wide: half a name", `"bash": {"ls*": "allow"}`, "wide: the name of the program is not whole"},
		{"not wide: a subcommand", `"bash": {"git status *": "allow", "npm run build*": "allow"}`, ""},
		{"not wide: asked", `"bash": {"sudo *": "ask"}`, ""},
		{"wide: writes", `"path_write": {"~/*": "allow"}`, "wide: allows to write start-up files"},
		{"wide: servers", `"mcp": "allow"`, "wide: allows every tool of every server"},
		{"wide: hosts", `"network": "allow"`, "wide: allows every host"},
		{"typo", `"bahs": "deny"`, `typo: no agent is known to have a tool "bahs"; did you mean "bash"?`},
		{"not a typo: a tool", `"patch": "deny", "task": "ask"`, ""},
	} {
		f, err := ParsePolicy("p", []byte(`{"permission": {`+c.permission+`}}`))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var lines []string
		for _, f := range Lint(f, guards) {
			lines = append(lines, f.String())
		}
		all := strings.Join(lines, "\n")
		if c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s:\n%s\nwant %q", c.name, all, c.want)
		}
	}
}

// What lint calls unreachable or shadowed can be taken out without any change.
func TestLintIsRight(t *testing.T) {
	removed := 0
	rapid.Check(t, func(t *rapid.T) {
		f := &PolicyFile{Rules: drawRules(t, []string{"grep"})}
		for _, found := range Lint(f, nil) {
			if found.Check != "shadowed" && found.Check != "unreachable" && found.Check != "contradictory" || found.Other == nil {
				continue
			}
			removed++
			less := &PolicyFile{}
			for _, r := range f.Rules {
				if r.Origin.Line != found.Rule.Origin.Line {
					less.Rules = append(less.Rules, r)
				}
			}
			q := NewQuery("grep", valueText.Draw(t, "value"))
			q.Home = "/h"
			snap := restricted(Supervised)
			if a, b := NewAuthority("s", snap, f).Decide(q), NewAuthority("s", snap, less).Decide(q); a.Action != b.Action {
				t.Fatalf("%v\nwith %+v\nwithout %+v", found, a, b)
			}
		}
	})
	if removed == 0 {
		t.Fatal("lint never found anything")
	}
}
