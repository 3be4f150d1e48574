package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cap is a partial snapshot: what it does not name it does not restrict, what
// it names can only take away. The field names are those of Snapshot.
type Cap struct {
	// Name is where the cap comes from, for origins and messages.
	Name     string        `json:"-"`
	Profile  *ProfileCap   `json:"profile,omitempty"`
	Sandbox  *SandboxCap   `json:"sandbox,omitempty"`
	Open     *ResourcesCap `json:"open,omitempty"`
	Ceiling  *ResourcesCap `json:"ceiling,omitempty"`
	Process  *ProcessCap   `json:"process,omitempty"`
	Approval *ApprovalCap  `json:"approval,omitempty"`
	Backend  *BackendCap   `json:"backend,omitempty"`
	// At holds the position of each named field, by its dotted path.
	At map[string]Origin `json:"-"`
}

// ProfileCap limits mode and behaviour.
type ProfileCap struct {
	Mode   Mode           `json:"mode,omitempty"`
	Policy *ToolPolicyCap `json:"policy,omitempty"`
}

// ToolPolicyCap limits kinds, tools and paths. A kind that is not named is not
// limited.
type ToolPolicyCap struct {
	Kinds      map[Kind]Action `json:"kinds,omitempty"`
	AllowTools [][]string      `json:"allow_tools,omitempty"`
	DenyTools  []string        `json:"deny_tools,omitempty"`
	AllowPaths [][]string      `json:"allow_paths,omitempty"`
	DenyPaths  []string        `json:"deny_paths,omitempty"`
}

// SandboxCap limits confinement.
type SandboxCap struct {
	Mode SandboxMode `json:"mode,omitempty"`
	Tmp  TmpPolicy   `json:"tmp,omitempty"`
}

// ResourcesCap limits resources. Read and Write, when not nil, are the only
// roots that stay; Hosts and Capabilities likewise. A network mode without hosts
// limits the mode alone.
type ResourcesCap struct {
	ReadAll      *bool       `json:"read_all,omitempty"`
	WriteAll     *bool       `json:"write_all,omitempty"`
	Read         []Entry     `json:"read,omitzero"`
	Write        []Entry     `json:"write,omitzero"`
	Network      NetworkMode `json:"network,omitempty"`
	Hosts        []string    `json:"hosts,omitzero"`
	DeniedHosts  []string    `json:"denied_hosts,omitempty"`
	Capabilities []string    `json:"capabilities,omitzero"`
	SandboxOff   *bool       `json:"sandbox_off,omitempty"`
}

// ProcessCap limits what is started.
type ProcessCap struct {
	ShellEnabled      *bool    `json:"shell_enabled,omitempty"`
	FilterEnvironment *bool    `json:"filter_environment,omitempty"`
	MaxDuration       Duration `json:"max_duration,omitzero"`
	Limits
	DeniedCommands  []string `json:"denied_commands,omitempty"`
	AllowedFamilies []string `json:"allowed_families,omitzero"`
}

// ApprovalCap limits the answers of a human.
type ApprovalCap struct {
	AllowOnce    *bool `json:"allow_once,omitempty"`
	AllowForTurn *bool `json:"allow_for_turn,omitempty"`
}

// BackendCap can make a backend required.
type BackendCap struct {
	Requirement Requirement `json:"requirement,omitempty"`
}

// Top returns the most that the cap permits: what it does not name is whole.
func (c *ResourcesCap) Top() Resources {
	top := Everything()
	if c == nil {
		return top
	}
	if c.Write != nil || c.WriteAll != nil && !*c.WriteAll {
		top.WriteAll, top.Write = c.WriteAll != nil && *c.WriteAll, c.Write
	}
	if c.Read != nil || c.ReadAll != nil && !*c.ReadAll {
		top.ReadAll, top.Read = c.ReadAll != nil && *c.ReadAll, c.Read
		if !top.ReadAll && top.WriteAll {
			// Writable is readable, so reading cannot be less than writing: a cap
			// on reads alone caps writes to the same roots.
			top.WriteAll, top.Write = false, slices.Clone(c.Read)
		} else if !top.ReadAll {
			top.Write = meetRoots(AccessWrite, false, canonicalRoots(AccessWrite, top.Write), false, canonicalRoots(AccessWrite, c.Read))
		}
	}
	switch {
	case c.Hosts != nil:
		top.Network, top.Hosts = NetworkRestricted, c.Hosts
		if c.Network == NetworkDisabled {
			top.Network = NetworkDisabled
		}
	case c.Network == NetworkDisabled:
		top.Network = NetworkDisabled
	}
	top.DeniedHosts = c.DeniedHosts
	if c.Capabilities != nil {
		top.Capabilities = slices.DeleteFunc(slices.Clone(c.Capabilities), func(n string) bool { return n == "off" })
	}
	if c.SandboxOff != nil {
		top.SandboxOff = *c.SandboxOff
	}
	return top.Canonical()
}

