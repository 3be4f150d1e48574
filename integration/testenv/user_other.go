//go:build !linux

package testenv

import "testing"

func asUser(t *testing.T, _ []string) bool {
	t.Helper()
	Need(t, "ordinary-user")
	return true
}
