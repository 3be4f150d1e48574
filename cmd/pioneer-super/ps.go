package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/liveness"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// What a tree does, as ps says it.
const (
	treeRunning  = "running"
	treeStopping = "stopping"
	treeEnded    = "ended"
	// treeLost: its supervisor is gone and did not write an end.
	treeLost = "supervisor lost"
	// treePruned: only its audit is left.
	treePruned = "pruned"
	// treeUnknown: its journal tells nothing.
	treeUnknown = "unknown"
)

// treeView is one tree as ps lists it.
type treeView struct {
	Tree     string   `json:"tree"`
	State    string   `json:"state"`
	Started  int64    `json:"started,omitempty"` // milliseconds since 1970
	Ended    int64    `json:"ended,omitempty"`
	Agent    string   `json:"agent,omitempty"` // of its root
	Argv     []string `json:"argv,omitempty"`
	Cwd      string   `json:"cwd,omitempty"`
	Why      string   `json:"why,omitempty"`
	Sessions int      `json:"sessions"` // that have not ended
	Commands int      `json:"commands"` // that have not ended
	Asks     int      `json:"asks"`     // that wait
	// Live is read from the processes, of a tree that runs; Used is what the whole
	// tree used, of one that has ended.
	Live *figures        `json:"live,omitempty"`
	Used *registry.Usage `json:"used,omitempty"`
}

// figures are what processes use now. Memory counts shared pages for each process.
type figures struct {
	Processes int   `json:"processes"`
	CPUMillis int64 `json:"cpuMillis"`
	Memory    int64 `json:"memory"` // bytes
}

// userTick is how long a clock tick of proc_pid_stat(5) is on Linux, whatever the
// kernel's own is.
const userTick = 10 * time.Millisecond

// census is one pass over the processes of this machine.
type census struct {
	table reaper.Table
	byPID map[int]reaper.Process
	boot  string
}

// takeCensus sees nothing where processes cannot be read.
func takeCensus() census {
	c := census{byPID: map[int]reaper.Process{}}
	c.table, _ = reaper.LookAll()
	c.boot, _ = liveness.Here()
	for _, children := range c.table {
		for _, p := range children {
			c.byPID[p.PID] = p
		}
	}
	return c
}

// add counts what lives below a keeper, if it still is that process.
func (c census) add(f *figures, keeper registry.Process) {
	k, ok := c.byPID[keeper.PID]
	if !ok || k.Start == 0 || k.Start != keeper.Start || keeper.Boot != "" && keeper.Boot != c.boot {
		return
	}
	// The keeper has waited for those of its command that have ended.
	ticks, pages := k.Used, uint64(0)
	below := c.table.Below(k.PID, nil)
	for _, p := range below {
		ticks, pages = ticks+p.Used, pages+p.Memory
	}
	f.Processes += len(below)
	f.CPUMillis += int64(ticks) * userTick.Milliseconds()
	f.Memory += int64(pages) * int64(os.Getpagesize())
}

// session counts a session with all below it.
func (c census) session(f *figures, n *registry.SessionNode) {
	for _, command := range n.Commands {
		if command.State != registry.Ended {
			c.add(f, command.Keeper)
		}
	}
	for _, child := range n.Children {
		c.session(f, child)
	}
}

func (f figures) String() string {
	return fmt.Sprintf("%s, %s of processor time, %s", plural(f.Processes, "process", "processes"),
		(time.Duration(f.CPUMillis) * time.Millisecond).String(), size(f.Memory))
}

func size(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<19)>>20) }

