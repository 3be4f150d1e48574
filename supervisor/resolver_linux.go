package supervisor

import (
	"strings"

	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

// resolver answers the shell analysis from the keeper's view.
type resolver struct {
	k    *keeperProcess
	path string
	s    *session
	seen map[string]keeper.File
}

func (r *resolver) find(word string) keeper.File {
	if f, ok := r.seen[word]; ok {
		return f
	}
	f, err := r.k.question(keeper.Order{Lookup: &keeper.Lookup{Word: word, Path: r.path}})
	if err != nil {
		f = keeper.File{Error: err.Error()}
	}
	if len(r.seen) < 4096 {
		r.seen[word] = f
	}
	return f
}

// inspect looks at a path, not along PATH. Its answers are kept apart: a word and
// a path may be spelled the same.
func (r *resolver) inspect(path string) keeper.File {
	key := "\x00" + path
	if f, ok := r.seen[key]; ok {
		return f
	}
	f, err := r.k.question(lookupOrder(path, "", false))
	if err != nil {
		return keeper.File{}
	}
	if len(r.seen) < 4096 {
		r.seen[key] = f
	}
	return f
}

// Lookup implements shell.Resolver.
func (r *resolver) Lookup(word string) (string, bool, bool) {
	f := r.find(word)
	if f.Kind != "file" {
		return "", false, false
	}
	return f.Real, r.s.mayWrite(f.Real), true
}

// Exists implements shell.Resolver.
func (r *resolver) Exists(path string) bool { return r.inspect(path).Kind != "" }

// mayWrite says whether the session can change that file: now, or with what a
// human may still open for it. For an unconfined session, which can change what
// its operator can, it is the workspace that counts: the rest is said by
// "advisory".
func (s *session) mayWrite(path string) bool {
	if w := s.snap.Sandbox.Workspace; w != "" && strings.HasPrefix(path, w+"/") {
		return true
	}
	return s.restricted() && s.snap.Open.CanWrite(path)
}
