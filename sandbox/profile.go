package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/sandbox/seatbelt"
)

// Bounds on what one profile may carry. A profile over them is refused rather
// than cut short: a list that ends early would be another sandbox than the one
// that was recorded.
const (
	// MaxPaths is the largest number of file rules in one profile.
	MaxPaths = 4096
	// MaxDescriptors is the largest number of descriptors kept beyond 0, 1 and 2.
	MaxDescriptors = 16
	maxPathBytes   = 4096
)

// Profile is what one process is confined to: a value, made by [Plan] or
// [EnvelopeOnly], recorded as it is, handed to the process that confines itself,
// and put on by [Profile.Confine]. Nothing in it is looked up again, so that what
// was recorded is what holds.
//
// The zero value is not "no restriction": it is refused.
type Profile struct {
	// Backend names what carries the profile out: "linux-ns", "linux-landlock", or
	// "envelope" for the control envelope alone.
	Backend string `json:"backend"`
	// Landlock is the interface version that the plan counts on. A kernel that
	// gives less at the time of confinement is an error, never a weaker run.
	Landlock int `json:"landlock"`
	// Envelope puts the process in a domain from which no process outside can be
	// signalled or traced and no abstract socket outside can be reached.
	Envelope bool `json:"envelope"`
	// Files turns the file rules on: what Read, Write, Exec, List and Devices do not
	// name cannot be opened, made, removed or run.
	Files bool `json:"files"`
	// Read are directories and files that may be read and executed.
	Read []string `json:"read,omitempty"`
	// Write are directories and files below which everything may be done but the
	// making of device nodes.
	Write []string `json:"write,omitempty"`
	// Exec are single files that may be read and executed.
	Exec []string `json:"exec,omitempty"`
	// List are directories whose names, at any depth, may be listed, without
	// giving the content of any file.
	List []string `json:"list,omitempty"`
	// Devices are device nodes, or directories of them, that may be opened for
	// reading and writing and be controlled (ioctl).
	Devices []string `json:"devices,omitempty"`
	// View is the file system that the process sees, in the order in which it is made; it is
	// put on by [Profile.Enter] before the rest. Empty leaves the host's.
	View []Mount `json:"view,omitempty"`
	// Network true leaves the host's network as it is; false refuses every
	// internet socket, unless Loopback is set.
	Network bool `json:"network"`
	// Loopback lets internet sockets through to a network namespace in which there is nothing
	// but its own loopback interface.
	Loopback bool `json:"loopback,omitempty"`
	// UnixSockets true lets socket(AF_UNIX) through. False refuses it; connected
	// stream pairs (socketpair) stay, since programs use them as pipes.
	UnixSockets bool `json:"unixSockets"`
	// Strict puts the system call filter for tools on.
	Strict bool `json:"strict"`
	// SharedMemory true lets the calls through that reach memory, queues and semaphores which
	// are named for the whole system.
	SharedMemory bool `json:"sharedMemory"`
	// Guard puts the envelope's own filter on: the limits of no other process can be changed.
	// The filter for tools holds the same rule.
	Guard bool `json:"guard"`
	// NoNewPrivs is required in every profile: without it neither a domain nor a
	// filter holds across a setuid program.
	NoNewPrivs bool `json:"noNewPrivs"`
	// DropCapabilities empties every capability set.
	DropCapabilities bool `json:"dropCapabilities"`
	// KeepDACOverride keeps CAP_DAC_OVERRIDE alone when the others are dropped, for a
	// superuser whose workspace belongs to somebody else.
	KeepDACOverride bool `json:"keepDACOverride,omitempty"`
	// Descriptors are those beyond 0, 1 and 2 that stay open across execve.
	Descriptors []int `json:"descriptors,omitempty"`
	// Limits are the resource limits of the process and what it starts.
	Limits Limits `json:"limits"`
	// Seatbelt are the rules of [BackendSeatbelt], which has none of the others; nil elsewhere.
	Seatbelt *seatbelt.Rules `json:"seatbelt,omitempty"`
}

