package pi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An Inbox is the directory of one session in the public forwarding protocol,
// as its owner sees it.
type Inbox struct {
	Dir  string
	seen map[string]bool
}

// Inbox returns the inbox of a session. The id must be one that its directory
// name needs no escape for.
func (l *Lab) Inbox(session string) *Inbox {
	return &Inbox{
		Dir:  filepath.Join(l.Agent, "sessions", "permission-forwarding", "sessions", session),
		seen: map[string]bool{},
	}
}

// A Request is an ask as it lies in an inbox.
type Request struct {
	ID                 string  `json:"id"`
	CreatedAt          int64   `json:"createdAt"`
	RequesterSessionID string  `json:"requesterSessionId"`
	TargetSessionID    string  `json:"targetSessionId"`
	RequesterAgentName string  `json:"requesterAgentName"`
	Message            string  `json:"message"`
	Source             string  `json:"source,omitempty"`
	Surface            *string `json:"surface,omitempty"`
	Value              *string `json:"value,omitempty"`

	path string
}

// A Response is the answer to one.
type Response struct {
	Approved           bool    `json:"approved"`
	State              string  `json:"state"`
	DenialReason       *string `json:"denialReason,omitempty"`
	ResponderSessionID string  `json:"responderSessionId"`
	RespondedAt        int64   `json:"respondedAt"`
}

// Next waits for a request that this Inbox has not returned before, the first by
// file name.
func (b *Inbox) Next(t testing.TB, within time.Duration) Request {
	t.Helper()
	var next Request
	Await(t, within, "a request in "+b.Dir, func() bool {
		found, ok, err := b.poll()
		if err != nil {
			t.Fatalf("pi: %v", err)
		}
		next = found
		return ok
	})
	return next
}

func (b *Inbox) poll() (Request, bool, error) {
	dir := filepath.Join(b.Dir, "requests")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Request{}, false, nil
	}
	if err != nil {
		return Request{}, false, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || b.seen[e.Name()] {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Request{}, false, err
		}
		r := Request{path: path}
		if err := json.Unmarshal(text, &r); err != nil {
			return Request{}, false, fmt.Errorf("%s: %w", path, err)
		}
		b.seen[e.Name()] = true
		return r, true, nil
	}
	return Request{}, false, nil
}

// Answer writes the response to a request, whole or not at all.
func (b *Inbox) Answer(t testing.TB, r Request, approved bool, state, reason string) {
	t.Helper()
	response := Response{Approved: approved, State: state, ResponderSessionID: "harness", RespondedAt: time.Now().UnixMilli()}
	if reason != "" {
		response.DenialReason = &reason
	}
	b.put(t, "responses", filepath.Base(r.path), response)
}

// Ask writes a request to the session.
func (b *Inbox) Ask(t testing.TB, r Request) {
	t.Helper()
	b.put(t, "requests", r.ID+".json", r)
}

// Response waits for the response to a request that Ask wrote, and removes it.
func (b *Inbox) Response(t testing.TB, r Request, within time.Duration) Response {
	t.Helper()
	path := filepath.Join(b.Dir, "responses", r.ID+".json")
	var response Response
	Await(t, within, "a response to "+r.ID, func() bool {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if err == nil {
			err = json.Unmarshal(text, &response)
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatalf("pi: %s: %v", path, err)
		}
		return true
	})
	return response
}

func (b *Inbox) put(t testing.TB, kind, name string, value any) {
	t.Helper()
	dir := filepath.Join(b.Dir, kind)
	text, err := json.Marshal(value)
	if err == nil {
		// The other side removes empty directories at any time.
		err = os.MkdirAll(dir, 0o755)
	}
	temporary := filepath.Join(dir, fmt.Sprintf("%s.%d.%d.tmp", name, os.Getpid(), time.Now().UnixMilli()))
	if err == nil {
		err = os.WriteFile(temporary, text, 0o644)
	}
	if err == nil {
		err = os.Rename(temporary, filepath.Join(dir, name))
	}
	if err != nil {
		t.Fatalf("pi: %v", err)
	}
}

// Await polls until the condition holds, and fails the test if it does not
// within the time.
func Await(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s there is still not: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
