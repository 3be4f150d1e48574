//go:build !linux && !darwin

package durable

import (
	"errors"
	"fmt"
)

func network(path string) (string, bool, error) {
	return "", false, fmt.Errorf("kind of the file system of %s: %w", path, errors.ErrUnsupported)
}
