package shell

import "strings"

// dangerousNames are variables by which a later command runs another program,
// reads another configuration or loads other code.
var dangerousNames = func() map[string]string {
	m := map[string]string{}
	put := func(why, names string) {
		for _, n := range strings.Fields(names) {
			m[n] = why
		}
	}
	put("it decides which files command names run", "PATH")
	put("the shell runs what it names", "BASH_ENV ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS1 PS2 PS4 ZDOTDIR FPATH BASH_ALIASES BASH_CMDS BASH_LOADABLES_PATH BASH_COMPAT")
	put("it changes how the shell splits and finds words", "GLOBIGNORE CDPATH EXECIGNORE FIGNORE histchars POSIXLY_CORRECT TMOUT IGNOREEOF TEXTDOMAIN TEXTDOMAINDIR")
	put("programs read their settings and start-up files there", "HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS")
	put("programs start it", `PAGER EDITOR VISUAL FCEDIT BROWSER SHELL LESSOPEN LESSCLOSE LESS MANPAGER MANOPT SYSTEMD_PAGER BAT_PAGER DELTA_PAGER GH_PAGER GH_EDITOR GH_BROWSER AWS_PAGER
		PSQL_EDITOR PSQL_PAGER KUBE_EDITOR KUBECTL_EXTERNAL_DIFF SUDO_ASKPASS SSH_ASKPASS RSYNC_RSH CVS_RSH TAR_OPTIONS RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS WGETRC CURL_HOME INPUTRC`)
	put("other code is loaded", `NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT PYTHONWARNINGS PYTHONEXECUTABLE
		PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB LUA_INIT LUA_PATH LUA_CPATH PHPRC PHP_INI_SCAN_DIR GEM_HOME GEM_PATH BUNDLE_GEMFILE
		JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS SBT_OPTS JAVA_OPTS DOTNET_STARTUP_HOOKS COMPLUS_PROFILER CORECLR_PROFILER
		OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES GCONV_PATH LOCPATH NLSPATH HOSTALIASES RES_OPTIONS GTK_MODULES QT_PLUGIN_PATH EMACSLOADPATH VIMINIT GVIMINIT EXINIT MYVIMRC VIM VIMRUNTIME
		R_PROFILE R_PROFILE_USER R_ENVIRON JULIA_LOAD_PATH ERL_LIBS ERL_FLAGS ERL_AFLAGS ELIXIR_ERL_OPTIONS AWKPATH AWKLIBPATH MAGIC TERMINFO TERMINFO_DIRS TERMCAP`)
	put("builds run it", `MAKEFLAGS MAKEFILES GNUMAKEFLAGS MFLAGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTDOC CARGO_BUILD_RUSTC CARGO_BUILD_RUSTC_WRAPPER CARGO_HOME
		GOROOT GOTOOLDIR GOENV GOAUTH GOCACHEPROG GOTOOLCHAIN CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER npm_config_script_shell npm_config_node_options npm_config_git NPM_CONFIG_SCRIPT_SHELL npm_config_userconfig NPM_CONFIG_USERCONFIG npm_config_prefix
		AR LD AS COMPILER_PATH GCC_EXEC_PREFIX CPATH LIBRARY_PATH PKG_CONFIG PKG_CONFIG_PATH PYTEST_ADDOPTS PYTEST_PLUGINS ANSIBLE_CONFIG DOCKER_CONFIG DOCKER_HOST KUBECONFIG DOTNET_ROOT`)
	put("it decides whom programs trust", "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED GIT_SSL_NO_VERIFY GIT_SSL_CAINFO PYTHONHTTPSVERIFY")
	put("connections go through it", "http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY ftp_proxy FTP_PROXY GOPROXY")
	return m
}()

// gitSafeNames are GIT_ variables that name no program.
var gitSafeNames = fieldSet(`GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT
	GIT_OPTIONAL_LOCKS GIT_PAGER_IN_USE GIT_LFS_SKIP_SMUDGE GIT_TRACE GIT_CURL_VERBOSE GIT_MERGE_AUTOEDIT GIT_CONFIG_NOSYSTEM GIT_LITERAL_PATHSPECS GIT_SHA GIT_COMMIT GIT_BRANCH GIT_TAG GIT_REF GIT_HASH GIT_VERSION GIT_DEPTH`)

