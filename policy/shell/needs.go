package shell

import (
	"net/url"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// sessionRunners execute files of the workspace: what they do is whatever those
// files say at that moment.
var sessionRunners = fieldSet(`make gmake ninja just task mage cmake ctest meson bazel bazelisk gradle gradlew mvn mvnw ant sbt lein dotnet msbuild xcodebuild
	npm pnpm yarn bun npx bunx pnpx tsx ts-node jest vitest mocha webpack vite next nuxt turbo nx rollup esbuild playwright cypress eslint prettier tsc biome
	python python2 python3 pypy pypy3 node nodejs deno perl ruby php lua luajit Rscript julia java scala groovy elixir mix iex rebar3
	pytest tox nox hatch poetry pipenv uv pdm rye coverage pre-commit alembic flask django-admin uvicorn gunicorn pip pip3 pylint mypy black ruff
	bundle rake rails rspec rubocop composer phpunit artisan go cargo stack cabal zig nim dart flutter swift terraform tofu pulumi ansible ansible-playbook vagrant
	dlv docker podman docker-compose source . bash sh dash zsh ksh direnv mise`)

// fixedSubs are subcommands of these that run nothing of the workspace.
var fixedSubs = map[string]map[string]bool{
	"npm":    fieldSet("view info ls list outdated search whoami config help root prefix ping -v --version"),
	"pnpm":   fieldSet("ls list outdated why --version -v"),
	"yarn":   fieldSet("list info why --version -v"),
	"go":     fieldSet("version env list doc vet mod fmt help"),
	"cargo":  fieldSet("search tree metadata --version -V fmt help"),
	"pip":    fieldSet("list show freeze check --version"),
	"pip3":   fieldSet("list show freeze check --version"),
	"docker": fieldSet("ps images logs inspect version info stats top port --version"),
	"python": fieldSet("--version -V"), "python3": fieldSet("--version -V"), "node": fieldSet("--version -v"), "ruby": fieldSet("--version -v"),
	"make": fieldSet("--version"), "bash": fieldSet("--version"), "java": fieldSet("-version --version"), "terraform": fieldSet("version fmt"),
	"black": fieldSet("--version"), "tsc": fieldSet("--version"),
}

// classify says whether approving the command approves a program or files.
func (z *analyzer) classify(u *Unit, name string, c call) {
	switch {
	case u.Changeable, len(u.Scripts) > 0:
		u.Class = RunsSessionFiles
		return
	case u.Resolution == "function", u.Resolution == "builtin" && name != "source" && name != ".":
		u.Class = FixedProgram
		return
	}
	if sessionRunners[name] {
		u.Class = RunsSessionFiles
		_, rest := sub(name, c.words)
		if len(rest) > 0 && fixedSubs[name][rest[0].val] || len(c.words) > 1 && fixedSubs[name][c.words[1].val] {
			u.Class = FixedProgram
		}
		if shells[name] && len(u.Scripts) == 0 {
			u.Class = FixedProgram // its text is judged
		}
		return
	}
	if p := known().programs[name]; p != nil && (p.inert || p.builtin || known().wrappers[name] != nil) && u.Resolution != "missing" {
		if strings.Contains(c.words[0].val, "/") && u.Resolution == "unresolved" && !strings.HasPrefix(c.words[0].val, "/") {
			u.Class = RunsSessionFiles
			return
		}
		u.Class = FixedProgram
		return
	}
	if u.Resolution == "file" {
		u.Class = FixedProgram
		return
	}
	u.Class = RunsSessionFiles
}

// registries are the hosts that package managers fetch from by default.
var registries = map[string][]string{
	"npm": {"registry.npmjs.org"}, "npx": {"registry.npmjs.org"}, "pnpm": {"registry.npmjs.org"}, "yarn": {"registry.yarnpkg.com", "registry.npmjs.org"}, "bun": {"registry.npmjs.org"}, "bunx": {"registry.npmjs.org"},
	"pip": {"pypi.org", "files.pythonhosted.org"}, "pip3": {"pypi.org", "files.pythonhosted.org"}, "pipx": {"pypi.org", "files.pythonhosted.org"},
	"uv": {"pypi.org", "files.pythonhosted.org"}, "uvx": {"pypi.org", "files.pythonhosted.org"}, "poetry": {"pypi.org", "files.pythonhosted.org"}, "pipenv": {"pypi.org", "files.pythonhosted.org"},
	"go": {"proxy.golang.org", "sum.golang.org"}, "cargo": {"index.crates.io", "static.crates.io", "crates.io"},
	"gem": {"rubygems.org"}, "bundle": {"rubygems.org"}, "composer": {"repo.packagist.org"}, "mix": {"hex.pm", "repo.hex.pm"},
	"mvn": {"repo.maven.apache.org"}, "gradle": {"services.gradle.org", "repo.maven.apache.org", "plugins.gradle.org"}, "dotnet": {"api.nuget.org"},
	"apt": {"deb.debian.org"}, "apt-get": {"deb.debian.org"}, "brew": {"formulae.brew.sh", "github.com"}, "deno": {"deno.land", "jsr.io"},
	"gh": {"api.github.com", "github.com"}, "docker": nil, "podman": nil, "rustup": {"static.rust-lang.org"}, "conda": {"repo.anaconda.com", "conda.anaconda.org"},
	"terraform": {"registry.terraform.io", "releases.hashicorp.com"}, "helm": nil,
}

// fetching are the subcommands that go to the registry.
var fetching = map[string]map[string]bool{
	"npm": fieldSet("install i ci add update upgrade audit publish view info outdated search exec x init create login whoami dedupe pack"), "pnpm": fieldSet("install i add update dlx outdated publish audit create fetch"),
	"yarn": fieldSet("install add upgrade dlx outdated publish create audit"), "bun": fieldSet("install i add update x create publish outdated"),
	"pip": fieldSet("install download wheel index search"), "pip3": fieldSet("install download wheel index search"), "pipx": fieldSet("install run upgrade"),
	"uv": fieldSet("pip sync add lock run tool publish"), "poetry": fieldSet("install add update lock publish"), "pipenv": fieldSet("install update sync lock"),
	"go": fieldSet("get install mod work"), "cargo": fieldSet("fetch install add update search publish login"),
	"gem": fieldSet("install update push fetch search"), "bundle": fieldSet("install update add outdated"), "composer": fieldSet("install update require create-project"), "mix": fieldSet("deps.get deps.update hex.info local.hex"),
	"mvn": nil, "gradle": nil, "dotnet": fieldSet("restore add build test run publish tool new"), "apt": fieldSet("update install upgrade download"), "apt-get": fieldSet("update install upgrade download source"),
	"brew": fieldSet("install update upgrade fetch tap search"), "deno": fieldSet("add install cache run publish"), "rustup": fieldSet("update install toolchain component target"), "conda": fieldSet("install create update env search"),
	"terraform": fieldSet("init get"), "gh": nil,
}

func (z *analyzer) need(capability, sentence string) {
	n := &z.a.Needs
	if capability != "" && !slices.Contains(n.Capabilities, capability) {
		n.Capabilities = append(n.Capabilities, capability)
	}
	z.say(sentence)
}

func (z *analyzer) say(sentence string) {
	n := &z.a.Needs
	if sentence != "" && !slices.Contains(n.Sentences, sentence) && len(n.Sentences) < 50 {
		n.Sentences = append(n.Sentences, sentence)
	}
}

func (z *analyzer) host(h string) {
	n := &z.a.Needs
	n.Network = true
	if h != "" && !slices.Contains(n.Hosts, h) && len(n.Hosts) < 100 {
		n.Hosts = append(n.Hosts, h)
	}
}

func (z *analyzer) shellNetwork(rest string) {
	h, _, _ := strings.Cut(rest, "/")
	z.host(h)
	z.problem(Problem{Kind: "<shell-network>", Action: policy.Ask, Message: "the shell itself opens a connection to " + h})
}

// urlHost returns host:port of an address, the port where it is not the usual one.
func urlHost(s string) (host, scheme string) {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return "", ""
		}
		h := u.Host
		if u.Scheme == "ssh" && u.Port() == "" {
			h = u.Hostname() + ":22"
		}
		return h, u.Scheme
	}
	// user@host:path, as git and scp have it
	if i := strings.IndexByte(s, ':'); i > 0 && !strings.Contains(s[:i], "/") {
		h := s[:i]
		if at := strings.LastIndexByte(h, '@'); at >= 0 {
			h = h[at+1:]
		}
		if h != "" && !strings.ContainsAny(h, " \\") && len(h) > 1 {
			return h + ":22", "ssh"
		}
	}
	return "", ""
}

