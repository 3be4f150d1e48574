package egress

import (
	"net"
	"net/netip"
)

// special are the addresses that are not the public internet, the narrower prefix
// before the wider (IANA special-purpose address registries, and the metadata services
// that clouds serve on other addresses).
var special = func() []struct {
	prefix netip.Prefix
	class  string
} {
	var out []struct {
		prefix netip.Prefix
		class  string
	}
	for _, row := range [...]struct {
		class    string
		prefixes []string
	}{
		{"metadata", []string{
			"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
			"fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
		}},
		{"unspecified", []string{"0.0.0.0/8", "::/128"}},
		{"loopback", []string{"127.0.0.0/8", "::1/128"}},
		{"link-local", []string{"169.254.0.0/16", "fe80::/10"}},
		{"private", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"}},
		{"multicast", []string{"224.0.0.0/4", "ff00::/8"}},
		{"translated", []string{"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "192.88.99.0/24", "::ffff:0:0/96"}},
		{"reserved", []string{
			"192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
			"2001::/23", "2001:db8::/32", "3fff::/20",
		}},
	} {
		for _, p := range row.prefixes {
			out = append(out, struct {
				prefix netip.Prefix
				class  string
			}{netip.MustParsePrefix(p), row.class})
		}
	}
	return out
}()

// global is the only part of IPv6 that is handed out.
var global = netip.MustParsePrefix("2000::/3")

// Class names what keeps an address from being the public internet: metadata,
// unspecified, loopback, link-local, private, multicast, translated (an IPv4 address
// inside: NAT64, 6to4, Teredo) or reserved; "" for a public one.
func Class(a netip.Addr) string {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return "reserved"
	}
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.class
		}
	}
	if a.Is6() && !global.Contains(a) {
		return "reserved"
	}
	return ""
}

// OwnAddresses returns the addresses of this host's interfaces.
func OwnAddresses() ([]netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, nil
}