// asCap returns the cap that permits exactly r.
func (r Resources) asCap() *ResourcesCap {
	r = r.Canonical()
	readAll, writeAll, off := r.ReadAll, r.WriteAll, r.SandboxOff
	c := &ResourcesCap{
		ReadAll: &readAll, WriteAll: &writeAll, Network: r.Network, DeniedHosts: r.DeniedHosts,
		Capabilities: append([]string{}, r.Capabilities...), SandboxOff: &off,
	}
	if !readAll {
		c.Read = append([]Entry{}, r.Read...)
	}
	if !writeAll {
		c.Write = append([]Entry{}, r.Write...)
	}
	if r.Network == NetworkRestricted {
		c.Hosts = append([]string{}, r.Hosts...)
	}
	return c
}

// CapOf returns the cap that holds a child to what s permits.
func CapOf(s Snapshot) *Cap {
	p := s.Profile.Policy.canonical()
	shell, filter := s.Process.ShellEnabled, s.Process.FilterEnvironment
	once, turn := s.Approval.AllowOnce, s.Approval.AllowForTurn
	return &Cap{
		Name: "parent",
		Profile: &ProfileCap{Mode: s.Profile.Mode, Policy: &ToolPolicyCap{
			Kinds: p.Kinds, AllowTools: p.AllowTools, DenyTools: p.DenyTools, AllowPaths: p.AllowPaths, DenyPaths: p.DenyPaths,
		}},
		Sandbox: &SandboxCap{Mode: s.Sandbox.Mode, Tmp: s.Sandbox.Tmp},
		Open:    s.Open.asCap(),
		Ceiling: s.Ceiling.asCap(),
		Process: &ProcessCap{
			ShellEnabled: &shell, FilterEnvironment: &filter, MaxDuration: s.Process.MaxDuration, Limits: s.Process.Limits,
			DeniedCommands: s.Process.DeniedCommands, AllowedFamilies: s.Process.AllowedFamilies,
		},
		Approval: &ApprovalCap{AllowOnce: &once, AllowForTurn: &turn},
		Backend:  &BackendCap{Requirement: s.Backend.Requirement},
	}
}

