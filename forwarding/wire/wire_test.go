package wire

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadRequestRequired(t *testing.T) {
	for _, tt := range []struct{ name, text, field, problem string }{
		{"an id that is null", strings.Replace(goodRequest, `"id":"perm-1"`, `"id":null`, 1), "id", "null, a string expected"},
		{"no id", strings.Replace(goodRequest, `"id":"perm-1",`, ``, 1), "id", "missing"},
		{"a time in words", strings.Replace(goodRequest, `1796040473677`, `"now"`, 1), "createdAt", "a string, milliseconds"},
		{"a time out of range", strings.Replace(goodRequest, `1796040473677`, `1e400`, 1), "createdAt", "milliseconds"},
		{"no target", strings.Replace(goodRequest, `targetSessionId`, `target`, 1), "targetSessionId", "missing"},
		{"a number for an agent", strings.Replace(goodRequest, `"scout","message"`, `7,"message"`, 1), "requesterAgentName", "a number"},
		{"half a document", goodRequest[:100], "", "ends too early"},
		{"two documents", goodRequest + "{}", "", "more than one"},
		{"a list", "[]", "", "an array, an object expected"},
		{"a name twice", `{"id":"a","id":"b"}`, "", "duplicate"},
		{"a name twice, once escaped", `{"id":"a","\u0069d":"b"}`, "", "duplicate"},
		{"a name in another case", request(`,"ValuE":"rm"`), `"ValuE"`, "only in case"},
		{"a name with a long s", request(`,"\u017furface":"rm"`), `"ſurface"`, "only in case"},
		{"another case in the payload", request(`,"payload":{"request":{"Value":"x"}}`), `payload.request."Value"`, "only in case"},
		{"another case in the evidence", request(`,"payload":{"evidence":[{"TEXT":"x"}]}`), `payload.evidence."TEXT"`, "only in case"},
		{"another case in the intent", request(`,"accessIntent":{"principal":{"SessionId":"x"}}`), `accessIntent.principal."SessionId"`, "only in case"},
		{"another case in a grant", request(`,"sessionApproval":{"grants":[{"Pattern":"x"}]}`), `sessionApproval.grants."Pattern"`, "only in case"},
		{"half a surrogate pair", request(`,"message":"\ud83d"`), "", "surrogate"},
		{"bytes that are no text", request(`,"message":"` + "\xff" + `"`), "", "UTF-8"},
		{"too deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), "", "nested deeper"},
		{"too long", strings.Repeat(" ", MaxFile+1), "", "at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadRequest([]byte(tt.text))
			var re *ReadError
			if !errors.As(err, &re) {
				t.Fatalf("error %v", err)
			}
			if re.What != "request" || tt.field != "" && re.Field != tt.field || !strings.Contains(re.Problem, tt.problem) {
				t.Errorf("error %q, expected field %q and %q", err, tt.field, tt.problem)
			}
		})
	}
}

