package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}},
	}
	out, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func answers(t testing.TB, n *Names, query []byte) (dnsmessage.RCode, []string) {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(n.Answer(query)); err != nil {
		t.Fatal(err)
	}
	if m.ID != 7 || !m.Response || len(m.Questions) != 1 {
		t.Errorf("answer %+v", m.Header)
	}
	var out []string
	for _, r := range m.Answers {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			out = append(out, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.PTRResource:
			out = append(out, b.PTR.String())
		}
	}
	return m.RCode, out
}

func TestNames(t *testing.T) {
	n := NewNames()
	for _, c := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want string
	}{
		{"a.example.", dnsmessage.TypeA, 0, "[127.1.0.1]"},
		{"b.example.", dnsmessage.TypeA, 0, "[127.1.0.2]"},
		{"A.Example.", dnsmessage.TypeA, 0, "[127.1.0.1]"},
		{"a.example.", dnsmessage.TypeAAAA, 0, "[]"},
		{"a.example.", dnsmessage.TypeTXT, 0, "[]"},
		{"a.example.", dnsmessage.TypeHTTPS, 0, "[]"},
		{"localhost.", dnsmessage.TypeA, 0, "[127.0.0.1]"},
		{"x.localhost.", dnsmessage.TypeAAAA, 0, "[::1]"},
		{"2.0.1.127.in-addr.arpa.", dnsmessage.TypePTR, 0, "[b.example.]"},
		{"9.0.1.127.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, "[]"},
		{"8.8.8.8.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, "[]"},
		{"10.0.0.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, "[]"},
		{"127.1.", dnsmessage.TypeA, dnsmessage.RCodeNameError, "[]"},
		{"a%b.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, "[]"},
		{".", dnsmessage.TypeA, dnsmessage.RCodeNameError, "[]"},
	} {
		code, got := answers(t, n, query(t, c.name, c.kind))
		if code != c.code || fmt.Sprint(got) != c.want {
			t.Errorf("%s %v: %v %v, want %v %s", c.name, c.kind, code, got, c.code, c.want)
		}
	}
	if host, ok := n.Host(netip.MustParseAddr("::ffff:127.1.0.2")); !ok || host != "b.example" {
		t.Errorf("127.1.0.2 is %q %v", host, ok)
	}
	chaos := query(t, "a.example.", dnsmessage.TypeA)
	chaos[len(chaos)-1] = 3
	if code, _ := answers(t, n, chaos); code != dnsmessage.RCodeRefused {
		t.Errorf("another class: %v", code)
	}
	if n.Answer([]byte("short")) != nil || n.Answer(n.Answer(query(t, "a.example.", dnsmessage.TypeA))) != nil {
		t.Error("what is no query is answered")
	}
}

// No address is used twice, and there is an end of them.
func TestNamesAreBounded(t *testing.T) {
	n := NewNames()
	seen := map[netip.Addr]bool{}
	for i := range maxNames {
		a, err := n.address(fmt.Sprintf("n%d.example", i))
		if err != nil || seen[a] || !fake.Contains(a) || !a.IsLoopback() {
			t.Fatalf("name %d: %v %v", i, a, err)
		}
		seen[a] = true
	}
	if code, got := answers(t, n, query(t, "more.example.", dnsmessage.TypeA)); code != dnsmessage.RCodeRefused || len(got) != 0 {
		t.Errorf("one more: %v %v", code, got)
	}
	if code, got := answers(t, n, query(t, "n5.example.", dnsmessage.TypeA)); code != 0 || len(got) != 1 {
		t.Errorf("a known one: %v %v", code, got)
	}
}

// Whatever comes, an answer is a response to it of bounded length, and gives out no
// address but the resolver's own.
func FuzzNamesAnswer(f *testing.F) {
	f.Add(query(f, "a.example.", dnsmessage.TypeA))
	f.Add(query(f, "1.0.1.127.in-addr.arpa.", dnsmessage.TypePTR))
	f.Add(query(f, strings.Repeat("a23456789.", 25), dnsmessage.TypeAAAA))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := NewNames()
		out := n.Answer(data)
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response || len(out) > maxDNS || m.ID != uint16(data[0])<<8|uint16(data[1]) {
			t.Fatalf("% x is answered by % x (%v)", data, out, err)
		}
		for _, r := range m.Answers {
			if a, ok := r.Body.(*dnsmessage.AResource); ok && !netip.AddrFrom4(a.A).IsLoopback() {
				t.Fatalf("address %v", a.A)
			}
		}
	})
}
