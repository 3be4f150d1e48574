package lineage_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/registry/lineage"
)

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, pair := range pairs {
			if key, value, _ := strings.Cut(pair, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

func yes(string) (bool, string) { return true, "its process is an ancestor" }
func no(string) (bool, string)  { return false, "its process is no ancestor" }

func TestDetect(t *testing.T) {
	t.Parallel()
	registered := func(parent string) func(string) (string, bool) {
		return func(own string) (string, bool) { return parent, own == "me" }
	}
	type input = lineage.Input
	for name, c := range map[string]struct {
		in     input
		child  bool
		parent string
		source string
		proven bool
		why    string // in one of the sentences
	}{
		"nothing at all":                      {input{}, false, "", "none", false, "a root"},
		"empty environment":                   {input{LookupEnv: environment()}, false, "", "none", false, "a root"},
		"registry":                            {input{Own: " me ", Registered: registered("top")}, true, "top", "registry", true, "the registry holds"},
		"registry before environment":         {input{Own: "me", Registered: registered("top"), LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=other")}, true, "top", "registry", true, "the registry holds"},
		"registry names itself":               {input{Own: "me", Registered: registered("me"), LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=other"), Proven: yes}, true, "other", "env", true, "the registry holds"},
		"registry knows no parent":            {input{Own: "me", Registered: registered("unknown")}, true, "", "registry", false, "cannot be forwarded"},
		"registry of others":                  {input{Own: "you", Registered: registered("top")}, false, "", "none", false, "a root"},
		"parent named, proven":                {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION= root-1 "), Proven: yes}, true, "root-1", "env", true, "names a parent"},
		"parent named, not proven":            {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=root-1"), Proven: no}, true, "root-1", "env", false, "proves nothing"},
		"parent named, nobody to prove it":    {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=root-1")}, true, "root-1", "env", false, "proves nothing"},
		"router before convention":            {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=b", "PI_AGENT_ROUTER_PARENT_SESSION_ID=a")}, true, "a", "env", false, "pi-agent-router"},
		"router unknown":                      {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=b", "PI_AGENT_ROUTER_PARENT_SESSION_ID=Unknown")}, true, "b", "env", false, "names a parent"},
		"router names itself":                 {input{Own: "a", LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=b", "PI_AGENT_ROUTER_PARENT_SESSION_ID=a")}, true, "b", "env", false, "names a parent"},
		"only itself is named":                {input{Own: "a", LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION= a")}, false, "", "none", false, "a root"},
		"unknown is no parent":                {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=unknown")}, false, "", "none", false, "a root"},
		"blank says nothing":                  {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION= \t", "PI_IS_SUBAGENT=  ")}, false, "", "none", false, "a root"},
		"parent that leaves its directory":    {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=..")}, false, "", "none", false, "a root"},
		"parent in no character set":          {input{LookupEnv: environment("PI_SUBAGENT_PARENT_SESSION=\xff\xfe")}, false, "", "none", false, "a root"},
		"marker without parent":               {input{LookupEnv: environment("PI_SUBAGENT_NAME=scout")}, true, "", "env", false, "HazAT"},
		"marker and parent":                   {input{LookupEnv: environment("PI_IS_SUBAGENT=1", "PI_SUBAGENT_PARENT_SESSION=root-1")}, true, "root-1", "env", false, "PI_IS_SUBAGENT is set"},
		"shell of Pi":                         {input{LookupEnv: environment("PI_CODING_AGENT=true", "PI_SESSION_ID=p"), PiAncestor: yes}, true, "p", "env", true, "runs below"},
		"shell of a Pi that is gone":          {input{LookupEnv: environment("PI_CODING_AGENT=true", "PI_SESSION_ID=p"), PiAncestor: no}, false, "", "none", false, "a root"},
		"shell of Pi, nobody to tell":         {input{LookupEnv: environment("PI_CODING_AGENT=true", "PI_SESSION_ID=p")}, false, "", "none", false, "a root"},
		"session id without Pi":               {input{LookupEnv: environment("PI_SESSION_ID=p"), PiAncestor: yes}, false, "", "none", false, "a root"},
		"session id, Pi says 1":               {input{LookupEnv: environment("PI_CODING_AGENT=1", "PI_SESSION_ID=p"), PiAncestor: yes}, false, "", "none", false, "a root"},
		"convention before shell of Pi":       {input{LookupEnv: environment("PI_CODING_AGENT=true", "PI_SESSION_ID=p", "PI_SUBAGENT_PARENT_SESSION=b"), PiAncestor: yes, Proven: no}, true, "b", "env", false, "names a parent"},
		"directory":                           {input{AgentDir: "/a", SessionDir: "/a/subagent-sessions/x"}, true, "", "directory", false, "are kept in"},
		"directory itself":                    {input{AgentDir: "/a/", SessionDir: "/a/./subagent-sessions"}, true, "", "directory", false, "are kept in"},
		"directory beside":                    {input{AgentDir: "/a", SessionDir: "/a/subagent-sessions-x"}, false, "", "none", false, "a root"},
		"directory above by dots":             {input{AgentDir: "/a", SessionDir: "/a/subagent-sessions/../x"}, false, "", "none", false, "a root"},
		"directory with dots in its name":     {input{AgentDir: "/a", SessionDir: "/a/subagent-sessions/..x"}, true, "", "directory", false, "are kept in"},
		"directory of the same name":          {input{AgentDir: "/a", SessionDir: "/b/subagent-sessions/x"}, false, "", "none", false, "a root"},
		"directory in another case":           {input{AgentDir: "/A", SessionDir: "/a/Subagent-Sessions/x"}, false, "", "none", false, "a root"},
		"directory in another case, folded":   {input{AgentDir: "/A", SessionDir: "/a/Subagent-Sessions/x", FoldCase: true}, true, "", "directory", false, "are kept in"},
		"directory, relative":                 {input{AgentDir: "a", SessionDir: "a/subagent-sessions/x"}, false, "", "none", false, "a root"},
		"cleared environment inside a tree":   {input{Nested: "below the keeper 41 of tree t-1"}, false, "", "none", false, "nested, not proven"},
		"moved session directory, still told": {input{AgentDir: "/a", SessionDir: "/tmp/x", LookupEnv: environment("PI_IS_SUBAGENT=1")}, true, "", "env", false, "is set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lineage.Detect(c.in)
			if got.IsChild != c.child || got.Parent != c.parent || got.Source != c.source || got.Proven != c.proven {
				t.Errorf("got %+v", got)
			}
			if !strings.Contains(strings.Join(got.Why, "\n"), c.why) {
				t.Errorf("why: %q, expected %q in it", got.Why, c.why)
			}
			used := 0
			for _, candidate := range got.Candidates {
				if candidate.Why == "" {
					t.Errorf("candidate %+v without a why", candidate)
				}
				if candidate.Used {
					used++
				}
			}
			if (used == 1) != (got.Parent != "") || used > 1 {
				t.Errorf("%d candidates used, parent %q", used, got.Parent)
			}
		})
	}
}

func TestInventoryIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range lineage.Inventory() {
		if seen[v.Name] || v.Spawner == "" || v.Role.String() == "no role" {
			t.Errorf("row %+v", v)
		}
		seen[v.Name] = true
		got := lineage.Detect(lineage.Input{LookupEnv: environment(v.Name + "=x")})
		if !got.IsChild || (got.Parent == "x") != (v.Role == lineage.Parent) {
			t.Errorf("%s alone gives %+v", v.Name, got)
		}
	}
	if len(seen) != 13 {
		t.Errorf("%d names, expected the 11 markers and 2 parents that are known", len(seen))
	}
	lineage.Inventory()[0].Name = "changed"
	if lineage.Inventory()[0].Name == "changed" {
		t.Error("the table can be changed from outside")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(lineage.Detect(lineage.Input{Own: "me", LookupEnv: environment("PI_AGENT_ROUTER_PARENT_SESSION_ID=me", "PI_SUBAGENT_PARENT_SESSION=root-1"), Proven: yes}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"isChild":true,"parent":"root-1","source":"env","proven":true,"why":["PI_SUBAGENT_PARENT_SESSION names a parent, as the subagent adapter convention has it"],` +
		`"candidates":[{"name":"PI_AGENT_ROUTER_PARENT_SESSION_ID","value":"me","used":false,"proven":false,"why":"it names this session itself"},` +
		`{"name":"PI_SUBAGENT_PARENT_SESSION","value":"root-1","used":true,"proven":true,"why":"its process is an ancestor"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// TestParentIsNeverThisSession draws environments and holds the laws: the parent
// is no name of this session, never "unknown", only proven if something said so,
// and nothing in the answer can order a terminal about.
func TestParentIsNeverThisSession(t *testing.T) {
	t.Parallel()
	names := []string{"PI_CODING_AGENT", "PI_SESSION_ID"}
	for _, v := range lineage.Inventory() {
		names = append(names, v.Name)
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.SampledFrom([]string{"me", " me", "unknown", "", "..", "root", "true", "\x1b[2J", "\xff"}), rapid.String())
		var pairs []string
		for _, name := range names {
			if rapid.Bool().Draw(t, name) {
				pairs = append(pairs, name+"="+value.Draw(t, name+" value"))
			}
		}
		proof := rapid.Bool().Draw(t, "proof")
		tell := func(string) (bool, string) { return proof, "as drawn" }
		got := lineage.Detect(lineage.Input{Own: "me", LookupEnv: environment(pairs...), Proven: tell, PiAncestor: tell})
		if got.Parent == "me" || strings.EqualFold(got.Parent, "unknown") || got.Parent == ".." {
			t.Fatalf("parent %q", got.Parent)
		}
		if got.Proven && !proof || got.Parent != "" && !got.IsChild || got.Parent == "" && got.Proven {
			t.Fatalf("%+v", got)
		}
		for _, text := range append(got.Why, got.Source) {
			for _, r := range text {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q holds a raw %U", text, r)
				}
			}
		}
		for _, candidate := range got.Candidates {
			for _, r := range candidate.Value + candidate.Why {
				if !unicode.IsPrint(r) {
					t.Fatalf("%+v holds a raw %U", candidate, r)
				}
			}
		}
	})
}
