package policy

import (
	"strings"
	"testing"
)

// These are faults that users of permission systems have reported in public,
// as they look at the level of rules: one command or path at a time, after a
// shell analysis has taken a line apart.

func actionOf(t *testing.T, permission string, q Query) Action {
	t.Helper()
	return NewAuthority("s", Resolve(ResolveInput{Mode: Supervised, Workspace: "/w", Cwd: "/w"}), mustPolicy(t, `{"permission": {`+permission+`}}`)).Decide(q).Action
}

func TestReportedCommandPatterns(t *testing.T) {
	const rm = `"bash": {"*": "allow", "kill -9 *": "deny", "kill *": "ask", "rm -rf *": "deny", "rm *": "ask"}`
	const git = `"bash": {"*": "ask", "git *": "allow", "git push *": "deny"}`
	const words = `"bash": {"*": "ask", "ls *": "allow", "make *": "allow", "go test": "allow"}`
	const push = `"bash": {"*": "ask", "echo *": "allow", "git push *": "allow", "git push -f *": "deny", "git commit *": "allow", "rm *": "deny"}`
	const force = `"bash": {"*": "ask", "git push *": "allow", "git push *--force*": "deny"}`
	for _, c := range []struct {
		name, permission, command string
		want                      Action
	}{
		{"a deny with arguments holds without any", git, "git push", Deny},
		{"and with them", git, "git push origin main", Deny},
		{"the wider allow holds beside it", git, "git status", Allow},
		{"a name that only starts the same", words, "lsof -i", Ask},
		{"a name that only starts the same, alone", words, "lsblk", Ask},
		{"the program alone", words, "ls", Allow},
		{"the program with an option", words, "ls -la", Allow},
		{"make alone", words, "make", Allow},
		{"make with a target", words, "make all", Allow},
		{"another program that starts with make", words, "makepkg", Ask},
		{"an exact pattern", words, "go test", Allow},
		{"an exact pattern stays exact", words, "go test ./...", Ask},
		{"a local file of an allowed name", words, "./ls", Ask},
		{"the exact option", rm, "kill -9 99", Deny},
		{"another signal", rm, "kill -0 99", Ask},
		{"the same signal by name is at least asked", rm, "kill -s KILL 99", Ask},
		{"flags in another order are at least asked", rm, "rm -fr build", Ask},
		{"flags apart", rm, "rm -r -f build", Ask},
		{"long flags", rm, "rm --recursive --force build", Ask},
		{"a branch name with -f in it", push, "git push origin batch/obs-fixes", Allow},
		{"a message with rm in it", push, `git commit -m "drop rm -rf helper"`, Allow},
		{"an argument with && in it", push, "echo 'a && rm -rf build'", Allow},
		{"an option behind the arguments", force, "git push origin main --force", Deny},
		{"an option that starts so", force, "git push --force-with-lease", Deny},
		{"without it", force, "git push origin", Allow},
	} {
		if got := actionOf(t, c.permission, bashQuery(c.command)); got != c.want {
			t.Errorf("%s: %q is %s, want %s", c.name, c.command, got, c.want)
		}
	}
}

