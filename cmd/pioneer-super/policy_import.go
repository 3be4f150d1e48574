package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/policy/importer"
	"github.com/getpioneer/pioneer-super/policy/shell"
)

const (
	// maxImportFiles bounds the files of one folder, maxImportFile each of them in
	// bytes: one more than the importer takes, so that it says what is too much.
	maxImportFiles = 100
	maxImportFile  = 1<<20 + 1
)

type importableTool struct {
	tool, title string
	files       []string
	path        string // what PATH is, for the help
}

// importable are the tools whose rules can be read, and which files of a folder
// are theirs, as patterns of names in the order in which they are read.
var importable = []importableTool{
	{"claude-code", "Claude Code", []string{"settings.json", "settings.local.json"}, "a settings.json, or the .claude folder with it"},
	{"opencode", "OpenCode", []string{"opencode.json", "opencode.jsonc"}, "an opencode.json or opencode.jsonc, or the folder with it"},
	{"codex", "Codex", []string{"config.toml", "*.rules"}, "a .rules file or the config.toml, or a folder of them"},
	{"gemini", "Gemini CLI", []string{"settings.json", "*.toml"}, "a policy .toml or the settings.json, or a folder of them"},
}

func importTools() []string {
	var out []string
	for _, t := range importable {
		out = append(out, t.tool)
	}
	return out
}

func policyImportCommand() *cli.Command {
	var paths strings.Builder
	for _, t := range importable {
		fmt.Fprintf(&paths, "   %-12s  %s\n", t.tool, t.path)
	}
	return &cli.Command{
		Name: "import", Usage: "write the rules of another tool as a policy and hard guards of ours",
		UsageText: "pioneer-super policy import [--hard-guards | --agent NAME] { " + strings.Join(importTools(), " | ") + " } PATH",
		CustomHelpTemplate: helpText(`PATH is
`+paths.String()+`
An import is two files, and both have to be installed. Denies that nothing may
loosen are hard guards: they are NOT in the policy. Run it twice, as below. With the
policy alone what the other tool denies is not denied here.

On standard error there is one line for each rule and what became of it:
   kept      it means the same here       guard     it is in the hard guards
   narrowed  it permits less here         widened   it denies or asks for more here
   dropped   it is not carried over       note      it is no rule, but concerns you
Where a rule of the other tool speaks, both files together are never looser than
it; the one exception, a deny for part of a tool's input that becomes an ask for
the whole tool, is said. Nothing is written: look, then redirect.

Exit codes: 0 imported, 2 wrong usage or a bad file.`,
			`pioneer-super policy import claude-code .claude > policy.jsonc
pioneer-super policy import claude-code .claude --hard-guards > hard-guards.jsonc
pioneer-super policy lint --hard-guards hard-guards.jsonc policy.jsonc`),
		Flags: []cli.Flag{
			boolFlag("hard-guards", "print hard-guards.jsonc, with the denies, instead of the policy"),
			&cli.StringFlag{Name: "agent", Usage: "print the agent file `NAME`.md instead, where the tool has rules for single agents"},
		},
		Action: policyImport,
	}
}

