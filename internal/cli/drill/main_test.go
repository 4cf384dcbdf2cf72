//go:build linux

package drill_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const program = "dlockctl"

// TestMain is the program itself where the test binary is started under its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
	}
	os.Exit(m.Run())
}
