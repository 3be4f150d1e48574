// Package lineage answers "whose child am I": which session of another program,
// if any, this process was started below, and where its asks go.
//
// What the environment says is a hint that any child can set or clear. The answer
// says of each hint where it came from and whether anything proves it; whether an
// unproven parent is believed is for the caller.
//
// It refuses to look anywhere itself: environment, registry, directories and
// processes are what the caller passes in.
package lineage
