//go:build linux || darwin

package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/getpioneer/pioneer-super/forwarding"
	"github.com/getpioneer/pioneer-super/forwarding/carriertest"
	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/liveness"
)

// yard is one served channel and a hand that writes into it as a peer does.
type yard struct {
	t    testing.TB
	s    *Spool
	h    *carriertest.Handler
	root string
	stop func()
}

const channel = "ch-1"

func newYard(t testing.TB, o Options, decide func(context.Context, forwarding.Ask) (forwarding.Answer, error)) *yard {
	t.Helper()
	y := &yard{t: t, root: filepath.Join(t.TempDir(), "permission-forwarding"), h: carriertest.NewHandler(decide)}
	y.s = mustOpen(t, y.root, o)
	y.stop = carriertest.Serve(t, y.s, channel, y.h)
	return y
}

func allow(context.Context, forwarding.Ask) (forwarding.Answer, error) {
	return forwarding.Answer{Approved: true}, nil
}

// never fails the test if an ask gets as far as the handler.
func never(t testing.TB) func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
	return func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		t.Errorf("asked: %+v", a)
		return forwarding.Answer{Approved: true}, nil
	}
}

func (y *yard) box(parts ...string) string {
	return filepath.Join(append([]string{y.root, "sessions", channel}, parts...)...)
}
func (y *yard) request(id string) string  { return y.box("requests", id+".json") }
func (y *yard) response(id string) string { return y.box("responses", id+".json") }

func (y *yard) text(id, value string) string {
	r := carriertest.Request(value)
	r.ID, r.TargetSessionID, r.CreatedAt = id, channel, time.Now().UnixMilli()
	data, err := r.Encode()
	if err != nil {
		y.t.Fatal(err)
	}
	return string(data)
}

// put publishes a file as a peer does: whole, by rename.
func (y *yard) put(path, text string) {
	y.t.Helper()
	tmp := path + ".1.1.tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		y.t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		y.t.Fatal(err)
	}
}

// post writes a request.
func (y *yard) post(id, value string) { y.t.Helper(); y.put(y.request(id), y.text(id, value)) }

// patience is how long a test waits for what must come, on a machine that has
// other work to do.
const patience = 40 * time.Second

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func there(path string) bool { _, err := os.Lstat(path); return err == nil }

// answer waits for the answer to an id.
func (y *yard) answer(id string) wire.Response {
	y.t.Helper()
	var r wire.Response
	eventually(y.t, "the answer to "+id, func() bool {
		data, err := os.ReadFile(y.response(id))
		if err != nil {
			return false
		}
		if r, err = wire.ReadResponse(data); err != nil {
			y.t.Fatalf("answer to %s: %v: %s", id, err, data)
		}
		return true
	})
	return r
}

// take is answer, and takes it away as a peer does.
func (y *yard) take(id string) wire.Response {
	y.t.Helper()
	r := y.answer(id)
	if err := os.Remove(y.response(id)); err != nil {
		y.t.Fatal(err)
	}
	return r
}

func (y *yard) denied(id, reason string) {
	y.t.Helper()
	r := y.take(id)
	if r.Approved || !strings.Contains(r.DenialReason, reason) || r.DecidedBy.Kind == wire.KindUser {
		y.t.Errorf("answer to %s: %+v, expected a denial that says %q", id, r, reason)
	}
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	y := newYard(t, quick(), allow)
	y.post("a", "x")
	y.answer("a")
	modes := map[string]os.FileMode{}
	err := filepath.WalkDir(y.root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // half a heartbeat that was just renamed
		}
		rel, _ := filepath.Rel(y.root, path)
		modes[rel] = info.Mode()
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700 | os.ModeDir
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %s, expected %s", rel, info.Mode(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "sessions", "sessions/ch-1/requests/.keep", "sessions/ch-1/responses/a.json", "serving/ch-1.json"} {
		if _, ok := modes[name]; !ok {
			t.Errorf("no %s among %v", name, modes)
		}
	}
}

