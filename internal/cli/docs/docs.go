// Package docs is the verbs that write the reference out: man pages, markdown
// and the definition of the command line, which a test compares with the
// committed one.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the docs command.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "docs",
		Short:   "Write man pages and the reference of all verbs",
		Example: "  dlockctl docs man ./man\n  dlockctl docs markdown ./reference\n  dlockctl docs definition",
	}
	cmd.AddCommand(
		newTreeCmd(a, "man", "Write a man page for each verb", func(root *cobra.Command, dir string) error {
			// Without a date the generator takes today's, and no two builds are alike.
			epoch := time.Unix(0, 0).UTC()
			return doc.GenManTree(root, &doc.GenManHeader{Title: "DLOCKCTL", Section: "1", Source: "dlockctl", Manual: "dlockctl", Date: &epoch}, dir)
		}),
		newTreeCmd(a, "markdown", "Write a markdown page for each verb", doc.GenMarkdownTree),
		newDefinitionCmd(a),
	)
	return app.Group(cmd)
}

// newTreeCmd is a verb that writes a file for each command into a folder.
func newTreeCmd(a *app.App, format, short string, write func(root *cobra.Command, dir string) error) *cobra.Command {
	return &cobra.Command{
		Use:     format + " FOLDER",
		Short:   short,
		Long:    short + " into FOLDER, which is made if it is missing.",
		Example: "  dlockctl docs " + format + " ./" + format,
		Args:    app.Args("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: pages are for everybody to read
				return app.UsageError("give a folder that can be made", "make the folder %q: %v", dir, err)
			}
			if err := write(cmd.Root(), dir); err != nil {
				return app.UsageError("give a folder that can be written", "write the pages: %v", err)
			}
			return printed(a, dir)
		},
	}
}

// Written is what was written.
type Written struct {
	Folder string `json:"folder"`
	Pages  int    `json:"pages"`
}

func printed(a *app.App, dir string) error {
	pages, err := fs.Glob(os.DirFS(dir), "dlockctl*")
	if err != nil {
		return fmt.Errorf("count the pages: %w", err)
	}
	return a.Print(ui.View{
		Data:    Written{filepath.Clean(dir), len(pages)},
		Columns: []ui.Column{{Title: "FOLDER", Field: "folder"}, {Title: "PAGES", Field: "pages", Kind: ui.Number}},
		Name:    "folder",
	})
}
