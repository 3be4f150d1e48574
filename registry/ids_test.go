package registry_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/getpioneer/pioneer-super/registry"
	"pgregory.net/rapid"
)

func TestNormalizeID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" x ": "x", "\ufeffx\u00a0": "x", "\u2028x\u3000": "x", "\u0085x": "\u0085x", "a b": "a b",
		"": "", " \t\r\n": "", "unknown": "", " UnKnOwN ": "", "un\u212anown": "", "unknown2": "unknown2",
	} {
		got, ok := registry.NormalizeID(in)
		if got != want || ok != (want != "") {
			t.Errorf("NormalizeID(%q) = %q, %v, want %q", in, got, ok, want)
		}
	}
}

func TestEncodeIDVectors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a/b c!~*'()":     "a%2Fb%20c!~*'()",
		"é%":              "%C3%A9%25",
		"x:y@z+&=$,;":     "x%3Ay%40z%2B%26%3D%24%2C%3B",
		"...":             "...",
		"a\x00b":          "a%00b",
		" x ":             "%20x%20",
		"01a22c44-ab_c.d": "01a22c44-ab_c.d",
		"\U0001f600":      "%F0%9F%98%80",
	} {
		got, err := registry.EncodeID(in)
		if err != nil || got != want {
			t.Errorf("EncodeID(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", " ", ".", "..", " .. ", "unknown", "Unknown", "\xff", "a\xed\xa0\xbd", strings.Repeat("a", 221), strings.Repeat("/", 80)} {
		if got, err := registry.EncodeID(in); !errors.Is(err, registry.ErrBadID) || got != "" {
			t.Errorf("EncodeID(%q) = %q, %v, want ErrBadID", in, got, err)
		}
	}
}

// slowEncode is encodeURIComponent as its specification puts it: for each code
// point, unescaped or the octets of its UTF-8 form.
func slowEncode(s string) string {
	var out string
	for _, r := range s {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()", r) {
			out += string(r)
			continue
		}
		for _, octet := range []byte(string(r)) {
			out += fmt.Sprintf("%%%02X", octet)
		}
	}
	return out
}

func TestEncodeIDMatchesReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("./ %a\x00é~:\ufeff")), 0, 8, -1)).Draw(t, "id")
		got, err := registry.EncodeID(id)
		if err != nil {
			if !errors.Is(err, registry.ErrBadID) || got != "" {
				t.Fatalf("refusal is %q, %v", got, err)
			}
			trimmed, ok := registry.NormalizeID(id)
			if ok && trimmed != "." && trimmed != ".." && len(slowEncode(id)) <= registry.MaxEncodedID && utf8.ValidString(id) {
				t.Fatalf("EncodeID(%q) refused: %v", id, err)
			}
			return
		}
		if want := slowEncode(id); got != want {
			t.Fatalf("EncodeID(%q) = %q, want %q", id, got, want)
		}
		if got == "." || got == ".." || strings.ContainsAny(got, "/\x00") {
			t.Fatalf("EncodeID(%q) = %q is no plain path component", id, got)
		}
	})
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"a", "perm-1", "1796039034917-htatw5p1-15779", "A.b_c-9", "...", strings.Repeat("x", 200)} {
		if !registry.ValidRequestID(ok) {
			t.Errorf("ValidRequestID(%q) = false", ok)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../x", "a b", "é", "a\x00", "a\n", "a%2F", strings.Repeat("x", 201)} {
		if registry.ValidRequestID(bad) {
			t.Errorf("ValidRequestID(%q) = true", bad)
		}
	}
}

func TestMintedIDs(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^s-[a-z2-7]{20}$`)
	request := regexp.MustCompile(`^perm-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		id, req := registry.NewID("s"), registry.NewRequestID()
		if !shape.MatchString(id) || !request.MatchString(req) {
			t.Fatalf("minted %q and %q", id, req)
		}
		if seen[id] || seen[req] {
			t.Fatalf("%q or %q came twice", id, req)
		}
		seen[id], seen[req] = true, true
		if enc, err := registry.EncodeID(id); err != nil || enc != id || !registry.ValidRequestID(id) || !registry.ValidRequestID(req) {
			t.Fatalf("%q encodes to %q, %v", id, enc, err)
		}
	}
	for _, kind := range []string{"", "S", "a-b", "../"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewID(%q) did not panic", kind)
				}
			}()
			registry.NewID(kind)
		}()
	}
}
