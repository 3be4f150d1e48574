// Package marks has what makes an agent tell where its turns begin and end: text in
// the agent's own form, which the operator gives to the agent. Nothing is believed
// but what can only end a grant.
//
// It refuses to know where an agent keeps its extensions: installing is the
// operator's.
package marks

import (
	_ "embed"
	"maps"
	"slices"
)

//go:embed pi.ts
var pi string

var texts = map[string]string{"pi": pi}

// Agents are the names of the agents that have such a text, sorted.
func Agents() []string { return slices.Sorted(maps.Keys(texts)) }

// Text is the text for an agent; false where there is none.
func Text(agent string) (string, bool) {
	text, ok := texts[agent]
	return text, ok
}
