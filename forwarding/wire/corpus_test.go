package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is one document of a kind.
type sample struct{ kind, text string }

const (
	goodRequest = `{"id":"perm-1","createdAt":1796040473677,"requesterSessionId":"child-1","targetSessionId":"root-1","requesterAgentName":"scout",` +
		`"message":"Allow?","source":"tool_call","surface":"bash","value":"git status",` +
		`"sessionApproval":{"surface":"bash","patterns":["git *"],"grants":[{"surface":"bash","pattern":"git *"}]},` +
		`"payload":{"kind":"bash","request":{"requester":{"agentName":"scout","forwarded":false,"sessionId":null},"surface":"bash","toolName":"bash",` +
		`"invokedToolName":null,"value":"git status","matchedPattern":"git *","commandContext":"subshell","executedUnit":null},` +
		`"evidence":[{"label":"full command","text":"(git status)","detail":null}],"annotations":[{"source":"m","text":"n"}]},` +
		`"accessIntent":{"surface":"bash","matchValues":["git status"],"boundaryValue":null,"requesterCwd":"/w","principal":{"sessionId":"child-1","agentName":"scout"}}}`
	goodResponse = `{"approved":true,"state":"approved","denialReason":"r","responderSessionId":"root-1","respondedAt":1796040473680,` +
		`"decidedBy":{"kind":"forwarded","responderSessionId":"top","decision":{"kind":"rule","surface":"bash","pattern":"git *","origin":null}},"sessionGrantWidth":"family"}`
	goodHeartbeat = `{"sessionId":"root-1","pid":4242,"updatedAt":1796040473680}`
)

// nested returns a decision with n forwarded frames around a human's.
func nested(n int) string {
	return strings.Repeat(`{"kind":"forwarded","responderSessionId":"x","decision":`, n) + `{"kind":"user","via":"dialog"}` + strings.Repeat("}", n)
}

func respond(fields string) string {
	return `{"approved":false,"state":"denied","responderSessionId":"r"` + fields + `}`
}

func request(fields string) string {
	return `{"id":"a","createdAt":1,"requesterSessionId":"unknown","targetSessionId":"t","requesterAgentName":"unknown"` + fields + `}`
}

// traps are documents that two readers read differently, and plain ones.
func traps() []sample {
	var out []sample
	add := func(kind string, texts ...string) {
		for _, s := range texts {
			out = append(out, sample{kind, s})
		}
	}
	add("request", goodRequest, request(""), request(`,"value":"ls","ValuE":"rm -rf ~"`), request(`,"value":"ls","value":"rm"`), request(`,"\u0076alue":"x"`),
		request(`,"value":"ls","\u0076alue":"rm"`), request(`,"message":"\ud83d"`), request(`,"value":"\ude00\ud83d"`), request(`,"value":"\ud83d\ude00"`),
		request(`,"x":"\ud83d"`), request(`,"sourc\u0065":"skill_read"`), request(`,"\u017fource":"skill_read"`), request(`,"SURFACE":"bash"`),
		request(`,"surface":7,"value":[]`), request(`,"source":"other"`), request(`,"message":7`), request(`,"__proto__":{"value":"x"}`), request(`,"constructor":1`),
		request(`,"payload":{}`), request(`,"payload":[]`), request(`,"payload":{"Kind":"bash"}`), request(`,"payload":{"request":{"VALUE":"x"}}`),
		request(`,"accessIntent":{"surface":"x"}`), request(`,"accessIntent":{"MatchValues":[]}`), request(`,"accessIntent":null`),
		request(`,"sessionApproval":{"surface":"bash","patterns":["x"]}`), request(`,"sessionApproval":{"grants":[]}`),
		request(`,"sessionApproval":{"grants":[{"surface":"","pattern":"x"}]}`), request(`,"sessionApproval":{"grants":[{"surface":"a","pattern":"b"},{"surface":"a"}]}`),
		request(`,"sessionApproval":{"surface":"","patterns":[]}`), request(`,"sessionApproval":{"Grants":[]}`), request(`,"extra":{"a":[1,2,{"b":null}]}`),
		strings.Replace(request(""), `"createdAt":1`, `"createdAt":1e400`, 1), strings.Replace(request(""), `"createdAt":1`, `"createdAt":"1"`, 1),
		strings.Replace(request(""), `"createdAt":1`, `"createdAt":1.9`, 1), strings.Replace(request(""), `"createdAt":1`, `"createdAt":-1.9`, 1),
		strings.Replace(request(""), `"id":"a"`, `"id":null`, 1), strings.Replace(request(""), `"id":"a",`, ``, 1),
		request("")+"\n", " \t\r\n"+request(""), request("")+"{}", "\ufeff"+request(""), "["+request("")+"]", "null", "", "7", `"x"`, "{", request(",")+"}",
		request("")+"\x00", "\v"+request(""), request(`,"value":"`+"\xff"+`"`), request(`,"value":"a`+"\x01"+`"`), request(`,"value":"\u0000"`), request(`,"value":"\x41"`),
		request(`,"value":'x'`), request(`,"a":01`), request(`,"a":1.`), request(`,"a":NaN`), request(`,"a":-0`), request(`,"a":tru`), request(`,//c`+"\n"+`"a":1`))
	add("response", goodResponse, respond(""), respond(`,"APPROVED":true,"State":"approved"`), respond(`,"approved":true,"state":"approved"`),
		respond(`,"denialreason":"x"`), respond(`,"denialReason":7`), respond(`,"denialReason":"\ud800"`), respond(`,"decidedBy":`+nested(0)), respond(`,"decidedBy":`+nested(4)),
		respond(`,"decidedBy":`+nested(5)), respond(`,"decidedBy":{"kind":"USER","via":"dialog"}`), respond(`,"decidedBy":{"Kind":"user"}`), respond(`,"decidedBy":[]`),
		respond(`,"decidedBy":{"kind":"user","via":"x"}`), respond(`,"decidedBy":{"kind":"authorizer","name":"a","verdict":"allow","reason":null}`),
		respond(`,"decidedBy":{"kind":"authorizer","name":"a","verdict":"defer","reason":null}`), respond(`,"decidedBy":{"kind":"session_approval","surface":"s","pattern":null}`),
		respond(`,"decidedBy":{"kind":"yolo","pattern":"p"}`), respond(`,"decidedBy":{"kind":"yolo"}`), respond(`,"decidedBy":{"kind":"infrastructure_read","x":1}`),
		respond(`,"decidedBy":{"kind":"unavailable","reason":"r"}`), respond(`,"decidedBy":{"kind":"gate_error","reason":""}`),
		respond(`,"decidedBy":{"kind":"forwarded","responderSessionId":null,"decision":null}`), respond(`,"decidedBy":{"kind":"forwarded","responderSessionId":null}`),
		respond(`,"sessionGrantWidth":"family"`), respond(`,"sessionGrantWidth":"wide"`), respond(`,"respondedAt":"x"`), respond(`,"respondedAt":1e999`))
	for _, state := range []string{"approved", "approved_for_session", "approved_for_serving_session", "denied", "denied_with_reason", "Approved", "allow", ""} {
		for _, yes := range []string{"true", "false", `"true"`, "1", "null"} {
			add("response", fmt.Sprintf(`{"approved":%s,"state":%q,"responderSessionId":""}`, yes, state))
		}
	}
	add("response", `{"approved":true,"state":"approved"}`, `{"approved":true,"responderSessionId":"x"}`, `{"state":"approved","responderSessionId":"x"}`,
		"\ufeff"+respond(""), respond("")+" ", `{"approved": tru`, "", "null", "[]")
	add("heartbeat", goodHeartbeat)
	for _, pid := range []string{"0", "-1", "1.5", "1.0", "1e3", "1e400", "null", `"1"`, "2147483648", "9007199254740993"} {
		add("heartbeat", strings.Replace(goodHeartbeat, "4242", pid, 1))
	}
	for _, at := range []string{"0", "-1", "1e400", "null", `"x"`, "1796040473680.75"} {
		add("heartbeat", strings.Replace(goodHeartbeat, "1796040473680", at, 1))
	}
	add("heartbeat", strings.Replace(goodHeartbeat, "root-1", "", 1), strings.Replace(goodHeartbeat, `"pid"`, `"PID"`, 1), strings.Replace(goodHeartbeat, `"pid":4242`, `"pid":1,"pid":2`, 1),
		strings.Replace(goodHeartbeat, "}", `,"Pid":1}`, 1), strings.Replace(goodHeartbeat, "}", `,"boot":"b","pidns":"4026531836","lock":true}`, 1), "", "{}", goodHeartbeat[:20])
	return out
}

