// Package version is the version verb.
package version

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/buildinfo"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Info is what this program is.
type Info struct {
	Version string   `json:"version"`
	Commit  string   `json:"commit"`
	Dirty   bool     `json:"dirty"`
	Go      string   `json:"go"`
	Modules []Module `json:"modules"`
	// SchemaVersions are the versions of each database that it works with.
	SchemaVersions map[string]Range `json:"schema_versions"`
}

// Module is a module linked into the program.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// Range is a range of schema versions, both ends included.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// New returns the version command.
func New(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this program is",
		Long: "Show the version, the commit it was built from and, with -o json, the modules linked in\n" +
			"and the schema versions it works with. It opens no database.",
		Example: "  dlockctl version\n  dlockctl version -o json",
		Args:    app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVersion(cmd.Context(), a, cmd.Flags().Changed("columns"))
		},
	}
}

// runVersion prints one line, and a table to whoever picks its columns.
func runVersion(_ context.Context, a *app.App, columns bool) error {
	built := buildinfo.Read()
	if a.Format() == ui.Table && !columns {
		_, err := fmt.Fprint(a.Streams.Out, built.Line())
		return err
	}
	info := Info{
		Version: built.Version, Commit: built.Commit, Dirty: built.Dirty, Go: built.Go, Modules: modules(),
		SchemaVersions: map[string]Range{
			"lockdb": {postgres.MinSchema, postgres.MaxSchema},
			"paydb":  {paystore.MinSchema, paystore.MaxSchema},
		},
	}
	return a.Print(ui.View{
		Data: info,
		Columns: []ui.Column{
			{Title: "VERSION", Field: "version"},
			{Title: "COMMIT", Field: "commit"},
			{Title: "DIRTY", Field: "dirty"},
			{Title: "GO", Field: "go"},
			{Title: "SCHEMA", Field: "schema_versions"},
		},
		Name: "version",
	})
}

// modules are those linked in, as the linker recorded them.
func modules() []Module {
	linked := []Module{}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return linked
	}
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		linked = append(linked, Module{m.Path, m.Version})
	}
	return linked
}
