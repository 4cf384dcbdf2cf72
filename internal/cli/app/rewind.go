package app

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// Rewinder opens lockdb's token source for a purpose. The caller closes it. With
// terminate it ends who is in the way of its locks. See [postgres.OpenRewinder]
// for its errors; they have their rows in the error table.
func (a *App) Rewinder(ctx context.Context, purpose postgres.Purpose, terminate bool) (*postgres.Rewinder, error) {
	opts, err := a.lockOptions(purpose)
	if err != nil {
		return nil, err
	}
	return postgres.OpenRewinder(ctx, postgres.RewindOptions{Options: opts, Terminate: terminate})
}

// Floors opens paydb's floors and gate for a purpose, nil when there is no paydb
// that anybody knows of. The caller closes them. See [floor.Open] for its errors.
func (a *App) Floors(ctx context.Context, purpose paystore.Purpose, terminate bool) (*floor.Keeper, error) {
	opts, err := a.payOptions(a.PayConfig, purpose)
	var failure *Failure
	if errors.As(err, &failure) && failure.Code == "no_database" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return floor.Open(ctx, floor.Options{Options: opts, Terminate: terminate})
}

// ReadDSNFile reads how to reach a database from a file that a flag names. No
// error of it shows what is in the file.
func ReadDSNFile(flag, path string) (*pgx.ConnConfig, error) {
	if config.IsDSN(path) {
		return nil, UsageError("write it into a file of mode 0600 and give its path", "--%s is a connection string, not the path of a file", flag)
	}
	dsn, err := config.Database{DSNFile: path}.Read()
	if err != nil {
		return nil, UsageError("", "%v (from --%s)", err, flag)
	}
	parsed, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, UsageError("write postgres://user@host/database or host=… dbname=… user=…", "the connection string in %s is malformed (from --%s)", path, flag)
	}
	return parsed, nil
}
