// Package importer turns the permission settings of other agents into a policy
// and hard guards of ours. It knows how each agent ranks its rules, and says for
// every rule what became of it. Like package policy it is pure: settings come in
// as bytes, and nothing is written.
//
// What an import promises: where a rule of the source speaks, the result is never
// looser than the source. Where our language can only write a pattern wider it is
// written wider if it denies or asks, and left out if it allows. The one exception
// is a deny for part of a tool's input that our rules do not see: the whole tool
// is asked then, and a note says so.
package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// maxFile bounds one settings file, in bytes; maxRules the rules of one import.
const (
	maxFile  = 1 << 20
	maxRules = 2000
)

// File is one settings file of the other agent.
type File struct {
	Name string
	Data []byte
}

// Options say where the files come from.
type Options struct {
	// Root is the directory that a leading "/" in a Claude Code path rule stands
	// for: the project, or the folder of the user's settings.
	Root string
}

// Outcome says what became of a rule.
type Outcome string

const (
	// Kept: it means the same here.
	Kept Outcome = "kept"
	// Guarded: it is a hard guard here, since nothing may loosen it.
	Guarded Outcome = "guard"
	// Narrowed: it permits less here.
	Narrowed Outcome = "narrowed"
	// Widened: it denies or asks for more here.
	Widened Outcome = "widened"
	// Dropped: it is not carried over.
	Dropped Outcome = "dropped"
	// Told: it is no rule; what it means here.
	Told Outcome = "note"
)

// Note says what became of one rule of the source.
type Note struct {
	File    string  `json:"file"`
	Line    int     `json:"line,omitempty"`
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text,omitempty"`
}

// String returns "file:line: outcome: rule: text".
func (n Note) String() string {
	s := n.File
	if n.Line > 0 {
		s += fmt.Sprintf(":%d", n.Line)
	}
	s += fmt.Sprintf(": %s: %s", n.Outcome, n.Rule)
	if n.Text != "" {
		s += ": " + n.Text
	}
	return s
}

// Result is what an import proposes. Nothing of it is in force until somebody
// writes it to the places of the configuration.
type Result struct {
	// Policy and Guards are the texts of policy.jsonc and hard-guards.jsonc.
	Policy []byte
	Guards []byte
	// Agents are agent files, by name, for settings of single agents.
	Agents map[string][]byte
	// Mode is the mode that comes nearest, "" where the source names none.
	Mode  policy.Mode
	Notes []Note
}

// Agents are the names that Import knows.
func Agents() []string { return []string{"claude-code", "codex", "gemini", "opencode"} }

