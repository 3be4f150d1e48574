package seatbelt

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the profiles of testdata anew")

const (
	workspace = "/Users/ada/src/engine"
	temp      = "/private/var/folders/zz/T/pioneer"
)

// session is a session's rules as a plan makes them.
func session() Rules {
	return Rules{
		Read:    []string{"/usr", "/bin", "/System/Library", "/private/etc/ssl", "/Users/ada/.cargo/bin"},
		Exec:    []string{"/private/etc/hosts"},
		List:    []string{"/private/etc"},
		Write:   []string{workspace, temp},
		Devices: []string{"/dev/null", "/dev/tty"},
		Protect: []string{workspace},
		Sockets: []string{temp},
	}
}

func with(change func(*Rules)) Rules {
	r := session()
	change(&r)
	return r
}

var profiles = map[string]Rules{
	"nothing":   {},
	"session":   session(),
	"read-only": with(func(r *Rules) { r.Read, r.Write, r.Protect = append(r.Read, workspace), []string{temp}, nil }),
	"network":   with(func(r *Rules) { r.Network = NetworkAll }),
	"loopback":  with(func(r *Rules) { r.Network = NetworkLoopback }),
	"proxy":     with(func(r *Rules) { r.Ports = []int{3129, 3128, 3129} }),
	"opened":    with(func(r *Rules) { r.UnixSockets, r.SharedMemory, r.Terminals, r.Existence = true, true, true, true }),
	"hostile": with(func(r *Rules) {
		r.Write, r.Sockets = append(r.Write, "/Users/ada/a\") (allow default) (deny file-read* (literal \"x"), nil
		r.Read = append(r.Read, "/Users/ada/line\nbreak", `/Users/ada/back\slash\`, `/Users/ada/#"^.*$"`, "/Users/ada/-D X=1")
	}),
}

func TestProfilesAreAsRecorded(t *testing.T) {
	for name, rules := range profiles {
		t.Run(name, func(t *testing.T) {
			p, err := rules.Profile()
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, param := range p.Params {
				fmt.Fprintf(&b, "; %s = %q\n", param.Name, param.Value)
			}
			got := b.String() + p.Text
			file := filepath.Join("testdata", name+".sb")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs (-want +got); if that is meant, run the test with -update:\n%s", file, diff)
			}
		})
	}
}

func TestOrderOfRulesDoesNotMatter(t *testing.T) {
	r := session()
	want, err := r.Profile()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{r.Read, r.Write, r.Devices} {
		slices.Reverse(list)
	}
	r.Read = append(r.Read, r.Read[0])
	got, err := r.Profile()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("(-want +got, %v):\n%s", err, diff)
	}
}

