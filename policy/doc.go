// Package policy decides. It holds rules and their evaluation, modes, caps and
// their meet, snapshots, grants and the record of a decision, all as values.
//
// It is pure: it refuses to know files, clocks, the environment and the
// platform. What it needs from those is passed in, so that the same input
// always gives the same decision, and every decision can be replayed.
package policy
