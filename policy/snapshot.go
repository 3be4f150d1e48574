package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Snapshot is the whole execution contract of a session, resolved before
// anything runs and written down. It is a value: nobody changes one, a change is
// a new one with a higher generation. The zero value permits nothing.
type Snapshot struct {
	Profile Profile `json:"profile"`
	Sandbox Sandbox `json:"sandbox"`
	// Open is what holds now, Ceiling what a human may still open. Open is never
	// more than Ceiling.
	Open        Resources   `json:"open"`
	Ceiling     Resources   `json:"ceiling"`
	Process     Process     `json:"process"`
	Approval    Approval    `json:"approval"`
	Backend     Backend     `json:"backend"`
	Enforcement Enforcement `json:"enforcement"`
	// ParentCap is what this session was held to by its parent and by caps; nil
	// when nothing held it.
	ParentCap *Cap `json:"parent_cap,omitempty"`
	// Generation is raised by each change of policy or snapshot.
	Generation uint64 `json:"generation"`
}

// Profile is the permission behaviour.
type Profile struct {
	Mode   Mode       `json:"mode"`
	Source Source     `json:"source"`
	Policy ToolPolicy `json:"policy"`
}

// ToolPolicy is what a profile says about kinds, tools and paths.
//
// Lists hold wildcard patterns. An allow list only limits: what it does not name
// is denied, what it names is judged as before. Each element of AllowTools and
// AllowPaths is one such list, and a name has to be on every one of them, so
// that the meet of two policies is simply both.
type ToolPolicy struct {
	// Kinds is the behaviour for each kind; a missing kind is denied.
	Kinds      map[Kind]Action `json:"kinds"`
	AllowTools [][]string      `json:"allow_tools,omitempty"`
	DenyTools  []string        `json:"deny_tools,omitempty"`
	AllowPaths [][]string      `json:"allow_paths,omitempty"`
	DenyPaths  []string        `json:"deny_paths,omitempty"`
}

// SandboxMode is the confinement that a mode asks for.
type SandboxMode string

const (
	SandboxUnrestricted   SandboxMode = "unrestricted"
	SandboxWorkspaceWrite SandboxMode = "workspace_write"
	SandboxReadOnly       SandboxMode = "read_only"
)

var sandboxModes = [...]SandboxMode{SandboxReadOnly, SandboxWorkspaceWrite, SandboxUnrestricted}

func (m SandboxMode) rank() int { return max(0, slices.Index(sandboxModes[:], m)) }

// TmpPolicy says which temporary directory a session sees.
type TmpPolicy string

const (
	TmpHost     TmpPolicy = "host"
	TmpIsolated TmpPolicy = "isolated"
)

// Sandbox is where a session lives and how it is confined.
type Sandbox struct {
	Mode SandboxMode `json:"mode"`
	// Cwd is the directory that relative paths start from.
	Cwd string `json:"cwd"`
	// Workspace is the project root; empty when the session has none.
	Workspace string    `json:"workspace,omitempty"`
	Tmp       TmpPolicy `json:"tmp"`
	// Roots are what a restricted mode opens besides the workspace: project
	// roots, system folders, listed toolchains. They are kept for children that
	// ask for a stricter mode than this session has.
	Roots []Entry `json:"roots,omitempty"`
}

// Process limits what is started.
type Process struct {
	ShellEnabled bool `json:"shell_enabled"`
	// FilterEnvironment removes names and values that look like secrets.
	FilterEnvironment bool `json:"filter_environment"`
	// MaxDuration of one command; 0 means no limit.
	MaxDuration Duration `json:"max_duration,omitzero"`
	Limits
	// DeniedCommands are base names that may not be started.
	DeniedCommands []string `json:"denied_commands,omitempty"`
	// AllowedFamilies, unless nil, are the only base names that may be started.
	AllowedFamilies []string `json:"allowed_families,omitzero"`
}

// Duration is a time.Duration that files write as "10m".
type Duration time.Duration

// String prints the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as String prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "90s", "10m", "1h30m". It has to be positive.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no duration, expected one above zero such as \"90s\" or \"10m\"", text)
	}
	*d = Duration(v)
	return nil
}

// Approval says which answers a human may give.
type Approval struct {
	AllowOnce    bool `json:"allow_once"`
	AllowForTurn bool `json:"allow_for_turn"`
}

