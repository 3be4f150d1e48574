package keeper

import (
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox"
)

// Names under which this binary is started by itself. They are argv[0]: nothing
// that a user types can be mistaken for them.
const (
	KeeperName = "pioneer-super-keeper"
	StageName  = "pioneer-super-stage"
	RoomName   = "pioneer-super-room"
	HolderName = "pioneer-super-holder"
)

// The kinds of keeper: an argument after the tree.
const (
	// Plain is a keeper whose command lives in the host's namespaces.
	Plain = ""
	// WithRoom is one whose command has namespaces and a view of its own.
	WithRoom = "room"
	// Trial opens a room, makes a view in it, says how that went in place of being ready, and ends.
	Trial = "trial"
)

// Descriptors that a keeper is born with.
const (
	controlFD = 3 // stream socket to the supervisor
	treeFD    = 4 // the tree's directory, for <command>.exit alone
)

// Order is one frame from supervisor to keeper; exactly one member is set.
type Order struct {
	Prepare *Prepare `json:"prepare,omitzero"`
	Lookup  *Lookup  `json:"lookup,omitzero"`
	Run     *Run     `json:"run,omitzero"`
	// End stops the whole command: TERM, then KILL after GraceMS milliseconds;
	// zero kills at once.
	End *End `json:"end,omitzero"`
}

// Prepare resolves and holds the directory, before anything is decided.
type Prepare struct {
	Dir string `json:"dir"`
}

// Lookup resolves a command word or looks at a path.
type Lookup struct {
	Word string `json:"word"`
	// Path is the PATH to search for a word without a slash; with none given the
	// word is looked at as a path, relative to the prepared directory.
	Path string `json:"path,omitempty"`
	// Digest asks for the content's SHA-256, up to 64 MiB.
	Digest bool `json:"digest,omitempty"`
}

// File is what a lookup found; the zero value found nothing.
type File struct {
	Path string `json:"path,omitempty"` // as found
	Real string `json:"real,omitempty"` // without symbolic links
	Dev  uint64 `json:"dev,omitempty"`
	Ino  uint64 `json:"ino,omitempty"`
	// Kind is "file", "dir" or "other".
	Kind   string `json:"kind,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// NotExecutable says that the word was found but may not be run.
	NotExecutable bool   `json:"notExecutable,omitempty"`
	Error         string `json:"error,omitempty"`
}

// Run is the record's part that a keeper carries out.
type Run struct {
	Command string   `json:"command"`
	File    File     `json:"file"`
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Umask   int      `json:"umask"`
	// Dir was prepared; the client's own descriptor must be the same directory.
	Dir File `json:"dir"`
	// Terminal: where one of the streams is a terminal, a pseudo-terminal is made.
	Terminal bool `json:"terminal,omitempty"`
	// Pinned words are looked up again, on Path, right before the effect.
	Pinned []Pin  `json:"pinned,omitempty"`
	Path   string `json:"path,omitempty"`
	// Channel says that a descriptor to the supervisor came with this order; its
	// number goes into PIONEER_SUPER_FD.
	Channel bool            `json:"channel,omitempty"`
	Profile sandbox.Profile `json:"profile"`
	// Unconfined: the operator started the tree without an envelope, and this
	// command would have nothing but that.
	Unconfined bool `json:"unconfined,omitempty"`
	// Streams are the kinds that the record was judged with.
	Streams [3]string `json:"streams"`
}

// Pin is a word of the record and the file that it led to: none if Ino is zero.
type Pin struct {
	Word   string `json:"word"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	SHA256 string `json:"sha256,omitempty"`
}

// End stops the command.
type End struct {
	Number  int `json:"number"`
	GraceMS int `json:"graceMS"`
}

// Report is one frame from keeper to supervisor; exactly one member is set.
type Report struct {
	Ready *Ready `json:"ready,omitzero"`
	Found *File  `json:"found,omitzero"`
	// Started: the program runs (its execve succeeded).
	Started *Started `json:"started,omitzero"`
	// Failed: nothing ran.
	Failed *Failed `json:"failed,omitzero"`
	// Leader: the first process has ended, Left processes of it live.
	Leader *Leader `json:"leader,omitzero"`
	// Ended: no process of the command is left; proof is "wait4".
	Ended *Ended `json:"ended,omitzero"`
}

// Ready is a keeper's first word.
type Ready struct {
	PID   int `json:"pid"`
	Stage int `json:"stage"`
}

// Started names the first process.
type Started struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Failed says why nothing ran. Class is one of control's result classes.
type Failed struct {
	Class  string `json:"class"`
	Reason string `json:"reason"`
}

// Leader is how the first process ended: an exit code, or a signal.
type Leader struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	Left   int `json:"left,omitempty"`
}

// Ended is the proof that the command is over.
type Ended struct {
	Proof string `json:"proof"`
	// Killed counts processes that had to be killed.
	Killed int `json:"killed,omitempty"`
	// Usage is what all of them used.
	Usage registry.Usage `json:"usage,omitzero"`
}

// Hand is the client's frame over the stream socket: its streams and directory
// come with it, in this order.
type Hand struct {
	Streams [3]string `json:"streams"`
	Rows    uint16    `json:"rows,omitempty"`
	Cols    uint16    `json:"cols,omitempty"`
}

// Wire is a later frame over the stream socket, either way.
type Wire struct {
	// Taken answers Hand: the streams were taken. With Terminal, the master of the
	// command's pseudo-terminal comes with it.
	Taken    bool `json:"taken,omitempty"`
	Terminal bool `json:"terminal,omitempty"`
	// Signal, from the client.
	Signal int `json:"signal,omitempty"`
	// Stopped, to the client: the first process was stopped by its terminal.
	Stopped bool `json:"stopped,omitempty"`
}
