package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
)

// maxRuleFile bounds every file of rules that a command reads, in bytes.
const maxRuleFile = 4 << 20

// ruleFile is a file that authority is composed from.
type ruleFile struct {
	Path string `json:"path"`
	// Present is false where there is no such file, which is no mistake.
	Present bool   `json:"present"`
	SHA256  string `json:"sha256,omitempty"`
	data    []byte
}

// readRuleFile reads a bounded file. A folder is refused; a pipe, which a shell
// puts in the place of <(…), is read like a file.
func readRuleFile(path string) (ruleFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return ruleFile{Path: path}, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return ruleFile{Path: path}, err
	} else if st.IsDir() {
		return ruleFile{Path: path}, fmt.Errorf("%s: a folder, expected a file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRuleFile+1))
	if err != nil {
		return ruleFile{Path: path}, err
	}
	if len(data) > maxRuleFile {
		return ruleFile{Path: path}, fmt.Errorf("%s: more than %d bytes", path, maxRuleFile)
	}
	sum := sha256.Sum256(data)
	return ruleFile{Path: path, Present: true, SHA256: hex.EncodeToString(sum[:]), data: data}, nil
}

// readConfigFile is readRuleFile for a file that may be missing.
func readConfigFile(path string) (ruleFile, error) {
	f, err := readRuleFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ruleFile{Path: path}, nil
	}
	return f, err
}

// noRuleNamesIt is the reason of the default that a policy file has when it is
// asked alone.
const noRuleNamesIt = "no rule of the file names it"

// composed is the authority that a command asks, and what it was made of.
type composed struct {
	chain  []*policy.Authority
	layers policy.Layers
	// alone says that one file is asked without a mode: what no rule names is
	// asked, and nothing has roots.
	alone bool
	// policy, guards, settings and agent are the files, where they count.
	policy, guards, settings *ruleFile
	// agents are the files of the agent: the operator's, then the trusted projects'.
	agents    []*ruleFile
	parsed    *policy.Settings
	cwd, home string
	// notes say what a reader of an explanation has to know.
	notes []string
}

// request is what a command wants composed.
type request struct {
	policy string // a file that is asked alone
	mode   policy.Mode
	agent  string
	cwd    string
	home   string
}

// compose makes the authority of here: from one policy file alone, which needs
// neither configuration nor state, or from the configuration directory. A
// mistake in a file is an error with every mistake of it; a broken agent file
// makes the authority fail closed, as it does in a tree.
func compose(r request) (*composed, error) {
	c := &composed{cwd: r.cwd, home: r.home}
	var err error
	state := ""
	if r.policy != "" {
		if r.agent != "" {
			return nil, errors.New("--agent: its file is in the configuration directory, which --policy leaves aside")
		}
		c.alone = r.mode == ""
		err = c.readPolicy(r.policy, true)
	} else {
		var places registry.Places
		if places, err = findPlaces(); err != nil {
			return nil, exit(125, "%v", err)
		}
		state = places.State
		err = c.readConfig(places.Config, r.agent)
	}
	if err != nil {
		return nil, err
	}
	source := policy.SourceComposer
	if r.mode == "" {
		source = policy.SourceDefaulted
	}
	exists := func(p string) bool { _, err := os.Lstat(p); return err == nil }
	workspace, err := sandbox.Workspace(c.cwd, c.home, state, exists)
	if err != nil {
		workspace = ""
		if r.mode != "" && r.mode != policy.FullAccess {
			c.notes = append(c.notes, err.Error()+": a session in this mode does not start here")
		}
	}
	if file := filepath.Join(workspace, policy.ProjectAgents, r.agent+".md"); r.agent != "" && workspace != "" && exists(file) && len(c.parsed.Trusted(canonical(c.cwd))) == 0 {
		c.notes = append(c.notes, file+" is ignored: "+workspace+" is not in trustedProjects of config.jsonc")
	}
	c.finish(c.parsed.Input(policy.ResolveInput{Mode: r.mode, Source: source, Workspace: workspace, Cwd: c.cwd}))
	return c, nil
}

// finish makes the authority of what was read.
func (c *composed) finish(in policy.ResolveInput) {
	c.layers.Snapshot = policy.Resolve(in)
	if c.alone && c.layers.Policy.Universal == nil {
		// Whoever asks one file wants to know what the file says. Where it says
		// nothing the answer is what a human would be asked, not a mode's.
		c.layers.Policy.Universal = &policy.Rule{Surface: "*", Pattern: "*", Action: policy.Ask, Reason: noRuleNamesIt, Origin: policy.Origin{Authority: "builtin"}}
	}
	c.chain = []*policy.Authority{policy.Compose(c.layers)}
}