// Limits are resource limits. Zero leaves what the process already has, which a
// limit here never raises.
type Limits struct {
	// CPU is processor time in seconds, per process.
	CPU uint64 `json:"cpu,omitempty"`
	// AddressSpace is in bytes, per process.
	AddressSpace uint64 `json:"addressSpace,omitempty"`
	// Processes counts all processes of the user; the kernel does not apply it to a superuser.
	Processes uint64 `json:"processes,omitempty"`
	// FileSize is the largest file that may be written, in bytes.
	FileSize uint64 `json:"fileSize,omitempty"`
	// OpenFiles is the largest number of descriptors of a process.
	OpenFiles uint64 `json:"openFiles,omitempty"`
}

// The backends of this package.
const (
	// BackendNamespaces is own namespaces and a view, and all that BackendLandlock is inside them.
	BackendNamespaces = "linux-ns"
	BackendLandlock   = "linux-landlock"
	BackendEnvelope   = "envelope"
)

// Least Landlock versions, by what they add.
const (
	landlockTruncate = 3 // truncation is governed: without it, content outside can be emptied
	landlockNetwork  = 4
	landlockIoctl    = 5
	landlockScopes   = 6
	landlockUnix     = 9 // connecting to a socket with a path is governed
)

var errEmptyProfile = errors.New("sandbox profile: empty, and an empty profile is no permission to run unconfined")

// Validate reports what makes p unusable. [Profile.Confine] calls it; whoever
// receives a profile from elsewhere may call it earlier.
func (p Profile) Validate() error {
	if p.Backend == "" && !p.NoNewPrivs && !p.Envelope && !p.Files && !p.Strict {
		return errEmptyProfile
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("sandbox profile: "+format, args...)
	}
	if p.Backend == BackendSeatbelt || p.Seatbelt != nil {
		return p.validateSeatbelt()
	}
	switch p.Backend {
	case BackendLandlock, BackendNamespaces:
		switch {
		case (p.Backend == BackendNamespaces) != (len(p.View) > 0):
			return bad("backend %s with a view of %d mounts", p.Backend, len(p.View))
		case p.Loopback && (p.Network || p.Backend != BackendNamespaces):
			return bad("loopback of its own beside another network")
		case !p.Files:
			return bad("backend %s without file rules", p.Backend)
		case !p.Strict || !p.Guard:
			return bad("backend %s without the system call filter", p.Backend)
		case !p.DropCapabilities:
			return bad("backend %s keeps its capabilities", p.Backend)
		case p.Landlock < landlockTruncate:
			return bad("file rules need Landlock version %d, the plan counts on %d", landlockTruncate, p.Landlock)
		}
	case BackendEnvelope:
		if p.Files || p.Strict || len(p.View) > 0 || p.Loopback {
			return bad("backend %s carries rules of another backend", p.Backend)
		}
		if !p.Network || !p.UnixSockets || !p.SharedMemory {
			return bad("backend %s cannot refuse sockets or shared memory", p.Backend)
		}
	default:
		return bad("unknown backend %q", p.Backend)
	}
	switch {
	case !p.NoNewPrivs:
		return bad("noNewPrivs is required in every profile")
	case p.Envelope && p.Landlock < landlockScopes:
		return bad("the envelope needs Landlock version %d, the plan counts on %d", landlockScopes, p.Landlock)
	case !p.Envelope && p.Landlock >= landlockScopes:
		return bad("Landlock version %d gives the envelope, and the profile leaves it out", p.Landlock)
	case p.KeepDACOverride && !p.DropCapabilities:
		return bad("keepDACOverride without dropCapabilities")
	case len(p.Descriptors) > MaxDescriptors:
		return bad("%d descriptors to keep, at most %d", len(p.Descriptors), MaxDescriptors)
	}
	for _, fd := range p.Descriptors {
		if fd < 3 {
			return bad("descriptor %d to keep: 0, 1 and 2 are always kept, others start at 3", fd)
		}
	}
	if err := p.validateView(); err != nil {
		return err
	}
	return p.validatePaths()
}

