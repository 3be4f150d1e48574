package restricted

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the plans of testdata anew")

func session() Request {
	return Request{
		Name: "pioneer-super.t-1.s-1.0123456789abcdef", Write: []string{`C:\Users\ada\src`, `C:\Users\ada\AppData\Local\Temp\own`},
		Read: []string{`C:\Users\ada\go\bin`}, Protect: []string{`C:\Users\ada\src\.git\hooks`, `C:\Users\ada\src\.git\config`},
		Pin: []string{`C:\Users\ada\src\.git`},
	}
}

func with(change func(*Request)) Request {
	r := session()
	change(&r)
	return r
}

func TestPlansAreAsRecorded(t *testing.T) {
	for name, request := range map[string]Request{
		"session": session(),
		"limits":  {Name: "pioneer-super.t-2.s-1.0123456789abcdef", Limits: Limits{Processes: 64, Memory: 4 << 30, ProcessMemory: 1 << 30, CPU: 600}},
	} {
		p, err := New(request)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(p.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), p.String()); diff != "" {
			t.Errorf("%s differs (-want +got); if that is meant, run the test with -update:\n%s", file, diff)
		}
	}
}

// The second check of a restricted token is what keeps it out: an entry that refuses must cover
// every right that an entry of ours gives and that would change the place, and none of
// ours may let a process change lists or delete from above.
func TestEntriesHoldTogether(t *testing.T) {
	const writeDAC, writeOwner, deleteChild, writing = 0x40000, 0x80000, 0x40, 0x2 | 0x4 | 0x10 | 0x100 | 0x10000
	if modify&(writeDAC|writeOwner|deleteChild) != 0 {
		t.Errorf("%#x gives more than to modify", modify)
	}
	if modify&^readExecute&^change != 0 {
		t.Errorf("a protected place keeps the rights %#x", modify&^readExecute&^change)
	}
	if change&readExecute&^0x20000 != 0 || readExecute&writing != 0 || modify&writing != writing {
		t.Errorf("rights are mixed up: %#x %#x %#x", readExecute, modify, change)
	}
}

func TestLimitsNeverLetAProcessBreakAway(t *testing.T) {
	const breakaway, silentBreakaway = 0x800, 0x1000
	p, err := New(with(func(r *Request) { r.Limits = Limits{Processes: 1, Memory: 1, ProcessMemory: 1, CPU: 1} }))
	if err != nil {
		t.Fatal(err)
	}
	if p.LimitFlags&(breakaway|silentBreakaway) != 0 || p.LimitFlags&limitKillOnClose == 0 {
		t.Errorf("flags %#x", p.LimitFlags)
	}
	for _, flag := range []uint32{limitActiveProcess, limitJobMemory, limitProcessMemory, limitProcessTime} {
		if p.LimitFlags&flag == 0 {
			t.Errorf("flags %#x lack %#x", p.LimitFlags, flag)
		}
	}
}

func TestSIDsDiffer(t *testing.T) {
	a, b := CapabilitySID("pioneer-super.t-1.s-1"), CapabilitySID("pioneer-super.t-1.s-2")
	if a == b || strings.Count(a, "-") != 12 {
		t.Errorf("%s and %s", a, b)
	}
}

func TestUnusableRequests(t *testing.T) {
	for want, change := range map[string]func(*Request){
		"of 3 bytes, at least 16":                 func(r *Request) { r.Name = "abc" },
		"257 places, at most 256":                 func(r *Request) { r.Write, r.Read, r.Protect, r.Pin = make([]string, 257), nil, nil, nil },
		`write: C:\ would open the whole drive`:   func(r *Request) { r.Write = []string{`C:\`} },
		`lies in no directory that may be writ`:   func(r *Request) { r.Protect = []string{`C:\Users\ada\other`} },
		`C:\Users\ada\srcx lies in no directory`:  func(r *Request) { r.Pin = []string{`C:\Users\ada\srcx`} },
		`read: empty path`:                        func(r *Request) { r.Read = []string{""} },
		`read: path of 32768 bytes, at most 3276`: func(r *Request) { r.Read = []string{strings.Repeat("a", 32768)} },
	} {
		p, err := New(with(change))
		if err == nil || !strings.Contains(err.Error(), want) || p.SID != "" {
			t.Errorf("%+v, %v; want an error with %q", p, err, want)
		}
	}
}

func TestPathsThatLookLikeOthers(t *testing.T) {
	for _, good := range []string{`C:\`, `c:\work`, `D:\a b\ü.txt`, `C:\CONSOLE\com`, `C:\COM10`, `C:\.git`, `C:\x.con`} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, bad := range []string{
		`\\server\share`, `\\?\C:\x`, `\\.\pipe\x`, `C:x`, `x`, `/x`, `C:/x`, `C:\a/b`, `C:\a\`, `C:\a\\b`, `C:\a\..\b`, `C:\.`,
		`C:\a.`, `C:\a \b`, `C:\a:stream`, `C:\a::$DATA`, `C:\CON`, `C:\nul.txt`, `C:\a\Com1`, `C:\LPT¹`, `C:\con .txt`, "C:\\a\nb", "C:\\a\x00", `C:\a*`, `1:\a`, ``,
	} {
		if CheckPath(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, root string
		want       bool
	}{
		{`C:\a`, `C:\a`, true}, {`C:\A\b`, `c:\a`, true}, {`C:\ab`, `C:\a`, false}, {`C:\a`, `C:\`, true}, {`D:\a`, `C:\`, false}, {`C:\`, `C:\a`, false},
	} {
		if got := Within(tt.path, tt.root); got != tt.want {
			t.Errorf("%s within %s: %t", tt.path, tt.root, got)
		}
	}
}

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	sid := CapabilitySID("pioneer-super.t-1.s-1")
	want := Record{SID: sid, Places: []PlaceRecord{{Path: `C:\work`, Labelled: true}, {Path: `C:\own`, Label: "S:(ML;OICI;NW;;;LW)", Labelled: true}, {Path: `C:\go`}}}
	for range 2 { // over an older one too
		if err := want.Save(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := LoadRecord(file)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("files that are left: %v %v", left, err)
	}
	for name, text := range map[string]string{
		"another's sid":   `{"sid": "S-1-5-32-545", "places": []}`,
		"an unsound path": `{"sid": "` + sid + `", "places": [{"path": "\\\\server\\share"}]}`,
		"cut off":         `{"sid": "` + sid,
		"too large":       strings.Repeat(" ", largestRecord) + `{"sid": "` + sid + `"}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := LoadRecord(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if err := (Record{SID: "S-1-1-0"}).Save(file); err == nil {
		t.Error("a record of everyone's entries was saved")
	}
}
