// Package screen runs a program in a real terminal for a test: it types, and it
// reads what a person would see.
//
// It refuses to know what the program is.
package screen
