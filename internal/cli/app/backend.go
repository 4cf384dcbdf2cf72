package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// Purpose says what a store is opened for, and so what must hold: a word of every
// backend's.
type Purpose = postgres.Purpose

// The purposes; each includes what those before it want.
const (
	Reading  = postgres.Reading
	Changing = postgres.Changing
	Granting = postgres.Granting
)

// OpenStore opens the lock store for a purpose.
type OpenStore func(ctx context.Context, purpose Purpose) (lockstore.Store, error)

// backendFlags are the flags that say what keeps the locks, read through the
// configuration.
func backendFlags(flags *pflag.FlagSet) {
	flags.String("backend", "", "`NAME` of what keeps the locks: "+strings.Join(config.Backends(), ", ")+" (default "+config.Postgres+")")
	flags.String("etcd-endpoints", "", "client `ADDRESSES` of the etcd cluster's members, https://host:port, parted by commas")
}

// opener says how the store of the configured backend is opened for a purpose. What
// is wrong with its address is said here; nothing is sent yet.
func (a *App) opener(cfg *config.Config, purpose Purpose) (func(context.Context) (lockstore.Store, error), error) {
	switch cfg.Backend {
	case config.Etcd:
		opts, err := a.etcdOptions(cfg, purpose)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (lockstore.Store, error) {
			return opened(openEtcd(ctx, opts, cfg.Environment))
		}, nil
	case config.SyncGuard:
		opts, err := a.syncGuardOptions(cfg, purpose)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (lockstore.Store, error) { return opened(syncguard.Open(ctx, opts)) }, nil
	default:
		opts, err := a.lockOptions(purpose)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (lockstore.Store, error) { return opened(postgres.Open(ctx, opts)) }, nil
	}
}

// syncGuardOptions say how SyncGuard's tables are reached. They have no mark of an
// environment: the database is the application's.
func (a *App) syncGuardOptions(cfg *config.Config, purpose Purpose) (syncguard.Options, error) {
	address, err := a.LockConfig()
	if err != nil {
		return syncguard.Options{}, err
	}
	if purpose >= Changing {
		a.Badge()
	}
	return syncguard.Options{
		Config: address, LockTable: cfg.SyncGuard.LockTable, FenceTable: cfg.SyncGuard.FenceTable, MaxConns: 1,
		FenceWarning: func(keyHash string, token lockstore.Token) {
			a.Warn("the counter of key %s stands at %s, near the end of SyncGuard's 15 digits: move to another key in time", keyHash, token)
		},
	}, nil
}

// opened is a store, or none at all: a nil pointer in the interface would not be nil.
func opened[S lockstore.Store](store S, err error) (lockstore.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Lacks refuses what the backend does not have, by its name, and says what does
// instead.
func Lacks(store lockstore.Store, what, instead string) error {
	return WithHint(fmt.Errorf("the backend %s has no %s: %w", store.Capabilities().Backend, what, lockstore.ErrUnsupported), instead)
}
