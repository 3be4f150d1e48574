package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/shell"
)

// Exit codes of a verdict.
const (
	exitAllowed = 0
	exitDenied  = 10
	exitAsk     = 13
)

// maxShellText bounds the shell text that is read from standard input. The
// analysis refuses much less; this only keeps the reading bounded.
const maxShellText = 1 << 20

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "say what recorded authority answers, and why; nothing is asked and nothing is run",
		UsageText: "pioneer-super check --surface SURFACE --value VALUE [--tool TOOL] [--path PATH]... [flags]\n" +
			"pioneer-super check --tool TOOL [--value VALUE] [--path PATH]... [flags]\n" +
			"pioneer-super check --shell { TEXT | - } [--dialect SHELL] [--resolve] [flags]\n" +
			"pioneer-super check --batch [flags] < QUESTIONS\n" +
			"pioneer-super check --tools [flags] TOOL...",
		CustomHelpTemplate: helpText(`Without --policy the answer is that of the authority composed from the
configuration directory, as a tree started here would have it. With --policy the
file is asked alone: what no rule of it names is an ask, unless its "*" or --mode
says otherwise. The text of a shell command is always taken apart: every command
in it is judged, and every path.

Exit codes: 0 allow, 10 deny, 13 ask, 2 wrong usage or a bad file, 125 failure.
--batch and --tools leave with 0 once everything is answered.

A question of --batch is one line, answered by one line:
   {"surface": S, "value": V, "tool": T, "paths": [P, ...]}
   {"shell": TEXT, "dialect": "bash"}
either with "id", which comes back, and "cwd". A line that is no question is
answered by a deny with "error".`,
			`pioneer-super check --policy policy.jsonc --surface bash --value 'git push' --json
pioneer-super check --mode supervised --tool Edit --path src/main.go --explain
pioneer-super check --policy policy.jsonc --shell 'make && sudo make install' --explain`),
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "surface", Usage: "the `SURFACE`: " + strings.Join(policy.Surfaces(), ", ") + ", or the name of a tool"},
			&cli.StringFlag{Name: "value", Usage: "the `VALUE`: the command, path, host, server's tool or skill"},
			&cli.StringFlag{Name: "tool", Usage: "the `TOOL` that is called, as the agent names it; without --surface its own gates are asked"},
			&cli.GenericFlag{Name: "path", Value: &texts{}, Usage: "a `PATH` that the call names; may be given several times"},
			&cli.StringFlag{Name: "shell", Usage: "shell `TEXT` to take apart and judge; - reads standard input"},
			&cli.StringFlag{Name: "dialect", Value: "bash", Usage: "whose `SHELL` text it is: bash, sh, zsh, powershell or cmd"},
			boolFlag("resolve", "for shell text: look programs up on this PATH, look at the files here and follow links"),
			&cli.StringFlag{Name: "home", Usage: "the home `DIR` that ~ stands for; this user's otherwise"},
			boolFlag("batch", "answer one question for each line of standard input"),
			boolFlag("tools", "say which of the named tools are denied whatever their input; that is advice, each call is judged"),
			boolFlag("json", "print the answer as JSON"),
			boolFlag("explain", "show every authority, every rule that matches, and who won"),
		}, authorityFlags()...),
		Action: check,
	}
}

// authorityFlags choose whose authority is asked.
func authorityFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "policy", Usage: "ask this policy `FILE` alone; it needs no configuration and no state"},
		&cli.StringFlag{Name: "mode", Usage: "the `MODE` below the rules: full_access, auto_accept_edits or supervised"},
		&cli.StringFlag{Name: "agent", Usage: "the restrictions of agents/`NAME`.md count as well"},
		&cli.StringFlag{Name: "cwd", Usage: "the `DIR` that relative paths start from; the current one otherwise"},
	}
}