// A shell analysis hands in what a command really is as one more spelling; then
// a deny holds whatever options or folders stand in front.
func TestReportedNormalForms(t *testing.T) {
	const git = `"bash": {"*": "ask", "git *": "allow", "git push *": "deny"}`
	for _, typed := range []string{"git -C . push origin main", "git -c user.name=x push origin main", "git --git-dir .git --work-tree . push origin main", "git --no-pager push origin main"} {
		q := bashQuery(typed)
		if got := actionOf(t, git, q); got == Deny {
			t.Fatalf("%q is denied without its normal form: the test shows nothing", typed)
		}
		q.Values, q.Aliases = []string{typed, "git push origin main"}, true
		if got := actionOf(t, git, q); got != Deny {
			t.Errorf("%q with its normal form is %s", typed, got)
		}
	}
	for typed, want := range map[string]Action{"/bin/rm -rf build": Deny, "../../bin/rm -rf build": Deny} {
		q := bashQuery(typed)
		q.Values, q.Aliases = []string{typed, "rm -rf build"}, true
		if got := actionOf(t, `"bash": {"*": "allow", "rm *": "deny"}`, q); got != want {
			t.Errorf("%q: %s", typed, got)
		}
	}
	// Whatever a wrapper does to the text, the inner command is judged as well.
	chain := []*Authority{NewAuthority("s", Resolve(ResolveInput{}), mustPolicy(t, `{"permission": {"bash": {"*": "allow", "git push *": "deny", "rm *": "deny"}}}`))}
	for _, inner := range []string{"git push", "rm x", "ls"} {
		plain := Decide(chain, bashQuery(inner)).Action
		for _, w := range []string{"nohup ", "timeout 5 ", "sudo -u root "} {
			whole := bashQuery(w + inner)
			whole.Floor, whole.FloorReason = Ask, indirection
			if got := DecideAll(chain, []Query{whole, bashQuery(inner)}).Action; got > plain || got == Allow {
				t.Errorf("%s%s is %s, %s alone is %s", w, inner, got, inner, plain)
			}
		}
	}
}

func TestReportedDirectoriesAndHomes(t *testing.T) {
	const home = `"bash": {"*": "ask", "echo *": "allow"}, "path_write": {"~/**": "deny"}`
	for _, p := range []string{"/home/u/.zshrc", "/home/u/a/b"} {
		q := NewQuery("path_write", p)
		q.Home = "/home/u"
		if got := actionOf(t, home, q); got != Deny {
			t.Errorf("%s: %s", p, got)
		}
		q.Home = "" // HOME is not set
		if got := actionOf(t, home, q); got != Deny {
			t.Errorf("%s with an unknown home: %s", p, got)
		}
	}
	// An allow for a home that is unknown allows nothing.
	q := NewQuery("path_write", "/home/u/x")
	if got := actionOf(t, `"path_write": {"~/*": "allow"}`, q); got == Allow {
		t.Error("an allow for an unknown home counted")
	}
	// The same verdict whatever the directory, and %h is no home.
	for _, cwd := range []string{"/w", "/w/sub"} {
		aliases := PathAliases("/w/secrets/key", cwd, "", "")
		if got := actionOf(t, `"path": {"/w/secrets/*": "deny", "%h/x": "deny"}`, NewQuery("path_read", aliases...)); got != Deny {
			t.Errorf("from %s: %s", cwd, got)
		}
	}
}

