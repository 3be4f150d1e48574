package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// The fixed options with which the operator's shells run judged text: no start-up
// file, no exported function, no option from the environment.
var (
	bashOptions = []string{"--norc", "--noprofile", "-p", "-c"}
	shOptions   = []string{"-c"}
)

const (
	maxArgs = 1 << 20 // bytes of argument vector and environment together
	maxWord = 512     // command words and scripts that one record binds
)

// wish is a request while it is being judged.
type wish struct {
	s        *session
	caller   *command // nil: the front
	op       string
	k        *keeperProcess
	dir      keeper.File
	env      []string // what the command would get
	path     string   // the PATH on which its words were found
	program  keeper.File
	analysis *shell.Analysis
	record   policy.Record
	queries  []policy.Query // beside the analysis
	profile  plan
	adapter  *Adapter
	agent    bool
	form     string
	warnings []string
	look     func(path string) (real string, there bool) // from the keeper; nil for a value alone
	received time.Time
	changes  []string // names of the environment that change what a command means
	// rules are those that it is judged under, chain the authorities that they make
	// for its session and every session above.
	rules *authorities
	chain []*policy.Authority
	// turn and treeTurn are those of its session and of the root, when it was judged.
	turn, treeTurn uint64
}

// verdict is the outcome of recorded authority, grants included.
type verdict struct {
	action   policy.Action
	decision policy.Decision
	unit     string
	surface  string
	grant    *policy.Grant
	// humanOnly: no grant, ticket, link or relay may allow it.
	humanOnly bool
}

// exec judges and runs a tool.
func (t *tree) exec(ctx context.Context, s *session, caller *command, conn *control.Conn, r *control.Request, started chan<- *command) control.Result {
	received := time.Now()
	if res, ok := t.admit(s); !ok {
		return res
	}
	defer t.leave()
	k, err := t.pool.take()
	if err != nil {
		return failed("%v", err)
	}
	w := &wish{s: s, caller: caller, op: control.OpExec, k: k, received: received}
	kept := false
	defer func() {
		if !kept {
			k.release()
		}
	}()
	if res, ok := t.prepare(w, r); !ok {
		return res
	}
	out, res, ok := t.settle(ctx, w)
	if !ok {
		return res
	}
	kept = true
	return t.run(ctx, w, out, conn, started)
}

// admit counts a command against the tree's budget.
func (t *tree) admit(s *session) (control.Result, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing || s != nil && s.ending {
		return failed("the session is ending"), false
	}
	// What a tool left in the background has a keeper as long as it lives.
	if max(t.running, len(t.byKeeper)) >= maxCommands {
		return failed("%d commands run or wait in this tree, which is the limit", maxCommands), false
	}
	if s != nil && len(s.commands) >= maxLeft {
		return failed("%d commands of this session run, those in the background with them, which is the limit", maxLeft), false
	}
	t.running++
	return control.Result{}, true
}

func (t *tree) leave() {
	t.mu.Lock()
	t.running--
	t.mu.Unlock()
}

