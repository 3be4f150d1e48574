package prompt

import (
	"strings"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// Tag starts every text that an agent reads from us.
const Tag = "[pioneer-super]"

// Denial is the one line that tells the asking agent what was denied, by whom
// and why. It identifies the call and never repeats it: a command is not in it,
// nor anything that a model wrote about it. decider may be the zero value where
// nobody was told; reason is the operator's, the human's or the link's own text.
func Denial(p Payload, decider wire.DecisionSource, reason string, fieldWidth int) string {
	if fieldWidth <= 0 {
		fieldWidth = DefaultFieldWidth
	}
	show := func(s string) string {
		s, cut := clip(s, fieldWidth, false)
		s = Visible(s)
		if cut {
			s += Ellipsis
		}
		return s
	}
	c := p.Core
	who, told := decider.EffectiveDecider()
	hop := decider.Kind == wire.KindForwarded

	var words []string
	add := func(s ...string) { words = append(words, strings.Join(s, "")) }
	switch who.Kind {
	case wire.KindRule:
		if hop {
			add("Denied by the parent's policy:")
		} else {
			add("Denied by policy:")
		}
	case wire.KindAuthorizer:
		add("Denied by authorizer '", show(who.Name), "':")
	case wire.KindUnavailable:
		add("Not allowed, because nobody could answer:")
	case wire.KindGateError:
		add("Not allowed, because judging it failed:")
	case wire.KindUser:
		if hop {
			add("Denied, the parent says by the user:")
		} else {
			add("User denied")
		}
	default:
		if told {
			add("Denied:")
		} else {
			add("Denied, not told by whom:")
		}
	}
	add(show(c.Surface))
	if as := wire.Text(c.InvokedToolName); as != "" {
		add("(invoked as ", show(as), ")")
	}
	if tool := wire.Text(c.ToolName); tool != "" && tool != c.Surface {
		add("of tool '", show(tool), "'")
	}
	if name := wire.Text(c.Requester.AgentName); name != "" {
		add("for agent '", show(name), "'")
	}
	if p.Kind != wire.KindBash && p.Kind != wire.KindAskForwarded {
		for _, element := range flaggedElements(p) {
			if p.Kind == wire.KindBashExternalDirectory || element != wire.Text(c.ToolName) && element != "" {
				add("'", show(element), "'")
			}
		}
	}
	for _, e := range p.Evidence {
		switch {
		case e.Label == LabelResolvesTo:
			add("(resolves to '", show(e.Text), "')")
		case e.Label == LabelExternal && e.Detail != nil:
			add("(resolves to '", show(*e.Detail), "')")
		case e.Label == LabelDirectory:
			add("outside '", show(e.Text), "'")
		case e.Label == LabelReadPath:
			add("via '", show(e.Text), "'")
		}
	}
	// One hop away the rule that decided is the parent's; ours only raised the ask.
	rule := wire.Text(c.MatchedPattern)
	if who.Kind == wire.KindRule && who.Pattern != nil {
		rule = *who.Pattern
	}
	if rule != "" {
		add("(rule '", show(rule), "')")
	}
	if x := wire.Text(c.CommandContext); x != "" {
		add("in a ", show(strings.ReplaceAll(x, "_", " ")))
	}
	line := Tag + " " + strings.Join(words, " ") + "."
	if reason == "" {
		reason = wire.Text(who.Reason)
	}
	if reason != "" {
		line += " Reason: " + show(reason)
	}
	return line
}
