package importer

import (
	"fmt"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// maxAlternatives bounds the commands that one rule is written out to.
const maxAlternatives = 200

// quotedCharacters are those that a command has in quotes, or that are wildcards
// of ours; NUL stands for a space inside a word.
const quotedCharacters = "\x00*?\"'\\$`\n\t;&|<>(){}~#"

// codex reads a .rules file: calls with literal arguments. The strictest of all
// rules that match decides there.
func (im *importing) codex(f File) error {
	s := &scanner{im: im, data: string(f.Data)}
	allowed := false
	for s.skip(true); !s.end(); s.skip(true) {
		at := s.pos
		name := s.name()
		if name == "" {
			return s.fail(at, "expected prefix_rule(…), network_rule(…) or host_executable(…)")
		}
		s.skip(false)
		if s.peek() != '(' {
			return s.fail(at, "%q: only calls with literal arguments can be read", name)
		}
		args, err := s.call()
		if err != nil {
			return err
		}
		switch name {
		case "prefix_rule":
			err = im.prefixRule(s, at, args)
			allowed = allowed || args["decision"].text == "allow" || args["decision"].kind == 0
		case "network_rule":
			err = im.networkRule(s, at, args)
		case "host_executable":
			im.note(im.at(at), name, "not carried over: a program is judged by its name here, and by the file that it resolves to")
		default:
			im.note(im.at(at), name, "not carried over: no rule of ours says this")
		}
		if err != nil {
			return err
		}
	}
	if allowed {
		im.note(place{file: f.Path}, "", "what Codex allows runs there outside of its sandbox; here it runs without a question, inside the sandbox of the session")
	}
	return nil
}

// positions are the names of arguments without one.
var positions = []string{"pattern", "decision", "justification"}

// call reads the arguments of a call, the opening bracket first.
func (s *scanner) call() (map[string]literal, error) {
	s.pos++
	args := map[string]literal{}
	for n := 0; ; n++ {
		s.skip(true)
		if s.peek() == ')' {
			s.pos++
			return args, nil
		}
		start := s.pos
		name := s.name()
		s.skip(true)
		if name != "" && s.peek() == '=' {
			s.pos++
			s.skip(true)
		} else {
			s.pos, name = start, fmt.Sprint(n)
			if n < len(positions) {
				name = positions[n]
			}
		}
		v, err := s.value(0, 0)
		if err != nil {
			return nil, err
		}
		if _, twice := args[name]; twice {
			return nil, s.fail(start, "%q is there twice", name)
		}
		args[name] = v
		s.skip(true)
		if s.peek() == ',' {
			s.pos++
		} else if s.peek() != ')' {
			return nil, s.fail(s.pos, "expected , or )")
		}
	}
}

func codexDecision(s *scanner, at int, l literal) (policy.Action, int, error) {
	word := l.text
	if l.kind == 0 {
		word = "allow"
	}
	switch word {
	case "allow":
		return policy.Allow, 1, nil
	case "prompt":
		return policy.Ask, 2, nil
	case "forbidden", "deny":
		return policy.Deny, 3, nil
	}
	return policy.Deny, 0, s.fail(at, "decision %q, expected allow, prompt or forbidden", word)
}

func (im *importing) prefixRule(s *scanner, at int, args map[string]literal) error {
	action, rank, err := codexDecision(s, at, args["decision"])
	if err != nil {
		return err
	}
	pattern := args["pattern"]
	if pattern.kind != 'l' || len(pattern.list) == 0 {
		return s.fail(at, "prefix_rule: expected pattern = [WORD, …]")
	}
	prefixes := []string{""}
	var shown []string
	for _, e := range pattern.list {
		words, ok := e.texts()
		if !ok || len(words) == 0 {
			return s.fail(e.offset, "expected a word or a list of words")
		}
		shown = append(shown, strings.Join(words, "|"))
		var next []string
		for _, p := range prefixes {
			for _, w := range words {
				// A space inside a word is no space between words.
				w = strings.ReplaceAll(w, " ", "\x00")
				next = append(next, strings.TrimPrefix(p+" "+w, " "))
			}
		}
		if len(next) > maxAlternatives {
			return s.fail(e.offset, "more than %d commands in one rule", maxAlternatives)
		}
		prefixes = next
	}
	source := "prefix_rule " + strings.Join(shown, " ")
	var patterns []string
	for _, p := range prefixes {
		if strings.ContainsAny(p, quotedCharacters) || strings.HasSuffix(p, " ") || strings.Contains(p, "  ") {
			if action == policy.Allow {
				p = strings.ReplaceAll(p, "\x00", " ")
				im.note(im.at(at), source, "left out: %q has characters that are quoted in a command or are wildcards here", p)
				continue
			}
			// What stands in the place of the odd characters may be anything.
			p = strings.Map(func(r rune) rune {
				if strings.ContainsRune(quotedCharacters, r) {
					return '*'
				}
				return r
			}, p)
			im.note(im.at(at), source, "wider here: written as %q", p+" *")
		}
		patterns = append(patterns, p+" *")
	}
	for _, p := range patterns {
		im.add(rule{surface: "bash", pattern: p, action: action, reason: args["justification"].text, rank: rank, at: im.at(at), source: source})
	}
	if action == policy.Ask && args["justification"].text != "" {
		im.note(im.at(at), source, "its justification is left out: only a deny has a reason")
	}
	for _, name := range []string{"match", "not_match"} {
		for _, e := range args[name].list {
			words, ok := e.texts()
			if !ok {
				continue
			}
			command, matched := strings.Join(words, " "), false
			for _, p := range patterns {
				matched = matched || policy.Match(p, command, "")
			}
			if matched != (name == "match") {
				im.note(im.at(e.offset), source, "its own example %s %q does not hold here", name, command)
			}
		}
	}
	return nil
}

func (im *importing) networkRule(s *scanner, at int, args map[string]literal) error {
	action, rank, err := codexDecision(s, at, args["decision"])
	if err != nil {
		return err
	}
	host := args["host"].text
	if host == "" {
		host = args["pattern"].text
	}
	if host == "" {
		return s.fail(at, "network_rule: expected host = HOST")
	}
	im.add(rule{surface: "network", pattern: host, action: action, reason: args["justification"].text, rank: rank, at: im.at(at), source: "network_rule " + host})
	if p := args["protocol"].text; p != "" {
		im.note(im.at(at), "network_rule "+host, "wider here: it holds for every protocol, not only %s", p)
	}
	return nil
}