func TestFaultBadFiles(t *testing.T) {
	y := newYard(t, quick(), func(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		if a.ID != "good" {
			t.Errorf("asked: %s", a.ID)
		}
		return forwarding.Answer{Approved: true}, nil
	})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(y.text("link", "x")), 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(y.request("fifo"), 0o600))
	must(os.Symlink(secret, y.request("link")))
	must(os.Symlink(y.request("loop"), y.request("loop")))
	must(os.Symlink("/dev/zero", y.request("device")))
	must(os.Mkdir(y.request("folder"), 0o700))
	must(os.Mkdir(y.request("full")+".tmp", 0o700))
	must(os.WriteFile(filepath.Join(y.request("full")+".tmp", "x"), nil, 0o600))
	must(os.Rename(y.request("full")+".tmp", y.request("full")))
	sparse, err := os.Create(y.request("sparse") + ".tmp")
	must(err)
	must(sparse.Truncate(1 << 30))
	must(sparse.Close())
	must(os.Rename(y.request("sparse")+".tmp", y.request("sparse")))
	y.put(y.request("half"), y.text("half", "x")[:100])
	y.put(y.request("empty"), "")
	y.put(y.request("nul"), "\x00\x00")
	y.put(y.request("large"), strings.Repeat(" ", wire.MaxFile)+y.text("large", "x"))
	y.put(y.request("twice"), strings.Replace(y.text("twice", "ls"), `"value":"ls"`, `"value":"ls","value":"rm"`, 1))
	y.put(y.request("case"), strings.Replace(y.text("case", "ls"), `"value":"ls"`, `"value":"ls","ValuE":"rm -rf ~"`, 1))
	y.put(y.request("surrogate"), strings.Replace(y.text("surrogate", "ls"), `"value":"ls"`, `"value":"ls\ud83d"`, 1))
	y.put(y.request("other"), y.text("another", "x"))
	y.put(y.request("escape"), y.text("../../escaped", "x"))
	y.put(y.request("astray"), strings.Replace(y.text("astray", "x"), `"targetSessionId":"ch-1"`, `"targetSessionId":"ch-2"`, 1))
	y.put(y.request("ancient"), strings.Replace(y.text("ancient", "x"), `"createdAt":`, `"createdAt":1,"was":`, 1))
	y.put(y.box("requests", "no name.json"), y.text("no name", "x"))
	y.put(y.box("requests", ".json"), y.text("", "x"))
	y.put(y.box("requests", "...json"), y.text("..", "x"))
	y.post("good", "x")

	for id, reason := range map[string]string{
		"fifo": "not a regular file", "link": "not a regular file", "loop": "not a regular file", "device": "not a regular file", "folder": "not a regular file", "full": "not a regular file",
		"sparse": "larger than", "large": "larger than", "half": "ends too early", "empty": "ends too early", "nul": "invalid", "twice": "duplicate", "case": "only in case",
		"surrogate": "surrogate", "other": "not the name of its file", "escape": "not the name of its file", "astray": "addressed to another", "ancient": "older than a request can be",
	} {
		t.Run(id, func(t *testing.T) { y.denied(id, reason) })
	}
	if !y.take("good").Approved {
		t.Error("the good request among them was denied")
	}
	y.h.Await(t, forwarding.Dropped, "no name.json")
	y.h.Await(t, forwarding.Dropped, ".json")
	y.h.Await(t, forwarding.Dropped, "...json")
	eventually(t, "an inbox without requests", func() bool {
		names, _ := filepath.Glob(y.box("requests", "*.json"))
		return len(names) == 0
	})
	if data, err := os.ReadFile(secret); err != nil || string(data) == "" {
		t.Errorf("what the link led to: %q, %v", data, err)
	}
	if there(filepath.Join(y.root, "escaped.json")) || there(filepath.Join(y.root, "sessions", "escaped.json")) {
		t.Error("an answer was written outside its place")
	}
}

// What a file says later is not what was asked about.
func TestReplacedRequestIsAskedAnew(t *testing.T) {
	type asked struct {
		value string
		ctx   context.Context
		ask   forwarding.Ask
		free  chan struct{}
	}
	asks := make(chan asked, 4)
	y := newYard(t, quick(), func(ctx context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		one := asked{*a.Request.Value, ctx, a, make(chan struct{})}
		asks <- one
		<-one.free
		return forwarding.Answer{Approved: true, Responder: one.value}, nil
	})
	next := func() asked {
		select {
		case a := <-asks:
			return a
		case <-time.After(5 * time.Second):
			t.Fatalf("not asked; notices %+v", y.h.Notices())
			panic("unreachable")
		}
	}
	for name, replace := range map[string]func(id string){
		"by rename": func(id string) { y.post(id, "rm") },
		"in its place": func(id string) {
			f, err := os.OpenFile(y.request(id), os.O_WRONLY, 0)
			must(t, err)
			defer f.Close()
			_, err = f.WriteAt([]byte(y.text(id, "rm")), 0)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := "id-" + strings.ReplaceAll(name, " ", "-")
			y.post(id, "ls")
			first := next()
			if err := first.ask.Standing(); err != nil {
				t.Errorf("control: an ask that stands does not: %v", err)
			}
			replace(id)
			if err := first.ask.Standing(); !errors.Is(err, forwarding.ErrReplaced) && !errors.Is(err, forwarding.ErrWithdrawn) {
				t.Errorf("Standing of a replaced ask: %v", err)
			}
			close(first.free) // the human says yes to what was shown
			second := next()
			if second.value != "rm" {
				t.Fatalf("second ask is for %q", second.value)
			}
			if there(y.response(id)) {
				t.Fatal("the yes to the first was given to the second")
			}
			<-first.ctx.Done()
			close(second.free)
			if r := y.take(id); r.ResponderSessionID != "rm" {
				t.Errorf("answer %+v", r)
			}
		})
	}
}

// persist repeats an attack that is mended faster than it is made.
func persist(t testing.TB, attack func() error) {
	t.Helper()
	eventually(t, "the attack", func() bool { return attack() == nil })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The yes that arrives at the same moment as the replacement: the file is read
// once more before the answer is written.
func TestReplacedBetweenAnswerAndDelivery(t *testing.T) {
	var y *yard
	var asked atomic.Int32
	o := quick()
	o.NoNotify, o.Poll = true, time.Second // the watcher does not come first
	ready := make(chan struct{})
	y = newYard(t, o, func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		<-ready
		if asked.Add(1) == 1 {
			y.post(a.ID, "rm -rf ~")
		}
		return forwarding.Answer{Approved: *a.Request.Value == "ls"}, nil
	})
	close(ready)
	y.post("a", "ls")
	if r := y.take("a"); r.Approved || asked.Load() != 2 {
		t.Errorf("answer %+v after %d asks", r, asked.Load())
	}
}

// The same bytes again are the same ask: no second dialog.
func TestSameRequestWrittenAgain(t *testing.T) {
	free := make(chan struct{})
	var asked atomic.Int32
	y := newYard(t, quick(), func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		asked.Add(1)
		<-free
		return forwarding.Answer{Approved: true}, nil
	})
	text := y.text("a", "x")
	for range 5 {
		y.put(y.request("a"), text)
		time.Sleep(20 * time.Millisecond)
	}
	close(free)
	if r := y.take("a"); !r.Approved || asked.Load() != 1 {
		t.Errorf("answer %+v after %d asks", r, asked.Load())
	}
}

