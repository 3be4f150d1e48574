package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The modes of a request, in the words of the permission profiles.
const (
	ModeUnrestricted   = "unrestricted"
	ModeWorkspaceWrite = "workspace_write"
	ModeReadOnly       = "read_only"
)

// The strengths of a report. "enforced except a, b" is made from the second.
const (
	StrengthEnforced = "enforced"
	StrengthExcept   = "enforced except "
	StrengthAdvisory = "advisory"
)

// The words of a snapshot's enforcement status.
const (
	StatusActive      = "active"
	StatusPartial     = "partially_active"
	StatusUnavailable = "unavailable"
)

// Request is what a command is to be confined to, before anything is known of how. All
// paths are absolute.
type Request struct {
	// Workspace is the directory that the session works on.
	Workspace string
	// Cwd is the directory of the command, "" for Workspace. It must be readable in the result.
	Cwd string
	// Home is the user's home directory: nothing of it is readable but the listed
	// toolchains and what roots name.
	Home string
	// Temp is the session's private temporary directory, which exists.
	Temp string
	// CacheDir is the session's private directory for build caches, "" for none.
	CacheDir string
	// Mode is one of the Mode constants; anything else is an error.
	Mode string
	// WorkspaceWrite opens the workspace for writing in ModeReadOnly.
	WorkspaceWrite bool
	// Network grants the host's network, all of it.
	Network bool
	// Off is the operator's answer that this command runs outside the sandbox: the
	// envelope alone remains.
	Off bool
	// ReadRoots and WriteRoots are further directories or files that policy or a human gave.
	ReadRoots, WriteRoots []string
	// Toolchains are directories below Home, relative to it, that config adds to the
	// listed ones; read only.
	Toolchains []string
	// Executables are files that must run inside: our own binary, the resolved shell.
	Executables []string
	// Session are paths of ours that belong to this session alone (its channel) and may
	// therefore lie below a denied one; they are writable.
	Session []string
	// Deny are places that no session reaches: state, run directory, policy. A root that
	// is, holds, or lies below one of them is an error, or is split when only read.
	Deny []string
	// SharedMemory opens /dev/shm and the System V calls, which this tier cannot make private:
	// what other programs of the user keep there can then be read and changed. Programs that
	// use semaphores or shared memory by name need it. Named in the report.
	SharedMemory bool
	// Pseudoterminals opens /dev/ptmx and /dev/pts, which this tier cannot make private:
	// other terminals of the user can then be opened. Programs that make terminals of
	// their own (script, expect, tmux) need it. Named in the report.
	Pseudoterminals bool
	// Terminal is the path of the command's own pseudo-terminal, "" for none.
	Terminal string
	// UnixSockets lets the command make sockets with a path and connect to any that its
	// user may. Named in the report.
	UnixSockets bool
	// Limits are handed through.
	Limits Limits
	// Descriptors are handed through: what stays open beyond 0, 1 and 2.
	Descriptors []int
	// Host is what [Probe] found.
	Host Host
	// Files looks paths up; nil asks the system.
	Files Lookup
}

// Report says how strong a plan is, in the words that the human sees.
type Report struct {
	// Strength is "enforced", "enforced except a, b" or "advisory".
	Strength string `json:"strength"`
	// Status is "active", "partially_active" or "unavailable".
	Status string `json:"status"`
	// Backend is the profile's, "" when nothing is run.
	Backend string `json:"backend"`
	// Degradations are names from a closed table, in its order; [Explain] has a
	// sentence for each.
	Degradations []string `json:"degradations,omitempty"`
	// Missing is what the host lacks for a stronger result.
	Missing []string `json:"missing,omitempty"`
	// Notes are facts that weaken nothing but that a reader wants to know.
	Notes []string `json:"notes,omitempty"`
}

// ErrUnavailable is what a plan fails with when the host cannot give what a restricted
// mode requires.
var ErrUnavailable = errors.New("sandbox unavailable")