// prepare makes the record: what is judged, shown and run is this and nothing
// that the client says later.
func (t *tree) prepare(w *wish, r *control.Request) (control.Result, bool) {
	c := r.Command
	size := len(c.Text)
	for _, a := range append(slices.Clone(c.Argv), c.Env...) {
		size += len(a) + 1
		if strings.Contains(a, "\x00") {
			return failed("an argument or environment entry holds a NUL byte"), false
		}
	}
	if size > maxArgs {
		return failed("arguments and environment take %d bytes, expected at most %d", size, maxArgs), false
	}
	if c.Umask < 0 || c.Umask > 0o777 {
		return failed("umask %#o: expected 0 to 0777", c.Umask), false
	}
	if !filepath.IsAbs(c.Dir) {
		return failed("directory %q: expected an absolute path", c.Dir), false
	}
	var err error
	if w.dir, err = w.k.question(keeper.Order{Prepare: &keeper.Prepare{Dir: c.Dir}}); err == nil && w.dir.Error != "" {
		err = errors.New(w.dir.Error)
	}
	if err != nil {
		return failed("%v", err), false
	}
	base, diff := t.environment(w, cleanEnv(c.Env))
	w.env = base
	res := &resolver{k: w.k, path: getter(base)("PATH"), s: w.s, seen: map[string]keeper.File{}}
	if w.op == control.OpSpawn && w.s != nil {
		// An agent is found on the operator's PATH, whatever its starter has; ours
		// is in front there as well, since that is what it will be started with.
		res.path = t.withOurs(getter(t.rootSession().base)("PATH"))
	}
	w.path = res.path
	w.look = func(path string) (string, bool) {
		f := res.inspect(path)
		return f.Real, f.Kind != ""
	}
	options := shell.Options{
		Dir: w.dir.Real, Home: t.root.Home, Resolver: res,
		Env: func(name string) (string, bool) { return lookupEnv(base, name) },
	}
	if w.s != nil {
		options.Workspace = w.s.snap.Sandbox.Workspace
	}
	rec := policy.Record{
		ID: r.ID, Op: w.op, Role: "front", Dir: directory(w.dir), Environment: diff, Base: digestEnv(base),
		Streams: c.Streams, Umask: c.Umask,
	}
	if w.caller != nil {
		rec.Role = w.caller.role()
	}
	if w.s != nil {
		rec.Sessions, rec.Snapshot = w.s.path(), w.s.snap.Generation
	}
	w.form = c.Form
	switch {
	case c.Shell != "":
		if out, ok := t.shellText(w, c, options, &rec); !ok {
			return out, false
		}
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return failed("no command: expected -- COMMAND [ARGUMENT...]"), false
	default:
		rec.Argv = c.Argv
		w.program = res.find(c.Argv[0])
		w.analysis = shell.AnalyzeArgv(c.Argv, options)
	}
	switch {
	case w.program.Error != "":
		return failed("%s: %s", rec.Argv[0], w.program.Error), false
	case w.program.NotExecutable:
		return control.Result{Exit: 126, Class: control.ClassRefused, By: "system", Reason: fmt.Sprintf("%s: permission denied: %s is not executable", rec.Argv[0], w.program.Path)}, false
	case w.program.Kind == "dir":
		return control.Result{Exit: 126, Class: control.ClassRefused, By: "system", Reason: rec.Argv[0] + ": is a directory"}, false
	case w.program.Kind != "file":
		return control.Result{Exit: 127, Class: control.ClassNotFound, Reason: rec.Argv[0] + ": command not found"}, false
	}
	program := rec.Argv[0]
	if c.Shell != "" {
		program = w.program.Path // the operator's, wherever this PATH leads
	}
	if slices.Contains(w.changes, "PATH") && t.samePrograms(w, res, program) {
		w.changes = slices.DeleteFunc(w.changes, func(name string) bool { return name == "PATH" })
	}
	var bound bool
	if rec.Words, bound = t.words(w, res, program); !bound {
		return failed("the text names more than %d programs and scripts, which is the most that is bound to one answer", maxWord), false
	}
	w.record = rec
	return control.Result{}, true
}

// shellText fills the record for text that a shell reads. The text that runs is
// printed from the tree that was judged.
func (t *tree) shellText(w *wish, c *control.Command, o shell.Options, rec *policy.Record) (control.Result, bool) {
	bin, fixed := t.root.Bash, bashOptions
	switch c.Shell {
	case "bash":
	case "sh":
		o.Dialect, bin, fixed = shell.POSIX, t.root.Sh, shOptions
		// bash takes none of these with -p; another shell in its place might.
		w.env = withoutEnv(w.env, func(name string) bool {
			return name == "ENV" || name == "BASH_ENV" || name == "SHELLOPTS" || name == "BASHOPTS" || name == "PS4" || strings.HasPrefix(name, "BASH_FUNC_")
		})
	default:
		return failed("shell %q: expected bash or sh", c.Shell), false
	}
	if bin == "" {
		return control.Result{Exit: 127, Class: control.ClassNotFound, Reason: c.Shell + ": not found on the operator's PATH"}, false
	}
	name := c.Shell
	if len(c.Argv) > 0 {
		name, o.Args = c.Argv[0], c.Argv[1:]
	}
	w.analysis = shell.Analyze(c.Text, o)
	text := w.analysis.Canonical
	if text == "" {
		// It has no tree: at least an ask, shown as it came.
		text = c.Text
	}
	rec.Text = text
	if err := control.CheckOptions(c.Options); err != nil {
		return failed("%v", err), false
	}
	// -c comes last: it takes the text.
	rec.Argv = append([]string{c.Shell}, fixed[:len(fixed)-1]...)
	rec.Argv = append(append(rec.Argv, c.Options...), "-c", text, name)
	rec.Argv = append(rec.Argv, o.Args...)
	found, err := w.k.question(lookupOrder(bin, "", false))
	if err != nil {
		return failed("%v", err), false
	}
	w.program = found
	return control.Result{}, true
}

