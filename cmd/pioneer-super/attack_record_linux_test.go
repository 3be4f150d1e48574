package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// mutation is an execution that differs in one thing from what was answered. The
// answer is for the shell text, in which MARK is the name of the file by which it
// is seen that something ran.
type mutation struct {
	name string
	text string // "touch MARK" if empty
	// run is what the agent does then, with text and mark.
	run func(text, mark string) (int, string)
	// covered: it is the same, so that nobody is asked again.
	covered bool
	// only names the one kind of standing answer that it is for.
	only string
}

func execText(how func(*exec.Cmd)) func(string, string) (int, string) {
	return func(text, _ string) (int, string) { return ourselves(how, "exec", "-c", text) }
}

func execArgv(argv ...string) func(string, string) (int, string) {
	return func(_, mark string) (int, string) {
		args := []string{"exec", "--"}
		for _, a := range argv {
			args = append(args, strings.ReplaceAll(a, "MARK", mark))
		}
		return ourselves(nil, args...)
	}
}

func withVariable(entry string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		here, _ := os.Getwd()
		c.Env = append(os.Environ(), os.Expand(entry, func(name string) string {
			if name == "here" {
				return here
			}
			return os.Getenv(name)
		}))
	}
}

func linked(args ...string) func(string, string) (int, string) {
	return func(text, _ string) (int, string) {
		cmd := exec.Command(os.Getenv("SHELL"), append(args, text)...)
		b, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(b)
	}
}

var mutations = []mutation{
	{name: "nothing", run: execText(nil), covered: true},
	{name: "the shell link", run: linked("-c"), covered: true},
	{name: "a terminal's width", run: execText(withVariable("COLUMNS=33")), covered: true},
	{name: "the text", run: func(text, mark string) (int, string) { return ourselves(nil, "exec", "-c", text+"; true") }},
	{name: "an argument split", text: "touch MARK.a MARK.b", run: execArgv("touch", "MARK.a MARK.b")},
	{name: "a strict option", run: linked("-ec")},
	{name: "another option", run: linked("-fc")},
	{name: "a positional parameter", text: `touch MARK "$@"`, run: func(text, mark string) (int, string) {
		return ourselves(nil, "exec", "-c", text, "bash", mark+".more")
	}},
	{name: "another shell", run: func(text, mark string) (int, string) { return ourselves(nil, "exec", "--shell", "sh", "-c", text) }},
	{name: "a file earlier on PATH", run: execText(withVariable("PATH=${here}/planted:$PATH"))},
	{name: "PATH without a program of ours", run: execText(withVariable("PATH=/usr/bin:/bin:/usr/sbin"))},
	{name: "HOME", run: execText(withVariable("HOME=${here}"))},
	{name: "an entry that a program reads", run: execText(withVariable("GIT_DIR=${here}"))},
	{name: "any other entry", run: execText(withVariable("FOO=1"))},
	{name: "a locale that is a path", run: execText(withVariable("LC_ALL=/tmp/locale"))},
	{name: "the directory", run: func(text, mark string) (int, string) { return ourselves(nil, "exec", "--cwd", "sub", "-c", text) }},
	{name: "the session", run: func(text, mark string) (int, string) {
		return ourselves(nil, "spawn", "--", "sh", "child.sh", text)
	}},
	{name: "a tool that asks", only: "ticket", run: func(text, mark string) (int, string) {
		return ourselves(nil, "exec", "--", "sh", "child.sh", text)
	}},
	{name: "a second time", only: "ticket", run: func(text, mark string) (int, string) {
		if code, out := ourselves(nil, "exec", "-c", text); code != 0 {
			return code, out
		}
		os.Remove(mark)
		return ourselves(nil, "exec", "-c", text)
	}},
	{name: "a second time in the turn", only: "turn", covered: true, run: func(text, mark string) (int, string) {
		if code, out := ourselves(nil, "exec", "-c", text); code != 0 {
			return code, out
		}
		return ourselves(nil, "exec", "-c", text)
	}},
	{name: "the end of the turn", run: func(text, mark string) (int, string) {
		if code, out := ourselves(nil, "turn", "end"); code != 0 {
			return code, out
		}
		return ourselves(nil, "exec", "-c", text)
	}},
	{name: "the start of the next turn", run: func(text, mark string) (int, string) {
		if code, out := ourselves(nil, "turn", "start"); code != 0 {
			return code, out
		}
		return ourselves(nil, "exec", "-c", text)
	}},
	{name: "a script's content", only: "turn", text: "./script-MARK", run: func(text, mark string) (int, string) {
		os.WriteFile("script-"+mark, []byte("#!/bin/sh\n: changed\ntouch "+mark+"\n"), 0o700)
		return ourselves(nil, "exec", "-c", text)
	}},
	{name: "a script's file", only: "turn", text: "./script-MARK", run: func(text, mark string) (int, string) {
		data, _ := os.ReadFile("script-" + mark)
		os.WriteFile("new-"+mark, data, 0o700)
		os.Rename("new-"+mark, "script-"+mark)
		return ourselves(nil, "exec", "-c", text)
	}},
	{name: "the directory of that name", only: "turn", text: "cd dir-MARK && touch ../MARK", covered: true, run: execText(nil)},
	{name: "standard input", only: "turn", run: execText(func(c *exec.Cmd) { c.Stdin = strings.NewReader("") })},
}