// requestOf reads authorityFlags.
func requestOf(c *cli.Context) (request, error) {
	r := request{policy: c.String("policy"), agent: c.String("agent"), cwd: c.String("cwd"), home: c.String("home")}
	if c.IsSet("policy") && r.policy == "" {
		return r, exit(2, "--policy: expected the name of a file")
	}
	if m := c.String("mode"); m != "" {
		mode, err := policy.ParseMode(m)
		if err != nil {
			return r, exit(2, "--mode: %v", err)
		}
		r.mode = mode
	}
	var err error
	if r.cwd, err = filepath.Abs(r.cwd); err != nil {
		return r, exit(125, "--cwd: %v", err)
	}
	if r.home == "" {
		r.home, _ = os.UserHomeDir()
	}
	if r.home != "" {
		if r.home, err = filepath.Abs(r.home); err != nil {
			return r, exit(125, "--home: %v", err)
		}
	}
	return r, nil
}

// composedOf composes what the flags choose; a bad file is wrong usage.
func composedOf(c *cli.Context) (*composed, error) {
	r, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	out, err := compose(r)
	if err != nil {
		return nil, badFile(err)
	}
	return out, nil
}

func badFile(err error) error {
	var known exitError
	if errors.As(err, &known) {
		return known
	}
	return exitError{2, err.Error()}
}

func check(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	single := c.IsSet("surface") || c.IsSet("value") || c.IsSet("path") || c.IsSet("tool")
	ways := 0
	for _, way := range []bool{single, c.IsSet("shell"), c.Bool("batch"), c.Bool("tools")} {
		if way {
			ways++
		}
	}
	switch {
	case ways == 0:
		return exit(2, "nothing is asked: expected --surface and --value, --tool, --shell, --batch or --tools")
	case ways > 1:
		return exit(2, "more than one thing is asked: expected only one of --surface with --value, --tool and --path; --shell; --batch; --tools")
	case len(args) > 0 && !c.Bool("tools"):
		return exit(2, "unexpected argument %q; values belong behind their flags", args[0])
	case c.Bool("tools") && len(args) == 0:
		return exit(2, "--tools: expected the names of tools")
	}
	dialect, err := parseDialect(c.String("dialect"))
	if err != nil {
		return exit(2, "--dialect: %v", err)
	}
	a, err := composedOf(c)
	if err != nil {
		return err
	}
	if a.layers.InvalidScope != "" {
		for _, n := range a.notes {
			if strings.Contains(n, a.layers.InvalidScope) {
				fmt.Fprintln(c.App.ErrWriter, "pioneer-super: "+n)
			}
		}
	}
	k := &checker{composed: a, resolve: c.Bool("resolve"), explain: c.Bool("explain"), dialect: dialect}
	switch {
	case c.Bool("tools"):
		return k.tools(c, args)
	case c.Bool("batch"):
		return k.batch(c.App.Reader, c.App.Writer)
	}
	var ans answer
	if c.IsSet("shell") {
		text := c.String("shell")
		if text == "-" {
			data, err := io.ReadAll(io.LimitReader(c.App.Reader, maxShellText+1))
			if err != nil {
				return exit(125, "standard input: %v", err)
			}
			if len(data) > maxShellText {
				return exit(2, "standard input: more than %d bytes of shell text", maxShellText)
			}
			text = string(data)
		}
		ans = k.shell(policy.Question{}, text, dialect)
	} else {
		q := policy.Question{Surface: c.String("surface"), Value: c.String("value"), Tool: c.String("tool"), Paths: textsOf(c, "path")}
		if err := q.Check(); err != nil {
			return exit(2, "%v (--surface, --value, --tool, --path)", err)
		}
		ans = k.question(q)
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, ans, true); err != nil {
			return exit(125, "%v", err)
		}
	} else {
		fmt.Fprint(c.App.Writer, k.text(ans))
	}
	return verdictExit(ans.Verdict)
}

func verdictExit(a policy.Action) error {
	switch a {
	case policy.Allow:
		return nil
	case policy.Ask:
		return exitError{code: exitAsk}
	}
	return exitError{code: exitDenied}
}

func parseDialect(s string) (shell.Dialect, error) {
	var names []string
	for d := shell.Bash; d <= shell.Cmd; d++ {
		if d.String() == s {
			return d, nil
		}
		names = append(names, d.String())
	}
	return 0, fmt.Errorf("%q, expected %s", s, strings.Join(names, ", "))
}

