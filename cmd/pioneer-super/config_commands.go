package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/policy"
)

// maxAgentFiles bounds the agent files that are looked at.
const maxAgentFiles = 1000

func configCommand() *cli.Command {
	return groupCommand("config", "start, check and describe the configuration",
		`The configuration is $XDG_CONFIG_HOME/pioneer-super, or ~/.config/pioneer-super:
   policy.jsonc        rules
   hard-guards.jsonc   denies that nothing loosens, writes that only a human allows
   config.jsonc        folders, hosts and capabilities of restricted sessions
   agents/NAME.md      what restricts a single agent
All of them may be missing.`,
		"pioneer-super config init\npioneer-super config check\npioneer-super config schema > ~/.config/pioneer-super/policy.schema.json",
		configInitCommand(), configCheckCommand(), configSchemaCommand())
}

func configSchemaCommand() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a file, for editors",
		UsageText: "pioneer-super config schema [ " + strings.Join(schemaNames(), " | ") + " ]",
		CustomHelpTemplate: helpText(`The files are JSON with comments. Name the schema in the file itself to have it
completed: "$schema": "./policy.schema.json". Without an argument it is the policy's.`,
			"pioneer-super config schema > ~/.config/pioneer-super/policy.schema.json\npioneer-super config schema cap"),
		Action: func(c *cli.Context) error {
			args, err := positional(c)
			if err != nil {
				return err
			}
			which := "policy"
			if len(args) == 1 {
				which = args[0]
			}
			for _, s := range schemas {
				if s.name == which && len(args) <= 1 {
					if err := printJSON(c.App.Writer, s.make(), true); err != nil {
						return exit(125, "%v", err)
					}
					return nil
				}
			}
			return exit(2, "schema of %q: expected %s", strings.Join(args, " "), strings.Join(schemaNames(), ", "))
		},
	}
}

//go:embed starter/policy.jsonc
var starterPolicy []byte

func configInitCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a commented policy to start from into the configuration directory",
		UsageText: "pioneer-super config init [--force]",
		CustomHelpTemplate: helpText(`A policy that is there is not touched, unless --force says so.`,
			"pioneer-super config init\npioneer-super policy lint"),
		Flags:  []cli.Flag{boolFlag("force", "replace the policy that is there")},
		Action: configInit,
	}
}

func configInit(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return exit(2, "unexpected argument %q", args[0])
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	if err := os.MkdirAll(places.Config, 0o700); err != nil {
		return exit(125, "%v", err)
	}
	path := filepath.Join(places.Config, "policy.jsonc")
	if err := writeNew(path, starterPolicy, c.Bool("force")); errors.Is(err, fs.ErrExist) {
		return exit(2, "%s is there already; --force replaces it", path)
	} else if err != nil {
		return exit(125, "%v", err)
	}
	fmt.Fprintln(c.App.Writer, path)
	return nil
}

// writeNew writes a file whole or not at all. Only replace lets it take the place
// of another: link(2), unlike rename(2), refuses to.
func writeNew(path string, data []byte, replace bool) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if replace {
		return os.Rename(tmp.Name(), path)
	}
	return os.Link(tmp.Name(), path)
}

func configCheckCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "report every mistake of every file of the configuration",
		UsageText: "pioneer-super config check [--json]",
		CustomHelpTemplate: helpText(`It reads policy.jsonc, hard-guards.jsonc, config.jsonc and agents/*.md. A file that
is not there is no mistake; one that others may write is.

Exit codes: 0 no mistake, 1 mistakes, 2 wrong usage, 125 failure.`,
			"pioneer-super config check\npioneer-super config check --json"),
		Flags:  []cli.Flag{boolFlag("json", "print the mistakes as JSON")},
		Action: configCheck,
	}
}

// checkedFile is one file of the configuration and what is wrong with it.
type checkedFile struct {
	ruleFile
	Problems []policy.Problem `json:"problems"`
}

