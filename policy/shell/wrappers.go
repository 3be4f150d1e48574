package shell

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// wrapper describes a program that runs the rest of its arguments.
type wrapper struct {
	g grammar
	// operands stand between options and command (timeout's duration).
	operands int
	// assigns: NAME=value words in front of the command.
	assigns bool
	// refuse are options after which the rest is not a command.
	refuse string
	// after looks at the options; false means: not seen through.
	after func(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool)
}

// through peels a wrapper by its table.
func (w *wrapper) through(z *analyzer, at int, c call) {
	opts, rest, ok := w.g.parse(c.words[1:])
	if ok && w.refuse != "" {
		for _, o := range opts {
			if len(o.name) == 1 && strings.Contains(w.refuse, o.name) || strings.Contains(w.refuse, " "+o.name+" ") {
				ok = false
			}
		}
	}
	inner := c
	if ok && w.after != nil {
		rest, ok = w.after(z, at, &inner, opts, rest)
	}
	if !ok {
		z.opaque(at, c, floorIndirection, "the options of %s are not all known", rest)
		return
	}
	for n := 0; n < w.operands && len(rest) > 0; n++ {
		if rest[0].dash() && !rest[0].lit {
			z.opaque(at, c, floorIndirection, "an operand of %s is computed", rest)
			return
		}
		rest = rest[1:]
	}
	if w.assigns {
		rest = z.envAssigns(rest)
	}
	if len(rest) == 0 {
		if z.a.Units[at].head == "unshare" {
			z.opaque(at, c, floorOpaque, "%s starts a shell", nil)
		}
		return
	}
	z.inner(at, inner, rest)
}

// envAssigns takes NAME=value words off the front and judges them.
func (z *analyzer) envAssigns(rest []word) []word {
	for len(rest) > 0 {
		name, val, ok := strings.Cut(rest[0].prefix, "=")
		if !ok || name == "" {
			return rest
		}
		v := literal(val)
		if !rest[0].lit {
			v = word{norm: rest[0].norm, typed: rest[0].typed, prefix: val}
		}
		z.assigns(name, v, true)
		rest = rest[1:]
	}
	return rest
}

// inner judges the command that a wrapper runs.
func (z *analyzer) inner(at int, c call, rest []word) {
	c.noShell = true
	z.innerCall(at, c, rest)
}

func (z *analyzer) innerCall(at int, c call, rest []word) {
	c.words = rest
	c.e = wrapped(c.e, z.a.Units[at].head)
	c.assigns = nil
	c.peeled++
	z.call(c)
	z.executed(at)
}

func (z *analyzer) executed(at int) {
	if at+1 < len(z.a.Units) {
		in := z.a.Units[at+1]
		if in.Executed != "" {
			z.a.Units[at].Executed = in.Executed
		} else {
			z.a.Units[at].Executed = in.Text
		}
	}
}

// opaque floors a wrapper that cannot be seen through, and lets rules about the
// words that may be the command ask.
func (z *analyzer) opaque(at int, c call, reason, format string, rest []word) {
	u := &z.a.Units[at]
	u.Transparent = false
	u.floor(reason, fmt.Sprintf(format, u.head))
	z.suffixes(at, rest, policy.Ask, false)
}

// suffixes adds every tail of the words as something that may be the command.
func (z *analyzer) suffixes(at int, ws []word, limit policy.Action, unnamed bool) {
	for i := 0; i < len(ws) && i < 16; i++ {
		if ws[i].known() && commandLike(ws[i].val) {
			z.maybe(&z.a.Units[at], ws[i:], limit, "an operand that may be run", unnamed)
		}
	}
}

