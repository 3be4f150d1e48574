package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/sandbox/seatbelt"
)

// probeTimeout is how long the sandbox may take to run a program that ends at once.
const probeTimeout = 10 * time.Second

// harmless is the program that the probe runs.
const harmless = "/usr/bin/true"

func probe() Host {
	const lack = "not Linux"
	h := Host{
		LandlockLack: lack, SeccompLack: lack, UserNamespacesLack: lack, PtraceScope: -1,
		Root: os.Geteuid() == 0, UID: os.Geteuid(), Kernel: productVersion(), Arch: runtime.GOARCH,
	}
	if err := probeSeatbelt(); err != nil {
		h.SeatbeltLack = err.Error()
		return h
	}
	h.Backend, h.Seatbelt = BackendSeatbelt, true
	h.SeatbeltExistence = runIn(seatbelt.ExistenceProbe()) == nil
	return h
}

func productVersion() string {
	version, err := unix.Sysctl("kern.osproductversion")
	if err != nil {
		return runtime.GOOS
	}
	return "macOS " + version
}

// probeSeatbelt runs a program in a profile that allows it, and then in one that allows
// nothing: a sandbox that lets both through is none.
func probeSeatbelt() error {
	allowed, err := seatbelt.Rules{Read: existing(macFolders)}.Profile()
	if err != nil {
		return err
	}
	if err := runIn(allowed); err != nil {
		return err
	}
	refused, err := seatbelt.Rules{}.Profile()
	if err != nil {
		return err
	}
	if runIn(refused) == nil {
		return fmt.Errorf("%s ran a program that its profile refuses", seatbelt.Program)
	}
	return nil
}

func existing(paths []string) []string {
	var out []string
	for _, path := range paths {
		if entry, err := System().Resolve(path); err == nil {
			out = append(out, entry.Path)
		}
	}
	return out
}

func runIn(p seatbelt.Profile) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	args := p.Args(harmless)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir = []string{}, "/"
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	if errors.As(err, &status) {
		const enough = 200
		return fmt.Errorf("%s: %w: %.*s", seatbelt.Program, err, enough, strings.TrimSpace(string(out)))
	}
	return err
}
