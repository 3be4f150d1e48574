package shell

import "strings"

// grammar says which options a program takes, as getopt_long reads them with
// options first: it stops at the first operand. What is not listed is refused,
// because an unknown option may or may not take the next word.
type grammar struct {
	// flags take no value, values take one, optional take one only attached.
	flags, values, optional string
	// long options: 'f' flag, 'v' value, 'o' optional attached value.
	long map[string]byte
	// number accepts -N.
	number bool
	// single reads long options with one dash as well (-chdir=x).
	single bool
	// permute goes on after operands.
	permute bool
}

// opt is one option that was read.
type opt struct {
	name string // letter or long name, without dashes
	val  word
	has  bool
}

// longs builds a table: words are flags, "x=" takes a value, "x?" an optional one.
func longs(list string) map[string]byte {
	m := map[string]byte{}
	for _, s := range strings.Fields(list) {
		switch s[len(s)-1] {
		case '=':
			m[s[:len(s)-1]] = 'v'
		case '?':
			m[s[:len(s)-1]] = 'o'
		default:
			m[s] = 'f'
		}
	}
	return m
}

// lookup finds a long option or an unambiguous abbreviation of one.
func (g *grammar) lookup(name string) (string, byte) {
	if k, ok := g.long[name]; ok {
		return name, k
	}
	full, kind := "", byte(0)
	for n, k := range g.long {
		if strings.HasPrefix(n, name) {
			if kind != 0 {
				return "", 0
			}
			full, kind = n, k
		}
	}
	return full, kind
}

// parse reads the options in front. ok is false where a word is refused; rest
// then begins with it.
func (g *grammar) parse(ws []word) (opts []opt, rest []word, ok bool) {
	var operands []word
	i := 0
	for i < len(ws) {
		w := ws[i]
		if !w.lit && w.prefix == "" {
			if g.permute {
				operands = append(operands, w)
				i++
				continue
			}
			return opts, ws[i:], false
		}
		s := w.prefix
		if w.lit {
			s = w.val
		}
		if s == "" || s[0] != '-' || s == "-" {
			if !g.permute {
				break
			}
			operands = append(operands, w)
			i++
			continue
		}
		if s == "--" && w.lit {
			i++
			break
		}
		if strings.HasPrefix(s, "--") || g.single && len(s) > 2 {
			name, val, eq := strings.Cut(strings.TrimLeft(s, "-"), "=")
			full, kind := g.lookup(name)
			switch {
			case kind == 0, kind == 'f' && eq, !w.lit && !eq:
				return opts, ws[i:], false
			case kind == 'f', kind == 'o' && !eq:
				opts = append(opts, opt{name: full})
			case eq:
				v := literal(val)
				if !w.lit {
					v = word{norm: w.norm, typed: w.typed, prefix: val, vars: w.vars}
				}
				opts = append(opts, opt{full, v, true})
			default:
				if i+1 >= len(ws) {
					return opts, ws[i:], false
				}
				i++
				opts = append(opts, opt{full, ws[i], true})
			}
			i++
			continue
		}
		if g.number && len(s) > 1 && (isDigits(s[1:]) || len(s) > 2 && (s[1] == '-' || s[1] == '+') && isDigits(s[2:])) {
			opts = append(opts, opt{"#", literal(s[1:]), true})
			i++
			continue
		}
		for j := 1; j < len(s); j++ {
			c := s[j : j+1]
			switch {
			case strings.Contains(g.flags, c):
				if !w.lit && j == len(s)-1 {
					return opts, ws[i:], false
				}
				opts = append(opts, opt{name: c})
				continue
			case strings.Contains(g.optional, c):
				o := opt{name: c}
				if j+1 < len(s) || !w.lit {
					o.val, o.has = tail(w, s[j+1:]), true
				}
				opts = append(opts, o)
			case strings.Contains(g.values, c):
				if j+1 < len(s) || !w.lit {
					opts = append(opts, opt{c, tail(w, s[j+1:]), true})
				} else if i+1 < len(ws) {
					i++
					opts = append(opts, opt{c, ws[i], true})
				} else {
					return opts, ws[i:], false
				}
			default:
				return opts, ws[i:], false
			}
			break
		}
		i++
	}
	return opts, append(operands, ws[i:]...), true
}

func tail(w word, s string) word {
	if w.lit {
		return literal(s)
	}
	return word{norm: w.norm, typed: w.typed, prefix: s, vars: w.vars}
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// find returns the last option of that name.
func find(opts []opt, names ...string) (opt, bool) {
	for i := len(opts) - 1; i >= 0; i-- {
		for _, n := range names {
			if opts[i].name == n {
				return opts[i], true
			}
		}
	}
	return opt{}, false
}
