package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/getpioneer/pioneer-super/registry/durable"
)

const (
	// maxJournal is how much of a journal is read, in bytes.
	maxJournal = 1 << 30
	// maxProblems bounds how many problems of one journal are told one by one.
	maxProblems = 100

	// What is kept of the past, for each session; what lives is always kept.
	keepCommands = 64
	keepAnswers  = 1024
)

// TreeState is what a journal tells of a tree.
type TreeState struct {
	ID      string     `json:"tree,omitzero"`
	Alive   bool       `json:"alive"` // its supervisor lives; set by Tree.State only
	Facts   *TreeFacts `json:"facts,omitzero"`
	Started int64      `json:"started,omitzero"` // milliseconds since 1970
	Ended   int64      `json:"ended,omitzero"`   // 0: not that we know
	Reason  string     `json:"reason,omitzero"`  // of its end
	// Sessions are the roots, in the order in which they started.
	Sessions []*SessionNode `json:"sessions"`
	// Answers are the latest answers, oldest first: a request that is repeated
	// gets the same one.
	Answers []Answered `json:"-"`
	Lines   int        `json:"lines"`
	Bad     int        `json:"badLines,omitzero"` // lines that tell nothing

	order    []*SessionNode // all of them, as they started
	sessions map[string]*SessionNode
	commands map[string]*CommandNode
	asks     map[string]*SessionNode // open ones, by request id
	answered map[string]bool
}

// SessionNode is one session of a tree and what is below it.
type SessionNode struct {
	ID string `json:"session"`
	SessionFacts
	State   State `json:"state"`
	PID     int   `json:"pid,omitzero"` // of its agent
	Started int64 `json:"started"`
	Ended   int64 `json:"ended,omitzero"`
	Exit    *Exit `json:"exit,omitzero"`
	// Why it is being stopped, or ended.
	Why string `json:"why,omitzero"`
	// Asks are the open ones, oldest first.
	Asks     []OpenAsk      `json:"asks,omitzero"`
	Commands []*CommandNode `json:"commands,omitzero"`
	// Ran, Allowed and Denied count what is over, told above or not.
	Ran      int            `json:"ran,omitzero"`
	Allowed  int            `json:"allowed,omitzero"`
	Denied   int            `json:"denied,omitzero"`
	Children []*SessionNode `json:"children,omitzero"`
}

// CommandNode is one command: the agent of its session or a tool.
type CommandNode struct {
	ID      string `json:"command"`
	Session string `json:"session"`
	CommandFacts
	State   State `json:"state"` // running, background, ended or unknown
	Started int64 `json:"started"`
	Ended   int64 `json:"ended,omitzero"`
	Exit    *Exit `json:"exit,omitzero"`
}

// OpenAsk is an ask that waits for its answer.
type OpenAsk struct {
	ID      string `json:"request"`
	Command string `json:"command,omitzero"`
	AskFacts
	Since int64 `json:"since"` // milliseconds since 1970
}

// Answered is an ask that has its answer.
type Answered struct {
	ID      string `json:"request"`
	Session string `json:"session"`
	Time    int64  `json:"time"`
	Answer
}

// Session returns the session with this id, or nil.
func (s TreeState) Session(id string) *SessionNode { return s.sessions[id] }

// Command returns the command with this id, or nil. One that ended long ago may
// have been left out.
func (s TreeState) Command(id string) *CommandNode { return s.commands[id] }

// Replay reads the journal in the directory dir, which is a tree's. It never
// fails as a whole: what can be read is told, and what cannot is counted and
// among the problems. It needs no supervisor and takes no lock.
func Replay(dir string) (TreeState, []error) {
	root, err := durable.OpenDir(dir)
	if err != nil {
		return newState(), []error{err}
	}
	defer root.Close()
	return replay(root)
}

// State is Replay for this tree. If its supervisor does not live, what had not
// ended is Unknown.
func (t *Tree) State() (TreeState, []error) {
	// Asked before reading: a supervisor that ends in between has written all.
	alive, err := t.Alive()
	state, problems := replay(t.root)
	if err != nil {
		problems = append(problems, err)
	}
	state.ID, state.Alive = t.id, alive
	if !alive {
		state.abandon()
	}
	return state, problems
}

func replay(root *os.Root) (TreeState, []error) {
	f, err := durable.OpenFile(root, journalName, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return newState(), nil // it started a moment ago, or never
	}
	if err != nil {
		return newState(), []error{err}
	}
	defer f.Close()
	return read(f, f.Name())
}

