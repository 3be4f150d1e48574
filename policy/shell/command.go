package shell

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/getpioneer/pioneer-super/policy"
)

// call is one simple command while it is being looked at.
type call struct {
	words   []word
	assigns []string
	e       env
	// peeled counts the wrappers around it.
	peeled int
	// noShell: run by execve, so functions, builtins and keywords do not exist.
	noShell bool
	// noFuncs: run by the shell, but not as one of its functions.
	noFuncs bool
}

// collect notes what the whole text defines, before anything is judged: a
// function or an assignment further down may come first at run time.
func (z *analyzer) collect(root syntax.Node) {
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				z.fn(n.Name.Value)
			}
			for _, l := range n.Names {
				z.fn(l.Value)
			}
		case *syntax.Assign:
			z.collectAssign(n)
		case *syntax.WordIter:
			z.named(n.Name.Value)
			v := z.variable(n.Name.Value)
			if len(n.Items) == 0 && !n.InPos.IsValid() {
				v.unknown = true
			}
			for _, w := range n.Items {
				z.collectValue(v, w)
			}
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				z.collectValue(z.variable(n.Param.Value), n.Exp.Word)
			}
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && n.Op != syntax.Comma && isName(w.Lit()) && isAssignOp(n.Op) {
				z.named(w.Lit())
				v := z.variable(w.Lit())
				if !v.unknown {
					v.unknown, v.number = true, true
				}
			}
		case *syntax.UnaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
				z.named(w.Lit())
			}
		case *syntax.CoprocClause:
			if n.Name != nil {
				z.named(n.Name.Lit())
			}
		case *syntax.Redirect:
			if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
				z.named(strings.Trim(n.N.Value, "{}"))
			}
		case *syntax.CallExpr:
			z.collectCall(n)
		case *syntax.TimeClause, *syntax.File:
		}
		return true
	})
}

// named judges a name that gets a value which is not written in the text.
func (z *analyzer) named(name string) {
	if isName(name) {
		z.assigns(name, word{}, false)
	}
}

func isAssignOp(op syntax.BinAritOperator) bool {
	s := op.String()
	switch s {
	case "==", "!=", "<=", ">=":
		return false
	}
	return strings.HasSuffix(s, "=")
}

func (z *analyzer) fn(name string) {
	if z.funcs == nil {
		z.funcs = map[string]bool{}
	}
	z.funcs[name] = true
	switch name {
	case "cd", "pushd", "popd":
		z.hasCd = true
	}
}

func (z *analyzer) variable(name string) *variable {
	if z.vars == nil {
		z.vars = map[string]*variable{}
	}
	z.assigned[name] = true
	v := z.vars[name]
	if v == nil {
		v = &variable{}
		z.vars[name] = v
	}
	return v
}

func (z *analyzer) collectAssign(n *syntax.Assign) {
	if n.Name == nil || n.Naked && n.Value == nil && n.Array == nil && n.Index == nil {
		return
	}
	v := z.variable(n.Name.Value)
	if n.Append {
		v.unknown, v.number = true, false
	}
	if n.Array != nil {
		for _, el := range n.Array.Elems {
			z.collectValue(v, el.Value)
		}
		return
	}
	z.collectValue(v, n.Value)
}

func (z *analyzer) collectValue(v *variable, w *syntax.Word) {
	if w == nil || len(w.Parts) == 0 {
		return
	}
	if s, ok := static(w.Parts, z); ok {
		if len(v.values) < 64 {
			v.values = append(v.values, s)
		} else {
			v.unknown = true
		}
		return
	}
	number, temp := false, false
	if len(w.Parts) == 1 {
		p := w.Parts[0]
		if d, ok := p.(*syntax.DblQuoted); ok && len(d.Parts) == 1 {
			p = d.Parts[0]
		}
		switch p := p.(type) {
		case *syntax.ArithmExp:
			number = true
		case *syntax.CmdSubst:
			number = numericOutput(p.Stmts)
			temp = callsOnly(p.Stmts, "mktemp")
		case *syntax.ParamExp:
			number = p.Length || p.Param != nil && strings.Contains("#?$!", p.Param.Value)
		}
	}
	switch {
	case temp:
		v.temp = true
	case !v.unknown:
		v.unknown, v.number = true, number
	case !number:
		v.number = false
	}
}

