package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Access is what an entry gives: read, or write (which includes read).
type Access string

const (
	AccessRead  Access = "read"
	AccessWrite Access = "write"
)

// Provenance says why a root is there.
type Provenance string

const (
	ProvenanceTaskCap   Provenance = "task_cap"
	ProvenanceComposer  Provenance = "composer_selection"
	ProvenanceWorkspace Provenance = "workspace"
	ProvenanceProject   Provenance = "project"
	ProvenanceRuntime   Provenance = "runtime"
	ProvenanceSystem    Provenance = "system"
)

// provenances is ordered: where two roots are the same path, the earlier name
// is kept, because it is the reason why the root is not wider.
var provenances = [...]Provenance{
	ProvenanceTaskCap, ProvenanceComposer, ProvenanceWorkspace, ProvenanceProject, ProvenanceRuntime, ProvenanceSystem,
}

func (p Provenance) order() int {
	if i := slices.Index(provenances[:], p); i >= 0 {
		return i
	}
	return len(provenances)
}

// Entry is one root of the file system, with everything below it.
type Entry struct {
	// Path is absolute, clean and slash-separated.
	Path       string     `json:"path"`
	Access     Access     `json:"access"`
	Provenance Provenance `json:"provenance,omitempty"`
}

// NetworkMode is how much network there is. The zero value is none.
type NetworkMode string

const (
	// NetworkDisabled: none but the session's own loopback.
	NetworkDisabled NetworkMode = "disabled"
	// NetworkRestricted: the listed hosts.
	NetworkRestricted NetworkMode = "restricted"
	// NetworkEnabled: all but the denied hosts.
	NetworkEnabled NetworkMode = "enabled"
)

var networkModes = [...]NetworkMode{NetworkDisabled, NetworkRestricted, NetworkEnabled}

func (n NetworkMode) rank() int { return max(0, slices.Index(networkModes[:], n)) }

// Resources is a set of things that a command may reach. A snapshot has two:
// what is open now, and the ceiling up to which a human may open more.
//
// The zero value permits nothing. Canonical brings any value into the one form
// in which equal sets are equal values; MeetResources returns that form.
// In it Read lists every readable root, the writable ones included, no root lies
// below another of its list, and everything is sorted.
type Resources struct {
	// ReadAll and WriteAll stand for "/"; WriteAll implies ReadAll.
	ReadAll  bool        `json:"read_all,omitempty"`
	WriteAll bool        `json:"write_all,omitempty"`
	Read     []Entry     `json:"read,omitempty"`
	Write    []Entry     `json:"write,omitempty"`
	Network  NetworkMode `json:"network"`
	// Hosts are what NetworkRestricted permits: "example.org", "*.example.org"
	// (every subdomain, not the domain itself), either with ":port".
	Hosts []string `json:"hosts,omitempty"`
	// DeniedHosts are refused whatever Network and Hosts say.
	DeniedHosts []string `json:"denied_hosts,omitempty"`
	// Capabilities are names of the closed table (see CapabilityText); "*" stands
	// for all of them, "env:*" and "git-credential:*" for a family.
	Capabilities []string `json:"capabilities,omitempty"`
	// SandboxOff permits to run without a sandbox. No "*" includes it.
	SandboxOff bool `json:"sandbox_off,omitempty"`
}

// Everything is the top of the order: what an unconfined operator has.
func Everything() Resources {
	return Resources{ReadAll: true, WriteAll: true, Network: NetworkEnabled, Capabilities: []string{"*"}, SandboxOff: true}
}