// maybe adds what a program may run: the words themselves, and where they are a
// known program, what that program would be judged by.
func (z *analyzer) maybe(u *Unit, ws []word, limit policy.Action, why string, unnamed bool) {
	if len(u.Forms) > 100 || z.shadow {
		return
	}
	head := base(ws[0].val)
	text := quote(head)
	if len(ws) > 1 {
		text += " " + normText(ws[1:])
	}
	u.Forms = append(u.Forms, Form{Text: text, Cap: limit, Why: why, unnamed: unnamed})
	p := known().programs[head]
	if p == nil || p.subcommands == nil && p.peel == nil && p.look == nil || len(ws) > 200 {
		return
	}
	// A second look, of which only the texts are kept.
	side := &Analysis{}
	o := z.o
	o.Resolver = nil
	y := newAnalyzer(side, o)
	y.shadow, y.nested, y.budget, y.funcs, y.vars, y.assigned = true, z.nested, z.budget, z.funcs, z.vars, z.assigned
	y.call(call{words: ws, e: y.startEnv(), noShell: true})
	z.budget = y.budget
	for i := range side.Units {
		su := &side.Units[i]
		if su.Text != text {
			u.Forms = append(u.Forms, Form{Text: su.Text, Cap: limit, Why: why, unnamed: unnamed})
		}
		for _, f := range su.Forms {
			u.Forms = append(u.Forms, Form{Text: f.Text, Cap: max(limit, f.Cap), Why: why, unnamed: unnamed})
		}
		if su.Floor != policy.Allow && !unnamed {
			u.floor(su.FloorReason, su.FloorText, su.Lift...)
		}
	}
}

func commandLike(s string) bool {
	if s == "" || len(s) > 200 || s[0] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !safeByte[s[i]] || s[i] == ':' || s[i] == '=' {
			return false
		}
	}
	return true
}

// nest judges a text that a command hands to a shell.
func (z *analyzer) nest(at int, text string, d Dialect, e env, sameShell bool) {
	z.nested++
	defer func() { z.nested-- }()
	if z.nested > maxNested {
		z.tooComplex(fmt.Sprintf("more than %d texts inside texts", maxNested))
		return
	}
	e = wrapped(e, z.a.Units[at].head)
	if !sameShell {
		e.fds = nil
	}
	if e.ctx == "" {
		e.ctx = "wrapper"
	}
	save, saveDialect := z.src, z.o.Dialect
	defer func() { z.src, z.o.Dialect = save, saveDialect }()
	z.o.Dialect = d
	file, ok := z.parse(text)
	if !ok {
		z.salvage(text)
		return
	}
	z.src = text
	z.collect(file)
	z.stmts(file.Stmts, e)
	z.executed(at)
}

// shellWrapper is bash, sh and their kin.
func shellPeel(z *analyzer, at int, c call) {
	u := &z.a.Units[at]
	name := u.head
	d := Bash
	switch name {
	case "sh", "dash", "ash":
		d = POSIX
	case "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "rbash", "pwsh", "powershell":
		d = Zsh
		if name == "rbash" {
			d = Bash
		}
	}
	ws := c.words[1:]
	withC, withS, refused := false, false, ""
	i := 0
	for ; i < len(ws) && refused == ""; i++ {
		w := ws[i]
		if !w.known() {
			if w.dash() {
				refused = "an option of %s is computed"
			}
			break
		}
		s := w.val
		if s == "--" || s == "-" {
			i++
			break
		}
		if len(s) < 2 || s[0] != '-' && s[0] != '+' {
			break
		}
		if strings.HasPrefix(s, "--") {
			switch s[2:] {
			case "norc", "noprofile", "posix", "verbose", "restricted", "noediting", "login":
			case "rcfile", "init-file":
				refused = "%s reads a start-up file that the command names"
			case "version", "help":
				return
			default:
				refused = "an option of %s is not known"
			}
			continue
		}
		for j := 1; j < len(s); j++ {
			switch s[j] {
			case 'c':
				withC = withC || s[0] == '-'
			case 's':
				withS = true
			case 'i':
				refused = "an interactive %s reads start-up files and expands aliases"
			case 'o', 'O':
				if i+1 < len(ws) {
					i++
					if !ws[i].known() || strings.Contains("expand_aliases extglob extdebug", ws[i].val) {
						refused = "an option of %s changes how the text is read"
					}
				}
			case 'a', 'b', 'e', 'f', 'h', 'k', 'l', 'm', 'n', 'p', 'r', 't', 'u', 'v', 'x', 'B', 'C', 'E', 'H', 'P', 'T':
			default:
				refused = "an option of %s is not known"
			}
		}
	}
	rest := ws[min(i, len(ws)):]
	if refused != "" {
		u.Transparent = false
		u.floor(floorOpaque, fmt.Sprintf(refused, name))
	}
	switch {
	case withC:
		if len(rest) == 0 {
			return
		}
		if !rest[0].known() {
			z.opaque(at, c, floorOpaque, "the text that %s runs is computed", nil)
			z.salvage(rest[0].typed)
			return
		}
		if d == Zsh {
			z.opaque(at, c, floorOpaque, "the text that %s runs is not analysed", nil)
			z.salvage(rest[0].val)
			return
		}
		for _, w := range rest[1:] {
			if !w.known() || strings.ContainsAny(w.val, "[$`") {
				z.taintedArgs = true
			}
		}
		z.nest(at, rest[0].val, d, c.e, false)
	case len(rest) > 0 && !withS:
		z.script(at, c, rest[0], d)
	default:
		z.fromStdin(at, c, c.e.in, d, false)
	}
}

