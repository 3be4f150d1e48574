//go:build !linux

package liveness

import "errors"

func open(Process) (handle, error) { return nil, errors.ErrUnsupported }
