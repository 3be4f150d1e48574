//go:build unix && !linux

package control

import (
	"os"
	"path/filepath"
)

func short(dir *os.File, name string) string { return filepath.Join(dir.Name(), name) }
