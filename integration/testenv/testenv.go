// Package testenv is the one place where a test may skip.
//
// A test that needs something of the host names it: Need(t, "landlock"). The
// probe behind the name asks the host itself (a raw system call, a real clone,
// an open), never the code under test, so that a broken sandbox fails its test
// instead of skipping it. A test of the integration package holds every other
// test to this.
//
// It refuses to know what is tested.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// RequireVar names the variable that turns skips into failures: a list of
// feature names separated by commas, or "all". Names that are no feature fail
// every test that calls Need, so that a misspelt list cannot pass for a strict
// one.
const RequireVar = "PIONEER_TEST_REQUIRE"

// A feature is one thing of the host that a test can need. Its probe returns
// nil where the host has it, else why not.
type feature struct {
	name  string
	about string
	probe func() error
	// personal marks a feature that says who runs the tests rather than what
	// the host can do. No run can have all of them, so "all" leaves them out.
	personal bool
}

var features = []feature{
	{name: "landlock", about: "Landlock file rules (ABI 1)", probe: func() error { return landlock(1) }},
	{name: "landlock-truncate", about: "Landlock truncation rights (ABI 3)", probe: func() error { return landlock(3) }},
	{name: "landlock-net", about: "Landlock TCP rights (ABI 4)", probe: func() error { return landlock(4) }},
	{name: "landlock-scope", about: "Landlock signal and abstract socket scopes (ABI 6)", probe: func() error { return landlock(6) }},
	{name: "seccomp", about: "seccomp filters that return an error", probe: seccomp},
	{name: "seccomp-notify", about: "seccomp filters that hand a call to a listener", probe: seccompNotify},
	{name: "userns", about: "user namespaces", probe: userNamespace},
	{name: "mountns", about: "mount namespaces with a tmpfs of one's own", probe: mountNamespace},
	{name: "pidns", about: "pid namespaces", probe: pidNamespace},
	{name: "netns", about: "network namespaces", probe: netNamespace},
	{name: "pidfd", about: "pidfd_open", probe: pidfd},
	{name: "peer-pidfd", about: "SO_PEERPIDFD on unix sockets", probe: peerPidfd},
	{name: "subreaper", about: "PR_SET_CHILD_SUBREAPER", probe: subreaper},
	{name: "pty", about: "pseudo-terminals through /dev/ptmx", probe: pty},
	{name: "tmux", about: "the tmux program", probe: program("tmux", "-V")},
	{name: "git", about: "the git program", probe: program("git", "--version")},
	{name: "bash", about: "the bash program", probe: program("bash", "--version")},
	{name: "perl", about: "the perl program", probe: program("perl", "-v")},
	{name: "node", about: "the node program", probe: program("node", "--version")},
	{name: "npm", about: "the npm program", probe: program("npm", "--version")},
	{name: "root", about: "running as root", probe: isRoot, personal: true},
	{name: "ordinary-user", about: "running as an ordinary user", probe: isOrdinary, personal: true},
}

// Need skips t unless the host has every named feature. Where RequireVar asks
// for a feature that is missing, t fails instead. A name that is no feature
// fails t. Each feature is probed once per process; Need is safe for concurrent
// use.
func Need(t testing.TB, names ...string) {
	t.Helper()
	required, err := parseRequire(os.Getenv(RequireVar))
	if err != nil {
		t.Fatalf("testenv: %s: %v", RequireVar, err)
	}
	for _, name := range names {
		missing, err := probe(name)
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		if missing == nil {
			continue
		}
		if required[name] {
			t.Fatalf("testenv: needs %s, which %s requires here: %v", name, RequireVar, missing)
		}
		t.Skipf("testenv: needs %s: %v", name, missing)
	}
}

// Has reports whether the host has the named feature, for the rare test whose
// expectation, not whose right to run, depends on it. It panics on a name that
// is no feature.
func Has(name string) bool {
	missing, err := probe(name)
	if err != nil {
		panic("testenv: " + err.Error())
	}
	return missing == nil
}

// parseRequire reads the value of RequireVar into a set of feature names.
func parseRequire(value string) (map[string]bool, error) {
	required := map[string]bool{}
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
		case item == "all":
			for _, f := range features {
				if !f.personal {
					required[f.name] = true
				}
			}
		case slices.ContainsFunc(features, func(f feature) bool { return f.name == item }):
			required[item] = true
		default:
			return nil, fmt.Errorf("%q is no feature; expected all or some of %s", item, strings.Join(Names(), ", "))
		}
	}
	return required, nil
}

// Names lists the features that Need knows, in a stable order.
func Names() []string {
	var names []string
	for _, f := range features {
		names = append(names, f.name)
	}
	return names
}

var probed struct {
	sync.Mutex
	results map[string]error
}

// probe returns why the host lacks the named feature (nil where it has it), or
// an error if there is no such feature.
func probe(name string) (missing, err error) {
	i := slices.IndexFunc(features, func(f feature) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%q is no feature; known: %s", name, strings.Join(Names(), ", "))
	}
	probed.Lock()
	defer probed.Unlock()
	if missing, ok := probed.results[name]; ok {
		return missing, nil
	}
	missing = features[i].probe()
	if missing != nil {
		missing = fmt.Errorf("%s: %w", features[i].about, missing)
	}
	if probed.results == nil {
		probed.results = map[string]error{}
	}
	probed.results[name] = missing
	return missing, nil
}

// program makes a probe that runs a program once: a name on PATH whose file
// cannot run here is not there.
func program(name string, args ...string) func() error {
	return func() error {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %.200q", path, strings.Join(args, " "), err, out)
		}
		return nil
	}
}

func isRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("the effective uid is %d", uid)
	}
	return nil
}

func isOrdinary() error {
	if uid := os.Geteuid(); uid <= 0 {
		return fmt.Errorf("the effective uid is %d", uid)
	}
	return nil
}
