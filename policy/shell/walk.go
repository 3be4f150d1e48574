package shell

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/getpioneer/pioneer-super/policy"
)

// stdinKind says where a command's standard input comes from.
type stdinKind uint8

const (
	stdinInherited stdinKind = iota
	stdinPipe
	stdinFile
	stdinText   // a here-document or here-string whose text is known
	stdinOpaque // the same, with expansions
)

type stdin struct {
	kind stdinKind
	text string
}

// env is what holds at one point of the text. It is a value: subshells and
// branches change copies.
type env struct {
	// dirs are the directories the shell may be in; none means unknown.
	dirs  []string
	ctx   string
	in    stdin
	fds   map[int]stdin
	wraps []string
}

// variable is what the text itself may put into a name.
type variable struct {
	values  []string // literal values
	unknown bool     // something else too
	temp    bool     // a path made by mktemp
	number  bool     // unknown, but digits only
}

type analyzer struct {
	a   *Analysis
	o   Options
	src string

	full     bool
	shadow   bool // a look at what may be run: only its texts are kept
	nested   int
	budget   int
	salvaged int

	funcs    map[string]bool
	vars     map[string]*variable
	assigned map[string]bool
	arith    []string // variables whose value is read as arithmetic
	hasCd    bool
	simple   bool
	// taintedArgs: a positional parameter may hold a substitution.
	taintedArgs bool
	paths       map[pathKey]bool
	shaped      int
	// perhaps: the paths that are recorded now may be none.
	perhaps bool
}

type pathKey struct {
	typed, path string
	write       bool
	perhaps     bool
}

func newAnalyzer(a *Analysis, o Options) *analyzer {
	return &analyzer{a: a, o: o, assigned: map[string]bool{}}
}

func (z *analyzer) home() string {
	if z.assigned["HOME"] {
		return ""
	}
	return z.o.Home
}

// constant returns the value of a variable that is certain wherever it stands.
func (z *analyzer) constant(name string) (string, bool) {
	switch name {
	case "HOME":
		if h := z.home(); h != "" {
			return h, true
		}
	case "PWD":
		if !z.hasCd && !z.assigned["PWD"] && z.o.Dir != "" {
			return z.o.Dir, true
		}
	}
	return "", false
}

func (z *analyzer) startEnv() env {
	e := env{}
	if z.o.Dir != "" {
		e.dirs = []string{path.Clean(z.o.Dir)}
	}
	return e
}

func (z *analyzer) top(text string) {
	switch z.o.Dialect {
	case Bash, POSIX:
	default:
		if p := scan(text); p != nil {
			z.problem(*p)
		}
		z.problem(Problem{Kind: kindDialect, Action: policy.Ask,
			Message: fmt.Sprintf("%s is not analysed: the whole text is one question", z.o.Dialect)})
		if len(text) <= maxText {
			z.add(Unit{Text: strings.TrimSpace(text), Context: "whole", Floor: policy.Ask, FloorReason: kindDialect})
		}
		return
	}
	file, ok := z.parse(text)
	if !ok {
		if z.refused() {
			z.full = true // nothing can make it stricter
			return
		}
		z.salvage(text)
		return
	}
	z.simple = oneSimple(file)
	z.src = text
	z.collect(file)
	z.a.Canonical = z.canonical(file, text)
	z.a.Plain = plainTree(file, text)
	z.stmts(file.Stmts, z.startEnv())
}

// refused reports whether the text is denied whatever its commands are.
func (z *analyzer) refused() bool {
	for i := range z.a.Problems {
		if z.a.Problems[i].Action == policy.Deny {
			return true
		}
	}
	return false
}

// parse reads a text, or says in a Problem why there is no tree.
func (z *analyzer) parse(text string) (*syntax.File, bool) {
	if p := scan(text); p != nil {
		z.problem(*p)
		return nil, false
	}
	z.budget += len(text)
	if z.budget > maxBudget {
		z.tooComplex(fmt.Sprintf("texts inside the text have more than %d bytes", maxBudget))
		return nil, false
	}
	file, err := z.parseTree(text)
	if err != nil {
		p := Problem{Kind: kindUnparseable, Action: policy.Ask, Message: err.Error()}
		var pe syntax.ParseError
		var le syntax.LangError
		if errors.As(err, &pe) {
			p.Line, p.Column, p.Message = int(pe.Pos.Line()), int(pe.Pos.Col()), pe.Text
		} else if errors.As(err, &le) {
			p.Line, p.Column, p.Message = int(le.Pos.Line()), int(le.Pos.Col()), le.Error()
		}
		p.Message = "not readable as " + z.o.Dialect.String() + ": " + p.Message
		z.problem(p)
		return nil, false
	}
	if !z.gaps(file, text) {
		return nil, false
	}
	return file, true
}

