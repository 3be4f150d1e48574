package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// looks are checks of one program that no table can express.
func looks() map[string]func(z *analyzer, u *Unit, c call) env {
	looks := map[string]func(z *analyzer, u *Unit, c call) env{}
	for _, n := range []string{"cd", "pushd", "popd"} {
		looks[n] = lookCd
	}
	for n, in := range interpreters() {
		if in != nil {
			looks[n] = func(z *analyzer, u *Unit, c call) env { z.inline(u, in, c); return c.e }
		}
	}
	looks["git"] = lookGit
	for _, n := range []string{"sed", "gsed"} {
		looks[n] = lookSed
	}
	for _, n := range []string{"awk", "gawk", "mawk", "nawk"} {
		looks[n] = lookAwk
	}
	looks["ssh"] = lookSSH
	looks["rm"] = lookRm
	looks["make"], looks["gmake"] = lookMake, lookMake
	for _, n := range []string{"export", "declare", "typeset", "readonly", "local"} {
		looks[n] = lookDeclare
	}
	for _, n := range []string{"read", "printf", "mapfile", "readarray", "unset", "getopts", "wait", "test", "[", "let"} {
		looks[n] = lookNames
	}
	for n, why := range map[string]string{
		"alias": "defines aliases", "unalias": "changes aliases",
		"enable": "loads or disables builtins", "bind": "binds commands to keys", "fc": "runs commands again",
		"suspend": "stops the shell", "complete": "defines completions that run commands", "compgen": "may run commands",
	} {
		looks[n] = func(z *analyzer, u *Unit, c call) env {
			if n == "compgen" && !hasLetter(c.words[1:], "CF") || n == "fc" && hasLetter(c.words[1:], "l") || len(c.words) == 1 && n == "alias" {
				return c.e
			}
			u.floor(floorShellState, n+" "+why)
			return c.e
		}
	}
	looks["hash"] = func(z *analyzer, u *Unit, c call) env {
		if hasLetter(c.words[1:], "p") {
			u.floor(floorShellState, "hash -p makes a name run another file")
		}
		return c.e
	}
	looks["shopt"] = func(z *analyzer, u *Unit, c call) env {
		for _, w := range c.words[1:] {
			if !w.known() || contains([]string{"expand_aliases", "extglob", "extdebug", "sourcepath", "cdspell", "cdable_vars", "autocd", "localvar_inherit", "patsub_replacement", "lastpipe"}, w.val) {
				u.floor(floorShellState, "shopt changes how the text is read")
			}
		}
		return c.e
	}
	looks["set"] = func(z *analyzer, u *Unit, c call) env {
		for i, w := range c.words[1:] {
			if w.is("--") || w.is("-") {
				break
			}
			if !w.known() && w.dash() || w.known() && len(w.val) > 1 && (w.val[0] == '-' || w.val[0] == '+') && strings.ContainsAny(w.val[1:], "kp") ||
				i > 0 && (w.is("posix") || w.is("keyword") || w.is("privileged")) {
				u.Transparent = false
				u.floor(floorShellState, "set changes how the text is read")
			}
		}
		return c.e
	}
	for _, n := range []string{"docker", "podman", "docker-compose", "kubectl", "nerdctl"} {
		looks[n] = lookContainer
	}
	looks["gh"] = func(z *analyzer, u *Unit, c call) env {
		_, rest := sub("gh", c.words)
		if len(rest) > 1 && contains([]string{"alias", "extension", "extensions", "ext"}, rest[0].val) && !rest[1].is("list") {
			u.floor(floorExecutes, "gh "+rest[0].val+" adds or runs other programs", "gh "+rest[0].val)
		}
		return c.e
	}
	looks["cmake"] = func(z *analyzer, u *Unit, c call) env {
		if len(c.words) > 2 && c.words[1].is("-E") {
			z.maybe(u, c.words[2:], policy.Deny, "a command of cmake", false)
		}
		return c.e
	}
	looks["crontab"] = func(z *analyzer, u *Unit, c call) env {
		if len(c.words) > 1 && !c.words[1].is("-l") || len(c.words) == 1 {
			u.floor(floorExecutes, "crontab leaves commands that run later", "crontab")
		}
		return c.e
	}
	for _, n := range []string{"npm", "pnpm", "yarn"} {
		looks[n] = func(z *analyzer, u *Unit, c call) env {
			_, rest := sub(n, c.words)
			if len(rest) > 1 && (rest[0].is("config") || rest[0].is("c")) && rest[1].is("set") || len(rest) > 0 && rest[0].is("set") {
				u.floor(floorExecutes, n+" config set may make it run another program later", "config set", n+" set")
			}
			return c.e
		}
	}
	return looks
}

