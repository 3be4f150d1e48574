package terminal

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Decisions of a person. The empty string is none of them, so that a forgotten
// field refuses.
const (
	AllowOnce    = "allow_once"
	AllowForTurn = "allow_for_turn"
	AllowAlways  = "allow_always"
	Deny         = "deny"
)

// Limits of a Question. What is larger is refused with ErrQuestion, which a
// caller answers with a denial: a person cannot judge it, and a part of it must
// not be judged for the whole.
const (
	// MaxCommand bounds Command and the sum of Argv, in bytes.
	MaxCommand = 1 << 20
	// MaxField bounds every other single text, in bytes.
	MaxField = 64 << 10
	// MaxLines bounds every list of a question.
	MaxLines = 512
	// MaxToggles bounds Offer: each needs a line and a key of its own.
	MaxToggles = 20
)

// Errors of Ask. An Answer that comes with an error is the zero Answer and
// allows nothing.
var (
	// ErrClosed: the terminal is closed, or went away (hang-up).
	ErrClosed = errors.New("terminal closed")
	// ErrQuestion: the question cannot be shown as it is. The error that wraps
	// it names the field and what was expected.
	ErrQuestion = errors.New("question cannot be shown")
	// ErrExpired: nobody answered within Question.Expires.
	ErrExpired = errors.New("nobody answered in time")
	// ErrTooMany: more questions wait than one person can be asked.
	ErrTooMany = errors.New("too many questions wait for this terminal")
)

// Line is one fact under a label. Detail, if any, is shown directly below Text
// and never without it.
type Line struct {
	Label  string
	Text   string
	Detail string
}

// Toggle is one line of the grant vector: a resource that the answer opens for
// what it allows, and for nothing else.
type Toggle struct {
	// Key flips the line: a small letter or a digit that no decision uses, or,
	// if OtherKey is set, a capital letter.
	Key rune
	// Name is the short form ("network github.com"), Sentence says what it
	// lets the command do.
	Name     string
	Sentence string
	// On is the value before the person changes it.
	On bool
	// Changeable is false for a line that is shown, but that this person
	// cannot change (what the mode opens already, what the ceiling forbids).
	Changeable bool
	// OtherKey marks a grant that ends the protection itself (sandbox off): it
	// is never On at first, and switching it on needs a word to be typed.
	OtherKey bool
}

// Question is what a person is shown. All its text is untrusted and is made
// visible before it is drawn; a caller sanitises nothing.
type Question struct {
	// ID names the ask, Seq is its running number for people.
	ID  string
	Seq int
	// Session and Agent name who asks; Chain is the way from the root to it.
	Session string
	Agent   string
	Chain   []string
	// Tool is the gated tool ("bash", "write").
	Tool string
	// Command is the complete canonical text that will run, or the value that
	// is asked about. Argv, if set, is shown argument by argument.
	Command string
	Argv    []string
	// Executed is what a wrapper really runs, or the resolved program.
	Executed  string
	Directory string
	// Reason says why it is asked ("policy.jsonc:14:9"), Rule is the pattern.
	Reason string
	Rule   string
	// Strength is the sandbox: "enforced", "enforced except signals",
	// "advisory". It stands on the first line. Empty is shown as unknown.
	Strength string
	// Class is the kind of side effect ("shell_command").
	Class string
	// Environment lists NAME=value entries that differ from the session's.
	Environment []string
	// Needs is the evidence: what the analysis found that it needs or does.
	Needs []Line
	// Offer is the grant vector.
	Offer []Toggle
	// TurnPattern is what an allow for the turn would cover. TurnAllowed says
	// whether that is offered at all; it needs a TurnPattern to show.
	TurnPattern string
	TurnAllowed bool
	// GrantPattern is a wider allow for the turn, "" for none; TreeAllowed says that
	// an allow for the turn may count in every session of the tree; Always is the
	// line that may be written into the policy, with its place, "" for none. They
	// count only with TurnAllowed.
	GrantPattern string
	TreeAllowed  bool
	Always       string
	// AllowPhrase says that y needs the phrase of the tree, TurnPhrase that what
	// TurnAllowed does not offer may be had with it. What is typed is never drawn.
	AllowPhrase bool
	TurnPhrase  bool
	// Code, if set, makes this a pairing: the person types the code that
	// another terminal shows, and nothing else allows. It is never drawn here.
	Code string
	// Expires is the time left, 0 for no limit.
	Expires time.Duration
	// Warnings are shown before everything else.
	Warnings []string
}

