package seatbelt

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds on one profile. Text and parameters are arguments of a program, of which macOS
// takes 1 MiB together with the environment.
const (
	// MaxPaths is the largest number of paths in one set of rules.
	MaxPaths = 4096
	// MaxBytes is the largest size of text and parameters together.
	MaxBytes = 512 << 10
	// MaxPorts is the largest number of ports that may be reached one by one.
	MaxPorts = 16

	longestPath = 1024 // PATH_MAX of macOS, with the final zero byte
)

// Network is what of the network a command reaches.
type Network string

// The networks. The zero value is no network, like NetworkNone.
const (
	// NetworkNone refuses every internet socket but to Rules.Ports.
	NetworkNone Network = "none"
	// NetworkLoopback lets servers and clients meet on the host's own loopback, where the host's
	// other servers are too.
	NetworkLoopback Network = "loopback"
	// NetworkAll is the host's network.
	NetworkAll Network = "all"
)

// Rules are what a command may do; what they do not name, it may not. Paths are absolute, real
// (no symbolic link in them) and in their shortest form. The zero value lets a command
// do nothing, not even start.
type Rules struct {
	// Read are directories and files that may be read, mapped and executed.
	Read []string `json:"read,omitempty"`
	// Exec are single files of the same kind.
	Exec []string `json:"exec,omitempty"`
	// List are directories of which names may be seen at any depth, and no content.
	List []string `json:"list,omitempty"`
	// Write are directories and files in which everything may be done.
	Write []string `json:"write,omitempty"`
	// Devices are device nodes that may be read, written and controlled.
	Devices []string `json:"devices,omitempty"`
	// Protect are directories of Write in which the files that other programs run or obey
	// cannot be made, changed or moved, at any depth: see [Protected].
	Protect []string `json:"protect,omitempty"`
	// Sockets are directories in which sockets with a path may be made and connected to.
	Sockets []string `json:"sockets,omitempty"`
	// Network is what of the network is reached.
	Network Network `json:"network,omitempty"`
	// Ports are the TCP ports of this host's loopback that are reached beside Network.
	Ports []int `json:"ports,omitempty"`
	// UnixSockets lets every socket with a path be connected to.
	UnixSockets bool `json:"unixSockets,omitempty"`
	// SharedMemory lets the command use memory and semaphores that are named for the whole system.
	SharedMemory bool `json:"sharedMemory,omitempty"`
	// Terminals lets the command make terminals, and open those of the user's other programs.
	Terminals bool `json:"terminals,omitempty"`
	// Existence is true where the system knows the operation file-test-existence, which
	// older ones do not: see [ExistenceProbe].
	Existence bool `json:"existence,omitempty"`
}

// Validate reports what makes r unusable.
func (r Rules) Validate() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("seatbelt rules: "+format, args...) }
	count := 0
	for _, list := range r.lists() {
		count += len(list.paths)
		for _, p := range list.paths {
			if err := checkPath(p); err != nil {
				return bad("%s: %w", list.name, err)
			}
		}
	}
	if count > MaxPaths {
		return bad("%d paths, at most %d", count, MaxPaths)
	}
	for _, p := range r.Write {
		if p == "/" {
			return bad("write: / would open the whole system")
		}
	}
	for _, p := range slices.Concat(r.Protect, r.Sockets) {
		if !slices.ContainsFunc(r.Write, func(root string) bool { return within(p, root) }) {
			return bad("protect, sockets: %q lies in no directory that may be written", p)
		}
	}
	switch r.Network {
	case "", NetworkNone, NetworkLoopback, NetworkAll:
	default:
		return bad("network %q, expected %s, %s or %s", r.Network, NetworkNone, NetworkLoopback, NetworkAll)
	}
	if len(r.Ports) > MaxPorts {
		return bad("%d ports, at most %d", len(r.Ports), MaxPorts)
	}
	for _, port := range r.Ports {
		if port < 1 || port > 65535 {
			return bad("port %d, expected 1 to 65535", port)
		}
	}
	return nil
}

type pathList struct {
	name  string
	paths []string
}

func (r Rules) lists() []pathList {
	return []pathList{
		{"read", r.Read}, {"exec", r.Exec}, {"list", r.List}, {"write", r.Write}, {"devices", r.Devices},
		{"protect", r.Protect}, {"sockets", r.Sockets},
	}
}

