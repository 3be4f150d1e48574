// Package integration adapts agent command lines to a tree, and holds the tests
// that run the whole product, with real agents where a registry serves them.
//
// It refuses to know how a decision is made.
package integration
