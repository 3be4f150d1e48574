package supervisor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/sandbox"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// changesMeaning names the variables whose value changes what a command is, so that
// a rule which names the command was not written for it.
func changesMeaning(name string) bool {
	switch name {
	case "PATH", "HOME", "SHELL", "BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "MAKEFILES", "MAKEFLAGS",
		"LESSOPEN", "LESSCLOSE", "PAGER", "EDITOR", "VISUAL", "BROWSER", "OPENSSL_CONF", "GCONV_PATH", "RUSTC_WRAPPER",
		"DOTNET_STARTUP_HOOKS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP",
		"PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "GOFLAGS", "CLASSPATH":
		return true
	}
	for _, p := range []string{"XDG_", "GIT_", "LD_", "DYLD_", "npm_config_", "NPM_CONFIG_", "CARGO_", "PIP_", "BASH_FUNC_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "_proxy")
}

// environment returns what the command gets, and the entries of the client that
// differ from the session's base: those are shown, judged and bound.
func (t *tree) environment(w *wish, client []string) (env, diff []string) {
	s := w.s
	ours := func(name string) bool { return strings.HasPrefix(name, "PIONEER_SUPER_") || inventory(name) }
	client = withoutEnv(client, ours)
	if s == nil {
		return client, nil
	}
	differs := func(e string) {
		diff = append(diff, e)
		if name, _, _ := strings.Cut(strings.TrimSuffix(e, " (unset)"), "="); changesMeaning(name) {
			w.changes = append(w.changes, name)
		}
	}
	free := !s.restricted() && w.op == control.OpExec
	switch {
	case free:
		// It gets what its client has; what is new or missing there is said all the same.
		env = withEnv(client, t.ours(s)...)
		for _, e := range withoutEnv(s.given, ours) {
			name, _, _ := strings.Cut(e, "=")
			if _, ok := lookupEnv(client, name); !ok && !unshown(name, "") {
				differs(name + " (unset)")
			}
		}
	case w.op == control.OpExec:
		env = slices.Clone(s.tools)
	default:
		env = slices.Clone(s.base)
	}
	kept := client
	if !free {
		kept, _ = sandbox.FilterEnvironment(client, nil)
	}
	for _, e := range kept {
		name, value, _ := strings.Cut(e, "=")
		if unshown(name, value) || s.adapter != nil && s.adapter.Tool != nil && s.adapter.Tool(name) {
			if name != "PWD" && name != "OLDPWD" && name != "_" && name != "SHLVL" {
				env = withEnv(env, e)
			}
			continue
		}
		if t.known(s, name, value) {
			continue
		}
		differs(e)
		env = withEnv(env, e)
	}
	slices.Sort(diff)
	return env, diff
}

// known says that a client only hands on what this tree started it with: as its
// session's agent, or as a tool of it.
func (t *tree) known(s *session, name, value string) bool {
	if slices.Contains(proxyConstants, name+"="+value) {
		return true // its own tokens were taken out as passwords
	}
	for _, env := range [][]string{s.base, s.given, s.tools} {
		if is, ok := lookupEnv(env, name); ok && is == value {
			return true
		}
	}
	return false
}

// toolBase is the environment of the session's tools: its agent's, filtered.
func (s *session) toolBase(t *tree) []string {
	kept, _ := sandbox.FilterEnvironment(s.base, nil)
	kept = withoutEnv(kept, inventory)
	shell := t.root.Bash
	if shell == "" {
		shell = t.root.Sh
	}
	path, _ := lookupEnv(kept, "PATH")
	kept = withEnv(kept, "SHELL="+shell, "TMPDIR="+s.temp, "GIT_TERMINAL_PROMPT=0", "PATH="+t.withOurs(path))
	kept = withEnv(kept, sandbox.CacheEnvironment(s.cache, t.hostCaches(s))...)
	return withEnv(kept, t.ours(s)...)
}

// withOurs is a PATH on which this binary is found: a tool may ask and spawn as
// its agent may. Ours is first, since what the operator installed (say in ~/bin)
// is a file that a sandbox cannot read, but that a shell finds and stops at. The
// directory holds this one name, so it hides nothing else.
func (t *tree) withOurs(path string) string {
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	if path == t.links.bin || strings.HasPrefix(path, t.links.bin+":") {
		return path
	}
	return t.links.bin + ":" + path
}

func (t *tree) hostCaches(s *session) map[string]string {
	out := map[string]string{"HOME": t.root.Home}
	for _, name := range []string{"GOMODCACHE", "GOPATH", "GOCACHE", "GOPROXY", "GOFLAGS", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"} {
		if v, ok := lookupEnv(s.base, name); ok {
			out[name] = v
		}
	}
	return out
}

// ours are the variables by which a process finds its tree.
func (t *tree) ours(s *session) []string {
	return []string{
		"PIONEER_SUPER_HOME=" + t.places.State,
		"PIONEER_SUPER_TREE=" + t.root.Tree,
		"PIONEER_SUPER_SESSION=" + s.id,
		fmt.Sprintf("PIONEER_SUPER_DEPTH=%d", s.depth),
		"PIONEER_SUPER_SOCKET=" + filepath.Join(s.ctl, "ctl"),
	}
}
