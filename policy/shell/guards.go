package shell

import (
	"strings"
)

// guard knows the options by which an ordinary program runs another one or
// writes a file, so that a rule for the program alone does not allow them.
type guard struct {
	// exec and write are letters; values are letters that take a value, so that
	// clusters are read right.
	exec, write, values string
	// execLong and writeLong are long options; abbreviations of three letters
	// and more count.
	execLong, writeLong []string
	// execWord and writeWord are whole words (find's predicates).
	execWord, writeWord []string
	// contains are texts that no word may hold.
	contains []string
	// dynamic: a computed word that may be an option is one of them.
	dynamic bool
	// bare: the first word may be a cluster without a dash (tar).
	bare bool
	// single: long options have one dash.
	single bool
	// onlySub limits the guard to these subcommands.
	onlySub []string
}

func (g *guard) check(z *analyzer, u *Unit, c call) {
	ws := c.words[1:]
	if g.onlySub != nil {
		_, ws = sub(u.head, c.words)
		if len(ws) == 0 || !contains(g.onlySub, ws[0].val) {
			return
		}
		ws = ws[1:]
	}
	skip := 0
	for i, w := range ws {
		for _, s := range g.contains {
			if strings.Contains(w.typed, s) || strings.Contains(w.val, s) {
				u.floor(floorExecutes, u.head+" runs a program named in its arguments", s)
			}
		}
		if skip > 0 {
			skip-- // the value of an option
			continue
		}
		if !w.lit {
			if w.prefix == "" {
				if g.dynamic && z.mayBeOption(w) {
					u.floor(floorExecutes, "a computed word may be an option by which "+u.head+" runs or writes something")
				}
				continue
			}
		}
		s := w.prefix
		if w.lit {
			s = w.val
		}
		if !w.lit && g.openOption(s) && g.dynamic && !z.numericTail(w) {
			u.floor(floorExecutes, "a computed option may be one by which "+u.head+" runs or writes something")
			continue
		}
		if contains(g.execWord, s) {
			u.floor(floorExecutes, u.head+" "+s+" runs a program", s)
			continue
		}
		if contains(g.writeWord, s) {
			u.floor(floorWrites, u.head+" "+s+" changes files", s)
			continue
		}
		if s == "--" && w.lit {
			break
		}
		if strings.HasPrefix(s, "--") || g.single && strings.HasPrefix(s, "-") {
			name, _, _ := strings.Cut(strings.TrimLeft(s, "-"), "=")
			if l := abbreviates(name, g.execLong); l != "" {
				u.floor(floorExecutes, u.head+" --"+l+" runs a program", "--"+l)
			} else if l := abbreviates(name, g.writeLong); l != "" {
				u.floor(floorWrites, u.head+" --"+l+" writes a file", "--"+l)
			}
			continue
		}
		bare := false
		if len(s) < 2 || s[0] != '-' {
			if !(g.bare && i == 0) || s == "" {
				continue
			}
			// The letters of tar's first word take their values from the words
			// after it, in order.
			bare, s = true, "-"+s
		}
		for j := 1; j < len(s); j++ {
			l := s[j : j+1]
			if strings.Contains(g.exec, l) {
				u.floor(floorExecutes, u.head+" -"+l+" runs a program", " -"+l)
				break
			}
			if strings.Contains(g.write, l) {
				u.floor(floorWrites, u.head+" -"+l+" writes a file", " -"+l)
				break
			}
			if strings.Contains(g.values, l) {
				if bare {
					skip++
					continue
				}
				if j+1 == len(s) {
					skip = 1
				}
				break
			}
		}
	}
}

// openOption reports whether the known beginning of a word may still become any
// option.
func (g *guard) openOption(s string) bool {
	if s == "" || s[0] != '-' || strings.Contains(s, "=") {
		return false
	}
	if strings.HasPrefix(s, "--") || g.single || g.writeWord != nil {
		return true
	}
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(g.values, s[i]) >= 0 {
			return false
		}
	}
	return true
}

