package prompt

import (
	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// The parts of a payload; their shape is part of the wire.
type (
	Payload    = wire.Payload
	Core       = wire.Core
	Requester  = wire.Requester
	Evidence   = wire.Evidence
	Annotation = wire.Annotation
)

// The labels of evidence. Builders write them and renderers look for them.
const (
	LabelFullCommand = "full command"
	LabelInput       = "input"
	LabelResolvesTo  = "resolves to"
	LabelDirectory   = "working directory"
	LabelExternal    = "external path"
	LabelReadPath    = "read path"
	// LabelMessage is what an old peer said in one sentence. Its command, where
	// it is longer than the deciding unit, stands nowhere else.
	LabelMessage = "message"
)

// Facts are what any ask may carry; "" is written as null.
type Facts struct {
	AgentName string
	ToolName  string
	// InvokedToolName is the name of a shell alias, where there is one.
	InvokedToolName string
	MatchedPattern  string
	// CommandContext is "command_substitution", "process_substitution" or "subshell".
	CommandContext string
	ExecutedUnit   string
}

func (f Facts) payload(kind wire.Kind, surface, value string, evidence ...Evidence) Payload {
	if evidence == nil {
		evidence = []Evidence{}
	}
	return Payload{
		Kind: kind,
		Core: Core{
			Requester: Requester{AgentName: wire.Null(f.AgentName)}, Surface: surface, ToolName: wire.Null(f.ToolName),
			InvokedToolName: wire.Null(f.InvokedToolName), Value: value, MatchedPattern: wire.Null(f.MatchedPattern),
			CommandContext: wire.Null(f.CommandContext), ExecutedUnit: wire.Null(f.ExecutedUnit),
		},
		Evidence:    evidence,
		Annotations: []Annotation{},
	}
}

// Bash asks for one unit of a command line.
func Bash(f Facts, unit, line string) Payload {
	if f.ToolName == "" {
		f.ToolName = "bash"
	}
	var evidence []Evidence
	if len(line) > len(unit) {
		evidence = append(evidence, Evidence{Label: LabelFullCommand, Text: line})
	}
	return f.payload(wire.KindBash, "bash", unit, evidence...)
}

// MCP asks for a call of target; input is a preview, "" for none.
func MCP(f Facts, target, input string) Payload {
	return f.payload(wire.KindMCP, "mcp", target, optional(LabelInput, input)...)
}

// Tool asks for a call of the tool name; input is a preview, "" for none.
func Tool(f Facts, name, input string) Payload {
	f.ToolName = name
	return f.payload(wire.KindTool, name, name, optional(LabelInput, input)...)
}

// Path asks for a path, as typed, on a path surface.
func Path(f Facts, surface, path string) Payload { return f.payload(wire.KindPath, surface, path) }

// ExternalDirectory asks for a tool's path outside the working directory.
func ExternalDirectory(f Facts, surface, path, resolvesTo, directory string) Payload {
	var evidence []Evidence
	if resolvesTo != path {
		evidence = optional(LabelResolvesTo, resolvesTo)
	}
	return f.payload(wire.KindExternalDirectory, surface, path, append(evidence, Evidence{Label: LabelDirectory, Text: directory})...)
}

// External is one path of a command that lies outside, and where it leads if
// that is elsewhere.
type External struct{ Path, ResolvesTo string }

// BashExternalDirectory asks for a command that names paths outside.
func BashExternalDirectory(f Facts, surface, command, directory string, paths []External) Payload {
	evidence := []Evidence{{Label: LabelDirectory, Text: directory}}
	for _, p := range paths {
		e := Evidence{Label: LabelExternal, Text: p.Path}
		if p.ResolvesTo != p.Path {
			e.Detail = wire.Null(p.ResolvesTo)
		}
		evidence = append(evidence, e)
	}
	return f.payload(wire.KindBashExternalDirectory, surface, command, evidence...)
}

// Skill asks to load a skill.
func Skill(f Facts, name string) Payload { return f.payload(wire.KindSkill, "skill", name) }

// SkillRead asks to read a file of a skill.
func SkillRead(f Facts, name, path string) Payload {
	return f.payload(wire.KindSkillRead, "skill", name, Evidence{Label: LabelReadPath, Text: path})
}

// ForRequest returns what is shown of an ask that came over the wire: the
// peer's payload as it is but for the requester, which only the serving end
// knows, or, from a peer that sent none, what its other fields say. The
// session is the channel's, not the one that the file names.
func ForRequest(r wire.Request, session string) Payload {
	var p Payload
	if r.Payload != nil {
		p = *r.Payload
	} else {
		p = Facts{}.payload(wire.KindAskForwarded, wire.Text(r.Surface), wire.Text(r.Value), optional(LabelMessage, r.Message)...)
	}
	p.Core.Requester = Requester{AgentName: wire.Null(r.RequesterAgentName), Forwarded: true, SessionID: wire.Null(session)}
	return p
}

// Mismatch says where what a peer shows differs from what its gate says it
// judged, "" where the two agree. The value must be one of those that rules
// were matched with.
func Mismatch(r wire.Request) string {
	if r.Payload == nil || r.AccessIntent == nil {
		return ""
	}
	switch r.Payload.Kind {
	case wire.KindAskForwarded, wire.KindBashExternalDirectory, wire.KindSkillRead:
		return "" // shows the whole command or another name than is matched
	}
	for _, v := range r.AccessIntent.MatchValues {
		if v == r.Payload.Core.Value {
			return ""
		}
	}
	return "what is shown (" + Visible(r.Payload.Core.Value) + ") is not what was judged"
}

func optional(label, text string) []Evidence {
	if text == "" {
		return nil
	}
	return []Evidence{{Label: label, Text: text}}
}

// Sentence is the one line that peers up to version 25 require and show.
func Sentence(p Payload) string {
	c := p.Core
	who := "Current agent"
	if name := wire.Text(c.Requester.AgentName); name != "" && name != "unknown" {
		who = "Agent '" + name + "'"
	}
	full := ""
	for _, e := range p.Evidence {
		if e.Label == LabelFullCommand {
			full = e.Text
		}
	}
	tail := ""
	if m := wire.Text(c.MatchedPattern); m != "" {
		tail += " (matched '" + m + "')"
	}
	if full != "" {
		tail += " (full command: '" + full + "')"
	}
	switch p.Kind {
	case wire.KindBash:
		return who + " requested bash command '" + c.Value + "'" + tail + ". Allow this command?"
	case wire.KindMCP:
		return who + " requested MCP target '" + c.Value + "'" + tail + ". Allow this call?"
	case wire.KindTool:
		return who + " requested tool '" + c.Value + "'" + tail + ". Allow this call?"
	case wire.KindSkill:
		return who + " requested skill '" + c.Value + "'" + tail + ". Allow loading this skill?"
	case wire.KindSkillRead:
		return who + " requested access to skill '" + c.Value + "'" + tail + ". Allow this read?"
	case wire.KindPath:
		return who + " requested '" + c.Surface + "' for '" + c.Value + "'" + tail + ". Allow this path access?"
	case wire.KindExternalDirectory, wire.KindBashExternalDirectory:
		return who + " requested '" + c.Value + "' outside its working directory" + tail + ". Allow this external directory access?"
	}
	return who + " requested '" + c.Surface + "' for '" + c.Value + "'" + tail + ". Allow?"
}
