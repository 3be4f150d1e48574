package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// stop ends a session or a tree. From inside a tree it is a request like any other,
// which reaches what is below one's own session; from outside it needs the human.
func stop(c *cli.Context) error {
	if c.NArg() > 1 {
		return exit(2, "stop: expected one SESSION or TREE; tree shows them")
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	conn, err := findTree(places)
	var dead deadTree
	switch {
	case err == nil:
		defer conn.Close()
		if c.Args().First() == "" {
			return exit(2, "stop: expected a SESSION below this one; tree shows them")
		}
		result, ok := (&client{conn: conn}).run(&control.Request{ID: registry.NewRequestID(), Op: control.OpStop, Target: c.Args().First()})
		if !ok {
			return leave(result, -1)
		}
		return printStopped(c, result)
	case errors.As(err, &dead), errors.Is(err, errNoTree):
		return stopFromOutside(c, places)
	default:
		return exit(125, "%v", err)
	}
}

func stopFromOutside(c *cli.Context, places registry.Places) error {
	id, target, err := stopTarget(places, c.Args().First())
	if err != nil {
		return err
	}
	conn, human, _, err := humanConn(c, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer human.Close()
	if err := conn.Send(control.Message{Request: &control.Request{ID: registry.NewRequestID(), Op: control.OpStop, Target: target}}); err != nil {
		return exit(125, "%v", err)
	}
	var result *control.Result
	for {
		var m control.Message
		if conn.Recv(&m) != nil {
			break
		}
		if m.Result != nil {
			if result = m.Result; target != "" {
				break
			}
			// Of a whole tree the supervisor's own end is waited for as well.
		}
	}
	human.Close()
	if result == nil {
		return exit(125, "tree %s ended before it said what its end came to; tree shows what is known", id)
	}
	if err := printStopped(c, *result); err != nil || target != "" {
		return err
	}
	return closedBooks(places, id)
}

// stopTarget finds the living tree that an argument means, and the session in it:
// "" for all of it. Without an argument it is the only tree that runs.
func stopTarget(places registry.Places, arg string) (tree, session string, err error) {
	trees, problems := registry.List(places)
	var alive []string
	for _, t := range trees {
		if t.Alive {
			alive = append(alive, t.ID)
		}
		if t.ID == arg {
			return arg, "", nil
		}
	}
	switch {
	case arg == "" && len(alive) == 1:
		return alive[0], "", nil
	case arg == "" && len(alive) == 0:
		return "", "", exit(125, "%v", errors.Join(append(problems, errors.New("no tree is running"))...))
	case arg == "":
		return "", "", exit(2, "stop: %d trees run, expected which: %s", len(alive), strings.Join(alive, ", "))
	}
	for _, id := range alive {
		t, err := registry.Open(places, id)
		if err != nil {
			continue // it ended meanwhile
		}
		state, _ := t.State()
		t.Close()
		if s := state.Session(arg); s != nil {
			if s.State == registry.Ended {
				return "", "", exit(125, "session %s of tree %s has ended", arg, id)
			}
			return id, arg, nil
		}
	}
	return "", "", exit(125, "no tree or session %q runs; tree --all shows them", arg)
}

// closedBooks says of a stopped tree whether its supervisor wrote its end down, which
// it does when it has no child left.
func closedBooks(places registry.Places, id string) error {
	t, err := registry.Open(places, id)
	if err != nil {
		return exit(125, "tree %s: %v", id, err)
	}
	defer t.Close()
	if state, _ := t.State(); state.Ended == 0 {
		return exit(125, "tree %s: its supervisor is gone and did not write its end; whether something is left is unknown", id)
	}
	fmt.Printf("tree %s has ended, and nothing of it is left\n", id)
	return nil
}

// printStopped tells what the ends came to, a session a line, leaves first. Its
// status is 0 only if each is proven.
func printStopped(c *cli.Context, r control.Result) error {
	if c.Bool("json") && len(r.Stopped) > 0 {
		for _, s := range r.Stopped {
			line, err := json.Marshal(s)
			if err != nil {
				return exit(125, "%v", err)
			}
			fmt.Fprintln(os.Stdout, string(line))
		}
	} else {
		for _, s := range r.Stopped {
			fmt.Println(visible(stoppedLine(s)))
		}
	}
	if r.Exit == 0 {
		return nil
	}
	return exit(r.Exit, "%s", visible(r.Reason))
}

func stoppedLine(s control.Stopped) string {
	name := s.Session
	if s.Agent != "" {
		name = s.Agent + " (" + s.Session + ")"
	}
	word := "stopped"
	if !s.Proven {
		word = "not proven to have ended"
	}
	line := fmt.Sprintf("%s: %s, %s, proof %s", name, word, plural(s.Commands, "command", "commands"), s.Proof)
	if s.Forced > 0 {
		line += fmt.Sprintf(", %d had to be killed", s.Forced)
	}
	if s.Survivors > 0 {
		line += fmt.Sprintf(", %s left", plural(s.Survivors, "process", "processes"))
	}
	return line
}
