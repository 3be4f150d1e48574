// Package seatbelt writes the profile with which macOS's own sandbox confines one
// command: [Rules] go in, a text in the sandbox profile language and its parameters come out.
//
// It is pure. Nothing is looked up, started or asked, so that the same rules give
// the same text on every system and what was recorded is what holds. Whoever runs the
// command executes [Program] with [Profile.Args].
//
// Paths are parameters (-D NAME=VALUE) and never part of the text, so no name of a file can
// be read as a rule. Seatbelt compares the path that a file really has, in the spelling of
// the volume: rules take real paths, and a path in another spelling allows nothing.
//
// The language has no published reference. What is used of it here is what the profiles in
// /System/Library/Sandbox/Profiles and the sandboxes of widely used programs use. Of the rules
// for one operation the last that matches decides, so denials stand at the end. An operation
// that a system does not know is an error of the whole profile: then nothing runs.
//
// What is written here was never run on macOS by its authors.
package seatbelt