// Import reads the settings of the named agent. A file that cannot be read as
// what it should be is an error with its position.
func Import(agent string, files []File, opt Options) (*Result, error) {
	b := &builder{res: &Result{Agents: map[string][]byte{}}, opt: opt}
	if len(files) == 0 {
		return nil, fmt.Errorf("import %s: no file", agent)
	}
	for _, f := range files {
		if len(f.Data) > maxFile {
			return nil, fmt.Errorf("%s: %d bytes, expected at most %d", f.Name, len(f.Data), maxFile)
		}
	}
	var err error
	switch agent {
	case "claude-code", "claude":
		err = b.claude(files)
	case "codex":
		err = b.codex(files)
	case "opencode":
		err = b.openCode(files)
	case "gemini":
		err = b.gemini(files)
	default:
		return nil, fmt.Errorf("unknown agent %q, expected %s", agent, strings.Join(Agents(), ", "))
	}
	if err != nil {
		return nil, err
	}
	if len(b.rules) > maxRules {
		return nil, fmt.Errorf("import %s: %d rules, expected at most %d", agent, len(b.rules), maxRules)
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	return b.res, nil
}

// rule is a rule of the source in our patterns. In a list of them the last one
// that matches decides.
type rule struct {
	surface, pattern string
	action           policy.Action
	reason           string
	file             string
	line             int
	// text is the rule as the source has it.
	text string
	// exact is false where our pattern is wider than the source's.
	exact bool
}

type builder struct {
	res   *Result
	opt   Options
	rules []rule
	// final says that denies of the source are final, whatever stands beside them.
	final bool
	said  map[string]bool
}

func (b *builder) note(file string, line int, text string, o Outcome, format string, args ...any) {
	n := Note{File: file, Line: line, Rule: oneLine(text), Outcome: o, Text: fmt.Sprintf(format, args...)}
	if b.said == nil {
		b.said = map[string]bool{}
	}
	if key := n.String(); !b.said[key] {
		b.said[key] = true
		b.res.Notes = append(b.res.Notes, n)
	}
}

func (b *builder) about(r rule, o Outcome, format string, args ...any) {
	b.note(r.file, r.line, r.text, o, format, args...)
}

// add takes a rule of the source, the later the stronger.
func (b *builder) add(r rule) { b.rules = append(b.rules, r) }

// settled are the rules after their order was turned into ranks.
type settled struct {
	policy, guards []rule
}

// finish turns "the last one decides" into "the most specific one decides".
func (b *builder) finish() error {
	b.rules = slices.DeleteFunc(b.rules, func(r rule) bool {
		why := ""
		if err := policy.CheckSurface(r.surface); err != nil {
			why = err.Error()
		} else if r.pattern == "" || len(r.pattern) > 4096 || strings.ContainsRune(r.pattern, 0) {
			why = "not a pattern"
		}
		if why != "" {
			b.about(r, Dropped, "%s", why)
		}
		if r.surface == "*" {
			b.about(r, Told, "a rule for everything counts only where no mode was chosen")
		}
		return why != ""
	})
	s := b.settle()
	for range len(b.rules) + 1 {
		var err error
		if b.res.Policy, b.res.Guards, err = s.write(); err != nil {
			return err
		}
		loose, err := b.replay(&s)
		if err != nil {
			return err
		}
		if !loose {
			break
		}
	}
	for _, r := range s.policy {
		if r.exact {
			b.about(r, Kept, "%s %q: %s", r.surface, r.pattern, r.action)
		} else {
			b.about(r, Widened, "%s %q: %s, which covers more than the source", r.surface, r.pattern, r.action)
		}
	}
	for _, r := range s.guards {
		switch {
		case r.action == policy.Allow:
		case r.exact:
			b.about(r, Guarded, "%s %q", r.surface, r.pattern)
		default:
			b.about(r, Widened, "hard guard %s %q, which covers more than the source", r.surface, r.pattern)
		}
	}
	slices.SortStableFunc(b.res.Notes, func(x, y Note) int {
		if c := strings.Compare(x.File, y.File); c != 0 {
			return c
		}
		return x.Line - y.Line
	})
	return nil
}

func (b *builder) settle() settled {
	all := b.rules
	gone := make([]bool, len(all))
	covers := func(j, i int) bool {
		return policy.Covers(all[j].surface, all[i].surface) && policy.Covers(all[j].pattern, all[i].pattern)
	}
	// 1. What a later rule covers never decides.
	for i := range all {
		for j := i + 1; j < len(all) && !gone[i]; j++ {
			if !covers(j, i) {
				continue
			}
			gone[i] = true
			switch {
			case all[i].text == all[j].text && all[i].action == all[j].action:
			case all[i].action == all[j].action:
				b.about(all[i], Dropped, "%s says the same for it", all[j].text)
			default:
				b.about(all[i], Dropped, "it never decides: %s says %s for all of it", all[j].text, all[j].action)
			}
		}
	}
	// 2. Where ranking would let an earlier rule win over a later one.
	guard := make([]bool, len(all))
	for j := range all {
		if gone[j] {
			continue
		}
		if b.final && all[j].action == policy.Deny && all[j].surface != "*" {
			guard[j] = true
			continue
		}
		for i := range j {
			if gone[i] || guard[i] || all[i].action == all[j].action || !overlap(all[i], all[j]) || !outranks(all[i], all[j]) {
				continue
			}
			switch {
			case all[i].action < all[j].action:
				b.about(all[j], Narrowed, "%s is more specific here and says %s for what both match", all[i].text, all[i].action)
			case all[j].action == policy.Deny:
				guard[j] = true
			default:
				gone[i] = true
				b.about(all[i], Dropped, "here it would win over %s, which says ask for part of it", all[j].text)
			}
		}
	}
	var s settled
	for i, r := range all {
		switch {
		case gone[i]:
		case guard[i]:
			s.guards = append(s.guards, r)
		default:
			s.policy = append(s.policy, r)
		}
	}
	// 3. A later rule that loosens a guard for part of it stays possible.
	if !b.final {
		for k, r := range all {
			if gone[k] || guard[k] || r.action == policy.Deny {
				continue
			}
			loosens, blocked := false, false
			for j, g := range all {
				if gone[j] || !guard[j] || !overlap(g, r) {
					continue
				}
				if j < k && covers(j, k) && outranks(r, g) && !outranks(g, r) {
					loosens = true
				} else if j > k && outranks(r, g) {
					blocked = true
				}
			}
			if loosens && !blocked {
				r.action, r.reason = policy.Allow, ""
				s.guards = append(s.guards, r)
			}
		}
	}
	return s
}

// overlap says whether some call could be named by both rules.
func overlap(a, b rule) bool {
	if a.surface != b.surface && !policy.Match(a.surface, b.surface, "") && !policy.Match(b.surface, a.surface, "") &&
		!(strings.ContainsAny(a.surface, "*?") && strings.ContainsAny(b.surface, "*?") && policy.MayOverlap(a.surface, b.surface)) {
		return false
	}
	return policy.MayOverlap(a.pattern, b.pattern)
}

// outranks says whether a may win over b where both match, by our ranking: the
// surface counts before the pattern.
func outranks(a, b rule) bool {
	if a.surface != b.surface {
		return policy.CompareSpecificity(a.surface, b.surface) <= 0
	}
	return policy.CompareSpecificity(a.pattern, b.pattern) <= 0
}

// theirs is what the source says: the last rule that matches.
func (b *builder) theirs(surface, value string) (rule, bool) {
	for _, r := range slices.Backward(b.rules) {
		if policy.Match(r.surface, surface, "") && policy.Match(r.pattern, value, "/home/u") {
			return r, true
		}
	}
	return rule{}, false
}

// replay asks both sides about texts made from all patterns. Where ours would
// be looser the rule that made it so is taken out, and true is returned: then it
// has to be asked again.
func (b *builder) replay(s *settled) (changed bool, err error) {
	p, err := policy.ParsePolicy("imported policy", b.res.Policy)
	if err != nil {
		return false, err
	}
	g, err := policy.ParseGuards("imported guards", b.res.Guards)
	if err != nil {
		return false, err
	}
	ours := policy.Compose(policy.Layers{Session: "import", Snapshot: policy.Resolve(policy.ResolveInput{Mode: policy.Supervised}), Policy: p, Guards: g})
	for _, r := range b.rules {
		for _, v := range probes(r.pattern) {
			if strings.ContainsAny(r.surface, "*?") {
				continue
			}
			want, ok := b.theirs(r.surface, v)
			if !ok || want.surface == "*" {
				continue
			}
			q := policy.NewQuery(r.surface, v)
			q.RulesOnly, q.Home = true, "/home/u"
			d := ours.Decide(q)
			if d.Rule.Origin.Authority == "builtin" || d.Action == want.action {
				continue
			}
			if d.Action < want.action {
				b.about(want, Narrowed, "%s %q is %s here", r.surface, v, d.Action)
				continue
			}
			n := slices.IndexFunc(s.policy, func(x rule) bool { return x.surface == d.Rule.Surface && x.pattern == d.Rule.Pattern })
			if n < 0 {
				continue
			}
			b.about(s.policy[n], Dropped, "here it would win over %s for %q", want.text, v)
			s.policy = slices.Delete(s.policy, n, n+1)
			return true, nil
		}
	}
	return false, nil
}

// probes returns texts that the pattern matches.
func probes(pattern string) []string {
	pattern = strings.ReplaceAll(pattern, "?", "q")
	pattern = strings.Replace(pattern, "~/", "/home/u/", 1)
	out := []string{strings.ReplaceAll(pattern, "*", "x"), strings.ReplaceAll(pattern, "*", "x y"), strings.ReplaceAll(pattern, "*", "")}
	if bare, ok := strings.CutSuffix(pattern, " *"); ok && !strings.Contains(bare, "*") {
		out = append(out, bare)
	}
	return out
}

// write makes the texts of both files.
func (s settled) write() (policyText, guardText []byte, err error) {
	var universal *rule
	var named []rule
	for i, r := range s.policy {
		if r.surface == "*" {
			universal = &s.policy[i]
			continue
		}
		named = append(named, r)
	}
	return writeFile(named, universal), writeFile(s.guards, nil), nil
}

func writeFile(rules []rule, universal *rule) []byte {
	var b strings.Builder
	b.WriteString("{\n  \"permission\": {\n")
	if universal != nil {
		fmt.Fprintf(&b, "    \"*\": %q, // %s\n", universal.action, comment(*universal))
	}
	var order []string
	for _, r := range rules {
		if !slices.Contains(order, r.surface) {
			order = append(order, r.surface)
		}
	}
	for _, surface := range order {
		fmt.Fprintf(&b, "    %s: {\n", quote(surface))
		var done []string
		for _, r := range rules {
			if r.surface != surface || slices.Contains(done, r.pattern) {
				continue
			}
			done = append(done, r.pattern)
			if r.reason != "" && r.action == policy.Deny {
				fmt.Fprintf(&b, "      %s: {\"action\": \"deny\", \"reason\": %s}, // %s\n", quote(r.pattern), quote(cut(r.reason, 500)), comment(r))
			} else {
				fmt.Fprintf(&b, "      %s: %q, // %s\n", quote(r.pattern), r.action, comment(r))
			}
		}
		b.WriteString("    },\n")
	}
	b.WriteString("  },\n}\n")
	return []byte(b.String())
}

func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func comment(r rule) string {
	s := r.file
	if r.line > 0 {
		s += fmt.Sprintf(":%d", r.line)
	}
	return oneLine(s + ": " + r.text)
}

func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return cut(s, 200)
}

func cut(s string, n int) string {
	r := []rune(s)
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
