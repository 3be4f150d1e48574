package integration

import (
	"fmt"
	"os"
	"testing"

	"github.com/getpioneer/pioneer-super/integration/product"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := product.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
