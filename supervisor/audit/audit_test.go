package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/durable"
)

func newTree(t testing.TB) *registry.Tree {
	t.Helper()
	dir := t.TempDir()
	p := registry.Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Config: filepath.Join(dir, "config")}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	tree, err := registry.Create(p, registry.NewID("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func newLog(t testing.TB, tree *registry.Tree) *Log {
	t.Helper()
	l, err := Open(tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func pathOf(tree *registry.Tree) string { return filepath.Join(tree.Dir(), registry.AuditName) }

func write(t testing.TB, l *Log, rows ...Row) {
	t.Helper()
	for _, r := range rows {
		if err := l.Write(r); err != nil {
			t.Fatal(err)
		}
	}
}

var human = &Decider{Kind: "user", Via: "dialog"}

// run is what a short tree writes.
func run() []Row {
	chain := []Requester{{Session: "s-1", Agent: "pi"}, {Session: "s-2", Agent: "scout"}}
	return []Row{
		{Kind: TreeStarted},
		{Kind: ProfileSelected, Session: "s-1", Agent: "pi", Mode: "supervised", Source: "composer", Strength: "enforced", Missing: []string{"exact kill"}},
		{Kind: SessionStarted, Session: "s-1", Agent: "pi"},
		{Kind: DecisionAllowed, Session: "s-2", Chain: chain, Surface: "bash", Value: "git status", ActionKind: "shell_command", Decision: "allow", DecidedBy: &Decider{Kind: "rule", Surface: "bash", Pattern: "git *", Origin: "policy.jsonc:3:5"}, RequestKey: "perm-0", Record: "sha256:ab"},
		{Kind: ApprovalRequested, Session: "s-2", Chain: chain, Surface: "bash", Value: "git push", Decision: "ask", RequestKey: "perm-1"},
		{Kind: ApprovalResolved, Session: "s-2", Chain: chain, Surface: "bash", Value: "git push", Decision: "allow", DecidedBy: human, Proof: "terminal", RequestKey: "perm-1", Grants: []string{"network github.com"}},
		{Kind: CommandStarted, Session: "s-2", Chain: chain, Command: "c-1", Surface: "bash", Value: "git push"},
		{Kind: CommandEnded, Session: "s-2", Chain: chain, Command: "c-1", Exit: &registry.Exit{Known: true, Code: 3}},
		{Kind: ApprovalResolved, Session: "s-2", Chain: chain, Surface: "bash", Value: "rm -rf /", Decision: "deny", DecidedBy: &Decider{Kind: "forwarded", Responder: "root-1", Decision: human}, RequestKey: "perm-2"},
		{Kind: SessionEnded, Session: "s-1", Agent: "pi", Exit: &registry.Exit{Known: true, Signal: 9}},
		{Kind: TreeEnded, Reason: "its agent ended"},
	}
}

func TestStory(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	l := newLog(t, tree)
	write(t, l, run()...)
	rows, problems := Read(pathOf(tree))
	if problems != nil {
		t.Fatal(problems)
	}
	const stamp = len("2006-01-02 15:04:05.000  ")
	var got strings.Builder
	for line := range strings.Lines(Story(rows)) {
		got.WriteString(line[stamp:])
	}
	want := "tree " + tree.ID() + ` starts
pi [s-1] runs in supervised (composer), enforced, not enforced: "exact kill"
pi [s-1] starts
pi [s-1] > scout [s-2]: bash "git status" was allowed by the rule bash "git *" of policy.jsonc:3:5
pi [s-1] > scout [s-2] asks: bash "git push" (perm-1)
pi [s-1] > scout [s-2]: bash "git push" was allowed by the human (terminal) with "network github.com" (perm-1)
pi [s-1] > scout [s-2]: bash "git push" runs as c-1
pi [s-1] > scout [s-2]: c-1 ends with status 3
pi [s-1] > scout [s-2]: bash "rm -rf /" was denied by the parent root-1, which says: a human (perm-2)
pi [s-1] ends by signal 9
tree ` + tree.ID() + ` ends, because: "its agent ended"
`
	if got.String() != want {
		t.Fatalf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestRowsAreChecked(t *testing.T) {
	t.Parallel()
	l := newLog(t, newTree(t))
	deep := &Decider{Kind: "rule"}
	for range MaxForwarded {
		deep = &Decider{Kind: "forwarded", Decision: deep}
	}
	ok := Row{Kind: DecisionAllowed, Decision: "allow", DecidedBy: deep}
	write(t, l, ok)
	for name, r := range map[string]Row{
		"zero":                      {},
		"unknown kind":              {Kind: "decision_maybe"},
		"allowed that denies":       {Kind: DecisionAllowed, Decision: "deny", DecidedBy: deep},
		"allowed without a word":    {Kind: DecisionAllowed, DecidedBy: deep},
		"allowed by nobody":         {Kind: DecisionAllowed, Decision: "allow"},
		"resolved with ask":         {Kind: ApprovalResolved, Decision: "ask", DecidedBy: deep},
		"user without proof":        {Kind: ApprovalResolved, Decision: "allow", DecidedBy: human},
		"user with made-up proof":   {Kind: ApprovalResolved, Decision: "allow", DecidedBy: human, Proof: "trust me"},
		"forwarded five times":      {Kind: DecisionAllowed, Decision: "allow", DecidedBy: &Decider{Kind: "forwarded", Decision: deep}},
		"forwarded unknown":         {Kind: DecisionAllowed, Decision: "allow", DecidedBy: &Decider{Kind: "forwarded", Decision: &Decider{Kind: "oracle"}}},
		"authorizer without a name": {Kind: DecisionAllowed, Decision: "allow", DecidedBy: &Decider{Kind: "authorizer", Verdict: "allow"}},
		"unavailable without why":   {Kind: DecisionDenied, Decision: "deny", DecidedBy: &Decider{Kind: "unavailable"}},
		"profile without mode":      {Kind: ProfileSelected, Source: "composer"},
		"end without exit":          {Kind: CommandEnded},
	} {
		if err := l.Write(r); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if _, n := l.Head(); n != 1 {
		t.Errorf("%d rows, expected 1", n)
	}
}

func TestVerifyFindsEveryChange(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	l := newLog(t, tree)
	write(t, l, run()...)
	head, n := l.Head()
	l.Close()
	path := pathOf(tree)
	report, err := Verify(path, tree.ID(), head)
	if err != nil || report.Rows != int(n) || report.HeadRow != int(n) || report.Head != head {
		t.Fatalf("untouched: %+v, %v", report, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	try := func(name, text string) {
		t.Helper()
		if _, err := verify(durable.Lines(strings.NewReader(text), MaxLine), path, tree.ID(), head); !errors.Is(err, ErrTampered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range lines {
		try(fmt.Sprint("line left out ", i), strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""))
		try(fmt.Sprint("line twice ", i), strings.Join(lines[:i+1], "")+strings.TrimSuffix(lines[i], "\n")+"\n"+strings.Join(lines[i+1:], ""))
		try(fmt.Sprint("line made noise ", i), strings.Join(lines[:i], "")+"noise\n"+strings.Join(lines[i+1:], ""))
		try(fmt.Sprint("noise put in ", i), strings.Join(lines[:i], "")+"noise\n"+strings.Join(lines[i:], ""))
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		if changed[i] == '\n' || whole[i] == '\n' {
			continue
		}
		try(fmt.Sprint("bit of byte ", i), string(changed))
	}
	try("end cut off", strings.Join(lines[:len(lines)-1], ""))
	// The whole chain written anew verifies by itself, and not against the head.
	os.Remove(path)
	l = newLog(t, tree)
	forged := run()
	forged[8].Decision = "allow"
	write(t, l, forged...)
	if _, err := Verify(path, tree.ID(), ""); err != nil {
		t.Fatalf("a new chain without a head: %v", err)
	}
	if _, err := Verify(path, tree.ID(), head); !errors.Is(err, ErrTampered) {
		t.Errorf("a new chain with the old head: %v", err)
	}
	if _, err := Verify(path, "t-other", ""); !errors.Is(err, ErrTampered) {
		t.Errorf("the audit of another tree: %v", err)
	}
}

// TestFaultCrashAtEveryByte kills the writer after every byte of its rows: the rows
// before are told, the successor goes on, the chain verifies and the half line is
// owned up to. Then it kills the successor after every byte of its own first row.
func TestFaultCrashAtEveryByte(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	l := newLog(t, tree)
	write(t, l, run()[:3]...)
	l.Close()
	path := pathOf(tree)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	recover := func(text []byte, wantRows, wantTorn int) []byte {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(tree)
		if err != nil {
			t.Fatal(err)
		}
		write(t, l, Row{Kind: LimitReached, Reason: "later"})
		head, _ := l.Head()
		l.Close()
		report, err := Verify(path, tree.ID(), head)
		if err != nil || report.Rows != wantRows || report.Torn != wantTorn {
			t.Fatalf("after %q: %+v, %v, expected %d rows, %d torn", text, report, err, wantRows, wantTorn)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	for cut := range len(whole) + 1 {
		text := whole[:cut]
		rows, half := bytes.Count(text, []byte("\n")), 0
		if cut > 0 && cut < len(whole) && text[cut-1] != '\n' {
			if whole[cut] == '\n' {
				rows++ // all of it but its end
			} else {
				half = 1
			}
		}
		if report, err := func() (Report, error) {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return Verify(path, tree.ID(), "")
		}(); err != nil || report.Rows != rows || report.Torn != half {
			t.Fatalf("cut at %d, before anybody takes over: %+v, %v", cut, report, err)
		}
		if cut%5 == 0 { // each costs three fsyncs
			recover(text, rows+half+1, half)
		}
	}
	half := whole[:len(whole)-30]
	after := recover(half, 4, 1)
	second := len(half) + 1 + bytes.IndexByte(after[len(half)+1:], '\n')
	for cut := len(half); cut < second; cut += 3 {
		torn := 1
		if cut > len(half)+1 {
			torn = 2
		}
		recover(after[:cut], 4, torn)
	}
}

func TestHostileValues(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	l := newLog(t, tree)
	hostile := "::set-env name=x::\n##[error]\r\x1b[2J\x9b31m\u202egnp.exe\u2028<script>|`*_&\x00\x7f\ufeff\U000e0041é\xff"
	big := map[string]any{}
	for n := range 5000 {
		big[fmt.Sprint("member ", n)] = strings.Repeat("\x00", 5000)
	}
	nested := any("deep")
	for range 200 {
		nested = []any{nested, "x"}
	}
	write(t, l,
		Row{Kind: ApprovalRequested, Surface: hostile, Value: hostile, Reason: hostile, Agent: hostile, RequestKey: hostile, Chain: []Requester{{Agent: hostile, Claimed: true}}, Grants: []string{hostile}},
		Row{Kind: DecisionDenied, Decision: "deny", Mode: hostile, DecidedBy: &Decider{Kind: "rule", Surface: hostile, Pattern: hostile, Origin: hostile}},
		Row{Kind: LimitReached, Details: big, Reason: strings.Repeat("\U0001f600", 100_000), Missing: make([]string, 70_000)},
		Row{Kind: LimitReached, Details: map[string]any{"nested": nested, "number": jsontext.Value(strings.Repeat("9", 10_000))}},
	)
	text, err := os.ReadFile(pathOf(tree))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if problems := WriteJSON(&out, pathOf(tree)); problems != nil || !bytes.Equal(out.Bytes(), text) {
		t.Fatalf("JSON is not the file as it is: %v", problems)
	}
	rows, problems := Read(pathOf(tree))
	if problems != nil || len(rows) != 4 {
		t.Fatal(len(rows), problems)
	}
	if rows[0].Value != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("the value came back as %q", rows[0].Value)
	}
	for format, all := range map[string]string{"json": string(text), "story": Story(rows)} {
		if !utf8.ValidString(all) {
			t.Errorf("%s: not UTF-8", format)
		}
		for n, line := range strings.Split(strings.TrimSuffix(all, "\n"), "\n") {
			if n >= 4 || len(line) >= MaxLine || strings.HasPrefix(line, "::") || strings.HasPrefix(line, "##[") {
				t.Errorf("%s: line %d is %.80q (%d bytes)", format, n, line, len(line))
			}
			for _, r := range line {
				if !unicode.IsPrint(r) {
					t.Errorf("%s: line %d holds a raw %U", format, n, r)
				}
			}
		}
	}
	if _, err := Verify(pathOf(tree), tree.ID(), ""); err != nil {
		t.Error(err)
	}
}

func TestSecretsAndWidth(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	l := newLog(t, tree)
	const secret = "hunter2-hunter2"
	details := map[string]any{}
	names := []string{"Authorization", "api_key", "API-Key", "apiKey", "ANTHROPIC_API_KEY", "client.secret", "Secrets", "x-token", "passWord", "PASSWD", "credential", "Set-Cookie", "private key"}
	for _, name := range names {
		details[name] = secret
	}
	details["headers"] = []any{map[string]any{"cookie": []any{secret, map[string]any{"a": secret}}, "plain": "kept-1"}}
	details["env"] = map[string]any{"token": nil, "PATH": "kept-2"}
	write(t, l, Row{Kind: LimitReached, Details: details, Value: strings.Repeat("é", 999) + "ab", Reason: strings.Repeat("é", 1001), Session: strings.Repeat("é", 1000)})
	rows, problems := Read(pathOf(tree))
	if problems != nil {
		t.Fatal(problems)
	}
	text, _ := os.ReadFile(pathOf(tree))
	if strings.Contains(string(text), "hunter2") || strings.Count(string(text), `"[redacted]"`) != len(names)+1 {
		t.Errorf("secrets: %s", text)
	}
	if !strings.Contains(string(text), "kept-1") || !strings.Contains(string(text), "kept-2") || !strings.Contains(string(text), `"token":null`) {
		t.Errorf("too much is gone: %s", text)
	}
	if rows[0].Value != strings.Repeat("é", 999)+"a…" || rows[0].Reason != strings.Repeat("é", 1000)+"…" || rows[0].Session != strings.Repeat("é", 1000) {
		t.Errorf("widths: %d, %d, %d", utf8.RuneCountInString(rows[0].Value), utf8.RuneCountInString(rows[0].Reason), utf8.RuneCountInString(rows[0].Session))
	}
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(path string) error{
		"link":           func(path string) error { return os.Symlink("/etc/passwd", path) },
		"directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"world-writable": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
		"pipe":           mkfifo,
	} {
		tree := newTree(t)
		if err := plant(pathOf(tree)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(tree); !errors.Is(err, durable.ErrNotOurs) {
			t.Errorf("%s: Open gives %v", name, err)
		}
		if _, problems := Read(pathOf(tree)); len(problems) != 1 || !errors.Is(problems[0], durable.ErrNotOurs) {
			t.Errorf("%s: Read gives %v", name, problems)
		}
		if _, err := Verify(pathOf(tree), tree.ID(), ""); !errors.Is(err, durable.ErrNotOurs) {
			t.Errorf("%s: Verify gives %v", name, err)
		}
	}
	tree := newTree(t)
	tree.Close()
	if _, err := Open(tree); !errors.Is(err, registry.ErrReadOnly) {
		t.Errorf("the audit of a tree that is not locked: %v", err)
	}
}

func TestConcurrentRowsMakeOneChain(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	l := newLog(t, tree)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 50 {
				write(t, l, Row{Kind: LimitReached, Reason: fmt.Sprint(n)})
			}
		})
	}
	all.Wait()
	head, n := l.Head()
	if report, err := Verify(pathOf(tree), tree.ID(), head); err != nil || report.Rows != 400 || n != 400 {
		t.Fatal(report, n, err)
	}
}

func TestPrintableKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := printable(text)
		var back string
		if err := json.Unmarshal(shown, &back); err != nil || back != s {
			t.Fatalf("%q became %q: %v", s, back, err)
		}
		for _, r := range string(shown) {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds a raw %U", shown, r)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"seq":1,"time":"2026-01-02T03:04:05Z","prev":"","event":"tree_started","cached":false}` + "\n"))
	f.Add([]byte("\x00\n{}\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := durable.Lines(bytes.NewReader(text), MaxLine)
		rows, _ := read(all, "audit")
		for n, line := range strings.Split(Story(rows), "\n") {
			for _, r := range line {
				if !unicode.IsPrint(r) {
					t.Fatalf("line %d holds a raw %U", n, r)
				}
			}
			if n > len(rows) {
				t.Fatalf("%d rows tell more than as many lines", len(rows))
			}
		}
		all = durable.Lines(bytes.NewReader(text), MaxLine)
		if _, err := verify(all, "audit", "t-1", strings.Repeat("x", 64)); !errors.Is(err, ErrTampered) {
			t.Fatalf("a head that no line has was found: %v", err)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	l := newLog(b, newTree(b))
	row := run()[3]
	for b.Loop() {
		if err := l.Write(row); err != nil {
			b.Fatal(err)
		}
	}
}
