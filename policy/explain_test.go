package policy

import (
	"testing"

	"pgregory.net/rapid"
)

func TestExplainNamesWinnerAndLosers(t *testing.T) {
	guards, err := ParseGuards("g", []byte(`{"permission": {"bash": {"*evil*": "deny"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	limit, err := ParseCap("cap", []byte(`{"profile": {"policy": {"kinds": {"shell_command": "ask"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	policy := mustPolicy(t, `{"permission": {"bash": {"*": "deny", "git *": "ask", "git push *": "allow", "git push?*": "deny", "git pus* *": "allow"}, "b*": "deny"}}`)
	child := Compose(Layers{Session: "child", Snapshot: restricted(Supervised), Policy: policy, Guards: guards, Caps: []*Cap{limit}})
	root := Compose(Layers{Session: "root", Snapshot: restricted(Supervised), Policy: policy, Guards: guards})
	e := Explain([]*Authority{child, root}, bashQuery("git push origin"))
	if e.Decision.Action != Ask || e.Decision.Rule.Origin.Authority != "cap" || e.Decision.Rule.Origin.Session != "child" {
		t.Errorf("%+v", e.Decision)
	}
	own := e.Sessions[0]
	if len(own.Layers) != 2 || own.Layers[0].Layer != "policy" || own.Layers[0].Verdict != Allow || own.Layers[1].Layer != "cap" || !own.Layers[1].Decided || own.Layers[0].Decided {
		t.Errorf("%+v", own.Layers)
	}
	var got []string
	for _, m := range own.Layers[0].Rules {
		got = append(got, m.Rule.Pattern+": "+m.Lost)
	}
	want := []string{"git push *: ", "git push?*: less specific", "git pus* *: less specific", "git *: less specific", "*: less specific", "*: the other rule names the surface"}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %q, want %q", i, got[i], want[i])
		}
	}
	if evil := Explain([]*Authority{child}, bashQuery("evil")); evil.Decision.Rule.Origin.Authority != "hard-guard" || !evil.Sessions[0].Layers[0].Decided {
		t.Errorf("%+v", evil)
	}
}

func TestExplainAgreesWithDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthority(t, "s", drawFile(t, "policy"), &Guards{set: newRuleset(drawRules(t, someSurfaces))})
		q := drawQuery(t)
		e := Explain([]*Authority{a}, q)
		decided := 0
		for _, l := range e.Sessions[0].Layers {
			if l.Decided {
				decided++
			}
			if len(l.Rules) > 0 && q.Surface != "path" && l.Layer == "policy" && l.Rules[0].Rule.Action != l.Verdict {
				t.Fatalf("the first of the matching rules says %s, the layer %s: %+v", l.Rules[0].Rule.Action, l.Verdict, l)
			}
		}
		if decided != 1 {
			t.Fatalf("%d layers decided: %+v", decided, e.Sessions[0])
		}
	})
}
