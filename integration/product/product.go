// Package product builds the pioneer-super binary for the tests that run it.
//
// It refuses to know what the binary does.
package product

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/sources"
)

// BinaryVar names the variable that holds a binary to test; without it one is
// built from the sources.
const BinaryVar = "PIONEER_TEST_BINARY"

var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Binary returns the path of the binary, in a directory that only the user who
// runs the tests may write to. It is built once per process; Remove takes it
// away. Binary is safe for concurrent use.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() { built.path, built.err = build() })
	if built.err != nil {
		t.Fatalf("product: %v", built.err)
	}
	return built.path
}

func build() (string, error) {
	if path := os.Getenv(BinaryVar); path != "" {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("%s is %q; expected an absolute path", BinaryVar, path)
		}
		_, err := os.Stat(path)
		return path, err
	}
	root, err := sources.Root()
	if err != nil {
		return "", err
	}
	if built.dir, err = os.MkdirTemp("", "pioneer-super-"); err != nil {
		return "", err
	}
	path := filepath.Join(built.dir, "pioneer-super")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/pioneer-super")
	cmd.Dir = root
	// As it is shipped: a static program starts faster.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// Remove removes what Binary built. A TestMain calls it after the last test.
func Remove() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}
