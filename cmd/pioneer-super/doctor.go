package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/integration"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/durable"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "say what this host can enforce, what each mode gives here, and what is in the way",
		UsageText: "pioneer-super doctor [--json]",
		CustomHelpTemplate: helpText(`It asks the kernel, looks at your directories, your configuration and the directory
that you are in, and changes nothing.

Exit codes: 0 nothing stands in the way of a restricted session, 1 something does,
2 wrong usage, 125 failure.`,
			"pioneer-super doctor\npioneer-super doctor --json"),
		Flags:  []cli.Flag{boolFlag("json", "print the findings as JSON")},
		Action: doctor,
	}
}

// diagnosis is all that the doctor found.
type diagnosis struct {
	Version string         `json:"version"`
	System  string         `json:"system"`
	Host    sandbox.Host   `json:"host"`
	Facts   []sandbox.Fact `json:"facts"`
	Modes   []modeProspect `json:"modes"`
	// Reach names what could type into this terminal, or act for this user, on
	// behalf of a process that can reach its socket.
	Reach  []string      `json:"reach"`
	Agents []foundAgent  `json:"agents"`
	Places []placeHealth `json:"places"`
	Config []checkedFile `json:"configuration"`
	Start  startHealth   `json:"start"`
	// Obstacles are what stands in the way of a restricted session.
	Obstacles []string `json:"obstacles"`
}

// modeProspect is what a mode gives to the tools of a session on this host.
type modeProspect struct {
	Mode policy.Mode `json:"mode"`
	sandbox.Prospect
}

// foundAgent is an agent's program on the PATH.
type foundAgent struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Adapter is the name of our adapter for it, "" for none.
	Adapter string `json:"adapter"`
}

// placeHealth is one of the three directories.
type placeHealth struct {
	Name    string `json:"name"`
	Dir     string `json:"directory"`
	Made    bool   `json:"made"`
	Problem string `json:"problem"`
}

// startHealth is what a restricted session that is started in this directory would
// work on, and why it would be refused.
type startHealth struct {
	Dir       string `json:"directory"`
	Workspace string `json:"workspace"`
	Problem   string `json:"problem"`
}

func doctor(c *cli.Context) error {
	args, err := positional(c)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return exit(2, "unexpected argument %q", args[0])
	}
	d, err := diagnose()
	if err != nil {
		return exit(125, "%v", err)
	}
	if c.Bool("json") {
		err = printJSON(c.App.Writer, d, true)
	} else {
		err = d.print(c.App.Writer)
	}
	switch {
	case err != nil:
		return exit(125, "%v", err)
	case len(d.Obstacles) > 0:
		return exitError{code: exitFindings}
	}
	return nil
}

func diagnose() (*diagnosis, error) {
	places, err := findPlaces()
	if err != nil {
		return nil, err
	}
	d := &diagnosis{Version: build(), System: runtime.GOOS + "/" + runtime.GOARCH, Host: sandbox.Probe(), Reach: reach(), Agents: findAgents()}
	if d.Host.Backend != "" {
		d.Host = d.Host.WithNamespaces(keeper.TryRooms())
	}
	d.Facts = d.Host.Facts()
	for _, p := range d.Host.Prospects() {
		d.Modes = append(d.Modes, modeProspect{modeOf[p.Mode], p})
	}
	d.Places = []placeHealth{lookAt("state", places.State), lookAt("run", places.Run), lookAt("configuration", places.Config)}
	if d.Config, err = checkFiles(places.Config); err != nil {
		return nil, err
	}
	d.Start = lookHere(places)
	d.Obstacles = d.obstacles()
	return d, nil
}

// modeOf is the mode whose tools run in a sandbox mode.
var modeOf = map[string]policy.Mode{
	sandbox.ModeUnrestricted: policy.FullAccess, sandbox.ModeWorkspaceWrite: policy.AutoAcceptEdits, sandbox.ModeReadOnly: policy.Supervised,
}

// lookAt looks at a directory and makes nothing: one that is missing is made by the
// first tree, where the nearest directory above it lets us.
func lookAt(name, dir string) placeHealth {
	p := placeHealth{Name: name, Dir: dir, Made: true}
	err := durable.CheckDir(dir)
	near := dir
	if errors.Is(err, fs.ErrNotExist) {
		p.Made, err = false, nil
		for !exists(near) && near != filepath.Dir(near) {
			near = filepath.Dir(near)
		}
	}
	if err == nil && name != "configuration" {
		var kind string
		var remote bool
		if kind, remote, err = durable.Network(near); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		} else if remote {
			err = fmt.Errorf("it is on a network file system (%s), where a lock and a socket mean nothing to this machine: set %s to a directory on a disk of this machine",
				kind, map[string]string{"state": "PIONEER_SUPER_HOME", "run": "XDG_RUNTIME_DIR"}[name])
		}
	}
	if err != nil {
		p.Problem = err.Error()
	}
	return p
}

