// Package terminal is the human's end: raw mode, the relay of a command's
// pseudo-terminal, and the dialog that asks a person.
//
// It refuses to know how a decision is made.
package terminal
