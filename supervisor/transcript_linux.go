package supervisor

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/getpioneer/pioneer-super/forwarding/link"
	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

const (
	// MaxUserMessages and MaxUserMessage bound what the operator hands over with a
	// tree, by number and by bytes of each.
	MaxUserMessages = 32
	MaxUserMessage  = 16 << 10
	// maxSaid bounds what is remembered of what the human said.
	maxSaid = 256
	// shortestHidden is the length, in bytes, below which a secret's value is not
	// looked for: it would be found in everything.
	shortestHidden = 8
)

// saying is something that a human is proven to have said.
type saying struct {
	session string // to which it was said; "" for the whole tree
	link.Entry
}

// transcript is what the model reviewer may know of what the human wants. Only two
// things are proven to be the human's own words: the messages that the operator
// handed over with the tree, before anything of it ran, and the reasons that were
// typed at a human endpoint. Whatever an agent reports of its own conversation, its
// session files and the arguments of a spawn among it, an agent can have written.
type transcript struct {
	mu   sync.Mutex
	said []saying
}

func (c *transcript) add(s saying) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, s)
	if len(c.said) > maxSaid {
		// What the tree was started for stays: everything else is about it.
		i := slices.IndexFunc(c.said, func(s saying) bool { return s.session != "" })
		i = max(i, 0)
		c.said = slices.Delete(c.said, i, i+1)
	}
}

// of returns what was said to the sessions of a path, oldest first.
func (c *transcript) of(path []string) []link.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []link.Entry
	for _, s := range c.said {
		if s.session == "" || slices.Contains(path, s.session) {
			out = append(out, s.Entry)
		}
	}
	return out
}

// CheckUserMessages says what is wrong with messages that the operator hands over.
func CheckUserMessages(list []control.File) error {
	if len(list) > MaxUserMessages {
		return fmt.Errorf("%d messages, expected at most %d", len(list), MaxUserMessages)
	}
	for _, f := range list {
		switch {
		case len(f.Data) > MaxUserMessage:
			return fmt.Errorf("%s: %d bytes, expected at most %d", f.Name, len(f.Data), MaxUserMessage)
		case !utf8.Valid(f.Data):
			return fmt.Errorf("%s: expected UTF-8 text", f.Name)
		case strings.TrimSpace(string(f.Data)) == "":
			return fmt.Errorf("%s: it is empty, expected a text", f.Name)
		}
	}
	return nil
}

// takeUserMessages writes down what the operator handed over with the tree. It is
// called once, before the first session.
func (t *tree) takeUserMessages() error {
	if err := CheckUserMessages(t.root.UserMessages); err != nil {
		return fmt.Errorf("--user-message: %w", err)
	}
	for _, f := range t.root.UserMessages {
		text := string(f.Data)
		if err := t.log.Write(audit.Row{Kind: audit.UserMessage, Value: text, Reason: "the operator started the tree with it",
			Details: map[string]any{"file": f.Name, "sha256": fmt.Sprintf("%x", sha256.Sum256(f.Data))}}); err != nil {
			return notWritten(err)
		}
		t.transcript.add(saying{Entry: link.Entry{Role: "user", Text: text}})
	}
	return nil
}

// heard keeps the reason that a human typed beside an answer. What was asked is not
// in it: an agent chose those words.
func (t *tree) heard(s *session, a humanAnswer) {
	if strings.TrimSpace(a.Reason) == "" {
		return
	}
	word := "denied: "
	if a.allows() {
		word = "allowed: "
	}
	t.transcript.add(saying{session: s.id, Entry: link.Entry{Role: "answer", Text: word + a.Reason}})
}

// spoken is the transcript of a session, as the reviewer asks for it.
func (t *tree) spoken(id string) []link.Entry {
	t.mu.Lock()
	s := t.sessions[id]
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	return t.transcript.of(s.path())
}

// hider returns what takes the values of secrets out of a text that leaves this
// machine: those that stand under a secret's name in the environment in which the
// operator started the tree, and the key of the reviewer itself.
func hider(env []string, more ...string) func(string) string {
	var pairs []string
	hide := func(value string) {
		if len(value) < shortestHidden {
			return
		}
		pairs = append(pairs, value, prompt.Redacted)
		// Inside JSON it stands with its own escapes.
		if quoted, err := json.Marshal(value); err == nil {
			if inner := string(quoted[1 : len(quoted)-1]); inner != value {
				pairs = append(pairs, inner, prompt.Redacted)
			}
		}
	}
	var values []string
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && sandbox.SecretName(name) && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~") {
			values = append(values, value)
		}
	}
	values = append(values, more...)
	// A longer one may begin with a shorter one.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range slices.Compact(values) {
		hide(v)
	}
	return strings.NewReplacer(pairs...).Replace
}

// operatorEnv is the environment in which the operator started the tree.
func (t *tree) operatorEnv() []string {
	if s := t.rootSession(); s != nil {
		return s.base
	}
	return nil
}
