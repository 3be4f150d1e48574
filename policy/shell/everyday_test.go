package shell

import (
	"testing"

	"github.com/getpioneer/pioneer-super/policy"
)

type everydayCase struct {
	Command string            `json:"command"`
	Policy  map[string]string `json:"policy"`
	// Want is what the rule says; empty means allow.
	Want string `json:"want"`
	// Alarm is the reason why a rule for everything is not enough.
	Alarm string `json:"alarm"`
}

// TestEverydayCommands counts false alarms: what developers run all day does not
// become stricter than its rule says.
func TestEverydayCommands(t *testing.T) {
	cases := readLines[everydayCase](t, "testdata/everyday.jsonl")
	if len(cases) < 200 {
		t.Errorf("%d commands, fewer than 200", len(cases))
	}
	alarms := 0
	for _, c := range cases {
		want := policy.Allow
		if c.Want != "" {
			want, _ = policy.ParseAction(c.Want)
		}
		for name, spec := range map[string]map[string]string{"its rule": c.Policy, "everything allowed": {"*": "allow"}} {
			if spec == nil {
				continue
			}
			a := Analyze(c.Command, everydayOptions())
			v := a.Judge(newRules(spec).decide)
			switch {
			case v.Action == want:
			case v.Action < want && c.Alarm != "" && name != "its rule":
				alarms++
			default:
				t.Errorf("%q under %s is %s, want %s (alarm %q)\n%s", c.Command, name, v.Action, want, c.Alarm, a.Explain(v))
			}
		}
	}
	t.Logf("%d commands, %d false alarms", len(cases), alarms)
}

// TestKnownAlarms are everyday commands that become stricter than their rule on
// purpose: each is listed with what the rule's author did not see.
func TestKnownAlarms(t *testing.T) {
	for _, c := range readLines[everydayCase](t, "testdata/alarms.jsonl") {
		a := Analyze(c.Command, everydayOptions())
		v := a.Judge(newRules(c.Policy).decide)
		if v.Action != policy.Ask || c.Alarm == "" || v.Reason == "" {
			t.Errorf("%q is %s: %s\n%s", c.Command, v.Action, v.Reason, a.Explain(v))
		}
	}
}

func everydayOptions() Options {
	return Options{Dir: "/src/project", Home: "/home/u", Workspace: "/src/project", Resolver: &diskResolver{files: map[string]bool{"/src/project": true}}}
}
