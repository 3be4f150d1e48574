//go:build linux || darwin

package spool

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/getpioneer/pioneer-super/forwarding/carriertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are options whose waits a test can sit out, and that a busy machine can
// keep: a beat may be a second and a half late.
func quick() Options {
	return Options{AllPeersBeat: true, Timeout: 3 * time.Second, Margin: 500 * time.Millisecond, Grace: 500 * time.Millisecond, Refresh: 50 * time.Millisecond, Stale: time.Second,
		Poll: 20 * time.Millisecond, Rescan: 300 * time.Millisecond, Retry: 50 * time.Millisecond}
}

func mustOpen(t testing.TB, root string, o Options) *Spool {
	t.Helper()
	s, err := Open(root, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	for name, polled := range map[string]bool{"notified": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			carriertest.Run(t, func(t *testing.T) carriertest.Pair {
				root := filepath.Join(t.TempDir(), "permission-forwarding")
				o := quick()
				o.NoNotify = polled
				return carriertest.Pair{Server: mustOpen(t, root, o), Requester: mustOpen(t, root, o), Grace: o.Grace, Timeout: o.Timeout}
			})
		})
	}
	t.Run("one carrier for both ends", func(t *testing.T) {
		carriertest.Run(t, func(t *testing.T) carriertest.Pair {
			o := quick()
			s := mustOpen(t, filepath.Join(t.TempDir(), "r"), o)
			return carriertest.Pair{Server: s, Requester: s, Grace: o.Grace, Timeout: o.Timeout}
		})
	})
}
