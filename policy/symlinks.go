package policy

import (
	"path"
	"slices"
)

// RealPath returns where an absolute, clean path leads with its links followed,
// or "" where that cannot be said. real answers for one path that is there, a
// dangling link included, with where it leads; false where nothing is there. Of a
// path that is not there yet, the nearest folder that is decides.
func RealPath(p string, real func(string) (string, bool)) string {
	if p == "" || cleanPath(p) != p {
		return ""
	}
	rest := ""
	for at := p; ; at = path.Dir(at) {
		if to, ok := real(at); ok {
			if to = cleanPath(to); to == "" {
				return ""
			}
			return path.Join(to, rest)
		}
		if len(at) <= 1 {
			return ""
		}
		rest = path.Join(path.Base(at), rest)
	}
}

// FollowLinks returns the query of a path with where the path really leads as one
// more spelling, so that a rule on either decides. A link that leads out of
// q.Root, the workspace, is judged as what it leads to: then the mode speaks too,
// which for a path inside leaves it to the rules. real is as in [RealPath]. Other
// queries, and paths that no link is on, come back as they are; q is not changed.
func (q Query) FollowLinks(real func(string) (string, bool)) Query {
	if !isPathSurface(q.Surface) || !q.Aliases || len(q.Values) == 0 {
		return q
	}
	if len(q.Shapes) > 0 {
		q.Shapes = followShapes(q.Shapes, real)
	}
	to := RealPath(q.Values[0], real)
	if to == "" || slices.Contains(q.Values, to) {
		return q
	}
	q.Values = append(slices.Clone(q.Values), to)
	if q.Root != "" && !below(q.Root, to) {
		q.RulesOnly = false
	}
	return q
}
