package supervisor

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/sandbox"
)

// plan is a sandbox profile with what it gives.
type plan struct {
	profile sandbox.Profile
	report  sandbox.Report
	// off: not even the envelope, because the tree was started without one.
	off bool
	// passing: something that was granted is not there, so the plan serves one command alone.
	passing bool
	// text is the profile in words, as the record binds it; digest is its SHA-256.
	text, digest string
}

// proxied says that the command's only way out is the proxy, at which hosts are asked
// for one by one.
func (p plan) proxied() bool { return len(p.profile.View) > 0 && !p.profile.Network }

// planLife is how long a plan is used before it is made anew, beside the command
// that uses it: a plan lists directories, which has no place on the start path.
// What was installed in that time is not readable for one command more.
const planLife = 2 * time.Second

// plans are a session's sandbox plans by what they give.
type plans struct {
	mu   sync.Mutex
	made map[string]*madePlan
}

type madePlan struct {
	plan
	at      time.Time
	renewal bool
}

// get returns the plan of that key, made by build if there is none yet.
func (p *plans) get(key string, build func() (plan, error)) (plan, error) {
	p.mu.Lock()
	have := p.made[key]
	if have != nil {
		out := have.plan
		if time.Since(have.at) > planLife && !have.renewal {
			have.renewal = true
			go p.renew(key, build)
		}
		p.mu.Unlock()
		return out, nil
	}
	p.mu.Unlock()
	return p.renew(key, build)
}

func (p *plans) renew(key string, build func() (plan, error)) (plan, error) {
	made, err := build()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		// What could be planned before cannot be now: the next command is told why.
		delete(p.made, key)
		return plan{}, err
	}
	made.text = made.profile.String()
	made.digest = fmt.Sprintf("%x", sha256.Sum256([]byte(made.text)))
	if made.passing {
		delete(p.made, key)
		return made, nil
	}
	if p.made == nil {
		p.made = map[string]*madePlan{}
	}
	p.made[key] = &madePlan{plan: made, at: time.Now()}
	return made, nil
}

// plan fills the wish's sandbox plan for that grant. It is made again after an
// answer, because the answer is all that an invocation gets.
func (t *tree) plan(w *wish, grant policy.GrantVector) error {
	s := w.s
	if s == nil {
		return errors.New("a command belongs to a session")
	}
	var err error
	w.profile, err = t.planFor(s, grant, w.agent, w.adapter)
	return err
}

// planFor is the plan of a command of s with that grant.
func (t *tree) planFor(s *session, grant policy.GrantVector, agent bool, adapter *Adapter) (plan, error) {
	key, err := json.Marshal(struct {
		Grant          policy.GrantVector
		Agent, Adapter bool
	}{grant, agent, adapter != nil})
	if err != nil {
		return plan{}, err
	}
	return s.plans.get(string(key), func() (plan, error) { return t.makePlan(s, grant, agent, adapter) })
}

func (t *tree) makePlan(s *session, grant policy.GrantVector, agent bool, adapter *Adapter) (plan, error) {
	if !s.restricted() || grant.SandboxOff || agent && adapter != nil {
		p, r := sandbox.EnvelopeOnly(t.base)
		if t.root.NoEnvelope {
			r.Degradations = append(r.Degradations, "no envelope")
		}
		return plan{profile: p, report: r, off: t.root.NoEnvelope}, nil
	}
	// A workspace is a name: what of it is open is what the session was given. A
	// child that was started elsewhere has there what its parent has there.
	workspace, mode := s.snap.Sandbox.Workspace, s.snap.Sandbox.Mode
	if !s.snap.Open.CanRead(workspace) {
		return plan{}, fmt.Errorf("directory %s: outside what the session may read", workspace)
	}
	if !s.snap.Open.CanWrite(workspace) {
		mode = policy.SandboxReadOnly
	}
	host, err := t.host()
	if err != nil {
		return plan{}, err
	}
	if agent && host.Backend == sandbox.BackendNamespaces {
		host.Backend = sandbox.BackendLandlock
	}
	req := sandbox.Request{
		Workspace: s.snap.Sandbox.Workspace, Cwd: s.snap.Sandbox.Cwd, Home: t.root.Home,
		Temp: s.temp, CacheDir: s.cache, Mode: string(mode),
		WorkspaceWrite: grant.WorkspaceWrite, Network: grant.Network || s.snap.Open.Network == policy.NetworkEnabled,
		Executables: append(t.links.files(), t.root.Bash, t.root.Sh),
		Deny:        []string{t.places.State, t.places.Run, t.places.Config},
		Host:        host,
	}
	for _, e := range s.snap.Open.Read {
		if e.Provenance == policy.ProvenanceSystem {
			continue // the plan knows them, and what of them stays closed
		}
		req.ReadRoots = append(req.ReadRoots, e.Path)
	}
	for _, e := range s.snap.Open.Write {
		req.WriteRoots = append(req.WriteRoots, e.Path)
	}
	passing := false
	for _, e := range grant.Paths {
		if _, err := sandbox.System().Resolve(e.Path); errors.Is(err, fs.ErrNotExist) {
			// Nothing is there to open. A reader is told so by the system; a writer needs a
			// place, which is the session's own temporary directory or was not granted.
			passing = true
			if e.Access == policy.AccessWrite && (host.Backend != sandbox.BackendNamespaces || !sandbox.OwnInView(e.Path)) {
				return plan{}, fmt.Errorf("%s does not exist, and a yes opens only what is there: make it outside first, or write in the workspace", e.Path)
			}
			continue
		}
		if e.Access == policy.AccessWrite {
			req.WriteRoots = append(req.WriteRoots, e.Path)
		} else {
			req.ReadRoots = append(req.ReadRoots, e.Path)
		}
	}
	if agent {
		req.Session = append(req.Session, s.channelDirs()...)
	}
	if ws := s.snap.Sandbox.Workspace; ws != "" {
		// A linked working tree or a submodule keeps its repository elsewhere.
		reads, writes, err := sandbox.GitFolders(ws)
		if err != nil {
			t.ops.Warn().Err(err).Str("workspace", ws).Msg("git does not work in this workspace")
		}
		req.ReadRoots = append(req.ReadRoots, reads...)
		if grant.WorkspaceWrite || s.snap.Open.CanWrite(ws) {
			req.WriteRoots = append(req.WriteRoots, writes...)
		} else {
			req.ReadRoots = append(req.ReadRoots, writes...)
		}
	}
	p, r, err := t.planner.Plan(req)
	return plan{profile: p, report: r, passing: passing}, err
}
