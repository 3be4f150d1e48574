package pi

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/screen"
)

// start bounds how long a Pi may take to be ready for its user.
const start = 3 * time.Minute

// A Dialog is a question that Pi puts to its user in rpc mode.
type Dialog struct {
	ID      string   `json:"id"`
	Method  string   `json:"method"`
	Title   string   `json:"title"`
	Options []string `json:"options"`
}

// A Root is a Pi with a user but without a terminal: `pi --mode rpc`. It serves
// the asks that are forwarded to its session.
type Root struct {
	*Process
	// Session is its session id.
	Session string

	mu      sync.Mutex
	stdin   io.WriteCloser
	dialogs []Dialog
	failure error
	state   chan string // its session id, once
}

// StartRoot starts a Pi root and waits until it serves. onDialog is called, from
// one goroutine, for each question and returns the answer; with answered false
// the question stays open.
func (l *Lab) StartRoot(t testing.TB, env []string, onDialog func(Dialog) (answer string, answered bool)) *Root {
	t.Helper()
	path, err := l.look("pi")
	if err != nil {
		t.Fatalf("pi: %v", err)
	}
	return startRoot(t, l, exec.Command(path, "--mode", "rpc"), env, onDialog)
}

func startRoot(t testing.TB, l *Lab, cmd *exec.Cmd, env []string, onDialog func(Dialog) (string, bool)) *Root {
	t.Helper()
	r := &Root{Process: &Process{cmd: cmd}, state: make(chan string, 1)}
	cmd.Dir, cmd.Env = l.Work, env
	cmd.Stderr = &r.output
	var err error
	if r.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatalf("pi: %v", err)
	}
	// Not StdoutPipe: Wait would close it under the reader.
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.read(reader, onDialog)
	}()
	r.start(t)
	t.Cleanup(func() {
		r.Kill()
		<-r.ended
		writer.Close()
		<-done
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.failure != nil {
			t.Errorf("pi: rpc: %v", r.failure)
		}
	})
	r.send(map[string]any{"type": "get_state"})
	select {
	case r.Session = <-r.state:
	case <-r.ended:
		t.Fatalf("pi --mode rpc has ended; it printed:\n%s", r.Output())
	case <-time.After(start):
		t.Fatalf("pi --mode rpc is not ready in time; it printed:\n%s", r.Output())
	}
	return r
}

// read takes the lines of Pi's output until it ends.
func (r *Root) read(from *io.PipeReader, onDialog func(Dialog) (string, bool)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		var m struct {
			Dialog
			Type    string `json:"type"`
			Command string `json:"command"`
			Data    struct {
				SessionID string `json:"sessionId"`
			} `json:"data"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			// Node's own warnings come here too; they belong to the output.
			r.output.Write(append(lines.Bytes(), '\n'))
			continue
		}
		switch {
		case m.Type == "response" && m.Command == "get_state":
			select {
			case r.state <- m.Data.SessionID:
			default:
			}
		case m.Type == "extension_ui_request" && (m.Method == "select" || m.Method == "input"):
			r.mu.Lock()
			r.dialogs = append(r.dialogs, m.Dialog)
			r.mu.Unlock()
			if answer, ok := onDialog(m.Dialog); ok {
				r.send(map[string]any{"type": "extension_ui_response", "id": m.ID, "value": answer})
			}
		}
	}
	r.mu.Lock()
	r.failure = lines.Err()
	r.mu.Unlock()
	from.CloseWithError(lines.Err())
}

func (r *Root) send(message any) {
	text, err := json.Marshal(message)
	if err != nil {
		panic(err) // maps of strings always encode
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A Pi that has ended takes nothing; what it then fails to do is what the test sees.
	_, _ = r.stdin.Write(append(text, '\n'))
}

// Prompt gives Pi a prompt, as its user would.
func (r *Root) Prompt(text string) { r.send(map[string]any{"type": "prompt", "message": text}) }

// Dialogs are the questions that Pi has put so far.
func (r *Root) Dialogs() []Dialog {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Dialog(nil), r.dialogs...)
}

// StartTerminalRoot starts a Pi root in a terminal and waits until it shows its
// editor. Its session has the given id.
func (l *Lab) StartTerminalRoot(t testing.TB, session string, env []string) *screen.Screen {
	t.Helper()
	path, err := l.look("pi")
	if err != nil {
		t.Fatalf("pi: %v", err)
	}
	s := screen.Start(t, screen.Options{Dir: l.Work, Env: env, Columns: 120, Rows: 40}, path, "--session-id", session)
	s.Shows(t, start, "scripted")
	return s
}