func (z *analyzer) parseTree(text string) (*syntax.File, error) {
	return parseText(text, z.o.Dialect)
}

// Parsers and printers keep buffers; each is used by one analysis at a time.
var (
	bashParsers  = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}
	posixParsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)) }}
	printers     = sync.Pool{New: func() any { return syntax.NewPrinter() }}
)

func parseText(text string, d Dialect) (*syntax.File, error) {
	pool := &bashParsers
	if d == POSIX {
		pool = &posixParsers
	}
	p := pool.Get().(*syntax.Parser)
	f, err := p.Parse(strings.NewReader(text), "")
	pool.Put(p) // not after a panic: what is left of it then is not known
	return f, err
}

// slice returns the source of a node.
func (z *analyzer) slice(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(z.src) || from > to {
		return "$?"
	}
	return z.src[from:to]
}

func oneSimple(f *syntax.File) bool {
	if len(f.Stmts) != 1 {
		return false
	}
	s := f.Stmts[0]
	c, ok := s.Cmd.(*syntax.CallExpr)
	return ok && !s.Negated && !s.Background && !s.Coprocess && !s.Disown && len(s.Redirs) == 0 &&
		len(c.Assigns) == 0 && len(c.Args) > 0
}

// argv judges an argument vector: no shell expands anything.
func (z *analyzer) argv(argv []string) {
	size := 0
	for _, s := range argv {
		size += len(s) + 1
		if strings.IndexByte(s, 0) >= 0 {
			z.problem(Problem{Kind: kindBytes, Action: policy.Deny, Message: "a NUL byte in an argument"})
			return
		}
	}
	if len(argv) > maxArgs || size > 2<<20 {
		z.tooComplex(fmt.Sprintf("%d arguments of %d bytes", len(argv), size))
		return
	}
	if len(argv) == 0 || argv[0] == "" {
		z.problem(Problem{Kind: kindUnparseable, Action: policy.Deny, Message: "no program"})
		return
	}
	z.simple = true
	z.a.Argv = argv
	quoted := make([]string, len(argv))
	for i, s := range argv {
		quoted[i] = quote(s)
	}
	z.a.Canonical = strings.Join(quoted, " ")
	z.call(call{words: literals(argv), e: z.startEnv(), noShell: true})
}

// plainTree reports whether a text keeps to the subset that is read alike
// everywhere.
func plainTree(file *syntax.File, text string) bool {
	if strings.ContainsAny(text, "\\#!`$~{}[]*?^%") {
		return false
	}
	plain := true
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil, *syntax.File, *syntax.CallExpr, *syntax.Word, *syntax.Lit:
		case *syntax.SglQuoted:
			plain = plain && !n.Dollar
		case *syntax.DblQuoted:
			plain = plain && !n.Dollar
		case *syntax.Stmt:
			plain = plain && !n.Coprocess && !n.Disown && !n.Negated
		case *syntax.BinaryCmd:
			plain = plain && n.Op != syntax.PipeAll
		case *syntax.Redirect:
			switch n.Op {
			case syntax.RdrOut, syntax.AppOut, syntax.RdrIn, syntax.DplOut:
			default:
				plain = false
			}
			plain = plain && (n.N == nil || isDigits(n.N.Value))
		default:
			plain = false
		}
		return plain
	})
	return plain
}

// finish draws the conclusions that need the whole text.
func (z *analyzer) finish(text string) {
	a := z.a
	for _, name := range z.arith {
		v := z.vars[name]
		var env string
		if z.o.Env != nil {
			if s, ok := z.o.Env(name); ok {
				env = s
			}
		}
		if v == nil {
			v = &variable{} // only the environment's
		}
		runs := v.unknown && !v.number || strings.ContainsAny(env, "$`")
		for _, s := range v.values {
			runs = runs || strings.ContainsAny(s, "$`")
		}
		if runs {
			z.problem(Problem{Kind: floorArith, Action: policy.Ask,
				Message: fmt.Sprintf("the value of %s is read as arithmetic, which runs substitutions in it", name)})
		}
	}
	if len(a.Units) == 0 && len(a.Problems) == 0 {
		t := strings.TrimSpace(text)
		z.add(Unit{Text: t, Context: "whole", Floor: policy.Allow, Class: FixedProgram, Resolution: "builtin"})
	}
	a.Plain = a.Plain && len(a.Problems) == 0
	if z.simple && len(a.Units) > 0 && len(a.Problems) == 0 && a.Argv != nil {
		a.Simple = true
	} else {
		a.Argv = nil
	}
	z.sumNeeds()
}

