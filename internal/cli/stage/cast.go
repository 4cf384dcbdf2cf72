package stage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/migrate"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/scenario"
)

// cast opens what the players ask for.
type cast struct {
	both *migrate.Both
	env  *devenv.Env
	// failover sets lockdb back by a standby that is promoted, not by a copy.
	failover bool
}

func (c cast) on(lock, pay *pgx.Conn) scenario.Cast {
	rewind := &scenario.Rewind{
		Backup: c.env.CopyLockDB, PutBack: c.env.PutBackLockDB, Stores: c.stores, FastForward: restore.FastForward,
		Observe: func(ctx context.Context) (*pgx.Conn, error) { return connect(ctx, "lockdb", c.both.Lock) },
	}
	if c.failover {
		rewind.Prepare, rewind.Backup, rewind.PutBack, rewind.Promoted = c.env.StandBy, c.env.CutOff, c.env.FailOver, true
	}
	return scenario.Cast{Lock: lock, Pay: pay, Owner: pay, OpenPosting: c.money, OpenRail: c.money, Open: c.client, Rewind: rewind}
}

// client opens lockdb as a worker does that knows where paydb is (K-7.6).
func (c cast) client(ctx context.Context) (lockstore.Store, error) {
	opts := c.lockOptions(postgres.Granting)
	opts.PayHighest, opts.MaxConns = c.payHighest, 1
	return postgres.Open(ctx, opts)
}

func (c cast) lockOptions(purpose postgres.Purpose) postgres.Options {
	return postgres.Options{Config: c.both.Lock, PeerConfig: c.both.Pay, Environment: config.DevEnvironment, Purpose: purpose}
}

func (c cast) payOptions(purpose paystore.Purpose) paystore.Options {
	return paystore.Options{
		Config: c.both.Pay, PeerConfig: c.both.Lock, Environment: config.DevEnvironment, Purpose: purpose, MaxConns: 1,
	}
}

func (c cast) money(ctx context.Context) (*paystore.DB, error) {
	return paystore.Open(ctx, c.payOptions(paystore.Changing))
}

// payHighest returns the highest token that paydb holds.
func (c cast) payHighest(ctx context.Context) (highest lockstore.Token, err error) {
	keeper, err := floor.Open(ctx, floor.Options{Options: c.payOptions(paystore.Reading)})
	if err != nil {
		return 0, err
	}
	defer keeper.Close(ctx)
	readings, err := keeper.Evidence(ctx, paystore.Token(lockstore.MaxToken))
	if err != nil {
		return 0, err
	}
	for _, r := range readings {
		if r.Unavailable != "" {
			return 0, fmt.Errorf("read %s: %s", r.Source, r.Unavailable)
		}
		highest = max(highest, lockstore.Token(r.Value))
	}
	return highest, nil
}

// stores opens what a fast-forward works on.
func (c cast) stores(ctx context.Context) (restore.Stores, func(context.Context), error) {
	lock, err := postgres.OpenRewinder(ctx, postgres.RewindOptions{Options: c.lockOptions(postgres.Changing)})
	if err != nil {
		return restore.Stores{}, nil, err
	}
	pay, err := floor.Open(ctx, floor.Options{Options: c.payOptions(paystore.Changing)})
	if err != nil {
		lock.Close(ctx)
		return restore.Stores{}, nil, err
	}
	return restore.Stores{Lock: lock, Pay: pay}, func(ctx context.Context) {
		lock.Close(ctx)
		pay.Close(ctx)
	}, nil
}
