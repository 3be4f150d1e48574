package policy

import "strings"

// toolKinds maps the tool names of the common agents to what they do. A name is
// looked up as it is, then in lower case without "_" and "-".
var toolKinds = map[string]Kind{
	// reading files
	"read": KindFileRead, "readfile": KindFileRead, "readfiles": KindFileRead, "readmanyfiles": KindFileRead, "view": KindFileRead,
	"viewimage": KindFileRead, "cat": KindFileRead, "ls": KindFileRead, "list": KindFileRead, "listdir": KindFileRead,
	"listdirectory": KindFileRead, "listfiles": KindFileRead, "glob": KindFileRead, "globfiles": KindFileRead, "find": KindFileRead,
	"findfiles": KindFileRead, "filesearch": KindFileRead, "grep": KindFileRead, "grepfiles": KindFileRead, "grepsearch": KindFileRead,
	"search": KindFileRead, "searchfiles": KindFileRead, "searchfilecontent": KindFileRead, "rg": KindFileRead, "notebookread": KindFileRead,
	"codebasesearch": KindFileRead, "lsp": KindFileRead, "pathread": KindFileRead, "attach": KindFileRead, "readnotebook": KindFileRead,
	// writing files
	"write": KindFileWrite, "writefile": KindFileWrite, "writetofile": KindFileWrite, "create": KindFileWrite, "createfile": KindFileWrite,
	"edit": KindFileWrite, "editfile": KindFileWrite, "multiedit": KindFileWrite, "multieditfile": KindFileWrite, "notebookedit": KindFileWrite,
	"replace": KindFileWrite, "replaceinfile": KindFileWrite, "strreplace": KindFileWrite, "strreplaceeditor": KindFileWrite,
	"strreplacebasededittool": KindFileWrite, "applypatch": KindFileWrite, "applydiff": KindFileWrite, "patch": KindFileWrite,
	"filechange": KindFileWrite, "insert": KindFileWrite, "deletefile": KindFileWrite, "movefile": KindFileWrite, "rename": KindFileWrite,
	"texteditor": KindFileWrite, "pathwrite": KindFileWrite, "path": KindFileWrite, "undoedit": KindFileWrite,
	// shells
	"bash": KindShellCommand, "shell": KindShellCommand, "sh": KindShellCommand, "zsh": KindShellCommand, "terminal": KindShellCommand,
	"exec": KindShellCommand, "execcommand": KindShellCommand, "commandexecution": KindShellCommand, "execute": KindShellCommand,
	"executecommand": KindShellCommand, "runcommand": KindShellCommand, "runshellcommand": KindShellCommand, "runterminalcommand": KindShellCommand,
	"runterminalcmd": KindShellCommand, "runinterminal": KindShellCommand, "localshell": KindShellCommand, "unifiedexec": KindShellCommand,
	"writestdin": KindShellCommand, "powershell": KindShellCommand, "pwsh": KindShellCommand, "writebash": KindShellCommand,
	"readbash": KindShellCommand, "stopbash": KindShellCommand, "killshell": KindShellCommand, "killbash": KindShellCommand,
	"bashoutput": KindShellCommand, "python": KindShellCommand, "repl": KindShellCommand, "codeexecution": KindShellCommand,
	"monitor": KindShellCommand, "process": KindShellCommand,
	// network
	"network": KindNetwork, "webfetch": KindNetwork, "websearch": KindNetwork, "fetch": KindNetwork, "fetchurl": KindNetwork,
	"fetchcontent": KindNetwork, "googlewebsearch": KindNetwork, "downloadurl": KindNetwork, "download": KindNetwork, "url": KindNetwork,
	"httprequest": KindNetwork, "codesearch": KindNetwork, "imagegeneration": KindNetwork, "openpage": KindNetwork,
	// model context protocol
	"mcp": KindMCPWriteOrUnknown, "usemcptool": KindMCPWriteOrUnknown, "accessmcpresource": KindMCPRead,
	"listmcpresources": KindMCPRead, "listmcpresourcetemplates": KindMCPRead, "listmcpresourcestool": KindMCPRead,
	"readmcpresource": KindMCPRead, "readmcpresourcetool": KindMCPRead, "mcpstatus": KindMCPRead, "mcplist": KindMCPRead,
	"mcpsearch": KindMCPRead, "mcpdescribe": KindMCPRead,
	// skills
	"skill": KindDynamicSkillTool, "activateskill": KindDynamicSkillTool, "useskill": KindDynamicSkillTool, "slashcommand": KindDynamicSkillTool,
	"toolsearch": KindInternal,
	// the screen
	"computer": KindComputerUse, "computeruse": KindComputerUse, "screenshot": KindComputerUse, "browser": KindComputerUse,
	"browseraction": KindComputerUse, "click": KindComputerUse, "keyboard": KindComputerUse, "mouse": KindComputerUse,
	// other agents
	"task": KindTaskSubagent, "agent": KindTaskSubagent, "subagent": KindTaskSubagent, "spawn": KindTaskSubagent, "spawnagent": KindTaskSubagent,
	"delegate": KindTaskSubagent, "delegatetask": KindTaskSubagent, "delegatetoagent": KindTaskSubagent, "newtask": KindTaskSubagent,
	"sendinput": KindTaskSubagent, "sendmessage": KindTaskSubagent, "resumeagent": KindTaskSubagent, "waitagent": KindTaskSubagent, "closeagent": KindTaskSubagent,
	"taskstop": KindTaskSubagent, "taskoutput": KindTaskSubagent, "codebaseinvestigator": KindTaskSubagent, "teamcreate": KindTaskSubagent,
	"workflow": KindTaskSubagent,
	// what touches nothing but the agent's own state
	"todowrite": KindInternal, "todoread": KindInternal, "todo": KindInternal, "writetodos": KindInternal, "updateplan": KindInternal,
	"plan": KindInternal, "exitplanmode": KindInternal, "enterplanmode": KindInternal, "askuserquestion": KindInternal, "askuser": KindInternal,
	"question": KindInternal, "requestuserinput": KindInternal, "think": KindInternal, "reportintent": KindInternal, "completetask": KindInternal,
	"attemptcompletion": KindInternal, "taskcreate": KindInternal, "taskupdate": KindInternal, "taskget": KindInternal, "tasklist": KindInternal,
	"structuredoutput": KindInternal, "getgoal": KindInternal, "batch": KindUnknown,
}

