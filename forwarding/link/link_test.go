package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

func facts(value string) forwarding.Facts {
	return forwarding.Facts{ID: "r1", Session: "s1", Path: []string{"root", "s1"}, Agent: "worker", Source: "tool_call",
		Units: []forwarding.Unit{{Surface: "bash", Value: value, MatchValues: []string{value}, Payload: prompt.Bash(prompt.Facts{MatchedPattern: "git *"}, value, value+" && date")}}}
}

func TestVerdicts(t *testing.T) {
	for text, want := range map[string]string{
		`{"verdict": "allow"}`:                        "allow ",
		`{"verdict": "deny", "reason": "no"}`:         "deny no",
		` {"verdict": "defer", "reason": "perhaps"} `: "defer perhaps",
		`{"verdict": "Allow"}`:                        "error",
		`{"Verdict": "allow"}`:                        "error",
		`{"verdict": "allow", "verdict": "deny"}`:     "error",
		`{"verdict": "allow", "sure": true}`:          "error",
		`{"verdict": "allow"} {"verdict": "deny"}`:    "error",
		`allow`: "error",
		`{}`:    "error",
		``:      "error",
		`{"verdict": "allow", "reason": "` + strings.Repeat("x", MaxVerdict) + `"}`: "error",
	} {
		v, err := ParseVerdict([]byte(text))
		got := v.Outcome.String() + " " + v.Reason
		if err != nil {
			got = "error"
			if v.Outcome == forwarding.Allow {
				t.Errorf("%.60s: an allow beside an error", text)
			}
		}
		if got != want {
			t.Errorf("%.60s: %s, expected %s", text, got, want)
		}
	}
}