// mutate is the agent: for each mutation it gets an answer and then runs another
// thing.
var _ = part("mutate", func(args []string) int {
	os.MkdirAll("planted", 0o700)
	os.Mkdir("sub", 0o700)
	for i, m := range mutations {
		if m.only != "" && m.only != args[0] {
			continue
		}
		mark := fmt.Sprintf("mark%02d", i)
		text := m.text
		if text == "" {
			text = "touch MARK"
		}
		text = strings.ReplaceAll(text, "MARK", mark)
		os.Mkdir("dir-"+mark, 0o700)
		os.WriteFile("script-"+mark, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700)
		os.WriteFile("planted/touch", []byte("#!/bin/sh\n/usr/bin/touch \"$@\"\n"), 0o700)
		var code int
		var out string
		if args[0] == "ticket" {
			code, out = ourselves(nil, "ask", "--surface", "bash", "--value", text)
		} else {
			code, out = ourselves(nil, "exec", "-c", text)
			made, _ := filepath.Glob(mark + "*")
			for _, f := range made {
				os.Remove(f)
			}
		}
		o := outcome{Name: m.name, Answered: code == 0}
		if code == 0 {
			o.Status, out = m.run(text, mark)
		}
		o.Said = out
		found, _ := filepath.Glob("*" + mark + "*")
		more, _ := filepath.Glob("sub/" + mark + "*")
		for _, f := range append(found, more...) {
			if strings.HasPrefix(filepath.Base(f), mark) {
				o.Ran = true
			}
		}
		tell(o)
	}
	return 0
})

type outcome struct {
	Name     string
	Answered bool
	Status   int
	Ran      bool
	Said     string
}

func outcomes(t *testing.T, text string) map[string]outcome {
	t.Helper()
	out := map[string]outcome{}
	for line := range strings.Lines(text) {
		var o outcome
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &o) == nil {
			out[o.Name] = o
		}
	}
	return out
}

