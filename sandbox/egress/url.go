package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ParseURL returns where an HTTP or HTTPS URL leads. Other schemes, and a URL with a
// user's name in it, are errors: what the one reads as a name another reads as a host.
func ParseURL(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // the rest repeats the whole text
		}
		return Target{}, fmt.Errorf("URL %q: %w", clip(text), err)
	}
	fallback := map[string]uint16{"http": 80, "https": 443}[u.Scheme]
	switch {
	case fallback == 0:
		return Target{}, fmt.Errorf("URL %q: scheme %q, expected http or https", clip(text), clip(u.Scheme))
	case u.User != nil:
		return Target{}, fmt.Errorf("URL %q: a user's name, expected SCHEME://HOST", clip(text))
	case u.Opaque != "" || u.Host == "" || strings.ContainsAny(text, "\\\t\r\n"):
		return Target{}, fmt.Errorf("URL %q: expected SCHEME://HOST", clip(text))
	}
	return ParseTarget(u.Host, fallback)
}

// NotPublic says why the target, where it is an address or localhost, may not be
// reached though its host is allowed: it is not public, and no host rule of listed
// names it. "" for every other target: a name is looked at when it is resolved.
func NotPublic(t Target, listed []string) string {
	a, ok := t.literal()
	if !ok {
		return ""
	}
	return Verdict{Listed: listed}.admit(t.Port, a, nil)
}