// Restrict returns the snapshot with the cap put on it, and one line for each
// thing that the cap names and the snapshot does not have anyway. A nil cap
// changes nothing. Where the cap names anything the source is SourceTaskCap and
// the cap is recorded.
func Restrict(s Snapshot, c *Cap) (out Snapshot, narrowed []string) {
	if c == nil {
		return s, nil
	}
	narrowed = c.beyond(s)
	s.Profile.Policy = s.Profile.Policy.canonical()
	if p := c.Profile; p != nil {
		if p.Mode != "" {
			mode := StricterMode(s.Profile.Mode, p.Mode)
			if mode != s.Profile.Mode {
				s = lowerMode(s, mode)
			}
		}
		if q := p.Policy; q != nil {
			for k, a := range q.Kinds {
				// A kind that the snapshot does not name is denied as it is.
				if had, ok := s.Profile.Policy.Kinds[k]; ok {
					s.Profile.Policy.Kinds[k] = min(had, a)
				}
			}
			s.Profile.Policy.AllowTools = slices.Concat(s.Profile.Policy.AllowTools, q.AllowTools)
			s.Profile.Policy.DenyTools = slices.Concat(s.Profile.Policy.DenyTools, q.DenyTools)
			s.Profile.Policy.AllowPaths = slices.Concat(s.Profile.Policy.AllowPaths, q.AllowPaths)
			s.Profile.Policy.DenyPaths = slices.Concat(s.Profile.Policy.DenyPaths, q.DenyPaths)
			s.Profile.Policy = s.Profile.Policy.canonical()
		}
	}
	if b := c.Sandbox; b != nil {
		if b.Mode != "" {
			s.Sandbox.Mode = sandboxModes[min(s.Sandbox.Mode.rank(), b.Mode.rank())]
		}
		if b.Tmp == TmpIsolated {
			s.Sandbox.Tmp = TmpIsolated
		}
	}
	s.Ceiling = MeetResources(s.Ceiling, c.Ceiling.Top())
	s.Open = MeetResources(MeetResources(s.Open, c.Open.Top()), s.Ceiling)
	if s.Sandbox.Mode != SandboxUnrestricted {
		// A sandbox mode is a promise about what is open; keep them in step.
		s.Open.SandboxOff = false
		if s.Sandbox.Mode == SandboxReadOnly {
			s.Open.WriteAll, s.Open.Write = false, nil
		}
		s.Open = s.Open.Canonical()
	}
	if p := c.Process; p != nil {
		limit := Process{ShellEnabled: true, MaxDuration: p.MaxDuration, Limits: p.Limits, DeniedCommands: p.DeniedCommands, AllowedFamilies: p.AllowedFamilies}
		if p.ShellEnabled != nil {
			limit.ShellEnabled = *p.ShellEnabled
		}
		if p.FilterEnvironment != nil {
			limit.FilterEnvironment = *p.FilterEnvironment
		}
		s.Process = meetProcess(s.Process, limit)
	}
	if a := c.Approval; a != nil {
		s.Approval.AllowOnce = s.Approval.AllowOnce && (a.AllowOnce == nil || *a.AllowOnce)
		s.Approval.AllowForTurn = s.Approval.AllowForTurn && (a.AllowForTurn == nil || *a.AllowForTurn)
	}
	if c.Backend != nil && c.Backend.Requirement == RequirementRequired || s.confines() {
		s.Backend.Requirement = RequirementRequired
	}
	s.Profile.Source = SourceTaskCap
	s.ParentCap = meetCaps(s.ParentCap, c)
	return s.Enforced(s.Backend.Name, s.Backend.Capabilities, s.looseDegradations()), narrowed
}

// confines says whether the snapshot takes anything away that only a sandbox
// can take away.
func (s Snapshot) confines() bool {
	return s.Sandbox.Mode != SandboxUnrestricted || !Everything().Within(s.Open)
}

// looseDegradations are those that the host reported, without the areas that a
// former requirement added.
func (s Snapshot) looseDegradations() []string {
	return slices.DeleteFunc(slices.Clone(s.Enforcement.Degradations), func(d string) bool {
		return slices.Contains(RequiredAreas(), d) && !slices.Contains(s.Backend.Capabilities, d)
	})
}

// lowerMode resolves the stricter mode for the same place and keeps both.
func lowerMode(s Snapshot, mode Mode) Snapshot {
	if mode.Rank() == 0 {
		lower := nothing(s.Profile.Source, s.Sandbox.Cwd, s.Generation)
		lower.Backend, lower.ParentCap = s.Backend, s.ParentCap
		lower.Backend.Requirement = RequirementRequired
		lower.Process.MaxDuration, lower.Process.Limits = s.Process.MaxDuration, s.Process.Limits
		return lower
	}
	lower := Resolve(ResolveInput{
		Mode: mode, Source: s.Profile.Source, Workspace: s.Sandbox.Workspace, Cwd: s.Sandbox.Cwd, ExtraRoots: s.Sandbox.Roots,
		Generation: s.Generation,
	})
	lower.Profile.Policy = meetPolicies(lower.Profile.Policy, s.Profile.Policy)
	lower.Sandbox.Mode = sandboxModes[min(lower.Sandbox.Mode.rank(), s.Sandbox.Mode.rank())]
	lower.Ceiling = MeetResources(lower.Ceiling, s.Ceiling)
	lower.Open = MeetResources(MeetResources(lower.Open, s.Open), lower.Ceiling)
	lower.Process = meetProcess(lower.Process, s.Process)
	lower.Approval = Approval{AllowOnce: s.Approval.AllowOnce, AllowForTurn: s.Approval.AllowForTurn}
	lower.Backend.Name, lower.Backend.Capabilities = s.Backend.Name, s.Backend.Capabilities
	lower.Enforcement.Degradations = s.looseDegradations()
	lower.ParentCap = s.ParentCap
	return lower
}

// Child resolves the snapshot of a child session: never more than the parent,
// in what is open and in what a human may open. want "" inherits the parent's
// mode. What was asked for beyond the parent is narrowed, each with one line in
// narrowed; the source then is SourceTaskCap.
//
// cwd is absolute and resolved. The child keeps the parent's workspace while its
// directory lies in it; else its directory is its workspace, which opens nothing
// unless the parent has it.
func Child(parent Snapshot, want Mode, limit *Cap, cwd string) (s Snapshot, narrowed []string) {
	return ChildIn(parent, want, limit, cwd, "")
}

