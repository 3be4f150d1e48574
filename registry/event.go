package registry

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// EventKind says what a line of the journal tells.
type EventKind string

// The journal holds what is needed to show a tree and to take it over: who runs,
// in what state, and what is asked. Why something was allowed is in the audit.
const (
	TreeStarted    EventKind = "tree_started"
	TreeEnded      EventKind = "tree_ended"
	SessionStarted EventKind = "session_started"
	SessionState   EventKind = "session_state"
	SessionEnded   EventKind = "session_ended"
	CommandStarted EventKind = "command_started"
	// CommandLeft: its leader has ended with Exit, but not all that it started.
	CommandLeft  EventKind = "command_left"
	CommandEnded EventKind = "command_ended"
	AskOpened    EventKind = "ask_opened"
	AskClosed    EventKind = "ask_closed"
	// SessionSummed stands for lines that compaction has left out.
	SessionSummed EventKind = "session_summed"
)

// State is what a session or a command does now.
type State string

const (
	Starting   State = "starting"
	Running    State = "running"
	Waiting    State = "waiting" // for an answer
	Stopping   State = "stopping"
	Background State = "background" // its leader has ended, not all that it started
	Ended      State = "ended"
	// Unknown is for what had not ended when its supervisor was last heard of.
	Unknown State = "unknown"
)

// Process names a process so that a later one with the same number is another.
// Its fields are those of liveness.Process, so that either converts to the other.
// A zero field is not known.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start,omitzero"` // clock ticks between boot and its start
	Boot  string `json:"boot,omitzero"`  // boot id of the kernel
	PIDNS uint64 `json:"pidns,omitzero"` // inode of the pid namespace that PID belongs to
	// Handle is the inode of its pidfd, never used twice while the machine is up.
	Handle uint64 `json:"handle,omitzero"`
}

// TreeFacts are said once, when a tree starts.
type TreeFacts struct {
	Build      string   `json:"build,omitzero"`
	Supervisor Process  `json:"supervisor,omitzero"`
	Front      Process  `json:"front,omitzero"`
	Cwd        string   `json:"cwd,omitzero"`
	Argv       []string `json:"argv,omitzero"`
	Headless   bool     `json:"headless,omitzero"`
	NoEnvelope bool     `json:"noEnvelope,omitzero"` // survivors are then unknown
	// Nested says, in words, in what this tree itself was found to run.
	Nested string `json:"nested,omitzero"`
	// Above is the session that this tree's asks are forwarded to.
	Above string `json:"above,omitzero"`
}

// SessionFacts are said when a session starts.
type SessionFacts struct {
	Parent   string   `json:"parent,omitzero"` // empty for a root
	Channel  string   `json:"channel,omitzero"`
	Agent    string   `json:"agent,omitzero"`
	Mode     string   `json:"mode,omitzero"`
	Source   string   `json:"source,omitzero"`   // why it has this mode
	Strength string   `json:"strength,omitzero"` // enforced, enforced except …, advisory
	Missing  []string `json:"missing,omitzero"`  // what is not enforced, by name
	Cwd      string   `json:"cwd,omitzero"`
	Depth    int      `json:"depth,omitzero"`
}

// CommandFacts are said when a command starts.
type CommandFacts struct {
	Agent  bool    `json:"agent,omitzero"` // the session's agent itself, not a tool of it
	Text   string  `json:"text,omitzero"`  // as shown to a person
	Keeper Process `json:"keeper,omitzero"`
	Leader Process `json:"leader,omitzero"`
	Record string  `json:"record,omitzero"` // digest of the record that runs
}

// What proves that no process of a command is left. Any other proof is none: it
// begins with "unknown" and says what was seen.
const (
	// ProofWait: the process above all of them has no child any more (wait(2)).
	ProofWait = "wait4"
	// ProofCgroup: the control group that all of them were born in is empty.
	ProofCgroup = "cgroup"
	// ProofNothing: no process was ever started.
	ProofNothing = "nothing ran"
)

// Exit is how a command or session ended. The zero value is an end of which
// nothing is known; a status is never invented.
type Exit struct {
	Known     bool   `json:"known"`
	Code      int    `json:"code,omitzero"`   // exit status, when Signal is 0
	Signal    int    `json:"signal,omitzero"` // the signal that ended it
	Proof     string `json:"proof,omitzero"`  // of there being no survivor; see Proven
	Survivors int    `json:"survivors,omitzero"`
	Forced    bool   `json:"forced,omitzero"` // it had to be killed
	Why       string `json:"why,omitzero"`
	// Usage is what it used; of a session, with all below it.
	Usage Usage `json:"usage,omitzero"`
}

// Usage is what processes used that have ended and were waited for. What a process
// used that nobody waited for (its parent ignores the ends of its children) is not in
// it, and neither is a command whose keeper was killed.
type Usage struct {
	CPUMicros int64 `json:"cpuMicros,omitzero"` // processor time, user and system
	MaxMemory int64 `json:"maxMemory,omitzero"` // bytes: the largest resident set of one process
}

// Add returns what both used.
func (u Usage) Add(o Usage) Usage {
	return Usage{CPUMicros: u.CPUMicros + o.CPUMicros, MaxMemory: max(u.MaxMemory, o.MaxMemory)}
}

// Proven reports whether it was shown that nothing is left.
func (e Exit) Proven() bool {
	switch e.Proof {
	case ProofWait, ProofCgroup, ProofNothing:
		return e.Survivors == 0
	}
	return false
}

// AskFacts are what is being asked.
type AskFacts struct {
	Surface string `json:"surface,omitzero"`
	Value   string `json:"value,omitzero"`
	Title   string `json:"title,omitzero"`
	Record  string `json:"record,omitzero"` // digest of the record that would run
}

