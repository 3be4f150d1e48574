package shell

import (
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// Suggestion is a pattern that an approval of one unit may be widened to.
type Suggestion struct {
	Pattern string `json:"pattern"`
	// Exact says that Pattern is this text and no wildcard: stars in it stand
	// for themselves.
	Exact bool `json:"exact"`
}

// Suggest returns the patterns that may be offered, the narrowest first. What is
// floored, wrapped, resolved to a changeable file or not known at all is offered
// exactly or not: a pattern for it would cover what nobody has seen.
func (u *Unit) Suggest() []Suggestion {
	switch u.FloorReason {
	case floorComputed, floorUnparsed, floorOpaque, floorShellState, floorMissing:
		return nil
	}
	for i := range u.words {
		if !u.words[i].lit {
			// The same text may mean something else next time.
			return nil
		}
	}
	out := []Suggestion{{Pattern: u.asWritten(), Exact: true}}
	if u.Floor != policy.Allow || u.Changeable || len(u.Assigns) > 0 || len(u.Wrappers) > 0 || u.Executed != "" || u.Resolution == "missing" {
		return out
	}
	if p := known().programs[u.head]; shells[u.head] || p == nil || known().wrappers[u.head] != nil {
		return out
	}
	if pattern := policy.SuggestPattern("bash", u.Text); pattern != u.Text && strings.HasSuffix(pattern, "*") {
		out = append(out, Suggestion{Pattern: pattern})
	}
	return out
}

// EnvRisk says why an environment entry can change what a command runs, reads or
// trusts, or "". Entries that a client adds are judged like assignments in the
// text.
func EnvRisk(name, value string) string {
	return dangerousName(name, literal(value))
}