// ChildIn is Child with the workspace that was found for the child's directory.
func ChildIn(parent Snapshot, want Mode, limit *Cap, cwd, workspace string) (s Snapshot, narrowed []string) {
	mode, source := parent.Profile.Mode, SourceInherited
	switch {
	case want == "":
	case want.Rank() == 0:
		mode, source = "", SourceTaskCap
		narrowed = append(narrowed, fmt.Sprintf("mode %q does not exist: nothing is permitted", string(want)))
	case want.Rank() > mode.Rank():
		source = SourceTaskCap
		narrowed = append(narrowed, fmt.Sprintf("mode %s: narrowed to %s, which is what the parent has", want, mode))
	default:
		mode, source = want, SourceComposer
	}
	cwd = cleanPath(cwd)
	if cwd == "" {
		cwd = parent.Sandbox.Cwd
	}
	if workspace = cleanPath(workspace); workspace == "" {
		workspace = parent.Sandbox.Workspace
		if workspace == "" || !below(workspace, cwd) {
			workspace = cwd
		}
	}
	base := parent
	base.Sandbox.Cwd, base.Sandbox.Workspace = cwd, workspace
	s = lowerMode(base, mode)
	s.Profile.Source = source
	if s.Sandbox.Mode == SandboxUnrestricted && parent.Sandbox.Tmp == TmpHost {
		s.Sandbox.Tmp = TmpHost
	}
	if cwd != "" && !s.Open.CanRead(cwd) {
		narrowed = append(narrowed, fmt.Sprintf("directory %s: outside what the session may read", cwd))
	}
	if parent.ParentCap != nil || parent.confines() || parent.Profile.Mode != FullAccess {
		s.ParentCap = CapOf(parent)
	}
	if s.confines() {
		s.Backend.Requirement = RequirementRequired
	}
	s = s.Enforced(s.Backend.Name, s.Backend.Capabilities, s.looseDegradations())
	if limit == nil {
		return s, narrowed
	}
	s, more := Restrict(s, limit)
	return s, append(narrowed, more...)
}

// beyond lists what the cap names and the snapshot does not have.
func (c *Cap) beyond(s Snapshot) []string {
	var out []string
	say := func(format string, args ...any) {
		out = append(out, c.prefix()+fmt.Sprintf(format, args...))
	}
	if p := c.Profile; p != nil {
		if p.Mode.Rank() > s.Profile.Mode.Rank() {
			say("profile.mode %s: narrowed to %s", p.Mode, s.Profile.Mode)
		}
		if p.Policy != nil {
			for _, k := range kinds {
				if a, ok := p.Policy.Kinds[k]; ok && a > s.Profile.Policy.Kinds[k] {
					say("profile.policy.kinds.%s %s: narrowed to %s", k, a, s.Profile.Policy.Kinds[k])
				}
			}
		}
	}
	if b := c.Sandbox; b != nil && b.Mode != "" && b.Mode.rank() > s.Sandbox.Mode.rank() {
		say("sandbox.mode %s: narrowed to %s", b.Mode, s.Sandbox.Mode)
	}
	for _, side := range []struct {
		name string
		cap  *ResourcesCap
		have Resources
	}{{"open", c.Open, s.Open}, {"ceiling", c.Ceiling, s.Ceiling}} {
		if side.cap == nil {
			continue
		}
		have := side.have
		if is(side.cap.ReadAll) && !have.ReadAll {
			say("%s.read_all: the session may not read everything", side.name)
		}
		if is(side.cap.WriteAll) && !have.WriteAll {
			say("%s.write_all: the session may not write everything", side.name)
		}
		if is(side.cap.SandboxOff) && !have.SandboxOff {
			say("%s.sandbox_off: the session may not leave its sandbox", side.name)
		}
		for _, e := range side.cap.Read {
			if !have.CanRead(e.Path) {
				say("%s.read %s: outside what the session may read", side.name, e.Path)
			}
		}
		for _, e := range side.cap.Write {
			if !have.CanWrite(e.Path) {
				say("%s.write %s: outside what the session may write", side.name, e.Path)
			}
		}
		if side.cap.Network.rank() > have.Network.rank() {
			say("%s.network %s: narrowed to %s", side.name, side.cap.Network, have.Network)
		}
		for _, h := range side.cap.Hosts {
			if !(Resources{Network: NetworkRestricted, Hosts: []string{h}, DeniedHosts: have.DeniedHosts}).Within(have) {
				say("%s.hosts %s: the session may not reach it", side.name, h)
			}
		}
		for _, name := range side.cap.Capabilities {
			if !have.Has(name) {
				say("%s.capabilities %s: the session does not have it", side.name, name)
			}
		}
	}
	if p := c.Process; p != nil {
		if is(p.ShellEnabled) && !s.Process.ShellEnabled {
			say("process.shell_enabled: the session has no shell")
		}
		if p.FilterEnvironment != nil && !*p.FilterEnvironment && s.Process.FilterEnvironment {
			say("process.filter_environment: the session's environment stays filtered")
		}
		if s.Process.MaxDuration != 0 && p.MaxDuration > s.Process.MaxDuration {
			say("process.max_duration: the session's limit is shorter")
		}
		p.Limits.beyond(s.Process.Limits, say)
		if s.Process.AllowedFamilies != nil {
			for _, f := range p.AllowedFamilies {
				if !slices.Contains(s.Process.AllowedFamilies, f) {
					say("process.allowed_families %s: the session may not start it", f)
				}
			}
		}
	}
	if a := c.Approval; a != nil {
		if is(a.AllowOnce) && !s.Approval.AllowOnce || is(a.AllowForTurn) && !s.Approval.AllowForTurn {
			say("approval: the session's answers stay limited")
		}
	}
	if b := c.Backend; b != nil && b.Requirement == RequirementOptional && s.Backend.Requirement == RequirementRequired {
		say("backend.requirement: the session's sandbox stays required")
	}
	return out
}