// lookContainer: what runs in a container is a command as well, and a container
// can hold this machine's files.
func lookContainer(z *analyzer, u *Unit, c call) env {
	_, rest := sub(u.head, c.words)
	if len(rest) < 2 || !contains([]string{"run", "exec", "compose", "debug", "container"}, rest[0].val) {
		return c.e
	}
	for i, w := range rest[1:] {
		if i < 24 && w.known() && commandLike(w.val) {
			z.maybe(u, rest[i+1:], policy.Ask, "the command in the container", true)
		}
	}
	return c.e
}

// hasLetter reports whether an option cluster holds one of the letters.
func hasLetter(ws []word, letters string) bool {
	for _, w := range ws {
		if !w.lit && w.prefix == "" {
			return true
		}
		if strings.HasPrefix(w.prefix, "-") && !strings.HasPrefix(w.prefix, "--") && strings.ContainsAny(w.prefix, letters) {
			return true
		}
	}
	return false
}

func lookCd(z *analyzer, u *Unit, c call) env {
	e := c.e
	z.hasCd = true
	ws := c.words[1:]
	for len(ws) > 0 && ws[0].known() && len(ws[0].val) > 1 && ws[0].val[0] == '-' && !isDigits(ws[0].val[1:]) {
		if ws[0].val == "--" {
			ws = ws[1:]
			break
		}
		ws = ws[1:]
	}
	before := e.dirs
	switch {
	case z.funcs[u.head] && u.Resolution == "function", u.head == "popd", z.assigned["CDPATH"], len(ws) > 1:
		e.dirs = nil
	case len(ws) == 0:
		e.dirs = nil
		if h := z.home(); h != "" && u.head == "cd" {
			e.dirs = []string{h}
		}
	case ws[0].is("-"), ws[0].known() && (strings.HasPrefix(ws[0].val, "+") && u.head == "pushd"):
		e.dirs = nil
	default:
		z.pathUse(ws[0], false, "cd", u.head, c.e, true)
		e.dirs = chdir(e.dirs, ws[0])
		// Where the directory may be missing, what follows runs in the old one.
		if z.o.Resolver != nil && len(e.dirs) == 1 && !z.o.Resolver.Exists(e.dirs[0]) {
			e.dirs = union(e.dirs, before)
		}
	}
	return e
}

// lookDeclare is declare and its kin where they come as ordinary commands.
func lookDeclare(z *analyzer, u *Unit, c call) env {
	for _, w := range c.words[1:] {
		if !w.lit && w.prefix == "" {
			u.floor(floorShellState, u.head+" declares names that are computed")
			continue
		}
		name, val, ok := strings.Cut(w.prefix, "=")
		if strings.Contains(name, "[") && strings.ContainsAny(name, "$`") || strings.HasPrefix(name, "-") && strings.ContainsAny(name, "ni") {
			u.floor(floorShellState, u.head+" evaluates its arguments")
		}
		if ok {
			v := literal(val)
			if !w.lit {
				v = word{norm: w.norm, typed: w.typed, prefix: val}
			}
			z.variable(strings.TrimSuffix(name, "+")).unknown = true
			z.assigns(strings.TrimSuffix(name, "+"), v, true)
		}
	}
	return c.e
}

// lookNames: builtins that take the name of a variable evaluate a subscript in it.
func lookNames(z *analyzer, u *Unit, c call) env {
	ws := c.words[1:]
	switch u.head {
	case "printf":
		if len(ws) == 0 || !strings.HasPrefix(ws[0].prefix, "-v") {
			return c.e
		}
		if len(ws) > 1 && ws[0].val == "-v" {
			ws = ws[1:2]
		} else {
			ws = ws[:1]
		}
	case "test", "[":
		var names []word
		for i, w := range ws {
			if (w.is("-v") || w.is("-R")) && i+1 < len(ws) {
				names = append(names, ws[i+1])
			}
		}
		ws = names
	case "wait":
		if !hasLetter(ws, "p") {
			return c.e
		}
	case "mapfile", "readarray":
		if hasLetter(ws, "C") {
			u.floor(floorShellState, u.head+" -C runs a command for each line")
		}
	}
	for _, w := range ws {
		v := w.val
		if !w.lit {
			v = w.typed
		}
		switch {
		case strings.Contains(v, "[") && strings.ContainsAny(v, "$`"), u.head == "let" && strings.ContainsAny(v, "$`"):
			u.Transparent = false
			u.floor(floorShellState, u.head+" evaluates a subscript that holds a substitution")
		case !w.lit && w.prefix == "" && (u.head == "unset" || u.head == "printf" || u.head == "test" || u.head == "[") && z.mayBeSubscript(w):
			u.Transparent = false
			u.floor(floorShellState, u.head+" evaluates a name that is computed")
		case u.head == "unset" && w.is("PATH"):
			u.floor(floorShellState, "without a search path programs of this directory run")
		case w.known() && isName(w.val):
			if why := dangerousName(w.val, word{}); why != "" && u.head != "unset" && u.head != "test" && u.head != "[" {
				u.floor(floorAssign, w.val+" is set: "+why)
			}
		}
	}
	return c.e
}

