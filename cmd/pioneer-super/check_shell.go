package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
)

// shellAnswer is what was found in a text.
type shellAnswer struct {
	Dialect string `json:"dialect"`
	// Canonical is the text that would run, printed from what was judged; empty
	// where there is none.
	Canonical string `json:"canonical"`
	// Plain says that every shell reads the text alike.
	Plain    bool            `json:"plain"`
	Class    shell.Class     `json:"class"`
	Commands []shellCommand  `json:"commands"`
	Paths    []shellPath     `json:"paths"`
	Problems []shell.Problem `json:"problems,omitempty"`
	Needs    shell.Needs     `json:"needs"`
}

// shellCommand is one simple command and what was said of it.
type shellCommand struct {
	Text    string   `json:"text"`
	Words   []string `json:"words"`
	Context string   `json:"context,omitempty"`
	// Wrappers are the layers that were peeled, outermost first; Executed is what
	// they finally run.
	Wrappers   []string      `json:"wrappers,omitempty"`
	Executed   string        `json:"executed,omitempty"`
	Resolution string        `json:"resolution"`
	File       string        `json:"file,omitempty"`
	Changeable bool          `json:"changeable,omitempty"`
	Class      shell.Class   `json:"class"`
	Verdict    policy.Action `json:"verdict"`
	Rule       *policy.Rule  `json:"rule,omitempty"`
	// As is the other spelling that the rule matched.
	As       string `json:"as,omitempty"`
	Sentinel string `json:"sentinel,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Ignored says that it does not count: what it does is in other commands.
	Ignored bool `json:"ignored,omitempty"`
}

// shellPath is one path that the text names.
type shellPath struct {
	Path      string `json:"path"`
	Typed     string `json:"typed"`
	Direction string `json:"direction"`
	Source    string `json:"source"`
	Command   string `json:"command,omitempty"`
	// Unproven says that the direction is not known: the path is there as both.
	Unproven bool          `json:"unproven,omitempty"`
	Verdict  policy.Action `json:"verdict"`
	Rule     *policy.Rule  `json:"rule,omitempty"`
	Sentinel string        `json:"sentinel,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	// Ignored says that no rule speaks of it, and it lies inside.
	Ignored bool `json:"ignored,omitempty"`
}

// shell takes a text apart and judges what it may run and touch, and the paths
// that the question names beside it.
func (k *checker) shell(q policy.Question, text string, dialect shell.Dialect) answer {
	cwd := k.cwd
	if q.Cwd != "" {
		cwd = filepath.Clean(q.Cwd)
	}
	o := shell.Options{Dialect: dialect, Dir: cwd, Home: k.home, Workspace: k.layers.Snapshot.Sandbox.Workspace, RulesAlone: k.alone}
	if k.resolve {
		o.Resolver = &hereResolver{composed: k.composed, cwd: cwd, path: filepath.SplitList(os.Getenv("PATH"))}
		o.Env = os.LookupEnv
	}
	found := shell.Analyze(text, o)
	verdict := found.Judge(func(query policy.Query) policy.Decision {
		if query.Surface == "bash" && q.Tool != "" {
			query.Tool = q.Tool
		}
		return policy.Decide(k.chain, k.pathQuery(query))
	})

	a := answer{ID: q.ID, Verdict: verdict.Action, Sentinel: verdict.Sentinel}
	d := verdict.Decision
	if k.free() && verdict.Rules == policy.Allow && a.Verdict == policy.Ask {
		// As in a tree: an unconfined session whose rules say nothing of commands
		// is allowed what cannot be seen through, and it is recorded.
		a.Verdict = policy.Allow
		d = policy.Decision{Action: policy.Allow, Reason: "nothing restricts commands in full_access; it would be recorded (" + verdict.Reason + ")",
			Rule: policy.Rule{Surface: "bash", Pattern: "*", Action: policy.Allow, Origin: policy.Origin{Authority: "mode"}}}
	} else if verdict.Action < d.Action || d.Rule.Surface == "" {
		// What decided is no rule: a floor below an allow, or a problem of the text.
		pattern := verdict.Sentinel
		if pattern == "" {
			pattern = "*"
		}
		d.Rule = policy.Rule{Surface: "bash", Pattern: pattern, Action: verdict.Action, Origin: policy.Origin{Authority: "floor"}}
		d.Reason = verdict.Reason
	} else if verdict.Reason != "" {
		d.Reason = verdict.Reason
	}
	a.decided(d)
	a.Value = verdict.Unit
	if a.Value == "" {
		a.Value = text
	}
	for _, r := range verdict.Results {
		a.HumanOnly = a.HumanOnly || !r.Ignored && r.Decision.HumanOnly && a.Verdict == policy.Ask
	}
	a.Shell = newShellAnswer(found, verdict, dialect)
	if len(q.Paths) > 0 {
		k.alsoPaths(&a, q)
	}
	if k.explain {
		a.explained = found.Explain(verdict)
		for _, u := range explainedUnits(found, verdict) {
			a.Explanations = append(a.Explanations, policy.Explain(k.chain, k.pathQuery(u)))
		}
	}
	k.notesFor(&a)
	if k.explain && !k.resolve {
		a.Notes = append(slices.Clip(a.Notes), "no file of here was looked at: programs are unresolved and links are not followed (--resolve)")
	}
	return a
}

