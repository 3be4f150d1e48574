package policy

import "testing"

func TestSuggestions(t *testing.T) {
	for _, c := range []struct{ surface, value, want string }{
		{"bash", "ls", "ls"},
		{"bash", "ls -la", "ls *"},
		{"bash", "git status", "git status*"},
		{"bash", "git commit -m \"a; b\"", "git commit *"},
		{"bash", "GIT status x", "GIT status *"},
		{"bash", "npm run build", "npm run build*"},
		{"bash", "npm run build --x", "npm run build *"},
		{"bash", "npm   run  build  --x", "npm run build *"},
		{"bash", "npm install x", "npm install *"},
		{"bash", "aws s3 ls x", "aws s3 ls *"},
		{"bash", "gh pr view 3", "gh pr view *"},
		{"bash", "docker compose up -d", "docker compose up *"},
		{"bash", "mytool a b", "mytool *"},
		{"bash", "# list\nls -la", "ls *"},
		{"bash", "  ", ""},
		{"bash", "# only a comment", ""},
		// what cannot be seen through stays as it is
		{"bash", "ls $(x)", "ls $(x)"},
		{"bash", "ls `x`", "ls `x`"},
		{"bash", "ls \"$(x)\"", "ls \"$(x)\""},
		{"bash", "ls '$(x)'", "ls *"},
		{"bash", "a; b", "a; b"},
		{"bash", "a b > c", "a b > c"},
		{"bash", "a b <(c)", "a b <(c)"},
		{"bash", "git -C x push", "git -C x push"},
		{"bash", "FOO=1 ls x", "FOO=1 ls x"},
		{"bash", "'ls' x", "'ls' x"},
		{"bash", "bash -c 'rm x'", "bash -c 'rm x'"},
		{"bash", "eval ls x", "eval ls x"},
		{"bash", "find . -exec rm {} +", "find . -exec rm {} +"},
		{"bash", "find . -name x", "find *"},
		{"bash", "ls 'unclosed", "ls 'unclosed"},
		// wrappers keep their words
		{"bash", "sudo chown u f", "sudo chown *"},
		{"bash", "sudo -u root nohup mytool a", "sudo -u root nohup mytool *"},
		{"bash", "nohup x", "nohup x*"},
		{"bash", "timeout -k 3 5 git push origin", "timeout -k 3 5 git push *"},
		{"bash", "nice -5 make all", "nice -5 make *"},
		{"bash", "stdbuf -oL grep x y", "stdbuf -oL grep *"},
		{"bash", "xargs -n 1 rm x", "xargs -n 1 rm *"},
		{"bash", "/usr/bin/sudo id x", "/usr/bin/sudo id *"},
		{"bash", "sudo -s id x", "sudo -s id x"},
		{"bash", "sudo", "sudo"},
		{"bash", "sudo -u root", "sudo -u root"},
		{"bash", "env -S 'a b' c", "env -S 'a b' c"},
		{"bash", "env A=1 ls x", "env A=1 ls x"},
		{"bash", "xargs -I{} rm {}", "xargs -I{} rm {}"},
		{"bash", "watch ls x", "watch ls x"},
		{"bash", "sudo bash -c x", "sudo bash -c x"},
		{"bash", "sudo sudo sudo sudo sudo ls x", "sudo sudo sudo sudo sudo ls x"},
		{"mcp", "exa:search", "exa:*"}, {"mcp", "exa_search", "exa_*"}, {"mcp", "exa", "*"}, {"mcp", ":x", "*"},
		{"skill", "librarian", "librarian"},
		{"path_write", "/w/a/b.go", "/w/a/*"}, {"path_read", "/w/a/", "/w/a/*"}, {"read", "/x", "/*"}, {"path", "x", "./*"}, {"edit", "", "*"},
		{"network", "go.dev:443", "go.dev:443"}, {"frob", "anything", "*"},
	} {
		got := SuggestPattern(c.surface, c.value)
		if got != c.want {
			t.Errorf("%s %q: %q, want %q", c.surface, c.value, got, c.want)
		}
	}
}

func TestAPatternBehindAWrapperHasToNameTheCommand(t *testing.T) {
	q := bashQuery("sudo chown u f")
	q.Floor, q.FloorReason = Ask, "<indirection-bash-wrapper>"
	other := q
	other.Values = []string{"sudo id"}
	opaqueText := bashQuery("sudo chown $(x)")
	opaqueText.Floor, opaqueText.FloorReason = Ask, "<opaque-bash-wrapper>"
	for _, c := range []struct {
		pattern string
		q       Query
		want    Action
	}{
		{"sudo chown *", q, Allow}, {"sudo chown u f", q, Allow}, {"sudo *", q, Ask}, {"*", q, Ask}, {"sudo chow*", q, Ask}, {"s* chown *", q, Ask},
		{"sudo chown *", other, Ask}, {"sudo chown *", opaqueText, Ask},
	} {
		var s Grants
		mustAdd(t, &s, Grant{ID: "1", Session: "a", Surface: "bash", Pattern: c.pattern})
		if d, _ := judge(t, &s, "a", c.q, nil); d.Action != c.want {
			t.Errorf("%q for %q: %s", c.pattern, c.q.Values[0], d.Action)
		}
	}
	if err := CheckOffer(q, "sudo chown *", SuggestPattern("bash", q.Values[0])); err != nil {
		t.Error(err)
	}
	if err := CheckOffer(q, "sudo *", "sudo *"); err == nil {
		t.Error("a pattern that hides the inner command was accepted")
	}
}

func FuzzSuggestPattern(f *testing.F) {
	for _, s := range []string{"git push x", "sudo -u root ls", "npm run build", "a $(b)", "# c\nls x"} {
		f.Add("bash", s)
	}
	f.Add("mcp", "a:b")
	f.Add("path_write", "/a/b")
	f.Fuzz(func(t *testing.T, surface, value string) {
		SuggestPattern(surface, value)
	})
}
