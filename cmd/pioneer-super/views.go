package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

// namedTree opens the tree that is named, or the newest; alive ones only if asked.
func namedTree(places registry.Places, id string, alive bool) (*registry.Tree, error) {
	if id != "" {
		tree, err := registry.Open(places, id)
		if err != nil {
			return nil, exit(125, "tree %s: %v", id, err)
		}
		return tree, nil
	}
	trees, problems := registry.List(places)
	for _, t := range trees {
		if alive && !t.Alive {
			continue
		}
		return registry.Open(places, t.ID)
	}
	if len(problems) > 0 {
		return nil, exit(125, "%v", errors.Join(problems...))
	}
	if alive {
		return nil, exit(125, "no tree is running")
	}
	return nil, exit(125, "no tree was ever started (state directory %s)", places.State)
}

// watchedTree opens the tree that is named, else the newest that runs, else the newest: a start that failed
// or a short tree does not hide one that is at work.
func watchedTree(places registry.Places, id string) (*registry.Tree, error) {
	if id == "" {
		if tree, err := namedTree(places, "", true); err == nil {
			return tree, nil
		}
	}
	return namedTree(places, id, false)
}

func humanSocket(t *registry.Tree) string { return filepath.Join(t.RunDir(), "human", "sock") }

// showTree prints sessions from what is on disk: it needs no supervisor and no
// role.
func showTree(c *cli.Context) error {
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	var states []registry.TreeState
	show := func(id string) error {
		tree, err := watchedTree(places, id)
		if err != nil {
			return err
		}
		defer tree.Close()
		state, problems := tree.State()
		for _, p := range problems {
			warn("%v", p)
		}
		states = append(states, state)
		return nil
	}
	if c.Bool("all") {
		trees, problems := registry.List(places)
		for _, p := range problems {
			warn("%v", p)
		}
		for _, t := range trees {
			if err := show(t.ID); err != nil {
				warn("%v", err)
			}
		}
	} else if err := show(c.Args().First()); err != nil {
		return err
	}
	if c.Bool("json") {
		for _, s := range states {
			out, err := json.Marshal(s)
			if err != nil {
				return exit(125, "%v", err)
			}
			if _, err := fmt.Println(string(out)); err != nil {
				return exit(125, "%v", err)
			}
		}
		return nil
	}
	var out bytes.Buffer
	processes := takeCensus()
	for _, s := range states {
		printTree(&out, s, processes, time.Now())
	}
	if _, err := out.WriteTo(os.Stdout); err != nil {
		return exit(125, "%v", err)
	}
	return nil
}

func printTree(w io.Writer, s registry.TreeState, processes census, now time.Time) {
	state := "ended"
	if s.Alive {
		state = "running"
	} else if s.Ended == 0 {
		state = "unknown: its supervisor is gone"
	}
	fmt.Fprintf(w, "%s  %s", s.ID, state)
	if s.Started > 0 {
		fmt.Fprintf(w, ", started %s", time.UnixMilli(s.Started).Format("2006-01-02 15:04:05"))
	}
	if s.Facts != nil && s.Facts.NoEnvelope {
		fmt.Fprint(w, ", no envelope: survivors unknown")
	}
	fmt.Fprintln(w)
	for i, n := range s.Sessions {
		printSession(w, n, "", i == len(s.Sessions)-1, processes, now)
	}
}

