package durable

import (
	"bufio"
	"errors"
	"io"
	"iter"
)

// Line is one line of a file, as Lines reads it.
type Line struct {
	Number int   // counts from 1
	Offset int64 // of its first byte
	// Text is without its end, and valid until the next line is asked for. For a
	// line that is Long it is empty.
	Text []byte
	Long bool // more than the limit; skipped in bounded memory
	Open bool // the last one, and its end is missing
}

// Lines reads r line by line. A line longer than most bytes is yielded as Long
// and skipped, whatever its length. The error, if there is one, is that of
// reading r, and comes last.
func Lines(r io.Reader, most int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(r, most+1)
		var at int64
		for number := 1; ; number++ {
			text, err := in.ReadSlice('\n')
			line := Line{Number: number, Offset: at}
			at += int64(len(text))
			for errors.Is(err, bufio.ErrBufferFull) {
				line.Long = true
				var more []byte
				more, err = in.ReadSlice('\n')
				at += int64(len(more))
			}
			ended := err == nil
			if !ended && !errors.Is(err, io.EOF) {
				yield(line, err)
				return
			}
			if !ended && !line.Long && len(text) == 0 {
				return
			}
			line.Open = !ended
			if ended {
				text = text[:len(text)-1]
			}
			line.Long = line.Long || len(text) > most
			if !line.Long {
				line.Text = text
			}
			if !yield(line, nil) || !ended {
				return
			}
		}
	}
}
