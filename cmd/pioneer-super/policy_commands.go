package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/policy"
)

// exitFindings is the status of a command that looked and found something.
const exitFindings = 1

func policyCommand() *cli.Command {
	return groupCommand("policy", "show, check, test and import rules",
		`A policy is policy.jsonc of the configuration directory, or what --policy names.
config init writes one to start from; check asks it a question.`,
		`pioneer-super policy show --mode supervised
pioneer-super policy lint
pioneer-super policy test policy.test.jsonc
pioneer-super policy import claude-code .claude > policy.jsonc`,
		policyShowCommand(), policyLintCommand(), policyTestCommand(), policyImportCommand())
}

// groupCommand is a command that only holds others. Its help has the form of
// theirs, with the commands in the place of the flags.
func groupCommand(name, usage, about, examples string, commands ...*cli.Command) *cli.Command {
	width := 0
	for _, c := range commands {
		width = max(width, len(c.Name))
	}
	var list strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&list, "   %-*s  %s\n", width, c.Name, c.Usage)
	}
	for _, c := range commands {
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return exit(2, "%v; pioneer-super %s %s --help shows the flags", err, name, c.Name)
		}
	}
	indent := func(s string) string { return "   " + strings.ReplaceAll(s, "\n", "\n   ") + "\n" }
	return &cli.Command{
		Name: name, Usage: usage, UsageText: "pioneer-super " + name + " COMMAND [flags]",
		CustomHelpTemplate: "USAGE:\n   {{.UsageText}}\n\n   {{.Usage}}\n\nCOMMANDS:\n" + list.String() +
			"\n" + indent(about) + "   pioneer-super " + name + " COMMAND --help says more of each.\n\nEXAMPLES:\n" + indent(examples),
		Subcommands: commands,
		Action:      needsSubcommand,
	}
}

// needsSubcommand is the action of a command that only holds others.
func needsSubcommand(c *cli.Context) error {
	var names []string
	for _, s := range c.Command.Subcommands {
		if s.Name != "help" {
			names = append(names, s.Name)
		}
	}
	if c.NArg() > 0 {
		return exit(2, "unknown command %q, expected %s %s", c.Args().First(), c.Command.Name, strings.Join(names, ", "))
	}
	return exit(2, "expected %s %s; --help says more", c.Command.Name, strings.Join(names, ", "))
}

// ---- show

func policyShowCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "print the composed authority of here, layer by layer, with the origin of every rule",
		UsageText: "pioneer-super policy show [--json] [--mode MODE] [--agent NAME] [--policy FILE]",
		CustomHelpTemplate: helpText(`Layers stand in the order in which they are asked. The most specific rule decides
inside a layer; hard guards, agent files, profiles and caps can only take away.`,
			"pioneer-super policy show --mode auto_accept_edits\npioneer-super policy show --agent reviewer --json"),
		Flags:  append([]cli.Flag{boolFlag("json", "print it as JSON")}, authorityFlags()...),
		Action: policyShow,
	}
}

// shownLayer is one layer of the composed authority.
type shownLayer struct {
	Layer string `json:"layer"`
	// File is where it is written, for a layer that is a file.
	File *ruleFile `json:"file,omitempty"`
	// Note says what a reader has to know of it.
	Note  string        `json:"note,omitempty"`
	Rules []policy.Rule `json:"rules"`
}

type shownAuthority struct {
	Mode      policy.Mode     `json:"mode"`
	Source    policy.Source   `json:"source"`
	Workspace string          `json:"workspace,omitempty"`
	Layers    []shownLayer    `json:"layers"`
	Snapshot  policy.Snapshot `json:"snapshot"`
	Notes     []string        `json:"notes,omitempty"`
}

func policyShow(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return exit(2, "unexpected argument %q", args[0])
	}
	a, err := composedOf(c)
	if err != nil {
		return err
	}
	out := a.show()
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, out, true); err != nil {
			return exit(125, "%v", err)
		}
		return nil
	}
	printAuthority(c.App.Writer, out)
	return nil
}