// static returns the value of parts that hold nothing to expand but HOME.
func static(parts []syntax.WordPart, z *analyzer) (string, bool) {
	var b strings.Builder
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s := p.Value
			if strings.ContainsAny(s, `\{`) {
				return "", false
			}
			if i == 0 && strings.HasPrefix(s, "~/") && z.o.Home != "" {
				s = z.o.Home + s[1:]
			}
			b.WriteString(s)
		case *syntax.SglQuoted:
			s, ok := p.Value, true
			if p.Dollar {
				s, ok = unquoteANSI(s)
			}
			if !ok {
				return "", false
			}
			b.WriteString(s)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, q := range p.Parts {
				switch q := q.(type) {
				case *syntax.Lit:
					b.WriteString(unescapeDouble(q.Value))
				case *syntax.ParamExp:
					if !simpleParam(q) || q.Param.Value != "HOME" || z.o.Home == "" {
						return "", false
					}
					b.WriteString(z.o.Home)
				default:
					return "", false
				}
			}
		case *syntax.ParamExp:
			if !simpleParam(p) || p.Param.Value != "HOME" || z.o.Home == "" {
				return "", false
			}
			b.WriteString(z.o.Home)
		default:
			return "", false
		}
	}
	return b.String(), true
}

func lastCall(list []*syntax.Stmt) *syntax.CallExpr {
	if len(list) == 0 {
		return nil
	}
	cmd := list[len(list)-1].Cmd
	for {
		b, ok := cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe {
			break
		}
		cmd = b.Y.Cmd
	}
	c, _ := cmd.(*syntax.CallExpr)
	if c == nil || len(c.Args) == 0 {
		return nil
	}
	return c
}

func callsOnly(list []*syntax.Stmt, name string) bool {
	c := lastCall(list)
	return c != nil && len(list) == 1 && c.Args[0].Lit() == name
}

// numericOutput reports whether a substitution yields digits, as far as its
// last program is known for nothing else.
func numericOutput(list []*syntax.Stmt) bool {
	c := lastCall(list)
	if c == nil || len(list) != 1 {
		return false
	}
	arg := func(i int) string {
		if i < len(c.Args) {
			return c.Args[i].Lit()
		}
		return ""
	}
	switch arg(0) {
	case "wc", "nproc", "expr", "getconf", "cksum":
		return true
	case "date":
		return strings.HasPrefix(arg(1), "+%") && strings.Trim(arg(1), "+%sNYmdHMSjuUwW") == ""
	case "id":
		return arg(1) == "-u" || arg(1) == "-g"
	case "grep", "egrep", "fgrep", "rg":
		return strings.HasPrefix(arg(1), "-") && !strings.HasPrefix(arg(1), "--") && strings.Contains(arg(1), "c") || arg(1) == "--count"
	case "git":
		return arg(1) == "rev-list" && arg(2) == "--count"
	case "tput":
		return arg(1) == "cols" || arg(1) == "lines"
	}
	return false
}

