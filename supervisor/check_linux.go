package supervisor

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/sandbox/egress"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// check says what recorded authority, grants included, answers to a path or a host.
// Nobody is asked, nothing runs and nothing is recorded: it is for an agent's own
// file and web tools, whose honesty the answer depends on.
func (t *tree) check(s *session, role string, r *control.Request) control.Result {
	wrong := func(reason string) control.Result {
		return control.Result{Exit: 2, Class: control.ClassFailed, Reason: "check: " + reason}
	}
	a := r.Ask
	w := t.valueWish(s, r.ID, role, a.Surface, a.Value, a.Tool)
	w.rules = t.rules.Load()
	w.chain = s.under(w.rules)
	var target egress.Target
	switch a.Surface {
	case "path_read", "path_write":
		for _, p := range []string{a.Value, a.Real} {
			if !filepath.IsAbs(p) || strings.ContainsRune(p, 0) {
				return wrong("a path and where it leads are needed, both absolute")
			}
		}
		values := policy.PathAliases(a.Value, s.snap.Sandbox.Cwd, t.root.Home, "")
		if real := filepath.Clean(a.Real); !slices.Contains(values, real) {
			values = append(values, real)
		}
		w.queries = []policy.Query{policy.NewQuery(a.Surface, values...)}
	case "network":
		var err error
		if target, err = egress.ParseTarget(a.Value, 0); err != nil {
			return wrong(err.Error())
		}
		w.queries = []policy.Query{policy.HostQuery(target.Host, strconv.Itoa(int(target.Port)))}
	case "socket":
		// Whether any socket with a path can be reached from here; which one, its file's
		// rules say.
		res := control.Result{Class: control.ClassDecided, Session: s.id, Verdict: policy.Allow.String(), By: "rule", Reason: "the session is not confined"}
		if s.restricted() {
			res.Exit, res.Verdict, res.Reason = 10, policy.Deny.String(), "a confined session reaches no socket with a path but its own"
		}
		return res
	default:
		return wrong("surface " + strconv.Quote(a.Surface) + ", expected path_read, path_write, network or socket")
	}
	for i := range w.queries {
		w.queries[i].Home = t.root.Home
	}
	v := t.judge(w)
	res := control.Result{Class: control.ClassDecided, Session: s.id, Verdict: v.action.String(), By: "rule", Reason: v.decision.Reason}
	if v.grant != nil {
		res.By, res.Reason = "grant", "a grant that was given covers it"
	} else if res.Reason == "" {
		res.Reason = originText(v.decision.Rule)
	}
	if a.Surface == "network" && s.restricted() && v.action == policy.Allow {
		listed := append(slices.Clone(s.snap.Open.Hosts), v.decision.Rule.Pattern)
		if why := egress.NotPublic(target, listed); why != "" {
			res.Verdict, res.Reason = policy.Ask.String(), why
		}
	}
	switch res.Verdict {
	case policy.Ask.String():
		res.Exit = 13
	case policy.Deny.String():
		res.Exit = 10
	}
	return res
}
