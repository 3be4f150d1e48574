package pi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func post(t *testing.T, m *Model, messages string) string {
	t.Helper()
	resp, err := http.Post(m.url+"/chat/completions", "application/json", strings.NewReader(`{"model":"scripted","messages":[`+messages+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	return string(body)
}

func TestModelPlaysAScript(t *testing.T) {
	m := StartModel(t)
	m.Script(Bash("true"))
	s := m.Turns(Turn{Bash("echo <&>"), Read("a.txt")}, Turn{Bash("date")})
	user := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"please %s now"}]}`, s.Prompt())
	first := post(t, m, user)
	for _, want := range []string{`"name":"bash"`, `"name":"read"`, `"index":1`, `"finish_reason":"tool_calls"`, "data: [DONE]\n\n"} {
		if !strings.Contains(first, want) {
			t.Errorf("the first turn lacks %s:\n%s", want, first)
		}
	}
	if again := post(t, m, user); again != first {
		t.Error("a repeated request got another answer")
	}
	afterOne := user + `,{"role":"assistant","tool_calls":[{},{}]},{"role":"tool","content":"one"},{"role":"tool","content":"two"}`
	if second := post(t, m, afterOne); !strings.Contains(second, "date") {
		t.Errorf("the second turn is not played:\n%s", second)
	}
	if s.Played() {
		t.Error("played before its end")
	}
	last := post(t, m, afterOne+`,{"role":"assistant","tool_calls":[{}]},{"role":"tool","content":[{"text":"th"},{"text":"ree"}]}`)
	if !strings.Contains(last, `"finish_reason":"stop"`) {
		t.Errorf("no end:\n%s", last)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, s.Results(t, time.Second)); diff != "" {
		t.Error(diff)
	}
}

func TestPlaceStartsAnewAtEachPrompt(t *testing.T) {
	say := func(role, text string, calls int) chatMessage {
		m := chatMessage{Role: role, Content: []byte(`"` + text + `"`)}
		for range calls {
			m.ToolCalls = append(m.ToolCalls, []byte("{}"))
		}
		return m
	}
	script, played, results, err := place([]chatMessage{
		say("system", "play script 9", 0), say("user", "play script 4", 0), say("assistant", "", 2), say("tool", "old", 0),
		say("assistant", "done", 0), say("user", "play script 5", 0), say("assistant", "", 1), say("tool", "new", 0),
	})
	if err != nil || script != 5 || played != 1 || !cmp.Equal(results, []string{"new"}) {
		t.Errorf("script %d, played %d, results %q, error %v", script, played, results, err)
	}
	if _, _, _, err := place([]chatMessage{say("user", "play script 4", 0), say("user", "hello", 0)}); err == nil {
		t.Error("a prompt without a script was explained by an earlier one")
	}
}

// FuzzModel sends the server anything: it answers or refuses, and never both.
func FuzzModel(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"play script 0"}]}`)
	f.Add(`{"messages":[{"role":"user","content":"play script 1"},{"role":"assistant","tool_calls":[1]},{"role":"tool","content":null}]}`)
	f.Add(`{"messages":[{"role":"user","content":[{"text":"play script 999999"}]}]}`)
	f.Add(`{"messages":null}`)
	f.Add(`nonsense`)
	f.Fuzz(func(t *testing.T, body string) {
		m := &Model{}
		m.Script(Bash("true"))
		m.Script(Bash("true"), Bash("false"))
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
		ended := strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n")
		switch {
		case w.Code == http.StatusOK && (!ended || len(m.strange) != 0):
			t.Errorf("answered and kept %q; ended: %v", m.strange, ended)
		case w.Code != http.StatusOK && len(m.strange) != 1:
			t.Errorf("refused with %d and kept %q", w.Code, m.strange)
		}
	})
}
