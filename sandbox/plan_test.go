package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tree is a small file system: path to what is there. A value "-> x" is a symbolic link.
type tree map[string]string

const (
	directory = "dir"
	openFile  = "file"
	secret    = "secret"
	device    = "device"
	foreign   = "dir of another user"
)

func (t tree) entry(p string) (Entry, bool) {
	what, ok := t[p]
	if !ok {
		return Entry{}, false
	}
	e := Entry{Path: p, Open: true, UID: 1000}
	switch {
	case strings.HasPrefix(what, "-> "):
		e.Link, e.Open = true, false
	case what == directory:
		e.Dir = true
	case what == foreign:
		e.Dir, e.UID = true, 2000
	case what == device:
		e.Device = true
	case what == secret:
		e.Open, e.Secret = false, true
	}
	return e, true
}

func (t tree) Resolve(p string) (Entry, error) {
	at := "/"
	rest := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for hops := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if target, link := strings.CutPrefix(t[next], "-> "); link {
			if hops++; hops > 40 {
				return Entry{}, fmt.Errorf("%s: too many links", p)
			}
			rest = append(strings.Split(strings.TrimPrefix(target, "/"), "/"), rest...)
			at = "/"
			continue
		}
		at = next
	}
	e, ok := t.entry(at)
	if !ok && at != "/" {
		return Entry{}, fs.ErrNotExist
	}
	if at == "/" {
		e = Entry{Path: "/", Dir: true, Open: true}
	}
	return e, nil
}

