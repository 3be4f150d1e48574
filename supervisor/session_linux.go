package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/sandbox/egress"
	"github.com/getpioneer/pioneer-super/supervisor/audit"
	"github.com/getpioneer/pioneer-super/supervisor/control"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// session is one agent run with its policy, snapshot and children. What is not
// under the tree's mutex is fixed before the session is known to anybody.
type session struct {
	id      string
	agent   string
	parent  *session
	depth   int
	adapter *Adapter // nil: not a program of the table

	snap     policy.Snapshot
	dir      policy.File // where it started
	caps     []*policy.Cap
	composed atomic.Pointer[composed]

	// channel is what the session sees as its parent's id; root is the forwarding
	// root in which that inbox lies.
	channel string
	root    string
	base    []string // the environment that its agent was meant to have
	given   []string // the one that it was started with: base, filtered, and ours
	tools   []string // the base of its tools
	plans   plans
	rooms   *rooms       // nil: its tools live in the host's namespaces
	clients atomic.Int32 // connections that are served
	noise   noise
	over    sync.Once
	served  chan struct{} // closed when its channel is not served any more
	temp    string
	cache   string
	ctl     string // directory of its listener
	listen  *net.UnixListener
	ctx     context.Context
	cancel  context.CancelFunc

	books  sync.Mutex // orders what the journal is told of its asks and of its end
	closed bool       // under books: its end is in the journal

	// under tree.mu
	children []*session
	commands map[string]*command
	leader   *command
	jobs     int // that are remembered
	reserved int // places of its commands that do not run yet
	ending   bool
	end      ending        // why it ends, from the first who ended it
	exit     registry.Exit // its agent's
	tally    tally         // of its commands that are over
	limits   limits
	turn     uint64
	ended    chan struct{}
	// stopped is what its end came to, leaves first: fixed when ended is closed.
	stopped []control.Stopped
}

// path returns the ids from the root to this session.
func (s *session) path() []string {
	var out []string
	for at := s; at != nil; at = at.parent {
		out = append(out, at.id)
	}
	slices.Reverse(out)
	return out
}

// names is the path as a human reads it.
func (s *session) names() []string {
	var out []string
	for at := s; at != nil; at = at.parent {
		out = append(out, at.title())
	}
	slices.Reverse(out)
	return out
}

func (s *session) title() string {
	if s.agent != "" {
		return s.agent + " (" + s.id + ")"
	}
	return s.id
}

// requesters is the path for the audit.
func (s *session) requesters() []audit.Requester {
	var out []audit.Requester
	for at := s; at != nil; at = at.parent {
		out = append(out, audit.Requester{Session: at.id, Agent: at.agent})
	}
	slices.Reverse(out)
	return out
}

func (s *session) restricted() bool { return s.snap.Profile.Mode != policy.FullAccess }

// command is one agent or one tool invocation, under one keeper.
type command struct {
	id      string
	session *session
	agent   bool
	keeper  *keeperProcess
	record  policy.Record

	// result is set once, when the first process has ended or nothing ran.
	result chan control.Result
	// over is closed when no process of the command is left.
	over chan struct{}

	lease    *egress.Lease // its right to use the proxy; nil where it has none
	received time.Time
	startup  time.Duration // from the request to the running program

	ended bool   // under tree.mu
	why   string // it was stopped by a limit; under tree.mu
}

func (c *command) role() string {
	if c.agent {
		return "agent"
	}
	return "tool"
}

// end stops the whole command: sig, then KILL after graceMS.
func (c *command) end(sig, graceMS int) {
	c.keeper.conn.Send(keeper.Order{End: &keeper.End{Number: sig, GraceMS: graceMS}})
}

// environment helpers: entries are NAME=value, the last of a name counts.

func lookupEnv(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if n, v, ok := strings.Cut(env[i], "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}

func getter(env []string) func(string) string {
	return func(name string) string { v, _ := lookupEnv(env, name); return v }
}

// withEnv returns env with those entries set, without duplicates.
func withEnv(env []string, entries ...string) []string {
	out := withoutEnv(env, func(name string) bool {
		return slices.ContainsFunc(entries, func(e string) bool { n, _, _ := strings.Cut(e, "="); return n == name })
	})
	return append(out, entries...)
}

func withoutEnv(env []string, drop func(name string) bool) []string {
	out := make([]string, 0, len(env)+8)
	for _, e := range env {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" && !drop(name) {
			out = append(out, e)
		}
	}
	return out
}

// cleanEnv drops what is no entry and keeps the last entry of each name.
func cleanEnv(env []string) []string {
	last := map[string]int{}
	for i, e := range env {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" && !strings.Contains(e, "\x00") {
			last[name] = i
		}
	}
	out := make([]string, 0, len(last))
	for i, e := range env {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" {
			if at, ok := last[name]; ok && at == i {
				out = append(out, e)
			}
		}
	}
	return out
}

func digestEnv(env []string) string {
	sorted := slices.Sorted(slices.Values(env))
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\x00")))
	return hex.EncodeToString(sum[:])
}

// unshown are the names that a client may set without being asked: how its
// terminal looks and what language it speaks. A value that leads to a file is
// none of that.
func unshown(name, value string) bool {
	switch name {
	case "PWD", "OLDPWD", "_":
		return true // never taken from a client
	}
	if len(value) > 256 || strings.HasPrefix(value, "/") || strings.HasPrefix(value, ":") || strings.Contains(value, "..") {
		return false
	}
	switch name {
	case "TERM", "COLUMNS", "LINES", "COLORTERM", "NO_COLOR", "LANG", "TZ", "SHLVL":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}
