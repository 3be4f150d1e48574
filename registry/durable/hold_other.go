//go:build !linux

package durable

import (
	"errors"
	"os"
)

func hold(*os.File, int64, int64) error { return errors.ErrUnsupported }
