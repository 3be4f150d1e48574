package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/spool"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/lineage"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

func execTool(c *cli.Context) error {
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	r, err := wish(control.OpExec, c.String("cwd"))
	if err != nil {
		return exit(125, "%v", err)
	}
	status, err := statusDescriptor(c)
	if err != nil {
		return err
	}
	args := c.Args().Slice()
	switch {
	case c.IsSet("c"):
		shell := c.String("shell")
		if shell != "bash" && shell != "sh" {
			return exit(125, "--shell %s: expected bash or sh", shell)
		}
		r.Command.Shell, r.Command.Text, r.Command.Argv = shell, c.String("c"), args
	case len(args) == 0:
		return exit(125, "exec: no command; expected pioneer-super exec [flags] -- COMMAND [ARGUMENT...], or -c 'TEXT'")
	default:
		r.Command.Argv = args
	}
	conn, err := findTree(places)
	if err != nil {
		return exit(125, "exec: %v", err)
	}
	defer conn.Close()
	return runTool(conn, r, status)
}

// answered is what `ask --json` prints.
type answered struct {
	Verdict   string          `json:"verdict"`
	By        string          `json:"by"`
	Reason    string          `json:"reason,omitempty"`
	Request   string          `json:"request"`
	DecidedBy json.RawMessage `json:"decidedBy,omitempty"`
}

