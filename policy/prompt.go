package policy

import (
	"fmt"
	"slices"
	"strings"
)

// maxPromptRoots bounds how many roots a model is told.
const maxPromptRoots = 20

// PromptSection returns the section "Current Permissions" for a model's prompt,
// "" for plain full access: a session that nothing holds pays nothing for it.
// What it says is for orientation; the supervisor decides whatever it says.
func PromptSection(s Snapshot) string {
	if s.Profile.Mode == FullAccess && s.ParentCap == nil && !s.confines() && s.narrowest() == Allow && s.Process.ShellEnabled && s.Process.AllowedFamilies == nil && len(s.Process.DeniedCommands) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("## Current Permissions\n\n")
	fmt.Fprintf(&b, "Mode: %s. Sandbox: %s (%s).\n", or(string(s.Profile.Mode), "none, nothing is permitted"), s.Sandbox.Mode, or(s.Enforcement.Strength, StrengthAdvisory))
	groups := map[Action][]string{}
	for _, k := range kinds {
		if k != KindInternal {
			groups[s.Profile.Policy.Kinds[k]] = append(groups[s.Profile.Policy.Kinds[k]], kindNames[k])
		}
	}
	for _, g := range []struct {
		a    Action
		text string
	}{{Allow, "Allowed without asking"}, {Ask, "May need approval first"}, {Deny, "Not permitted"}} {
		if len(groups[g.a]) > 0 {
			fmt.Fprintf(&b, "- %s: %s.\n", g.text, strings.Join(groups[g.a], ", "))
		}
	}
	list := func(label string, all bool, roots []Entry) {
		switch {
		case all:
			fmt.Fprintf(&b, "- %s: everything.\n", label)
		case len(roots) == 0:
			fmt.Fprintf(&b, "- %s: nothing.\n", label)
		default:
			var names []string
			for _, e := range roots[:min(len(roots), maxPromptRoots)] {
				names = append(names, visible(e.Path))
			}
			if len(roots) > maxPromptRoots {
				names = append(names, fmt.Sprintf("and %d more", len(roots)-maxPromptRoots))
			}
			fmt.Fprintf(&b, "- %s: %s.\n", label, strings.Join(names, ", "))
		}
	}
	open := s.Open.Canonical()
	list("Readable", open.ReadAll, open.Read)
	list("Writable", open.WriteAll, open.Write)
	switch open.Network {
	case NetworkEnabled:
		b.WriteString("- Network: open.\n")
	case NetworkRestricted:
		fmt.Fprintf(&b, "- Network: only %s.\n", strings.Join(open.Hosts, ", "))
	default:
		if s.Ceiling.Canonical().Network == NetworkDisabled {
			b.WriteString("- Network: none, and it cannot be granted.\n")
		} else {
			b.WriteString("- Network: none until it is granted.\n")
		}
	}
	if !s.Process.ShellEnabled {
		b.WriteString("- Shell commands: none.\n")
	}
	if p := s.Process; p.AllowedFamilies != nil {
		fmt.Fprintf(&b, "- Programs: only %s.\n", or(strings.Join(p.AllowedFamilies, ", "), "none"))
	}
	if p := s.Process; len(p.DeniedCommands) > 0 {
		fmt.Fprintf(&b, "- Programs that are refused: %s.\n", strings.Join(p.DeniedCommands, ", "))
	}
	if p := s.Profile.Policy; len(p.DenyTools) > 0 {
		fmt.Fprintf(&b, "- Tools that are refused: %s.\n", visible(strings.Join(p.DenyTools, ", ")))
	}
	if s.Process.MaxDuration > 0 {
		fmt.Fprintf(&b, "- A command may run for %s.\n", s.Process.MaxDuration)
	}
	b.WriteString("\nWhen an action is denied, do not try the same thing in another form: go on with what is allowed, or say what you need and why.\n")
	return b.String()
}

// narrowest is the most restrictive behaviour of any kind.
func (s Snapshot) narrowest() Action {
	least := Allow
	for _, k := range kinds {
		least = min(least, s.Profile.Policy.Kinds[k])
	}
	if len(s.Profile.Policy.AllowTools) > 0 || len(s.Profile.Policy.DenyTools) > 0 || len(s.Profile.Policy.AllowPaths) > 0 || len(s.Profile.Policy.DenyPaths) > 0 {
		return Deny
	}
	return least
}

var kindNames = map[Kind]string{
	KindFileRead: "reading files", KindFileWrite: "writing files", KindShellCommand: "shell commands", KindNetwork: "network",
	KindMCPRead: "reading from servers (MCP)", KindMCPWriteOrUnknown: "other server tools (MCP)", KindDynamicSkillTool: "skills",
	KindComputerUse: "computer use", KindTaskSubagent: "starting subagents", KindUnknown: "anything else",
}

// visible keeps a path from starting a line of its own in a prompt.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || slices.Contains([]rune{0x2028, 0x2029, 0x85}, r) }) {
		return s
	}
	return fmt.Sprintf("%q", s)
}
