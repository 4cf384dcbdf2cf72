//go:build linux

// Package shells_test proves completion as its users meet it: in the shells themselves, before a
// terminal, with Tab, and with live locks in a real lockdb. bash is on every machine; zsh and fish
// stand behind the tag shells, and `make shells` installs them where that is Debian. There is no
// package of PowerShell to install: its script is only looked at by the end-to-end tests, and is
// offered only what no shell has to quote.
package shells_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// TestMain is the program itself where the test binary is started under its name, which is how
// the shells start it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "dlockctl" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
	}
	pgtest.Main(m)
}
