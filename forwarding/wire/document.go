package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A ReadError says what was wrong with a file of the protocol and where.
type ReadError struct {
	// What is the kind of file: "request", "response", "heartbeat".
	What string
	// Field is the path of the offending name, empty for the whole document.
	Field string
	// Problem says what was found and what was expected.
	Problem string
}

func (e *ReadError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.What, e.Problem)
	}
	return fmt.Sprintf("%s: %s: %s", e.What, e.Field, e.Problem)
}

// value is one JSON value as it was written. Exactly one of the fields that
// kind names is meaningful.
type value struct {
	kind    jsontext.Kind
	text    string
	number  float64
	items   []value
	members []member
}

type member struct {
	name  string
	value value
}

const (
	kindNull   = jsontext.Kind('n')
	kindString = jsontext.Kind('"')
	kindNumber = jsontext.Kind('0')
	kindObject = jsontext.Kind('{')
	kindArray  = jsontext.Kind('[')
	kindTrue   = jsontext.Kind('t')
	kindFalse  = jsontext.Kind('f')
)

// parse reads one document. The decoder's defaults refuse duplicate names,
// invalid UTF-8 and lone surrogates at every level, known name or not.
func parse(what string, data []byte, limit int) (value, error) {
	if len(data) > limit {
		return value{}, &ReadError{What: what, Problem: fmt.Sprintf("%d bytes, at most %d expected", len(data), limit)}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	v, err := parseValue(dec, 0)
	if err == nil {
		if _, more := dec.ReadToken(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the JSON ends too early")
		}
		return value{}, &ReadError{What: what, Field: strings.ReplaceAll(strings.TrimPrefix(string(dec.StackPointer()), "/"), "/", "."),
			Problem: strings.TrimPrefix(err.Error(), "jsontext: ")}
	}
	return v, nil
}

func parseValue(dec *jsontext.Decoder, depth int) (value, error) {
	if depth > maxNesting {
		return value{}, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return value{}, err
	}
	v := value{kind: tok.Kind()}
	switch v.kind {
	case kindNull, kindTrue, kindFalse:
	case kindString:
		v.text = tok.String()
	case kindNumber:
		// Out of range gives an infinity, as it does in JavaScript; each field
		// says itself which numbers it takes.
		v.number, _ = strconv.ParseFloat(tok.String(), 64)
	case kindArray:
		for dec.PeekKind() != ']' {
			item, err := parseValue(dec, depth+1)
			if err != nil {
				return value{}, err
			}
			v.items = append(v.items, item)
		}
		if _, err := dec.ReadToken(); err != nil {
			return value{}, err
		}
	case kindObject:
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return value{}, err
			}
			key := name.String() // the token is only valid until the next read
			val, err := parseValue(dec, depth+1)
			if err != nil {
				return value{}, err
			}
			v.members = append(v.members, member{name: key, value: val})
		}
		if _, err := dec.ReadToken(); err != nil {
			return value{}, err
		}
	default:
		return value{}, fmt.Errorf("unexpected token %q", tok.String())
	}
	return v, nil
}

// get returns the member with exactly this name.
func (v value) get(name string) (value, bool) {
	for _, m := range v.members {
		if m.name == name {
			return m.value, true
		}
	}
	return value{}, false
}

// variants refuses a name that another reader could take for a known one. It is
// called for every object whose names are known, also where the object would
// otherwise be dropped as malformed: what is a trap is not forgiven as a slip.
func (v value) variants(what, at string, known ...string) error {
	for _, m := range v.members {
		for _, k := range known {
			if m.name != k && strings.EqualFold(m.name, k) {
				return &ReadError{What: what, Field: join(at, m.name), Problem: fmt.Sprintf("differs from %q only in case", k)}
			}
		}
	}
	return nil
}

func join(at, name string) string {
	if at == "" {
		return strconv.Quote(name)
	}
	return at + "." + strconv.Quote(name)
}

func (v value) kindName() string {
	switch v.kind {
	case kindNull:
		return "null"
	case kindString:
		return "a string"
	case kindNumber:
		return "a number"
	case kindObject:
		return "an object"
	case kindArray:
		return "an array"
	case kindTrue, kindFalse:
		return "a boolean"
	}
	return "nothing"
}

// str returns a string value.
func (v value) str() (string, bool) { return v.text, v.kind == kindString }

// nullable returns a string or null.
func (v value) nullable() (*string, bool) {
	switch v.kind {
	case kindNull:
		return nil, true
	case kindString:
		s := v.text
		return &s, true
	}
	return nil, false
}

func (v value) boolean() (bool, bool) {
	return v.kind == kindTrue, v.kind == kindTrue || v.kind == kindFalse
}

// required reads a mandatory string.
func (v value) required(what, name string) (string, error) {
	m, ok := v.get(name)
	if !ok {
		return "", &ReadError{What: what, Field: name, Problem: "missing, a string expected"}
	}
	s, ok := m.str()
	if !ok {
		return "", &ReadError{What: what, Field: name, Problem: m.kindName() + ", a string expected"}
	}
	return s, nil
}

// strings returns an array of strings.
func (v value) strings() ([]string, bool) {
	if v.kind != kindArray {
		return nil, false
	}
	out := make([]string, 0, len(v.items))
	for _, item := range v.items {
		s, ok := item.str()
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// object opens a document that must be one object.
func object(what string, data []byte, limit int) (value, error) {
	v, err := parse(what, data, limit)
	if err != nil {
		return value{}, err
	}
	if v.kind != kindObject {
		return value{}, &ReadError{What: what, Problem: v.kindName() + ", an object expected"}
	}
	return v, nil
}
