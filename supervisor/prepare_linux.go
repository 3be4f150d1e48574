package supervisor

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// The fixed options with which the operator's shells run judged text: no start-up
// file, no exported function, no option from the environment.
var (
	bashOptions = []string{"--norc", "--noprofile", "-p", "-c"}
	shOptions   = []string{"-c"}
)

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
