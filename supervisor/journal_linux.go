package supervisor

import (
	"fmt"
	"os"
	"strings"

	"github.com/getpioneer/pioneer-super/liveness"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
	"github.com/getpioneer/pioneer-super/supervisor/reaper"
)

// The journal tells who runs and what is asked, for whoever looks at the tree
// from outside and for a successor. Why something was allowed is in the audit.

func process(pid int) registry.Process {
	p := registry.Process{PID: pid}
	p.Boot, p.PIDNS = liveness.Here()
	if seen, err := reaper.Look(pid); err == nil {
		p.Start = seen.Start
	}
	return p
}

// nested says in words that this supervisor itself runs inside another tree,
// whatever its environment says: then its human may be somebody's agent.
func nested() string {
	chain, err := reaper.Ancestors(os.Getppid(), func(int) bool { return false })
	if err != nil {
		return "its ancestors cannot be read"
	}
	for _, p := range chain {
		if name, tree := processName(p.PID); name == keeper.KeeperName {
			return "nested, not proven: below a keeper of tree " + tree
		}
	}
	return ""
}

// processName is argv[0] of a process and what follows it.
func processName(pid int) (name, rest string) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "", ""
	}
	name, rest, _ = strings.Cut(strings.TrimRight(string(line), "\x00"), "\x00")
	return name, rest
}

func (t *tree) journalTree(argv []string, cwd string) error {
	return t.store.AppendEvent(registry.Event{Kind: registry.TreeStarted, Tree: &registry.TreeFacts{
		Build: t.opts.Build, Supervisor: process(os.Getpid()), Front: process(os.Getppid()), Cwd: cwd, Argv: argv,
		Headless: !t.root.Terminal, NoEnvelope: t.root.NoEnvelope, Nested: nested(),
	}}, true)
}

func (t *tree) journalSession(s *session) error {
	facts := &registry.SessionFacts{
		Channel: s.channel, Agent: s.agent, Mode: string(s.snap.Profile.Mode), Source: string(s.snap.Profile.Source),
		Strength: s.snap.Enforcement.Strength, Missing: s.snap.Enforcement.Degradations, Cwd: s.snap.Sandbox.Cwd, Depth: s.depth,
	}
	if s.parent != nil {
		facts.Parent = s.parent.id
	}
	return t.store.AppendEvent(registry.Event{Kind: registry.SessionStarted, Session: s.id, Starts: facts}, true)
}

func (t *tree) journalSessionEnd(s *session, e registry.Exit) {
	s.books.Lock()
	defer s.books.Unlock()
	s.closed = true
	t.store.AppendEvent(registry.Event{Kind: registry.SessionEnded, Session: s.id, Reason: e.Why, Exit: &e}, true)
}

func (t *tree) journalStopping(s *session, why string) {
	t.store.AppendEvent(registry.Event{Kind: registry.SessionState, Session: s.id, State: registry.Stopping, Reason: why}, false)
}

func (t *tree) journalCommand(c *command) error {
	return t.store.AppendEvent(registry.Event{Kind: registry.CommandStarted, Session: c.session.id, Command: c.id, Runs: &registry.CommandFacts{
		Agent: c.agent, Text: commandLine(c.record), Keeper: process(c.keeper.pid), Record: c.record.Digest(), Leader: registry.Process{PID: c.keeper.stage},
	}}, false)
}

func (t *tree) journalLeft(c *command, code, signal, left int) {
	t.store.AppendEvent(registry.Event{Kind: registry.CommandLeft, Session: c.session.id, Command: c.id,
		Exit: &registry.Exit{Known: true, Code: code, Signal: signal, Survivors: left}}, false)
}

func (t *tree) journalCommandEnd(c *command, e registry.Exit) {
	t.store.AppendEvent(registry.Event{Kind: registry.CommandEnded, Session: c.session.id, Command: c.id, Exit: &e}, false)
}

// asked tells the journal what waits for an answer. Of a session that ended while the
// question was made there is nothing more to tell: nothing of it waits.
func (t *tree) asked(s *session, id, surface, what string) {
	s.books.Lock()
	defer s.books.Unlock()
	if s.closed {
		return
	}
	t.store.AppendEvent(registry.Event{Kind: registry.AskOpened, Session: s.id, Ask: id, Asks: &registry.AskFacts{Surface: surface, Value: what}}, false)
}

// answered tells the journal that it does not wait any more.
func (t *tree) answered(s *session, id, outcome, reason string) {
	t.store.AppendEvent(registry.Event{Kind: registry.AskClosed, Session: s.id, Ask: id, Answer: &registry.Answer{Outcome: outcome, Reason: reason}}, false)
}
