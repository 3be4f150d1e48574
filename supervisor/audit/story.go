package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getpioneer/pioneer-super/registry"
)

// Story tells rows to a person, a line each: who asked for what, who decided it
// and why, what ran, and how it ended. Every line begins with its time, and what
// came from a child is quoted, so that no text can pass for a line of ours, an
// order to the terminal, or a command to a CI service.
func Story(rows []Row) string {
	var b strings.Builder
	for i := range rows {
		r := &rows[i]
		b.WriteString(r.Time.Local().Format("2006-01-02 15:04:05.000"))
		b.WriteString("  ")
		b.WriteString(r.sentence())
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *Row) sentence() string {
	who := r.who()
	switch r.Kind {
	case ProfileSelected:
		s := fmt.Sprintf("%s runs in %s (%s)", who, word(r.Mode), word(r.Source))
		if r.Strength != "" {
			s += ", " + word(r.Strength)
		}
		if len(r.Missing) > 0 {
			s += ", not enforced: " + words(r.Missing)
		}
		return s
	case DecisionAllowed, DecisionDenied:
		s := fmt.Sprintf("%s: %s %s by %s", who, r.what(), past(r.Decision), r.DecidedBy.phrase(r.Proof))
		if r.Cached {
			s += ", as answered before"
		}
		return s + r.because() + r.given()
	case ApprovalRequested:
		return fmt.Sprintf("%s asks: %s%s%s", who, r.what(), r.because(), r.request())
	case ApprovalResolved:
		return fmt.Sprintf("%s: %s %s by %s%s%s%s", who, r.what(), past(r.Decision), r.DecidedBy.phrase(r.Proof), r.because(), r.given(), r.request())
	case TreeStarted:
		return "tree " + word(r.Tree) + " starts" + r.because()
	case TreeEnded:
		return "tree " + word(r.Tree) + " ends" + r.because()
	case SessionStarted:
		return who + " starts" + r.because()
	case SessionEnded:
		return who + " ends" + exit(r.Exit) + r.because()
	case CommandStarted:
		return fmt.Sprintf("%s: %s runs as %s%s", who, r.what(), word(r.Command), r.given())
	case CommandEnded:
		return fmt.Sprintf("%s: %s ends%s%s", who, word(r.Command), exit(r.Exit), r.because())
	case AnswerRefused:
		return "an answer was refused" + r.because() + r.request()
	case AnswerForged:
		return who + ": an answer that nobody of this tree gave" + r.because() + r.request()
	case PeerRefused:
		return who + ": a peer was refused" + r.because()
	case ChannelNotice:
		return who + ": on its channel" + r.because() + r.request()
	case AuthorizerPassed:
		return fmt.Sprintf("%s: no link decided yet%s%s", who, r.because(), r.request())
	case ObserverFailed:
		return "an observer was not told" + r.because()
	case UserMessage:
		return "the human says " + strconv.Quote(r.Value)
	case TurnMarked:
		return who + ": " + word(r.Reason)
	case GrantGiven:
		return fmt.Sprintf("%s was granted%s by %s%s", who, r.given(), r.DecidedBy.phrase(r.Proof), r.because())
	case GrantEnded:
		return fmt.Sprintf("%s: a grant ended%s%s", who, r.given(), r.because())
	case HostEnded:
		return fmt.Sprintf("%s: connections of %s to %s: %v made, %v refused, %v bytes out, %v bytes in", who, word(r.Command), word(r.Value),
			r.Details["connections"], r.Details["refused"], r.Details["sent"], r.Details["received"])
	case ConfigLoaded:
		return "the configuration counts" + r.because()
	case ConfigRefused:
		return "a changed configuration was refused" + r.because()
	case StopRequested:
		return who + " is to be stopped" + r.because()
	case LimitReached:
		return who + " reached a limit" + r.because()
	case LogRecovered:
		return "the audit goes on after a crash" + r.because()
	}
	return "something of kind " + word(string(r.Kind))
}

// who is the way from the root to who asks, by the agents' names.
func (r *Row) who() string {
	if len(r.Chain) == 0 {
		return name(r.Agent, r.Session)
	}
	names := make([]string, len(r.Chain))
	for i, q := range r.Chain {
		names[i] = name(q.Agent, q.Session)
		if q.Claimed {
			names[i] += " (so it says)"
		}
	}
	return strings.Join(names, " > ")
}

func name(agent, session string) string {
	switch {
	case agent != "" && session != "":
		return word(agent) + " [" + word(session) + "]"
	case agent != "":
		return word(agent)
	case session != "":
		return "[" + word(session) + "]"
	}
	return "somebody"
}

func (r *Row) what() string {
	switch {
	case r.Surface != "" && r.Value != "":
		return word(r.Surface) + " " + strconv.Quote(r.Value)
	case r.Value != "":
		return strconv.Quote(r.Value)
	case r.Surface != "":
		return word(r.Surface)
	case r.ToolID != "":
		return "tool " + word(r.ToolID)
	}
	return "it"
}

func (r *Row) because() string {
	if r.Reason == "" {
		return ""
	}
	return ", because: " + strconv.Quote(r.Reason)
}

func (r *Row) given() string {
	if len(r.Grants) == 0 {
		return ""
	}
	return " with " + words(r.Grants)
}

func (r *Row) request() string {
	if r.RequestKey == "" {
		return ""
	}
	return " (" + word(r.RequestKey) + ")"
}

func past(decision string) string {
	switch decision {
	case "allow":
		return "was allowed"
	case "deny":
		return "was denied"
	}
	return "was left " + word(decision)
}

// phrase says who decided. What another session said stays what it said.
func (d *Decider) phrase(proof string) string {
	if d == nil {
		return "nobody named"
	}
	switch d.Kind {
	case "user":
		return "the human (" + word(proof) + ")"
	case "rule":
		s := "the rule " + word(d.Surface) + " " + strconv.Quote(d.Pattern)
		if d.Origin != "" {
			s += " of " + word(d.Origin)
		}
		return s
	case "session_approval":
		return "a grant for " + word(d.Surface) + " " + strconv.Quote(d.Pattern)
	case "authorizer":
		s := "the link " + word(d.Name)
		if d.Reason != "" {
			s += ", which says " + strconv.Quote(d.Reason)
		}
		return s
	case "yolo":
		return "yolo"
	case "infrastructure_read":
		return "the rule for our own files"
	case "unavailable":
		return "default, since nobody could answer: " + strconv.Quote(d.Reason)
	case "gate_error":
		return "default, since the gate failed: " + strconv.Quote(d.Reason)
	case "forwarded":
		s := "the parent " + word(d.Responder)
		if d.Decision != nil {
			// The proof is of our own human and says nothing of theirs.
			s += ", which says: " + d.Decision.claim()
		}
		return s
	}
	return word(d.Kind)
}

// claim is phrase for what somebody else said of itself.
func (d *Decider) claim() string {
	if d.Kind == "user" {
		return "a human"
	}
	return d.phrase("")
}

func exit(x *registry.Exit) string {
	switch {
	case x == nil:
		return ""
	case !x.Known:
		return ", how is not known"
	case x.Signal != 0:
		return fmt.Sprintf(" by signal %d", x.Signal)
	}
	s := fmt.Sprintf(" with status %d", x.Code)
	if x.Survivors > 0 {
		s += fmt.Sprintf(", %d survived", x.Survivors)
	}
	if x.Usage != (registry.Usage{}) {
		s += fmt.Sprintf(" (%s of processor time, %d MiB)", (time.Duration(x.Usage.CPUMicros) * time.Microsecond).Round(time.Millisecond), x.Usage.MaxMemory>>20)
	}
	return s
}

// word returns s as it is if it is one plain word, else quoted.
func word(s string) string {
	if s == "" {
		return `""`
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/:*", c) >= 0) {
			return strconv.Quote(s)
		}
	}
	return s
}

func words(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = word(s)
	}
	return strings.Join(out, ", ")
}