// Requirement says whether a session may run without its sandbox backend.
type Requirement string

const (
	RequirementOptional Requirement = "optional"
	RequirementRequired Requirement = "required"
)

// Backend is what confines the session.
type Backend struct {
	Requirement Requirement `json:"requirement"`
	Name        string      `json:"name,omitempty"`
	// Capabilities are the areas that this backend covers on this host.
	Capabilities []string `json:"capabilities,omitempty"`
}

// Status says how much of a snapshot is really enforced.
type Status string

const (
	StatusActive          Status = "active"
	StatusPartiallyActive Status = "partially_active"
	StatusUnavailable     Status = "unavailable"
)

const (
	// StrengthAdvisory: nothing but the control envelope confines the session.
	StrengthAdvisory = "advisory"
	// StrengthEnforced: every required area is enforced.
	StrengthEnforced = "enforced"
	// strengthExcept is followed by what is missing.
	strengthExcept = "enforced except "
)

// Enforcement is the honest answer to "does this hold?".
type Enforcement struct {
	Status Status `json:"status"`
	// Strength is "enforced", "enforced except NAMES" or "advisory".
	Strength string `json:"strength"`
	// Degradations names what is missing or weaker.
	Degradations []string `json:"degradations,omitempty"`
}

// Areas that a restricted session requires of its backend.
const (
	AreaFilesystem = "filesystem"
	AreaSecrets    = "secrets"
	AreaNetwork    = "network"
	AreaSignals    = "signals"
)

// RequiredAreas are the areas without which a restricted session does not run.
func RequiredAreas() []string {
	return []string{AreaFilesystem, AreaSecrets, AreaNetwork, AreaSignals}
}

// ResolveInput is what a root snapshot is made from.
type ResolveInput struct {
	// Mode "" means that nothing was selected: FullAccess, SourceDefaulted.
	// A mode that does not exist resolves to a snapshot that permits nothing.
	Mode Mode
	// Source "" is SourceComposer, or SourceDefaulted where Mode is "".
	Source Source
	// Workspace and Cwd are absolute and resolved; whoever calls has looked.
	Workspace, Cwd string
	// ExtraRoots are what restricted modes open besides the workspace.
	ExtraRoots []Entry
	// Hosts and Capabilities are what the operator's own configuration opens for
	// restricted sessions without a question.
	Hosts, Capabilities []string
	// MaxDuration limits one command of a restricted session; 0 means none.
	MaxDuration time.Duration
	// Limits are of the session, whatever its mode.
	Limits Limits
	// Backend is the name of the sandbox backend of this host, "" for none,
	// BackendAreas what it covers, Degradations what it covers less than fully.
	Backend      string
	BackendAreas []string
	Degradations []string
	Generation   uint64
}

// Resolve makes the snapshot of a root session: the resolver table of the
// permission-profile model with the rows of the design.
func Resolve(in ResolveInput) Snapshot {
	mode, source := in.Mode, in.Source
	if mode == "" {
		mode = FullAccess
		if source == "" {
			source = SourceDefaulted
		}
	}
	if !source.Valid() {
		source = SourceComposer
	}
	if mode.Rank() == 0 {
		return nothing(source, in.Cwd, in.Generation)
	}
	s := Snapshot{
		Profile: Profile{Mode: mode, Source: source, Policy: ToolPolicy{Kinds: modeKinds(mode)}},
		Sandbox: Sandbox{
			Mode: modeSandbox(mode), Cwd: cleanPath(in.Cwd), Workspace: cleanPath(in.Workspace), Tmp: TmpIsolated,
			Roots: cleanRoots(in.ExtraRoots),
		},
		Ceiling:    Everything(),
		Process:    Process{ShellEnabled: true, FilterEnvironment: true, MaxDuration: Duration(max(0, in.MaxDuration)), Limits: in.Limits},
		Approval:   Approval{AllowOnce: true, AllowForTurn: true},
		Backend:    Backend{Requirement: RequirementRequired},
		Generation: in.Generation,
	}
	if mode == FullAccess {
		s.Sandbox.Tmp = TmpHost
		s.Process.FilterEnvironment, s.Process.MaxDuration = false, 0
		s.Backend.Requirement = RequirementOptional
	}
	s.Open = modeOpen(mode, s.Sandbox.Workspace, s.Sandbox.Roots, in.Hosts, in.Capabilities)
	return s.Enforced(in.Backend, in.BackendAreas, in.Degradations)
}

