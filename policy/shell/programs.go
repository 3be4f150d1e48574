package shell

import (
	"strings"
	"sync"

	"github.com/getpioneer/pioneer-super/policy"
)

// program is what is known of one program or builtin. A program without an
// entry may do anything with its operands.
type program struct {
	builtin bool
	// transparent: everything it does is judged elsewhere.
	transparent bool
	// subcommands: global options before a subcommand are taken out of the text.
	subcommands *grammar
	guard       *guard
	look        func(z *analyzer, u *Unit, c call) env
	peel        func(z *analyzer, at int, c call)
	inert       bool
}

// tables are what is known of programs. Nothing writes to them once they are made.
type tables struct {
	programs map[string]*program
	wrappers map[string]*wrapper
	globals  map[string]*grammar
}

// known makes the tables when they are first asked for: every command is a client of this
// same program, and most of them never read a shell text.
var known func() *tables

// The functions in the tables look at the tables again, so that a declaration
// could not name what makes them.
func init() { known = sync.OnceValue(makeTables) }

func makeTables() *tables {
	wrappers, globals := wrappers(), globals()
	programs := make(map[string]*program, 512)
	get := func(name string) *program {
		p := programs[name]
		if p == nil {
			p = &program{}
			programs[name] = p
		}
		return p
	}
	for _, n := range strings.Fields(inertPrograms) {
		get(n).inert = true
	}
	for _, n := range strings.Fields(builtins) {
		get(n).builtin = true
	}
	for _, n := range strings.Fields(": true false break continue return exit shift wait times local set test [ umask") {
		p := get(n)
		p.builtin = true
		p.transparent = n != "umask" && n != "wait"
	}
	for n, w := range wrappers {
		get(n).peel = w.through
	}
	for _, n := range strings.Fields("timeout nice nohup time stdbuf setsid ionice command builtin exec chrt taskset") {
		get(n).transparent = true
	}
	for n := range shells {
		p := get(n)
		p.peel = shellPeel
		p.transparent = true
	}
	for _, n := range []string{"pwsh", "powershell"} {
		get(n).peel = shellPeel
	}
	for n, f := range map[string]func(*analyzer, int, call){
		"eval": evalPeel, "trap": trapPeel, "source": sourcePeel, ".": sourcePeel,
		"command": commandPeel, "builtin": builtinPeel, "exec": execPeel,
		"find": findPeel, "gfind": findPeel, "fd": fdPeel, "fdfind": fdPeel,
		"parallel": parallelPeel, "rust-parallel": parallelPeel, "rush": parallelPeel,
		"uv": runnerPeel("run"), "poetry": runnerPeel("run"), "pipenv": runnerPeel("run"), "hatch": runnerPeel("run"),
		"pdm": runnerPeel("run"), "rye": runnerPeel("run"), "bundle": runnerPeel("exec"), "npm": runnerPeel("exec", "x"),
		"pnpm": runnerPeel("exec", "dlx"), "yarn": runnerPeel("exec", "dlx"), "bun": runnerPeel("x"),
		"npx": runnerPeel(), "bunx": runnerPeel(), "pnpx": runnerPeel(), "uvx": runnerPeel(), "pipx": runnerPeel("run"),
		"mise": runnerPeel("exec", "x"), "asdf": runnerPeel("exec"), "rbenv": runnerPeel("exec"), "pyenv": runnerPeel("exec"),
		"conda": runnerPeel("run"), "rustup": runnerPeel("run"), "dotenv": runnerPeel(), "doppler": runnerPeel("run"),
		"direnv": runnerPeel("exec"), "tox": runnerPeel("exec"),
	} {
		get(n).peel = f
	}
	get("eval").transparent = true
	get("trap").transparent = true
	for _, n := range strings.Fields(argumentRunners) {
		get(n).peel = suffixPeel
	}
	for _, n := range strings.Fields(shellStarters) {
		get(n).peel = shellStarterPeel
	}
	for n, g := range globals {
		get(n).subcommands = g
	}
	for n, g := range guards() {
		get(n).guard = g
	}
	for n, f := range looks() {
		get(n).look = f
	}
	return &tables{programs: programs, wrappers: wrappers, globals: globals}
}

