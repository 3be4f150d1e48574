package sandbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretNames(t *testing.T) {
	for _, name := range []string{
		"TOKEN", "GITHUB_TOKEN", "github_token", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "OPENAI_API_KEY",
		"ANTHROPIC_API_KEY", "API_KEY_PROD", "OPENAI_API_KEYS", "apiKey", "MyApiKey", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "SSHPASS",
		"BORG_PASSPHRASE", "DEPLOYKEY", "SSH_KEY", "SIGNING_KEY_2", "GOOGLE_APPLICATION_CREDENTIALS", "CLIENT_SECRET", "SECRETS",
		"npm_config_//registry.npmjs.org/:_authToken", "npm_config__auth", "NPM_CONFIG_REGISTRY_AUTH", "KUBECONFIG", "VAULT_TOKEN",
		"AZURE_STORAGE_CONNECTION_STRING", "DOCKER_AUTH_CONFIG", "REDISCLI_AUTH", "accessToken", "PRIVATE-KEY", "X.SECRET",
	} {
		if !SecretName(name) {
			t.Errorf("%s is taken for no secret", name)
		}
	}
	for _, name := range []string{
		"", "PATH", "HOME", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "KEYBOARD_LAYOUT", "XKB_DEFAULT_LAYOUT", "GOPATH", "JAVA_HOME", "VIRTUAL_ENV",
		"DATABASE_URL", "PWD", "OLDPWD", "FOO", "TOKENIZERS_PARALLELISM", "GOFLAGS", "NODE_OPTIONS", "PYTHONPATH", "KEY_REPEAT", "PASSENGERS",
		"AUTHOR", "CARGO_HOME", "npm_config_cache", "SECRETARY", "_", "LC_ALL", "COMPASS",
	} {
		if SecretName(name) {
			t.Errorf("%s is taken for a secret", name)
		}
	}
}

