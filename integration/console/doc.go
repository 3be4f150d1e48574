// Package console runs a program on a bare pseudo-terminal for a test, as a
// terminal window would: no multiplexer stands between, so nothing but the test
// can type. It keeps what was printed as a transcript rather than a screen; what
// a person would see after redraws is the screen package's.
//
// It refuses to know what the program is.
package console