// inertPrograms never run their operands and execute no option that a guard
// below does not know.
const inertPrograms = `
awk gawk mawk nawk sed gsed tar gtar bsdtar sort split man less more view rsync scp sftp ssh make gmake ninja
cat tac head tail wc grep egrep fgrep zgrep rg ag ack diff cmp comm ls ll dir exa eza tree stat file pwd basename dirname
realpath readlink which whereis type date cal uptime uname hostname whoami id groups who w env printenv locale tty
cut paste tr uniq nl fold fmt column expand unexpand rev shuf seq yes factor bc dc jq yq tomlq xq gron csvcut mlr base64 base32
md5sum sha1sum sha256sum sha512sum b2sum cksum sum xxd od hexdump strings iconv dos2unix unix2dos
cp mv rm rmdir mkdir touch ln install truncate chmod chown chgrp mktemp mkfifo mknod tee dd sync shred unlink link
du df free ps top htop pgrep pkill kill killall lsof fuser ss netstat ip ifconfig ping traceroute dig nslookup host
zip unzip gzip gunzip zcat bzip2 bunzip2 xz unxz zstd unzstd lz4 7z ar cpio
curl wget http https xh aria2c ftp nc ncat telnet
git gh glab hg svn
node nodejs deno bun python python2 python3 pypy pypy3 perl ruby php lua luajit Rscript julia java javac kotlin kotlinc scala groovy
go gofmt goimports golangci-lint staticcheck cargo rustc rustfmt rustup gcc g++ cc c++ clang clang++ clang-format clang-tidy ld as nm objdump readelf
cmake ctest meson bazel bazelisk gradle gradlew mvn mvnw ant sbt lein dotnet msbuild swift xcodebuild pod
npm pnpm yarn bun npx tsc tsx ts-node eslint prettier jest vitest mocha webpack vite next nuxt turbo nx biome rollup esbuild playwright cypress
pip pip3 pipx pytest tox mypy ruff black isort flake8 pylint pyright poetry pipenv uv hatch coverage pre-commit alembic flask django-admin uvicorn gunicorn
bundle gem rake rails rspec rubocop composer phpunit artisan mix elixir iex rebar3 stack cabal ghc zig nim dart flutter
docker podman docker-compose kubectl helm k9s minikube kind terraform tofu pulumi ansible ansible-playbook vagrant packer
aws az gcloud gsutil doctl heroku fly flyctl vercel netlify wrangler supabase firebase
psql mysql sqlite3 mongosh redis-cli pg_dump pg_restore
apt apt-get apt-cache dpkg yum dnf rpm pacman brew snap apk
systemctl journalctl service crontab
vim vi nvim nano emacs ed code
shellcheck shfmt hadolint yamllint markdownlint actionlint
cloc tokei scc bat sd delta fzf gpg openssl ssh-keygen ssh-add
clear reset tput stty sleep patch ctags protoc buf flatc swag sqlc wire mockgen
dlv pdb lldb just task mage
sw_vers open pbcopy pbpaste xdg-open xclip
`

const builtins = `
alias bg bind cd pushd popd dirs disown echo enable export false fc fg getopts hash help history jobs kill let local logout
mapfile printf pwd read readarray readonly return set shift shopt suspend test times trap true type typeset declare ulimit umask
unalias unset wait caller compgen complete compopt exec eval command builtin source . : [ break continue exit
`

// argumentRunners run what follows their own options.
const argumentRunners = `
strace ltrace valgrind gdb perf rr chroot runcon bwrap firejail systemd-run dbus-run-session dbus-launch
xvfb-run faketime rlwrap fakeroot proot nsenter cgexec numactl catchsegv entr watchexec nodemon cross-env env-cmd concurrently
pkexec runuser su sg capsh eatmydata torsocks proxychains proxychains4 unbuffer daemonize start-stop-daemon
ld-linux-x86-64.so.2 ld-linux.so.2 ld-linux-aarch64.so.1 ld-musl-x86_64.so.1 ld.so at batch screen tmux ssh-agent
hyperfine socat coreutils caffeinate arch sandbox-exec i386 x86_64 linux32 linux64 setarch chpst softlimit envdir s6-setuidgid gosu su-exec tini dumb-init
`

// shellStarters start a shell where they are given no command.
const shellStarters = "su sg newgrp screen tmux batch at chroot nsenter setarch login"

