package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

func joinPath(dir, p string) string {
	if strings.HasPrefix(p, "/") {
		return path.Clean(p)
	}
	return path.Join(dir, p)
}

// devices are never a place where something is kept.
func device(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/") || strings.HasPrefix(p, "/proc/self/fd/")
}

// target is what a redirection opens. It is always a path, and a computed one
// that is written is at least an ask.
func (z *analyzer) target(w word, write bool, e env) {
	if host, ok := strings.CutPrefix(w.prefix, "/dev/tcp/"); ok {
		z.shellNetwork(host)
		return
	}
	if host, ok := strings.CutPrefix(w.prefix, "/dev/udp/"); ok {
		z.shellNetwork(host)
		return
	}
	if write && (!w.lit || w.glob) && !z.knownValues(w) {
		z.addPath(PathUse{Typed: w.typed, Write: true, Source: "redirect", UnknownBase: true, Unknown: true, shapes: z.shapes(w.shapeOf(), one(e.dirs))})
		return
	}
	z.pathUse(w, write, "redirect", "", e, true)
}

// knownValues reports whether the text shows every value of a computed path, or
// that it is a fresh temporary file.
func (z *analyzer) knownValues(w word) bool {
	if w.glob || w.lit || len(w.vars) == 0 {
		return false
	}
	for _, name := range w.vars {
		if name == "" || z.numeric(name) {
			continue
		}
		v := z.vars[name]
		if v == nil || v.unknown || len(v.values) == 0 && !v.temp {
			return false
		}
		if v.temp && strings.Contains(w.typed, "..") {
			return false
		}
	}
	return true
}

// pathUse records one path. certain says that the word is a path whatever it
// looks like.
func (z *analyzer) pathUse(w word, write bool, source, cmd string, e env, certain bool) {
	if w.typed == "" && w.val == "" {
		return
	}
	if !w.lit {
		// Values that the text itself gives are judged one by one.
		if len(w.vars) == 1 && isName(w.vars[0]) && w.prefix == "" {
			if v := z.vars[w.vars[0]]; v != nil && len(v.values) > 0 && !z.numeric(w.vars[0]) {
				for _, s := range v.values {
					typed := expandOne(w.typed, w.vars[0], s)
					if typed == "" {
						continue
					}
					lw := literal(typed)
					lw.glob = strings.ContainsAny(typed, "*?[")
					if certain || z.candidate(lw, e) {
						z.pathUse(lw, write, source, cmd, e, true)
					}
				}
				if z.knownValues(w) {
					return
				}
			}
		}
		if certain || strings.ContainsAny(w.typed, "/.~") {
			if w.prefix != "" && !strings.HasPrefix(w.prefix, "-") && strings.Contains(w.prefix, "/") && !certain && !z.candidate(literal(w.prefix), e) {
				return
			}
			z.addShapes(PathUse{Typed: w.typed, Write: write, Source: source, Command: cmd, UnknownBase: true}, w, e)
		}
		return
	}
	p := w.val
	if device(p) || device(path.Clean(p)) {
		return
	}
	if !certain && !z.candidate(w, e) {
		return
	}
	if strings.IndexByte(p, 0) >= 0 {
		return
	}
	u := PathUse{Typed: w.typed, Write: write, Source: source, Command: cmd, Pattern: w.glob}
	shape := w.shapeOf()
	if path.IsAbs(p) {
		u.Path = path.Clean(p)
		if w.glob {
			u.shapes = z.shapes(shape, "")
		}
		z.addPath(u)
		return
	}
	if len(e.dirs) == 0 {
		u.UnknownBase = true
		u.Unknown = write && source == "redirect"
		if w.glob {
			u.shapes = z.shapes(shape, "")
		}
		z.addPath(u)
		return
	}
	for _, d := range e.dirs {
		u.Path = path.Join(d, p)
		if w.glob {
			u.shapes = z.shapes(shape, d)
		}
		z.addPath(u)
	}
}

// addShapes records a path of which not all is known, for each directory that it
// may be relative to.
func (z *analyzer) addShapes(u PathUse, w word, e env) {
	if z.unseen(w, u.Source) {
		z.addPath(u)
		return
	}
	shape := w.shapeOf()
	if len(e.dirs) == 0 {
		u.shapes = z.shapes(shape, "")
		z.addPath(u)
		return
	}
	for _, d := range e.dirs {
		u.dir = d
		u.shapes = z.shapes(shape, d)
		z.addPath(u)
	}
}

// one returns the directory where there is only one.
func one(dirs []string) string {
	if len(dirs) == 1 {
		return dirs[0]
	}
	return ""
}

func expandOne(typed, name, value string) string {
	s := strings.ReplaceAll(typed, "${"+name+"}", value)
	return strings.ReplaceAll(s, "$"+name, value)
}

