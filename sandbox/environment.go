package sandbox

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// The filter of names, as data. A name is cut into words at everything that is neither letter
// nor digit and where a small letter meets a capital; words are compared in capitals.

// secretEndings name a secret when a word ends in one of them: TOKEN, AUTHTOKEN, PGPASSWORD.
var secretEndings = []string{
	"TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSPHRASES",
	"CREDENTIAL", "CREDENTIALS", "CREDS", "APIKEY", "APIKEYS",
}

// secretPairs name a secret when the two words follow each other anywhere: API_KEY_PROD.
// A name whose last word ends in KEY or KEYS is one too.
var secretPairs = [][2]string{
	{"API", "KEY"}, {"API", "KEYS"}, {"ACCESS", "KEY"}, {"PRIVATE", "KEY"}, {"SECRET", "KEY"}, {"SIGNING", "KEY"},
	{"ENCRYPTION", "KEY"}, {"DEPLOY", "KEY"}, {"SSH", "KEY"}, {"MASTER", "KEY"}, {"SERVICE", "ACCOUNT"},
	{"AUTH", "CONFIG"}, {"CONNECTION", "STRING"},
}

// exactSecrets are names that the rules above do not reach, or that lead to a secret.
var exactSecrets = []string{
	"GH_PAT", "GITHUB_PAT", "GITLAB_PAT", "AZURE_DEVOPS_EXT_PAT", "NPM_AUTH", "NODE_AUTH", "REDISCLI_AUTH", "MYSQL_PWD",
	"SSHPASS", "PGPASSFILE", "PGSERVICEFILE", "NETRC", "KUBECONFIG", "BOTO_CONFIG", "AWS_CONFIG_FILE",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "CLOUDSDK_CONFIG",
	"ANSIBLE_VAULT_PASSWORD_FILE", "SOPS_AGE_KEY_FILE", "KRB5CCNAME", "KRB5_KTNAME", "RCLONE_CONFIG", "DOCKER_CONFIG",
	"REGISTRY_AUTH_FILE", "GNUPGHOME", "PASSWORD_STORE_DIR",
}

// injected are names through which a loader, a shell or git runs what the value says before
// or beside the command. Build tools' own (GOFLAGS, NODE_OPTIONS, PYTHONPATH …) pass: they
// change what a program does and cannot widen what it may.
var injected = []string{
	"LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES",
	"BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_*", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "GLOBIGNORE",
	"ZDOTDIR", "MAKEFILES", "LESSOPEN", "LESSCLOSE",
	"GIT_SSH*", "GIT_CONFIG_*", "GIT_CONFIG", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_ASKPASS",
	"GIT_PROXY_COMMAND", "SSH_ASKPASS*", "SUDO_ASKPASS",
}

// reaching are names that lead to something outside that acts for the user: buses, agents,
// displays, multiplexers, engines, and the forwarding of asks, which is set anew for each session.
var reaching = []string{
	"DBUS_*", "XDG_RUNTIME_DIR", "SESSION_MANAGER", "DESKTOP_STARTUP_ID", "XDG_ACTIVATION_TOKEN",
	"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "INVOCATION_ID", "JOURNAL_STREAM", "MANAGERPID",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "GPG_AGENT_INFO", "GPG_TTY",
	"GNOME_KEYRING_*", "KEYRING_*",
	"DISPLAY", "WAYLAND_*", "XAUTHORITY", "SWAYSOCK", "I3SOCK", "HYPRLAND_*", "NIRI_SOCKET", "PULSE_*", "PIPEWIRE_*",
	"TMUX", "TMUX_*", "STY", "ZELLIJ*", "KITTY_*", "WEZTERM_*", "ALACRITTY_*", "TERM_SESSION_ID", "ITERM_*",
	"NVIM", "NVIM_*", "VIM_*", "EMACS_SOCKET_NAME", "VSCODE_*",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "CONTAINER_HOST", "CONTAINERD_ADDRESS", "PODMAN_*",
	"BUILDKIT_HOST", "LIBVIRT_*", "WATCHMAN_SOCK", "WSL_INTEROP", "PIPENV_ACTIVE_SOCKET",
	"PIONEER_SUPER_*", "PI_IS_SUBAGENT", "PI_SUBAGENT_*", "PI_AGENT_ROUTER_*",
}

