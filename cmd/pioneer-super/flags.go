package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// texts is a flag that may be given several times. A comma in it is a comma: paths
// and patterns have them.
type texts struct{ all []string }

// Set implements flag.Value.
func (t *texts) Set(s string) error { t.all = append(t.all, s); return nil }

// String implements flag.Value.
func (t *texts) String() string {
	if t == nil {
		return ""
	}
	return strings.Join(t.all, " ")
}

func textsOf(c *cli.Context, name string) []string {
	if t, ok := c.Generic(name).(*texts); ok {
		return t.all
	}
	return nil
}

// positional returns the arguments of a command and reads the flags that stand
// behind them, so that their order does not matter.
func positional(c *cli.Context) ([]string, error) {
	var out []string
	args := c.Args().Slice()
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			out = append(out, a)
			continue
		}
		if a == "--" {
			return append(out, args[i+1:]...), nil
		}
		name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
		flag := flagNamed(c.Command.Flags, name)
		if flag == nil {
			return nil, exit(2, "flag provided but not defined: %s; pioneer-super %s --help shows the flags", a, c.Command.HelpName)
		}
		if _, isBool := flag.(*cli.BoolFlag); isBool && !given {
			value = "true"
		} else if !given {
			if i++; i >= len(args) {
				return nil, exit(2, "flag needs an argument: %s", a)
			}
			value = args[i]
		}
		if err := c.Set(name, value); err != nil {
			return nil, exit(2, "invalid value %q for flag %s: %v", value, a, err)
		}
	}
	return out, nil
}

func flagNamed(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}

func boolFlag(name, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, DisableDefaultText: true}
}

// helpText is the help of a command: its usage lines, what it does, its flags, a
// few examples.
func helpText(about, examples string) string {
	indent := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "\n", "\n   "), "\n   \n", "\n\n")
	}
	out := "USAGE:\n   {{wrap .UsageText 3}}\n\n   {{wrap .Usage 3}}\n"
	out += "{{if .VisibleFlags}}\nFLAGS:{{template \"visibleFlagTemplate\" .}}\n{{end}}"
	if about != "" {
		out += "\n   " + indent(about) + "\n"
	}
	return out + "\nEXAMPLES:\n   " + indent(examples) + "\n"
}