func (z *analyzer) addPath(u PathUse) {
	k := pathKey{u.Typed, u.Path + u.dir, u.Write, z.perhaps}
	if z.paths == nil {
		z.paths = map[pathKey]bool{}
	}
	if z.paths[k] {
		return
	}
	if len(z.paths) >= maxPaths {
		z.tooComplex("more than 4000 paths")
		return
	}
	if len(u.shapes) > 0 {
		if z.shaped++; z.shaped > maxShapes {
			z.tooComplex(fmt.Sprintf("more than %d paths that are known only when they are used", maxShapes))
			return
		}
	}
	z.paths[k] = true
	u.aliases = z.aliases(u)
	if z.perhaps {
		if len(u.shapes) == 0 {
			for _, s := range u.aliases {
				u.shapes = append(u.shapes, policy.Shape{Text: policy.ShapeText(s)}, policy.Shape{Text: policy.ShapeText(strings.TrimSuffix(s, "/") + "/")})
			}
		}
		for i := range u.shapes {
			u.shapes[i].Some = true
		}
	}
	z.a.Paths = append(z.a.Paths, u)
}

// aliases are the spellings of one path that a rule may use.
func (z *analyzer) aliases(u PathUse) []string {
	var out []string
	put := func(s string) {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	put(u.Path)
	if d := z.o.Dir; d != "" && u.Path != "" {
		if u.Path == d {
			put(".")
		} else if strings.HasPrefix(u.Path, d+"/") {
			put(u.Path[len(d)+1:])
			put("./" + u.Path[len(d)+1:])
		}
	}
	put(u.Typed)
	return out
}

// candidate reports whether a word looks like a path, or is the name of
// something that exists.
func (z *analyzer) candidate(w word, e env) bool {
	s := w.val
	if s == "" || s[0] == '-' || strings.Contains(s, "://") || strings.ContainsAny(s, "\n") {
		return false
	}
	if s[0] == '@' && !strings.HasPrefix(s, "@/") {
		return false
	}
	if i := strings.IndexByte(s, '='); i >= 0 && !strings.Contains(s[:i], "/") {
		return false
	}
	if w.glob {
		return true // the shell looks for files
	}
	for _, re := range []string{".*", ".+", `\|`, `\(`, `\)`, "^/"} {
		if strings.Contains(s, re) && !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "./") && !strings.HasPrefix(s, "../") {
			return false
		}
	}
	if s[0] == '/' || s[0] == '.' || strings.HasPrefix(w.typed, "~") || strings.Contains(s, "/") || strings.Contains(s, "..") {
		return true
	}
	if z.o.Resolver == nil || w.glob || len(e.dirs) == 0 {
		return false
	}
	for _, d := range e.dirs {
		if z.o.Resolver.Exists(path.Join(d, s)) {
			return true
		}
	}
	return false
}

// looseWord is a word that becomes an argument somewhere: a loop item, the
// subject of a case.
func (z *analyzer) looseWord(w word, e env) {
	if w.glob || strings.HasPrefix(w.pat, "/") || w.lit && (strings.HasPrefix(w.typed, "/") || strings.HasPrefix(w.typed, "~") || strings.Contains(w.val, "..")) {
		z.pathUse(w, false, "word", "", e, false)
	}
}

// readers read their operands and nothing else.
var readers = fieldSet(`cat tac head tail wc grep egrep fgrep zgrep rg ag ack diff cmp comm ls ll dir exa eza tree stat file pwd basename dirname realpath
	readlink which du df sort uniq cut paste nl fold fmt column rev md5sum sha1sum sha256sum sha512sum cksum sum xxd od hexdump strings less more view bat jq yq xq
	cd find fd sed awk gawk test [ source . cloc tokei scc shellcheck mypy pylint pyright shasum zcat base64 git type`)

// writers write their operands.
var writers = fieldSet(`rm rmdir mkdir touch truncate chmod chown chgrp mktemp mkfifo mknod tee shred unlink sync-dir`)

// patternFirst are programs whose first operand is no path.
var patternFirst = map[string]int{"sed": 1, "gsed": 1, "awk": 1, "gawk": 1, "mawk": 1, "nawk": 1, "grep": 1, "egrep": 1, "fgrep": 1, "zgrep": 1,
	"rg": 1, "ag": 1, "ack": 1, "sd": 2, "jq": 1, "yq": 1, "chmod": 1, "chown": 1, "chgrp": 1, "tr": 9, "perl": 0, "kill": 9, "echo": 99, "printf": 99, "git": 1, "npm": 1, "go": 1, "docker": 1}

