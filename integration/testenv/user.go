package testenv

import "testing"

// AsUser runs the calling test as an ordinary user: root can pass a test for
// the wrong reason.
//
// Called by an ordinary user, it returns true and the test goes on. Called by
// root, it runs the same test again in a child process with an unused uid, no
// groups, and a HOME, TMPDIR and XDG_RUNTIME_DIR of its own, passes on what the
// child printed and whether it failed or skipped, and returns false; the caller
// then returns:
//
//	if !testenv.AsUser(t) {
//		return
//	}
//
// The child's working directory is a copy of the test's own, so testdata is
// found where it always is. Each entry of env ("NAME=value") is added to the
// child's environment.
func AsUser(t *testing.T, env ...string) bool {
	t.Helper()
	return asUser(t, env)
}
