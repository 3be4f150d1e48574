package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is the permission mode that a human picks for a session. The zero value
// is no mode; resolving it as a root means "nothing was selected".
type Mode string

const (
	// FullAccess allows everything without a question and confines nothing.
	FullAccess Mode = "full_access"
	// AutoAcceptEdits allows reads and edits in the workspace, asks for the rest.
	AutoAcceptEdits Mode = "auto_accept_edits"
	// Supervised allows reads and asks for everything else.
	Supervised Mode = "supervised"
)

var modes = [...]Mode{FullAccess, AutoAcceptEdits, Supervised}

// Modes returns the modes in the order in which they are offered to a human.
func Modes() []Mode { return slices.Clone(modes[:]) }

// ParseMode reads the name of a mode. Case counts.
func ParseMode(s string) (Mode, error) {
	if slices.Contains(modes[:], Mode(s)) {
		return Mode(s), nil
	}
	return "", fmt.Errorf("unknown mode %q, expected %s", s, join(modes[:]))
}

// Rank orders modes by how much they permit: 0 for what is no mode, 1 for
// Supervised, 3 for FullAccess.
func (m Mode) Rank() int {
	switch m {
	case Supervised:
		return 1
	case AutoAcceptEdits:
		return 2
	case FullAccess:
		return 3
	}
	return 0
}

// StricterMode returns the one that permits less. What is no mode permits
// nothing, so it wins.
func StricterMode(a, b Mode) Mode {
	if a.Rank() == 0 || b.Rank() == 0 {
		return ""
	}
	if a.Rank() < b.Rank() {
		return a
	}
	return b
}

// Default says what the mode, before any rule, answers for a kind: the table of
// the permission-profile model. What is no mode or no kind is denied.
func (m Mode) Default(k Kind) Action {
	if m.Rank() == 0 || !slices.Contains(kinds[:], k) {
		return Deny
	}
	switch {
	case m == FullAccess, k == KindFileRead, k == KindMCPRead, k == KindInternal:
		return Allow
	case m == AutoAcceptEdits && k == KindFileWrite:
		return Allow
	}
	return Ask
}

// Source says why a session has the profile that it has.
type Source string

const (
	// SourceComposer: a human or client selected the mode.
	SourceComposer Source = "composer"
	// SourceDefaulted: nothing was selected.
	SourceDefaulted Source = "defaulted"
	// SourceInherited: a child took its parent's profile.
	SourceInherited Source = "inherited_from_parent_turn"
	// SourceTaskCap: a cap, or the parent, narrowed what was asked for.
	SourceTaskCap Source = "task_permission_cap"
	// SourceSystem: the supervisor selected it for itself.
	SourceSystem Source = "system"
)

// Valid says whether s is one of the five sources.
func (s Source) Valid() bool {
	switch s {
	case SourceComposer, SourceDefaulted, SourceInherited, SourceTaskCap, SourceSystem:
		return true
	}
	return false
}

// join lists words for an error message: "a, b or c".
func join[S ~string](words []S) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
