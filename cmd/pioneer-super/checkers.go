package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/sandbox/egress"
)

// maxChecks is how many paths or URLs one command looks at.
const maxChecks = 1000

func fsCommand() *cli.Command {
	return &cli.Command{
		Name:  "fs",
		Usage: "ask about files, for agents whose own file tools ask here",
		Subcommands: []*cli.Command{{
			Name:      "check",
			Usage:     "say whether paths may be read or written; nothing is asked and nothing is opened",
			UsageText: "pioneer-super fs check [--read | --write] [flags] PATH...",
			CustomHelpTemplate: helpText(`A path is judged as it is written and by where it leads: links are followed, of
a file that is not there yet the nearest folder that is decides. Inside a tree the
session's own authority answers, with its ancestors', caps and grants. Outside, or
with --policy or --mode, it is composed as for "check".

Exit codes, of several paths the most restrictive: 0 allow, 13 ask, 10 deny, 2 wrong
usage or a bad file, 125 failure.`,
				`pioneer-super fs check --write src/main.go
pioneer-super fs check --mode supervised --read /etc/hosts ~/.ssh/id_ed25519 --json`),
			Flags: append([]cli.Flag{
				boolFlag("read", "ask about reading, which is meant where neither is given"),
				boolFlag("write", "ask about writing, making and removing"),
				boolFlag("json", "print the answers as JSON"),
			}, authorityFlags()...),
			Action: fsCheck,
		}},
	}
}

func netCommand() *cli.Command {
	return &cli.Command{
		Name:  "net",
		Usage: "ask about hosts, for agents whose own web tools ask here",
		Subcommands: []*cli.Command{{
			Name:      "check",
			Usage:     "say whether URLs may be reached; nothing is asked, looked up or connected to",
			UsageText: "pioneer-super net check [--output PATH] [flags] URL...",
			CustomHelpTemplate: helpText(`Only http and https are reached. A host is judged in its one form: lower case,
punycode, addresses however they are written. What is denied is denied before
anything allows it. In a confined session an address that is not public is open only
where a rule names it; "localhost" names every loopback address. unix:PATH asks
about a socket, which no confined session reaches. With --output the file that a
download would write is judged first, and where that is not allowed, alone.

Inside a tree the session's own authority answers; see "fs check". Exit codes, of
several URLs the most restrictive: 0 allow, 13 ask, 10 deny, 2 wrong usage or a bad
file, 125 failure.`,
				`pioneer-super net check https://proxy.golang.org
pioneer-super net check --output dist/tool.tgz https://example.org/tool.tgz --json`),
			Flags: append([]cli.Flag{
				&cli.StringFlag{Name: "output", Usage: "the `PATH` that a download of the one URL would write"},
				boolFlag("json", "print the answers as JSON"),
			}, authorityFlags()...),
			Action: netCheck,
		}},
	}
}

// checked is the answer to one path or URL.
type checked struct {
	Path string `json:"path,omitempty"`
	// Real is where the path leads.
	Real    string        `json:"real,omitempty"`
	URL     string        `json:"url,omitempty"`
	Host    string        `json:"host,omitempty"`
	Access  string        `json:"access"` // read, write, connect
	Verdict policy.Action `json:"verdict"`
	Reason  string        `json:"reason"`
}

// An authorityAbove answers for the session that this process belongs to: a path with
// where it leads, or HOST:PORT.
type authorityAbove func(surface, value, real string) (policy.Action, string, error)

// asker answers questions of fs check and net check.
type asker struct {
	cwd, home string
	above     authorityAbove // nil outside a tree
	own       *checker       // outside a tree
}

func newAsker(c *cli.Context) (*asker, error) {
	r, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	a := &asker{cwd: r.cwd, home: r.home}
	if r.policy == "" && r.mode == "" && r.agent == "" {
		if a.above, err = ownTree(); err != nil || a.above != nil {
			return a, err
		}
	}
	composed, err := compose(r)
	if err != nil {
		return nil, badFile(err)
	}
	a.own = &checker{composed: composed}
	return a, nil
}

// path judges one path for path_read or path_write.
func (a *asker) path(surface, path string) (checked, error) {
	out := checked{Path: path, Access: strings.TrimPrefix(surface, "path_")}
	full := path
	if rest, ok := strings.CutPrefix(path, "~/"); ok && a.home != "" {
		full = filepath.Join(a.home, rest)
	} else if !filepath.IsAbs(path) {
		full = filepath.Join(a.cwd, path)
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return out, exit(2, "path %q: expected the name of a file or folder", path)
	}
	full = filepath.Clean(full)
	if out.Real = canonical(full); out.Real == "" || endless(out.Real) {
		out.Reason = "it cannot be told where this leads"
		return out, nil
	}
	if a.above != nil {
		var err error
		out.Verdict, out.Reason, err = a.above(surface, full, out.Real)
		return out, err
	}
	ans := a.own.question(policy.Question{Surface: surface, Value: full})
	out.Verdict, out.Reason = ans.Verdict, ans.Reason
	return out, nil
}

