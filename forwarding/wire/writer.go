package wire

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// writer builds compact JSON in the order of construction, with the same bytes
// that JSON.stringify gives: nothing escaped that need not be, no newline.
type writer struct {
	buf  []byte
	open bool // the next name needs no comma
	err  error
}

func (w *writer) begin() { w.buf = append(w.buf, '{'); w.open = true }
func (w *writer) end()   { w.buf = append(w.buf, '}'); w.open = false }

func (w *writer) sep() {
	if !w.open {
		w.buf = append(w.buf, ',')
	}
	w.open = false
}

func (w *writer) name(n string) {
	w.sep()
	w.quote(n)
	w.buf = append(w.buf, ':')
}

func (w *writer) quote(s string) {
	if !utf8.ValidString(s) && w.err == nil {
		w.err = fmt.Errorf("text is not UTF-8: %.40q", s)
	}
	// The only error is invalid UTF-8, which is already kept.
	w.buf, _ = jsontext.AppendQuote(w.buf, s)
}

func (w *writer) str(n, s string) { w.name(n); w.quote(s) }

func (w *writer) nullable(n string, s *string) {
	w.name(n)
	w.orNull(s)
}

func (w *writer) orNull(s *string) {
	if s == nil {
		w.buf = append(w.buf, "null"...)
		return
	}
	w.quote(*s)
}

func (w *writer) boolean(n string, b bool) {
	w.name(n)
	w.buf = strconv.AppendBool(w.buf, b)
}

func (w *writer) integer(n string, i int64) {
	w.name(n)
	w.buf = strconv.AppendInt(w.buf, i, 10)
}

func (w *writer) object(n string, body func()) {
	w.name(n)
	w.begin()
	body()
	w.end()
}

// list writes an array; item writes the i-th value without a name.
func (w *writer) list(n string, count int, item func(i int)) {
	w.name(n)
	w.buf = append(w.buf, '[')
	for i := range count {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		item(i)
	}
	w.buf = append(w.buf, ']')
	w.open = false
}

func (w *writer) strings(n string, list []string) {
	w.list(n, len(list), func(i int) { w.quote(list[i]) })
}

func (w *writer) done(what string, limit int) ([]byte, error) {
	if w.err != nil {
		return nil, fmt.Errorf("%s: %w", what, w.err)
	}
	if len(w.buf) > limit {
		return nil, fmt.Errorf("%s: %d bytes, at most %d fit", what, len(w.buf), limit)
	}
	return w.buf, nil
}

// maxTime is the largest time that a JavaScript date has, in milliseconds.
const maxTime = 8.64e15

// millis reads a time in milliseconds. Fractions are cut off.
func millis(f float64) (int64, bool) {
	if math.IsNaN(f) || f > maxTime || f < -maxTime {
		return 0, false
	}
	return int64(f), true
}