func TestReadRequestOptional(t *testing.T) {
	full, err := ReadRequest([]byte(goodRequest))
	if err != nil || full.Dropped != nil || full.Payload == nil || full.AccessIntent == nil || len(full.SessionApproval.Grants) != 1 {
		t.Fatalf("%+v, %v", full, err)
	}
	type want struct {
		dropped string
		approve *SessionApproval
	}
	for _, tt := range []struct {
		name, fields string
		want         want
	}{
		{"nothing optional", "", want{}},
		{"names that nobody knows", `,"later":{"a":1}`, want{}},
		{"a source that nobody knows", `,"source":"telepathy"`, want{dropped: "source"}},
		{"a surface that is a number", `,"surface":1`, want{dropped: "surface"}},
		{"a value that is a list", `,"value":[]`, want{dropped: "value"}},
		{"nulls", `,"surface":null,"value":null`, want{}},
		{"a message that is a number", `,"message":1`, want{dropped: "message"}},
		{"an empty payload", `,"payload":{}`, want{dropped: "payload"}},
		{"a payload with one bad field", `,` + goodRequest[strings.Index(goodRequest, `"payload"`):strings.Index(goodRequest, `,"accessIntent"`)-1] + `,"x":1}`, want{}},
		{"an intent with one bad field", `,"accessIntent":{"surface":"s","matchValues":[1],"boundaryValue":null,"requesterCwd":"","principal":{"sessionId":"","agentName":""}}`, want{dropped: "accessIntent"}},
		{"the old suggestion", `,"sessionApproval":{"surface":"bash","patterns":["a"]}`, want{approve: &SessionApproval{Surface: "bash", Patterns: []string{"a"}}}},
		{"the new suggestion", `,"sessionApproval":{"grants":[{"surface":"bash","pattern":"a"}]}`, want{approve: &SessionApproval{Grants: []Grant{{"bash", "a"}}}}},
		{"both, the new one malformed", `,"sessionApproval":{"surface":"bash","patterns":["a"],"grants":[{}]}`, want{dropped: "sessionApproval.grants", approve: &SessionApproval{Surface: "bash", Patterns: []string{"a"}}}},
		{"both malformed", `,"sessionApproval":{"surface":"","patterns":["a"],"grants":[]}`, want{dropped: "sessionApproval"}},
		{"one grant of two malformed", `,"sessionApproval":{"grants":[{"surface":"a","pattern":"b"},{"surface":"a"}]}`, want{dropped: "sessionApproval"}},
		{"a suggestion that is a list", `,"sessionApproval":[]`, want{dropped: "sessionApproval"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadRequest([]byte(request(tt.fields)))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Dropped, " "); got != tt.want.dropped {
				t.Errorf("dropped %q, expected %q", got, tt.want.dropped)
			}
			if diff := cmp.Diff(tt.want.approve, r.SessionApproval); diff != "" {
				t.Error(diff)
			}
			if r.Source != ToolCall {
				t.Errorf("source %q", r.Source)
			}
		})
	}
}

// A payload is usable whole or not at all: every field in turn is taken away
// and given the wrong shape.
func TestPayloadIsAllOrNothing(t *testing.T) {
	start := strings.Index(goodRequest, `"payload":`) + len(`"payload":`)
	payload := goodRequest[start:strings.Index(goodRequest, `,"accessIntent"`)]
	if r, err := ReadRequest([]byte(request(`,"payload":` + payload))); err != nil || r.Payload == nil {
		t.Fatalf("control: %+v, %v", r, err)
	}
	for _, name := range []string{"kind", "request", "requester", "agentName", "forwarded", "sessionId", "surface", "toolName", "invokedToolName", "value", "matchedPattern",
		"commandContext", "executedUnit", "evidence", "label", "text", "detail", "annotations", "source"} {
		key := `"` + name + `":`
		if !strings.Contains(payload, key) {
			t.Fatalf("the sample has no %s", name)
		}
		for _, other := range []string{`"x` + name + `":`, key + `7,"x` + name + `":`} {
			bad := strings.Replace(payload, key, other, 1)
			r, err := ReadRequest([]byte(request(`,"payload":` + bad)))
			if err != nil || r.Payload != nil || len(r.Dropped) != 1 {
				t.Errorf("%s: payload %+v, dropped %v, error %v", bad, r.Payload, r.Dropped, err)
			}
		}
	}
}

func TestRequestRoundTrip(t *testing.T) {
	r, err := ReadRequest([]byte(goodRequest))
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != goodRequest {
		t.Errorf("written\n%s\nread\n%s", out, goodRequest)
	}
}