// everyday are names whose value is never taken for a secret, whatever it equals: a
// password that happens to be the user's name must not take USER away.
var everyday = []string{
	"HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TERM", "COLORTERM", "LANG", "LANGUAGE", "LC_*", "TZ",
	"TMPDIR", "EDITOR", "VISUAL", "PAGER", "HOSTNAME", "SHLVL", "_",
}

const (
	shortestSecret = 8  // a shorter value says too little to be recognised by
	shortestInside = 16 // from this length on, a value that contains a secret is one
)

// FilterEnvironment divides env ("NAME=value") into what a confined command gets and the
// names of what it does not. Dropped are names of secrets; names whose value is, or holds,
// a secret that was found so; names through which a loader, a shell or git is made to run
// something; names that lead to buses, agents, displays and the forwarding of asks; values
// that are a URL with a password in it, for a proxy; entries without a name, and of a
// repeated name all but the last, which is the one that a shell would see.
//
// keep, which may be nil, is asked for each name that would be dropped for its name or value
// and may let it stay: an agent's own model key. Order is kept; dropped is sorted.
func FilterEnvironment(env []string, keep func(name string) bool) (kept []string, dropped []string) {
	if keep == nil {
		keep = func(string) bool { return false }
	}
	last := map[string]int{}
	for i, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	secrets := secretValues(env)
	for i, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "" || strings.IndexByte(entry, 0) >= 0:
			dropped = append(dropped, name)
		case last[name] != i:
		case !passes(name, value, secrets) && !keep(name):
			dropped = append(dropped, name)
		default:
			kept = append(kept, entry)
		}
	}
	slices.Sort(dropped)
	return kept, slices.Compact(dropped)
}

func passes(name, value string, secrets []string) bool {
	if SecretName(name) || matchesAny(name, injected) || matchesAny(name, reaching) || functionBody(value) {
		return false
	}
	if matchesAny(name, everyday) {
		return true
	}
	if strings.HasSuffix(strings.ToUpper(name), "_PROXY") && hasPassword(value) {
		return false
	}
	return !slices.ContainsFunc(secrets, func(secret string) bool {
		return value == secret || len(secret) >= shortestInside && strings.Contains(value, secret)
	})
}

// functionBody is what older shells take for a function of their own.
func functionBody(value string) bool { return strings.HasPrefix(value, "() {") }

// secretValues are the values that stand under a secret's name. Paths and short values
// are left out: they equal too much that is none.
func secretValues(env []string) []string {
	var out []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if SecretName(name) && len(value) >= shortestSecret && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~") {
			out = append(out, value)
		}
	}
	return out
}

// SecretName is true for a name that says its value is a secret.
func SecretName(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	if last := words[len(words)-1]; strings.HasSuffix(last, "KEY") || strings.HasSuffix(last, "KEYS") {
		return true
	}
	for i, word := range words {
		if slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(word, ending) }) {
			return true
		}
		if i+1 < len(words) && slices.Contains(secretPairs, [2]string{word, words[i+1]}) {
			return true
		}
	}
	upper := strings.ToUpper(name)
	if slices.Contains(exactSecrets, upper) {
		return true
	}
	// npm reads its registry credentials from npm_config_…_auth and …:_auth.
	return strings.HasPrefix(upper, "NPM_CONFIG_") && strings.HasSuffix(upper, "_AUTH")
}

func wordsOf(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToUpper(string(word)))
			word = word[:0]
		}
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && unicode.IsLower(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// matchesAny compares name, in capitals, with names of which the last character may be *.
func matchesAny(name string, patterns []string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(upper, prefix)
		}
		return upper == pattern
	})
}

func hasPassword(value string) bool {
	u, err := url.Parse(value)
	if err != nil {
		return strings.Contains(value, "@")
	}
	_, set := u.User.Password()
	return set
}
