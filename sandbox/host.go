package sandbox

import (
	"cmp"
	"fmt"
	"io/fs"
	"runtime"
)

// Host is what this host can enforce, found by asking its kernel and never by
// reading a version. It is a value: pure functions take it, tests make their own.
type Host struct {
	// System is the operating system in Go's words; "" is Linux.
	System string `json:"system"`
	// Backend is the strongest backend that [Plan] can use here; "" for none.
	Backend string `json:"backend"`
	// LandlockABI is the version of the Landlock interface, 0 when there is none.
	LandlockABI int `json:"landlockABI"`
	// LandlockErrata has bit n-1 set for each corrected fault n of that version.
	LandlockErrata int `json:"landlockErrata"`
	// LandlockLack says why LandlockABI is 0.
	LandlockLack string `json:"landlockLack,omitempty"`
	// Seccomp is true when filters can be installed that kill and that refuse, and this
	// package has a table of system calls for the processor.
	Seccomp bool `json:"seccomp"`
	// SeccompLack says why Seccomp is false.
	SeccompLack string `json:"seccompLack,omitempty"`
	// SeccompNotify is true when a filter can hand a call to a listener.
	SeccompNotify bool `json:"seccompNotify"`
	// UserNamespaces is true when this process can make a user namespace and use mounts in it.
	UserNamespaces bool `json:"userNamespaces"`
	// UserNamespacesLack says why UserNamespaces is false.
	UserNamespacesLack string `json:"userNamespacesLack,omitempty"`
	// Seatbelt is true when macOS's sandbox ran a program that its profile allows and refused
	// to run one that it does not.
	Seatbelt bool `json:"seatbelt,omitempty"`
	// SeatbeltLack says why Seatbelt is false on macOS.
	SeatbeltLack string `json:"seatbeltLack,omitempty"`
	// SeatbeltExistence is true when the system knows the operation file-test-existence.
	SeatbeltExistence bool `json:"seatbeltExistence,omitempty"`
	// NamespacesLack says why Backend is not [BackendNamespaces], "" when it is or was not tried: see
	// [Host.WithNamespaces].
	NamespacesLack string `json:"namespacesLack,omitempty"`
	// RestrictedTokens is true when Windows made a restricted token and a job object.
	RestrictedTokens bool `json:"restrictedTokens,omitempty"`
	// RestrictedTokensLack says why RestrictedTokens is false on Windows.
	RestrictedTokensLack string `json:"restrictedTokensLack,omitempty"`
	// Root is true when the effective user is the superuser.
	Root bool `json:"root"`
	// UID is the effective user.
	UID int `json:"uid"`
	// CgroupV2 is true when a version 2 control group hierarchy is mounted in which this
	// process can make groups.
	CgroupV2 bool `json:"cgroupV2"`
	// Filtered is true when this process already runs under a system call filter, as
	// in most containers.
	Filtered bool `json:"filtered"`
	// PtraceScope is the system's own limit on tracing (0 none … 3 off), -1 when it has none.
	PtraceScope int `json:"ptraceScope"`
	// Kernel, for display only.
	Kernel string `json:"kernel"`
	// Arch is the processor architecture in Go's words.
	Arch string `json:"arch"`
}

// Probe asks the kernel. It changes nothing in this process and leaves nothing
// behind; it starts and ends one child to learn about user namespaces, so the caller
// keeps the result. Safe for concurrent use.
func Probe() Host {
	h := probe()
	h.System = runtime.GOOS
	return h
}

// WithNamespaces is h after what [Probe] cannot do without a second process was tried: a
// command's namespaces and a view in them. err is why it failed, nil when it worked.
func (h Host) WithNamespaces(err error) Host {
	switch {
	case err != nil:
		h.NamespacesLack = err.Error()
	case h.Backend == BackendLandlock:
		h.Backend = BackendNamespaces
	}
	return h
}

// Fact is one line of a doctor's report.
type Fact struct {
	Name   string `json:"name"`
	Have   bool   `json:"have"`
	Detail string `json:"detail"`
	// Remedy is what the operator can do when Have is false, "" when there is nothing.
	Remedy string `json:"remedy,omitempty"`
}