// Old peers read patterns of one surface, new ones grants; whichever half a
// suggestion has, both are written.
func TestEncodeWritesBothSuggestions(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   SessionApproval
		want string
	}{
		{"from the old", SessionApproval{Surface: "bash", Patterns: []string{"a", "b"}},
			`{"surface":"bash","patterns":["a","b"],"grants":[{"surface":"bash","pattern":"a"},{"surface":"bash","pattern":"b"}]}`},
		{"from the new, two surfaces", SessionApproval{Grants: []Grant{{"x", "1"}, {"y", "2"}, {"x", "3"}}},
			`{"surface":"x","patterns":["1","3"],"grants":[{"surface":"x","pattern":"1"},{"surface":"y","pattern":"2"},{"surface":"x","pattern":"3"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := Request{Message: "m", SessionApproval: &tt.in}.Encode()
			if err != nil || !strings.Contains(string(out), `"sessionApproval":`+tt.want) {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
	if out, err := (Request{Message: "m", SessionApproval: &SessionApproval{}}).Encode(); err != nil || strings.Contains(string(out), "sessionApproval") {
		t.Errorf("an empty suggestion is written: %s, %v", out, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	bad := "\xff"
	for name, r := range map[string]Request{
		"no message":       {},
		"no text":          {Message: bad},
		"no text in value": {Message: "m", Value: &bad},
		"a source":         {Message: "m", Source: "x"},
		"too much":         {Message: strings.Repeat("x", MaxFile)},
		"a payload kind":   {Message: "m", Payload: &Payload{}},
	} {
		if out, err := r.Encode(); err == nil {
			t.Errorf("%s: written as %.80s", name, out)
		}
	}
	deep := ByUser("dialog")
	for range MaxDecisionDepth + 1 {
		inner := deep
		deep = DecisionSource{Kind: KindForwarded, Decision: &inner}
	}
	for name, r := range map[string]Response{
		"the zero value":     {},
		"yes and no":         {Approved: true, State: Denied},
		"no and yes":         {State: Approved},
		"a state":            {State: "maybe"},
		"too deep":           {State: Denied, DecidedBy: deep},
		"a kind of decision": {State: Denied, DecidedBy: DecisionSource{Kind: "oracle"}},
	} {
		if out, err := r.Encode(); err == nil {
			t.Errorf("%s: written as %s", name, out)
		}
	}
	for name, h := range map[string]Heartbeat{"no session": {PID: 1, UpdatedAt: 1796040473680}, "no pid": {SessionID: "s", UpdatedAt: 1796040473680},
		"an old time": {SessionID: "s", PID: 1, UpdatedAt: 1}, "a negative time": {SessionID: "s", PID: 1, UpdatedAt: -179604047368}} {
		if out, err := h.Encode(); err == nil {
			t.Errorf("heartbeat with %s: written as %s", name, out)
		}
	}
}

func TestReadResponse(t *testing.T) {
	for _, tt := range []struct {
		name, text   string
		approved     bool
		inconsistent bool
	}{
		{"approved", `{"approved":true,"state":"approved","responderSessionId":""}`, true, false},
		{"approved for the session", `{"approved":true,"state":"approved_for_session","responderSessionId":""}`, true, false},
		{"approved for the serving session", `{"approved":true,"state":"approved_for_serving_session","responderSessionId":""}`, true, false},
		{"denied", `{"approved":false,"state":"denied","responderSessionId":""}`, false, false},
		{"yes, denied", `{"approved":true,"state":"denied","responderSessionId":""}`, false, true},
		{"no, approved", `{"approved":false,"state":"approved","responderSessionId":""}`, false, true},
		{"yes, denied with reason", `{"approved":true,"state":"denied_with_reason","responderSessionId":"","denialReason":"x"}`, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ReadResponse([]byte(tt.text))
			if err != nil || r.Approved != tt.approved || r.Inconsistent != tt.inconsistent || r.Approved != r.State.approves() {
				t.Errorf("%+v, %v", r, err)
			}
			if r.Width != WidthProven {
				t.Errorf("width %q", r.Width)
			}
		})
	}
	for _, text := range []string{"", "null", "{}", "\ufeff" + respond(""), respond(`,"APPROVED":true`), respond(`,"approved":true`), respond(`,"denialReason":"\ud800"`),
		`{"approved":"true","state":"approved","responderSessionId":""}`, `{"approved":true,"state":"APPROVED","responderSessionId":""}`, `{"approved":true,"state":"approved"}`,
		respond(`,"decidedBy":{"kind":"user","Via":"dialog"}`)} {
		if r, err := ReadResponse([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}

func TestDecisionDepth(t *testing.T) {
	for n := range MaxDecisionDepth + 3 {
		r, err := ReadResponse([]byte(respond(`,"decidedBy":` + nested(n))))
		if err != nil {
			t.Fatal(err)
		}
		if kept := r.DecidedBy.Kind != ""; kept != (n <= MaxDecisionDepth) {
			t.Errorf("%d forwarded frames: kept %t", n, kept)
		}
		if n > MaxDecisionDepth {
			continue
		}
		if who, told := r.DecidedBy.EffectiveDecider(); !told || who.Kind != KindUser {
			t.Errorf("%d frames: decided by %+v, told %t", n, who, told)
		}
		// One hop more is written in a form that the next reader accepts.
		out, err := (Response{State: Denied, DecidedBy: Forwarded("me", r.DecidedBy)}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadResponse(out)
		if err != nil || again.DecidedBy.Kind != KindForwarded {
			t.Errorf("%d frames and ours: %+v, %v", n, again.DecidedBy, err)
		}
		if _, told := again.DecidedBy.EffectiveDecider(); told != (n < MaxDecisionDepth) {
			t.Errorf("%d frames and ours: told %t", n, told)
		}
	}
}

func TestEveryDecisionRoundTrips(t *testing.T) {
	for _, d := range []DecisionSource{ByUser("dialog"), ByUser("select"), ByAuthorizer("a", true, ""), ByAuthorizer("a", false, "r"), ByRule("s", "p", "o"), ByRule("s", "", ""),
		ByGrant("s", "p"), ByYolo(""), ByYolo("<x>"), ByInfrastructureRead(), Unavailable(""), Unavailable("r"), GateError("r"), Forwarded("", DecisionSource{}), Forwarded("x", ByYolo("p"))} {
		out, err := (Response{State: Denied, DecidedBy: d}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadResponse(out)
		if err != nil || !r.DecidedBy.Equal(d) {
			t.Errorf("%s: read %+v, %v", out, r.DecidedBy, err)
		}
		if d.String() == "" || d.Resolution(false, Denied) == "" {
			t.Errorf("%+v has no words", d)
		}
	}
}

func TestResolution(t *testing.T) {
	for _, tt := range []struct {
		d        DecisionSource
		approved bool
		state    State
		want     string
	}{
		{ByRule("s", "p", "o"), true, Approved, "policy_allow"}, {ByRule("s", "p", "o"), false, Denied, "policy_deny"},
		{Forwarded("r", ByRule("s", "p", "o")), false, Denied, "policy_deny"}, {ByGrant("s", "p"), true, Approved, "session_approved"},
		{ByInfrastructureRead(), true, Approved, "infrastructure_auto_allowed"}, {ByYolo(""), true, Approved, "auto_approved"},
		{ByAuthorizer("a", true, ""), true, Approved, "authorizer_allowed"}, {ByAuthorizer("a", false, ""), false, Denied, "authorizer_denied"},
		{Unavailable("r"), false, Denied, "confirmation_unavailable"}, {GateError("r"), false, Denied, "gate_error"},
		{ByUser("dialog"), true, Approved, "user_approved"}, {ByUser("dialog"), true, ApprovedForSession, "user_approved_for_session"},
		{ByUser("dialog"), false, DeniedWithReason, "user_denied"}, {Forwarded("r", DecisionSource{}), true, Approved, "user_approved"},
	} {
		if got := tt.d.Resolution(tt.approved, tt.state); got != tt.want {
			t.Errorf("%s: %s, expected %s", tt.d, got, tt.want)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	for text, ok := range map[string]bool{
		goodHeartbeat: true,
		strings.Replace(goodHeartbeat, "4242", "0", 1):          false,
		strings.Replace(goodHeartbeat, "4242", "-1", 1):         false,
		strings.Replace(goodHeartbeat, "4242", "1.5", 1):        false,
		strings.Replace(goodHeartbeat, "4242", "1.0", 1):        true,
		strings.Replace(goodHeartbeat, "4242", "2147483648", 1): false,
		strings.Replace(goodHeartbeat, "root-1", "", 1):         false,
		strings.Replace(goodHeartbeat, `"pid"`, `"Pid"`, 1):     false,
		goodHeartbeat + "x": false,
		strings.Repeat(" ", MaxHeartbeat) + goodHeartbeat: false,
	} {
		if h, err := ReadHeartbeat([]byte(text)); (err == nil) != ok {
			t.Errorf("%.100q: %+v, %v", text, h, err)
		}
	}
}

// The time of a heartbeat is renewed in place, whatever the session is called.
func TestStamp(t *testing.T) {
	for _, session := range []string{"root", `,"updatedAt":1796040473681`, `"`, `\",\"updatedAt\":`} {
		h := Heartbeat{SessionID: session, PID: 7, UpdatedAt: 1796040473680, Boot: `,"updatedAt":2222222222222`, Lock: true}
		data, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		at, err := Stamp(data)
		if err != nil {
			t.Fatal(err)
		}
		copy(data[at:], "1796040479999")
		h.UpdatedAt = 1796040479999
		if got, err := ReadHeartbeat(data); err != nil || got != h {
			t.Errorf("session %q: %+v, %v", session, got, err)
		}
	}
	if _, err := Stamp([]byte(`{"updatedAt":1}`)); err == nil {
		t.Error("a stamp was found where none fits")
	}
}