// Answer is what the person said.
type Answer struct {
	// Decision is AllowOnce, AllowForTurn, AllowAlways or Deny; empty means no
	// answer.
	Decision string
	// Pattern says that an allow for the turn is for the pattern, Tree that it is for
	// every session of the tree.
	Pattern bool
	Tree    bool
	// Reason is what the person typed with a denial, at most 500 characters,
	// in printable characters. It may be empty.
	Reason string
	// Toggles holds the value of every offered line by its key. It is nil
	// unless the decision allows.
	Toggles map[rune]bool
	// Code is what was typed in a pairing, equal to Question.Code.
	Code string
	// Phrase is what was typed where the answer needs it.
	Phrase string
}

// reservedKeys are the keys that a dialog uses itself.
const reservedKeys = "ytmTMAnrvljkbgGqQ"

// keeping says whether an allow that outlives the question is offered.
func (q *Question) keeping() bool { return q.TurnAllowed || q.TurnPhrase }

func (q *Question) validate() error {
	bad := func(field, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrQuestion, field, fmt.Sprintf(format, args...))
	}
	for _, f := range []struct {
		name, text string
		limit      int
	}{
		{"ID", q.ID, MaxField}, {"Session", q.Session, MaxField}, {"Agent", q.Agent, MaxField},
		{"Tool", q.Tool, MaxField}, {"Command", q.Command, MaxCommand}, {"Executed", q.Executed, MaxField},
		{"Directory", q.Directory, MaxField}, {"Reason", q.Reason, MaxField}, {"Rule", q.Rule, MaxField},
		{"Strength", q.Strength, MaxField}, {"Class", q.Class, MaxField},
		{"TurnPattern", q.TurnPattern, MaxField}, {"Code", q.Code, 64},
		{"GrantPattern", q.GrantPattern, MaxField}, {"Always", q.Always, MaxField},
	} {
		if len(f.text) > f.limit {
			return bad(f.name, "%d bytes, at most %d can be judged", len(f.text), f.limit)
		}
	}
	sum := 0
	for _, a := range q.Argv {
		sum += len(a) + 1
	}
	if sum > MaxCommand {
		return bad("Argv", "%d bytes, at most %d can be judged", sum, MaxCommand)
	}
	for _, l := range []struct {
		name string
		n    int
		max  int
	}{
		{"Chain", len(q.Chain), MaxLines}, {"Environment", len(q.Environment), MaxLines},
		{"Needs", len(q.Needs), MaxLines}, {"Warnings", len(q.Warnings), MaxLines},
		{"Offer", len(q.Offer), MaxToggles}, {"Argv", len(q.Argv), MaxCommand},
	} {
		if l.n > l.max {
			return bad(l.name, "%d entries, at most %d can be judged", l.n, l.max)
		}
	}
	for name, list := range map[string][]string{"Chain": q.Chain, "Environment": q.Environment, "Warnings": q.Warnings} {
		for i, s := range list {
			if len(s) > MaxField {
				return bad(fmt.Sprintf("%s[%d]", name, i), "%d bytes, at most %d can be judged", len(s), MaxField)
			}
		}
	}
	for i, l := range q.Needs {
		if len(l.Label)+len(l.Text)+len(l.Detail) > MaxField {
			return bad(fmt.Sprintf("Needs[%d]", i), "more than %d bytes", MaxField)
		}
	}
	if q.Command == "" && len(q.Argv) == 0 && q.Code == "" {
		return bad("Command", "empty, and there is neither an argument vector nor a code: nothing to judge")
	}
	if q.Expires < 0 {
		return bad("Expires", "%v is over already", q.Expires)
	}
	if q.keeping() && q.TurnPattern == "" {
		return bad("TurnPattern", "empty, but an allow for the turn must show what it covers")
	}
	seen := map[rune]bool{}
	for i, t := range q.Offer {
		at := fmt.Sprintf("Offer[%d]", i)
		small := t.Key >= 'a' && t.Key <= 'z' || t.Key >= '0' && t.Key <= '9'
		capital := t.Key >= 'A' && t.Key <= 'Z'
		switch {
		case !utf8.ValidRune(t.Key) || seen[t.Key]:
			return bad(at, "key %q is used twice or no character", t.Key)
		case containsRune(reservedKeys, t.Key):
			return bad(at, "key %q belongs to the dialog", t.Key)
		case t.OtherKey && !capital:
			return bad(at, "key %q: a grant with a key apart needs a capital letter", t.Key)
		case !t.OtherKey && !small:
			return bad(at, "key %q: expected a small letter or a digit", t.Key)
		case t.OtherKey && t.On:
			return bad(at, "%q must not be on before the person chose it", t.Name)
		case t.Name == "":
			return bad(at, "has no name")
		case len(t.Name)+len(t.Sentence) > MaxField:
			return bad(at, "more than %d bytes", MaxField)
		}
		seen[t.Key] = true
	}
	return nil
}

func containsRune(s string, r rune) bool {
	for _, c := range s {
		if c == r {
			return true
		}
	}
	return false
}
