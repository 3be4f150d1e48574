package pi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxRequest bounds what the model server reads of one request, in bytes.
const maxRequest = 16 << 20

// A Call is one tool call that the model makes.
type Call struct {
	Tool      string
	Arguments any
}

// Bash is a call of the agent's shell tool.
func Bash(command string) Call {
	return Call{Tool: "bash", Arguments: map[string]string{"command": command}}
}

// Read is a call of the agent's tool that reads a file.
func Read(path string) Call {
	return Call{Tool: "read", Arguments: map[string]string{"path": path}}
}

// Write is a call of the agent's tool that writes a whole file.
func Write(path, content string) Call {
	return Call{Tool: "write", Arguments: map[string]string{"path": path, "content": content}}
}

// A Turn is what the model answers once: calls that it makes side by side.
type Turn []Call

// Model serves scripted answers as an OpenAI-compatible chat model, on loopback.
// It keeps no state of a conversation: the turn to play is the number of turns
// that the request shows as played already, so an agent may repeat a request.
// Its methods are safe for concurrent use.
type Model struct {
	url string

	mu      sync.Mutex
	scripts []*Script
	strange []string // requests that no script explains
}

// A Script is what the model does in answer to one prompt.
type Script struct {
	number int
	turns  []Turn
	played chan struct{} // closed when results is set
	once   sync.Once
	result []string
}

// StartModel starts a model server that ends with the test. A request that it
// cannot understand fails the test.
func StartModel(t testing.TB) *Model {
	t.Helper()
	m := &Model{}
	server := httptest.NewServer(m)
	m.url = server.URL + "/v1"
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.strange {
			t.Errorf("the agent sent the model something unexpected: %s", s)
		}
	})
	return m
}

// Script adds a script of turns with one call each.
func (m *Model) Script(calls ...Call) *Script {
	var turns []Turn
	for _, c := range calls {
		turns = append(turns, Turn{c})
	}
	return m.Turns(turns...)
}

// Turns adds a script.
func (m *Model) Turns(turns ...Turn) *Script {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &Script{number: len(m.scripts), turns: turns, played: make(chan struct{})}
	m.scripts = append(m.scripts, s)
	return s
}

// Prompt is what the agent must be told so that the model plays the script.
func (s *Script) Prompt() string { return fmt.Sprintf("play script %d", s.number) }

// Results waits until the whole script has been played and returns what the
// model was given as the result of each call, in order.
func (s *Script) Results(t testing.TB, within time.Duration) []string {
	t.Helper()
	select {
	case <-s.played:
		return s.result
	case <-time.After(within):
		t.Fatalf("the agent has not played script %d after %s", s.number, within)
		return nil
	}
}

// Played reports whether the whole script has been played.
func (s *Script) Played() bool {
	select {
	case <-s.played:
		return true
	default:
		return false
	}
}

var scriptPattern = regexp.MustCompile(`play script ([0-9]{1,6})\b`)

type chatRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
}

type chatMessage struct {
	Role      string            `json:"role"`
	Content   json.RawMessage   `json:"content"`
	ToolCalls []json.RawMessage `json:"tool_calls"`
}

// text returns the text of a message, which is a string or a list of parts.
func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// place reads a conversation: the script that its last user message asks for,
// how many of the script's turns it shows as played, and their results.
func place(messages []chatMessage) (script, played int, results []string, err error) {
	script = -1
	for _, m := range messages {
		switch m.Role {
		case "user":
			found := scriptPattern.FindStringSubmatch(m.text())
			if found == nil {
				script = -1
				continue
			}
			n, err := strconv.Atoi(found[1])
			if err != nil {
				return 0, 0, nil, err
			}
			script, played, results = n, 0, []string{}
		case "assistant":
			if len(m.ToolCalls) > 0 {
				played++
			}
		case "tool":
			results = append(results, m.text())
		}
	}
	if script < 0 {
		return 0, 0, nil, fmt.Errorf("the last user message names no script")
	}
	return script, played, results, nil
}

// ServeHTTP answers a chat completion request with the next turn, as a stream of
// server-sent events.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		m.refuse(w, "%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		m.refuse(w, "%s %s", r.Method, r.URL.Path)
		return
	}
	var request chatRequest
	if err := json.Unmarshal(body, &request); err != nil {
		m.refuse(w, "%v in %.200q", err, body)
		return
	}
	number, played, results, err := place(request.Messages)
	if err != nil {
		m.refuse(w, "%v in %.2000q", err, body)
		return
	}
	m.mu.Lock()
	var script *Script
	if number < len(m.scripts) {
		script = m.scripts[number]
	}
	m.mu.Unlock()
	if script == nil || played > len(script.turns) {
		m.refuse(w, "turn %d of script %d, which there is not", played, number)
		return
	}

	w.Header().Set("Content-Type", "text/event-stream")
	if played == len(script.turns) {
		stream(w, request.Model, "stop", map[string]any{"role": "assistant", "content": fmt.Sprintf("script %d is played", number)})
		script.once.Do(func() {
			script.result = results
			close(script.played)
		})
		return
	}
	var calls []map[string]any
	for i, c := range script.turns[played] {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			m.refuse(w, "arguments of script %d: %v", number, err)
			return
		}
		calls = append(calls, map[string]any{
			"index": i, "id": fmt.Sprintf("call_%d_%d", played, i), "type": "function",
			"function": map[string]string{"name": c.Tool, "arguments": string(arguments)},
		})
	}
	stream(w, request.Model, "tool_calls", map[string]any{"role": "assistant", "tool_calls": calls})
}

// refuse answers with an error and keeps what was wrong for the test.
func (m *Model) refuse(w http.ResponseWriter, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	m.mu.Lock()
	m.strange = append(m.strange, what)
	m.mu.Unlock()
	http.Error(w, what, http.StatusBadRequest)
}

// stream writes one message as the chunks of a chat completion.
func stream(w io.Writer, model, finish string, delta map[string]any) {
	chunk := func(delta map[string]any, finish any) {
		text, err := json.Marshal(map[string]any{
			"id": "scripted", "object": "chat.completion.chunk", "created": 0, "model": model,
			"choices": []map[string]any{{"index": 0, "delta": delta, "finish_reason": finish}},
		})
		if err != nil {
			panic(err) // maps of strings and numbers always encode
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
	chunk(delta, nil)
	chunk(map[string]any{}, finish)
	fmt.Fprint(w, "data: [DONE]\n\n")
}
