package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/integration/testenv"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

const allowed = `{"permission": {"task": {"*": "allow"}, "bash": {"*": "allow", "rm *": {"action": "deny", "reason": "not here"}, "ask-me*": "ask"}}}`

// TestExitCodes holds every status of the table, from inside a tree and, for the
// first command, from outside.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full_access", "auto_accept_edits"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.rules(allowed)
			put(t, filepath.Join(l.work, "ask-me"), "#!/bin/sh\n")
			if err := os.WriteFile(filepath.Join(l.work, "plain"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			l.script("broken", "#!/no/such/interpreter\n")
			l.script("agent.sh", `t() { want=$1; shift; "$@" >/dev/null 2>err; s=$?; [ $s = $want ] && echo ok || echo "status $s, expected $want: $* : $(cat err)"; }
e="pioneer-super exec"
t 0 $e -- true
t 1 $e -- false
t 42 $e -- sh -c 'exit 42'
t 255 $e -- sh -c 'exit 255'
t 137 $e -- sh -c 'kill -KILL $$'
t 143 $e -- sh -c 'kill -TERM $$'
t 134 $e -- sh -c 'kill -ABRT $$'
t 7 $e -c 'exit 7'
t 3 $e --shell sh -c 'exit 3'
t 126 $e -- rm x
t 126 $e -- ask-me now
t 126 $e -- ./plain
t 126 $e -- ./
t 127 $e -- ./broken
t 127 $e -- no-such-program
t 125 $e --
t 125 $e --cwd none -- true
t 125 $e --shell fish -c true
t 9 pioneer-super spawn -- sh -c 'exit 9'
t 126 pioneer-super spawn -- rm x
t 127 pioneer-super spawn -- no-such-program
t 0 pioneer-super ask --surface bash --value true
t 10 pioneer-super ask --surface bash --value 'rm x'
t 12 pioneer-super ask --surface bash --value ask-me
t 2 pioneer-super ask --surface bash
t 0 env -u PI_SUBAGENT_PARENT_SESSION pioneer-super ask --surface bash --value true
t 10 env -u PI_SUBAGENT_PARENT_SESSION pioneer-super ask --surface bash --value 'rm x'
t 12 env -u PI_SUBAGENT_PARENT_SESSION pioneer-super ask --surface bash --value ask-me
t 2 pioneer-super nonsense
exit 33`)
			r := l.spawnAs(func(c *exec.Cmd) { c.Env = append(c.Env, "PATH="+os.Getenv("PATH")+":"+l.work) }, []string{"--mode", mode}, "sh", "agent.sh")
			if code := r.wait(t, 80*time.Second); code != 33 {
				t.Errorf("status %d, expected the agent's 33: %s", code, r.stderr())
			}
			n := 0
			for line := range strings.Lines(r.stdout()) {
				if n++; line != "ok\n" {
					t.Error(line)
				}
			}
			if n != 29 {
				t.Errorf("%d commands ran", n)
			}
		})
	}
	t.Run("a human denies", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.rules(allowed)
		l.script("agent.sh", `pioneer-super ask --surface bash --value 'ask-me please'; echo "ask $?"
pioneer-super exec -c 'ask-me again'; echo "exec $?"`)
		r, _ := l.withApprover(no, nil, "sh", "agent.sh")
		r.wait(t, 20*time.Second)
		if !strings.Contains(r.stdout(), "ask 11") || !strings.Contains(r.stdout(), "exec 126") || !strings.Contains(r.stderr(), "the human denied it: not this") {
			t.Errorf("%s%s", r.stdout(), r.stderr())
		}
	})
	t.Run("signals of the root", func(t *testing.T) {
		t.Parallel()
		for sig, want := range map[string]int{"TERM": 143, "KILL": 137} {
			l := newLab(t)
			r := l.spawn(nil, "sh", "-c", "kill -"+sig+" $$")
			if code := r.wait(t, 20*time.Second); code != want {
				t.Errorf("%s: status %d, expected %d", sig, code, want)
			}
		}
	})
}

