package prompt

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      "",
		"ls -la | wc":                           "ls -la | wc",
		"é日本😀":                                  "é日本😀",
		"\x1b[2J\x1b[1;1H":                      `\x1b[2J\x1b[1;1H`,
		"\x1b]0;title\x07":                      `\x1b]0;title\x07`,
		"a\rb\nc\td":                            `a\rb\nc\td`,
		"\u009b31m":                             `\u009b31m`,
		"rm \u202e txt.exe":                     `rm \u202e txt.exe`,
		"a\u200bb\ufeff":                        `a\u200bb\ufeff`,
		"\u2066x\u2069":                         `\u2066x\u2069`,
		"a\u00a0b\u3000":                        `a\u00a0b\u3000`,
		"\xff\xfe":                              `\xff\xfe`,
		"\U000e0041":                            `\U000e0041`,
		"\u3164\u115f":                          `\u3164\u115f`,
		"a\u0301":                               "a\u0301",
		"a\u0301\u0301\u0301\u0301\u0301\u0301": "a\u0301\u0301\u0301\u0301" + `\u0301\u0301`,
		"\x00\x7f":                              `\x00\x7f`,
		"\u2028\u2029":                          `\u2028\u2029`,
		"\ufffd":                                "\ufffd",
		"\U0010ffff":                            `\U0010ffff`,
		"\ue000":                                `\ue000`,
	} {
		if got := Visible(in); got != want {
			t.Errorf("Visible(%q) = %q, expected %q", in, got, want)
		}
	}
}

func checkVisible(t interface{ Fatalf(string, ...any) }, in string) {
	got := Visible(in)
	if !utf8.ValidString(got) || Visible(got) != got {
		t.Fatalf("Visible(%q) = %q, which is not stable text", in, got)
	}
	for _, r := range got {
		if r < ' ' || r == 0x7f || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r) {
			t.Fatalf("Visible(%q) = %q holds %U", in, got, r)
		}
	}
}

func TestVisibleObeysNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkVisible(t, rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\x1b\u202e\u0301a\n\u200b\xff")))).Draw(t, "s"))
	})
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"ls", "\x1b[2J", "\u202e", "\xff", "a\u0301\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkVisible(t, s) })
}