// nothing is the snapshot of what is no mode: it permits nothing.
func nothing(source Source, cwd string, generation uint64) Snapshot {
	return Snapshot{
		Profile:     Profile{Source: source, Policy: ToolPolicy{Kinds: modeKinds("")}},
		Sandbox:     Sandbox{Mode: SandboxReadOnly, Cwd: cleanPath(cwd), Tmp: TmpIsolated},
		Open:        Resources{}.Canonical(),
		Ceiling:     Resources{}.Canonical(),
		Process:     Process{FilterEnvironment: true, AllowedFamilies: []string{}},
		Backend:     Backend{Requirement: RequirementRequired},
		Enforcement: Enforcement{Status: StatusUnavailable, Strength: StrengthAdvisory, Degradations: sorted(RequiredAreas())},
		Generation:  generation,
	}
}

func modeKinds(m Mode) map[Kind]Action {
	out := make(map[Kind]Action, len(kinds))
	for _, k := range kinds {
		out[k] = m.Default(k)
	}
	return out
}

func modeSandbox(m Mode) SandboxMode {
	switch m {
	case FullAccess:
		return SandboxUnrestricted
	case AutoAcceptEdits:
		return SandboxWorkspaceWrite
	}
	return SandboxReadOnly
}

func modeOpen(m Mode, workspace string, roots []Entry, hosts, capabilities []string) Resources {
	if m == FullAccess {
		return Everything()
	}
	r := Resources{Read: slices.Clone(roots), Capabilities: capabilities, Network: NetworkDisabled}
	if len(hosts) > 0 {
		r.Network, r.Hosts = NetworkRestricted, hosts
	}
	if workspace != "" {
		r.Read = append(r.Read, Entry{Path: workspace, Provenance: ProvenanceWorkspace})
	}
	if m == AutoAcceptEdits {
		if workspace != "" {
			r.Write = append(r.Write, Entry{Path: workspace, Provenance: ProvenanceWorkspace})
		}
		for _, e := range roots {
			if e.Access == AccessWrite {
				r.Write = append(r.Write, e)
			}
		}
	}
	// No configuration opens the way out of the sandbox: that is asked each time.
	r = r.Canonical()
	r.SandboxOff = false
	return r
}

// cleanRoots drops what is no absolute path and sorts the rest; unlike a
// canonical list it keeps roots inside others, since their access may differ.
func cleanRoots(roots []Entry) []Entry {
	var out []Entry
	for _, e := range roots {
		if p := cleanPath(e.Path); p != "" {
			if e.Access != AccessWrite {
				e.Access = AccessRead
			}
			out = append(out, Entry{Path: p, Access: e.Access, Provenance: e.Provenance})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if c := comparePaths(a.Path, b.Path); c != 0 {
			return c
		}
		if c := strings.Compare(string(a.Access), string(b.Access)); c != 0 {
			return c
		}
		return a.Provenance.order() - b.Provenance.order()
	})
	return slices.Compact(out)
}

// Enforced returns the snapshot with its backend and the honest status: for a
// restricted mode unavailable where a required area is missing, partially active
// where something is weaker, else active. FullAccess is advisory and active: it
// requires nothing, and what is missing is still named.
func (s Snapshot) Enforced(backend string, areas, degradations []string) Snapshot {
	areas, degradations = sorted(areas), sorted(degradations)
	s.Backend.Name, s.Backend.Capabilities = backend, areas
	e := Enforcement{Status: StatusActive, Strength: StrengthEnforced, Degradations: degradations}
	var missing []string
	if s.Backend.Requirement != RequirementOptional {
		for _, area := range RequiredAreas() {
			if backend == "" || !slices.Contains(areas, area) {
				missing = append(missing, area)
			}
		}
	}
	switch {
	case len(missing) > 0:
		e.Status, e.Strength = StatusUnavailable, StrengthAdvisory
		e.Degradations = sorted(append(missing, degradations...))
	case s.Backend.Requirement == RequirementOptional && s.Sandbox.Mode == SandboxUnrestricted:
		e.Strength = StrengthAdvisory
		if len(degradations) > 0 {
			e.Status = StatusPartiallyActive
		}
	case len(degradations) > 0:
		e.Status, e.Strength = StatusPartiallyActive, strengthExcept+strings.Join(degradations, ", ")
	}
	s.Enforcement = e
	return s
}

