package audit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
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
	bounded := narrower[0].trim(*r)
	text, err := json.Marshal(&bounded, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
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

// trim returns a copy that is no larger than line would make it, for the price
// of what is kept and not of what is left out: a child may send megabytes.
func (b bounds) trim(r Row) Row {
	for _, s := range []*string{
		&r.Session, &r.Agent, &r.Command, &r.Mode, &r.Source, &r.Strength, &r.ItemID, &r.ToolID, &r.ActionKind,
		&r.RequestKey, &r.Surface, &r.Value, &r.Cwd, &r.Reason, &r.Record,
	} {
		*s = b.cut(*s)
	}
	r.Missing, r.Grants = b.trimStrings(r.Missing), b.trimStrings(r.Grants)
	// A chain is as deep as trees may be, and a decider as deep as Check lets it.
	for d := &r.DecidedBy; *d != nil; d = &(*d).Decision {
		short := **d
		for _, s := range []*string{&short.Via, &short.Name, &short.Reason, &short.Surface, &short.Pattern, &short.Origin, &short.Responder} {
			*s = b.cut(*s)
		}
		*d = &short
	}
	if r.Details != nil {
		r.Details, _ = b.trimValue(r.Details, 1).(map[string]any)
	}
	return r
}

func (b bounds) trimStrings(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, min(len(list), b.items))
	for i, s := range list {
		if i == b.items-1 && len(list) > b.items {
			return append(out, more(len(list)-i))
		}
		out = append(out, b.cut(s))
	}
	return out
}

// trimValue trims what Details usually hold. What else they hold, line bounds.
func (b bounds) trimValue(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return b.cut(v)
	case []string:
		return b.trimStrings(v)
	case []any:
		if depth > b.depth {
			return ellipsis
		}
		out := make([]any, 0, min(len(v), b.items))
		for i, item := range v {
			if i == b.items-1 && len(v) > b.items {
				return append(out, more(len(v)-i))
			}
			out = append(out, b.trimValue(item, depth+1))
		}
		return out
	case map[string]any:
		if depth > b.depth {
			return ellipsis
		}
		names := slices.Sorted(maps.Keys(v))
		out := make(map[string]any, min(len(v), b.members))
		for i, name := range names {
			if i == b.members-1 && len(names) > b.members {
				out[ellipsis] = more(len(names) - i)
				break
			}
			out[name] = b.trimValue(v[name], depth+1)
		}
		return out
	}
	return v
}

// more stands for n items that are left out; some may have been left out before.
func more(n int) string { return fmt.Sprintf("%s at least %d more", ellipsis, n) }

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
	left := 0
	for n := 0; dec.PeekKind() != '}'; n++ {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if n >= b.members {
			left++
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
	if left > 0 {
		if err := enc.WriteToken(jsontext.String(ellipsis)); err != nil {
			return err
		}
		if err := enc.WriteToken(jsontext.String(more(left))); err != nil {
			return err
		}
	}
	return pass(dec, enc)
}

func (b bounds) copyArray(dec *jsontext.Decoder, enc *jsontext.Encoder, depth int) error {
	if err := pass(dec, enc); err != nil {
		return err
	}
	left := 0
	for n := 0; dec.PeekKind() != ']'; n++ {
		var err error
		if n < b.items {
			err = b.copy(dec, enc, depth+1)
		} else {
			left++
			err = dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if left > 0 {
		if err := enc.WriteToken(jsontext.String(more(left))); err != nil {
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