// script is a file operand that a shell runs.
func (z *analyzer) script(at int, c call, w word, d Dialect) {
	u := &z.a.Units[at]
	u.Transparent = false
	if !w.known() {
		u.floor(floorOpaque, fmt.Sprintf("the script that %s runs is computed", u.head))
		return
	}
	if in, ok := descriptor(w.val, c.e); ok {
		z.fromStdin(at, c, in, d, false)
		return
	}
	u.Class = RunsSessionFiles
	z.runsScript(u, w, c.e)
	z.pathUse(w, false, "operand", u.head, c.e, true)
}

// runsScript notes a file that a command runs as code, as an absolute path where
// that is known.
func (z *analyzer) runsScript(u *Unit, w word, e env) {
	p := w.typed
	if w.known() && w.val != "" && len(e.dirs) == 1 {
		p = joinPath(e.dirs[0], w.val)
	}
	u.Scripts = append(u.Scripts, p)
}

// descriptor returns what an operand such as /dev/stdin reads.
func descriptor(p string, e env) (stdin, bool) {
	switch p = path.Clean(p); p {
	case "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0", "-":
		return e.in, true
	}
	for _, pre := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if s, ok := strings.CutPrefix(p, pre); ok {
			n, err := strconv.Atoi(s)
			if in, found := e.fds[n]; found && err == nil {
				return in, true
			}
			return stdin{kind: stdinOpaque}, true
		}
	}
	if strings.HasPrefix(p, "/proc/") || strings.HasPrefix(p, "/dev/") {
		return stdin{kind: stdinOpaque}, true
	}
	return stdin{}, false
}

// fromStdin is a shell that reads its commands from a descriptor.
func (z *analyzer) fromStdin(at int, c call, in stdin, d Dialect, sameShell bool) {
	switch {
	case in.kind == stdinText && d != Zsh:
		e := c.e
		e.in = stdin{kind: stdinPipe}
		z.nest(at, in.text, d, e, sameShell)
	case in.kind == stdinText:
		z.opaque(at, c, floorOpaque, "the text that %s runs is not analysed", nil)
		z.salvage(in.text)
	default:
		z.opaque(at, c, floorOpaque, "%s reads its commands from standard input", nil)
		if in.kind == stdinFile {
			u := &z.a.Units[at]
			z.runsScript(u, literal(in.text), c.e)
		}
	}
}

// evalPeel is eval: its words joined are a text for the same shell.
func evalPeel(z *analyzer, at int, c call) {
	ws := c.words[1:]
	if len(ws) > 0 && ws[0].is("--") {
		ws = ws[1:]
	}
	z.joined(at, c, ws, z.o.Dialect, true, "the text that %s runs is computed")
}

