package policy

import "slices"

// How patterns relate, for tools that write policies: importers, editors.

// Covers says whether every value that narrow matches, wide matches too. It may
// answer no where a cleverer proof would find a yes.
func Covers(wide, narrow string) bool { return covers(wide, narrow) }

// MayOverlap says whether some value could match both patterns. It may answer
// yes where a cleverer proof would find a no.
func MayOverlap(a, b string) bool {
	ga, okA := compileGlob("", a, false)
	gb, okB := compileGlob("", b, false)
	if !okA || !okB {
		return true
	}
	// A home may be spelled out on one side: then literal starts say nothing.
	if homePrefix(a) > 0 != (homePrefix(b) > 0) {
		return true
	}
	return mayOverlap(&ga, &gb)
}

// CompareSpecificity orders patterns as rules of one authority are asked: below 0
// means that a decides where both match, above 0 that b does, 0 that the more
// restrictive action of the two does.
func CompareSpecificity(a, b string) int {
	ga, okA := compileGlob("", a, false)
	gb, okB := compileGlob("", b, false)
	switch {
	case !okA && !okB:
		return 0
	case !okA:
		return 1
	case !okB:
		return -1
	}
	return ga.compare(&gb)
}

// Surfaces returns the surfaces that have a meaning of their own. Every other
// name in a rule is the name of a tool.
func Surfaces() []string { return slices.Clone(knownSurfaces) }

// IsPathSurface says whether rules of the surface speak about paths.
func IsPathSurface(surface string) bool { return isPathSurface(surface) }
