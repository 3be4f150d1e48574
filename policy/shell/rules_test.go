package shell

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// ruleSet is one authority for tests: the rules of a policy file over a mode
// that allows everything, so that only what is written down restricts.
type ruleSet struct {
	bash, read, write []policy.Rule
	// mode is FullAccess unless a test says otherwise.
	mode policy.Mode
	// roots, when set, make every path outside an ask.
	roots  string
	follow func(string) string

	auth *policy.Authority
}

func newRules(spec map[string]string) *ruleSet {
	rs := &ruleSet{}
	for pat, act := range spec {
		rs.bash = append(rs.bash, testRule("bash", pat, act))
	}
	return rs
}

func testRule(surface, pat, act string) policy.Rule {
	a, err := policy.ParseAction(act)
	if err != nil {
		panic(err)
	}
	return policy.Rule{Surface: surface, Pattern: pat, Action: a}
}

// authority writes the rules as a policy file and reads it back.
func (rs *ruleSet) authority() *policy.Authority {
	if rs.auth != nil {
		return rs.auth
	}
	perm := map[string]map[string]string{}
	for surface, rules := range map[string][]policy.Rule{"bash": rs.bash, "path_read": rs.read, "path_write": rs.write} {
		for _, r := range rules {
			if perm[surface] == nil {
				perm[surface] = map[string]string{}
			}
			perm[surface][r.Pattern] = r.Action.String()
		}
	}
	data, err := json.Marshal(map[string]any{"permission": perm})
	if err != nil {
		panic(err)
	}
	file, err := policy.ParsePolicy("test.jsonc", data)
	if err != nil {
		panic(err)
	}
	mode := rs.mode
	if mode == "" {
		mode = policy.FullAccess
	}
	snap := policy.Resolve(policy.ResolveInput{Mode: mode, Workspace: "/src/project", Cwd: "/src/project",
		ExtraRoots: []policy.Entry{{Path: "/usr", Provenance: policy.ProvenanceSystem}},
		Backend:    "landlock", BackendAreas: policy.RequiredAreas()})
	rs.auth = policy.NewAuthority("s", snap, file)
	return rs.auth
}

func (rs *ruleSet) decide(q policy.Query) policy.Decision {
	if rs.roots != "" && q.Aliases {
		p := q.Values[0]
		if rs.follow != nil {
			p = rs.follow(p)
		}
		known := slices.ContainsFunc(q.Values, func(s string) bool { return strings.HasPrefix(s, "/") })
		if !known || strings.HasPrefix(p, "/") && p != rs.roots && !strings.HasPrefix(p, rs.roots+"/") {
			return policy.Decision{Action: policy.Ask, Value: p, Reason: "outside the roots",
				Rule: policy.Rule{Surface: q.Surface, Pattern: "outside", Action: policy.Ask, Origin: policy.Origin{Authority: "policy"}}}
		}
	}
	return rs.authority().Decide(q)
}