// TestStatusDescriptor: a machine tells the command's own 126 from ours.
func TestStatusDescriptor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(allowed)
	l.script("agent.sh", `for c in "sh -c 'exit 126'" "rm x" "no-such-program" "sh -c 'kill -9 \$\$'"; do
	eval pioneer-super exec --status-fd 5 -- $c 5>>status 2>/dev/null
done
pioneer-super spawn --status-fd 5 -- sh -c 'echo leaked >&5' 5>>status
pioneer-super exec --status-fd 5 -- sh -c 'sleep 100 & exit 4' 5>>status`)
	r := l.spawn(nil, "sh", "agent.sh")
	r.wait(t, 30*time.Second)
	data, err := os.ReadFile(filepath.Join(l.work, "status"))
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Exit      int    `json:"exit"`
		Class     string `json:"class"`
		By        string `json:"by"`
		Leftovers int    `json:"leftovers"`
	}
	var got []line
	for text := range strings.Lines(string(data)) {
		var one line
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		got = append(got, one)
	}
	want := []line{{126, "exited", "", 0}, {126, "refused", "rule", 0}, {127, "not_found", "", 0}, {137, "signaled", "", 0}, {2, "exited", "", 0}, {4, "exited", "", 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, data)
	}
}

// repeater sends one request twice, and a third time at once with the first.
var _ = part("repeater", func([]string) int {
	here, _ := os.Getwd()
	send := func(id, text string) outcome {
		conn, err := control.Dial(os.Getenv("PIONEER_SUPER_SOCKET"))
		if err == nil {
			conn, err = greet(conn)
		}
		if err != nil {
			return outcome{Said: err.Error()}
		}
		defer conn.Close()
		r := &control.Request{ID: id, Op: control.OpExec, Command: &control.Command{Shell: "bash", Text: text, Dir: here, Env: os.Environ(), Umask: 0o22, Streams: [3]string{"null", "null", "null"}}}
		null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		defer null.Close()
		os.Stdin, os.Stdout, os.Stderr, null = null, null, null, os.Stdout
		defer func() { os.Stdout, null = null, os.Stdout }()
		result, _ := (&client{conn: conn}).run(r)
		return outcome{Status: result.Exit, Said: result.Class + " " + result.Reason, Name: result.Command}
	}
	first := send("same-1", "echo x >> effects; exit 5")
	second := send("same-1", "echo x >> effects; exit 5")
	other := send("same-1", "echo y >> effects; exit 6")
	fmt.Printf("%d %d %v\n%d %s\n", first.Status, second.Status, first.Name == second.Name && first.Name != "", other.Status, other.Said)
	return 0
})

// TestFaultRepeatedRequestHasOneEffect: the same id is the same answer, and another
// request under it is refused.
func TestFaultRepeatedRequestHasOneEffect(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	r := l.spawn(nil, "./hostile", "repeater")
	if code := r.wait(t, 20*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	effects, _ := os.ReadFile(filepath.Join(l.work, "effects"))
	if string(effects) != "x\n" || !strings.HasPrefix(r.stdout(), "5 5 true\n125 ") || !strings.Contains(r.stdout(), "was used for another request") {
		t.Errorf("effects %q: %s", effects, r.stdout())
	}
}

// TestFaultClientKilled: whatever the tool has forked.
func TestFaultClientKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig  unix.Signal
		want string
	}{
		"killed":      {unix.SIGKILL, "client 137"},
		"interrupted": {unix.SIGINT, "client 130"},
		"terminated":  {unix.SIGTERM, "client 143"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.rules(allowed)
			l.script("tool.sh", `(setsid sh -c 'trap "" TERM INT HUP; sleep 2001' &)
setsid sleep 2002 &
touch up; exec sleep 2003`)
			l.script("agent.sh", `sh -c 'echo $$ > client; exec pioneer-super exec -- sh tool.sh'; echo "client $?"; touch ended; while [ ! -e finish ]; do sleep 0.05; done; echo on`)
			r := l.spawn([]string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
			l.up("up", "client")
			sleepers := func() (n int) {
				for _, line := range l.processes() {
					if strings.Contains(line, "sleep 200") {
						n++
					}
				}
				return n
			}
			await(t, 5*time.Second, "three sleepers and the shell above one", func() bool { return sleepers() >= 3 })
			data, _ := os.ReadFile(filepath.Join(l.work, "client"))
			var pid int
			fmt.Sscan(string(data), &pid)
			if err := unix.Kill(pid, c.sig); err != nil {
				t.Fatal(err)
			}
			l.up("ended")
			await(t, 8*time.Second, "the end of the tool's whole tree", func() bool { return sleepers() == 0 })
			l.touch("finish")
			if code := r.wait(t, 20*time.Second); code != 0 || !strings.Contains(r.stdout(), c.want) || !strings.Contains(r.stdout(), "on\n") {
				t.Errorf("status %d, %q, expected %q and that the agent goes on: %s", code, r.stdout(), c.want, r.stderr())
			}
		})
	}
}

