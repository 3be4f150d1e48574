package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// LinkSettings is one link of the authorizer chain, as config.jsonc names it.
type LinkSettings struct {
	Name string `json:"name"`
	// Command is the program with its arguments, the program by absolute path. It
	// is nil for a link that is named alone and that somebody else provides.
	Command []string `json:"command,omitempty"`
	// Timeout is how long the link may take; 0 leaves it to whoever asks.
	Timeout Duration `json:"timeout,omitzero"`
	// Limit is the most that its word counts for: "allow", "deny" or "defer".
	Limit  string `json:"limit,omitempty"`
	Origin Origin `json:"-"`
}

// ObserverSettings is one program that is told of asks and decisions.
type ObserverSettings struct {
	Name string `json:"name"`
	// Command is the program by absolute path, with its arguments.
	Command []string `json:"command"`
	// Timeout is how long one call may take; 0 leaves it to whoever calls.
	Timeout Duration `json:"timeout,omitzero"`
	Origin  Origin   `json:"-"`
}

// ReviewSettings are those of the built-in model reviewer. Provider and model have
// no default.
type ReviewSettings struct {
	// Provider is the kind of endpoint: "openai" for one that speaks chat
	// completions, "anthropic" for one that speaks messages.
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// BaseURL is where the endpoint is; "" means the provider's own.
	BaseURL string `json:"baseURL,omitempty"`
	// KeyEnv names the variable of the operator's environment that holds the key,
	// KeyFile the file; at most one is set.
	KeyEnv  string   `json:"apiKeyEnv,omitempty"`
	KeyFile string   `json:"apiKeyFile,omitempty"`
	Timeout Duration `json:"timeout,omitzero"`
	// MaxDenials is how many denials in one turn open the circuit: what comes after
	// them goes to a human. 0 means 3.
	MaxDenials int    `json:"maxDenials,omitempty"`
	Limit      string `json:"limit,omitempty"`
	Origin     Origin `json:"-"`
}

// ReviewLink is the name of the built-in model reviewer in a chain.
const ReviewLink = "auto-review"

const (
	maxLinks       = 16
	maxLinkTimeout = 10 * time.Minute
)

// readLinks reads "authorizers": names, or objects with a command.
func readLinks(v value) []LinkSettings {
	list, _ := v.elements(`a list of links, each a name or {"name": NAME, "command": [PROGRAM, ARGUMENT…]}`)
	if len(list) > maxLinks {
		v.problem(fmt.Sprintf("%d links", len(list)), fmt.Sprintf("at most %d", maxLinks), "")
		return nil
	}
	var out []LinkSettings
	seen := map[string]bool{}
	for _, e := range list {
		l := LinkSettings{Origin: e.origin("config")}
		if e.kind() == '{' {
			readLink(e, &l)
		} else if s, ok := e.text("the name of a link, or an object"); ok {
			l.Name = s
		} else {
			continue
		}
		switch {
		case badLinkName(l.Name):
			e.problem(fmt.Sprintf("link name %q", short(l.Name)), "1 to 64 characters without spaces", "")
		case seen[l.Name]:
			e.problem(fmt.Sprintf("link %q is there twice", l.Name), "each link once", "")
		case l.Name == ReviewLink && l.Command != nil:
			e.problem(fmt.Sprintf("link %q with a command", l.Name), "another name: this one is built in", "")
		default:
			seen[l.Name] = true
			out = append(out, l)
		}
	}
	return out
}

func readLink(v value, l *LinkSettings) {
	for _, m := range v.members("a link") {
		switch m.name {
		case "name":
			l.Name, _ = m.value.text("a name")
		case "command":
			l.Command = readCommand(m.value)
		case "timeout":
			l.Timeout = readTimeout(m.value)
		case "limit":
			l.Limit = readLimit(m.value)
		default:
			m.unknown("name", "command", "timeout", "limit")
		}
	}
}

