package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPolicyKeepsOrderPositionsAndReasons(t *testing.T) {
	f, err := ParsePolicy("p.jsonc", []byte(`{
  // the schema helps editors
  "$schema": "./policy.schema.json",
  "permission": {
    "*": "ask",
    "path_write": {"/w/é": "allow", "/x/*": "deny"},
    "bash": {
      "git *": "allow", /* later */ "git push *": {"action": "deny", "reason": "ask me first"},
    },
    "path": {"*.env": "deny"},
    "read": "allow",
  },
}`))
	if err != nil {
		t.Fatal(err)
	}
	rule := func(surface, pattern string, a Action, reason string, line, column int) Rule {
		return Rule{surface, pattern, a, reason, Origin{Authority: "policy", File: "p.jsonc", Line: line, Column: column}}
	}
	want := []Rule{
		rule("path_read", "*.env", Deny, "", 10, 14),
		rule("path_write", "*.env", Deny, "", 10, 14),
		rule("path_write", "/w/é", Allow, "", 6, 20),
		rule("path_write", "/x/*", Deny, "", 6, 37),
		rule("bash", "git *", Allow, "", 8, 7),
		rule("bash", "git push *", Deny, "ask me first", 8, 37),
		rule("read", "*", Allow, "", 11, 5),
	}
	if d := cmp.Diff(want, f.Rules); d != "" {
		t.Error(d)
	}
	if f.Universal == nil || f.Universal.Action != Ask || f.Universal.Origin.Line != 5 {
		t.Errorf("universal: %+v", f.Universal)
	}
	if _, needs := f.NeedsHome(); needs {
		t.Error("no rule needs a home")
	}
	if r, needs := mustPolicy(t, `{"permission": {"path": {"~/x": "deny"}}}`).NeedsHome(); !needs || r.Pattern != "~/x" {
		t.Error("the rule on ~ was not found")
	}
}

func TestEveryMistakeIsReportedAtOnceWithItsPlace(t *testing.T) {
	_, err := ParsePolicy("p.jsonc", []byte(`{
  "permisson": {},
  "permission": {
    "bash": {"git *": "alow", "rm *": {"action": "deny", "reson": "x"}, "": "deny"},
    "Bash": "ask",
    "path-write": "deny",
    "external_directory": "ask",
    "read": 3,
    "*": {"x": "deny"},
    "bash": "deny",
    "grep": {"x": {"action": "allow", "reason": "y"}, "y": {"reason": "z"}, "z": ["deny"], "w": null},
    "": "deny",
  }
}`))
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatalf("%v", err)
	}
	want := []string{
		`p.jsonc:2:3: unknown key "permisson", expected permission or $schema (did you mean "permission"?)`,
		`p.jsonc:4:23: "alow", expected allow, ask or deny or {"action": "deny", "reason": …} (did you mean "allow"?)`,
		`p.jsonc:4:58: unknown key "reson", expected action or reason (did you mean "reason"?)`,
		`p.jsonc:4:73: an empty pattern, expected a pattern such as "git *", or "*" for everything`,
		`p.jsonc:5:5: surface "Bash", expected "bash": case counts`,
		`p.jsonc:6:5: surface "path-write", expected path, path_read or path_write (did you mean "path_write"?)`,
		`p.jsonc:7:5: surface "external_directory", expected rules on "path", "path_read" or "path_write" (paths outside the workspace are judged by the same rules as those inside)`,
		`p.jsonc:8:13: 3, expected allow, ask or deny, or an object of patterns`,
		`p.jsonc:9:10: patterns under "*", expected allow, ask or deny: patterns need the name of a surface`,
		`p.jsonc:10:5: "bash" is there twice, expected each name once (first at line 4, column 5)`,
		`p.jsonc:11:30: "allow", expected deny: only a deny has a reason`,
		`p.jsonc:11:60: an object without "action", expected {"action": "deny", "reason": …}`,
		`p.jsonc:11:82: an array, expected allow, ask or deny or {"action": "deny", "reason": …}`,
		`p.jsonc:11:97: null, expected allow, ask or deny or {"action": "deny", "reason": …}`,
		`p.jsonc:12:5: an empty surface, expected the name of a surface such as "bash"`,
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Error(d)
	}
	if f, _ := ParsePolicy("p", []byte(`{"permission": {"bash": "deny", "x": 1}}`)); f != nil {
		t.Error("part of a file with a mistake was returned")
	}
}

