// Package prompt holds what is shown of an ask: builders that make a payload
// from what a gate knows, and pure renderers of it for a person, a program, the
// asking agent and the log.
//
// It refuses to know terminals: a rendering is lines and spans, and no byte of
// an agent's text in it can move a cursor, change a colour or reorder what is
// read. A payload is complete; only a rendering leaves things out, and says so.
package prompt