// Files that real peers wrote are read; what they hold is known.
func TestCaptured(t *testing.T) {
	for _, s := range captured(t) {
		switch s.kind {
		case "request":
			r, err := ReadRequest([]byte(s.text))
			if strings.Contains(s.text, `\ud83d'`) { // this one carries half a surrogate pair
				if err == nil {
					t.Errorf("read as %+v: %s", r, s.text)
				}
				continue
			}
			if err != nil || r.Message == "" || r.Dropped != nil || (r.Source == ToolCall) != (r.SessionApproval != nil) {
				t.Errorf("%+v, %v: %s", r, err, s.text)
			}
			// What is relayed is written anew, and old peers find what they wrote.
			out, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			old := string(out)
			if i := strings.Index(old, `,"grants"`); i >= 0 {
				old = old[:i] + "}}"
			}
			if old != s.text {
				t.Errorf("relayed as\n%s\nread\n%s", old, s.text)
			}
		case "response":
			r, err := ReadResponse([]byte(s.text))
			if err != nil || r.Inconsistent {
				t.Errorf("%+v, %v: %s", r, err, s.text)
			}
			if out, err := r.Encode(); err != nil || string(out) != s.text {
				t.Errorf("written as\n%s\nread\n%s", out, s.text)
			}
		}
	}
}

