package dev

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/migrate"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/flyway"
)

func newUpCmd(a *app.App) *cobra.Command {
	var noSeed bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make and start the databases, with schemas and seeds",
		Long: "Make what is missing, start what is stopped, apply the schemas and the synthetic accounts.\n" +
			"Running it again changes nothing. The servers run on until dlockctl dev down.",
		Example: "  dlockctl dev up\n  dlockctl dev up --no-seed --pg-bin /usr/lib/postgresql/16/bin",
		Args:    app.Args(),
		RunE:    a.RunWithin(upWithin, func(ctx context.Context, _ []string) error { return runUp(ctx, a, !noSeed) }),
	}
	cmd.Flags().BoolVar(&noSeed, "no-seed", false, "leave the synthetic accounts out")
	return cmd
}

func runUp(ctx context.Context, a *app.App, seed bool) error {
	env, err := a.Dev()
	if err != nil {
		return err
	}
	status, err := env.Up(ctx)
	if err != nil {
		return err
	}
	if _, err := Apply(ctx, a, env, seed); err != nil {
		return err
	}
	warnIfUnused(a)
	return printStatus(a, status)
}

// Apply migrates both embedded databases, whatever else is configured, and
// marks them as those of the embedded profile. Seeds
// that were applied once stay part of paydb's history (K-9.4).
func Apply(ctx context.Context, a *app.App, env *devenv.Env, seed bool) ([]migrate.Done, error) {
	both, err := Databases(env)
	if err != nil {
		return nil, err
	}
	if !seed {
		if seed, err = migrate.Seeded(ctx, both.Pay); err != nil {
			return nil, err
		}
	}
	found := []migrate.Target{
		{Name: devenv.LockDB, Config: both.Lock, Brief: true},
		{Name: devenv.PayDB, Config: both.Pay, Seed: seed, Brief: true},
	}
	if err := migrate.Belongs(ctx, config.DevEnvironment, found); err != nil {
		return nil, err
	}
	return migrate.Up(ctx, a, found, both, flyway.DefaultLockTimeout, config.DevEnvironment)
}

// Databases returns the addresses of both embedded databases.
func Databases(env *devenv.Env) (*migrate.Both, error) {
	both := &migrate.Both{}
	for _, db := range []struct {
		name   string
		dsn    func() (string, error)
		config **pgx.ConnConfig
	}{{devenv.LockDB, env.LockDSN, &both.Lock}, {devenv.PayDB, env.PayDSN, &both.Pay}} {
		dsn, err := db.dsn()
		if err != nil {
			return nil, err
		}
		// The error is left out: it may show what it could not read.
		if *db.config, err = pgx.ParseConfig(dsn); err != nil {
			return nil, fmt.Errorf("the DSN file of %s cannot be read as a connection string; dlockctl dev status names it", db.name)
		}
	}
	return both, nil
}

// warnIfUnused says so when the other commands would talk to something else.
func warnIfUnused(a *app.App) {
	cfg, err := a.Config()
	if err != nil || cfg.Embedded() {
		return
	}
	for _, key := range []string{"lock.dsn", "lock.dsn_file", "pay.dsn", "pay.dsn_file"} {
		if origin := cfg.Origin(key); origin.Name != "" {
			a.Warn("other commands do not use these databases: %s is set by %s", key, origin)
		}
	}
}
