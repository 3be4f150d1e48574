package supervisor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

const (
	// maxConfig bounds all files of the configuration together, in bytes: they go
	// to the supervisor in one frame with the first command.
	maxConfig = 1 << 20
	// maxAgentFiles bounds how many agents have a file.
	maxAgentFiles = 256
	// maxAgentHead bounds what is read of an agent's file, whose rest is a prompt.
	maxAgentHead = 64 << 10

	// configSettle is how long a file has to be left alone before it is read, so
	// that an editor that writes in two steps is not read between them.
	configSettle = 100 * time.Millisecond
	// configPoll is how often the files are looked at where nothing tells.
	configPoll = 2 * time.Second
	// maxProven bounds how many earlier states of the files go on counting.
	maxProven = 4
	// maxShownChanges bounds the lines of a question about a reload.
	maxShownChanges = 60
)

// ConfigFiles are the operator's files as they were read: nil and empty where
// there is none.
type ConfigFiles struct {
	Policy, Guards, Settings *control.File
	// Agents are the heads of the files of agents, by the name of the agent.
	Agents []control.File
	// Projects are those that the settings trust.
	Projects []ProjectFiles
}

// ReadConfig reads the files of a configuration directory, and the policy from its
// own path. A file that is not there is none; anything else that cannot be read is
// an error, and so is more than 1 MiB altogether.
func ReadConfig(dir, policyPath string) (ConfigFiles, error) {
	var c ConfigFiles
	var problems []error
	total := 0
	read := func(path string, limit int, whole bool) *control.File {
		data, err := readRegular(path, limit, whole)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			problems = append(problems, err)
			return nil
		}
		total += len(data)
		return &control.File{Name: path, Data: data}
	}
	c.Policy = read(policyPath, maxConfig, true)
	c.Guards = read(filepath.Join(dir, "hard-guards.jsonc"), maxConfig, true)
	c.Settings = read(filepath.Join(dir, "config.jsonc"), maxConfig, true)
	names, err := filepath.Glob(filepath.Join(globLiteral(dir), "agents", "*.md"))
	if err != nil {
		problems = append(problems, err)
	}
	if len(names) > maxAgentFiles {
		problems = append(problems, fmt.Errorf("%s: %d agents, expected at most %d", filepath.Join(dir, "agents"), len(names), maxAgentFiles))
		names = nil
	}
	for _, name := range names {
		if f := read(name, maxAgentHead, false); f != nil {
			c.Agents = append(c.Agents, *f)
		}
	}
	if total > maxConfig {
		problems = append(problems, fmt.Errorf("%s: the files have %d bytes together, expected at most %d", dir, total, maxConfig))
	}
	c.Projects = readProjects(c.Settings)
	return c, errors.Join(problems...)
}

