package seatbelt

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Program is what puts a profile on and then executes a command in it. It is named by its
// path, so that a PATH has no say in it.
const Program = "/usr/bin/sandbox-exec"

// Profile is a text in the sandbox profile language with the values of its parameters.
type Profile struct {
	Text   string
	Params []Param
}

// Param is the value that (param NAME) has in a text.
type Param struct{ Name, Value string }

// Args is the argument vector with which [Program] runs program, an absolute path, with
// args in p. The program sees its own path as its first argument.
func (p Profile) Args(program string, args ...string) []string {
	out := make([]string, 0, 2*len(p.Params)+len(args)+5)
	out = append(out, Program)
	for _, param := range p.Params {
		out = append(out, "-D", param.Name+"="+param.Value)
	}
	return append(append(out, "-p", p.Text, "--", program), args...)
}

// ExistenceProbe is a profile that compiles only where Rules.Existence may be true, and in
// which everything is allowed.
func ExistenceProbe() Profile {
	return Profile{Text: "(version 1)\n(allow default)\n(allow file-test-existence)\n"}
}

// base is what every program needs to start and end, and nothing that reaches a file of the
// user, another process or a service that acts for the command. Reads of the system's
// folders come from Rules.Read.
//
// Signals and questions about processes reach what runs in the same sandbox. Services are
// looked up by name, and these three only answer: who has a user id, who is in a group, and
// a line for the log. Deliberately not among them: the keychain (SecurityServer, securityd),
// launchd and LaunchServices, preferences (cfprefsd), the pasteboard, Apple events.
const base = `(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name-prefix "kern.maxfiles")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.boottime")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.iossupportversion")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.maxprocperuid")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "sysctl.proc_native")
  (sysctl-name "vm.loadavg")
  (sysctl-name "vm.pagesize")
  (sysctl-name "vm.swapusage"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.logger"))
(allow ipc-posix-shm-read-data
  (ipc-posix-name "apple.shm.notification_center"))
(allow file-read*
  (literal "/")
  (subpath "/dev/fd"))
(allow file-write-data
  (subpath "/dev/fd"))
(allow file-read-metadata
  (literal "/etc")
  (literal "/tmp")
  (literal "/var")
  (literal "/dev")
  (literal "/private"))
(allow file-read-data file-ioctl
  (literal "/dev/dtracehelper"))
`

// names are what a command with network asks to turn a name into an address and to tell
// whether a certificate is good.
const names = `(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.dnssd.service")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.trustd")
  (global-name "com.apple.trustd.agent"))
(allow sysctl-read
  (sysctl-name-prefix "net.routetable."))
(allow network-outbound
  (literal "/private/var/run/mDNSResponder"))
`

// Profile writes r. The same rules in another order give the same text.
func (r Rules) Profile() (Profile, error) {
	if err := r.Validate(); err != nil {
		return Profile{}, err
	}
	w := &writer{}
	w.text.WriteString("(version 1)\n(deny default)\n\n; what every program needs\n" + base)
	w.files(r)
	w.ipc(r)
	w.network(r)
	w.denials(r)
	size := w.text.Len()
	for _, param := range w.params {
		size += len(param.Name) + len(param.Value) + len("-D =")
	}
	if size > MaxBytes {
		return Profile{}, fmt.Errorf("seatbelt profile: %d bytes with its parameters, at most %d", size, MaxBytes)
	}
	return Profile{Text: w.text.String(), Params: w.params}, nil
}

type writer struct {
	text   strings.Builder
	params []Param
}

// filters makes a parameter of each path and returns a filter on each.
func (w *writer) filters(kind, name string, paths []string) []string {
	var out []string
	for i, p := range sorted(paths) {
		param := fmt.Sprintf("%s_%d", name, i)
		w.params = append(w.params, Param{param, p})
		out = append(out, fmt.Sprintf("(%s (param %q))", kind, param))
	}
	return out
}

// rule writes one rule, a filter a line; without filters it writes nothing, since a rule without
// them is a rule for everything.
func (w *writer) rule(what string, filters []string) {
	if len(filters) > 0 {
		w.text.WriteString("(" + what + "\n  " + strings.Join(filters, "\n  ") + ")\n")
	}
}

func (w *writer) files(r Rules) {
	w.text.WriteString("\n; files\n")
	existence := ""
	if r.Existence {
		existence = " file-test-existence"
	}
	w.rule("allow file-read-metadata"+existence, w.filters("literal", "ABOVE", above(r)))
	w.rule("allow file-read* file-map-executable process-exec*"+existence, w.filters("subpath", "READ", r.Read))
	w.rule("allow file-read* file-map-executable process-exec*"+existence, w.filters("literal", "EXEC", r.Exec))
	listed := w.filters("subpath", "LIST", r.List)
	for i, filter := range listed {
		listed[i] = "(require-all " + filter + " (vnode-type DIRECTORY))"
	}
	w.rule("allow file-read-data file-read-metadata"+existence, listed)
	w.rule("allow file-read* file-write* file-map-executable process-exec*"+existence, w.filters("subpath", "WRITE", r.Write))
	w.rule("allow file-read* file-write-data file-ioctl"+existence, w.filters("literal", "DEVICE", r.Devices))
	if r.Terminals {
		w.text.WriteString("(allow pseudo-tty)\n")
		w.rule("allow file-read* file-write* file-ioctl", []string{`(literal "/dev/ptmx")`, `(regex #"^/dev/ttys[0-9]+$")`})
	}
}