func checkPath(p string) error {
	switch {
	case p == "":
		return errors.New("empty path")
	case len(p) >= longestPath:
		return fmt.Errorf("path of %d bytes, at most %d", len(p), longestPath-1)
	case strings.IndexByte(p, 0) >= 0:
		return fmt.Errorf("path %q holds a zero byte", p)
	case !utf8.ValidString(p):
		return fmt.Errorf("path %q is not UTF-8, and no volume of macOS has such a name", p)
	case !path.IsAbs(p):
		return fmt.Errorf("path %q is not absolute", p)
	case path.Clean(p) != p:
		return fmt.Errorf("path %q is not in its shortest form %q", p, path.Clean(p))
	}
	return nil
}

func within(p, root string) bool {
	return root == "/" || p == root || strings.HasPrefix(p, root+"/")
}

// protected are the names that are kept in Rules.Protect, in parts: elements of a path with
// * for any one element. Of a whole one nothing can be made, changed or removed. Another cannot
// be made, moved or removed, nor written if it is a file (the .git of a worktree), while its other
// content stays writable: git works on objects, refs, index and logs.
var protected = []struct {
	name  string
	whole bool
}{
	{".git", false},
	{".git/hooks", true},
	{".git/config", true},
	{".git/config.lock", true},
	{".git/config.worktree", true},
	{".git/commondir", true},
	{".git/info", false},
	{".git/info/attributes", true},
	{".git/modules", false},
	{".git/modules/*", false},
	{".git/modules/*/hooks", true},
	{".git/modules/*/config", true},
	{".git/worktrees", false},
	{".git/worktrees/*", false},
	{".git/worktrees/*/config.worktree", true},
	{".git/worktrees/*/commondir", true},
	{".git/worktrees/*/gitdir", true},
	{".husky", true},
	{".envrc", true},
	{".vscode", true},
	{".idea", true},
	{".claude", true},
	{".codex", true},
	{".agents", true},
	{".cursor", true},
	{".gemini", true},
	{".opencode", true},
	{".pi", true},
	{".mcp.json", true},
	{".bashrc", true},
	{".bash_profile", true},
	{".profile", true},
	{".zshrc", true},
	{".zshenv", true},
	{".zprofile", true},
	{".gitconfig", true},
	{".pioneer-super", true},
}

// Protected are the names that Rules.Protect keeps as they are at any depth, with * for any
// one element of a path. Of a repository it is what git runs or obeys. A repository, a worktree
// or a submodule can therefore not be made in such a directory and settings not be changed,
// while commits, branches and stashes work.
//
// Three things this does not hold: a folder that was made elsewhere and is moved in brings
// what is in it; a bare repository has none of these names; HFS+ ignores some invisible
// characters, so that there a name has further spellings.
func Protected() []string {
	var out []string
	for _, p := range protected {
		out = append(out, p.name)
	}
	return out
}

// pattern is the regular expression for a protected name at any depth below a directory in
// whose own path it stands times times, and if whole for all that is below it. Volumes of macOS
// mostly take capitals and small letters for the same, so the expression does too. It is
// anchored at both ends and has no dot that a line's end could stop: it means the same to an
// engine that searches and to one that matches.
func pattern(name string, whole bool, times int) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '*':
			b.WriteString(`[^/]+`)
		case r >= 'a' && r <= 'z':
			fmt.Fprintf(&b, "[%c%c]", r, r-'a'+'A')
		case r == '.':
			b.WriteString(`\.`)
		default:
			b.WriteRune(r)
		}
	}
	const any = `(/[^/]+)*`
	expression := strings.Repeat(any+"/"+b.String(), times+1)
	if whole {
		expression += any
	}
	return "^" + expression + "$"
}

// occurrences is how often the elements of name stand in dir, one after the other.
func occurrences(dir, name string) int {
	elements, want := strings.Split(dir, "/"), strings.Split(name, "/")
	count := 0
	for i := 0; i+len(want) <= len(elements); i++ {
		same := true
		for k, element := range want {
			same = same && (element == "*" || strings.EqualFold(element, elements[i+k]))
		}
		if same {
			count++
			i += len(want) - 1
		}
	}
	return count
}