func printJSON(w io.Writer, v any, indent bool) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// answer is what check says of one question. What decided stands in it twice: as
// a rule, and flat for scripts.
type answer struct {
	ID        string        `json:"id,omitempty"`
	Verdict   policy.Action `json:"verdict"`
	Authority string        `json:"authority"`
	Rule      *policy.Rule  `json:"rule,omitempty"`
	Surface   string        `json:"surface,omitempty"`
	Pattern   string        `json:"pattern,omitempty"`
	File      string        `json:"file,omitempty"`
	Line      int           `json:"line,omitempty"`
	Column    int           `json:"column,omitempty"`
	// Value is the command, path or name that decided.
	Value  string `json:"value,omitempty"`
	Reason string `json:"reason"`
	// Sentinel names what lowered an allow: a command that cannot be seen through,
	// a text that cannot be parsed.
	Sentinel  string `json:"sentinel,omitempty"`
	HumanOnly bool   `json:"human_only,omitempty"`
	// Shell is there where text was taken apart.
	Shell *shellAnswer `json:"shell,omitempty"`
	// Explanations and Notes are there when they were asked for.
	Explanations []policy.Explanation `json:"explanations,omitempty"`
	Notes        []string             `json:"notes,omitempty"`
	Error        string               `json:"error,omitempty"`

	explained string
}

// decided fills in what decided.
func (a *answer) decided(d policy.Decision) {
	rule := d.Rule
	a.Rule, a.Authority, a.Surface, a.Pattern = &rule, rule.Origin.Authority, rule.Surface, rule.Pattern
	a.File, a.Line, a.Column = rule.Origin.File, rule.Origin.Line, rule.Origin.Column
	a.Value, a.Reason = d.Value, d.Reason
	if rule.Origin.Authority == "builtin" && strings.HasSuffix(d.Reason, noRuleNamesIt) {
		a.Reason = noRuleNamesIt + ", so it is asked"
	}
}

// checker answers questions.
type checker struct {
	*composed
	resolve, explain bool
	// pure says that no file of this machine is looked at.
	pure bool
	// dialect is the shell that reads the value of a question about a command.
	dialect shell.Dialect
}

// links follows the links of a path, unless nothing is looked at.
func (k *checker) links() func(string) string {
	if k.pure {
		return nil
	}
	return canonical
}

func (k *checker) notesFor(a *answer) {
	if k.explain {
		a.Notes = k.notes
	}
}

// question answers one question. The text of a command is taken apart.
func (k *checker) question(q policy.Question) answer {
	if q.Surface == "bash" || q.Surface == "" && policy.ToolSurface(q.Tool) == "bash" && q.Value != "" {
		return k.shell(q, q.Value, k.dialect)
	}
	queries := q.Queries(k.cwd, k.home, k.links())
	d := k.decideAll(queries)
	a := answer{ID: q.ID, Verdict: d.Action, HumanOnly: d.HumanOnly}
	a.decided(d)
	if k.explain {
		for _, query := range queries {
			a.Explanations = append(a.Explanations, policy.Explain(k.chain, query))
		}
	}
	k.notesFor(&a)
	return a
}

// decideAll asks about every gate of a call. Of gates that allow it names one of
// which a rule or a mode speaks, not one that nothing speaks of.
func (k *checker) decideAll(queries []policy.Query) policy.Decision {
	d := policy.DecideAll(k.chain, queries)
	if d.Action != policy.Allow || d.Rule.Origin.Authority != "builtin" {
		return d
	}
	for _, q := range queries {
		if other := policy.Decide(k.chain, q); other.Action == policy.Allow && other.Rule.Origin.Authority != "builtin" {
			return other
		}
	}
	return d
}