func view(s registry.TreeState, now census) treeView {
	v := treeView{Tree: s.ID, Started: s.Started, Ended: s.Ended, Why: s.Reason}
	if s.Facts != nil {
		v.Argv, v.Cwd = s.Facts.Argv, s.Facts.Cwd
	}
	var root *registry.SessionNode
	var live figures
	var walk func(*registry.SessionNode)
	walk = func(n *registry.SessionNode) {
		if n.State != registry.Ended {
			v.Sessions++
		}
		v.Asks += len(n.Asks)
		for _, c := range n.Commands {
			if c.State != registry.Ended {
				v.Commands++
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	for _, n := range s.Sessions {
		root = n // the last one: a root that was started again
		walk(n)
		now.session(&live, n)
	}
	if root != nil {
		v.Agent = root.Agent
		if root.Why != "" {
			v.Why = root.Why
		}
	}
	switch {
	case s.Alive && root != nil && root.State == registry.Stopping:
		v.State, v.Live = treeStopping, &live
	case s.Alive:
		v.State, v.Live = treeRunning, &live
	case s.Ended != 0:
		v.State = treeEnded
		if root != nil && root.Exit != nil {
			v.Used = &root.Exit.Usage
		}
	case s.Facts != nil:
		v.State, v.Live = treeLost, &live
	default:
		v.State = treeUnknown
	}
	return v
}

// listTrees reads the disk and the processes: it needs no supervisor and no role.
func listTrees(c *cli.Context) error {
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	trees, problems := registry.List(places)
	now := takeCensus()
	var views []treeView
	for _, info := range trees {
		t, err := registry.Open(places, info.ID)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		state, bad := t.State()
		problems = append(problems, bad...)
		v := view(state, now)
		if v.Started == 0 {
			v.Started = info.Started
		}
		if _, err := t.Root().Lstat(registry.AuditName); v.State == treeUnknown && state.Lines == 0 && err == nil {
			v.State = treePruned
		}
		t.Close()
		views = append(views, v)
	}
	for _, p := range problems {
		warn("%v", p)
	}
	if c.Bool("json") {
		for _, v := range views {
			line, err := json.Marshal(v)
			if err != nil {
				return exit(125, "%v", err)
			}
			if _, err := fmt.Println(string(line)); err != nil {
				return exit(125, "%v", err)
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TREE\tSTATE\tSTARTED\tSESSIONS\tASKS\tPROCESSES\tCPU\tMEMORY\tWHAT")
	for _, v := range views {
		processes, cpu, memory := "-", "-", "-"
		switch {
		case v.Live != nil:
			processes, cpu, memory = fmt.Sprint(v.Live.Processes), (time.Duration(v.Live.CPUMillis) * time.Millisecond).String(), size(v.Live.Memory)
		case v.Used != nil:
			cpu = (time.Duration(v.Used.CPUMicros) * time.Microsecond).Round(time.Millisecond).String()
		}
		what := strings.TrimSpace(v.Agent + " " + strings.Join(v.Argv, " "))
		fmt.Fprintln(w, strings.Join([]string{v.Tree, v.State, time.UnixMilli(v.Started).Format("2006-01-02 15:04:05"),
			fmt.Sprint(v.Sessions), fmt.Sprint(v.Asks), processes, cpu, memory, visible(clip(what))}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return exit(125, "%v", err)
	}
	return nil
}

func psCommand() *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "list every tree of this user, what it does and what it uses",
		UsageText: "pioneer-super ps [--json]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"}},
		Action:    listTrees,
	}
}

func pruneCommand() *cli.Command {
	return &cli.Command{
		Name: "prune", Usage: "delete what is kept of trees that are proven to be over: journals and run directories; audits only if told",
		UsageText: "pioneer-super prune [--older-than TIME] [--keep N] [--with-audit] [--dry-run]",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "older-than", Value: 30 * 24 * time.Hour, Usage: "only trees that started more than this `TIME` ago"},
			&cli.IntFlag{Name: "keep", Value: 0, Usage: "never the `N` newest"},
			&cli.BoolFlag{Name: "with-audit", Usage: "the audits too: who allowed what is then gone"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would go"},
		},
		Action: prune,
	}
}

// prune says of each tree what it deletes. A tree that cannot be shown to be over
// stays, and is told.
func prune(c *cli.Context) error {
	if c.Duration("older-than") < 0 || c.Int("keep") < 0 {
		return exit(2, "prune: expected --older-than and --keep of zero or more")
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	trees, problems := registry.List(places)
	before := time.Now().Add(-c.Duration("older-than")).UnixMilli()
	audit := c.Bool("with-audit")
	what := "its journal and run directory; its audit stays"
	if audit {
		what = "all of it, its audit too"
	}
	matched := false
	for i, t := range trees {
		if t.Alive || i < c.Int("keep") || t.Started > before || t.Facts == nil && !audit {
			continue
		}
		matched = true
		if c.Bool("dry-run") {
			fmt.Printf("%s: would delete %s\n", t.ID, what)
			continue
		}
		switch err := registry.Prune(places, t.ID, audit, provenGone); {
		case errors.Is(err, registry.ErrHeld):
		case err != nil:
			problems = append(problems, err)
		default:
			fmt.Printf("%s: deleted %s\n", t.ID, what)
		}
	}
	if len(problems) > 0 {
		return exit(1, "%v", errors.Join(problems...))
	}
	if !matched {
		fmt.Printf("nothing to delete: no tree that is over started more than %s ago and is not kept\n", c.Duration("older-than"))
	}
	return nil
}

func provenGone(p registry.Process) bool {
	e, err := liveness.Process(p).Check()
	return err == nil && e == liveness.Gone
}
