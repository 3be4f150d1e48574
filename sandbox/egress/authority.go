package egress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/getpioneer/pioneer-super/policy"
)

// Protocol is how a connection came.
type Protocol string

const (
	// HTTP is a request in absolute form, or one on a captured port that speaks it.
	HTTP Protocol = "http"
	// Connect is an HTTP CONNECT.
	Connect Protocol = "connect"
	// SOCKS is a SOCKS5 CONNECT.
	SOCKS Protocol = "socks5"
	// Captured is a connection to an address that the resolver made.
	Captured Protocol = "captured"
)

// Who is the invocation that a connection belongs to. Command is empty where only
// the session is known: of a captured connection.
type Who struct {
	Session string
	Command string
}

// Question is one wish to reach a target.
type Question struct {
	Who      Who
	Protocol Protocol
	Target   Target
}

// Class is that of the target if it is an address or localhost, "" for another name or
// a public address.
func (q Question) Class() string {
	if a, ok := q.Target.literal(); ok {
		return Class(a)
	}
	return ""
}

// Verdict is the answer to a Question. The zero value denies.
type Verdict struct {
	Action policy.Action
	// Reason is one sentence for whoever asked.
	Reason string
	// Listed are host rules (policy.Resources.Hosts). An address that is not public is
	// dialled only if one of them is that address, or "localhost" for a loopback
	// address. Denied are host rules that refuse an address whatever its name.
	Listed, Denied []string
	// Hold, of an answer of Ask, says that it counts for the whole lease and not only
	// for the connections that wait for it.
	Hold bool
	// Granted, of an Allow of Judge, says that an answer of before covers it: whoever gave
	// it saw the target.
	Granted bool
}

// Authority says who may reach what. Both methods may be called at the same time
// from many goroutines.
type Authority interface {
	// Judge answers from what is recorded, at once; Ask where somebody has to answer.
	Judge(Question) Verdict
	// Ask gets the answer to what Judge left open. It may take as long as a human
	// does; ctx ends when nobody waits for it any more. An answer other than allow is a denial.
	Ask(context.Context, Question) Verdict
}

// admit says why the address may not be dialled for the target, or "".
func (v Verdict) admit(port uint16, a netip.Addr, own []netip.Addr) string {
	text, number := a.Unmap().String(), strconv.Itoa(int(port))
	if len(v.Denied) > 0 && !(policy.Resources{Network: policy.NetworkEnabled, DeniedHosts: v.Denied}).CanReach(text, number) {
		return fmt.Sprintf("%s is denied", text)
	}
	class := Class(a)
	if class == "" && slices.Contains(own, a.Unmap()) {
		class = "own"
	}
	if class == "" {
		return ""
	}
	listed := policy.Resources{Network: policy.NetworkRestricted, Hosts: v.Listed}
	if listed.CanReach(text, number) || class == "loopback" && listed.CanReach(localhost, number) {
		return ""
	}
	return fmt.Sprintf("%s is no public address (%s); only a rule that lists it opens it", text, class)
}

// localhost is the name that stands for every loopback address, in rules too.
const localhost = "localhost"

// literal is the address that the target says, localhost being one (RFC 6761, 6.3).
func (t Target) literal() (netip.Addr, bool) {
	if t.Host == localhost || strings.HasSuffix(t.Host, "."+localhost) {
		return netip.IPv6Loopback(), true
	}
	return t.Address()
}

// opened returns the verdict for somebody who saw the target and allowed it: what it
// says is listed. A name is not: where it leads nobody saw.
func (v Verdict) opened(t Target) Verdict {
	a, ok := t.literal()
	if !ok {
		return v
	}
	host := t.Host
	if a.IsLoopback() && !isAddress(host) {
		host = localhost
	}
	v.Listed = append([]string{host}, v.Listed...)
	return v
}

// granted is v, opened if an answer covers it.
func (v Verdict) granted(t Target) Verdict {
	if v.Granted {
		return v.opened(t)
	}
	return v
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