// TestFaultClientKilledWhileAsking: nothing runs for it later, whatever is
// answered.
func TestFaultClientKilledWhileAsking(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"touch *": "ask"}}}`)
	l.script("agent.sh", `sh -c 'echo $$ > client; exec pioneer-super exec -- touch ran'; echo "client $?"; while [ ! -e finish ]; do sleep 0.05; done`)
	r, a := l.withApprover(nil, nil, "sh", "agent.sh")
	q := a.question(0)
	if _, tree := l.run("tree", "--json"); !strings.Contains(tree, q.ID) || !strings.Contains(tree, "touch ran") {
		t.Errorf("tree --json does not show what is asked: %s", tree)
	}
	data, _ := os.ReadFile(filepath.Join(l.work, "client"))
	var pid int
	fmt.Sscan(string(data), &pid)
	unix.Kill(pid, unix.SIGKILL)
	await(t, 5*time.Second, "a withdrawal", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.withdrawn) == 1 && a.withdrawn[0].ID == q.ID
	})
	a.says(*once(q))
	time.Sleep(100 * time.Millisecond)
	_, tree := l.run("tree", "--json")
	if strings.Contains(tree, q.ID) {
		t.Errorf("it is still asked: %s", tree)
	}
	l.touch("finish")
	r.wait(t, 20*time.Second)
	if l.there("ran") {
		t.Error("it ran after its client had gone")
	}
}

// TestFaultStreamsHeldByAGrandchild: what a tool leaves behind is its session's background, and ends
// with it; its client waits for none of it.
func TestFaultStreamsHeldByAGrandchild(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(allowed)
	l.script("agent.sh", `pioneer-super exec -- sh -c 'sleep 2010 & echo started'; echo "returned $?"; touch returned; while [ ! -e finish ]; do sleep 0.05; done`)
	r := l.spawn([]string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
	begun := time.Now()
	l.up("returned")
	if waited := time.Since(begun); waited > 15*time.Second {
		t.Errorf("the client returned after %s", waited)
	}
	state := func() string {
		_, tree := l.run("tree", "--json")
		return tree
	}
	await(t, 5*time.Second, "a background command", func() bool { return strings.Contains(state(), `"state":"background"`) })
	if _, text := l.run("tree"); !strings.Contains(text, "background") || !strings.Contains(text, "sleep 2010") {
		t.Errorf("tree shows: %s", text)
	}
	l.touch("finish")
	if code := r.wait(t, 20*time.Second); code != 0 || !strings.Contains(r.stdout(), "returned 0") {
		t.Errorf("status %d: %s%s", code, r.stdout(), r.stderr())
	}
	l.nobody(5 * time.Second)
}

// TestWhatAToolInherits: the mask, the directory, its streams byte for byte, and an
// environment without secrets.
func TestWhatAToolInherits(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full_access", "auto_accept_edits"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.rules(allowed)
			l.script("agent.sh", `