// Canonical returns the one value that stands for what r permits. Roots that
// are not absolute, not UTF-8 or above themselves ("/a/..") count as what they
// clean to, or as nothing.
func (r Resources) Canonical() Resources {
	out := Resources{
		WriteAll:   r.WriteAll,
		ReadAll:    r.ReadAll || r.WriteAll,
		SandboxOff: r.SandboxOff || slices.Contains(r.Capabilities, "off"),
	}
	if !out.WriteAll {
		out.Write = canonicalRoots(AccessWrite, r.Write)
		if hasRoot(out.Write) {
			out.WriteAll, out.ReadAll, out.Write = true, true, nil
		}
	}
	if !out.ReadAll {
		out.Read = canonicalRoots(AccessRead, r.Read)
		// What is writable is readable. A root that is readable anyway keeps the
		// provenance that it has as such, or the meet would not be associative.
		var more []Entry
		for _, e := range out.Write {
			if !inRoots(out.Read, e.Path) {
				more = append(more, e)
			}
		}
		out.Read = canonicalRoots(AccessRead, out.Read, more)
		if hasRoot(out.Read) {
			out.ReadAll, out.Read = true, nil
		}
	}
	out.Network = r.Network
	switch r.Network {
	case NetworkEnabled:
		out.DeniedHosts = canonicalHosts(r.DeniedHosts)
	case NetworkRestricted:
		out.DeniedHosts = canonicalHosts(r.DeniedHosts)
		for _, h := range canonicalHosts(r.Hosts) {
			if !slices.ContainsFunc(out.DeniedHosts, func(d string) bool { return hostCovers(d, h) }) {
				out.Hosts = append(out.Hosts, h)
			}
		}
		if len(out.Hosts) == 0 {
			out.Network, out.DeniedHosts = NetworkDisabled, nil
		}
	default:
		out.Network = NetworkDisabled
	}
	out.Capabilities = canonicalCapabilities(r.Capabilities)
	return out
}

// MeetResources returns what both sides permit. It is commutative, associative
// and idempotent (up to Canonical), and permits nothing that either side does
// not permit.
func MeetResources(a, b Resources) Resources {
	a, b = a.Canonical(), b.Canonical()
	out := Resources{
		ReadAll:    a.ReadAll && b.ReadAll,
		WriteAll:   a.WriteAll && b.WriteAll,
		SandboxOff: a.SandboxOff && b.SandboxOff,
	}
	out.Write = meetRoots(AccessWrite, a.WriteAll, a.Write, b.WriteAll, b.Write)
	out.Read = meetRoots(AccessRead, a.ReadAll, a.Read, b.ReadAll, b.Read)
	out.Network = networkModes[min(a.Network.rank(), b.Network.rank())]
	switch {
	case a.Network == NetworkEnabled:
		out.Hosts = b.Hosts
	case b.Network == NetworkEnabled:
		out.Hosts = a.Hosts
	default:
		for _, x := range a.Hosts {
			for _, y := range b.Hosts {
				if h, ok := meetHost(x, y); ok {
					out.Hosts = append(out.Hosts, h)
				}
			}
		}
	}
	out.DeniedHosts = slices.Concat(a.DeniedHosts, b.DeniedHosts)
	for _, x := range a.Capabilities {
		for _, y := range b.Capabilities {
			switch {
			case capabilityCovers(x, y):
				out.Capabilities = append(out.Capabilities, y)
			case capabilityCovers(y, x):
				out.Capabilities = append(out.Capabilities, x)
			}
		}
	}
	return out.Canonical()
}

// CanRead says whether the path is inside a readable root. The path is taken as
// it is: whoever asks has resolved its links.
func (r Resources) CanRead(p string) bool {
	return r.ReadAll || r.WriteAll || inRoots(r.Read, p) || inRoots(r.Write, p)
}

// CanWrite says whether the path is inside a writable root, the path taken as
// it is.
func (r Resources) CanWrite(p string) bool { return r.WriteAll || inRoots(r.Write, p) }

// CanReach says whether the host (a name or an address, without a scheme) may be
// reached on the port; port "" asks about every port.
func (r Resources) CanReach(host, port string) bool {
	name := cleanHost(host)
	if name == "" {
		return false
	}
	name = joinHost(name, port)
	if !hostPattern(name) {
		return false
	}
	// A denied host refuses the question when it covers any part of it.
	for _, d := range r.DeniedHosts {
		if _, overlap := meetHost(cleanHost(d), name); overlap {
			return false
		}
	}
	switch r.Network {
	case NetworkEnabled:
		return true
	case NetworkRestricted:
		return slices.ContainsFunc(r.Hosts, func(h string) bool { return hostCovers(cleanHost(h), name) })
	}
	return false
}

// Has says whether the named capability is there; "off" asks for SandboxOff.
func (r Resources) Has(capability string) bool {
	if capability == "off" {
		return r.SandboxOff || slices.Contains(r.Capabilities, "off")
	}
	return slices.ContainsFunc(r.Capabilities, func(c string) bool { return capabilityCovers(c, capability) })
}

// Within says whether everything that r permits, other permits.
func (r Resources) Within(other Resources) bool {
	return equalSets(MeetResources(r, other), r.Canonical())
}

