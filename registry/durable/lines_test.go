package durable

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// slowLines splits as Lines should, with the whole text in memory.
func slowLines(text string, most int) []Line {
	var out []Line
	at := int64(0)
	for part := range strings.Lines(text) {
		bare := strings.TrimSuffix(part, "\n")
		line := Line{Number: len(out) + 1, Offset: at, Open: bare == part, Long: len(bare) > most}
		if !line.Long {
			line.Text = []byte(bare)
		}
		out = append(out, line)
		at += int64(len(part))
	}
	return out
}

func equalLines(a, b Line) bool {
	return a.Number == b.Number && a.Offset == b.Offset && a.Long == b.Long && a.Open == b.Open && bytes.Equal(a.Text, b.Text)
}

func collect(t interface{ Fatal(...any) }, r io.Reader, most int) []Line {
	var out []Line
	for line, err := range Lines(r, most) {
		if err != nil {
			t.Fatal(err)
		}
		line.Text = bytes.Clone(line.Text)
		out = append(out, line)
	}
	return out
}

func TestLinesMatchReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Parts around the limit and around the reader's own buffer.
		part := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat("x", rapid.IntRange(0, 70).Draw(t, "n")) + rapid.SampledFrom([]string{"\n", "", "\n\n", "\r\n"}).Draw(t, "end")
		})
		text := strings.Join(rapid.SliceOfN(part, 0, 20).Draw(t, "parts"), "")
		most := rapid.IntRange(1, 40).Draw(t, "most")
		want := slowLines(text, most)
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text))} {
			if got := collect(t, r, most); !slices.EqualFunc(got, want, equalLines) {
				t.Fatalf("%s: got %+v, want %+v", name, got, want)
			}
		}
	})
}

// Not parallel: it counts what is allocated.
func TestLongLinesCostNoMemory(t *testing.T) {
	if got := collect(t, strings.NewReader(""), 10); got != nil {
		t.Fatal(got)
	}
	zeros := io.LimitReader(zero{}, 64<<20)
	got := collect(t, io.MultiReader(zeros, strings.NewReader("\nlast")), 1000)
	if len(got) != 2 || !got[0].Long || len(got[0].Text) > 0 || string(got[1].Text) != "last" || got[1].Offset != 64<<20+1 {
		t.Fatalf("%+v", got)
	}
	allocs := testing.AllocsPerRun(1, func() { collect(t, io.LimitReader(zero{}, 64<<20), 1000) })
	if allocs > 100 {
		t.Errorf("%v allocations for one long line", allocs)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestLinesEndWithTheReadersError(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	var got []string
	var last error
	for line, err := range Lines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 10) {
		if last = err; err == nil {
			got = append(got, string(line.Text))
		}
	}
	if !slices.Equal(got, []string{"a"}) || !errors.Is(last, broken) {
		t.Fatalf("%q, %v", got, last)
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		line := Frame(text)
		if back, err := Unframe(line); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%q came back as %q, %v", text, back, err)
		}
		for cut := range line {
			if _, err := Unframe(line[:cut]); !errors.Is(err, ErrDamaged) {
				// A cut text may have the checksum of the whole by chance; not in
				// these few, and never for the empty one.
				t.Fatalf("cut at %d of %q: %v", cut, line, err)
			}
		}
		flipped := bytes.Clone(line)
		flipped[rapid.IntRange(0, len(line)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := Unframe(flipped); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%q was taken for %q", flipped, line)
		}
	})
	// The checksum is Castagnoli's, by its published check value.
	if got := string(Frame([]byte("123456789"))); got != "e3069283 123456789" {
		t.Error(got)
	}
}

func FuzzUnframe(f *testing.F) {
	f.Add([]byte("e3069283 123456789"))
	f.Add([]byte("E3069283 123456789"))
	f.Add([]byte("00000000 "))
	f.Fuzz(func(t *testing.T, line []byte) {
		if text, err := Unframe(line); err == nil && !bytes.Equal(Frame(text), line) {
			t.Fatalf("%q is not how %q is framed", line, text)
		}
	})
}
