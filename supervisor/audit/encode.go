package audit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxLine is the longest line, in bytes, with its end.
const MaxLine = 64 << 10

// bounds are how much of a value from a child is kept. Where something is left
// out, "…" stands in its place.
type bounds struct{ width, items, members, depth int }

// A row that is too long is written again with the next bounds: a child that
// fills every field cannot make its own row impossible to write.
var narrower = []bounds{
	{width: 1000, items: 64, members: 128, depth: 16},
	{width: 200, items: 24, members: 48, depth: 8},
	{width: 60, items: 8, members: 48, depth: 6},
}

const (
	ellipsis  = "…"
	redacted  = "[redacted]"
	maxNumber = 40
)

// encode returns the line of r, without its end.
func encode(r *Row) ([]byte, error) {
	text, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	for _, b := range narrower {
		line, err := b.line(text)
		if err != nil {
			return nil, err
		}
		if len(line) < MaxLine {
			return line, nil
		}
	}
	return nil, fmt.Errorf("row %s is longer than %d bytes however much is left out", r.Kind, MaxLine)
}

func (b bounds) line(text []byte) ([]byte, error) {
	var out bytes.Buffer
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	// Names that were cut may have become equal.
	enc := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := b.copy(dec, enc, 0); err != nil {
		return nil, err
	}
	return printable(bytes.TrimRight(out.Bytes(), "\n")), nil
}

// copy copies one value, bounded and with what its name gives away as secret
// left out.
func (b bounds) copy(dec *jsontext.Decoder, enc *jsontext.Encoder, depth int) error {
	kind := dec.PeekKind()
	if (kind == '{' || kind == '[') && depth > b.depth {
		if err := dec.SkipValue(); err != nil {
			return err
		}
		return enc.WriteToken(jsontext.String(ellipsis))
	}
	switch kind {
	case '{':
		return b.copyObject(dec, enc, depth)
	case '[':
		return b.copyArray(dec, enc, depth)
	case '"':
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		return enc.WriteToken(jsontext.String(b.cut(token.String())))
	}
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if len(value) > maxNumber {
		return enc.WriteToken(jsontext.String(string(value[:maxNumber]) + ellipsis))
	}
	return enc.WriteValue(value)
}

func (b bounds) copyObject(dec *jsontext.Decoder, enc *jsontext.Encoder, depth int) error {
	if err := pass(dec, enc); err != nil {
		return err
	}
	more := 0
	for n := 0; dec.PeekKind() != '}'; n++ {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if n >= b.members {
			more++
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := enc.WriteToken(jsontext.String(b.cut(name))); err != nil {
			return err
		}
		if sensitive(name) && dec.PeekKind() != 'n' {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			if err := enc.WriteToken(jsontext.String(redacted)); err != nil {
				return err
			}
			continue
		}
		if err := b.copy(dec, enc, depth+1); err != nil {
			return err
		}
	}
	if more > 0 {
		if err := enc.WriteToken(jsontext.String(ellipsis)); err != nil {
			return err
		}
		if err := enc.WriteToken(jsontext.String(fmt.Sprintf("%d more", more))); err != nil {
			return err
		}
	}
	return pass(dec, enc)
}

func (b bounds) copyArray(dec *jsontext.Decoder, enc *jsontext.Encoder, depth int) error {
	if err := pass(dec, enc); err != nil {
		return err
	}
	more := 0
	for n := 0; dec.PeekKind() != ']'; n++ {
		var err error
		if n < b.items {
			err = b.copy(dec, enc, depth+1)
		} else {
			more++
			err = dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if more > 0 {
		if err := enc.WriteToken(jsontext.String(fmt.Sprintf("%s %d more", ellipsis, more))); err != nil {
			return err
		}
	}
	return pass(dec, enc)
}

// pass copies one bracket.
func pass(dec *jsontext.Decoder, enc *jsontext.Encoder) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	return enc.WriteToken(token)
}

// cut returns at most width characters of s.
func (b bounds) cut(s string) string {
	if len(s) <= b.width {
		return s
	}
	n := 0
	for i := range s {
		if n == b.width {
			return s[:i] + ellipsis
		}
		n++
	}
	return s
}

// secretNames are parts of names whose values are never written, without
// separators and in lower case.
var secretNames = []string{
	"authorization", "apikey", "secret", "token", "password", "passwd", "credential", "cookie", "privatekey",
}

// sensitive reports whether the value of a member of this name is left out.
func sensitive(name string) bool {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	for _, part := range secretNames {
		if strings.Contains(bare, part) {
			return true
		}
	}
	return false
}

// printable returns JSON text of the same meaning in which every character that
// a terminal might obey or not show is an escape. Outside of strings JSON has no
// such character, so the text need not be parsed.
func printable(text []byte) []byte {
	clean := true
	for i := 0; i < len(text) && clean; {
		r, n := utf8.DecodeRune(text[i:])
		clean = plain(r, n)
		i += n
	}
	if clean {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case plain(r, n):
			out = append(out, text[i:i+n]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
	}
	return out
}

// plain characters mean on a terminal what they show.
func plain(r rune, size int) bool {
	if r == utf8.RuneError && size == 1 {
		return false
	}
	return unicode.IsPrint(r)
}
