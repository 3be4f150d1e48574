package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowMatch is the definition of a pattern, read character by character with
// full backtracking. It shares nothing with the matcher that it checks.
func slowMatch(pattern, value, home string) bool {
	var lit []rune
	for _, h := range []string{"${HOME}", "$HOME", "~"} {
		rest, ok := strings.CutPrefix(pattern, h)
		if !ok || rest != "" && rest[0] != '/' && rest[0] != '\\' {
			continue
		}
		if home == "" {
			return false
		}
		lit, pattern = []rune(strings.TrimRight(home, `/\`)), rest
		if len(lit) == 0 && rest == "" {
			lit = []rune("/")
		}
		break
	}
	type char struct {
		r    rune
		wild byte
	}
	build := func(p string) []char {
		var out []char
		for _, r := range lit {
			out = append(out, char{r: r})
		}
		for _, r := range p {
			switch r {
			case '*', '?':
				out = append(out, char{wild: byte(r)})
			default:
				out = append(out, char{r: r})
			}
		}
		return out
	}
	v := []rune(value)
	var at func(p []char, v []rune) bool
	at = func(p []char, v []rune) bool {
		if len(p) == 0 {
			return len(v) == 0
		}
		switch p[0].wild {
		case '*':
			for i := 0; i <= len(v); i++ {
				if at(p[1:], v[i:]) {
					return true
				}
			}
			return false
		case '?':
			return len(v) > 0 && at(p[1:], v[1:])
		}
		return len(v) > 0 && v[0] == p[0].r && at(p[1:], v[1:])
	}
	if at(build(pattern), v) {
		return true
	}
	if bare, ok := strings.CutSuffix(pattern, " *"); ok {
		return at(build(bare), v)
	}
	return false
}

func TestPatternsMeanWhatTheyAreDocumentedToMean(t *testing.T) {
	const home = "/home/u"
	for _, c := range []struct {
		name           string
		pattern, value string
		want           bool
	}{
		{"a star takes slashes", "/w/*", "/w/a/b/c", true},
		{"a star takes newlines", "a*b", "a\nb", true},
		{"a star may be empty", "a*b", "ab", true},
		{"two stars are one", "/w/**/x", "/w/a/b/x", true},
		{"two stars do not skip a slash", "/w/**/x", "/w/x", false},
		{"a question mark is one character", "a?c", "abc", true},
		{"a question mark takes a newline", "a?c", "a\nc", true},
		{"a question mark is a character, not a byte", "a?c", "aéc", true},
		{"a question mark is not nothing", "a?c", "ac", false},
		{"the whole value counts", "git", "git status", false},
		{"the whole value counts at the start", "status", "git status", false},
		{"case counts", "Git *", "git status", false},
		{"a trailing space star may be missing", "git *", "git", true},
		{"and takes arguments", "git *", "git status", true},
		{"but is a word boundary", "git *", "gitk", false},
		{"the space alone is no value without it", "git *", "git ", true},
		{"only one trailing star is optional", "a **", "a", false},
		{"two trailing stars still match arguments", "a **", "a b", true},
		{"only at the very end", "git * push", "git push", false},
		{"after another star", "a* *", "abc", true},
		{"after a question mark", "a? *", "ab", true},
		{"a question mark before it is needed", "a? *", "a", false},
		{"a lone space star takes nothing", " *", "", true},
		{"a star alone takes nothing", "*", "", true},
		{"home by tilde", "~/x", "/home/u/x", true},
		{"home alone", "~", "/home/u", true},
		{"home by variable", "$HOME/x", "/home/u/x", true},
		{"home by braces", "${HOME}/x", "/home/u/x", true},
		{"home before a backslash", `~\x`, `/home/u\x`, true},
		{"another user's home is text", "~root/x", "/home/u/x", false},
		{"another user's home matches itself", "~root/x", "~root/x", true},
		{"a longer variable is text", "$HOMEDIR/x", "$HOMEDIR/x", true},
		{"an expansion with a default is text", "${HOME:-x}/a", "${HOME:-x}/a", true},
		{"home only at the start", "/a/~/x", "/a/~/x", true},
		{"home on a command", "~/bin/tool *", "/home/u/bin/tool run", true},
		{"the tilde itself is not a value of home", "~/x", "~/x", false},
		{"brackets are text", "[ab]", "a", false},
		{"brackets match themselves", "[ab]", "[ab]", true},
		{"braces are text", "{a,b}", "a", false},
		{"a bang is text", "!a", "b", false},
		{"a dot is a dot", "a.c", "abc", false},
		{"a backslash escapes nothing", `a\*`, `a*`, false},
		{"a plus, a caret, a dollar, a bar, parentheses", "a+^$|()", "a+^$|()", true},
		{"the last segment may not overlap the first", "ab*ba", "aba", false},
		{"leftmost is enough", "*a*b", "xaxaxb", true},
	} {
		if got := Match(c.pattern, c.value, home); got != c.want {
			t.Errorf("%s: %q against %q: %v, want %v", c.name, c.pattern, c.value, got, c.want)
		}
		if got := slowMatch(c.pattern, c.value, home); got != c.want {
			t.Errorf("%s: %q against %q: the reference says %v, want %v", c.name, c.pattern, c.value, got, c.want)
		}
	}
}

func TestAHomeWithWildcardsIsText(t *testing.T) {
	if Match("~/x", "/home/abc/x", "/home/*") {
		t.Error("a star in the home directory became a wildcard")
	}
	if !Match("~/x", "/home/*/x", "/home/*") {
		t.Error("a home with a star does not match itself")
	}
	if Match("~/x", "anything/x", "") {
		t.Error("an unknown home matched")
	}
	if !Match("~/x", "/x", "/") {
		t.Error("home / does not reach /x")
	}
}

var (
	patternText = rapid.StringOfN(rapid.SampledFrom([]rune("aab *?/~é$\n")), 0, 8, -1)
	valueText   = rapid.StringOfN(rapid.SampledFrom([]rune("aab /~é$\nh")), 0, 10, -1)
	homeText    = rapid.SampledFrom([]string{"/h", "/h/", "", "/", "/h/a*"})
)

// patternFor draws patterns that often match the value.
func patternFor(t *rapid.T, value string) string {
	if rapid.Bool().Draw(t, "free") {
		return patternText.Draw(t, "pattern")
	}
	r := []rune(value)
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		if len(r) == 0 {
			break
		}
		i := rapid.IntRange(0, len(r)-1).Draw(t, "at")
		n := rapid.IntRange(0, len(r)-i).Draw(t, "take")
		r = slices.Concat(r[:i:i], []rune(rapid.SampledFrom([]string{"*", "?", " *", "**"}).Draw(t, "by")), r[i+n:])
	}
	return string(r)
}

func TestMatcherIsTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, home := valueText.Draw(t, "value"), homeText.Draw(t, "home")
		p := patternFor(t, v)
		if got, want := Match(p, v, home), slowMatch(p, v, home); got != want {
			t.Fatalf("%q against %q with home %q: %v, the reference says %v", p, v, home, got, want)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range [][3]string{{"git *", "git", ""}, {"a?*", "a\xff\xfe", ""}, {"~/x*", "/h/xy", "/h"}, {"*a*b*", "xaxbx", ""}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, p, v, home string) {
		if len(p) > 12 || len(v) > 24 || len(home) > 12 || strings.Count(p, "*") > 4 {
			return
		}
		if p != strings.ToValidUTF8(p, "") || home != strings.ToValidUTF8(home, "") {
			if Match(p, v, home) && p != strings.ToValidUTF8(p, "") {
				t.Fatalf("a pattern that is no text matched: %q", p)
			}
			return
		}
		if got, want := Match(p, v, home), slowMatch(p, v, home); got != want {
			t.Fatalf("%q against %q with home %q: %v, the reference says %v", p, v, home, got, want)
		}
	})
}

func TestCoversIsSound(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		v := valueText.Draw(t, "value")
		narrow := patternFor(t, v)
		wide := patternFor(t, narrow)
		if !covers(wide, narrow) {
			return
		}
		if Match(narrow, v, "/h") {
			matched++
			if !Match(wide, v, "/h") {
				t.Fatalf("covers(%q, %q), but only the second matches %q", wide, narrow, v)
			}
		}
	})
	if matched == 0 {
		t.Fatal("no pair was ever checked against a value")
	}
	for _, c := range [][2]string{{"*", "git *"}, {"git *", "git push *"}, {"git*", "git *"}, {"*.env", "/w/*.env"}, {"git *", "git"}, {"a **", "a b*"}} {
		if !covers(c[0], c[1]) {
			t.Errorf("%q should be seen to cover %q", c[0], c[1])
		}
	}
	for _, c := range [][2]string{{"git push *", "git *"}, {"a?", "a*"}, {"a **", "a *"}, {"x", "*"}} {
		if covers(c[0], c[1]) {
			t.Errorf("%q does not cover %q", c[0], c[1])
		}
	}
}

// slowFind ranks by the documented order, one rule after the other.
func slowFind(rules []Rule, values []string, home string) (Rule, bool) {
	best := -1
	better := func(a, b Rule, ia, ib int) bool {
		ea := !strings.ContainsAny(expanded(a.Pattern, home), "*?")
		eb := !strings.ContainsAny(expanded(b.Pattern, home), "*?")
		if ea != eb {
			return ea
		}
		count := func(p string) (lit, stars, length int) {
			for _, r := range expanded(p, home) {
				length++
				switch r {
				case '*':
					stars++
				case '?':
				default:
					lit++
				}
			}
			return
		}
		la, sa, na := count(a.Pattern)
		lb, sb, nb := count(b.Pattern)
		switch {
		case la != lb:
			return la > lb
		case sa != sb:
			return sa < sb
		case na != nb:
			return na > nb
		case a.Action != b.Action:
			return a.Action < b.Action
		}
		return ia > ib
	}
	for i, r := range rules {
		if !slices.ContainsFunc(values, func(v string) bool { return slowMatch(r.Pattern, v, home) }) {
			continue
		}
		if best < 0 || better(r, rules[best], i, best) {
			best = i
		}
	}
	if best < 0 {
		return Rule{}, false
	}
	return rules[best], true
}

func expanded(p, home string) string {
	if n := homePrefix(p); n > 0 {
		return strings.TrimRight(home, "/") + p[n:]
	}
	return p
}

func drawRules(t *rapid.T, surfaces []string) []Rule {
	n := rapid.IntRange(1, 12).Draw(t, "rules")
	rules := make([]Rule, n)
	for i := range rules {
		rules[i] = Rule{
			Surface: rapid.SampledFrom(surfaces).Draw(t, "surface"),
			Pattern: patternFor(t, valueText.Draw(t, "seed")),
			Action:  Action(rapid.IntRange(0, 2).Draw(t, "action")),
			Origin:  Origin{Authority: "policy", Line: i + 1},
		}
		if rules[i].Pattern == "" {
			rules[i].Pattern = "*"
		}
	}
	return rules
}

func TestIndexedEvaluationIsTheRanking(t *testing.T) {
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		rules := drawRules(t, []string{"bash"})
		values := rapid.SliceOfN(valueText, 1, 3).Draw(t, "values")
		q := Query{Surface: "bash", Values: values, Aliases: true, Home: "/h"}
		got, ok := newRuleset(rules).lookup(&q)
		want, wantOK := slowFind(rules, values, "/h")
		if ok != wantOK {
			t.Fatalf("found %v, want %v", ok, wantOK)
		}
		if !ok {
			return
		}
		hits++
		if *got.rule != want {
			t.Fatalf("decided %+v, want %+v", *got.rule, want)
		}
		if !slowMatch(want.Pattern, got.value, "/h") {
			t.Fatalf("says that %q matched %q", got.value, want.Pattern)
		}
	})
	if hits == 0 {
		t.Fatal("no rule ever matched")
	}
}

func TestIndexFindsWhatAScanFinds(t *testing.T) {
	words := []string{"git", "push", "--force", "npm", "run", "build", "x", "", "/srv/app", "secret", "éa"}
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for i := range rapid.IntRange(1, 60).Draw(t, "n") {
			parts := rapid.SliceOfN(rapid.SampledFrom(append(words, "*", "?", "**")), 1, 4).Draw(t, "parts")
			p := strings.Join(parts, rapid.SampledFrom([]string{" ", "", "/"}).Draw(t, "sep"))
			if p == "" {
				p = "*"
			}
			rules = append(rules, Rule{Surface: "bash", Pattern: p, Action: Action(i % 3), Origin: Origin{Line: i}})
		}
		c := compileRules(rules, "", false)
		table := c.exact["bash"]
		v := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 5).Draw(t, "value"), rapid.SampledFrom([]string{" ", "", "/"}).Draw(t, "sep"))
		if rapid.Bool().Draw(t, "long") {
			v = strings.Repeat("true; ", 60) + v
		}
		want := len(table.entries)
		for i := range table.entries {
			if table.entries[i].glob.match(v) {
				want = i
				break
			}
		}
		if got := table.index.find(table.entries, v, len(table.entries)); got != want {
			t.Fatalf("%q: the index finds %d, a scan %d", v, got, want)
		}
	})
}

func TestALongTextIsJudgedInTime(t *testing.T) {
	var rules []Rule
	for i := range 1000 {
		rules = append(rules, Rule{Surface: "bash", Pattern: fmt.Sprintf("*true; *%d*x", i), Action: Deny})
	}
	s := newRuleset(rules)
	q := bashQuery(strings.Repeat("true; ", 20_000))
	if _, ok := s.lookup(&q); ok {
		t.Fatal("matched")
	}
}