// Answer is how an ask ended.
type Answer struct {
	// Outcome is "allowed", "denied", "unavailable" or "withdrawn".
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitzero"`
	Record  string `json:"record,omitzero"` // digest of what was answered
	// DecidedBy is the provenance in its JSON form.
	DecidedBy jsontext.Value `json:"decidedBy,omitzero"`
	// Grants is the grant vector in its JSON form, for a successor.
	Grants jsontext.Value `json:"grants,omitzero"`
}

// Sum is what the lines of a session that were left out came to.
type Sum struct {
	State   State `json:"state"`
	PID     int   `json:"pid,omitzero"`
	Ended   int64 `json:"ended,omitzero"`
	Ran     int   `json:"ran,omitzero"`
	Allowed int   `json:"allowed,omitzero"`
	Denied  int   `json:"denied,omitzero"`
}

// Event is one line of a tree's journal. Which fields count depends on Kind;
// see Check.
type Event struct {
	Time    int64         `json:"time"` // milliseconds since 1970; AppendEvent fills in 0
	Kind    EventKind     `json:"event"`
	Session string        `json:"session,omitzero"`
	Command string        `json:"command,omitzero"`
	Ask     string        `json:"ask,omitzero"` // request id
	Tree    *TreeFacts    `json:"tree,omitzero"`
	Starts  *SessionFacts `json:"starts,omitzero"`
	Runs    *CommandFacts `json:"runs,omitzero"`
	Asks    *AskFacts     `json:"asks,omitzero"`
	Answer  *Answer       `json:"answer,omitzero"`
	State   State         `json:"state,omitzero"`
	Exit    *Exit         `json:"exit,omitzero"`
	Sum     *Sum          `json:"sum,omitzero"`
	Reason  string        `json:"reason,omitzero"`
}

// Check reports what is missing for an event of its kind.
func (e *Event) Check() error {
	need := func(what string, ok bool) error {
		if ok {
			return nil
		}
		return fmt.Errorf("event %s without %s", e.Kind, what)
	}
	session := need("a usable session id", validName(e.Session))
	command := need("a usable command id", validName(e.Command))
	switch e.Kind {
	case TreeStarted:
		return need("tree facts", e.Tree != nil)
	case TreeEnded:
		return nil
	case SessionStarted:
		return first(session, need("session facts", e.Starts != nil))
	case SessionState:
		switch e.State {
		case Starting, Running, Waiting, Stopping:
			return session
		}
		return fmt.Errorf("event %s with state %q, expected starting, running, waiting or stopping", e.Kind, clip(string(e.State)))
	case SessionEnded:
		return first(session, need("an exit", e.Exit != nil))
	case SessionSummed:
		return first(session, need("a sum", e.Sum != nil))
	case CommandStarted:
		return first(session, command, need("command facts", e.Runs != nil))
	case CommandLeft, CommandEnded:
		return first(command, need("an exit", e.Exit != nil))
	case AskOpened:
		return first(session, need("a usable request id", ValidRequestID(e.Ask)), need("what is asked", e.Asks != nil))
	case AskClosed:
		if err := first(need("a usable request id", ValidRequestID(e.Ask)), need("an answer", e.Answer != nil)); err != nil {
			return err
		}
		switch e.Answer.Outcome {
		case "allowed", "denied", "unavailable", "withdrawn":
			return nil
		}
		return fmt.Errorf("event %s with outcome %q, expected allowed, denied, unavailable or withdrawn", e.Kind, clip(e.Answer.Outcome))
	}
	return fmt.Errorf("unknown event %q", clip(string(e.Kind)))
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxText bounds a text of an event that is only there to be read. The whole of
// it is what the record's digest speaks of.
const maxText = 4 << 10

// bounded returns a copy whose texts are valid and short, so that a command of a
// hundred kilobytes is recorded and not refused.
func (e Event) bounded() Event {
	e.Reason = shorten(e.Reason)
	if e.Tree != nil {
		t := *e.Tree
		t.Cwd, t.Nested = shorten(t.Cwd), shorten(t.Nested)
		t.Argv = shortenAll(t.Argv, 16, 1<<10)
		e.Tree = &t
	}
	if e.Starts != nil {
		s := *e.Starts
		s.Agent, s.Cwd, s.Strength = shorten(s.Agent), shorten(s.Cwd), shorten(s.Strength)
		s.Missing = shortenAll(s.Missing, 32, 200)
		e.Starts = &s
	}
	if e.Runs != nil {
		r := *e.Runs
		r.Text = shorten(r.Text)
		e.Runs = &r
	}
	if e.Asks != nil {
		a := *e.Asks
		a.Value, a.Title, a.Surface = shorten(a.Value), shorten(a.Title), shorten(a.Surface)
		e.Asks = &a
	}
	if e.Answer != nil {
		a := *e.Answer
		a.Reason = shorten(a.Reason)
		e.Answer = &a
	}
	if e.Exit != nil {
		x := *e.Exit
		x.Why = shorten(x.Why)
		e.Exit = &x
	}
	return e
}

func shorten(s string) string { return cut(s, maxText) }

func shortenAll(list []string, most, each int) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, min(len(list), most+1))
	for i, s := range list {
		if i == most {
			return append(out, fmt.Sprintf("… %d more", len(list)-most))
		}
		out = append(out, cut(s, each))
	}
	return out
}

// cut returns at most most bytes of s, whole characters and valid UTF-8, and "…"
// where something was left out.
func cut(s string, most int) string {
	tail := ""
	if len(s) > most {
		end := most
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s, tail = s[:end], "…"
	}
	return strings.ToValidUTF8(s, "\ufffd") + tail
}
