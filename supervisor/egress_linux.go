package supervisor

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox/egress"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// proxyAddress is where a session's tools find the way out, in their own network
// namespace. It is above the ports that the kernel gives to servers by itself.
const proxyAddress = "127.0.0.1:61080"

// proxyNames are the variables that lead to the proxy; each command's hold its token.
var proxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// proxyConstants go with them: what stays inside, and that Node reads them.
var proxyConstants = []string{"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1"}

// proxyEnvironment is what a command gets that may use the proxy with that token.
func proxyEnvironment(token string) []string {
	out := slices.Clone(proxyConstants)
	for _, name := range proxyNames {
		scheme := "http"
		if strings.EqualFold(name, "ALL_PROXY") {
			scheme = "socks5h"
		}
		out = append(out, name+"="+scheme+"://tool:"+token+"@"+proxyAddress)
	}
	return out
}

// outbound is the way out of a tree's confined tools: the proxy, and which command each
// of its leases is for. It is the proxy's authority.
type outbound struct {
	t     *tree
	proxy *egress.Proxy

	mu       sync.Mutex
	commands map[string]*command
}

func newOutbound(t *tree) *outbound {
	o := &outbound{t: t, commands: map[string]*command{}}
	o.proxy = egress.New(egress.Config{Authority: o, Record: o.record})
	return o
}

// listen opens the proxy in the network namespace of a holder, for the tokens of s.
func (o *outbound) listen(h *keeper.Holder, s *session) (net.Listener, error) {
	f, err := h.Listen("tcp", proxyAddress)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	go o.proxy.Serve(l, s.id, nil)
	return l, nil
}

// admit makes the lease of a command that is about to start.
func (o *outbound) admit(c *command) *egress.Lease {
	o.mu.Lock()
	o.commands[c.id] = c
	o.mu.Unlock()
	return o.proxy.Admit(egress.Who{Session: c.session.id, Command: c.id})
}

// end ends the lease of a command that is over.
func (o *outbound) end(c *command) {
	if c.lease == nil {
		return
	}
	c.lease.Revoke("the command is over")
	o.mu.Lock()
	delete(o.commands, c.id)
	o.mu.Unlock()
}

// wish makes a host's wish, judged under the rules of now.
func (o *outbound) wish(q egress.Question) (*wish, bool) {
	o.mu.Lock()
	c := o.commands[q.Who.Command]
	o.mu.Unlock()
	if c == nil {
		return nil, false
	}
	t, s := o.t, c.session
	w := &wish{s: s, caller: c, op: control.OpAsk}
	w.record = policy.Record{
		ID: registry.NewRequestID(), Op: control.OpAsk, Role: c.role(), Sessions: s.path(), Surface: "network", Value: q.Target.String(),
		Argv: []string{"network", q.Target.String(), ""}, Dir: s.dir, Base: digestEnv(s.base), Snapshot: s.snap.Generation,
	}
	query := policy.HostQuery(q.Target.Host, strconv.Itoa(int(q.Target.Port)))
	query.Home = t.root.Home
	w.queries = []policy.Query{query}
	w.warnings = []string{"a running command connects to it: " + commandLine(c.record)}
	if class := q.Class(); class != "" {
		w.warnings = append(w.warnings, "this is no public address but "+class)
	}
	w.rules = t.rules.Load()
	w.chain = s.under(w.rules)
	return w, true
}

// Judge implements egress.Authority.
func (o *outbound) Judge(q egress.Question) egress.Verdict {
	w, ok := o.wish(q)
	if !ok {
		return egress.Verdict{Reason: "the command is over"}
	}
	v := o.t.judge(w)
	open := w.s.snap.Open
	out := egress.Verdict{
		Action: v.action, Reason: v.decision.Reason, Listed: append(slices.Clone(open.Hosts), v.decision.Rule.Pattern),
		Granted: v.grant != nil,
		Denied:  slices.Concat(open.DeniedHosts, w.s.snap.Ceiling.DeniedHosts),
	}
	switch {
	case v.action == policy.Deny:
		v.unit = "" // the proxy says it
		out.Reason = denial(v)
	case v.grant != nil:
		out.Reason = "a grant covers it"
	case out.Reason == "":
		out.Reason = originText(v.decision.Rule)
	}
	return out
}

// Ask implements egress.Authority: the host is asked as any other wish is, while the
// connection waits. What was answered holds for the command.
func (o *outbound) Ask(ctx context.Context, q egress.Question) egress.Verdict {
	w, ok := o.wish(q)
	if !ok {
		return egress.Verdict{Reason: "the command is over"}
	}
	out := o.t.decide(ctx, w, nil)
	v := egress.Verdict{Reason: out.reason, Hold: out.word == "human", Denied: slices.Concat(w.s.snap.Open.DeniedHosts, w.s.snap.Ceiling.DeniedHosts)}
	if out.allowed {
		v.Action = policy.Allow
	}
	return v
}

// record writes down what the proxy decided and what came of it. What somebody
// answered is written where it is decided.
func (o *outbound) record(e egress.Event) error {
	row := audit.Row{
		Session: e.Who.Session, Command: e.Who.Command, Surface: "network", Value: e.Target.String(), ActionKind: string(policy.KindNetwork), Reason: e.Reason,
		Details: map[string]any{},
	}
	if e.Protocol != "" {
		row.Details["protocol"] = string(e.Protocol)
	}
	switch {
	case e.Kind == egress.Ended:
		row.Kind = audit.HostEnded
		row.Details = map[string]any{"connections": e.Connections, "refused": e.Refused, "sent": e.Sent, "received": e.Received}
		o.t.note(row)
		return nil
	case e.Answered:
		return nil
	case e.Kind == egress.Allowed:
		row.Kind, row.Decision = audit.DecisionAllowed, "allow"
	default:
		row.Kind, row.Decision = audit.DecisionDenied, "deny"
	}
	row.DecidedBy = &audit.Decider{Kind: "rule", Surface: "network", Origin: e.Reason}
	return o.t.log.Write(row)
}
