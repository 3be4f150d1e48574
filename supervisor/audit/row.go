package audit

import (
	"fmt"
	"time"

	"github.com/getpioneer/pioneer-super/registry"
)

// Kind says what a row tells.
type Kind string

// The first five are those of the permission-profile model.
const (
	// ProfileSelected: a session's effective mode and snapshot were fixed.
	ProfileSelected Kind = "profile_selected"
	// DecisionAllowed: recorded authority or a grant allowed it, nobody was asked.
	DecisionAllowed Kind = "decision_allowed"
	// DecisionDenied: recorded authority denied it, nobody was asked.
	DecisionDenied Kind = "decision_denied"
	// ApprovalRequested: somebody has to answer.
	ApprovalRequested Kind = "approval_requested"
	// ApprovalResolved: the ask ended, whoever or whatever ended it.
	ApprovalResolved Kind = "approval_resolved"

	TreeStarted    Kind = "tree_started"
	TreeEnded      Kind = "tree_ended"
	SessionStarted Kind = "session_started"
	SessionEnded   Kind = "session_ended"
	CommandStarted Kind = "command_started"
	CommandEnded   Kind = "command_ended"

	// AnswerRefused: somebody without the proof of a human tried to answer, grant
	// or stop; Reason says why it was refused.
	AnswerRefused Kind = "answer_refused"
	// AnswerForged: an answer that nobody of this tree gave lay in a channel.
	AnswerForged Kind = "answer_forged"
	// PeerRefused: a process without a role of this session tried to speak.
	PeerRefused Kind = "peer_refused"
	// ChannelNotice: something happened on a forwarding channel besides asks.
	ChannelNotice Kind = "channel_notice"
	// AuthorizerPassed: a link of the chain did not decide; Reason says how it
	// passed the ask on.
	AuthorizerPassed Kind = "authorizer_passed"
	// ObserverFailed: a program that is only told of asks could not be told.
	ObserverFailed Kind = "observer_failed"
	// UserMessage: what the human wants of the tree, in the human's own words.
	UserMessage Kind = "user_message"
	// TurnMarked: a session's turn began or ended, and its grants ended.
	TurnMarked Kind = "turn_marked"
	GrantGiven Kind = "grant_given"
	// HostEnded: a command that reached a host, or was refused one, is over. Details have
	// how often and how many bytes.
	HostEnded  Kind = "host_ended"
	GrantEnded Kind = "grant_ended"

	ConfigLoaded  Kind = "config_loaded"
	ConfigRefused Kind = "config_refused"

	// StopRequested: a session is ended before its agent was done; Reason says on
	// whose word, Proof what showed a human.
	StopRequested Kind = "stop_requested"
	// LimitReached: something was refused, or a session ended, because there is too
	// much of it.
	LimitReached Kind = "limit_reached"
	// LogRecovered: the line before this one is half a line that a crash left.
	LogRecovered Kind = "log_recovered"
)

// Requester is one session on the way from the root to who asks.
type Requester struct {
	Session string `json:"session,omitzero"`
	Agent   string `json:"agent,omitzero"`
	// Claimed: another supervisor said so of its own children; nothing proves it.
	Claimed bool `json:"claimed,omitzero"`
}

// Decider is who or what decided, in the fields that the public protocol gives
// each kind. A decision that came through others is Forwarded, with the inner
// one in Decision.
type Decider struct {
	Kind      string   `json:"kind"`
	Via       string   `json:"via,omitzero"`     // user: dialog or select
	Name      string   `json:"name,omitzero"`    // authorizer: of the chain link
	Verdict   string   `json:"verdict,omitzero"` // authorizer: allow or deny
	Reason    string   `json:"reason,omitzero"`  // authorizer, unavailable, gate_error
	Surface   string   `json:"surface,omitzero"` // rule, session_approval
	Pattern   string   `json:"pattern,omitzero"` // rule, session_approval, yolo
	Origin    string   `json:"origin,omitzero"`  // rule: where it stands
	Responder string   `json:"responderSessionId,omitzero"`
	Decision  *Decider `json:"decision,omitzero"`
}

// MaxForwarded is how often a decision may be handed on. A longer chain is
// refused whole: cut short, it would name the wrong decider.
const MaxForwarded = 4

// Check reports whether d is a decider of a known kind all the way down.
func (d *Decider) Check() error {
	for hops := 0; ; hops++ {
		if d == nil {
			return fmt.Errorf("no decider")
		}
		switch d.Kind {
		case "user", "rule", "session_approval", "yolo", "infrastructure_read":
			return nil
		case "unavailable", "gate_error":
			if d.Reason == "" {
				return fmt.Errorf("decider %s without a reason", d.Kind)
			}
			return nil
		case "authorizer":
			if d.Name == "" || d.Verdict != "allow" && d.Verdict != "deny" {
				return fmt.Errorf("decider authorizer with name %q and verdict %q, expected a name and allow or deny", d.Name, d.Verdict)
			}
			return nil
		case "forwarded":
			if hops == MaxForwarded {
				return fmt.Errorf("decision forwarded more than %d times", MaxForwarded)
			}
			if d.Decision == nil {
				return nil // an older responder does not say
			}
			d = d.Decision
		default:
			return fmt.Errorf("unknown decider %q", d.Kind)
		}
	}
}