// samePrograms says whether a client's PATH leaves every command word what it is
// on the session's own: then rules that name them were written for these. What is
// put in front must be nothing that a tool of the session can fill.
func (t *tree) samePrograms(w *wish, res *resolver, first string) bool {
	base := getter(w.s.tools)("PATH")
	if w.op == control.OpSpawn {
		base = t.withOurs(getter(w.s.base)("PATH"))
	}
	known := filepath.SplitList(base)
	for _, dir := range filepath.SplitList(getter(w.env)("PATH")) {
		if slices.Contains(known, dir) {
			continue
		}
		if !filepath.IsAbs(dir) || w.s.mayWrite(filepath.Join(dir, "x")) {
			return false
		}
	}
	own := &resolver{k: w.k, path: base, s: w.s, seen: map[string]keeper.File{}}
	words := []string{first}
	for _, u := range w.analysis.Units {
		if len(u.Words) > 0 {
			words = append(words, u.Words[0])
		}
	}
	for _, word := range words {
		a, b := res.find(word), own.find(word)
		if a.Real != b.Real || a.Ino != b.Ino || a.Dev != b.Dev {
			return false
		}
	}
	return true
}

// words resolves the command words and scripts, and takes the digest of what the
// session can change: right before the effect each word is looked up again. A word
// that leads nowhere is bound to that. ok is false if there are too many to bind.
func (t *tree) words(w *wish, res *resolver, program string) (out []policy.Word, ok bool) {
	ok = true
	add := func(word string, script bool) {
		f := res.find(word)
		if f.Kind != "file" && f.Kind != "" || slices.ContainsFunc(out, func(o policy.Word) bool { return o.Word == word }) {
			return
		}
		if len(out) >= maxWord {
			ok = false
			return
		}
		bound := policy.Word{Word: word, File: file(f), Changeable: f.Kind != "" && w.s != nil && w.s.mayWrite(f.Real)}
		if f.Kind != "" && (bound.Changeable || script) {
			if d, err := w.k.question(lookupOrder(f.Path, "", true)); err == nil {
				bound.File = file(d)
			}
		}
		out = append(out, bound)
	}
	add(program, false)
	for _, u := range w.analysis.Units {
		if len(u.Words) > 0 {
			add(u.Words[0], false)
		}
		for _, s := range u.Scripts {
			add(pathLike(s), true)
		}
	}
	return out, ok
}

// pathLike makes a script operand a path: it is not looked up on PATH.
func pathLike(s string) string {
	if strings.Contains(s, "/") {
		return s
	}
	return "./" + s
}

func file(f keeper.File) policy.File {
	return policy.File{Path: f.Path, Dev: f.Dev, Ino: f.Ino, SHA256: f.SHA256}
}

// directory is the record's: by the name that has no links in it, so that the
// same name is the same place.
func directory(f keeper.File) policy.File {
	return policy.File{Path: f.Real, Dev: f.Dev, Ino: f.Ino}
}