func printSession(w io.Writer, n *registry.SessionNode, indent string, last bool, processes census, now time.Time) {
	branch, next := "├─ ", "│  "
	if last {
		branch, next = "└─ ", "   "
	}
	name := n.Agent
	if name == "" {
		name = n.ID
	} else {
		name += " (" + n.ID + ")"
	}
	line := fmt.Sprintf("%s  %s, %s", name, n.Mode, n.Strength)
	if n.PID > 0 {
		line += fmt.Sprintf(", pid %d", n.PID)
	}
	line += ", " + sessionState(n)
	// With all below it: what its agent and tools use is what it costs.
	var uses figures
	if processes.session(&uses, n); uses.Processes > 0 {
		line += ", " + uses.String()
	}
	fmt.Fprintln(w, indent+branch+visible(line))
	for _, a := range n.Asks {
		waits := now.Sub(time.UnixMilli(a.Since)).Round(time.Second)
		fmt.Fprintln(w, indent+next+visible(fmt.Sprintf("? waits %s for an answer: %s %s", waits, a.Surface, clip(a.Value))))
	}
	for _, c := range n.Commands {
		if c.Agent || c.State == registry.Ended {
			continue
		}
		fmt.Fprintln(w, indent+next+visible(fmt.Sprintf("$ %s  %s, pid %d", clip(c.Text), c.State, c.Leader.PID)))
	}
	for i, child := range n.Children {
		printSession(w, child, indent+next, i == len(n.Children)-1, processes, now)
	}
}

// sessionState is what a session does; of its end, what is known of it and why it was.
func sessionState(n *registry.SessionNode) string {
	out := string(n.State)
	if n.Why != "" {
		out += ": " + clip(n.Why)
	}
	if n.State == registry.Ended && n.Exit != nil && !n.Exit.Proven() {
		out += " (not proven that nothing is left: " + cmp.Or(clip(n.Exit.Proof), "no proof") + ")"
	}
	return out
}

func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 120 {
		return string(r[:120]) + "…"
	}
	return s
}

// showLog tells the story of a tree.
func showLog(c *cli.Context) error {
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	tree, err := namedTree(places, c.Args().First(), false)
	if err != nil {
		return err
	}
	defer tree.Close()
	path := filepath.Join(tree.Dir(), registry.AuditName)
	if c.Bool("json") {
		if problems := audit.WriteJSON(os.Stdout, path); len(problems) > 0 {
			return exit(125, "%v", errors.Join(problems...))
		}
		return nil
	}
	rows, problems := audit.Read(path)
	if _, err := fmt.Print(audit.Story(rows)); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return exit(125, "%v", errors.Join(problems...))
	}
	return nil
}

func findPlaces() (registry.Places, error) {
	places, err := registry.FindPlaces(os.Getenv, os.Getuid())
	if err != nil {
		return places, err
	}
	// A variable comes from anywhere, also from a file of the project that a shell
	// loads: then the next command would use a state that agents can write.
	for _, moved := range []struct{ variable, dir string }{
		{"PIONEER_SUPER_HOME", places.State}, {"XDG_STATE_HOME", places.State}, {"XDG_CONFIG_HOME", places.Config},
	} {
		if os.Getenv(moved.variable) == "" || !strings.HasPrefix(moved.dir, filepath.Clean(os.Getenv(moved.variable))) {
			continue
		}
		if tree := workTree(moved.dir); tree != "" {
			return places, fmt.Errorf("%s: %s lies in the git work tree %s, whose files agents write; choose a directory outside it", moved.variable, moved.dir, tree)
		}
	}
	return places, nil
}

// workTree is the git work tree that holds dir, unless that is the home directory,
// which some people keep in git.
func workTree(dir string) string {
	home, _ := os.UserHomeDir()
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil && at != home {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// visible makes text from anywhere harmless on one line of a terminal.
func visible(s string) string { return prompt.Visible(strings.TrimRight(s, "\n")) }

// maxLine is how many characters of one line of a message are printed: a message
// names what somebody else chose, such as a path or a word of a command.
const maxLine = 4096

// legible is a message whose lines a terminal draws and does not obey.
func legible(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = prompt.Visible(l)
		if r := []rune(lines[i]); len(r) > maxLine {
			lines[i] = fmt.Sprintf("%s… (%d more)", string(r[:maxLine]), len(r)-maxLine)
		}
	}
	return strings.Join(lines, "\n")
}

// exists says whether something is there, a dangling link too.
func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
