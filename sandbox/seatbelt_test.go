package sandbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/getpioneer/pioneer-super/sandbox/seatbelt"
)

var macHost = Host{System: "darwin", Backend: BackendSeatbelt, Seatbelt: true, UID: 1000, LandlockLack: "not Linux", SeccompLack: "not Linux"}

// macTree is a Mac in small: /etc, /tmp and /var are links, and a home directory holds
// secrets beside a toolchain.
func macTree() tree {
	return tree{
		"/usr": directory, "/bin": directory, "/opt": directory, "/System": directory, "/System/Library": directory,
		"/Library": directory, "/Library/Developer": directory, "/Library/Keychains": directory,
		"/etc": "-> /private/etc", "/private": directory, "/private/etc": directory, "/private/etc/hosts": openFile,
		"/private/etc/master.passwd": secret, "/private/var": directory, "/private/var/t": directory, "/private/var/t/own": directory,
		"/Users": directory, "/Users/ada": directory, "/Users/ada/.ssh": directory, "/Users/ada/.cargo": directory,
		"/Users/ada/.cargo/bin": directory, "/Users/ada/src": directory, "/Users/ada/Library": directory, "/Users/ada/Library/pnpm": directory,
		"/dev": directory, "/dev/null": device, "/dev/tty": device, "/dev/ttys001": device, "/dev/disk0": device,
	}
}

func macRequest() Request {
	return Request{
		Workspace: "/Users/ada/src", Home: "/Users/ada", Temp: "/private/var/t/own", Mode: ModeWorkspaceWrite,
		Terminal: "/dev/ttys001", Host: macHost, Files: macTree(), Limits: Limits{CPU: 60, AddressSpace: 1 << 30},
	}
}

func TestSeatbeltPlan(t *testing.T) {
	p, report, err := Plan(macRequest())
	if err != nil {
		t.Fatal(err)
	}
	want := `backend       macos-seatbelt
network       none
unix sockets  as listed
shared memory none
terminals     own
files         as listed
  read        /Library/Developer
  read        /System/Library
  read        /Users/ada/.cargo/bin
  read        /Users/ada/Library/pnpm
  read        /bin
  read        /opt
  read        /usr
  exec        /private/etc/hosts
  list        /private/etc
  write       /Users/ada/src
  write       /private/var/t/own
  devices     /dev/null
  devices     /dev/tty
  devices     /dev/ttys001
  protect     /Users/ada/src
  sockets     /private/var/t/own
limit         cpu 60 seconds
limit         address space 1073741824 bytes
`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantReport := Report{
		Strength: "enforced except localhost servers, moved folders, system services, memory limit, unproven", Status: StatusPartial, Backend: BackendSeatbelt,
		Degradations: []string{DegradedLocalhost, DegradedMovedIn, DegradedServices, DegradedMemoryLimit, DegradedUnproven},
		Notes: []string{
			"hard links cannot be made, and set-user-id programs such as ps do not start",
			"repositories, worktrees and submodules can be made in the temporary directory only",
		},
	}
	if diff := cmp.Diff(wantReport, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestSeatbeltPlanFollowsTheRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Request)
		holds  func(seatbelt.Rules) bool
		named  string
	}{
		"read-only": {func(r *Request) { r.Mode = ModeReadOnly }, func(s seatbelt.Rules) bool {
			return len(s.Write) == 1 && len(s.Protect) == 0 && strings.Contains(strings.Join(s.Read, " "), "/Users/ada/src")
		}, ""},
		"network":         {func(r *Request) { r.Network = true }, func(s seatbelt.Rules) bool { return s.Network == seatbelt.NetworkAll }, DegradedNetworkAll},
		"sockets":         {func(r *Request) { r.UnixSockets = true }, func(s seatbelt.Rules) bool { return s.UnixSockets }, DegradedUnixSockets},
		"shared memory":   {func(r *Request) { r.SharedMemory = true }, func(s seatbelt.Rules) bool { return s.SharedMemory }, DegradedSharedMemory},
		"terminals":       {func(r *Request) { r.Pseudoterminals = true }, func(s seatbelt.Rules) bool { return s.Terminals }, DegradedTerminals},
		"superuser":       {func(r *Request) { r.Host.Root = true }, func(s seatbelt.Rules) bool { return true }, DegradedRootFiles},
		"newer operation": {func(r *Request) { r.Host.SeatbeltExistence = true }, func(s seatbelt.Rules) bool { return s.Existence }, ""},
	} {
		before, plain, err := Plan(macRequest())
		if err != nil {
			t.Fatal(err)
		}
		r := macRequest()
		tt.change(&r)
		p, report, err := Plan(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !tt.holds(*p.Seatbelt) || name != "superuser" && tt.holds(*before.Seatbelt) {
			t.Errorf("%s: rules are %+v", name, *p.Seatbelt)
		}
		if named := strings.Contains(report.Strength, tt.named); !named || tt.named != "" && strings.Contains(plain.Strength, tt.named) {
			t.Errorf("%s: %s, and without it %s", name, report.Strength, plain.Strength)
		}
	}
}

