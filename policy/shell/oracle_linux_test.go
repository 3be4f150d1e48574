package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
)

// stubs log what ran and do nothing; real wrappers run what they are given.
var (
	stubNames = strings.Fields("rm git ls cat make npm curl python3 node sed awk tar sort grep jq head wc touch cp mv mkdir tee go cargo docker ssh perl cmp date uniq tr cut diff sudo doas which sleep yes nosuchstub")
	realNames = strings.Fields("env xargs find timeout nice nohup setsid stdbuf bash sh dash")
)

// oracle runs texts in a real bash whose search path holds only stubs.
type oracle struct {
	dir, bin, log, bash string
	dialect             Dialect
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("this test compares with bash: %v", err)
	}
	root := t.TempDir()
	o := &oracle{dir: filepath.Join(root, "a", "b", "c"), bin: filepath.Join(root, "bin"), log: filepath.Join(root, "log"), bash: bash}
	for _, d := range []string{o.dir, o.bin, filepath.Join(root, "home"), filepath.Join(o.dir, "build")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	script := "#!" + sh + "\nn=${0##*/}\nfor a; do n=\"$n\x1f$a\"; done\nprintf '%s\\036' \"$n\" >>" + o.log + "\n"
	write := func(name, body string) {
		if err := os.WriteFile(filepath.Join(o.bin, name), []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range stubNames {
		write(n, script)
	}
	write("mywrap", script+`[ $# -gt 0 ] && exec "$@"`+"\n")
	for _, n := range realNames {
		if p, err := exec.LookPath(n); err == nil {
			if err := os.Symlink(p, filepath.Join(o.bin, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

// tooRisky keeps texts away from a real bash that could leave the scratch
// directory: any path that is not relative, any signal.
func tooRisky(text string) bool {
	s := text
	for _, ok := range []string{"/dev/null", "/dev/stdin", "/dev/fd/3", "./"} {
		s = strings.ReplaceAll(s, ok, "")
	}
	if strings.ContainsAny(s, "/") || strings.Contains(text, `\057`) || strings.Contains(text, `\x2f`) {
		return true
	}
	low := strings.ToLower(strings.NewReplacer("'", "", `"`, "", `\`, "", "\n", "").Replace(text))
	for _, bad := range []string{"kill", "ulimit", "-delete", "fprint", "shutdown", "reboot", "disown", "enable", "dev/tcp", "command -p", "command-p"} {
		if strings.Contains(low, bad) {
			return true
		}
	}
	for i := 0; i+1 < len(text); i++ {
		if text[i] == '~' && text[i+1] != ' ' && text[i+1] != ';' {
			return true
		}
	}
	return strings.Contains(text, "\x00")
}

// run returns the argument vectors of the stubs that ran.
func (o *oracle) run(text string) ([][]string, error) {
	os.Remove(o.log)
	if !strings.HasSuffix(text, `\`) {
		text += "\nwait\n"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	prelude := "ulimit -t 1\n"
	if o.dialect == Bash {
		prelude = "enable -n kill suspend disown; ulimit -t 1 -f 4000\n"
	}
	cmd := exec.CommandContext(ctx, o.bash, append(Invocation(o.dialect)[1:], prelude+text)...)
	cmd.Dir = o.dir
	cmd.Env = []string{"PATH=" + o.bin, "HOME=" + filepath.Join(filepath.Dir(o.bin), "home"), "FUNCNEST=12", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stderr = &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	raw, err := os.ReadFile(o.log)
	if err != nil {
		return nil, nil
	}
	var all [][]string
	for rec := range strings.SplitSeq(string(raw), "\x1e") {
		if rec != "" {
			all = append(all, strings.Split(rec, "\x1f"))
		}
	}
	return all, nil
}

// covered reports whether a unit says that argv may run: same program, and what
// the unit knows of its words stands there in that order.
func covered(a *Analysis, argv []string) bool {
	for i := range a.Units {
		u := &a.Units[i]
		// A program that is not known may run its operands: that is its rule's
		// business, and the unit shows them.
		if u.head == "mywrap" {
			return true
		}
		// A stub that is sourced calls itself by the name of the shell.
		if (u.head == "." || u.head == "source") && (argv[0] == "bash" || argv[0] == "sh" || argv[0] == "dash") {
			return true
		}
		// A shell looks for its script on the search path, and the stub calls
		// itself by that name.
		if slices.ContainsFunc(u.Scripts, func(p string) bool { return base(p) == argv[0] }) {
			return true
		}
		if u.head != argv[0] {
			continue
		}
		rest := argv[1:]
		ok := true
		for _, w := range u.words[1:] {
			if !w.known() {
				continue
			}
			j := slices.Index(rest, w.val)
			if j < 0 {
				ok = false
				break
			}
			rest = rest[j+1:]
		}
		if ok {
			return true
		}
	}
	return false
}

func oracleOptions(o *oracle) Options {
	return Options{Dialect: o.dialect, Dir: o.dir, Home: filepath.Join(filepath.Dir(o.bin), "home"), Workspace: o.dir}
}

// check compares one text with bash. It returns "" or what is wrong, and
// whether bash was asked.
func (o *oracle) check(text string) (problem string, ran bool) {
	a := Analyze(text, oracleOptions(o))
	rs := newRules(map[string]string{"*": "allow"})
	v := a.Judge(rs.decide)
	if v.Action != policy.Allow {
		return "", false
	}
	if tooRisky(text) || tooRisky(a.Canonical) {
		return "", false
	}
	if a.Canonical == "" {
		return "allowed without a canonical text", false
	}
	got, err := o.run(text)
	if err != nil {
		return "", true
	}
	for _, argv := range got {
		if !covered(a, argv) {
			return fmt.Sprintf("bash ran %q, which no unit says\n%s", argv, a.Explain(v)), true
		}
	}
	// What runs in the background or behind a closed pipe may or may not get
	// that far: only a difference that stays is one.
	for try := 0; ; try++ {
		canon, err := o.run(a.Canonical)
		if err != nil {
			return "", true
		}
		for _, argv := range canon {
			if !covered(a, argv) {
				return fmt.Sprintf("the canonical text %q ran %q, which no unit says\n%s", a.Canonical, argv, a.Explain(v)), true
			}
		}
		x, y := flat(got), flat(canon)
		if slices.Equal(x, y) {
			return "", true
		}
		if try == 4 {
			if len(x) < len(y) {
				return "", true // bash refuses a part of the original as it stands
			}
			if strings.Contains(strings.ReplaceAll(text, "&&", ""), "&") {
				// What runs in the background of a subshell is killed with this
				// run, sooner or later; what did run is covered, both times.
				return "", true
			}
			return fmt.Sprintf("the text ran %q, its canonical text %q ran %q", x, a.Canonical, y), true
		}
		if got, err = o.run(text); err != nil {
			return "", true
		}
	}
}

var digits = regexp.MustCompile(`[0-9]+`)

func flat(runs [][]string) []string {
	var out []string
	for _, r := range runs {
		// Process ids, line numbers and descriptors differ from run to run.
		out = append(out, digits.ReplaceAllString(strings.Join(r, " "), "0"))
	}
	slices.Sort(out)
	return out
}

// generator makes commands from pieces, so that most of them are valid.
type generator struct{ r *rand.Rand }

func (g *generator) pick(list []string) string { return list[g.r.Intn(len(list))] }

var genPrograms = strings.Fields("rm git ls cat make npm grep head wc touch cp sort jq sed mywrap echo true printf : test")

func (g *generator) word(d int) string {
	switch g.r.Intn(22) {
	case 0:
		return "'" + g.pick([]string{"a b", "x;rm y", "$(rm q)", "#", "a\nb", "{}", "&&"}) + "'"
	case 1:
		return `"` + g.pick([]string{"a b", "$x", "${x:-y}", `\"`, `\$x`, "a`b"[:1], "'"}) + `"`
	case 2:
		if d > 0 {
			return "$(" + g.list(d-1) + ")"
		}
	case 3:
		if d > 0 {
			return "\"a $(" + g.list(d-1) + ") b\""
		}
	case 4:
		if d > 0 {
			return "`" + strings.ReplaceAll(strings.ReplaceAll(g.simple(0), "`", ""), `\`, "") + "`"
		}
	case 5:
		return g.pick([]string{"$x", "${x}", "${#x}", "$#", "$?", "${x:-d}", "${x%y}", "${x/a/b}", "$IFS", "a${IFS}b", "${x:0:1}", "$((1+2))", "$[1+1]", "${!x}", "$'a\\tb'", "$\"q\""})
	case 6:
		return g.pick([]string{"{a,b}", "a{1..3}", "{x}", "{a,b}{c,d}", "a{,b}", "{1..2}x"})
	case 7:
		return g.pick([]string{"*", "b*", "?", "[ab]", "b[u]ild", `\*`, `a\ b`, `\#x`, `r\m`, "a#b", "~", "-", "--", "!"})
	case 8:
		if d > 0 {
			return "<(" + g.list(d-1) + ")"
		}
	case 9:
		return g.pick([]string{"a=b", "--x=y", "-rf", "-v", "-n", "@(a|b)", "é", "a\\\nb"})
	}
	return g.pick([]string{"build", "x", "a.txt", "origin", "push", "status", "-a", "1", "foo", "README.md"})
}

func (g *generator) simple(d int) string {
	var b strings.Builder
	if g.r.Intn(8) == 0 {
		b.WriteString(g.pick([]string{"A=1 ", "A=1 B=2 ", "x=rm ", "A= ", "a[0]=1 ", "A+=x "}))
	}
	if g.r.Intn(12) == 0 {
		b.WriteString(g.pick([]string{">o1 ", "2>o2 ", "<a.txt ", ">>o1 ", "&>o1 ", "{fd}>o1 "}))
	}
	switch g.r.Intn(14) {
	case 0:
		b.WriteString(g.pick([]string{"env ", "env -u X ", "env A=1 ", "nice ", "nice -n 5 ", "nice -5 ", "timeout 1 ", "timeout -s KILL 1 ", "nohup ", "setsid -w ", "stdbuf -oL ", "command ", "builtin ", "exec ", "time ", "time -p ", "time -- ", "! ", "sudo ", "env -i ", "command -- ", "exec -a z "}))
	case 1:
		b.WriteString(g.pick([]string{"bash -c ", "sh -c ", "eval ", "bash -ec ", "bash -c -- "}))
		b.WriteString("'" + strings.ReplaceAll(g.list(max(0, d-1)), "'", `"`) + "'")
		return b.String()
	case 2:
		b.WriteString("find . -maxdepth 1 -name build -exec " + g.simple0() + " {} " + g.pick([]string{`\;`, "+", "';'"}))
		return b.String()
	case 3:
		b.WriteString("xargs " + g.pick([]string{"", "-n 1 ", "-I{} ", "-r "}) + g.simple0())
		return b.String()
	}
	b.WriteString(g.pick(genPrograms))
	for range g.r.Intn(4) {
		b.WriteString(" " + g.word(d))
	}
	switch g.r.Intn(10) {
	case 0:
		b.WriteString(g.pick([]string{" >o1", " 2>&1", " >/dev/null", " 2>/dev/null", " <<<x", " <a.txt", " >>o1 2>&1", " 3>o3", " >&2", " 2>&-"}))
	case 1:
		b.WriteString(" <<" + g.pick([]string{"E\nx\nE\n", "'E'\n$(rm q)\nE\n", "-E\n\tx\n\tE\n", "E\na $(ls y) b\nE\n", "\\E\n`rm z`\nE\n"}))
	}
	return b.String()
}

func (g *generator) simple0() string {
	return g.pick([]string{"rm", "ls", "cat", "git"}) + " " + g.pick([]string{"-rf", "-a", "status", "x"})
}

func (g *generator) list(d int) string {
	s := g.compound(d)
	for range g.r.Intn(3) {
		sep := g.pick([]string{"; ", " && ", " || ", " | ", "\n", " & ", " |& ", ";"})
		if strings.HasSuffix(s, "\n") {
			sep = ""
		}
		s += sep + g.compound(d)
	}
	return s
}

func (g *generator) compound(d int) string {
	if d <= 0 {
		return g.simple(0)
	}
	switch g.r.Intn(20) {
	case 0:
		return "(" + g.list(d-1) + ")"
	case 1:
		return "{ " + g.list(d-1) + "\n}"
	case 2:
		return "if " + g.simple(0) + "\nthen " + g.list(d-1) + "\nelse " + g.simple(0) + "\nfi"
	case 3:
		return "for i in " + g.word(0) + " b; do " + g.list(d-1) + "\ndone"
	case 4:
		return "while false; do " + g.list(d-1) + "\ndone"
	case 5:
		return "until true; do " + g.list(d-1) + "\ndone"
	case 6:
		return "case " + g.word(d-1) + " in a|b) " + g.list(d-1) + "\n;; *) " + g.simple(0) + "\n;; esac"
	case 7:
		return "f() { " + g.list(d-1) + "\n}\nf " + g.word(0)
	case 8:
		return "[[ " + g.pick([]string{"a == b", "-z $x", "a =~ b", "1 -eq 1", "! -f x", "( a = a )", "$x == a*"}) + " ]] && " + g.simple(d-1)
	case 9:
		return "((1+1)); " + g.simple(d-1)
	case 10:
		return "trap '" + strings.ReplaceAll(g.simple(0), "'", `"`) + "' EXIT"
	case 11:
		return "x=" + g.word(d-1) + "; " + g.simple(d-1)
	case 12:
		return "for ((i=0;i<2;i++)); do " + g.simple(d-1) + "\ndone"
	case 13:
		return "coproc " + g.simple(0)
	case 14:
		return "export X=" + g.word(0) + "; " + g.simple(d-1)
	case 15:
		return "a=(1 " + g.word(0) + "); " + g.simple(d-1)
	}
	return g.simple(d)
}

var mutations = []string{";", "|", "&&", "||", "&", "\n", " ", "'", `"`, "`", "$(", ")", "(", "{", "}", "{ ", " }", "\\", "\\\n", "#", " #", " # x\\\n", "<<E\n", "\nE\n", "${x:-", "$", "!", "! ", "time ", "((", "))", "$((", "[[ ", " ]]", "<", ">", "<(", ">(", "<<<", "=", "[", "]", "*", "rm -rf build", "; rm x", "$(rm x)", "`rm x`", "$'", "\\'", "coproc ", "function ", "() ", "in ", "do ", "done ", "fi", "then ", "esac", ";;", ";&", "~", "-", "--", "+=", "@(", "|&", "&>", "2>", "<<-", "case x in ", "if ", "\t", "é", "eval ", "env ", "\"$@\"", "$IFS", "{a,b}", "${", "select x in ", "-c "}

func (g *generator) mutate(s string) string {
	for range 1 + g.r.Intn(3) {
		i := g.r.Intn(len(s) + 1)
		switch g.r.Intn(5) {
		case 0, 1, 2:
			s = s[:i] + g.pick(mutations) + s[i:]
		case 3:
			j := min(len(s), i+1+g.r.Intn(3))
			s = s[:i] + s[j:]
		case 4:
			j := min(len(s), i+g.r.Intn(12))
			s = s + g.pick([]string{" ", "\n", ";"}) + s[i:j]
		}
	}
	if len(s) > 2000 {
		s = s[:2000]
	}
	return s
}

// TestOracle: whatever bash runs is in the enumeration or the verdict is no
// allow, and the canonical text of what is allowed runs the same programs.
func TestOracle(t *testing.T) {
	compare(t, newOracle(t), 6000, 6*time.Second)
}

// TestOracleSh is the same for sh, which has fewer spellings and other rules.
func TestOracleSh(t *testing.T) {
	o := newOracle(t)
	o.dialect = POSIX
	sh, err := exec.LookPath("dash")
	if err != nil {
		if sh, err = exec.LookPath("sh"); err != nil {
			t.Fatal(err)
		}
	}
	o.bash = sh
	compare(t, o, 1500, 2*time.Second)
}

func compare(t *testing.T, o *oracle, want int, most time.Duration) {
	seeds := oracleSeeds(t)
	deadline := time.Now().Add(most)
	seed := time.Now().UnixNano()
	if s := os.Getenv("PIONEER_TEST_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	if s := os.Getenv("PIONEER_TEST_ORACLE"); s != "" {
		fmt.Sscan(s, &want)
		deadline = time.Now().Add(time.Hour)
	}
	g := &generator{r: rand.New(rand.NewSource(seed))}
	asked, looked, bad := 0, 0, 0
	try := func(text string) {
		looked++
		problem, ran := o.check(text)
		if ran {
			asked++
		}
		if problem != "" {
			bad++
			if bad < 10 {
				t.Errorf("seed %d: %q: %s", seed, text, problem)
			}
		}
	}
	for looked < want && (looked < 200 || time.Now().Before(deadline)) {
		switch looked % 3 {
		case 0:
			try(g.list(3))
		case 1:
			try(g.mutate(g.pick(seeds)))
		default:
			try(g.pick(seeds))
		}
	}
	t.Logf("%d texts judged, %d of them allowed and compared with %s (seed %d)", looked, asked, o.bash, seed)
	if asked < 30 {
		t.Errorf("only %d texts were compared", asked)
	}
}

// TestOracleSeesWhatRuns is the control: a text with an unlisted program is
// noticed.
func TestOracleSeesWhatRuns(t *testing.T) {
	o := newOracle(t)
	got, err := o.run("ls a; x=$(rm -rf b)")
	if err != nil || len(got) != 2 {
		t.Fatalf("ran %q, %v", got, err)
	}
	a := Analyze("ls a", oracleOptions(o))
	if !covered(a, got[0]) || covered(a, got[1]) {
		t.Fatalf("%q should be covered and %q not", got[0], got[1])
	}
}

// FuzzOracle looks for texts that bash reads in another way:
//
//	go test -run xxx -fuzz FuzzOracle -parallel 1 ./policy/shell
func FuzzOracle(f *testing.F) {
	o := newOracle(f)
	for i, s := range oracleSeeds(f) {
		if i%12 == 0 {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		if problem, _ := o.check(text); problem != "" {
			t.Fatalf("%q: %s", text, problem)
		}
	})
}
