package policy

import "fmt"

// Action is what a rule, a mode or a whole authority says about one unit.
//
// The zero value refuses, so that a forgotten field can only deny. Actions are
// ordered by how much they permit: Deny < Ask < Allow, and the most restrictive
// of several is the smallest.
type Action uint8

const (
	Deny Action = iota
	Ask
	Allow
)

var actionNames = [...]string{Deny: "deny", Ask: "ask", Allow: "allow"}

// String returns the word that policy files use.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// ParseAction reads the word that policy files use. Case counts.
func ParseAction(s string) (Action, error) {
	for a, name := range actionNames {
		if s == name {
			return Action(a), nil
		}
	}
	return Deny, fmt.Errorf("unknown action %q, expected allow, ask or deny", s)
}

// MarshalText writes the word; an action out of range is an error, never a word.
func (a Action) MarshalText() ([]byte, error) {
	if int(a) >= len(actionNames) {
		return nil, fmt.Errorf("action %d is not defined", uint8(a))
	}
	return []byte(actionNames[a]), nil
}

// UnmarshalText reads the word.
func (a *Action) UnmarshalText(text []byte) error {
	got, err := ParseAction(string(text))
	*a = got
	return err
}

// MostRestrictive returns the action that permits least. With no argument it
// denies.
func MostRestrictive(actions ...Action) Action {
	if len(actions) == 0 {
		return Deny
	}
	least := actions[0]
	for _, a := range actions[1:] {
		least = min(least, a)
	}
	return least
}
