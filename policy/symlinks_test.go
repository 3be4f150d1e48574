package policy

import (
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// disk is a file system of names that are there and where they lead.
func disk(names map[string]string) func(string) (string, bool) {
	return func(p string) (string, bool) { to, ok := names[p]; return to, ok }
}

func TestRealPath(t *testing.T) {
	names := map[string]string{"/": "/", "/w": "/w", "/w/in": "/w/src", "/w/src": "/w/src", "/w/out": "/etc", "/w/dangling": "/etc/new", "/w/odd": "etc"}
	for p, want := range map[string]string{
		"/w": "/w", "/w/in": "/w/src", "/w/in/new/x": "/w/src/new/x", "/w/out/shadow": "/etc/shadow", "/w/dangling": "/etc/new", "/new": "/new", "/": "/",
		"": "", "rel": "", "/w/../x": "", "/w/": "", "/w/odd": "", "/a\x00": "",
	} {
		if got := RealPath(p, disk(names)); got != want {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
	asked := 0
	if got := RealPath("/a/b/c", func(string) (string, bool) { asked++; return "", false }); got != "" || asked != 4 {
		t.Errorf("nothing is there: %q after %d", got, asked)
	}
}

func TestFollowLinks(t *testing.T) {
	real := disk(map[string]string{"/": "/", "/w": "/w", "/w/in": "/w/src", "/w/out": "/etc"})
	query := func(surface string, values ...string) Query {
		q := NewQuery(surface, values...)
		q.Root, q.RulesOnly = "/w", true
		return q
	}
	for _, c := range []struct {
		name      string
		q         Query
		values    []string
		rulesOnly bool
	}{
		{"a link that leads out", query("path_read", "/w/out/shadow", "out/shadow"), []string{"/w/out/shadow", "out/shadow", "/etc/shadow"}, false},
		{"a link that stays inside", query("path_write", "/w/in/x", "in/x"), []string{"/w/in/x", "in/x", "/w/src/x"}, true},
		{"no link", query("path_write", "/w/x"), []string{"/w/x"}, true},
		{"a path that nobody can place", query("path_write", "$X/y"), []string{"$X/y"}, true},
		{"no path", query("bash", "/w/out"), []string{"/w/out"}, true},
	} {
		before := append([]string{}, c.q.Values...)
		got := c.q.FollowLinks(real)
		if d := cmp.Diff(c.values, got.Values); d != "" || got.RulesOnly != c.rulesOnly {
			t.Errorf("%s: rules only %v %s", c.name, got.RulesOnly, d)
		}
		if d := cmp.Diff(before, c.q.Values); d != "" {
			t.Errorf("%s: the query was changed: %s", c.name, d)
		}
	}
	q := query("path_read", "/w/out/shadow")
	q.Root = ""
	if !q.FollowLinks(real).RulesOnly {
		t.Error("without a workspace nothing is outside of it")
	}
	// A rule on what the link leads to decides, and without one the roots do.
	f, err := ParsePolicy("p", []byte(`{"permission": {"path_read": {"/etc/shadow": "deny"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	a := NewAuthority("s", Resolve(ResolveInput{Mode: AutoAcceptEdits, Workspace: "/w", Cwd: "/w"}), f)
	for p, want := range map[string][2]Action{"/w/out/shadow": {Allow, Deny}, "/w/out/passwd": {Allow, Ask}, "/w/in/x": {Allow, Allow}} {
		q := query("path_read", p, path.Base(p))
		if got := [2]Action{a.Decide(q).Action, a.Decide(q.FollowLinks(real)).Action}; got != want {
			t.Errorf("%s: without and with links %v, want %v", p, got, want)
		}
	}
}