// text prints an answer for a human.
func (k *checker) text(a answer) string {
	var b strings.Builder
	if a.Shell != nil && k.explain {
		b.WriteString(a.explained)
	} else {
		fmt.Fprintf(&b, "%s", a.Verdict)
		if a.Value != "" {
			fmt.Fprintf(&b, "  %s", visible(clip(a.Value)))
		}
		fmt.Fprintf(&b, "\n  %s\n", visible(a.Reason))
		if a.HumanOnly {
			b.WriteString("  only a human may allow it\n")
		}
		if k.explain && a.Rule != nil {
			fmt.Fprintf(&b, "  decided by %s\n", ruleText(*a.Rule))
		}
	}
	for _, e := range a.Explanations {
		explainQuery(&b, e)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", visible(n))
	}
	return b.String()
}

func ruleText(r policy.Rule) string {
	s := fmt.Sprintf("%s %s %q: %s", r.Origin.Authority, r.Surface, r.Pattern, r.Action)
	if r.Origin.File != "" {
		s += " (" + r.Origin.String() + ")"
	}
	return visible(s)
}

func explainQuery(b *strings.Builder, e policy.Explanation) {
	values := make([]string, len(e.Query.Values))
	for i, v := range e.Query.Values {
		values[i] = fmt.Sprintf("%q", v)
	}
	fmt.Fprintf(b, "gate %s (%s) as %s: %s\n", visible(e.Query.Surface), e.Query.Kind, strings.Join(values, ", "), e.Decision.Action)
	if e.Query.Floor != policy.Allow {
		fmt.Fprintf(b, "  at most %s\n", e.Query.Floor)
	}
	for _, s := range e.Sessions {
		for _, l := range s.Layers {
			mark := " "
			if l.Decided {
				mark = "*"
			}
			fmt.Fprintf(b, " %s %-12s %-6s %s\n", mark, l.Layer, l.Verdict, visible(l.Reason))
			for _, r := range l.Rules {
				lost := "counts"
				if r.Lost != "" {
					lost = "lost: " + r.Lost
				}
				fmt.Fprintf(b, "     %-6s %s %q at %s, %s\n", r.Rule.Action, visible(r.Rule.Surface), r.Rule.Pattern, visible(r.Rule.Origin.String()), lost)
			}
		}
	}
}

// toolAnswer says whether a tool is worth offering.
type toolAnswer struct {
	Tool    string      `json:"tool"`
	Surface string      `json:"surface"`
	Kind    policy.Kind `json:"kind"`
	// Denied says that every call of it is denied, whatever its input.
	Denied    bool         `json:"denied"`
	Authority string       `json:"authority,omitempty"`
	Rule      *policy.Rule `json:"rule,omitempty"`
	Reason    string       `json:"reason,omitempty"`
}

// tools says which tools are denied in full. That is advice for whoever offers
// tools to a model; each call is judged all the same.
func (k *checker) tools(c *cli.Context, names []string) error {
	var out []toolAnswer
	for _, name := range names {
		if name == "" || len(name) > 256 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return exit(2, "--tools: %q: expected the name of a tool", name)
		}
		t := toolAnswer{Tool: name, Surface: policy.ToolSurface(name), Kind: policy.Classify(name)}
		if exposed, d := policy.Exposed(k.chain, name); !exposed {
			rule := d.Rule
			t.Denied, t.Authority, t.Rule, t.Reason = true, rule.Origin.Authority, &rule, d.Reason
		}
		out = append(out, t)
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, map[string]any{"tools": out}, true); err != nil {
			return exit(125, "%v", err)
		}
		return nil
	}
	width := 0
	for _, t := range out {
		width = max(width, len(t.Tool))
	}
	for _, t := range out {
		word, reason := "may be used", string(t.Kind)
		if t.Denied {
			word, reason = "denied", t.Reason
		}
		fmt.Fprintf(c.App.Writer, "%-*s  %-11s  %s\n", width, visible(t.Tool), word, visible(reason))
	}
	if k.explain {
		for _, n := range slices.Concat([]string{"which tools are offered is advice: the gate judges each call"}, k.notes) {
			fmt.Fprintf(c.App.Writer, "note: %s\n", visible(n))
		}
	}
	return nil
}
