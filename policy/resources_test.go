package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	somePath = rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a-b", "c"}), 0, 3).Draw(t, "parts")
		return "/" + strings.Join(parts, "/")
	})
	someHost = rapid.Custom(func(t *rapid.T) string {
		h := rapid.SampledFrom([]string{"a.org", "b.a.org", "c.b.a.org", "*.a.org", "*.b.a.org", "b.org", "::1", "10.0.0.1"}).Draw(t, "host")
		return joinHost(h, rapid.SampledFrom([]string{"", "443", "80"}).Draw(t, "port"))
	})
	someCapability = rapid.SampledFrom([]string{"*", "ssh", "gpg", "env:*", "env:A", "env:B", "git-credential:*", "git-credential:a.org", "docker", "nest"})
	someResources  = rapid.Custom(func(t *rapid.T) Resources {
		entries := func(name string) []Entry {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
				return Entry{Path: somePath.Draw(t, "path"), Access: AccessRead, Provenance: rapid.SampledFrom(provenances[:]).Draw(t, "provenance")}
			}), 0, 3).Draw(t, name)
		}
		rarely := func(name string) bool { return rapid.IntRange(0, 4).Draw(t, name) == 0 }
		return Resources{
			ReadAll: rarely("read all"), WriteAll: rarely("write all"), Read: entries("read"), Write: entries("write"),
			Network:      rapid.SampledFrom([]NetworkMode{"", NetworkDisabled, NetworkRestricted, NetworkRestricted, NetworkEnabled}).Draw(t, "network"),
			Hosts:        rapid.SliceOfN(someHost, 0, 4).Draw(t, "hosts"),
			DeniedHosts:  rapid.SliceOfN(someHost, 0, 2).Draw(t, "denied"),
			Capabilities: rapid.SliceOfN(someCapability, 0, 3).Draw(t, "capabilities"),
			SandboxOff:   rapid.Bool().Draw(t, "off"),
		}
	})
)

func same(t *rapid.T, law string, a, b Resources) {
	t.Helper()
	if d := cmp.Diff(a, b); d != "" {
		t.Fatalf("%s:\n%s", law, d)
	}
}

func TestMeetLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := someResources.Draw(t, "a"), someResources.Draw(t, "b"), someResources.Draw(t, "c")
		same(t, "commutative", MeetResources(a, b), MeetResources(b, a))
		same(t, "associative", MeetResources(MeetResources(a, b), c), MeetResources(a, MeetResources(b, c)))
		same(t, "idempotent", MeetResources(a, a), a.Canonical())
		same(t, "canonical once", a.Canonical().Canonical(), a.Canonical())
		same(t, "everything changes nothing", MeetResources(a, Everything()), a.Canonical())
		same(t, "nothing leaves nothing", MeetResources(a, Resources{}), Resources{}.Canonical())
	})
}

func TestTheMeetPermitsWhatBothPermit(t *testing.T) {
	permitted := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := someResources.Draw(t, "a"), someResources.Draw(t, "b")
		m := MeetResources(a, b)
		check := func(what string, x, y, both bool) {
			if both {
				permitted++
			}
			if both != (x && y) {
				t.Fatalf("%s: a %v, b %v, meet %v\na %+v\nb %+v\nmeet %+v", what, x, y, both, a, b, m)
			}
		}
		p := somePath.Draw(t, "path") + rapid.SampledFrom([]string{"", "/x", "-x"}).Draw(t, "tail")
		check("read "+p, a.CanRead(p), b.CanRead(p), m.CanRead(p))
		check("write "+p, a.CanWrite(p), b.CanWrite(p), m.CanWrite(p))
		host := rapid.SampledFrom([]string{"a.org", "b.a.org", "x.b.a.org", "b.org", "::1", "10.0.0.1", "other"}).Draw(t, "host")
		port := rapid.SampledFrom([]string{"443", "80", "22"}).Draw(t, "port")
		check("reach "+host+" "+port, a.CanReach(host, port), b.CanReach(host, port), m.CanReach(host, port))
		name := rapid.SampledFrom([]string{"ssh", "gpg", "env:A", "env:Z", "docker", "display", "off", "git-credential:a.org"}).Draw(t, "capability")
		check("have "+name, a.Has(name), b.Has(name), m.Has(name))
		if !m.Within(a) || !m.Within(b) {
			t.Fatalf("the meet is not within its sides")
		}
		if m.CanWrite(p) && !m.CanRead(p) {
			t.Fatalf("%s is writable and not readable", p)
		}
	})
	if permitted == 0 {
		t.Fatal("the meet never permitted anything: the test shows nothing")
	}
}