// dangerousName says why giving name a value can change what runs, or "".
func dangerousName(name string, v word) string {
	s := v.val
	switch name {
	case "IFS":
		// A text that sets it has its unquoted expansions split elsewhere; those
		// are unknown words in any case.
		return ""
	case "PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER", "AWS_PAGER", "SYSTEMD_PAGER", "BAT_PAGER", "DELTA_PAGER":
		if v.known() && (s == "cat" || s == "") {
			return ""
		}
	case "GIT_EDITOR", "EDITOR", "VISUAL", "GIT_SEQUENCE_EDITOR", "KUBE_EDITOR":
		if v.known() && (s == "true" || s == ":" || s == "cat") {
			return ""
		}
	case "NODE_OPTIONS":
		if v.known() && onlyOptions(s, "--max-old-space-size", "--max_old_space_size", "--no-warnings", "--trace-warnings", "--stack-trace-limit", "--unhandled-rejections",
			"--experimental-vm-modules", "--enable-source-maps", "--openssl-legacy-provider", "--no-deprecation", "--trace-deprecation", "--experimental-strip-types") {
			return ""
		}
	case "PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB":
		// Code of the workspace is what the interpreter would run anyway.
		if v.known() && s != "" && insideAll(s) {
			return ""
		}
	case "LANG", "LC_ALL", "LC_CTYPE":
		// In some character sets a backslash or a pipe is the second half of a
		// letter, and the shell reads another text than was judged.
		up := strings.ToUpper(s)
		if v.known() && (s == "" || s == "C" || s == "POSIX" || strings.Contains(up, "UTF-8") || strings.Contains(up, "UTF8")) {
			return ""
		}
		return "another character set changes how the shell reads its text"
	case "PYTHONWARNINGS":
		if v.known() && !strings.Contains(s, ".") {
			return ""
		}
	case "GOTOOLCHAIN":
		if v.known() && !strings.ContainsAny(s, "/") {
			return ""
		}
	case "GOPROXY":
		if v.known() && (s == "off" || s == "direct" || strings.HasPrefix(s, "https://proxy.golang.org")) {
			return ""
		}
	case "MAKEFLAGS":
		if v.known() && strings.Trim(s, "-j0123456789ksn ") == "" {
			return ""
		}
	case "LESS":
		if v.known() && !strings.ContainsAny(s, "+oO") {
			return ""
		}
	case "GOFLAGS", "CGO_CFLAGS", "CGO_LDFLAGS", "CGO_CPPFLAGS", "CGO_CXXFLAGS", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "RUSTFLAGS", "RUSTDOCFLAGS":
		if v.known() {
			for _, bad := range []string{"exec", "vettool", "overlay", "wrapper", "plugin", "specs", "linker", "-B", "modfile"} {
				if strings.Contains(s, bad) {
					return "builds run what it names"
				}
			}
			return ""
		}
		return "builds run what it names"
	case "CC", "CXX", "CPP":
		if v.known() && contains([]string{"gcc", "clang", "cc", "g++", "clang++", "c++", "tcc", "musl-gcc", "cpp"}, s) {
			return ""
		}
		return "builds run it"
	}
	if why := dangerousNames[name]; why != "" {
		return why
	}
	up := strings.ToUpper(name)
	switch {
	case strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "DYLD_"), strings.HasPrefix(name, "GLIBC_TUNABLES"), strings.HasPrefix(name, "MALLOC_CONF"):
		return "the loader reads it in every program"
	case strings.HasPrefix(name, "BASH_FUNC_"), strings.Contains(name, "%"), strings.Contains(name, "("):
		return "shells define a function from it"
	case strings.HasPrefix(name, "GIT_") && !gitSafeNames[name] && !strings.HasPrefix(name, "GIT_TRACE"):
		return "git reads its configuration or a program from it"
	case strings.HasPrefix(up, "NPM_CONFIG_") && (strings.Contains(up, "SHELL") || strings.Contains(up, "OPTIONS") || strings.Contains(up, "REGISTRY") || strings.Contains(up, "CAFILE") || strings.Contains(up, "PROXY")):
		return "npm takes its settings from it"
	case strings.HasPrefix(name, "CARGO_") && (strings.HasSuffix(name, "_RUNNER") || strings.HasSuffix(name, "_LINKER") || strings.HasSuffix(name, "_WRAPPER")),
		strings.HasSuffix(up, "_COMMAND"), strings.HasSuffix(up, "_ASKPASS"), strings.HasSuffix(up, "_WRAPPER"), strings.HasSuffix(up, "_EDITOR"),
		strings.HasSuffix(up, "_PAGER"), strings.HasSuffix(up, "_SHELL") && up != "DEFAULT_SHELL", strings.HasSuffix(up, "_LAUNCHER"), strings.HasSuffix(up, "_RSH"):
		return "a program may start it"
	}
	return ""
}

// onlyOptions reports whether s holds only these options, with values.
func onlyOptions(s string, allowed ...string) bool {
	for _, f := range strings.Fields(s) {
		name, _, _ := strings.Cut(f, "=")
		if !contains(allowed, name) {
			return false
		}
	}
	return true
}

// insideAll reports whether every entry of a path list stays below the
// directory it is used in.
func insideAll(list string) bool {
	for _, p := range strings.Split(list, ":") {
		if strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || strings.Contains(p, "..") {
			return false
		}
	}
	return true
}
