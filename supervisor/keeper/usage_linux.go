package keeper

import (
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/registry"
)

// usage is what the processes of this keeper used that it has waited for, and what
// those had waited for (getrusage(2), RUSAGE_CHILDREN).
func usage() registry.Usage {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &r) != nil {
		return registry.Usage{}
	}
	return registry.Usage{CPUMicros: (r.Utime.Nano() + r.Stime.Nano()) / 1000, MaxMemory: r.Maxrss << 10}
}
