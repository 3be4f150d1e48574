package main

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/getpioneer/pioneer-super/policy"
)

// schemaVersion is the dialect of JSON Schema that the schemas are written in.
const schemaVersion = "https://json-schema.org/draft/2020-12/schema"

// schema is a JSON Schema. Maps are printed with sorted names, so that the same
// binary always prints the same text.
type schema map[string]any

// schemas are the files of the configuration that have one.
var schemas = []struct {
	name string
	make func() schema
}{
	{"policy", policySchema},
	{"hard-guards", guardsSchema},
	{"cap", func() schema {
		return fileSchema("cap", "a partial snapshot that a session cannot exceed", reflect.TypeFor[policy.Cap]())
	}},
	{"config", func() schema {
		return fileSchema("config", "settings beside the rules", reflect.TypeFor[policy.Settings]())
	}},
}

func schemaNames() []string {
	var out []string
	for _, s := range schemas {
		out = append(out, s.name)
	}
	return out
}

func object(title, description string, properties schema) schema {
	properties["$schema"] = schema{"type": "string"}
	return schema{
		"$schema": schemaVersion, "title": "pioneer-super " + title, "description": description,
		"type": "object", "properties": properties, "additionalProperties": false,
	}
}

func words[S ~string](all ...S) schema {
	names := make([]any, len(all))
	for i, w := range all {
		names[i] = string(w)
	}
	return schema{"enum": names}
}

func actionWords(actions ...policy.Action) schema {
	var names []string
	for _, a := range actions {
		names = append(names, a.String())
	}
	return words(names...)
}

// surfaceText says what the values of a surface are, for editors.
var surfaceText = map[string]string{
	"bash":       "shell commands: each command of a line is judged by itself, without assignments and redirections",
	"mcp":        "tools of servers, as SERVER:TOOL",
	"skill":      "skills by name",
	"network":    "hosts, with or without :PORT",
	"task":       "agents that are started, by name",
	"path":       "paths in both directions, whoever uses them: path_read and path_write",
	"path_read":  "paths that are read, whoever reads them",
	"path_write": "paths that are written, whoever writes them",
	"read":       "the tool that reads files, by path",
	"write":      "the tool that writes files, by path",
	"edit":       "the tool that edits files, by path",
	"find":       "the tool that finds files, by path",
	"grep":       "the tool that searches files, by path",
	"ls":         "the tool that lists folders, by path",
}

// permissionSchema is the block of rules: surfaces of actions, or of patterns.
func permissionSchema(universal bool, actions ...policy.Action) schema {
	surface := func(description string) schema {
		s := schema{"anyOf": []any{
			actionWords(actions...),
			schema{"type": "object", "propertyNames": schema{"minLength": 1, "maxLength": 4096}, "additionalProperties": schema{"$ref": "#/$defs/rule"}},
		}}
		if description != "" {
			s["description"] = description
		}
		return s
	}
	properties := schema{}
	for _, name := range policy.Surfaces() {
		properties[name] = surface(surfaceText[name])
	}
	if universal {
		star := actionWords(actions...)
		star["description"] = "what no rule names, where no mode was chosen"
		properties["*"] = star
	} else {
		properties["*"] = false
	}
	return schema{
		"type": "object", "properties": properties, "additionalProperties": surface("a tool by its name"),
		"propertyNames": schema{
			"minLength": 1, "maxLength": 256, "pattern": `^[^\x00-\x20\x7f]+$`,
			"anyOf": []any{words(policy.Surfaces()...), schema{"not": schema{"pattern": misspelt()}}},
		},
	}
}

// misspelt matches names that are no surface and seem to be: a known one in other
// letters, and the name that other tools have for paths outside.
func misspelt() string {
	var all []string
	for _, name := range policy.Surfaces() {
		var b strings.Builder
		for _, c := range name {
			if c == '_' {
				b.WriteString("[-_]")
			} else {
				fmt.Fprintf(&b, "[%c%c]", c, unicode.ToUpper(c))
			}
		}
		all = append(all, b.String())
	}
	return "^(" + strings.Join(all, "|") + "|external_directory(_.*)?)$"
}

func ruleDefs(actions ...policy.Action) schema {
	return schema{"rule": schema{"anyOf": []any{
		actionWords(actions...),
		schema{
			"type": "object", "required": []string{"action"}, "additionalProperties": false,
			"properties": schema{
				"action": actionWords(policy.Deny),
				"reason": schema{"type": "string", "maxLength": 500, "description": "what the agent is told"},
			},
		},
	}}}
}

func policySchema() schema {
	s := object("policy", "rules; the most specific one decides, a tie goes to the more restrictive one",
		schema{"permission": permissionSchema(true, policy.Allow, policy.Ask, policy.Deny)})
	s["$defs"] = ruleDefs(policy.Allow, policy.Ask, policy.Deny)
	return s
}

func guardsSchema() schema {
	s := object("hard guards", "denies that nothing loosens; allow only means: not blocked here", schema{
		"permission": permissionSchema(false, policy.Allow, policy.Deny),
		"protectedWrites": schema{
			"type": "array", "items": schema{"type": "string", "minLength": 1, "maxLength": 4096},
			"description": "paths that only a human may let be written",
		},
	})
	s["$defs"] = ruleDefs(policy.Allow, policy.Deny)
	return s
}

