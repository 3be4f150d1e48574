// Package sandbox turns a resolved profile into a confined process: it probes
// what this host can enforce, plans the restrictions, and puts them on.
//
// It refuses to know asks, sessions and agents. A restriction that the host
// cannot give is returned by name; nothing is ever weakened silently.
package sandbox
