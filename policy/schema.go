package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// schemaID is where editors look for a schema by its name; files may name their
// own copy in "$schema".
const schemaID = "https://getpioneer.dev/schemas/pioneer-super/"

// SchemaNames are the names of the configuration files that Schema knows.
func SchemaNames() []string { return []string{"policy", "hard-guards", "cap", "expectations"} }

// Schema returns the JSON Schema (draft 7) of a configuration file, made from
// the Go types that the readers fill, so that editors complete and check what
// the readers accept.
func Schema(name string) ([]byte, error) {
	var root any
	title := ""
	switch name {
	case "policy":
		root, title = policyDocument{}, "pioneer-super policy"
	case "hard-guards":
		root, title = guardDocument{}, "pioneer-super hard guards"
	case "cap":
		root, title = capDocument{}, "pioneer-super cap: a partial snapshot"
	case "expectations":
		root, title = expectationDocument{}, "pioneer-super policy test"
	default:
		return nil, fmt.Errorf("no schema %q, expected %s", name, join(SchemaNames()))
	}
	return SchemaOf(name, title, root), nil
}

// SchemaOf makes the schema of a file that is read into values of the type of
// root: a struct with json tags. Types of this package with a closed set of words
// become enumerations.
func SchemaOf(name, title string, root any) []byte {
	g := schemaMaker{}
	s := g.of(reflect.TypeOf(root))
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["$id"] = schemaID + name + ".schema.json"
	s["title"] = title
	if props, ok := s["properties"].(map[string]any); ok {
		props["$schema"] = map[string]any{"type": "string", "description": "The address of this schema."}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		// Only maps, slices and strings are encoded.
		panic("policy: schema: " + err.Error())
	}
	return b.Bytes()
}

// The documents as they are written. They exist for their schemas; the readers
// have positions to keep and read by hand.
type (
	policyDocument struct {
		Permission map[string]surfaceRules `json:"permission,omitempty"`
	}
	guardDocument struct {
		Permission      map[string]guardRules `json:"permission,omitempty"`
		ProtectedWrites []pathPattern         `json:"protectedWrites,omitempty"`
	}
	capDocument struct {
		Profile  *ProfileCap   `json:"profile,omitempty"`
		Sandbox  *SandboxCap   `json:"sandbox,omitempty"`
		Open     *ResourcesCap `json:"open,omitempty"`
		Ceiling  *ResourcesCap `json:"ceiling,omitempty"`
		Process  *ProcessCap   `json:"process,omitempty"`
		Approval *ApprovalCap  `json:"approval,omitempty"`
		Backend  *BackendCap   `json:"backend,omitempty"`
	}
	expectationDocument struct {
		Mode      Mode             `json:"mode,omitempty"`
		Workspace string           `json:"workspace,omitempty"`
		Cwd       string           `json:"cwd,omitempty"`
		Home      string           `json:"home,omitempty"`
		Expect    []expectationRow `json:"expect"`
	}
	expectationRow struct {
		Question
		Path      string `json:"path,omitempty"`
		Verdict   Action `json:"verdict"`
		Rule      string `json:"rule,omitempty"`
		Authority string `json:"authority,omitempty"`
		Comment   string `json:"comment,omitempty"`
	}
	surfaceRules struct{}
	guardRules   struct{}
	pathPattern  struct{}
)

