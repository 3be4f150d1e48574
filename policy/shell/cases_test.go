package shell

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/policy"
)

type tableCase struct {
	ID      string                     `json:"id"`
	Policy  map[string]json.RawMessage `json:"policy"`
	Command string                     `json:"command"`
	Floor   string                     `json:"floor"`
	Best    string                     `json:"best"`
	Ran     *string                    `json:"bash_ran"`
}

// diskResolver is a directory of the cases: a few files, and the programs of a
// system that no session can change.
type diskResolver struct {
	files   map[string]bool
	missing map[string]bool
	mine    map[string]string
}

func (d *diskResolver) Lookup(word string) (string, bool, bool) {
	if d.missing[word] {
		return "", false, false
	}
	if f, ok := d.mine[word]; ok {
		return f, true, true
	}
	if strings.HasPrefix(word, "/src/project") {
		return word, true, true
	}
	if strings.HasPrefix(word, "/") {
		return word, false, true
	}
	return "/usr/bin/" + word, false, true
}

func (d *diskResolver) Exists(p string) bool { return d.files[p] }

func caseOptions() Options {
	return Options{Dir: "/src/project", Home: "/home/u", Workspace: "/src/project", Resolver: &diskResolver{files: map[string]bool{
		"/src/project/a.txt": true, "/src/project/build": true, "/src/project/outside-link": true, "/": true, "/src/project": true,
	}}}
}

func caseRules(t *testing.T, spec map[string]json.RawMessage) *ruleSet {
	rs := newRules(nil)
	rs.follow = func(p string) string {
		if p == "/src/project/outside-link" {
			return "/etc/hostname"
		}
		return p
	}
	for k, raw := range spec {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			if k == "outside_cwd" {
				rs.roots = "/src/project"
				continue
			}
			rs.bash = append(rs.bash, testRule("bash", k, s))
			continue
		}
		var m map[string]string
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		for p, s := range m {
			switch k {
			case "path_write":
				rs.write = append(rs.write, testRule(k, p, s))
			case "path_read":
				rs.read = append(rs.read, testRule(k, p, s))
			default:
				t.Fatalf("surface %q", k)
			}
		}
	}
	return rs
}

func readLines[T any](t testing.TB, name string) []T {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []T
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if line == "" {
			continue
		}
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v: %s", name, err, line)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return out
}

type exception struct {
	ID     string `json:"id"`
	Got    string `json:"got"`
	Reason string `json:"reason"`
}

// rmMayRun reports whether an allowed analysis lets a program rm run.
func rmMayRun(a *Analysis) bool {
	for _, u := range a.Units {
		if u.head == "rm" {
			return true
		}
	}
	return false
}

// TestCommandTable: no verdict looser than its floor, 95 of 100 as a careful
// reader would have it, and each of the others listed with its reason.
func TestCommandTable(t *testing.T) {
	cases := readLines[tableCase](t, "testdata/commands.jsonl")
	known := map[string]exception{}
	for _, e := range readLines[exception](t, "testdata/exceptions.jsonl") {
		known[e.ID] = e
	}
	best := 0
	for _, c := range cases {
		rs := caseRules(t, c.Policy)
		a := Analyze(c.Command, caseOptions())
		v := a.Judge(rs.decide)
		ok := false
		switch c.Floor {
		case "allow":
			ok = true
		case "ask":
			ok = v.Action <= policy.Ask
		case "deny":
			ok = v.Action == policy.Deny
		case "not-allow":
			ok = v.Action != policy.Allow
		case "not-rm":
			ok = v.Action != policy.Allow || !rmMayRun(a)
		default:
			t.Fatalf("%s: floor %q", c.ID, c.Floor)
		}
		if !ok {
			t.Errorf("%s: %q is %s, looser than %s\n%s", c.ID, c.Command, v.Action, c.Floor, a.Explain(v))
		}
		if v.Action.String() == c.Best {
			best++
			if e, listed := known[c.ID]; listed {
				t.Errorf("%s is listed as an exception (%s) and is none", c.ID, e.Reason)
			}
			continue
		}
		e, listed := known[c.ID]
		if !listed || e.Got != v.Action.String() || e.Reason == "" {
			t.Errorf("%s: %q is %s, best is %s, and no exception says so\n%s", c.ID, c.Command, v.Action, c.Best, a.Explain(v))
		}
	}
	share := float64(best) / float64(len(cases))
	t.Logf("%d of %d as a careful reader has it (%.1f %%)", best, len(cases), 100*share)
	if share < 0.95 {
		t.Errorf("%.1f %% is less than 95 %%", 100*share)
	}
}

type reportCase struct {
	ID        string            `json:"id"`
	Policy    map[string]string `json:"policy"`
	PathWrite map[string]string `json:"path_write"`
	Commands  []string          `json:"commands"`
	Expect    []string          `json:"expect"`
}

// TestReports: what users of such gates reported, each as a small table.
func TestReports(t *testing.T) {
	for _, c := range readLines[reportCase](t, "testdata/reports.jsonl") {
		rs := newRules(c.Policy)
		for p, s := range c.PathWrite {
			rs.write = append(rs.write, testRule("path_write", p, s))
		}
		for i, cmd := range c.Commands {
			a := Analyze(cmd, caseOptions())
			v := a.Judge(rs.decide)
			ok := v.Action.String() == c.Expect[i]
			if c.Expect[i] == "not-allow" {
				ok = v.Action != policy.Allow
			}
			if !ok {
				t.Errorf("%s: %q is %s, want %s\n%s", c.ID, cmd, v.Action, c.Expect[i], a.Explain(v))
			}
		}
	}
}

// oracleSeeds are all texts of the tables.
func oracleSeeds(t testing.TB) []string {
	var out []string
	for _, c := range readLines[tableCase](t, "testdata/commands.jsonl") {
		out = append(out, c.Command)
	}
	for _, c := range readLines[everydayCase](t, "testdata/everyday.jsonl") {
		out = append(out, c.Command)
	}
	for _, c := range readLines[reportCase](t, "testdata/reports.jsonl") {
		out = append(out, c.Commands...)
	}
	return out
}