func newState() TreeState {
	return TreeState{
		sessions: map[string]*SessionNode{},
		commands: map[string]*CommandNode{},
		asks:     map[string]*SessionNode{},
		answered: map[string]bool{},
	}
}

// read replays the lines of r; name is for the problems.
func read(r io.Reader, name string) (TreeState, []error) {
	state := newState()
	var problems []error
	problem := func(number int, err error) {
		if state.Bad++; state.Bad <= maxProblems {
			problems = append(problems, fmt.Errorf("%s:%d: %w", name, number, err))
		}
	}
	limited := &io.LimitedReader{R: r, N: maxJournal}
	for line, err := range durable.Lines(limited, MaxLine) {
		if err != nil {
			problems = append(problems, err)
			break
		}
		if len(line.Text) == 0 && !line.Long {
			continue // where half a line was ended
		}
		e, err := decodeEvent(line)
		if err != nil {
			problem(line.Number, err)
			continue
		}
		state.Lines++
		if err := state.apply(e); err != nil {
			problem(line.Number, err)
		}
	}
	if state.Bad > maxProblems {
		problems = append(problems, fmt.Errorf("%s: %d more lines that tell nothing", name, state.Bad-maxProblems))
	}
	if limited.N == 0 {
		problems = append(problems, fmt.Errorf("%s: only its first %d bytes were read", name, maxJournal))
	}
	return state, problems
}

func decodeEvent(line durable.Line) (Event, error) {
	var e Event
	if line.Long {
		return e, fmt.Errorf("%w: longer than %d bytes", durable.ErrDamaged, MaxLine)
	}
	text, err := durable.Unframe(line.Text)
	if err != nil {
		return e, err
	}
	// The reader's buffer is used again for the next line.
	if err := json.Unmarshal(bytes.Clone(text), &e); err != nil {
		return Event{}, err
	}
	return e, e.Check()
}

// apply brings the state forward by one event. An event that does not fit the
// state changes nothing and is an error.
func (s *TreeState) apply(e Event) error {
	switch e.Kind {
	case TreeStarted:
		return s.startTree(e)
	case TreeEnded:
		s.Ended, s.Reason = e.Time, e.Reason
		return nil
	case SessionStarted:
		return s.startSession(e)
	case CommandStarted:
		return s.startCommand(e)
	case CommandLeft, CommandEnded:
		return s.endCommand(e)
	case AskClosed:
		return s.closeAsk(e)
	case SessionSummed:
		return s.sumSession(e)
	}
	session, ok := s.sessions[e.Session]
	if !ok {
		return fmt.Errorf("event %s of session %s, which never started", e.Kind, e.Session)
	}
	if session.State == Ended {
		return fmt.Errorf("event %s of session %s, which has ended", e.Kind, e.Session)
	}
	switch e.Kind {
	case SessionState:
		session.State, session.Why = e.State, e.Reason
	case SessionEnded:
		session.State, session.Ended, session.Exit, session.Why = Ended, e.Time, e.Exit, e.Reason
		for _, ask := range session.Asks {
			delete(s.asks, ask.ID)
		}
		session.Asks = nil
	case AskOpened:
		if _, open := s.asks[e.Ask]; open || s.answered[e.Ask] {
			return fmt.Errorf("request %s is asked a second time", e.Ask)
		}
		s.asks[e.Ask] = session
		session.Asks = append(session.Asks, OpenAsk{ID: e.Ask, Command: e.Command, AskFacts: *e.Asks, Since: e.Time})
	}
	return nil
}

func (s *TreeState) startTree(e Event) error {
	// A successor says it again: the tree goes on under another supervisor.
	s.Facts, s.Ended, s.Reason = e.Tree, 0, ""
	if s.Started == 0 {
		s.Started = e.Time
	}
	return nil
}

func (s *TreeState) startSession(e Event) error {
	if s.sessions[e.Session] != nil {
		return fmt.Errorf("session %s starts a second time", e.Session)
	}
	node := &SessionNode{ID: e.Session, SessionFacts: *e.Starts, State: Starting, Started: e.Time}
	// Before it is known itself: a session below itself would be a ring.
	parent, ok := s.sessions[node.Parent]
	s.sessions[e.Session] = node
	s.order = append(s.order, node)
	if node.Parent == "" {
		s.Sessions = append(s.Sessions, node)
		return nil
	}
	if !ok {
		s.Sessions = append(s.Sessions, node) // shown all the same
		return fmt.Errorf("session %s below %s, which never started", e.Session, clip(node.Parent))
	}
	parent.Children = append(parent.Children, node)
	return nil
}

