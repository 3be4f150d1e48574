package shell

import (
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
)

func benchJudge(b *testing.B, text string) {
	rs := newRules(map[string]string{"*": "ask", "git *": "allow", "npm *": "allow", "grep *": "allow", "rm *": "deny", "cd *": "allow", "head *": "allow"})
	o := everydayOptions()
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		a := Analyze(text, o)
		a.Judge(rs.decide)
	}
}

func BenchmarkSimple(b *testing.B) { benchJudge(b, "git status --short") }
func BenchmarkTypical(b *testing.B) {
	benchJudge(b, `cd web && npm test -- --run 2>&1 | grep -v "^ok" | head -50`)
}
func BenchmarkCommit(b *testing.B) {
	benchJudge(b, "git add -A && git commit -m \"$(cat <<'EOF'\nfeat: add the parser\n\nIt reads lines.\nEOF\n)\"")
}

// script is an ordinary script of about n bytes.
func script(n int) string {
	piece := "for f in src/*.go; do\n  if grep -q LATER \"$f\"; then\n    echo \"$f: $(grep -c LATER \"$f\")\" >> out/later.txt\n  fi\ndone\nnpm run build --if-present && git diff --stat | head -20\n"
	return strings.Repeat(piece, n/len(piece))
}

func BenchmarkScript4K(b *testing.B) { benchJudge(b, script(4<<10)) }

// worst are texts within the limits that cost most.
func worst() map[string]string {
	return map[string]string{
		"script":       script(maxText - 100),
		"commands":     strings.Repeat("a;", maxUnits-1),
		"too many":     strings.Repeat("a;", maxText/2-1),
		"words":        "ls " + strings.Repeat("a ", 9000),
		"unknown":      "xyz " + strings.Repeat("abc ", 9000),
		"many unknown": strings.Repeat("xyz a b c d e f g h i j k l m n o p q\n", 1500),
		"parens":       strings.Repeat("$(", 99) + strings.Repeat(")", 99),
		"hidden depth": strings.Repeat(strings.Repeat("$(", 90)+"'"+strings.Repeat(")", 90)+"'", 100),
		"double":       strings.Repeat("((", 250),
		"quotes":       strings.Repeat(`"$(`, 90) + strings.Repeat(`)"`, 90),
		"ifs":          strings.Repeat("if ", maxText/3-1),
		"pipes":        strings.Repeat("x|", 1900) + "x",
		"and":          strings.Repeat("x&&", 1900) + "x",
		"elif":         "if a; then b; " + strings.Repeat("elif a; then b; ", 900) + "fi",
		"minus":        "echo $((" + strings.Repeat("- ", 30000) + "x))",
		"subscript":    strings.Repeat("a[", 90),
		"braces":       "echo " + strings.Repeat("{a,b}", 12000),
		"brace words":  "echo " + strings.Repeat("{a,b,c,d}{e,f} ", 4000),
		"ticks":        strings.Repeat("`", 999),
		"heredocs":     strings.Repeat("<<E ", 8000) + "\n" + strings.Repeat("E\n", 8000),
		"comments":     strings.Repeat("# a\\\n", 10000),
		"assigns":      strings.Repeat("a=b ", 16000),
		"vars":         strings.Repeat("a=$a;", 9000),
		"eval nest":    strings.Repeat("eval ", 5000) + "ls",
		"wrappers":     strings.Repeat("env ", 10000) + "ls",
		"xargs":        strings.Repeat("xargs ", 10000) + "ls",
		"paths":        "cat " + strings.Repeat("a/b/c ", 9000),
		"cd":           strings.Repeat("cd a || cd b;", 1900),
		"unclosed":     strings.Repeat("rm x;", 10000) + "'",
		"extglob":      strings.Repeat("@(a|b) ", 9000),
		"functions":    strings.Repeat("f(){ ls;};", 1900),
		"nested bash":  nestedBash(9),
		"find":         "find . " + strings.Repeat("-exec ls ; ", 3000),
		"find deep":    "find . " + strings.Repeat("-exec find . ", 3000),
		"sed":          "sed '" + strings.Repeat("s/a/b/;", 9000) + "'",
		"awk":          "awk '" + strings.Repeat("{print $1}", 6000) + "'",
		"case":         "case x in " + strings.Repeat("a) b;; ", 1900) + "esac",
		"time":         strings.Repeat("time ", 13000) + "ls",
		"not":          "[[ " + strings.Repeat("! ", 30000) + "x ]]",
		"groups":       strings.Repeat("{ ", 99) + "x" + strings.Repeat(";}", 99),
		"uv":           strings.Repeat("uv run ", 9000) + "ls",
		"npm unknown":  "npm " + strings.Repeat("--zzz a ", 8000),
		"sudo":         strings.Repeat("sudo -z a ", 1900),
	}
}

func nestedBash(n int) string {
	s := "ls"
	for range n {
		s = "bash -c " + quote(s)
	}
	return s
}

// TestWorstInput: whatever the text is, the answer comes in bounded time. The
// bound is of processor time, and wide because the race detector costs several times
// that; without the limits these take seconds to minutes.
func TestWorstInput(t *testing.T) {
	rs := newRules(map[string]string{"*": "allow", "rm *": "deny"})
	for name, text := range worst() {
		start := spent(t)
		a := Analyze(text, everydayOptions())
		v := a.Judge(rs.decide)
		if d := spent(t) - start; d > 5*time.Second {
			t.Errorf("%s: %d bytes took %v", name, len(text), d)
		} else if d > 300*time.Millisecond {
			t.Logf("%s: %d bytes took %v: %s", name, len(text), d.Round(time.Millisecond), v.Action)
		}
	}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("(", 200000) + "x" + strings.Repeat(")", 200000),
		"dollars":  "echo " + strings.Repeat("$(", 400000),
		"60 kB":    strings.Repeat("$(", 20000) + "x" + strings.Repeat(")", 20000),
		"too long": strings.Repeat("true; ", 20000) + "rm -rf build",
		"rm first": "rm -rf build; " + strings.Repeat("true; ", 20000),
	} {
		start := spent(t)
		a := Analyze(text, everydayOptions())
		if v := a.Judge(rs.decide); v.Action != policy.Deny || v.Sentinel != kindTooComplex && name != "rm first" {
			t.Errorf("%s: %s %s", name, v.Action, v.Sentinel)
		}
		if d := spent(t) - start; d > 3*time.Second {
			t.Errorf("%s took %v", name, d)
		}
	}
}

func BenchmarkWorst(b *testing.B) {
	for name, text := range worst() {
		b.Run(name, func(b *testing.B) { benchJudge(b, text) })
	}
}
