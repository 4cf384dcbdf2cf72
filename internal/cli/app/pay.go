package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Pay opens paydb for a purpose, once. See [paystore.Open] for its errors; they
// have their rows in the error table.
func (a *App) Pay(ctx context.Context, purpose paystore.Purpose) (*paystore.DB, error) {
	if a.pay != nil && purpose <= a.payPurpose {
		return a.pay, nil
	}
	db, err := a.openPay(ctx, a.PayConfig, purpose)
	if err != nil {
		return nil, err
	}
	if a.pay != nil {
		a.pay.Close()
	}
	a.pay, a.payPurpose = db, purpose
	return db, nil
}

// Rail opens paydb for changes as the one who writes the rail's marks (K-4.6), once.
func (a *App) Rail(ctx context.Context) (*paystore.DB, error) {
	if a.rail != nil {
		return a.rail, nil
	}
	db, err := a.openPay(ctx, a.RailConfig, paystore.Changing)
	if err != nil {
		return nil, err
	}
	a.rail = db
	return db, nil
}

func (a *App) openPay(ctx context.Context, address func() (*pgx.ConnConfig, error), purpose paystore.Purpose) (*paystore.DB, error) {
	opts, err := a.payOptions(address, purpose)
	if err != nil {
		return nil, err
	}
	return paystore.Open(ctx, opts)
}

// payOptions say how paydb is opened for a purpose.
func (a *App) payOptions(address func() (*pgx.ConnConfig, error), purpose paystore.Purpose) (paystore.Options, error) {
	cfg, err := a.Config()
	if err != nil {
		return paystore.Options{}, err
	}
	opts := paystore.Options{AllowSameInstance: cfg.SharesInstance(), Environment: cfg.Environment, Purpose: purpose, MaxConns: 1}
	if opts.Config, err = address(); err != nil {
		return paystore.Options{}, err
	}
	if purpose >= paystore.Changing {
		if opts.PeerConfig, err = a.lockPeer(cfg); err != nil {
			return paystore.Options{}, err
		}
		a.Badge()
	}
	a.warnSameInstance(cfg)
	return opts, nil
}

// lockPeer is where lockdb is, nil where nobody says.
func (a *App) lockPeer(cfg *config.Config) (*pgx.ConnConfig, error) {
	if cfg.Backend == config.Etcd || !cfg.Lock.Configured() && !cfg.Embedded() {
		return nil, nil
	}
	return a.lockConfig()
}