func (z *analyzer) add(u Unit) *Unit {
	if len(z.a.Units) >= maxUnits {
		z.tooComplex(fmt.Sprintf("more than %d commands", maxUnits))
		return &Unit{}
	}
	if u.Resolution == "" {
		u.Resolution = "unresolved"
	}
	z.a.Units = append(z.a.Units, u)
	return &z.a.Units[len(z.a.Units)-1]
}

// nodeUnknown refuses what this package has no handler for.
func (z *analyzer) nodeUnknown(n any) {
	z.problem(Problem{Kind: floorUnparsed, Action: policy.Ask,
		Message: fmt.Sprintf("no handler for %T", n)})
}

func (z *analyzer) stmts(list []*syntax.Stmt, e env) env {
	for _, s := range list {
		if z.full {
			return e
		}
		e = z.stmt(s, e)
	}
	return e
}

func inCtx(e env, ctx string) env {
	if e.ctx == "" || ctx == "substitution" || ctx == "function" {
		e.ctx = ctx
	}
	return e
}

func (z *analyzer) stmt(s *syntax.Stmt, e env) env {
	if s.Coprocess || s.Disown {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "an operator that bash does not have"})
	}
	inner := e
	inner = z.redirects(s.Redirs, inner)
	if s.Cmd == nil {
		return e
	}
	if s.Background {
		inner = inCtx(inner, "background")
	}
	after := z.command(s.Cmd, inner)
	if s.Background {
		return e
	}
	// The redirections end with the statement; the directory may have changed.
	e.dirs = after.dirs
	if c, ok := s.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == "exec" {
		e.in, e.fds = after.in, after.fds // exec makes them last
	}
	return e
}

func (z *analyzer) command(cmd syntax.Command, e env) env {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return z.callExpr(c, e)
	case *syntax.BinaryCmd:
		return z.binary(c, e)
	case *syntax.Subshell:
		z.stmts(c.Stmts, inCtx(e, "subshell"))
		return e
	case *syntax.Block:
		return z.stmts(c.Stmts, inCtx(e, "group"))
	case *syntax.IfClause:
		return z.ifClause(c, inCtx(e, "if"))
	case *syntax.WhileClause:
		b := z.loopEnv(c, inCtx(e, "loop"))
		b = z.stmts(c.Cond, b)
		b = z.stmts(c.Do, b)
		return z.afterLoop(e, b)
	case *syntax.ForClause:
		b := z.loopEnv(c, inCtx(e, "loop"))
		z.loop(c.Loop, b)
		b = z.stmts(c.Do, b)
		return z.afterLoop(e, b)
	case *syntax.CaseClause:
		return z.caseClause(c, inCtx(e, "case"))
	case *syntax.FuncDecl:
		z.funcDecl(c, e)
		return e
	case *syntax.ArithmCmd:
		z.unsigned(c.Unsigned)
		z.arithm(c.X)
		return e
	case *syntax.TestClause:
		z.testExpr(c.X)
		return e
	case *syntax.DeclClause:
		z.declClause(c, e)
		return e
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			z.arithm(x)
		}
		return e
	case *syntax.TimeClause:
		if c.Stmt == nil {
			return e
		}
		return z.timeClause(c, e)
	case *syntax.CoprocClause:
		z.coproc(c, inCtx(e, "coprocess"))
		return e
	case *syntax.TestDecl:
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a test declaration is no bash"})
		z.word(c.Description)
		z.stmt(c.Body, e)
		return e
	default:
		z.nodeUnknown(cmd)
		return e
	}
}

