package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Record is what is judged, shown, answered, stored and run: one value, made by
// the supervisor before it asks. A client never sends what is to be run a second
// time, and an answer carries the digest of the record that was on the screen.
type Record struct {
	ID string `json:"id"`
	// Sessions is the path from the root to the session that asks.
	Sessions []string `json:"sessions"`
	// Role is "agent" or "tool": by whose client it came.
	Role string `json:"role"`
	// Op is "exec", "spawn" or "ask".
	Op string `json:"op"`

	// Argv is the argument vector, every argument separate. For shell text it is
	// the shell with its fixed options, the canonical text, $0 and the positional
	// parameters, which are data.
	Argv []string `json:"argv"`
	// Text is the canonical shell text, empty for an argument vector.
	Text string `json:"text,omitempty"`
	// Words are the command words with the files that they resolve to.
	Words []Word `json:"words,omitempty"`
	Dir   File   `json:"dir"`
	// Environment has the entries that differ from the session's base, as
	// NAME=value, sorted; Base is the digest of the base.
	Environment []string  `json:"environment,omitempty"`
	Base        string    `json:"base"`
	Streams     [3]string `json:"streams"`
	Umask       int       `json:"umask"`

	// Surface, Value and Tool are set for a decision alone.
	Surface string `json:"surface,omitempty"`
	Value   string `json:"value,omitempty"`
	Tool    string `json:"tool,omitempty"`

	// Plan is the sandbox plan in words, as it is without a grant.
	Plan string `json:"plan"`
	// Offered is what an answer may give.
	Offered GrantVector `json:"offered"`
	// Policy and Snapshot are the generations that it was judged with.
	Policy   uint64 `json:"policy"`
	Snapshot uint64 `json:"snapshot"`
}

// File is a file or directory by name and by what cannot be renamed.
type File struct {
	Path   string `json:"path"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	SHA256 string `json:"sha256,omitempty"`
}

// Word is a command word or a script operand of the record.
type Word struct {
	Word string `json:"word"`
	File File   `json:"file"`
	// Changeable says that the session may write that file.
	Changeable bool `json:"changeable,omitempty"`
}

// Digest is the SHA-256 of the record's canonical form, in hex. Two records have
// the same digest only if every field that decides what runs is the same.
func (r Record) Digest() string {
	// The encoder writes struct fields in their order and has no maps here: the
	// form is canonical. A record holds nothing that cannot be encoded.
	body, err := json.Marshal(r)
	if err != nil {
		panic("policy: record cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
