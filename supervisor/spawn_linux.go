package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/forwarding/wire"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

const sigTERM = unix.SIGTERM

func prepareOrder(dir string) keeper.Order {
	return keeper.Order{Prepare: &keeper.Prepare{Dir: dir}}
}

// lookupOrder asks for a word on that PATH, or for a path where it is "".
func lookupOrder(word, path string, digest bool) keeper.Order {
	return keeper.Order{Lookup: &keeper.Lookup{Word: word, Path: path, Digest: digest}}
}

// spawn starts a session: judged, unless it is the root's, which the operator
// started. It returns when the session is over, with its agent's status.
func (t *tree) spawn(ctx context.Context, parent *session, caller *command, conn *control.Conn, r *control.Request) control.Result {
	seat, res, ok := t.admit(parent)
	if !ok {
		return res
	}
	defer seat.leave()
	if parent != nil && parent.depth+1 > t.root.MaxDepth {
		return failed("depth limit: session %s is at depth %d of at most %d; the tree's --max-depth sets it", parent.title(), parent.depth, t.root.MaxDepth)
	}
	want := r.Spawn
	if want == nil {
		want = &control.Spawn{}
	}
	mode, limit, res, ok := wanted(want)
	if !ok {
		return res
	}
	k, err := t.pool.plain.take()
	if err != nil {
		return failed("%v", err)
	}
	kept := false
	defer func() {
		if !kept {
			k.release()
		}
	}()
	w := &wish{s: parent, caller: caller, op: control.OpSpawn, k: k, seat: seat, agent: true, received: time.Now()}
	if res, ok := t.prepare(w, r); !ok {
		return res
	}
	w.adapter = t.adapterFor(w)
	s, narrowed, res, ok := t.newSession(w, want, mode, limit)
	if !ok {
		return res
	}
	for _, line := range narrowed {
		conn.Send(control.Message{Notice: &control.Notice{Text: line}})
	}
	out := outcome{allowed: true, word: "rule", by: wire.ByRule("spawn", "*", "operator")}
	if parent != nil {
		w.queries = append(w.queries, policy.Query{Surface: "task", Kind: policy.KindTaskSubagent, Tool: "spawn", Values: []string{commandLine(w.record)}, Floor: policy.Allow, Home: t.root.Home})
		if out, res, ok = t.settle(ctx, w); !ok {
			return res
		}
		// The question may have waited while the operator switched the agent off.
		if file := t.rules.Load().disabled(s); file != "" {
			return refused("rule", "agent %s is switched off by %s", s.agent, file)
		}
		// What was granted is for the start of the session; its own ceiling and
		// what is open come from its parent.
		out.grant = policy.GrantVector{}
	}
	w.s = s
	if res, ok := t.open(w, s); !ok {
		return res
	}
	kept = true
	if err := t.begin(s, narrowed); err != nil {
		k.release()
		t.endSession(s, ending{why: "not started", stopped: true})
		return failed("%v", notWritten(err))
	}
	started := make(chan *command, 1)
	if parent != nil {
		// A client that goes ends what it started.
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-ctx.Done():
				t.endSession(s, ending{why: "its client is gone", stopped: true})
			case <-over:
			}
		}()
	}
	end := t.run(ctx, w, out, conn, started)
	t.endSession(s, ending{why: "its agent ended"})
	return s.result(end)
}

// wanted reads what a client says about the session that it wants.
func wanted(want *control.Spawn) (mode policy.Mode, limit *policy.Cap, res control.Result, ok bool) {
	var err error
	if want.Mode != "" {
		if mode, err = policy.ParseMode(want.Mode); err != nil {
			return "", nil, failed("--mode: %v", err), false
		}
	}
	if want.Cap != nil {
		if limit, err = policy.ParseCap(want.Cap.Name, want.Cap.Data); err != nil {
			return "", nil, failed("%v", err), false
		}
	}
	if err := wantedLimits(want.Limits).Check(); err != nil {
		return "", nil, failed("%v", err), false
	}
	if len(want.Agent) > 200 || strings.ContainsAny(want.Agent, "/\x00\n\x1b") {
		return "", nil, failed("--agent %q: expected a name of at most 200 characters without '/' and control characters", want.Agent), false
	}
	return mode, limit, res, true
}

