//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
)

func (p Profile) confine() error {
	return fmt.Errorf("sandbox backend %s: %w", p.Backend, errors.ErrUnsupported)
}
