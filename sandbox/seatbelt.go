package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/sandbox/seatbelt"
)

// BackendSeatbelt is macOS's own sandbox, put on by the program [seatbelt.Program] when a
// command is executed. It has no control envelope: a sandbox of macOS cannot start another
// one, so that agents which bring their own would not run in it.
const BackendSeatbelt = "macos-seatbelt"

const systemMac = "darwin"

// macFolders are readable in every restricted mode on macOS, where they exist: programs,
// frameworks, the loader's cache, command line tools. /Users, /Volumes, /private/var and the
// rest of /Library are not among them, nor what of /System leads to the user's volume.
var macFolders = []string{
	"/usr", "/bin", "/sbin", "/opt", "/nix",
	"/System/Library", "/System/Cryptexes", "/System/DriverKit", "/System/iOSSupport", "/System/Volumes/Preboot/Cryptexes",
	"/Library/Apple", "/Library/Developer", "/Library/Frameworks", "/Library/Java", "/Library/Perl", "/Library/Python", "/Library/Ruby",
	"/Applications/Xcode.app",
	"/private/var/db/dyld", "/private/var/db/timezone", "/private/var/select",
}

// macToolchains are places of macOS's own below a home directory that hold programs and
// libraries and nothing else.
var macToolchains = []string{
	"Library/Android/sdk", "Library/Java/JavaVirtualMachines", "Library/Python", "Library/pnpm", "Library/Application Support/fnm",
}

func (p *planner) systemFolders() []string {
	if p.request.Host.System == systemMac {
		return macFolders
	}
	return systemFolders
}

func (p *planner) toolchains() []string {
	if p.request.Host.System == systemMac {
		return slices.Concat(toolchains, macToolchains)
	}
	return toolchains
}

// addMacDevices adds the device nodes and the command's own terminal. Terminals in general
// and shared memory are no paths there: the profile has rules for them.
func (p *planner) addMacDevices() error {
	for _, path := range deviceNodes {
		if entry, err := p.files.Resolve(path); err == nil && entry.Device {
			p.out.devices = append(p.out.devices, entry.Path)
		}
	}
	if path := p.request.Terminal; path != "" {
		entry, err := p.resolve("terminal", path)
		if err != nil {
			return err
		}
		if !entry.Device || filepath.Dir(entry.Path) != "/dev" || !strings.HasPrefix(filepath.Base(entry.Path), "ttys") {
			return fmt.Errorf("sandbox request: terminal: %s is not a pseudo-terminal /dev/ttys…", path)
		}
		p.out.devices = append(p.out.devices, entry.Path)
	}
	return nil
}

func planSeatbelt(r Request, memory *Planner) (Profile, Report, error) {
	refused := Report{Status: StatusUnavailable}
	if !r.Host.Seatbelt {
		refused.Missing = []string{"macOS sandbox: " + r.Host.SeatbeltLack}
		return Profile{}, refused, &UnavailableError{"files", "no macOS sandbox: " + r.Host.SeatbeltLack}
	}
	roots, err := planRoots(r, memory)
	if err != nil {
		return Profile{}, refused, err
	}
	rules := seatbelt.Rules{
		Read: roots.read, Exec: roots.exec, List: roots.list, Write: roots.write, Devices: roots.devices,
		Protect: outermost(roots.given, nil), Sockets: outermost(roots.own, nil), Network: seatbelt.NetworkNone,
		UnixSockets: r.UnixSockets, SharedMemory: r.SharedMemory, Terminals: r.Pseudoterminals, Existence: r.Host.SeatbeltExistence,
	}
	if r.Network {
		rules.Network = seatbelt.NetworkAll
	}
	p := withCommon(Profile{Backend: BackendSeatbelt, NoNewPrivs: true, Seatbelt: &rules}, r)
	if err := p.Validate(); err != nil {
		return Profile{}, refused, err
	}
	return p, seatbeltReport(p, r, roots), nil
}

// seatbeltReport names what this backend leaves open. That it was never run is one of these.
func seatbeltReport(p Profile, r Request, roots roots) Report {
	have := map[string]bool{
		DegradedLocalhost:    !r.Network,
		DegradedNetworkAll:   r.Network,
		DegradedUnixSockets:  r.UnixSockets,
		DegradedSharedMemory: r.SharedMemory,
		DegradedTerminals:    r.Pseudoterminals,
		DegradedProcessLimit: r.Host.Root && p.Limits.Processes != 0,
		DegradedRootFiles:    r.Host.Root,
		DegradedSystem:       roots.truncated,
		DegradedMovedIn:      len(p.Seatbelt.Protect) > 0,
		DegradedServices:     true,
		DegradedMemoryLimit:  p.Limits.AddressSpace != 0,
		DegradedUnproven:     true,
	}
	out := Report{Status: StatusPartial, Backend: p.Backend, Notes: slices.Clone(roots.notes)}
	for _, d := range degradations {
		if have[d.name] {
			out.Degradations = append(out.Degradations, d.name)
		}
	}
	out.Strength = StrengthExcept + strings.Join(out.Degradations, ", ")
	out.Notes = append(out.Notes, "hard links cannot be made, and set-user-id programs such as ps do not start")
	if len(p.Seatbelt.Protect) > 0 {
		out.Notes = append(out.Notes, "repositories, worktrees and submodules can be made in the temporary directory only")
	}
	return out
}

