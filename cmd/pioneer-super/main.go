// Command pioneer-super supervises trees of coding agents: it starts and tracks
// their processes, brings the asks of any descendant to whoever may answer, gives
// no child more than its parent has, and runs shell tools in the operating
// system's own sandbox.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/getpioneer/pioneer-super/integration"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/keeper"
)

func main() {
	// The names under which this binary starts itself come before anything else:
	// before flags, before a logger, before the environment is looked at.
	switch filepath.Base(os.Args[0]) {
	case keeper.KeeperName:
		os.Exit(keeper.Main())
	case keeper.StageName:
		os.Exit(keeper.StageMain())
	case keeper.RoomName:
		os.Exit(keeper.RoomMain())
	case keeper.HolderName:
		os.Exit(keeper.HolderMain())
	case supervisor.Name:
		os.Exit(supervisor.Main(supervisor.Options{Build: build(), Adapters: integration.Adapters()}))
	case "sh", "bash", "zsh", "-sh", "-bash", "-zsh":
		surviveBrokenPipes()
		os.Exit(shellLink(os.Args))
	}
	surviveBrokenPipes()
	os.Exit(run(context.Background(), os.Args))
}

// surviveBrokenPipes keeps the exit status ours when nobody reads what is said. A
// handler and not SIG_IGN: what is ignored stays ignored in what is started.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func run(ctx context.Context, args []string) int {
	err := newApp().RunContext(ctx, args)
	if err == nil {
		return 0
	}
	code := 2
	if e, ok := err.(exitError); ok {
		code = e.code
		if e.text == "" {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, "pioneer-super: "+legible(err.Error()))
	return code
}

// exitError carries the status that the process leaves with.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return e.text }

func exit(code int, format string, args ...any) error {
	return exitError{code, fmt.Sprintf(format, args...)}
}

// build names this binary: version and revision, as far as they are known.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	out := info.Main.Version
	if out == "" {
		out = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out += " " + s.Value
		}
	}
	return out
}