// collectCall notes builtins that assign names or change directory.
func (z *analyzer) collectCall(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	lit := n.Args[0].Lit()
	if lit == "" || strings.Contains(lit, `\`) {
		// A quoted or computed name may be any builtin.
		lit, _ = static(n.Args[0].Parts, z)
		lit = strings.ReplaceAll(lit, `\`, "")
	}
	switch lit {
	case "cd", "pushd", "popd":
		z.hasCd = true
	case "command", "builtin", "env", "eval", "trap":
		z.hasCd = z.hasCd || len(n.Args) > 1 && strings.Contains(n.Args[1].Lit(), "cd") || lit == "eval" || lit == "trap"
	case "read", "mapfile", "readarray", "getopts", "printf", "wait", "local", "export", "declare", "typeset", "readonly":
		for i, a := range n.Args[1:] {
			s, ok := static(a.Parts, z)
			if name, _, found := strings.Cut(s, "="); found {
				s = name
			}
			switch {
			case !ok || !isName(s):
			case lit == "printf" && (i == 0 || n.Args[i].Lit() != "-v"):
			default:
				v := z.variable(s)
				v.unknown, v.number = true, false
			}
		}
	}
}

// redirects judges redirections and returns what the command reads.
func (z *analyzer) redirects(list []*syntax.Redirect, e env) env {
	if len(list) > 0 {
		e.fds = maps.Clone(e.fds)
	}
	for _, r := range list {
		e = z.redirect(r, e)
	}
	return e
}

func (z *analyzer) redirect(r *syntax.Redirect, e env) env {
	fd := -1
	if r.N != nil {
		if n, err := strconv.Atoi(r.N.Value); err == nil {
			fd = n
		} else {
			fd = -2 // {name}: a number that bash chooses
			if name := strings.Trim(r.N.Value, "{}"); isName(name) {
				v := z.variable(name)
				v.unknown, v.number = true, true
			}
		}
	}
	input := func(s stdin) {
		n := fd
		if n == -1 {
			n = 0
		}
		if n == 0 {
			e.in = s
		} else if n > 0 {
			if e.fds == nil {
				e.fds = map[int]stdin{}
			}
			e.fds[n] = s
		}
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		input(z.heredoc(r))
	case syntax.WordHdoc:
		w := z.single(r.Word)
		if w.lit && !w.glob {
			input(stdin{stdinText, w.val + "\n"})
		} else {
			input(stdin{kind: stdinOpaque})
		}
	case syntax.RdrIn:
		w := z.redirected(r.Word)
		input(stdin{kind: stdinFile, text: w.val})
		z.target(w, false, e)
	case syntax.RdrInOut:
		w := z.redirected(r.Word)
		input(stdin{kind: stdinFile, text: w.val})
		z.target(w, false, e)
		z.target(w, true, e)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		z.target(z.redirected(r.Word), true, e)
	case syntax.DplIn:
		w := z.redirected(r.Word)
		if n, err := strconv.Atoi(strings.TrimSuffix(w.val, "-")); err == nil && w.lit {
			if s, ok := e.fds[n]; ok {
				input(s)
			} else {
				input(stdin{kind: stdinOpaque})
			}
		} else if !w.is("-") {
			input(stdin{kind: stdinOpaque})
		}
	case syntax.DplOut:
		w := z.redirected(r.Word)
		if w.lit {
			if _, err := strconv.Atoi(strings.TrimSuffix(w.val, "-")); err == nil || w.val == "-" {
				return e
			}
		} else if len(w.vars) == 1 && z.numeric(w.vars[0]) {
			return e
		}
		z.target(w, true, e)
	case syntax.AppClob, syntax.RdrAllClob, syntax.AppAllClob:
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a redirection that bash does not have"})
		z.target(z.redirected(r.Word), true, e)
	default:
		z.nodeUnknown(r.Op)
		z.target(z.redirected(r.Word), true, e)
	}
	return e
}

// redirected is the word after a redirection: bash expands braces in it, and
// takes the result if it is one word.
func (z *analyzer) redirected(w *syntax.Word) word {
	v := z.single(w)
	if z.o.Dialect == Bash && braceShape(w.Parts) != braceNone {
		return word{norm: v.norm, typed: v.typed, multi: true, pat: wordPrefix(w)}
	}
	return v
}

func (z *analyzer) numeric(name string) bool {
	if name == "" {
		return true
	}
	v := z.vars[name]
	return v != nil && v.unknown && v.number && len(v.values) == 0
}

func quotedDelimiter(w *syntax.Word) bool {
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok || strings.Contains(l.Value, `\`) {
			return true
		}
	}
	return false
}

func (z *analyzer) heredoc(r *syntax.Redirect) stdin {
	if r.Hdoc == nil {
		return stdin{stdinText, ""}
	}
	var b strings.Builder
	if quotedDelimiter(r.Word) {
		for _, p := range r.Hdoc.Parts {
			l, ok := p.(*syntax.Lit)
			if !ok {
				// The library expands the body of a delimiter that is quoted in
				// part; bash does not.
				return stdin{stdinText, untab(z.slice(r.Hdoc), r.Op)}
			}
			b.WriteString(l.Value)
		}
		return stdin{stdinText, untab(b.String(), r.Op)}
	}
	known := true
	for _, p := range r.Hdoc.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			b.WriteString(strings.ReplaceAll(strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`").Replace(l.Value), "\\\n", ""))
			continue
		}
		known = false
		z.wordPart(p)
	}
	if !known {
		return stdin{kind: stdinOpaque}
	}
	return stdin{stdinText, untab(b.String(), r.Op)}
}