func TestFilesThatAreNoneAreRefusedWithTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "p:1:1: the file is empty"},
		{"no object", "[]", "p:1:1: an array"},
		{"null", "null", "p:1:1: null"},
		{"cut off", "{\n \"permission\": {", "p:2:"},
		{"two commas", `{"bash":{"rm *":"deny"},,}`, "p:1:25"},
		{"something behind", `{} x`, "p:1:4"},
		{"a byte order mark", "\xef\xbb\xbf{}", "byte order mark"},
		{"no UTF-8", "{\n\"\xff\": 1}", "p:2:2: byte 0xff is not UTF-8"},
		{"half a surrogate pair", `{"permission": {"bash": {"\ud800": "deny"}}}`, "p:1:26: a string with half of a surrogate pair"},
		{"a name in another case", `{"Permission": {}}`, `did you mean "permission"?`},
		{"too deep", strings.Repeat("[", 40) + strings.Repeat("]", 40), "p:1:33: more than 32 levels"},
		{"too deep behind a comment", "/* [[[ */ // [[[\n" + strings.Repeat("[", 40), "p:2:33: more than 32 levels"},
		{"too long", `"` + strings.Repeat("x", maxFile) + `"`, "at most 4194304"},
		{"a long reason", fmt.Sprintf(`{"permission": {"bash": {"x": {"action": "deny", "reason": %q}}}}`, strings.Repeat("é", 501)), "a reason of 501 characters"},
		{"a long pattern", fmt.Sprintf(`{"permission": {"bash": {%q: "deny"}}}`, strings.Repeat("x", 5000)), "a pattern of 5000 bytes"},
		{"only wildcards as a surface", `{"permission": {"**": "allow"}}`, `expected "*" for every surface`},
		{"a surface with a space", `{"permission": {"bash ": "allow"}}`, "without spaces"},
	} {
		f, err := ParsePolicy("p", []byte(c.text))
		if err == nil || f != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, good := range []string{"{}", `{"permission": {}}`, "// nothing\n{}", `{"permission": {"patch": "ask", "pathfinder": "ask", "apply_patch": "deny", "path*": "deny"}}`} {
		if _, err := ParsePolicy("p", []byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	var text strings.Builder
	text.WriteString(`{"permission": {"bash": {`)
	for i := range 1000 {
		fmt.Fprintf(&text, "%q: 7,\n", fmt.Sprint(i))
	}
	text.WriteString("}}}")
	_, err := ParsePolicy("p", []byte(text.String()))
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != maxProblems+1 || !strings.Contains(ps[maxProblems].What, "too many") {
		t.Errorf("a thousand mistakes: %d", len(ps))
	}
}

func TestCapsAreReadStrictly(t *testing.T) {
	c, err := ParseCap("cap.jsonc", []byte(`{
  "profile": {"mode": "supervised", "policy": {"kinds": {"network": "deny"}, "allow_tools": ["read", "b*"]}},
  "sandbox": {"mode": "read_only", "tmp": "isolated"},
  "open": {"read": ["/w", {"path": "/usr", "access": "read", "provenance": "system"}], "network": "disabled"},
  "ceiling": {"hosts": ["go.dev"], "capabilities": ["ssh"], "sandbox_off": false}, // no way out
  "process": {"shell_enabled": false, "max_duration": "10m", "allowed_families": []},
  "approval": {"allow_for_turn": false},
  "backend": {"requirement": "required"},
}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Profile.Mode != Supervised || c.Process.MaxDuration.String() != "10m0s" || c.Process.AllowedFamilies == nil || len(c.Open.Read) != 2 ||
		c.Open.Read[0].Provenance != ProvenanceTaskCap || c.Open.Read[1].Provenance != ProvenanceSystem || *c.Approval.AllowForTurn || c.Approval.AllowOnce != nil {
		t.Errorf("%+v", c)
	}
	if o := c.At["profile.policy.kinds.network"]; o.Line != 2 || o.Column != 58 {
		t.Errorf("position: %+v", o)
	}
	_, err = ParseCap("cap.jsonc", []byte(`{
 "mode": "supervised",
 "profile": {"mode": "supervise", "policy": {"kinds": {"shell": "deny", "network": "never"}, "allow_tools": "read"}},
 "sandbox": {"mode": "readonly"},
 "open": {"write": ["w", "/a//b", {"path": "/c", "access": "read"}], "network": "off", "hosts": ["http://x"], "read_all": false, "capabilities": ["off", "sudo"]},
 "process": {"max_duration": "10", "shell_enabled": 0, "denied_commands": ["/bin/rm"]},
 "backend": {"requirement": "maybe"}, "generation": 3
}`))
	want := []string{
		`cap.jsonc:2:2: unknown key "mode", expected profile, sandbox, open, ceiling, process, approval, backend or $schema`,
		`cap.jsonc:3:22: "supervise", expected full_access, auto_accept_edits or supervised (did you mean "supervised"?)`,
		`cap.jsonc:3:56: unknown key "shell", expected file_read, file_write, shell_command, network, mcp_read, mcp_write_or_unknown, dynamic_skill_tool, computer_use, task_subagent, internal or unknown`,
		`cap.jsonc:3:84: "never", expected allow, ask or deny`,
		`cap.jsonc:3:109: "read", expected a list of patterns`,
		`cap.jsonc:4:22: "readonly", expected read_only, workspace_write or unrestricted (did you mean "read_only"?)`,
		`cap.jsonc:5:21: path "w", expected an absolute path`,
		`cap.jsonc:5:26: path "/a//b" is not clean, expected "/a/b"`,
		`cap.jsonc:5:60: "read" in a list of write roots, expected "write"`,
		`cap.jsonc:5:81: "off", expected disabled, restricted or enabled`,
		`cap.jsonc:5:98: host "http://x", expected "example.org", "*.example.org" or either with ":port"`,
		`cap.jsonc:5:123: "read_all" is false and there is no "read", expected a list "read" of the roots that stay, [] for none`,
		`cap.jsonc:5:147: "off", expected the field "sandbox_off"`,
		`cap.jsonc:5:154: unknown capability "sudo", expected ssh, git-credential:HOST, gpg, env:NAME, docker, display or nest`,
		`cap.jsonc:6:30: "10" is no duration, expected one above zero such as "90s" or "10m"`,
		`cap.jsonc:6:53: 0, expected true or false`,
		`cap.jsonc:6:76: program "/bin/rm", expected one name without folder, space or wildcard`,
		`cap.jsonc:7:29: "maybe", expected optional or required`,
		`cap.jsonc:7:39: unknown key "generation", expected profile, sandbox, open, ceiling, process, approval, backend or $schema`,
	}
	if err == nil {
		t.Fatal("accepted")
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Error(d)
	}
}

// A snapshot's own cap is a cap file: what a session was held to can be used
// again.
func TestAPrintedCapIsReadBack(t *testing.T) {
	for _, m := range Modes() {
		s := restricted(m)
		c, err := ParseCap("parent", canonicalJSON(CapOf(s)))
		if err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		again, narrowed := Restrict(s, c)
		if len(narrowed) > 0 || !equalSets(again.Open.Canonical(), s.Open.Canonical()) || !equalSets(again.Ceiling.Canonical(), s.Ceiling.Canonical()) ||
			again.Process.MaxDuration != s.Process.MaxDuration || !cmp.Equal(again.Profile.Policy.Kinds, s.Profile.Policy.Kinds) {
			t.Errorf("%s: %q\n%s\n%s", m, narrowed, s.Canonical(), again.Canonical())
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add(`{"permission": {"*": "ask", "bash": {"git *": "allow", "x": {"action": "deny", "reason": "y"}}, "path": "deny"}}`)
	f.Add("{\"permission\": {\"bash\": \"deny\",},} // x")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy("f", []byte(text))
		g, gerr := ParseGuards("f", []byte(text))
		for _, err := range []error{err, gerr} {
			checkProblems(t, text, err)
		}
		if (p == nil) != (err != nil) || (g == nil) != (gerr != nil) {
			t.Fatal("neither a file nor a mistake")
		}
		if p == nil {
			return
		}
		a := NewAuthority("s", Resolve(ResolveInput{}), p)
		for _, r := range p.Rules {
			if r.Origin.Line < 1 || r.Origin.Column < 1 {
				t.Fatalf("no place: %+v", r)
			}
			a.Decide(NewQuery(r.Surface, r.Pattern))
		}
	})
}

func FuzzParseCap(f *testing.F) {
	f.Add(`{"open": {"write": ["/w"], "hosts": ["a.b:1"]}, "profile": {"mode": "supervised", "policy": {"kinds": {"network": "deny"}}}}`)
	f.Add(`{"process": {"max_duration": "1h"}, "ceiling": {"capabilities": ["env:A"], "read_all": true}}`)
	parent := restricted(AutoAcceptEdits)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCap("f", []byte(text))
		checkProblems(t, text, err)
		if (c == nil) != (err != nil) {
			t.Fatal("neither a cap nor a mistake")
		}
		if c == nil {
			return
		}
		child, _ := Child(parent, "", c, "/w/app")
		if !child.Open.Within(parent.Open) || !child.Ceiling.Within(parent.Ceiling) || !child.Open.Within(child.Ceiling) {
			t.Fatalf("%s widened", text)
		}
	})
}

// checkProblems checks that every mistake has a place inside the file.
func checkProblems(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var ps Problems
	if !errors.As(err, &ps) || len(ps) == 0 {
		t.Fatalf("a mistake without a place: %v", err)
	}
	lines := strings.Split(text, "\n")
	for _, p := range ps {
		if p.Line < 1 || p.Column < 1 || p.Line > len(lines) || p.Column > len(lines[p.Line-1])+2 {
			t.Fatalf("a place outside the file: %v", p)
		}
		if p.What == "" || strings.Contains(p.Error(), "\n") && !strings.Contains(text, "\n") {
			t.Fatalf("%q", p.Error())
		}
	}
	if !slices.IsSortedFunc(ps, func(a, b Problem) int { return (a.Line-b.Line)*1_000_000 + a.Column - b.Column }) && len(ps) <= maxProblems {
		t.Fatalf("not in the order of the file: %v", err)
	}
}
