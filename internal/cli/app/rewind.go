package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// Rewinder opens lockdb's token source for a purpose. The caller closes it. With
// terminate it ends who is in the way of its locks. See [postgres.OpenRewinder]
// for its errors; they have their rows in the error table.
func (a *App) Rewinder(ctx context.Context, purpose Purpose, terminate bool) (lockstore.Rewinder, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	switch cfg.Backend {
	case config.Etcd:
		return a.etcdRewinder(ctx, cfg, purpose)
	case config.SyncGuard:
		return nil, WithHint(fmt.Errorf("the backend syncguard has no gate, and a counter for each key: %w", lockstore.ErrUnsupported),
			"to keep it from granting, stop its clients or take their right to connect (docs/syncguard.md)")
	}
	opts, err := a.lockOptions(purpose)
	if err != nil {
		return nil, err
	}
	return postgres.OpenRewinder(ctx, postgres.RewindOptions{Options: opts, Terminate: terminate})
}

// etcdRewinder is the cluster's revision, in the place of lockdb's sequence.
func (a *App) etcdRewinder(ctx context.Context, cfg *config.Config, purpose Purpose) (lockstore.Rewinder, error) {
	opts, err := a.etcdOptions(cfg, purpose)
	if err != nil {
		return nil, err
	}
	lock, err := etcd.OpenRewinder(ctx, opts)
	if err != nil {
		return nil, err
	}
	if purpose >= Changing {
		err = lock.CheckEnvironment(ctx, cfg.Environment)
	}
	if err != nil {
		lock.Close(ctx)
		return nil, err
	}
	return lock, nil
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

// payWithin bounds how long paydb may keep waiting what is lockdb's alone.
const payWithin = time.Second

// PayWithin is how long paydb may keep a grant waiting, or an answer about lockdb: its
// failures are not lockdb's (K-6.2). A paydb that is far away has its own time in its
// address, as connect_timeout.
func PayWithin(pay *pgx.ConnConfig) time.Duration { return cmp.Or(pay.ConnectTimeout, payWithin) }

// soon is an address whose connection is given up after [PayWithin].
func soon(pay *pgx.ConnConfig) *pgx.ConnConfig {
	soon := pay.Copy()
	soon.ConnectTimeout = PayWithin(pay)
	return soon
}

// payHighest returns what asks paydb, before the first grant, for its highest token
// (K-7.6). A paydb that does not answer keeps no lock from being granted: that its
// tokens are not known is said.
func (a *App) payHighest(config *pgx.ConnConfig) func(context.Context) (lockstore.Token, error) {
	return func(ctx context.Context) (lockstore.Token, error) {
		asked, cancel := context.WithTimeout(ctx, PayWithin(config))
		defer cancel()
		highest, err := floor.Highest(asked, config, paystore.Token(lockstore.MaxToken))
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			if a.asides() {
				a.Warn("the tokens of paydb are not known, so a lockdb that was copied back would not be noticed by them: %v", err)
			}
			return 0, nil
		}
		return lockstore.Token(highest), nil
	}
}

// ReadDSNFile reads how to reach a database from a file that a flag or a setting
// names; from is its name, as it is written. No error of it shows what is in the file.
func ReadDSNFile(from, path string) (*pgx.ConnConfig, error) {
	if config.IsDSN(path) {
		return nil, UsageError("write it into a file of mode 0600 and give its path", "%s is a connection string, not the path of a file", from)
	}
	dsn, err := config.Database{DSNFile: path}.Read()
	if err != nil {
		return nil, UsageError("", "%v (from %s)", err, from)
	}
	parsed, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, UsageError("write postgres://user@host/database or host=… dbname=… user=…", "the connection string in %s is malformed (from %s)", path, from)
	}
	return parsed, nil
}
