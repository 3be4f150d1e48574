// Package supervisor is the authority of one tree: the broker that takes a
// request from ask to exit status, decides it, writes it down, and has a keeper
// carry it out.
//
// It refuses to know terminals and agents' formats.
package supervisor