func (c *composed) readPolicy(path string, needed bool) error {
	read := readConfigFile
	if needed {
		read = readRuleFile
	}
	f, err := read(path)
	if err != nil {
		return err
	}
	c.policy = &f
	if f.Present {
		c.layers.Policy, err = policy.ParsePolicy(path, f.data)
	}
	return err
}

func (c *composed) readConfig(dir, agent string) error {
	var problems []error
	problems = append(problems, c.readPolicy(filepath.Join(dir, "policy.jsonc"), false))
	guards, err := readConfigFile(filepath.Join(dir, "hard-guards.jsonc"))
	if err == nil && guards.Present {
		c.layers.Guards, err = policy.ParseGuards(guards.Path, guards.data)
	}
	problems, c.guards = append(problems, err), &guards
	settings, err := readConfigFile(filepath.Join(dir, "config.jsonc"))
	if err == nil && settings.Present {
		if c.parsed, err = policy.ParseSettings(settings.Path, settings.data); err == nil {
			c.layers.Yolo, c.layers.YoloOrigin = c.parsed.Yolo, c.parsed.YoloOrigin
		}
	}
	problems, c.settings = append(problems, err), &settings
	if err := errors.Join(problems...); err != nil {
		return err
	}
	c.notes = append(c.notes, "composed from the files of "+dir+"; inside a tree the session's own authority decides, with its ancestors', caps and grants")
	if agent == "" {
		return nil
	}
	if err := checkAgentName(agent); err != nil {
		return err
	}
	paths := []string{filepath.Join(dir, "agents", agent+".md")}
	for _, p := range c.parsed.Trusted(canonical(c.cwd)) {
		paths = append(paths, filepath.Join(p, policy.ProjectAgents, agent+".md"))
	}
	for _, path := range paths {
		c.readAgent(agent, path)
	}
	return nil
}

func (c *composed) readAgent(agent, path string) {
	file, err := readConfigFile(path)
	if err == nil && file.Present {
		var parsed *policy.Agent
		if parsed, err = policy.ParseAgent(file.Path, file.data); err == nil && parsed.Permission != nil {
			c.layers.Frontmatter = append(c.layers.Frontmatter, parsed.Permission)
		}
	}
	c.agents = append(c.agents, &file)
	if err != nil {
		c.layers.InvalidScope = file.Path
		c.notes = append(c.notes, "what would be allowed is asked, since the agent's file cannot be used: "+err.Error())
	} else if !file.Present {
		c.notes = append(c.notes, "agent "+agent+" has no file "+file.Path+": nothing restricts it further")
	}
}

func checkAgentName(name string) error {
	if len(name) > 200 || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00\n\x1b") {
		return fmt.Errorf("--agent %q: expected a name of at most 200 characters without slashes and control characters", name)
	}
	return nil
}

// free says that a session without confinement is asked whose rules say nothing
// of commands: then what cannot be seen through is allowed, and recorded.
func (c *composed) free() bool {
	if c.alone || c.layers.Snapshot.Profile.Mode != policy.FullAccess {
		return false
	}
	for _, a := range c.chain {
		if ask, deny := a.Mentions("bash"); ask || deny {
			return false
		}
	}
	return true
}

// changeable says whether the session could change that file, which is real: what
// lies in its workspace, and what a restricted one may write.
func (c *composed) changeable(file string) bool {
	s := c.layers.Snapshot
	if w := s.Sandbox.Workspace; w != "" && strings.HasPrefix(file, w+"/") {
		return true
	}
	return s.Profile.Mode != policy.FullAccess && s.Open.CanWrite(file)
}

// maxLinks is how many links that lead nowhere are followed one after the other,
// as many as Linux follows.
const maxLinks = 40

// canonical follows the links of an absolute path as far as it exists.
func canonical(path string) string { return filepath.FromSlash(policy.RealPath(path, realHere)) }

// realHere says where a path of this machine leads. A link to something that is
// not there leads to it all the same: whoever writes through it makes it.
func realHere(path string) (string, bool) {
	for range maxLinks {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, true
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", false
		}
		// The folder of a link is real before ".." is taken from it.
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", false
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		path = filepath.Clean(to)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(dir, filepath.Base(path)), true
		}
		return path, true
	}
	return "", false
}
