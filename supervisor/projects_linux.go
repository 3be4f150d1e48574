package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

const (
	// maxProjectAgents bounds how many agents have a file in one trusted project.
	maxProjectAgents = 64
	// maxProjectChanges is how often the files of trusted projects are taken anew in
	// one tree. Its sessions may write them, and every change lets what is being
	// asked be asked anew.
	maxProjectChanges = 32
)

// ProjectFiles are the files of agents in one trusted project. Sessions may write
// them: they are read with no link followed, only restrict, and where they cannot be
// read everything that an agent there would be allowed is asked.
type ProjectFiles struct {
	Dir    string
	Agents []control.File
	// Unreadable says why the folder cannot be read, "" if it can or is not there.
	Unreadable string
}

// readProjects reads the files of the projects that the settings trust.
func readProjects(settings *control.File) []ProjectFiles {
	if settings == nil {
		return nil
	}
	parsed, err := policy.ParseSettings(settings.Name, settings.Data)
	if err != nil {
		return nil // the settings are refused as a whole
	}
	var out []ProjectFiles
	for _, dir := range parsed.TrustedProjects {
		p := ProjectFiles{Dir: dir}
		if p.Agents, err = readProject(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			p.Agents, p.Unreadable = nil, err.Error()
		}
		out = append(out, p)
	}
	return out
}

// openBelow opens a path in which nothing is a link.
func openBelow(dirfd int, path string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(dirfd, path, &unix.OpenHow{Flags: flags | unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func readProject(dir string) ([]control.File, error) {
	folder := filepath.Join(dir, policy.ProjectAgents)
	f, err := openBelow(unix.AT_FDCWD, folder, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(4*maxProjectAgents + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	full := len(names) > 4*maxProjectAgents
	names = slices.DeleteFunc(names, func(n string) bool { return filepath.Ext(n) != ".md" })
	if full || len(names) > maxProjectAgents {
		return nil, fmt.Errorf("%s: expected at most %d agents", folder, maxProjectAgents)
	}
	slices.Sort(names)
	var out []control.File
	for _, name := range names {
		path := filepath.Join(folder, name)
		a, err := openBelow(int(f.Fd()), name, 0)
		if err != nil {
			return nil, err
		}
		data, err := readHead(a, path)
		a.Close()
		if err != nil {
			return nil, err
		}
		out = append(out, control.File{Name: path, Data: data})
	}
	return out, nil
}

// readHead reads the first maxAgentHead bytes of an agent's file, whole lines.
func readHead(f *os.File, path string) ([]byte, error) {
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxAgentHead+1))
	if err != nil || len(data) <= maxAgentHead {
		return data, err
	}
	data = data[:maxAgentHead]
	return data[:strings.LastIndexByte(string(data), '\n')+1], nil
}

// projectRules is what the files of one trusted project say.
type projectRules struct {
	files  ProjectFiles
	agents map[string]*agentFile
}

func parseProjects(list []ProjectFiles) []projectRules {
	var out []projectRules
	for _, p := range list {
		out = append(out, projectRules{p, parseAgents(p.Agents)})
	}
	return out
}

// restrictions are the files that restrict an agent in a directory: its own of the
// operator's, and one of each trusted project around the directory.
func (r *rules) restrictions(agent, dir string) []*agentFile {
	if agent == "" {
		return nil
	}
	var out []*agentFile
	if a := findAgent(r.agents, agent); a != nil {
		out = append(out, a)
	}
	for _, p := range r.projects {
		switch a := findAgent(p.agents, agent); {
		case !policy.Below(p.files.Dir, dir):
		case p.files.Unreadable != "":
			err := errors.New(p.files.Unreadable)
			out = append(out, &agentFile{Agent: &policy.Agent{Enabled: true}, name: filepath.Join(p.files.Dir, policy.ProjectAgents), invalid: err})
		case a != nil:
			out = append(out, a)
		}
	}
	return out
}

// widening says what the next files of a trusted project allow more.
func (p projectRules) widening(next projectRules) []string {
	switch {
	case p.files.Unreadable != "" && next.files.Unreadable == "":
		return []string{"the agents of project " + p.files.Dir + " can be read again: allows that were asked are allows"}
	case next.files.Unreadable != "":
		// What was denied would be asked.
		next.agents = map[string]*agentFile{}
		for name := range p.agents {
			next.agents[name] = &agentFile{Agent: &policy.Agent{Enabled: true}}
		}
	}
	return wideningAgents(p.agents, next.agents)
}

// wideningProjects says what is lost of the projects that are not trusted any more,
// or allow more.
func wideningProjects(before, after []projectRules) []string {
	var out []string
	for _, p := range before {
		i := slices.IndexFunc(after, func(n projectRules) bool { return n.files.Dir == p.files.Dir })
		switch {
		case i >= 0:
			out = append(out, p.widening(after[i])...)
		case len(p.agents) > 0 || p.files.Unreadable != "":
			out = append(out, "project "+p.files.Dir+" is not trusted any more: what its files of agents take away is allowed")
		}
	}
	return out
}

// ratchet replaces in files what a trusted project took back while the tree runs:
// its sessions may write there, so that nothing which it loosens counts before the
// next tree. It says for which projects it did.
func (r *rules) ratchet(files ConfigFiles) (ConfigFiles, []string) {
	var kept []string
	files.Projects = slices.Clone(files.Projects)
	for i, now := range files.Projects {
		j := slices.IndexFunc(r.projects, func(p projectRules) bool { return p.files.Dir == now.Dir })
		if j >= 0 && len(r.projects[j].widening(projectRules{now, parseAgents(now.Agents)})) > 0 {
			files.Projects[i] = r.projects[j].files
			kept = append(kept, now.Dir)
		}
	}
	return files, kept
}

// withoutProjects is what of the files the operator alone may write.
func (c ConfigFiles) withoutProjects() ConfigFiles {
	c.Projects = nil
	return c
}

// untrusted says that a project has a file for the agent of a session and is not
// among those that count.
func (t *tree) untrusted(w *wish, s *session, a *authorities) []string {
	dir, err := t.workspace(w, s.dir.Path, policy.FullAccess)
	if s.agent == "" || err != nil || dir == "" || slices.ContainsFunc(a.newest().projects, func(p projectRules) bool { return policy.Below(p.files.Dir, s.dir.Path) }) {
		return nil
	}
	file := filepath.Join(dir, policy.ProjectAgents, s.agent+".md")
	if f, err := w.k.question(lookupOrder(file, "", false)); err != nil || f.Kind == "" {
		return nil
	}
	return []string{file + " is ignored: " + dir + " is not in trustedProjects of config.jsonc"}
}
