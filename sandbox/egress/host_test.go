package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"example.org": "example.org", "EXAMPLE.Org": "example.org", "example.org.": "example.org", "a_b.example.org": "a_b.example.org",
		"bücher.example": "xn--bcher-kva.example", "BÜCHER.example": "xn--bcher-kva.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"XN--BCHER-KVA.example": "xn--bcher-kva.example", "例え。テスト": "xn--r8jz45g.xn--zckzah", "bücher.example.": "xn--bcher-kva.example",
		"127.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "0x7f.1": "127.0.0.1", "2130706433": "127.0.0.1", "017700000001": "127.0.0.1",
		"0177.0.0.1": "127.0.0.1", "0x7F000001": "127.0.0.1", "127.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "0": "0.0.0.0", "1.0xffffff": "1.255.255.255",
		"１２７.０.０.１": "127.0.0.1", "0xC0000201": "192.0.2.1", "3221225985": "192.0.2.1",
		"::1": "::1", "[::1]": "::1", "0:0:0:0:0:0:0:1": "::1", "2001:DB8::0:1": "2001:db8::1", "::ffff:127.0.0.1": "127.0.0.1", "[::ffff:7f00:1]": "127.0.0.1",
		"localhost.": "localhost", "1.example": "1.example", "xn--mgbh0fb.example": "xn--mgbh0fb.example",
	} {
		if got, err := ParseHost(text); err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", ".", "..", "a..b", ".a", "a b", "a\x00b", "a\n", "user@example.org", "example.org/", "example.org#x", "example.org?x", "a%2eb", "a.b%x.example.org",
		"fe80::1%eth0", "[fe80::1%25eth0]", "[example.org]", "[127.0.0.1]", "[::1", "::1]", "256.1.1.1", "1.2.3.4.5", "1.2.3.256", "0x100000000", "09.1.1.1", "1.2.3.08",
		"4294967296", "-a.example", "a-.example", strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "ab", "xn--\u0000", "xn--a", "*.example.org", "example.org:80",
		"a,b", "$x", "0\xbc0", "a\xff.example", "exa mple.org", "\u202eexample.org", "a\u00adb\x01.example", strings.Repeat("1", 2000),
	} {
		if got, err := ParseHost(text); err == nil {
			t.Errorf("%q is %q, want an error", text, got)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"example.org:443": {"example.org", 443}, "example.org": {"example.org", 80}, "[::1]:22": {"::1", 22}, "[::1]": {"::1", 80}, "127.1:1": {"127.0.0.1", 1},
		"Example.org.:65535": {"example.org", 65535},
	} {
		if got, err := ParseTarget(text, 80); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":80", "a:", "a:0", "a:65536", "a:+1", "a:-1", "a:x", "a:80:80", "::1:80", "[::1]x:80", "a:080x", "u@a:80", "a:80/"} {
		if got, err := ParseTarget(text, 80); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	if got, err := ParseTarget("example.org", 0); err == nil {
		t.Errorf("without a port it is %v, want an error", got)
	}
}

func TestClass(t *testing.T) {
	for text, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "93.184.216.34": "", "2606:2800:220:1::1": "", "2a00:1450::1": "",
		"127.0.0.1": "loopback", "127.255.255.254": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"169.254.169.254": "metadata", "::ffff:169.254.169.254": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata", "fd00:ec2::254": "metadata",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "172.32.0.1": "",
		"192.168.1.1": "private", "100.64.0.1": "private", "100.128.0.1": "", "fd12::1": "private", "fec0::1": "private",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified", "224.0.0.1": "multicast", "ff02::1": "multicast",
		"255.255.255.255": "reserved", "240.0.0.1": "reserved", "198.18.0.1": "reserved", "192.0.2.1": "reserved", "2001:db8::1": "reserved", "::2": "reserved", "4000::1": "reserved",
		"64:ff9b::7f00:1": "translated", "2002:7f00:1::": "translated", "2001:0:1::1": "translated", "64:ff9b:1::1": "translated",
	} {
		if got := Class(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	if Class(netip.Addr{}) == "" || Class(netip.MustParseAddr("2606::1%eth0")) == "" {
		t.Error("no address, or one with a zone, is taken for a public one")
	}
}

// What comes out is a form that comes out of itself, and that holds nothing that a
// header, a resolver or a rule could read in another way.
func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"example.org", "127.1", "bücher.de.", "[::ffff:1.2.3.4]", "0x7f.1", "a%x", "xn--bcher-kva"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, err := ParseHost(text)
		if err != nil {
			return
		}
		if again, err := ParseHost(host); err != nil || again != host {
			t.Fatalf("%q is %q, and that is %q (%v)", text, host, again, err)
		}
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" {
			t.Fatalf("%q is %q", text, host)
		}
		if _, err := netip.ParseAddr(host); err != nil && endsInNumber(host) {
			t.Fatalf("%q is %q, which a C library takes for an address", text, host)
		}
	})
}