umask 027; pioneer-super exec -- sh -c umask
umask 077; pioneer-super exec -- touch mask; stat -c %a mask; umask 022
mkdir -p sub/deep; cd sub/deep; pioneer-super exec -- pwd; pioneer-super exec --cwd .. -- pwd
mkdir gone; cd gone; rmdir ../gone; pioneer-super exec -- true 2>../err; echo "gone $?"; cd ../../..
head -c 10000000 /dev/urandom > big
pioneer-super exec -- cat < big | cmp - big && echo same-file
cat big | pioneer-super exec -- cat | cmp - big && echo same-pipe
cat big | pioneer-super exec -- wc -c
pioneer-super exec -- cat < /dev/null | wc -c
pioneer-super exec -- head -c 3000000 /dev/zero | head -c 10 | wc -c
pioneer-super exec -- sh -c 'yes; echo $? >&2' 2>err2 | head -n 1
pioneer-super exec -- sh -c 'echo out; echo err >&2' 2>err3 >out3; cat out3 err3
pioneer-super exec -- sh -c 'echo "[$AWS_SECRET_ACCESS_KEY][$MY_API_KEY][$SSH_AUTH_SOCK][$PLAIN]"'
pioneer-super exec -- printf '%s|' '' 'a  b' '*' '$HOME' "new
line" '"' "'"; echo
pioneer-super exec -- sh -c 'kill -PIPE $$'; echo "pipe $?"
exit 0`)
			r := l.spawnAs(func(c *exec.Cmd) {
				c.Env = append(c.Env, "AWS_SECRET_ACCESS_KEY=verysecretvalue", "MY_API_KEY=anothersecretvalue", "SSH_AUTH_SOCK=/tmp/agent", "PLAIN=plain")
			}, []string{"--mode", mode}, "sh", "agent.sh")
			if code := r.wait(t, 60*time.Second); code != 0 {
				t.Fatalf("status %d: %s", code, r.stderr())
			}
			secrets := "[verysecretvalue][anothersecretvalue][/tmp/agent][plain]"
			if mode != "full_access" {
				secrets = "[][][][plain]"
			}
			want := "0027\n600\n" + l.work + "/sub/deep\n" + l.work + "/sub\ngone 125\nsame-file\nsame-pipe\n10000000\n0\n10\ny\nout\nerr\n" +
				secrets + "\n|a  b|*|$HOME|new\nline|\"|'|\npipe 141\n"
			if diff := cmp.Diff(want, r.stdout()); diff != "" {
				t.Errorf("%s\n%s", diff, r.stderr())
			}
		})
	}
}

// large runs commands at and over the limit of what one may carry.
var _ = part("large", func([]string) int {
	for _, size := range []int{100 << 10, 600 << 10, 1100 << 10} {
		var args []string
		for n := 0; n < size; n += 100 << 10 {
			args = append(args, strings.Repeat("a", min(100<<10, size-n)))
		}
		code, out := ourselves(nil, append([]string{"exec", "--", "true"}, args...)...)
		tell(outcome{Name: fmt.Sprint("argv ", size>>10), Status: code, Said: out})
		code, out = ourselves(func(c *exec.Cmd) {
			c.Env = os.Environ()
			for i, a := range args {
				c.Env = append(c.Env, fmt.Sprint("BIG", i, "=", a))
			}
		}, "exec", "--", "true")
		tell(outcome{Name: fmt.Sprint("env ", size>>10), Status: code, Said: out})
	}
	for name, how := range map[string]func(*exec.Cmd){
		"broken argument": func(c *exec.Cmd) { c.Args = append(c.Args, "caf\xe9") },
		"broken entry":    func(c *exec.Cmd) { c.Env = append(os.Environ(), "LATIN=caf\xe9") },
	} {
		code, out := ourselves(how, "exec", "--", "true")
		tell(outcome{Name: name, Status: code, Said: out})
	}
	return 0
})

func TestLargeAndBrokenArguments(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	r := l.spawn(nil, "./hostile", "large")
	if code := r.wait(t, 60*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	got := outcomes(t, r.stdout())
	for name, want := range map[string]struct {
		code int
		says string
	}{
		"argv 100": {0, ""}, "env 100": {0, ""}, "argv 600": {0, ""}, "env 600": {0, ""},
		"argv 1100": {125, "expected at most 1048576"}, "env 1100": {125, "expected at most 1048576"},
		"broken argument": {125, "is not UTF-8"}, "broken entry": {0, "LATIN"},
	} {
		if o := got[name]; o.Status != want.code || !strings.Contains(o.Said, want.says) {
			t.Errorf("%s: status %d, %.200q, expected %d and %q", name, o.Status, o.Said, want.code, want.says)
		}
	}
}

// TestShellLinks: the forms in which agents call a shell. What a judge can read is
// run as it was judged; what it cannot is an ask that names the form.
func TestShellLinks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"bash": {"*": "ask", "echo *": "allow", "touch *": "allow", "false": "allow", "cat *": "allow", "bash ./script.sh *": "allow"}}}`)
	put(t, filepath.Join(l.work, "evil.sh"), "touch from-bash-env\n")
	put(t, filepath.Join(l.work, "script.sh"), "echo script $1\n")
	l.script("agent.sh", `links=$(dirname $SHELL)
t() { echo "== $1"; shift; "$@" 2>err; echo "status $?"; sed -n 's/^pioneer-super: /said /p' err | head -1; }
t c $SHELL -c 'echo $0 $1 $#' zero one two
t ec $SHELL -ec 'false; echo on'
t euo $SHELL -euo pipefail -c 'false | echo piped; echo on'
t lc $SHELL -lc 'echo login'
t dash- $SHELL --login -c 'echo login'
t i $SHELL -i
t s sh -c "echo echo from-stdin | $SHELL -s"
t stdin sh -c "echo echo from-stdin | $links/sh"
t zsh $links/zsh -c 'echo zsh'
t script $SHELL ./script.sh arg
t sh $links/sh -c 'echo posix'
t none $SHELL -c
t opt $SHELL -O extglob -c 'echo extglob'
t flags $SHELL -c 'echo $-; cat /proc/$$/cmdline; true'
BASH_ENV=$PWD/evil.sh ENV=$PWD/evil.sh t env $SHELL -c 'echo env'
BASH_ENV=$PWD/evil.sh ENV=$PWD/evil.sh t envsh $links/sh -c 'echo env'
SHELLOPTS=xtrace PS4='$(touch from-ps4)' t opts env SHELLOPTS=xtrace "PS4=\$(touch from-ps4)" $SHELL -c 'echo opts'
t func env 'BASH_FUNC_echo%%=() { touch from-function; }' $SHELL -c 'echo function'
exit 0`)
	put(t, filepath.Join(l.home, "zsh"), "#!/bin/sh\n")
	l.extra = []string{"PATH=" + os.Getenv("PATH") + ":" + l.home}
	var forms, sets []string
	r, _ := l.withApprover(func(q control.Question) *control.Answer {
		forms = append(forms, fmt.Sprint(q.Warnings))
		if len(q.Environment) == 0 {
			return no(q)
		}
		sets = append(sets, q.Environment...)
		return once(q)
	}, []string{"--mode", "full_access"}, "sh", "agent.sh")
	if code := r.wait(t, 60*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	parts := map[string]string{}
	for _, part := range strings.Split(r.stdout(), "== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		parts[name] = rest
	}
	for name, want := range map[string]string{
		"c":      "zero one 2\nstatus 0\n",
		"ec":     "status 1\n",
		"euo":    "piped\nstatus 1\n",
		"script": "script arg\nstatus 0\n",
		"sh":     "posix\nstatus 0\n",
		"env":    "env\nstatus 0\n",
		"envsh":  "env\nstatus 0\n",
		"opts":   "opts\nstatus 0\n",
		"func":   "function\nstatus 0\n",
	} {
		if parts[name] != want {
			t.Errorf("%s: %q, expected %q", name, parts[name], want)
		}
	}
	for name, form := range map[string]string{"lc": "login", "dash-": "login", "i": "interactive", "s": "standard input", "stdin": "standard input", "zsh": "zsh", "opt": "options", "none": "-c without text"} {
		if got := parts[name]; !strings.HasPrefix(got, "status 126\n") || !strings.Contains(got, "said ") {
			t.Errorf("%s: %q, expected that it is asked and denied", name, got)
		}
		inAudit := slices.ContainsFunc(l.rowsOf(audit.ApprovalRequested), func(row audit.Row) bool { return strings.Contains(fmt.Sprint(row.Details["form"]), form) })
		if !strings.Contains(strings.Join(forms, "\n"), "called in this form ("+form) || !inAudit {
			t.Errorf("%s: no ask names the form %q: %v", name, form, forms)
		}
	}
	if got := strings.ReplaceAll(parts["flags"], "\x00", " "); !strings.Contains(got, "bash --norc --noprofile -p -c echo $-\ncat /proc/$$/cmdline\ntrue\n bash") {
		t.Errorf("it runs as %q", got)
	}
	for _, name := range []string{"BASH_ENV=", "ENV=", "SHELLOPTS=xtrace", "PS4=", "BASH_FUNC_echo%%="} {
		if !slices.ContainsFunc(sets, func(e string) bool { return strings.HasPrefix(e, name) }) {
			t.Errorf("nobody was shown that %s is set: %v", name, sets)
		}
	}
	for _, name := range []string{"from-bash-env", "from-ps4", "from-function"} {
		if l.there(name) {
			t.Errorf("%s: the environment ran something", name)
		}
	}
}