// Every builder gives a payload that the wire carries whole.
func TestBuilders(t *testing.T) {
	f := Facts{AgentName: "scout", MatchedPattern: "*", CommandContext: "subshell", ExecutedUnit: "make", InvokedToolName: "sh"}
	for _, tt := range []struct {
		name                 string
		p                    Payload
		kind                 wire.Kind
		surface, tool, value string
		evidence             []string
	}{
		{"bash", Bash(f, "echo hi", "(echo hi) > x"), wire.KindBash, "bash", "bash", "echo hi", []string{"full command"}},
		{"bash, whole line", Bash(f, "echo hi", "echo hi"), wire.KindBash, "bash", "bash", "echo hi", nil},
		{"mcp", MCP(f, "s:t", "{}"), wire.KindMCP, "mcp", "", "s:t", []string{"input"}},
		{"tool", Tool(f, "fetch", "url"), wire.KindTool, "fetch", "fetch", "fetch", []string{"input"}},
		{"tool without input", Tool(f, "fetch", ""), wire.KindTool, "fetch", "fetch", "fetch", nil},
		{"path", Path(f, "path_write", "x.env"), wire.KindPath, "path_write", "", "x.env", nil},
		{"outside", ExternalDirectory(f, "external_directory", "/a/l", "/b", "/w"), wire.KindExternalDirectory, "external_directory", "", "/a/l", []string{"resolves to", "working directory"}},
		{"outside, no link", ExternalDirectory(f, "external_directory", "/a", "/a", "/w"), wire.KindExternalDirectory, "external_directory", "", "/a", []string{"working directory"}},
		{"bash outside", BashExternalDirectory(f, "external_directory", "cat /a /b", "/w", []External{{"/a", ""}, {"/b", "/c"}}), wire.KindBashExternalDirectory, "external_directory", "",
			"cat /a /b", []string{"working directory", "external path", "external path"}},
		{"skill", Skill(f, "demo"), wire.KindSkill, "skill", "", "demo", nil},
		{"skill file", SkillRead(f, "demo", "/s/SKILL.md"), wire.KindSkillRead, "skill", "", "demo", []string{"read path"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var labels []string
			for _, e := range tt.p.Evidence {
				labels = append(labels, e.Label)
			}
			if tt.p.Kind != tt.kind || tt.p.Core.Surface != tt.surface || wire.Text(tt.p.Core.ToolName) != tt.tool || tt.p.Core.Value != tt.value || !cmp.Equal(labels, tt.evidence) {
				t.Errorf("%+v, labels %v", tt.p, labels)
			}
			r := wire.Request{Message: Sentence(tt.p), Payload: &tt.p}
			data, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.ReadRequest(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.p, got.Payload); diff != "" {
				t.Error(diff)
			}
			if data, err := JSON(tt.p); err != nil || !json.Valid(data) {
				t.Errorf("JSON: %s, %v", data, err)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	// As old peers write it themselves.
	want := "Current agent requested bash command 'echo hello' (matched '*') (full command: 'echo hello > out.txt'). Allow this command?"
	if got := Sentence(Bash(Facts{MatchedPattern: "*"}, "echo hello", "echo hello > out.txt")); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	if got := Sentence(Skill(Facts{AgentName: "scout"}, "demo")); got != "Agent 'scout' requested skill 'demo'. Allow loading this skill?" {
		t.Error(got)
	}
}

func TestForRequest(t *testing.T) {
	surface, value := "bash", "echo hello"
	old := wire.Request{RequesterSessionID: "claimed", RequesterAgentName: "scout", Message: "the whole story", Surface: &surface, Value: &value}
	p := ForRequest(old, "channel")
	if p.Kind != wire.KindAskForwarded || p.Core.Value != value || p.Evidence[0].Text != "the whole story" {
		t.Errorf("%+v", p)
	}
	child := Bash(Facts{AgentName: "liar"}, "echo", "echo")
	child.Core.Requester.SessionID = wire.Null("liar")
	old.Payload = &child
	for _, p := range []Payload{p, ForRequest(old, "channel")} {
		who := p.Core.Requester
		if wire.Text(who.AgentName) != "scout" || !who.Forwarded || wire.Text(who.SessionID) != "channel" {
			t.Errorf("requester %+v", who)
		}
	}
	if wire.Text(child.Core.Requester.SessionID) != "liar" {
		t.Error("the request's own payload was changed")
	}
}

func TestMismatch(t *testing.T) {
	p := Bash(Facts{}, "ls", "ls")
	r := wire.Request{Payload: &p, AccessIntent: &wire.AccessIntent{MatchValues: []string{"a", "ls"}}}
	if m := Mismatch(r); m != "" {
		t.Errorf("control: %s", m)
	}
	r.AccessIntent.MatchValues = []string{"rm -rf ~"}
	if m := Mismatch(r); !strings.Contains(m, "ls") {
		t.Errorf("%q", m)
	}
}

func TestRender(t *testing.T) {
	f := Facts{AgentName: "scout", MatchedPattern: "git *", CommandContext: "command_substitution", ExecutedUnit: "git push", InvokedToolName: "sh"}
	p := Bash(f, "sudo git push", "cd x && $(sudo git push)")
	p.Annotations = []Annotation{{Source: "summary", Text: "harmless"}}
	want := strings.Join([]string{
		"agent        : scout",
		"tool         : bash (invoked as sh)",
		"rule         : git *",
		"command      : sudo git push",
		"runs         : git push",
		"context      : command substitution",
		"full command : cd x && $(sudo git push)",
		"note         : [summary, written by a model] harmless",
		"",
	}, "\n")
	if got := Plain(p, Budget{}); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
	forwarded := p
	forwarded.Core.Requester = Requester{Forwarded: true, SessionID: wire.Null("s-1")}
	if got := Plain(forwarded, Budget{}); !strings.HasPrefix(got, "subagent     : unknown · session s-1\n") {
		t.Error(got)
	}
	// What repeats the tool's name is said once.
	if got := Plain(Tool(Facts{}, "fetch", ""), Budget{}); got != "tool : fetch\n" {
		t.Errorf("%q", got)
	}
	if got := Plain(Path(Facts{}, "path_write", "x"), Budget{}); got != "surface : path_write\npath    : x\n" {
		t.Errorf("%q", got)
	}
}

func TestRenderFlags(t *testing.T) {
	flagged := func(d Dialog) (out []string) {
		for _, f := range d.Facts {
			for _, line := range f.Lines {
				for _, s := range line {
					if s.Flagged {
						out = append(out, f.Label+"="+s.Text)
					}
				}
			}
		}
		return out
	}
	d := Render(Bash(Facts{}, "rm x", "cd y; rm x; rm x.txt; xrm x;rm x"), Budget{})
	if diff := cmp.Diff([]string{"command=rm x", "full command=rm x", "full command=rm x"}, flagged(d)); diff != "" {
		t.Error(diff)
	}
	d = Render(BashExternalDirectory(Facts{}, "external_directory", "cat /a /ab /b", "/w", []External{{"/a", ""}, {"/b", "/c"}}), Budget{})
	if diff := cmp.Diff([]string{"command=/a", "command=/b", "external path=/a", "external path=/b"}, flagged(d)); diff != "" {
		t.Error(diff)
	}
}

func TestRenderElides(t *testing.T) {
	long := strings.Repeat("é", 1000)
	d := Render(Bash(Facts{}, long, long), Budget{})
	if !d.Elided || strings.Count(d.String(), "é") != DefaultFieldWidth || !strings.Contains(d.String(), "é…\n") {
		t.Errorf("elided %t: %s", d.Elided, d)
	}
	if d := Render(Bash(Facts{}, long, long), Budget{Complete: true}); d.Elided || strings.Count(d.String(), "é") != 1000 {
		t.Error("the complete view leaves something out")
	}

	p := Bash(Facts{}, "x", "x")
	for range 40 {
		p.Evidence = append(p.Evidence, Evidence{Label: "e", Text: "one\ntwo", Detail: wire.Null("three")})
	}
	d = Render(p, Budget{Rows: 10})
	rows := strings.Count(d.String(), "\n")
	// Entries are whole or not at all, and the last row says that there is more.
	if !d.Elided || rows != 9 || strings.Count(d.String(), "three") != strings.Count(d.String(), "one") || !strings.HasSuffix(strings.TrimRight(d.String(), "\n "), Ellipsis) {
		t.Errorf("%d rows:\n%s", rows, d)
	}

	// An agent cannot push the question off the screen, nor the column.
	p = Bash(Facts{AgentName: strings.Repeat("\n", 400)}, strings.Repeat("\n", 10000), "x")
	p.Evidence = []Evidence{{Label: strings.Repeat("l", 1000), Text: strings.Repeat("\n", 10000)}}
	d = Render(p, Budget{Width: 80})
	if rows := strings.Count(d.String(), "\n"); rows > 2*DefaultRows || d.LabelWidth > maxLabel+1 || !d.Elided {
		t.Errorf("%d rows, labels %d wide", rows, d.LabelWidth)
	}
}

// Whatever a payload holds, each line fits the terminal and moves no cursor.
func TestRenderIsSafeAndFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("ab \n\x1b\u202e日\u0301"))))
		p := Bash(Facts{AgentName: text.Draw(t, "agent"), MatchedPattern: text.Draw(t, "rule")}, text.Draw(t, "unit"), text.Draw(t, "line"))
		p.Evidence = append(p.Evidence, Evidence{Label: text.Draw(t, "label"), Text: text.Draw(t, "text"), Detail: wire.Null(text.Draw(t, "detail"))})
		width := rapid.IntRange(40, 120).Draw(t, "width")
		d := Render(p, Budget{Width: width})
		for line := range strings.Lines(d.String()) {
			line = strings.TrimSuffix(line, "\n")
			if Visible(line) != line {
				t.Fatalf("line %q is not safe", line)
			}
			if w := runewidth.StringWidth(line); w > width {
				t.Fatalf("line %q is %d wide, %d expected", line, w, width)
			}
		}
	})
}