// lookHere says whether a restricted session could start in this directory: nothing
// that it may write can hold what has power over it.
func lookHere(places registry.Places) startHealth {
	var s startHealth
	var err error
	if s.Dir, err = os.Getwd(); err != nil {
		s.Problem = err.Error()
		return s
	}
	home, err := os.UserHomeDir()
	if err == nil {
		s.Workspace, err = sandbox.Workspace(canonical(s.Dir), canonical(home), places.State, exists)
	}
	var self string
	if err == nil {
		self, err = os.Executable()
	}
	if err == nil {
		err = sandbox.CheckWritableRoots([]string{s.Workspace}, map[string]string{
			self: "running binary", places.State: "state directory", places.Run: "run directory", places.Config: "configuration directory"})
	}
	if err != nil {
		s.Problem = err.Error()
	}
	return s
}

// agentPrograms are the command lines of coding agents that the doctor looks for.
var agentPrograms = []string{"pi", "claude", "codex", "gemini", "opencode"}

func findAgents() []foundAgent {
	found := []foundAgent{}
	for _, name := range agentPrograms {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		agent := foundAgent{Name: name, Path: path}
		for _, a := range integration.Adapters() {
			if a.Program(canonical(path), []string{name}) {
				agent.Adapter = a.Name
			}
		}
		found = append(found, agent)
	}
	return found
}

func (d *diagnosis) obstacles() []string {
	out := []string{}
	for _, m := range d.Modes {
		if m.Refused != "" {
			out = append(out, fmt.Sprintf("%s: nothing would run", m.Mode))
		}
	}
	for _, p := range d.Places {
		if p.Problem != "" {
			out = append(out, p.Name+" directory: "+p.Problem)
		}
	}
	for _, f := range d.Config {
		if n := len(f.Problems); n > 0 {
			out = append(out, fmt.Sprintf("%s: %s; pioneer-super config check shows them", f.Path, plural(n, "mistake", "mistakes")))
		}
	}
	if d.Start.Problem != "" {
		out = append(out, "a restricted session in "+d.Start.Dir+": "+d.Start.Problem)
	}
	return out
}

func (d *diagnosis) print(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(visible(fmt.Sprintf(format, args...)) + "\n") }
	title := func(text string) { b.WriteString("\n" + text + "\n") }
	line("pioneer-super %s, %s%s", d.Version, d.System, prefixed(", ", d.Host.Kernel))

	title("This host")
	for _, f := range d.Facts {
		mark := "yes"
		if !f.Have {
			mark = "no"
		}
		line("  %-3s  %-18s  %s", mark, f.Name, f.Detail)
		if f.Remedy != "" {
			line("       %-18s  to have it: %s", "", f.Remedy)
		}
	}

	title("What each mode gives to tools here")
	var lacks []string
	for _, m := range slices.Backward(d.Modes) {
		strength := m.Report.Strength
		if m.Refused != "" {
			strength = "nothing runs: " + m.Refused
		}
		line("  %-17s  %s", m.Mode, strength)
		for _, name := range m.Report.Degradations {
			if !slices.Contains(lacks, name) {
				lacks = append(lacks, name)
			}
		}
	}
	if len(lacks) > 0 {
		title("What is missing there")
		for _, name := range lacks {
			line("  %-17s  %s", name, sandbox.Explain(name))
		}
	}

	if len(d.Agents) > 0 {
		title("Agents on your PATH")
		for _, a := range d.Agents {
			says := "no adapter: in a restricted mode it is confined like a tool, without network and without a sandbox of its own, and may not reach its supervisor"
			if a.Adapter != "" {
				says = "known: it gets the control envelope and keeps a gate or sandbox of its own; its tools are confined when they come through us"
			}
			line("  %-9s  %s", a.Name, says)
		}
	}

	title("Who else could type or act for you")
	if len(d.Reach) == 0 {
		line("  nobody that we know of")
	} else {
		line("  %s: a process that reaches it could answer in your name, so a tree started from here wants a phrase", strings.Join(d.Reach, ", "))
		line("  for wide answers (spawn --phrase)")
	}

	title("Directories")
	for _, p := range d.Places {
		state := "good"
		switch {
		case p.Problem != "":
			state = p.Problem
		case !p.Made && p.Name == "configuration":
			state = "not there; pioneer-super config init makes a commented start"
		case !p.Made:
			state = "made by the first tree"
		}
		line("  %-13s  %s: %s", p.Name, p.Dir, state)
	}
	if d.Start.Workspace != "" {
		line("  %-13s  %s: what a restricted session started here works on", "workspace", d.Start.Workspace)
	}

	b.WriteByte('\n')
	if len(d.Obstacles) == 0 {
		line("Nothing stands in the way of a restricted session.")
	}
	for _, o := range d.Obstacles {
		line("In the way: %s", o)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