func TestTheZeroResourcesPermitNothing(t *testing.T) {
	var r Resources
	for _, got := range []bool{r.CanRead("/"), r.CanRead("/a"), r.CanWrite("/a"), r.CanReach("a.org", "443"), r.Has("ssh"), r.Has("off")} {
		if got {
			t.Fatal("the zero value permits something")
		}
	}
}

func TestRootsCompareByComponentAndClean(t *testing.T) {
	r := Resources{Write: []Entry{{Path: "/w/app"}}}
	for p, want := range map[string]bool{
		"/w/app": true, "/w/app/": true, "/w/app/x": true, "/w/app/../app/x": true, "/w/app/x/../../app": true,
		"/w/app-secrets": false, "/w/App": false, "/w/app/../x": false, "/w": false, "/": false, "w/app": false, "": false,
		"/w/app\x00/x": false,
	} {
		if got := r.CanWrite(p); got != want {
			t.Errorf("%q: %v, want %v", p, got, want)
		}
	}
	got := (Resources{Read: []Entry{{Path: "/a-b"}, {Path: "/a/b"}, {Path: "relative"}, {Path: "/a/./c/.."}}}).Canonical()
	var paths []string
	for _, e := range got.Read {
		paths = append(paths, e.Path)
	}
	if !slices.Equal(paths, []string{"/a", "/a-b"}) {
		t.Errorf("canonical roots: %q", paths)
	}
}

func TestHosts(t *testing.T) {
	r := Resources{Network: NetworkRestricted, Hosts: []string{"Example.org", "*.dev.example.org:443"}, DeniedHosts: []string{"bad.dev.example.org"}}
	for _, c := range []struct {
		host, port string
		want       bool
	}{
		{"example.org", "443", true}, {"EXAMPLE.org.", "80", true}, {"www.example.org", "443", false},
		{"a.dev.example.org", "443", true}, {"a.dev.example.org", "80", false}, {"a.dev.example.org", "", false},
		{"dev.example.org", "443", false}, {"bad.dev.example.org", "443", false}, {"evilexample.org", "443", false},
		{"example.org.evil.com", "443", false}, {"exam ple.org", "443", false}, {"", "443", false}, {"*", "443", false},
	} {
		if got := r.CanReach(c.host, c.port); got != c.want {
			t.Errorf("%s:%s: %v, want %v", c.host, c.port, got, c.want)
		}
	}
}

func TestCapabilitiesAreAClosedTable(t *testing.T) {
	for _, name := range []string{"ssh", "gpg", "docker", "display", "nest", "off", "env:FOO", "git-credential:github.com"} {
		if text, err := CapabilityText(name); err != nil || text == "" || strings.Contains(text, "%") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"", "sudo", "SSH", "env:", "env:A=B", "env:A B", "git-credential:", "ssh:x", "env:$(x)"} {
		if _, err := CapabilityText(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	if (Resources{Capabilities: []string{"*"}}).Has("off") {
		t.Error(`"*" includes off`)
	}
}

// However an address is written it is the same one, with a port and without, and it
// is nobody's subdomain.
func TestAddressesAsHosts(t *testing.T) {
	denied := func(h string) Resources { return Resources{Network: NetworkEnabled, DeniedHosts: []string{h}} }
	listed := func(h string) Resources { return Resources{Network: NetworkRestricted, Hosts: []string{h}} }
	for _, c := range []struct {
		rule, host, port string
		covers           bool
	}{
		{"2001:db8::1", "2001:db8::1", "443", true},
		{"2001:db8::1", "2001:db8::1", "", true},
		{"[2001:db8::1]:443", "2001:db8::1", "443", true},
		{"[2001:db8::1]:443", "2001:db8::1", "80", false},
		{"2001:DB8:0:0::1", "2001:db8::1", "443", true},
		{"::ffff:10.0.0.1", "10.0.0.1", "80", true},
		{"10.0.0.1", "::ffff:10.0.0.1", "80", true},
		{"*.0.0.1", "10.0.0.1", "80", false},
		{"*.1", "10.0.0.1", "80", false},
		{"*", "localhost", "80", false}, // no pattern: it covers nothing
		{"10.0.0.1", "10.0.0.1", "80", true},
		{"example.org.:443", "example.org", "443", true},
		{"EXAMPLE.org", "example.org.", "443", true},
	} {
		if got := listed(c.rule).CanReach(c.host, c.port); got != c.covers {
			t.Errorf("%q listed, %s %s: %v, want %v", c.rule, c.host, c.port, got, c.covers)
		}
		if got := !denied(c.rule).CanReach(c.host, c.port); got != c.covers {
			t.Errorf("%q denied, %s %s: %v, want %v", c.rule, c.host, c.port, got, c.covers)
		}
	}
}
