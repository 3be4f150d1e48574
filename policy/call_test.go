package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	for kind, tools := range map[Kind]string{
		KindFileRead:          "read Read read_file read_many_files ReadFile view ls list_directory LS glob Glob find grep Grep grep_search search_file_content NotebookRead view_image list",
		KindFileWrite:         "write Write write_file WriteFile edit Edit MultiEdit NotebookEdit replace str_replace_editor apply_patch applyPatch fileChange patch create_file",
		KindShellCommand:      "bash Bash shell exec_command commandExecution run_shell_command run_terminal_cmd local_shell unified_exec KillShell BashOutput",
		KindNetwork:           "webfetch WebFetch web_fetch WebSearch google_web_search fetch download_url web_search",
		KindMCPRead:           "mcp_list mcp_search ListMcpResources ListMcpResourcesTool read_mcp_resource",
		KindMCPWriteOrUnknown: "mcp mcp__github__create_issue mcp__x server:tool mcp_github_create mcp.server.tool",
		KindDynamicSkillTool:  "skill Skill activate_skill SlashCommand",
		KindComputerUse:       "computer computer_use browser screenshot",
		KindTaskSubagent:      "task Task Agent subagent spawn spawn_agent delegate_to_agent send_input",
		KindInternal:          "todowrite TodoWrite update_plan ExitPlanMode ask_user AskUserQuestion write_todos think",
		KindUnknown:           "frobnicate x batch reader rm",
	} {
		for _, tool := range strings.Fields(tools) {
			if got := Classify(tool); got != kind {
				t.Errorf("%s: %s, want %s", tool, got, kind)
			}
		}
	}
	if Classify("") != KindUnknown {
		t.Error("no name has a kind")
	}
	for _, k := range toolKinds {
		if k.index() < 0 {
			t.Errorf("%q is no kind", k)
		}
	}
	for _, k := range Kinds() {
		if got, err := ParseKind(string(k)); err != nil || got != k || kinds[k.index()] != k {
			t.Errorf("%s: %v", k, err)
		}
	}
	if _, err := ParseKind("File_read"); err == nil {
		t.Error("case was ignored")
	}
}

func TestUnknownToolsNeverRunUnaskedInRestrictedModes(t *testing.T) {
	for _, m := range []Mode{AutoAcceptEdits, Supervised} {
		a := NewAuthority("s", restricted(m), nil)
		for _, tool := range []string{"frobnicate", "rm", "", "batch"} {
			if d := a.Decide(NewQuery(tool, "x")); d.Action == Allow {
				t.Errorf("%s: %q runs unasked", m, tool)
			}
		}
	}
}

