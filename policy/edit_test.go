package policy

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAddRuleKeepsTheRest(t *testing.T) {
	for _, c := range []struct{ name, before, surface, pattern, after, line string }{
		{"a new file", "", "bash", "git *", "{\n  \"permission\": {\"bash\": {\"git *\": \"allow\"}}\n}\n", `"permission": {"bash": {"git *": "allow"}}`},
		{
			"behind the last rule, with comments",
			"// mine\n{\n  \"permission\": {\n    // shells\n    \"bash\": {\n      \"*\": \"ask\", // by default\n      \"ls *\": \"allow\" // look\n    }, // end\n    \"edit\": \"ask\"\n  }\n}\n", "bash", "git *",
			"// mine\n{\n  \"permission\": {\n    // shells\n    \"bash\": {\n      \"*\": \"ask\", // by default\n      \"ls *\": \"allow\", // look\n      \"git *\": \"allow\"\n    }, // end\n    \"edit\": \"ask\"\n  }\n}\n",
			`"git *": "allow"`,
		},
		{
			"with a trailing comma",
			"{\n  \"permission\": {\n    \"bash\": {\n      \"ls *\": \"allow\", // look\n      // and more\n    },\n  },\n}", "bash", "git *",
			"{\n  \"permission\": {\n    \"bash\": {\n      \"ls *\": \"allow\", // look\n      \"git *\": \"allow\",\n      // and more\n    },\n  },\n}",
			`"git *": "allow",`,
		},
		{
			"on one line", `{"permission": {"bash": {"ls *": "allow"}}}`, "bash", "git *",
			`{"permission": {"bash": {"ls *": "allow", "git *": "allow"}}}`, `{"permission": {"bash": {"ls *": "allow", "git *": "allow"}}}`,
		},
		{
			"a surface that had one word", "{\n\t\"permission\": {\n\t\t\"bash\": \"ask\", // all\n\t}\n}", "bash", "git *",
			"{\n\t\"permission\": {\n\t\t\"bash\": {\"*\": \"ask\", \"git *\": \"allow\"}, // all\n\t}\n}", `"bash": {"*": "ask", "git *": "allow"}, // all`,
		},
		{
			"a new surface", "{\n  \"permission\": {\n    \"bash\": \"ask\"\n  }\n}", "path_write", "/w/*",
			"{\n  \"permission\": {\n    \"bash\": \"ask\",\n    \"path_write\": {\"/w/*\": \"allow\"}\n  }\n}", `"path_write": {"/w/*": "allow"}`,
		},
		{
			"a rule that is there", "{\"permission\": {\"bash\": {\"git *\": /* never */ \"deny\", \"x\": \"ask\"}}}", "bash", "git *",
			"{\"permission\": {\"bash\": {\"git *\": /* never */ \"allow\", \"x\": \"ask\"}}}", "",
		},
		{"no permission yet", "{\n  // nothing\n}", "bash", "x", "{\n  // nothing\n  \"permission\": {\"bash\": {\"x\": \"allow\"}}\n}", `"permission": {"bash": {"x": "allow"}}`},
		{"an empty block", "{\n  \"permission\": {\n  }\n}", "bash", "x", "{\n  \"permission\": {\n    \"bash\": {\"x\": \"allow\"}\n  }\n}", `"bash": {"x": "allow"}`},
		{"text that needs quoting", `{"permission": {"bash": {}}}`, "bash", "echo \"a\\b\"\n", `{"permission": {"bash": {"echo \"a\\b\"\n": "allow"}}}`, ""},
	} {
		got, err := AddRule("p", []byte(c.before), c.surface, c.pattern, Allow)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if string(got.Text) != c.after {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got.Text, c.after)
		}
		if c.line != "" && got.Line != c.line {
			t.Errorf("%s: shown %q, want %q", c.name, got.Line, c.line)
		}
		if got.Number < 1 || got.Line == "" || !strings.Contains(string(got.Text), got.Line) {
			t.Errorf("%s: line %d %q", c.name, got.Number, got.Line)
		}
	}
}