func TestAnIdIsUsedOnce(t *testing.T) {
	var asked atomic.Int32
	y := newYard(t, quick(), func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		asked.Add(1)
		return forwarding.Answer{Approved: *a.Request.Value == "ls"}, nil
	})
	y.post("a", "ls")
	if !y.take("a").Approved {
		t.Fatal("control: the first use is denied")
	}
	for range 3 {
		y.post("a", "ls")
		y.denied("a", "used before")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestAnIdThatWasWithdrawnIsUsed(t *testing.T) {
	var asked atomic.Int32
	y := newYard(t, quick(), func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		asked.Add(1)
		<-ctx.Done()
		return forwarding.Answer{Approved: true}, nil
	})
	y.post("a", "ls")
	eventually(t, "the ask", func() bool { return asked.Load() == 1 })
	must(t, os.Remove(y.request("a")))
	y.h.Await(t, forwarding.Withdrawn, "a")
	if there(y.response("a")) {
		t.Error("an answer to nobody")
	}
	y.post("a", "ls")
	y.denied("a", "used before")
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestReplacingForEverEnds(t *testing.T) {
	y := newYard(t, quick(), func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		<-ctx.Done()
		return forwarding.Answer{Approved: true}, nil
	})
	eventually(t, "a denial", func() bool {
		if there(y.response("a")) {
			return true
		}
		y.post("a", fmt.Sprint("x", time.Now().UnixNano()))
		time.Sleep(10 * time.Millisecond)
		return false
	})
	y.denied("a", "replaced more than")
}

func TestForgedAnswers(t *testing.T) {
	forged := `{"approved":true,"state":"approved","responderSessionId":"ch-1","respondedAt":1}`
	t.Run("to its own ask", func(t *testing.T) {
		free := make(chan struct{})
		y := newYard(t, quick(), func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
			<-free
			return forwarding.Answer{Reason: "no"}, nil
		})
		y.post("a", "x")
		y.put(y.response("a"), forged)
		y.h.Await(t, forwarding.Forged, "a")
		close(free)
		// The first answer stands; ours does not replace it, and nothing says that it did.
		eventually(t, "the end of the ask", func() bool { return !there(y.request("a")) })
		if data, _ := os.ReadFile(y.response("a")); string(data) != forged {
			t.Errorf("replaced by %s", data)
		}
		for _, n := range y.h.Notices() {
			if n.Kind == forwarding.Delivered {
				t.Errorf("told of a delivery: %+v", n)
			}
		}
	})
	t.Run("over ours", func(t *testing.T) {
		y := newYard(t, quick(), func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
			return forwarding.Answer{Reason: "no"}, nil
		})
		y.post("a", "x")
		y.answer("a")
		y.h.Await(t, forwarding.Delivered, "a")
		y.put(y.response("a"), forged)
		y.h.Await(t, forwarding.Forged, "a")
	})
	t.Run("into ours", func(t *testing.T) {
		y := newYard(t, quick(), func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
			return forwarding.Answer{Reason: "no"}, nil
		})
		y.post("a", "x")
		y.answer("a")
		y.h.Await(t, forwarding.Delivered, "a")
		must(t, os.WriteFile(y.response("a"), []byte(forged), 0o600))
		y.h.Await(t, forwarding.Forged, "a")
	})
	t.Run("for nobody", func(t *testing.T) {
		y := newYard(t, quick(), never(t))
		y.put(y.response("b"), forged)
		must(t, os.Symlink("/etc/passwd", y.response("c")))
		must(t, os.Mkdir(y.box("responses", "d"), 0o700))
		y.h.Await(t, forwarding.Forged, "b")
		y.h.Await(t, forwarding.Forged, "c")
		y.h.Await(t, forwarding.Forged, "d")
		time.Sleep(400 * time.Millisecond) // another look or two
		if n := len(y.h.Notices()); n != 4 {
			t.Errorf("%d notices, each forgery once expected: %+v", n, y.h.Notices())
		}
	})
	t.Run("never ours", func(t *testing.T) {
		y := newYard(t, quick(), allow)
		for i := range 50 {
			id := fmt.Sprint("id-", i)
			y.post(id, "x")
			y.take(id)
		}
		for _, n := range y.h.Notices() {
			if n.Kind == forwarding.Forged {
				t.Errorf("an answer of ours is called forged: %+v", n)
			}
		}
	})
}

