package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
)

// valid checks a value against the part of JSON Schema that our schemas use; an
// unknown keyword fails the test, so that none goes unchecked.
func valid(t *testing.T, s any, v any) bool {
	t.Helper()
	switch s := s.(type) {
	case bool:
		return s
	case map[string]any:
		for keyword, arg := range s {
			ok := true
			switch keyword {
			case "$schema", "$id", "title", "description", "additionalProperties":
			case "type":
				switch arg {
				case "object":
					_, ok = v.(map[string]any)
				case "array":
					_, ok = v.([]any)
				case "string":
					_, ok = v.(string)
				case "boolean":
					_, ok = v.(bool)
				default:
					t.Fatalf("type %v", arg)
				}
			case "enum":
				ok = slices.ContainsFunc(arg.([]any), func(e any) bool { return reflect.DeepEqual(e, v) })
			case "const":
				ok = reflect.DeepEqual(arg, v)
			case "minLength":
				text, is := v.(string)
				ok = !is || len([]rune(text)) >= int(arg.(float64))
			case "maxLength":
				text, is := v.(string)
				ok = !is || len([]rune(text)) <= int(arg.(float64))
			case "pattern":
				text, is := v.(string)
				ok = !is || regexp.MustCompile(arg.(string)).MatchString(text)
			case "required":
				obj, is := v.(map[string]any)
				for _, name := range arg.([]any) {
					_, there := obj[name.(string)]
					ok = ok && (!is || there)
				}
			case "items":
				list, _ := v.([]any)
				for _, e := range list {
					ok = ok && valid(t, arg, e)
				}
			case "properties":
				obj, _ := v.(map[string]any)
				for name, sub := range arg.(map[string]any) {
					if e, there := obj[name]; there {
						ok = ok && valid(t, sub, e)
					}
				}
			case "propertyNames":
				obj, _ := v.(map[string]any)
				for name := range obj {
					ok = ok && valid(t, arg, name)
				}
			case "anyOf", "oneOf":
				n := 0
				for _, sub := range arg.([]any) {
					if valid(t, sub, v) {
						n++
					}
				}
				ok = n > 0 && (keyword == "anyOf" || n == 1)
			default:
				t.Fatalf("keyword %q is not checked", keyword)
			}
			if !ok {
				return false
			}
		}
		if rest, there := s["additionalProperties"]; there {
			obj, _ := v.(map[string]any)
			props, _ := s["properties"].(map[string]any)
			for name, e := range obj {
				if _, known := props[name]; !known && !valid(t, rest, e) {
					return false
				}
			}
		}
		return true
	}
	t.Fatalf("a schema of type %T", s)
	return false
}

func TestSchemasSayWhatTheReadersSay(t *testing.T) {
	readers := map[string]func([]byte) error{
		"policy":       func(b []byte) error { _, err := ParsePolicy("f", b); return err },
		"hard-guards":  func(b []byte) error { _, err := ParseGuards("f", b); return err },
		"cap":          func(b []byte) error { _, err := ParseCap("f", b); return err },
		"expectations": func(b []byte) error { _, err := ParseExpectations("f", b); return err },
	}
	files := map[string][]string{
		"policy": {
			`{}`, `{"$schema": "x", "permission": {"*": "ask", "bash": {"git *": "allow", "x": {"action": "deny", "reason": "y"}}, "tool": "deny"}}`, string(Starter()),
			`{"permission": {"bash": "alow"}}`, `{"permission": {"bash": {"x": {"action": "allow", "reason": "y"}}}}`, `{"permission": {"*": {"x": "deny"}}}`,
			`{"permissions": {}}`, `{"permission": []}`, `{"permission": {"": "deny"}}`, `{"permission": {"bash": {"": "deny"}}}`, `{"permission": {"a b": "deny"}}`,
			`{"permission": {"bash": {"x": {"reason": "y"}}}}`, `{"permission": {"bash": 3}}`, `[]`,
		},
		"hard-guards": {`{"permission": {"bash": {"rm *": "deny", "rm -i *": "allow"}}, "protectedWrites": ["*/x"]}`, `{"permission": {"bash": "ask"}}`, `{"permission": {"*": "deny"}}`, `{"protectedWrites": "x"}`, `{"protectedWrites": [""]}`, `{"protected": []}`},
		"cap": {
			`{}`, `{"profile": {"mode": "supervised", "policy": {"kinds": {"network": "deny"}, "allow_tools": ["a"], "allow_paths": [["a"], ["b"]]}}, "open": {"read": ["/w", {"path": "/x", "provenance": "system"}], "network": "disabled", "sandbox_off": false}, "process": {"max_duration": "10m"}, "approval": {"allow_once": true}, "backend": {"requirement": "required"}}`,
			`{"profile": {"mode": "x"}}`, `{"profile": {"policy": {"kinds": {"shell": "deny"}}}}`, `{"open": {"read": ["w"]}}`, `{"process": {"max_duration": "10"}}`, `{"mode": "supervised"}`, `{"open": {"network": "off"}}`, `{"process": {"shell_enabled": 1}}`, `{"generation": 1}`,
		},
		"expectations": {`{"mode": "supervised", "expect": [{"surface": "bash", "value": "x", "verdict": "deny", "rule": "x"}, {"tool": "Read", "path": "x", "verdict": "ask"}]}`, `{"expect": [{"surface": "bash", "value": "x"}]}`, `{}`, `{"expect": [{"tool": "x", "verdict": "maybe"}]}`, `{"expect": [{"tool": "x", "verdict": "ask", "what": 1}]}`},
	}
	if !slices.Equal(SchemaNames(), []string{"policy", "hard-guards", "cap", "expectations"}) {
		t.Fatal("a schema is not tested")
	}
	for _, name := range SchemaNames() {
		text, err := Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		accepted, refused := 0, 0
		for _, file := range files[name] {
			plain, err := hujson.Standardize([]byte(file))
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(plain, &v); err != nil {
				t.Fatal(err)
			}
			read := readers[name]([]byte(file))
			if ok := valid(t, schema, v); ok != (read == nil) {
				t.Errorf("%s: the schema says %v, the reader %v\n%s", name, ok, read, file)
			}
			if read == nil {
				accepted++
			} else {
				refused++
			}
		}
		if accepted == 0 || refused == 0 {
			t.Errorf("%s: %d files accepted, %d refused", name, accepted, refused)
		}
		if again, _ := Schema(name); string(again) != string(text) {
			t.Errorf("%s: two different schemas", name)
		}
	}
	if _, err := Schema("other"); err == nil || !strings.Contains(err.Error(), "hard-guards") {
		t.Errorf("%v", err)
	}
}

func TestEveryDescriptionDescribesSomething(t *testing.T) {
	all := ""
	for _, name := range SchemaNames() {
		text, _ := Schema(name)
		all += string(text)
	}
	for field, text := range described {
		quoted, _ := json.Marshal(text)
		if !strings.Contains(all, fmt.Sprintf(`"description": %s`, quoted)) {
			t.Errorf("%s is in no schema", field)
		}
	}
}

func TestTheStarterIsAPolicyWithoutFindings(t *testing.T) {
	f, err := ParsePolicy("policy.jsonc", Starter())
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range Lint(f, nil) {
		t.Error(found)
	}
	a := NewAuthority("s", restricted(Supervised), f)
	for command, want := range map[string]Action{"git status": Allow, "git push": Ask, "git push origin --force": Deny, "sudo ls": Deny, "make": Ask} {
		if d := a.Decide(bashQuery(command)); d.Action != want {
			t.Errorf("%s: %s", command, d.Action)
		}
	}
}
