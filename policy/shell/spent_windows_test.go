package shell

import (
	"testing"
	"time"
)

var began = time.Now()

// spent is the time so far.
func spent(testing.TB) time.Duration { return time.Since(began) }