func (s *TreeState) sumSession(e Event) error {
	session, ok := s.sessions[e.Session]
	if !ok {
		return fmt.Errorf("event %s of session %s, which never started", e.Kind, e.Session)
	}
	session.State, session.PID, session.Ended, session.Exit = e.Sum.State, e.Sum.PID, e.Sum.Ended, e.Exit
	session.Ran, session.Allowed, session.Denied = e.Sum.Ran, e.Sum.Allowed, e.Sum.Denied
	return nil
}

func (s *TreeState) startCommand(e Event) error {
	session, ok := s.sessions[e.Session]
	if !ok {
		return fmt.Errorf("command %s of session %s, which never started", e.Command, e.Session)
	}
	if s.commands[e.Command] != nil {
		return fmt.Errorf("command %s starts a second time", e.Command)
	}
	node := &CommandNode{ID: e.Command, Session: e.Session, CommandFacts: *e.Runs, State: Running, Started: e.Time}
	s.commands[e.Command] = node
	session.Commands = append(session.Commands, node)
	if node.Agent && session.State != Ended {
		session.PID = node.Leader.PID
		if session.State == Starting {
			session.State = Running
		}
	}
	return nil
}

func (s *TreeState) endCommand(e Event) error {
	command, ok := s.commands[e.Command]
	if !ok {
		return fmt.Errorf("command %s ends and never started", e.Command)
	}
	if command.State == Ended {
		return fmt.Errorf("command %s ends a second time", e.Command)
	}
	if e.Kind == CommandLeft {
		command.State, command.Exit = Background, e.Exit
		return nil
	}
	// What its leader's end was is known from before; the rest adds the proof.
	if command.Exit != nil && command.Exit.Known && !e.Exit.Known {
		exit := *e.Exit
		exit.Known, exit.Code, exit.Signal = true, command.Exit.Code, command.Exit.Signal
		e.Exit = &exit
	}
	command.State, command.Ended, command.Exit = Ended, e.Time, e.Exit
	session := s.sessions[command.Session]
	session.Ran++
	s.forget(session)
	return nil
}

// forget leaves out the oldest commands that are over.
func (s *TreeState) forget(session *SessionNode) {
	if len(session.Commands) <= 2*keepCommands {
		return
	}
	var over int
	for _, c := range session.Commands {
		if c.State == Ended && !c.Agent {
			over++
		}
	}
	kept := session.Commands[:0]
	for _, c := range session.Commands {
		if c.State == Ended && !c.Agent && over > keepCommands {
			over--
			delete(s.commands, c.ID)
			continue
		}
		kept = append(kept, c)
	}
	clear(session.Commands[len(kept):])
	session.Commands = kept
}

func (s *TreeState) closeAsk(e Event) error {
	if s.answered[e.Ask] {
		return fmt.Errorf("request %s is answered a second time", e.Ask)
	}
	// One that policy answers at once was never opened; its answer counts as well.
	session, open := s.asks[e.Ask]
	if open {
		delete(s.asks, e.Ask)
		kept := session.Asks[:0]
		for _, ask := range session.Asks {
			if ask.ID != e.Ask {
				kept = append(kept, ask)
			}
		}
		if session.Asks = kept; len(kept) == 0 {
			session.Asks = nil
		}
	} else if session = s.sessions[e.Session]; session == nil {
		return fmt.Errorf("request %s is answered and nobody asked", e.Ask)
	}
	switch e.Answer.Outcome {
	case "allowed":
		session.Allowed++
	case "denied", "unavailable":
		session.Denied++
	}
	s.answered[e.Ask] = true
	s.Answers = append(s.Answers, Answered{ID: e.Ask, Session: session.ID, Time: e.Time, Answer: *e.Answer})
	if len(s.Answers) >= 2*keepAnswers {
		for _, old := range s.Answers[:len(s.Answers)-keepAnswers] {
			delete(s.answered, old.ID)
		}
		s.Answers = append([]Answered(nil), s.Answers[len(s.Answers)-keepAnswers:]...)
	}
	return nil
}

// abandon says Unknown of all that has no known end.
func (s *TreeState) abandon() {
	for _, session := range s.sessions {
		if session.State != Ended {
			session.State = Unknown
		}
	}
	for _, command := range s.commands {
		if command.State != Ended {
			command.State = Unknown
		}
	}
}
