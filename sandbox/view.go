package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The kinds of [Mount].
const (
	// MountBind shows what is at Source, with everything mounted below it.
	MountBind = "bind"
	// MountDevice shows the one device node at Source.
	MountDevice = "device"
	// MountMemory is an empty file system in memory, gone with the command.
	MountMemory = "memory"
	// MountProcesses is a process file system of the command's own process namespace.
	MountProcesses = "processes"
	// MountTerminals is a pseudo-terminal file system of its own.
	MountTerminals = "terminals"
	// MountLink is a symbolic link to Source.
	MountLink = "link"
	// MountFolder is an empty directory.
	MountFolder = "folder"
)

// Mount is one step of the making of a view: the file system that a process in
// namespaces of its own sees. What no step names is not there.
type Mount struct {
	Kind string `json:"kind"`
	// Path is where it is seen: absolute, in its shortest form.
	Path string `json:"path"`
	// Source is what is seen there: for a bind and a device a path of the host that
	// holds no symbolic link, for a link what it says.
	Source string `json:"source,omitempty"`
	// Write leaves a bind writable. All others are read-only, except memory.
	Write bool `json:"write,omitempty"`
}

// memoryBytes bounds a file system in memory: a full one is ENOSPC, not a host out of memory.
const memoryBytes = 1 << 30

// maxMounts bounds a view. Each is a few microseconds of every start.
const maxMounts = 1024

func (m Mount) String() string {
	out := m.Kind + " " + printable(m.Path)
	if m.Source != "" && m.Source != m.Path {
		out += " from " + printable(m.Source)
	}
	return out + choose(m.Write, ", writable", "")
}

// validateView reports what makes the view unusable.
func (p Profile) validateView() error {
	if len(p.View) > maxMounts {
		return fmt.Errorf("sandbox profile: %d mounts, at most %d", len(p.View), maxMounts)
	}
	seen := map[string]bool{}
	for _, m := range p.View {
		if err := checkPath(m.Path); err != nil {
			return fmt.Errorf("sandbox profile: mount: %w", err)
		}
		sourced := m.Kind == MountBind || m.Kind == MountDevice || m.Kind == MountLink
		switch {
		case m.Path == "/":
			return errors.New("sandbox profile: mount over /")
		case seen[m.Path]:
			return fmt.Errorf("sandbox profile: two mounts at %q", m.Path)
		case sourced && m.Kind != MountLink && checkPath(m.Source) != nil:
			return fmt.Errorf("sandbox profile: mount at %q: source: %w", m.Path, checkPath(m.Source))
		case m.Kind == MountBind && m.Source == "/":
			return fmt.Errorf("sandbox profile: mount at %q shows the whole host", m.Path)
		case sourced == (m.Source == ""):
			return fmt.Errorf("sandbox profile: mount at %q: a %s with source %q", m.Path, m.Kind, m.Source)
		case m.Write && m.Kind != MountBind:
			return fmt.Errorf("sandbox profile: mount at %q: only a bind can be writable", m.Path)
		case !slices.Contains([]string{MountBind, MountDevice, MountMemory, MountProcesses, MountTerminals, MountLink, MountFolder}, m.Kind):
			return fmt.Errorf("sandbox profile: mount at %q: unknown kind %q", m.Path, m.Kind)
		}
		seen[m.Path] = true
	}
	return nil
}

// viewBuilder collects mounts by path.
type viewBuilder struct {
	mounts map[string]Mount
	files  Lookup
	pinned []string // stay mounts though another shows the same
}