func TestFaultInboxComesBack(t *testing.T) {
	elsewhere := t.TempDir()
	for name, attack := range map[string]func(y *yard) error{
		"deleted":                 func(y *yard) error { return os.RemoveAll(y.box()) },
		"deleted to the sessions": func(y *yard) error { return os.RemoveAll(filepath.Dir(y.box())) },
		"requests deleted":        func(y *yard) error { return os.RemoveAll(y.box("requests")) },
		"responses deleted":       func(y *yard) error { return os.RemoveAll(y.box("responses")) },
		"renamed away":            func(y *yard) error { return os.Rename(y.box(), filepath.Join(y.root, "away")) },
		"requests renamed away":   func(y *yard) error { return os.Rename(y.box("requests"), y.box("gone")) },
		"requests made a link": func(y *yard) error {
			return errors.Join(os.RemoveAll(y.box("requests")), os.Symlink(elsewhere, y.box("requests")))
		},
		"responses made a link": func(y *yard) error {
			return errors.Join(os.RemoveAll(y.box("responses")), os.Symlink(elsewhere, y.box("responses")))
		},
		"all of it made a link": func(y *yard) error { return errors.Join(os.RemoveAll(y.box()), os.Symlink(elsewhere, y.box())) },
		"requests made a file": func(y *yard) error {
			return errors.Join(os.RemoveAll(y.box("requests")), os.WriteFile(y.box("requests"), nil, 0o600))
		},
		"requests open to everyone": func(y *yard) error { return os.Chmod(y.box("requests"), 0o777) },
		"requests closed":           func(y *yard) error { return os.Chmod(y.box("requests"), 0) },
		"pin taken":                 func(y *yard) error { return os.Remove(y.box("requests", ".keep")) },
	} {
		for _, polled := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", polled ", polled), func(t *testing.T) {
				o := quick()
				o.NoNotify = polled
				y := newYard(t, o, allow)
				persist(t, func() error { return attack(y) })
				client := mustOpen(t, y.root, o)
				resp, err := client.Ask(context.Background(), channel, carriertest.Request("x"))
				for deadline := time.Now().Add(2 * time.Second); err != nil && errors.Is(err, forwarding.ErrNotSent) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
					// The place is not mended yet: a requester is told, and may ask again.
					resp, err = client.Ask(context.Background(), channel, carriertest.Request("x"))
				}
				if err != nil || !resp.Approved {
					t.Fatalf("response %+v, error %v, notices %+v", resp, err, y.h.Notices())
				}
				if left, _ := os.ReadDir(elsewhere); len(left) != 0 {
					t.Errorf("the link was followed: %v", left)
				}
			})
		}
	}
}

// A withdrawn ask is noticed although its directory went with it.
func TestFaultDeletedInboxWithdraws(t *testing.T) {
	cause := make(chan error, 1)
	started := make(chan struct{})
	y := newYard(t, quick(), func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return forwarding.Answer{Approved: true}, nil
	})
	y.post("a", "x")
	<-started
	persist(t, func() error { return os.RemoveAll(y.box()) })
	if err := <-cause; !errors.Is(err, forwarding.ErrWithdrawn) {
		t.Errorf("cause %v", err)
	}
}

func TestFlood(t *testing.T) {
	o := quick()
	o.MaxFiles, o.MaxOpen = 50, 5
	var asked atomic.Int32
	free := make(chan struct{})
	y := newYard(t, o, func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		asked.Add(1)
		<-free
		return forwarding.Answer{Approved: true}, nil
	})
	for i := range 200 {
		must(t, os.WriteFile(y.box("requests", fmt.Sprint("junk", i)), nil, 0o600))
	}
	y.h.Await(t, forwarding.Flooded, "")
	for i := range 40 {
		y.post(fmt.Sprint("id-", i), "x")
	}
	refused := 0
	eventually(t, "answers to all but the open ones", func() bool {
		names, _ := filepath.Glob(y.box("responses", "*.json"))
		refused = len(names)
		return refused >= 35
	})
	if n := asked.Load(); n != 5 || refused != 35 {
		t.Errorf("%d asked, %d refused", n, refused)
	}
	// A sibling on the same spool is served meanwhile.
	carriertest.Serve(t, y.s, "sibling", carriertest.Allow())
	if resp, err := mustOpen(t, y.root, o).Ask(context.Background(), "sibling", carriertest.Request("x")); err != nil || !resp.Approved {
		t.Errorf("sibling: %+v, %v", resp, err)
	}
	close(free)
}

func TestIdsRunOut(t *testing.T) {
	o := quick()
	o.MaxUsed = 3
	y := newYard(t, o, allow)
	for i := range 3 {
		y.post(fmt.Sprint("id-", i), "x")
		if !y.take(fmt.Sprint("id-", i)).Approved {
			t.Fatal("denied before the limit")
		}
	}
	y.post("id-3", "x")
	y.denied("id-3", "all its 3 request ids")
}

func TestOldRequestsAreDropped(t *testing.T) {
	y := newYard(t, quick(), never(t))
	path := y.request("old")
	tmp := path + ".tmp"
	must(t, os.WriteFile(tmp, []byte(strings.Replace(y.text("old", "x"), `"createdAt":`, `"createdAt":1000,"was":`, 1)), 0o600))
	past := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(tmp, past, past))
	must(t, os.Rename(tmp, path))
	y.h.Await(t, forwarding.Dropped, "old")
	if there(path) || there(y.response("old")) {
		t.Error("the old request is there, or was answered for nobody")
	}
}

// Requests found together are taken in the order of their making, not of their
// names, which are random: with room for one, the oldest is asked.
func TestOrder(t *testing.T) {
	y := &yard{t: t, root: filepath.Join(t.TempDir(), "r")}
	must(t, os.MkdirAll(y.box("requests"), 0o700))
	at := time.Now().UnixMilli() - 1000
	for i, id := range []string{"zz", "aa", "mm"} {
		y.put(y.request(id), strings.Replace(y.text(id, id), `"createdAt":`, fmt.Sprintf(`"createdAt":%d,"was":`, at+int64(i)), 1))
	}
	o := quick()
	o.MaxOpen = 1
	y.s = mustOpen(t, y.root, o)
	free := make(chan struct{})
	defer close(free)
	carriertest.Serve(t, y.s, channel, carriertest.NewHandler(func(_ context.Context, a forwarding.Ask) (forwarding.Answer, error) {
		if a.ID != "zz" {
			t.Errorf("asked: %s", a.ID)
		}
		<-free
		return forwarding.Answer{Approved: true}, nil
	}))
	y.denied("aa", "already wait")
	y.denied("mm", "already wait")
}