// numericTail reports whether what is not known of a word is a number.
func (z *analyzer) numericTail(w word) bool {
	for _, name := range w.vars {
		if !z.numeric(name) {
			return false
		}
	}
	return len(w.vars) > 0
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// abbreviates returns the option that name is or abbreviates.
func abbreviates(name string, list []string) string {
	for _, l := range list {
		if l == name || len(name) >= 3 && strings.HasPrefix(l, name) {
			return l
		}
	}
	return ""
}

// mayBeOption reports whether a computed word can begin with a dash, as far as
// the text shows.
func (z *analyzer) mayBeOption(w word) bool {
	if w.prefix != "" {
		return w.prefix[0] == '-'
	}
	if len(w.vars) == 0 {
		return true
	}
	name := w.vars[0]
	if z.numeric(name) {
		return false
	}
	v := z.vars[name]
	if v == nil {
		return true
	}
	if v.unknown {
		return true
	}
	for _, s := range v.values {
		if strings.HasPrefix(s, "-") || s == "" || w.multi && strings.Contains(s, " -") {
			return true
		}
	}
	return false
}

var editors = &guard{exec: "cSsWwq", execLong: []string{"cmd", "eval", "execute", "load", "script", "remote-expr", "remote-send"},
	execWord: []string{"-es", "-Es", "-c", "-S", "--cmd", "-l", "-f", "--eval"}, contains: []string{"+"}, dynamic: true}

var sshGuard = &guard{exec: "F", values: "BbcDEeIiJLlmOopQRSWw", contains: []string{"ProxyCommand", "proxycommand", "PROXYCOMMAND", "LocalCommand", "localcommand",
	"KnownHostsCommand", "knownhostscommand", "ProxyUseFdpass", "PKCS11Provider", "SecurityKeyProvider", "PermitLocalCommand", "permitlocalcommand", "Match", "Include"}, dynamic: true}

// guards: where an option is listed, it is because the program's manual says
// that it runs a program or writes a named file.
func guards() map[string]*guard {
	all := map[string]*guard{
		"tar": {exec: "IF", values: "bCfgKLNTVXH", bare: true, dynamic: true,
			execLong: []string{"checkpoint-action", "use-compress-program", "to-command", "info-script", "new-volume-script", "rsh-command", "rmt-command"}},
		"sort": {write: "o", values: "kStT", writeLong: []string{"output"}, execLong: []string{"compress-program"}, dynamic: true},
		"find": {writeWord: []string{"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}, dynamic: true},
		"fd":   {dynamic: true},
		"rg":   {execLong: []string{"pre", "hostname-bin"}, dynamic: true, values: "ABCEefgjMmrtT"},
		"man":  {exec: "PH", values: "CLmMRsSEr", execLong: []string{"pager", "html", "gxditview"}, dynamic: true},
		"less": {write: "oO", values: "bhjkpPtTxyz", contains: []string{"+"}, writeLong: []string{"log-file", "LOG-FILE"}},
		"more": {contains: []string{"+"}},
		"view": editors, "vim": editors, "vi": editors, "nvim": editors, "ex": editors, "emacs": editors, "ed": editors,
		"split":   {execLong: []string{"filter"}},
		"rsync":   {exec: "e", values: "fBTM", execLong: []string{"rsh", "rsync-path"}, dynamic: true},
		"scp":     {exec: "SFD", values: "cilPoJX", contains: sshGuard.contains, dynamic: true},
		"sftp":    {exec: "SFDb", values: "aBciJloPRsX", contains: sshGuard.contains, dynamic: true},
		"ssh":     sshGuard,
		"make":    {execLong: []string{"eval"}, contains: []string{"SHELL=", ".SHELLFLAGS="}, values: "CfIjloW"},
		"gmake":   {execLong: []string{"eval"}, contains: []string{"SHELL=", ".SHELLFLAGS="}, values: "CfIjloW"},
		"zip":     {execLong: []string{"unzip-command"}, execWord: []string{"-TT"}},
		"wget":    {execLong: []string{"use-askpass"}, exec: "e", values: "aoiBtOTwQPUluADRIX"},
		"curl":    {exec: "K", execLong: []string{"config"}, values: "AbcCdDeEFhHmoPQrtTuUwxXyYz", dynamic: false},
		"go":      {single: true, execLong: []string{"exec", "toolexec", "vettool", "overlay"}},
		"gcc":     {single: true, execLong: []string{"wrapper", "fplugin", "specs"}},
		"cc":      {single: true, execLong: []string{"wrapper", "fplugin", "specs"}},
		"g++":     {single: true, execLong: []string{"wrapper", "fplugin", "specs"}},
		"npm":     {execLong: []string{"script-shell", "node-options", "git"}},
		"pnpm":    {execLong: []string{"script-shell", "shell-emulator"}},
		"cargo":   {execLong: []string{"config"}},
		"sqlite3": {contains: []string{".shell", ".system", ".load", "load_extension", "edit(", "writefile("}, execLong: []string{}},
		"mysql":   {contains: []string{`\!`, "system "}},
		"psql":    {contains: []string{`\!`, "PROGRAM", "program"}},
		"docker":  {},
		"ctags":   {execLong: []string{"options", "optlib-dir"}},
		"xxd":     {},
		"date":    {write: "s", values: "dfrI", writeLong: []string{"set"}},
		"nc":      {exec: "ec", values: "IiMmOPpqsTVWwXx", execLong: []string{"exec", "sh-exec", "lua-exec"}},
		"ncat":    {exec: "ec", values: "dgGimopsw", execLong: []string{"exec", "sh-exec", "lua-exec"}},
		"socat":   {contains: []string{"EXEC:", "SYSTEM:", "SHELL:", "exec:", "system:", "shell:"}},
		"lldb":    {exec: "osOSb", execLong: []string{"one-line", "source"}},
		"rustc":   {contains: []string{"linker="}},
		"ansible": {exec: "a", values: "mietlufM"},
		"crontab": {execWord: []string{"-", "-e", "-r"}},
		"bat":     {execLong: []string{"pager"}},
		"delta":   {execLong: []string{"pager"}},
		"fzf":     {execLong: []string{"preview", "bind"}},
		"shuf":    {write: "o", values: "inr", writeLong: []string{"output"}},
		"uniq":    {},
		"jq":      {},
		"tree":    {write: "o", values: "LPIHT"},
		"ip":      {execWord: []string{"exec", "-b", "-batch"}},
		"tcpdump": {exec: "z", write: "w"},
		"openssl": {execWord: []string{"-engine", "-provider-path"}},
		"gpg":     {execLong: []string{"photo-viewer", "agent-program", "dirmngr-program", "keyserver-options"}},
	}
	for alias, of := range map[string]string{"gtar": "tar", "bsdtar": "tar", "gfind": "find", "fdfind": "fd"} {
		all[alias] = all[of]
	}
	return all
}

// interpreter describes how a program takes code.
type interpreter struct {
	code, values         string // letters: code follows; a value follows
	codeLong, valuesLong []string
	module               string // letters: a module name follows and ends the options
	codeSub              string // subcommand that takes code (deno eval)
	runSub               []string
	harmless             []string
}

var python = &interpreter{code: "c", values: "WXQ", module: "m", valuesLong: []string{"check-hash-based-pycs"}, harmless: []string{"-V", "--version", "-h", "--help", "-VV"}}
var nodeLike = &interpreter{code: "ep", values: "rCi", codeLong: []string{"eval", "print"}, valuesLong: []string{"require", "import", "loader", "experimental-loader", "env-file", "conditions", "input-type"},
	harmless: []string{"-v", "--version", "-h", "--help", "--check", "-c", "--test", "--run", "--v8-options"}}
var perlLike = &interpreter{code: "eE", values: "ImMxFCl0", harmless: []string{"-v", "-V", "--version", "--help", "-h"}}

func interpreters() map[string]*interpreter {
	return map[string]*interpreter{
		"python": python, "python2": python, "python3": python, "pypy": python, "pypy3": python,
		"node": nodeLike, "nodejs": nodeLike, "bun": {code: "ep", codeLong: []string{"eval", "print"}, runSub: []string{}, harmless: []string{"-v", "--version", "--help"}},
		"tsx": nodeLike, "ts-node": {code: "ep", values: "rPO", codeLong: []string{"eval", "print"}, harmless: []string{"-v", "--version", "--help"}},
		"deno": {codeSub: "eval", harmless: []string{"--version", "--help", "-V"}},
		"perl": perlLike, "ruby": {code: "e", values: "rICEFx0", harmless: []string{"-v", "--version", "--help", "-h"}},
		"php": {code: "rRBE", values: "dczS", codeLong: []string{"run", "process-code", "process-begin", "process-end"}, harmless: []string{"-v", "--version", "-i", "-m", "-h", "-l"}},
		"lua": {code: "e", values: "l", harmless: []string{"-v"}}, "luajit": {code: "e", values: "l", harmless: []string{"-v"}},
		"Rscript": {code: "e", codeLong: []string{}, harmless: []string{"--version", "--help"}},
		"julia":   {code: "eE", values: "pJLCtO", codeLong: []string{"eval", "print"}, harmless: []string{"--version", "-v", "--help"}},
		"elixir":  {code: "e", values: "rS", codeLong: []string{"eval", "rpc-eval"}, harmless: []string{"--version", "-v"}},
		"swift":   {code: "e", harmless: []string{"--version", "build", "test", "package", "run"}},
		"scala":   {code: "e", harmless: []string{"-version", "--version"}}, "groovy": {code: "e", harmless: []string{"-v", "--version"}},
		"osascript": {code: "e"}, "expect": {code: "c"}, "guile": {code: "ce"}, "tclsh": {}, "gnuplot": {code: "e"}, "ghci": {code: "e"}, "iex": {code: "e", harmless: []string{"-S"}},
		"jshell": {}, "bpython": {code: "c"}, "ipython": {code: "c"}, "irb": {}, "psysh": {}, "ed": {}, "ex": {}, "bc": nil, "dc": nil,
	}
}

// inline looks for code in the arguments of an interpreter.
func (z *analyzer) inline(u *Unit, in *interpreter, c call) {
	ws := c.words[1:]
	name := u.head
	if name == "bun" || name == "deno" || name == "swift" {
		if len(ws) == 0 {
			return
		}
		if in.codeSub != "" {
			if ws[0].is(in.codeSub) {
				u.floor(floorInline, "the code in the arguments of "+name+" is not judged", name+" "+in.codeSub)
			}
			return
		}
		if !strings.HasPrefix(ws[0].prefix, "-") {
			return
		}
	}
	for i := 0; i < len(ws); i++ {
		w := ws[i]
		s := w.prefix
		if w.lit {
			s = w.val
		} else if s == "" {
			if z.mayBeOption(w) {
				u.floor(floorInline, "a computed word may be code for "+name, name)
			}
			z.runsScript(u, w, c.e)
			return
		}
		if contains(in.harmless, s) {
			return
		}
		switch {
		case s == "-":
			z.codeFromStdin(u, c)
			return
		case s == "--":
			if i+1 < len(ws) {
				z.runsScript(u, ws[i+1], c.e)
			}
			return
		case strings.HasPrefix(s, "--"):
			l, _, eq := strings.Cut(s[2:], "=")
			if contains(in.codeLong, l) {
				u.floor(floorInline, "the code in the arguments of "+name+" is not judged", name)
				return
			}
			if contains(in.valuesLong, l) && !eq {
				i++
			}
		case len(s) > 1 && s[0] == '-':
		letters:
			for j := 1; j < len(s); j++ {
				l := s[j : j+1]
				switch {
				case strings.Contains(in.code, l):
					u.floor(floorInline, "the code in the arguments of "+name+" is not judged", name)
					return
				case strings.Contains(in.module, l):
					return
				case strings.Contains(in.values, l):
					if j+1 == len(s) && (name != "perl" || !strings.Contains("0lCxi", l)) {
						i++
					}
					break letters
				}
			}
		default:
			if src, ok := descriptor(s, c.e); ok {
				c.e.in = src
				z.codeFromStdin(u, c)
				return
			}
			z.runsScript(u, w, c.e)
			return
		}
	}
	z.codeFromStdin(u, c)
}

// codeFromStdin: an interpreter without a script reads its program.
func (z *analyzer) codeFromStdin(u *Unit, c call) {
	switch c.e.in.kind {
	case stdinText:
		u.floor(floorInline, "the code that "+u.head+" reads is not judged", u.head)
	default:
		u.floor(floorInline, u.head+" reads its program from standard input")
	}
}