// fileSchema is the schema of a file that is read into a struct.
func fileSchema(title, description string, t reflect.Type) schema {
	s := structSchema(title, t)
	return object(title, description, s["properties"].(schema))
}

func structSchema(file string, t reflect.Type) schema {
	properties := schema{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			properties[name] = fieldSchema(file, name, field.Type)
		}
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}

// fieldSchema is the schema of a field, by its name where the type does not say
// enough.
func fieldSchema(file, name string, t reflect.Type) schema {
	text := func(pattern, description string) schema {
		return schema{"type": "array", "items": schema{"type": "string", "pattern": pattern, "description": description}}
	}
	switch name {
	case "roots":
		return rootsSchema("^/.*[^/]", words(policy.AccessRead, policy.AccessWrite), false)
	case "read":
		return rootsSchema("^/", words(policy.AccessRead), true)
	case "write":
		return rootsSchema("^/", words(policy.AccessWrite), true)
	case "trustedProjects":
		return text("^/.*[^/]", "the absolute path of a project whose files of agents count")
	case "hosts", "denied_hosts":
		return text(`^[0-9A-Za-z*._:%\[\]-]+$`, `a host such as "example.org", "*.example.org" or either with ":port"`)
	case "denied_commands", "allowed_families":
		return text(`^[^/ *?\n\t]+$`, "the name of a program, without its folder")
	case "max_processes":
		return schema{"type": "integer", "minimum": 1, "maximum": policy.MostProcesses}
	case "capabilities":
		all := `ssh|gpg|docker|display|nest|(git-credential|env):.+`
		if file == "cap" {
			all += `|\*`
		}
		return text("^("+all+")$", "ssh, git-credential:HOST, gpg, env:NAME, docker, display or nest")
	}
	return typeSchema(file, t)
}

// rootsSchema is a list of folders, by path or as an object.
func rootsSchema(pattern string, access schema, provenance bool) schema {
	path := schema{"type": "string", "pattern": pattern, "description": "an absolute path"}
	properties := schema{"path": path, "access": access}
	if provenance {
		properties["provenance"] = schema{"type": "string", "minLength": 1}
	}
	return schema{"type": "array", "items": schema{"anyOf": []any{path, schema{
		"type": "object", "required": []string{"path"}, "additionalProperties": false, "properties": properties,
	}}}}
}

func typeSchema(file string, t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[policy.Action]():
		return actionWords(policy.Allow, policy.Ask, policy.Deny)
	case reflect.TypeFor[policy.Mode]():
		return words(policy.Modes()...)
	case reflect.TypeFor[policy.SandboxMode]():
		return words(policy.SandboxReadOnly, policy.SandboxWorkspaceWrite, policy.SandboxUnrestricted)
	case reflect.TypeFor[policy.TmpPolicy]():
		return words(policy.TmpIsolated, policy.TmpHost)
	case reflect.TypeFor[policy.NetworkMode]():
		return words(policy.NetworkDisabled, policy.NetworkRestricted, policy.NetworkEnabled)
	case reflect.TypeFor[policy.Requirement]():
		return words(policy.RequirementOptional, policy.RequirementRequired)
	case reflect.TypeFor[policy.Duration]():
		return schema{
			"type": "string", "description": `a duration such as "90s" or "10m"`,
			"pattern": `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`, "not": schema{"pattern": "^[^1-9]*$"},
		}
	case reflect.TypeFor[policy.LinkSettings]():
		name := schema{"type": "string", "minLength": 1, "maxLength": 64}
		return schema{"anyOf": []any{name, schema{
			"type": "object", "required": []string{"name"}, "additionalProperties": false,
			"properties": schema{
				"name": name, "command": schema{"type": "array", "minItems": 1, "items": schema{"type": "string"}},
				"timeout": typeSchema(file, reflect.TypeFor[policy.Duration]()), "limit": words("allow", "deny", "defer"),
			},
		}}}
	case reflect.TypeFor[policy.ObserverSettings]():
		return schema{
			"type": "object", "required": []string{"name", "command"}, "additionalProperties": false,
			"properties": schema{
				"name": schema{"type": "string", "minLength": 1, "maxLength": 64}, "command": schema{"type": "array", "minItems": 1, "items": schema{"type": "string"}},
				"timeout": typeSchema(file, reflect.TypeFor[policy.Duration]()),
			},
		}
	case reflect.TypeFor[policy.Entry]():
		path := schema{"type": "string", "pattern": "^/"}
		return schema{"anyOf": []any{path, schema{
			"type": "object", "required": []string{"path"}, "additionalProperties": false,
			"properties": schema{"path": path, "access": typeSchema(file, reflect.TypeFor[policy.Access]()), "provenance": schema{"type": "string"}},
		}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(file, t.Elem())
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.String:
		return schema{"type": "string", "minLength": 1, "maxLength": 4096}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Slice {
			// One list may stand for a list of one list.
			one := typeSchema(file, t.Elem())
			return schema{"anyOf": []any{one, schema{"type": "array", "items": one}}}
		}
		return schema{"type": "array", "items": typeSchema(file, t.Elem())}
	case reflect.Map:
		properties := schema{}
		for _, k := range policy.Kinds() {
			properties[string(k)] = typeSchema(file, t.Elem())
		}
		return schema{"type": "object", "properties": properties, "additionalProperties": false}
	case reflect.Struct:
		return structSchema(file, t)
	}
	return schema{}
}
