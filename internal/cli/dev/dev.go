// Package dev holds the verbs on the embedded default: two PostgreSQL instances
// of the user's own, with both schemas and synthetic accounts.
package dev

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	// upWithin is the deadline of up unless --timeout says otherwise: it may
	// have to download PostgreSQL first.
	upWithin = 15 * time.Minute
	// within is that of stopping and removing.
	within = 2 * time.Minute
)

// New returns the dev command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the two embedded databases",
		Long: "Two separate PostgreSQL instances of your own, one for lockdb and one for paydb, under your\n" +
			"state folder. They are what every command uses when no other database is configured.",
		Example: "  dlockctl dev up\n  dlockctl dev status\n  dlockctl dev destroy --yes",
	}
	cmd.PersistentFlags().String("pg-bin", "", "folder of the PostgreSQL programs (default: search)") // read through the configuration
	cmd.AddCommand(newUpCmd(a), newDownCmd(a), newStatusCmd(a), newSeedCmd(a), newDestroyCmd(a))
	return app.Group(cmd)
}

func printStatus(a *app.App, status devenv.Status) error {
	return a.Print(ui.View{
		Data: status, Rows: status.Instances,
		Columns: []ui.Column{
			{Title: "INSTANCE", Field: "name"},
			{Title: "STATE", Field: "state", Tones: map[string]ui.Tone{
				string(devenv.Running): ui.Good, string(devenv.Starting): ui.Warn, string(devenv.Stopped): ui.Warn, string(devenv.Absent): ui.Faint,
			}},
			{Title: "POSTGRESQL", Field: "version"},
			{Title: "PORT", Field: "port", Kind: ui.Number, Blank: "0"},
			{Title: "PID", Field: "pid", Kind: ui.Number, Blank: "0"},
			{Title: "DSN FILE", Field: "dsn_file"},
			{Title: "SOCKET", Field: "socket_dir", Wide: true},
			{Title: "LOG", Field: "log_file", Wide: true},
			{Title: "PROGRAMS", Field: "pg_bin", Wide: true},
			{Title: "SYSTEM IDENTIFIER", Field: "system_identifier", Kind: ui.Number, Blank: "0", Wide: true},
		},
		Name: "name",
	})
}
