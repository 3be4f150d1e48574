package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// systemFolders are readable in every restricted mode, where they exist. /run, /var,
// /home, /root, /srv, /mnt, /media and /tmp are not among them on purpose: that is where
// secrets, sockets and other people's work are kept.
var systemFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/opt", "/nix", "/gnu", "/snap", "/home/linuxbrew/.linuxbrew",
	"/proc", "/sys",
}

// systemLinks are files of /etc that are often links to places which are not readable.
// What they lead to is readable too. The second list only when the network is granted.
var (
	systemLinks  = []string{"/etc/localtime", "/etc/os-release", "/etc/ssl/certs", "/etc/pki", "/etc/alternatives"}
	networkLinks = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}
)

// deviceNodes may be opened in every restricted mode. None of them stores anything, and
// /dev/tty is the command's own terminal or nothing.
var deviceNodes = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// toolchains are the places below a home directory that hold programs and libraries,
// and nothing else: each entry stops above the files in which its tool keeps
// credentials (.cargo/credentials.toml, .gem/credentials, .pub-cache/credentials.json,
// .m2/settings.xml, .dotnet/corefx, .npmrc …). Read only.
var toolchains = []string{
	".asdf/asdf.sh", ".asdf/bin", ".asdf/installs", ".asdf/lib", ".asdf/libexec", ".asdf/plugins", ".asdf/shims",
	".bun/bin",
	".cargo/bin", ".cargo/env", ".cargo/git", ".cargo/registry",
	".deno/bin",
	".dotnet/dotnet", ".dotnet/host", ".dotnet/packs", ".dotnet/sdk", ".dotnet/shared", ".dotnet/tools",
	".elan/bin", ".elan/toolchains",
	".fnm", ".local/share/fnm",
	".gem/ruby",
	".ghcup/bin", ".ghcup/ghc",
	".goenv", "go/bin", "go/pkg", "sdk",
	".gradle/jdks", ".gradle/wrapper",
	".jenv",
	".julia/juliaup", ".juliaup/bin",
	".krew/bin", ".krew/store",
	".linuxbrew",
	".local/bin", ".local/lib", ".local/pipx/venvs", ".local/share/pipx/venvs",
	".local/share/mise/installs", ".local/share/mise/plugins", ".local/share/mise/shims",
	".local/share/pnpm", ".local/share/uv/python", ".local/share/uv/tools",
	".m2/repository", ".m2/wrapper",
	".nix-profile",
	".nodenv", ".npm-global", ".nvm",
	".poetry/bin", ".pyenv", ".rbenv", ".rvm",
	".pub-cache/bin", ".pub-cache/hosted",
	".rustup",
	".sdkman/bin", ".sdkman/candidates",
	".swiftly/bin", ".swiftly/toolchains",
	".volta/bin", ".volta/tools",
	"anaconda3", "miniconda3", "miniforge3",
}

// SystemFolders is the table of what is readable in every restricted mode, with
// /etc but for what only the superuser reads, and the harmless device nodes. A rule
// that asks about reads outside a session's roots need not ask about these.
func SystemFolders() []string {
	return append(append(slices.Clone(systemFolders), "/etc"), deviceNodes...)
}

// Toolchains is the table of what is readable below a home directory, relative to it.
func Toolchains() []string { return slices.Clone(toolchains) }

// maxExamined is how many entries of /etc are looked at, and maxEtcRules how many places in it
// are granted one by one, before the rest of it is left out.
const (
	maxExamined = 8192
	maxEtcRules = 1024
)

// roots is the file part of a plan.
type roots struct {
	read, write, exec, list, devices []string
	// given are the roots of write that hold somebody's work, and own those that we made.
	given, own []string
	// links are names of executables that lead to one of exec.
	links             []Mount
	workspaceWritable bool
	truncated         bool
	// foreign is a root for which the superuser needs CAP_DAC_OVERRIDE, "" for none.
	foreign string
	notes   []string
}

// grant lets entry be read and executed. Files go to a list of their own: a rule on one needs
// one system call less.
func (r *roots) grant(entry Entry) {
	if entry.Dir {
		r.read = append(r.read, entry.Path)
	} else {
		r.exec = append(r.exec, entry.Path)
	}
}

func (r *roots) add(other roots) {
	r.read, r.exec, r.list = append(r.read, other.read...), append(r.exec, other.exec...), append(r.list, other.list...)
	r.notes = append(r.notes, other.notes...)
	r.truncated = r.truncated || other.truncated
}

// planner holds what planRoots shares among its steps.
type planner struct {
	request Request
	files   Lookup
	deny    []string // real paths
	home    string   // real path, "" when there is none to hide
	memory  *Planner // nil for none
	out     roots
}

