package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// fake is where the addresses lie that the resolver gives to names. Inside a network
// namespace of its own every one of them is the namespace itself.
var fake = netip.MustParsePrefix("127.1.0.0/16")

const (
	// maxNames is how many names one resolver knows. An address is never used for a
	// second name: who still has it would reach another host.
	maxNames = 16384
	fakeTTL  = 60 // seconds
	// maxDNS is the longest message over UDP (RFC 1035, section 4.2.1).
	maxDNS = 512
)

// Names is the resolver of one session: it answers every well-formed name with an
// address of its own making and asks nobody. Its methods may be called at the same
// time.
type Names struct {
	mu     sync.Mutex
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
}

// NewNames returns a resolver that knows no name.
func NewNames() *Names {
	return &Names{byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{}}
}

// Host returns the name that the address was made for.
func (n *Names) Host(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host, ok := n.byAddr[a.Unmap()]
	return host, ok
}

// address returns the address of a name in the form of ParseHost, a new one for a name
// that is new.
func (n *Names) address(host string) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.byName[host]; ok {
		return a, nil
	}
	if len(n.byName) >= maxNames {
		return netip.Addr{}, fmt.Errorf("%d names were looked up in this session, which is the limit", maxNames)
	}
	i := len(n.byName) + 1
	a := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
	n.byName[host], n.byAddr[a] = a, host
	return a, nil
}

// Answer answers one DNS message; nil where it deserves no answer.
func (n *Names) Answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	questions, err := p.AllQuestions()
	switch {
	case h.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
		questions = nil
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
		questions = nil
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, maxDNS), reply)
	if len(questions) == 0 {
		return finish(b)
	}
	answer, code := n.lookup(questions[0])
	reply.RCode = code
	b = dnsmessage.NewBuilder(make([]byte, 0, maxDNS), reply)
	if b.StartQuestions() != nil || b.Question(questions[0]) != nil || b.StartAnswers() != nil {
		return nil
	}
	header := dnsmessage.ResourceHeader{Name: questions[0].Name, Class: dnsmessage.ClassINET, TTL: fakeTTL}
	switch body := answer.(type) {
	case *dnsmessage.AResource:
		err = b.AResource(header, *body)
	case *dnsmessage.AAAAResource:
		err = b.AAAAResource(header, *body)
	case *dnsmessage.PTRResource:
		err = b.PTRResource(header, *body)
	}
	if err != nil {
		return nil
	}
	return finish(b)
}

func finish(b dnsmessage.Builder) []byte {
	out, err := b.Finish()
	if err != nil || len(out) > maxDNS {
		return nil
	}
	return out
}

// lookup answers a question with one record, or with none.
func (n *Names) lookup(q dnsmessage.Question) (dnsmessage.ResourceBody, dnsmessage.RCode) {
	if q.Class != dnsmessage.ClassINET {
		return nil, dnsmessage.RCodeRefused
	}
	if q.Type == dnsmessage.TypePTR {
		if host, ok := n.reverse(q.Name.String()); ok {
			if name, err := dnsmessage.NewName(host + "."); err == nil {
				return &dnsmessage.PTRResource{PTR: name}, dnsmessage.RCodeSuccess
			}
		}
		return nil, dnsmessage.RCodeNameError
	}
	host, err := ParseHost(q.Name.String())
	if err != nil {
		return nil, dnsmessage.RCodeNameError
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil, dnsmessage.RCodeNameError // an address is no name
	}
	if host == localhost || strings.HasSuffix(host, "."+localhost) {
		switch q.Type {
		case dnsmessage.TypeA:
			return &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}, dnsmessage.RCodeSuccess
		case dnsmessage.TypeAAAA:
			return &dnsmessage.AAAAResource{AAAA: netip.IPv6Loopback().As16()}, dnsmessage.RCodeSuccess
		}
	}
	if q.Type != dnsmessage.TypeA {
		return nil, dnsmessage.RCodeSuccess // the name is there, and has no such record
	}
	a, err := n.address(host)
	if err != nil {
		return nil, dnsmessage.RCodeRefused
	}
	return &dnsmessage.AResource{A: a.As4()}, dnsmessage.RCodeSuccess
}

// reverse reads D.C.B.A.in-addr.arpa.
func (n *Names) reverse(name string) (string, bool) {
	text, ok := strings.CutSuffix(strings.ToLower(name), ".in-addr.arpa.")
	if !ok {
		return "", false
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return "", false
	}
	b := a.As4()
	return n.Host(netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}))
}

// Serve answers the messages that come to conn until it is closed.
func (n *Names) Serve(conn net.PacketConn) error {
	buffer := make([]byte, maxDNS+1)
	for {
		size, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if size > maxDNS {
			continue
		}
		if answer := n.Answer(buffer[:size]); answer != nil {
			conn.WriteTo(answer, from)
		}
	}
}