// changesMeaning names the variables whose value changes what a command is, so that
// a rule which names the command was not written for it.
func changesMeaning(name string) bool {
	switch name {
	case "PATH", "HOME", "SHELL", "BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "MAKEFILES", "MAKEFLAGS",
		"LESSOPEN", "LESSCLOSE", "PAGER", "EDITOR", "VISUAL", "BROWSER", "OPENSSL_CONF", "GCONV_PATH", "RUSTC_WRAPPER",
		"DOTNET_STARTUP_HOOKS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP",
		"PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "GOFLAGS", "CLASSPATH":
		return true
	}
	for _, p := range []string{"XDG_", "GIT_", "LD_", "DYLD_", "npm_config_", "NPM_CONFIG_", "CARGO_", "PIP_", "BASH_FUNC_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "_proxy")
}

// environment returns what the command gets, and the entries of the client that
// differ from the session's base: those are shown, judged and bound.
func (t *tree) environment(w *wish, client []string) (env, diff []string) {
	s := w.s
	ours := func(name string) bool { return strings.HasPrefix(name, "PIONEER_SUPER_") || inventory(name) }
	client = withoutEnv(client, ours)
	if s == nil {
		return client, nil
	}
	differs := func(e string) {
		diff = append(diff, e)
		if name, _, _ := strings.Cut(strings.TrimSuffix(e, " (unset)"), "="); changesMeaning(name) {
			w.changes = append(w.changes, name)
		}
	}
	free := !s.restricted() && w.op == control.OpExec
	switch {
	case free:
		// It gets what its client has; what is new or missing there is said all the same.
		env = withEnv(client, t.ours(s)...)
		for _, e := range withoutEnv(s.given, ours) {
			name, _, _ := strings.Cut(e, "=")
			if _, ok := lookupEnv(client, name); !ok && !unshown(name, "") {
				differs(name + " (unset)")
			}
		}
	case w.op == control.OpExec:
		env = slices.Clone(s.tools)
	default:
		env = slices.Clone(s.base)
	}
	kept := client
	if !free {
		kept, _ = sandbox.FilterEnvironment(client, nil)
	}
	for _, e := range kept {
		name, value, _ := strings.Cut(e, "=")
		if unshown(name, value) || s.adapter != nil && s.adapter.Tool != nil && s.adapter.Tool(name) {
			if name != "PWD" && name != "OLDPWD" && name != "_" && name != "SHLVL" {
				env = withEnv(env, e)
			}
			continue
		}
		if t.known(s, name, value) {
			continue
		}
		differs(e)
		env = withEnv(env, e)
	}
	slices.Sort(diff)
	return env, diff
}

// known says that a client only hands on what this tree started it with: as its
// session's agent, or as a tool of it.
func (t *tree) known(s *session, name, value string) bool {
	for _, env := range [][]string{s.base, s.given, s.tools} {
		if is, ok := lookupEnv(env, name); ok && is == value {
			return true
		}
	}
	return false
}

// toolBase is the environment of the session's tools: its agent's, filtered.
func (s *session) toolBase(t *tree) []string {
	kept, _ := sandbox.FilterEnvironment(s.base, nil)
	kept = withoutEnv(kept, inventory)
	shell := t.root.Bash
	if shell == "" {
		shell = t.root.Sh
	}
	path, _ := lookupEnv(kept, "PATH")
	kept = withEnv(kept, "SHELL="+shell, "TMPDIR="+s.temp, "GIT_TERMINAL_PROMPT=0", "PATH="+t.withOurs(path))
	kept = withEnv(kept, sandbox.CacheEnvironment(s.cache, t.hostCaches(s))...)
	return withEnv(kept, t.ours(s)...)
}

// withOurs is a PATH on which this binary is found: a tool may ask and spawn as
// its agent may. Ours is first, since what the operator installed (say in ~/bin)
// is a file that a sandbox cannot read, but that a shell finds and stops at. The
// directory holds this one name, so it hides nothing else.
func (t *tree) withOurs(path string) string {
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	if path == t.links.bin || strings.HasPrefix(path, t.links.bin+":") {
		return path
	}
	return t.links.bin + ":" + path
}

func (t *tree) hostCaches(s *session) map[string]string {
	out := map[string]string{"HOME": t.root.Home}
	for _, name := range []string{"GOMODCACHE", "GOPATH", "GOCACHE", "GOPROXY", "GOFLAGS", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"} {
		if v, ok := lookupEnv(s.base, name); ok {
			out[name] = v
		}
	}
	return out
}

// ours are the variables by which a process finds its tree.
func (t *tree) ours(s *session) []string {
	return []string{
		"PIONEER_SUPER_HOME=" + t.places.State,
		"PIONEER_SUPER_TREE=" + t.root.Tree,
		"PIONEER_SUPER_SESSION=" + s.id,
		fmt.Sprintf("PIONEER_SUPER_DEPTH=%d", s.depth),
		"PIONEER_SUPER_SOCKET=" + filepath.Join(s.ctl, "ctl"),
	}
}

// settle decides a wish that is to be run, and looks again at what can change
// while somebody reads. Without ok it is not run, and res says why.
func (t *tree) settle(ctx context.Context, w *wish) (out outcome, res control.Result, ok bool) {
	out = t.decide(ctx, w, nil)
	switch {
	case out.err != nil:
		return out, failed("%s", out.reason), false
	case !out.allowed:
		return out, refused(out.word, "%s", out.reason), false
	}
	if out.word == "rule" {
		// Nobody had time to change anything; the keeper looks once more anyway.
		return out, res, true
	}
	if changed := t.reread(w); changed != "" {
		t.note(audit.Row{Kind: audit.DecisionDenied, Session: w.s.id, RequestKey: w.record.ID, Decision: "deny", Reason: changed,
			DecidedBy: decider(wire.GateError(changed)), Record: w.record.Digest()})
		return out, refused("rule", "%s; ask again", changed), false
	}
	return out, res, true
}

// denial says which rule refused, and its reason.
func denial(v verdict) string {
	rule := v.decision.Rule
	out := fmt.Sprintf("denied by %s", originText(rule))
	if v.unit != "" {
		out = fmt.Sprintf("%s: %s", v.unit, out)
	}
	if rule.Reason != "" {
		out += ": " + rule.Reason
	}
	return out
}

func originText(r policy.Rule) string {
	at := r.Origin.Authority
	if r.Origin.File != "" {
		at = fmt.Sprintf("%s:%d:%d", r.Origin.File, r.Origin.Line, r.Origin.Column)
	}
	if r.Pattern == "" {
		return at
	}
	return fmt.Sprintf("rule %s %q (%s)", r.Surface, r.Pattern, at)
}

// judge asks the recorded authority of the session and every ancestor about each
// unit, and takes the most restrictive answer.
func (t *tree) judge(w *wish) verdict { return t.judgeWith(w, t.liveGrants()) }

// judgeWith is judge with these grants.
func (t *tree) judgeWith(w *wish, grants policy.Grants) verdict {
	if w.s == nil {
		// The root's own command is the operator's: nobody stands above it.
		return verdict{action: policy.Allow, surface: "spawn", decision: policy.Decision{Action: policy.Allow,
			Rule: policy.Rule{Surface: "spawn", Pattern: "*", Action: policy.Allow, Origin: policy.Origin{Authority: "operator"}}, Reason: "the operator started it"}}
	}
	if w.op == control.OpExec && t.itself(w) {
		return verdict{action: policy.Allow, surface: "bash", unit: w.record.Argv[0], decision: policy.Decision{Action: policy.Allow,
			Rule: policy.Rule{Surface: "bash", Pattern: "pioneer-super *", Action: policy.Allow, Origin: policy.Origin{Authority: "builtin"}}, Reason: "judged as the operation that it asks for"}}
	}
	// An unconfined session whose rules say nothing of commands is allowed what
	// cannot be seen through, and it is recorded.
	free := !w.s.restricted() && !w.mentions("bash")
	humanOnly := false
	var covered covering
	decide := func(q policy.Query) policy.Decision {
		if !free && len(w.changes) > 0 && q.Surface == "bash" && q.Floor == policy.Allow {
			q.Floor, q.FloorReason = policy.Ask, "<environment: "+strings.Join(w.changes, ", ")+">"
		}
		if len(w.record.Environment) > 0 || w.form != "" {
			q.ExactOnly = true
		}
		if w.look != nil {
			// A path is judged by where it leads as well as by how it is written.
			q = q.FollowLinks(w.look)
		}
		d, g := policy.Judge(w.chain, &grants, q, "")
		if g != nil && w.op != control.OpAsk && g.Surface == "bash" && g.Program == "" {
			// It was given for an agent's own gate, where no program was resolved: what
			// runs here may be another one.
			d, g = policy.Decide(w.chain, q), nil
		}
		humanOnly = humanOnly || d.HumanOnly
		covered.add(g)
		return d
	}
	out := verdict{action: policy.Allow, surface: "bash"}
	judged := false
	if w.analysis != nil && (w.op != control.OpSpawn || w.adapter == nil) {
		v := w.analysis.Judge(decide)
		out.action, out.decision, out.unit = v.Action, v.Decision, v.Unit
		if v.Reason != "" {
			out.decision.Reason = v.Reason
		}
		if out.decision.Rule.Surface == "" {
			out.decision.Rule = policy.Rule{Surface: "bash", Pattern: v.Sentinel, Action: v.Action, Origin: policy.Origin{Authority: "floor"}}
		}
		if free && v.Rules == policy.Allow {
			out.action = policy.Allow
		}
		judged = true
	}
	for _, q := range w.queries {
		d := decide(q)
		if !judged || d.Action < out.action {
			out.action, out.decision, out.surface = d.Action, d, q.Surface
			out.unit = first(q.Values)
			judged = true
		}
	}
	if w.form != "" && out.action == policy.Allow && !free {
		out.action = policy.Ask
		out.decision = policy.Decision{Action: policy.Ask, Rule: policy.Rule{Surface: "bash", Pattern: "<" + w.form + ">", Action: policy.Ask, Origin: policy.Origin{Authority: "floor"}},
			Reason: "a shell called in this form (" + w.form + ") reads what nobody has judged"}
	}
	if !judged {
		return verdict{action: policy.Deny, decision: policy.Decision{Reason: "nothing was judged"}}
	}
	out.humanOnly = humanOnly && out.action == policy.Ask
	if origin, on := w.rules.yolo(); on && out.action == policy.Ask && !out.humanOnly {
		// Also what was asked whatever the rules say.
		out.action = policy.Allow
		out.decision = policy.Decision{Action: policy.Allow, Reason: "yolo: asks are allowed",
			Rule: policy.Rule{Surface: out.surface, Pattern: "*", Action: policy.Allow, Origin: origin}}
	}
	if out.action == policy.Ask && !out.humanOnly {
		q := policy.Query{Surface: out.surface, Kind: out.decisionKind(), Values: []string{commandLine(w.record)}, ExactOnly: true}
		if g, ok := grants.Covers(w.s.id, q, scope(w.record)); ok {
			out.action, out.grant = policy.Allow, &g
		}
	} else if out.action == policy.Allow {
		out.grant = covered.grant(w)
	}
	return out
}

func (v verdict) decisionKind() policy.Kind { return policy.SurfaceKind(v.surface) }

// scope is the exact scope of a command for a grant of the turn: what runs, where,
// with which environment, and the content of what the session can change.
func scope(r policy.Record) string {
	words, err := json.Marshal(r.Words)
	if err != nil {
		panic("supervisor: words cannot be encoded: " + err.Error())
	}
	return policy.ScopeHash(policy.KindShellCommand, r.Op, append([]string{
		place(r.Dir), strings.Join(r.Environment, "\x00"), string(words), r.Streams[0],
	}, r.Argv...))
}

// place is a directory by name and by what cannot be renamed.
func place(f policy.File) string { return fmt.Sprintf("%s %d %d", f.Path, f.Dev, f.Ino) }

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// mentions says whether any authority above this session has an ask or a deny
// for the surface.
func (w *wish) mentions(surface string) bool {
	for _, a := range w.chain {
		if ask, deny := a.Mentions(surface); ask || deny {
			return true
		}
	}
	return false
}

// itself says whether the whole command is this binary, whose operations are
// judged when they arrive. Those of a tree of its own never arrive here: it is a
// command like any other.
func (t *tree) itself(w *wish) bool {
	if !w.analysis.Simple || len(w.analysis.Argv) < 2 || slices.ContainsFunc(w.analysis.Argv, leavesTree) {
		return false
	}
	switch w.analysis.Argv[1] {
	case "spawn", "exec", "ask", "check", "context", "turn", "tree", "log", "version", "help":
	default:
		return false
	}
	word := w.analysis.Argv[0]
	for _, known := range w.record.Words {
		if known.Word == word {
			return t.links.is(known.File.Dev, known.File.Ino)
		}
	}
	return false
}

// leavesTree says whether a word is the flag by which a client leaves its tree,
// wherever it stands: what comes before it may take "--" for a value.
func leavesTree(word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name == "new-tree" && strings.HasPrefix(word, "-")
}

// commandLine is the record's command as one line, for humans and for patterns.
func commandLine(r policy.Record) string {
	if r.Text != "" {
		return strings.TrimSuffix(r.Text, "\n")
	}
	return shell.Quote(r.Argv)
}

// offered is what an answer to this wish may give.
func (t *tree) offered(w *wish) policy.GrantVector {
	if w.s == nil || !w.s.restricted() {
		return policy.GrantVector{}
	}
	c := w.s.snap.Ceiling
	ws := w.s.snap.Sandbox.Workspace
	return policy.GrantVector{
		WorkspaceWrite: ws != "" && !w.s.snap.Open.CanWrite(ws) && c.CanWrite(ws),
		Network:        w.s.snap.Open.Network != policy.NetworkEnabled && c.Network == policy.NetworkEnabled,
		SandboxOff:     c.SandboxOff,
	}
}

// row is the audit line of a decision about w.
func (t *tree) row(w *wish, v verdict, digest string) audit.Row {
	r := audit.Row{
		RequestKey: w.record.ID, Record: digest, Surface: v.surface, Value: commandLine(w.record), ToolID: w.op,
		Reason: v.decision.Reason, Cwd: w.record.Dir.Path, ActionKind: string(v.decisionKind()),
		Details: map[string]any{"role": w.record.Role},
	}
	if w.op == control.OpAsk && w.record.Text == "" {
		r.Value = w.record.Value
	}
	if v.unit != "" && v.unit != r.Value {
		r.Details["unit"] = v.unit
	}
	if w.form != "" {
		r.Details["form"] = w.form
	}
	if w.s != nil {
		r.Session, r.Agent, r.Chain = w.s.id, w.s.agent, w.s.requesters()
		r.Mode, r.Source = string(w.s.snap.Profile.Mode), string(w.s.snap.Profile.Source)
	}
	if w.caller != nil {
		r.Command = w.caller.id
	}
	return r
}

// run carries the record out: intent first, then the keeper, then the answer.
func (t *tree) run(ctx context.Context, w *wish, out outcome, conn *control.Conn, started chan<- *command) control.Result {
	if err := t.plan(w, out.grant); err != nil {
		w.k.release()
		return failed("sandbox: %v", err)
	}
	c := &command{
		id: registry.NewID("c"), session: w.s, agent: w.agent, keeper: w.k, record: w.record, received: w.received,
		result: make(chan control.Result, 1), over: make(chan struct{}),
	}
	t.mu.Lock()
	if w.s.ending || t.closing {
		t.mu.Unlock()
		w.k.release()
		return failed("the session is ending")
	}
	w.s.commands[c.id] = c
	t.byKeeper[w.k.pid] = c
	t.mu.Unlock()
	told := false // that it starts
	gone := func(res control.Result) control.Result {
		w.k.release()
		t.forget(c)
		if told {
			ended := registry.Exit{Proof: "nothing ran", Why: res.Reason}
			t.note(audit.Row{Kind: audit.CommandEnded, Session: w.s.id, Agent: w.s.agent, Command: c.id, Exit: &ended})
			t.journalCommandEnd(c, ended)
		}
		return res
	}
	row := t.row(w, verdict{surface: "bash"}, w.record.Digest())
	row.Kind, row.Command, row.Reason, row.Grants = audit.CommandStarted, c.id, "", grantWords(out.grant)
	row.Strength, row.Missing = w.profile.report.Strength, w.profile.report.Degradations
	row.Details["plan"] = w.profile.digest
	if err := t.log.Write(row); err != nil {
		return gone(failed("%v", notWritten(err)))
	}
	told = true
	if err := t.journalCommand(c); err != nil {
		return gone(failed("%v", notWritten(err)))
	}
	// The client is asked last: one that is gone wants nothing.
	if ctx.Err() != nil {
		return gone(failed("cancelled: the client is gone"))
	}
	ours, theirs, err := control.Pair()
	if err != nil {
		return gone(failed("%v", err))
	}
	order := keeper.Order{Run: &keeper.Run{
		Command: c.id, File: w.program, Argv: w.record.Argv, Env: withEnv(w.env, "PWD="+w.dir.Real), Umask: w.record.Umask,
		Dir: w.dir, Terminal: slices.Contains(w.record.Streams[:], string(sandbox.KindTerminal)),
		Profile: w.profile.profile, Unconfined: w.profile.off, Streams: w.record.Streams, Path: getter(w.env)("PATH"),
	}}
	for _, word := range w.record.Words {
		order.Run.Pinned = append(order.Run.Pinned, keeper.Pin{Word: word.Word, Dev: word.File.Dev, Ino: word.File.Ino, SHA256: word.File.SHA256})
	}
	files := []*os.File{ours}
	if !w.profile.profile.UnixSockets {
		mine, its, err := control.PacketPair()
		if err != nil {
			ours.Close()
			theirs.Close()
			return gone(failed("%v", err))
		}
		order.Run.Channel = true
		files = append(files, its)
		go t.serveChannel(c, mine)
	}
	err = w.k.conn.Send(order, files...)
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		theirs.Close()
		return gone(failed("%v", errKeeperGone))
	}
	err = conn.Send(control.Message{Start: &control.Start{Command: c.id, Session: w.s.id, Terminal: order.Run.Terminal}}, theirs)
	theirs.Close()
	if err != nil {
		return gone(failed("cancelled: the client is gone"))
	}
	select {
	case started <- c:
	default:
	}
	if ctx.Err() != nil {
		// The client went just before it could be told what it had started.
		c.end(int(sigTERM), int(stopGrace/time.Millisecond))
	}
	if w.agent {
		t.mu.Lock()
		w.s.leader = c
		t.mu.Unlock()
	}
	go t.watch(c)
	return <-c.result
}