// equalSets compares canonical values without their provenance.
func equalSets(a, b Resources) bool {
	samePath := func(x, y Entry) bool { return x.Path == y.Path }
	return a.ReadAll == b.ReadAll && a.WriteAll == b.WriteAll && a.Network == b.Network && a.SandboxOff == b.SandboxOff &&
		slices.EqualFunc(a.Read, b.Read, samePath) && slices.EqualFunc(a.Write, b.Write, samePath) &&
		slices.Equal(a.Hosts, b.Hosts) && slices.Equal(a.DeniedHosts, b.DeniedHosts) &&
		slices.Equal(a.Capabilities, b.Capabilities)
}

// ---- roots ----

// cleanPath returns the clean form of an absolute path, or "" for what is none.
func cleanPath(p string) string {
	if !strings.HasPrefix(p, "/") || !utf8.ValidString(p) || strings.ContainsRune(p, 0) {
		return ""
	}
	return path.Clean(p)
}

// below says whether p is root or inside it. Both are clean.
func below(root, p string) bool {
	return root == "/" || p == root || len(p) > len(root) && p[len(root)] == '/' && p[:len(root)] == root
}

func inRoots(roots []Entry, p string) bool {
	p = cleanPath(p)
	return p != "" && slices.ContainsFunc(roots, func(e Entry) bool {
		root := cleanPath(e.Path)
		return root != "" && below(root, p)
	})
}

func hasRoot(entries []Entry) bool { return len(entries) == 1 && entries[0].Path == "/" }

func canonicalRoots(access Access, lists ...[]Entry) []Entry {
	var all []Entry
	for _, list := range lists {
		for _, e := range list {
			if p := cleanPath(e.Path); p != "" {
				all = append(all, Entry{Path: p, Access: access, Provenance: e.Provenance})
			}
		}
	}
	// Sorted so, a root comes directly before everything inside it: '/' sorts
	// as the least byte of a path.
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(comparePaths(a.Path, b.Path), cmp.Compare(a.Provenance.order(), b.Provenance.order()), cmp.Compare(a.Provenance, b.Provenance))
	})
	var out []Entry
	for _, e := range all {
		if len(out) == 0 || !below(out[len(out)-1].Path, e.Path) {
			out = append(out, e)
		}
	}
	return out
}

// comparePaths orders paths by components, so that "/a/b" comes before "/a-b".
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x == '/' {
			return -1
		}
		if y == '/' {
			return 1
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}

func meetRoots(access Access, allA bool, a []Entry, allB bool, b []Entry) []Entry {
	switch {
	case allA && allB:
		return nil
	case allA:
		return b
	case allB:
		return a
	}
	var out []Entry
	for _, x := range a {
		for _, y := range b {
			switch {
			case x.Path == y.Path:
				out = append(out, x, y)
			case below(x.Path, y.Path):
				out = append(out, y)
			case below(y.Path, x.Path):
				out = append(out, x)
			}
		}
	}
	return canonicalRoots(access, out)
}

// ---- hosts ----

// cleanHost returns a host or pattern in lower case and without the root's dot, an
// address as netip prints it: however it is written, a rule on it is the same rule.
func cleanHost(h string) string {
	h = strings.ToLower(h)
	name, port := splitHost(h)
	name = strings.TrimSuffix(name, ".")
	if a, err := netip.ParseAddr(name); err == nil {
		name = a.Unmap().String()
	}
	if port == "" && strings.HasSuffix(h, ":") && !strings.Contains(name, ":") {
		return h // a port is missing: no pattern
	}
	return joinHost(name, port)
}

// splitHost parts "name:port" and "[v6]:port". A bare IPv6 address has no port.
func splitHost(h string) (name, port string) {
	if rest, ok := strings.CutPrefix(h, "["); ok {
		if name, tail, ok := strings.Cut(rest, "]"); ok {
			return name, strings.TrimPrefix(tail, ":")
		}
		return h, ""
	}
	if strings.Count(h, ":") == 1 {
		name, port, _ = strings.Cut(h, ":")
		return name, port
	}
	return h, ""
}

func joinHost(name, port string) string {
	if port == "" {
		return name
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]:" + port
	}
	return name + ":" + port
}