func policyImport(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) != 2 {
		return exit(2, "expected the name of a tool (%s) and a path", strings.Join(importTools(), ", "))
	}
	agent := c.String("agent")
	if c.Bool("hard-guards") && c.IsSet("agent") {
		return exit(2, "--hard-guards and --agent: expected only one of them, each is a file of its own")
	}
	i := slices.IndexFunc(importable, func(t importableTool) bool { return t.tool == args[0] })
	if i < 0 {
		return exit(2, "unknown tool %q, expected %s", args[0], strings.Join(importTools(), ", "))
	}
	tool := importable[i]
	files, err := readImport(args[1], tool.title, tool.files)
	if err != nil {
		return badFile(err)
	}
	result, err := importer.Import(tool.tool, files, importer.Options{Root: projectOf(files[0].Name)})
	if err != nil {
		return badFile(err)
	}
	guards, err := policy.ParseGuards("hard-guards.jsonc", result.Guards)
	if err != nil {
		return exit(125, "the imported guards do not hold: %v", err)
	}
	denies := 0
	for _, r := range guards.Rules {
		if r.Action == policy.Deny {
			denies++
		}
	}

	text := result.Policy
	head := fmt.Sprintf("Imported from %s: %s.", tool.title, args[1])
	switch {
	case c.IsSet("agent"):
		var known bool
		if text, known = result.Agents[agent]; !known {
			return exit(2, "--agent %q: %s", agent, agentsOf(result))
		}
		head = ""
	case c.Bool("hard-guards"):
		text = result.Guards
		head += "\nHalf of an import: policy.jsonc is the other half."
	case denies > 0:
		head += fmt.Sprintf("\nHalf of an import: %s in hard-guards.jsonc (--hard-guards), NOT here.", count(denies, "deny is", "denies are"))
	}
	var out strings.Builder
	for line := range strings.Lines(head) {
		out.WriteString("// " + visible(line) + "\n")
	}
	out.Write(text)
	if _, err := io.WriteString(c.App.Writer, out.String()); err != nil {
		return exit(125, "standard output: %v", err)
	}

	say := func(s string) { fmt.Fprintln(c.App.ErrWriter, visible(s)) }
	for _, n := range result.Notes {
		say(n.String())
	}
	again := func(more ...string) string {
		return shell.Quote(append([]string{"pioneer-super", "policy", "import", args[0], args[1]}, more...))
	}
	if result.Mode != "" {
		say(fmt.Sprintf("pioneer-super: the mode that comes nearest is %s: start with --mode %s", result.Mode, result.Mode))
	}
	if c.IsSet("agent") {
		return nil
	}
	for _, name := range agentNames(result) {
		say(fmt.Sprintf("pioneer-super: agent %s is restricted by a file of its own: %s > %s", name, again("--agent", name), shell.Quote([]string{"agents/" + name + ".md"})))
	}
	switch {
	case c.Bool("hard-guards"):
		say("pioneer-super: INSTALL BOTH FILES. These are the hard guards; the policy is the other half: " + again() + " > policy.jsonc")
	case denies > 0:
		say(fmt.Sprintf("pioneer-super: INSTALL BOTH FILES. %s in the hard guards and NOT in this policy: %s > hard-guards.jsonc", count(denies, "deny is", "denies are"), again("--hard-guards")))
	}
	return nil
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func agentNames(r *importer.Result) []string {
	var out []string
	for name := range r.Agents {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func agentsOf(r *importer.Result) string {
	if names := agentNames(r); len(names) > 0 {
		return "expected " + strings.Join(names, ", ")
	}
	return "there are no rules for single agents that can be carried over"
}

// projectOf is the folder that a leading "/" of a rule stands for: that of the
// project, whose settings are in its .claude. For the settings of a user, and
// wherever else, it is not known; then the importer takes any folder where a rule
// denies and none where it allows.
func projectOf(settings string) string {
	abs, err := filepath.Abs(settings)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(abs)
	home, _ := os.UserHomeDir()
	if filepath.Base(dir) != ".claude" || filepath.Dir(dir) == filepath.Clean(home) {
		return ""
	}
	return filepath.ToSlash(filepath.Dir(dir))
}

// readImport reads the file at path, or the files of a folder whose names are
// those of the tool.
func readImport(path, title string, names []string) ([]importer.File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if st.IsDir() {
		entries, err := os.ReadDir(path) // sorted by name
		if err != nil {
			return nil, err
		}
		paths = nil
		for _, pattern := range names {
			for _, e := range entries {
				if ok, err := filepath.Match(pattern, e.Name()); err != nil || !ok {
					continue
				}
				at := filepath.Join(path, e.Name())
				// A link to a file is a file of the folder.
				if st, err := os.Stat(at); err == nil && st.Mode().IsRegular() {
					paths = append(paths, at)
				}
			}
		}
		if len(paths) == 0 || len(paths) > maxImportFiles {
			return nil, fmt.Errorf("%s: %s of %s, expected 1 to %d named %s", path, count(len(paths), "file", "files"), title, maxImportFiles, strings.Join(names, " or "))
		}
	}
	var out []importer.File
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxImportFile))
		f.Close()
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(data) {
			return nil, fmt.Errorf("%s: not UTF-8 text", p)
		}
		out = append(out, importer.File{Name: p, Data: data})
	}
	return out, nil
}
