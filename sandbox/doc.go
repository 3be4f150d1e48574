// Package sandbox turns a resolved request into a confined process: it probes
// what this host can enforce, plans the restrictions, and puts them on.
//
// Planning is pure ([Plan], [EnvelopeOnly]): a request and what the host can do go
// in, a [Profile] and an honest [Report] come out, and both are values that can be
// recorded and handed on. Carrying out is one call, [Profile.Confine], on a locked
// thread that then executes the command.
//
// On Linux the restrictions are a Landlock domain, a system call filter of our
// own, no new privileges, no capabilities and resource limits. They hold for the
// command and all that it starts, and nothing inside can undo them.
//
// It refuses to know asks, sessions and agents. A restriction that the host
// cannot give is returned by name; nothing is ever weakened silently.
package sandbox