func (t *tree) adapterFor(w *wish) *Adapter {
	for i := range t.opts.Adapters {
		if a := &t.opts.Adapters[i]; a.Program(w.program.Real, w.record.Argv) {
			return a
		}
	}
	return nil
}

// newSession resolves the snapshot; nothing exists on disk yet.
func (t *tree) newSession(w *wish, want *control.Spawn, mode policy.Mode, limit *policy.Cap) (*session, []string, control.Result, bool) {
	parent := w.s
	s := &session{id: registry.NewID("s"), agent: want.Agent, parent: parent, adapter: w.adapter, dir: directory(w.dir), commands: map[string]*command{}, ended: make(chan struct{})}
	var narrowed []string
	rules := t.rules.Load()
	if file := rules.disabled(s); file != "" {
		return nil, nil, refused("rule", "agent %s is switched off by %s", s.agent, file), false
	}
	if parent == nil {
		source := policy.SourceComposer
		if mode == "" {
			mode, source = policy.FullAccess, policy.SourceDefaulted
		}
		workspace, err := t.workspace(w, w.dir.Real, mode)
		if err != nil {
			return nil, nil, failed("%v", err), false
		}
		s.snap = policy.Resolve(rules.newest().settings.Input(policy.ResolveInput{Mode: mode, Source: source, Workspace: workspace, Cwd: w.dir.Real, ExtraRoots: t.systemRoots()}))
		if limit != nil {
			s.snap, narrowed = policy.Child(s.snap, "", limit, w.dir.Real)
		}
	} else {
		s.depth = parent.depth + 1
		s.snap, narrowed = policy.Child(parent.snap, mode, limit, w.dir.Real)
		if s.restricted() && !parent.restricted() {
			workspace, err := t.workspace(w, w.dir.Real, s.snap.Profile.Mode)
			if err != nil {
				return nil, nil, failed("%v", err), false
			}
			s.snap, narrowed = policy.ChildIn(parent.snap, mode, limit, w.dir.Real, workspace)
		}
		s.caps = append(s.caps, parent.caps...)
	}
	if limit != nil {
		s.caps = append(s.caps, limit)
	}
	narrowed = append(narrowed, limited(s, wantedLimits(want.Limits))...)
	if err := rules.invalidAgent(s); err != nil {
		narrowed = append(narrowed, "what agent "+s.agent+" would be allowed is asked, since its file cannot be read: "+err.Error())
	}
	narrowed = append(narrowed, t.untrusted(w, s, rules)...)
	if s.restricted() {
		if dir := s.snap.Sandbox.Cwd; !s.snap.Open.CanRead(dir) {
			return nil, nil, failed("directory %s: outside what the session may read", dir), false
		}
		if err := t.powerIsSafe(s); err != nil {
			return nil, nil, failed("%v", err), false
		}
	}
	return s, narrowed, control.Result{}, true
}

// systemRoots are what every restricted session reads: system folders, and the
// listed toolchains in the operator's home.
func (t *tree) systemRoots() []policy.Entry {
	var out []policy.Entry
	for _, p := range sandbox.SystemFolders() {
		out = append(out, policy.Entry{Path: p, Access: policy.AccessRead, Provenance: policy.ProvenanceSystem})
	}
	for _, p := range sandbox.Toolchains() {
		out = append(out, policy.Entry{Path: filepath.Join(t.root.Home, p), Access: policy.AccessRead, Provenance: policy.ProvenanceSystem})
	}
	return out
}

// workspace is the nearest ancestor of the directory that holds .git, else the
// directory; never /, HOME or above our state.
func (t *tree) workspace(w *wish, dir string, mode policy.Mode) (string, error) {
	exists := func(p string) bool {
		f, err := w.k.question(lookupOrder(p, "", false))
		return err == nil && f.Kind != ""
	}
	found, err := sandbox.Workspace(dir, t.root.Home, t.places.State, exists)
	if err != nil && mode == policy.FullAccess {
		return "", nil
	}
	return found, err
}

