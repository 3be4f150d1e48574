package policy

import "testing"

func mustPolicy(t testing.TB, text string) *PolicyFile {
	t.Helper()
	f, err := ParsePolicy("policy.jsonc", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func bashQuery(command string) Query { return NewQuery("bash", command) }

func TestPolicyRefinesTheMode(t *testing.T) {
	file := mustPolicy(t, `{"permission": {"*": "allow", "bash": {"*": "ask", "git *": "allow", "git push *": "deny"}, "path": {"*.env": "deny"}}}`)
	supervised := NewAuthority("s", Resolve(ResolveInput{Mode: Supervised, Workspace: "/w", Cwd: "/w"}), file)
	defaulted := NewAuthority("s", Resolve(ResolveInput{Cwd: "/w"}), file)
	for _, c := range []struct {
		name string
		a    *Authority
		q    Query
		want Action
	}{
		{"a rule that names the surface refines a chosen mode", supervised, bashQuery("git status"), Allow},
		{"the more specific rule wins", supervised, bashQuery("git push origin"), Deny},
		{"the surface's own star is a rule", supervised, bashQuery("make"), Ask},
		{"the universal rule does not count in a chosen mode", supervised, NewQuery("webfetch", "x"), Ask},
		{"the universal rule counts where nothing was chosen", defaulted, NewQuery("frobnicate", "x"), Allow},
		{"a deny on a path family holds for reads", defaulted, NewQuery("path_read", "/w/.env", ".env"), Deny},
		{"the zero query is refused", defaulted, Query{}, Deny},
		{"an unset floor refuses", defaulted, Query{Surface: "bash", Values: []string{"git status"}}, Deny},
	} {
		if got := Decide([]*Authority{c.a}, c.q); got.Action != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.name, got.Action, c.want, got.Reason)
		}
	}
	if got := Decide(nil, bashQuery("ls")); got.Action != Deny {
		t.Errorf("no authority at all: %s", got.Action)
	}
}
