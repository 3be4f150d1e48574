package shell

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/getpioneer/pioneer-super/policy"
)

// invariants hold for every text.
func invariants(t *testing.T, text string) {
	t.Helper()
	o := caseOptions()
	a := Analyze(text, o)
	for _, spec := range []map[string]string{{"*": "allow"}, {"*": "allow", "rm *": "deny"}, {"*": "ask", "ls *": "allow"}} {
		v := a.Judge(newRules(spec).decide)
		if v.Action > policy.Allow {
			t.Fatalf("%q: action %d", text, v.Action)
		}
		if v.Action == policy.Allow && len(a.Problems) > 0 {
			t.Fatalf("%q is allowed with a problem: %v", text, a.Problems)
		}
		if v.Action == policy.Allow && a.Canonical == "" {
			t.Fatalf("%q is allowed without a canonical text", text)
		}
		if v.Action > v.Rules && len(a.Problems) == 0 {
			t.Fatalf("%q: floors make it looser than its rules", text)
		}
		if s := a.Explain(v); strings.ContainsAny(s, "\x1b\r\x00") || !utf8.ValidString(s) {
			t.Fatalf("%q: the explanation holds control characters: %q", text, s)
		}
	}
	if len(a.Units) > maxUnits || len(a.Paths) > maxPaths {
		t.Fatalf("%d units, %d paths", len(a.Units), len(a.Paths))
	}
	if a.Canonical != "" && len(a.Problems) == 0 {
		again := Analyze(a.Canonical, o)
		// What is run must be judged as what was asked.
		if len(again.Problems) > 0 && len(a.Canonical) <= maxText {
			t.Fatalf("%q: its canonical text %q has %v", text, a.Canonical, again.Problems)
		}
		if x, y := unitTexts(a), unitTexts(again); x != y && len(a.Canonical) <= maxText {
			t.Fatalf("%q: judged as %q, its canonical text as %q", text, x, y)
		}
	}
	if a.Simple && (len(a.Argv) == 0 || strings.Join(a.Argv, "\x00") == "") {
		t.Fatalf("%q is simple without words", text)
	}
	for _, q := range a.Queries() {
		if len(q.Values) == 0 {
			t.Fatalf("%q: a query without values", text)
		}
	}
}

func unitTexts(a *Analysis) string {
	var b strings.Builder
	for i := range a.Units {
		u := &a.Units[i]
		b.WriteString(u.head)
		for _, w := range u.words {
			if w.lit {
				b.WriteString(" " + w.val)
			} else {
				b.WriteString(" ?")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestInvariants(t *testing.T) {
	for _, s := range oracleSeeds(t) {
		invariants(t, s)
	}
}

func FuzzAnalyze(f *testing.F) {
	for _, s := range oracleSeeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 20000 {
			// A text that takes this long must be in the report, not a timeout.
			late := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("%q takes too long", text)) })
			defer late.Stop()
			invariants(t, text)
		}
	})
}

// quotedBack reads a normal form of one word with the parser and returns its value.
func quotedBack(t *testing.T, norm string) (string, bool) {
	file, err := syntax.NewParser().Parse(strings.NewReader("x "+norm), "")
	if err != nil || len(file.Stmts) != 1 {
		return "", false
	}
	c, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) != 2 {
		return "", false
	}
	z := newAnalyzer(&Analysis{}, Options{})
	z.src = "x " + norm
	ws := z.fields(c.Args[1])
	if len(ws) != 1 || !ws[0].known() {
		return "", false
	}
	return ws[0].val, true
}

func checkQuote(t *testing.T, s string) {
	if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
		return
	}
	got, ok := quotedBack(t, quote(s))
	if !ok || got != s {
		t.Fatalf("%q is written %s and reads back %q, %v", s, quote(s), got, ok)
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "a b", "'", `"`, `\`, "$x", "`a`", "~", "~/x", "#x", "a#b", "{a,b}", "{}", "{1..3}", ",}", "}..", "},", "a{,", "*", "[ab]", "[", "!", "é", "\u200b", "\u202e",
		"a\nb", "\t", "\x1b[0m", "a=b", "-x", "=", "&&", "(", "$'a'", "a\u0300", "\U000e0041", "\x7f"} {
		checkQuote(t, s)
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"a b", "'", "~x", "\u200b", "{a,b}"} {
		f.Add(s)
	}
	f.Fuzz(checkQuote)
}

// TestWrapperIsNotLooser: for any known wrapper, the wrapped command is judged at
// least as strictly as the command.
func TestWrapperIsNotLooser(t *testing.T) {
	wraps := []string{"env ", "env A=1 ", "nohup ", "nice ", "timeout 5 ", "setsid ", "stdbuf -oL ", "command ", "exec ", "sudo ", "doas ", "time ", "! ", "xargs ", "flock . ", "ionice ",
		"busybox ", "A=1 ", ">/dev/null ", "unshare ", "taskset 1 ", "chrt 1 ", "builtin command ", "find . -exec ", "env env ", "strace ", "watch ", "parallel ", "uv run ", "npx ", "mywrap ", "sudo -z ", "env --zz ", "xvfb-run "}
	cmds := []string{"rm -rf build", "git push origin", "git -C . push", "/bin/rm x", "bash -c 'rm x'", "git push origin +main", "kill -9 1"}
	rs := newRules(map[string]string{"*": "allow", "rm *": "deny", "git push *": "deny", "git push *--force*": "deny", "kill *": "ask"})
	for _, c := range cmds {
		plain := Analyze(c, caseOptions()).Judge(rs.decide)
		if plain.Action == policy.Allow {
			t.Fatalf("%q is allowed", c)
		}
		for _, w := range wraps {
			a := Analyze(w+c, caseOptions())
			v := a.Judge(rs.decide)
			// A wrapper that is not seen through may know less, never allow.
			if v.Action == policy.Allow {
				t.Errorf("%q is %s, %q is %s\n%s", c, plain.Action, w+c, v.Action, a.Explain(v))
			}
		}
	}
}

// TestConcurrent: analyses share tables, parsers and printers.
func TestConcurrent(t *testing.T) {
	seeds := oracleSeeds(t)[:80]
	want := make([]string, len(seeds))
	for i, s := range seeds {
		want[i] = unitTexts(Analyze(s, caseOptions()))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, s := range seeds {
				if got := unitTexts(Analyze(s, caseOptions())); got != want[i] {
					t.Errorf("%q: %q, alone %q", s, got, want[i])
				}
			}
		})
	}
	wg.Wait()
}