// TestAskByEitherWay: an agent over its channel and a tool over the socket get the
// same record and the same answer.
func TestAskByEitherWay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.rules(`{"permission": {"*": "ask", "bash": {"git *": "allow", "git push *": {"action": "deny", "reason": "never"}, "sh *": "allow", "env *": "allow"}, "path_write": {"*.key": "deny"}, "mcp": {"srv:*": "allow"}}}`)
	l.script("asks.sh", `for a in "bash|git status" "bash|git push origin" "bash|make all" "path_write|x.key" "path_read|y" "mcp|srv:tool"; do
	pioneer-super ask --json --surface "${a%%|*}" --value "${a#*|}"; echo "status $?"
done
pioneer-super ask --json --surface other --tool frob; echo "status $?"`)
	r := l.spawn([]string{"--mode", "auto_accept_edits"}, "sh", "-c", `sh asks.sh > agent; pioneer-super exec -- sh asks.sh > tool; exit 0`)
	if code := r.wait(t, 40*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	read := func(name string) (out []string) {
		data, err := os.ReadFile(filepath.Join(l.work, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) == nil {
				delete(m, "request")
				text, _ := json.Marshal(m)
				line = string(text) + "\n"
			}
			out = append(out, line)
		}
		return out
	}
	agent, tool := read("agent"), read("tool")
	if diff := cmp.Diff(agent, tool); diff != "" {
		t.Errorf("agent and tool are told differently (-agent +tool):\n%s", diff)
	}
	if all := strings.Join(agent, ""); strings.Count(all, "status 0") != 3 || strings.Count(all, "status 10") != 2 || strings.Count(all, "status 12") != 2 {
		t.Errorf("answers:\n%s", all)
	}
	rows := map[string][]string{}
	for _, row := range l.audit() {
		if row.ToolID != control.OpAsk {
			continue
		}
		role := fmt.Sprint(row.Details["role"])
		rows[role] = append(rows[role], fmt.Sprintf("%s %s %q %s %s %s %+v %s", row.Kind, row.Surface, row.Value, row.ActionKind, row.Cwd, row.Decision, row.DecidedBy, row.Reason))
	}
	if len(rows["agent"]) < 7 {
		t.Fatalf("the audit has %d rows of the agent's asks", len(rows["agent"]))
	}
	for role := range rows {
		slices.Sort(rows[role])
	}
	if diff := cmp.Diff(rows["agent"], rows["tool"]); diff != "" {
		t.Errorf("the records differ (-agent +tool):\n%s", diff)
	}
}

