package durable

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
)

// ErrDamaged is the error for a line whose checksum does not fit it.
var ErrDamaged = errors.New("damaged line")

// castagnoli is made when a line is first framed: most starts of this program
// frame none.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

const frameHead = 9 // eight hex digits and a space

// Frame returns "crc32c SP text": the line that Unframe reads. The text may hold
// no line feed.
func Frame(text []byte) []byte {
	sum := checksum(text)
	line := make([]byte, 0, frameHead+len(text)+1) // and room for its end
	return append(append(append(line, sum[:]...), ' '), text...)
}

// checksum is the CRC-32C of text in lower-case hex.
func checksum(text []byte) (sum [frameHead - 1]byte) {
	raw := binary.BigEndian.AppendUint32(nil, crc32.Checksum(text, castagnoli()))
	hex.Encode(sum[:], raw)
	return sum
}

// Unframe returns the text of a framed line, or an error that is ErrDamaged.
func Unframe(line []byte) ([]byte, error) {
	if len(line) < frameHead || line[frameHead-1] != ' ' {
		return nil, fmt.Errorf("%w: %d bytes without a checksum", ErrDamaged, len(line))
	}
	text := line[frameHead:]
	want := checksum(text)
	if !bytes.Equal(line[:frameHead-1], want[:]) {
		return nil, fmt.Errorf("%w: its checksum is %s and says %q", ErrDamaged, want, line[:frameHead-1])
	}
	return text, nil
}