func planRoots(r Request, memory *Planner) (roots, error) {
	p := &planner{request: r, files: r.Files, memory: memory}
	if p.files == nil {
		p.files = System()
	}
	steps := []func() error{p.resolveDenied, p.addOwn, p.addWorkspace, p.addGiven, p.addSystem, p.addDevices, p.addExecutables, p.finish}
	for _, step := range steps {
		if err := step(); err != nil {
			return roots{}, err
		}
	}
	return p.out, nil
}

// resolve follows path, which a caller named as what.
func (p *planner) resolve(what, path string) (Entry, error) {
	if err := checkPath(path); err != nil {
		return Entry{}, fmt.Errorf("sandbox request: %s: %w", what, err)
	}
	entry, err := p.files.Resolve(path)
	if err != nil {
		return Entry{}, fmt.Errorf("sandbox request: %s: %w", what, err)
	}
	return entry, nil
}

func (p *planner) directory(what, path string) (Entry, error) {
	entry, err := p.resolve(what, path)
	if err == nil && !entry.Dir {
		err = fmt.Errorf("sandbox request: %s: %s is not a directory", what, path)
	}
	return entry, err
}

func (p *planner) resolveDenied() error {
	for _, path := range p.request.Deny {
		entry, err := p.resolve("denied path", path)
		if errors.Is(err, fs.ErrNotExist) {
			entry.Path = path // it may come to exist; nothing above it is granted meanwhile
		} else if err != nil {
			return err
		}
		p.deny = append(p.deny, entry.Path)
	}
	if home := p.request.Home; home != "" && home != "/" {
		entry, err := p.resolve("home", home)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && entry.Path != "/" {
			p.home = entry.Path
		}
	}
	return nil
}