func (z *analyzer) mayBeSubscript(w word) bool {
	for _, name := range w.vars {
		if z.numeric(name) {
			continue
		}
		v := z.vars[name]
		if v == nil || v.unknown {
			return true
		}
		for _, s := range v.values {
			if strings.Contains(s, "[") {
				return true
			}
		}
	}
	return len(w.vars) == 0
}

func lookSed(z *analyzer, u *Unit, c call) env {
	g := grammar{flags: "nErsuz", values: "efl", optional: "i", permute: true,
		long: longs("quiet silent debug expression= file= follow-symlinks in-place? line-length= null-data zero-terminated posix regexp-extended separate sandbox unbuffered help version")}
	opts, rest, ok := g.parse(c.words[1:])
	if !ok {
		u.floor(floorExecutes, "an option of "+u.head+" is not known")
		return c.e
	}
	given := false
	script := func(w word) {
		given = true
		scripts, ok := z.possible(w)
		if !ok {
			u.floor(floorExecutes, "the script of "+u.head+" is computed")
			return
		}
		for _, s := range scripts {
			if why := sedRuns(s); why != "" {
				u.floor(floorExecutes, u.head+": "+why)
			}
		}
	}
	for _, o := range opts {
		switch o.name {
		case "e", "expression":
			script(o.val)
		case "f", "file":
			given = true
			z.scriptOption(u, o.val, c.e)
		}
	}
	if !given && len(rest) > 0 {
		script(rest[0])
		rest = rest[1:]
	}
	for _, w := range rest {
		if w.dash() && !w.lit && z.mayBeOption(w) && !w.multi {
			continue
		}
	}
	return c.e
}

// possible returns every value that a word may have, as far as the text shows
// them all: digits stand for any number.
func (z *analyzer) possible(w word) ([]string, bool) {
	if w.lit {
		return []string{w.val}, true
	}
	if len(w.vars) == 0 || w.multi {
		return nil, false
	}
	out := []string{w.typed}
	// Longer names first, so that $x does not eat the beginning of $xy.
	names := slices.Clone(w.vars)
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		values := []string{"1"}
		if !z.numeric(name) {
			v := z.vars[name]
			if v == nil || v.unknown || v.temp || len(v.values) == 0 {
				return nil, false
			}
			values = v.values
		}
		if name == "" {
			return nil, false
		}
		var next []string
		for _, s := range out {
			for _, val := range values {
				if len(next) < 256 && !strings.Contains(val, "$") {
					next = append(next, expandOne(s, name, val))
				} else {
					return nil, false
				}
			}
		}
		out = next
	}
	for _, s := range out {
		if strings.Contains(s, "$(") || strings.Contains(s, "`") {
			return nil, false
		}
	}
	return out, true
}

// scriptOption is a file of code named by an option.
func (z *analyzer) scriptOption(u *Unit, w word, e env) {
	if _, stream := descriptor(w.val, e); stream || !w.known() {
		u.floor(floorInline, "the code that "+u.head+" reads is not judged", u.head+" -f")
		return
	}
	z.runsScript(u, w, e)
}

func lookAwk(z *analyzer, u *Unit, c call) env {
	g := grammar{flags: "bcCdghIknNoOprPsStV", values: "Ffveil", long: longs("field-separator= file= assign= source= include= load= csv posix traditional re-interval sandbox version lint")}
	opts, rest, ok := g.parse(c.words[1:])
	if !ok {
		u.floor(floorExecutes, "an option of "+u.head+" is not known")
		return c.e
	}
	given := false
	for _, o := range opts {
		switch o.name {
		case "f", "file", "i", "include":
			given = true
			z.scriptOption(u, o.val, c.e)
		case "e", "source":
			given = true
			rest = append([]word{o.val}, rest...)
		case "l", "load":
			u.floor(floorExecutes, u.head+" loads an extension")
		}
	}
	if !given || len(opts) > 0 && opts[len(opts)-1].name == "e" {
		if len(rest) == 0 {
			return c.e
		}
		programs, ok := z.possible(rest[0])
		if !ok {
			u.floor(floorExecutes, "the program of "+u.head+" is computed")
			return c.e
		}
		for _, p := range programs {
			if why := awkRuns(p); why != "" {
				u.floor(floorExecutes, u.head+": "+why)
			}
		}
	}
	return c.e
}

