package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// GrantVector is what an answer opens besides saying yes. The zero value opens
// nothing.
type GrantVector struct {
	// WorkspaceWrite makes the session's workspace writable.
	WorkspaceWrite bool `json:"workspace_write,omitempty"`
	// Network opens the whole network.
	Network bool `json:"network,omitempty"`
	// SandboxOff runs without a sandbox.
	SandboxOff   bool     `json:"sandbox_off,omitempty"`
	Paths        []Entry  `json:"paths,omitempty"`
	Hosts        []string `json:"hosts,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// IsZero says whether the vector opens nothing.
func (v GrantVector) IsZero() bool {
	return !v.WorkspaceWrite && !v.Network && !v.SandboxOff && len(v.Paths) == 0 && len(v.Hosts) == 0 && len(v.Capabilities) == 0
}

// Within returns the part of the vector that a human may open under the
// ceiling, and one line for each member that is refused. WorkspaceWrite is kept
// while the ceiling has any writable root: whether the workspace itself is below
// it is for the caller, who knows the workspace (see WithinSession).
func (v GrantVector) Within(ceiling Resources) (kept GrantVector, refused []string) {
	ceiling = ceiling.Canonical()
	if v.WorkspaceWrite {
		if kept.WorkspaceWrite = ceiling.WriteAll || len(ceiling.Write) > 0; !kept.WorkspaceWrite {
			refused = append(refused, "workspace writable: the session's ceiling permits no writing")
		}
	}
	if v.Network {
		if kept.Network = ceiling.Network == NetworkEnabled; !kept.Network {
			refused = append(refused, "network: the session's ceiling does not permit all of it")
		}
	}
	if v.SandboxOff {
		if kept.SandboxOff = ceiling.SandboxOff; !kept.SandboxOff {
			refused = append(refused, "sandbox off: the session's ceiling does not permit it")
		}
	}
	for _, e := range v.Paths {
		if e.Access == AccessWrite && ceiling.CanWrite(e.Path) || e.Access == AccessRead && ceiling.CanRead(e.Path) {
			kept.Paths = append(kept.Paths, e)
		} else {
			refused = append(refused, fmt.Sprintf("%s %s: above the session's ceiling", e.Access, e.Path))
		}
	}
	for _, h := range v.Hosts {
		if hostPattern(cleanHost(h)) && (Resources{Network: NetworkRestricted, Hosts: []string{h}, DeniedHosts: ceiling.DeniedHosts}).Within(ceiling) &&
			!slices.ContainsFunc(ceiling.DeniedHosts, func(d string) bool { return hostCovers(d, cleanHost(h)) }) {
			kept.Hosts = append(kept.Hosts, h)
		} else {
			refused = append(refused, fmt.Sprintf("host %s: above the session's ceiling", h))
		}
	}
	for _, c := range v.Capabilities {
		_, err := CapabilityText(c)
		switch {
		case err != nil:
			refused = append(refused, err.Error())
		case !ceiling.Has(c):
			refused = append(refused, fmt.Sprintf("capability %s: above the session's ceiling", c))
		default:
			kept.Capabilities = append(kept.Capabilities, c)
		}
	}
	return kept, refused
}

// WithinSession is Within for a session: its ceiling, and its workspace.
func (v GrantVector) WithinSession(s Snapshot) (kept GrantVector, refused []string) {
	kept, refused = v.Within(s.Ceiling)
	if kept.WorkspaceWrite && (s.Sandbox.Workspace == "" || !s.Ceiling.CanWrite(s.Sandbox.Workspace)) {
		kept.WorkspaceWrite = false
		refused = append(refused, "workspace writable: above the session's ceiling")
	}
	return kept, refused
}

// Apply returns what an invocation has that was given the vector: open and the
// vector, never more than the ceiling.
func (v GrantVector) Apply(s Snapshot) Resources {
	v, _ = v.WithinSession(s)
	r := s.Open.Canonical()
	for _, e := range v.Paths {
		r.Read = append(r.Read, e)
		if e.Access == AccessWrite {
			r.Write = append(r.Write, e)
		}
	}
	if v.WorkspaceWrite {
		r.Write = append(r.Write, Entry{Path: s.Sandbox.Workspace, Provenance: ProvenanceWorkspace})
	}
	if len(v.Hosts) > 0 && r.Network != NetworkEnabled {
		r.Network, r.Hosts = NetworkRestricted, append(r.Hosts, v.Hosts...)
	}
	if v.Network {
		r.Network, r.Hosts = NetworkEnabled, nil
	}
	r.DeniedHosts = append(r.DeniedHosts, s.Ceiling.DeniedHosts...)
	r.Capabilities = append(r.Capabilities, v.Capabilities...)
	r.SandboxOff = r.SandboxOff || v.SandboxOff
	return MeetResources(r, s.Ceiling)
}

// Grant is a yes that outlives its question, until its turn ends.
type Grant struct {
	ID string `json:"id"`
	// Session is the one whose ask was answered: "this agent" is this id, never
	// a name. From is the session that it was granted from; it is the same in a
	// grant for this agent.
	Session string `json:"session"`
	// Tree lets the grant cover every session of the tree; it then ends with the
	// root's turn.
	Tree    bool   `json:"tree,omitempty"`
	Surface string `json:"surface"`
	// Pattern or ScopeHash says what is covered; one of them is set.
	Pattern   string `json:"pattern,omitempty"`
	ScopeHash string `json:"scope_hash,omitempty"`
	// Vector goes to the invocations that the grant covers and to no other.
	Vector GrantVector `json:"vector,omitzero"`
	From   string      `json:"from,omitempty"`
	Turn   uint64      `json:"turn,omitempty"`
	// Program, unless "", is the resolved file that a pattern grant is bound to.
	Program string `json:"program,omitempty"`
	// Root, unless "", is the directory root that a tree grant is bound to.
	Root string `json:"root,omitempty"`
}

// Check says what keeps g from being a grant.
func (g Grant) Check() error {
	switch {
	case g.ID == "":
		return fmt.Errorf("grant without id")
	case g.Session == "":
		return fmt.Errorf("grant %s: no session", g.ID)
	case g.Surface == "" || strings.ContainsAny(g.Surface, "*?"):
		return fmt.Errorf("grant %s: surface %q, expected the name of one surface", g.ID, g.Surface)
	case g.Pattern == "" && g.ScopeHash == "", g.Pattern != "" && g.ScopeHash != "":
		return fmt.Errorf("grant %s: expected a pattern or a scope hash, one of them", g.ID)
	case len(g.Pattern) > maxPattern || !utf8.ValidString(g.Pattern):
		return fmt.Errorf("grant %s: pattern is no UTF-8 text of at most %d bytes", g.ID, maxPattern)
	case g.Tree && g.Vector.SandboxOff, g.Tree && slices.Contains(g.Vector.Capabilities, "off"):
		return fmt.Errorf("grant %s: a grant for the whole tree never turns the sandbox off", g.ID)
	}
	return nil
}

// covers says whether the grant settles an ask about q from a session.
func (g *Grant) covers(session string, q *Query, hash string) bool {
	if g.Session != session && !g.Tree {
		return false
	}
	if g.Surface != q.Surface {
		return false
	}
	if g.Tree && g.Session != session && g.Root != "" && g.Root != q.Root {
		return false
	}
	if g.ScopeHash != "" {
		return g.ScopeHash == hash
	}
	if q.ExactOnly || len(q.Values) == 0 || q.Floor != Allow && !g.namesWrapped(q) {
		return false
	}
	if g.Program != "" && g.Program != q.Program {
		return false
	}
	if !q.Aliases {
		return Match(g.Pattern, q.Values[0], q.Home)
	}
	if len(q.Shapes) > 0 {
		// Every full spelling that is absolute, as below.
		found := false
		p, ok := compilePattern(g.Pattern, q.Home, q.Fold)
		for _, s := range q.Shapes {
			if s.Some || !strings.HasPrefix(s.Text, "/") {
				continue
			}
			if !ok || !p.coversShape(s) {
				return false
			}
			found = true
		}
		return found
	}
	paths := q.paths()
	if len(paths) == 0 {
		return slices.ContainsFunc(q.Values, func(v string) bool { return Match(g.Pattern, v, q.Home) })
	}
	// A link may lead out of what was shown, so every absolute spelling counts.
	for _, p := range paths {
		if !Match(g.Pattern, p, q.Home) || cleanPath(p) != strings.TrimSuffix(p, "/") && p != "/" {
			return false
		}
	}
	return true
}

// indirection is the floor of a command behind a wrapper such as sudo.
const indirection = "<indirection-bash-wrapper>"

// namesWrapped says whether the pattern spells out wrapper and inner command, so
// that the human saw both: then it covers what was only asked for the wrapper. A
// pattern like "sudo *" does not.
func (g *Grant) namesWrapped(q *Query) bool {
	if q.Surface != surfaceBash || q.Floor != Ask || q.FloorReason != indirection {
		return false
	}
	head, _, _ := strings.Cut(g.Pattern, "*")
	if whole := strings.HasSuffix(head, " ") || head == g.Pattern; !whole {
		return false
	}
	words := strings.Fields(head)
	if len(words) < 2 {
		return false
	}
	inner, ok := peel(words)
	return ok && inner > 0
}

// Grants is the set of live grants of a tree. The zero value is empty and ready.
// It is not safe for concurrent use: its owner is the one who decides.
type Grants struct{ list []Grant }

// Add puts a grant into the set. A grant that is none, or an id that is there
// already, is refused.
func (s *Grants) Add(g Grant) error {
	if err := g.Check(); err != nil {
		return err
	}
	if slices.ContainsFunc(s.list, func(have Grant) bool { return have.ID == g.ID }) {
		return fmt.Errorf("grant %s is there already", g.ID)
	}
	s.list = append(s.list, g)
	return nil
}

// EndTurn ends the grants of one agent and returns them. Grants for the tree
// stay.
func (s *Grants) EndTurn(session string) []Grant {
	return s.remove(func(g Grant) bool { return !g.Tree && g.Session == session })
}

// EndTreeTurn ends the grants for the whole tree and returns them.
func (s *Grants) EndTreeTurn() []Grant { return s.remove(func(g Grant) bool { return g.Tree }) }

// EndSession ends what a session that is gone was given for itself, and returns
// it.
func (s *Grants) EndSession(session string) []Grant { return s.EndTurn(session) }

// Revoke ends one grant; false says that there is none with the id.
func (s *Grants) Revoke(id string) (Grant, bool) {
	gone := s.remove(func(g Grant) bool { return g.ID == id })
	if len(gone) == 0 {
		return Grant{}, false
	}
	return gone[0], true
}

func (s *Grants) remove(which func(Grant) bool) []Grant {
	var gone, kept []Grant
	for _, g := range s.list {
		if which(g) {
			gone = append(gone, g)
		} else {
			kept = append(kept, g)
		}
	}
	s.list = kept
	return gone
}

// List returns the grants in the order in which they were given.
func (s *Grants) List() []Grant { return slices.Clone(s.list) }

// Covers finds the grant that settles an ask about q by the session. hash is the
// ScopeHash of the ask. Of several an exact one is taken before a pattern, the
// session's own before the tree's. It speaks of asks alone: who holds a deny, or
// an ask that is for a human only, does not come here (see Judge).
func (s *Grants) Covers(session string, q Query, hash string) (Grant, bool) {
	best, bestScore := -1, -1
	for i := range s.list {
		g := &s.list[i]
		if !g.covers(session, &q, hash) {
			continue
		}
		score := 0
		if g.ScopeHash != "" {
			score += 2
		}
		if g.Session == session {
			score++
		}
		if score > bestScore {
			best, bestScore = i, score
		}
	}
	if best < 0 {
		return Grant{}, false
	}
	return s.list[best], true
}

// ScopeHash returns the normalised scope of an action: the SHA-256, in
// hexadecimal, of the canonical JSON of kind, tool and values.
func ScopeHash(kind Kind, tool string, values []string) string {
	type scope struct {
		Kind   Kind  `json:"kind"`
		Tool   any   `json:"tool"`
		Values []any `json:"values"`
	}
	s := scope{Kind: kind, Tool: jsonText(tool), Values: make([]any, len(values))}
	for i, v := range values {
		s.Values[i] = jsonText(v)
	}
	sum := sha256.Sum256(canonicalJSON(s))
	return hex.EncodeToString(sum[:])
}

// jsonText keeps what is no UTF-8 distinct, which JSON text would not.
func jsonText(s string) any {
	if utf8.ValidString(s) {
		return s
	}
	return map[string]string{"hex": hex.EncodeToString([]byte(s))}
}

// CheckOffer says whether a pattern that a child offers for a grant may be used:
// it covers what was asked, and it is no wider than the pattern that the human
// was shown.
func CheckOffer(q Query, offered, shown string) error {
	switch {
	case offered == "" || len(offered) > maxPattern || !utf8.ValidString(offered):
		return fmt.Errorf("offered pattern: expected UTF-8 text of 1 to %d bytes", maxPattern)
	case q.ExactOnly || q.Floor != Allow && !(&Grant{Surface: q.Surface, Pattern: offered}).namesWrapped(&q):
		return fmt.Errorf("offered pattern %q: this can only be granted exactly as it is", offered)
	case !slices.ContainsFunc(q.Values, func(v string) bool { return Match(offered, v, q.Home) }):
		return fmt.Errorf("offered pattern %q does not cover what was asked", offered)
	case !covers(shown, offered):
		return fmt.Errorf("offered pattern %q may cover more than %q, which was shown", offered, shown)
	}
	return nil
}