func configCheck(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return exit(2, "unexpected argument %q", args[0])
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	checked, err := checkFiles(places.Config)
	if err != nil {
		return exit(125, "%v", err)
	}
	found := 0
	for _, f := range checked {
		found += len(f.Problems)
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, map[string]any{"directory": places.Config, "files": checked}, true); err != nil {
			return exit(125, "%v", err)
		}
	} else {
		for _, f := range checked {
			state := "not there"
			if f.Present {
				state = "good"
			}
			for _, p := range f.Problems {
				state = ""
				text := p.Error()
				if p.Line == 0 {
					text = p.File + ": " + p.What
					if p.Expected != "" {
						text += ", expected " + p.Expected
					}
				}
				fmt.Fprintln(c.App.Writer, visible(text))
			}
			if state != "" {
				fmt.Fprintf(c.App.Writer, "%s: %s\n", visible(f.Path), state)
			}
		}
	}
	if found > 0 {
		return exitError{code: exitFindings}
	}
	return nil
}

// checkFiles reads every file of the configuration.
func checkFiles(dir string) ([]checkedFile, error) {
	readers := []struct {
		path string
		read func(string, []byte) error
	}{
		{filepath.Join(dir, "policy.jsonc"), func(n string, d []byte) error { _, err := policy.ParsePolicy(n, d); return err }},
		{filepath.Join(dir, "hard-guards.jsonc"), func(n string, d []byte) error { _, err := policy.ParseGuards(n, d); return err }},
		{filepath.Join(dir, "config.jsonc"), func(n string, d []byte) error { _, err := policy.ParseSettings(n, d); return err }},
	}
	projects, misplaced := trustedFolders(filepath.Join(dir, "config.jsonc"))
	for _, folder := range append([]string{filepath.Join(dir, "agents")}, projects...) {
		agents, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if len(agents) > maxAgentFiles {
			return nil, fmt.Errorf("%s: %d files, expected at most %d", folder, len(agents), maxAgentFiles)
		}
		for _, a := range agents {
			if !a.IsDir() && filepath.Ext(a.Name()) == ".md" {
				readers = append(readers, struct {
					path string
					read func(string, []byte) error
				}{filepath.Join(folder, a.Name()), func(n string, d []byte) error { _, err := policy.ParseAgent(n, d); return err }})
			}
		}
	}
	out := misplaced
	for _, d := range []string{dir, filepath.Join(dir, "agents")} {
		if p := openToOthers(d, "0700"); p != nil {
			out = append(out, checkedFile{ruleFile{Path: d, Present: true}, p})
		}
	}
	for _, r := range readers {
		f, err := readConfigFile(r.path)
		checked := checkedFile{ruleFile: f, Problems: []policy.Problem{}}
		if err == nil && f.Present {
			if strings.HasPrefix(r.path, dir) { // a project's is whose the project is
				checked.Problems = append(checked.Problems, openToOthers(r.path, "0600")...)
			}
			err = r.read(r.path, f.data)
		}
		var problems policy.Problems
		switch {
		case errors.As(err, &problems):
			checked.Problems = append(checked.Problems, problems...)
		case err != nil:
			checked.Problems = append(checked.Problems, policy.Problem{File: r.path, What: err.Error()})
		}
		out = append(out, checked)
	}
	return out, nil
}

// trustedFolders are the folders of agents of the projects that the settings trust,
// and the mistakes of the projects: one whose path leads through a link is around no
// directory in which an agent runs.
func trustedFolders(settings string) (folders []string, mistakes []checkedFile) {
	f, err := readConfigFile(settings)
	if err != nil || !f.Present {
		return nil, nil
	}
	parsed, err := policy.ParseSettings(f.Path, f.data)
	if err != nil {
		return nil, nil // it is told with the file
	}
	for _, p := range parsed.TrustedProjects {
		real, err := filepath.EvalSymlinks(p)
		switch {
		case err != nil:
			mistakes = append(mistakes, checkedFile{ruleFile{Path: p}, []policy.Problem{{File: p, What: "the trusted project is not there", Expected: "a folder"}}})
		case real != p:
			mistakes = append(mistakes, checkedFile{ruleFile{Path: p}, []policy.Problem{{File: p, What: "the trusted project is reached through a link", Expected: fmt.Sprintf("%q in trustedProjects", real)}}})
		default:
			folders = append(folders, filepath.Join(p, policy.ProjectAgents))
		}
	}
	return folders, mistakes
}

// openToOthers is the mistake of a file of power that others may change. Windows
// has no such bits.
func openToOthers(path, expected string) []policy.Problem {
	st, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || st.Mode().Perm()&0o022 == 0 {
		return nil
	}
	return slices.Clip([]policy.Problem{{File: path, What: fmt.Sprintf("others may write it (mode %04o)", st.Mode().Perm()), Expected: "mode " + expected}})
}
