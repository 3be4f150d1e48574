// Package control is the protocol between a client and its tree's supervisor:
// frames, version, limits, descriptors, and the client's side of each request.
//
// It refuses to know how a decision is made.
package control