func (t tree) List(dir string, limit int) ([]Entry, bool, error) {
	var out []Entry
	for p := range t {
		if path.Dir(p) == dir && p != dir {
			e, _ := t.entry(p)
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	if len(out) > limit {
		return out[:limit], true, nil
	}
	return out, false, nil
}

func (t tree) with(more tree) tree {
	out := tree{}
	for _, part := range []tree{t, more} {
		for p, what := range part {
			out[p] = what
		}
	}
	return out
}

var laptop = tree{
	"/usr": directory, "/bin": "-> /usr/bin", "/lib": "-> /usr/lib", "/usr/bin": directory, "/usr/lib": directory, "/usr/bin/bash": openFile,
	"/opt": directory, "/proc": directory, "/sys": directory, "/dev": directory, "/dev/null": device, "/dev/zero": device, "/dev/full": device,
	"/dev/random": device, "/dev/urandom": device, "/dev/tty": device, "/dev/ptmx": device, "/dev/pts": directory, "/dev/pts/3": device,
	"/dev/shm": directory, "/dev/sda": device,
	"/etc": directory, "/etc/passwd": openFile, "/etc/shadow": secret, "/etc/ssh": directory, "/etc/ssh/ssh_config": openFile,
	"/etc/ssh/ssh_host_ed25519_key": secret, "/etc/ssl": directory, "/etc/ssl/certs": directory, "/etc/ssl/private": secret,
	"/etc/localtime": "-> /usr/share/zoneinfo/UTC", "/etc/resolv.conf": "-> /run/systemd/resolve/stub-resolv.conf",
	"/run": directory, "/run/systemd/resolve/stub-resolv.conf": openFile, "/run/user/1000/pioneer": directory,
	"/run/user/1000/pioneer/s1": directory, "/run/user/1000/pioneer/s1/tmp": directory, "/run/user/1000/pioneer/s1/cache": directory,
	"/home/u": directory, "/home/u/p": directory, "/home/u/p/sub": directory, "/home/u/.ssh": directory, "/home/u/.cargo/bin": directory,
	"/home/u/.cargo/env": openFile, "/home/u/.rustup": "-> /home/u/.ssh", "/home/u/.pyenv": "-> /data/pyenv", "/data/pyenv": directory,
	"/home/u/.config/pioneer-super": directory, "/home/u/.local/bin": directory, "/home/u/.local/bin/pioneer-super": openFile,
	"/home/u/.local/state/pioneer-super": directory,
}

func goodHost() Host {
	return Host{LandlockABI: 7, LandlockErrata: 15, Seccomp: true, UserNamespacesLack: "the system refuses them", UID: 1000, Arch: "amd64"}
}

func goodRequest() Request {
	return Request{
		Workspace: "/home/u/p", Home: "/home/u", Temp: "/run/user/1000/pioneer/s1/tmp", CacheDir: "/run/user/1000/pioneer/s1/cache",
		Mode: ModeWorkspaceWrite, Executables: []string{"/home/u/.local/bin/pioneer-super", "/bin/bash"},
		Deny: []string{"/run/user/1000/pioneer", "/home/u/.local/state/pioneer-super", "/home/u/.config/pioneer-super"},
		Host: goodHost(), Files: laptop,
	}
}

func TestPlanInWords(t *testing.T) {
	p, report, err := Plan(goodRequest())
	if err != nil {
		t.Fatal(err)
	}
	want := `backend       linux-landlock
landlock      7
envelope      on
no-new-privs  on
capabilities  none
calls         filtered
network       none
unix sockets  connected pairs only
shared memory none
files         as listed
  read        /data/pyenv
  read        /etc/ssl/certs
  read        /home/u/.cargo/bin
  read        /home/u/.local/bin
  read        /opt
  read        /proc
  read        /sys
  read        /usr
  exec        /etc/passwd
  exec        /etc/ssh/ssh_config
  exec        /home/u/.cargo/env
  list        /etc
  write       /home/u/p
  write       /run/user/1000/pioneer/s1/cache
  write       /run/user/1000/pioneer/s1/tmp
  devices     /dev/full
  devices     /dev/null
  devices     /dev/random
  devices     /dev/tty
  devices     /dev/urandom
  devices     /dev/zero
`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Error(diff)
	}
	wantReport := Report{
		Strength: "enforced except protected paths, metadata, names, process list, localhost servers", Status: StatusPartial, Backend: BackendLandlock,
		Degradations: []string{DegradedProtected, DegradedMetadata, DegradedNames, DegradedProcessList, DegradedLocalhost},
		Missing:      []string{"user namespaces: the system refuses them"},
		Notes:        []string{"toolchain /home/u/.rustup is a link to /home/u/.ssh: left out"},
	}
	if diff := cmp.Diff(wantReport, report); diff != "" {
		t.Error(diff)
	}
}

// difference is what a change of the request changes in the profile's words and in the report.
func difference(t *testing.T, change func(*Request)) (added, removed []string, report Report) {
	t.Helper()
	base, _, err := Plan(goodRequest())
	if err != nil {
		t.Fatal(err)
	}
	r := goodRequest()
	change(&r)
	p, report, err := Plan(r)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(base.String(), "\n"), strings.Split(p.String(), "\n")
	words := func(line string) string { return strings.Join(strings.Fields(line), " ") }
	for _, line := range is {
		if !slices.Contains(was, line) {
			added = append(added, words(line))
		}
	}
	for _, line := range was {
		if !slices.Contains(is, line) {
			removed = append(removed, words(line))
		}
	}
	return added, removed, report
}

func TestPlanFollowsTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*Request)
		added, removed []string
		degraded       string // "+name" named now, "-name" no longer
	}{
		"read only":                    {func(r *Request) { r.Mode = ModeReadOnly }, []string{"read /home/u/p"}, []string{"write /home/u/p"}, "-" + DegradedProtected},
		"read only, workspace granted": {func(r *Request) { r.Mode, r.WorkspaceWrite = ModeReadOnly, true }, nil, nil, "+" + DegradedProtected},
		"network": {func(r *Request) { r.Network = true },
			[]string{"network host", "exec /run/systemd/resolve/stub-resolv.conf"}, []string{"network none"}, "+" + DegradedNetworkAll},
		"unix sockets":  {func(r *Request) { r.UnixSockets = true }, []string{"unix sockets any"}, []string{"unix sockets connected pairs only"}, "+" + DegradedUnixSockets},
		"shared memory": {func(r *Request) { r.SharedMemory = true }, []string{"shared memory host", "write /dev/shm"}, []string{"shared memory none"}, "+" + DegradedSharedMemory},
		"terminals":     {func(r *Request) { r.Pseudoterminals = true }, []string{"devices /dev/ptmx", "devices /dev/pts"}, nil, "+" + DegradedTerminals},
		"own terminal":  {func(r *Request) { r.Terminal = "/dev/pts/3" }, []string{"devices /dev/pts/3"}, nil, "-" + DegradedTerminals},
		"channel": {func(r *Request) { r.Session = []string{"/run/user/1000/pioneer/s1"} }, []string{"write /run/user/1000/pioneer/s1"},
			[]string{"write /run/user/1000/pioneer/s1/cache", "write /run/user/1000/pioneer/s1/tmp"}, ""},
		"a root in another place": {func(r *Request) { r.ReadRoots = []string{"/run/systemd/resolve/stub-resolv.conf"} },
			[]string{"exec /run/systemd/resolve/stub-resolv.conf"}, nil, ""},
		"a toolchain that config lists": {func(r *Request) {
			r.Toolchains = []string{".esp"}
			r.Files = laptop.with(tree{"/home/u/.esp": directory})
		},
			[]string{"read /home/u/.esp"}, nil, ""},
		"a toolchain that climbs out": {func(r *Request) { r.Toolchains = []string{"../other", ".", "/etc"} }, nil, nil, ""},
		"a toolchain that is denied":  {func(r *Request) { r.Toolchains = []string{".config/pioneer-super", ".config", ".local"} }, nil, nil, ""},
		"an old kernel":               {func(r *Request) { r.Host.LandlockABI = 5 }, []string{"landlock 5", "envelope off"}, []string{"landlock 7", "envelope on"}, "+" + DegradedSignals},
		"an older kernel":             {func(r *Request) { r.Host.LandlockABI = 3 }, []string{"landlock 3", "envelope off"}, []string{"landlock 7", "envelope on"}, "+" + DegradedDevices},
		"the superuser": {func(r *Request) { r.Host.Root, r.Host.UID = true, 0; r.Limits.Processes = 5 },
			[]string{"capabilities CAP_DAC_OVERRIDE only", "limit processes 5 of the user"}, []string{"capabilities none"}, "+" + DegradedProcessLimit},
		"home in a system folder": {func(r *Request) {
			r.Home, r.Workspace = "/opt/u", "/opt/u/p"
			r.Files = laptop.with(tree{"/opt/u": directory, "/opt/u/p": directory, "/opt/u/.ssh": directory, "/opt/tool": directory, "/opt/link": "-> /opt/u/.ssh"})
		}, []string{"read /opt/tool", "exec /home/u/.local/bin/pioneer-super", "write /opt/u/p"}, []string{"read /data/pyenv", "read /home/u/.cargo/bin", "read /home/u/.local/bin", "read /opt",
			"exec /home/u/.cargo/env", "write /home/u/p"}, ""},
		"/etc without secrets": {func(r *Request) {
			files := laptop.with(nil)
			for p, what := range laptop {
				if what == secret {
					delete(files, p)
				}
			}
			r.Files = files
		}, []string{"read /etc"}, []string{"read /etc/ssl/certs", "exec /etc/passwd", "exec /etc/ssh/ssh_config", "list /etc"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			added, removed, report := difference(t, c.change)
			if diff := cmp.Diff(c.added, added); diff != "" {
				t.Errorf("added: %s", diff)
			}
			if diff := cmp.Diff(c.removed, removed); diff != "" {
				t.Errorf("removed: %s", diff)
			}
			if c.degraded != "" {
				if named := slices.Contains(report.Degradations, c.degraded[1:]); named != (c.degraded[0] == '+') {
					t.Errorf("degradations %v, want %s", report.Degradations, c.degraded)
				}
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"no mode":                 {func(r *Request) { r.Mode = "" }, "no mode"},
		"an unknown mode":         {func(r *Request) { r.Mode = "full" }, `mode "full", expected unrestricted, workspace_write or read_only`},
		"no workspace":            {func(r *Request) { r.Workspace = "" }, "no workspace"},
		"no temporary directory":  {func(r *Request) { r.Temp = "" }, "no private temporary directory"},
		"a relative workspace":    {func(r *Request) { r.Workspace = "p" }, "workspace: path \"p\" is not absolute"},
		"a workspace with dots":   {func(r *Request) { r.Workspace = "/home/u/p/../p" }, "not in its shortest form"},
		"a workspace that is not": {func(r *Request) { r.Workspace = "/home/u/q" }, "workspace: file does not exist"},
		"a file as workspace":     {func(r *Request) { r.Workspace = "/usr/bin/bash" }, "is not a directory"},
		"the root as workspace":   {func(r *Request) { r.Workspace = "/" }, "would open the whole system"},
		"home as workspace":       {func(r *Request) { r.Workspace, r.Deny = "/home/u", nil }, "holds the home directory"},
		"a link to home as workspace": {func(r *Request) { r.Workspace, r.Deny, r.Files = "/l", nil, laptop.with(tree{"/l": "-> /home/u"}) },
			"holds the home directory"},
		"state in the workspace":    {func(r *Request) { r.Deny = []string{"/home/u/p/state"} }, "/home/u/p and /home/u/p/state, which no session reaches, lie one in the other"},
		"workspace in the state":    {func(r *Request) { r.Deny = []string{"/home/u/p"}; r.Workspace = "/home/u/p/sub" }, "lie one in the other"},
		"a read root in the state":  {func(r *Request) { r.ReadRoots = []string{"/run/user/1000/pioneer/s1"} }, "lies in /run/user/1000/pioneer, which no session reaches"},
		"a read root that is not":   {func(r *Request) { r.ReadRoots = []string{"/gone"} }, "read root: file does not exist"},
		"a write root that is not":  {func(r *Request) { r.WriteRoots = []string{"/gone"} }, "write root: file does not exist"},
		"the root as write root":    {func(r *Request) { r.WriteRoots = []string{"/"} }, "would open the whole system"},
		"session over the state":    {func(r *Request) { r.Session = []string{"/run/user/1000/pioneer"} }, "which no session reaches"},
		"a directory outside":       {func(r *Request) { r.Cwd = "/home/u/.ssh" }, "directory /home/u/.ssh is not readable in this sandbox; use the workspace /home/u/p"},
		"a terminal that is none":   {func(r *Request) { r.Terminal = "/etc/passwd" }, "is not a pseudo-terminal"},
		"a disk as terminal":        {func(r *Request) { r.Terminal = "/dev/sda" }, "is not a pseudo-terminal"},
		"a directory as executable": {func(r *Request) { r.Executables = []string{"/usr"} }, "is a directory"},
		"an executable that is not": {func(r *Request) { r.Executables = []string{"/gone"} }, "executable: file does not exist"},
		"no Landlock":               {func(r *Request) { r.Host.LandlockABI, r.Host.LandlockLack = 0, "switched off" }, "files cannot be enforced: no Landlock: switched off"},
		"Landlock 1":                {func(r *Request) { r.Host.LandlockABI = 1 }, "content writes cannot be enforced: Landlock version 1 leaves truncation open, version 3 is needed"},
		"Landlock 2":                {func(r *Request) { r.Host.LandlockABI = 2 }, "version 3 is needed"},
		"no filter":                 {func(r *Request) { r.Host.Seccomp, r.Host.SeccompLack = false, "no table" }, "network cannot be enforced: no system call filter: no table"},
		"a kept descriptor 0":       {func(r *Request) { r.Descriptors = []int{0} }, "start at 3"},
	} {
		t.Run(name, func(t *testing.T) {
			r := goodRequest()
			c.change(&r)
			p, report, err := Plan(r)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if p.Validate() == nil {
				t.Error("a usable profile came with the error")
			}
			if report.Status != StatusUnavailable || report.Strength != "" {
				t.Errorf("report %+v", report)
			}
			if lacks := strings.Contains(c.want, "cannot be enforced") || name == "Landlock 2"; errors.Is(err, ErrUnavailable) != lacks {
				t.Errorf("unavailable is %t", !lacks)
			}
		})
	}
}

func TestPlanUnrestrictedAndOff(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"unrestricted": func(r *Request) { r.Mode = ModeUnrestricted },
		"off":          func(r *Request) { r.Off = true },
	} {
		r := goodRequest()
		change(&r)
		p, report, err := Plan(r)
		if err != nil || p.Backend != BackendEnvelope || report.Strength != StrengthAdvisory || p.Validate() != nil {
			t.Errorf("%s: %v %v %v %v", name, p, report, err, p.Validate())
		}
		r.Host.LandlockABI, r.Host.Seccomp = 0, false
		p, report, err = Plan(r)
		if err != nil || p.Envelope || p.Guard || !slices.Contains(report.Degradations, DegradedPeerLimits) || !slices.Contains(report.Degradations, DegradedSignals) || p.Validate() != nil {
			t.Errorf("%s on an old kernel: %v %v %v", name, p, report, err)
		}
	}
	r := goodRequest()
	r.Mode, r.Off = "nonsense", true
	if _, _, err := Plan(r); err == nil {
		t.Error("an unknown mode passes when the sandbox is off")
	}
}

func TestEveryDegradationIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range degradations {
		if seen[d.name] || d.why == "" || Explain(d.name) != d.why || strings.Contains(d.name, ",") {
			t.Errorf("degradation %q", d.name)
		}
		seen[d.name] = true
	}
	if Explain("nonsense") != "" {
		t.Error("an unknown name is explained")
	}
}