func TestFaultHalfWrittenRequests(t *testing.T) {
	root := filepath.Join(t.TempDir(), "r")
	y := &yard{t: t, root: root}
	must(t, os.MkdirAll(y.box("requests"), 0o700))
	must(t, os.MkdirAll(y.box("responses"), 0o700))
	past := time.Now().Add(-time.Hour)
	for path, old := range map[string]bool{y.request("x") + ".9.9.tmp": true, y.request("y") + ".9.9.tmp": false, y.response("old"): true, y.response("young"): false,
		y.response("z") + ".9.9.tmp": true} {
		must(t, os.WriteFile(path, []byte("{}"), 0o600))
		if old {
			must(t, os.Chtimes(path, past, past))
		}
	}
	y.s = mustOpen(t, root, quick())
	y.h = carriertest.NewHandler(never(t))
	carriertest.Serve(t, y.s, channel, y.h)
	eventually(t, "a swept inbox", func() bool {
		return !there(y.request("x")+".9.9.tmp") && !there(y.response("old")) && !there(y.response("z")+".9.9.tmp")
	})
	if !there(y.request("y")+".9.9.tmp") || !there(y.response("young")) {
		t.Error("what is young was swept")
	}
	for _, n := range y.h.Notices() {
		if n.Kind == forwarding.Forged {
			t.Errorf("what an earlier end left is called forged: %+v", n)
		}
	}
	// Its answer lies there: the id is over.
	y.post("young", "x")
	eventually(t, "the request to go", func() bool { return !there(y.request("young")) })
}

func TestRootIsChecked(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(filepath.Join(base, "open"), 0o700))
	must(t, os.Chmod(filepath.Join(base, "open"), 0o770))
	must(t, os.Symlink(base, filepath.Join(base, "link")))
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	for _, name := range []string{"open", "link", "file"} {
		if s, err := Open(filepath.Join(base, name), Options{}); !errors.Is(err, ErrUnsafe) && !errors.Is(err, os.ErrExist) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(base, "foreign")
		must(t, os.Mkdir(foreign, 0o700))
		must(t, os.Chown(foreign, 1234, 1234))
		if _, err := Open(foreign, Options{}); !errors.Is(err, ErrUnsafe) {
			t.Errorf("a foreign root: %v", err)
		}
	}
	s := mustOpen(t, filepath.Join(base, "new", "root"), quick())
	if info, err := os.Stat(s.root.path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("new root: %v, %v", info, err)
	}
}

// A decision that cannot be written is kept and written later; nobody is asked
// a second time.
func TestFaultFailedWriteIsRetriedNotAsked(t *testing.T) {
	var asked, failing atomic.Int32
	failing.Store(4)
	o := quick()
	y := &yard{t: t, root: filepath.Join(t.TempDir(), "r"), h: carriertest.NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		asked.Add(1)
		return forwarding.Answer{Approved: true, Responder: "once"}, nil
	})}
	y.s = mustOpen(t, y.root, o)
	write := y.s.ops.write
	y.s.ops.write = func(d dir, name string, data []byte, exclusive bool, now time.Time) (fileID, error) {
		if filepath.Base(d.path) == "responses" && failing.Add(-1) >= 0 {
			return fileID{}, fault("write", d.join(name), syscall.ENOSPC)
		}
		return write(d, name, data, exclusive, now)
	}
	carriertest.Serve(t, y.s, channel, y.h)
	y.post("a", "x")
	if n := y.h.Await(t, forwarding.Stuck, "a"); !strings.Contains(n.Reason, "no space left") || !errors.Is(n.Err, syscall.ENOSPC) {
		t.Errorf("notice %+v", n)
	}
	if r := y.take("a"); !r.Approved || r.ResponderSessionID != "once" {
		t.Errorf("answer %+v", r)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	stuck := 0
	for _, n := range y.h.Notices() {
		if n.Kind == forwarding.Stuck {
			stuck++
		}
	}
	if stuck != 1 {
		t.Errorf("told %d times that it is stuck", stuck)
	}
}

// While an answer is stuck, its request may go: then nobody is answered.
func TestFaultStuckAnswerIsWithdrawn(t *testing.T) {
	y := &yard{t: t, root: filepath.Join(t.TempDir(), "r"), h: carriertest.NewHandler(allow)}
	y.s = mustOpen(t, y.root, quick())
	write := y.s.ops.write
	var broken atomic.Bool
	broken.Store(true)
	y.s.ops.write = func(d dir, name string, data []byte, exclusive bool, now time.Time) (fileID, error) {
		if filepath.Base(d.path) == "responses" && broken.Load() {
			return fileID{}, fault("write", d.join(name), syscall.ENOSPC)
		}
		return write(d, name, data, exclusive, now)
	}
	carriertest.Serve(t, y.s, channel, y.h)
	y.post("a", "x")
	y.h.Await(t, forwarding.Stuck, "a")
	must(t, os.Remove(y.request("a")))
	y.h.Await(t, forwarding.Withdrawn, "a")
	broken.Store(false)
	time.Sleep(200 * time.Millisecond)
	if there(y.response("a")) {
		t.Error("an answer to nobody")
	}
}

func TestFaultRequesterOnAFullDisk(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "r"), quick())
	s.ops.write = func(d dir, name string, _ []byte, _ bool, _ time.Time) (fileID, error) {
		return fileID{}, fault("write", d.join(name), syscall.ENOSPC)
	}
	begun := time.Now()
	resp, err := s.Ask(context.Background(), "t", carriertest.Request("x"))
	if resp.Approved || !resp.Unavailable || !errors.Is(err, forwarding.ErrNotSent) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(resp.DenialReason, "no space left") {
		t.Errorf("response %+v, error %v", resp, err)
	}
	if took := time.Since(begun); took > patience/4 {
		t.Errorf("told after %s", took)
	}
}