// TestRecordBindsEverything: an answer is for what was shown, and for nothing that
// differs from it in one thing. What does not differ is not asked twice.
func TestRecordBindsEverything(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full_access", "auto_accept_edits"} {
		for _, kind := range []string{"ticket", "turn"} {
			t.Run(mode+"/"+kind, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.hostile()
				l.script("child.sh", `exec pioneer-super exec -c "$1"`)
				l.rules(`{"permission": {"task": {"*": "allow"}, "bash": {"*": "ask", "sh child.sh *": "allow"}}}`)
				asked := map[string]int{}
				r, a := l.withApprover(func(q control.Question) *control.Answer {
					at := strings.Index(q.Command, "mark")
					if at < 0 || len(q.Command) < at+6 {
						return no(q)
					}
					mark := q.Command[at : at+6]
					asked[mark]++
					switch {
					case asked[mark] > 1:
						return no(q)
					case kind == "turn":
						return forTurn(q)
					}
					return once(q)
				}, []string{"--mode", mode}, "./hostile", "mutate", kind)
				if code := r.wait(t, 100*time.Second); code != 0 {
					t.Fatalf("status %d\n%s%s", code, r.stdout(), r.stderr())
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				got := outcomes(t, r.stdout())
				for i, m := range mutations {
					if m.only != "" && m.only != kind {
						continue
					}
					o, times := got[m.name], asked[fmt.Sprintf("mark%02d", i)]
					switch {
					case !o.Answered:
						t.Errorf("%s: the first ask was not answered: %s", m.name, o.Said)
					case m.covered && (o.Status != 0 || !o.Ran || times != 1):
						t.Errorf("%s: status %d, ran %v, asked %d times, expected 0, true and once\n%s", m.name, o.Status, o.Ran, times, o.Said)
					case !m.covered && (o.Status != 126 || o.Ran || times != 2):
						t.Errorf("%s: status %d, ran %v, asked %d times, expected 126, false and twice\n%s", m.name, o.Status, o.Ran, times, o.Said)
					}
				}
			})
		}
	}
}

// while is a change that is made between the question and its answer.
type while struct {
	name string
	args []string // of pioneer-super, MARK replaced
	path string   // PATH, HERE replaced
	// change is done in the directory of the case when the question is open.
	change func(t *testing.T, dir, mark string)
	// runs: what was shown is what runs all the same.
	runs bool
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Error(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Error(err)
	}
}

var whiles = []while{
	{name: "nothing", args: []string{"exec", "-c", "touch MARK"}, change: func(*testing.T, string, string) {}, runs: true},
	{name: "the directory renamed", args: []string{"exec", "--cwd", "d", "--", "touch", "MARK"}, change: func(t *testing.T, dir, _ string) {
		move(t, dir+"/d", dir+"/away")
		if err := os.Mkdir(dir+"/d", 0o700); err != nil {
			t.Error(err)
		}
	}},
	{name: "the directory gone", args: []string{"exec", "--cwd", "d", "--", "touch", "MARK"}, change: func(t *testing.T, dir, _ string) { move(t, dir+"/d", dir+"/away") }},
	{name: "a link to the directory led elsewhere", args: []string{"exec", "--cwd", "link", "--", "touch", "MARK"}, change: func(t *testing.T, dir, _ string) {
		if err := os.Symlink("e", dir+"/new"); err != nil {
			t.Error(err)
		}
		move(t, dir+"/new", dir+"/link")
	}},
	{name: "a script's content", args: []string{"exec", "--", "./s", "MARK"}, change: func(t *testing.T, dir, _ string) { put(t, dir+"/s", "#!/bin/sh\ntouch $1\n: changed\n") }},
	{name: "a script's file", args: []string{"exec", "--", "./s", "MARK"}, change: func(t *testing.T, dir, _ string) {
		put(t, dir+"/s2", "#!/bin/sh\ntouch $1\n")
		move(t, dir+"/s2", dir+"/s")
	}},
	{name: "a script that sh reads", args: []string{"exec", "-c", "sh s MARK"}, change: func(t *testing.T, dir, _ string) { put(t, dir+"/s", "#!/bin/sh\ntouch $1\n: changed\n") }},
	{name: "a script gone", args: []string{"exec", "--", "./s", "MARK"}, change: func(t *testing.T, dir, _ string) { move(t, dir+"/s", dir+"/s3") }},
	{name: "a file planted earlier on PATH, for text", args: []string{"exec", "-c", "touch MARK"}, path: "HERE/bin:/usr/bin:/bin", change: func(t *testing.T, dir, _ string) {
		put(t, dir+"/bin/touch", "#!/bin/sh\n/usr/bin/touch planted-$1 $1\n")
	}},
	{name: "a file planted earlier on PATH, for arguments", args: []string{"exec", "--", "touch", "MARK"}, path: "HERE/bin:/usr/bin:/bin", change: func(t *testing.T, dir, _ string) {
		put(t, dir+"/bin/touch", "#!/bin/sh\n/usr/bin/touch planted-$1 $1\n")
	}},
	{name: "a file planted where there was none", args: []string{"exec", "-c", "nosuchprogram MARK; true"}, path: "HERE/bin:/usr/bin:/bin", change: func(t *testing.T, dir, mark string) {
		put(t, dir+"/bin/nosuchprogram", "#!/bin/sh\n/usr/bin/touch $1\n")
	}},
}

