package egress

import (
	"encoding/binary"
	"errors"
)

// Numbers of TLS (RFC 8446, sections 4 and 5.1; RFC 6066, section 3).
const (
	recordHandshake     = 22
	messageClientHello  = 1
	extensionServerName = 0
	nameTypeHost        = 0

	recordHeader = 5
	maxRecord    = 1<<14 + 256
)

var errHello = errors.New("no well-formed first message of TLS")

// serverName reads the server name out of the beginning of a TLS connection, which is a
// ClientHello in one or more records; "" if it has none. more says that data ends before
// that can be told.
func serverName(data []byte) (name string, more bool, err error) {
	var message []byte
	for {
		if len(data) < recordHeader {
			return "", true, nil
		}
		size := int(binary.BigEndian.Uint16(data[3:]))
		if data[0] != recordHandshake || data[1] != 3 || size == 0 || size > maxRecord {
			return "", false, errHello
		}
		data = data[recordHeader:]
		part := data[:min(size, len(data))]
		message = append(message, part...)
		if len(message) > 0 && message[0] != messageClientHello {
			return "", false, errHello
		}
		if len(message) >= 4 {
			if length := int(message[1])<<16 | int(message[2])<<8 | int(message[3]); len(message)-4 >= length {
				name, err = helloName(message[4 : 4+length])
				return name, false, err
			}
		}
		if len(part) < size {
			return "", true, nil
		}
		data = data[size:]
	}
}

// helloName reads the body of a ClientHello.
func helloName(b []byte) (string, error) {
	r := reader{b: b}
	r.take(2 + 32)      // version, random
	r.take(r.number(1)) // session
	r.take(r.number(2)) // cipher suites
	r.take(r.number(1)) // compression
	if r.bad || len(r.b) == 0 {
		return "", r.err()
	}
	extensions := reader{b: r.take(r.number(2))}
	name, seen := "", false
	for len(extensions.b) > 0 {
		kind, body := extensions.number(2), reader{}
		body.b = extensions.take(extensions.number(2))
		if extensions.bad {
			return "", errHello
		}
		if kind != extensionServerName {
			continue
		}
		if seen {
			return "", errHello
		}
		seen = true
		list := reader{b: body.take(body.number(2))}
		kind = list.number(1)
		host := list.take(list.number(2))
		// One name, of the one kind that there is.
		if body.bad || list.bad || kind != nameTypeHost || len(list.b) > 0 || len(host) == 0 {
			return "", errHello
		}
		name = string(host)
	}
	return name, r.err()
}

// reader takes big-endian numbers and byte strings off a message. After the first that
// is not there, bad is set and everything is empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// number reads one of that many bytes.
func (r *reader) number(bytes int) int {
	n := 0
	for _, b := range r.take(bytes) {
		n = n<<8 | int(b)
	}
	return n
}

func (r *reader) err() error {
	if r.bad {
		return errHello
	}
	return nil
}