// Facts are h in sentences, in a fixed order.
func (h Host) Facts() []Fact {
	if h.System == systemMac {
		return h.macFacts()
	}
	if h.System == systemWindows {
		return h.windowsFacts()
	}
	facts := []Fact{
		{Name: "file rules", Have: h.LandlockABI >= landlockTruncate,
			Detail: choose(h.LandlockABI > 0, fmt.Sprintf("Landlock version %d", h.LandlockABI), h.LandlockLack)},
		{Name: "control envelope", Have: h.LandlockABI >= landlockScopes,
			Detail: choose(h.LandlockABI >= landlockScopes, "signals, tracing and abstract sockets stop at the command",
				fmt.Sprintf("needs Landlock version %d, this kernel has %d", landlockScopes, h.LandlockABI))},
		{Name: "system call filter", Have: h.Seccomp,
			Detail: choose(h.Seccomp, "our own filter for "+h.Arch, h.SeccompLack)},
		{Name: "user namespaces", Have: h.UserNamespaces,
			Detail: choose(h.UserNamespaces, "can be made, with mounts", h.UserNamespacesLack)},
		{Name: "namespaces", Have: h.Backend == BackendNamespaces,
			Detail: choose(h.Backend == BackendNamespaces, "a command's own files, processes and network", cmp.Or(h.NamespacesLack, "not tried"))},
		{Name: "control groups", Have: h.CgroupV2,
			Detail: choose(h.CgroupV2, "version 2, delegated", "no version 2 hierarchy that this user may divide")},
		{Name: "ordinary user", Have: !h.Root,
			Detail: choose(h.Root, "running as the superuser: capabilities are dropped for tools, and files that only root may read are left out of /etc alone",
				fmt.Sprintf("uid %d", h.UID))},
	}
	for i := range facts {
		if !facts[i].Have {
			facts[i].Remedy = remedies[facts[i].Name]
		}
	}
	return facts
}

var remedies = map[string]string{
	"file rules":         "boot a kernel from 6.2 on with CONFIG_SECURITY_LANDLOCK=y and landlock in its lsm= list",
	"control envelope":   "boot a kernel from 6.12 on",
	"system call filter": "a container runtime or kernel without CONFIG_SECCOMP_FILTER refuses filters; run outside it",
	"user namespaces": "sysctl kernel.unprivileged_userns_clone=1 (Debian), an AppArmor profile with `userns,` for this binary (Ubuntu), " +
		"or sysctl user.max_user_namespaces=10000",
	"namespaces":    "a container must allow mounts, and show /proc and /sys whole; elsewhere as for user namespaces",
	"ordinary user": "run as the user whose files the agents work on",
}

// Prospect is what one mode gives on a host.
type Prospect struct {
	Mode   string `json:"mode"`
	Report Report `json:"report"`
	// Refused says why nothing would run in the mode, "" when commands run.
	Refused string `json:"refused,omitempty"`
}

// Prospects is what each mode gives on h, from the strictest on: what a doctor shows
// beside the facts. It looks at nothing but h.
func (h Host) Prospects() []Prospect {
	var out []Prospect
	for _, mode := range []string{ModeReadOnly, ModeWorkspaceWrite, ModeUnrestricted} {
		_, report, err := Plan(Request{Workspace: "/workspace", Temp: "/temp", Mode: mode, Host: h, Files: bare{}})
		prospect := Prospect{Mode: mode, Report: report}
		if err != nil {
			prospect.Refused = err.Error()
		}
		out = append(out, prospect)
	}
	return out
}

// bare is a file system with a workspace and a temporary directory and nothing else.
type bare struct{}

func (bare) Resolve(path string) (Entry, error) {
	if path == "/workspace" || path == "/temp" {
		return Entry{Path: path, Dir: true, Open: true}, nil
	}
	return Entry{}, fs.ErrNotExist
}

func (bare) List(string, int) ([]Entry, bool, error) { return nil, false, fs.ErrNotExist }
