package policy

import (
	"fmt"
	"slices"
)

// Kind is the class of side effect that a tool call has. Modes speak about
// kinds; rules speak about surfaces. The zero value is no kind, and every mode
// denies what has none.
type Kind string

const (
	KindFileRead          Kind = "file_read"
	KindFileWrite         Kind = "file_write"
	KindShellCommand      Kind = "shell_command"
	KindNetwork           Kind = "network"
	KindMCPRead           Kind = "mcp_read"
	KindMCPWriteOrUnknown Kind = "mcp_write_or_unknown"
	KindDynamicSkillTool  Kind = "dynamic_skill_tool"
	KindComputerUse       Kind = "computer_use"
	KindTaskSubagent      Kind = "task_subagent"
	KindInternal          Kind = "internal"
	KindUnknown           Kind = "unknown"
)

var kinds = [...]Kind{
	KindFileRead, KindFileWrite, KindShellCommand, KindNetwork, KindMCPRead, KindMCPWriteOrUnknown,
	KindDynamicSkillTool, KindComputerUse, KindTaskSubagent, KindInternal, KindUnknown,
}

// Kinds returns the eleven kinds in the order in which the model lists them.
func Kinds() []Kind { return slices.Clone(kinds[:]) }

// ParseKind reads the name of a kind. Case counts.
func ParseKind(s string) (Kind, error) {
	if slices.Contains(kinds[:], Kind(s)) {
		return Kind(s), nil
	}
	return "", fmt.Errorf("unknown action kind %q, expected one of %s", s, join(kinds[:]))
}

// index returns the place of the kind in the table, -1 for no kind. It is on the
// way of every decision, and a switch is faster than a map.
func (k Kind) index() int {
	switch k {
	case KindFileRead:
		return 0
	case KindFileWrite:
		return 1
	case KindShellCommand:
		return 2
	case KindNetwork:
		return 3
	case KindMCPRead:
		return 4
	case KindMCPWriteOrUnknown:
		return 5
	case KindDynamicSkillTool:
		return 6
	case KindComputerUse:
		return 7
	case KindTaskSubagent:
		return 8
	case KindInternal:
		return 9
	case KindUnknown:
		return 10
	}
	return -1
}
