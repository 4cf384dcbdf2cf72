package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// autoOperator is who the audit names for a fast-forward without a person.
const autoOperator = "lock-server (restore.auto)"

// AutoRestore is a fast-forward without a person (K-7.10). observed is the highest
// token that the process has shown, 0 for none.
type AutoRestore func(ctx context.Context, observed lockstore.Token) (restore.AutoOutcome, error)

// AutoRestore returns what lock-server calls when lockdb grants nothing, nil when the
// policy is off. It refuses a policy that could never be carried out. Each call opens
// and closes connections of its own, under the operators' logins.
func (a *App) AutoRestore() (AutoRestore, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	on, err := cfg.AutoRestore()
	switch {
	case err != nil:
		return nil, UsageError("", "%v", err)
	case !on:
		return nil, nil
	}
	return func(ctx context.Context, observed lockstore.Token) (restore.AutoOutcome, error) {
		stores, closeAll, err := a.autoStores(ctx, cfg)
		if err != nil {
			return restore.AutoOutcome{}, err
		}
		defer closeAll()
		return restore.AutoSafe(ctx, stores, restore.AutoOptions{Operator: autoOperator, Observed: observed})
	}, nil
}

// autoStores opens both databases as the operators do. A paydb that does not answer is
// evidence that is missing.
func (a *App) autoStores(ctx context.Context, cfg *config.Config) (stores restore.Stores, closeAll func(), err error) {
	closers := []func(context.Context){}
	closeOpened := func() { // not closeAll, which an error's return takes away
		ctx, cancel := CleanUp(ctx)
		defer cancel()
		for _, closeOne := range closers {
			closeOne(ctx)
		}
	}
	defer func() {
		if err != nil {
			closeOpened()
		}
	}()
	lockConfig, err := ReadDSNFile("restore.operator_dsn_file", cfg.Restore.OperatorDSNFile)
	if err != nil {
		return stores, nil, err
	}
	var payConfig *pgx.ConnConfig
	if !cfg.NoPayments {
		if payConfig, err = ReadDSNFile("restore.pay_operator_dsn_file", cfg.Restore.PayOperatorDSNFile); err != nil {
			return stores, nil, err
		}
	}
	lock, err := postgres.OpenRewinder(ctx, postgres.RewindOptions{Options: postgres.Options{
		Config: lockConfig, PeerConfig: payConfig, Environment: cfg.Environment, Purpose: postgres.Changing,
		AllowSameInstance: cfg.AllowSameInstance, MaxConns: 1,
	}})
	if err != nil {
		return stores, nil, err
	}
	stores.Lock, closers = lock, append(closers, lock.Close)
	stores.NoPayments = cfg.NoPayments
	if payConfig != nil {
		pay, payErr := floor.Open(ctx, floor.Options{Options: paystore.Options{
			Config: payConfig, PeerConfig: lockConfig, Environment: cfg.Environment, Purpose: paystore.Changing,
			AllowSameInstance: cfg.AllowSameInstance, MaxConns: 1,
		}})
		if payErr != nil {
			stores.PayProblem = payErr
		} else {
			stores.Pay, closers = pay, append(closers, pay.Close)
		}
	}
	deployment, err := lock.Deployment(ctx)
	if err != nil {
		return stores, nil, err
	}
	if stores.Mark, err = mark.Open(cfg.MarkDir, deployment.ID); err != nil {
		return stores, nil, err
	}
	return stores, closeOpened, nil
}
