package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The probe against what this test finds by trying the thing itself.
func TestProbe(t *testing.T) {
	h := Probe()
	if h.LandlockABI < 1 || h.LandlockLack != "" || !h.Seccomp || h.SeccompLack != "" || h.Backend != BackendLandlock {
		t.Errorf("this project is tested where Landlock and filters are: %+v", h)
	}
	if err := namespace(unix.CLONE_NEWUSER); (err == nil) != h.UserNamespaces && h.UserNamespaces {
		t.Errorf("user namespaces: probe says %t, trying says %v", h.UserNamespaces, err)
	}
	if h.UserNamespaces == (h.UserNamespacesLack != "") {
		t.Errorf("user namespaces %t and %q", h.UserNamespaces, h.UserNamespacesLack)
	}
	text, err := json.Marshal(h)
	if err != nil || !strings.Contains(string(text), `"landlockABI":`) {
		t.Errorf("%s %v", text, err)
	}
	for range 3 {
		if again := Probe(); again != h {
			t.Errorf("probed again: %+v, before %+v", again, h)
		}
	}
	if mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil || mode != 0 {
		t.Errorf("the probe left a filter: %d %v", mode, err)
	}
}

// Inside a strict sandbox the probe says what is no longer possible there.
func TestProbeSeesWhatIsTakenAway(t *testing.T) {
	p, _ := mustPlan(t, newWorld(t, unix.Getuid()).request(ModeWorkspaceWrite))
	done := make(chan Host, 1)
	fault := make(chan error, 1)
	go func() {
		fault <- p.Confine()
		var h Host
		h.probeSeccomp()
		if err := probeUserNamespaces(); err != nil {
			h.UserNamespacesLack = err.Error()
		}
		done <- h
	}()
	if err := <-fault; err != nil {
		t.Fatal(err)
	}
	if h := <-done; !h.Filtered || !h.Seccomp || h.UserNamespacesLack == "" {
		t.Errorf("inside: %+v", h)
	}
}

func TestFacts(t *testing.T) {
	for name, h := range map[string]Host{"nothing": {LandlockLack: "no", SeccompLack: "no", UserNamespacesLack: "no"}, "this": Probe()} {
		for _, fact := range h.Facts() {
			if fact.Name == "" || fact.Detail == "" || fact.Have && fact.Remedy != "" {
				t.Errorf("%s: %+v", name, fact)
			}
		}
	}
	for _, err := range []error{unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EIO} {
		if landlockLack(err) == "" {
			t.Errorf("%v is not explained", err)
		}
	}
}

func TestProspects(t *testing.T) {
	words := func(h Host) []string {
		var out []string
		for _, p := range h.Prospects() {
			out = append(out, p.Mode+": "+p.Report.Status+" "+p.Report.Strength+p.Refused)
		}
		return out
	}
	ordinary := Host{LandlockABI: 7, Seccomp: true, UID: 1000}
	for name, c := range map[string]struct {
		host Host
		want []string
	}{
		"a new kernel": {ordinary, []string{
			"read_only: partially_active enforced except metadata, names, process list, localhost servers",
			"workspace_write: partially_active enforced except protected paths, metadata, names, process list, localhost servers",
			"unrestricted: partially_active advisory",
		}},
		"an old kernel": {Host{LandlockABI: 4, Seccomp: true, UID: 1000}, []string{
			"read_only: partially_active enforced except signals, metadata, names, process list, localhost servers, device control",
			"workspace_write: partially_active enforced except signals, protected paths, metadata, names, process list, localhost servers, device control",
			"unrestricted: partially_active advisory",
		}},
		"nothing": {Host{LandlockLack: "not built", SeccompLack: "not built", UID: 1000}, []string{
			"read_only: unavailable sandbox unavailable: files cannot be enforced: no Landlock: not built",
			"workspace_write: unavailable sandbox unavailable: files cannot be enforced: no Landlock: not built",
			"unrestricted: partially_active advisory",
		}},
	} {
		if diff := cmp.Diff(c.want, words(c.host)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