// captured are files that real peers wrote.
func captured(tb testing.TB) []sample {
	tb.Helper()
	files, err := filepath.Glob("testdata/captured/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no captured files: %v", err)
	}
	var out []sample
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		kind := "request"
		if strings.Contains(f, ".response.") {
			kind = "response"
		}
		out = append(out, sample{kind, string(data)})
	}
	return out
}

// mutants changes documents at random, the same way on every run.
func mutants(seeds []sample, n int) []sample {
	rng := rand.New(rand.NewPCG(1, 2))
	tokens := []string{`"`, `\`, `,`, `{`, `}`, `[`, `]`, `:`, "null", "true", "false", "1e9", `\ud83d`, `\u0061`, "\xff", " ", "approved", "APPROVED", `"state":"approved",`, `"approved":true,`,
		`"value":"x",`, `"Value":"y",`, "\u017f", "\u212a", "0", "-", "\x00", "__proto__"}
	var out []sample
	for range n {
		s := seeds[rng.IntN(len(seeds))]
		b := []byte(s.text)
		for range 1 + rng.IntN(3) {
			if len(b) == 0 {
				break
			}
			i := rng.IntN(len(b))
			switch rng.IntN(5) {
			case 0:
				b[i] = byte(rng.IntN(256))
			case 1:
				b = append(b[:i], b[min(len(b), i+1+rng.IntN(4)):]...)
			case 2:
				b = append(b[:i:i], append([]byte(tokens[rng.IntN(len(tokens))]), b[i:]...)...)
			case 3: // double one member
				j := i + bytes.IndexByte(b[i:], ',')
				if k := i + 1 + bytes.IndexByte(b[i+1:], ','); j >= i && k > j {
					b = append(b[:j:j], append(append([]byte(nil), b[j:k]...), b[j:]...)...)
				}
			case 4: // another case
				if c := b[i] ^ 0x20; 'a' <= c|0x20 && c|0x20 <= 'z' {
					b[i] = c
				}
			}
		}
		out = append(out, sample{s.kind, string(b)})
	}
	return out
}

func corpus(tb testing.TB) []sample {
	all := append(traps(), captured(tb)...)
	return append(all, mutants(all, 1500)...)
}