func untab(s string, op syntax.RedirOperator) string {
	if op != syntax.DashHdoc {
		return s
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}

func (z *analyzer) callExpr(c *syntax.CallExpr, e env) env {
	var words []word
	if len(c.Args) > 0 {
		words = make([]word, 0, len(c.Args))
		for _, a := range c.Args {
			words = append(words, z.fields(a)...)
			if len(words) > maxArgs {
				z.tooComplex(fmt.Sprintf("a command has more than %d words", maxArgs))
				return e
			}
		}
	}
	var assigns []string
	for _, a := range c.Assigns {
		assigns = append(assigns, z.assign(a, e))
	}
	if len(c.Args) == 0 {
		z.add(Unit{Text: strings.Join(assigns, " "), Context: e.ctx, Wrappers: e.wraps, Floor: policy.Allow,
			Transparent: true, Class: FixedProgram, Resolution: "builtin", Assigns: assigns})
		return e
	}
	if len(words) == 0 {
		return e
	}
	if z.simple && e.wraps == nil {
		z.simple = len(words) == len(c.Args) && words[0].val != "" && literalOnly(words)
		if z.simple {
			z.a.Argv = values(words)
		}
	}
	return z.call(call{words: words, assigns: assigns, e: e})
}

func literalOnly(ws []word) bool {
	for i := range ws {
		if !ws[i].known() || ws[i].typed != ws[i].val {
			return false
		}
	}
	return true
}

// declClause is declare and its kin: assignments that name their variables in
// words, so that a quoted word can hold a subscript to be evaluated.
func (z *analyzer) declClause(c *syntax.DeclClause, e env) {
	words := []word{literal(c.Variant.Value)}
	var assigns []string
	opaque := ""
	export := c.Variant.Value == "export"
	for _, a := range c.Args {
		if a.Naked {
			if a.Value != nil {
				for _, w := range z.fields(a.Value) {
					words = append(words, w)
					switch {
					case !w.lit:
						opaque = "declares names that are computed"
					case strings.HasPrefix(w.val, "-"):
						if strings.ContainsAny(w.val, "n") && c.Variant.Value != "export" {
							opaque = "makes a variable a reference to another name"
						}
						if strings.Contains(w.val, "i") && c.Variant.Value != "export" {
							opaque = "makes assignments arithmetic"
						}
						export = export || strings.Contains(w.val, "x")
					case strings.Contains(w.val, "["):
						if strings.ContainsAny(w.val, "$`") {
							opaque = "evaluates a subscript that holds a substitution"
						}
					default:
						if name, value, ok := strings.Cut(w.val, "="); ok {
							z.variable(name).values = append(z.variable(name).values, value)
							z.assigns(name, literal(value), export)
						}
					}
				}
			} else if a.Name != nil {
				words = append(words, literal(a.Name.Value))
				if c.Variant.Value != "export" && c.Variant.Value != "readonly" && a.Name.Value == "PATH" {
					opaque = "may take the search path away"
				}
			}
			continue
		}
		s := z.assign(a, e)
		assigns = append(assigns, s)
		words = append(words, word{norm: s, val: s, typed: s, prefix: s})
	}
	if c.Variant.Value == "nameref" {
		opaque = "makes a variable a reference to another name"
	}
	u := Unit{Text: normText(words), Words: values(words), Context: e.ctx, Wrappers: e.wraps, Floor: policy.Allow,
		Transparent: true, Class: FixedProgram, Resolution: "builtin", Assigns: assigns, head: c.Variant.Value}
	if opaque != "" {
		u.floor(floorShellState, c.Variant.Value+" "+opaque)
	}
	z.add(u)
}

// assign judges one assignment and returns its normal form.
func (z *analyzer) assign(a *syntax.Assign, e env) string {
	name := ""
	if a.Name != nil {
		name = a.Name.Value
	}
	op := "="
	if a.Append {
		op = "+="
	}
	if a.Index != nil {
		z.arithm(a.Index)
		name += "[" + z.slice(a.Index) + "]"
	}
	if a.Array != nil {
		z.assigns(strings.SplitN(name, "[", 2)[0], word{}, false)
		return name + op + z.arrayExpr(a.Array)
	}
	var v word
	if a.Value != nil {
		v = z.single(a.Value)
	} else {
		v = literal("")
	}
	bare, _, _ := strings.Cut(name, "[")
	z.assigns(bare, v, false)
	if v.lit && v.val == "" {
		return name + op
	}
	return name + op + v.norm
}

func (z *analyzer) arrayExpr(x *syntax.ArrayExpr) string {
	var parts []string
	for _, el := range x.Elems {
		parts = append(parts, z.arrayElem(el))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func (z *analyzer) arrayElem(el *syntax.ArrayElem) string {
	s := ""
	if el.Index != nil {
		z.arithm(el.Index)
		s = "[" + z.slice(el.Index) + "]="
	}
	if el.Value != nil {
		s += normText(z.fields(el.Value))
	}
	return s
}

// assigns judges that name gets a value: some names make a later command run
// another program.
func (z *analyzer) assigns(name string, v word, exported bool) {
	if strings.HasPrefix(name, "BASH_FUNC_") {
		z.salvage(v.typed)
	}
	if why := dangerousName(name, v); why != "" {
		z.problem(Problem{Kind: floorAssign, Action: policy.Ask,
			Message: fmt.Sprintf("%s is set: %s", name, why)})
	}
}

// floor lowers an allow of this unit to an ask.
func (u *Unit) floor(reason, text string, lift ...string) {
	if u.Floor == policy.Ask {
		// The first reason stays; a second one cannot be lifted by the first's
		// literals.
		if len(lift) == 0 {
			u.Lift = nil
		}
		return
	}
	u.Floor, u.FloorReason, u.FloorText, u.Lift = policy.Ask, reason, text, lift
}

// call judges one simple command and what it runs.
func (z *analyzer) call(c call) env {
	if z.full || len(c.words) == 0 {
		return c.e
	}
	head := c.words[0]
	u := Unit{Text: normText(c.words), Words: values(c.words), Context: c.e.ctx, Wrappers: c.e.wraps,
		Floor: policy.Allow, Assigns: c.assigns, words: c.words}
	if c.peeled > 0 && u.Context == "" {
		u.Context = "wrapper"
	}
	if !head.known() || head.val == "" {
		return z.computed(c, u)
	}
	name := base(head.val)
	u.head = name
	z.resolve(&u, head.val, c)
	z.spelling(&u, c, head.val, name)

	p := known().programs[name]
	if p == nil {
		z.unknownProgram(&u, c, name)
	}
	e := c.e
	if p != nil {
		if p.transparent {
			u.Transparent = true
		}
		if p.subcommands != nil {
			z.normalise(&u, c, p)
		}
		if p.guard != nil {
			p.guard.check(z, &u, c)
		}
		if p.look != nil {
			e = p.look(z, &u, c)
		}
	}
	z.classify(&u, name, c)
	z.operands(&u, name, c)
	z.needs(name, c)
	z.add(u)
	if p != nil && p.peel != nil && c.peeled < maxPeel && !z.full {
		at := len(z.a.Units) - 1
		p.peel(z, at, c)
		if z.hasCd && (name == "command" || name == "builtin" || name == "eval") {
			e.dirs = nil // what it ran may have moved this shell
		}
	} else if c.peeled >= maxPeel {
		z.tooComplex(fmt.Sprintf("more than %d wrappers around a command", maxPeel))
	}
	return e
}

func (z *analyzer) computed(c call, u Unit) env {
	u.floor(floorComputed, fmt.Sprintf("the command word %s is computed", c.words[0].norm))
	z.resolveNone(&u)
	z.add(u)
	// $BASH and $SHELL are shells, whatever else they may be.
	if src := strings.Trim(c.words[0].typed, `"${}`); (src == "BASH" || src == "SHELL") && c.peeled < maxPeel {
		inner := c
		inner.words = append([]word{literal("bash")}, c.words[1:]...)
		inner.e = wrapped(c.e, c.words[0].typed)
		inner.peeled++
		z.call(inner)
	}
	// What a computed word may become is not known, but what follows an empty
	// one is the command.
	if c.words[0].multi && len(c.words) > 1 && c.peeled < maxPeel {
		inner := c
		inner.words = c.words[1:]
		inner.e = wrapped(c.e, c.words[0].typed)
		inner.peeled++
		if inner.words[0].known() && !strings.HasPrefix(inner.words[0].val, "-") {
			z.forms(len(z.a.Units)-1, inner.words, policy.Deny, "the computed word may be empty")
		}
	}
	return c.e
}

func (z *analyzer) forms(at int, ws []word, limit policy.Action, why string) {
	u := &z.a.Units[at]
	if len(u.Forms) < 200 {
		u.Forms = append(u.Forms, Form{Text: normText(ws), Cap: limit, Why: why})
	}
}

func wrapped(e env, name string) env {
	e.wraps = append(append([]string(nil), e.wraps...), name)
	return e
}
