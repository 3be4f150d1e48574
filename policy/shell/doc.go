// Package shell says what a piece of shell text may execute and touch.
//
// It is pure: names are resolved and paths looked up only through what the
// caller passes in. What it cannot see through is never an allow.
package shell
