package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "record anew what a JavaScript reader says of the corpus")

const recorded = "testdata/reader.recorded"

// askNode lets the JavaScript readers read every sample.
func askNode(t *testing.T, node string, samples []sample) []string {
	t.Helper()
	var in bytes.Buffer
	for _, s := range samples {
		fmt.Fprintln(&in, s.kind, base64.StdEncoding.EncodeToString([]byte(s.text)))
	}
	cmd := exec.Command(node, "testdata/reader.mjs")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(samples) {
		t.Fatalf("node read %d documents of %d", len(lines), len(samples))
	}
	return lines
}

// verdicts is what a JavaScript reader makes of the corpus: from node itself
// where there is one, from a record of it where not. The record is checked
// against node, so that it cannot rot.
func verdicts(t *testing.T, samples []sample) []string {
	t.Helper()
	var all strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&all, "%s %d %s\n", s.kind, len(s.text), s.text)
	}
	sum := sha256.Sum256([]byte(all.String()))
	head := "corpus " + hex.EncodeToString(sum[:])
	node, err := exec.LookPath("node")
	if err != nil {
		data, err := os.ReadFile(recorded)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if lines[0] != head || len(lines) != len(samples)+1 {
			t.Fatalf("%s is of another corpus; run with node and -record", recorded)
		}
		t.Log("no node: compared with the record")
		return lines[1:]
	}
	lines := askNode(t, node, samples)
	text := head + "\n" + strings.Join(lines, "\n") + "\n"
	if *record {
		if err := os.WriteFile(recorded, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(recorded); err != nil || string(data) != text {
		t.Errorf("%s differs from what node says (%v); run with -record", recorded, err)
	}
	return lines
}

// jsDecision is a decision as the JavaScript reader reports it.
func jsDecision(d DecisionSource) any {
	if d.Kind == "" {
		return nil
	}
	raw, err := d.Encode()
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err.Error()
	}
	return v
}

// view is what this reader makes of a document, in the shape of the other's.
func view(s sample) (ok bool, got map[string]any) {
	str := func(p *string) any {
		if p == nil {
			return nil
		}
		return *p
	}
	switch s.kind {
	case "request":
		r, err := ReadRequest([]byte(s.text))
		if err != nil {
			return false, nil
		}
		got = map[string]any{"id": r.ID, "createdAt": float64(r.CreatedAt), "requester": r.RequesterSessionID, "target": r.TargetSessionID, "agent": r.RequesterAgentName,
			"message": r.Message, "source": string(r.Source), "surface": str(r.Surface), "value": str(r.Value), "payload": nil, "grants": nil, "intent": nil}
		if p := r.Payload; p != nil {
			evidence := []any{}
			for _, e := range p.Evidence {
				evidence = append(evidence, []any{e.Label, e.Text, str(e.Detail)})
			}
			got["payload"] = map[string]any{"kind": string(p.Kind), "surface": p.Core.Surface, "value": p.Core.Value, "toolName": str(p.Core.ToolName), "evidence": evidence}
		}
		if a := r.SessionApproval; a != nil && a.Grants != nil {
			grants := []any{}
			for _, g := range a.Grants {
				grants = append(grants, []any{g.Surface, g.Pattern})
			}
			got["grants"] = grants
		}
		if a := r.AccessIntent; a != nil {
			values := []any{}
			for _, v := range a.MatchValues {
				values = append(values, v)
			}
			got["intent"] = map[string]any{"surface": a.Surface, "matchValues": values, "boundaryValue": str(a.BoundaryValue), "principal": []any{a.Principal.SessionID, a.Principal.AgentName}}
		}
	case "response":
		r, err := ReadResponse([]byte(s.text))
		if err != nil {
			return false, nil
		}
		got = map[string]any{"approved": r.Approved, "state": string(r.State), "reason": r.DenialReason, "responder": r.ResponderSessionID,
			"decidedBy": jsDecision(r.DecidedBy), "width": string(r.Width)}
		if r.Inconsistent { // read as a denial on purpose
			delete(got, "approved")
			delete(got, "state")
			delete(got, "reason")
		}
	case "heartbeat":
		h, err := ReadHeartbeat([]byte(s.text))
		if err != nil {
			return false, nil
		}
		got = map[string]any{"session": h.SessionID, "pid": float64(h.PID), "updatedAt": float64(h.UpdatedAt)}
	}
	return true, got
}

// What this reader accepts, a JavaScript reader accepts as well and reads as the
// same text; in particular nothing is a yes here and a no there.
func TestReadsWhatJavaScriptReads(t *testing.T) {
	samples := corpus(t)
	accepted := map[string]int{}
	for i, line := range verdicts(t, samples) {
		s := samples[i]
		ok, got := view(s)
		if !ok {
			continue
		}
		accepted[s.kind]++
		var js map[string]any
		if err := json.Unmarshal([]byte(line), &js); err != nil {
			t.Fatal(err)
		}
		if js["ok"] != true {
			t.Errorf("accepted here and refused there:\n%s %q", s.kind, s.text)
			continue
		}
		for name, mine := range got {
			a, _ := json.Marshal(mine)
			b, _ := json.Marshal(js[name])
			if !bytes.Equal(a, b) {
				t.Errorf("%s is %s here and %s there:\n%s %q", name, a, b, s.kind, s.text)
			}
		}
	}
	for _, kind := range []string{"request", "response", "heartbeat"} {
		if accepted[kind] < 5 {
			t.Errorf("only %d %ss accepted: nothing was compared", accepted[kind], kind)
		}
	}
}

// What this writer writes, a JavaScript reader of any version reads whole.
func TestJavaScriptReadsWhatIsWritten(t *testing.T) {
	r, err := ReadRequest([]byte(goodRequest))
	if err != nil {
		t.Fatal(err)
	}
	v := "echo '<&>\u2028\u2029 é😀\"\\' \x01\b\f\x7f"
	r.Value, r.Message = &v, v
	written, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	answer := Response{Approved: true, State: Approved, ResponderSessionID: v, RespondedAt: 1796040473680, DecidedBy: Forwarded("a", ByRule("bash", v, ""))}
	answered, err := answer.Encode()
	if err != nil {
		t.Fatal(err)
	}
	beat, err := Heartbeat{SessionID: v, PID: 1, UpdatedAt: 1796040473680, Boot: "b", PIDNS: 1 << 63, Lock: true}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Log("no node: read back by this reader only")
	}
	for _, s := range []sample{{"request", string(written)}, {"response", string(answered)}, {"heartbeat", string(beat)}} {
		ok, mine := view(s)
		if !ok {
			t.Errorf("%s is not read back: %s", s.kind, s.text)
			continue
		}
		if node == "" {
			continue
		}
		var js map[string]any
		if err := json.Unmarshal([]byte(askNode(t, node, []sample{s})[0]), &js); err != nil {
			t.Fatal(err)
		}
		delete(js, "ok")
		a, _ := json.Marshal(mine)
		b, _ := json.Marshal(js)
		if !bytes.Equal(a, b) {
			t.Errorf("%s\nhere  %s\nthere %s", s.text, a, b)
		}
	}
}