func (c *Cap) prefix() string {
	if c.Name == "" {
		return ""
	}
	return c.Name + ": "
}

func is(b *bool) bool { return b != nil && *b }

// meetCaps returns the cap that restricts as much as both.
func meetCaps(a, b *Cap) *Cap {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	out := &Cap{Name: a.Name, At: maps.Clone(a.At)}
	if a.Name != b.Name {
		out.Name = strings.Trim(a.Name+" and "+b.Name, " ")
	}
	out.Profile = meetProfileCaps(a.Profile, b.Profile)
	switch {
	case a.Sandbox == nil:
		out.Sandbox = b.Sandbox
	case b.Sandbox == nil:
		out.Sandbox = a.Sandbox
	default:
		m := *a.Sandbox
		if m.Mode == "" || b.Sandbox.Mode != "" && b.Sandbox.Mode.rank() < m.Mode.rank() {
			m.Mode = b.Sandbox.Mode
		}
		if m.Tmp == "" || b.Sandbox.Tmp == TmpIsolated {
			m.Tmp = b.Sandbox.Tmp
		}
		out.Sandbox = &m
	}
	out.Open, out.Ceiling = meetResourceCaps(a.Open, b.Open), meetResourceCaps(a.Ceiling, b.Ceiling)
	switch {
	case a.Process == nil:
		out.Process = b.Process
	case b.Process == nil:
		out.Process = a.Process
	default:
		p := &ProcessCap{
			ShellEnabled:   both(a.Process.ShellEnabled, b.Process.ShellEnabled),
			MaxDuration:    stricter(a.Process.MaxDuration, b.Process.MaxDuration),
			Limits:         a.Process.Limits.Meet(b.Process.Limits),
			DeniedCommands: sorted(slices.Concat(a.Process.DeniedCommands, b.Process.DeniedCommands)),
		}
		if a.Process.FilterEnvironment != nil || b.Process.FilterEnvironment != nil {
			f := is(a.Process.FilterEnvironment) || is(b.Process.FilterEnvironment)
			p.FilterEnvironment = &f
		}
		if a.Process.AllowedFamilies != nil || b.Process.AllowedFamilies != nil {
			if b.Process.AllowedFamilies == nil {
				p.AllowedFamilies = a.Process.AllowedFamilies
			} else {
				p.AllowedFamilies = meetWords(a.Process.AllowedFamilies, b.Process.AllowedFamilies)
			}
		}
		out.Process = p
	}
	switch {
	case a.Approval == nil:
		out.Approval = b.Approval
	case b.Approval == nil:
		out.Approval = a.Approval
	default:
		out.Approval = &ApprovalCap{
			AllowOnce:    both(a.Approval.AllowOnce, b.Approval.AllowOnce),
			AllowForTurn: both(a.Approval.AllowForTurn, b.Approval.AllowForTurn),
		}
	}
	out.Backend = a.Backend
	if a.Backend == nil || b.Backend != nil && b.Backend.Requirement == RequirementRequired {
		out.Backend = b.Backend
	}
	return out
}

