package integration

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/supervisor"
)

// Adapters is the table of programs that are agents: how each is known by its
// resolved path, and what it needs. Only these get the control envelope alone in
// a restricted session, because they bring a gate or a sandbox of their own.
func Adapters() []supervisor.Adapter {
	return []supervisor.Adapter{Pi()}
}

// piPackages are the names under which Pi's command line is published.
var piPackages = []string{"@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent"}

// Pi is the adapter of Pi, whose public permission extension forwards its asks
// over files: it needs nothing but two variables.
func Pi() supervisor.Adapter {
	return supervisor.Adapter{
		Name: "pi",
		Program: func(file string, argv []string) bool {
			return slices.ContainsFunc(piPackages, func(p string) bool {
				return strings.Contains(filepath.ToSlash(file), "/node_modules/"+p+"/")
			})
		},
		Interactive: func(argv []string, terminal bool) bool {
			for i, a := range argv {
				switch {
				case a == "-p", a == "--print":
					return false
				case a == "--mode" && i+1 < len(argv):
					// In rpc mode its client answers; json mode has nobody.
					return argv[i+1] == "rpc"
				case strings.HasPrefix(a, "--mode="):
					return a == "--mode=rpc"
				}
			}
			return terminal
		},
		ForwardingRoot: func(getenv func(string) string) string {
			dir := PiAgentDir(getenv)
			if dir == "" {
				return ""
			}
			return filepath.Join(dir, "sessions", "permission-forwarding")
		},
		Keep: func(name string) bool {
			return slices.Contains(piKeys, name)
		},
		Path: func(getenv func(string) string) []string {
			dir := PiAgentDir(getenv)
			if dir == "" {
				return nil
			}
			return []string{filepath.Join(dir, "bin")}
		},
		// Pi tells programs that they run under it by AI_AGENT.
		Tool: func(name string) bool { return strings.HasPrefix(name, "PI_") || name == "AI_AGENT" },
	}
}

// piKeys are the variables with which Pi logs in to its model.
var piKeys = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "CEREBRAS_API_KEY",
	"XAI_API_KEY", "OPENROUTER_API_KEY", "ZAI_API_KEY", "MISTRAL_API_KEY", "AZURE_OPENAI_API_KEY",
}

// PiAgentDir is the directory of a Pi agent: $PI_CODING_AGENT_DIR, else
// ~/.pi/agent; "" where neither is known.
func PiAgentDir(getenv func(string) string) string {
	if dir := getenv("PI_CODING_AGENT_DIR"); dir != "" {
		return dir
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".pi", "agent")
	}
	return ""
}