// TestActs goes through acts one by one. Each kind that is refused in one place is allowed in
// another, so that a judge which refused everything would fail.
func TestActs(t *testing.T) {
	in := func(path string) string { return workspace + "/" + path }
	tests := []struct {
		act  act
		want bool
	}{
		{act{operation: "file-read-data", path: "/usr/lib/libz.dylib"}, true},
		{act{operation: "file-map-executable", path: "/System/Library/dyld"}, true},
		{act{operation: "process-exec", path: "/bin/sh"}, true},
		{act{operation: "process-exec-interpreter", path: in("run")}, true},
		{act{operation: "process-exec", path: "/Applications/Mail.app/Contents/MacOS/Mail"}, false},
		{act{operation: "file-read-data", path: "/Users/ada/.ssh/id_ed25519"}, false},
		{act{operation: "file-read-metadata", path: "/Users/ada/.ssh/id_ed25519"}, false},
		{act{operation: "file-read-metadata", path: "/Users/ada"}, true},
		{act{operation: "file-read-data", path: "/Users/ada", directory: true}, false},
		{act{operation: "file-read-data", path: "/Users/ada/.cargo/bin/cargo"}, true},
		{act{operation: "file-read-data", path: "/Users/ada/.cargo/credentials.toml"}, false},
		{act{operation: "file-read-data", path: "/private/etc/hosts"}, true},
		{act{operation: "file-read-data", path: "/private/etc/master.passwd"}, false},
		{act{operation: "file-read-data", path: "/private/etc", directory: true}, true},
		{act{operation: "file-read-data", path: "/usr-other/x"}, false},
		{act{operation: "file-write-create", path: "/usr/local/bin/x"}, false},
		{act{operation: "file-write-create", path: "/Users/ada/x"}, false},
		{act{operation: "file-write-mode", path: "/Users/ada/x"}, false},
		{act{operation: "file-write-mode", path: in("x")}, true},
		{act{operation: "file-write-data", path: "/dev/null"}, true},
		{act{operation: "file-ioctl", path: "/dev/tty"}, true},
		{act{operation: "file-ioctl", path: "/dev/ttys003"}, false},
		{act{operation: "file-write-data", path: "/dev/disk0"}, false},

		{act{operation: "file-write-create", path: in("main.go")}, true},
		{act{operation: "file-write-create", path: in(".git/index.lock")}, true},
		{act{operation: "file-write-unlink", path: in(".git/index.lock")}, true},
		{act{operation: "file-write-create", path: in(".git/objects/ab/cdef")}, true},
		{act{operation: "file-write-create", path: in(".git/refs/heads/main.lock")}, true},
		{act{operation: "file-write-create", path: in(".gitignore")}, true},
		{act{operation: "file-write-create", path: in("hooks/x")}, true},
		{act{operation: "file-write-create", path: in("x.git/hooks/x")}, true},

		{act{operation: "file-write-create", path: in(".git/hooks/pre-commit")}, false},
		{act{operation: "file-write-create", path: in(".git/hooks")}, false},
		{act{operation: "file-write-unlink", path: in(".git/hooks")}, false},
		{act{operation: "file-write-data", path: in(".git/config")}, false},
		{act{operation: "file-write-mode", path: in(".git/config")}, false},
		{act{operation: "file-write-data", path: in("a/b/.git/config")}, false},
		{act{operation: "file-write-create", path: in("a\nb/.git/hooks/x")}, false},
		{act{operation: "file-write-create", path: in(".git/hooks/a\nb")}, false},
		{act{operation: "file-write-create", path: in(".GIT/Hooks/x")}, false},
		{act{operation: "file-write-create", path: in(".git/modules/dep/hooks/x")}, false},
		{act{operation: "file-write-data", path: in(".git/worktrees/w/config.worktree")}, false},
		{act{operation: "file-write-create", path: in("sub/.claude/settings.json")}, false},
		{act{operation: "file-write-create", path: in(".envrc")}, false},
		{act{operation: "file-write-create", path: temp + "/clone/.git/hooks/x"}, true},

		// What leads to a protected name is neither moved away nor brought in.
		{act{operation: "file-write-unlink", path: in(".git")}, false},
		{act{operation: "file-write-data", path: in("linked/.git")}, false},
		{act{operation: "file-write-create", path: in(".git")}, false},
		{act{operation: "file-write-unlink", path: in("a/.Git")}, false},
		{act{operation: "file-write-unlink", path: in(".git/modules/dep")}, false},
		{act{operation: "file-write-unlink", path: workspace}, false},
		{act{operation: "file-write-unlink", path: in("a")}, true},
		{act{operation: "file-link", path: in("a")}, false},

		{act{operation: "network-outbound", address: "tcp example.org:443"}, false},
		{act{operation: "network-outbound", address: "tcp localhost:3128"}, false},
		{act{operation: "network-bind", address: "unix", path: temp + "/s"}, true},
		{act{operation: "network-outbound", address: "unix", path: temp + "/s"}, true},
		{act{operation: "network-outbound", address: "unix", path: "/Users/ada/.docker/run/docker.sock"}, false},
		{act{operation: "network-outbound", address: "unix", path: in("s")}, false},
		{act{operation: "network-outbound", path: "/private/var/run/mDNSResponder", address: "unix"}, false},
		{act{operation: "mach-lookup"}, false},
		{act{operation: "appleevent-send"}, false},
		{act{operation: "lsopen"}, false},
		{act{operation: "job-creation"}, false},
		{act{operation: "pseudo-tty"}, false},
		{act{operation: "ipc-posix-shm-write-create"}, false},
		{act{operation: "process-fork"}, true},
	}
	j := newJudge(t, session())
	for _, tt := range tests {
		if got := j.allows(tt.act); got != tt.want {
			t.Errorf("%+v: allowed %t, want %t", tt.act, got, tt.want)
		}
	}
}

