package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Target is where a connection wants to go. Host is in the form that [ParseHost]
// returns.
type Target struct {
	Host string
	Port uint16
}

// String is HOST:PORT, an IPv6 address in brackets.
func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// Address returns the host if it is an address and no name.
func (t Target) Address() (netip.Addr, bool) {
	a, err := netip.ParseAddr(t.Host)
	return a, err == nil
}

// Longest forms of RFC 1035, without the root's dot.
const (
	maxName  = 253
	maxLabel = 63
)

// ParseHost returns the one form of a host: of a name its A-labels (IDNA 2008 with the
// mapping of UTS 46) in lower case and without the root's dot, of an address what
// netip prints, an IPv4 address that is mapped into IPv6 as IPv4. The spellings of
// IPv4 that the C library accepts ("127.1", "0x7f.1", "2130706433") are that address.
// An address with a zone, and whatever else is neither name nor address, is an error.
func ParseHost(text string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("host %q: %s; expected a name such as example.org, or an address", clip(text), why)
	}
	host := text
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return bad("brackets around something else than an IPv6 address")
		}
	}
	switch {
	case host == "":
		return bad("empty")
	case !utf8.ValidString(host):
		return bad("no UTF-8")
	case len(host) > 4*maxName:
		return bad("too long")
	case strings.Contains(host, "%"):
		return bad("a zone or an escape (%)")
	case strings.Contains(host, ":"):
		a, err := netip.ParseAddr(host)
		if err != nil {
			return bad("no IPv6 address")
		}
		return a.Unmap().String(), nil
	}
	ascii := isASCII(host)
	if !ascii || strings.Contains(strings.ToLower(host), "xn--") {
		mapped, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return bad("no internationalised name (" + err.Error() + ")")
		}
		if again, err := idna.Lookup.ToASCII(mapped); err != nil || again != mapped {
			return bad("an internationalised name that has no one form")
		}
		host = mapped
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if err := checkName(host); err != nil {
		return bad(err.Error())
	}
	if endsInNumber(host) {
		a, err := parseIPv4(host)
		if err != nil {
			return bad(err.Error())
		}
		return a.String(), nil
	}
	return host, nil
}

// checkName accepts letters, digits, hyphens and underscores in labels of 1 to 63
// characters. Underscores are in no host name by RFC 952, but in names that resolve.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%d characters, expected 1 to %d", len(name), maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return fmt.Errorf("a label of %d characters, expected 1 to %d", len(label), maxLabel)
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return fmt.Errorf("the character %q", rune(c))
			}
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("a label that begins or ends with a hyphen")
		}
	}
	return nil
}

func isASCII(s string) bool {
	for _, c := range []byte(s) {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// endsInNumber says whether the last label is a number: then the whole is an IPv4
// address or nothing (WHATWG URL, "ends in a number").
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(last, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// parseIPv4 reads what inet_aton(3) does: one to four numbers, decimal, octal after
// "0" and hexadecimal after "0x", of which the last fills the remaining bytes.
func parseIPv4(host string) (netip.Addr, error) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, errors.New("a number at the end, and more than four parts")
	}
	var value uint64
	for i, part := range parts {
		digits, base := part, 10
		if hex, ok := strings.CutPrefix(part, "0x"); ok {
			digits, base = hex, 16
		} else if len(part) > 1 && part[0] == '0' {
			digits, base = part[1:], 8
		}
		if digits == "" {
			digits = "0" // "0x" is zero there
		}
		n, err := strconv.ParseUint(digits, base, 32)
		rest := 8 * (4 - i)
		switch {
		case err != nil:
			return netip.Addr{}, fmt.Errorf("a number at the end, and %q is none", clip(part))
		case i < len(parts)-1 && n > 255, i == len(parts)-1 && n >= 1<<rest:
			return netip.Addr{}, fmt.Errorf("%q is too large for its place in an IPv4 address", clip(part))
		case i < len(parts)-1:
			value |= n << (rest - 8)
		default:
			value |= n
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), nil
}

// ParseTarget reads HOST:PORT. Without a port it is fallback; a fallback of 0 makes
// the port required.
func ParseTarget(text string, fallback uint16) (Target, error) {
	host, port := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		if host, port = text[:i], text[i+1:]; port == "" || strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			return Target{}, fmt.Errorf("target %q: expected HOST:PORT, an IPv6 address in brackets", clip(text))
		}
	}
	t := Target{Port: fallback}
	if port != "" {
		var err error
		if t.Port, err = parsePort(port); err != nil {
			return Target{}, fmt.Errorf("target %q: %w", clip(text), err)
		}
	}
	if t.Port == 0 {
		return Target{}, fmt.Errorf("target %q: no port, expected HOST:PORT", clip(text))
	}
	var err error
	t.Host, err = ParseHost(host)
	return t, err
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '+' {
		return 0, fmt.Errorf("port %q: expected 1 to 65535", clip(text))
	}
	return uint16(n), nil
}

// clip bounds what an error quotes of what somebody sent.
func clip(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