func TestFilterEnvironment(t *testing.T) {
	env := []string{
		"HOME=/home/u", "PATH=/usr/bin", "USER=postgres", "FOO=1", "GOFLAGS=-mod=mod", "NODE_OPTIONS=--max-old-space-size=1", "PYTHONPATH=lib",
		"DATABASE_URL=postgres://localhost/db", "GIT_AUTHOR_NAME=A", "EMPTY=", "LC_ALL=C",
		"DB_PASSWORD=postgres", "GH_TOKEN=ghp_0123456789abcdef", "COPY=ghp_0123456789abcdef", "REMOTE=https://x:ghp_0123456789abcdef@github.com/a",
		"SHORT_TOKEN=1", "ONE=1", "SSH_KEY=/home/u/.ssh/id_ed25519", "WHERE=/home/u/.ssh/id_ed25519",
		"ANTHROPIC_API_KEY=sk-ant-0123456789", "MODEL_KEY_COPY=sk-ant-0123456789",
		"LD_PRELOAD=x.so", "DYLD_INSERT_LIBRARIES=x", "BASH_ENV=x", "ENV=x", "PROMPT_COMMAND=x", "BASH_FUNC_git%%=() { x; }", "IFS=x", "PS4=$(x)",
		"GIT_SSH_COMMAND=x", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_GLOBAL=x", "GIT_EXTERNAL_DIFF=x", "GIT_EXEC_PATH=x", "SHELLOPTS=xtrace", "OLD=() { x; }",
		"SSH_AUTH_SOCK=/run/a", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/b", "XDG_RUNTIME_DIR=/run/user/1", "DISPLAY=:0", "WAYLAND_DISPLAY=w", "TMUX=/tmp/t",
		"DOCKER_HOST=unix:///x", "VSCODE_IPC_HOOK_CLI=x", "NOTIFY_SOCKET=x", "PIONEER_SUPER_SOCKET=x", "PI_SUBAGENT_PARENT_SESSION=x", "PI_IS_SUBAGENT=1",
		"HTTP_PROXY=http://proxy:3128", "https_proxy=http://u:p@proxy:3128", "no equals sign", "=nothing", "TWICE=first", "TWICE=second", "ZERO=a\x00b",
	}
	kept, dropped := FilterEnvironment(env, func(name string) bool { return name == "ANTHROPIC_API_KEY" })
	want := []string{
		"HOME=/home/u", "PATH=/usr/bin", "USER=postgres", "FOO=1", "GOFLAGS=-mod=mod", "NODE_OPTIONS=--max-old-space-size=1", "PYTHONPATH=lib",
		"DATABASE_URL=postgres://localhost/db", "GIT_AUTHOR_NAME=A", "EMPTY=", "LC_ALL=C", "ONE=1", "WHERE=/home/u/.ssh/id_ed25519",
		"ANTHROPIC_API_KEY=sk-ant-0123456789", "HTTP_PROXY=http://proxy:3128", "TWICE=second",
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSorted(dropped) || !slices.Contains(dropped, "COPY") || !slices.Contains(dropped, "MODEL_KEY_COPY") {
		t.Errorf("dropped %q", dropped)
	}
	if kept, _ := FilterEnvironment(env, nil); slices.ContainsFunc(kept, func(e string) bool { return strings.Contains(e, "sk-ant") }) {
		t.Errorf("without keep the model's key stays: %q", kept)
	}
}

// Nothing is invented, nothing that is dropped stays, and filtering twice changes nothing more.
func FuzzFilterEnvironment(f *testing.F) {
	f.Add("A=1\nGH_TOKEN=0123456789\nB=0123456789\nLD_PRELOAD=x\nA=2")
	f.Fuzz(func(t *testing.T, text string) {
		env := strings.Split(text, "\n")
		kept, dropped := FilterEnvironment(env, nil)
		for _, entry := range kept {
			name, _, _ := strings.Cut(entry, "=")
			if !slices.Contains(env, entry) || slices.Contains(dropped, name) && SecretName(name) {
				t.Fatalf("kept %q of %q", entry, env)
			}
		}
		again, none := FilterEnvironment(kept, nil)
		if !slices.Equal(again, kept) || len(none) != 0 {
			t.Fatalf("filtered again: %q, dropped %q", again, none)
		}
	})
}

func TestCacheEnvironment(t *testing.T) {
	got := CacheEnvironment("/c", map[string]string{"HOME": "/home/u", "GOFLAGS": "-mod=mod"})
	for _, want := range []string{
		"GOCACHE=/c/go-build", "GOMODCACHE=/c/go-mod", "npm_config_cache=/c/npm", "PIP_CACHE_DIR=/c/pip", "XDG_CACHE_HOME=/c/xdg",
		"GIT_CONFIG_GLOBAL=/c/gitconfig", "GOPROXY=file:///home/u/go/pkg/mod/cache/download,https://proxy.golang.org,direct",
		"GOFLAGS=-mod=mod -modcacherw",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %q", want, got)
		}
	}
	if !slices.IsSorted(got) {
		t.Error("not sorted")
	}
	for host, want := range map[string]string{"GOMODCACHE": "file:///m/cache/download,", "GOPATH": "file:///m/pkg/mod/cache/download,"} {
		value := "/m"
		if host == "GOPATH" {
			value = "/m:/n"
		}
		got := CacheEnvironment("/c", map[string]string{host: value, "HOME": "/home/u", "GOPROXY": "off"})
		if !slices.Contains(got, "GOPROXY="+want+"off") {
			t.Errorf("%s=%s: %q", host, value, got)
		}
	}
}

func TestGitConfig(t *testing.T) {
	original := `# comment
[user]
	name = A "B" C
	email = a@example.org
	signingkey = SECRET
[User]
	NAME = D
[core]
	autocrlf
	sshCommand = evil
	pager = evil \
	name = continued
	quotepath = off
[init]
	defaultBranch = main
[include]
	path = /secret
[credential "https://github.com"]
	helper = store
[url "https://token@github.com/"]
	insteadOf = https://github.com/
[user "x"]
	name = subsection
[alias]
	x = !evil
[http]
	extraHeader = Authorization: SECRET
[broken
	name = broken
`
	want := `[user]
	name = A "B" C
[user]
	email = a@example.org
[user]
	name = D
[core]
	autocrlf = true
[core]
	quotepath = off
[init]
	defaultbranch = main
`
	if diff := cmp.Diff(want, string(GitConfig([]byte(original)))); diff != "" {
		t.Error(diff)
	}
	if got := GitConfig(make([]byte, largestGitConfig+1)); len(got) != 0 {
		t.Errorf("an oversized file became %d bytes", len(got))
	}
}

func FuzzGitConfig(f *testing.F) {
	f.Add([]byte("[user]\n\tname = x\n[include]\n\tpath = y\n"))
	f.Fuzz(func(t *testing.T, original []byte) {
		once := GitConfig(original)
		for line := range strings.Lines(string(once)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "=")
			section := strings.HasPrefix(line, "[")
			known := slices.ContainsFunc(gitKeys, func(key string) bool { return strings.HasSuffix(key, "."+strings.TrimSpace(name)) })
			if !section && !known {
				t.Fatalf("line %q of %q", line, original)
			}
		}
		if again := GitConfig(once); string(again) != string(once) {
			t.Fatalf("a copy of the copy differs: %q %q", once, again)
		}
	})
}