// Row is one line. Seq, Time and Prev are set by Log.Write.
type Row struct {
	Seq  uint64    `json:"seq"` // from 1
	Time time.Time `json:"time"`
	// Prev is the SHA-256 of the line before, in hex; of the first, of the tree's
	// id (see Genesis).
	Prev string `json:"prev"`

	Kind    Kind   `json:"event"`
	Tree    string `json:"tree,omitzero"`
	Session string `json:"session,omitzero"`
	Agent   string `json:"agent,omitzero"`
	Command string `json:"command,omitzero"` // id, not text
	// Chain leads from the root to who asks, who is its last.
	Chain []Requester `json:"chain,omitzero"`

	Mode     string   `json:"mode,omitzero"`
	Source   string   `json:"source,omitzero"` // why it has this mode
	Strength string   `json:"strength,omitzero"`
	Missing  []string `json:"missing,omitzero"` // what is not enforced

	ItemID     string `json:"itemId,omitzero"`
	ToolID     string `json:"toolId,omitzero"`
	ActionKind string `json:"actionKind,omitzero"`
	RequestKey string `json:"requestKey,omitzero"` // the request id
	Surface    string `json:"surface,omitzero"`
	Value      string `json:"value,omitzero"` // what was judged, or runs
	Cwd        string `json:"cwd,omitzero"`

	Decision string `json:"decision,omitzero"` // allow, ask or deny
	Reason   string `json:"reason,omitzero"`
	Cached   bool   `json:"cached"` // a grant or ticket from before decided
	// DecidedBy is set on every decision. Its kind is user only with a Proof.
	DecidedBy *Decider `json:"decidedBy,omitzero"`
	// Proof is what showed that a human answered: terminal, inherited, paired or
	// phrase.
	Proof  string   `json:"proof,omitzero"`
	Grants []string `json:"grants,omitzero"` // the grant vector, a line each
	// Record is the digest of what was judged, shown and run.
	Record string `json:"record,omitzero"`

	Exit *registry.Exit `json:"exit,omitzero"`
	// Details are what only some parts have to say.
	Details map[string]any `json:"details,omitzero"`
}

// Check reports what is wrong with a row of its kind.
func (r *Row) Check() error {
	decision := ""
	switch r.Kind {
	case ProfileSelected:
		if r.Mode == "" || r.Source == "" {
			return fmt.Errorf("row %s without mode and source", r.Kind)
		}
	case DecisionAllowed:
		decision = "allow"
	case DecisionDenied:
		decision = "deny"
	case ApprovalResolved:
		if decision = r.Decision; decision != "allow" && decision != "deny" {
			return fmt.Errorf("row %s with decision %q, expected allow or deny", r.Kind, r.Decision)
		}
	case CommandEnded, SessionEnded:
		if r.Exit == nil {
			return fmt.Errorf("row %s without an exit", r.Kind)
		}
	case ApprovalRequested, TreeStarted, TreeEnded, SessionStarted, CommandStarted, AnswerRefused, AnswerForged, PeerRefused, ChannelNotice, AuthorizerPassed, ObserverFailed, UserMessage, TurnMarked,
		GrantGiven, GrantEnded, HostEnded, ConfigLoaded, ConfigRefused, StopRequested, LimitReached, LogRecovered:
	default:
		return fmt.Errorf("unknown row %q", r.Kind)
	}
	if decision != "" {
		if r.Decision != decision {
			return fmt.Errorf("row %s with decision %q, expected %s", r.Kind, r.Decision, decision)
		}
		if r.DecidedBy == nil {
			return fmt.Errorf("row %s without who decided", r.Kind)
		}
	}
	if r.DecidedBy == nil {
		return nil
	}
	if err := r.DecidedBy.Check(); err != nil {
		return fmt.Errorf("row %s: %w", r.Kind, err)
	}
	// "user" is never taken on trust: a parent's word is forwarded, not user.
	if r.DecidedBy.Kind == "user" {
		switch r.Proof {
		case "terminal", "inherited", "paired", "phrase":
		default:
			return fmt.Errorf("row %s decided by user with proof %q, expected terminal, inherited, paired or phrase", r.Kind, r.Proof)
		}
	}
	return nil
}

// synced rows outlive the machine and not only this process: what a human
// answered, and where sessions begin and end.
func (r *Row) synced() bool {
	switch r.Kind {
	case TreeStarted, TreeEnded, SessionStarted, SessionEnded, GrantGiven, GrantEnded, LogRecovered:
		return true
	}
	return r.Kind == ApprovalResolved && r.DecidedBy.human()
}

// human reports whether a human decided, here or further up.
func (d *Decider) human() bool {
	for d != nil && d.Kind == "forwarded" {
		if d.Decision == nil {
			return true // perhaps
		}
		d = d.Decision
	}
	return d != nil && d.Kind == "user"
}

// final rows tell how something ended that was recorded when it began: there
// are no more of them than of those, so they may use the reserve.
func (r *Row) final() bool {
	switch r.Kind {
	case TreeEnded, SessionEnded, CommandEnded, GrantEnded, LogRecovered:
		return true
	}
	return false
}
