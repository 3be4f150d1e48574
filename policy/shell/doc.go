// Package shell says what a piece of shell text may execute and touch.
//
// [Analyze] parses the text once and returns every simple command that it may
// run, with wrappers peeled and quoting removed, the paths that it names with
// their direction, what it needs beyond a closed sandbox, and the canonical
// text that runs exactly what was judged. [Analysis.Judge] puts these through
// recorded authority and returns the most restrictive answer.
//
// The package is pure: names are resolved and paths looked up only through what
// the caller passes in. What runs is always [Analysis.Canonical] behind
// [Invocation], never the text that came in. It trusts no parser more than bash itself: what cannot
// be parsed, seen through or bounded is a [Problem], and a text with a problem
// is never allowed.
//
// What it does not promise: it does not know what a program does with its
// operands beyond its tables, what a script says, what a variable of the
// environment holds, or where a symbolic link behind a glob leads; those belong to rules, to
// the class [RunsSessionFiles] and to the sandbox. A path that is known only when
// it runs, a glob or the home of another user, is put to the rules as every name
// that it may become, except for a variable of the environment with nothing
// literal in front, and without climbing out of the folder that is written. A program that no table knows is judged by its
// own rule, and by rules about its operands where its own rule does not name it.
package shell