// validateSeatbelt reports what makes a profile of this backend unusable.
func (p Profile) validateSeatbelt() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("sandbox profile: "+format, args...) }
	switch {
	case p.Backend != BackendSeatbelt:
		return bad("backend %q carries rules of %s", p.Backend, BackendSeatbelt)
	case p.Seatbelt == nil:
		return bad("backend %s without its rules", p.Backend)
	case !p.NoNewPrivs:
		return bad("noNewPrivs is required in every profile")
	case p.Files || p.Strict || p.Guard || p.Envelope || p.Landlock != 0 || p.DropCapabilities || p.Loopback || len(p.View) > 0 || slices.ContainsFunc(p.lists(), func(l pathList) bool { return len(l.paths) > 0 }):
		return bad("backend %s carries rules of another backend", p.Backend)
	case len(p.Descriptors) > MaxDescriptors:
		return bad("%d descriptors to keep, at most %d", len(p.Descriptors), MaxDescriptors)
	}
	for _, fd := range p.Descriptors {
		if fd < 3 {
			return bad("descriptor %d to keep: 0, 1 and 2 are always kept, others start at 3", fd)
		}
	}
	if _, err := p.Seatbelt.Profile(); err != nil {
		return bad("%w", err)
	}
	return nil
}

// SeatbeltCommand is the program to execute and its arguments, with which path runs with argv
// confined by p, whose backend is [BackendSeatbelt]. argv[0] is lost: the program sees path.
func (p Profile) SeatbeltCommand(path string, argv []string) (program string, args []string, err error) {
	if p.Seatbelt == nil {
		return "", nil, fmt.Errorf("sandbox backend %s: %w", p.Backend, errors.ErrUnsupported)
	}
	if err := p.Validate(); err != nil {
		return "", nil, err
	}
	if err := checkPath(path); err != nil {
		return "", nil, fmt.Errorf("sandbox command: %w", err)
	}
	if len(argv) == 0 {
		return "", nil, errors.New("sandbox command: no arguments, not even its name")
	}
	profile, err := p.Seatbelt.Profile()
	if err != nil {
		return "", nil, err
	}
	return seatbelt.Program, profile.Args(path, argv[1:]...), nil
}

// seatbeltWords is [Profile.String] for this backend.
func (p Profile) seatbeltWords() string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-13s %s\n", name, value) }
	r := p.Seatbelt
	line("backend", p.Backend)
	line("network", string(r.Network))
	for _, port := range r.Ports {
		line("  port", fmt.Sprintf("localhost:%d", port))
	}
	line("unix sockets", choose(r.UnixSockets, "any", "as listed"))
	line("shared memory", choose(r.SharedMemory, "host", "none"))
	line("terminals", choose(r.Terminals, "any", "own"))
	line("files", "as listed")
	p.listTo(line, []pathList{
		{"read", r.Read}, {"exec", r.Exec}, {"list", r.List}, {"write", r.Write}, {"devices", r.Devices}, {"protect", r.Protect}, {"sockets", r.Sockets},
	})
	return b.String()
}

// macFacts is [Host.Facts] on macOS.
func (h Host) macFacts() []Fact {
	return []Fact{
		{Name: "macOS sandbox", Have: h.Seatbelt,
			Detail: choose(h.Seatbelt, seatbelt.Program+" runs what a profile allows and refuses what it does not", h.SeatbeltLack),
			Remedy: choose(h.Seatbelt, "", "run it outside of another sandbox, on macOS 12 or newer")},
		supervisionElsewhere,
		{Name: "control envelope", Detail: "a sandbox of macOS cannot hold an agent that starts another one"},
		{Name: "ordinary user", Have: !h.Root,
			Detail: choose(h.Root, "running as the superuser", fmt.Sprintf("uid %d", h.UID)),
			Remedy: choose(h.Root, remedies["ordinary user"], "")},
	}
}

// supervisionElsewhere is the fact about every system but Linux.
var supervisionElsewhere = Fact{
	Name: "supervision", Detail: "trees of agents are supervised on Linux only: here nothing is started, and what judges or reads works",
	Remedy: "run it on Linux, in a virtual machine for instance",
}