func TestMCPTargets(t *testing.T) {
	servers := []string{"exa", "big_exa", ""}
	for _, c := range []struct {
		name string
		call MCPCall
		want string
	}{
		{"a qualified tool", MCPCall{Tool: "exa:search"}, "exa_search exa:search exa search mcp_call mcp"},
		{"spaces", MCPCall{Tool: " exa : search "}, "exa_search exa:search exa search|exa : search mcp_call mcp"},
		{"a tool with a server beside it", MCPCall{Tool: "search", Server: "exa"}, "exa_search exa:search exa search mcp_call mcp"},
		{"both: the server beside it counts", MCPCall{Tool: "a:b", Server: "exa"}, "exa_b exa:b exa b a:b mcp_call mcp"},
		{"only the first colon parts", MCPCall{Tool: "a:b:c"}, "a_b:c a:b:c a b:c mcp_call mcp"},
		{"a tool that ends with a server", MCPCall{Tool: "search_big_exa"}, "big_exa_search_big_exa big_exa:search_big_exa big_exa exa_search_big_exa exa:search_big_exa exa search_big_exa mcp_call mcp"},
		{"but not one that starts with it", MCPCall{Tool: "exa_search_exa"}, "exa_search_exa mcp_call mcp"},
		{"an empty half is no server", MCPCall{Tool: ":x"}, ":x mcp_call mcp"},
		{"connect", MCPCall{Connect: "exa"}, "mcp_connect_exa exa mcp_connect mcp"},
		{"describe", MCPCall{Describe: "exa:search"}, "exa_search exa:search exa search mcp_describe mcp"},
		{"search in a server", MCPCall{Search: "files", Server: "exa"}, "mcp_server_exa exa files mcp_search mcp"},
		{"search", MCPCall{Search: "files"}, "files mcp_search mcp"},
		{"a server alone", MCPCall{Server: "exa"}, "mcp_server_exa exa mcp_list mcp"},
		{"nothing", MCPCall{Tool: "  "}, "mcp_status mcp"},
		{"the tool comes before the rest", MCPCall{Tool: "x", Connect: "y"}, "x mcp_call mcp"},
	} {
		got := strings.Join(MCPTargets(c.call, servers), " ")
		if got != strings.ReplaceAll(c.want, "|", " ") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPathAliases(t *testing.T) {
	for _, c := range []struct{ typed, canonical, want string }{
		{"src/x.go", "", "/w/app/src/x.go src/x.go"},
		{"./src/../src/x.go", "", "/w/app/src/x.go src/x.go ./src/../src/x.go"},
		{"/w/app/x", "/real/x", "/w/app/x x /real/x"},
		{"../y", "", "/w/y ../y"},
		{"~/k", "", "/home/u/k"},
		{"@src/x", "", "/w/app/src/x src/x"},
		{"\"/etc/x\"", "", "/etc/x"},
		{" '/etc/x' ", "", "/etc/x"},
		{".", "", "/w/app ."},
		{"/w/app2/x", "", "/w/app2/x"},
		{"", "", ""},
	} {
		if got := strings.Join(PathAliases(c.typed, "/w/app", "/home/u", c.canonical), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.typed, got, c.want)
		}
	}
}

func TestCallsPassEveryGate(t *testing.T) {
	policy := mustPolicy(t, `{"permission": {"read": "allow", "path": {"*.env": "deny", "/etc/*": "ask"}, "skill": {"pub": "allow", "*": "deny"}, "mcp": {"exa:search": "allow"}, "network": {"go.dev": "allow"}, "task": {"reviewer": "deny"}}}`)
	a := NewAuthority("s", restricted(AutoAcceptEdits), policy)
	paths := func(p ...string) [][]string { return [][]string{p} }
	for _, c := range []struct {
		name string
		call Call
		want Action
	}{
		{"a read", Call{Tool: "Read", Paths: paths("/w/app/x")}, Allow},
		{"a read of a denied file", Call{Tool: "read_file", Paths: paths("/w/app/.env", ".env")}, Deny},
		{"a read that is asked", Call{Tool: "Read", Paths: paths("/etc/hosts")}, Ask},
		{"an edit in the workspace", Call{Tool: "Edit", Paths: paths("/w/app/x")}, Allow},
		{"an edit outside", Call{Tool: "apply_patch", Paths: paths("/home/u/x")}, Ask},
		{"one of two files is denied", Call{Tool: "apply_patch", Paths: [][]string{{"/w/app/x"}, {"/w/app/.env"}}}, Deny},
		{"a path of another machine is none", Call{Tool: "frob", Paths: paths("/w/app/.env"), Remote: true}, Ask},
		{"an unknown tool that names a denied file", Call{Tool: "frob", Paths: paths("/w/app/.env")}, Deny},
		{"a skill", Call{Tool: "skill", Skill: "pub"}, Allow},
		{"a denied skill", Call{Tool: "Skill", Skill: "other"}, Deny},
		{"reading a denied skill's file", Call{Tool: "read", Skill: "other", Paths: paths("/w/app/x")}, Deny},
		{"a server's tool", Call{Tool: "mcp", MCP: &MCPCall{Tool: "exa:search"}}, Allow},
		{"a server's tool by its long name", Call{Tool: "mcp__exa__search"}, Allow},
		{"another tool of the server", Call{Tool: "mcp__exa__write"}, Ask},
		{"an open host", Call{Tool: "WebFetch", Host: "go.dev"}, Allow},
		{"another host", Call{Tool: "WebFetch", Host: "evil.org"}, Ask},
		{"an internal tool", Call{Tool: "TodoWrite"}, Allow},
		{"a shell without its text", Call{Tool: "Bash"}, Ask},
	} {
		got := Allow
		for _, q := range c.call.Queries() {
			got = min(got, Decide([]*Authority{a}, q).Action)
		}
		if len(c.call.Queries()) == 0 || got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestExposureHidesOnlyWhatIsWhollyDenied(t *testing.T) {
	full := Resolve(ResolveInput{Mode: FullAccess})
	for _, c := range []struct {
		policy, tool string
		want         bool
	}{
		{`{"permission": {"webfetch": "deny"}}`, "webfetch", false},
		{`{"permission": {"bash": "deny"}}`, "Bash", false},
		{`{"permission": {"bash": {"*": "deny", "ls *": "allow"}}}`, "bash", true},
		{`{"permission": {"bash": {"rm *": "deny"}}}`, "bash", true},
		{`{"permission": {"bash": {"*": "deny", "ls *": "ask"}}}`, "bash", true},
		{`{"permission": {"web*": "deny"}}`, "websearch", false},
		{`{"permission": {}}`, "anything", true},
	} {
		got, why := Exposed([]*Authority{NewAuthority("s", full, mustPolicy(t, c.policy))}, c.tool)
		if got != c.want || !got && why.Action != Deny {
			t.Errorf("%s %s: %v %+v", c.policy, c.tool, got, why)
		}
	}
	limit, err := ParseCap("cap", []byte(`{"profile": {"policy": {"kinds": {"network": "deny", "task_subagent": "deny"}}}, "ceiling": {"network": "disabled"}}`))
	if err != nil {
		t.Fatal(err)
	}
	child, _ := Child(full, "", limit, "/w")
	held := []*Authority{NewAuthority("c", child, nil)}
	for _, tool := range []string{"webfetch", "Task", "spawn"} {
		if ok, _ := Exposed(held, tool); ok {
			t.Errorf("a child without it is offered %s", tool)
		}
	}
	if ok, _ := Exposed(held, "read"); !ok {
		t.Error("read is hidden")
	}
	if !slices.Equal(child.Open.Canonical().Hosts, nil) || child.Open.CanReach("go.dev", "443") {
		t.Error("a capped child reaches the network")
	}
}
