package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/getpioneer/pioneer-super/policy"
)

func TestPolicyShow(t *testing.T) {
	dir := configuration(t, map[string]string{
		"policy.jsonc":      `{"permission": {"*": "deny", "bash": {"git *": "allow"}, "mcp": {"exa:*": "allow"}}}`,
		"hard-guards.jsonc": `{"permission": {"bash": {"rm *": "deny"}}, "protectedWrites": ["*/.git/config"]}`,
		"config.jsonc":      `{"yolo": true}`,
		"agents/a.md":       "---\npermission:\n  bash: ask\n---\n",
	})
	got := runHere("", "policy", "show", "--mode", "supervised", "--agent", "a", "--json")
	var v struct {
		Mode, Source string
		Layers       []struct {
			Layer, Note string
			File        struct {
				Path    string
				Present bool
				SHA256  string
			}
			Rules []policy.Rule
		}
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 0 {
		t.Fatalf("%v %+v", err, got)
	}
	var order []string
	for _, l := range v.Layers {
		order = append(order, l.Layer)
		switch l.Layer {
		case "policy":
			if l.File.Path != filepath.Join(dir, "policy.jsonc") || len(l.File.SHA256) != 64 || len(l.Rules) != 2 || !strings.Contains(l.Note, "does not count: a mode was chosen") {
				t.Errorf("%+v", l)
			}
			if o := l.Rules[0].Origin; o.Line != 1 || o.Column != 39 {
				t.Errorf("%+v", l.Rules[0])
			}
		case "mode":
			if len(l.Rules) != len(policy.Kinds()) {
				t.Errorf("%+v", l)
			}
		}
	}
	want := []string{"hard-guard", "mode", "baseline", "policy", "frontmatter", "settings", "yolo", "protected"}
	if d := cmp.Diff(want, order); d != "" {
		t.Error(d)
	}
	got = runHere("", "policy", "show")
	for _, want := range []string{"mode full_access (defaulted)", `deny   *     "*"`, `"rm *"  ` + dir + "/hard-guards.jsonc:1:26", "note: composed from the files of"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if got := runHere("", "policy", "show", "x"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

func TestPolicyLint(t *testing.T) {
	dir := configuration(t, map[string]string{
		"policy.jsonc":      `{"permission": {"bash": {"rm -rf *": "allow", "git log *": "allow"}}}`,
		"hard-guards.jsonc": `{"permission": {"bash": {"rm *": "deny"}}}`,
	})
	got := runHere("", "policy", "lint")
	if got.code != 1 || !strings.Contains(got.out, dir+"/policy.jsonc:1:26: unreachable: the hard guard") {
		t.Errorf("%+v", got)
	}
	good := write(t, filepath.Join(t.TempDir(), "p.jsonc"), `{"permission": {"bash": {"git log *": "allow"}}}`)
	if got := runHere("", "policy", "lint", good); got.code != 0 || got.out != "" {
		t.Errorf("%+v", got)
	}
	wide := write(t, filepath.Join(t.TempDir(), "p.jsonc"), "{\"permission\": {\n  \"bash\": {\"sudo *\": \"allow\"}\n}}")
	got = runHere("", "policy", "lint", wide, "--json")
	var v struct {
		Findings []struct {
			File         string
			Line, Column int
			Check        string
		}
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 1 || len(v.Findings) != 1 || v.Findings[0].Line != 2 || v.Findings[0].Check != "wide" || v.Findings[0].File != wide {
		t.Errorf("%v %+v %+v", err, v, got)
	}
	bad := write(t, filepath.Join(t.TempDir(), "bad.jsonc"), `{"permission": {"bash": 3}}`)
	for _, args := range [][]string{{bad}, {good, good}, {good, "--hard-guards", bad}, {filepath.Join(dir, "none")}} {
		if got := runHere("", append([]string{"policy", "lint"}, args...)...); got.code != 2 || got.err == "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// The files of agents that count here are looked at as well: the operator's, and
// those of the trusted project that one stands in, of no other.
func TestPolicyLintReadsAgents(t *testing.T) {
	trusted, other := canonical(t.TempDir()), canonical(t.TempDir())
	shadowed := "---\npermission:\n  bash:\n    rm *: deny\n    rm -i *: deny\n---\n"
	for _, project := range []string{trusted, other} {
		folder := filepath.Join(project, policy.ProjectAgents)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "theirs.md"), shadowed)
	}
	settings, err := json.Marshal(map[string]any{"trustedProjects": []string{trusted}})
	if err != nil {
		t.Fatal(err)
	}
	dir := configuration(t, map[string]string{
		"policy.jsonc": `{"permission": {"bash": {"git log *": "allow"}}}`, "config.jsonc": string(settings),
	})
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(other)
	if got := runHere("", "policy", "lint"); got.code != 0 || got.out != "" {
		t.Fatalf("nothing that counts has a finding: %+v", got)
	}
	own := write(t, filepath.Join(dir, "agents", "mine.md"), shadowed)
	if got := runHere("", "policy", "lint"); got.code != 1 || !strings.Contains(got.out, own+":") || strings.Contains(got.out, "theirs.md") {
		t.Errorf("%+v", got)
	}
	t.Chdir(trusted)
	if got := runHere("", "policy", "lint"); got.code != 1 || !strings.Contains(got.out, filepath.Join(trusted, policy.ProjectAgents, "theirs.md")+":") {
		t.Errorf("%+v", got)
	}
	write(t, filepath.Join(dir, "agents", "broken.md"), "---\npermission:\n  bash: 3\n---\n")
	if got := runHere("", "policy", "lint"); got.code != 2 || !strings.Contains(got.err, "broken.md") {
		t.Errorf("%+v", got)
	}
}

func TestPolicyTest(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "policy.jsonc"), samplePolicy)
	table := write(t, filepath.Join(dir, "policy.test.jsonc"), `{
  "expect": [
    {"surface": "bash", "value": "git status && git push", "verdict": "deny", "rule": "git push *"},
    {"surface": "bash", "value": "git status", "verdict": "allow", "authority": "policy"},
    {"tool": "Edit", "path": "src/x.go", "verdict": "allow"},
    {"surface": "path_read", "value": "~/.env", "verdict": "deny", "comment": "secrets"},
    {"surface": "bash", "value": "make", "verdict": "ask"},
  ],
}`)
	if got := runHere("", "policy", "test", table); got.code != 0 || !strings.Contains(got.out, "5 of 5 as expected by "+filepath.Join(dir, "policy.jsonc")) {
		t.Errorf("%+v", got)
	}
	wrong := write(t, filepath.Join(dir, "wrong.test.jsonc"), "{\n  \"mode\": \"supervised\",\n  \"expect\": [\n    {\"surface\": \"bash\", \"value\": \"git push\", \"verdict\": \"allow\"},\n    {\"tool\": \"Read\", \"path\": \"x\", \"verdict\": \"allow\", \"authority\": \"mode\"}\n  ]\n}")
	got := runHere("", "policy", "test", wrong)
	if got.code != 1 || !strings.Contains(got.out, wrong+":4:5: bash git push: deny, expected allow") || !strings.Contains(got.out, "1 of 2 as expected") {
		t.Errorf("%+v", got)
	}
	got = runHere("", "policy", "test", wrong, "--json")
	var v struct {
		Rows     int
		Failures []struct {
			Line          int
			Expected, Got string
		}
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Rows != 2 || len(v.Failures) != 1 || v.Failures[0].Line != 4 || v.Failures[0].Got != "deny" {
		t.Errorf("%v %+v", err, v)
	}
	write(t, filepath.Join(dir, "team.jsonc"), `{"permission": {"bash": {"make *": "deny"}}}`)
	team := write(t, filepath.Join(dir, "team.test.jsonc"), `{"expect": [{"surface": "bash", "value": "make", "verdict": "deny"}]}`)
	if got := runHere("", "policy", "test", team); got.code != 0 || !strings.Contains(got.out, "team.jsonc") {
		t.Errorf("the policy of the same name: %+v", got)
	}
	if got := runHere("", "policy", "test", team, "--policy", filepath.Join(dir, "policy.jsonc")); got.code != 1 {
		t.Errorf("the policy that is named: %+v", got)
	}
	lonely := write(t, filepath.Join(t.TempDir(), "x.test.jsonc"), `{"expect": [{"surface": "bash", "value": "make", "verdict": "deny"}]}`)
	bad := write(t, filepath.Join(dir, "bad.test.jsonc"), `{"expect": [{"verdict": "maybe"}]}`)
	for _, args := range [][]string{{}, {lonely}, {bad}, {table, "--mode", "x"}} {
		if got := runHere("", append([]string{"policy", "test"}, args...)...); got.code != 2 || got.err == "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestPromptSection(t *testing.T) {
	configuration(t, nil)
	if got := runHere("", "prompt-section"); got.code != 0 || got.out != "" {
		t.Errorf("plain full access: %+v", got)
	}
	if got := runHere("", "prompt-section", "--mode", "supervised"); !strings.Contains(got.out, "## Current Permissions") || !strings.Contains(got.out, "supervised") {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "prompt-section", "--mode", "x"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

func TestConfigInit(t *testing.T) {
	dir := configuration(t, nil)
	path := filepath.Join(dir, "policy.jsonc")
	got := runHere("", "config", "init")
	if got.code != 0 || got.out != path+"\n" {
		t.Fatalf("%+v", got)
	}
	for p, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v", p, st.Mode(), err)
		}
	}
	// What is written is without a mistake, lints clean and can be asked.
	if got := runHere("", "config", "check"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "policy", "lint"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "check", "--shell", "git push --force"); got.code != 10 {
		t.Errorf("%+v", got)
	}
	write(t, path, `{"permission": {}}`)
	if got := runHere("", "config", "init"); got.code != 2 || !strings.Contains(got.err, "is there already") {
		t.Errorf("%+v", got)
	}
	if data, _ := os.ReadFile(path); string(data) != `{"permission": {}}` {
		t.Errorf("the policy was touched: %s", data)
	}
	if got := runHere("", "config", "init", "--force"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if data, _ := os.ReadFile(path); string(data) != string(starterPolicy) {
		t.Errorf("--force did not replace it: %s", data)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestConfigCheck(t *testing.T) {
	dir := configuration(t, map[string]string{
		"policy.jsonc":      "{\"permission\": {\n \"bash\": \"yes\",\n \"pathread\": \"deny\"}}",
		"hard-guards.jsonc": `{"permission": {"*": "deny"}}`,
		"config.jsonc":      `{"roots": ["rel"]}`,
		"agents/a.md":       "---\npermission: [x]\n---\n",
		"agents/b.md":       "just text\n",
	})
	if err := os.Chmod(filepath.Join(dir, "config.jsonc"), 0o666); err != nil {
		t.Fatal(err)
	}
	got := runHere("", "config", "check")
	if got.code != 1 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{
		`/policy.jsonc:2:10: "yes", expected allow, ask or deny`, `/policy.jsonc:3:2: surface "pathread"`, `did you mean "path_read"?`,
		"/hard-guards.jsonc:1:", "/config.jsonc:1:12: path \"rel\", expected an absolute path", "/config.jsonc: others may write it (mode 0666), expected mode 0600",
		"/agents/a.md:2:", "/agents/b.md: good",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	got = runHere("", "config", "check", "--json")
	var v struct {
		Files []struct {
			Path     string
			Problems []policy.Problem
		}
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 1 || len(v.Files) != 5 {
		t.Errorf("%v %+v", err, got)
	}
	configuration(t, nil)
	if got := runHere("", "config", "check"); got.code != 0 || !strings.Contains(got.out, "policy.jsonc: not there") {
		t.Errorf("no configuration is no mistake: %+v", got)
	}
	if got := runHere("", "config", "chekc"); got.code != 2 || !strings.Contains(got.err, `unknown command "chekc"`) {
		t.Errorf("%+v", got)
	}
}

// A schema says what the reader takes: names and words of one are those of the
// other.
func TestConfigSchema(t *testing.T) {
	for which, tops := range map[string][]string{
		"policy": {"$schema", "permission"}, "hard-guards": {"$schema", "permission", "protectedWrites"},
		"cap":    {"$schema", "approval", "backend", "ceiling", "open", "process", "profile", "sandbox"},
		"config": {"$schema", "allowAlways", "authorizers", "autoReview", "capabilities", "hosts", "limits", "maxDuration", "observers", "roots", "trustedProjects", "yolo"},
	} {
		got := runHere("", "config", "schema", which)
		var v struct {
			Schema     string         `json:"$schema"`
			Properties map[string]any `json:"properties"`
			Additional any            `json:"additionalProperties"`
		}
		if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 0 || v.Schema != schemaVersion || v.Additional != false {
			t.Errorf("%s: %v %+v", which, err, got)
		}
		names := map[string]bool{}
		for name := range v.Properties {
			names[name] = true
		}
		for _, name := range tops {
			if !names[name] {
				t.Errorf("%s: no %q", which, name)
			}
			delete(names, name)
		}
		if len(names) > 0 {
			t.Errorf("%s: also %v", which, names)
		}
		again := runHere("", "config", "schema", which)
		if again.out != got.out {
			t.Errorf("%s: printed differently", which)
		}
	}
	for _, name := range policy.Surfaces() {
		if surfaceText[name] == "" {
			t.Errorf("surface %s is not described", name)
		}
	}
	// Every name of a schema is one that the reader knows, at every depth of objects.
	for which, read := range map[string]func([]byte) error{
		"cap":    func(b []byte) error { _, err := policy.ParseCap("f", b); return err },
		"config": func(b []byte) error { _, err := policy.ParseSettings("f", b); return err },
	} {
		for _, s := range schemas {
			if s.name != which {
				continue
			}
			doc, err := json.Marshal(sample(s.make()))
			if err != nil {
				t.Fatal(err)
			}
			if err := read(doc); err != nil && strings.Contains(err.Error(), "unknown key") {
				t.Errorf("%s: %v\n%s", which, err, doc)
			}
		}
	}
	if got := runHere("", "config", "schema", "x"); got.code != 2 || !strings.Contains(got.err, "policy, hard-guards, cap, config") {
		t.Errorf("%+v", got)
	}
	if got := runHere("", "config", "schema"); got.out != runHere("", "config", "schema", "policy").out {
		t.Error("without a name it is the policy's")
	}
}

// sample makes a value with every name that a schema has.
func sample(s schema) any {
	if p, ok := s["properties"].(schema); ok {
		out := map[string]any{}
		for name, v := range p {
			if sub, ok := v.(schema); ok && name != "$schema" {
				out[name] = sample(sub)
			}
		}
		return out
	}
	switch words, isEnum := s["enum"].([]any); {
	case isEnum:
		return words[0]
	case s["type"] == "boolean":
		return true
	case s["type"] == "array" || s["anyOf"] != nil:
		return []any{}
	}
	return "x"
}
