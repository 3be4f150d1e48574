package wire

// Kind tells asks apart that have the same surface.
type Kind string

// The kinds of a prompt payload.
const (
	KindBash                  Kind = "bash"
	KindMCP                   Kind = "mcp"
	KindTool                  Kind = "tool"
	KindPath                  Kind = "path"
	KindExternalDirectory     Kind = "external_directory"
	KindBashExternalDirectory Kind = "bash_external_directory"
	KindSkill                 Kind = "skill"
	KindSkillRead             Kind = "skill_read"
	KindAskForwarded          Kind = "forwarded"
)

var payloadKinds = []Kind{KindBash, KindMCP, KindTool, KindPath, KindExternalDirectory, KindBashExternalDirectory, KindSkill, KindSkillRead, KindAskForwarded}

// Payload is everything that is known of an ask, complete and unshortened.
// Shortening is a property of a rendering, never of the payload.
type Payload struct {
	Kind Kind
	// Core is never left out by any rendering.
	Core Core
	// Evidence is what helps to judge; a rendering may leave some out.
	Evidence []Evidence
	// Annotations are written by a model and always marked as such.
	Annotations []Annotation
}

// Core is what is asked for. A nil pointer is written as null.
type Core struct {
	Requester Requester
	// Surface is the gate that the rule fired on.
	Surface string
	// ToolName is the gated tool, nil where the ask is not shaped like one.
	ToolName *string
	// InvokedToolName is set only where a shell alias gives bash another name.
	InvokedToolName *string
	// Value is the command, path, target or skill. "" is allowed.
	Value string
	// MatchedPattern is the rule, sentinels included.
	MatchedPattern *string
	// CommandContext is "command_substitution", "process_substitution",
	// "subshell" or nil.
	CommandContext *string
	// ExecutedUnit is what a wrapper really runs, nil where it adds nothing.
	ExecutedUnit *string
}

// Requester says who asks. Forwarded and SessionID are stamped by the serving
// end, which alone knows by which inbox the ask came.
type Requester struct {
	AgentName *string
	Forwarded bool
	SessionID *string
}

// Evidence is one labelled fact.
type Evidence struct {
	Label  string
	Text   string
	Detail *string
}

// Annotation is text that a model wrote about the ask.
type Annotation struct{ Source, Text string }

var commandContexts = []string{"command_substitution", "process_substitution", "subshell"}

// readPayload is all or nothing: false means unusable, an error a trap.
func readPayload(what string, v value) (Payload, bool, error) {
	if v.kind != kindObject {
		return Payload{}, false, nil
	}
	if err := v.variants(what, "payload", "kind", "request", "evidence", "annotations"); err != nil {
		return Payload{}, false, err
	}
	p := Payload{Evidence: []Evidence{}, Annotations: []Annotation{}}
	ok := true
	kind, _ := v.get("kind")
	p.Kind = Kind(kind.text)
	if kind.kind != kindString || !contains(payloadKinds, p.Kind) {
		ok = false
	}
	core, _ := v.get("request")
	c, usable, err := readCore(what, core)
	if err != nil {
		return Payload{}, false, err
	}
	p.Core, ok = c, ok && usable
	evidence, _ := v.get("evidence")
	ok = ok && evidence.kind == kindArray
	for _, item := range evidence.items {
		if err := item.variants(what, "payload.evidence", "label", "text", "detail"); err != nil {
			return Payload{}, false, err
		}
		r := reader{v: item, ok: item.kind == kindObject}
		p.Evidence = append(p.Evidence, Evidence{Label: r.text("label"), Text: r.text("text"), Detail: r.nullable("detail")})
		ok = ok && r.ok
	}
	annotations, _ := v.get("annotations")
	ok = ok && annotations.kind == kindArray
	for _, item := range annotations.items {
		if err := item.variants(what, "payload.annotations", "source", "text"); err != nil {
			return Payload{}, false, err
		}
		r := reader{v: item, ok: item.kind == kindObject}
		p.Annotations = append(p.Annotations, Annotation{Source: r.text("source"), Text: r.text("text")})
		ok = ok && r.ok
	}
	if !ok {
		return Payload{}, false, nil
	}
	return p, true, nil
}

func readCore(what string, v value) (Core, bool, error) {
	if err := v.variants(what, "payload.request", "requester", "surface", "toolName", "invokedToolName", "value", "matchedPattern", "commandContext", "executedUnit"); err != nil {
		return Core{}, false, err
	}
	who, _ := v.get("requester")
	if err := who.variants(what, "payload.request.requester", "agentName", "forwarded", "sessionId"); err != nil {
		return Core{}, false, err
	}
	r := reader{v: v, ok: v.kind == kindObject}
	c := Core{Surface: r.text("surface"), ToolName: r.nullable("toolName"), InvokedToolName: r.nullable("invokedToolName"), Value: r.text("value"),
		MatchedPattern: r.nullable("matchedPattern"), CommandContext: r.nullable("commandContext"), ExecutedUnit: r.nullable("executedUnit")}
	if c.CommandContext != nil && !contains(commandContexts, *c.CommandContext) {
		r.ok = false
	}
	q := reader{v: who, ok: who.kind == kindObject}
	forwarded, _ := who.get("forwarded")
	f, is := forwarded.boolean()
	c.Requester = Requester{AgentName: q.nullable("agentName"), Forwarded: f, SessionID: q.nullable("sessionId")}
	return c, r.ok && q.ok && is, nil
}

// reader reads members that must all be there.
type reader struct {
	v  value
	ok bool
}

func (r *reader) text(name string) string {
	m, has := r.v.get(name)
	s, is := m.str()
	r.ok = r.ok && has && is
	return s
}

func (r *reader) nullable(name string) *string {
	m, has := r.v.get(name)
	s, is := m.nullable()
	r.ok = r.ok && has && is
	return s
}

func contains[T comparable](list []T, want T) bool {
	for _, x := range list {
		if x == want {
			return true
		}
	}
	return false
}

func (w *writer) payload(p Payload) {
	if !contains(payloadKinds, p.Kind) && w.err == nil {
		w.err = unknown("payload kind", string(p.Kind))
	}
	c := p.Core
	w.str("kind", string(p.Kind))
	w.object("request", func() {
		w.object("requester", func() {
			w.nullable("agentName", c.Requester.AgentName)
			w.boolean("forwarded", c.Requester.Forwarded)
			w.nullable("sessionId", c.Requester.SessionID)
		})
		w.str("surface", c.Surface)
		w.nullable("toolName", c.ToolName)
		w.nullable("invokedToolName", c.InvokedToolName)
		w.str("value", c.Value)
		w.nullable("matchedPattern", c.MatchedPattern)
		w.nullable("commandContext", c.CommandContext)
		w.nullable("executedUnit", c.ExecutedUnit)
	})
	w.list("evidence", len(p.Evidence), func(i int) {
		e := p.Evidence[i]
		w.begin()
		w.str("label", e.Label)
		w.str("text", e.Text)
		w.nullable("detail", e.Detail)
		w.end()
	})
	w.list("annotations", len(p.Annotations), func(i int) {
		w.begin()
		w.str("source", p.Annotations[i].Source)
		w.str("text", p.Annotations[i].Text)
		w.end()
	})
}

// Encode returns the whole payload as JSON, nulls included.
func (p Payload) Encode() ([]byte, error) {
	w := &writer{}
	w.begin()
	w.payload(p)
	w.end()
	return w.done("payload", MaxFile)
}
