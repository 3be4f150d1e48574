package shell

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/getpioneer/pioneer-super/policy"
)

func opts() Options {
	return Options{Dir: "/src/project", Home: "/home/u", Workspace: "/src/project"}
}

func texts(a *Analysis) []string {
	var out []string
	for i := range a.Units {
		out = append(out, a.Units[i].Text)
	}
	return out
}

func TestNormalForm(t *testing.T) {
	for in, want := range map[string]string{
		`git   status`:                    "git status",
		`"git" 'status'`:                  "git status",
		`g\it sta"tus"`:                   "git status",
		`/usr/bin/git status`:             "git status",
		`$'gi\x74' status`:                "git status",
		`git -C . --no-pager push origin`: "git push origin",
		`git -c a.b=c -p log`:             "git log",
		`npm --prefix web run build`:      "npm run build",
		`docker --context x ps -a`:        "docker ps -a",
		`kubectl -n prod get pods`:        "kubectl get pods",
		`cargo +nightly fmt`:              "cargo fmt",
		`go -C sub test ./...`:            "go test ./...",
		`echo 'a && b'`:                   "echo 'a && b'",
		`echo "it's"`:                     `echo 'it'\''s'`,
		`rm "$HOME/x"`:                    "rm ~/x",
		`rm ~/x`:                          "rm ~/x",
		`rm -{r,f} a`:                     "rm -r -f a",
		`ls *.go`:                         "ls *.go",
		`ls '*.go'`:                       "ls '*.go'",
		`ls $x "$y"`:                      `ls $x "$y"`,
		`FOO=1 make`:                      "make",
		`>x echo a`:                       "echo a",
		"rm\u200b x":                      `$'rm\u200b' x`,
		`git stash show stash@{0}`:        "git stash show stash@{0}",
		`./x.sh a`:                        "./x.sh a",
	} {
		a := Analyze(in, opts())
		if got := texts(a); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestSimple(t *testing.T) {
	for in, want := range map[string][]string{
		"ls -la":       {"ls", "-la"},
		"git 'a b'":    {"git", "a b"},
		"ls *.go":      nil,
		"ls ~":         nil,
		"ls; pwd":      nil,
		"A=1 ls":       nil,
		"ls >x":        nil,
		"ls $x":        nil,
		"! ls":         nil,
		"ls &":         nil,
		"(ls)":         nil,
		"ls {a,b}":     nil,
		"bash -c 'ls'": {"bash", "-c", "ls"},
		"":             nil,
	} {
		a := Analyze(in, opts())
		if a.Simple != (want != nil) || !slices.Equal(a.Argv, want) {
			t.Errorf("%q: simple %v, %q; want %q", in, a.Simple, a.Argv, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]bool{
		"ls -la && npm test 2>&1 | grep 'a b' > out.txt": true,
		"ls; pwd\ngit status":                            true,
		"ls $x":                                          false, "ls # x": false, "ls \\\n-a": false, "{ ls; }": false, "ls <<E\nE": false, "x() { ls; }": false, "ls *": false,
	} {
		if a := Analyze(in, opts()); a.Plain != want {
			t.Errorf("%q: plain %v", in, a.Plain)
		}
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"ls   -la # x":        "ls -la\n",
		"a;b":                 "a\nb\n",
		"echo `ls`":           "echo $(ls)\n",
		"echo $[1+1]":         "echo $((1 + 1))\n",
		"ls (":                "",
		"echo a # b \\\nrm x": "",
	} {
		if a := Analyze(in, opts()); a.Canonical != want {
			t.Errorf("%q: %q, want %q", in, a.Canonical, want)
		}
	}
}

func TestPaths(t *testing.T) {
	type use struct {
		Path  string
		Write bool
	}
	for in, want := range map[string][]use{
		"cat a/b":                             {{"/src/project/a/b", false}},
		"echo x > out.txt":                    {{"/src/project/out.txt", true}},
		"cd sub && cat a/b":                   {{"/src/project/sub", false}, {"/src/project/sub/a/b", false}},
		"(cd sub); cat a/b":                   {{"/src/project/sub", false}, {"/src/project/a/b", false}},
		"cd sub | true; cat a/b":              {{"/src/project/sub", false}, {"/src/project/a/b", false}},
		"{ cd sub; }; cat a/b":                {{"/src/project/sub", false}, {"/src/project/sub/a/b", false}},
		"cd ~ && cat a/b":                     {{"/home/u", false}, {"/home/u/a/b", false}},
		"cd $x && cat a/b":                    {{"", false}, {"", false}},
		"cd - && echo >y":                     {{"", true}},
		"cp a/x /tmp/y":                       {{"/src/project/a/x", false}, {"/tmp/y", true}},
		"cp -t /tmp a/x":                      {{"/tmp", true}, {"/src/project/a/x", false}},
		"mv a/x b/y":                          {{"/src/project/a/x", false}, {"/src/project/a/x", true}, {"/src/project/b/y", true}},
		"ls >/dev/null 2>&1":                  nil,
		"grep -rn /etc/passwd src/x":          {{"/src/project/src/x", false}},
		"grep --file=/etc/hostname x a/t":     {{"/etc/hostname", false}, {"/src/project/a/t", false}},
		"cc -I/etc x.c":                       {{"/etc", false}, {"/etc", true}},
		"sed -i s/a/b/ f/x":                   {{"/src/project/f/x", true}, {"/src/project/f/x", false}},
		"curl https://a.b/c":                  nil,
		"dd if=/dev/zero of=/tmp/x":           {{"/tmp/x", true}},
		"git -C ../o status":                  {{"/src/o", false}},
		"x=/tmp/q; cat \"$x\"":                {{"/tmp/q", false}},
		"for f in /etc/a; do :; done":         {{"/etc/a", false}},
		"ls ~root":                            {{"", false}},
		"cat <<E >o/p\nE":                     {{"/src/project/o/p", true}},
		"rm -rf ../../../../etc":              {{"/etc", true}},
		"tee ~/x":                             {{"/home/u/x", true}},
		"sort a/x -o /tmp/z":                  {{"/tmp/z", true}, {"/src/project/a/x", false}, {"/tmp/z", false}},
		"bash -c 'cat /etc/x'":                {{"/etc/x", false}},
		"env -C /tmp cat a/b":                 {{"/tmp", false}, {"/tmp/a/b", false}},
		"find . -name x -exec cat /etc/y \\;": {{"/src/project", false}, {"/etc/y", false}},
		"echo /etc/x":                         nil,
		"if cd a; then cat b/c; fi; cat d/e":  {{"/src/project/a", false}, {"/src/project/a/b/c", false}, {"/src/project/a/d/e", false}},
	} {
		a := Analyze(in, opts())
		var got []use
		for _, p := range a.Paths {
			got = append(got, use{p.Path, p.Write})
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %v is missing in %v", in, w, got)
			}
		}
		for _, g := range got {
			if !slices.Contains(want, g) && !strings.HasSuffix(g.Path, "/project") {
				t.Errorf("%q: %v is too much (want %v)", in, g, want)
			}
		}
	}
}

func TestBareWordsThatExist(t *testing.T) {
	o := opts()
	o.Resolver = &diskResolver{files: map[string]bool{"/src/project/secret": true}}
	a := Analyze("cat secret nothing", o)
	if len(a.Paths) != 1 || a.Paths[0].Path != "/src/project/secret" {
		t.Errorf("%+v", a.Paths)
	}
}

func TestNeeds(t *testing.T) {
	for in, want := range map[string]Needs{
		"ls":                            {},
		"git push":                      {Network: true, Remotes: []string{"origin"}, Capabilities: []string{"ssh"}},
		"git push up main":              {Network: true, Remotes: []string{"up"}, Capabilities: []string{"ssh"}},
		"git ls-remote git@h.org:a/b":   {Network: true, Hosts: []string{"h.org:22"}, Capabilities: []string{"ssh"}},
		"git ls-remote https://h.org/x": {Network: true, Hosts: []string{"h.org"}, Capabilities: []string{"git-credential:h.org"}},
		"curl https://a.b:8443/c":       {Network: true, Hosts: []string{"a.b:8443"}},
		"ssh -p 22 u@h uptime":          {Network: true, Hosts: []string{"h:22"}, Capabilities: []string{"ssh"}},
		"sudo ls":                       {Capabilities: []string{"off"}},
		"docker ps":                     {Capabilities: []string{"docker"}},
		"gpg -s x":                      {Capabilities: []string{"gpg"}},
		"xdg-open x":                    {Capabilities: []string{"display"}},
		"cat /etc/x":                    {Reads: []string{"/etc/x"}},
		"touch /tmp/x":                  {Writes: []string{"/tmp/x"}},
		"touch x":                       {WorkspaceWrite: true},
		"npm view x":                    {Network: true, Hosts: []string{"registry.npmjs.org"}},
		"go get x":                      {WorkspaceWrite: true, Network: true, Hosts: []string{"proxy.golang.org", "sum.golang.org"}},
		"bash -c 'npm ci'":              {WorkspaceWrite: true, Network: true, Hosts: []string{"registry.npmjs.org"}},
		"timeout 5 pip install x":       {WorkspaceWrite: true, Network: true, Hosts: []string{"pypi.org", "files.pythonhosted.org"}},
	} {
		got := Analyze(in, opts()).Needs
		got.Sentences = nil
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
	if n := Analyze("sudo ls", opts()).Needs; len(n.Sentences) == 0 {
		t.Error("sudo has no sentence")
	}
}

func TestClass(t *testing.T) {
	for in, want := range map[string]Class{
		"ls": FixedProgram, "git status": FixedProgram, "grep a b": FixedProgram, "timeout 5 ls": FixedProgram, "bash -c 'ls'": FixedProgram, "npm view x": FixedProgram, "A=1": FixedProgram,
		"npm test": RunsSessionFiles, "make": RunsSessionFiles, "pytest": RunsSessionFiles, "./x": RunsSessionFiles, "bash x.sh": RunsSessionFiles, "python3 x.py": RunsSessionFiles, "source x": RunsSessionFiles,
		"go test ./...": RunsSessionFiles, "nosuchprogram": RunsSessionFiles, "ls && make": RunsSessionFiles, "timeout 5 make": RunsSessionFiles, "bash -c 'make'": RunsSessionFiles, "ls (": RunsSessionFiles,
	} {
		if got := Analyze(in, opts()).Class(); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// TestResolution: a bare name in a rule means a program that the session cannot
// change; a rule with the path means what it says.
func TestResolution(t *testing.T) {
	o := opts()
	o.Resolver = &diskResolver{mine: map[string]string{"git": "/src/project/.venv/bin/git", "pytest": "/src/project/.venv/bin/pytest"}, missing: map[string]bool{"nosuch": true}}
	for _, c := range []struct {
		text  string
		rules map[string]string
		want  policy.Action
		say   string
	}{
		{"git status", map[string]string{"*": "ask", "git *": "allow"}, policy.Ask, "/src/project/.venv/bin/git"},
		{"git status", map[string]string{"*": "allow"}, policy.Allow, ""},
		{"ls", map[string]string{"*": "ask", "ls *": "allow"}, policy.Allow, ""},
		{"pytest -q", map[string]string{"*": "ask", "pytest *": "allow", "/src/project/.venv/bin/pytest *": "allow"}, policy.Allow, ""},
		{"pytest -q", map[string]string{"*": "ask", "pytest *": "allow", "./.venv/bin/pytest *": "allow"}, policy.Allow, ""},
		{".venv/bin/pytest -q", map[string]string{"*": "ask", ".venv/bin/pytest *": "allow"}, policy.Allow, ""},
		{".venv/bin/pytest -q", map[string]string{"*": "ask", "pytest *": "allow"}, policy.Ask, ""},
		{".venv/bin/rm -q", map[string]string{"*": "allow", "rm *": "deny"}, policy.Deny, ""},
		{"nosuch", map[string]string{"*": "ask", "nosuch": "allow"}, policy.Ask, "not found"},
		{"f() { ls; }; f", map[string]string{"*": "ask", "f": "allow", "ls *": "allow"}, policy.Allow, ""},
		{"timeout 5 git status", map[string]string{"*": "ask", "git *": "allow"}, policy.Ask, ".venv"},
		{"git status; git() { :; }", map[string]string{"*": "ask", "git *": "allow"}, policy.Ask, ".venv"},
		{"command cd x", map[string]string{"*": "ask", "cd *": "allow"}, policy.Allow, ""},
	} {
		a := Analyze(c.text, o)
		v := a.Judge(newRules(c.rules).decide)
		if v.Action != c.want || !strings.Contains(v.Reason, c.say) {
			t.Errorf("%q: %s (%s), want %s with %q\n%s", c.text, v.Action, v.Reason, c.want, c.say, a.Explain(v))
		}
	}
	if u := Analyze("git status", opts()).Units[0]; u.Resolution != "unresolved" || u.File != "" {
		t.Errorf("without a resolver: %+v", u)
	}
}

func TestArgv(t *testing.T) {
	rs := newRules(map[string]string{"*": "allow", "rm *": "deny", "git push *": "deny"})
	for _, c := range []struct {
		argv []string
		want policy.Action
	}{
		{[]string{"rm", "-rf", "x"}, policy.Deny},
		{[]string{"/bin/rm", "x"}, policy.Deny},
		{[]string{"echo", "a; rm x", "$(rm x)"}, policy.Allow},
		{[]string{"env", "A=1", "rm", "x"}, policy.Deny},
		{[]string{"bash", "-c", "ls; rm x"}, policy.Deny},
		{[]string{"sh", "-c", `"$@"`, "sh", "rm", "x"}, policy.Ask},
		{[]string{"git", "-C", ".", "push"}, policy.Deny},
		{[]string{"find", ".", "-exec", "rm", "{}", ";"}, policy.Deny},
		{[]string{"python3", "-c", "x"}, policy.Ask},
		{[]string{"ls", "*"}, policy.Allow},
		{[]string{"PATH=./x", "ls"}, policy.Allow},
		{[]string{"env", "PATH=./x", "ls"}, policy.Ask},
		{[]string{}, policy.Deny},
		{[]string{""}, policy.Deny},
		{[]string{"ls", "a\x00b"}, policy.Deny},
		{[]string{"eval", "rm x"}, policy.Deny},
		{[]string{"xargs", "rm"}, policy.Deny},
	} {
		a := AnalyzeArgv(c.argv, opts())
		if v := a.Judge(rs.decide); v.Action != c.want {
			t.Errorf("%q: %s, want %s\n%s", c.argv, v.Action, c.want, a.Explain(v))
		}
	}
	// A word with blanks is one word, and the text says so.
	if a := AnalyzeArgv([]string{"git", "push origin"}, opts()); a.Units[0].Text != "git 'push origin'" || a.Judge(rs.decide).Action == policy.Deny {
		t.Errorf("%q", a.Units[0].Text)
	}
}

func TestDialects(t *testing.T) {
	all := newRules(map[string]string{"*": "allow"})
	for _, d := range []Dialect{Zsh, PowerShell, Cmd, Dialect(99)} {
		o := opts()
		o.Dialect = d
		a := Analyze("ls", o)
		if v := a.Judge(all.decide); v.Action != policy.Ask || a.Canonical != "" {
			t.Errorf("%s: %s %q", d, v.Action, a.Canonical)
		}
	}
	o := opts()
	o.Dialect = POSIX
	// sh has no braces, so this is one word.
	if a := Analyze("echo {a,b}", o); a.Units[0].Text != "echo '{a,b}'" {
		t.Errorf("%q", a.Units[0].Text)
	}
	if v := Analyze("ls &>x; rm y", o).Judge(newRules(map[string]string{"*": "allow", "rm *": "deny"}).decide); v.Action != policy.Deny {
		t.Errorf("%s", v.Action)
	}
	if v := Analyze("ls <(rm x)", o).Judge(all.decide); v.Action == policy.Allow {
		t.Error("a process substitution is no POSIX")
	}
}

func TestPositionalParameters(t *testing.T) {
	all := newRules(map[string]string{"*": "allow"})
	o := opts()
	o.Args = []string{"sh", "rm", "-rf", "x"}
	if v := Analyze(`"$@"`, o).Judge(all.decide); v.Action != policy.Ask {
		t.Errorf("a command from the parameters is %s", v.Action)
	}
	if v := Analyze(`echo "$1"`, o).Judge(all.decide); v.Action != policy.Allow {
		t.Errorf("a parameter as data is %s", v.Action)
	}
	o.Args = []string{"sh", "a[$(rm x)0]"}
	o.Env = func(name string) (string, bool) { return "a[$(rm x)0]", name == "FROM_ENV" }
	if v := Analyze(`echo $((FROM_ENV))`, o).Judge(all.decide); v.Action == policy.Allow {
		t.Error("a value of the environment that runs something is read as arithmetic")
	}
	if v := Analyze(`echo $((OTHER))`, o).Judge(all.decide); v.Action != policy.Allow {
		t.Errorf("a harmless variable is %s", v.Action)
	}
	if v := Analyze(`echo $(($1))`, o).Judge(all.decide); v.Action == policy.Allow {
		t.Error("a parameter as arithmetic is allowed")
	}
}

// TestPathRules: each path goes through the rules of its direction, and a path
// that no rule names asks for nothing.
func TestPathRules(t *testing.T) {
	rs := newRules(map[string]string{"*": "allow"})
	rs.write = []policy.Rule{testRule("path_write", "~/.ssh/*", "deny"), testRule("path_write", "/src/project/gen/*", "ask")}
	rs.read = []policy.Rule{testRule("path_read", "*.env", "ask")}
	for in, want := range map[string]policy.Action{
		"echo x > ~/.ssh/config":       policy.Deny,
		"cat ~/.ssh/config":            policy.Allow,
		"cp x ~/.ssh/k":                policy.Deny,
		"cd ~/.ssh && touch k":         policy.Deny,
		"touch gen/x":                  policy.Ask,
		"cat gen/x":                    policy.Allow,
		"cat ./a.env":                  policy.Ask,
		"mytool ~/.ssh/k":              policy.Deny,
		"mytool ./a.env":               policy.Ask,
		"echo x > \"$unknown\"":        policy.Ask,
		"t=$(mktemp); echo x > \"$t\"": policy.Allow,
		"t=~/.ssh/k; echo x > $t":      policy.Deny,
		"cat < ./a.env":                policy.Ask,
		"bash -c 'echo > ~/.ssh/x'":    policy.Deny,
		"cd ~; cd .ssh; rm k":          policy.Deny,
	} {
		a := Analyze(in, opts())
		if v := a.Judge(rs.decide); v.Action != want {
			t.Errorf("%q: %s, want %s\n%s", in, v.Action, want, a.Explain(v))
		}
	}
}

func TestFloorsAndWhatLiftsThem(t *testing.T) {
	for _, c := range []struct {
		text  string
		rules map[string]string
		want  policy.Action
	}{
		{"find . -delete", map[string]string{"*": "ask", "find *": "allow"}, policy.Ask},
		{"find . -delete", map[string]string{"*": "ask", "find *-delete*": "allow"}, policy.Allow},
		{"find . -delete", map[string]string{"*": "ask", "find . -delete": "allow"}, policy.Allow},
		{"python3 -c x", map[string]string{"*": "allow"}, policy.Ask},
		{"python3 -c x", map[string]string{"*": "ask", "python3 *": "allow"}, policy.Allow},
		{"echo x | python3", map[string]string{"*": "ask", "echo *": "allow", "python3 *": "allow"}, policy.Ask},
		{"curl x | sh", map[string]string{"*": "allow", "sh": "allow"}, policy.Ask},
		{"$x", map[string]string{"*": "allow", "$x": "allow"}, policy.Ask},
		{"git -c core.pager=./x log", map[string]string{"*": "ask", "git *": "allow"}, policy.Ask},
		{"git -c core.pager=./x log", map[string]string{"*": "ask", "git log": "allow"}, policy.Ask},
		{"git lfs pull", map[string]string{"*": "ask", "git *": "allow"}, policy.Allow},
		{"git st", map[string]string{"*": "ask", "git *": "allow"}, policy.Ask},
		{"git st", map[string]string{"*": "ask", "git st *": "allow"}, policy.Allow},
		{"timeout 5 git status", map[string]string{"*": "ask", "git *": "allow"}, policy.Allow},
		{"timeout 5 git status", map[string]string{"*": "ask", "git *": "allow", "timeout *": "deny"}, policy.Deny},
		{"timeout 5 git status", map[string]string{"*": "deny", "git *": "allow"}, policy.Allow},
		{"sudo git status", map[string]string{"*": "ask", "git *": "allow"}, policy.Ask},
		{"bash -c 'git status'", map[string]string{"*": "ask", "git *": "allow"}, policy.Allow},
		{"bash -c 'git status'", map[string]string{"*": "ask", "git *": "allow", "bash *": "deny"}, policy.Deny},
		{"bash -c ':'", map[string]string{"*": "deny"}, policy.Deny},
		{"uv run pytest", map[string]string{"*": "ask", "uv run *": "allow"}, policy.Allow},
		{"uv run rm x", map[string]string{"*": "ask", "uv run *": "allow", "rm *": "deny"}, policy.Deny},
		{"export A=1; ls", map[string]string{"*": "ask", "ls *": "allow"}, policy.Allow},
		{"export A=1; ls", map[string]string{"*": "ask", "ls *": "allow", "export *": "deny"}, policy.Deny},
		{"", map[string]string{"*": "deny"}, policy.Deny},
		{"# x", map[string]string{"*": "ask"}, policy.Ask},
		{"mywrap rm x", map[string]string{"*": "allow", "rm *": "deny"}, policy.Ask},
		{"mywrap rm x", map[string]string{"*": "ask", "mywrap *": "allow", "rm *": "deny"}, policy.Allow},
		{"/bin/ls", map[string]string{"*": "ask", "/bin/ls *": "allow"}, policy.Allow},
		{"git -C x log", map[string]string{"*": "ask", "git -C x *": "allow"}, policy.Allow},
		{"git -C x log", map[string]string{"*": "allow", "git -C *": "deny"}, policy.Deny},
	} {
		a := Analyze(c.text, opts())
		if v := a.Judge(newRules(c.rules).decide); v.Action != c.want {
			t.Errorf("%q under %v: %s, want %s\n%s", c.text, c.rules, v.Action, c.want, a.Explain(v))
		}
	}
}

func TestZeroValuesRefuse(t *testing.T) {
	a := &Analysis{}
	if v := a.Judge(newRules(map[string]string{"*": "allow"}).decide); v.Action == policy.Allow {
		t.Error("an empty analysis is allowed")
	}
	a.Units = []Unit{{}}
	if v := a.Judge(newRules(map[string]string{"*": "allow"}).decide); v.Action == policy.Allow {
		t.Error("an empty unit is allowed")
	}
	if (Class(0)) != RunsSessionFiles {
		t.Error("the zero class is not the careful one")
	}
}

func TestSuggest(t *testing.T) {
	for in, want := range map[string][]string{
		"git status --short":         {"git status --short", "git status *"},
		"npm run dev":                {"npm run dev", "npm run dev*"},
		"ls -la":                     {"ls -la", "ls *"},
		"git push":                   {"git push", "git push*"},
		"mytool x":                   {"mytool x"},
		"nohup git status":           {"nohup git status"},
		"sudo git status":            {"sudo git status"},
		"bash -c 'ls'":               {"bash -c ls"},
		"ls $x":                      nil,
		"$x":                         nil,
		"find . -delete":             {"find . -delete"},
		"git -c core.pager=x status": {"git -c core.pager=x status"},
		"go test ./...":              {"go test ./...", "go test *"},
	} {
		u := Analyze(in, opts()).Units[0]
		var got []string
		for _, s := range u.Suggest() {
			got = append(got, s.Pattern)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestPatternsDoNotCoverOptionsThatRun: a pattern granted for the harmless form
// of a program does not cover the options by which it runs another one.
func TestPatternsDoNotCoverOptionsThatRun(t *testing.T) {
	for harmless, others := range map[string][]string{
		"git status":      {"git -c core.sshCommand=./x status", "git --exec-path=. status"},
		"git fetch":       {"git fetch --upload-pack=./x origin"},
		"git push":        {"git push --receive-pack=./x"},
		"git grep a":      {"git grep -O a", "git grep --open-files-in-pager=./x a"},
		"find . -name x":  {"find . -delete", "find . -fprintf a b", "find . -exec rm {} +"},
		"tar cf a b":      {"tar cf a b --checkpoint=1 --checkpoint-action=exec=./x", "tar -I ./x -cf a b", "tar cf a b --to-command=x"},
		"ssh h ls":        {"ssh -o ProxyCommand=./x h", "ssh -F ./c h"},
		"sort a":          {"sort -o a b", "sort --compress-program=./x a"},
		"sed -n 1p a":     {"sed 1e a", "sed 'w x' a", "sed 's/a/b/e' a"},
		"awk '{print}' a": {"awk 'BEGIN{system(\"x\")}'"},
		"rg a":            {"rg --pre ./x a"},
		"rsync a b":       {"rsync -e ./x a b", "rsync --rsh=./x a b"},
		"go test ./...":   {"go test -exec ./x ./...", "go test -toolexec=./x ./..."},
		"curl https://a":  {"curl -K ./x https://a"},
		"make all":        {"make SHELL=./x all", "make --eval=x all"},
	} {
		u := Analyze(harmless, opts()).Units[0]
		s := u.Suggest()
		pattern := s[len(s)-1].Pattern
		rs := newRules(map[string]string{"*": "ask", pattern: "allow"})
		if v := Analyze(harmless, opts()).Judge(rs.decide); v.Action != policy.Allow {
			t.Errorf("%q is %s under its own pattern %q: %s", harmless, v.Action, pattern, v.Reason)
		}
		for _, o := range others {
			a := Analyze(o, opts())
			if v := a.Judge(rs.decide); v.Action != policy.Ask {
				t.Errorf("%q is %s under %q", o, v.Action, pattern)
			}
		}
	}
}

func TestEnvRisk(t *testing.T) {
	for _, n := range strings.Fields("PATH HOME LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV SHELLOPTS BASHOPTS PS4 CDPATH GLOBIGNORE XDG_CONFIG_HOME GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_SSH_COMMAND GIT_CONFIG_COUNT MAKEFILES LESSOPEN npm_config_script_shell OPENSSL_CONF GCONV_PATH RUSTC_WRAPPER CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER DOTNET_STARTUP_HOOKS HTTPS_PROXY SSL_CERT_FILE BASH_FUNC_git%% NODE_OPTIONS PYTHONSTARTUP EDITOR PAGER LC_ALL LANG") {
		if EnvRisk(n, "./x") == "" {
			t.Errorf("%s is not noticed", n)
		}
	}
	for _, e := range strings.Fields("FOO=1 LANG=C.UTF-8 LC_ALL=C NO_COLOR=1 TERM=xterm GOOS=linux NODE_ENV=test RUST_LOG=debug DEBUG=1 CI=true PORT=3000 GIT_AUTHOR_NAME=x VERSION=1 DATABASE_URL=x PAGER=cat GIT_PAGER=cat GIT_EDITOR=true CC=gcc GOFLAGS=-mod=mod NODE_OPTIONS=--max-old-space-size=4096") {
		n, v, _ := strings.Cut(e, "=")
		if why := EnvRisk(n, v); why != "" {
			t.Errorf("%s: %s", e, why)
		}
	}
}

func TestExplain(t *testing.T) {
	rs := newRules(map[string]string{"*": "ask", "cat *": "allow", "timeout *": "allow", "git push *": "deny"})
	a := Analyze("cat a/b > out && timeout 5 git -C x push origin '\u202e'", opts())
	got := a.Explain(a.Judge(rs.decide))
	for _, want := range []string{
		"verdict    deny", "because of git push", "commands\n  allow  cat a/b\n", "runs git push", "in list, by timeout",
		"write /src/project/out", "read  /src/project/a/b", "network", "git remote origin", "runs as\n  cat a/b >out && timeout 5", `\u202e`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\u202e") {
		t.Error("a hidden character is printed as it is")
	}
}

func TestSedAndAwk(t *testing.T) {
	for _, s := range []string{"s/a/b/", "s/[/]/x/g", "1,5p", "$d", "/a/,/b/s/x/y/gp", "/a/!d", "s|a|b|;s,c,d,2", "y/a/b/", "/x/{s/a/b/;p}", "a\\\ntext with w and e", "1!G;h;$!d", "s/\\//x/", ":a;N;$!ba;s/\\n/ /g", "s/a/\\/w/", "/[^]/]/d", "2q", "s/we/ew/I", "# comment w\np", "/^$/d", "s/a/b/w\\/x"[:6]} {
		if why := sedRuns(s); why != "" {
			t.Errorf("sed %q: %s", s, why)
		}
	}
	for _, s := range []string{"e", "1e ls", "w x", "s/a/b/w x", "s/a/b/e", "s/a/b/ge", "/x/w out", "$!W y", "p;e ls", "s/a/b/;w z", "s\na\nb\ne", "}w x", "{w x\n}", "y/a/b/;1e x", "s/a/b/Me", "\\,a,w f", "?"} {
		if sedRuns(s) == "" {
			t.Errorf("sed %q is not noticed", s)
		}
	}
	for _, s := range []string{"{print $1}", "$3 > 5", "/a|b/", "$1 ~ /x>y/ {print}", `{print "a|b"}`, "NR==1 || NR==2", "{ if ($1 > 2) print $2 }", "{print ($1 > 2)}", "BEGIN { x = 1 / 2 } # > |"} {
		if why := awkRuns(s); why != "" {
			t.Errorf("awk %q: %s", s, why)
		}
	}
	for _, s := range []string{`{print > "x"}`, `{print | "sh"}`, `BEGIN{system("x")}`, `{"ls" | getline}`, `{printf "%s", $1 >> "f"}`, `{print $1, $2 > $3}`, `@load "x"`, `{ x = a / b | "c" }`} {
		if awkRuns(s) == "" {
			t.Errorf("awk %q is not noticed", s)
		}
	}
}

// TestGrantsAndFloors: a pattern grant does not cover what is floored, the grant
// of exactly this does.
func TestGrantsAndFloors(t *testing.T) {
	a := Analyze("find . -delete", opts())
	rs := newRules(map[string]string{"*": "ask", "find *": "allow"})
	asked := 0
	decide := func(pattern string) func(policy.Query) policy.Decision {
		return func(q policy.Query) policy.Decision {
			d := rs.decide(q)
			if q.Floor < d.Action {
				d.Action = q.Floor
			}
			if d.Action == policy.Ask && q.ExactOnly {
				asked++
				if pattern == "<exact>" {
					return policy.Decision{Action: policy.Allow, Rule: policy.Rule{Surface: "bash", Pattern: pattern, Action: policy.Allow, Origin: policy.Origin{Authority: "grant"}}}
				}
			}
			return d
		}
	}
	if v := a.Judge(decide("")); v.Action != policy.Ask || asked == 0 {
		t.Errorf("without a grant: %s, the floored question was put %d times", v.Action, asked)
	}
	if v := a.Judge(decide("<exact>")); v.Action != policy.Allow {
		t.Errorf("with the exact grant: %s", v.Action)
	}
}

// TestModes: a restricted session is asked, with the path, before its sandbox
// refuses a write outside its roots.
func TestModes(t *testing.T) {
	for in, want := range map[string]policy.Action{
		"echo x > out.txt":     policy.Allow,
		"echo x > /opt/y":      policy.Ask,
		"echo x > ~/.profile":  policy.Ask,
		"cat /usr/share/x":     policy.Allow,
		"cat ~/.ssh/id":        policy.Ask,
		"cd /opt && echo >x":   policy.Ask,
		"cd $x && echo >x":     policy.Ask,
		"echo x > /dev/null":   policy.Allow,
		"cat $(ls)":            policy.Allow,
		"cp a.txt /opt/b":      policy.Ask,
		"echo $(cat ~/.ssh/x)": policy.Ask,
	} {
		rs := newRules(map[string]string{"*": "ask", "echo *": "allow", "cat *": "allow", "cd *": "allow", "ls *": "allow", "cp *": "allow"})
		rs.mode = policy.AutoAcceptEdits
		a := Analyze(in, opts())
		v := a.Judge(rs.decide)
		if v.Action != want || want == policy.Ask && v.Unit == "" {
			t.Errorf("%q: %s (%s), want %s\n%s", in, v.Action, v.Unit, want, a.Explain(v))
		}
	}
}

// TestJSON: what a machine reads has the words, and the values survive.
func TestJSON(t *testing.T) {
	a := Analyze("cd x && git push origin > out; $y (", opts())
	b := Analyze("cd x && git push origin > out", opts())
	for _, a := range []*Analysis{a, b} {
		v := a.Judge(newRules(map[string]string{"*": "ask", "git push *": "deny"}).decide)
		data, err := json.Marshal(struct {
			Analysis *Analysis
			Verdict  Verdict
		}{a, v})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"action":"deny"`, `"surface":"bash"`, `"units":[`} {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s is missing in %s", want, data)
			}
		}
	}
}