func TestProgram(t *testing.T) {
	var input []byte
	says := func(output string, err error) Run {
		return func(_ context.Context, argv []string, in []byte, limit int) ([]byte, error) {
			input = in
			if len(argv) != 2 || limit != MaxVerdict {
				t.Errorf("argv %q, limit %d", argv, limit)
			}
			return []byte(output), err
		}
	}
	ask := func(run Run) string {
		v, err := Program{Argv: []string{"/x", "-a"}, Run: run, Timeout: 50 * time.Millisecond}.Authorize(t.Context(), facts("git push"))
		if err != nil {
			t.Errorf("an error ends the ask as a denial, expected none: %v", err)
		}
		return v.Outcome.String() + ": " + v.Reason
	}
	if got := ask(says(`{"verdict": "allow", "reason": "fine"}`, nil)); got != "allow: fine" {
		t.Error(got)
	}
	for _, want := range []string{`"value":"git push"`, `"session":"s1"`, `"rule":"git *"`, `"git push && date"`, `"version":1`, `"label":"full command"`} {
		if !strings.Contains(string(input), want) {
			t.Errorf("no %s in %s", want, input)
		}
	}
	for name, run := range map[string]Run{
		"status": says(`{"verdict": "allow"}`, errors.New("exit status 3")),
		"words":  says("allow", nil),
		"silent": says("", nil),
		"slow": func(ctx context.Context, _ []string, _ []byte, _ int) ([]byte, error) {
			<-ctx.Done()
			return []byte(`{"verdict": "allow"}`), nil
		},
	} {
		if got := ask(run); !strings.HasPrefix(got, "defer: failed: ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, err := Facts(facts(strings.Repeat("x", MaxFacts))); err == nil {
		t.Error("an ask of any size is sent")
	}
}

// TestCore: an observer is told the core and the kind of the decider, no evidence and
// no reason.
func TestCore(t *testing.T) {
	f := facts("git push")
	body, err := Core(f, nil)
	if err != nil || !strings.Contains(string(body), `"event":"ask"`) || !strings.Contains(string(body), `"value":"git push"`) || !strings.Contains(string(body), `"rule":"git *"`) {
		t.Errorf("%v %s", err, body)
	}
	for _, never := range []string{"&& date", "full command", "approved", "path"} {
		if strings.Contains(string(body), never) {
			t.Errorf("an observer is told %q: %s", never, body)
		}
	}
	d := forwarding.Decision{Reason: "because", DecidedBy: wire.ByUser("dialog")}
	if body, err = Core(f, &d); err != nil || !strings.Contains(string(body), `"approved":false,"decidedBy":"user"`) || strings.Contains(string(body), "because") {
		t.Errorf("%v %s", err, body)
	}
	if _, err := Core(facts(strings.Repeat("x", MaxFacts)), nil); err == nil {
		t.Error("an ask of any size is sent")
	}
}

// model is a scripted endpoint.
type model struct {
	status int
	text   string
	raw    string
	body   string
	header http.Header
	path   string
	wait   time.Duration
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.body, m.header, m.path = string(body), r.Header, r.URL.Path
	select {
	case <-time.After(m.wait):
	case <-r.Context().Done():
		return
	}
	if m.status != 0 && m.status != 200 {
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(m.status)
		return
	}
	switch {
	case m.raw != "":
		io.WriteString(w, m.raw)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		fmt.Fprintf(w, `{"id": "x", "content": [{"type": "text", "text": %q}], "stop_reason": "end_turn"}`, m.text)
	default:
		fmt.Fprintf(w, `{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": %q}, "finish_reason": "stop"}]}`, m.text)
	}
}

func reviewer(t *testing.T, provider string, m *model) *Reviewer {
	t.Helper()
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return &Reviewer{Provider: provider, Model: "judge-1", BaseURL: s.URL, Key: func() (string, error) { return "secret-key", nil }, Timeout: 2 * time.Second}
}

func say(t *testing.T, r *Reviewer, f forwarding.Facts) string {
	t.Helper()
	v, err := r.Authorize(t.Context(), f)
	if err != nil {
		t.Errorf("an error ends the ask as a denial, expected none: %v", err)
	}
	if strings.Contains(v.Reason, "secret-key") {
		t.Errorf("the key is in %q", v.Reason)
	}
	return v.Outcome.String() + ": " + v.Reason
}

func TestReviewer(t *testing.T) {
	for provider, want := range map[string]struct{ path, header, value string }{
		OpenAI:    {"/chat/completions", "Authorization", "Bearer secret-key"},
		Anthropic: {"/v1/messages", "X-Api-Key", "secret-key"},
	} {
		m := &model{text: `{"verdict": "allow", "reason": "harmless"}`}
		r := reviewer(t, provider, m)
		if got := say(t, r, facts("git push")); got != "allow: harmless" {
			t.Errorf("%s: %s", provider, got)
		}
		if m.path != want.path || m.header.Get(want.header) != want.value || !strings.Contains(m.body, `"model":"judge-1"`) || !strings.Contains(m.body, "git push") {
			t.Errorf("%s: %s %v %s", provider, m.path, m.header, m.body)
		}
		m.text = "```json\n{\"verdict\": \"deny\", \"reason\": \"no\"}\n```"
		if got := say(t, r, facts("x")); got != "deny: no" {
			t.Errorf("%s: %s", provider, got)
		}
	}
}

// TestReviewerFailures: every way to fail passes the ask on, and says how.
func TestReviewerFailures(t *testing.T) {
	allow := `{"verdict": "allow"}`
	for name, c := range map[string]struct {
		m      model
		change func(*Reviewer)
		want   Failure
	}{
		"words":        {m: model{text: "I would allow this"}, want: FailedMalformed},
		"two verdicts": {m: model{text: allow + allow}, want: FailedMalformed},
		"no JSON":      {m: model{raw: "<html>"}, want: FailedMalformed},
		"cut short":    {m: model{raw: `{"choices": [{"message": {"content": "{\"verdict\": \"allow\"}"}, "finish_reason": "length"}]}`}, want: FailedMalformed},
		"two choices":  {m: model{raw: `{"choices": [{}, {}]}`}, want: FailedMalformed},
		"nothing":      {m: model{raw: `{"choices": []}`}, want: FailedMalformed},
		"unauthorised": {m: model{status: 401}, want: FailedAuth},
		"forbidden":    {m: model{status: 403}, want: FailedAuth},
		"too many":     {m: model{status: 429}, want: FailedRate},
		"broken":       {m: model{status: 500}, want: FailedServer},
		"elsewhere":    {m: model{status: 302}, want: FailedServer},
		"much":         {m: model{raw: strings.Repeat("x", maxAnswer+1)}, want: FailedTooLarge},
		"slow":         {m: model{text: allow, wait: time.Minute}, change: func(r *Reviewer) { r.Timeout = 50 * time.Millisecond }, want: FailedTimeout},
		"nobody":       {m: model{text: allow}, change: func(r *Reviewer) { r.BaseURL = "http://127.0.0.1:1" }, want: FailedTransport},
		"no model":     {m: model{text: allow}, change: func(r *Reviewer) { r.Model = "" }, want: FailedConfig},
		"no provider":  {m: model{text: allow}, change: func(r *Reviewer) { r.Provider = "" }, want: FailedConfig},
		"no key":       {m: model{text: allow}, change: func(r *Reviewer) { r.Key = func() (string, error) { return "", errors.New("gone") } }, want: FailedConfig},
	} {
		m := c.m
		r := reviewer(t, OpenAI, &m)
		if c.change != nil {
			c.change(r)
		}
		if got := say(t, r, facts("x")); !strings.HasPrefix(got, "defer: failed: "+string(c.want)+": ") {
			t.Errorf("%s: %s, expected %s", name, got, c.want)
		}
	}
}

func TestCircuit(t *testing.T) {
	m := &model{text: `{"verdict": "deny"}`}
	r := reviewer(t, OpenAI, m)
	r.MaxDenials = 2
	other := facts("x")
	other.Session = "s2"
	for i, want := range []string{"deny: ", "deny: ", "defer: failed: circuit open: 2 denials in this turn"} {
		if got := say(t, r, facts("x")); got != want {
			t.Errorf("%d: %q, expected %q", i, got, want)
		}
	}
	if got := say(t, r, other); got != "deny: " {
		t.Errorf("another session: %q", got)
	}
	r.TurnStarted("s1")
	if got := say(t, r, facts("x")); got != "deny: " {
		t.Errorf("in the next turn: %q", got)
	}
}

// TestBoundary: what the agent, its tools and summaries said never leaves.
func TestBoundary(t *testing.T) {
	said := []Entry{
		{Role: "user", Text: "deploy it"}, {Role: "assistant", Text: "leak-a"}, {Role: "tool", Text: "leak-b"}, {Role: "compaction", Text: "leak-c"},
		{Role: "answer", Text: "yes, staging"}, {Role: "answer", Text: "leak-d", Cancelled: true}, {Role: "User", Text: "leak-e"}, {Role: "user", Text: " "},
	}
	m := &model{text: `{"verdict": "defer"}`}
	r := reviewer(t, Anthropic, m)
	r.Transcript = func(session string) []Entry {
		if session != "s1" {
			t.Errorf("the transcript of %s", session)
		}
		return said
	}
	say(t, r, facts("x"))
	if !strings.Contains(m.body, "deploy it") || !strings.Contains(m.body, "yes, staging") || strings.Contains(m.body, "leak-") {
		t.Errorf("sent: %s", m.body)
	}
	r.Hide = strings.NewReplacer("staging", "[redacted]", "git push", "[redacted]").Replace
	say(t, r, facts("git push"))
	if strings.Contains(m.body, "staging") || strings.Contains(m.body, "git push") || strings.Count(m.body, "[redacted]") < 2 || !strings.Contains(m.body, "deploy it") {
		t.Errorf("sent: %s", m.body)
	}
	many := make([]Entry, 200)
	for i := range many {
		many[i] = Entry{Role: "user", Text: fmt.Sprint(i, strings.Repeat("é", maxEntry))}
	}
	got := Boundary(many)
	if len(got) != maxEntries || !strings.HasPrefix(got[maxEntries-1].Text, "199") || len(got[0].Text) > maxEntry+4 {
		t.Errorf("%d entries, the last %.10q", len(got), got[len(got)-1].Text)
	}
}
