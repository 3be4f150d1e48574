package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/integration/pi"
	"github.com/getpioneer/pioneer-super/integration/product"
	"github.com/getpioneer/pioneer-super/integration/screen"
	"github.com/getpioneer/pioneer-super/integration/testenv"
)

// patience bounds how long a real agent may take for one step on a machine that
// has other work to do.
const patience = 3 * time.Minute

// A bench is a lab whose Pi runs its shell tool with our binary, and a place for
// the tree's own files.
type bench struct {
	*pi.Lab
	binary, state, policy string
}

// newBench makes a bench. permission is what Pi's own extension is told, rules
// what the tree's policy file says.
func newBench(t *testing.T, model *pi.Model, permission map[string]any, rules string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{binary: product.Binary(t), state: filepath.Join(dir, "state"), policy: filepath.Join(dir, "policy.jsonc")}
	shell := filepath.Join(dir, "links", "bash")
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(shell), 0o700),
		os.Symlink(b.binary, shell),
		os.WriteFile(b.policy, []byte(`{"permission": `+rules+`}`), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.story(t)
	b.Lab = pi.NewLab(t, model, pi.Options{Dir: dir, ShellPath: shell, Permission: permission})
	return b
}

// answer presses a key until the dialog is gone: a key that comes too early after
// a dialog was drawn is not taken for an answer to it.
func answer(t *testing.T, s *screen.Screen, key, dialog string) {
	t.Helper()
	pi.Await(t, patience, "an answer to "+dialog, func() bool {
		if !strings.Contains(s.Text(), dialog) {
			return true
		}
		s.Type(t, key)
		time.Sleep(2 * time.Second)
		return false
	})
}

// story is what `log` tells of the tree, for a test that failed.
func (b *bench) story(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		cmd := exec.Command(b.binary, "log")
		cmd.Env = b.env()
		out, err := cmd.CombinedOutput()
		t.Logf("the story of the tree (%v):\n%s", err, out)
	})
}

// env is the environment of the operator who starts the tree.
func (b *bench) env(extra ...string) []string {
	return b.Env(append([]string{"PIONEER_SUPER_HOME=" + b.state}, extra...)...)
}

// spawn is the command line that starts a tree.
func (b *bench) spawn(flags []string, argv ...string) []string {
	return slices.Concat([]string{b.binary, "spawn", "--policy", b.policy}, flags, []string{"--"}, argv)
}

// audit returns the rows of the one tree that ran on this bench.
func (b *bench) audit(t *testing.T) []map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.state, "trees", "*", "audit.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("one audit is expected, not %q (%v)", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	for line := range strings.Lines(string(text)) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v in %q", files[0], err, line)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestRealPiAnsweredByPolicy: a real Pi, without a user, asks for each command.
// The policy allows one, denies one, and leaves one to a human, whom nobody is.
func TestRealPiAnsweredByPolicy(t *testing.T) {
	testenv.Need(t, "landlock", "seccomp", "bash")
	model := pi.StartModel(t)
	b := newBench(t, model, nil, `{"bash": {"*": "ask", "printf *": "allow", "rm *": "deny"}}`)
	script := model.Script(pi.Bash("printf '%s-%s' made here > made"), pi.Bash("rm -rf made"), pi.Bash("id -u"))
	p := b.Start(t, b.env(), b.spawn([]string{"--mode", "auto_accept_edits", "--headless"}, b.Print(script.Prompt())...)...)
	if status := p.Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	results := script.Results(t, time.Second)
	if len(results) != 3 {
		t.Fatalf("results %q", results)
	}
	if text, err := os.ReadFile(filepath.Join(b.Work, "made")); err != nil || string(text) != "made-here" {
		t.Errorf("the allowed command left %q, %v; the model was told %q", text, err, results[0])
	}
	if !strings.Contains(results[1], "policy.jsonc") {
		t.Errorf("a denial by rule does not name the rule's place: %q", results[1])
	}
	if !strings.Contains(results[2], "nobody") && !strings.Contains(results[2], "no one") {
		t.Errorf("a denial for want of a human does not say so: %q", results[2])
	}
}