func wrappers() map[string]*wrapper {
	return map[string]*wrapper{
		"env": {g: grammar{flags: "i0v", values: "uCS", long: longs("ignore-environment null unset= chdir= split-string= debug default-signal? ignore-signal? block-signal? list-signal-handling")},
			assigns: true, after: envAfter},
		"sudo": {g: grammar{flags: "AbEHknPSBvlVK", values: "CghprtTuU", long: longs("askpass background bell close-from= preserve-env? group= set-home host= non-interactive preserve-groups prompt= role= stdin type= command-timeout= user= reset-timestamp validate list version remove-timestamp")},
			assigns: true},
		"doas":  {g: grammar{flags: "nL", values: "uC"}, refuse: "C"},
		"xargs": {g: grammar{flags: "0trxpo", values: "adEILnPsI", optional: "eil", long: longs("null verbose no-run-if-empty exit interactive open-tty arg-file= delimiter= eof? replace? max-lines? max-args= max-procs= max-chars= process-slot-var= show-limits")}, after: xargsAfter},
		"timeout": {g: grammar{flags: "vfp", values: "ks", long: longs("preserve-status foreground kill-after= signal= verbose")},
			operands: 1},
		"gtimeout": {g: grammar{flags: "vfp", values: "ks", long: longs("preserve-status foreground kill-after= signal= verbose")}, operands: 1},
		"nice":     {g: grammar{values: "n", number: true, long: longs("adjustment=")}},
		"nohup":    {},
		"setsid":   {g: grammar{flags: "cfw", long: longs("ctty fork wait")}},
		"stdbuf":   {g: grammar{values: "ioe", long: longs("input= output= error=")}},
		"time":     {g: grammar{flags: "apqvV", values: "fo", long: longs("append format= output= portability quiet verbose")}},
		"ionice":   {g: grammar{flags: "t", values: "cnpPu", long: longs("class= classdata= ignore pid= pgid= uid=")}, refuse: "pPu pid pgid uid "},
		"chrt": {g: grammar{flags: "abdfiormvG", values: "TPDp", long: longs("batch deadline fifo idle other rr reset-on-fork all-tasks max verbose sched-runtime= sched-period= sched-deadline= pid=")},
			operands: 1, refuse: "p pid "},
		"taskset": {g: grammar{flags: "ac", long: longs("all-tasks cpu-list")}, operands: 1},
		"unshare": {g: grammar{flags: "fmuinpUrcCT", optional: "", values: "RwSG", long: longs("mount? uts? ipc? net? pid? user? cgroup? time? fork kill-child? mount-proc? map-user= map-users= map-group= map-groups= map-root-user map-current-user map-auto propagation= setgroups= keep-caps root= wd= setuid= setgid= monotonic= boottime=")}},
		"setpriv": {g: grammar{flags: "d", long: longs("dump no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= reuid= regid= clear-groups keep-groups init-groups groups= securebits= pdeathsig= selinux-label= apparmor-profile= reset-env")}},
		"prlimit": {g: grammar{flags: "", optional: "cdefilmnqrstuvxy", long: longs("core? data? nice? fsize? sigpending? memlock? rss? nofile? msgqueue? rtprio? stack? cpu? nproc? as? locks? rttime? noheadings raw verbose output= pid=")}, refuse: " pid "},
		"flock": {g: grammar{flags: "sxnuoFv", values: "wE", long: longs("shared exclusive nonblock unlock timeout= wait= conflict-exit-code= close no-fork verbose")},
			after: flockAfter},
		"script": {g: grammar{flags: "aefqt", values: "cEIOBTom", permute: true, long: longs("append command= return flush force quiet echo= log-in= log-out= log-io= log-timing= logging-format= output-limit= timing?")},
			after: textOption("c", "command")},
		"watch": {g: grammar{flags: "bcdeghptwxr", values: "nq", long: longs("beep color no-color differences? errexit chgexit equexit= interval= precise no-rerun no-title no-wrap exec")},
			after: watchAfter},
		"busybox": {},
		"toybox":  {},
		"gnice":   {g: grammar{values: "n", number: true, long: longs("adjustment=")}},
	}
}