// show lists the layers in the order in which they are asked.
func (c *composed) show() shownAuthority {
	l := c.layers
	s := l.Snapshot
	out := shownAuthority{Mode: s.Profile.Mode, Source: s.Profile.Source, Workspace: s.Sandbox.Workspace, Snapshot: s, Notes: c.notes}
	add := func(layer shownLayer) {
		if layer.Rules == nil {
			layer.Rules = []policy.Rule{}
		}
		out.Layers = append(out.Layers, layer)
	}
	guards := shownLayer{Layer: "hard-guard", File: c.guards, Note: "a deny is final; allow only means: not blocked here"}
	if l.Guards != nil {
		guards.Rules = l.Guards.Rules
	}
	add(guards)
	if !c.alone {
		mode := shownLayer{Layer: "mode", Note: "what no rule names; restricted modes ask outside their roots"}
		for _, k := range policy.Kinds() {
			mode.Rules = append(mode.Rules, policy.Rule{Surface: string(k), Pattern: "*", Action: s.Profile.Mode.Default(k), Origin: policy.Origin{Authority: "mode"}})
		}
		add(mode)
	}
	if l.Policy != nil {
		if base := mcpBaseline(l.Policy); base != nil {
			add(shownLayer{Layer: "baseline", Note: "a server may be used, so servers may be listed and searched", Rules: base})
		}
	}
	rules := shownLayer{Layer: "policy", File: c.policy}
	if l.Policy != nil {
		if u := l.Policy.Universal; u != nil {
			if s.Profile.Source != policy.SourceDefaulted {
				rules.Note = fmt.Sprintf("its \"*\" (%s, %s) does not count: a mode was chosen", u.Action, u.Origin)
			} else {
				rules.Rules = append(rules.Rules, *u)
			}
		}
		rules.Rules = append(rules.Rules, l.Policy.Rules...)
	}
	add(rules)
	for _, file := range c.agents {
		agent := shownLayer{Layer: "frontmatter", File: file, Note: "can only restrict"}
		for _, f := range l.Frontmatter {
			if f.Name != file.Path {
				continue
			}
			if f.Universal != nil {
				agent.Rules = append(agent.Rules, *f.Universal)
			}
			agent.Rules = append(agent.Rules, f.Rules...)
		}
		add(agent)
	}
	if l.InvalidScope != "" {
		add(shownLayer{Layer: "fail-closed", Note: l.InvalidScope + " cannot be used: what would be allowed is asked",
			Rules: []policy.Rule{{Surface: "*", Pattern: "*", Action: policy.Ask, Origin: policy.Origin{Authority: "fail-closed", File: l.InvalidScope}}}})
	}
	if c.settings != nil && c.settings.Present {
		add(shownLayer{Layer: "settings", File: c.settings, Note: "opens roots, hosts and capabilities for restricted sessions; see the snapshot"})
	}
	if l.Yolo {
		add(shownLayer{Layer: "yolo", Note: "asks become allows, but what only a human may answer",
			Rules: []policy.Rule{{Surface: "*", Pattern: "*", Action: policy.Allow, Origin: l.YoloOrigin}}})
	}
	if l.Guards != nil && len(l.Guards.ProtectedWrites) > 0 {
		add(shownLayer{Layer: "protected", File: c.guards, Note: "only a human may allow these writes", Rules: l.Guards.ProtectedWrites})
	}
	return out
}

// mcpBaseline is what the engine adds where the policy allows any use of a server.
func mcpBaseline(f *policy.PolicyFile) []policy.Rule {
	for _, r := range f.Rules {
		if r.Surface != "mcp" || r.Action != policy.Allow {
			continue
		}
		var out []policy.Rule
		for _, name := range []string{"mcp_status", "mcp_list", "mcp_search", "mcp_describe", "mcp_connect"} {
			o := r.Origin
			o.Authority = "baseline"
			out = append(out, policy.Rule{Surface: "mcp", Pattern: name, Action: policy.Allow, Origin: o})
		}
		return out
	}
	return nil
}