// powerIsSafe refuses a session that could write what gives power later: this
// binary, the policy, the state.
func (t *tree) powerIsSafe(s *session) error {
	power := map[string]string{
		t.root.Executable: "running binary",
		t.places.State:    "state directory",
		t.places.Run:      "run directory",
		t.places.Config:   "configuration directory",
	}
	power[t.root.PolicyPath] = "policy file"
	maps.Copy(power, linkPower(t.rules.Load().newest()))
	return sandbox.CheckWritableRoots(s.writableRoots(), power)
}

// writableRoots are the places that the session may write, now or by an answer.
func (s *session) writableRoots() []string {
	var roots []string
	if s.snap.Sandbox.Workspace != "" {
		roots = append(roots, s.snap.Sandbox.Workspace)
	}
	for _, e := range s.snap.Ceiling.Write {
		roots = append(roots, e.Path)
	}
	for _, e := range s.snap.Open.Write {
		roots = append(roots, e.Path)
	}
	return roots
}

// open makes what a session has on disk: its listener, private directories and
// channel.
func (t *tree) open(w *wish, s *session) (control.Result, bool) {
	run := filepath.Join(t.store.RunDir(), "s", s.id)
	s.ctl = filepath.Join(run, "ctl.d")
	s.temp = filepath.Join(run, "tmp")
	s.cache = filepath.Join(run, "cache")
	for _, d := range []string{s.ctl, s.temp, s.cache} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return failed("%v", err), false
		}
	}
	// Without the file git refuses to run where the user has one of its own.
	if err := os.WriteFile(filepath.Join(s.cache, "gitconfig"), sandbox.GitConfig(t.root.GitConfig), 0o600); err != nil {
		return failed("%v", err), false
	}
	var err error
	if s.listen, err = control.Listen(s.ctl, "ctl"); err != nil {
		return failed("%v", err), false
	}
	s.ctx, s.cancel = context.WithCancel(t.ctx)
	s.base = w.env
	if err := t.openChannel(w, s); err != nil {
		s.cancel()
		s.listen.Close()
		return failed("%v", err), false
	}
	s.tools = s.toolBase(t)
	s.given = t.agentEnvironment(w, s)
	w.env = s.given
	// What tools of this session get is what its strength says; an agent of the
	// table has the envelope alone, and the snapshot names that.
	tools, err := t.planFor(s, policy.GrantVector{}, false, nil)
	if err != nil {
		s.cancel()
		s.listen.Close()
		return failed("%v", err), false
	}
	s.snap.Enforcement = enforcement(tools.report, s, w.adapter)
	s.snap.Backend.Name = tools.profile.Backend
	if len(tools.profile.View) > 0 {
		s.rooms = newRooms(t.pool, func(h *keeper.Holder) (net.Listener, error) { return t.outbound.listen(h, s) })
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing || s.parent != nil && s.parent.ending {
		if s.rooms != nil {
			go s.rooms.close()
		}
		s.cancel()
		s.listen.Close()
		os.RemoveAll(run)
		return failed("the session is ending"), false
	}
	t.sessions[s.id] = s
	t.channels[s.channel] = s
	if s.parent == nil {
		t.first = s
	} else {
		s.parent.children = append(s.parent.children, s)
	}
	return control.Result{}, true
}

func enforcement(tools sandbox.Report, s *session, a *Adapter) policy.Enforcement {
	out := policy.Enforcement{Strength: tools.Strength, Degradations: tools.Degradations, Status: policy.Status(tools.Status)}
	if s.restricted() && a != nil {
		out.Status = policy.StatusPartiallyActive
		out.Degradations = append(out.Degradations, "agent process ("+a.Name+"): control envelope alone")
	}
	if a != nil && a.ForwardingRoot != nil && strings.HasPrefix(s.root, a.ForwardingRoot(getter(s.base))) {
		out.Degradations = append(out.Degradations, "its channel lies in a forwarding root that other sessions of this agent see")
	}
	return out
}