func TestDenial(t *testing.T) {
	f := Facts{AgentName: "scout", MatchedPattern: "rm *", CommandContext: "subshell"}
	bash := Bash(f, "rm -rf /precious", "(rm -rf /precious)")
	bash.Annotations = []Annotation{{Source: "m", Text: "wisdom"}}
	for _, tt := range []struct {
		name    string
		p       Payload
		d       wire.DecisionSource
		reason  string
		want    string
		without []string
	}{
		{"policy", bash, wire.ByRule("bash", "rm *", "global"), "too risky", "[pioneer-super] Denied by policy: bash for agent 'scout' (rule 'rm *') in a subshell. Reason: too risky", nil},
		{"a person", bash, wire.ByUser("dialog"), "", "[pioneer-super] User denied bash for agent 'scout' (rule 'rm *') in a subshell.", nil},
		{"nobody", bash, wire.Unavailable("no endpoint"), "", "Not allowed, because nobody could answer: bash", []string{"User"}},
		{"a link", bash, wire.ByAuthorizer("auto", false, "r"), "r", "Denied by authorizer 'auto': bash", nil},
		{"an error", bash, wire.GateError("tripped"), "", "because judging it failed: bash for agent 'scout' (rule 'rm *') in a subshell. Reason: tripped", nil},
		{"the parent's rule", bash, wire.Forwarded("boss-session", wire.ByRule("bash", "rm -rf *", "secret-scope")), "no", "Denied by the parent's policy: bash", []string{"boss-session", "secret-scope"}},
		{"the parent, not told", bash, wire.Forwarded("boss-session", wire.DecisionSource{}), "", "Denied, not told by whom:", []string{"boss-session", "User"}},
		{"the parent's user", bash, wire.Forwarded("boss-session", wire.ByUser("dialog")), "", "the parent says by the user", nil},
		{"a path", Path(f, "path_write", "x.env"), wire.ByUser("dialog"), "", "User denied path_write for agent 'scout' 'x.env' (rule 'rm *')", nil},
		{"outside", ExternalDirectory(f, "external_directory", "/a/l", "/b", "/w"), wire.ByUser("dialog"), "", "'/a/l' (resolves to '/b') outside '/w'", nil},
		{"a skill file", SkillRead(f, "demo", "/s"), wire.ByUser("dialog"), "", "'demo' via '/s'", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Denial(tt.p, tt.d, tt.reason, 0)
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nexpected %s", got, tt.want)
			}
			for _, w := range append(tt.without, "precious", "wisdom", "\n") {
				if strings.Contains(got, w) {
					t.Errorf("%q is in %s", w, got)
				}
			}
		})
	}
}

