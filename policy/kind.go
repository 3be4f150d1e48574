package policy

// Kind is the class of side effect that a tool call has (seed 000, "Evaluation
// Flow"). Modes speak about kinds; rules speak about surfaces.
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
