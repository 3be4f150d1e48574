// Package shell says what a piece of shell text may execute and touch.
//
// [Analyze] parses the text once and returns every simple command that it may
// run, with wrappers peeled and quoting removed, the paths that it names with
// their direction, what it needs beyond a closed sandbox, and the canonical
// text that runs exactly what was judged. [Analysis.Judge] puts these through
// recorded authority and returns the most restrictive answer.
//
// The package is pure: names are resolved and paths looked up only through what
// the caller passes in. It trusts no parser more than bash itself: what cannot
// be parsed, seen through or bounded is a [Problem], and a text with a problem
// is never allowed.
package shell
