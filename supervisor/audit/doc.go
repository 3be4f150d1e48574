// Package audit writes down who asked for what, who decided it and why, and how
// it ended: one file of JSON lines for each tree, with one writer, each line
// bound to the one before it by a hash.
//
// A line has been written before what it tells takes effect. Not recorded is not
// allowed: any error of Log.Write is a denial.
//
// The chain shows that lines were changed, left out or put in to whoever knows
// the head that was shown when the tree ended. It does not keep the operator's
// own user from rewriting the whole file; without a head, a whole new chain
// verifies.
//
// It refuses to know how a decision is made.
package audit