// readObservers reads "observers": objects with a command.
func readObservers(v value) []ObserverSettings {
	list, _ := v.elements(`a list of programs, each {"name": NAME, "command": [PROGRAM, ARGUMENT…]}`)
	if len(list) > maxLinks {
		v.problem(fmt.Sprintf("%d observers", len(list)), fmt.Sprintf("at most %d", maxLinks), "")
		return nil
	}
	var out []ObserverSettings
	for _, e := range list {
		o := ObserverSettings{Origin: e.origin("config")}
		for _, m := range e.members("an observer") {
			switch m.name {
			case "name":
				o.Name, _ = m.value.text("a name")
			case "command":
				o.Command = readCommand(m.value)
			case "timeout":
				o.Timeout = readTimeout(m.value)
			default:
				m.unknown("name", "command", "timeout")
			}
		}
		switch {
		case e.kind() != '{':
		case badLinkName(o.Name):
			e.problem(fmt.Sprintf("observer name %q", short(o.Name)), "1 to 64 characters without spaces", "")
		case slices.ContainsFunc(out, func(have ObserverSettings) bool { return have.Name == o.Name }):
			e.problem(fmt.Sprintf("observer %q is there twice", o.Name), "each observer once", "")
		case o.Command == nil:
			e.problem(fmt.Sprintf("observer %q without a command", o.Name), `"command": [PROGRAM, ARGUMENT…]`, "")
		default:
			out = append(out, o)
		}
	}
	return out
}

func badLinkName(name string) bool {
	return name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// readCommand reads a program by absolute path with its arguments, nil if it is
// none.
func readCommand(v value) []string {
	words, ok := v.texts("a list: the program and its arguments")
	switch {
	case !ok:
	case len(words) == 0 || len(words) > 64 || !strings.HasPrefix(words[0], "/") || cleanPath(words[0]) != words[0]:
		v.problem("command "+v.describe(), "the absolute path of a program, and up to 63 arguments", "")
	default:
		return words
	}
	return nil
}

func readTimeout(v value) Duration {
	var d Duration
	text, ok := v.text(`a duration such as "5s"`)
	if ok && (d.UnmarshalText([]byte(text)) != nil || time.Duration(d) > maxLinkTimeout) {
		v.problem(fmt.Sprintf("%q", short(text)), fmt.Sprintf(`a duration above zero and up to %s such as "5s"`, maxLinkTimeout), "")
		return 0
	}
	return d
}

func readLimit(v value) string { return oneOf(v, "allow", "deny", "defer") }

// readReview reads "autoReview".
func readReview(v value) *ReviewSettings {
	r := &ReviewSettings{Origin: v.origin("config")}
	for _, m := range v.members("an object with provider and model") {
		switch m.name {
		case "provider":
			r.Provider = oneOf(m.value, "openai", "anthropic")
		case "model":
			r.Model, _ = m.value.text("the name of a model")
		case "baseURL":
			if s, ok := m.value.text("the address of an endpoint"); ok {
				if why := badEndpoint(s); why != "" {
					m.value.problem(fmt.Sprintf("%q", short(s)), why, "")
				}
				r.BaseURL = strings.TrimRight(s, "/")
			}
		case "apiKeyEnv":
			if r.KeyEnv, _ = m.value.text("the name of a variable"); strings.ContainsAny(r.KeyEnv, "=\x00 ") {
				m.value.problem(fmt.Sprintf("%q", short(r.KeyEnv)), "the name of a variable", "the key itself does not belong into this file")
			}
		case "apiKeyFile":
			if r.KeyFile, _ = m.value.text("an absolute path"); r.KeyFile != "" && cleanPath(r.KeyFile) == "" {
				m.value.problem(fmt.Sprintf("%q", short(r.KeyFile)), "an absolute path", "")
			}
		case "timeout":
			r.Timeout = readTimeout(m.value)
		case "maxDenials":
			r.MaxDenials, _ = m.value.number(1, 100)
		case "limit":
			r.Limit = readLimit(m.value)
		default:
			m.unknown("provider", "model", "baseURL", "apiKeyEnv", "apiKeyFile", "timeout", "maxDenials", "limit")
		}
	}
	switch {
	case r.Provider == "" || r.Model == "":
		v.problem("a reviewer without provider or model", `"provider" and "model": neither has a default`, "")
	case r.KeyEnv != "" && r.KeyFile != "":
		v.problem(`"apiKeyEnv" and "apiKeyFile"`, "one of them", "")
	}
	return r
}

// number returns a whole number between lo and hi.
func (v value) number(lo, hi int) (int, bool) {
	if lit, isLit := v.v.Value.(hujson.Literal); isLit && lit.Kind() == '0' {
		if n, err := strconv.Atoi(string(lit)); err == nil && n >= lo && n <= hi {
			return n, true
		}
	}
	v.problem(v.describe(), fmt.Sprintf("a whole number from %d to %d", lo, hi), "")
	return 0, false
}

// badEndpoint says why what an ask holds may not be sent to that address.
func badEndpoint(s string) string {
	const want = "https://HOST…, or http://ADDRESS… on this machine"
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return want
	}
	switch u.Scheme {
	case "https":
		return ""
	case "http":
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() {
			return ""
		}
	}
	return want
}