// joined judges words that a program joins with blanks and gives to a shell.
func (z *analyzer) joined(at int, c call, ws []word, d Dialect, sameShell bool, why string) {
	var parts []string
	for _, w := range ws {
		if !w.known() {
			z.opaque(at, c, floorOpaque, why, ws)
			var typed []string
			for _, w := range ws {
				typed = append(typed, w.typed)
			}
			// What echo prints is what runs.
			z.salvage(strings.ReplaceAll(strings.Join(typed, " "), "echo ", " ; "))
			return
		}
		parts = append(parts, w.val)
	}
	if len(parts) > 0 {
		z.nest(at, strings.Join(parts, " "), d, c.e, sameShell)
	}
}

func trapPeel(z *analyzer, at int, c call) {
	ws := c.words[1:]
	if len(ws) > 0 && ws[0].known() && len(ws[0].val) > 1 && ws[0].val[0] == '-' {
		if ws[0].val != "--" {
			return // -l and -p only print
		}
		ws = ws[1:]
	}
	if len(ws) == 0 || ws[0].is("-") || ws[0].is("") || len(ws) == 1 && ws[0].known() && isDigits(ws[0].val) {
		return
	}
	if !ws[0].known() {
		z.opaque(at, c, floorOpaque, "the text that %s runs is computed", nil)
		z.salvage(ws[0].typed)
		return
	}
	e := c.e
	if z.hasCd {
		e.dirs = nil
	}
	z.nest(at, ws[0].val, z.o.Dialect, e, true)
}

func sourcePeel(z *analyzer, at int, c call) {
	ws := c.words[1:]
	if len(ws) > 0 && ws[0].is("--") {
		ws = ws[1:]
	}
	if len(ws) == 0 {
		return
	}
	if ws[0].known() {
		if in, ok := descriptor(ws[0].val, c.e); ok && ws[0].val != "-" {
			z.fromStdin(at, c, in, z.o.Dialect, true)
			return
		}
	}
	z.script(at, c, ws[0], z.o.Dialect)
}

func commandPeel(z *analyzer, at int, c call) {
	g := grammar{flags: "pvV"}
	opts, rest, ok := g.parse(c.words[1:])
	if _, show := find(opts, "v", "V"); show && ok {
		return
	}
	if !ok || len(rest) == 0 {
		if !ok {
			z.opaque(at, c, floorIndirection, "the options of %s are not all known", rest)
		}
		return
	}
	z.builtinInner(at, c, rest)
}

func builtinPeel(z *analyzer, at int, c call) {
	rest := c.words[1:]
	if len(rest) > 0 && rest[0].is("--") {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		z.builtinInner(at, c, rest)
	}
}

// builtinInner judges a command that stays in this shell.
func (z *analyzer) builtinInner(at int, c call, rest []word) {
	c.noFuncs = true
	z.innerCall(at, c, rest)
}

func execPeel(z *analyzer, at int, c call) {
	g := grammar{flags: "cl", values: "a"}
	_, rest, ok := g.parse(c.words[1:])
	if !ok {
		z.opaque(at, c, floorIndirection, "the options of %s are not all known", rest)
		return
	}
	if len(rest) > 0 {
		z.inner(at, c, rest)
	}
}

// unknownTail stands for words that a program adds at run time.
var unknownTail = word{norm: "…", typed: "…", multi: true, prefix: ""}

func xargsAfter(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool) {
	if len(rest) == 0 {
		return nil, true
	}
	repl := ""
	if o, ok := find(opts, "I", "i", "replace"); ok {
		repl = "{}"
		if o.has && o.val.known() && o.val.val != "" {
			repl = o.val.val
		} else if o.has && !o.val.known() {
			return rest, false
		}
	}
	c.e.in = stdin{kind: stdinPipe}
	if repl == "" {
		return append(append([]word(nil), rest...), unknownTail), true
	}
	return replaced(rest, repl, ""), true
}