// needs notes what a command wants beyond a closed sandbox.
func (z *analyzer) needs(name string, c call) {
	_, rest := sub(name, c.words)
	subcmd := ""
	if len(rest) > 0 {
		subcmd = rest[0].val
	}
	switch name {
	case "git":
		z.gitNeeds(subcmd, rest)
	case "ssh", "scp", "sftp", "rsync", "mosh", "ssh-copy-id":
		if name == "rsync" || name == "scp" {
			hit := false
			for _, w := range c.words[1:] {
				if h, s := urlHost(w.val); h != "" && s == "ssh" && !strings.HasPrefix(w.val, "-") {
					z.host(h)
					hit = true
				}
			}
			if !hit {
				return
			}
		} else if h := sshHost(c.words[1:]); h != "" {
			z.host(h + ":22")
		} else {
			z.a.Needs.Network = true
		}
		z.need("ssh", "can sign as you with the ssh agent while it runs")
	case "ssh-add", "ssh-agent":
		z.need("ssh", "talks to the ssh agent")
	case "gpg", "gpg2":
		z.need("gpg", "can sign as you with the gpg agent while it runs")
	case "docker", "podman", "docker-compose", "nerdctl", "minikube", "kind":
		if subcmd != "--version" && subcmd != "version" && subcmd != "help" {
			z.need("docker", "access to the container daemon is the same as no sandbox")
		}
	case "sudo", "doas", "su", "pkexec", "run0":
		z.need("off", name+" never gains privileges in a sandbox, and has no terminal for a password")
	case "xdg-open", "open", "xclip", "xsel", "wl-copy", "wl-paste", "pbcopy", "pbpaste", "notify-send", "zenity", "xdotool", "scrot", "import":
		z.need("display", "a program with the display can read your keys")
	case "chrome", "google-chrome", "chromium", "playwright", "cypress", "puppeteer", "bwrap", "unshare", "firejail", "flatpak", "nsenter", "chroot":
		z.need("nest", "makes a sandbox of its own, which needs a weaker filter")
	case "curl", "wget", "http", "https", "xh", "aria2c":
		z.a.Needs.Network = true
		for _, w := range c.words[1:] {
			s := w.val
			if !w.lit {
				s = w.prefix
			}
			if h, _ := urlHost(s); h != "" && strings.Contains(s, "://") {
				if w.lit || strings.Count(s, "/") > 2 {
					z.host(h)
				}
			} else if w.known() && !strings.HasPrefix(s, "-") && !strings.Contains(s, "/") && strings.Contains(s, ".") && name != "aria2c" && commandLike(s) && strings.HasPrefix(name, "http") {
				z.host(s)
			}
		}
	case "nc", "ncat", "netcat", "telnet", "ping", "traceroute", "dig", "nslookup", "host", "ftp", "whois", "psql", "mysql", "mongosh", "redis-cli":
		z.a.Needs.Network = true
	case "aws", "az", "gcloud", "gsutil", "doctl", "heroku", "fly", "flyctl", "vercel", "netlify", "wrangler", "kubectl", "helm", "ansible", "ansible-playbook", "supabase", "firebase":
		z.a.Needs.Network = true
		z.say(name + " uses credentials of yours")
	case "npx", "bunx", "pnpx", "uvx":
		for _, h := range registries[name] {
			z.host(h)
		}
	default:
		f, ok := fetching[name]
		if !ok || f != nil && !f[subcmd] {
			break
		}
		if name == "go" && subcmd == "mod" && len(rest) > 1 && !contains([]string{"download", "tidy", "vendor"}, rest[1].val) {
			break
		}
		if name == "uv" && subcmd == "run" {
			break
		}
		z.a.Needs.Network = true
		for _, h := range registries[name] {
			z.host(h)
		}
		if subcmd == "publish" || subcmd == "push" {
			z.say("publishes a package with credentials of yours")
		}
	}
}