// The examination of /etc ends at its bound; what was not examined is not granted, and the
// report says so.
func TestEtcIsBounded(t *testing.T) {
	many := func(dir string, n int) tree {
		files := laptop.with(tree{"/etc/zz": directory, "/etc/zz/zz": secret})
		for i := range n {
			files[fmt.Sprintf("%s/many%05d", dir, i)] = openFile
		}
		return files
	}
	for name, files := range map[string]tree{
		"more than is examined":           many("/etc", maxExamined+100),
		"more below than is examined":     many("/etc/zz", maxExamined+100),
		"more rules than are made":        many("/etc", maxEtcRules+100),
		"few, and all of them is granted": many("/etc", 100),
	} {
		r := goodRequest()
		r.Files = files
		p, report, err := Plan(r)
		if err != nil {
			t.Fatal(name, err)
		}
		if truncated := slices.Contains(report.Degradations, DegradedSystem); truncated != strings.HasPrefix(name, "more") {
			t.Errorf("%s: report %s", name, report.Strength)
		}
		if granted := slices.Concat(p.Read, p.Exec); slices.Contains(granted, "/etc/zz/zz") || slices.Contains(granted, "/etc/zz") || slices.Contains(granted, "/etc") {
			t.Errorf("%s: the secret is granted", name)
		}
	}
}

