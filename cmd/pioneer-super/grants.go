package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

func grantsCommand() *cli.Command {
	return &cli.Command{
		Name: "grants", Usage: "show what was allowed for a turn, or take it back",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list the grants that live in a tree: the newest that runs, or the one that is named",
				UsageText: "pioneer-super grants list [--json] [TREE]",
				Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"}},
				Action:    listGrants,
			},
			{
				Name: "revoke", Usage: "end a grant, after pairing with the tree's own terminal",
				UsageText: "pioneer-super grants revoke [--phrase] GRANT [TREE]",
				Flags:     []cli.Flag{&cli.BoolFlag{Name: "phrase", Usage: "prove yourself with the phrase of the tree"}},
				Action:    func(c *cli.Context) error { return revokeGrant(c) },
			},
		},
		Action: func(c *cli.Context) error {
			return exit(2, "grants: expected list or revoke; pioneer-super grants --help shows them")
		},
	}
}

// grantView is one grant as it is listed.
type grantView struct {
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Agent   string    `json:"agent,omitzero"`
	Since   time.Time `json:"since"`
	Surface string    `json:"surface"`
	// Pattern is what it covers; without one it covers exactly Value.
	Pattern string `json:"pattern,omitzero"`
	Program string `json:"program,omitzero"`
	Value   string `json:"value"`
	// Tree says that it counts in every session of the tree.
	Tree  bool     `json:"tree"`
	Gives []string `json:"gives,omitzero"`
}

// liveGrants are the grants that an audit tells of and whose end it does not tell.
// A tree that has ended has none.
func liveGrants(rows []audit.Row) []grantView {
	var out []grantView
	text := func(r audit.Row, name string) string { s, _ := r.Details[name].(string); return s }
	for _, r := range rows {
		id := text(r, "grant")
		switch r.Kind {
		case audit.GrantGiven:
			tree, _ := r.Details["tree"].(bool)
			out = append(out, grantView{ID: id, Session: r.Session, Agent: r.Agent, Since: r.Time, Surface: r.Surface,
				Pattern: text(r, "pattern"), Program: text(r, "program"), Value: r.Value, Tree: tree, Gives: r.Grants})
		case audit.GrantEnded:
			for i := range out {
				if id != "" && out[i].ID == id {
					out = append(out[:i], out[i+1:]...)
					break
				}
			}
		case audit.TreeEnded:
			out = nil
		}
	}
	return out
}

// listGrants reads the disk: it needs no supervisor and no role.
func listGrants(c *cli.Context) error {
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	tree, err := watchedTree(places, c.Args().First())
	if err != nil {
		return err
	}
	defer tree.Close()
	var list []grantView
	if alive, err := tree.Alive(); err != nil {
		return exit(125, "tree %s: %v", tree.ID(), err)
	} else if alive {
		rows, problems := audit.Read(filepath.Join(tree.Dir(), "audit.jsonl"))
		for _, p := range problems {
			warn("%v", p)
		}
		list = liveGrants(rows)
	}
	if c.Bool("json") {
		for _, g := range list {
			line, err := json.Marshal(g)
			if err != nil {
				return exit(125, "%v", err)
			}
			fmt.Fprintln(os.Stdout, string(line))
		}
		return nil
	}
	if len(list) == 0 {
		fmt.Printf("tree %s: no grant lives\n", tree.ID())
	}
	for _, g := range list {
		what, where := "exactly "+g.Value, "session "+g.Session
		if g.Pattern != "" {
			what = g.Pattern
			if g.Program != "" {
				what += " (" + g.Program + ")"
			}
		}
		if g.Tree {
			where = "every session of the tree, from " + g.Session
		}
		line := fmt.Sprintf("%s  %s: %s, for %s, until its turn ends", g.ID, g.Surface, what, where)
		if len(g.Gives) > 0 {
			line += ", with " + strings.Join(g.Gives, ", ")
		}
		fmt.Println(prompt.Visible(line))
	}
	return nil
}
