package runbook_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// TestMain is the program itself where the test binary is started under its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
	}
	etcdtest.Main(m, pgtest.Main)
}