// patternOption: letters after which no operand is the pattern, and letters that
// take a value.
var operandOptions = map[string]struct{ script, values string }{
	"sed": {"ef", "efl"}, "gsed": {"ef", "efl"}, "awk": {"f", "Fvf"}, "gawk": {"fe", "Fvfei"},
	"grep": {"ef", "efABCmdD"}, "egrep": {"ef", "efABCmdD"}, "fgrep": {"ef", "efABCmdD"}, "zgrep": {"ef", "efABCm"},
	"rg": {"ef", "efABCgjmMrtTE"}, "head": {"", "nc"}, "tail": {"", "nc"}, "cut": {"", "dfcb"}, "sort": {"", "kStT"}, "jq": {"f", "f"},
	"git": {"", ""}, "mkdir": {"", "m"}, "touch": {"", "dtr"}, "truncate": {"", "s"}, "tee": {"", ""}, "cp": {"", "tS"}, "mv": {"", "tS"}, "ln": {"", "tS"}, "install": {"", "tSmog"},
}

// operands records the paths among the arguments of a command.
func (z *analyzer) operands(u *Unit, name string, c call) {
	ws := c.words[1:]
	if head := c.words[0]; strings.Contains(head.val, "/") && head.known() {
		z.pathUse(head, false, "command", name, c.e, true)
	}
	switch name {
	case "echo", "printf", "export", "declare", "local", "typeset", "readonly", "set", "alias", "true", "false", ":", "cd", "pushd", "popd",
		"eval", "trap", "kill", "exit", "return", "read", "unset", "shopt":
		return
	}
	if p := known().programs[name]; p != nil && p.peel != nil && (known().wrappers[name] != nil || name == "command" || name == "builtin" || name == "exec" || shells[name]) && name != "xargs" {
		return // what they run has its own operands
	}
	const unproven = 2
	mode := unproven
	switch {
	case readers[name]:
		mode = 0
	case writers[name]:
		mode = 1
	}
	dirs := c.e.dirs
	if name == "git" {
		opts, rest := sub("git", c.words)
		if o, ok := find(opts, "C"); ok {
			c.e.dirs = chdir(dirs, o.val)
		}
		ws = rest
		mode = z.gitMode(rest)
	} else if known().globals[name] != nil {
		opts, rest := sub(name, c.words)
		for _, o := range opts {
			switch o.name {
			case "C", "prefix", "dir", "cwd", "directory", "chdir", "project":
				z.pathUse(o.val, false, "option", name, c.e, true)
				c.e.dirs = chdir(dirs, o.val)
			}
		}
		ws = rest
	}
	skip := patternFirst[name]
	oo := operandOptions[name]
	var ops []word
	ended := false
	for i := 0; i < len(ws); i++ {
		w := ws[i]
		s := w.prefix
		if w.lit {
			s = w.val
		}
		if ended || s == "" || s[0] != '-' || s == "-" {
			if s == "-" {
				continue
			}
			ops = append(ops, w)
			continue
		}
		if s == "--" {
			ended = true
			continue
		}
		if strings.HasPrefix(s, "--") || strings.HasPrefix(name, "find") {
			key, val, ok := strings.Cut(s, "=")
			if (name == "grep" || name == "sed" || name == "rg" || name == "awk") && (strings.HasPrefix("--regexp", key) && len(key) > 3 || strings.HasPrefix("--file", key) && len(key) > 3 || strings.HasPrefix("--expression", key) && len(key) > 3) {
				skip = 0
			}
			if ok && val != "" {
				z.optionPath(w, mode, key, name, c.e)
			}
			continue
		}
		for j := 1; j < len(s); j++ {
			if strings.IndexByte(oo.script, s[j]) >= 0 {
				skip = 0
			}
			if strings.IndexByte(oo.values, s[j]) >= 0 {
				if j+1 == len(s) {
					i++
					if i < len(ws) && s[j] == 'f' {
						z.pathUse(ws[i], false, "option", name, c.e, true)
					}
				}
				break
			}
		}
	}
	if skip > 0 {
		ops = ops[min(skip, len(ops)):]
	}
	for i := 0; i < len(ws) && name != "dd"; i++ {
		w := ws[i]
		z.attached(w, mode, name, c.e)
	}
	switch name {
	case "cp", "mv", "ln", "install", "rsync", "scp":
		z.copyOperands(name, ws, ops, c.e)
		return
	case "dd":
		for _, w := range ws {
			key, _, ok := strings.Cut(w.prefix, "=")
			if ok && (key == "if" || key == "of") {
				_, g, _ := strings.Cut(w.asGlob(), "=")
				z.pathUse(z.piece(w, g), key == "of", "operand", name, c.e, true)
			}
		}
		return
	case "sed", "gsed":
		inPlace := false
		for _, w := range ws {
			inPlace = inPlace || strings.HasPrefix(w.prefix, "-i") || strings.HasPrefix(w.prefix, "--in-place") || strings.HasPrefix(w.prefix, "-") && !strings.HasPrefix(w.prefix, "--") && strings.Contains(w.prefix, "i") && !strings.Contains(w.prefix, "e")
		}
		if inPlace {
			for _, w := range ops {
				z.pathUse(w, true, "operand", name, c.e, true)
			}
		}
	case "uniq":
		if len(ops) > 1 {
			z.pathUse(ops[1], true, "operand", name, c.e, true)
			u.floor(floorWrites, "the second operand of uniq is written", ops[1].typed)
		}
	case "sort", "shuf", "tree", "curl", "wget", "gcc", "cc", "clang", "go", "pandoc":
		for i, w := range ws {
			if (w.is("-o") || w.is("-O") || w.is("--output")) && i+1 < len(ws) && !ws[i+1].is("-") {
				z.pathUse(ws[i+1], true, "option", name, c.e, name != "curl" || !w.is("-O"))
			} else if s, ok := strings.CutPrefix(w.val, "-o"); ok && s != "" && w.known() && name != "curl" && name != "go" {
				z.pathUse(literal(s), true, "option", name, c.e, true)
			}
		}
	case "tar", "gtar", "unzip":
		for i, w := range ws {
			if (w.is("-C") || w.is("--directory") || w.is("-d") && name == "unzip") && i+1 < len(ws) {
				z.pathUse(ws[i+1], true, "option", name, c.e, true)
			}
		}
	}
	for _, w := range ops {
		switch mode {
		case 0:
			z.pathUse(w, false, "operand", name, c.e, false)
		case 1:
			z.pathUse(w, true, "operand", name, c.e, true)
		default:
			z.both(w, name, c.e)
		}
	}
}