// alsoPaths judges the paths that a question names beside its command.
func (k *checker) alsoPaths(a *answer, q policy.Question) {
	q.Surface, q.Value, q.Tool = "path", "", ""
	queries := q.Queries(k.cwd, k.home, k.links())
	for i := range queries {
		queries[i].RulesOnly = true
	}
	d := policy.DecideAll(k.chain, queries)
	if k.explain {
		for _, query := range queries {
			a.Explanations = append(a.Explanations, policy.Explain(k.chain, query))
		}
	}
	if d.Action < a.Verdict {
		a.Verdict, a.HumanOnly, a.Sentinel = d.Action, d.HumanOnly, ""
		a.decided(d)
	}
}

// pathQuery adapts the gate of paths: with the files of here links are followed; a
// file that is asked alone has no roots that a link could lead out of.
func (k *checker) pathQuery(q policy.Query) policy.Query {
	if !policy.IsPathSurface(q.Surface) {
		return q
	}
	if k.resolve {
		rulesOnly := q.RulesOnly
		q = q.FollowLinks(realHere)
		q.RulesOnly = q.RulesOnly || k.alone && rulesOnly
	}
	return q
}

// explainedUnits are the questions of the units that count.
func explainedUnits(a *shell.Analysis, v shell.Verdict) []policy.Query {
	var out []policy.Query
	all := a.Queries()
	for _, r := range v.Results {
		i := r.Index
		if r.Surface != "bash" {
			i += len(a.Units)
		}
		if i >= len(all) || r.Ignored || len(out) >= 20 {
			continue
		}
		q := all[i]
		if r.Form != "" {
			q.Values = []string{r.Form}
		}
		if r.Sentinel == "" {
			q.Floor = policy.Allow
		}
		out = append(out, q)
	}
	return out
}

func newShellAnswer(a *shell.Analysis, v shell.Verdict, dialect shell.Dialect) *shellAnswer {
	out := &shellAnswer{
		Dialect: dialect.String(), Canonical: a.Canonical, Plain: a.Plain, Class: a.Class(), Problems: a.Problems, Needs: a.Needs,
		Commands: []shellCommand{}, Paths: []shellPath{},
	}
	for _, r := range v.Results {
		var rule *policy.Rule
		if r.Decision.Rule.Surface != "" {
			copied := r.Decision.Rule
			rule = &copied
		}
		reason := r.Why
		if reason == "" {
			reason = r.Decision.Reason
		}
		if r.Surface == "bash" && r.Index < len(a.Units) {
			u := &a.Units[r.Index]
			out.Commands = append(out.Commands, shellCommand{
				Text: u.Text, Words: u.Words, Context: u.Context, Wrappers: u.Wrappers, Executed: u.Executed, Resolution: u.Resolution,
				File: u.File, Changeable: u.Changeable, Class: u.Class, Verdict: r.Action, Rule: rule, As: r.Form, Sentinel: r.Sentinel,
				Reason: reason, Ignored: r.Ignored,
			})
			continue
		}
		if r.Index >= len(a.Paths) {
			continue
		}
		p := &a.Paths[r.Index]
		path := shellPath{
			Path: p.Path, Typed: p.Typed, Direction: "read", Source: p.Source, Command: p.Command, Unproven: p.Unproven,
			Verdict: r.Action, Rule: rule, Sentinel: r.Sentinel, Reason: reason, Ignored: r.Ignored,
		}
		if p.Write {
			path.Direction = "write"
		}
		out.Paths = append(out.Paths, path)
	}
	return out
}

// hereResolver looks names up on a PATH and in the directories of here.
type hereResolver struct {
	*composed
	cwd  string
	path []string
}

// Lookup implements shell.Resolver.
func (r *hereResolver) Lookup(word string) (file string, changeable, ok bool) {
	var tries []string
	if strings.ContainsRune(word, '/') {
		tries = []string{r.absolute(word)}
	} else {
		for _, dir := range r.path {
			// An empty entry and a relative one mean the directory of the command.
			tries = append(tries, filepath.Join(r.absolute(dir), word))
		}
	}
	for _, try := range tries {
		found, err := exec.LookPath(try)
		if err != nil {
			continue
		}
		real, err := filepath.EvalSymlinks(found)
		if err != nil {
			continue
		}
		return real, r.changeable(real), true
	}
	return "", false, false
}

// Exists implements shell.Resolver.
func (r *hereResolver) Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (r *hereResolver) absolute(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(r.cwd, p)
}