// watch follows a command until no process of it is left.
func (t *tree) watch(c *command) {
	answered := false
	answer := func(r control.Result) {
		if !answered {
			answered = true
			r.Session, r.Command = c.session.id, c.id
			c.result <- r
		}
	}
	proof := ""
	var end control.Result
	var ended registry.Exit
	for r := range c.keeper.reports {
		switch {
		case r.Started != nil:
			c.startup = time.Since(c.received)
		case r.Failed != nil:
			exit := 125
			switch r.Failed.Class {
			case control.ClassNotFound:
				exit = 127
			case control.ClassRefused:
				exit = 126
			}
			end = control.Result{Exit: exit, Class: r.Failed.Class, Reason: r.Failed.Reason}
			answer(end)
			proof = "nothing ran"
		case r.Leader != nil:
			end = control.Result{Exit: r.Leader.Code, Class: control.ClassExited, Leftovers: r.Leader.Left}
			if r.Leader.Signal != 0 {
				end.Class = control.ClassSignaled
				end.Reason = fmt.Sprintf("ended by signal %d", r.Leader.Signal)
			}
			ended.Known, ended.Code, ended.Signal = true, r.Leader.Code, r.Leader.Signal
			if r.Leader.Left > 0 {
				t.journalLeft(c, r.Leader.Code, r.Leader.Signal, r.Leader.Left)
			}
			if c.agent {
				// An agent's end is its session's: nobody is told before it is over.
				go c.end(int(sigTERM), int(stopGrace/time.Millisecond))
				continue
			}
			answer(end)
		case r.Ended != nil:
			proof = r.Ended.Proof
			ended.Forced = r.Ended.Killed > 0
		}
	}
	if proof == "" {
		// The keeper itself was killed. What it had arrives at this process, which
		// ends it; whether all of it came is seen by the children's list.
		proof = "keeper lost; its processes were killed"
		if end.Class == "" {
			end = control.Result{Exit: 137, Class: control.ClassFailed, Reason: "the process that kept this command was killed, and the command with it"}
		}
	}
	t.forget(c)
	ended.Proof, ended.Why = proof, end.Reason
	if c.agent {
		t.mu.Lock()
		c.session.exit = ended
		t.mu.Unlock()
	}
	row := audit.Row{Kind: audit.CommandEnded, Session: c.session.id, Agent: c.session.agent, Command: c.id, Exit: &ended}
	if c.startup > 0 {
		row.Details = map[string]any{"startupMicros": c.startup.Microseconds()}
	}
	t.note(row)
	t.journalCommandEnd(c, ended)
	answer(end)
}

// forget takes a command off the tables: it is over.
func (t *tree) forget(c *command) {
	t.mu.Lock()
	if t.byKeeper[c.keeper.pid] == c {
		delete(t.byKeeper, c.keeper.pid)
	}
	delete(c.session.commands, c.id)
	ended := c.ended
	c.ended = true
	t.mu.Unlock()
	if !ended {
		close(c.over)
	}
}