func (z *analyzer) binary(c *syntax.BinaryCmd, e env) env {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		// A long pipeline leans to the left; walk it without recursion.
		var stages []*syntax.Stmt
		left := &syntax.Stmt{Cmd: c}
		for {
			b, ok := left.Cmd.(*syntax.BinaryCmd)
			if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll || len(left.Redirs) > 0 {
				stages = append(stages, left)
				break
			}
			stages = append(stages, b.Y)
			left = b.X
		}
		pe := inCtx(e, "pipeline")
		for i := len(stages) - 1; i >= 0; i-- {
			if z.full {
				break
			}
			z.stmt(stages[i], pe)
			pe.in = stdin{kind: stdinPipe}
		}
		return e
	case syntax.AndStmt, syntax.OrStmt:
		var stages []*syntax.Stmt
		var ops []syntax.BinCmdOperator
		left := &syntax.Stmt{Cmd: c}
		for {
			b, ok := left.Cmd.(*syntax.BinaryCmd)
			if !ok || b.Op != syntax.AndStmt && b.Op != syntax.OrStmt || len(left.Redirs) > 0 {
				stages = append(stages, left)
				break
			}
			stages, ops = append(stages, b.Y), append(ops, b.Op)
			left = b.X
		}
		e2 := inCtx(e, "list")
		for i := len(stages) - 1; i >= 0; i-- {
			if z.full {
				break
			}
			after := z.stmt(stages[i], e2)
			if i > 0 && ops[i-1] == syntax.OrStmt && !sameDirs(after.dirs, e2.dirs) {
				// `cd x || y`: y runs where cd failed.
				after.dirs = union(after.dirs, e2.dirs)
			}
			e2 = after
		}
		e.dirs = e2.dirs
		return e
	default:
		z.nodeUnknown(c.Op)
		z.stmt(c.X, e)
		z.stmt(c.Y, e)
		return e
	}
}

func sameDirs(a, b []string) bool { return slices.Equal(a, b) }

// union joins two sets of possible directories; unknown stays unknown.
func union(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > 4 {
		return nil
	}
	return out
}

func (z *analyzer) ifClause(c *syntax.IfClause, e env) env {
	// Chains of elif are as long as the text: no recursion.
	var ends []env
	cond := e
	for c != nil {
		if len(c.Cond) > 0 {
			cond = z.stmts(c.Cond, cond)
			ends = append(ends, z.stmts(c.Then, cond))
			c = c.Else
			if c == nil {
				ends = append(ends, cond)
			}
			continue
		}
		ends = append(ends, z.stmts(c.Then, cond))
		c = c.Else
	}
	for i, x := range ends {
		if i == 0 {
			e.dirs = x.dirs
		} else {
			e.dirs = union(e.dirs, x.dirs)
		}
	}
	return e
}

// loopEnv is the environment of a loop's body: where the body changes the
// directory, each round may begin elsewhere.
func (z *analyzer) loopEnv(n syntax.Node, e env) env {
	if z.hasCd && changesDir(n) {
		e.dirs = nil
	}
	return e
}

func (z *analyzer) afterLoop(e, body env) env {
	e.dirs = union(e.dirs, body.dirs)
	return e
}

func changesDir(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch c.Args[0].Lit() {
			case "cd", "pushd", "popd", "builtin", "command", "eval", "source", ".", "":
				found = true
			}
		}
		return !found
	})
	return found
}

func (z *analyzer) loop(l syntax.Loop, e env) {
	switch l := l.(type) {
	case *syntax.WordIter:
		for _, w := range l.Items {
			for _, f := range z.fields(w) {
				z.looseWord(f, e)
			}
		}
	case *syntax.CStyleLoop:
		z.arithm(l.Init)
		z.arithm(l.Cond)
		z.arithm(l.Post)
	default:
		z.nodeUnknown(l)
	}
}

func (z *analyzer) caseClause(c *syntax.CaseClause, e env) env {
	if c.Braces {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a case with braces, which bash does not have"})
	}
	z.looseWord(z.single(c.Word), e)
	dirs := e.dirs
	for _, item := range c.Items {
		z.caseItem(item, e, &dirs)
	}
	e.dirs = dirs
	return e
}

func (z *analyzer) caseItem(item *syntax.CaseItem, e env, dirs *[]string) {
	for _, p := range item.Patterns {
		z.word(p)
	}
	after := z.stmts(item.Stmts, e)
	if item.Op != syntax.Break && !sameDirs(after.dirs, e.dirs) {
		after.dirs = nil
	}
	*dirs = union(*dirs, after.dirs)
}