var _ = part("while", func([]string) int {
	var wait sync.WaitGroup
	for i, w := range whiles {
		dir := fmt.Sprintf("case%02d", i)
		for _, d := range []string{"d", "e", "bin"} {
			os.MkdirAll(filepath.Join(dir, d), 0o700)
		}
		os.Symlink("d", filepath.Join(dir, "link"))
		os.WriteFile(filepath.Join(dir, "s"), []byte("#!/bin/sh\ntouch $1\n"), 0o700)
		args := append([]string(nil), w.args...)
		for j := range args {
			args[j] = strings.ReplaceAll(args[j], "MARK", fmt.Sprintf("mark%02d", i))
		}
		wait.Go(func() {
			o := outcome{Name: w.name}
			o.Status, o.Said = ourselves(func(c *exec.Cmd) {
				c.Dir = dir
				if w.path != "" {
					here, _ := filepath.Abs(dir)
					c.Path, _ = exec.LookPath("pioneer-super")
					c.Env = append(os.Environ(), "PATH="+strings.ReplaceAll(w.path, "HERE", here))
				}
			}, args...)
			tell(o)
		})
	}
	wait.Wait()
	return 0
})

// TestWhatChangesWhileSomebodyReads: what was shown is what runs, or nothing.
func TestWhatChangesWhileSomebodyReads(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full_access", "auto_accept_edits"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.hostile()
			l.rules(`{"permission": {"bash": {"*": "ask"}}}`)
			r, _ := l.withApprover(func(q control.Question) *control.Answer {
				at := strings.Index(q.Command, "mark")
				if at < 0 {
					t.Errorf("asked %q", q.Command)
					return no(q)
				}
				mark := q.Command[at : at+6]
				var i int
				fmt.Sscanf(mark, "mark%02d", &i)
				whiles[i].change(t, filepath.Join(l.work, fmt.Sprintf("case%02d", i)), mark)
				return once(q)
			}, []string{"--mode", mode}, "./hostile", "while")
			if code := r.wait(t, 60*time.Second); code != 0 {
				t.Fatalf("status %d: %s", code, r.stderr())
			}
			got := outcomes(t, r.stdout())
			for i, w := range whiles {
				found, _ := filepath.Glob(filepath.Join(l.work, "case*", "*", fmt.Sprintf("*mark%02d*", i)))
				more, _ := filepath.Glob(filepath.Join(l.work, "case*", fmt.Sprintf("*mark%02d*", i)))
				found = append(found, more...)
				o := got[w.name]
				switch {
				case w.runs && (o.Status != 0 || len(found) != 1):
					t.Errorf("%s: status %d, files %v, expected that it runs: %s", w.name, o.Status, found, o.Said)
				case !w.runs && (o.Status != 126 || len(found) != 0):
					t.Errorf("%s: status %d, files %v, expected that nothing runs: %s", w.name, o.Status, found, o.Said)
				}
			}
		})
	}
}