// both records a path whose direction is not known.
func (z *analyzer) both(w word, name string, e env) {
	before := len(z.a.Paths)
	z.pathUse(w, false, "operand", name, e, false)
	z.pathUse(w, true, "operand", name, e, false)
	for i := before; i < len(z.a.Paths); i++ {
		z.a.Paths[i].Unproven = true
	}
}

func (z *analyzer) optionPath(w word, mode int, key, name string, e env) {
	g := w.asGlob()
	if strings.HasPrefix(key, "--") {
		_, g, _ = strings.Cut(g, "=")
	} else {
		g = g[min(len(key), len(g)):]
	}
	z.direction(z.piece(w, g), mode, key, name, e)
}

// direction records the path of an option, whose name may tell what is done.
func (z *analyzer) direction(v word, mode int, key, name string, e env) {
	write := strings.Contains(key, "out") || strings.Contains(key, "dest") || strings.Contains(key, "log")
	switch {
	case mode == 0 && !write:
		z.pathUse(v, false, "option", name, e, false)
	case write:
		z.pathUse(v, true, "option", name, e, false)
	default:
		z.both(v, name, e)
	}
}

func (z *analyzer) copyOperands(name string, ws, ops []word, e env) {
	dest := -1
	for i, w := range ws {
		if (w.is("-t") || w.is("--target-directory")) && i+1 < len(ws) && name != "rsync" && name != "scp" {
			z.pathUse(ws[i+1], true, "operand", name, e, true)
			dest = -2
		} else if v, ok := strings.CutPrefix(w.prefix, "--target-directory="); ok {
			z.pathUse(literal(v), true, "operand", name, e, true)
			dest = -2
		}
	}
	if dest == -1 && (len(ops) > 1 || name == "ln") {
		dest = len(ops) - 1
	}
	for i, w := range ops {
		remote := (name == "rsync" || name == "scp") && strings.Contains(w.val, ":") && !strings.HasPrefix(w.val, "/") && !strings.HasPrefix(w.val, ".")
		if remote {
			continue
		}
		z.pathUse(w, i == dest, "operand", name, e, true)
		if name == "mv" && i != dest {
			z.pathUse(w, true, "operand", name, e, true)
		}
	}
}

// gitMode says what git does with the paths in its arguments.
func (z *analyzer) gitMode(rest []word) int {
	if len(rest) == 0 || !rest[0].known() {
		return 2
	}
	switch rest[0].val {
	case "status", "log", "diff", "show", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "rev-list", "describe", "shortlog", "branch", "tag",
		"cat-file", "merge-base", "remote", "config", "add", "commit", "fetch", "push", "pull", "stash", "cherry-pick", "revert", "check-ignore", "for-each-ref", "symbolic-ref", "merge", "rebase", "reflog", "bisect", "ls-remote", "name-rev", "whatchanged", "range-diff", "notes":
		return 0
	}
	return 2
}