func addSeeds(f *testing.F, kind string) {
	for _, s := range traps() {
		if s.kind == kind {
			f.Add([]byte(s.text))
		}
	}
	files, _ := os.ReadDir("testdata/captured")
	for _, e := range files {
		if data, err := os.ReadFile("testdata/captured/" + e.Name()); err == nil && strings.Contains(e.Name(), "."+kind+".") {
			f.Add(data)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	addSeeds(f, "request")
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadRequest(data)
		if err != nil {
			return
		}
		if r.Message == "" {
			r.Message = "m"
		}
		out, err := r.Encode()
		if err != nil {
			if len(data) > MaxFile/8 {
				return // its derived half may not fit
			}
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := ReadRequest(out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out)
		}
		r.Dropped = nil
		if r.SessionApproval != nil {
			both := r.SessionApproval.both()
			r.SessionApproval = &both
		}
		if r.SessionApproval != nil && again.SessionApproval != nil && len(r.SessionApproval.Grants) == 0 {
			again.SessionApproval.Grants = r.SessionApproval.Grants
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzReadResponse(f *testing.F) {
	addSeeds(f, "response")
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadResponse(data)
		if err != nil {
			return
		}
		if r.Approved != r.State.approves() || r.Unavailable {
			t.Fatalf("%+v", r)
		}
		out, err := r.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := ReadResponse(out)
		if err != nil {
			t.Fatal(err)
		}
		r.Inconsistent = false
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzReadHeartbeat(f *testing.F) {
	addSeeds(f, "heartbeat")
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ReadHeartbeat(data)
		if err == nil && (h.PID < 1 || h.SessionID == "") {
			t.Fatalf("%+v", h)
		}
	})
}