func (z *analyzer) funcDecl(c *syntax.FuncDecl, e env) {
	e = inCtx(e, "function")
	e.in, e.fds = stdin{kind: stdinPipe}, nil
	if z.hasCd {
		e.dirs = nil
	}
	if len(c.Names) > 0 || c.Name == nil {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a function declaration that bash does not have"})
	}
	z.stmt(c.Body, e)
}

func (z *analyzer) timeClause(c *syntax.TimeClause, e env) env {
	// bash takes `time -- cmd` as time's own end of options; the library has a
	// command named `--`, which may be the first of a pipeline.
	left := c.Stmt
	for {
		b, ok := left.Cmd.(*syntax.BinaryCmd)
		if !ok {
			break
		}
		left = b.X
	}
	if call, ok := left.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && strings.HasPrefix(call.Args[0].Lit(), "-") {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "an option of time that is not known"})
		z.salvage(z.slice(c))
	}
	return z.stmt(c.Stmt, e)
}

// coproc: bash takes a name only before a compound command; the library takes
// the first word of a simple command for one as well, and what is left for the
// command. Only the compound forms are read alike.
func (z *analyzer) coproc(c *syntax.CoprocClause, e env) {
	e.in = stdin{kind: stdinPipe}
	z.word(c.Name)
	switch c.Stmt.Cmd.(type) {
	case *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.ArithmCmd, *syntax.TestClause:
	default:
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a coprocess of a simple command"})
		z.salvage(z.slice(c))
	}
	z.stmt(c.Stmt, e)
}

// word visits everything that expanding a word runs.
func (z *analyzer) word(w *syntax.Word) {
	if w == nil {
		return
	}
	for _, p := range w.Parts {
		z.wordPart(p)
	}
}

func (z *analyzer) wordPart(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit, *syntax.SglQuoted:
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			z.wordPart(q)
		}
	case *syntax.ParamExp:
		z.paramExp(p)
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a substitution that bash 5.2 does not have"})
		}
		z.substitution(p.Stmts, "substitution")
	case *syntax.ArithmExp:
		z.unsigned(p.Unsigned)
		z.arithm(p.X)
	case *syntax.ProcSubst:
		if p.Op == syntax.CmdInTemp {
			z.nodeUnknown(p.Op)
		}
		z.substitution(p.Stmts, "process substitution")
	case *syntax.ExtGlob:
		z.extGlob(p)
	case *syntax.BraceExp:
		for _, w := range p.Elems {
			z.word(w)
		}
	default:
		z.nodeUnknown(p)
	}
}

// unsigned arithmetic is another shell's.
func (z *analyzer) unsigned(yes bool) {
	if yes {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "arithmetic that bash does not have"})
	}
}

// extGlob: bash reads @(…) as a pattern only where a shell option says so, and
// as something else, or an error, where not; the library always sees a pattern.
func (z *analyzer) extGlob(p *syntax.ExtGlob) {
	z.problem(Problem{Kind: kindParserGap, Action: policy.Ask,
		Message: "an extended pattern, which bash reads only with extglob set"})
	if p.Op == syntax.GlobExcept || strings.ContainsAny(p.Pattern.Value, "$`") {
		// Without extglob, !(…) is the negation of a subshell.
		z.salvage(p.Pattern.Value)
	}
}

func (z *analyzer) substitution(list []*syntax.Stmt, ctx string) {
	e := z.cur()
	e = inCtx(e, ctx)
	z.stmts(list, e)
}

// cur is the environment for what runs while words are expanded.
func (z *analyzer) cur() env {
	e := z.startEnv()
	if z.hasCd {
		e.dirs = nil
	}
	return e
}

func (z *analyzer) paramExp(p *syntax.ParamExp) {
	if p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 || p.IsSet || p.Width ||
		p.Split != syntax.OptUnset || p.GlobSubst != syntax.OptUnset || p.RcExpand != syntax.OptUnset {
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a parameter expansion that bash does not have"})
		if p.NestedParam != nil {
			z.wordPart(p.NestedParam)
		}
	}
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	if p.Excl && p.Names == 0 {
		// The value of the variable is a name, subscript and all.
		if p.Index == nil || !allIndex(p.Index) {
			z.evaluates(name)
		}
	}
	if p.Index != nil && !allIndex(p.Index) {
		z.arithm(p.Index)
	}
	if p.Slice != nil {
		z.arithm(p.Slice.Offset)
		z.arithm(p.Slice.Length)
	}
	if p.Repl != nil {
		z.word(p.Repl.Orig)
		z.word(p.Repl.With)
	}
	if p.Exp != nil {
		if p.Exp.Op == syntax.OtherParamOps {
			switch p.Exp.Word.Lit() {
			case "Q", "E", "A", "a", "K", "k", "U", "u", "L":
			default:
				z.problem(Problem{Kind: floorArith, Action: policy.Ask,
					Message: fmt.Sprintf("${%s@P} expands the value of %s as a prompt, which runs substitutions in it", name, name)})
			}
		}
		if p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull {
			z.assigns(name, z.single(p.Exp.Word), false)
			return
		}
		z.word(p.Exp.Word)
	}
}