// endless says whether a path with its links followed still is one, or leads through
// one: those lead nowhere.
func endless(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode()&os.ModeSymlink != 0 || errors.Is(err, syscall.ELOOP)
}

// url judges one URL, or the socket unix:PATH.
func (a *asker) url(text string) (checked, error) {
	out := checked{URL: text, Access: "connect"}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return a.socket(out, path)
	}
	t, err := egress.ParseURL(text)
	if err != nil {
		out.Reason = err.Error()
		return out, nil
	}
	out.Host = t.String()
	if a.above != nil {
		out.Verdict, out.Reason, err = a.above("network", out.Host, "")
		return out, err
	}
	d := policy.DecideAll(a.own.chain, []policy.Query{policy.HostQuery(t.Host, strconv.Itoa(int(t.Port)))})
	var ans answer
	ans.decided(d)
	out.Verdict, out.Reason = d.Action, ans.Reason
	if d.Action == policy.Allow && a.own.confined() {
		listed := append(slices.Clone(a.own.layers.Snapshot.Open.Hosts), d.Rule.Pattern)
		if why := egress.NotPublic(t, listed); why != "" {
			out.Verdict, out.Reason = policy.Ask, why
		}
	}
	return out, nil
}

// socket judges a socket with a path: a confined session reaches none from outside.
func (a *asker) socket(out checked, path string) (checked, error) {
	file, err := a.path("path_write", path)
	if err != nil {
		return out, err
	}
	out.Host, out.Verdict, out.Reason = "", file.Verdict, file.Reason
	confined := a.own != nil && a.own.confined()
	if a.above != nil {
		v, _, err := a.above("socket", file.Path, file.Real)
		if err != nil {
			return out, err
		}
		confined = v != policy.Allow
	}
	if confined {
		out.Verdict, out.Reason = policy.Deny, "a confined session reaches no socket with a path but its own"
	}
	return out, nil
}

// confined says whether a session of this authority runs in a sandbox. Of one file
// that is asked alone nobody knows: then it does.
func (c *composed) confined() bool {
	return c.alone || c.layers.Snapshot.Profile.Mode != policy.FullAccess
}

func fsCheck(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if c.Bool("read") && c.Bool("write") {
		return exit(2, "--read and --write: expected one of them; what may be written may be read")
	}
	if err := countChecks(len(args), "paths"); err != nil {
		return err
	}
	a, err := newAsker(c)
	if err != nil {
		return err
	}
	surface := "path_read"
	if c.Bool("write") {
		surface = "path_write"
	}
	var all []checked
	for _, path := range args {
		one, err := a.path(surface, path)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	return printChecked(c, all)
}

func netCheck(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if err := countChecks(len(args), "URLs"); err != nil {
		return err
	}
	if c.IsSet("output") && (len(args) != 1 || c.String("output") == "") {
		return exit(2, "--output: expected the path of a file, and one URL")
	}
	a, err := newAsker(c)
	if err != nil {
		return err
	}
	var all []checked
	if c.IsSet("output") {
		file, err := a.path("path_write", c.String("output"))
		if err != nil {
			return err
		}
		all = append(all, file)
		if file.Verdict != policy.Allow {
			return printChecked(c, all)
		}
	}
	for _, text := range args {
		one, err := a.url(text)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	return printChecked(c, all)
}

func countChecks(n int, what string) error {
	if n == 0 || n > maxChecks {
		return exit(2, "%d %s, expected 1 to %d", n, what, maxChecks)
	}
	return nil
}

// printChecked prints the answers and leaves with the most restrictive.
func printChecked(c *cli.Context, all []checked) error {
	verdict := policy.Allow
	for _, one := range all {
		verdict = min(verdict, one.Verdict)
	}
	if c.Bool("json") {
		err := printJSON(c.App.Writer, struct {
			Verdict policy.Action `json:"verdict"`
			Results []checked     `json:"results"`
		}{verdict, all}, true)
		if err != nil {
			return exit(125, "%v", err)
		}
		return verdictExit(verdict)
	}
	for _, one := range all {
		what := one.URL
		if what == "" {
			what = one.Path
		}
		fmt.Fprintf(c.App.Writer, "%s  %s %s\n", one.Verdict, one.Access, visible(clip(what)))
		if one.Real != "" && one.Real != one.Path {
			fmt.Fprintf(c.App.Writer, "  leads to %s\n", visible(clip(one.Real)))
		}
		fmt.Fprintf(c.App.Writer, "  %s\n", visible(one.Reason))
	}
	return verdictExit(verdict)
}
