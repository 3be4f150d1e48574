package prompt

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
)

// DefaultLogWidth is how many characters of one field go into a log.
const DefaultLogWidth = 1000

// Redacted stands for a value whose name says that it is secret.
const Redacted = "[redacted]"

// secretName matches names whose values are never logged. Separators between
// the words may be anything or missing.
var secretName = regexp.MustCompile(`(?i)authorization|api[^a-z0-9]*key|secret|token|passw(or)?d|credential|cookie|private[^a-z0-9]*key`)

// LogLine returns what a log may hold of an ask, as one line of JSON without a
// newline and with sorted names: the facts of the request, never evidence,
// annotations or prose, and the gate's own columns. Every string at any depth is
// cut at width (DefaultLogWidth if it is not positive), and a value whose name
// speaks of a secret is left out. A column cannot replace a fact.
func LogLine(p Payload, columns map[string]any, width int) ([]byte, error) {
	line := make(map[string]any, len(columns)+6)
	for k, v := range columns {
		line[k] = v
	}
	c := p.Core
	line["surface"] = c.Surface
	for name, v := range map[string]*string{"matchedPattern": c.MatchedPattern, "executedUnit": c.ExecutedUnit,
		"commandContext": c.CommandContext, "invokedToolName": c.InvokedToolName} {
		if v != nil {
			line[name] = *v
		} else {
			delete(line, name)
		}
	}
	if c.Requester.Forwarded {
		line["forwarded"] = true
		line["requesterSessionId"] = c.Requester.SessionID
	}
	return Line(line, width)
}

// Line is LogLine's own last step for any record: cut, redacted, one line.
func Line(record map[string]any, width int) ([]byte, error) {
	if width <= 0 {
		width = DefaultLogWidth
	}
	safe, err := redact(record, width, 0)
	if err != nil {
		return nil, err
	}
	// encoding/json sorts the names of a map and escapes U+2028 and U+2029, so
	// that the line stays one line in every reader.
	return json.Marshal(safe)
}

const maxLogDepth = 16

func redact(v any, width, depth int) (any, error) {
	if depth > maxLogDepth {
		return Ellipsis, nil
	}
	short := func(s string) string {
		s, cut := clip(strings.ToValidUTF8(s, "\ufffd"), width, false)
		if cut {
			s += Ellipsis
		}
		return s
	}
	switch x := v.(type) {
	case nil, bool, int, int32, int64, uint32, uint64, float64:
		return x, nil
	case string:
		return short(x), nil
	case *string:
		if x == nil {
			return nil, nil
		}
		return short(*x), nil
	case wire.DecisionSource:
		raw, err := x.Encode()
		if err != nil {
			return nil, err
		}
		var tree any
		if err := json.Unmarshal(raw, &tree); err != nil {
			return nil, err
		}
		return redact(tree, width, depth)
	case []string:
		out := make([]any, len(x))
		for i, s := range x {
			out[i] = short(s)
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			r, err := redact(e, width, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = r
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(x))
		names := make([]string, 0, len(x))
		for k := range x {
			names = append(names, k)
		}
		sort.Strings(names)
		for _, k := range names {
			if secretName.MatchString(k) {
				out[short(k)] = Redacted
				continue
			}
			r, err := redact(x[k], width, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[short(k)] = r
		}
		return out, nil
	case fmt.Stringer:
		return short(x.String()), nil
	}
	return nil, fmt.Errorf("log column of type %T, text, numbers, lists or maps expected", v)
}