// replaced marks the words that a program fills in.
func replaced(ws []word, mark, prefix string) []word {
	out := append([]word(nil), ws...)
	for i := range out {
		v := out[i].val
		if !out[i].lit {
			v = out[i].typed
		}
		if j := strings.Index(v, mark); j >= 0 {
			p := v[:j]
			if p == "" {
				p = prefix
			}
			out[i] = word{norm: out[i].norm, typed: out[i].typed, prefix: p}
		}
	}
	return out
}

func envAfter(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool) {
	if len(rest) > 0 && rest[0].is("-") {
		rest = rest[1:] // the old spelling of -i
	}
	if o, ok := find(opts, "C", "chdir"); ok {
		c.e.dirs = chdir(c.e.dirs, o.val)
		z.pathUse(o.val, false, "cd", "env", c.e, true)
	}
	if o, ok := find(opts, "S", "split-string"); ok {
		// The first word of the split text may be options and assignments again.
		if !o.val.known() || strings.ContainsAny(o.val.val, `\"'$#`) {
			return rest, false
		}
		again := append(literals(strings.Fields(o.val.val)), rest...)
		inner := *c
		inner.words = append([]word{literal("env")}, again...)
		inner.e = wrapped(c.e, "env")
		inner.peeled++
		z.call(inner)
		return nil, true
	}
	return rest, true
}

// chdir folds one directory change into the set of possible directories.
func chdir(dirs []string, w word) []string {
	if !w.known() || w.val == "" {
		return nil
	}
	if path.IsAbs(w.val) {
		return []string{path.Clean(w.val)}
	}
	out := make([]string, 0, len(dirs))
	for _, d := range dirs {
		out = append(out, path.Join(d, w.val))
	}
	return out
}

func flockAfter(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool) {
	if len(rest) == 0 {
		return rest, true
	}
	rest = rest[1:] // the lock
	if len(rest) == 0 {
		return rest, true
	}
	if rest[0].is("-c") || rest[0].is("--command") {
		if len(rest) > 1 {
			z.joined(at, *c, rest[1:2], POSIX, false, "the text that %s runs is computed")
		}
		return nil, true
	}
	return rest, true
}

// textOption is a wrapper whose option holds a shell text.
func textOption(names ...string) func(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool) {
	return func(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool) {
		if o, ok := find(opts, names...); ok && o.has {
			z.joined(at, *c, []word{o.val}, POSIX, false, "the text that %s runs is computed")
		} else {
			z.opaque(at, *c, floorOpaque, "%s starts a shell", nil)
			if c.e.in.kind == stdinText {
				z.salvage(c.e.in.text)
			}
		}
		return nil, true
	}
}

func watchAfter(z *analyzer, at int, c *call, opts []opt, rest []word) ([]word, bool) {
	if _, direct := find(opts, "x", "exec"); direct {
		return rest, true
	}
	z.joined(at, *c, rest, POSIX, false, "the text that %s runs is computed")
	return nil, true
}

// findPeel judges what -exec and its kin run.
func findPeel(z *analyzer, at int, c call) {
	ws := c.words[1:]
	for i := 0; i < len(ws); i++ {
		if !ws[i].known() {
			continue
		}
		switch ws[i].val {
		case "-exec", "-execdir", "-ok", "-okdir":
			from := i + 1
			end := from
			for end < len(ws) && !ws[end].is(";") && !(ws[end].is("+") && end > from && ws[end-1].known() && ws[end-1].val == "{}") {
				end++
			}
			if end > from {
				inner := c
				inner.e.in = stdin{kind: stdinPipe}
				if strings.HasSuffix(ws[i].val, "dir") {
					inner.e.dirs = nil
				}
				z.inner(at, inner, replaced(ws[from:end], "{}", "./"))
			}
			i = end
		}
	}
}

