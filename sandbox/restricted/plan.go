package restricted

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// MaxGrants is the largest number of directories and files in one plan: each is a walk over
// all that is below it, since Windows copies what is inherited.
const MaxGrants = 256

// Request is what a process is to be confined to. Paths are absolute, on a drive, and in their
// shortest form.
type Request struct {
	// Name is what the plan's own SID is made from: unguessable, and never used for two plans that
	// must not reach each other's directories.
	Name string
	// Write are directories in which everything may be done but changing access lists.
	Write []string
	// Read are directories and files that may be read and executed beside the system's.
	Read []string
	// Protect are existing files and directories of Write that stay as they are.
	Protect []string
	// Pin are existing directories of Write that cannot be moved or removed, while their content
	// can be changed.
	Pin []string
	// Limits are those of the process and all that it starts, together.
	Limits Limits
}

// Limits are limits of a job. Zero is no limit.
type Limits struct {
	// Processes is how many may run at once.
	Processes uint32 `json:"processes,omitempty"`
	// Memory is what all may commit together, in bytes.
	Memory uint64 `json:"memory,omitempty"`
	// ProcessMemory is what each may commit, in bytes.
	ProcessMemory uint64 `json:"processMemory,omitempty"`
	// CPU is processor time in seconds, per process.
	CPU uint64 `json:"cpu,omitempty"`
}

// Plan is all that is asked of Windows for one process.
type Plan struct {
	// SID is the plan's own: the process has it, and entries of access lists name it.
	SID string `json:"sid"`
	// TokenFlags are CreateRestrictedToken's.
	TokenFlags uint32 `json:"tokenFlags"`
	// Restricting are the SIDs of the second check. "logon" stands for the SID of the user's
	// logon, which is known at the start only.
	Restricting []string `json:"restricting"`
	// Integrity is the SID of the token's mandatory label.
	Integrity string `json:"integrity"`
	// LimitFlags and UIFlags are those of the job's JOBOBJECT_BASIC_LIMIT_INFORMATION and
	// JOBOBJECT_BASIC_UI_RESTRICTIONS.
	LimitFlags uint32 `json:"limitFlags"`
	UIFlags    uint32 `json:"uiFlags"`
	// Limits are the job's.
	Limits Limits `json:"limits"`
	// Grants are the entries to be made, in order.
	Grants []Grant `json:"grants,omitempty"`
}

// Grant is one entry in the access list of a place.
type Grant struct {
	Path string `json:"path"`
	// Deny makes it an entry that refuses.
	Deny bool `json:"deny,omitempty"`
	// Mask are the rights, as in an ACCESS_MASK of a file.
	Mask uint32 `json:"mask"`
	// Inherit makes it hold for all that is below.
	Inherit bool `json:"inherit"`
	// Low labels the place as one that a process of low integrity may write.
	Low bool `json:"low,omitempty"`
}

// Flags of CreateRestrictedToken.
const (
	disableMaxPrivilege = 0x1 // keeps only the right to pass through directories
	luaToken            = 0x4 // an administrator's groups deny only
)

// Flags of a job. Neither flag that lets a process break away is among them.
const (
	limitProcessTime    = 0x2
	limitActiveProcess  = 0x8
	limitProcessMemory  = 0x100
	limitJobMemory      = 0x200
	limitDieOnException = 0x400
	limitKillOnClose    = 0x2000

	// uiAll keeps the process from other programs' windows, the clipboard, global atoms, other
	// desktops, the display's and the system's settings, and from ending the session.
	uiAll = 0xff
)

// Rights on files and directories.
const (
	readExecute = 0x1200a9
	// modify is everything but deleting a directory's entries regardless of their own lists, and
	// changing owner and list: an entry that refuses must not be got around from above.
	modify = 0x1301bf
	// change is all that would alter a place: data, attributes, list and owner, and its name.
	change = 0x2 | 0x4 | 0x10 | 0x40 | 0x100 | remove | 0x40000 | 0x80000
	remove = 0x10000
)

// Well-known SIDs.
const (
	everyone     = "S-1-1-0"
	users        = "S-1-5-32-545"
	restrictedID = "S-1-5-12"
	logon        = "logon"
	lowIntegrity = "S-1-16-4096"
)