// lies is a client that says of its streams or its directory what is not so.
var _ = part("lies", func(args []string) int {
	say := func(name string, change func(*control.Request), hand func(*keeper.Hand, []*os.File)) {
		conn, err := control.Dial(os.Getenv("PIONEER_SUPER_SOCKET"))
		if err == nil {
			conn, err = greet(conn)
		}
		if err != nil {
			tell(outcome{Name: name, Said: err.Error()})
			return
		}
		defer conn.Close()
		here, _ := os.Getwd()
		null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		dir, _ := os.Open(here)
		r := &control.Request{ID: "lie-" + strings.ReplaceAll(name, " ", "-"), Op: control.OpExec, Command: &control.Command{
			Argv: []string{"touch", "ran-" + strings.ReplaceAll(name, " ", "-")}, Dir: here, Env: os.Environ(), Umask: 0o22, Streams: [3]string{"null", "null", "null"}}}
		if change != nil {
			change(r)
		}
		conn.Send(control.Message{Request: r})
		for {
			var m control.Message
			files, err := conn.RecvFiles(&m, 1)
			if err != nil {
				tell(outcome{Name: name, Said: err.Error()})
				return
			}
			if m.Result != nil {
				_, err := os.Stat(r.Command.Argv[len(r.Command.Argv)-1])
				tell(outcome{Name: name, Status: m.Result.Exit, Said: m.Result.Reason, Ran: err == nil})
				return
			}
			if m.Start != nil {
				wire, _ := control.FromFile(files[0])
				h := keeper.Hand{Streams: r.Command.Streams}
				give := []*os.File{null, null, null, dir}
				if hand != nil {
					hand(&h, give)
				}
				wire.Send(h, give...)
				defer wire.Close()
			}
		}
	}
	pipe, _, _ := os.Pipe()
	etc, _ := os.Open("/")
	say("the truth", nil, nil)
	say("another kind of input", nil, func(_ *keeper.Hand, f []*os.File) { f[0] = pipe })
	say("a directory for an input", nil, func(_ *keeper.Hand, f []*os.File) { f[0] = etc })
	say("a directory by the name of a pipe", func(r *control.Request) { r.Command.Streams[0] = "pipe" }, func(h *keeper.Hand, f []*os.File) { f[0] = etc })
	say("no kind at all", func(r *control.Request) { r.Command.Streams = [3]string{} }, func(h *keeper.Hand, f []*os.File) { f[0] = etc })
	say("another directory", nil, func(_ *keeper.Hand, f []*os.File) { f[3] = etc })
	say("a relative directory", func(r *control.Request) { r.Command.Dir = "." }, nil)
	say("one descriptor twice", nil, func(_ *keeper.Hand, f []*os.File) { f[3] = f[0] })
	say("an id that names a path", func(r *control.Request) { r.ID = "../x" }, nil)
	say("shell options that are none", func(r *control.Request) {
		r.Command.Shell, r.Command.Text, r.Command.Options = "bash", "touch ran-x", []string{"-O", "extglob"}
	}, nil)
	say("a shell that is none", func(r *control.Request) { r.Command.Shell, r.Command.Text = "/bin/evil", "touch ran-x" }, nil)
	say("a mask that is none", func(r *control.Request) { r.Command.Umask = -1 }, nil)
	return 0
})

// TestTheClientIsBelievedInNothing: what it says of its streams and directory is
// compared with what it has.
func TestTheClientIsBelievedInNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.hostile()
	r := l.spawn([]string{"--mode", "full_access"}, "./hostile", "lies")
	if code := r.wait(t, 60*time.Second); code != 0 {
		t.Fatalf("status %d\n%s%s", code, r.stdout(), r.stderr())
	}
	got := outcomes(t, r.stdout())
	if o := got["the truth"]; o.Status != 0 || !o.Ran {
		t.Fatalf("the truth is refused: %+v", o)
	}
	for name, says := range map[string]string{
		"another kind of input":             "descriptor 0 is a pipe now, it was a null when this was decided",
		"a directory for an input":          "is a directory",
		"a directory by the name of a pipe": "is a directory",
		"no kind at all":                    "stream",
		"another directory":                 "is another directory for the client than it is here",
		"a relative directory":              "expected an absolute path",
		"one descriptor twice":              "is another directory for the client than it is here",
		"an id that names a path":           "request id",
		"shell options that are none":       "shell option",
		"a shell that is none":              "expected bash or sh",
		"a mask that is none":               "umask",
	} {
		if o := got[name]; o.Status != 125 || o.Ran || !strings.Contains(o.Said, says) {
			t.Errorf("%s: %+v, expected 125 and %q", name, o, says)
		}
	}
}
