package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getpioneer/pioneer-super/supervisor/audit"
)

// fetch is an HTTP client that uses the proxy of its environment; "direct" is one that
// does not.
const fetch = `host=$1 to=${http_proxy#http://}
[ "$2" = direct ] && to=@$host
exec 3<>/dev/tcp/$(echo "${to#*@}" | tr : /) || exit 7
printf 'GET %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\nConnection: close\r\n\r\n' \
  "$([ "$2" = direct ] && echo / || echo "http://$host/")" "$host" "$(printf %s "${to%@*}" | base64 -w0)" >&3
cat <&3`

// A confined tool reaches a host through the proxy alone: what rules open, and what
// somebody opens while its connection waits.
func TestHostsThroughTheProxy(t *testing.T) {
	needRooms(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "reached ", r.Host) }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	l := newLab(t)
	l.configure("policy.jsonc", `{"permission": {"task": "allow", "bash": {"*": "allow", "curl *": "ask"},
		"network": {"*": "ask", "127.0.0.1": "allow", "denied.example": "deny"}}}`)
	l.script("agent.sh", runner)
	l.script("fetch.sh", fetch)
	r, human := l.attended([]string{"--mode", "auto_accept_edits"}, "sh", "agent.sh")
	a := &asks{l: l}
	run := func(args string) string { return "pioneer-super exec -- bash fetch.sh " + args }
	output := func() string {
		data, _ := os.ReadFile(filepath.Join(l.work, "out"))
		return string(data)
	}
	// Without the proxy there is no way out, not even to the server that the next line reaches.
	if got := a.answers(run("127.0.0.1:"+port+" direct"), run("127.0.0.1:"+port), run("denied.example")); got != "7 0 0" {
		t.Errorf("statuses %s", got)
	}
	if out := output(); strings.Count(out, "reached 127.0.0.1:"+port) != 1 || !strings.Contains(out, "403 denied.example:80: denied by rule") {
		t.Errorf("output %s", out)
	}
	// What no rule decides is asked while the connection waits.
	name := a.post(run("127.0.0.2:" + port))
	q := human.next()
	shown := strings.Join(q.Warnings, "\n")
	if q.Command != "127.0.0.2:"+port || q.Surface != "network" || !strings.Contains(shown, "bash fetch.sh 127.0.0.2:"+port) || !strings.Contains(shown, "loopback") {
		t.Errorf("asked %+v", q)
	}
	human.say(q, "deny")
	l.want(name)
	if out := output(); !strings.Contains(out, "403 127.0.0.2:"+port) {
		t.Errorf("denied by the human: %s", out)
	}
	// An answer for the turn counts for the next command too.
	name = a.post(run("localhost:"+port), run("localhost:"+port))
	q = human.next()
	human.say(q, "allow_for_turn")
	l.want(name)
	if out := output(); strings.Count(out, "reached localhost:"+port) != 2 {
		t.Errorf("allowed by the human: %s", out)
	}
	// What a text shows that it wants is asked for host by host, not given as a whole.
	name = a.post("pioneer-super exec -- curl http://somewhere.example/")
	q = human.next()
	for _, o := range q.Offers {
		if o.Name == "network" && o.On {
			t.Errorf("every host is preselected: %+v", q.Offers)
		}
	}
	if !strings.Contains(strings.Join(q.Warnings, "\n"), "each host that it reaches through the proxy is asked for") {
		t.Errorf("that hosts are asked for is not said: %q", q.Warnings)
	}
	human.say(q, "deny")
	l.want(name)
	l.give("stop", "")
	if code := r.wait(t, patience); code != 0 {
		t.Errorf("exit %d: %s", code, r.stderr())
	}
	kinds := map[string]int{}
	for _, row := range l.rows() {
		if row.Surface == "network" {
			kinds[string(row.Kind)+" "+row.Value]++
		}
	}
	for _, want := range []string{
		string(audit.DecisionAllowed) + " 127.0.0.1:" + port, string(audit.DecisionDenied) + " denied.example:80", string(audit.ApprovalRequested) + " 127.0.0.2:" + port,
		string(audit.ApprovalResolved) + " 127.0.0.2:" + port, string(audit.HostEnded) + " 127.0.0.1:" + port,
	} {
		if kinds[want] == 0 {
			t.Errorf("the audit has no %s: %v", want, kinds)
		}
	}
}
