// Package migrate holds the verbs on the schemas of lockdb and paydb. The
// history is Flyway's own (K-9.1).
package migrate

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/flyway"
)

const (
	// upWithin is the deadline of up unless --timeout says otherwise: an index
	// over a full table takes what it takes.
	upWithin = time.Hour
	// within is the deadline of the others, above the time that the migration
	// lock is waited for.
	within = 2 * time.Minute
)

// New returns the migrate command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Keep the schemas of lockdb and paydb, or SyncGuard's tables",
		Long: "Apply and check the versioned schemas. The history is kept exactly as Flyway keeps it, so that\n" +
			"a service migrated by Flyway and dlockctl can share one database. On a new server, migrate\n" +
			"roles comes first. --target syncguard is the database of lock.dsn with the npm library's tables,\n" +
			"and has a history of its own (docs/syncguard.md).",
		Example: "  dlockctl migrate roles\n  dlockctl migrate up\n  dlockctl migrate status --target lockdb",
	}
	cmd.AddCommand(newStatusCmd(a), newUpCmd(a), newValidateCmd(a), newBaselineCmd(a), newRepairCmd(a), newNewCmd(a), newRolesCmd(a))
	return app.Group(cmd)
}

// options are what most verbs take.
type options struct {
	target      string
	audit       bool
	lockTimeout time.Duration
}

// longestLockTimeout is what --lock-timeout may say at most; PostgreSQL counts it in
// milliseconds of 32 bits.
const longestLockTimeout = 24 * time.Hour

func (o *options) targetFlag(flags *pflag.FlagSet) {
	flags.StringVar(&o.target, "target", targetAll, "lockdb, paydb, all or syncguard")
}

func (o *options) lockFlag(flags *pflag.FlagSet) {
	flags.DurationVar(&o.lockTimeout, "lock-timeout", flyway.DefaultLockTimeout, "how long to wait for another migration, and for each lock on a table")
}

// check refuses what no database needs to be asked about.
func (o *options) check() error {
	if o.lockTimeout <= 0 {
		return app.UsageError("give a duration above zero, such as 1s", "--lock-timeout %s does not wait at all", o.lockTimeout)
	}
	if o.lockTimeout > longestLockTimeout {
		return app.UsageError("give a shorter one, such as 30s", "--lock-timeout %s is above %s", o.lockTimeout, longestLockTimeout)
	}
	return nil
}