func TestLogLine(t *testing.T) {
	p := Bash(Facts{AgentName: "scout", MatchedPattern: "*"}, "curl -H 'x'", "curl -H 'x' | sh")
	p.Core.Requester.Forwarded, p.Core.Requester.SessionID = true, wire.Null("s")
	got, err := LogLine(p, map[string]any{
		"command": strings.Repeat("é", 2000), "surface": "forged", "executedUnit": "forged", "decidedBy": wire.ByRule("bash", "*", ""), "resolution": "policy_deny",
		"headers": map[string]any{"Authorization": "Bearer x", "api_key": "k", "API-Key": "k", "x-private key": "p", "deep": []any{map[string]any{"sessionToken": 1, "ok": "v"}}}, "n": 3, "nul": nil,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), "\n") {
		t.Error("more than one line")
	}
	var m map[string]any
	if err := json.Unmarshal(got, &m); err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCountInString(m["command"].(string)); n != DefaultLogWidth+1 {
		t.Errorf("command has %d characters", n)
	}
	delete(m, "command")
	want := map[string]any{"surface": "bash", "matchedPattern": "*", "forwarded": true, "requesterSessionId": "s", "resolution": "policy_deny", "n": 3.0, "nul": nil,
		"decidedBy": map[string]any{"kind": "rule", "surface": "bash", "pattern": "*", "origin": nil},
		"headers":   map[string]any{"Authorization": Redacted, "api_key": Redacted, "API-Key": Redacted, "x-private key": Redacted, "deep": []any{map[string]any{"sessionToken": Redacted, "ok": "v"}}}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if _, err := LogLine(p, map[string]any{"x": struct{}{}}, 0); err == nil {
		t.Error("a column of a type that cannot be cut is logged")
	}
}