// UnavailableError names the required area and what the host lacks for it. It is an
// [ErrUnavailable].
type UnavailableError struct {
	Area  string
	Lacks string
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("sandbox unavailable: %s cannot be enforced: %s", e.Area, e.Lacks)
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// The degradations of this tier. Their names are what "enforced except" lists.
const (
	DegradedSignals      = "signals"
	DegradedMetadata     = "metadata"
	DegradedNames        = "names"
	DegradedProtected    = "protected paths"
	DegradedProcessList  = "process list"
	DegradedLocalhost    = "localhost servers"
	DegradedNetworkAll   = "network all or none"
	DegradedUnixSockets  = "unix sockets"
	DegradedSharedMemory = "shared memory"
	DegradedTerminals    = "terminals"
	DegradedDevices      = "device control"
	DegradedProcessLimit = "process limit"
	DegradedRootFiles    = "root-only files"
	DegradedDACOverride  = "file modes"
	DegradedSystem       = "system folders"
	DegradedSuperuser    = "superuser"
	DegradedPeerLimits   = "process limits"
	DegradedMovedIn      = "moved folders"
	DegradedServices     = "system services"
	DegradedMemoryLimit  = "memory limit"
	DegradedUnproven     = "unproven"
)

// degradations is the table: order of naming, and the sentence for each.
var degradations = []struct{ name, why string }{
	{DegradedSignals, "this kernel cannot keep signals inside: the command can signal every process of its user"},
	{DegradedSuperuser, "the command keeps a superuser's capabilities: it reads other processes' environments and, through the kernel, can undo the envelope"},
	{DegradedPeerLimits, "the resource limits of the user's other processes can be lowered, which can end them"},
	{DegradedProtected, "files inside a writable root cannot be protected: git hooks, editor and agent settings there can be changed"},
	{DegradedMetadata, "modes, owners, times and attributes of the user's files outside the roots can be changed, their content not"},
	{DegradedNames, "that a file outside exists, its size, its times and when it is used can be seen, its content not"},
	{DegradedProcessList, "command lines of the user's other processes can be seen, and their priority lowered"},
	{DegradedLocalhost, "without network no internet socket can be made at all: servers on localhost do not work"},
	{DegradedNetworkAll, "granted network is the whole network, services on this host's own loopback included"},
	{DegradedUnixSockets, "sockets with a path can be reached wherever the user may connect: agents, buses, container engines"},
	{DegradedSharedMemory, "/dev/shm and System V objects are the host's: shared memory of the user's other programs can be read and changed"},
	{DegradedTerminals, "other terminals of the user can be opened: read and drawn on"},
	{DegradedDevices, "this kernel cannot restrict the control of devices that may be opened"},
	{DegradedProcessLimit, "the kernel does not limit the number of a superuser's processes"},
	{DegradedRootFiles, "running as the superuser: files outside /etc that only root may read are readable in the system folders"},
	{DegradedDACOverride, "CAP_DAC_OVERRIDE is kept because a writable root belongs to another user: inside the roots file modes do not hold"},
	{DegradedSystem, "a system folder was too large to examine: the part that was not is not readable"},
	{DegradedMovedIn, "a folder that is made in the temporary directory and moved into a writable root brings its git hooks and settings along"},
	{DegradedServices, "some services of the system answer the command: user and group names and the log, with network also addresses and certificates"},
	{DegradedMemoryLimit, "this system does not hold a process to a limit of its address space"},
	{DegradedUnproven, "this backend was written from documentation and was never run by its authors on the system that it is for"},
}

// Explain is the sentence for a degradation, "" for a name that is none.
func Explain(degradation string) string {
	for _, d := range degradations {
		if d.name == degradation {
			return d.why
		}
	}
	return ""
}

// EnvelopeOnly is the plan for a process that is not otherwise restricted: no new
// privileges, a domain that handles the scopes and nothing else, and a filter of one rule, so that
// neither signals, tracing, changed limits nor abstract sockets reach out of it and nothing
// else changes. What an old kernel cannot give of it is named.
func EnvelopeOnly(h Host) (Profile, Report) {
	p := Profile{
		Backend: BackendEnvelope, Landlock: h.LandlockABI, Envelope: h.LandlockABI >= landlockScopes,
		Guard: h.Seccomp, NoNewPrivs: true, Network: true, UnixSockets: true, SharedMemory: true,
	}
	r := Report{Strength: StrengthAdvisory, Status: StatusPartial, Backend: BackendEnvelope}
	if !p.Envelope {
		r.Degradations = append(r.Degradations, DegradedSignals)
		r.Missing = append(r.Missing, lackScopes(h))
	}
	if h.Root {
		r.Degradations = append(r.Degradations, DegradedSuperuser)
	}
	if !p.Guard {
		r.Degradations = append(r.Degradations, DegradedPeerLimits)
		r.Missing = append(r.Missing, "system call filter: "+h.SeccompLack)
	}
	return p, r
}

func lackScopes(h Host) string {
	if h.LandlockABI == 0 {
		return "signal, trace and abstract socket scopes: no Landlock: " + h.LandlockLack
	}
	return fmt.Sprintf("signal, trace and abstract socket scopes: Landlock version %d, this kernel has %d", landlockScopes, h.LandlockABI)
}

// Plan works out how r is enforced on r.Host. It touches nothing: it looks paths up
// through r.Files and returns values. An area that the mode requires and the host cannot
// give is an [UnavailableError]; what else is missing is named in the report.
//
// The report is meaningful with an error too: then its status is "unavailable".
//
// It looks at /etc and the toolchains each time; a [Planner] remembers them.
func Plan(r Request) (Profile, Report, error) { return plan(r, nil) }

// rememberFor is how long a [Planner] trusts what it saw of the system folders, and
// mostRemembered for how many different requests at once.
const (
	rememberFor    = 30 * time.Second
	mostRemembered = 16
)

// Planner makes plans one after the other and remembers for half a minute what is the same
// for all: system folders, /etc, toolchains. What belongs to a session (workspace, roots,
// temporary directory) is looked up each time. A toolchain that is installed meanwhile is
// seen late; one that is taken away is left out by [Profile.Confine]. The zero value is ready.
// Safe for concurrent use; it holds no lock while it looks.
type Planner struct {
	mu         sync.Mutex
	remembered map[string]remembered // guarded by mu
	now        func() time.Time      // nil is the system's clock
}

type remembered struct {
	roots roots
	until time.Time
}

// Plan is the function [Plan] with a memory.
func (p *Planner) Plan(r Request) (Profile, Report, error) { return plan(r, p) }

// remember returns what examine found for a planner like at, now or not long ago.
func (p *Planner) remember(at *planner, examine func() (roots, error)) (roots, error) {
	if p == nil || at.request.Files != nil {
		return examine()
	}
	key := fmt.Sprintf("%q %q %q %t %d", at.home, at.deny, at.request.Toolchains, at.request.Network, at.request.Host.UID)
	now := time.Now
	if p.now != nil {
		now = p.now
	}
	p.mu.Lock()
	found, ok := p.remembered[key]
	p.mu.Unlock()
	if ok && now().Before(found.until) {
		return found.roots, nil
	}
	fresh, err := examine()
	if err != nil {
		return roots{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remembered == nil || len(p.remembered) >= mostRemembered {
		p.remembered = map[string]remembered{}
	}
	p.remembered[key] = remembered{fresh, now().Add(rememberFor)}
	return fresh, nil
}

func plan(r Request, memory *Planner) (Profile, Report, error) {
	refused := Report{Status: StatusUnavailable}
	switch r.Mode {
	case ModeUnrestricted:
		p, report := EnvelopeOnly(r.Host)
		return withCommon(p, r), report, nil
	case ModeWorkspaceWrite, ModeReadOnly:
	case "":
		return Profile{}, refused, errors.New("sandbox request: no mode")
	default:
		return Profile{}, refused, fmt.Errorf("sandbox request: mode %q, expected %s, %s or %s",
			r.Mode, ModeUnrestricted, ModeWorkspaceWrite, ModeReadOnly)
	}
	if r.Off {
		p, report := EnvelopeOnly(r.Host)
		report.Notes = append(report.Notes, "sandbox off for this command, by answer")
		return withCommon(p, r), report, nil
	}
	if r.Host.System == systemMac {
		return planSeatbelt(r, memory)
	}
	if r.Host.System == systemWindows {
		return planWindows(r)
	}
	if err := require(r.Host); err != nil {
		var lack *UnavailableError
		if errors.As(err, &lack) {
			refused.Missing = []string{lack.Lacks}
		}
		return Profile{}, refused, err
	}
	roots, err := planRoots(r, memory)
	if err != nil {
		return Profile{}, refused, err
	}
	p := Profile{
		Backend: r.Host.Backend, Landlock: r.Host.LandlockABI, Envelope: r.Host.LandlockABI >= landlockScopes,
		Files: true, Read: roots.read, Write: roots.write, Exec: roots.exec, List: roots.list, Devices: roots.devices,
		Network: r.Network, UnixSockets: r.UnixSockets, SharedMemory: r.SharedMemory, Strict: true, Guard: true, NoNewPrivs: true,
		DropCapabilities: true, KeepDACOverride: roots.foreign != "",
	}
	switch p.Backend {
	case BackendNamespaces:
		p.inView(r, roots)
	case "":
		p.Backend = BackendLandlock
	}
	p = withCommon(p, r)
	if err := p.Validate(); err != nil {
		return Profile{}, refused, err
	}
	return p, report(p, r, roots), nil
}

// inView turns the file rules of a host into those of a view: what is private there is open to
// the command, and every name in it may be seen.
func (p *Profile) inView(r Request, roots roots) {
	p.View = planView(r, roots)
	p.List = []string{"/"}
	p.Write = append(slices.Clone(p.Write), "/dev/shm")
	p.Devices = append(slices.Clone(p.Devices), "/dev/pts")
	p.Loopback, p.SharedMemory = !p.Network, true
}

func withCommon(p Profile, r Request) Profile {
	p.Limits = r.Limits
	p.Descriptors = slices.Clone(r.Descriptors)
	return p
}

// require holds the areas that every restricted mode needs: writes of content, secrets,
// network, signals and tracing. Tracing is bounded by any domain; signals from scopes on,
// and before them they are a named degradation.
func require(h Host) error {
	switch {
	case h.LandlockABI == 0:
		return &UnavailableError{"files", "no Landlock: " + h.LandlockLack}
	case h.LandlockABI < landlockTruncate:
		return &UnavailableError{"content writes", fmt.Sprintf("Landlock version %d leaves truncation open, version %d is needed", h.LandlockABI, landlockTruncate)}
	case !h.Seccomp:
		return &UnavailableError{"network", "no system call filter: " + h.SeccompLack}
	}
	return nil
}

func report(p Profile, r Request, roots roots) Report {
	host := len(p.View) == 0
	have := map[string]bool{
		DegradedSignals:      !p.Envelope && host,
		DegradedMetadata:     host,
		DegradedNames:        host,
		DegradedProtected:    roots.workspaceWritable,
		DegradedProcessList:  host,
		DegradedLocalhost:    !p.Network && !p.Loopback,
		DegradedNetworkAll:   p.Network,
		DegradedUnixSockets:  p.UnixSockets,
		DegradedSharedMemory: r.SharedMemory && host,
		DegradedTerminals:    r.Pseudoterminals && host,
		DegradedDevices:      p.Landlock < landlockIoctl,
		DegradedProcessLimit: r.Host.Root && p.Limits.Processes != 0,
		DegradedRootFiles:    r.Host.Root,
		DegradedDACOverride:  p.KeepDACOverride,
		DegradedSystem:       roots.truncated,
	}
	out := Report{Status: StatusPartial, Backend: p.Backend}
	for _, d := range degradations {
		if have[d.name] {
			out.Degradations = append(out.Degradations, d.name)
		}
	}
	if !p.Envelope {
		out.Missing = append(out.Missing, lackScopes(r.Host))
	}
	if host && r.Host.NamespacesLack != "" {
		out.Missing = append(out.Missing, "namespaces: "+r.Host.NamespacesLack)
	} else if !r.Host.UserNamespaces && !r.Host.Root {
		out.Missing = append(out.Missing, "user namespaces: "+r.Host.UserNamespacesLack)
	}
	if roots.foreign != "" {
		out.Notes = append(out.Notes, "CAP_DAC_OVERRIDE kept: "+roots.foreign+" belongs to another user")
	}
	out.Notes = append(out.Notes, roots.notes...)
	out.Strength = StrengthEnforced
	if len(out.Degradations) > 0 {
		out.Strength = StrengthExcept + strings.Join(out.Degradations, ", ")
	} else {
		out.Status = StatusActive
	}
	return out
}