// globals are the options that a tool takes before its subcommand.
func globals() map[string]*grammar {
	return map[string]*grammar{
		"git":       {flags: "pPv", values: "Cc", long: longs("exec-path? git-dir= work-tree= namespace= super-prefix= config-env= attr-source= no-pager paginate no-replace-objects bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks no-lazy-fetch no-advice version help html-path man-path info-path list-cmds=")},
		"npm":       {flags: "gsdqL", values: "wC", long: longs("prefix= workspace= silent global loglevel= no-color no-audit no-fund userconfig= registry= workspaces include-workspace-root if-present offline prefer-offline yes ignore-scripts production legacy-peer-deps verbose quiet json")},
		"pnpm":      {flags: "rws", values: "CF", long: longs("dir= filter= recursive workspace-root silent reporter= color no-color stream parallel if-present")},
		"yarn":      {flags: "s", long: longs("cwd= silent offline no-progress verbose json")},
		"bun":       {long: longs("cwd= silent bun hot watch filter=")},
		"docker":    {flags: "Dv", values: "cHl", long: longs("config= context= debug host= log-level= tls tlscacert= tlscert= tlskey= tlsverify version")},
		"podman":    {flags: "rv", values: "c", long: longs("connection= log-level= remote root= runroot= storage-driver= url= identity= namespace= cgroup-manager=")},
		"kubectl":   {values: "ns", long: longs("namespace= context= cluster= kubeconfig= server= user= token= as= as-group= request-timeout= cache-dir= certificate-authority= client-certificate= client-key= insecure-skip-tls-verify tls-server-name= v= warnings-as-errors")},
		"helm":      {values: "n", long: longs("namespace= kube-context= kubeconfig= debug registry-config= repository-cache= repository-config=")},
		"gh":        {values: "R", long: longs("repo= hostname=")},
		"cargo":     {flags: "vq", values: "ZC", long: longs("color= config= frozen locked offline quiet verbose manifest-path= list")},
		"go":        {values: "C", single: true},
		"systemctl": {flags: "aqlf", values: "tpMHn", long: longs("user system all quiet full no-pager no-block no-legend type= property= output= host= machine= lines= state= now")},
		"terraform": {single: true, long: longs("chdir= version help")},
		"tofu":      {single: true, long: longs("chdir= version help")},
		"aws":       {long: longs("profile= region= output= query= endpoint-url= no-cli-pager no-paginate debug color= no-verify-ssl no-sign-request cli-read-timeout= cli-connect-timeout=")},
		"uv":        {flags: "qvn", long: longs("directory= project= quiet verbose offline no-cache cache-dir= color= no-config config-file= no-progress native-tls")},
		"poetry":    {flags: "qvn", values: "CP", long: longs("directory= project= quiet verbose no-interaction ansi no-ansi no-cache no-plugins")},
		"pip":       {flags: "qv", long: longs("quiet verbose no-input disable-pip-version-check no-color isolated proxy= cache-dir= no-cache-dir require-virtualenv python=")},
		"pip3":      {flags: "qv", long: longs("quiet verbose no-input disable-pip-version-check no-color isolated proxy= cache-dir= no-cache-dir require-virtualenv python=")},
		"flux":      {values: "n", long: longs("namespace= context= kubeconfig=")},
		"gcloud":    {long: longs("project= account= quiet configuration= format= verbosity=")},
		"apt":       {flags: "qyd", values: "oct", long: longs("quiet? yes assume-yes simulate download-only option= config-file=")},
		"apt-get":   {flags: "qyd", values: "oct", long: longs("quiet? yes assume-yes simulate download-only option= config-file=")},
	}
}

// resolve says which file the command word is.
func (z *analyzer) resolve(u *Unit, word string, c call) {
	p := known().programs[word]
	switch {
	case !c.noShell && !c.noFuncs && z.funcs[word]:
		// Before its definition, and where that was not reached, the name is a
		// program.
		u.Resolution = "function"
		if z.o.Resolver != nil {
			u.File, u.Changeable, _ = z.o.Resolver.Lookup(word)
		}
		return
	case !c.noShell && p != nil && p.builtin, word == "command" || word == "builtin" || word == "exec" || word == "eval":
		u.Resolution = "builtin"
		u.Class = FixedProgram
		return
	}
	if z.o.Resolver == nil {
		u.Resolution = "unresolved"
		return
	}
	if strings.Contains(word, "/") && !strings.HasPrefix(word, "/") {
		if len(c.e.dirs) != 1 {
			u.Resolution = "unresolved"
			return
		}
		word = joinPath(c.e.dirs[0], word)
	}
	file, changeable, ok := z.o.Resolver.Lookup(word)
	if !ok {
		u.Resolution = "missing"
		return
	}
	u.Resolution, u.File, u.Changeable = "file", file, changeable
}

func (z *analyzer) resolveNone(u *Unit) { u.Resolution = "unresolved" }

var systemDirs = map[string]bool{"/bin": true, "/usr/bin": true, "/sbin": true, "/usr/sbin": true, "/usr/local/bin": true,
	"/usr/local/sbin": true, "/opt/homebrew/bin": true, "/lib64": true, "/lib": true, "/usr/lib64": true, "/usr/libexec": true}