func (p Profile) validatePaths() error {
	count := 0
	for _, list := range p.lists() {
		if len(list.paths) > 0 && !p.Files {
			return fmt.Errorf("sandbox profile: %s rules without files", list.name)
		}
		count += len(list.paths)
		for _, path := range list.paths {
			if err := checkPath(path); err != nil {
				return fmt.Errorf("sandbox profile: %s: %w", list.name, err)
			}
		}
	}
	if count > MaxPaths {
		return fmt.Errorf("sandbox profile: %d file rules, at most %d", count, MaxPaths)
	}
	return nil
}

type pathList struct {
	name  string
	paths []string
}

// lists returns the path lists in the order in which they are shown.
func (p Profile) lists() []pathList {
	return []pathList{
		{"read", p.Read}, {"exec", p.Exec}, {"list", p.List}, {"write", p.Write}, {"devices", p.Devices},
	}
}

// checkPath accepts what can name one place and nothing else: an absolute path in its
// shortest form.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("empty path")
	case len(path) >= maxPathBytes:
		return fmt.Errorf("path of %d bytes, at most %d", len(path), maxPathBytes-1)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("path %q holds a zero byte", path)
	case !filepath.IsAbs(path):
		return fmt.Errorf("path %q is not absolute", path)
	case filepath.Clean(path) != path:
		return fmt.Errorf("path %q is not in its shortest form %q", path, filepath.Clean(path))
	}
	return nil
}

// String is the profile in words, one fact a line, in a fixed order: what is
// compared in tests, shown by explain and written to the audit.
func (p Profile) String() string {
	if p.Seatbelt != nil {
		return p.seatbeltWords()
	}
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-13s %s\n", name, value) }
	backend := p.Backend
	if backend == "" {
		backend = "none: refused"
	}
	line("backend", backend)
	line("landlock", fmt.Sprint(p.Landlock))
	line("envelope", onOff(p.Envelope))
	line("no-new-privs", onOff(p.NoNewPrivs))
	line("capabilities", p.capabilityWords())
	line("calls", choose(p.Strict, "filtered", choose(p.Guard, "guarded", "not filtered")))
	line("network", choose(p.Network, "host", choose(p.Loopback, "own loopback", "none")))
	line("unix sockets", choose(p.UnixSockets, "any", "connected pairs only"))
	line("shared memory", choose(!p.SharedMemory, "none", choose(len(p.View) > 0, "own", "host")))
	for _, m := range p.View {
		line("mount", m.String())
	}
	line("files", choose(p.Files, "as listed", "not restricted"))
	p.listTo(line, p.lists())
	return b.String()
}

// listTo ends a profile in words: the lists of files, then what is the same in every
// backend.
func (p Profile) listTo(line func(name, value string), lists []pathList) {
	for _, list := range lists {
		for _, path := range slices.Sorted(slices.Values(list.paths)) {
			line("  "+list.name, printable(path))
		}
	}
	for _, limit := range p.Limits.list() {
		if limit.value != 0 {
			line("limit", fmt.Sprintf("%s %d %s", limit.name, limit.value, limit.unit))
		}
	}
	for _, fd := range p.Descriptors {
		line("descriptor", fmt.Sprint(fd))
	}
}

func (p Profile) capabilityWords() string {
	switch {
	case !p.DropCapabilities:
		return "as they are"
	case p.KeepDACOverride:
		return "CAP_DAC_OVERRIDE only"
	}
	return "none"
}

type limit struct {
	name  string
	value uint64
	unit  string
}

func (l Limits) list() []limit {
	return []limit{
		{"cpu", l.CPU, "seconds"}, {"address space", l.AddressSpace, "bytes"}, {"processes", l.Processes, "of the user"},
		{"file size", l.FileSize, "bytes"}, {"open files", l.OpenFiles, "a process"},
	}
}

func onOff(on bool) string { return choose(on, "on", "off") }

func choose(which bool, yes, no string) string {
	if which {
		return yes
	}
	return no
}

// printable quotes a path that holds anything but plain printable text, so that one path
// can never look like two lines.
func printable(path string) string {
	quoted := fmt.Sprintf("%+q", path)
	if quoted[1:len(quoted)-1] == path {
		return path
	}
	return quoted
}