func printAuthority(w io.Writer, s shownAuthority) {
	fmt.Fprintf(w, "mode %s (%s)", s.Mode, s.Source)
	if s.Workspace != "" {
		fmt.Fprintf(w, ", workspace %s", visible(s.Workspace))
	}
	fmt.Fprintln(w)
	for i, l := range s.Layers {
		fmt.Fprintf(w, "%d %s", i+1, l.Layer)
		if l.File != nil {
			fmt.Fprintf(w, "  %s", visible(l.File.Path))
			if !l.File.Present {
				fmt.Fprint(w, "  (not there)")
			}
		}
		fmt.Fprintln(w)
		if l.Note != "" {
			fmt.Fprintf(w, "    %s\n", visible(l.Note))
		}
		width := 0
		for _, r := range l.Rules {
			width = max(width, len(r.Surface))
		}
		for _, r := range l.Rules {
			fmt.Fprintf(w, "    %-5s  %-*s  %q", r.Action, width, visible(r.Surface), r.Pattern)
			if r.Origin.File != "" {
				fmt.Fprintf(w, "  %s", visible(r.Origin.String()))
			}
			if r.Reason != "" {
				fmt.Fprintf(w, "  %s", visible(clip(r.Reason)))
			}
			fmt.Fprintln(w)
		}
	}
	for _, n := range s.Notes {
		fmt.Fprintf(w, "note: %s\n", visible(n))
	}
}

// ---- lint

func policyLintCommand() *cli.Command {
	return &cli.Command{
		Name: "lint", Usage: "look for rules that do not do what they seem to: shadowed, unreachable, contradictory, dangerously wide",
		UsageText: "pioneer-super policy lint [--json] [--hard-guards FILE] [FILE]",
		CustomHelpTemplate: helpText(`FILE is the policy of the configuration directory unless it is named; that one is
looked at with the hard guards beside it, and with the files of agents that count
here: the operator's and those of trusted projects.

Exit codes: 0 nothing found, 1 findings, 2 wrong usage or a bad file.`,
			"pioneer-super policy lint\npioneer-super policy lint --json team.policy.jsonc"),
		Flags: []cli.Flag{
			boolFlag("json", "print the findings as JSON"),
			&cli.StringFlag{Name: "hard-guards", Usage: "a hard-guard `FILE` that may make rules unreachable"},
		},
		Action: policyLint,
	}
}

// shownFinding is one finding with its place flat beside it.
type shownFinding struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	policy.Finding
}

func policyLint(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		return exit(2, "unexpected argument %q: one file at a time", args[1])
	}
	path, guardsPath, config := "", c.String("hard-guards"), ""
	if len(args) == 1 {
		path = args[0]
	} else {
		places, err := findPlaces()
		if err != nil {
			return exit(125, "%v", err)
		}
		config = places.Config
		path = filepath.Join(config, "policy.jsonc")
		if beside := filepath.Join(places.Config, "hard-guards.jsonc"); guardsPath == "" {
			if _, err := os.Stat(beside); err == nil {
				guardsPath = beside
			}
		}
	}
	file, err := readRuleFile(path)
	if err != nil {
		return badFile(err)
	}
	parsed, err := policy.ParsePolicy(path, file.data)
	if err != nil {
		return badFile(err)
	}
	var guards *policy.Guards
	if guardsPath != "" {
		g, err := readRuleFile(guardsPath)
		if err == nil {
			guards, err = policy.ParseGuards(guardsPath, g.data)
		}
		if err != nil {
			return badFile(err)
		}
	}
	findings := policy.Lint(parsed, guards)
	if config != "" {
		more, err := lintAgents(config, guards)
		if err != nil {
			return badFile(err)
		}
		findings = append(findings, more...)
	}
	if c.Bool("json") {
		shown := make([]shownFinding, len(findings))
		for i, f := range findings {
			shown[i] = shownFinding{f.Rule.Origin.File, f.Rule.Origin.Line, f.Rule.Origin.Column, f}
		}
		if err := printJSON(c.App.Writer, map[string]any{"findings": shown}, true); err != nil {
			return exit(125, "%v", err)
		}
	} else {
		for _, f := range findings {
			fmt.Fprintln(c.App.Writer, visible(f.String()))
		}
	}
	if len(findings) > 0 {
		return exitError{code: exitFindings}
	}
	return nil
}