func TestWhatIsOpened(t *testing.T) {
	web := act{operation: "network-outbound", address: "tcp example.org:443"}
	proxy := act{operation: "network-outbound", address: "tcp localhost:3128"}
	other := act{operation: "network-outbound", address: "tcp localhost:5432"}
	datagram := act{operation: "network-outbound", address: "udp localhost:3128"}
	serve := act{operation: "network-bind", address: "tcp localhost:8080"}
	docker := act{operation: "network-outbound", address: "unix", path: "/var/run/docker.sock"}
	resolver := act{operation: "network-outbound", address: "unix", path: "/private/var/run/mDNSResponder"}
	terminal := act{operation: "pseudo-tty"}
	device := act{operation: "file-write-data", path: "/dev/ttys003"}
	memory := act{operation: "ipc-posix-shm-write-create"}
	all := []act{web, proxy, other, datagram, serve, docker, resolver, terminal, device, memory}

	for name, want := range map[string][]act{
		"session":  nil,
		"network":  {web, proxy, other, datagram, serve, resolver},
		"loopback": {proxy, other, datagram, serve},
		"proxy":    {proxy},
		"opened":   {docker, resolver, terminal, device, memory},
	} {
		j := newJudge(t, profiles[name])
		for _, a := range all {
			if got := j.allows(a); got != slices.Contains(want, a) {
				t.Errorf("%s: %+v: allowed %t", name, a, got)
			}
		}
	}
}

// A workspace in another directory that may be written could be moved away from its rules.
func TestWhatLeadsToAProtectedDirectoryIsPinned(t *testing.T) {
	r := session()
	r.Write = []string{"/Users/ada/src", temp}
	j := newJudge(t, r)
	for path, want := range map[string]bool{workspace: false, "/Users/ada/src": false, "/Users/ada/src/other": true} {
		if got := j.allows(act{operation: "file-write-unlink", path: path}); got != want {
			t.Errorf("moving %s: allowed %t, want %t", path, got, want)
		}
	}
}

// Agents make worktrees in folders of their own; there a name is protected all the same.
func TestDirectoriesBelowAProtectedName(t *testing.T) {
	r := session()
	nested := workspace + "/.claude/worktrees/.Git/Hooks/w"
	r.Write, r.Protect = append(r.Write, nested), append(r.Protect, nested)
	j := newJudge(t, r)
	for path, want := range map[string]bool{
		nested + "/main.go":               false, // it lies in the workspace's own .claude
		nested + "/.claude/settings.json": false,
	} {
		if got := j.allows(act{operation: "file-write-create", path: path}); got != want {
			t.Errorf("in both: %s: allowed %t, want %t", path, got, want)
		}
	}
	r.Write, r.Protect = []string{nested, temp}, []string{nested}
	j = newJudge(t, r)
	for path, want := range map[string]bool{
		nested + "/main.go":                 true,
		nested + "/.claude/settings.json":   false,
		nested + "/a/.CLAUDE/settings.json": false,
		nested + "/.git/hooks/x":            false,
		nested + "/.git/index.lock":         true,
		nested + "/.envrc":                  false,
	} {
		if got := j.allows(act{operation: "file-write-create", path: path}); got != want {
			t.Errorf("%s: allowed %t, want %t", path, got, want)
		}
	}
}

// anyPath draws absolute paths with what a careless writer of profiles would trip over.
func anyPath(prefix string) *rapid.Generator[string] {
	name := rapid.StringOfN(rapid.RuneFrom([]rune("ab \n\t\"\\#();'`$=*?[]^|-äλ.D")), 1, 12, -1).
		Filter(func(s string) bool { return s != "." && s != ".." })
	return rapid.Custom(func(t *rapid.T) string {
		return prefix + "/" + strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/")
	})
}

// TestNoPathBecomesText draws paths: whatever they hold, the text says nothing that a text
// with plain paths does not say, and each path is the value of a parameter.
func TestNoPathBecomesText(t *testing.T) {
	said := map[string]bool{}
	for _, r := range profiles {
		p, err := r.Profile()
		if err != nil {
			t.Fatal(err)
		}
		said = words(readProfile(t, p.Text), said)
	}
	name := regexp.MustCompile(`^[A-Z]+_[0-9]+$`)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what, prefix string) []string {
			return rapid.SliceOfN(anyPath(prefix), 0, 3).Draw(t, what)
		}
		r := Rules{Read: draw("read", "/r"), Exec: draw("exec", "/e"), List: draw("list", "/l"), Write: draw("write", "/w"), Devices: draw("devices", "/d")}
		r.Protect, r.Sockets = r.Write, r.Write
		p, err := r.Profile()
		if err != nil {
			t.Fatal(err)
		}
		for word := range words(readProfile(t, p.Text), map[string]bool{}) {
			if !said[word] && !name.MatchString(word) {
				t.Errorf("the text says %q", word)
			}
		}
		values := map[string]bool{}
		for _, param := range p.Params {
			values[param.Value] = true
		}
		for _, list := range r.lists() {
			for _, path := range list.paths {
				if !values[path] {
					t.Errorf("%s: %q is no parameter", list.name, path)
				}
			}
		}
	})
}

func words(forms []form, into map[string]bool) map[string]bool {
	for _, f := range forms {
		if f.kind == '(' {
			words(f.list, into)
		} else {
			into[f.text] = true
		}
	}
	return into
}

