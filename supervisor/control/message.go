package control

import "fmt"

// Protocol is the version of the frames. Client and supervisor of different
// versions do not talk: the client leaves with 125 and names both.
const Protocol = 1

// Operations of a Request. The first group is for agents and tools, each judged;
// OpRoot is for the front over the descriptor that it made; the last group needs
// a proof of the human, but for OpStop of a session below one's own.
const (
	OpSpawn = "spawn"
	OpExec  = "exec"
	OpAsk   = "ask"
	OpTurn  = "turn"
	// OpCheck says what recorded authority answers to an Ask; nobody is asked and
	// nothing is recorded.
	OpCheck = "check"

	OpRoot = "root"

	OpApprove = "approve"
	OpStop    = "stop"
	OpRevoke  = "revoke"
)

// Message is one frame, either way; exactly one member is set.
type Message struct {
	Hello   *Hello   `json:"hello,omitzero"`
	Request *Request `json:"request,omitzero"`

	// Start tells the client that its command was allowed. The keeper's end of a
	// socket pair comes with it: over that the client hands its streams.
	Start *Start `json:"start,omitzero"`
	// Result ends a request.
	Result *Result `json:"result,omitzero"`
	// Notice is one line for the human of this client.
	Notice *Notice `json:"notice,omitzero"`
	// Stop is the client's wish that its command ends: it was interrupted.
	Stop *Stop `json:"stop,omitzero"`

	// Between the supervisor and a human endpoint.
	Question *Question `json:"question,omitzero"`
	Withdraw *Withdraw `json:"withdraw,omitzero"`
	Answer   *Answer   `json:"answer,omitzero"`
}

// Hello is the first frame both ways.
type Hello struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
	Tree     string `json:"tree,omitempty"`
	Session  string `json:"session,omitempty"`
}

// Request is a wish. The supervisor believes nothing in it: it is judged, shown
// and bound.
type Request struct {
	// ID is minted by the client, which may repeat a request: same id, same
	// answer, never a second effect.
	ID string `json:"id"`
	Op string `json:"op"`

	Command *Command `json:"command,omitzero"`
	Spawn   *Spawn   `json:"spawn,omitzero"`
	Ask     *Ask     `json:"ask,omitzero"`
	Root    *Root    `json:"root,omitzero"`
	Approve *Approve `json:"approve,omitzero"`
	Turn    string   `json:"turn,omitempty"`
	Grant   string   `json:"grant,omitzero"`
	// Target is the session that OpStop ends with all below it; "" is the root.
	Target string `json:"target,omitzero"`
}

// Command is what the client wants to have run.
type Command struct {
	// Argv is the argument vector, or for shell text the words after it: $0 and
	// the positional parameters.
	Argv []string `json:"argv"`
	// Text is shell text; Shell names the shell whose text it is, "bash" or "sh".
	Text  string `json:"text,omitempty"`
	Shell string `json:"shell,omitempty"`
	// Options are further options of that shell; see ShellOption.
	Options []string `json:"options,omitempty"`
	// Form, if not empty, names a way of calling a shell that is always an ask:
	// "standard input", "interactive", "login", "zsh", "options".
	Form string `json:"form,omitempty"`
	// Dir is the directory, absolute.
	Dir string   `json:"dir"`
	Env []string `json:"env"`
	// Umask of the client.
	Umask int `json:"umask"`
	// Streams says what 0, 1 and 2 are; the keeper checks it against what it gets.
	Streams [3]string `json:"streams"`
}

// ShellOption says whether a name may follow -o or +o: those that change how a
// shell fails, and nothing that changes which commands a text runs.
func ShellOption(name string) bool {
	switch name {
	case "errexit", "nounset", "noglob", "pipefail":
		return true
	}
	return false
}

// CheckOptions refuses options of a shell other than -e, -u, -f and -o with a
// ShellOption, or their opposites.
func CheckOptions(options []string) error {
	for i := 0; i < len(options); i++ {
		switch o := options[i]; o {
		case "-e", "+e", "-u", "+u", "-f", "+f":
		case "-o", "+o":
			i++
			if i < len(options) && ShellOption(options[i]) {
				continue
			}
			fallthrough
		default:
			return fmt.Errorf("shell option %q: expected -e, -u, -f, or -o with errexit, nounset, noglob or pipefail", o)
		}
	}
	return nil
}