// both is the "and" of two optional booleans.
func both(a, b *bool) *bool {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	c := *a && *b
	return &c
}

func meetProfileCaps(a, b *ProfileCap) *ProfileCap {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	out := &ProfileCap{Mode: a.Mode}
	if a.Mode == "" || b.Mode != "" && b.Mode.Rank() < a.Mode.Rank() {
		out.Mode = b.Mode
	}
	p, q := a.Policy, b.Policy
	switch {
	case p == nil:
		out.Policy = q
	case q == nil:
		out.Policy = p
	default:
		m := &ToolPolicyCap{
			Kinds:      maps.Clone(p.Kinds),
			AllowTools: canonicalLists(slices.Concat(p.AllowTools, q.AllowTools)), DenyTools: sorted(slices.Concat(p.DenyTools, q.DenyTools)),
			AllowPaths: canonicalLists(slices.Concat(p.AllowPaths, q.AllowPaths)), DenyPaths: sorted(slices.Concat(p.DenyPaths, q.DenyPaths)),
		}
		if m.Kinds == nil {
			m.Kinds = map[Kind]Action{}
		}
		for k, action := range q.Kinds {
			if had, ok := m.Kinds[k]; ok {
				action = min(action, had)
			}
			m.Kinds[k] = action
		}
		out.Policy = m
	}
	return out
}

func meetResourceCaps(a, b *ResourcesCap) *ResourcesCap {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return MeetResources(a.Top(), b.Top()).asCap()
}

// ParseCap reads a cap file: a partial snapshot as JSON with comments. Unknown
// fields are refused; every mistake is reported, each with its position.
func ParseCap(name string, data []byte) (*Cap, error) {
	d, root := parseDocument(name, data)
	if root == nil {
		return nil, d.err()
	}
	r := capReader{cap: &Cap{Name: name, At: map[string]Origin{}}}
	r.read(*root)
	if err := d.err(); err != nil {
		return nil, err
	}
	return r.cap, nil
}

type capReader struct{ cap *Cap }

func (r capReader) at(path string, m member) { r.cap.At[path] = m.key.origin("cap") }

func (r capReader) read(root value) {
	for _, m := range root.members("an object: a partial snapshot") {
		r.at(m.name, m)
		switch m.name {
		case "$schema":
			m.value.text("the address of a schema")
		case "profile":
			r.cap.Profile = r.profile(m.value)
		case "sandbox":
			r.cap.Sandbox = r.sandbox(m.value)
		case "open":
			r.cap.Open = r.resources("open", m.value)
		case "ceiling":
			r.cap.Ceiling = r.resources("ceiling", m.value)
		case "process":
			r.cap.Process = r.process(m.value)
		case "approval":
			r.cap.Approval = r.approval(m.value)
		case "backend":
			r.cap.Backend = &BackendCap{}
			for _, m := range m.value.members("an object") {
				if m.name != "requirement" {
					m.unknown("requirement")
					continue
				}
				r.cap.Backend.Requirement = oneOf(m.value, RequirementOptional, RequirementRequired)
			}
		default:
			m.unknown("profile", "sandbox", "open", "ceiling", "process", "approval", "backend", "$schema")
		}
	}
}

// oneOf reads a string that is one of the words.
func oneOf[S ~string](v value, words ...S) S {
	s, ok := v.text(join(words))
	if !ok {
		return ""
	}
	if !slices.Contains(words, S(s)) {
		hint := ""
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = string(w)
		}
		if near := nearest(s, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		v.problem(fmt.Sprintf("%q", s), join(words), hint)
		return ""
	}
	return S(s)
}

func readAction(v value, expected string) (Action, bool) {
	s, ok := v.text(expected)
	if !ok {
		return Deny, false
	}
	a, err := ParseAction(s)
	if err != nil {
		hint := ""
		if near := nearest(s, actionNames[:]); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		v.problem(fmt.Sprintf("%q", s), expected, hint)
		return Deny, false
	}
	return a, true
}

func readBool(v value) *bool {
	b, ok := v.boolean()
	if !ok {
		return nil
	}
	return &b
}

