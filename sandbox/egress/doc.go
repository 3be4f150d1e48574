// Package egress is the way out of a confined session: a filtering proxy that runs
// outside the sandbox and dials for the programs inside it.
//
// A program reaches it as an HTTP proxy (absolute form and CONNECT) or as a SOCKS5
// proxy, both on one listener, with a token that belongs to one invocation. A program
// that ignores proxy settings asks the resolver of this package, which answers every
// name with an address of its own making, and connects to that address; the
// listeners that catch such connections know the name by the address. Names therefore
// never leave the host before somebody allowed them.
//
// Who may reach what is an [Authority]'s business. The package brings a host into its
// one form ([ParseHost]), asks, resolves a name once, and dials an address that it has
// looked at: one that is not public is refused unless a rule lists it ([Class]). It
// follows no redirect and reads no encrypted byte; of a TLS connection it compares the
// name in the first message with the one that was allowed.
//
// Everything is bounded ([Limits]), and every connection ends when the lease of its
// invocation is revoked or its host is withdrawn.
//
// It refuses to know asks, sessions and agents: those are strings here.
package egress
