//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
)

func streamKind(fd int) (Kind, error) {
	return "", fmt.Errorf("descriptor %d: %w", fd, errors.ErrUnsupported)
}

func streamDirection(fd, stream int) error {
	return fmt.Errorf("descriptor %d as stream %d: %w", fd, stream, errors.ErrUnsupported)
}