// agentEnvironment is what an agent is started with: its base, the way to its
// tree, and, if it has no terminal of its own, the two variables by which the
// public permission extension finds its parent.
func (t *tree) agentEnvironment(w *wish, s *session) []string {
	env := withoutEnv(s.base, inventory)
	if s.restricted() {
		keep := func(string) bool { return false }
		if w.adapter != nil && w.adapter.Keep != nil {
			keep = w.adapter.Keep
		}
		env, _ = sandbox.FilterEnvironment(env, keep)
		env = withEnv(env, "TMPDIR="+s.temp)
		if w.adapter == nil {
			env = withEnv(env, sandbox.CacheEnvironment(s.cache, t.hostCaches(s))...)
		}
	}
	env = withEnv(env, t.ours(s)...)
	env = withEnv(env, "PIONEER_SUPER_FORWARDING_ROOT="+s.root, "SHELL="+t.links.shell)
	path, _ := lookupEnv(env, "PATH")
	path = t.withOurs(path)
	if w.adapter != nil && w.adapter.Path != nil {
		path = strings.Join(append([]string{path}, w.adapter.Path(getter(s.base))...), ":")
	}
	env = withEnv(env, "PATH="+path)
	if !interactive(w) {
		env = withEnv(env, "PI_IS_SUBAGENT=1", "PI_SUBAGENT_PARENT_SESSION="+s.channel)
	}
	return env
}

// interactive says whether the agent has a terminal of its own.
func interactive(w *wish) bool {
	terminal := w.record.Streams[0] == string(sandbox.KindTerminal) && w.record.Streams[1] == string(sandbox.KindTerminal)
	if w.adapter != nil && w.adapter.Interactive != nil {
		return w.adapter.Interactive(w.record.Argv, terminal)
	}
	return false
}

// begin writes the session down, snapshot first: nothing runs before it.
func (t *tree) begin(s *session, narrowed []string) error {
	if err := t.journalSession(s); err != nil {
		return err
	}
	err := t.log.Write(audit.Row{Kind: audit.SessionStarted, Session: s.id, Agent: s.agent, Chain: s.requesters(), Cwd: s.snap.Sandbox.Cwd})
	if err != nil {
		return err
	}
	// The snapshot is on disk, synced with what follows it, before anything runs.
	err = t.log.Write(audit.Row{Kind: audit.ProfileSelected, Session: s.id, Agent: s.agent, Mode: string(s.snap.Profile.Mode), Source: string(s.snap.Profile.Source),
		Strength: s.snap.Enforcement.Strength, Missing: s.snap.Enforcement.Degradations, Record: s.snap.Digest(), Reason: strings.Join(narrowed, "; "),
		Details: map[string]any{"snapshot": json.RawMessage(s.snap.Canonical())}})
	if err == nil {
		err = t.log.Sync()
	}
	if err != nil {
		return err
	}
	t.limit(s)
	go t.accept(s)
	if err := t.serveForeign(s); err != nil {
		return err
	}
	if s.parent == nil {
		for _, line := range t.headline(s) {
			t.front.Send(control.Message{Notice: &control.Notice{Text: line}})
		}
	}
	return nil
}

// headline is what the human sees first: how strong this is, and what rules.
func (t *tree) headline(s *session) []string {
	strength := "sandbox " + s.snap.Enforcement.Strength
	if s.snap.Enforcement.Strength == policy.StrengthAdvisory {
		strength += ": what an unconfined process may do it may do without asking"
	}
	if t.root.NoEnvelope {
		strength += "; no envelope: survivors unknown"
	}
	line := fmt.Sprintf("tree %s, mode %s", t.root.Tree, s.snap.Profile.Mode)
	if s.snap.Profile.Source == policy.SourceDefaulted {
		line += " (default)"
	}
	if t.root.Policy != nil {
		sum := sha256.Sum256(t.root.Policy.Data)
		line += fmt.Sprintf(", policy %s (sha256 %x…)", t.root.Policy.Name, sum[:6])
	} else {
		line += ", no policy file"
	}
	return []string{strength, line}
}

// serveChannel serves the descriptor that a command got where it may not open
// sockets: each message brings one end of a fresh pair.
func (t *tree) serveChannel(c *command, end *os.File) {
	conn, err := control.NewPacket(end)
	if err != nil {
		return
	}
	go func() {
		<-c.over
		conn.Close()
	}()
	for {
		client, err := conn.Accept()
		if errors.Is(err, control.ErrNotAConnection) {
			continue
		}
		if err != nil {
			return
		}
		go t.serveClient(client, c.session, c)
	}
}