func TestReportedLayers(t *testing.T) {
	root := Resolve(ResolveInput{Mode: FullAccess, Workspace: "/w", Cwd: "/w"})
	agent := func(text string) []*PolicyFile {
		a, err := ParseAgent("agent.md", []byte("---\npermission:\n"+text+"---\n"))
		if err != nil {
			t.Fatal(err)
		}
		return []*PolicyFile{a.Permission}
	}
	policy := mustPolicy(t, `{"permission": {"bash": {"curl *": "deny"}}}`)
	chain := []*Authority{Compose(Layers{Session: "root", Snapshot: root, Policy: policy})}
	snap := root
	for _, name := range []string{"child", "grandchild", "background", "resumed", "other-profile"} {
		snap, _ = Child(snap, "", nil, "/w")
		chain = append([]*Authority{Compose(Layers{Session: name, Snapshot: snap, Policy: policy})}, chain...)
		d := Decide(chain, bashQuery("curl x"))
		if d.Action != Deny || d.Rule.Origin.File == "" {
			t.Errorf("%s may run what the policy denies: %+v", name, d)
		}
	}

	parent := Compose(Layers{Session: "parent", Snapshot: root, Policy: mustPolicy(t, `{"permission": {"bash": "allow"}}`)})
	narrow := Compose(Layers{Session: "child", Snapshot: root, Policy: mustPolicy(t, `{"permission": {"bash": "allow"}}`), Frontmatter: agent("  bash:\n    rm *: deny\n")})
	if d := Decide([]*Authority{narrow, parent}, bashQuery("rm x")); d.Action != Deny || d.Rule.Origin.Session != "child" {
		t.Errorf("a child's own deny below an allowing parent: %+v", d)
	}
	asking := Compose(Layers{Session: "parent", Snapshot: restricted(Supervised), Policy: mustPolicy(t, `{"permission": {"bash": "ask"}}`)})
	loose := Compose(Layers{Session: "child", Snapshot: root, Policy: mustPolicy(t, `{"permission": {"bash": "allow"}}`)})
	if d := Decide([]*Authority{loose, asking}, bashQuery("touch x")); d.Action != Ask || d.Rule.Origin.Session != "parent" {
		t.Errorf("a parent's ask bounds the child: %+v", d)
	}
	var grants Grants
	mustAdd(t, &grants, Grant{ID: "1", Session: "root", Surface: "bash", Pattern: "rm *", Tree: true})
	if d, _ := Judge([]*Authority{narrow, parent}, &grants, bashQuery("rm x"), ""); d.Action != Deny {
		t.Errorf("a grant at the root against the child's own deny: %+v", d)
	}
	// A revoke holds for the next command.
	mustAdd(t, &grants, Grant{ID: "2", Session: "child", Surface: "bash", Pattern: "git *"})
	askingChild := []*Authority{NewAuthority("child", restricted(Supervised), nil)}
	if d, _ := Judge(askingChild, &grants, bashQuery("git log"), ""); d.Action != Allow {
		t.Fatalf("before the revoke: %+v", d)
	}
	grants.Revoke("2")
	if d, _ := Judge(askingChild, &grants, bashQuery("git log"), ""); d.Action != Ask {
		t.Errorf("after the revoke: %+v", d)
	}
}