func (r capReader) profile(v value) *ProfileCap {
	out := &ProfileCap{}
	for _, m := range v.members("an object") {
		r.at("profile."+m.name, m)
		switch m.name {
		case "mode":
			out.Mode = oneOf(m.value, modes[:]...)
		case "policy":
			out.Policy = r.policy(m.value)
		default:
			m.unknown("mode", "policy")
		}
	}
	return out
}

func (r capReader) policy(v value) *ToolPolicyCap {
	out := &ToolPolicyCap{}
	for _, m := range v.members("an object") {
		path := "profile.policy." + m.name
		r.at(path, m)
		switch m.name {
		case "kinds":
			out.Kinds = map[Kind]Action{}
			for _, m := range m.value.members("an object of action kinds") {
				r.at(path+"."+m.name, m)
				if !slices.Contains(kinds[:], Kind(m.name)) {
					names := make([]string, len(kinds))
					for i, k := range kinds {
						names[i] = string(k)
					}
					m.unknown(names...)
					continue
				}
				if a, ok := readAction(m.value, "allow, ask or deny"); ok {
					out.Kinds[Kind(m.name)] = a
				}
			}
		case "allow_tools":
			out.AllowTools = patternLists(m.value)
		case "deny_tools":
			out.DenyTools = patterns(m.value)
		case "allow_paths":
			out.AllowPaths = patternLists(m.value)
		case "deny_paths":
			out.DenyPaths = patterns(m.value)
		default:
			m.unknown("kinds", "allow_tools", "deny_tools", "allow_paths", "deny_paths")
		}
	}
	return out
}

// patternLists reads a list of patterns, or a list of such lists.
func patternLists(v value) [][]string {
	list, ok := v.elements("a list of patterns")
	if !ok {
		return nil
	}
	if len(list) > 0 && list[0].kind() == '[' {
		var out [][]string
		for _, e := range list {
			out = append(out, append([]string{}, patterns(e)...))
		}
		return out
	}
	return [][]string{append([]string{}, patterns(v)...)}
}

func patterns(v value) []string {
	list, ok := v.elements("a list of patterns")
	if !ok {
		return nil
	}
	var out []string
	for _, e := range list {
		if s, ok := e.text("a pattern"); ok && checkPattern(e, s) {
			out = append(out, s)
		}
	}
	return out
}

func (r capReader) sandbox(v value) *SandboxCap {
	out := &SandboxCap{}
	for _, m := range v.members("an object") {
		r.at("sandbox."+m.name, m)
		switch m.name {
		case "mode":
			out.Mode = oneOf(m.value, SandboxReadOnly, SandboxWorkspaceWrite, SandboxUnrestricted)
		case "tmp":
			out.Tmp = oneOf(m.value, TmpIsolated, TmpHost)
		default:
			m.unknown("mode", "tmp")
		}
	}
	return out
}

func (r capReader) resources(side string, v value) *ResourcesCap {
	out := &ResourcesCap{}
	var readAll, hosts *value
	for _, m := range v.members("an object") {
		r.at(side+"."+m.name, m)
		switch m.name {
		case "read_all":
			out.ReadAll, readAll = readBool(m.value), &m.value
		case "write_all":
			out.WriteAll = readBool(m.value)
		case "read":
			out.Read = r.roots(m.value, AccessRead)
		case "write":
			out.Write = r.roots(m.value, AccessWrite)
		case "network":
			out.Network = oneOf(m.value, networkModes[:]...)
		case "hosts":
			out.Hosts, hosts = readHosts(m.value), &m.value
			if out.Hosts == nil {
				out.Hosts = []string{}
			}
		case "denied_hosts":
			out.DeniedHosts = readHosts(m.value)
		case "capabilities":
			out.Capabilities = []string{}
			list, _ := m.value.elements("a list of capability names")
			for _, e := range list {
				name, ok := e.text("the name of a capability")
				if !ok {
					continue
				}
				if name == "off" {
					e.problem(`"off"`, `the field "sandbox_off"`, "")
				} else if _, err := CapabilityText(name); err != nil && name != "*" {
					e.problem(fmt.Sprintf("unknown capability %q", name), "ssh, git-credential:HOST, gpg, env:NAME, docker, display or nest", "")
				} else {
					out.Capabilities = append(out.Capabilities, name)
				}
			}
		case "sandbox_off":
			out.SandboxOff = readBool(m.value)
		default:
			m.unknown("read_all", "write_all", "read", "write", "network", "hosts", "denied_hosts", "capabilities", "sandbox_off")
		}
	}
	if out.ReadAll != nil && !*out.ReadAll && out.Read == nil && readAll != nil {
		readAll.problem(`"read_all" is false and there is no "read"`, `a list "read" of the roots that stay, [] for none`, "")
	}
	if hosts != nil && (out.Network == NetworkEnabled || out.Network == NetworkDisabled) {
		hosts.problem(fmt.Sprintf(`"hosts" beside "network": %q`, out.Network), `"network": "restricted"`, "")
	}
	return out
}

