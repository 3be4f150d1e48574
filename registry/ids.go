package registry

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	// MaxRequestID is the longest request id, in bytes.
	MaxRequestID = 200
	// MaxEncodedID is the longest path component that EncodeID returns, in bytes.
	// A file name has at most 255, and a writer of the public protocol appends
	// ".json" and then ".<pid>.<ms>.tmp" while the file is being written.
	MaxEncodedID = 220

	// randomChars of base32 hold 100 bits: an id can be named, never guessed.
	randomChars = 20
)

// ErrBadID is the error for an id that may not name anything on disk.
var ErrBadID = errors.New("unusable session id")

// NormalizeID returns a session id as the public protocol compares it: trimmed
// as JavaScript trims. It reports false for what names no session: nothing, only
// white space, or the word "unknown" in any case.
func NormalizeID(s string) (string, bool) {
	s = strings.TrimFunc(s, jsSpace)
	if s == "" || strings.ToLower(s) == "unknown" {
		return "", false
	}
	return s, true
}

// jsSpace is what String.prototype.trim removes. unicode.IsSpace differs in two
// characters (U+0085 is kept by JavaScript, U+FEFF is removed), and an id that
// two ends trim differently never matches.
func jsSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff:
		return true
	}
	return r >= 0x2000 && r <= 0x200a
}

// EncodeID returns the path component that stands for a session id, byte for
// byte what encodeURIComponent gives. It refuses, with an error that is
// ErrBadID, what names no session (see NormalizeID), invalid UTF-8 (a lone
// surrogate throws there), "." and ".." (which encode to themselves and would
// leave the directory), and what is too long for a file name.
func EncodeID(id string) (string, error) {
	if !utf8.ValidString(id) {
		return "", fmt.Errorf("%w %q: not valid UTF-8", ErrBadID, clip(id))
	}
	normal, ok := NormalizeID(id)
	if !ok {
		return "", fmt.Errorf("%w %q: it names no session", ErrBadID, clip(id))
	}
	if normal == "." || normal == ".." {
		return "", fmt.Errorf("%w %q: it would leave its directory", ErrBadID, clip(id))
	}
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c := id[i]; unescaped(c) {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
		if b.Len() > MaxEncodedID {
			return "", fmt.Errorf("%w %q: longer than %d bytes when encoded", ErrBadID, clip(id), MaxEncodedID)
		}
	}
	return b.String(), nil
}

// unescaped are the bytes that encodeURIComponent leaves alone. net/url has no
// equal: QueryEscape and PathEscape each differ in several.
func unescaped(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.!~*'()", c) >= 0
}

// ValidRequestID reports whether s may be a request id and, with ".json", a file
// name: letters, digits, ".", "_" and "-", at most MaxRequestID bytes, and
// neither "." nor "..".
func ValidRequestID(s string) bool {
	if s == "" || len(s) > MaxRequestID || s == "." || s == ".." {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// NewRequestID returns a request id as the public protocol mints them: "perm-"
// and a random UUID. It panics if the system has no randomness.
func NewRequestID() string { return "perm-" + uuid.NewString() }

// NewID returns kind, "-" and 20 random base32 characters in lower case: an id
// for a tree ("t"), session ("s"), command ("c") or channel that cannot be
// guessed. It is a ValidRequestID and encodes to itself. It panics if kind is
// not one to eight lower-case letters.
func NewID(kind string) string {
	if kind == "" || len(kind) > 8 || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") != "" {
		panic(fmt.Sprintf("registry: id kind %q, expected lower-case letters", kind))
	}
	var raw [(randomChars*5 + 7) / 8]byte
	rand.Read(raw[:]) // never returns an error: it crashes the program instead
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:])
	return kind + "-" + strings.ToLower(text[:randomChars])
}

// validName reports whether s may name a directory or file of ours: a request id
// that is not hidden, can be no option and leaves room for a suffix.
func validName(s string) bool {
	return ValidRequestID(s) && len(s) <= 64 && s[0] != '.' && s[0] != '-'
}

// clip bounds a value of a peer inside an error.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