// The heartbeat comes back whatever was done to it, and names who it should.
func TestFaultHeartbeatIsMended(t *testing.T) {
	y := newYard(t, quick(), allow)
	path := filepath.Join(y.root, "serving", channel+".json")
	read := func() (wire.Heartbeat, bool) {
		data, err := os.ReadFile(path)
		if err != nil {
			return wire.Heartbeat{}, false
		}
		h, err := wire.ReadHeartbeat(data)
		return h, err == nil && h.PID == os.Getpid() && h.SessionID == channel
	}
	fresh := func() bool {
		h, ok := read()
		info, err := os.Lstat(path)
		return ok && time.Since(time.UnixMilli(h.UpdatedAt)) < time.Second && err == nil && info.Mode().IsRegular()
	}
	if !fresh() {
		t.Fatal("control: no heartbeat")
	}
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("untouched"), 0o600))
	for name, attack := range map[string]func() error{
		"deleted":   func() error { return os.Remove(path) },
		"truncated": func() error { return os.Truncate(path, 0) },
		"garbage":   func() error { return os.WriteFile(path+".x", []byte("{"), 0o600) },
		"replaced": func() error {
			return errors.Join(os.WriteFile(path+".x", []byte("{"), 0o600), os.Rename(path+".x", path))
		},
		"made a link":      func() error { return errors.Join(os.Remove(path), os.Symlink(outside, path)) },
		"made a directory": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"directory gone":   func() error { return os.RemoveAll(filepath.Dir(path)) },
		"made large":       func() error { return os.Truncate(path, 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, attack())
			eventually(t, "a fresh heartbeat", fresh)
		})
	}
	if data, _ := os.ReadFile(outside); string(data) != "untouched" {
		t.Errorf("the link was followed: %q", data)
	}
	before, _ := read()
	eventually(t, "a beat", func() bool { h, ok := read(); return ok && h.UpdatedAt > before.UpdatedAt })
	y.stop()
	if there(path) {
		t.Error("the heartbeat outlives its session")
	}
}

func TestFaultReaderInAnotherPidNamespace(t *testing.T) {
	o := quick()
	o.PIDFor = func(ch string) int {
		if ch == "inner" {
			return 1
		}
		return 0
	}
	s := mustOpen(t, filepath.Join(t.TempDir(), "r"), o)
	for ch, pid := range map[string]int{"inner": 1, "outer": os.Getpid()} {
		carriertest.Serve(t, s, ch, carriertest.Allow())
		h, state, err := s.Heartbeat(ch)
		if err != nil || h.PID != pid || !state.Served() || (h.PIDNS != 0) != (ch == "outer") && h.PIDNS != 0 {
			t.Errorf("%s: %+v, %s, %v", ch, h, state, err)
		}
	}
}

// An inbox that is not served leaves nothing behind.
func TestTidy(t *testing.T) {
	y := newYard(t, quick(), allow)
	client := mustOpen(t, y.root, quick())
	if resp, err := client.Ask(context.Background(), channel, carriertest.Request("x")); err != nil || !resp.Approved {
		t.Fatalf("%+v, %v", resp, err)
	}
	if !there(y.box("requests", ".keep")) || !there(y.box("responses")) {
		t.Error("a requester took a served inbox away")
	}
	y.stop()
	if there(y.box()) {
		t.Error("the inbox is still there")
	}
	if resp, err := client.Ask(context.Background(), "never", carriertest.Request("x")); err == nil {
		t.Fatalf("%+v", resp)
	}
	if left, _ := os.ReadDir(filepath.Join(y.root, "sessions")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A request that is pending keeps the place for its answer.
func TestTidyKeepsThePlaceForAnswers(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "r"), quick())
	requests, responses, _, err := s.layout("x")
	must(t, err)
	defer requests.close()
	defer responses.close()
	_, err = requests.write("a.json", []byte("{}"), true, time.Now())
	must(t, err)
	s.tidy("x")
	if _, err := os.Stat(responses.path); err != nil {
		t.Errorf("with a request: %v", err)
	}
	must(t, requests.remove("a.json"))
	s.tidy("x")
	if _, err := os.Stat(filepath.Dir(responses.path)); err == nil {
		t.Error("without one it is still there")
	}
}

// The shape of what is written is the public protocol's.
func TestResponseOnDisk(t *testing.T) {
	y := newYard(t, quick(), allow)
	y.post("a", "x")
	y.answer("a")
	data, err := os.ReadFile(y.response("a"))
	must(t, err)
	var m map[string]any
	must(t, json.Unmarshal(data, &m))
	if m["approved"] != true || m["state"] != "approved" || m["responderSessionId"] != channel || m["denialReason"] != nil || strings.ContainsAny(string(data), "\n ") {
		t.Errorf("%s", data)
	}
}

// Two ends serve one channel, which nothing forbids two processes to do: each
// request gets one answer, whole and from one of them.
func TestFaultTwoResponders(t *testing.T) {
	y := newYard(t, quick(), func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		return forwarding.Answer{Approved: true, Responder: "first"}, nil
	})
	second := carriertest.NewHandler(func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		return forwarding.Answer{Reason: "no", Responder: "second"}, nil
	})
	carriertest.Serve(t, mustOpen(t, y.root, quick()), channel, second)
	client := mustOpen(t, y.root, quick())
	by := map[string]int{}
	for i := range 100 {
		resp, err := client.Ask(context.Background(), channel, carriertest.Request(fmt.Sprint("x", i)))
		if err != nil || resp.Approved != (resp.ResponderSessionID == "first") {
			t.Fatalf("%+v, %v", resp, err)
		}
		by[resp.ResponderSessionID]++
	}
	if by["first"]+by["second"] != 100 {
		t.Errorf("heard %v", by)
	}
	// Who was heard knows; who was not may think so where both were fast.
	for name, h := range map[string]*carriertest.Handler{"first": y.h, "second": second} {
		eventually(t, "the notices of the "+name, func() bool {
			delivered := 0
			for _, n := range h.Notices() {
				if n.Kind == forwarding.Delivered {
					delivered++
				}
			}
			return delivered >= by[name]
		})
	}
}

