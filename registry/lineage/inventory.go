package lineage

// Role is what a variable says of the process that has it.
type Role uint8

const (
	// Marker: the process is a child. It does not say whose.
	Marker Role = iota + 1
	// Parent: its value is the id of the parent's session.
	Parent
)

// String returns "marker" or "parent".
func (r Role) String() string {
	switch r {
	case Marker:
		return "marker"
	case Parent:
		return "parent"
	}
	return "no role"
}

// Variable is one row of the inventory.
type Variable struct {
	Name    string
	Role    Role
	Spawner string // the program that sets it for its children
}

// inventory are the variables by which known spawners tell a child that it is
// one. Among the parents, the first that is usable wins, as in the public
// permission extension.
var inventory = []Variable{
	{"PI_IS_SUBAGENT", Marker, "pi-agent-router"},
	{"PI_SUBAGENT_SESSION_ID", Marker, "pi-agent-router"},
	{"PI_AGENT_ROUTER_SUBAGENT", Marker, "pi-agent-router"},
	{"PI_SUBAGENT_CHILD", Marker, "nicobailon/pi-subagents"},
	{"PI_SUBAGENT_RUN_ID", Marker, "nicobailon/pi-subagents"},
	{"PI_SUBAGENT_CHILD_AGENT", Marker, "nicobailon/pi-subagents"},
	{"PI_SUBAGENT_DEPTH", Marker, "nicobailon/pi-subagents"},
	{"PI_SUBAGENT_NAME", Marker, "HazAT/pi-interactive-subagents"},
	{"PI_SUBAGENT_ID", Marker, "HazAT/pi-interactive-subagents"},
	{"PI_SUBAGENT_SESSION", Marker, "HazAT/pi-interactive-subagents"},
	{"PI_SUBAGENT_ACTIVITY_FILE", Marker, "HazAT/pi-interactive-subagents"},
	{"PI_AGENT_ROUTER_PARENT_SESSION_ID", Parent, "pi-agent-router"},
	{"PI_SUBAGENT_PARENT_SESSION", Parent, "the subagent adapter convention"},
}

// Inventory returns the table, in the order in which it is searched.
func Inventory() []Variable { return append([]Variable(nil), inventory...) }

// In a shell tool of Pi these two name the session whose tool it is.
const (
	piShell   = "PI_CODING_AGENT" // "true" there
	piSession = "PI_SESSION_ID"
)
