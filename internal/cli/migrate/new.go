package migrate

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newNewCmd(a *app.App) *cobra.Command {
	var target, dir string
	cmd := &cobra.Command{
		Use:     "new DESCRIPTION --target lockdb|paydb",
		Short:   "Create the next migration file",
		Long:    "Create V<n>__<description>.sql with a header to fill in, below --dir, which is the source tree's migrations folder.",
		Example: "  dlockctl migrate new 'add lock note' --target lockdb --dir migrations",
		Args:    app.Args("DESCRIPTION"),
		RunE:    a.Run(func(_ context.Context, args []string) error { return runNew(a, args[0], target, dir) }),
	}
	cmd.Flags().StringVar(&target, "target", "", "lockdb or paydb (required)")
	cmd.Flags().StringVar(&dir, "dir", "migrations", "folder that holds lockdb and paydb")
	return cmd
}

func runNew(a *app.App, description, target, dir string) error {
	if target != targetLock && target != targetPay {
		return app.UsageError("give --target lockdb or --target paydb", "--target %q names no folder of migrations", target)
	}
	path, err := flyway.NewFile(filepath.Join(dir, target), description)
	if err != nil {
		return app.UsageError("", "%v", err)
	}
	type result struct {
		Path string `json:"path"`
	}
	return a.Print(ui.View{Data: result{path}, Columns: []ui.Column{{Title: "CREATED", Field: "path"}}, Name: "path"})
}