func (w *writer) ipc(r Rules) {
	if r.SharedMemory {
		w.text.WriteString("\n; shared memory\n(allow ipc-posix-shm*)\n(allow ipc-posix-sem*)\n(allow ipc-sysv*)\n")
	}
}

func (w *writer) network(r Rules) {
	w.text.WriteString("\n; network\n")
	switch r.Network {
	case NetworkAll:
		w.text.WriteString(names)
		w.rule("allow network-outbound", []string{"(remote ip)"})
		w.rule("allow network-inbound network-bind", []string{"(local ip)"})
	case NetworkLoopback:
		w.rule("allow network-outbound", []string{`(remote ip "localhost:*")`})
		w.rule("allow network-inbound network-bind", []string{`(local ip "localhost:*")`})
	}
	var ports []string
	for _, port := range slices.Compact(slices.Sorted(slices.Values(r.Ports))) {
		ports = append(ports, fmt.Sprintf(`(remote tcp "localhost:%d")`, port))
	}
	w.rule("allow network-outbound", ports)
	sockets := w.filters("subpath", "SOCKET", r.Sockets)
	w.rule("allow network-bind network-inbound", wrapped("(local unix-socket ", sockets))
	if r.UnixSockets {
		w.rule("allow network-outbound", []string{"(remote unix-socket)"})
	} else {
		w.rule("allow network-outbound", wrapped("(remote unix-socket ", sockets))
	}
}

func wrapped(before string, filters []string) []string {
	var out []string
	for _, filter := range filters {
		out = append(out, before+filter+")")
	}
	return out
}

// denials come last and so win over what was allowed before. A hard link would give a
// file outside a second name inside. The expressions are constant: no path becomes part of one.
func (w *writer) denials(r Rules) {
	w.text.WriteString("\n; never\n(deny file-link)\n")
	// A directory that itself lies below a protected name, such as a worktree in .claude, has
	// rules of its own: there the name counts from its next occurrence on.
	roots, filters := sorted(r.Protect), w.filters("subpath", "PROTECT", r.Protect)
	together := map[string][]string{}
	var order []string
	for i, root := range roots {
		expressions := keep(root)
		if together[expressions] == nil {
			order = append(order, expressions)
		}
		together[expressions] = append(together[expressions], filters[i])
	}
	for _, expressions := range order {
		w.rule("deny file-write*", []string{"(require-all " + anyOf(together[expressions]) + "\n  " + expressions + ")"})
	}
	if len(filters) > 0 {
		var moved []string
		for _, p := range protected {
			if !p.whole {
				moved = append(moved, expression(pattern(p.name, false, 0)))
			}
		}
		w.rule("deny file-write-create file-write-data file-write-unlink", []string{"(require-all " + anyOf(filters) + "\n  " + anyOf(moved) + ")"})
	}
	// The way to a protected directory: moved, it would take the rule's paths elsewhere.
	w.rule("deny file-write-unlink", w.filters("literal", "PINNED", pinned(r)))
}

// keep is the filter on what is wholly protected below root.
func keep(root string) string {
	var kept []string
	for _, p := range protected {
		if p.whole {
			kept = append(kept, expression(pattern(p.name, true, occurrences(root, p.name))))
		}
	}
	return anyOf(kept)
}

func expression(text string) string { return `(regex #"` + text + `")` }

func anyOf(filters []string) string {
	return "(require-any\n    " + strings.Join(filters, "\n    ") + ")"
}

// above are the directories that lead to what the rules name: they may be passed and
// looked at, not listed.
func above(r Rules) []string {
	var out []string
	for _, p := range slices.Concat(r.Read, r.Exec, r.List, r.Write, r.Devices) {
		for p != "/" {
			p = path.Dir(p)
			out = append(out, p)
		}
	}
	return sorted(out)
}

// pinned are the protected directories and what leads to them, as far as it may be written.
func pinned(r Rules) []string {
	var out []string
	for _, p := range r.Protect {
		for ; p != "/" && slices.ContainsFunc(r.Write, func(root string) bool { return within(p, root) }); p = path.Dir(p) {
			out = append(out, p)
		}
	}
	return sorted(out)
}

func sorted(paths []string) []string { return slices.Compact(slices.Sorted(slices.Values(paths))) }