func sshHost(ws []word) string {
	for i := 0; i < len(ws); i++ {
		s := ws[i].val
		if !ws[i].known() {
			return ""
		}
		if strings.HasPrefix(s, "-") {
			if len(s) == 2 && strings.Contains("BbcDEeFIiJLlmOopQRSWw", s[1:]) {
				i++
			}
			continue
		}
		if at := strings.LastIndexByte(s, '@'); at >= 0 {
			s = s[at+1:]
		}
		return s
	}
	return ""
}

func (z *analyzer) gitNeeds(subcmd string, rest []word) {
	switch subcmd {
	case "push", "fetch", "pull", "clone", "ls-remote", "submodule", "lfs", "send-pack", "fetch-pack", "http-push":
	case "commit", "tag", "merge", "rebase", "am", "cherry-pick", "revert":
		for _, w := range rest[1:] {
			if w.is("-S") || strings.HasPrefix(w.prefix, "--gpg-sign") || subcmd == "tag" && w.is("-s") {
				z.need("gpg", "can sign as you with the gpg agent while it runs")
			}
		}
		return
	case "remote":
		if len(rest) > 1 && (rest[1].is("update") || rest[1].is("show") || rest[1].is("prune")) {
			z.a.Needs.Network = true
		}
		return
	default:
		return
	}
	if subcmd == "submodule" && (len(rest) < 2 || !contains([]string{"update", "add", "init"}, rest[1].val)) {
		return
	}
	n := &z.a.Needs
	n.Network = true
	for _, w := range rest[1:] {
		if strings.HasPrefix(w.prefix, "-") {
			continue
		}
		h, scheme := urlHost(w.val)
		switch {
		case h != "" && w.lit:
			z.host(h)
			if scheme == "ssh" {
				z.need("ssh", "can sign as you with the ssh agent while it runs")
			} else if scheme == "https" {
				z.need("git-credential:"+h, "one token for "+h)
			}
			return
		case subcmd == "clone":
			return
		}
		if w.known() && w.val != "" && commandLike(w.val) && !strings.Contains(w.val, "/") {
			if !slices.Contains(n.Remotes, w.val) {
				n.Remotes = append(n.Remotes, w.val)
			}
		}
		break
	}
	if len(n.Remotes) == 0 {
		n.Remotes = append(n.Remotes, "origin")
	}
	z.need("ssh", "can sign as you with the ssh agent while it runs")
}

