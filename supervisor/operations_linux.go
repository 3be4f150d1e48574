package supervisor

import (
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/getpioneer/pioneer-super/registry"
)

// operationsName is the file of a tree for whoever has to find out why this
// program did not do what it should: what was decided is in the audit, and no
// decision depends on this one.
const operationsName = "supervisor.log"

// openOperations opens that file, and makes it standard error as well: a crash
// writes its trace there.
func openOperations(store *registry.Tree) (zerolog.Logger, error) {
	f, err := store.Root().OpenFile(operationsName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return zerolog.Nop(), err
	}
	if err := unix.Dup3(int(f.Fd()), 2, 0); err != nil {
		f.Close()
		return zerolog.Nop(), os.NewSyscallError("dup3", err)
	}
	f.Close()
	return zerolog.New(os.Stderr).With().Timestamp().Logger(), nil
}