// described are the sentences that editors show, by type and field.
var described = map[string]string{
	"policyDocument.permission":     "Rules by surface: bash, mcp, skill, network, task, path, path_read, path_write, or the name of a tool. \"*\" is the default where no mode was chosen.",
	"guardDocument.permission":      "Denies that nothing loosens. An allow only says that a narrower case is not blocked.",
	"guardDocument.protectedWrites": "Paths that only a human may let be written.",
	"capDocument.profile":           "Limits mode and behaviour.",
	"capDocument.sandbox":           "Limits confinement.",
	"capDocument.open":              "Limits what is open without a question.",
	"capDocument.ceiling":           "Limits what a human may still open.",
	"capDocument.process":           "Limits what is started.",
	"capDocument.approval":          "Limits the answers of a human.",
	"ProfileCap.mode":               "The widest mode.",
	"ToolPolicyCap.kinds":           "The most permissive behaviour for a kind of action.",
	"ToolPolicyCap.allow_tools":     "Only these tools may be used.",
	"ToolPolicyCap.deny_tools":      "These tools may not be used.",
	"ToolPolicyCap.allow_paths":     "Only these paths may be reached by file tools.",
	"ToolPolicyCap.deny_paths":      "These paths may not be reached by file tools.",
	"ResourcesCap.read":             "The only roots that stay readable.",
	"ResourcesCap.write":            "The only roots that stay writable.",
	"ResourcesCap.hosts":            "The only hosts that stay reachable: \"example.org\", \"*.example.org\", either with \":port\".",
	"ResourcesCap.denied_hosts":     "Hosts that are refused.",
	"ResourcesCap.capabilities":     "The only named capabilities that stay: ssh, git-credential:HOST, gpg, env:NAME, docker, display, nest.",
	"ResourcesCap.sandbox_off":      "Whether the sandbox may be off.",
	"ProcessCap.max_duration":       "How long one command may run: \"90s\", \"10m\".",
	"ProcessCap.denied_commands":    "Base names of programs that may not be started.",
	"ProcessCap.allowed_families":   "Base names of the only programs that may be started.",
	"expectationDocument.expect":    "Questions, each with the verdict that it has to get.",
	"expectationRow.rule":           "The pattern that has to decide.",
	"expectationRow.authority":      "The authority that has to decide.",
	"Question.surface":              "The gate that is asked about.",
	"Question.value":                "A command, path, target or host.",
	"Question.tool":                 "The tool of an agent.",
	"Question.paths":                "Paths as they are typed.",
	"expectationDocument.mode":      "The mode that the questions are asked in; none means that none was chosen.",
	"Question.cwd":                  "The directory that relative paths start from.",
	"expectationDocument.workspace": "The workspace that the questions are asked in.",
	"expectationRow.verdict":        "The verdict that has to come.",
	"ResourcesCap.network":          "The widest network.",
	"BackendCap.requirement":        "Whether the session may run without its sandbox.",
	"ProcessCap.filter_environment": "Whether names and values that look like secrets are taken out of the environment.",
	"ProcessCap.shell_enabled":      "Whether there is a shell at all.",
	"ApprovalCap.allow_for_turn":    "Whether a human may allow for the rest of the turn.",
	"ApprovalCap.allow_once":        "Whether a human may allow once.",
	"expectationDocument.cwd":       "The directory that relative paths start from; the workspace unless it is named.",
	"expectationDocument.home":      "What ~ stands for.",
	"expectationRow.comment":        "For the reader.",
	"SandboxCap.mode":               "The widest sandbox.",
	"SandboxCap.tmp":                "Whether the session shares the host's temporary directory.",
	"ResourcesCap.read_all":         "false needs \"read\" beside it.",
	"ResourcesCap.write_all":        "Whether everything may be writable.",
	"Question.kind":                 "What the mode's defaults are asked about, unless the surface says it.",
	"Question.agent":                "The agent file whose restrictions count.",
	"Question.id":                   "Comes back with the answer.",
	"expectationRow.path":           "One path as it is typed.",
	"capDocument.backend":           "Limits whether a sandbox may be missing.",
	"ProfileCap.policy":             "Limits behaviour by kind, tool and path.",
}

type schemaMaker struct{}

var (
	actionType   = reflect.TypeFor[Action]()
	durationType = reflect.TypeFor[Duration]()
	entryType    = reflect.TypeFor[Entry]()
)

// words returns the closed set of a named string type.
func words(t reflect.Type) []string {
	strs := func(list any) []string {
		v := reflect.ValueOf(list)
		out := make([]string, v.Len())
		for i := range out {
			out[i] = v.Index(i).String()
		}
		return out
	}
	switch t {
	case reflect.TypeFor[Mode]():
		return strs(modes[:])
	case reflect.TypeFor[Kind]():
		return strs(kinds[:])
	case reflect.TypeFor[NetworkMode]():
		return strs(networkModes[:])
	case reflect.TypeFor[SandboxMode]():
		return strs(sandboxModes[:])
	case reflect.TypeFor[Provenance]():
		return strs(provenances[:])
	case reflect.TypeFor[TmpPolicy]():
		return []string{string(TmpHost), string(TmpIsolated)}
	case reflect.TypeFor[Requirement]():
		return []string{string(RequirementOptional), string(RequirementRequired)}
	case reflect.TypeFor[Access]():
		return []string{string(AccessRead), string(AccessWrite)}
	}
	return nil
}