// sorted returns the distinct words in order, nil for none.
func sorted(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	out := slices.Clone(words)
	slices.Sort(out)
	return slices.Compact(out)
}

// Canonical returns the snapshot as JSON in the one form in which equal
// snapshots are equal bytes.
func (s Snapshot) Canonical() []byte {
	s.Open, s.Ceiling = s.Open.Canonical(), s.Ceiling.Canonical()
	s.Sandbox.Roots = cleanRoots(s.Sandbox.Roots)
	s.Profile.Policy = s.Profile.Policy.canonical()
	s.Process.DeniedCommands = sorted(s.Process.DeniedCommands)
	if s.Process.AllowedFamilies != nil {
		s.Process.AllowedFamilies = append([]string{}, sorted(s.Process.AllowedFamilies)...)
	}
	s.Backend.Capabilities = sorted(s.Backend.Capabilities)
	s.Enforcement.Degradations = sorted(s.Enforcement.Degradations)
	return canonicalJSON(s)
}

// Digest returns the SHA-256 of Canonical in hexadecimal.
func (s Snapshot) Digest() string {
	sum := sha256.Sum256(s.Canonical())
	return hex.EncodeToString(sum[:])
}

// canonicalJSON encodes a value of this package: members in declaration order,
// map keys sorted, no white space, no HTML escapes.
func canonicalJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only an Action out of range gets here; it must not look like a value.
		return []byte(`{"error":` + fmt.Sprintf("%q", err.Error()) + `}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (p ToolPolicy) canonical() ToolPolicy {
	return ToolPolicy{
		Kinds:      maps.Clone(p.Kinds),
		AllowTools: canonicalLists(p.AllowTools), DenyTools: sorted(p.DenyTools),
		AllowPaths: canonicalLists(p.AllowPaths), DenyPaths: sorted(p.DenyPaths),
	}
}

// canonicalLists sorts each list and the lists, and drops repetitions.
func canonicalLists(lists [][]string) [][]string {
	var out [][]string
	for _, list := range lists {
		// A list that is empty permits nothing, so it must not become nil.
		out = append(out, append([]string{}, sorted(list)...))
	}
	slices.SortFunc(out, slices.Compare[[]string])
	return slices.CompactFunc(out, slices.Equal[[]string])
}

// meetPolicies keeps what both permit. A kind that only one side names is
// denied, as each side by itself denies what it does not name.
func meetPolicies(a, b ToolPolicy) ToolPolicy {
	out := ToolPolicy{
		Kinds:      map[Kind]Action{},
		AllowTools: slices.Concat(a.AllowTools, b.AllowTools), DenyTools: slices.Concat(a.DenyTools, b.DenyTools),
		AllowPaths: slices.Concat(a.AllowPaths, b.AllowPaths), DenyPaths: slices.Concat(a.DenyPaths, b.DenyPaths),
	}
	for k := range a.Kinds {
		out.Kinds[k] = min(a.Kinds[k], b.Kinds[k])
	}
	for k := range b.Kinds {
		out.Kinds[k] = min(a.Kinds[k], b.Kinds[k])
	}
	return out.canonical()
}

// meetProcess keeps what both permit.
func meetProcess(a, b Process) Process {
	out := Process{
		ShellEnabled:      a.ShellEnabled && b.ShellEnabled,
		FilterEnvironment: a.FilterEnvironment || b.FilterEnvironment,
		MaxDuration:       stricter(a.MaxDuration, b.MaxDuration),
		Limits:            a.Limits.Meet(b.Limits),
		DeniedCommands:    sorted(slices.Concat(a.DeniedCommands, b.DeniedCommands)),
		AllowedFamilies:   a.AllowedFamilies,
	}
	if b.AllowedFamilies != nil {
		out.AllowedFamilies = meetWords(a.AllowedFamilies, b.AllowedFamilies)
	}
	return out
}

// meetWords intersects two lists of words of which nil means "all".
func meetWords(a, b []string) []string {
	if a == nil {
		return append([]string{}, sorted(b)...)
	}
	out := []string{}
	for _, w := range sorted(a) {
		if slices.Contains(b, w) {
			out = append(out, w)
		}
	}
	return out
}