// TestAVersionThatIsAnother: both builds are named, on either side.
func TestAVersionThatIsAnother(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	r := l.spawn(nil, "./hostile", "old-version")
	if code := r.wait(t, 20*time.Second); code != 0 {
		t.Fatalf("status %d: %s", code, r.stderr())
	}
	if out := r.stdout(); !strings.Contains(out, "speaks protocol 99 (build ancient)") || !strings.Contains(out, "the tree's supervisor "+fmt.Sprint(control.Protocol)+" (build ") {
		t.Errorf("told %s", out)
	}
}

var _ = part("old-version", func([]string) int {
	conn, err := control.Dial(os.Getenv("PIONEER_SUPER_SOCKET"))
	if err != nil {
		return 1
	}
	defer conn.Close()
	conn.Send(control.Message{Hello: &control.Hello{Protocol: 99, Build: "ancient"}})
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			return 0
		}
		tell(m)
	}
})

// TestAStoppedReader: a tool whose output nobody reads holds up nobody else, and
// ends with its session.
func TestAStoppedReader(t *testing.T) {
	testenv.Need(t, "pidfd")
	t.Parallel()
	l := newLab(t)
	l.rules(allowed)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	r := l.spawnAs(func(c *exec.Cmd) { c.Stdout = writer }, nil, "sh", "-c", `pioneer-super exec -- yes & pioneer-super exec -- touch through; sleep 0.2; kill $!; wait; exit 0`)
	writer.Close()
	l.up("through")
	if code := r.wait(t, 20*time.Second); code != 0 {
		t.Errorf("status %d: %s", code, r.stderr())
	}
	var got bytes.Buffer
	io.Copy(&got, reader)
	if !strings.HasPrefix(got.String(), "y\ny\n") {
		t.Errorf("%.20q", got.String())
	}
}
