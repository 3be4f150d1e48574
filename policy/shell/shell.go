package shell

import (
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// Dialect is the shell that will read the text.
type Dialect int

const (
	// Bash is GNU bash 5.
	Bash Dialect = iota
	// POSIX is sh as dash reads it.
	POSIX
	// Zsh, PowerShell and Cmd are not analysed: the whole text is one ask.
	Zsh
	PowerShell
	Cmd
)

var dialectNames = [...]string{Bash: "bash", POSIX: "sh", Zsh: "zsh", PowerShell: "powershell", Cmd: "cmd"}

// String returns the shell's name.
func (d Dialect) String() string {
	if d >= 0 && int(d) < len(dialectNames) {
		return dialectNames[d]
	}
	return "unknown shell"
}

// Resolver looks names up on the record's PATH and in its directory. An
// implementation answers from what the command itself will see.
type Resolver interface {
	// Lookup returns the file that a command word resolves to, and whether the
	// session that asks can change that file. ok is false when nothing is found.
	Lookup(word string) (file string, sessionCanChange bool, ok bool)
	// Exists reports whether lstat finds the absolute path, symbolic links and
	// dangling ones included.
	Exists(path string) bool
}

// Options is what the text will run with.
type Options struct {
	Dialect Dialect
	// Dir, Home and Workspace are absolute paths; an empty one is unknown.
	Dir, Home, Workspace string
	// Env answers for the environment that the command will have. It may be nil.
	Env func(name string) (string, bool)
	// Resolver may be nil: then units are marked unresolved.
	Resolver Resolver
	// RulesAlone says that there is no session whose roots and mode count: paths are
	// judged by rules, but what a redirection writes by whatever is said of writing.
	RulesAlone bool
	// Args are the positional parameters. They are data.
	Args []string
}

// Class says whether approving a command approves a program or a file that can
// be another one a moment later.
type Class uint8

const (
	// RunsSessionFiles is a command that executes files which the session can
	// change: scripts, tests, builds, package scripts. It is the zero value
	// because it is the careful answer.
	RunsSessionFiles Class = iota
	// FixedProgram is a program whose code the session cannot change.
	FixedProgram
)

// String returns the words that a dialog shows.
func (c Class) String() string {
	if c == FixedProgram {
		return "fixed program"
	}
	return "runs files this session can change"
}

// MarshalText writes the words of [Class.String].
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Form is another way to write a unit, against which rules are matched as well.
type Form struct {
	Text string `json:"text"`
	// Cap is the most that a rule matched by this form may restrict: Deny where
	// the form means the same, Ask where it only may.
	Cap policy.Action `json:"cap"`
	// MayAllow says that a rule naming this form may also allow the unit.
	MayAllow bool   `json:"may_allow,omitempty"`
	Why      string `json:"why"`

	// unnamed: counts only where the deciding rule does not name the program.
	unnamed bool
}

// Unit is one simple command that the text may run.
type Unit struct {
	// Text is the normal form, what patterns of the "bash" surface match.
	Text  string   `json:"text"`
	Words []string `json:"words"`
	// Context is where the command stands: "list", "pipeline", "subshell",
	// "substitution", "function", … and for a peeled command "wrapper".
	Context string `json:"context,omitempty"`
	// Wrappers are the layers around this command, outermost first.
	Wrappers []string `json:"wrappers,omitempty"`
	// Executed is what a wrapper finally runs, for display.
	Executed string `json:"executed,omitempty"`
	// Floor lowers an allow: Allow means that there is no floor.
	Floor policy.Action `json:"floor"`
	// FloorReason is a sentinel such as "<computed-command>"; FloorText says
	// the same in one sentence for a human.
	FloorReason string `json:"floor_reason,omitempty"`
	FloorText   string `json:"floor_text,omitempty"`
	// Lift, where not empty, are literals: an allow whose pattern names one of
	// them lifts the floor, because its author meant exactly this.
	Lift []string `json:"lift,omitempty"`
	// Forms are other spellings of the unit.
	Forms []Form `json:"forms,omitempty"`
	// Transparent says that everything this command does is in other units, so
	// that only a rule which names it counts, not a catch-all.
	Transparent bool  `json:"transparent,omitempty"`
	Class       Class `json:"class"`
	// File is what the command word resolves to; empty when unresolved.
	File string `json:"file,omitempty"`
	// Changeable says that the session can change File.
	Changeable bool `json:"changeable,omitempty"`
	// Resolution is "file", "builtin", "function", "unresolved" or "missing".
	Resolution string `json:"resolution"`
	// Assigns are the assignments in front of the command, as NAME=value.
	Assigns []string `json:"assigns,omitempty"`
	// Scripts are operands that the command executes as code.
	Scripts []string `json:"scripts,omitempty"`

	// head is the bare program name, for rules that name it.
	head string
	// words are the words as judged, unknown ones included.
	words []word
}

// PathUse is one path that the text names.
type PathUse struct {
	// Typed is the path as written, quoting removed.
	Typed string `json:"typed"`
	// Path is absolute and cleaned, without symbolic links followed; empty when
	// the base directory or a part is not known.
	Path  string `json:"path,omitempty"`
	Write bool   `json:"write"`
	// Source is "redirect", "operand", "option", "word", "cd" or "command".
	Source string `json:"source"`
	// Command is the program that uses it.
	Command string `json:"command,omitempty"`
	// UnknownBase says that the directory it is relative to is not known.
	UnknownBase bool `json:"unknown_base,omitempty"`
	// Pattern says that Path holds globs.
	Pattern bool `json:"pattern,omitempty"`
	// Unproven says that the direction is not known; the same path then stands
	// in the list as a read and as a write.
	Unproven bool `json:"unproven,omitempty"`
	// Unknown says that a redirection writes a file whose name the text does
	// not show: at least an ask.
	Unknown bool `json:"unknown,omitempty"`

	aliases []string
	// shapes are what it may become where that is not known.
	shapes []policy.Shape
	// dir is what a path that is not known is relative to.
	dir string
}

// Problem is a reason why the text cannot be judged whole. A text with a problem
// is never allowed.
type Problem struct {
	// Kind is a sentinel: "<unparseable-bash-command>", "<too-complex>", …
	Kind string `json:"kind"`
	// Message says what was found, for humans.
	Message string `json:"message"`
	// Line and Column count from 1; 0 means no position.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Action is the most that the text may get: Ask or Deny.
	Action policy.Action `json:"action"`
}

// Needs is what the commands want beyond a closed sandbox. It fills the grant
// vector of the dialog.
type Needs struct {
	// WorkspaceWrite says that files of the workspace are written.
	WorkspaceWrite bool `json:"workspace_write,omitempty"`
	// Network says that hosts are talked to; Hosts names those that are known.
	Network bool     `json:"network,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
	// Remotes are git remotes whose address only the repository knows.
	Remotes []string `json:"remotes,omitempty"`
	// Capabilities are names of the closed table: ssh, git-credential:HOST,
	// gpg, env:NAME, docker, display, nest, off.
	Capabilities []string `json:"capabilities,omitempty"`
	// Writes and Reads are absolute paths outside the workspace.
	Writes []string `json:"writes,omitempty"`
	Reads  []string `json:"reads,omitempty"`
	// Sentences tell the human what cannot be seen from the names.
	Sentences []string `json:"sentences,omitempty"`
}

// Analysis is everything that could be found out about one text.
type Analysis struct {
	// Canonical is printed from the tree that was judged; it is empty when the
	// text has no tree or cannot be printed so that it reads back the same.
	Canonical string `json:"canonical"`
	// Simple says: exactly one simple command of literal words, no redirection,
	// no assignment, no expansion. Argv is that command.
	Simple bool `json:"simple"`
	// Plain says that the text as it stands is in the subset that every shell
	// and parser reads alike: literal words, lists, pipelines and redirections
	// to literal names. Only such a text may be run by somebody else than us.
	Plain    bool      `json:"plain"`
	Argv     []string  `json:"argv,omitempty"`
	Units    []Unit    `json:"units"`
	Paths    []PathUse `json:"paths"`
	Problems []Problem `json:"problems,omitempty"`
	Needs    Needs     `json:"needs"`

	home, workspace, root string
	rulesAlone            bool
}

// Class is the most careful class of all units.
func (a *Analysis) Class() Class {
	if len(a.Units) == 0 || len(a.Problems) > 0 {
		return RunsSessionFiles
	}
	for i := range a.Units {
		if a.Units[i].Class == RunsSessionFiles && !a.Units[i].Transparent {
			return RunsSessionFiles
		}
	}
	return FixedProgram
}

// Limits. What is over one of them is refused before it costs time.
const (
	maxText    = 64 << 10 // bytes of one text
	maxDepth   = 100      // brackets and quotes open at once, before parsing
	maxUnits   = 2000
	maxPaths   = 4000
	maxShapes  = 500     // paths that are known only when they are used
	maxNested  = 8       // texts inside texts
	maxBudget  = 4 << 16 // bytes of all texts parsed
	maxBraces  = 64      // words that one brace expression may become
	maxPeel    = 12      // wrappers around wrappers
	maxArgs    = 10000   // words of one argument vector
	maxSalvage = 500     // segments looked at in a text that has no tree
)

// Analyze says what text may execute and touch. It never panics and its time is
// bounded by the limits of this package. It is safe for concurrent use as far as
// the functions in o are.
func Analyze(text string, o Options) (a *Analysis) {
	a = newAnalysis(o)
	defer a.rescue(text)
	z := newAnalyzer(a, o)
	z.top(text)
	z.finish(text)
	return a
}

// AnalyzeArgv says what an argument vector may execute and touch when it is run
// without a shell: wrappers, inline code and paths are judged as in [Analyze].
func AnalyzeArgv(argv []string, o Options) (a *Analysis) {
	a = newAnalysis(o)
	defer a.rescue(strings.Join(argv, " "))
	z := newAnalyzer(a, o)
	z.argv(argv)
	z.finish(strings.Join(argv, " "))
	return a
}

func newAnalysis(o Options) *Analysis {
	a := &Analysis{home: o.Home, workspace: o.Workspace, root: o.Workspace, rulesAlone: o.RulesAlone}
	if a.root == "" {
		a.root = o.Dir
	}
	return a
}

// rescue turns a panic into a refusal. The parser is a library that reads what
// an adversary wrote; the supervisor must outlive its faults.
func (a *Analysis) rescue(text string) {
	if r := recover(); r != nil {
		*a = Analysis{home: a.home, workspace: a.workspace, root: a.root, rulesAlone: a.rulesAlone}
		a.Problems = append(a.Problems, Problem{
			Kind:    kindInternal,
			Message: "the analysis failed on this text; it is refused",
			Action:  policy.Deny,
		})
	}
}

// Invocation is the argument vector in front of a canonical text: the shell that
// reads what was judged and nothing else, no start-up file, no exported
// function, no traced prompt. bash wants its long options first. What follows
// the text is $0 and the positional parameters. It is nil for a dialect that is
// not analysed.
func Invocation(d Dialect) []string {
	switch d {
	case Bash:
		return []string{"bash", "--norc", "--noprofile", "-p", "-c"}
	case POSIX:
		return []string{"sh", "-c"}
	}
	return nil
}