// TestRealPiAnsweredByHuman: the same Pi, its ask on the terminal of the tree.
// One key answers it, and the command then runs without a second question.
func TestRealPiAnsweredByHuman(t *testing.T) {
	testenv.Need(t, "landlock", "seccomp", "bash", "pty")
	model := pi.StartModel(t)
	b := newBench(t, model, nil, `{"bash": {"*": "ask"}}`)
	script := model.Script(pi.Bash("printf once > once; printf twice > twice"), pi.Bash("touch never"))
	c := screen.Start(t, screen.Options{Dir: b.Work, Env: b.env(), Columns: 130, Rows: 50},
		b.spawn([]string{"--mode", "auto_accept_edits"}, b.Print(script.Prompt())...)...)
	c.Shows(t, patience, "printf once >once", "printf twice >twice")
	if _, err := os.Stat(filepath.Join(b.Work, "once")); err == nil {
		t.Error("the command ran before it was allowed")
	}
	answer(t, c, "y", "printf once >once")
	c.Shows(t, patience, "touch never")
	answer(t, c, "n", "touch never")
	if status := c.Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	results := script.Results(t, time.Second)
	for _, name := range []string{"once", "twice"} {
		if text, err := os.ReadFile(filepath.Join(b.Work, name)); err != nil || string(text) != name {
			t.Errorf("%s: %q, %v; the model was told %q", name, text, err, results)
		}
	}
	if _, err := os.Stat(filepath.Join(b.Work, "never")); err == nil {
		t.Error("the denied command ran")
	}
	asked := 0
	for _, row := range b.audit(t) {
		if row["event"] == "approval_requested" {
			asked++
		}
	}
	if asked != 2 {
		t.Errorf("a human was asked %d times for two commands", asked)
	}
}

// act is a program that does what the line of the file acts says, whose number it
// is given: what it touches stands in no command line, so that only the kernel
// can stop it.
const act = `use Socket;
open(my $acts, "<", "acts") or die "acts: $!";
my ($verb, $object) = split(" ", (<$acts>)[$ARGV[0]]);
if ($verb eq "read") { open(my $f, "<", $object) or die "open: $!"; print <$f>; }
if ($verb eq "write") { open(my $f, ">", $object) or die "open: $!"; print $f "written\n"; print "written\n"; }
if ($verb eq "connect") {
	socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
	connect($s, sockaddr_in($object, inet_aton("127.0.0.1"))) or die "connect: $!";
	print "connected\n";
}
if ($verb eq "signal") { kill(0, $object) or die "kill: $!"; print "signalled\n"; }
if ($verb eq "environment") { print $ENV{$object} // die "Permission denied: no $object"; }
`