func TestFaultUnserved(t *testing.T) {
	y := newYard(t, quick(), allow)
	put := func(enc string) {
		must(t, os.MkdirAll(filepath.Join(y.root, "sessions", enc, "requests"), 0o700))
		must(t, os.WriteFile(filepath.Join(y.root, "sessions", enc, "requests", "a.json"), []byte("{}"), 0o600))
	}
	put("pi-session")
	put("a%2Fb%20c")
	put("a%2fb") // not what any peer writes
	put("unknown")
	must(t, os.MkdirAll(filepath.Join(y.root, "sessions", "idle", "requests"), 0o700))
	if got := y.s.Unserved(); len(got) != 2 || got[0] != "a/b c" || got[1] != "pi-session" {
		t.Errorf("%q", got)
	}
}

// A place of heartbeats that this implementation made says nothing about a peer
// from before heartbeats; one that a peer made, or a session that stopped, does.
func TestPeersFromBeforeHeartbeats(t *testing.T) {
	o := quick()
	o.AllPeersBeat = false
	s := mustOpen(t, filepath.Join(t.TempDir(), "r"), o)
	is := func(when string, want liveness.State) {
		t.Helper()
		if got := s.Serving("old-root"); got != want {
			t.Errorf("%s: %s, expected %s", when, got, want)
		}
	}
	is("no place of heartbeats", liveness.Legacy)
	stop := carriertest.Serve(t, s, channel, carriertest.Allow())
	is("a place that we made", liveness.Legacy)
	stop()
	if got := s.Serving(channel); got != liveness.Absent {
		t.Errorf("a session that stopped serving is %s", got)
	}
	carriertest.Serve(t, s, channel, carriertest.Allow())
	foreign := filepath.Join(s.root.path, "serving", "peer.json")
	must(t, os.WriteFile(foreign, fmt.Appendf(nil, `{"sessionId":"peer","pid":%d,"updatedAt":%d}`, os.Getpid(), time.Now().UnixMilli()), 0o600))
	is("a peer that beats", liveness.Absent)
	must(t, os.Remove(foreign))
	must(t, os.Remove(filepath.Join(s.root.path, "serving", marker)))
	is("a place that a peer made", liveness.Absent)

	// Such a peer is waited for, far beyond the grace.
	o.Timeout = 5 * o.Grace
	old := mustOpen(t, filepath.Join(t.TempDir(), "r"), o)
	begun := time.Now()
	resp, err := old.Ask(context.Background(), "old-root", carriertest.Request("x"))
	if took := time.Since(begun); !errors.Is(err, forwarding.ErrNoAnswer) || !resp.Unavailable || took < o.Timeout {
		t.Errorf("%+v, %v after %s", resp, err, took)
	}
}

// The wall clock may be set while somebody waits: nobody is given up for it.
func TestFaultClockIsSet(t *testing.T) {
	var shift atomic.Int64
	o := quick()
	client := o
	client.Now = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	free := make(chan struct{})
	y := newYard(t, o, func(context.Context, forwarding.Ask) (forwarding.Answer, error) {
		<-free
		return forwarding.Answer{Approved: true}, nil
	})
	s := mustOpen(t, y.root, client)
	got := make(chan wire.Response, 1)
	go func() {
		resp, _ := s.Ask(context.Background(), channel, carriertest.Request("x"))
		got <- resp
	}()
	for _, d := range []time.Duration{time.Hour, -time.Hour, -50 * 365 * 24 * time.Hour, 0} {
		shift.Store(int64(d))
		time.Sleep(o.Grace)
		select {
		case resp := <-got:
			t.Fatalf("given up when the clock was off by %s: %+v", d, resp)
		default:
		}
	}
	close(free)
	if resp := <-got; !resp.Approved {
		t.Errorf("%+v", resp)
	}
}

// A server that is stopped for longer than the grace is given up; one that goes
// on beating never is, whoever thinks about the ask.
func TestFaultStoppedServer(t *testing.T) {
	y := newYard(t, quick(), func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		<-ctx.Done()
		return forwarding.Answer{}, ctx.Err()
	})
	// Its heartbeat is frozen, as by SIGSTOP, and it answers nothing.
	y.s.mu.Lock()
	in := y.s.inbox[channel]
	y.s.mu.Unlock()
	in.beatMu.Lock()
	begun := time.Now()
	resp, err := mustOpen(t, y.root, quick()).Ask(context.Background(), channel, carriertest.Request("x"))
	in.beatMu.Unlock()
	if took := time.Since(begun); !errors.Is(err, forwarding.ErrUnserved) || resp.Approved || took > patience/2 {
		t.Errorf("%+v, %v after %s", resp, err, took)
	}
	if !strings.Contains(resp.DenialReason, "stale") {
		t.Errorf("reason %q", resp.DenialReason)
	}
}