// planView is what a command sees whose files are given by roots: the folders that it may read and
// write at the paths that they have outside, and in place of everything else nothing.
//
// /etc is there whole: what of it only some may read is kept by the file rules.
func planView(r Request, roots roots) []Mount {
	v := &viewBuilder{mounts: map[string]Mount{}, files: r.Files}
	if v.files == nil {
		v.files = System()
	}
	for _, path := range slices.Concat(systemFolders, []string{"/etc"}) {
		v.system(path)
	}
	for _, path := range slices.Concat(roots.read, roots.exec) {
		v.bind(path, path, false)
	}
	for _, path := range roots.write {
		v.bind(path, path, true)
	}
	// Hooks that git runs outside tomorrow, as far as the repository is the root's own: git never
	// tracks them, so no command of git misses the right. The folder that they lie in is mounted too, since
	// what is mounted on cannot be renamed: another could take its place.
	for _, path := range roots.given {
		hooks := path + "/.git/hooks"
		if entry, err := v.files.Resolve(hooks); err == nil && entry.Dir && entry.Path == hooks {
			v.bind(path+"/.git", path+"/.git", true)
			v.pinned = append(v.pinned, path+"/.git")
			v.bind(hooks, hooks, false)
		}
	}
	for _, link := range roots.links {
		v.add(Mount{Kind: MountLink, Path: link.Path, Source: link.Source})
	}
	temp, err := v.files.Resolve(r.Temp)
	if err == nil {
		for _, path := range temporaryFolders {
			v.bind(path, temp.Path, true)
		}
	}
	for _, path := range []string{"/home", "/root", "/run", "/var", "/mnt", "/media", "/srv"} {
		v.folder(path)
	}
	if r.Home != "" {
		v.folder(r.Home)
	}
	v.devices(roots.devices)
	v.add(Mount{Kind: MountProcesses, Path: "/proc"})
	return v.sorted()
}

// temporaryFolders show the session's temporary directory in a view.
var temporaryFolders = []string{"/tmp", "/var/tmp"}

// OwnInView reports whether name lies right in a directory that is the session's own in a view, whatever the
// host has there: the temporary folders and the shared memory.
func OwnInView(name string) bool {
	dir := path.Dir(name)
	return dir == "/dev/shm" || slices.Contains(temporaryFolders, dir)
}

func (v *viewBuilder) add(m Mount) { v.mounts[m.Path] = m }

// bind shows source at at. Of two with one place, the writable one counts.
func (v *viewBuilder) bind(at, source string, write bool) {
	if have, ok := v.mounts[at]; ok && have.Write {
		return // what is granted by name stays granted
	}
	v.add(Mount{Kind: MountBind, Path: at, Source: source, Write: write})
}

// system shows a folder of the system, or the link that has its name: /bin on most.
func (v *viewBuilder) system(name string) {
	if name == "/proc" {
		return // its own
	}
	entry, err := v.files.Resolve(name)
	switch {
	case err != nil || entry.Path == "/":
	case entry.Path != name:
		v.add(Mount{Kind: MountLink, Path: name, Source: entry.Path})
	case name == "/etc" || name == "/sys":
		v.bind(name, name, false)
	}
}

// folder makes an empty directory where nothing else is seen.
func (v *viewBuilder) folder(at string) {
	if _, ok := v.mounts[at]; !ok && checkPath(at) == nil && at != "/" {
		v.add(Mount{Kind: MountFolder, Path: at})
	}
}

func (v *viewBuilder) devices(nodes []string) {
	for _, node := range nodes {
		v.add(Mount{Kind: MountDevice, Path: node, Source: node})
	}
	v.add(Mount{Kind: MountTerminals, Path: "/dev/pts"})
	v.add(Mount{Kind: MountMemory, Path: "/dev/shm"})
	for name, target := range map[string]string{
		"/dev/ptmx": "pts/ptmx", "/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		v.add(Mount{Kind: MountLink, Path: name, Source: target})
	}
}

// sorted is the view in an order in which what lies inside comes after what it lies in. What
// another mount shows already, with the same rights, is left out.
func (v *viewBuilder) sorted() []Mount {
	out := make([]Mount, 0, len(v.mounts))
	for at, m := range v.mounts {
		if slices.Contains(v.pinned, at) || !v.shown(at, m) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Mount) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// shown is true when the innermost mount around at shows there what m would.
func (v *viewBuilder) shown(at string, m Mount) bool {
	for above := path.Dir(at); above != "/"; above = path.Dir(above) {
		outer, ok := v.mounts[above]
		if !ok {
			continue
		}
		if outer.Kind != MountBind {
			return false
		}
		same := outer.Source+strings.TrimPrefix(at, above) == m.Source
		if m.Kind == MountFolder {
			// A place inside a folder that is shown is what it is outside.
			return outer.Source == outer.Path
		}
		return m.Kind == MountBind && same && outer.Write == m.Write
	}
	return false
}

// linkOf is the link that path is, if it is one that leads to entry.
func linkOf(path string, entry Entry) (Mount, bool) {
	if entry.Path == path {
		return Mount{}, false
	}
	return Mount{Kind: MountLink, Path: path, Source: entry.Path}, true
}