// TestRealPiCommandIsConfined: what a real Pi runs through our shell link cannot
// read, write or reach what its session was not given. Each act is first shown to
// work where nothing confines it.
func TestRealPiCommandIsConfined(t *testing.T) {
	testenv.Need(t, "landlock", "landlock-scope", "seccomp", "bash", "perl")
	model := pi.StartModel(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port

	// What the command does, and what shows that it could.
	type deed struct{ what, act, shows string }
	run := func(t *testing.T, mode string) (results []string, deeds []deed, b *bench) {
		b = newBench(t, model, map[string]any{"*": "allow"}, `{"bash": {"*": "allow"}}`)
		outside := filepath.Join(b.Dir, "outside")
		deeds = []deed{
			{"read a file outside", "read " + filepath.Join(outside, "secret"), "s3cret-outside"},
			{"read a file in HOME", "read " + filepath.Join(b.Home, "secret"), "s3cret-at-home"},
			{"read the agent's configuration", "read " + filepath.Join(b.Agent, "models.json"), "scripted"},
			{"read the policy", "read " + b.policy, "allow"},
			{"write outside", "write " + filepath.Join(outside, "planted"), "written"},
			{"write to the agent's configuration", "write " + filepath.Join(b.Agent, "planted"), "written"},
			{"reach the network", fmt.Sprintf("connect %d", port), "connected"},
			{"signal a process outside", fmt.Sprintf("signal %d", os.Getpid()), "signalled"},
			{"see a secret variable", "environment SECRET_TOKEN", "s3cret-variable"},
			{"write to the workspace", "write " + filepath.Join(b.Work, "inside"), "written"},
		}
		var acts strings.Builder
		var calls []pi.Call
		for i, d := range deeds {
			acts.WriteString(d.act + "\n")
			calls = append(calls, pi.Bash(fmt.Sprintf("perl act.pl %d", i)))
		}
		for _, err := range []error{
			os.Mkdir(outside, 0o700),
			os.WriteFile(filepath.Join(outside, "secret"), []byte("s3cret-outside"), 0o600),
			os.WriteFile(filepath.Join(b.Home, "secret"), []byte("s3cret-at-home"), 0o600),
			os.WriteFile(filepath.Join(b.Work, "act.pl"), []byte(act), 0o600),
			os.WriteFile(filepath.Join(b.Work, "acts"), []byte(acts.String()), 0o600),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		script := model.Script(calls...)
		// The agent itself is started by the operator, with all that it has.
		flags := []string{"--mode", mode, "--headless"}
		if mode == "full_access" {
			// The envelope holds in every mode; without it nothing does.
			flags = append(flags, "--no-envelope")
		}
		p := b.Start(t, b.env("SECRET_TOKEN=s3cret-variable"), b.spawn(flags, b.Print(script.Prompt())...)...)
		if status := p.Status(t, patience); status != 0 {
			t.Fatalf("exit status %d", status)
		}
		if results = script.Results(t, time.Second); len(results) != len(deeds) {
			t.Fatalf("results %q", results)
		}
		return results, deeds, b
	}

	control, deeds, _ := run(t, "full_access")
	for i, d := range deeds {
		if !strings.Contains(control[i], d.shows) {
			t.Fatalf("the control does not show that an unconfined command can %s: %q", d.what, control[i])
		}
	}
	results, deeds, confined := run(t, "auto_accept_edits")
	// In namespaces of its own a command finds nothing at the address and the number that it was told.
	refusals := []string{"Permission denied", "Operation not permitted", "No such file", "not implemented", "Connection refused", "No such process", "Read-only file system"}
	last := len(deeds) - 1
	for i, d := range deeds[:last] {
		refused := slices.ContainsFunc(refusals, func(refusal string) bool {
			return strings.Contains(results[i], refusal)
		})
		if !refused || strings.Contains(results[i], d.shows) {
			t.Errorf("a confined command can %s, or was stopped by something else: %q", d.what, results[i])
		}
	}
	for _, planted := range []string{filepath.Join(confined.Dir, "outside", "planted"), filepath.Join(confined.Agent, "planted")} {
		if _, err := os.Stat(planted); err == nil {
			t.Errorf("%s was written", planted)
		}
	}
	if !strings.Contains(results[last], deeds[last].shows) {
		t.Errorf("a confined command cannot %s: %q", deeds[last].what, results[last])
	}
}

// TestRealPiGrandchild: the ask of a Pi two levels down reaches the human at the
// root, who sees the whole way to it.
func TestRealPiGrandchild(t *testing.T) {
	testenv.Need(t, "landlock", "seccomp", "bash", "pty")
	model := pi.StartModel(t)
	b := newBench(t, model, nil, `{"bash": {"*": "ask", "*pioneer-super *": "allow", "pi *": "allow"}, "task": {"*": "allow"}}`)
	script := model.Script(pi.Bash("touch from-below"))
	middle := filepath.Join(b.Work, "middle.sh")
	if err := os.WriteFile(middle, []byte("#!/bin/sh\nexec pioneer-super spawn --agent scout -- pi -p '"+script.Prompt()+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := screen.Start(t, screen.Options{Dir: b.Work, Env: b.env(), Columns: 130, Rows: 50},
		b.spawn([]string{"--mode", "auto_accept_edits", "--agent", "lead"}, middle)...)
	c.Shows(t, patience, "touch from-below", "lead", "scout")
	answer(t, c, "y", "touch from-below")
	if status := c.Status(t, patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if _, err := os.Stat(filepath.Join(b.Work, "from-below")); err != nil {
		t.Errorf("%v; the model was told %q", err, script.Results(t, time.Second))
	}
}
