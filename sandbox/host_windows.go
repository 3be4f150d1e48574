package sandbox

import (
	"os"
	"runtime"

	"github.com/getpioneer/pioneer-super/sandbox/restricted"
)

func probe() Host {
	const lack = "not Linux"
	h := Host{
		LandlockLack: lack, SeccompLack: lack, UserNamespacesLack: lack, PtraceScope: -1,
		UID: os.Geteuid(), Kernel: runtime.GOOS, Arch: runtime.GOARCH,
	}
	if err := restricted.Probe(); err != nil {
		h.RestrictedTokensLack = err.Error()
	} else {
		h.RestrictedTokens = true
	}
	return h
}
