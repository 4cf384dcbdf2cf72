// Command dlockctl takes, shows and revokes fenced locks on PostgreSQL.
package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	_ "github.com/dlockctl/dlockctl/cmd/dlockctl/early" // what comes before the libraries
	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func main() {
	// Package early has put the first collection of garbage off. A verb that is over in a
	// moment never makes one; who runs on collects as usual.
	if os.Getenv("GOGC") == "" {
		time.AfterFunc(time.Second, func() { debug.SetGCPercent(100) })
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
}