func (r capReader) roots(v value, access Access) []Entry {
	out := []Entry{}
	list, _ := v.elements("a list of absolute paths")
	for _, e := range list {
		entry := Entry{Access: access, Provenance: ProvenanceTaskCap}
		at := e
		if e.kind() == '{' {
			for _, m := range e.members("a root") {
				switch m.name {
				case "path":
					at = m.value
					entry.Path, _ = m.value.text("an absolute path")
				case "access":
					if a := oneOf(m.value, AccessRead, AccessWrite); a != "" && a != access {
						m.value.problem(fmt.Sprintf("%q in a list of %s roots", a, access), fmt.Sprintf("%q", access), "")
					}
				case "provenance":
					// A cap that was printed from a snapshot may name where each root
					// came from; that stays true.
					entry.Provenance = oneOf(m.value, provenances[:]...)
				default:
					m.unknown("path", "access", "provenance")
				}
			}
		} else {
			s, ok := e.text("an absolute path")
			if !ok {
				continue
			}
			entry.Path = s
		}
		switch clean := cleanPath(entry.Path); {
		case clean == "":
			at.problem(fmt.Sprintf("path %q", entry.Path), "an absolute path", "")
		case clean != strings.TrimSuffix(entry.Path, "/") && entry.Path != "/":
			at.problem(fmt.Sprintf("path %q is not clean", entry.Path), fmt.Sprintf("%q", clean), "")
		default:
			entry.Path = clean
			out = append(out, entry)
		}
	}
	return out
}

func readHosts(v value) []string {
	var out []string
	list, _ := v.elements("a list of hosts")
	for _, e := range list {
		if s, ok := e.text("a host"); ok {
			if !hostPattern(cleanHost(s)) {
				e.problem(fmt.Sprintf("host %q", s), `"example.org", "*.example.org" or either with ":port"`, "")
				continue
			}
			out = append(out, s)
		}
	}
	return out
}

func (r capReader) process(v value) *ProcessCap {
	out := &ProcessCap{}
	for _, m := range v.members("an object") {
		r.at("process."+m.name, m)
		switch m.name {
		case "shell_enabled":
			out.ShellEnabled = readBool(m.value)
		case "filter_environment":
			out.FilterEnvironment = readBool(m.value)
		case "max_duration":
			out.MaxDuration = readDuration(m.value)
		case "max_wall":
			out.MaxWall = readDuration(m.value)
		case "max_idle":
			out.MaxIdle = readDuration(m.value)
		case "max_processes":
			out.MaxProcesses = readCount(m.value)
		case "denied_commands":
			out.DeniedCommands = commandWords(m.value)
		case "allowed_families":
			out.AllowedFamilies = append([]string{}, commandWords(m.value)...)
		default:
			m.unknown("shell_enabled", "filter_environment", "max_duration", "max_wall", "max_idle", "max_processes", "denied_commands", "allowed_families")
		}
	}
	return out
}

// commandWords reads base names of programs.
func commandWords(v value) []string {
	var out []string
	list, _ := v.elements("a list of program names")
	for _, e := range list {
		if s, ok := e.text("the name of a program"); ok {
			if s == "" || strings.ContainsAny(s, "/ *?\n\t") {
				e.problem(fmt.Sprintf("program %q", s), "one name without folder, space or wildcard", "")
				continue
			}
			out = append(out, s)
		}
	}
	return out
}

func (r capReader) approval(v value) *ApprovalCap {
	out := &ApprovalCap{}
	for _, m := range v.members("an object") {
		r.at("approval."+m.name, m)
		switch m.name {
		case "allow_once":
			out.AllowOnce = readBool(m.value)
		case "allow_for_turn":
			out.AllowForTurn = readBool(m.value)
		default:
			m.unknown("allow_once", "allow_for_turn")
		}
	}
	return out
}
