// Command dlockctl takes, shows and revokes fenced locks on PostgreSQL.
package main

import (
	"context"
	"os"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
}
