package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/getpioneer/pioneer-super/policy"
)

// Kinds of problem and reasons of a floor. The two that other gates know keep
// their names.
const (
	kindUnparseable = "<unparseable-bash-command>"
	kindParserGap   = "<parsers-differ>"
	kindTooComplex  = "<too-complex>"
	kindBytes       = "<control-bytes>"
	kindDialect     = "<unknown-shell>"
	kindInternal    = "<analysis-failed>"

	floorOpaque      = "<opaque-bash-wrapper>"
	floorIndirection = "<indirection-bash-wrapper>"
	floorUnparsed    = "<unparsed-bash-subtree>"
	floorComputed    = "<computed-command>"
	floorInline      = "<inline-code>"
	floorExecutes    = "<option-executes>"
	floorWrites      = "<option-writes>"
	floorAssign      = "<assignment-executes>"
	floorShellState  = "<shell-state>"
	floorArith       = "<arithmetic-executes>"
	floorChangeable  = "<changeable-program>"
	floorMissing     = "<program-not-found>"
	floorLoader      = "<loader>"
	floorUnknownPath = "<unknown-path>"
	floorFolder      = "<protected-folder>"
)

// scan refuses what must not reach the parser: too long, too deep, bytes that
// parsers, terminals and C strings read differently. It is linear.
func scan(text string) *Problem {
	if len(text) > maxText {
		return &Problem{Kind: kindTooComplex, Action: policy.Deny,
			Message: fmt.Sprintf("the text has %d bytes, more than %d", len(text), maxText)}
	}
	depth, ticks, quotes, doubles := 0, 0, 0, 0
	line, col := 1, 0
	var prev byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		col++
		switch c {
		case '\n':
			line, col = line+1, 0
		case '\t':
		case '(', '{', '[':
			depth++
			if c == '(' && prev == '(' {
				doubles++
			}
		case ')', '}', ']':
			depth = max(0, depth-1)
		case '`':
			ticks++
		case '"':
			quotes++
		default:
			if c < 0x20 || c == 0x7f {
				return &Problem{Kind: kindBytes, Action: bytesAction(c), Line: line, Column: col,
					Message: fmt.Sprintf("control byte 0x%02x", c)}
			}
			if c >= utf8.RuneSelf {
				r, n := utf8.DecodeRuneInString(text[i:])
				if r == utf8.RuneError && n <= 1 {
					return &Problem{Kind: kindBytes, Action: policy.Ask, Line: line, Column: col,
						Message: fmt.Sprintf("byte 0x%02x is not UTF-8", c)}
				}
				if r >= 0x80 && r < 0xa0 {
					return &Problem{Kind: kindBytes, Action: policy.Ask, Line: line, Column: col,
						Message: fmt.Sprintf("control character U+%04X", r)}
				}
				i += n - 1
			}
		}
		if depth > maxDepth {
			return &Problem{Kind: kindTooComplex, Action: policy.Deny, Line: line, Column: col,
				Message: fmt.Sprintf("more than %d brackets are open at once", maxDepth)}
		}
		prev = c
	}
	// The library reads `((` twice at each level and a run of backquotes or
	// quotes level by level: many of them take quadratic time.
	if doubles > 500 || ticks > 1000 || quotes > 20000 {
		return &Problem{Kind: kindTooComplex, Action: policy.Deny,
			Message: fmt.Sprintf("%d nested parentheses, %d backquotes and %d quotes", doubles, ticks, quotes)}
	}
	return nil
}

// A NUL ends the text for every C program, so nobody could have meant it.
func bytesAction(c byte) policy.Action {
	if c == 0 {
		return policy.Deny
	}
	return policy.Ask
}

func (z *analyzer) problem(p Problem) {
	for i := range z.a.Problems {
		if z.a.Problems[i] == p {
			return
		}
	}
	if len(z.a.Problems) < 50 {
		z.a.Problems = append(z.a.Problems, p)
	}
}

func (z *analyzer) tooComplex(what string) {
	z.full = true
	z.problem(Problem{Kind: kindTooComplex, Message: what, Action: policy.Deny})
}

// base returns the last element of a path, as bash's command lookup and the
// wrappers' own messages name it.
func base(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[i+1:]
	}
	return path
}