func TestReportedCaps(t *testing.T) {
	parent := restricted(Supervised)
	limit, err := ParseCap("task", []byte(`{"open": {"write": ["/w/app"]}, "process": {"shell_enabled": true}}`))
	if err != nil {
		t.Fatal(err)
	}
	child, narrowed := Child(parent, AutoAcceptEdits, limit, "/w/app")
	if child.Open.CanWrite("/w/app/x") || child.Profile.Mode != Supervised || len(narrowed) < 2 {
		t.Errorf("a child of a reading parent writes: %q %s", narrowed, child.Canonical())
	}
	none, err := ParseCap("task", []byte(`{"ceiling": {"network": "disabled"}, "profile": {"policy": {"kinds": {"task_subagent": "deny"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	child, _ = Child(Resolve(ResolveInput{}), "", none, "/w")
	chain := []*Authority{NewAuthority("c", child, mustPolicy(t, `{"permission": {"network": "allow", "task": "allow"}}`), none)}
	for _, q := range []Query{NewQuery("network", "go.dev"), NewQuery("task", "reviewer"), NewQuery("WebFetch", "https://go.dev")} {
		if d := Decide(chain, q); d.Action != Deny {
			t.Errorf("%s: %+v", q.Surface, d)
		}
	}
	if child.Open.CanReach("go.dev", "443") {
		t.Error("the network is open")
	}
	if kept, refused := (GrantVector{Network: true, Hosts: []string{"go.dev"}}).Within(child.Ceiling); !kept.IsZero() || len(refused) != 2 {
		t.Errorf("a human could open it: %+v %q", kept, refused)
	}
}

func TestReportedAgentsThatAreSwitchedOff(t *testing.T) {
	a, err := ParseAgent("agents/reviewer.md", []byte("---\nname: reviewer\nenabled: false\n---\n"))
	if err != nil || a.Enabled || a.Name != "reviewer" {
		t.Fatalf("%+v %v", a, err)
	}
	rules := `"task": {"*": "allow", "reviewer": "deny"}`
	if got := actionOf(t, rules, NewQuery("task", "reviewer")); got != Deny {
		t.Errorf("%s", got)
	}
	// Names that are another spelling of it are for the one who resolves them: it
	// hands in all of them.
	q := NewQuery("task", "./agents/reviewer.md", "reviewer")
	q.Aliases = true
	if got := actionOf(t, rules, q); got != Deny {
		t.Errorf("by its file: %s", got)
	}
}

func TestReportedBrokenPolicies(t *testing.T) {
	_, err := ParsePolicy("policy.jsonc", []byte("{\"permission\": {\"bash\": {\"rm *\": \"deny\"},,}}"))
	if err == nil || !strings.HasPrefix(err.Error(), "policy.jsonc:1:42") {
		t.Errorf("%v", err)
	}
	// A broken scope beside a policy that allows everything asks for everything.
	a := Compose(Layers{Session: "s", Snapshot: Resolve(ResolveInput{}), Policy: mustPolicy(t, `{"permission": {"*": "allow"}}`), InvalidScope: "agents/x.md"})
	if d := a.Decide(bashQuery("rm x")); d.Action != Ask || !strings.Contains(d.Reason, "agents/x.md") {
		t.Errorf("%+v", d)
	}
}

// TestReports are reports by their own number, where rules alone answer them.
func TestReports(t *testing.T) {
	root := Resolve(ResolveInput{Mode: FullAccess, Workspace: "/w", Cwd: "/w"})
	supervised := []*Authority{NewAuthority("child", restricted(Supervised), nil)}
	ask := func(chain []*Authority, g *Grants, command, hash string) Action {
		d, _ := Judge(chain, g, bashQuery(command), hash)
		return d.Action
	}
	t.Run("B077", func(t *testing.T) {
		// What is remembered is the exact command, and wrappers keep their words.
		hash := ScopeHash(KindShellCommand, "exec", []string{"ls *.txt"})
		var g Grants
		mustAdd(t, &g, Grant{ID: "1", Session: "child", Surface: "bash", ScopeHash: hash})
		if got := ask(supervised, &g, "ls *.txt", hash); got != Allow {
			t.Fatalf("the command itself is %s", got)
		}
		for _, other := range []string{"ls x.md", "ls /etc"} {
			if got := ask(supervised, &g, other, ScopeHash(KindShellCommand, "exec", []string{other})); got != Ask {
				t.Errorf("%s is %s", other, got)
			}
		}
		for command, refused := range map[string]string{"sudo chown u f": "sudo id", "git status": "git push", "env X=1 make": "env X=1 rm x", "xargs rm": "xargs mv"} {
			if p := SuggestPattern("bash", command); Match(p, refused, "") {
				t.Errorf("%q offers %q, which is %q as well", command, p, refused)
			}
		}
	})
	t.Run("B078", func(t *testing.T) {
		file := []byte(`{"permission": {"bash": {"*": "ask"}}}`)
		edit, err := AddRule("p.jsonc", file, "bash", "npm run build -- --x 'a b'", Allow)
		if err != nil {
			t.Fatal(err)
		}
		after, err := ParsePolicy("p.jsonc", edit.Text)
		if err != nil {
			t.Fatal(err)
		}
		if d := NewAuthority("next", root, after).Decide(bashQuery("npm run build -- --x 'a b'")); d.Action != Allow {
			t.Errorf("the identical line: %+v", d)
		}
	})
	t.Run("B081", func(t *testing.T) {
		a := Compose(Layers{Session: "s", Snapshot: root, Yolo: true, Policy: mustPolicy(t, `{"permission": {"bash": {"*": "ask", "rm *": "deny"}}}`)})
		for command, want := range map[string]Action{"rm -rf build": Deny, "ls": Allow} {
			if got := a.Decide(bashQuery(command)).Action; got != want {
				t.Errorf("%s: %s", command, got)
			}
		}
	})
	child := Compose(Layers{Session: "child", Snapshot: root, Policy: mustPolicy(t, `{"permission": {"bash": {"rm *": "deny"}}}`)})
	t.Run("B086", func(t *testing.T) {
		var g Grants
		mustAdd(t, &g, Grant{ID: "1", Session: "root", Surface: "bash", Pattern: "rm *", Tree: true})
		if got := ask([]*Authority{child}, &g, "rm x", ""); got != Deny {
			t.Errorf("a grant of the root against the child's deny: %s", got)
		}
		mustAdd(t, &g, Grant{ID: "2", Session: "child", Surface: "bash", Pattern: "git *"})
		if got := ask(supervised, &g, "git log", ""); got != Allow {
			t.Fatalf("before the revoke: %s", got)
		}
		g.Revoke("2")
		if got := ask(supervised, &g, "git log", ""); got != Ask {
			t.Errorf("after the revoke: %s", got)
		}
	})
	t.Run("B127", func(t *testing.T) {
		// The decision; that the kernel refuses as well is for the sandbox's tests.
		limit, err := ParseCap("parent", []byte(`{"open": {"write": []}, "ceiling": {"write": []}}`))
		if err != nil {
			t.Fatal(err)
		}
		parent, _ := Child(Resolve(ResolveInput{Mode: AutoAcceptEdits, Workspace: "/w", Cwd: "/w"}), "", limit, "/w")
		wide, narrowed := Child(parent, FullAccess, nil, "/w")
		if wide.Ceiling.CanWrite("/w/x") || wide.Open.CanWrite("/w/x") || len(narrowed) == 0 {
			t.Errorf("a child of a parent that only reads writes: %q", narrowed)
		}
		chain := []*Authority{NewAuthority("c", wide, nil), NewAuthority("p", parent, nil)}
		if d := Decide(chain, NewQuery("path_write", "/w/x")); d.Action != Deny {
			t.Errorf("%+v", d)
		}
	})
	t.Run("B128", func(t *testing.T) {
		parent := Compose(Layers{Session: "parent", Snapshot: root, Policy: mustPolicy(t, `{"permission": {"bash": "allow"}}`)})
		if d := Decide([]*Authority{child, parent}, bashQuery("rm x")); d.Action != Deny {
			t.Errorf("%+v", d)
		}
	})
	t.Run("B132", func(t *testing.T) {
		none, err := ParseCap("task", []byte(`{"ceiling": {"network": "disabled"}, "profile": {"policy": {"kinds": {"task_subagent": "deny"}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		snap, _ := Child(root, "", none, "/w")
		chain := []*Authority{NewAuthority("c", snap, mustPolicy(t, `{"permission": {"network": "allow", "task": "allow"}}`), none)}
		for tool, q := range map[string]Query{"Task": NewQuery("task", "x"), "WebFetch": NewQuery("network", "go.dev")} {
			if d := Decide(chain, q); d.Action != Deny {
				t.Errorf("%s may be used: %+v", tool, d)
			}
		}
		if offered, _ := Exposed(chain, "Task"); offered {
			t.Error("spawning is offered")
		}
	})
	t.Run("B135", func(t *testing.T) {
		var g Grants
		mustAdd(t, &g, Grant{ID: "1", Session: "child", Surface: "bash", Pattern: "npm publish"})
		if got := ask(supervised, &g, "npm publish", ""); got != Allow {
			t.Fatalf("the child: %s", got)
		}
		for _, other := range []string{"parent", "sibling"} {
			if got := ask([]*Authority{NewAuthority(other, restricted(Supervised), nil)}, &g, "npm publish", ""); got != Ask {
				t.Errorf("%s: %s", other, got)
			}
		}
	})
	t.Run("B138", func(t *testing.T) {
		file := mustPolicy(t, `{"permission": {"bash": {"curl *": "deny"}}}`)
		var chain []*Authority
		for _, name := range []string{"root", "child", "grandchild", "background", "resumed", "other-profile"} {
			chain = append([]*Authority{Compose(Layers{Session: name, Snapshot: root, Policy: file})}, chain...)
			if d := Decide(chain, bashQuery("curl x")); d.Action != Deny || d.Rule.Origin.File == "" {
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
	t.Run("B139", func(t *testing.T) {
		asking := Compose(Layers{Session: "parent", Snapshot: restricted(Supervised), Policy: mustPolicy(t, `{"permission": {"bash": "ask"}}`)})
		loose := Compose(Layers{Session: "child", Snapshot: root, Policy: mustPolicy(t, `{"permission": {"bash": "allow"}}`)})
		if d := Decide([]*Authority{loose, asking}, bashQuery("touch x")); d.Action != Ask || d.Rule.Origin.Session != "parent" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("B140", TestReportedAgentsThatAreSwitchedOff)
	t.Run("B141", func(t *testing.T) {
		limit, err := ParseCap("parent", []byte(`{"open": {"write": ["/w/app"]}, "ceiling": {"write": ["/w/app"]}}`))
		if err != nil {
			t.Fatal(err)
		}
		snap, _ := Child(root, "", limit, "/w/app")
		for p, want := range map[string]bool{"/w/app": true, "/w/app/x": true, "/w/app-secrets": false, "/w/app-secrets/x": false, "/w/x": false, "/w/App/x": false} {
			if got := snap.Ceiling.CanWrite(p); got != want {
				t.Errorf("%s: %v", p, got)
			}
		}
		q := NewQuery("path_write", PathAliases("/w/app/../x", "/w/app", "", "")...)
		if d := Decide([]*Authority{NewAuthority("c", snap, nil)}, q); d.Action != Deny {
			t.Errorf("through a parent folder: %+v", d)
		}
		link := NewQuery("path_write", "/w/app/l/etc/x").FollowLinks(func(p string) (string, bool) { return "/", p == "/w/app/l" })
		if d := Decide([]*Authority{NewAuthority("c", snap, nil)}, link); d.Action != Deny {
			t.Errorf("through a link: %+v", d)
		}
	})
	t.Run("B249", func(t *testing.T) {
		if _, err := ParsePolicy("policy.jsonc", []byte("{\"permission\": {\"bash\": {\"rm *\": \"deny\"},,}}")); err == nil || !strings.HasPrefix(err.Error(), "policy.jsonc:1:42") {
			t.Errorf("%v", err)
		}
	})
	t.Run("B257", func(t *testing.T) {
		before := []byte("// mine\n{\"permission\": {\"bash\": {\n  \"*\": \"ask\", // by default\n  \"git *\": \"allow\",\n  \"git push *\": \"deny\"\n}}}\n")
		edit, err := AddRule("p.jsonc", before, "bash", "go test *", Allow)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(edit.Text); !strings.Contains(text, "// mine") || !strings.Contains(text, "// by default") || strings.Index(text, "git *") > strings.Index(text, "go test") {
			t.Errorf("comments or order are lost:\n%s", text)
		}
		old, err := ParsePolicy("p.jsonc", before)
		if err != nil {
			t.Fatal(err)
		}
		now, err := ParsePolicy("p.jsonc", edit.Text)
		if err != nil {
			t.Fatal(err)
		}
		a, b := NewAuthority("s", root, old), NewAuthority("s", root, now)
		for _, head := range []string{"git", "git push", "git pushx", "go", "ls", "rm", "go vet", "gotest", "make", "git log"} {
			for i := range 20 {
				q := bashQuery(strings.TrimSpace(head + strings.Repeat(" x", i)))
				if x, y := a.Decide(q).Action, b.Decide(q).Action; x != y {
					t.Errorf("%s: %s before, %s after", q.Values[0], x, y)
				}
			}
		}
	})
	t.Run("B258", func(t *testing.T) {
		file := mustPolicy(t, `{"permission": {"path": {"~/x": "deny", "$HOME/y": "deny", "%h/z": "deny"}}}`)
		a := NewAuthority("s", root, file)
		for _, cwd := range []string{"/w", "/w/sub"} {
			for p, want := range map[string]Action{"/home/u/x": Deny, "/home/u/y": Deny, "/home/u/z": Allow} {
				q := NewQuery("path_read", PathAliases(p, cwd, "/home/u", "")...)
				q.Home = "/home/u"
				if got := a.Decide(q).Action; got != want {
					t.Errorf("%s from %s: %s", p, cwd, got)
				}
				q.Home = "" // unset: a deny still holds, for any folder
				if got := a.Decide(q).Action; got != want {
					t.Errorf("%s from %s without HOME: %s", p, cwd, got)
				}
			}
		}
	})
}