// What a peer answers that cannot be read ends the ask at once, as unavailable,
// and both files go.
func TestUnusableAnswers(t *testing.T) {
	root := filepath.Join(t.TempDir(), "r")
	o := quick()
	o.AllPeersBeat = false
	s := mustOpen(t, root, o)
	y := &yard{t: t, s: s, root: root}
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte(`{"approved":true,"state":"approved","responderSessionId":"x"}`), 0o600))
	for name, answer := range map[string]func(path string) error{
		"garbage": func(p string) error { y.put(p, `{"approved": tru`); return nil },
		"empty":   func(p string) error { y.put(p, ""); return nil },
		"another case": func(p string) error {
			y.put(p, `{"approved":false,"state":"denied","responderSessionId":"x","APPROVED":true,"State":"approved"}`)
			return nil
		},
		"twice": func(p string) error {
			y.put(p, `{"approved":false,"approved":true,"state":"approved","responderSessionId":"x"}`)
			return nil
		},
		"a state": func(p string) error {
			y.put(p, `{"approved":true,"state":"sure","responderSessionId":"x"}`)
			return nil
		},
		"a link": func(p string) error { return os.Symlink(secret, p) },
		"a pipe": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"huge":   func(p string) error { y.put(p, strings.Repeat(" ", wire.MaxFile+1)); return nil },
		"yes and no": func(p string) error {
			y.put(p, `{"approved":true,"state":"denied","responderSessionId":"x"}`)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := carriertest.Request("x")
			r.ID = "id-" + strings.ReplaceAll(name, " ", "-")
			go func() {
				eventually(t, "the request", func() bool { return there(y.request(r.ID)) })
				must(t, answer(y.response(r.ID)))
			}()
			resp, err := s.Ask(context.Background(), channel, r)
			if resp.Approved {
				t.Fatalf("allowed: %+v", resp)
			}
			if contradiction := name == "yes and no"; (err == nil) != contradiction || resp.Inconsistent != contradiction || errors.Is(err, forwarding.ErrUnusable) == contradiction {
				t.Errorf("%+v, %v", resp, err)
			}
			if there(y.request(r.ID)) || there(y.response(r.ID)) || there(y.box()) {
				t.Error("something was left")
			}
		})
	}
}

// A late answer is nobody's: it is removed when it is seen.
func TestFaultLateAnswerIsRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "r")
	s := mustOpen(t, root, quick())
	y := &yard{t: t, s: s, root: root}
	r := carriertest.Request("x")
	r.ID = "late"
	if resp, err := s.Ask(context.Background(), channel, r); err == nil {
		t.Fatalf("%+v", resp)
	}
	must(t, os.MkdirAll(y.box("requests"), 0o700))
	must(t, os.MkdirAll(y.box("responses"), 0o700))
	y.put(y.response("late"), `{"approved":true,"state":"approved","responderSessionId":"x"}`)
	must(t, s.Close())
	if there(y.response("late")) || there(y.box()) {
		t.Error("the late answer is still there")
	}
}

// A peer takes an empty inbox away between its making and the writing.
func TestFaultInboxTakenAwayWhileSending(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "r"), quick())
	write := s.ops.write
	var taken atomic.Int32
	s.ops.write = func(d dir, name string, data []byte, exclusive bool, now time.Time) (fileID, error) {
		if filepath.Base(d.path) == "requests" && strings.HasSuffix(name, suffix) && taken.Add(1) <= 3 {
			s.tidy(filepath.Base(filepath.Dir(d.path)))
		}
		return write(d, name, data, exclusive, now)
	}
	resp, err := s.Ask(context.Background(), "peer", carriertest.Request("x"))
	if !errors.Is(err, forwarding.ErrUnserved) || resp.Approved || taken.Load() != 4 {
		t.Errorf("%+v, %v after %d tries", resp, err, taken.Load())
	}
}

// What another program holds for a moment is tried again; what fails for good
// fails at once.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		name  string
		errs  []error
		calls int
		want  error
	}{
		{"at once", []error{nil}, 1, nil},
		{"busy twice", []error{syscall.EBUSY, syscall.EPERM, nil}, 3, nil},
		{"busy for ever", []error{syscall.EACCES, syscall.EACCES, syscall.EACCES, syscall.EACCES, nil}, 4, syscall.EACCES},
		{"not there", []error{syscall.ENOENT, nil}, 1, syscall.ENOENT},
		{"busy, then full", []error{syscall.EBUSY, syscall.ENOSPC, nil}, 2, syscall.ENOSPC},
	} {
		calls := 0
		begun := time.Now()
		err := patiently(func() error { calls++; return tt.errs[calls-1] })
		if calls != tt.calls || !errors.Is(err, tt.want) {
			t.Errorf("%s: %d calls, %v", tt.name, calls, err)
		}
		if took := time.Since(begun); calls == 4 && took < 60*time.Millisecond {
			t.Errorf("%s: took %s", tt.name, took)
		}
	}
}

// One child rewrites huge requests as fast as it can; a sibling is answered.
func TestFaultSiblingOfAFlood(t *testing.T) {
	y := newYard(t, quick(), func(ctx context.Context, _ forwarding.Ask) (forwarding.Answer, error) {
		<-ctx.Done()
		return forwarding.Answer{}, ctx.Err()
	})
	carriertest.Serve(t, y.s, "sibling", carriertest.Allow())
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			id := fmt.Sprint("id-", i%200)
			_ = os.WriteFile(y.request(id)+".tmp", []byte(y.text(id, strings.Repeat("x", wire.MaxFile/4)+fmt.Sprint(i))), 0o600)
			_ = os.Rename(y.request(id)+".tmp", y.request(id))
		}
	}()
	client := mustOpen(t, y.root, quick())
	slowest := time.Duration(0)
	for range 20 {
		begun := time.Now()
		if resp, err := client.Ask(context.Background(), "sibling", carriertest.Request("x")); err != nil || !resp.Approved {
			t.Errorf("%+v, %v", resp, err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	close(stop)
	<-done
	if slowest > time.Second {
		t.Errorf("the slowest answer took %s", slowest)
	}
}