// addOwn adds the places that we made for this session. They lie in our own run
// directory, so they may be below a denied path, but may not hold one.
func (p *planner) addOwn() error {
	if p.request.Temp == "" {
		return errors.New("sandbox request: no private temporary directory")
	}
	add := func(what, path string) error {
		entry, err := p.resolve(what, path)
		if err != nil {
			return err
		}
		for _, denied := range p.deny {
			if within(denied, entry.Path) {
				return fmt.Errorf("sandbox request: %s %s holds %s, which no session reaches", what, path, denied)
			}
		}
		p.out.write = append(p.out.write, entry.Path)
		p.out.own = append(p.out.own, entry.Path)
		return nil
	}
	if _, err := p.directory("temporary directory", p.request.Temp); err != nil {
		return err
	}
	if err := add("temporary directory", p.request.Temp); err != nil {
		return err
	}
	if p.request.CacheDir != "" {
		if err := add("cache directory", p.request.CacheDir); err != nil {
			return err
		}
	}
	for _, path := range p.request.Session {
		if err := add("session path", path); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) addWorkspace() error {
	if p.request.Workspace == "" {
		return errors.New("sandbox request: no workspace")
	}
	entry, err := p.directory("workspace", p.request.Workspace)
	if err != nil {
		return err
	}
	if p.request.Mode == ModeWorkspaceWrite || p.request.WorkspaceWrite {
		p.out.workspaceWritable = true
		return p.addWritable("workspace", entry)
	}
	if entry.UID != p.request.Host.UID && !entry.Open {
		p.noteForeign(entry)
	}
	return p.addReadable("workspace", entry)
}

func (p *planner) addGiven() error {
	for _, path := range p.request.WriteRoots {
		entry, err := p.resolve("write root", path)
		if err != nil {
			return err
		}
		if err := p.addWritable("write root", entry); err != nil {
			return err
		}
	}
	for _, path := range p.request.ReadRoots {
		entry, err := p.resolve("read root", path)
		if err != nil {
			return err
		}
		if err := p.addReadable("read root", entry); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) addWritable(what string, entry Entry) error {
	if entry.Path == "/" {
		return fmt.Errorf("sandbox request: %s / would open the whole system", what)
	}
	if p.home != "" && within(p.home, entry.Path) {
		return fmt.Errorf("sandbox request: %s %s holds the home directory %s", what, entry.Path, p.home)
	}
	for _, denied := range p.deny {
		if within(denied, entry.Path) || within(entry.Path, denied) {
			return fmt.Errorf("sandbox request: %s %s and %s, which no session reaches, lie one in the other", what, entry.Path, denied)
		}
	}
	if entry.UID != p.request.Host.UID {
		p.noteForeign(entry)
	}
	p.out.write = append(p.out.write, entry.Path)
	p.out.given = append(p.out.given, entry.Path)
	return nil
}

func (p *planner) noteForeign(entry Entry) {
	if p.request.Host.Root && entry.UID >= 0 && p.out.foreign == "" {
		p.out.foreign = entry.Path
	}
}

// addReadable grants entry, or, when a denied path lies below it, everything beside that.
func (p *planner) addReadable(what string, entry Entry) error {
	for _, denied := range p.deny {
		if within(entry.Path, denied) {
			return fmt.Errorf("sandbox request: %s %s lies in %s, which no session reaches", what, entry.Path, denied)
		}
	}
	return p.grantAround(entry, p.deny)
}

// grantAround grants entry without what lies below masks, by granting each sibling on the
// way down. A directory that is divided so cannot be listed: the right to list would
// cover the masked part too.
func (p *planner) grantAround(entry Entry, masks []string) error {
	below := make([]string, 0, len(masks))
	for _, mask := range masks {
		if within(entry.Path, mask) {
			return nil
		}
		if within(mask, entry.Path) {
			below = append(below, mask)
		}
	}
	if len(below) == 0 || !entry.Dir {
		p.out.grant(entry)
		return nil
	}
	children, more, err := p.files.List(entry.Path, MaxPaths)
	if err != nil {
		return fmt.Errorf("sandbox request: %s cannot be divided around %s: %w", entry.Path, below[0], err)
	}
	if more {
		return fmt.Errorf("sandbox request: %s cannot be divided around %s: more than %d entries", entry.Path, below[0], MaxPaths)
	}
	p.out.notes = append(p.out.notes, entry.Path+" cannot be listed: "+below[0]+" in it is hidden")
	for _, child := range children {
		if child.Link {
			continue // a rule binds what is opened, and a link is never that
		}
		if err := p.grantAround(child, below); err != nil {
			return err
		}
	}
	return nil
}

// addSystem adds the system folders, /etc without its secrets, and the listed toolchains: what
// is the same for every command of a user, and what takes time to look at.
func (p *planner) addSystem() error {
	examine := func() (roots, error) {
		alone := &planner{request: p.request, files: p.files, deny: p.deny, home: p.home}
		err := alone.examineSystem()
		return alone.out, err
	}
	part, err := p.memory.remember(p, examine)
	if err != nil {
		return err
	}
	p.out.add(part)
	return nil
}

func (p *planner) examineSystem() error {
	masks := slices.Clone(p.deny)
	if p.home != "" {
		masks = append(masks, p.home)
	}
	for _, path := range p.systemFolders() {
		entry, err := p.files.Resolve(path)
		if err != nil || entry.Path == "/" {
			continue
		}
		if err := p.grantAround(entry, masks); err != nil {
			return err
		}
	}
	p.addEtc()
	p.addToolchains()
	return nil
}

func (p *planner) addEtc() {
	entry, err := p.files.Resolve("/etc")
	if err != nil || !entry.Dir {
		return
	}
	left := maxExamined
	if rules, clean := p.withoutSecrets(entry.Path, &left); clean {
		p.out.grant(entry)
	} else {
		if len(rules) > maxEtcRules {
			rules, p.out.truncated = rules[:maxEtcRules], true
		}
		for _, rule := range rules {
			p.out.grant(rule)
		}
		p.out.list = append(p.out.list, entry.Path)
	}
	links := systemLinks
	if p.request.Network {
		links = append(slices.Clone(links), networkLinks...)
	}
	for _, path := range links {
		target, err := p.files.Resolve(path)
		if err == nil && target.Open && target.Path != "/" && !p.hidden(target.Path) && !within(target.Path, entry.Path) {
			p.out.grant(target)
		}
	}
}

// withoutSecrets is what of dir may be granted: everything but what some may read, this
// user among them, and others may not. clean is true when dir holds nothing of the kind at
// any depth. left bounds the walk; what is beyond it is not granted.
func (p *planner) withoutSecrets(dir string, left *int) (rules []Entry, clean bool) {
	children, more, err := p.files.List(dir, *left)
	if err != nil {
		return nil, true // not readable for us, so not for the command either
	}
	*left -= len(children)
	clean = !more
	if more {
		p.out.truncated = true
	}
	for _, child := range children {
		switch {
		case child.Link:
		case child.Secret || p.hidden(child.Path):
			clean = false
		case child.Dir:
			below, whole := p.withoutSecrets(child.Path, left)
			if whole {
				rules = append(rules, child)
			} else {
				rules = append(rules, below...)
				clean = false
			}
		default:
			rules = append(rules, child)
		}
	}
	return rules, clean
}

// hidden is true for what lies in a denied place or in the home directory.
func (p *planner) hidden(path string) bool {
	if p.home != "" && within(path, p.home) {
		return true
	}
	return slices.ContainsFunc(p.deny, func(denied string) bool { return within(path, denied) })
}

// addToolchains adds the table and config's additions, as far as they exist. A link that
// leads elsewhere inside the home directory is not followed: what it leads to was not listed.
func (p *planner) addToolchains() {
	if p.home == "" {
		return
	}
	for _, relative := range slices.Concat(p.toolchains(), p.request.Toolchains) {
		if !filepath.IsLocal(relative) || filepath.Clean(relative) == "." {
			p.out.notes = append(p.out.notes, fmt.Sprintf("toolchain %q is not below the home directory: left out", relative))
			continue
		}
		listed := filepath.Join(p.home, relative)
		entry, err := p.files.Resolve(listed)
		if err != nil {
			continue
		}
		if entry.Path != listed && (within(entry.Path, p.home) || within(p.home, entry.Path)) {
			p.out.notes = append(p.out.notes, fmt.Sprintf("toolchain %s is a link to %s: left out", listed, entry.Path))
			continue
		}
		if slices.ContainsFunc(p.deny, func(d string) bool { return within(entry.Path, d) || within(d, entry.Path) }) {
			continue
		}
		p.out.grant(entry)
	}
}

func (p *planner) addDevices() error {
	if p.request.Host.System == systemMac {
		return p.addMacDevices()
	}
	for _, path := range deviceNodes {
		if entry, err := p.files.Resolve(path); err == nil && entry.Device {
			p.out.devices = append(p.out.devices, entry.Path)
		}
	}
	if p.request.Host.Backend == BackendNamespaces {
		return nil // terminals and shared memory are the view's own
	}
	if path := p.request.Terminal; path != "" {
		entry, err := p.resolve("terminal", path)
		if err != nil {
			return err
		}
		if !entry.Device || filepath.Dir(entry.Path) != "/dev/pts" {
			return fmt.Errorf("sandbox request: terminal: %s is not a pseudo-terminal in /dev/pts", path)
		}
		p.out.devices = append(p.out.devices, entry.Path)
	}
	if p.request.Pseudoterminals {
		for _, path := range []string{"/dev/ptmx", "/dev/pts"} {
			if entry, err := p.files.Resolve(path); err == nil {
				p.out.devices = append(p.out.devices, entry.Path)
			}
		}
	}
	if p.request.SharedMemory {
		if entry, err := p.files.Resolve("/dev/shm"); err == nil && entry.Dir {
			p.out.write = append(p.out.write, entry.Path)
		}
	}
	return nil
}

func (p *planner) addExecutables() error {
	for _, path := range p.request.Executables {
		entry, err := p.resolve("executable", path)
		if err != nil {
			return err
		}
		if entry.Dir {
			return fmt.Errorf("sandbox request: executable: %s is a directory", path)
		}
		p.out.exec = append(p.out.exec, entry.Path)
		if link, ok := linkOf(path, entry); ok {
			p.out.links = append(p.out.links, link)
		}
	}
	return nil
}

// finish takes out what another rule covers and checks that the command's directory is
// readable in what is left.
func (p *planner) finish() error {
	p.out.write = outermost(p.out.write, nil)
	p.out.read = outermost(p.out.read, p.out.write)
	p.out.exec = outermost(p.out.exec, slices.Concat(p.out.write, p.out.read))
	p.out.devices = outermost(p.out.devices, nil)
	if p.request.Cwd == "" {
		return nil
	}
	entry, err := p.directory("directory", p.request.Cwd)
	if err != nil {
		return err
	}
	for _, root := range slices.Concat(p.out.write, p.out.read, p.out.list) {
		if within(entry.Path, root) {
			return nil
		}
	}
	return fmt.Errorf("sandbox request: directory %s is not readable in this sandbox; use the workspace %s", p.request.Cwd, p.request.Workspace)
}

// outermost sorts paths, drops repetitions and what lies below another path of the list
// or of covered.
func outermost(paths, covered []string) []string {
	roots := map[string]bool{}
	for _, path := range slices.Concat(paths, covered) {
		roots[path] = true
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(paths)))
	return slices.DeleteFunc(sorted, func(path string) bool {
		if slices.Contains(covered, path) {
			return true
		}
		for at := path; at != "/"; {
			if at = filepath.Dir(at); roots[at] {
				return true
			}
		}
		return false
	})
}

// within is true when path is root or lies below it; both are clean and absolute.
func within(path, root string) bool {
	if root == "/" || path == root {
		return true
	}
	return len(path) > len(root) && path[len(root)] == '/' && strings.HasPrefix(path, root)
}
