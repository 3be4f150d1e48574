package main

import (
	"path/filepath"
	"strings"

	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// link is what a call of a shell asks for.
type link struct {
	// text with args ($0 and the positional parameters), or a script file with its
	// arguments in argv.
	text    string
	hasText bool
	args    []string
	// options are those that only make the shell stricter: errexit, nounset,
	// noglob, pipefail.
	options []string
	argv    []string
	// form, unless "", is a way of calling that is always an ask, by name.
	form string
}

// parseLink reads a shell's command line as the shell would: clusters of short
// options, -o with its word, `--`, then text or a script. What it does not know
// becomes an ask that names the form, with the command line as it was.
func parseLink(name string, args []string) link {
	whole := func(form string) link { return link{argv: append([]string{name}, args...), form: form} }
	if name == "zsh" {
		return whole("zsh")
	}
	text := false
	var options []string
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "--" || a == "-" {
			i++
			break
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			break
		}
		if strings.HasPrefix(a, "--") {
			switch a {
			case "--norc", "--noprofile", "--posix":
				// Start-up files are never read here, and the fixed options stand.
				continue
			case "--login":
				return whole("login")
			}
			return whole("options " + a)
		}
		for _, flag := range a[1:] {
			switch flag {
			case 'c':
				text = true
			case 'i':
				return whole("interactive")
			case 'l':
				return whole("login")
			case 's':
				return whole("standard input")
			case 'p':
			case 'e', 'u', 'f':
				options = append(options, a[:1]+string(flag))
			case 'o':
				if i+1 >= len(args) || !control.ShellOption(args[i+1]) {
					return whole("options " + a)
				}
				i++
				options = append(options, a[:1]+"o", args[i])
			default:
				return whole("options " + a)
			}
		}
	}
	rest := args[i:]
	switch {
	case text && len(rest) == 0:
		return whole("-c without text")
	case text:
		return link{hasText: true, text: rest[0], args: rest[1:], options: options}
	case len(rest) == 0:
		return whole("standard input")
	}
	return link{argv: append(append([]string{name}, options...), rest...)}
}

// shellLink is the entry of this binary under the name of a shell: what the agent
// wants to have run goes through exec.
func shellLink(argv []string) int {
	name := strings.TrimPrefix(filepath.Base(argv[0]), "-")
	code := func(err error) int {
		if err == nil {
			return 0
		}
		e, ok := err.(exitError)
		if !ok {
			e = exitError{125, err.Error()}
		}
		if e.text != "" {
			warn("%s", e.text)
		}
		return e.code
	}
	places, err := findPlaces()
	if err != nil {
		return code(exit(125, "%v", err))
	}
	r, err := wish(control.OpExec, "")
	if err != nil {
		return code(exit(125, "%v", err))
	}
	l := parseLink(name, argv[1:])
	if strings.HasPrefix(argv[0], "-") {
		l = link{argv: append([]string{name}, argv[1:]...), form: "login"}
	}
	if l.hasText {
		r.Command.Shell, r.Command.Text, r.Command.Argv = name, l.text, l.args
		r.Command.Options = l.options
	} else {
		r.Command.Argv, r.Command.Form = l.argv, l.form
	}
	conn, err := findTree(places)
	if err != nil {
		return code(exit(125, "%s: %v", name, err))
	}
	defer conn.Close()
	return code(runTool(conn, r, -1))
}

// runTool runs a request of exec as a client.
func runTool(conn *control.Conn, r *control.Request, statusFD int) error {
	cl := &client{conn: conn}
	if human, err := ownTerminal(r); err == nil {
		cl.human = human
	}
	result, _ := cl.run(r)
	if cl.human != nil {
		cl.human.Close()
	}
	return leave(result, statusFD)
}