// globLiteral takes their meaning from the characters of a directory's name.
func globLiteral(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func readRegular(path string, limit int, whole bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a regular file", path)
	}
	if !whole {
		return readHead(f, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		return nil, fmt.Errorf("%s: expected at most %d bytes", path, limit)
	}
	return data, err
}

// digest names the files by what is in them.
func (c ConfigFiles) digest() string {
	h := sha256.New()
	for _, f := range append([]*control.File{c.Policy, c.Guards, c.Settings}, pointers(c.Agents)...) {
		if f == nil {
			io.WriteString(h, "none\x00")
			continue
		}
		fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	for _, p := range c.Projects {
		fmt.Fprintf(h, "project %q %q\x00", p.Dir, p.Unreadable)
		for _, f := range p.Agents {
			fmt.Fprintf(h, "%s\x00%d\x00", f.Name, len(f.Data))
			h.Write(f.Data)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func pointers(list []control.File) []*control.File {
	out := make([]*control.File, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// sums are the files with their digests, for the audit.
func (c ConfigFiles) sums() map[string]any {
	out := map[string]any{}
	for _, f := range append([]*control.File{c.Policy, c.Guards, c.Settings}, pointers(c.Agents)...) {
		if f != nil {
			out[f.Name] = fmt.Sprintf("%x", sha256.Sum256(f.Data))
		}
	}
	for _, p := range c.Projects {
		for _, f := range p.Agents {
			out[f.Name] = fmt.Sprintf("%x", sha256.Sum256(f.Data))
		}
	}
	return out
}

// rules is what the files of one moment say. It is immutable.
type rules struct {
	files    ConfigFiles
	digest   string
	policy   *policy.PolicyFile
	guards   *policy.Guards
	settings *policy.Settings
	agents   map[string]*agentFile
	projects []projectRules
}

// agentFile is an agent's file; where it cannot be read, everything that its agent
// would be allowed is asked.
type agentFile struct {
	*policy.Agent
	name    string
	data    string
	invalid error
}

// parseRules reads the files off to the side. Every mistake of every file is in
// the error, but for those of agents, whose scope then fails closed.
func parseRules(files ConfigFiles) (*rules, error) {
	r := &rules{files: files, digest: files.digest(), agents: parseAgents(files.Agents), projects: parseProjects(files.Projects)}
	var problems []error
	var err error
	if f := files.Policy; f != nil {
		if r.policy, err = policy.ParsePolicy(f.Name, f.Data); err != nil {
			problems = append(problems, err)
		}
	}
	if f := files.Guards; f != nil {
		if r.guards, err = policy.ParseGuards(f.Name, f.Data); err != nil {
			problems = append(problems, err)
		}
	}
	if f := files.Settings; f != nil {
		if r.settings, err = policy.ParseSettings(f.Name, f.Data); err != nil {
			problems = append(problems, err)
		}
	}
	if r.settings != nil {
		for _, l := range r.settings.Links {
			if l.Command != nil {
				if err := safeProgram(l.Command[0]); err != nil {
					problems = append(problems, fmt.Errorf("%s: authorizer %s: %w", l.Origin, l.Name, err))
				}
			}
		}
		for _, o := range r.settings.Observers {
			if err := safeProgram(o.Command[0]); err != nil {
				problems = append(problems, fmt.Errorf("%s: observer %s: %w", o.Origin, o.Name, err))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return r, nil
}

// parseAgents reads the files of agents, by the name of the agent.
func parseAgents(files []control.File) map[string]*agentFile {
	out := map[string]*agentFile{}
	for _, f := range files {
		a := &agentFile{name: f.Name, data: string(f.Data)}
		if a.Agent, a.invalid = policy.ParseAgent(f.Name, f.Data); a.invalid != nil {
			a.Agent = &policy.Agent{Enabled: true}
		}
		out[strings.TrimSuffix(filepath.Base(f.Name), ".md")] = a
	}
	return out
}

// safeProgram refuses a program that somebody else could change.
func safeProgram(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0:
		return fmt.Errorf("%s: expected an executable file", path)
	case st.Uid != 0 && int(st.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to user %d, expected this user or root", path, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s can be written by others, expected that nobody else may", path)
	}
	return nil
}

// findAgent finds the file of an agent. A name that differs in case alone is the
// same one: some file systems say so, and an agent must not be another for the asking.
func findAgent(agents map[string]*agentFile, name string) *agentFile {
	if a := agents[name]; a != nil {
		return a
	}
	for _, key := range slices.Sorted(maps.Keys(agents)) {
		if strings.EqualFold(key, name) {
			return agents[key]
		}
	}
	return nil
}

// widening says what next allows more than r, a line for each reason.
func (r *rules) widening(next *rules) []string {
	out := policy.WideningGuards(r.guards, next.guards)
	out = append(out, policy.Widening(r.policy, next.policy)...)
	out = append(out, r.settings.Widening(next.settings)...)
	out = append(out, wideningAgents(r.agents, next.agents)...)
	return append(out, wideningProjects(r.projects, next.projects)...)
}

func wideningAgents(before, after map[string]*agentFile) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		a, b := before[name], after[name]
		switch {
		case b == nil:
			out = append(out, "the file of agent "+name+" is gone")
			continue
		case a.data == b.data:
			continue
		case a.invalid != nil:
			out = append(out, "the file of agent "+name+" can be read again: allows that were asked are allows")
			continue
		}
		for _, line := range a.Agent.Widening(b.Agent) {
			out = append(out, "agent "+name+": "+line)
		}
	}
	return out
}

// authorities are the rules that count for a decision. One value is taken for the
// whole of a decision; it is immutable but for changed.
type authorities struct {
	generation uint64
	// proven are the states of the files that were there at the start, that a human
	// took, or that only restrict what stood before them. The last is the newest.
	proven []*rules
	// pending is a state that may allow more and that no human has taken. All of
	// them count, and the most restrictive decides: so what it takes away holds at
	// once, and what it adds does not hold at all.
	pending *rules
	more    []string
	// declined: a human said no to pending.
	declined bool
	// changed is closed when these are not the ones that count any more.
	changed chan struct{}
}

// while is ctx until the rules are replaced.
func (a *authorities) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-a.changed:
			cancel(errRulesChanged)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (a *authorities) newest() *rules { return a.proven[len(a.proven)-1] }

// all are the rules that count, the newest first.
func (a *authorities) all() []*rules {
	var out []*rules
	if a.pending != nil {
		out = append(out, a.pending)
	}
	for _, r := range slices.Backward(a.proven) {
		out = append(out, r)
	}
	return out
}

// yolo says that asks are allowed, and where that is switched on. It has to be
// switched on in all that count.
func (a *authorities) yolo() (policy.Origin, bool) {
	for _, r := range a.all() {
		if r.settings == nil || !r.settings.Yolo {
			return policy.Origin{}, false
		}
	}
	o := a.newest().settings.YoloOrigin
	o.Authority = "yolo"
	return o, true
}

func (a *authorities) allowAlways() bool {
	return !slices.ContainsFunc(a.all(), func(r *rules) bool { return r.settings == nil || !r.settings.AllowAlways })
}

// compose makes the recorded authority of a session under one state of the files.
func (s *session) compose(r *rules) *policy.Authority {
	in := policy.Layers{Session: s.id, Snapshot: s.snap, Policy: r.policy, Guards: r.guards, Caps: s.caps}
	for _, a := range r.restrictions(s.agent, s.dir.Path) {
		if a.invalid != nil {
			in.InvalidScope = a.name
		} else if a.Permission != nil {
			in.Frontmatter = append(in.Frontmatter, a.Permission)
		}
	}
	if r.settings != nil {
		in.Yolo, in.YoloOrigin = r.settings.Yolo, r.settings.YoloOrigin
	}
	return policy.Compose(in)
}

// composed is a session's chain under the authorities that it was made for.
type composed struct {
	under *authorities
	chain []*policy.Authority
}

// under returns the authorities above a session, its own first, under a.
func (s *session) under(a *authorities) []*policy.Authority {
	if s == nil {
		return nil
	}
	if c := s.composed.Load(); c != nil && c.under == a {
		return c.chain
	}
	var chain []*policy.Authority
	for _, r := range a.all() {
		chain = append(chain, s.compose(r))
	}
	chain = append(chain, s.parent.under(a)...)
	s.composed.Store(&composed{a, chain})
	return chain
}

// disabled says which file says that an agent may not be started.
func (a *authorities) disabled(s *session) string {
	for _, r := range a.all() {
		for _, f := range r.restrictions(s.agent, s.dir.Path) {
			if !f.Enabled {
				return f.name
			}
		}
	}
	return ""
}

// invalidAgent names the file of a session's agent that cannot be read, with why.
func (a *authorities) invalidAgent(s *session) error {
	for _, r := range a.all() {
		for _, f := range r.restrictions(s.agent, s.dir.Path) {
			if f.invalid != nil {
				return f.invalid
			}
		}
	}
	return nil
}

// firstRules takes what the front read.
func (t *tree) firstRules() error {
	root := t.root
	// What lies in a project is not the operator's word and comes in no frame.
	r, err := parseRules(ConfigFiles{Policy: root.Policy, Guards: root.Guards, Settings: root.Settings, Agents: root.Agents, Projects: readProjects(root.Settings)})
	if err != nil {
		return err
	}
	t.rules.Store(&authorities{generation: 1, proven: []*rules{r}, changed: make(chan struct{})})
	return nil
}

// install makes next count from the next decision on.
func (t *tree) install(next *authorities) {
	old := t.rules.Load()
	next.generation, next.changed = old.generation+1, make(chan struct{})
	t.rules.Store(next)
	t.outbound.proxy.Recheck()
	close(old.changed)
}

// watchConfig looks after the operator's files until the tree ends. It is the only
// one that installs rules, but for takeRules under the same mutex.
func (t *tree) watchConfig(ctx context.Context) {
	events := make(chan fsnotify.Event)
	if w, err := fsnotify.NewBufferedWatcher(64); err == nil {
		defer w.Close()
		events = w.Events
		go func() {
			for range w.Errors {
			}
		}()
		// A directory that is not there yet is left to the polling.
		for _, dir := range []string{t.root.Config, filepath.Join(t.root.Config, "agents"), filepath.Dir(t.root.PolicyPath)} {
			w.Add(dir)
		}
	}
	poll := time.NewTicker(configPoll)
	defer poll.Stop()
	seen := t.rules.Load().newest().digest
	settle := time.NewTimer(0)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if e.Op != fsnotify.Chmod {
				settle.Reset(configSettle)
			}
		case <-poll.C:
			t.offerPending(ctx)
			settle.Reset(0)
		case <-settle.C:
			files, err := ReadConfig(t.root.Config, t.root.PolicyPath)
			digest := files.digest()
			if err != nil {
				digest = "unreadable: " + err.Error()
			}
			if digest == seen {
				continue
			}
			// Once more: what is gone may be on its way back, and what is half may
			// become whole.
			time.Sleep(configSettle)
			again, err2 := ReadConfig(t.root.Config, t.root.PolicyPath)
			if err == nil && (err2 != nil || again.digest() != digest) {
				settle.Reset(configSettle)
				continue
			}
			seen = digest
			if err != nil {
				t.refuseConfig(err)
				continue
			}
			t.reload(ctx, files)
		}
	}
}

// refuseConfig keeps the rules that are there, and says so.
func (t *tree) refuseConfig(err error) {
	t.note(audit.Row{Kind: audit.ConfigRefused, Reason: err.Error(), Details: map[string]any{"generation": t.rules.Load().generation}})
	t.tell("the changed configuration is not taken, the rules that were there stay:\n" + err.Error())
}

// tell says something at every human endpoint, and on standard error of the tree's
// first client. It does not wait: a client that is stopped must not hold the rules
// that were just changed.
func (t *tree) tell(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		t.humans.notify(prompt.Visible(line), t.front)
	}
	select {
	case t.notices <- text:
	default:
		t.ops.Warn().Str("notice", text).Msg("the first client reads nothing")
	}
}

// tellFront sends what tell was given, until the tree ends.
func (t *tree) tellFront() {
	for {
		select {
		case text := <-t.notices:
			for line := range strings.SplitSeq(text, "\n") {
				t.front.Send(control.Message{Notice: &control.Notice{Text: prompt.Visible(line)}})
			}
		case <-t.ctx.Done():
			return
		}
	}
}

// reload takes changed files: what only restricts at once, what allows more when a
// human takes it.
func (t *tree) reload(ctx context.Context, files ConfigFiles) {
	files = t.projectsNow(files)
	next, err := parseRules(files)
	if err == nil {
		err = t.fitRules(next)
	}
	if err != nil {
		t.refuseConfig(err)
		return
	}
	t.reloading.Lock()
	defer t.reloading.Unlock()
	old := t.rules.Load()
	if old.pending == nil && old.newest().digest == next.digest {
		return // these very files count
	}
	if fixed := old.newest().settings.FixedChanges(next.settings); len(fixed) > 0 {
		line := strings.Join(fixed, ", ") + " of config.jsonc changed: this tree keeps what it was started with, the next one takes it"
		t.note(audit.Row{Kind: audit.ConfigRefused, Reason: line, Details: map[string]any{"generation": old.generation}})
		t.tell(line)
	}
	var more []string
	for _, r := range old.proven {
		for _, line := range r.widening(next) {
			if !slices.Contains(more, line) {
				more = append(more, line)
			}
		}
	}
	row := audit.Row{Kind: audit.ConfigLoaded, Details: map[string]any{"generation": old.generation + 1, "files": files.sums()}}
	if len(more) == 0 {
		row.Reason = "it only restricts"
		t.note(row)
		proven := slices.DeleteFunc(slices.Clone(old.proven), func(r *rules) bool { return r.digest == next.digest })
		proven = append(proven, next)
		t.install(&authorities{proven: proven[max(0, len(proven)-maxProven):]})
		t.tell(fmt.Sprintf("configuration taken (generation %d): it only restricts", old.generation+1))
		return
	}
	row.Reason = "what it takes away counts; what it allows more waits for a human: " + strings.Join(more[:min(len(more), 10)], "; ")
	t.note(row)
	t.install(&authorities{proven: old.proven, pending: next, more: more})
	if !t.canTake() {
		t.note(audit.Row{Kind: audit.ConfigRefused, Reason: "it allows more, and nobody can take it" + t.whyNot() + ": " + strings.Join(more[:min(len(more), 10)], "; "), Details: map[string]any{"generation": old.generation + 1}})
		t.tell("the changed configuration allows more, and no human can take it here" + t.whyNot() + ": what it takes away counts, what it adds does not\n" + strings.Join(more[:min(len(more), 10)], "\n"))
		return
	}
	t.tell("the changed configuration allows more: what it takes away counts now, what it adds waits for a human")
	t.offerPending(ctx)
}

// projectsNow are the files with those of the trusted projects that count: nothing
// that their sessions loosened, and nothing new once there was too much of it.
func (t *tree) projectsNow(files ConfigFiles) ConfigFiles {
	now := t.rules.Load().newest()
	changed := slices.ContainsFunc(files.Projects, func(p ProjectFiles) bool {
		return slices.ContainsFunc(now.files.Projects, func(o ProjectFiles) bool { return o.Dir == p.Dir && !reflect.DeepEqual(o, p) })
	})
	if !changed {
		return files
	}
	if t.projectChanges++; t.projectChanges > maxProjectChanges {
		if t.projectChanges == maxProjectChanges+1 {
			t.note(audit.Row{Kind: audit.LimitReached, Reason: fmt.Sprintf("the files of trusted projects changed more than %d times: what they say from now on is for the next tree", maxProjectChanges)})
		}
		files.Projects = slices.Clone(files.Projects)
		for i, p := range files.Projects {
			if j := slices.IndexFunc(now.files.Projects, func(o ProjectFiles) bool { return o.Dir == p.Dir }); j >= 0 {
				files.Projects[i] = now.files.Projects[j]
			}
		}
		return files
	}
	files, kept := now.ratchet(files)
	for _, dir := range kept {
		line := "the files of agents in project " + dir + " allow more than before: they may be written by the tree's own sessions, so that this counts from the next tree on"
		t.note(audit.Row{Kind: audit.ConfigRefused, Reason: line, Details: map[string]any{"generation": t.rules.Load().generation}})
		t.tell(line)
	}
	return files
}

// fitRules refuses files that a running tree cannot take: an agent's file that
// cannot be read keeps the old one, and an authorizer lies where no session writes.
func (t *tree) fitRules(next *rules) error {
	var problems []error
	now := t.rules.Load().newest()
	for _, name := range slices.Sorted(maps.Keys(next.agents)) {
		if a := next.agents[name]; a.invalid != nil && (now.agents[name] == nil || now.agents[name].data != a.data) {
			problems = append(problems, a.invalid)
		}
	}
	t.mu.Lock()
	sessions := slices.Collect(maps.Values(t.sessions))
	t.mu.Unlock()
	for _, s := range sessions {
		if s.restricted() {
			if err := sandbox.CheckWritableRoots(s.writableRoots(), linkPower(next)); err != nil {
				problems = append(problems, fmt.Errorf("session %s: %w", s.title(), err))
			}
		}
	}
	return errors.Join(problems...)
}

// linkPower are the programs of the chain and the key of the reviewer, as places of
// power.
func linkPower(r *rules) map[string]string {
	out := map[string]string{}
	if r.settings == nil {
		return out
	}
	for _, l := range r.settings.Links {
		if l.Command != nil {
			out[l.Command[0]] = "program of authorizer " + l.Name
		}
	}
	for _, o := range r.settings.Observers {
		out[o.Command[0]] = "program of observer " + o.Name
	}
	if v := r.settings.Review; v != nil && v.KeyFile != "" {
		out[v.KeyFile] = "key of the model reviewer"
	}
	return out
}

// canTake says whether somebody could take a change that allows more.
func (t *tree) canTake() bool {
	return t.humans.reachable() && (!t.typedForHuman() || t.humans.hasPhrase())
}

// whyNot says what a human who is here lacks for it.
func (t *tree) whyNot() string {
	if !t.humans.reachable() {
		return ""
	}
	return " (" + strings.Join(t.root.Reach, ", ") + " could type for the human, and no phrase was chosen when the tree was started)"
}

// offerPending asks a human about what waits, if it is not being asked and nobody
// said no.
func (t *tree) offerPending(ctx context.Context) {
	a := t.rules.Load()
	if a.pending == nil || a.declined || !t.canTake() || !t.offering.CompareAndSwap(nil, a) {
		return
	}
	go func() {
		defer t.offering.CompareAndSwap(a, nil)
		t.offerRules(ctx, a)
	}()
}

func (t *tree) offerRules(ctx context.Context, a *authorities) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-a.changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	q := control.Question{
		ID: registry.NewID("config"), Digest: a.pending.digest, Session: "configuration", Strength: "human operation",
		Tool: "reload", Surface: "configuration", Command: "take the changed configuration of " + t.root.Config,
		Reason: fmt.Sprintf("it was changed, and it allows more than the rules of generation %d", a.generation),
	}
	for i, line := range a.more {
		if i == maxShownChanges {
			q.Warnings = append(q.Warnings, fmt.Sprintf("%d more changes are not shown here", len(a.more)-i))
			break
		}
		q.Needs = append(q.Needs, control.Line{Name: "allows more", Text: line})
	}
	if q.PhraseNeeded = t.typedForHuman(); q.PhraseNeeded {
		q.Warnings = append(q.Warnings, "human_channel: reachable ("+strings.Join(t.root.Reach, ", ")+"): an unconfined session could change these files and type here for you, so taking it needs the phrase")
	}
	said, err := t.humans.ask(ctx, q)
	if err != nil {
		return
	}
	t.reloading.Lock()
	defer t.reloading.Unlock()
	if t.rules.Load() != a {
		return // another state of the files came in between
	}
	if said.allows() && !q.PhraseNeeded && t.typedForHuman() {
		return // an unconfined session came in between: it is asked again
	}
	if said.Decision != "allow_once" {
		t.note(audit.Row{Kind: audit.ConfigRefused, Reason: "a human did not take what it allows more", Proof: string(said.Proof), Details: map[string]any{"generation": a.generation}})
		t.install(&authorities{proven: a.proven, pending: a.pending, more: a.more, declined: true})
		t.tell("the changed configuration was declined: what it takes away counts, what it adds does not")
		return
	}
	err = t.log.Write(audit.Row{Kind: audit.ConfigLoaded, Reason: "a human took it: " + strings.Join(a.more[:min(len(a.more), 10)], "; "), Proof: string(said.Proof),
		Details: map[string]any{"generation": a.generation + 1, "files": a.pending.files.sums()}})
	if err != nil {
		t.tell(notWritten(err).Error())
		return
	}
	t.install(&authorities{proven: []*rules{a.pending}})
	t.tell(fmt.Sprintf("configuration taken (generation %d)", a.generation+1))
}