// hostPattern says whether h is a host name, an address or "*.name", with or
// without a port. Anything else permits nothing.
func hostPattern(h string) bool {
	name, port := splitHost(h)
	if strings.HasSuffix(h, ":") && !strings.HasSuffix(h, "::") || port != "" && !isPort(port) {
		return false
	}
	name = strings.TrimPrefix(name, "*.")
	if name == "" || len(name) > 253 || strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == ':', c == '%':
		default:
			return false
		}
	}
	return true
}

func isPort(s string) bool {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

func nameCovers(wide, narrow string) bool {
	if wide == narrow {
		return true
	}
	suffix, ok := strings.CutPrefix(wide, "*")
	return ok && strings.HasPrefix(suffix, ".") && strings.HasSuffix(narrow, suffix) && len(narrow) > len(suffix) && !isAddress(narrow)
}

// isAddress says whether the name is an address: those have no subdomains.
func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

func hostCovers(wide, narrow string) bool {
	wn, wp := splitHost(wide)
	nn, np := splitHost(narrow)
	return nameCovers(wn, nn) && (wp == "" || wp == np)
}

func meetHost(a, b string) (string, bool) {
	an, ap := splitHost(a)
	bn, bp := splitHost(b)
	name := an
	switch {
	case nameCovers(an, bn):
		name = bn
	case nameCovers(bn, an):
	default:
		return "", false
	}
	port := ap
	switch {
	case ap == "":
		port = bp
	case bp == "", ap == bp:
	default:
		return "", false
	}
	return joinHost(name, port), true
}

func canonicalHosts(hosts []string) []string {
	return maximal(hosts, func(h string) (string, bool) {
		h = cleanHost(h)
		if !hostPattern(h) {
			return "", false
		}
		return joinHost(splitHost(h)), true
	}, hostCovers)
}

// maximal cleans a list, sorts it and drops what another member covers.
func maximal(list []string, clean func(string) (string, bool), covers func(wide, narrow string) bool) []string {
	var all []string
	for _, s := range list {
		if s, ok := clean(s); ok {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	var out []string
	for _, s := range all {
		if !slices.ContainsFunc(all, func(w string) bool { return w != s && covers(w, s) }) {
			out = append(out, s)
		}
	}
	return out
}

// ---- capabilities ----

// capabilityTable is closed: a capability that is not here cannot be granted.
// The sentence is what a human reads before granting it.
var capabilityTable = []struct{ name, text string }{
	{"ssh", "use your ssh agent: log in to other machines as you while this command runs"},
	{"git-credential:", "use the git password or token that is stored for %s"},
	{"gpg", "sign and decrypt with your gpg keys while this command runs"},
	{"env:", "see the environment variable %s"},
	{"docker", "control the container engine, which can do anything on this machine"},
	{"display", "see the screen and type into other windows"},
	{"nest", "start its own sandbox with mounts and namespaces inside this one"},
	{"off", "run without a sandbox: everything that you can do, it can do"},
}

// CapabilityText returns the sentence that a human reads before granting the
// named capability. A name outside the closed table is an error.
func CapabilityText(name string) (string, error) {
	for _, row := range capabilityTable {
		if arg, ok := strings.CutPrefix(name, row.name); ok && strings.HasSuffix(row.name, ":") && validCapabilityArgument(arg) {
			if arg == "*" {
				arg = "anything"
			}
			return fmt.Sprintf(row.text, arg), nil
		}
		if name == row.name && !strings.HasSuffix(row.name, ":") {
			return row.text, nil
		}
	}
	return "", fmt.Errorf("unknown capability %q, expected ssh, git-credential:HOST, gpg, env:NAME, docker, display, nest or off", name)
}

func validCapabilityArgument(arg string) bool {
	if arg == "*" {
		return true
	}
	return arg != "" && len(arg) <= 255 && !strings.ContainsFunc(arg, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune("*?\"'`$\\=", c)
	})
}

func capabilityCovers(wide, narrow string) bool {
	if wide == narrow {
		return true
	}
	if narrow == "off" || narrow == "" {
		return false
	}
	family, ok := strings.CutSuffix(wide, "*")
	return ok && strings.HasPrefix(narrow, family)
}

func canonicalCapabilities(names []string) []string {
	return maximal(names, func(c string) (string, bool) {
		if c == "off" {
			return "", false
		}
		if c == "*" {
			return c, true
		}
		_, err := CapabilityText(c)
		return c, err == nil
	}, capabilityCovers)
}