// mcpReadVerbs start the names of tools that by convention only read. They are a
// hint for the mode's default and nothing else: a server may lie.
var mcpMetadata = map[string]bool{"mcp_status": true, "mcp_list": true, "mcp_search": true, "mcp_describe": true, "mcp_connect": true}

// Classify maps the name of a tool to the kind of its side effect. A tool of a
// server ("mcp__server__tool", "mcp_server_tool", "server:tool") is
// KindMCPWriteOrUnknown, since a name proves nothing about what a server does;
// a name that nobody knows is KindUnknown.
func Classify(tool string) Kind {
	if tool == "" {
		return KindUnknown
	}
	if k, ok := toolKinds[tool]; ok {
		return k
	}
	if mcpMetadata[tool] {
		return KindMCPRead
	}
	low := strings.ToLower(tool)
	if strings.HasPrefix(low, "mcp__") || strings.HasPrefix(low, "mcp_") || strings.HasPrefix(low, "mcp.") || strings.Contains(low, ":") {
		if k, ok := toolKinds[strings.NewReplacer("_", "", "-", "").Replace(low)]; ok && !strings.HasPrefix(low, "mcp__") {
			return k
		}
		return KindMCPWriteOrUnknown
	}
	if k, ok := toolKinds[strings.NewReplacer("_", "", "-", "", " ", "").Replace(low)]; ok {
		return k
	}
	return KindUnknown
}

// SurfaceKind maps the surface of a rule to a kind. The surface "path" is judged
// as a write, the stricter of its directions; a surface that is no special one
// is a tool.
func SurfaceKind(surface string) Kind {
	switch surface {
	case surfaceBash:
		return KindShellCommand
	case surfaceMCP:
		return KindMCPWriteOrUnknown
	case surfaceSkill:
		return KindDynamicSkillTool
	case surfaceNetwork:
		return KindNetwork
	case surfaceTask:
		return KindTaskSubagent
	case surfacePathRead:
		return KindFileRead
	case surfacePath, surfacePathWrite:
		return KindFileWrite
	}
	return Classify(surface)
}
