package supervisor

// Name is argv[0] of a supervisor: this binary starts itself under it.
const Name = "pioneer-super-supervisor"

// Options are what the binary knows at compile time.
type Options struct {
	Build    string
	Adapters []Adapter
}

// Adapter is what the supervisor is told about a program that is an agent: how
// it is known and what its environment needs. The table is integration's; here it
// is data.
type Adapter struct {
	// Name is the agent's: "pi".
	Name string
	// Program says whether the resolved file with that first argument is this
	// agent: a script of an interpreter is known by its own path.
	Program func(file string, argv []string) bool
	// Interactive says whether it has a terminal of its own with these arguments.
	Interactive func(argv []string, terminal bool) bool
	// ForwardingRoot is the directory that its permission extension uses, from its
	// environment; "" for the tree's own.
	ForwardingRoot func(getenv func(string) string) string
	// Keep names environment entries that its process needs although a filter for
	// secrets would drop them: the keys of its model.
	Keep func(name string) bool
	// Tool names entries that the agent itself sets for the tools that it runs;
	// they pass unshown.
	Tool func(name string) bool
	// Path are directories that the agent puts in front of its tools' PATH unless
	// PATH has them. They are given to it at the end of PATH, so that it leaves
	// PATH alone and a tool's is not another one than was judged.
	Path func(getenv func(string) string) []string
	// State are directories that the agent itself reads and writes.
	State func(getenv func(string) string) []string
}
