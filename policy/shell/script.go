package shell

import "strings"

// sedRuns looks at a sed script: "" for one that only edits, else what it does.
func sedRuns(s string) string {
	const unknown = "a sed script that is not understood"
	i := 0
	skip := func(delim byte) bool { // to the next unescaped delimiter
		class := false
		for i < len(s) {
			switch c := s[i]; {
			case c == '\\':
				i++
			case c == '[' && !class:
				class = true
				if i+1 < len(s) && s[i+1] == '^' {
					i++
				}
				if i+1 < len(s) && s[i+1] == ']' {
					i++
				}
			case c == ']':
				class = false
			case c == delim && (!class || delim != '/'):
				i++
				return true
			case c == delim:
				// Inside a bracket a slash is text; any other delimiter is
				// read differently by different seds.
				if !strings.Contains(s[i:], "]") {
					i++
					return true
				}
			}
			i++
		}
		return false
	}
	for i < len(s) {
		c := s[i]
		switch {
		case strings.IndexByte(" \t\n;{}", c) >= 0:
			i++
			continue
		case c == '#':
			for i < len(s) && s[i] != '\n' {
				i++
			}
			continue
		}
		// Addresses.
		for i < len(s) {
			c = s[i]
			switch {
			case c >= '0' && c <= '9', c == '$', c == ',', c == '+', c == '~', c == '!', c == ' ', c == '\t':
				i++
				continue
			case c == '/':
				i++
				if !skip('/') {
					return unknown
				}
				for i < len(s) && (s[i] == 'I' || s[i] == 'M') {
					i++
				}
				continue
			case c == '\\':
				if i+1 >= len(s) {
					return unknown
				}
				d := s[i+1]
				i += 2
				if !skip(d) {
					return unknown
				}
				continue
			}
			break
		}
		if i >= len(s) {
			return unknown
		}
		c = s[i]
		i++
		switch c {
		case '{', '}':
		case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		case 'q', 'Q', 'l', 'L':
			for i < len(s) && (s[i] == ' ' || s[i] >= '0' && s[i] <= '9') {
				i++
			}
		case 'b', 't', 'T', ':':
			for i < len(s) && s[i] != ';' && s[i] != '\n' && s[i] != '}' {
				i++
			}
		case 'a', 'i', 'c':
			for i < len(s) && s[i] != '\n' {
				if s[i] == '\\' {
					i++
				}
				i++
			}
		case 'r', 'R', 'v':
			for i < len(s) && s[i] != '\n' {
				i++
			}
		case 's', 'y':
			if i >= len(s) {
				return unknown
			}
			d := s[i]
			i++
			if d == '\\' || d == '\n' || !skip(d) {
				return unknown
			}
			// The second half knows no brackets.
			closed := false
			for i < len(s) {
				if s[i] == '\\' {
					i += 2
					continue
				}
				i++
				if s[i-1] == d {
					closed = true
					break
				}
			}
			if !closed {
				return unknown
			}
			for c == 's' && i < len(s) && s[i] != ';' && s[i] != '\n' && s[i] != '}' && s[i] != ' ' && s[i] != '#' {
				switch f := s[i]; {
				case f == 'e':
					return "a substitution that runs its result"
				case f == 'w':
					return "a substitution that writes a file"
				case strings.IndexByte("gpiImM0123456789", f) >= 0:
				default:
					return unknown
				}
				i++
			}
		case 'e':
			return "a command that runs a program"
		case 'w', 'W':
			return "a command that writes a file"
		default:
			return unknown
		}
	}
	return ""
}

// awkRuns looks at an awk program for what runs or writes something.
func awkRuns(s string) string {
	code := awkCode(s)
	switch {
	case strings.Contains(code, "system"):
		return "system() runs a program"
	case strings.Contains(code, "getline"):
		return "getline reads a file or a program"
	case strings.Contains(code, "@"):
		return "an extension or an indirect call"
	}
	for i := 0; i < len(code); i++ {
		if code[i] != '|' {
			continue
		}
		if i+1 < len(code) && code[i+1] == '|' {
			i++
			continue
		}
		return "a pipe to a program"
	}
	// print … > file; a comparison outside print is one only.
	for rest := code; ; {
		i := strings.Index(rest, "print")
		if i < 0 {
			return ""
		}
		rest = rest[i+5:]
		end := strings.IndexAny(rest, ";}\n")
		stmt := rest
		if end >= 0 {
			stmt = rest[:end]
		}
		depth := 0
		for _, c := range stmt {
			switch {
			case c == '(':
				depth++
			case c == ')':
				depth--
			case c == '>' && depth <= 0:
				return "print writes a file"
			}
		}
	}
}

// awkCode blanks out strings, comments and what is plainly a regular expression.
func awkCode(s string) string {
	b := []byte(s)
	prev := byte('{')
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' && i+1 < len(b) {
					b[i] = ' '
					i++
				}
				b[i] = ' '
			}
			prev = '"'
		case '#':
			for i < len(b) && b[i] != '\n' {
				b[i] = ' '
				i++
			}
		case '/':
			// After an operator or an opening bracket a slash begins a pattern.
			if strings.IndexByte("{(,~!&|;\n=}", prev) < 0 {
				prev = c
				continue
			}
			for i++; i < len(b) && b[i] != '/' && b[i] != '\n'; i++ {
				if b[i] == '\\' && i+1 < len(b) {
					b[i] = ' '
					i++
				}
				b[i] = ' '
			}
			prev = ')'
		case ' ', '\t':
		default:
			prev = c
		}
	}
	return string(b)
}
