//go:build !linux

package registry

import (
	"io"
	"os"

	"github.com/gofrs/flock"
)

// holdFile is only needed where a lock can be asked for without being taken.
func holdFile(*os.Root) (io.Closer, error) { return io.NopCloser(nil), nil }

// held takes the lock for a moment; Lock tries several times because of it.
func held(f *os.File) (bool, error) {
	lock := flock.New(f.Name())
	ok, err := lock.TryRLock()
	if err != nil {
		return false, err
	}
	return !ok, lock.Close()
}
