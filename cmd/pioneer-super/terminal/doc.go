// Package terminal is the human's end: raw mode, the relay of a command's
// pseudo-terminal, and the dialog that asks a person.
//
// A Human owns one real terminal. Ask draws a question and returns what the
// person said; Relay and Show put a command's pseudo-terminal on the screen;
// Notice shows a line of ours. What comes in is judged as keys of a person only
// when it cannot be anything else: alone, after quiet, outside every sequence
// and paste, after the terminal itself has said that the dialog is drawn. What
// goes out passes a filter, so that a command can draw and do nothing else, and
// text of children in a dialog is spelled out, never obeyed.
//
// It refuses to know how a decision is made, and who asks for one.
package terminal
