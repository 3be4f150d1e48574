package supervisor

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helpers are what this test binary does under another argv[0]: processes of the
// other side.
var helpers = map[string]func(args []string) int{}

func TestMain(m *testing.M) {
	if help := helpers[os.Args[0]]; help != nil {
		os.Exit(help(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}
