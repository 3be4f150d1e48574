package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged is the error for a line whose checksum does not fit it.
var ErrDamaged = errors.New("damaged line")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const frameHead = 9 // eight hex digits and a space

// Frame returns "crc32c SP text": the line that Unframe reads. The text may hold
// no line feed.
func Frame(text []byte) []byte {
	return fmt.Appendf(nil, "%08x %s", crc32.Checksum(text, castagnoli), text)
}

// Unframe returns the text of a framed line, or an error that is ErrDamaged.
func Unframe(line []byte) ([]byte, error) {
	if len(line) < frameHead || line[frameHead-1] != ' ' {
		return nil, fmt.Errorf("%w: %d bytes without a checksum", ErrDamaged, len(line))
	}
	text := line[frameHead:]
	want := fmt.Appendf(nil, "%08x", crc32.Checksum(text, castagnoli))
	if !bytes.Equal(line[:frameHead-1], want) {
		return nil, fmt.Errorf("%w: its checksum is %s and says %q", ErrDamaged, want, line[:frameHead-1])
	}
	return text, nil
}