// sumNeeds settles what follows from the paths.
func (z *analyzer) sumNeeds() {
	n := &z.a.Needs
	root := z.o.Workspace
	if root == "" {
		root = z.o.Dir
	}
	for i := range z.a.Paths {
		p := &z.a.Paths[i]
		if p.Unproven && p.Write && !outside(p.Path, root) {
			continue
		}
		switch {
		case p.Path == "":
			if p.Write {
				n.WorkspaceWrite = true
			}
		case !outside(p.Path, root):
			n.WorkspaceWrite = n.WorkspaceWrite || p.Write
		case p.Write && !p.Unproven:
			if !slices.Contains(n.Writes, p.Path) && len(n.Writes) < 100 {
				n.Writes = append(n.Writes, p.Path)
			}
		default:
			if !slices.Contains(n.Reads, p.Path) && len(n.Reads) < 100 {
				n.Reads = append(n.Reads, p.Path)
			}
		}
	}
	for i := range z.a.Units {
		u := &z.a.Units[i]
		if u.Class == RunsSessionFiles || writesWorkspace(u) {
			n.WorkspaceWrite = true
		}
	}
}

func outside(p, root string) bool {
	return root == "" || p != root && !strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/")
}

// writesWorkspace are commands that write without naming a path.
func writesWorkspace(u *Unit) bool {
	if u.head == "git" && len(u.Words) > 1 {
		for _, w := range u.Words[1:] {
			switch w {
			case "add", "commit", "checkout", "switch", "restore", "reset", "merge", "rebase", "pull", "fetch", "clone", "stash", "cherry-pick", "revert",
				"rm", "mv", "clean", "apply", "am", "init", "tag", "branch", "worktree", "submodule", "config", "gc":
				return true
			}
		}
	}
	switch u.head {
	case "tar", "unzip", "gzip", "gunzip", "patch", "wget", "gofmt", "prettier", "black", "rustfmt":
		return true
	}
	return false
}
