package sandbox

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// caches are the variables that move a tool's cache, with its place below the session's cache
// directory. Host caches are neither read (they may hold credentials beside the cache) nor
// written (what a command plants there would run outside tomorrow).
var caches = []struct{ name, place string }{
	{"BUN_INSTALL_CACHE_DIR", "bun"},
	{"BUNDLE_USER_CACHE", "bundle"},
	{"CARGO_HOME", "cargo"},
	{"CCACHE_DIR", "ccache"},
	{"COMPOSER_CACHE_DIR", "composer"},
	{"DENO_DIR", "deno"},
	{"GOCACHE", "go-build"},
	{"GOLANGCI_LINT_CACHE", "golangci-lint"},
	{"GOMODCACHE", "go-mod"},
	{"GRADLE_USER_HOME", "gradle"},
	{"NUGET_PACKAGES", "nuget"},
	{"PIP_CACHE_DIR", "pip"},
	{"POETRY_CACHE_DIR", "poetry"},
	{"PUB_CACHE", "pub"},
	{"STATICCHECK_CACHE", "staticcheck"},
	{"UV_CACHE_DIR", "uv"},
	{"XDG_CACHE_HOME", "xdg"},
	{"YARN_CACHE_FOLDER", "yarn"},
	{"npm_config_cache", "npm"},
	{"npm_config_store_dir", "pnpm"},
	{"npm_config_userconfig", "npmrc"},
}

// CacheEnvironment is what is set for a command whose caches are at cache, sorted: each
// known tool's cache below it, and git's configuration.
//
// host is the operator's environment, by name; of it HOME, GOPATH, GOMODCACHE, GOPROXY and GOFLAGS
// are read. Go finds modules that the operator already has through a file proxy on the host's module cache, which is
// readable as a listed toolchain; the checksums of go.sum hold as ever.
//
// GIT_CONFIG_GLOBAL names <cache>/gitconfig, which the caller writes with [GitConfig]: git
// ends with status 128 when the user's own file exists and cannot be read.
func CacheEnvironment(cache string, host map[string]string) []string {
	out := make([]string, 0, len(caches)+4)
	for _, c := range caches {
		out = append(out, c.name+"="+filepath.Join(cache, c.place))
	}
	out = append(out, "GIT_CONFIG_GLOBAL="+filepath.Join(cache, "gitconfig"))
	if modules := hostModules(host); modules != "" {
		rest := host["GOPROXY"]
		if rest == "" {
			rest = "https://proxy.golang.org,direct"
		}
		out = append(out, "GOPROXY=file://"+filepath.ToSlash(filepath.Join(modules, "cache", "download"))+","+rest)
	}
	if flags := host["GOFLAGS"]; !strings.Contains(flags, "-modcacherw") {
		// Without it the module cache is read-only, and whoever ends the session cannot remove it.
		out = append(out, "GOFLAGS="+strings.TrimSpace(flags+" -modcacherw"))
	}
	slices.Sort(out)
	return out
}

func hostModules(host map[string]string) string {
	switch {
	case host["GOMODCACHE"] != "":
		return host["GOMODCACHE"]
	case host["GOPATH"] != "":
		first, _, _ := strings.Cut(host["GOPATH"], string(filepath.ListSeparator))
		return filepath.Join(first, "pkg", "mod")
	case host["HOME"] != "":
		return filepath.Join(host["HOME"], "go", "pkg", "mod")
	}
	return ""
}

// gitKeys are the settings that a copy of the user's git configuration keeps: those that say who
// commits and how history looks. None of them names a program, a file or a credential.
var gitKeys = []string{
	"user.name", "user.email", "init.defaultbranch", "core.autocrlf", "core.eol", "core.filemode", "core.ignorecase",
	"core.quotepath", "core.abbrev", "color.ui", "pull.rebase", "pull.ff", "push.default", "merge.ff",
	"merge.conflictstyle", "rebase.autostash", "rebase.autosquash", "diff.algorithm", "diff.renames",
	"fetch.prune", "rerere.enabled", "branch.sort", "tag.sort", "log.date", "status.short", "advice.detachedhead",
	"commit.verbose", "help.autocorrect", "safe.directory",
}

const largestGitConfig = 1 << 20

// GitConfig is the copy of a user's git configuration that a confined command reads: the
// settings of a short list, one plain line each. Sections with a subsection, settings continued
// over lines, includes and everything that may run or reveal something stay behind.
func GitConfig(original []byte) []byte {
	if len(original) > largestGitConfig {
		original = nil
	}
	var out bytes.Buffer
	section, continued := "", false
	for line := range strings.Lines(string(original)) {
		line = strings.TrimSpace(line)
		wasContinued := continued
		continued = strings.HasSuffix(line, "\\")
		switch {
		case wasContinued || continued || line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			section = ""
			if name, ok := strings.CutSuffix(line[1:], "]"); ok && !strings.ContainsAny(name, " \t\"[]") {
				section = strings.ToLower(name)
			}
			continue
		}
		name, value, set := strings.Cut(line, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if section == "" || !slices.Contains(gitKeys, section+"."+name) || strings.ContainsAny(value, "\x00\r") {
			continue
		}
		if !set {
			value = "true"
		}
		out.WriteString("[" + section + "]\n\t" + name + " = " + strings.TrimSpace(value) + "\n")
	}
	return out.Bytes()
}
