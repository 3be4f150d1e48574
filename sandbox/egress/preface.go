package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// errPreface ends a connection whose first bytes name another host than the one that
// was allowed.
var errPreface = errors.New("another host than the one that was allowed")

// checkPreface looks at what a client says first: the server name of TLS, or the Host
// of an HTTP request, has to be the target's. Other protocols do not say, and pass.
// Nothing is consumed.
func checkPreface(conn net.Conn, in *bufio.Reader, t Target, within time.Duration) error {
	first, err := in.Peek(1)
	if err != nil {
		return nil // it said nothing: its end is carried over
	}
	conn.SetReadDeadline(time.Now().Add(within))
	defer conn.SetReadDeadline(time.Time{})
	switch {
	case first[0] == recordHandshake:
		name, err := peekServerName(in)
		if err != nil {
			return err
		}
		return sameHost(name, t)
	case first[0] >= 'A' && first[0] <= 'Z':
		return peekPlainHost(in, t)
	}
	return nil
}

// sameHost compares a server name with the target; "" names nobody.
func sameHost(name string, t Target) error {
	if name == "" {
		return nil
	}
	host, err := ParseHost(name)
	if err == nil && host == t.Host {
		return nil
	}
	return fmt.Errorf("server name %q: %w", clip(name), errPreface)
}

// peekServerName returns the server name of a TLS connection that begins here, "" if
// it names none.
func peekServerName(in *bufio.Reader) (string, error) {
	want := 1
	for {
		if _, err := in.Peek(want); err != nil {
			return "", fmt.Errorf("first message of TLS: %w", err)
		}
		data, _ := in.Peek(in.Buffered())
		name, more, err := serverName(data)
		if err != nil || !more {
			return name, err
		}
		want = len(data) + 1
	}
}

// plainMethods are those whose request is looked at; a first word that is none of
// them is another protocol.
var plainMethods = []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "TRACE ", "CONNECT "}

// peekPlainHost refuses an HTTP/1 request whose Host is not the target's. It looks at
// the first request alone: what follows goes to the same server.
func peekPlainHost(in *bufio.Reader, t Target) error {
	line, err := peekLine(in)
	if err != nil || !strings.Contains(line, " HTTP/1.") {
		return err
	}
	head, err := peekHead(in)
	if err != nil {
		return err
	}
	hosts, err := hostFields(head)
	if err != nil || len(hosts) != 1 {
		return fmt.Errorf("%d Host fields (%v): %w", len(hosts), err, errPreface)
	}
	if said, err := ParseTarget(hosts[0], t.Port); err != nil || said != t {
		return fmt.Errorf("host %q: %w", clip(hosts[0]), errPreface)
	}
	return nil
}

// peekLine returns the first line if it begins with one of plainMethods, else "".
func peekLine(in *bufio.Reader) (string, error) {
	for want := 1; ; {
		if _, err := in.Peek(want); err != nil {
			return "", err
		}
		data, _ := in.Peek(in.Buffered())
		if !couldBeMethod(data) {
			return "", nil
		}
		if line, _, ok := bytes.Cut(data, []byte("\n")); ok {
			return string(line), nil
		}
		want = len(data) + 1
	}
}

func couldBeMethod(data []byte) bool {
	for _, m := range plainMethods {
		n := min(len(m), len(data))
		if string(data[:n]) == m[:n] {
			return true
		}
	}
	return false
}