// spelling settles the text of a command word that is a path: a system program
// is its name, any other file is what was written.
func (z *analyzer) spelling(u *Unit, c call, word, name string) {
	if !strings.Contains(word, "/") {
		return
	}
	rest := c.words[1:]
	with := func(h string) string {
		if len(rest) == 0 {
			return quote(h)
		}
		return quote(h) + " " + normText(rest)
	}
	abs := word
	if !strings.HasPrefix(word, "/") {
		abs = ""
		if len(c.e.dirs) == 1 {
			abs = joinPath(c.e.dirs[0], word)
		} else if strings.HasPrefix(word, "../") {
			// However deep the directory is, enough ".." is the root.
			if t := strings.TrimLeft(strings.ReplaceAll(word, "../", ""), "/"); systemDirs["/"+strings.TrimSuffix(t, "/"+name)] {
				abs = "/" + t
			}
		}
	} else {
		abs = joinPath("/", word)
	}
	if dir := strings.TrimSuffix(abs, "/"+name); systemDirs[dir] && !u.Changeable {
		u.Text = with(name)
		u.Words = append([]string{name}, u.Words[1:]...)
		u.Forms = append(u.Forms, Form{Text: with(word), Cap: policy.Deny, MayAllow: true, Why: asWritten})
		return
	}
	u.Forms = append(u.Forms, Form{Text: with(name), Cap: policy.Deny, Why: "the program's name"})
	for _, alt := range []string{abs, z.relative(abs)} {
		if alt != "" && alt != word {
			u.Forms = append(u.Forms, Form{Text: with(alt), Cap: policy.Deny, MayAllow: true, Why: "the same file"})
		}
	}
}

// relative is a path below the workspace, written from it.
func (z *analyzer) relative(abs string) string {
	if w := z.o.Workspace; w != "" && strings.HasPrefix(abs, w+"/") {
		return "./" + abs[len(w)+1:]
	}
	return ""
}

// unknownProgram: a program that is not known may run its operands.
func (z *analyzer) unknownProgram(u *Unit, c call, name string) {
	if u.Resolution == "function" {
		return // its body is judged
	}
	ws := c.words[1:]
	for i := 0; i < len(ws) && i < 16; i++ {
		if ws[i].known() && commandLike(ws[i].val) {
			z.maybe(u, ws[i:], policy.Ask, "an operand that may be run", true)
		}
	}
}

// normalise takes the global options of a tool out of the text.
func (z *analyzer) normalise(u *Unit, c call, p *program) {
	ws := c.words[1:]
	if len(ws) == 0 {
		return
	}
	if u.head == "cargo" && ws[0].known() && strings.HasPrefix(ws[0].val, "+") {
		ws = ws[1:]
	}
	opts, rest, ok := p.subcommands.parse(ws)
	if len(opts) == 0 && ok && len(rest) == len(c.words)-1 {
		if len(rest) > 0 && !rest[0].known() {
			u.floor(floorComputed, "the subcommand of "+u.head+" is computed")
		}
		return
	}
	if !ok {
		if len(rest) > 0 && (rest[0].known() || len(opts) == 0) && (u.head == "git" || !rest[0].known()) {
			u.floor(floorIndirection, "an option of "+u.head+" before its subcommand is not known")
		}
		// Whether the refused option takes the next word is not known: each
		// tail may be the subcommand.
		for i := range rest {
			if i > 8 {
				break
			}
			if rest[i].known() && !strings.HasPrefix(rest[i].val, "-") {
				u.Forms = append(u.Forms, Form{Text: quote(u.head) + " " + normText(rest[i:]), Cap: policy.Deny,
					Why: "without the options before the subcommand"})
			}
		}
		return
	}
	if len(rest) == 0 {
		return
	}
	if !rest[0].known() {
		u.floor(floorComputed, "the subcommand of "+u.head+" is computed")
		return
	}
	raw := u.Text
	u.Text = quote(u.head) + " " + normText(rest)
	u.Forms = append(u.Forms, Form{Text: raw, Cap: policy.Deny, MayAllow: true, Why: asWritten})
}

// sub returns the words of a tool from its subcommand on, and the options
// before it.
func sub(name string, words []word) (opts []opt, rest []word) {
	ws := words[1:]
	g := known().globals[name]
	if g == nil {
		return nil, ws
	}
	if name == "cargo" && len(ws) > 0 && ws[0].known() && strings.HasPrefix(ws[0].val, "+") {
		ws = ws[1:]
	}
	opts, rest, _ = g.parse(ws)
	return opts, rest
}
