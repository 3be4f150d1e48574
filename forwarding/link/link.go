// Package link has the links of an authorizer chain that this product provides:
// any executable of the operator's, and a model reviewer. A link that fails in any
// way has no opinion: the ask passes on.
//
// It refuses to know how a process is started and where a key lies: both are given
// to it.
package link

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

const (
	// MaxFacts bounds what is sent to a link, in bytes. A larger ask is for others.
	MaxFacts = 512 << 10
	// MaxVerdict bounds what a program answers, in bytes.
	MaxVerdict = 64 << 10
	// MaxReason bounds the reason that is kept of a verdict, in bytes.
	MaxReason = 2000
)

// document is what a link is told: the facts as this end fixed them. Nothing in it
// was said by the one who asks but the values that are judged.
type document struct {
	Version int      `json:"version"`
	ID      string   `json:"id"`
	Session string   `json:"session"`
	Path    []string `json:"path"`
	Agent   string   `json:"agent"`
	Source  string   `json:"source"`
	Units   []unit   `json:"units"`
}

type unit struct {
	Surface     string     `json:"surface"`
	Value       string     `json:"value"`
	MatchValues []string   `json:"matchValues"`
	Kind        string     `json:"kind"`
	Tool        string     `json:"tool"`
	Rule        string     `json:"rule"`
	Evidence    []evidence `json:"evidence"`
}

type evidence struct {
	Label  string `json:"label"`
	Text   string `json:"text"`
	Detail string `json:"detail,omitzero"`
}

// Facts is the JSON that a link gets of an ask, version 1.
func Facts(f forwarding.Facts) ([]byte, error) {
	d := document{Version: 1, ID: f.ID, Session: f.Session, Path: f.Path, Agent: f.Agent, Source: string(f.Source)}
	for _, u := range f.Units {
		seen := make([]evidence, len(u.Payload.Evidence))
		for i, e := range u.Payload.Evidence {
			seen[i] = evidence{e.Label, e.Text, wire.Text(e.Detail)}
		}
		d.Units = append(d.Units, unit{
			Surface: u.Surface, Value: u.Value, MatchValues: u.MatchValues, Kind: string(u.Payload.Kind), Tool: wire.Text(u.Payload.Core.ToolName),
			Rule: wire.Text(u.Payload.Core.MatchedPattern), Evidence: seen,
		})
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxFacts {
		return nil, fmt.Errorf("the ask has %d bytes, a link gets at most %d", len(body), MaxFacts)
	}
	return body, nil
}

// observed is what an observer is told: the core of an ask and, once there is one,
// the decision. Evidence, suggestions and reasons are for those who decide.
type observed struct {
	Version  int        `json:"version"`
	Event    string     `json:"event"`
	ID       string     `json:"id"`
	Session  string     `json:"session"`
	Agent    string     `json:"agent"`
	Units    []coreUnit `json:"units"`
	Approved *bool      `json:"approved,omitzero"`
	// DecidedBy is the kind of who decided: "user", "authorizer", "unavailable"…
	DecidedBy string `json:"decidedBy,omitzero"`
}

type coreUnit struct {
	Surface  string `json:"surface"`
	Kind     string `json:"kind"`
	Tool     string `json:"tool"`
	Value    string `json:"value"`
	Rule     string `json:"rule"`
	Executed string `json:"executed"`
	Context  string `json:"context"`
}

// Core is the JSON that an observer gets of an ask, version 1: of a decision where
// d is not nil.
func Core(f forwarding.Facts, d *forwarding.Decision) ([]byte, error) {
	o := observed{Version: 1, Event: "ask", ID: f.ID, Session: f.Session, Agent: f.Agent}
	if d != nil {
		o.Event, o.Approved, o.DecidedBy = "decision", &d.Approved, string(d.DecidedBy.Kind)
	}
	for _, u := range f.Units {
		c := u.Payload.Core
		o.Units = append(o.Units, coreUnit{Surface: u.Surface, Kind: string(u.Payload.Kind), Tool: wire.Text(c.ToolName), Value: c.Value,
			Rule: wire.Text(c.MatchedPattern), Executed: wire.Text(c.ExecutedUnit), Context: wire.Text(c.CommandContext)})
	}
	body, err := json.Marshal(o)
	if err == nil && len(body) > MaxFacts {
		err = fmt.Errorf("the ask has %d bytes, an observer gets at most %d", len(body), MaxFacts)
	}
	return body, err
}

// ParseVerdict reads {"verdict": "allow" | "deny" | "defer", "reason": TEXT}. Names
// are exact, nothing else may be in it, and nothing after it.
func ParseVerdict(data []byte) (forwarding.Verdict, error) {
	var v struct {
		Verdict string `json:"verdict"`
		Reason  string `json:"reason"`
	}
	if len(data) > MaxVerdict {
		return forwarding.Verdict{}, fmt.Errorf("a verdict of more than %d bytes", MaxVerdict)
	}
	if err := json.Unmarshal(data, &v, json.RejectUnknownMembers(true)); err != nil {
		return forwarding.Verdict{}, fmt.Errorf(`no verdict, expected {"verdict": "allow" | "deny" | "defer", "reason": TEXT}: %w`, err)
	}
	o, err := forwarding.ParseOutcome(v.Verdict)
	if err != nil {
		return forwarding.Verdict{}, err
	}
	return forwarding.Verdict{Outcome: o, Reason: short(v.Reason)}, nil
}

// Run starts a program without a shell, gives it input on standard input and
// returns what it wrote. It ends everything that the program started when it
// returns or when ctx ends. An exit status other than 0 is an error.
type Run func(ctx context.Context, argv []string, input []byte, limit int) (output []byte, err error)

// Program is a link that is an executable: facts on standard input, a verdict on
// standard output. It is safe for concurrent use.
type Program struct {
	Argv []string
	Run  Run
	// Timeout is how long it may take; 0 means ten seconds.
	Timeout time.Duration
}

// Authorize asks the program. Whatever goes wrong means that it has no opinion.
func (p Program) Authorize(ctx context.Context, f forwarding.Facts) (forwarding.Verdict, error) {
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	input, err := Facts(f)
	if err != nil {
		return passed(err), nil
	}
	output, err := p.Run(ctx, p.Argv, input, MaxVerdict)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return passed(err), nil
	}
	v, err := ParseVerdict(output)
	if err != nil {
		return passed(err), nil
	}
	return v, nil
}

// passed is the verdict of a link that failed.
func passed(err error) forwarding.Verdict {
	return forwarding.Verdict{Outcome: forwarding.Defer, Reason: "failed: " + short(err.Error())}
}

func short(s string) string {
	if len(s) <= MaxReason {
		return s
	}
	n := MaxReason
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
