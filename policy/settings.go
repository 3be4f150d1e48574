package policy

import (
	"fmt"
	"slices"
	"time"
)

// Settings are what the operator's config.jsonc says beside the rules. The zero
// value opens nothing.
type Settings struct {
	Name string `json:"-"`
	// Roots are what restricted sessions may reach besides the workspace:
	// toolchains, caches, sibling projects.
	Roots []Entry `json:"roots,omitempty"`
	// Hosts and Capabilities are open to restricted sessions without a question.
	Hosts        []string `json:"hosts,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	// TrustedProjects are the folders whose files of agents restrict the agents that
	// run in them.
	TrustedProjects []string `json:"trustedProjects,omitempty"`
	// MaxDuration limits one command of a restricted session; 0 means no limit.
	MaxDuration Duration `json:"maxDuration,omitzero"`
	// Limits are of every session, whatever its mode.
	Limits Limits `json:"limits,omitzero"`
	// AllowAlways lets an answer write a rule into the policy.
	AllowAlways bool `json:"allowAlways,omitempty"`
	// Yolo turns asks into allows; a deny stays, and so does what only a human may
	// answer. YoloOrigin says where it is switched on.
	Yolo       bool   `json:"yolo,omitempty"`
	YoloOrigin Origin `json:"-"`
	// Links are the authorizer chain in its order, Review the built-in reviewer,
	// nil for none.
	Links  []LinkSettings  `json:"authorizers,omitempty"`
	Review *ReviewSettings `json:"autoReview,omitempty"`
	// Observers are programs that are told of each ask and each decision on it, and
	// are not heard.
	Observers []ObserverSettings `json:"observers,omitempty"`
}

// ParseSettings reads config.jsonc:
//
//	{"roots": [PATH | {"path": PATH, "access": "read" | "write"}], "hosts": [HOST, …],
//	 "capabilities": [NAME, …], "maxDuration": "1h",
//	 "limits": {"max_wall": "8h", "max_idle": "30m", "max_processes": 500}, "trustedProjects": [PATH, …], "allowAlways": false, "yolo": false,
//	 "authorizers": [NAME | {"name": NAME, "command": [PROGRAM, ARGUMENT…], "timeout": "5s", "limit": "deny"}],
//	 "observers": [{"name": NAME, "command": [PROGRAM, ARGUMENT…], "timeout": "5s"}],
//	 "autoReview": {"provider": "openai" | "anthropic", "model": NAME, …}}
//
// Mistakes are reported like those of a policy.
func ParseSettings(name string, data []byte) (*Settings, error) {
	d, root := parseDocument(name, data)
	if root == nil {
		return nil, d.err()
	}
	s := &Settings{Name: name}
	for _, m := range root.members("an object of settings") {
		switch m.name {
		case "$schema":
			m.value.text("the address of a schema")
		case "roots":
			s.Roots = settingsRoots(m.value)
		case "hosts":
			s.Hosts = readHosts(m.value)
		case "capabilities":
			list, _ := m.value.elements("a list of capability names")
			for _, e := range list {
				name, ok := e.text("the name of a capability")
				if !ok {
					continue
				}
				if _, err := CapabilityText(name); err != nil || name == "off" {
					e.problem(fmt.Sprintf("capability %q", name), "ssh, git-credential:HOST, gpg, env:NAME, docker, display or nest", "")
					continue
				}
				s.Capabilities = append(s.Capabilities, name)
			}
		case "trustedProjects":
			s.TrustedProjects = trustedProjects(m.value)
		case "maxDuration":
			if text, ok := m.value.text(`a duration such as "90s" or "10m"`); ok {
				if err := s.MaxDuration.UnmarshalText([]byte(text)); err != nil {
					m.value.problem(fmt.Sprintf("%q is no duration", text), `one above zero such as "90s" or "10m"`, "")
				}
			}
		case "limits":
			s.Limits = readLimits(m.value)
		case "allowAlways":
			s.AllowAlways, _ = m.value.boolean()
		case "yolo":
			s.Yolo, _ = m.value.boolean()
			s.YoloOrigin = m.key.origin("yolo")
		case "authorizers":
			s.Links = readLinks(m.value)
		case "observers":
			s.Observers = readObservers(m.value)
		case "autoReview":
			s.Review = readReview(m.value)
		default:
			m.unknown("roots", "hosts", "capabilities", "maxDuration", "limits", "trustedProjects", "allowAlways", "yolo", "authorizers", "autoReview", "observers", "$schema")
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// ProjectAgents is the folder of a project that has its files of agents.
const ProjectAgents = ".pioneer-super/agents"

// maxTrusted bounds the trusted projects.
const maxTrusted = 64

func trustedProjects(v value) []string {
	var out []string
	list, _ := v.elements("a list of absolute paths")
	if len(list) > maxTrusted {
		v.problem(fmt.Sprintf("%d projects", len(list)), fmt.Sprintf("at most %d", maxTrusted), "")
		return nil
	}
	for _, e := range list {
		s, ok := e.text("an absolute path")
		switch clean := cleanPath(s); {
		case !ok:
		case clean == "":
			e.problem(fmt.Sprintf("path %q", s), "an absolute path", "")
		case clean == "/":
			e.problem(`path "/"`, "the folder of a project", "")
		case !slices.Contains(out, clean):
			out = append(out, clean)
		}
	}
	return out
}

// Trusted returns the trusted projects around a directory, an absolute and clean
// path without links. A nil *Settings trusts none.
func (s *Settings) Trusted(dir string) []string {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.TrustedProjects), func(p string) bool { return !below(p, dir) })
}

// Below says whether an absolute path is root or inside it. Both are clean.
func Below(root, path string) bool { return below(root, path) }

func settingsRoots(v value) []Entry {
	var out []Entry
	list, _ := v.elements("a list of absolute paths")
	for _, e := range list {
		entry, at := Entry{Access: AccessRead, Provenance: ProvenanceRuntime}, e
		if e.kind() == '{' {
			for _, m := range e.members("a root") {
				switch m.name {
				case "path":
					at = m.value
					entry.Path, _ = m.value.text("an absolute path")
				case "access":
					entry.Access = oneOf(m.value, AccessRead, AccessWrite)
				default:
					m.unknown("path", "access")
				}
			}
		} else if s, ok := e.text("an absolute path"); ok {
			entry.Path = s
		} else {
			continue
		}
		switch clean := cleanPath(entry.Path); {
		case clean == "":
			at.problem(fmt.Sprintf("path %q", entry.Path), "an absolute path", "")
		case clean == "/":
			at.problem(`path "/"`, "a folder below it", "the whole system is what full_access is for")
		default:
			entry.Path = clean
			out = append(out, entry)
		}
	}
	return out
}

// Input adds what the settings open to the input of a root snapshot. A nil
// *Settings adds nothing.
func (s *Settings) Input(in ResolveInput) ResolveInput {
	if s == nil {
		return in
	}
	in.ExtraRoots = append(in.ExtraRoots, s.Roots...)
	in.Hosts = append(in.Hosts, s.Hosts...)
	in.Capabilities = append(in.Capabilities, s.Capabilities...)
	if d := time.Duration(s.MaxDuration); d > 0 && (in.MaxDuration == 0 || d < in.MaxDuration) {
		in.MaxDuration = d
	}
	in.Limits = in.Limits.Meet(s.Limits)
	return in
}