// lintAgents looks at the files of agents that count in the current directory.
// They can only restrict, so that none of their rules is too wide. Mistakes of all
// files are reported at once.
func lintAgents(config string, guards *policy.Guards) ([]policy.Finding, error) {
	var settings *policy.Settings
	f, err := readConfigFile(filepath.Join(config, "config.jsonc"))
	if err == nil && f.Present {
		settings, err = policy.ParseSettings(f.Path, f.data)
	}
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dirs := []string{filepath.Join(config, "agents")}
	for _, project := range settings.Trusted(canonical(cwd)) {
		dirs = append(dirs, filepath.Join(project, policy.ProjectAgents))
	}
	var out []policy.Finding
	var problems []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, err)
		}
		for _, e := range entries {
			if e.IsDir() || filepath.Ext(e.Name()) != ".md" {
				continue
			}
			file, err := readRuleFile(filepath.Join(dir, e.Name()))
			if err != nil {
				problems = append(problems, err)
				continue
			}
			agent, err := policy.ParseAgent(file.Path, file.data)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			if agent.Permission == nil {
				continue
			}
			for _, found := range policy.Lint(agent.Permission, guards) {
				if found.Check != "wide" {
					out = append(out, found)
				}
			}
		}
	}
	return out, errors.Join(problems...)
}

// ---- test

func policyTestCommand() *cli.Command {
	return &cli.Command{
		Name: "test", Usage: "ask a table of expectations that stands beside a policy",
		UsageText: "pioneer-super policy test [--policy FILE] [--mode MODE] [--json] TABLE",
		CustomHelpTemplate: helpText(`The policy is named by --policy; else that of NAME.test.jsonc is NAME.jsonc beside
it, else policy.jsonc in the same folder.

A table is JSON with comments:
   {
     // what the questions are asked under; all four may be missing
     "mode": "supervised", "workspace": "/work", "cwd": "/work", "home": "/home/user",
     "expect": [
       {"surface": "bash", "value": "git push", "verdict": "deny", "rule": "git push *"},
       {"surface": "bash", "value": "ls | xargs rm", "verdict": "ask"},
       {"tool": "Edit", "path": "~/.ssh/config", "verdict": "deny", "authority": "policy"},
     ],
   }
A row is a question with its "verdict": allow, ask or deny. "rule" and "authority",
where they stand, have to be the pattern and the layer that decided; "comment" is
for you. Without "mode" the policy is asked alone, as in check --policy. Commands
are taken apart, no program is looked up and no file of this machine is read.

Exit codes: 0 as expected, 1 not as expected, 2 wrong usage or a bad file.`,
			"pioneer-super policy test policy.test.jsonc\npioneer-super policy test --policy team.jsonc --mode supervised team.test.jsonc"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "policy", Usage: "the policy `FILE`"},
			&cli.StringFlag{Name: "mode", Usage: "the `MODE` below the rules, instead of the table's"},
			boolFlag("json", "print the failures as JSON"),
		},
		Action: policyTest,
	}
}

type shownFailure struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Column   int           `json:"column"`
	What     string        `json:"what"`
	Expected policy.Action `json:"expected"`
	Got      policy.Action `json:"got"`
	Reason   string        `json:"reason"`
}