func TestValidate(t *testing.T) {
	good, _, err := Plan(goodRequest())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Profile)
		want   string
	}{
		"zero":                   {func(p *Profile) { *p = Profile{} }, "no permission to run unconfined"},
		"only limits":            {func(p *Profile) { *p = Profile{Limits: Limits{CPU: 1}, Network: true} }, "empty"},
		"an unknown backend":     {func(p *Profile) { p.Backend = "none" }, `unknown backend "none"`},
		"no new privileges lost": {func(p *Profile) { p.NoNewPrivs = false }, "noNewPrivs is required"},
		"no file rules":          {func(p *Profile) { p.Files = false }, "without file rules"},
		"no filter":              {func(p *Profile) { p.Strict = false }, "without the system call filter"},
		"no guard":               {func(p *Profile) { p.Guard = false }, "without the system call filter"},
		"capabilities":           {func(p *Profile) { p.DropCapabilities = false }, "keeps its capabilities"},
		"envelope left out":      {func(p *Profile) { p.Envelope = false }, "leaves it out"},
		"envelope on old":        {func(p *Profile) { p.Landlock = 5 }, "the envelope needs Landlock version 6"},
		"old Landlock":           {func(p *Profile) { p.Landlock = 2 }, "need Landlock version 3"},
		"an empty path":          {func(p *Profile) { p.Write = append(p.Write, "") }, "write: empty path"},
		"a relative path":        {func(p *Profile) { p.Read = append(p.Read, "x") }, "not absolute"},
		"a path with dots":       {func(p *Profile) { p.Exec = append(p.Exec, "/x/../y") }, "shortest form"},
		"a path with a zero":     {func(p *Profile) { p.List = append(p.List, "/x\x00") }, "zero byte"},
		"a long path":            {func(p *Profile) { p.Devices = append(p.Devices, "/"+strings.Repeat("x", 5000)) }, "bytes, at most"},
		"too many paths":         {func(p *Profile) { p.Read = slices.Repeat([]string{"/x"}, MaxPaths+1) }, "at most 4096"},
		"too many descriptors":   {func(p *Profile) { p.Descriptors = slices.Repeat([]int{5}, MaxDescriptors+1) }, "at most 16"},
		"envelope with rules":    {func(p *Profile) { p.Backend = BackendEnvelope }, "rules of another backend"},
		"envelope without sockets": {func(p *Profile) {
			*p, _ = EnvelopeOnly(goodHost())
			p.Network = false
		}, "cannot refuse sockets or shared memory"},
		"envelope with paths": {func(p *Profile) {
			*p, _ = EnvelopeOnly(goodHost())
			p.Write = []string{"/x"}
		}, "write rules without files"},
	} {
		p := good
		for _, list := range []*[]string{&p.Read, &p.Write, &p.Exec, &p.List, &p.Devices} {
			*list = slices.Clone(*list)
		}
		c.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err := p.Confine(); err == nil {
			t.Fatalf("%s: confined", name)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// A path cannot look like two lines.
func TestPathsAreQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"/a b": "/a b", "/a\nwrite /": `"/a\nwrite /"`, "/é": `"/\u00e9"`, "/\x1b[1m": `"/\x1b[1m"`, "/\u202e": `"/\u202e"`, "/\xff": `"/\xff"`,
	} {
		if got := printable(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func TestPlannerRemembersSystemFoldersOnly(t *testing.T) {
	home := t.TempDir()
	mkdir := func(dir string) string {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			t.Fatal(err)
		}
		return real
	}
	now := time.Unix(1000, 0)
	p := Planner{now: func() time.Time { return now }}
	r := Request{
		Workspace: mkdir(home + "/p"), Home: mkdir(home), Temp: mkdir(home + "/tmp"), Mode: ModeWorkspaceWrite, Host: goodHost(),
	}
	r.Host.UID = os.Getuid()
	reads := func() []string {
		t.Helper()
		profile, _, err := p.Plan(r)
		if err != nil {
			t.Fatal(err)
		}
		return profile.Read
	}
	cargo := r.Home + "/.cargo/bin"
	if slices.Contains(reads(), cargo) {
		t.Fatal("a toolchain that is not there")
	}
	mkdir(cargo)
	if slices.Contains(reads(), cargo) {
		t.Error("the system part was looked at again at once")
	}
	if r.Mode = ModeReadOnly; !slices.Contains(reads(), r.Workspace) {
		t.Error("the workspace was remembered")
	}
	now = now.Add(rememberFor)
	if !slices.Contains(reads(), cargo) {
		t.Error("the system part is remembered for ever")
	}
	for i := range 3 * mostRemembered {
		r.Toolchains = []string{fmt.Sprint(i)}
		reads()
	}
	if len(p.remembered) > mostRemembered {
		t.Errorf("%d remembered", len(p.remembered))
	}
}
