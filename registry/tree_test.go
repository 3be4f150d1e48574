package registry_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/registry/durable"
)

// prepared returns places in a directory of the test's own.
func prepared(t testing.TB) registry.Places {
	t.Helper()
	dir := t.TempDir()
	p := registry.Places{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Config: filepath.Join(dir, "config")}
	if err := p.Prepare(); err != nil {
		t.Fatal(err)
	}
	return p
}

func create(t testing.TB, p registry.Places) *registry.Tree {
	t.Helper()
	tree, err := registry.Create(p, registry.NewID("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

// story is what a small tree writes: a root, its tool, a child that asks.
var story = []registry.Event{
	{Time: 1, Kind: registry.TreeStarted, Tree: &registry.TreeFacts{Build: "test", Cwd: "/src"}},
	{Time: 2, Kind: registry.SessionStarted, Session: "s-root", Starts: &registry.SessionFacts{Agent: "pi", Mode: "supervised", Strength: "enforced"}},
	{Time: 3, Kind: registry.CommandStarted, Session: "s-root", Command: "c-root", Runs: &registry.CommandFacts{Agent: true, Text: "pi -p go", Leader: registry.Process{PID: 41}}},
	{Time: 4, Kind: registry.SessionStarted, Session: "s-child", Starts: &registry.SessionFacts{Parent: "s-root", Agent: "scout", Mode: "supervised", Depth: 1}},
	{Time: 5, Kind: registry.AskOpened, Session: "s-child", Ask: "perm-1", Asks: &registry.AskFacts{Surface: "bash", Value: "git push"}},
	{Time: 6, Kind: registry.AskClosed, Session: "s-child", Ask: "perm-1", Answer: &registry.Answer{Outcome: "allowed"}},
	{Time: 7, Kind: registry.CommandStarted, Session: "s-child", Command: "c-tool", Runs: &registry.CommandFacts{Text: "git push", Keeper: registry.Process{PID: 50, Start: 9}}},
	{Time: 8, Kind: registry.AskOpened, Session: "s-root", Ask: "perm-2", Asks: &registry.AskFacts{Surface: "bash", Value: "make"}},
	{Time: 9, Kind: registry.CommandEnded, Command: "c-tool", Exit: &registry.Exit{Known: true, Code: 3, Proof: "wait4"}},
	{Time: 10, Kind: registry.SessionEnded, Session: "s-child", Exit: &registry.Exit{Known: true}},
}

func tell(t testing.TB, tree *registry.Tree, events ...registry.Event) {
	t.Helper()
	for _, e := range events {
		if err := tree.AppendEvent(e, e.Kind == registry.SessionStarted); err != nil {
			t.Fatal(err)
		}
	}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStateOfALivingTree(t *testing.T) {
	t.Parallel()
	tree := create(t, prepared(t))
	tell(t, tree, story...)
	state, problems := tree.State()
	if problems != nil {
		t.Fatal(problems)
	}
	if !state.Alive || len(state.Sessions) != 1 || state.Lines != len(story) {
		t.Fatalf("state is %s", asJSON(t, state))
	}
	got := asJSON(t, state.Sessions)
	want := `[{"session":"s-root","agent":"pi","mode":"supervised","strength":"enforced","state":"running","pid":41,"started":2,` +
		`"asks":[{"request":"perm-2","surface":"bash","value":"make","since":8}],` +
		`"commands":[{"command":"c-root","session":"s-root","agent":true,"text":"pi -p go","keeper":{"pid":0},"leader":{"pid":41},"state":"running","started":3}],` +
		`"children":[{"session":"s-child","parent":"s-root","agent":"scout","mode":"supervised","depth":1,"state":"ended","started":4,"ended":10,"exit":{"known":true},` +
		`"commands":[{"command":"c-tool","session":"s-child","text":"git push","keeper":{"pid":50,"start":9},"leader":{"pid":0},"state":"ended","started":7,"ended":9,"exit":{"known":true,"code":3,"proof":"wait4"}}],` +
		`"ran":1,"allowed":1}]}]`
	want = strings.ReplaceAll(want, `"keeper":{"pid":0},`, "")
	want = strings.ReplaceAll(want, `"leader":{"pid":0},`, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if len(state.Answers) != 1 || state.Answers[0].Outcome != "allowed" || state.Session("s-child") == nil || state.Command("c-tool") == nil {
		t.Fatalf("answers %+v", state.Answers)
	}
}

func TestFaultDeadTreeInventsNothing(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	tree := create(t, p)
	tell(t, tree, story...)
	tree.Close()
	again, err := registry.Open(p, tree.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	state, problems := again.State()
	if problems != nil || state.Alive {
		t.Fatal(state.Alive, problems)
	}
	root, child := state.Session("s-root"), state.Session("s-child")
	if root.State != registry.Unknown || root.Exit != nil || child.State != registry.Ended || state.Command("c-root").State != registry.Unknown {
		t.Fatalf("root %+v, child %+v", root, child)
	}
	if err := again.AppendEvent(story[0], false); !errors.Is(err, registry.ErrReadOnly) {
		t.Fatalf("a tree that is not locked was written: %v", err)
	}
	if _, problems := again.FoldExits(); len(problems) != 1 || !errors.Is(problems[0], registry.ErrReadOnly) {
		t.Fatalf("a tree that is not locked was folded: %v", problems)
	}
}

// TestFaultEveryTruncationReplays cuts a journal at every byte: what stands in whole
// lines is told, nothing fails, and a successor can go on from there.
func TestFaultEveryTruncationReplays(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	tree := create(t, p)
	tell(t, tree, story...)
	tree.Close()
	journal, err := os.ReadFile(filepath.Join(tree.Dir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	whole := []string{stateAfter(t, nil)}
	for n := range story {
		whole = append(whole, stateAfter(t, story[:n+1]))
	}
	name := filepath.Join(tree.Dir(), "journal")
	for cut := range len(journal) + 1 {
		if err := os.WriteFile(name, journal[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		// A line that has all but its end is as good as whole.
		n := strings.Count(string(journal[:cut]), "\n")
		half := 0
		if rest := journal[strings.LastIndexByte(string(journal[:cut]), '\n')+1 : cut]; len(rest) > 0 {
			if cut < len(journal) && journal[cut] == '\n' {
				n++
			} else {
				half = 1
			}
		}
		state, problems := registry.Replay(tree.Dir())
		if got := asJSON(t, state.Sessions); got != whole[n] || state.Bad != half || len(problems) != half {
			t.Fatalf("cut at %d: %d bad lines, problems %v, state\n%s\nwant\n%s", cut, state.Bad, problems, got, whole[n])
		}
		if cut%29 != 0 {
			continue // each successor costs three fsyncs
		}
		again, err := registry.Open(p, tree.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Lock(); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		tell(t, again, registry.Event{Kind: registry.SessionStarted, Session: "s-later", Starts: &registry.SessionFacts{}})
		state, problems = again.State()
		if state.Session("s-later") == nil || state.Bad != half {
			t.Fatalf("cut at %d: the successor's line is lost: %v", cut, problems)
		}
		again.Close()
	}
}

func stateAfter(t *testing.T, events []registry.Event) string {
	tree := create(t, prepared(t))
	tell(t, tree, events...)
	tree.Close()
	state, problems := registry.Replay(tree.Dir())
	if problems != nil {
		t.Fatal(problems)
	}
	return asJSON(t, state.Sessions)
}

func TestFaultHostileJournals(t *testing.T) {
	t.Parallel()
	good := func(e registry.Event) string { return string(durable.Frame([]byte(asJSON(t, e)))) + "\n" }
	frame := func(text string) string { return string(durable.Frame([]byte(text))) + "\n" }
	start, session := good(story[0]), good(story[1])
	for name, c := range map[string]struct {
		text string
		bad  int
		says string
	}{
		"one flipped byte":        {start + strings.Replace(session, "supervised", "full_acces", 1), 1, "checksum"},
		"a line of a gigabyte":    {start + strings.Repeat("x", 1<<20) + "\n" + session, 1, "longer than"},
		"zeros after a power cut": {start + session + strings.Repeat("\x00", 5000), 1, "damaged"},
		"a repeated block":        {start + session + start + session, 1, "a second time"},
		"no such kind":            {start + frame(`{"time":1,"event":"root_granted"}`) + session, 1, "unknown event"},
		"duplicate name":          {start + frame(`{"time":1,"event":"tree_ended","event":"tree_started"}`) + session, 1, "duplicate"},
		"traversing id":           {start + frame(`{"time":1,"event":"session_started","session":"../x","starts":{}}`) + session, 1, "session id"},
		"child of nobody":         {start + good(story[3]) + session, 1, "never started"},
		"end of what never began": {start + good(story[8]) + session, 1, "never started"},
		"an end for a dead session": {start + session + good(registry.Event{Time: 1, Kind: registry.SessionEnded, Session: "s-root", Exit: &registry.Exit{}}) +
			good(registry.Event{Time: 1, Kind: registry.SessionEnded, Session: "s-root", Exit: &registry.Exit{Known: true}}), 1, "has ended"},
		"only noise": {strings.Repeat("noise\n", 1000), 1000, "without a checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			state, problems := registry.Replay(dir)
			if state.Bad != c.bad || len(problems) == 0 || len(problems) > 101 || !strings.Contains(problems[0].Error(), c.says) || !strings.Contains(problems[0].Error(), "journal:") {
				t.Fatalf("%d bad lines, problems %v", state.Bad, problems)
			}
			if name != "only noise" && name != "one flipped byte" && state.Session("s-root") == nil {
				t.Fatal("a good line was lost with the bad one")
			}
		})
	}
}

func TestFaultHostileFilesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(path string) error{
		"pipe":           mkfifo,
		"link":           func(path string) error { return os.Symlink("/etc/passwd", path) },
		"link inside":    func(path string) error { return os.Symlink("lock", path) },
		"directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"world-writable": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prepared(t)
			tree := create(t, p)
			tree.Close()
			for _, file := range []string{"journal", "lock"} {
				path := filepath.Join(tree.Dir(), file)
				if err := os.Rename(path, path+".kept"); err != nil {
					t.Fatal(err)
				}
				if err := plant(path); err != nil {
					t.Fatal(err)
				}
				again, err := registry.Open(p, tree.ID())
				if err != nil {
					t.Fatal(err)
				}
				if err := again.Lock(); !errors.Is(err, durable.ErrNotOurs) {
					t.Errorf("%s: Lock gives %v", file, err)
				}
				if _, problems := again.State(); len(problems) == 0 || !errors.Is(problems[0], durable.ErrNotOurs) {
					t.Errorf("%s: State gives %v", file, problems)
				}
				if list, problems := registry.List(p); len(list) != 0 || len(problems) != 1 || !errors.Is(problems[0], durable.ErrNotOurs) {
					t.Errorf("%s: List gives %v, %v", file, list, problems)
				}
				again.Close()
				if err := errors.Join(os.Remove(path), os.Rename(path+".kept", path)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestTreeIDsNameNoOtherPath(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	for _, id := range []string{"", ".", "..", "../x", "a/b", ".hidden", "-rf", "a\x00", strings.Repeat("x", 65)} {
		if _, err := registry.Create(p, id); !errors.Is(err, registry.ErrBadID) {
			t.Errorf("Create(%q) gives %v", id, err)
		}
		if _, err := registry.Open(p, id); !errors.Is(err, registry.ErrBadID) {
			t.Errorf("Open(%q) gives %v", id, err)
		}
	}
	tree := create(t, p)
	if _, err := registry.Create(p, tree.ID()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second tree of one id: %v", err)
	}
	if _, err := registry.Open(p, "t-none"); !errors.Is(err, registry.ErrNoTree) {
		t.Errorf("Open of nothing: %v", err)
	}
	// A link in the place of a tree leads nowhere.
	if err := os.Symlink(tree.Dir(), filepath.Join(p.State, "trees", "t-link")); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Open(p, "t-link"); !errors.Is(err, durable.ErrNotOurs) {
		t.Errorf("Open of a link: %v", err)
	}
}

func TestListIsNewestFirst(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	if list, problems := registry.List(p); list != nil || problems != nil {
		t.Fatal(list, problems)
	}
	if list, problems := registry.List(registry.Places{State: filepath.Join(p.State, "none")}); list != nil || problems != nil {
		t.Fatal(list, problems)
	}
	var want []string
	for n := range 4 {
		tree := create(t, p)
		tell(t, tree, registry.Event{Time: int64(1000 - n), Kind: registry.TreeStarted, Tree: &registry.TreeFacts{Cwd: fmt.Sprint(n)}})
		if n%2 == 0 {
			tree.Close()
		}
		want = append(want, fmt.Sprint(tree.ID(), " ", n%2 == 1, " ", n))
	}
	if err := os.WriteFile(filepath.Join(p.State, "trees", "stray file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list, problems := registry.List(p)
	var got []string
	for _, info := range list {
		got = append(got, fmt.Sprint(info.ID, " ", info.Alive, " ", info.Facts.Cwd))
	}
	if !slices.Equal(got, want) || len(problems) != 1 {
		t.Fatalf("got %q, want %q, problems %v", got, want, problems)
	}
}

func TestFaultOneWriter(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	tree := create(t, p)
	if err := tree.Lock(); err != nil {
		t.Fatalf("locking twice: %v", err)
	}
	other, err := registry.Open(p, tree.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Lock(); !errors.Is(err, registry.ErrHeld) {
		t.Fatalf("a second writer: %v", err)
	}
	if alive, err := other.Alive(); err != nil || !alive {
		t.Fatal(alive, err)
	}
	if err := registry.Remove(p, tree.ID()); !errors.Is(err, registry.ErrHeld) {
		t.Fatalf("a living tree was removed: %v", err)
	}
	tree.Close()
	if alive, err := other.Alive(); err != nil || alive {
		t.Fatal(alive, err)
	}
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	other.Close()
	if err := registry.Remove(p, tree.ID()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{tree.Dir(), tree.RunDir()} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// TestFaultLookingIsNeverInTheWay has many look while supervisors come and go: no
// start is refused because of it.
func TestFaultLookingIsNeverInTheWay(t *testing.T) {
	t.Parallel()
	p := prepared(t)
	tree := create(t, p)
	tree.Close()
	stop := make(chan struct{})
	done := make(chan error)
	const lookers = 8
	for range lookers {
		go func() {
			looking, err := registry.Open(p, tree.ID())
			for err == nil {
				select {
				case <-stop:
					done <- looking.Close()
					return
				default:
					_, err = looking.Alive()
				}
			}
			done <- err
		}()
	}
	deadline := time.Now().Add(time.Second)
	for n := 0; n < 500 && time.Now().Before(deadline); n++ {
		owner, err := registry.Open(p, tree.ID())
		if err == nil {
			err = owner.Lock()
		}
		if err != nil {
			t.Errorf("start %d: %v", n, err)
			break
		}
		owner.Close()
	}
	close(stop)
	for range lookers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestEventsAreCheckedAndBounded(t *testing.T) {
	t.Parallel()
	tree := create(t, prepared(t))
	for _, e := range []registry.Event{
		{}, {Kind: "made_up"}, {Kind: registry.TreeStarted},
		{Kind: registry.SessionStarted, Session: "s-1"}, {Kind: registry.SessionStarted, Session: "../x", Starts: &registry.SessionFacts{}},
		{Kind: registry.SessionState, Session: "s-1"}, {Kind: registry.SessionState, Session: "s-1", State: registry.Ended},
		{Kind: registry.SessionEnded, Session: "s-1"}, {Kind: registry.CommandEnded, Command: "c-1"},
		{Kind: registry.CommandStarted, Session: "s-1", Command: ""}, {Kind: registry.AskOpened, Session: "s-1", Ask: "a/b", Asks: &registry.AskFacts{}},
		{Kind: registry.AskClosed, Ask: "a", Answer: &registry.Answer{}},
		{Kind: registry.AskClosed, Ask: "a", Answer: &registry.Answer{Outcome: "denied", DecidedBy: []byte(`{"a":"` + strings.Repeat("x", 70_000) + `"}`)}},
	} {
		if err := tree.AppendEvent(e, false); err == nil {
			t.Errorf("%+v was written", e)
		}
	}
	tell(t, tree, story[0], story[1], registry.Event{Kind: registry.CommandStarted, Session: "s-root", Command: "c-1", Runs: &registry.CommandFacts{Text: strings.Repeat("é", 100_000)}},
		registry.Event{Kind: registry.CommandStarted, Session: "s-root", Command: "c-2", Runs: &registry.CommandFacts{Text: "a\nb\xff\x1b[31m"}})
	state, problems := tree.State()
	if problems != nil {
		t.Fatal(problems)
	}
	if text := state.Command("c-1").Text; len(text) != 4096+len("…") || !strings.HasSuffix(text, "é…") {
		t.Errorf("the long text is %d bytes", len(text))
	}
	if text := state.Command("c-2").Text; text != "a\nb\ufffd\x1b[31m" {
		t.Errorf("the odd text is %q", text)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	tree := create(t, prepared(t))
	tell(t, tree, story[:3]...)
	for n := range 2100 {
		command, ask := fmt.Sprint("c-", n), fmt.Sprint("perm-", n)
		tell(t, tree,
			registry.Event{Kind: registry.CommandStarted, Session: "s-root", Command: command, Runs: &registry.CommandFacts{}},
			registry.Event{Kind: registry.AskClosed, Session: "s-root", Ask: ask, Answer: &registry.Answer{Outcome: "denied"}})
		if n > 0 { // the first goes on running
			tell(t, tree, registry.Event{Kind: registry.CommandEnded, Command: command, Exit: &registry.Exit{Known: true}})
		}
	}
	state, problems := tree.State()
	root := state.Session("s-root")
	if problems != nil || root.Ran != 2099 || root.Denied != 2100 || len(root.Commands) > 130 || len(state.Answers) > 2048 || state.Answers[len(state.Answers)-1].ID != "perm-2099" {
		t.Fatalf("%d commands, %d ran, %d answers, %v", len(root.Commands), root.Ran, len(state.Answers), problems)
	}
	if state.Command("c-0") == nil || state.Command("c-root") == nil || state.Command("c-2099") == nil || state.Command("c-1") != nil {
		t.Fatal("what lives was forgotten, or what is over was not")
	}
}