func allIndex(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	if !ok {
		return false
	}
	l := w.Lit()
	return l == "@" || l == "*"
}

// evaluates notes that the value of a variable is evaluated by the shell.
func (z *analyzer) evaluates(name string) {
	switch {
	case isName(name):
		z.arith = append(z.arith, name)
	case name != "" && name != "#" && name != "?" && name != "$" && name != "!" && name != "-":
		tainted := z.taintedArgs
		for _, a := range z.o.Args {
			tainted = tainted || strings.ContainsAny(a, "[$`")
		}
		if tainted {
			z.problem(Problem{Kind: floorArith, Action: policy.Ask, Message: "a positional parameter is read as arithmetic"})
		}
	}
}

func (z *analyzer) arithm(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		z.arithm(x.X)
		z.arithm(x.Y)
	case *syntax.UnaryArithm:
		z.arithm(x.X)
	case *syntax.ParenArithm:
		z.arithm(x.X)
	case *syntax.FlagsArithm:
		z.problem(Problem{Kind: kindParserGap, Action: policy.Ask, Message: "a subscript that bash does not have"})
		z.arithm(x.X)
	case *syntax.Word:
		z.arithmWord(x)
	default:
		z.nodeUnknown(x)
	}
}

// arithmWord is an operand of arithmetic: bash evaluates what it expands to
// once more, substitutions in subscripts included.
func (z *analyzer) arithmWord(w *syntax.Word) {
	if w == nil {
		return
	}
	for _, p := range w.Parts {
		z.arithmPart(p)
	}
}

func (z *analyzer) arithmPart(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		if isName(p.Value) {
			z.evaluates(p.Value)
		} else if strings.ContainsAny(p.Value, "$`") {
			z.evaluatesText(p.Value)
		}
	case *syntax.SglQuoted:
		z.evaluatesText(p.Value)
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			z.arithmPart(q)
		}
	case *syntax.ParamExp:
		z.paramExp(p)
		if p.Param != nil && !p.Length {
			z.evaluates(p.Param.Value)
		}
	case *syntax.CmdSubst:
		z.wordPart(p)
		if !numericOutput(p.Stmts) {
			z.problem(Problem{Kind: floorArith, Action: policy.Ask,
				Message: "the output of a command is read as arithmetic, which runs substitutions in it"})
		}
	default:
		z.wordPart(p)
	}
}

func (z *analyzer) evaluatesText(s string) {
	if strings.ContainsAny(s, "$`") {
		z.problem(Problem{Kind: floorArith, Action: policy.Ask,
			Message: fmt.Sprintf("%q is read as arithmetic, which runs substitutions in it", s)})
	}
}

func (z *analyzer) testExpr(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			z.testArith(x.X)
			z.testArith(x.Y)
			return
		}
		z.testExpr(x.X)
		z.testExpr(x.Y)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			z.testArith(x.X)
			return
		}
		z.testExpr(x.X)
	case *syntax.ParenTest:
		z.testExpr(x.X)
	case *syntax.Word:
		z.testWord(x)
	default:
		z.nodeUnknown(x)
	}
}

// testWord: inside [[ ]] extended patterns are always on, in both parsers.
func (z *analyzer) testWord(w *syntax.Word) {
	for _, p := range w.Parts {
		if g, ok := p.(*syntax.ExtGlob); ok && !strings.ContainsAny(g.Pattern.Value, "$`\\") {
			continue
		}
		z.wordPart(p)
	}
}

func (z *analyzer) testArith(x syntax.TestExpr) {
	if w, ok := x.(*syntax.Word); ok {
		z.arithmWord(w)
		return
	}
	z.testExpr(x)
}
