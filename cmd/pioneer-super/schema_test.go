package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"github.com/getpioneer/pioneer-super/policy"
)

// readers are what the schemas speak for.
var readers = map[string]func([]byte) error{
	"policy":      func(b []byte) error { _, err := policy.ParsePolicy("f", b); return err },
	"hard-guards": func(b []byte) error { _, err := policy.ParseGuards("f", b); return err },
	"cap":         func(b []byte) error { _, err := policy.ParseCap("f", b); return err },
	"config":      func(b []byte) error { _, err := policy.ParseSettings("f", b); return err },
}

// printedSchema compiles what config schema prints. The compiler holds it to the
// schema of schemas first.
func printedSchema(t *testing.T, which string) func([]byte) error {
	t.Helper()
	got := runHere("", "config", "schema", which)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(got.out))
	if err != nil || got.code != 0 {
		t.Fatalf("%v %+v", err, got)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(which+".json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(which + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) error {
		plain, err := hujson.Standardize(bytes.Clone(text))
		if err != nil {
			return err
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
		if err != nil {
			return err
		}
		return s.Validate(v)
	}
}

var goodFiles = map[string][]string{
	"policy": {
		string(starterPolicy), samplePolicy, `{}`, `{"$schema": "./policy.schema.json", "permission": {}}`,
		`{"permission": {"*": "ask", "mcp": "deny", "WebSearch": "allow", "mcp_gh_*": "ask", "bash": {}}}`,
		`{"permission": {"bash": {"rm *": {"reason": "no", "action": "deny"}, "x": {"action": "deny"}, "` + strings.Repeat("é", 2048) + `": "ask"}}}`,
		"{\"permission\": {\"a\u00a0b\": \"ask\", \"x`y\": \"deny\"}}",
	},
	"hard-guards": {
		`{"permission": {"bash": {"rm *": "deny", "rm -i *": "allow", "x *": {"action": "deny", "reason": "y"}}, "skill": "deny"}, "protectedWrites": ["*/.git/config"]}`,
		`{}`, `{"protectedWrites": []}`,
	},
	"cap": {
		`{}`, `{"profile": {"mode": "supervised", "policy": {"kinds": {"shell_command": "deny"}, "allow_tools": ["Read*"], "deny_tools": ["x"], "allow_paths": [["/a"], ["b"]], "deny_paths": []}}}`,
		`{"sandbox": {"mode": "read_only", "tmp": "isolated"}, "open": {"read_all": true, "write_all": false, "read": ["/a", {"path": "/b", "access": "read"}, "/"], "write": []},
		  "ceiling": {"network": "restricted", "hosts": ["*.Example.org:443", "[::1]:80"], "denied_hosts": ["x"], "capabilities": ["ssh", "env:HOME", "git-credential:github.com", "*"], "sandbox_off": false},
		  "process": {"shell_enabled": true, "filter_environment": true, "max_duration": "1h30m", "max_wall": "8h", "max_idle": "90s", "max_processes": 200, "denied_commands": ["curl"], "allowed_families": []},
		  "approval": {"allow_once": true, "allow_for_turn": false}, "backend": {"requirement": "required"}}`,
		`{"ceiling": {"write": [{"path": "/a/", "access": "write"}]}}`,
	},
	"config": {
		`{}`, `{"roots": ["/srv/cache", {"path": "/opt/x/", "access": "write"}], "hosts": ["go.dev"], "capabilities": ["ssh", "env:*"], "maxDuration": "1.5h", "allowAlways": true, "yolo": false}`,
		`{"maxDuration": "+.5s"}`, `{"limits": {"max_wall": "8h", "max_idle": "30m", "max_processes": 1}}`, `{"trustedProjects": ["/srv/one", "/srv/two/"]}`,
		`{"observers": [{"name": "o", "command": ["/usr/bin/logger", "-t", "x"], "timeout": "2s"}]}`, `{"observers": []}`,
	},
}

var badFiles = map[string][]string{
	"policy": {
		`[]`, `3`, `{"permissions": {}}`, `{"permission": []}`, `{"permission": "allow"}`, `{"permission": {"bash": "yes"}}`, `{"permission": {"bash": "Allow"}}`,
		`{"permission": {"bash": 3}}`, `{"permission": {"bash": ["git *"]}}`, `{"permission": {"bash": {"git *": true}}}`, `{"permission": {"bash": {"": "deny"}}}`,
		`{"permission": {"*": {"x": "ask"}}}`, `{"permission": {"": "ask"}}`, `{"permission": {"a b": "ask"}}`, `{"permission": {"Bash": "ask"}}`, `{"permission": {"path-read": "ask"}}`,
		`{"permission": {"external_directory": "ask"}}`, `{"permission": {"bash": {"x": {"action": "allow", "reason": "y"}}}}`, `{"permission": {"bash": {"x": {"reason": "y"}}}}`,
		`{"permission": {"bash": {"x": {"action": "deny", "why": "y"}}}}`, `{"permission": {"bash": {"x": {"action": "deny", "reason": 3}}}}`,
		`{"permission": {"bash": {"x": {"action": "deny", "reason": "` + strings.Repeat("y", 501) + `"}}}}`, `{"$schema": 3}`,
		`{"permission": {"bash": {"` + strings.Repeat("x", 4097) + `": "deny"}}}`, `{"permission": {"` + strings.Repeat("x", 257) + `": "deny"}}`,
	},
	"hard-guards": {
		`{"permission": {"*": "deny"}}`, `{"permission": {"bash": "ask"}}`, `{"permission": {"bash": {"x": "ask"}}}`, `{"protectedWrites": "x"}`, `{"protectedWrites": [""]}`, `{"protectedWrites": [{}]}`, `{"guards": {}}`,
	},
	"cap": {
		`{"mode": "supervised"}`, `{"profile": {"mode": "yolo"}}`, `{"profile": {"policy": {"kinds": {"bash": "deny"}}}}`, `{"profile": {"policy": {"kinds": {"shell_command": "no"}}}}`,
		`{"profile": {"policy": {"allow_tools": "x"}}}`, `{"profile": {"policy": {"deny_tools": [[]]}}}`, `{"sandbox": {"tmp": "none"}}`, `{"open": {"read": ["a"]}}`, `{"open": {"read": [{"access": "read"}]}}`,
		`{"open": {"read": [{"path": "/a", "access": "write"}]}}`, `{"open": {"write": [{"path": "/a", "access": "read"}]}}`, `{"open": {"hosts": ["https://x.org"]}}`, `{"open": {"network": "off"}}`,
		`{"open": {"capabilities": ["off"]}}`, `{"open": {"capabilities": ["root"]}}`, `{"open": {"read_all": "yes"}}`, `{"process": {"max_duration": "0s"}}`, `{"process": {"max_duration": 60}}`, `{"process": {"max_idle": "-1s"}}`, `{"process": {"max_processes": "5"}}`, `{"process": {"max_processes": 1.5}}`,
		`{"process": {"max_duration": "1d"}}`, `{"process": {"denied_commands": ["/bin/rm"]}}`, `{"process": {"denied_commands": ["rm *"]}}`, `{"approval": true}`, `{"backend": {"requirement": "yes"}}`, `{"open": {"roots": []}}`,
	},
	"config": {
		`{"roots": ["rel"]}`, `{"roots": ["/"]}`, `{"roots": [{"path": "/a", "provenance": "x"}]}`, `{"roots": [{"access": "read"}]}`, `{"roots": [{"path": "/a", "access": "all"}]}`, `{"roots": "/a"}`,
		`{"hosts": ["http://x"]}`, `{"observers": ["name"]}`, `{"observers": [{"name": "o"}]}`, `{"observers": [{"name": "o", "command": ["/x"], "limit": "deny"}]}`, `{"trustedProjects": ["rel"]}`, `{"trustedProjects": ["/"]}`, `{"trustedProjects": "/a"}`, `{"trustedProjects": [{"path": "/a"}]}`, `{"capabilities": ["*"]}`, `{"capabilities": ["off"]}`, `{"capabilities": ["env:"]}`, `{"maxDuration": "soon"}`, `{"limits": {"max_wall": 8}}`, `{"limits": {"max_processes": 0}}`, `{"limits": {"maxWall": "8h"}}`, `{"maxDuration": "-1s"}`, `{"yolo": "yes"}`, `{"allowAlways": 1}`, `{"Roots": []}`,
	},
}

// What only the reader finds: it looks at more than one value at a time, or at
// what a pattern of text cannot say.
var onlyReader = map[string][]string{
	"policy": {
		`{"permission": {"bash": {"x": "ask", "x": "deny"}}}`, `{"permission": {"paths": "ask"}}`, `{"permission": {"**": "ask"}}`,
	},
	"cap": {
		`{"open": {"read_all": false}}`, `{"open": {"network": "enabled", "hosts": ["x"]}}`, `{"open": {"read": ["/a/../b"]}}`, `{"open": {"hosts": ["a..b"]}}`,
	},
	"config": {`{"roots": ["/a/.."]}`},
}

// A schema and its reader say the same of the same file.
func TestSchemasAgreeWithTheReaders(t *testing.T) {
	for which, read := range readers {
		valid := printedSchema(t, which)
		for _, text := range goodFiles[which] {
			if err := read([]byte(text)); err != nil {
				t.Errorf("%s: the reader refuses a good file: %v\n%.300s", which, err, text)
			}
			if err := valid([]byte(text)); err != nil {
				t.Errorf("%s: the schema refuses a good file: %v\n%.300s", which, err, text)
			}
		}
		for _, text := range badFiles[which] {
			if read([]byte(text)) == nil {
				t.Errorf("%s: the reader takes a bad file: %.300s", which, text)
			}
			if valid([]byte(text)) == nil {
				t.Errorf("%s: the schema takes a bad file: %.300s", which, text)
			}
		}
		for _, text := range onlyReader[which] {
			if read([]byte(text)) == nil {
				t.Errorf("%s: the reader takes a bad file: %.300s", which, text)
			}
			if !strings.Contains(text, `"x": "ask", "x"`) && valid([]byte(text)) != nil {
				t.Errorf("%s: the schema finds it after all, it belongs to the bad files: %.300s", which, text)
			}
		}
	}
}

// An editor never marks what the reader takes. Files are made of the parts of all
// good and bad ones, put in each other's places.
func TestASchemaIsNeverStricterThanItsReader(t *testing.T) {
	for which, read := range readers {
		valid := printedSchema(t, which)
		var docs, parts []any
		for _, text := range append(append([]string{}, goodFiles[which]...), badFiles[which]...) {
			if len(text) > 3000 && which != "policy" || strings.Contains(text, "xxxx") {
				continue
			}
			plain, err := hujson.Standardize([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(plain, &v); err != nil {
				t.Fatal(err)
			}
			docs = append(docs, v)
			parts = append(parts, partsOf(v)...)
		}
		parts = append(parts, "", "/", "ask", nil, 1.5, []any{}, map[string]any{})
		taken := 0
		rapid.Check(t, func(t *rapid.T) {
			v := rapid.SampledFrom(docs).Draw(t, "document")
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				v = changed(t, v, parts, 0)
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if read(text) != nil {
				return
			}
			taken++
			if err := valid(text); err != nil {
				t.Fatalf("%s: the reader takes it, the schema does not: %v\n%s", which, err, text)
			}
		})
		if taken == 0 {
			t.Errorf("%s: no file was good", which)
		}
	}
}

// partsOf are all values inside of v.
func partsOf(v any) []any {
	var out []any
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(append(out, v[name]), partsOf(v[name])...)
		}
	case []any:
		for _, e := range v {
			out = append(append(out, e), partsOf(e)...)
		}
	}
	return out
}

// changed returns a copy of v with one value in it replaced.
func changed(t *rapid.T, v any, parts []any, depth int) any {
	if depth > 0 && (depth > 6 || rapid.IntRange(0, 3).Draw(t, "here") == 0) {
		return rapid.SampledFrom(parts).Draw(t, "part")
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		if len(v) > 0 {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "name")
			out[name] = changed(t, v[name], parts, depth+1)
		}
		return out
	case []any:
		out := append([]any{}, v...)
		if len(out) > 0 {
			i := rapid.IntRange(0, len(out)-1).Draw(t, "index")
			out[i] = changed(t, out[i], parts, depth+1)
		}
		return out
	}
	return rapid.SampledFrom(parts).Draw(t, "part")
}

// The names of capabilities stand in the schema a second time.
func TestTheSchemaKnowsTheCapabilities(t *testing.T) {
	valid := printedSchema(t, "config")
	for _, name := range []string{"ssh", "gpg", "docker", "display", "nest", "env:X", "git-credential:x"} {
		if _, err := policy.CapabilityText(name); err != nil {
			t.Error(err)
		}
		if err := valid(fmt.Appendf(nil, `{"capabilities": [%q]}`, name)); err != nil {
			t.Error(err)
		}
	}
	_, err := policy.CapabilityText("?")
	if want := "ssh, git-credential:HOST, gpg, env:NAME, docker, display, nest or off"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s: a new one belongs into the schema", err, want)
	}
}