func TestAddRuleRefuses(t *testing.T) {
	for name, c := range map[string][3]string{
		"a broken file":            {`{"permission": {"bash": "alow"}}`, "bash", "x"},
		"no surface":               {`{}`, "", "x"},
		"every surface":            {`{}`, "*", "x"},
		"a surface pattern":        {`{}`, "web*", "x"},
		"a surface that is none":   {`{}`, "external_directory", "x"},
		"no pattern":               {`{}`, "bash", ""},
		"a rule that cannot count": {`{"permission": {"path": {"/x": "deny"}}}`, "path_write", "/x"},
	} {
		if got, err := AddRule("p", []byte(c[0]), c[1], c[2], Allow); err == nil {
			t.Errorf("%s: %s", name, got.Text)
		}
	}
	if _, err := AddRule("p", []byte(`{}`), "bash", "x", Action(9)); err == nil {
		t.Error("an action that is none was written")
	}
}

// Adding a rule for something that no command of a list is about changes none of
// their verdicts, however often it is done.
func TestEditsChangeNoOtherVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("{\n  \"permission\": {\n")
		for _, surface := range []string{"bash", "grep"} {
			fmt.Fprintf(&b, "    %q: {", surface)
			seen := map[string]bool{}
			for _, r := range drawRules(t, []string{surface}) {
				if seen[r.Pattern] {
					continue
				}
				seen[r.Pattern] = true
				lit := strings.ReplaceAll(strings.ReplaceAll(r.Pattern, `\`, `\\`), "\n", `\n`)
				fmt.Fprintf(&b, "%s\"%s\": %q,", rapid.SampledFrom([]string{"", "\n      ", " /* c */ ", " // d\n      "}).Draw(t, "space"), lit, r.Action)
			}
			b.WriteString("},\n")
		}
		b.WriteString("  }\n}\n")
		before, err := ParsePolicy("p", []byte(b.String()))
		if err != nil {
			t.Fatalf("%s\n%v", b.String(), err)
		}
		text := []byte(b.String())
		for i := range 3 {
			e, err := AddRule("p", text, rapid.SampledFrom([]string{"bash", "read", "grep"}).Draw(t, "surface"), fmt.Sprintf("zzz%d *", i), Allow)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Count(e.Text, []byte("/* c */")) != bytes.Count(text, []byte("/* c */")) || bytes.Count(e.Text, []byte("// d")) != bytes.Count(text, []byte("// d")) {
				t.Fatalf("a comment got lost:\n%s", e.Text)
			}
			text = e.Text
		}
		after, err := ParsePolicy("p", text)
		if err != nil {
			t.Fatal(err)
		}
		snap := restricted(Supervised)
		a, z := NewAuthority("s", snap, before), NewAuthority("s", snap, after)
		for range 20 {
			q := NewQuery(rapid.SampledFrom([]string{"bash", "grep"}).Draw(t, "asked"), valueText.Draw(t, "value"))
			if x, y := a.Decide(q), z.Decide(q); x.Action != y.Action || x.Rule.Pattern != y.Rule.Pattern {
				t.Fatalf("%v: %+v became %+v", q.Values, x, y)
			}
		}
	})
}

func FuzzAddRule(f *testing.F) {
	f.Add(`{"permission": {"bash": {"x": "deny", /* c */ }, "edit": "ask"} // e`+"\n}", "bash", "git *")
	f.Add("{\n}", "grep", "a\n")
	f.Fuzz(func(t *testing.T, text, surface, pattern string) {
		e, err := AddRule("p", []byte(text), surface, pattern, Allow)
		if err != nil {
			return
		}
		p, err := ParsePolicy("p", e.Text)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Rules {
			if r.Pattern == pattern && r.Action == Allow {
				return
			}
		}
		t.Fatalf("the rule is not there:\n%s", e.Text)
	})
}