func TestSeatbeltRefuses(t *testing.T) {
	for want, change := range map[string]func(*Request){
		"files cannot be enforced: no macOS sandbox: it is gone": func(r *Request) { r.Host.Seatbelt, r.Host.SeatbeltLack = false, "it is gone" },
		"holds the home directory":                               func(r *Request) { r.WriteRoots = []string{"/Users"} },
		"/dev/disk0 is not a pseudo-terminal":                    func(r *Request) { r.Terminal = "/dev/disk0" },
		"is not readable in this sandbox":                        func(r *Request) { r.Cwd = "/Users/ada/.ssh" },
	} {
		r := macRequest()
		change(&r)
		p, report, err := Plan(r)
		if err == nil || !strings.Contains(err.Error(), want) || report.Status != StatusUnavailable || p.Seatbelt != nil {
			t.Errorf("got %v, %+v, %v; want an error with %q", p, report, err, want)
		}
	}
	r := macRequest()
	r.Host.Seatbelt = false
	if _, _, err := Plan(r); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without its sandbox: %v", err)
	}
}

func TestSeatbeltCommand(t *testing.T) {
	p, _, err := Plan(macRequest())
	if err != nil {
		t.Fatal(err)
	}
	program, args, err := p.SeatbeltCommand("/bin/sh", []string{"bash", "-c", "make"})
	if err != nil {
		t.Fatal(err)
	}
	end := args[len(args)-4:]
	if program != "/usr/bin/sandbox-exec" || args[0] != program || !cmp.Equal(end, []string{"--", "/bin/sh", "-c", "make"}) {
		t.Errorf("%s %q", program, end)
	}
	for name, bad := range map[string]func() error{
		"a path that PATH would look up": func() error { _, _, err := p.SeatbeltCommand("sh", []string{"sh"}); return err },
		"no arguments":                   func() error { _, _, err := p.SeatbeltCommand("/bin/sh", nil); return err },
		"another backend": func() error {
			_, _, err := Profile{Backend: BackendEnvelope}.SeatbeltCommand("/bin/sh", []string{"sh"})
			return err
		},
		"rules of two backends": func() error {
			both := p
			both.Files = true
			_, _, err := both.SeatbeltCommand("/bin/sh", []string{"sh"})
			return err
		},
	} {
		if bad() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSeatbeltProfilesThatAreRefused(t *testing.T) {
	good, _, err := Plan(macRequest())
	if err != nil {
		t.Fatal(err)
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Profile){
		"carries rules of macos-seatbelt":  func(p *Profile) { p.Backend = BackendLandlock },
		"without its rules":                func(p *Profile) { p.Seatbelt = nil },
		"noNewPrivs is required":           func(p *Profile) { p.NoNewPrivs = false },
		"rules of another backend":         func(p *Profile) { p.Write = []string{"/x"} },
		"at most 16":                       func(p *Profile) { p.Descriptors = make([]int, MaxDescriptors+1) },
		"others start at 3":                func(p *Profile) { p.Descriptors = []int{2} },
		"seatbelt rules: read: empty path": func(p *Profile) { p.Seatbelt = &seatbelt.Rules{Read: []string{""}} },
	} {
		p := good
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if err := p.Confine(); err == nil {
			t.Errorf("%s: put on all the same", want)
		}
	}
	if err := good.Confine(); err == nil {
		t.Error("a profile of another system was put on here")
	}
}

func TestWhatADoctorSaysOfAMac(t *testing.T) {
	for _, f := range macHost.Facts() {
		if want := f.Name == "macOS sandbox" || f.Name == "ordinary user"; f.Have != want || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
	modes := macHost.Prospects()
	if len(modes) != 3 {
		t.Fatalf("%d modes", len(modes))
	}
	for _, p := range modes {
		if p.Refused != "" || p.Mode != ModeUnrestricted && !strings.Contains(p.Report.Strength, DegradedUnproven) {
			t.Errorf("%+v", p)
		}
	}
	without := Host{System: "darwin", SeatbeltLack: "sandbox-exec is not there"}
	for _, p := range without.Prospects() {
		if refused := strings.Contains(p.Refused, "sandbox-exec is not there"); refused != (p.Mode != ModeUnrestricted) {
			t.Errorf("%+v", p)
		}
	}
	if f := without.Facts()[0]; f.Have || f.Detail != "sandbox-exec is not there" || f.Remedy == "" {
		t.Errorf("%+v", f)
	}
}