// TestRulesHoldForAnyPath draws directories and asks the judge: what was named is allowed
// below each, and nothing beside them.
func TestRulesHoldForAnyPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		read, write := anyPath("/r").Draw(t, "read"), anyPath("/w").Draw(t, "write")
		j := newJudge(t, Rules{Read: []string{read}, Write: []string{write}, Protect: []string{write}, Devices: []string{"/dev/null"}})
		for _, tt := range []struct {
			operation, path string
			want            bool
		}{
			{"file-read-data", read + "/x", true},
			{"file-write-data", read + "/x", false},
			{"file-read-data", read + "x", false},
			{"file-write-create", write + "/x", true},
			{"file-write-create", write + "x", false},
			{"file-write-create", write + "/x/.git/hooks/y", false},
			{"file-write-unlink", write, false},
			{"file-read-data", "/x", false},
		} {
			if got := j.allows(act{operation: tt.operation, path: tt.path}); got != tt.want {
				t.Errorf("%s %q: allowed %t, want %t", tt.operation, tt.path, got, tt.want)
			}
		}
	})
}

func TestEveryProtectedNameIsKept(t *testing.T) {
	j := newJudge(t, session())
	for _, name := range Protected() {
		for _, spelling := range []string{name, strings.ToUpper(name)} {
			path := workspace + "/deep/" + strings.ReplaceAll(spelling, "*", "any name")
			for _, operation := range []string{"file-write-create", "file-write-data", "file-write-unlink"} {
				if j.allows(act{operation: operation, path: path}) {
					t.Errorf("%s %s is allowed", operation, path)
				}
			}
			if longer := !strings.HasSuffix(name, "*"); longer && !j.allows(act{operation: "file-write-create", path: path + "x"}) {
				t.Errorf("%sx is kept too", path)
			}
		}
	}
}

func TestUnusableRules(t *testing.T) {
	long := "/" + strings.Repeat("a", longestPath)
	many := make([]string, MaxPaths+1)
	for i := range many {
		many[i] = fmt.Sprintf("/p/%d", i)
	}
	for want, change := range map[string]func(*Rules){
		"empty path":                      func(r *Rules) { r.Read = []string{""} },
		"is not absolute":                 func(r *Rules) { r.Exec = []string{"bin/sh"} },
		"not in its shortest form":        func(r *Rules) { r.List = []string{"/a/../b"} },
		"shortest form \"/a\"":            func(r *Rules) { r.Devices = []string{"/a/"} },
		"holds a zero byte":               func(r *Rules) { r.Write = []string{"/a\x00"} },
		"is not UTF-8":                    func(r *Rules) { r.Write = []string{"/a\xff"} },
		"path of 1025 bytes, at most":     func(r *Rules) { r.Read = []string{long} },
		"at most 4096":                    func(r *Rules) { r.Read = many },
		"would open the whole system":     func(r *Rules) { r.Write = []string{"/"} },
		"lies in no directory that may":   func(r *Rules) { r.Protect = []string{"/elsewhere"} },
		"\"/usr\" lies in no directory":   func(r *Rules) { r.Sockets = []string{"/usr"} },
		"network \"some\", expected none": func(r *Rules) { r.Network = "some" },
		"port 0, expected 1 to 65535":     func(r *Rules) { r.Ports = []int{0} },
		"port 65536, expected":            func(r *Rules) { r.Ports = []int{65536} },
		"17 ports, at most 16":            func(r *Rules) { r.Ports = make([]int, MaxPorts+1) },
		"bytes with its parameters": func(r *Rules) {
			for i := range 1000 {
				r.Read = append(r.Read, fmt.Sprintf("/%s/%d", strings.Repeat("a", 900), i))
			}
		},
	} {
		p, err := with(change).Profile()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if p.Text != "" || p.Params != nil {
			t.Errorf("%s: a profile beside the error", want)
		}
	}
}

func TestArgs(t *testing.T) {
	p := Profile{Text: "(version 1)", Params: []Param{{"READ_0", "/a=b\n-p"}}}
	got := p.Args("/bin/sh", "-c", "true")
	want := []string{"/usr/bin/sandbox-exec", "-D", "READ_0=/a=b\n-p", "-p", "(version 1)", "--", "/bin/sh", "-c", "true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheProbesOwnProfileCanBeRead(t *testing.T) {
	forms := readProfile(t, ExistenceProbe().Text)
	if got := words(forms, map[string]bool{}); !got["file-test-existence"] || len(forms) != 3 {
		t.Errorf("read as %v", forms)
	}
}
