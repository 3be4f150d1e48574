package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/integration/marks"
)

func newApp() *cli.App {
	cli.HelpFlag = &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help", DisableDefaultText: true}
	app := &cli.App{
		Name:                 "pioneer-super",
		Usage:                "one authority at the root of a tree of coding agents",
		UsageText:            "pioneer-super <command> [flags] [-- COMMAND...]",
		HideVersion:          true,
		EnableBashCompletion: true,
		// Exit codes are decided in one place, by the error that a command returns.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   usageError(2),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit(2, "unknown command %q; pioneer-super help lists them", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			spawnCommand(), execCommand(), askCommand(), contextCommand(), turnCommand(),
			treeCommand(), psCommand(), logCommand(), pruneCommand(), checkCommand(), fsCommand(), netCommand(), policyCommand(), configCommand(), promptSectionCommand(), grantsCommand(), approveCommand(), stopCommand(), doctorCommand(), demoCommand(), versionCommand(),
		},
	}
	for _, c := range app.Commands {
		if c.OnUsageError == nil {
			c.OnUsageError = usageError(2)
		}
	}
	return app
}

func usageError(code int) cli.OnUsageErrorFunc {
	return func(c *cli.Context, err error, _ bool) error {
		return exit(code, "%v; pioneer-super %s --help shows the flags", err, c.Command.Name)
	}
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Action: func(c *cli.Context) error { fmt.Println("pioneer-super", build()); return nil },
	}
}

func spawnCommand() *cli.Command {
	return &cli.Command{
		Name:      "spawn",
		Usage:     "start an agent in a session of its own: the first one starts a tree",
		UsageText: "pioneer-super spawn [flags] -- COMMAND [ARGUMENT...]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "mode", Usage: "full_access, auto_accept_edits or supervised; a child without it inherits"},
			&cli.StringFlag{Name: "cap", Usage: "a cap `FILE` (JSONC): a partial snapshot that this session and its children cannot exceed"},
			&cli.StringFlag{Name: "policy", Usage: "the tree's policy `FILE`, instead of the one in the configuration directory (root only)"},
			&cli.StringFlag{Name: "agent", Usage: "a `NAME` that humans see"},
			&cli.StringFlag{Name: "cwd", Usage: "the directory to start in"},
			&cli.GenericFlag{Name: "user-message", Value: &texts{}, Usage: "a `FILE` with what you want of the agent, in your words, for the model reviewer; may be given again (root only)"},
			&cli.BoolFlag{Name: "headless", Usage: "no terminal answers: an ask that nothing else can answer is denied at once (root only)"},
			&cli.BoolFlag{Name: "interactive", Usage: "ask in the terminal although CI is set (root only)"},
			&cli.BoolFlag{Name: "new-tree", Usage: "start a tree of its own although one is above"},
			&cli.StringFlag{Name: "sandbox-backend", Usage: "linux-ns or linux-landlock (default: the strongest that works here; root only)"},
			&cli.BoolFlag{Name: "no-envelope", Usage: "no control envelope: sudo works inside, survivors are then unknown (root only)"},
			&cli.BoolFlag{Name: "phrase", Usage: "ask for a phrase that later proves you from another terminal (root only)"},
			&cli.StringFlag{Name: "parent", Usage: "the foreign `SESSION` that asks go to when nobody is here; needed where nothing proves it (root only)"},
			&cli.IntFlag{Name: "approver-fd", Value: -1, Usage: "an inherited socket `N` over which a program of yours answers (root only)"},
			&cli.DurationFlag{Name: "max-wall", Usage: "stop the session after this `TIME`", DefaultText: "no limit"},
			&cli.DurationFlag{Name: "max-idle", Usage: "stop it when it asked for nothing and ran nothing for this `TIME`", DefaultText: "no limit"},
			&cli.IntFlag{Name: "max-processes", Usage: "stop it when it and its children have more than `N` processes", DefaultText: "no limit"},
			&cli.IntFlag{Name: "max-depth", Value: 8, Usage: "how many sessions may stand below each other (root only)"},
			&cli.IntFlag{Name: "status-fd", Value: -1, Usage: "write one JSON line about the end to descriptor `N`"},
		},
		OnUsageError: usageError(125),
		Action:       func(c *cli.Context) error { return spawn(c) },
	}
}

func execCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run a tool: judged, asked for if need be, confined",
		UsageText: "pioneer-super exec [flags] -- COMMAND [ARGUMENT...]\n   pioneer-super exec [flags] -c 'SHELL TEXT' [NAME [ARGUMENT...]]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "c", Usage: "shell `TEXT` to judge and run"},
			&cli.StringFlag{Name: "shell", Value: "bash", Usage: "whose text it is: bash or sh"},
			&cli.StringFlag{Name: "cwd", Usage: "the directory to run in"},
			&cli.IntFlag{Name: "status-fd", Value: -1, Usage: "write one JSON line about the end to descriptor `N`"},
		},
		OnUsageError: usageError(125),
		Action:       func(c *cli.Context) error { return execTool(c) },
	}
}

func askCommand() *cli.Command {
	return &cli.Command{
		Name:      "ask",
		Usage:     "ask whether something may be done; nothing is run",
		UsageText: "pioneer-super ask --surface SURFACE --value VALUE [--tool TOOL] [--json]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "surface", Required: true, Usage: "bash, mcp, path_read, path_write, a tool…"},
			&cli.StringFlag{Name: "value", Usage: "the command, path or target"},
			&cli.StringFlag{Name: "tool", Usage: "the tool's name"},
			&cli.BoolFlag{Name: "json", Usage: "print the answer as JSON"},
		},
		Action: func(c *cli.Context) error { return ask(c) },
	}
}

func contextCommand() *cli.Command {
	return &cli.Command{
		Name:   "context",
		Usage:  "say which tree and session this process is in, and which foreign session is its parent",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print it as JSON"}},
		Action: func(c *cli.Context) error { return showContext(c) },
	}
}

func turnCommand() *cli.Command {
	return &cli.Command{
		Name: "turn", Usage: "mark the start or the end of a turn: its grants end with it",
		UsageText: "pioneer-super turn { start | end }\npioneer-super turn marks AGENT",
		CustomHelpTemplate: helpText(`An agent marks its own turns; a tool may only end one. A session that marks none is
one turn. marks prints what makes an agent do it by itself; an agent that has one: `+strings.Join(marks.Agents(), ", ")+`.`,
			"pioneer-super turn end\npioneer-super turn marks pi > ~/.pi/agent/extensions/pioneer-super-turns.ts"),
		Action: func(c *cli.Context) error {
			if c.Args().First() != "marks" {
				return turn(c)
			}
			text, ok := marks.Text(c.Args().Get(1))
			if !ok || c.NArg() != 2 {
				return exit(2, "turn marks: expected one of %s", strings.Join(marks.Agents(), ", "))
			}
			fmt.Fprint(c.App.Writer, text)
			return nil
		},
	}
}

func treeCommand() *cli.Command {
	return &cli.Command{
		Name: "tree", Usage: "show the sessions of a tree: the newest that runs, else the newest, or the one that is named",
		UsageText: "pioneer-super tree [--json] [--all] [TREE]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print it as JSON"},
			&cli.BoolFlag{Name: "all", Usage: "every tree, not only one"},
		},
		Action: func(c *cli.Context) error { return showTree(c) },
	}
}

func logCommand() *cli.Command {
	return &cli.Command{
		Name: "log", Usage: "tell the story of a tree: the newest, or the one that is named",
		UsageText: "pioneer-super log [--json] [TREE]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print the audit as it is"}},
		Action:    func(c *cli.Context) error { return showLog(c) },
	}
}

func approveCommand() *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "answer a tree's questions from this terminal, after pairing with the tree's own",
		UsageText: "pioneer-super approve [--phrase] [TREE]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "phrase", Usage: "prove yourself with the phrase of the tree"}},
		Action:    func(c *cli.Context) error { return approve(c) },
	}
}

func stopCommand() *cli.Command {
	return &cli.Command{
		Name: "stop", Usage: "stop a session with all below it, or a tree: from another terminal after pairing with the tree's own, from inside what is below one's own session",
		UsageText: "pioneer-super stop [--phrase] [--json] [SESSION | TREE]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "phrase", Usage: "prove yourself with the phrase of the tree"},
			&cli.BoolFlag{Name: "json", Usage: "print what it came to as JSON"},
		},
		Action: func(c *cli.Context) error { return stop(c) },
	}
}

func demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "see it work: a small tree with an allowed, a denied and an asked command",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "headless", Usage: "ask nobody, as in CI"},
			&cli.BoolFlag{Name: "keep", Usage: "keep the workspace"},
		},
		Action: func(c *cli.Context) error { return demo(c) },
	}
}

// warn prints one line of ours.
func warn(format string, args ...any) {
	fmt.Fprintln(os.Stderr, "pioneer-super: "+legible(strings.TrimRight(fmt.Sprintf(format, args...), "\n")))
}