func policyTest(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return exit(2, "expected one table of expectations, got %d arguments", len(args))
	}
	file, err := readRuleFile(args[0])
	if err != nil {
		return badFile(err)
	}
	table, err := policy.ParseExpectations(args[0], file.data)
	if err != nil {
		return badFile(err)
	}
	path, err := policyBeside(c.String("policy"), args[0])
	if err != nil {
		return err
	}
	r := request{policy: path, mode: table.Mode, cwd: table.Cwd, home: table.Home}
	if m := c.String("mode"); m != "" {
		if r.mode, err = policy.ParseMode(m); err != nil {
			return exit(2, "--mode: %v", err)
		}
	}
	a, err := composeTable(r, table.Workspace)
	if err != nil {
		return badFile(err)
	}
	k := &checker{composed: a, pure: true}
	failures := table.Run(a.chain, func(q policy.Question) policy.Verdict {
		ans := k.question(q)
		v := policy.Verdict{ID: q.ID, Verdict: ans.Verdict, Authority: ans.Authority, Value: ans.Value, Reason: ans.Reason, HumanOnly: ans.HumanOnly}
		if ans.Rule != nil {
			v.Rule = *ans.Rule
		}
		return v
	})
	if c.Bool("json") {
		shown := make([]shownFailure, len(failures))
		for i, f := range failures {
			o := f.Expectation.Origin
			shown[i] = shownFailure{o.File, o.Line, o.Column, f.What, f.Expectation.Verdict, f.Got.Verdict, f.Got.Reason}
		}
		if err := printJSON(c.App.Writer, map[string]any{"policy": path, "rows": len(table.Rows), "failures": shown}, true); err != nil {
			return exit(125, "%v", err)
		}
	} else {
		for _, f := range failures {
			fmt.Fprintln(c.App.Writer, visible(f.String()))
		}
		fmt.Fprintf(c.App.Writer, "%d of %d as expected by %s\n", len(table.Rows)-len(failures), len(table.Rows), visible(path))
	}
	if len(failures) > 0 {
		return exitError{code: exitFindings}
	}
	return nil
}

// policyBeside finds the policy that a table is about.
func policyBeside(named, table string) (string, error) {
	if named != "" {
		return named, nil
	}
	dir, base := filepath.Split(table)
	var tries []string
	for _, ext := range []string{".test.jsonc", ".tests.jsonc", ".test.json", ".tests.json"} {
		if name, ok := strings.CutSuffix(base, ext); ok && name != "" {
			tries = append(tries, dir+name+".jsonc", dir+name+".json")
		}
	}
	tries = append(tries, dir+"policy.jsonc")
	for _, p := range tries {
		if st, err := os.Stat(p); err == nil && !st.IsDir() && p != table {
			return p, nil
		}
	}
	return "", exit(2, "%s: no policy beside it (%s): expected --policy FILE", table, strings.Join(tries, ", "))
}

// composeTable composes a policy file for a table: nothing of this machine counts.
func composeTable(r request, workspace string) (*composed, error) {
	c := &composed{cwd: r.cwd, home: r.home, alone: r.mode == ""}
	if err := c.readPolicy(r.policy, true); err != nil {
		return nil, err
	}
	source := policy.SourceComposer
	if r.mode == "" {
		source = policy.SourceDefaulted
	}
	c.finish(policy.ResolveInput{Mode: r.mode, Source: source, Workspace: workspace, Cwd: r.cwd})
	return c, nil
}

// ---- prompt-section

func promptSectionCommand() *cli.Command {
	return &cli.Command{
		Name: "prompt-section", Usage: "print what a model is told of its permissions; nothing for plain full access",
		UsageText: "pioneer-super prompt-section [--mode MODE] [--cwd DIR]",
		CustomHelpTemplate: helpText(`What it says is for orientation: the supervisor decides whatever it says.`,
			"pioneer-super prompt-section --mode supervised\npioneer-super prompt-section --mode auto_accept_edits --cwd ~/src/project"),
		Flags: authorityFlags(),
		Action: func(c *cli.Context) error {
			args, err := positional(c)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return exit(2, "unexpected argument %q", args[0])
			}
			a, err := composedOf(c)
			if err != nil {
				return err
			}
			fmt.Fprint(c.App.Writer, policy.PromptSection(a.layers.Snapshot))
			return nil
		},
	}
}