func (g schemaMaker) of(t reflect.Type) map[string]any {
	pattern := map[string]any{"type": "string", "minLength": 1, "maxLength": maxPattern}
	switch t {
	case actionType:
		return map[string]any{"enum": actionNames[:]}
	case durationType:
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`}
	case reflect.TypeFor[pathPattern]():
		return pattern
	case reflect.TypeFor[surfaceRules]():
		return g.rules(actionNames[:])
	case reflect.TypeFor[guardRules]():
		return g.rules([]string{"deny", "allow"})
	case entryType:
		return map[string]any{"oneOf": []any{
			map[string]any{"type": "string", "pattern": "^/"},
			map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"path"},
				"properties": map[string]any{
					"path":   map[string]any{"type": "string", "pattern": "^/"},
					"access": g.of(reflect.TypeFor[Access]()), "provenance": g.of(reflect.TypeFor[Provenance]()),
				},
			},
		}}
	case reflect.TypeFor[[][]string]():
		list := map[string]any{"type": "array", "items": pattern}
		return map[string]any{"anyOf": []any{list, map[string]any{"type": "array", "items": list}}}
	}
	if w := words(t); w != nil {
		return map[string]any{"enum": w}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.of(t.Elem())}
	case reflect.Map:
		s := map[string]any{"type": "object"}
		if names := words(t.Key()); names != nil {
			props := map[string]any{}
			for _, n := range names {
				props[n] = g.of(t.Elem())
			}
			s["properties"], s["additionalProperties"] = props, false
			return s
		}
		s["additionalProperties"] = g.of(t.Elem())
		s["propertyNames"] = map[string]any{"minLength": 1, "maxLength": 256, "pattern": `^[^\s]+$`}
		if elem := t.Elem(); elem == reflect.TypeFor[surfaceRules]() || elem == reflect.TypeFor[guardRules]() {
			known := map[string]any{}
			for _, n := range knownSurfaces {
				known[n] = g.of(elem)
			}
			if elem == reflect.TypeFor[surfaceRules]() {
				known["*"] = map[string]any{"enum": actionNames[:]}
			} else {
				known["*"] = false
			}
			s["properties"] = known
		}
		return s
	case reflect.Struct:
		props := map[string]any{}
		var required []string
		g.fields(t, props, &required)
		s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
		if len(required) > 0 {
			s["required"] = required
		}
		return s
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	}
	panic("policy: schema: no schema for " + t.String())
}

// fields adds the fields of a struct, those of an embedded one as its own.
func (g schemaMaker) fields(t reflect.Type, props map[string]any, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			g.fields(f.Type, props, required)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" || !f.IsExported() {
			continue
		}
		s := g.of(f.Type)
		if text, ok := described[t.Name()+"."+name]; ok {
			s["description"] = text
		}
		props[name] = s
		if !strings.Contains(opts, "omit") {
			*required = append(*required, name)
		}
	}
	slices.Sort(*required)
}

// rules is the schema of one surface: an action, or patterns with actions.
func (g schemaMaker) rules(actions []string) map[string]any {
	word := map[string]any{"enum": actions}
	return map[string]any{"anyOf": []any{
		word,
		map[string]any{
			"type":          "object",
			"propertyNames": map[string]any{"minLength": 1, "maxLength": maxPattern},
			"additionalProperties": map[string]any{"anyOf": []any{
				word,
				map[string]any{
					"type": "object", "additionalProperties": false, "required": []string{"action"},
					"properties": map[string]any{
						"action": map[string]any{"const": "deny"},
						"reason": map[string]any{"type": "string", "maxLength": maxReason, "description": "What the agent is told."},
					},
				},
			}},
		},
	}}
}

// Starter returns the text of a commented policy to start from.
func Starter() []byte {
	return []byte(`// The policy of pioneer-super: what agents may do without asking.
//
// Each rule is PATTERN: "allow", "ask" or "deny". "*" is any text, "?" one
// character, and " *" at the end may be missing: "git *" is git with anything.
// Of the rules that match, the most specific one decides; of equally specific
// ones the most restrictive. What no rule names is decided by the mode.
// Try it: pioneer-super check --surface bash --value "git push" --explain
{
  "permission": {
    "bash": {
      "ls *": "allow",
      "git status *": "allow",
      "git diff *": "allow",
      "git log *": "allow",
      "git push *": "ask",
      "git push *--force*": {"action": "deny", "reason": "rewriting shared history is for humans"},
      "sudo *": "deny",
    },
    // One pattern protects a file under every spelling and for every tool.
    "path": {
      "*.env": "deny",
      "*.pem": "deny",
      "~/.ssh/*": "deny",
    },
    // "mcp": {"exa:*": "allow"},
    // "network": {"go.dev": "allow"},
    // "task": {"reviewer": "allow"},
  },
}
`)
}