func lookSSH(z *analyzer, u *Unit, c call) env {
	for i := 1; i < len(c.words); i++ {
		s := c.words[i].val
		if strings.HasPrefix(s, "-") {
			if len(s) == 2 && strings.Contains("BbcDEeFIiJLlmOopQRSWw", s[1:]) {
				i++
			}
			continue
		}
		// The host; what follows runs there, which may be here.
		if i+1 < len(c.words) && c.words[i+1].known() && c.words[i+1].val != "" {
			z.maybe(u, c.words[i+1:], policy.Ask, "the command on the other host", true)
		}
		break
	}
	for i, w := range c.words[1:] {
		if !w.known() {
			continue
		}
		o := ""
		switch {
		case w.val == "-o" && i+2 < len(c.words):
			o = c.words[i+2].val
		case strings.HasPrefix(w.val, "-o") && len(w.val) > 2:
			o = w.val[2:]
		default:
			continue
		}
		key := strings.ToLower(strings.TrimSpace(strings.FieldsFunc(o+"=", func(r rune) bool { return r == '=' || r == ' ' })[0]))
		if !sshOptions[key] {
			u.floor(floorExecutes, "the ssh option "+quote(o)+" may run a program")
		}
	}
	return c.e
}

var sshOptions = func() map[string]bool {
	m := map[string]bool{}
	for _, s := range strings.Fields(`stricthostkeychecking batchmode connecttimeout user port identityfile identitiesonly serveraliveinterval
		serveralivecountmax loglevel userknownhostsfile globalknownhostsfile addressfamily compression requesttty forwardagent preferredauthentications
		pubkeyauthentication passwordauthentication numberofpasswordprompts hostname connectionattempts controlmaster controlpath controlpersist tcpkeepalive checkhostip`) {
		m[s] = true
	}
	return m
}()

// lookRm adds the spelling with the usual flags: -fr and -r -f mean -rf.
func lookRm(z *analyzer, u *Unit, c call) env {
	var recursive, force bool
	var rest []word
	for i, w := range c.words[1:] {
		s := w.val
		switch {
		case w.is("--"):
			rest = append(rest, c.words[i+1:]...)
		case w.known() && strings.HasPrefix(s, "--") && len(s) > 3 && strings.HasPrefix("--recursive", s):
			recursive = true
			continue
		case w.known() && strings.HasPrefix(s, "--") && len(s) > 3 && strings.HasPrefix("--force", s):
			force = true
			continue
		case w.known() && len(s) > 1 && s[0] == '-' && s[1] != '-':
			recursive = recursive || strings.ContainsAny(s, "rR")
			force = force || strings.Contains(s, "f")
			continue
		default:
			rest = append(rest, w)
			continue
		}
		break
	}
	flags := ""
	switch {
	case recursive && force:
		flags = "-rf"
	case recursive:
		flags = "-r"
	case force:
		flags = "-f"
	default:
		return c.e
	}
	t := strings.TrimSuffix("rm "+flags+" "+normText(rest), " ")
	if t != u.Text {
		u.Forms = append(u.Forms, Form{Text: t, Cap: policy.Ask, Why: "the same flags, joined"})
	}
	return c.e
}

func lookMake(z *analyzer, u *Unit, c call) env {
	for i, w := range c.words[1:] {
		s := w.val
		if !w.known() {
			continue
		}
		if (s == "-f" || s == "--file" || s == "--makefile") && i+2 < len(c.words) {
			s = "-f" + c.words[i+2].val
		}
		for _, pre := range []string{"-f", "--file=", "--makefile="} {
			if f, ok := strings.CutPrefix(s, pre); ok {
				if _, stdin := descriptor(f, c.e); stdin {
					u.floor(floorInline, "make reads its rules from standard input")
				}
			}
		}
		name, val, ok := strings.Cut(w.val, "=")
		if ok && isName(strings.TrimRight(name, ":+?")) {
			if why := dangerousName(strings.TrimRight(name, ":+?"), literal(val)); why != "" {
				u.floor(floorAssign, fmt.Sprintf("%s is set: %s", name, why), name+"=")
			}
		}
	}
	return c.e
}