// New plans r.
func New(r Request) (Plan, error) {
	bad := func(format string, args ...any) (Plan, error) {
		return Plan{}, fmt.Errorf("restricted token: "+format, args...)
	}
	const shortestName = 16
	if len(r.Name) < shortestName {
		return bad("name %q of %d bytes, at least %d", r.Name, len(r.Name), shortestName)
	}
	if n := len(r.Write) + len(r.Read) + len(r.Protect) + len(r.Pin); n > MaxGrants {
		return bad("%d places, at most %d", n, MaxGrants)
	}
	p := Plan{
		SID: CapabilitySID(r.Name), TokenFlags: disableMaxPrivilege | luaToken, Integrity: lowIntegrity,
		LimitFlags: limitKillOnClose | limitDieOnException, UIFlags: uiAll, Limits: r.Limits,
	}
	p.Restricting = []string{p.SID, everyone, users, restrictedID, logon}
	for _, limit := range []struct {
		set  bool
		flag uint32
	}{
		{r.Limits.Processes != 0, limitActiveProcess}, {r.Limits.Memory != 0, limitJobMemory},
		{r.Limits.ProcessMemory != 0, limitProcessMemory}, {r.Limits.CPU != 0, limitProcessTime},
	} {
		if limit.set {
			p.LimitFlags |= limit.flag
		}
	}
	for _, list := range []struct {
		name  string
		paths []string
		grant Grant
	}{
		{"write", r.Write, Grant{Mask: modify, Inherit: true, Low: true}},
		{"read", r.Read, Grant{Mask: readExecute, Inherit: true}},
		{"protect", r.Protect, Grant{Deny: true, Mask: change, Inherit: true}},
		{"pin", r.Pin, Grant{Deny: true, Mask: remove}},
	} {
		for _, path := range sorted(list.paths) {
			if err := CheckPath(path); err != nil {
				return bad("%s: %w", list.name, err)
			}
			switch {
			case list.grant.Low && len(path) == len(`C:\`):
				return bad("%s: %s would open the whole drive", list.name, path)
			case list.grant.Deny && !slices.ContainsFunc(r.Write, func(root string) bool { return Within(path, root) }):
				return bad("%s: %s lies in no directory that may be written", list.name, path)
			}
			grant := list.grant
			grant.Path = path
			p.Grants = append(p.Grants, grant)
		}
	}
	return p, nil
}

func sorted(paths []string) []string { return slices.Compact(slices.Sorted(slices.Values(paths))) }

// CapabilitySID is the SID of the capability called name: S-1-15-3-1024 and the SHA-256 of the
// name in capital letters and UTF-16, as DeriveCapabilitySidsFromName makes it.
func CapabilitySID(name string) string {
	var encoded []byte
	for _, unit := range utf16.Encode([]rune(strings.ToUpper(name))) {
		encoded = binary.LittleEndian.AppendUint16(encoded, unit)
	}
	sum := sha256.Sum256(encoded)
	var b strings.Builder
	b.WriteString("S-1-15-3-1024")
	for i := 0; i < len(sum); i += 4 {
		fmt.Fprintf(&b, "-%d", binary.LittleEndian.Uint32(sum[i:]))
	}
	return b.String()
}

// SDDL is the entry for sid in the security descriptor definition language.
func (g Grant) SDDL(sid string) string {
	kind, flags := "A", ""
	if g.Deny {
		kind = "D"
	}
	if g.Inherit {
		flags = "OICI"
	}
	text := fmt.Sprintf("D:(%s;%s;%#x;;;%s)", kind, flags, g.Mask, sid)
	if g.Low {
		text += "S:(ML;OICI;NW;;;LW)"
	}
	return text
}

// String is the plan in lines: what is compared in tests and shown.
func (p Plan) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	line("sid", "%s", p.SID)
	line("token flags", "%#x", p.TokenFlags)
	for _, sid := range p.Restricting {
		line("restricting", "%s", sid)
	}
	line("integrity", "%s", p.Integrity)
	line("job limits", "%#x", p.LimitFlags)
	line("job ui", "%#x", p.UIFlags)
	for _, limit := range []struct {
		name  string
		value uint64
		unit  string
	}{
		{"processes", uint64(p.Limits.Processes), "at once"}, {"memory", p.Limits.Memory, "bytes together"},
		{"memory", p.Limits.ProcessMemory, "bytes each"}, {"cpu", p.Limits.CPU, "seconds each"},
	} {
		if limit.value != 0 {
			line("limit", "%s %d %s", limit.name, limit.value, limit.unit)
		}
	}
	for _, g := range p.Grants {
		line("entry", "%+q %s", g.Path, g.SDDL(p.SID))
	}
	return b.String()
}

// CheckPath accepts what names one place on a drive and nothing else. Everything is refused that
// Windows would read as another path than it looks like: other roots (\\?\, network shares), streams
// (a:b), devices (CON), trailing dots and spaces, and slashes of the other kind.
func CheckPath(path string) error {
	const longest = 32767 - 1
	bad := func(what string) error { return fmt.Errorf("path %q %s", path, what) }
	if path == "" {
		return errors.New("empty path")
	}
	if len(path) > longest {
		return fmt.Errorf("path of %d bytes, at most %d", len(path), longest)
	}
	if len(path) < 3 || path[1:3] != `:\` || !isLetter(path[0]) {
		return bad(`is not absolute on a drive, like C:\work`)
	}
	if len(path) == 3 {
		return nil
	}
	for _, name := range strings.Split(path[3:], `\`) {
		switch {
		case name == "" || name == "." || name == "..":
			return bad("is not in its shortest form")
		case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"/|?*`, r) }):
			return bad("holds a character that no name on Windows has")
		case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
			return bad("has a name that ends with a dot or a space, which Windows drops")
		case isDevice(name):
			return bad("names a device")
		}
	}
	return nil
}

func isLetter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// isDevice is true for names that are devices in every directory, with any extension.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	stem = strings.TrimRight(stem, " ")
	if slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, stem) {
		return true
	}
	rest, com := strings.CutPrefix(stem, "COM")
	if !com {
		var lpt bool
		if rest, lpt = strings.CutPrefix(stem, "LPT"); !lpt {
			return false
		}
	}
	return slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}, rest)
}

// Within is true when path is root or lies below it, in any spelling of capitals.
func Within(path, root string) bool {
	if strings.EqualFold(path, root) {
		return true
	}
	root = strings.TrimSuffix(root, `\`) + `\`
	return len(path) > len(root) && strings.EqualFold(path[:len(root)], root)
}