// Spawn is what the client wants of a new session.
type Spawn struct {
	Mode  string `json:"mode,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Limits end the session; it has the stricter ones of these and its parent's.
	Limits Limits `json:"limits,omitzero"`
	// Cap is the content of a cap file that the client opened with its own rights.
	Cap *File `json:"cap,omitzero"`
}

// Limits are those that a client wants for its session; 0 is none.
type Limits struct {
	WallMS    int64 `json:"wallMS,omitzero"` // milliseconds
	IdleMS    int64 `json:"idleMS,omitzero"` // milliseconds
	Processes int   `json:"processes,omitzero"`
}

// File is a file that the client read.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Root is what only the first client of a tree can say.
type Root struct {
	Tree   string `json:"tree"`
	State  string `json:"state"`
	Run    string `json:"run"`
	Config string `json:"config"`
	// Policy is the global policy file, Guards the hard guards, Settings config.jsonc,
	// each nil if there is none; Agents are the heads of the files of agents.
	Policy   *File  `json:"policy,omitzero"`
	Guards   *File  `json:"guards,omitzero"`
	Settings *File  `json:"settings,omitzero"`
	Agents   []File `json:"agents,omitzero"`
	// PolicyPath is where the policy is, or would be.
	PolicyPath string `json:"policyPath,omitzero"`
	// ReviewKey is the key of the model reviewer, if the settings name a variable
	// for it: the supervisor has no environment.
	ReviewKey string `json:"reviewKey,omitzero"`
	// UserMessages are what the human wants of the tree, in the human's own words.
	UserMessages []File `json:"userMessages,omitzero"`
	// Terminal says that this front owns one and serves dialogs on it.
	Terminal bool `json:"terminal,omitempty"`
	// Approver says that a descriptor for answers came with the request.
	Approver bool `json:"approver,omitempty"`
	// Phrase is the hash of the phrase that the human chose, if any.
	Phrase []byte `json:"phrase,omitempty"`
	// Reach lists what could type for the human: "tmux", "session bus"…
	Reach      []string `json:"reach,omitempty"`
	NoEnvelope bool     `json:"noEnvelope,omitempty"`
	// Backend is the sandbox backend that the operator wants at most, "" for the strongest.
	Backend  string `json:"backend,omitempty"`
	MaxDepth int    `json:"maxDepth,omitempty"`
	// Executable is the path of this binary as the operator started it.
	Executable string `json:"executable"`
	Home       string `json:"home"`
	// Shell paths found on the operator's PATH.
	Bash string `json:"bash,omitempty"`
	Sh   string `json:"sh,omitempty"`
	// GitConfig is the operator's own git configuration, of which restricted tools
	// read what runs and reveals nothing.
	GitConfig []byte `json:"gitConfig,omitempty"`
	// Parent is the channel of a foreign parent that asks are forwarded to.
	Parent *Parent `json:"parent,omitzero"`
}

// Parent is a foreign session that serves asks of this tree.
type Parent struct {
	Root      string `json:"root"`
	Session   string `json:"session"`
	Own       string `json:"own"`
	Source    string `json:"source"`
	Supported bool   `json:"supported,omitempty"`
}

// Ask is a decision only.
type Ask struct {
	Surface string `json:"surface"`
	Value   string `json:"value"`
	Tool    string `json:"tool,omitempty"`
	// Real is where the path leads that Value names, as the client sees it. It adds a
	// spelling that is judged and takes none away.
	Real string `json:"real,omitzero"`
}

// Approve wants to become a human endpoint.
type Approve struct {
	// Phrase, if set, proves the human at once.
	Phrase []byte `json:"phrase,omitempty"`
}

// Start goes with the descriptor over which streams are handed.
type Start struct {
	Command string `json:"command"`
	Session string `json:"session"`
	// Terminal says that the keeper will send back the master of a
	// pseudo-terminal.
	Terminal bool `json:"terminal,omitempty"`
}

// Result classes.
const (
	ClassExited   = "exited"
	ClassSignaled = "signaled"
	ClassRefused  = "refused"
	ClassNotFound = "not_found"
	ClassFailed   = "failed"
	// ClassStopped: somebody or a limit ended the session; Reason says who, and
	// Exit is its agent's own status, never 0.
	ClassStopped = "stopped"
	ClassDecided = "decided"
)

// Result is how a request ended.
type Result struct {
	// Exit is the status that the client leaves with.
	Exit  int    `json:"exit"`
	Class string `json:"class"`
	// Verdict and By are set for decisions: "allow", "deny"; "rule", "human",
	// "parent", "nobody".
	Verdict string `json:"verdict,omitempty"`
	By      string `json:"by,omitempty"`
	// Reason is one sentence: who refused and why, or what failed.
	Reason  string `json:"reason,omitempty"`
	Session string `json:"session,omitempty"`
	Command string `json:"command,omitempty"`
	// Leftovers counts what a tool left running in the background.
	Leftovers int `json:"leftovers,omitempty"`
	// Stopped are the sessions that OpStop ended, leaves first.
	Stopped []Stopped `json:"stopped,omitempty"`
}

// Stopping is the result of what ran and was ended for that reason before it was
// done: it never looks as if it were complete.
func (r Result) Stopping(why string) Result {
	if r.Class != ClassExited && r.Class != ClassSignaled {
		return r
	}
	r.Class, r.Reason = ClassStopped, why
	if r.Exit == 0 {
		r.Exit = 128 + 15 // as by SIGTERM
	}
	return r
}

// Stopped is what the end of one session came to.
type Stopped struct {
	Session string `json:"session"`
	Agent   string `json:"agent,omitempty"`
	// Commands are all that it ever ran, its agent among them; Forced those of
	// which something had to be killed.
	Commands int `json:"commands"`
	Forced   int `json:"forced,omitempty"`
	// Survivors are processes that were seen and did not end.
	Survivors int `json:"survivors,omitempty"`
	// Proof is what shows that nothing of it is left: "wait4", "cgroup", "nothing
	// ran"; else it begins with "unknown", and Proven is false.
	Proof  string `json:"proof"`
	Proven bool   `json:"proven"`
}

// Notice is one line for the client's human.
type Notice struct {
	Text string `json:"text"`
}

// Stop asks that the client's own command ends, as if by that signal.
type Stop struct {
	Signal int `json:"signal"`
}

// Line is one fact of a question.
type Line struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Offer is one line of the grant vector that the human may flip.
type Offer struct {
	Key      string `json:"key"`
	Name     string `json:"name"`
	Sentence string `json:"sentence"`
	On       bool   `json:"on,omitempty"`
	// Changeable is false where the ceiling or this host decides.
	Changeable bool `json:"changeable,omitempty"`
	// Strong says that it needs its own key and the word.
	Strong bool `json:"strong,omitempty"`
}

// Question is what a human endpoint shows.
type Question struct {
	ID string `json:"id"`
	// Digest is the record's; an answer carries it back.
	Digest      string   `json:"digest"`
	Session     string   `json:"session"`
	Agent       string   `json:"agent,omitempty"`
	Chain       []string `json:"chain,omitempty"`
	Tool        string   `json:"tool,omitempty"`
	Surface     string   `json:"surface,omitempty"`
	Command     string   `json:"command"`
	Executed    string   `json:"executed,omitempty"`
	Dir         string   `json:"dir,omitempty"`
	Reason      string   `json:"reason"`
	Rule        string   `json:"rule,omitempty"`
	Strength    string   `json:"strength"`
	Class       string   `json:"class,omitempty"`
	Environment []string `json:"environment,omitempty"`
	Needs       []Line   `json:"needs,omitempty"`
	Offers      []Offer  `json:"offers,omitempty"`
	TurnPattern string   `json:"turnPattern,omitempty"`
	TurnAllowed bool     `json:"turnAllowed,omitempty"`
	// Pattern is what may be allowed for the turn beside exactly this, "" for
	// nothing; TreeAllowed says that either may be for every session of the tree;
	// Always is the very line that an answer may write into the policy, with its
	// place.
	Pattern     string   `json:"pattern,omitzero"`
	TreeAllowed bool     `json:"treeAllowed,omitzero"`
	Always      string   `json:"always,omitzero"`
	Warnings    []string `json:"warnings,omitempty"`
	// PhraseNeeded says that only an answer with the phrase of the tree allows it,
	// TurnPhrase that one may allow for the turn although TurnAllowed is false.
	PhraseNeeded bool `json:"phraseNeeded,omitzero"`
	TurnPhrase   bool `json:"turnPhrase,omitzero"`
	// Pairing says that the answer is a code that another terminal shows.
	Pairing bool `json:"pairing,omitempty"`
	// Code is what has to be typed; it is sent to the tree's own terminal alone,
	// which does not show it.
	Code string `json:"code,omitempty"`
	// Waiting is the number of further asks in the queue.
	Waiting int `json:"waiting,omitempty"`
}

// Withdraw says that a question needs no answer any more: the one of that record,
// since an id is its client's word.
type Withdraw struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	Why    string `json:"why"`
}

// Answer is what a human decided.
type Answer struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	// Decision is "allow_once", "allow_for_turn", "allow_always" or "deny";
	// for pairing, "code".
	Decision string `json:"decision"`
	// Scope is of an allow for the turn: "" for exactly this, "pattern" for the
	// pattern that was shown. Tree lets it count in every session of the tree.
	Scope  string `json:"scope,omitzero"`
	Tree   bool   `json:"tree,omitzero"`
	Reason string `json:"reason,omitempty"`
	// Offers has the keys of the lines that were on.
	Offers []string `json:"offers,omitempty"`
	Code   string   `json:"code,omitempty"`
	Phrase []byte   `json:"phrase,omitempty"`
}