func fdPeel(z *analyzer, at int, c call) {
	ws := c.words[1:]
	for i := 0; i < len(ws); i++ {
		if !ws[i].known() {
			continue
		}
		s := ws[i].val
		switch {
		case s == "-x" || s == "-X" || s == "--exec" || s == "--exec-batch":
			rest := ws[i+1:]
			for j := range rest {
				if rest[j].is(";") {
					rest = rest[:j]
					break
				}
			}
			if len(rest) > 0 {
				z.inner(at, c, append(replaced(rest, "{", "./"), unknownTail))
			}
			return
		case strings.HasPrefix(s, "--exec"), strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "--") && strings.ContainsAny(s, "xX"):
			z.opaque(at, c, floorIndirection, "an option of %s runs a command", ws[i+1:])
			return
		}
	}
}

// suffixPeel is for programs that run their arguments after options that are
// not worth a table: everything that may be the command can ask.
func suffixPeel(z *analyzer, at int, c call) {
	if len(c.words) > 1 {
		z.opaque(at, c, floorIndirection, "%s runs its arguments", c.words[1:])
		for _, w := range c.words[1:] {
			if strings.ContainsAny(w.typed, " \n") {
				z.salvage(w.typed) // some of them take a shell text
			}
		}
	}
}

// shellStarterPeel is for programs that start a shell, which reads what comes on
// standard input, where they are given no command.
func shellStarterPeel(z *analyzer, at int, c call) {
	z.a.Units[at].floor(floorOpaque, z.a.Units[at].head+" starts a shell")
	if c.e.in.kind == stdinText {
		z.salvage(c.e.in.text)
	}
	suffixPeel(z, at, c)
}

// parallelPeel: the command is a template for a shell, completed from input.
func parallelPeel(z *analyzer, at int, c call) {
	ws := c.words[1:]
	for i, w := range ws {
		if w.known() && strings.HasPrefix(w.val, ":::") {
			ws = ws[:i]
			break
		}
	}
	z.opaque(at, c, floorIndirection, "%s completes and runs a shell text", nil)
	for i, w := range ws {
		if w.known() && !strings.HasPrefix(w.val, "-") && commandLike(w.val) {
			// The first word that is no option, or one that an option takes.
			z.maybe(&z.a.Units[at], append(append([]word(nil), ws[i:]...), unknownTail), policy.Deny, "the command that "+z.a.Units[at].head+" runs", false)
			break
		}
	}
	z.suffixes(at, c.words[1:], policy.Ask, false)
}

// runnerPeel is for tools whose subcommand runs a program: a rule about that
// program holds as well, but the tool's own rule is enough to allow.
func runnerPeel(subs ...string) func(z *analyzer, at int, c call) {
	return func(z *analyzer, at int, c call) {
		ws := c.words[1:]
		for len(subs) > 0 {
			if len(ws) == 0 {
				return
			}
			w := ws[0]
			ws = ws[1:]
			if w.known() {
				hit := false
				for _, s := range subs {
					hit = hit || s == w.val
				}
				if hit {
					break
				}
			}
		}
		for i, w := range ws {
			if w.is("--") {
				ws = ws[i+1:]
				break
			}
			if w.is("-c") || w.is("--call") || strings.HasPrefix(w.prefix, "--call=") {
				// npm's way to hand over a shell text
				z.opaque(at, c, floorOpaque, "%s runs a shell text", nil)
				for _, t := range ws[i:] {
					z.salvage(strings.TrimPrefix(t.typed, "--call="))
				}
				return
			}
		}
		first := true
		for i, w := range ws {
			if !w.known() || strings.HasPrefix(w.val, "-") || !commandLike(w.val) || i > 8 {
				continue
			}
			limit := policy.Ask
			if first {
				limit = policy.Deny
			}
			first = false
			z.maybe(&z.a.Units[at], ws[i:], limit, "the program that "+z.a.Units[at].head+" runs", false)
			if p := known().programs[base(w.val)]; p != nil && p.peel != nil && limit == policy.Deny {
				// A wrapper or a shell: what it runs is judged as such.
				z.inner(at, c, ws[i:])
				return
			}
		}
	}
}

var shells = map[string]bool{"bash": true, "sh": true, "dash": true, "zsh": true, "ksh": true, "mksh": true,
	"ash": true, "fish": true, "rbash": true, "csh": true, "tcsh": true}
