// Package version is the version verb.
package version

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), a) },
	}
}

func runVersion(_ context.Context, a *app.App) error {
	info := read()
	if a.Format() == ui.Table {
		built := info.Commit
		if built == "" {
			built = "unknown commit"
		}
		if info.Dirty {
			built += ", modified"
		}
		_, err := fmt.Fprintf(a.Streams.Out, "dlockctl %s (%s, %s)\n", info.Version, built, info.Go)
		return err
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

// read takes everything from what the linker recorded: a constant kept by hand
// drifts.
func read() Info {
	info := Info{
		Version: "(devel)", Go: runtime.Version(), Modules: []Module{},
		SchemaVersions: map[string]Range{"lockdb": {postgres.MinSchema, postgres.MaxSchema}},
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			info.Dirty = s.Value == "true"
		}
	}
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		info.Modules = append(info.Modules, Module{m.Path, m.Version})
	}
	return info
}