// ask asks for a decision: as an agent over its channel, exactly as a foreign
// child does; as a tool over the control socket.
func ask(c *cli.Context) error {
	if c.String("surface") == "" {
		return exit(2, "ask: --surface is empty")
	}
	if c.String("value") == "" && c.String("tool") == "" {
		return exit(2, "ask: --value or --tool is needed")
	}
	root, parent := os.Getenv("PIONEER_SUPER_FORWARDING_ROOT"), os.Getenv("PI_SUBAGENT_PARENT_SESSION")
	if root != "" && parent != "" {
		return askChannel(c, root, parent)
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	conn, err := findTree(places)
	if err != nil {
		return exit(125, "ask: %v", err)
	}
	defer conn.Close()
	cl := &client{conn: conn}
	r := &control.Request{ID: registry.NewRequestID(), Op: control.OpAsk, Ask: &control.Ask{Surface: c.String("surface"), Value: c.String("value"), Tool: c.String("tool")}}
	result, ok := cl.run(r)
	if !ok || result.Class != control.ClassDecided {
		return leave(result, -1)
	}
	return printAnswer(c, answered{Verdict: result.Verdict, By: result.By, Reason: result.Reason, Request: r.ID}, result.Exit)
}

func askChannel(c *cli.Context, root, parent string) error {
	sp, err := spool.Open(root, spool.Options{PID: os.Getpid()})
	if err != nil {
		return exit(125, "ask: %v", err)
	}
	defer sp.Close()
	surface, value, tool := c.String("surface"), c.String("value"), c.String("tool")
	if value == "" {
		value = tool
	}
	payload := prompt.Tool(prompt.Facts{ToolName: tool}, tool, "")
	if tool == "" {
		tool = surface
	}
	if surface == "bash" {
		payload = prompt.Bash(prompt.Facts{ToolName: tool}, value, value)
	}
	payload.Core.Surface, payload.Core.Value = surface, value
	r := wire.Request{Payload: &payload, ID: registry.NewRequestID(), CreatedAt: time.Now().UnixMilli(), RequesterSessionID: os.Getenv("PIONEER_SUPER_SESSION"),
		TargetSessionID: parent, RequesterAgentName: "unknown", Source: wire.ToolCall, Surface: &surface, Value: &value,
		Message: prompt.Sentence(payload)}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	resp, err := sp.Ask(ctx, parent, r)
	a := answered{Verdict: "deny", By: "nobody", Request: r.ID, Reason: resp.DenialReason}
	code := 12
	switch by := resp.DecidedBy.Kind; {
	case resp.Approved:
		a.Verdict, code = "allow", 0
		a.By, a.Reason = deciderWord(by), whyAllowed(resp.DecidedBy)
	case resp.Unavailable || by == wire.KindUnavailable || by == wire.KindGateError:
		if err != nil && a.Reason == "" {
			a.Reason = err.Error()
		}
	case by == wire.KindUser:
		a.By, code = "human", 11
	case by == wire.KindForwarded:
		a.By, code = "parent", 11
	default:
		a.By, code = "rule", 10
	}
	return printAnswer(c, a, code)
}

func deciderWord(k wire.DecisionKind) string {
	switch k {
	case wire.KindUser:
		return "human"
	case wire.KindForwarded:
		return "parent"
	}
	return "rule"
}

// whyAllowed is the reason of an approval, which the protocol carries as who
// decided.
func whyAllowed(d wire.DecisionSource) string {
	switch d.Kind {
	case wire.KindUser:
		return "the human allowed it"
	case wire.KindForwarded:
		return "the parent session allowed it"
	}
	return wire.Text(d.Origin)
}

func printAnswer(c *cli.Context, a answered, code int) error {
	if c.Bool("json") {
		out, err := json.Marshal(a)
		if err != nil {
			return exit(125, "%v", err)
		}
		fmt.Println(string(out))
		return silent(code)
	}
	line := a.Verdict + " (" + a.By + ")"
	if a.Reason != "" {
		line += ": " + a.Reason
	}
	fmt.Println(visible(line))
	return silent(code)
}

func turn(c *cli.Context) error {
	what := c.Args().First()
	if what != "start" && what != "end" {
		return exit(2, "turn: expected start or end")
	}
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	conn, err := findTree(places)
	if err != nil {
		return exit(125, "turn: %v", err)
	}
	defer conn.Close()
	result, _ := (&client{conn: conn}).run(&control.Request{ID: registry.NewRequestID(), Op: control.OpTurn, Turn: what})
	return leave(result, -1)
}

// whereAmI is what `context` says.
type whereAmI struct {
	Tree    string          `json:"tree,omitempty"`
	Session string          `json:"session,omitempty"`
	Depth   string          `json:"depth,omitempty"`
	Found   string          `json:"found"`
	Foreign lineage.Context `json:"foreign"`
}

func showContext(c *cli.Context) error {
	places, err := findPlaces()
	if err != nil {
		return exit(125, "%v", err)
	}
	here := whereAmI{Depth: os.Getenv("PIONEER_SUPER_DEPTH"), Foreign: detect()}
	conn, err := findTree(places)
	var dead deadTree
	switch {
	case err == nil:
		here.Tree, here.Session = os.Getenv("PIONEER_SUPER_TREE"), os.Getenv("PIONEER_SUPER_SESSION")
		here.Found = "connected"
		conn.Close()
	case errors.As(err, &dead), errors.Is(err, errNoTree):
		here.Found = err.Error()
	default:
		return exit(125, "%v", err)
	}
	if c.Bool("json") {
		out, err := json.MarshalIndent(here, "", "  ")
		if err != nil {
			return exit(125, "%v", err)
		}
		fmt.Println(string(out))
		return nil
	}
	if here.Tree != "" {
		fmt.Printf("tree %s, session %s, depth %s\n", here.Tree, here.Session, here.Depth)
	} else {
		fmt.Println(visible(here.Found))
	}
	for _, line := range here.Foreign.Why {
		fmt.Println(visible(line))
	}
	return nil
}

// agentDir is the directory of a Pi agent, whose forwarding root is below it.
func agentDir() string {
	if dir := os.Getenv("PI_CODING_AGENT_DIR"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".pi", "agent")
}

func foreignRoot() string {
	if root := os.Getenv("PIONEER_SUPER_FORWARDING_ROOT"); root != "" {
		return root
	}
	return filepath.Join(agentDir(), "sessions", "permission-forwarding")
}
