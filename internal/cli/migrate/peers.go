package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Both are the addresses of the two databases.
type Both struct{ Lock, Pay *pgx.ConnConfig }

// bothDatabases returns both addresses, or nil when the command knows only one
// of them: then nothing can be compared.
func bothDatabases(a *app.App, found []Target) (*Both, error) {
	cfg, err := a.Config()
	if err != nil || found[0].Name == targetSyncGuard { // which comes first, and has no peer
		return nil, err
	}
	if !cfg.Embedded() && !(cfg.Lock.Configured() && cfg.Pay.Configured()) {
		return nil, nil
	}
	both := &Both{}
	if both.Lock, err = a.LockConfig(); err != nil {
		return nil, err
	}
	both.Pay, err = a.PayConfig()
	return both, err
}

func (b *Both) connected(ctx context.Context, use func(lock, pay *pgx.Conn) error) error {
	lock, err := connect(ctx, targetLock, b.Lock)
	if err != nil {
		return err
	}
	defer closeConn(ctx, lock)
	pay, err := connect(ctx, targetPay, b.Pay)
	if err != nil {
		return err
	}
	defer closeConn(ctx, pay)
	return use(lock, pay)
}

// separate refuses to change two databases of one instance (K-6.1).
func (b *Both) separate(ctx context.Context, a *app.App) error {
	cfg, err := a.Config()
	if err != nil || b == nil || cfg.AllowSameInstance {
		return err
	}
	return b.connected(ctx, func(lock, pay *pgx.Conn) error {
		lockFacts, err := instance.Read(ctx, lock)
		if err != nil {
			return fmt.Errorf("lockdb: %w", err)
		}
		payFacts, err := instance.Read(ctx, pay)
		if err != nil {
			return fmt.Errorf("paydb: %w", err)
		}
		if lockFacts.SystemIdentifier == payFacts.SystemIdentifier {
			return lockstore.ErrSameInstance
		}
		return errors.Join(lockFacts.CheckVersion(), payFacts.CheckVersion())
	})
}

// recordPeers tells each database the identity of the other's instance, so
// that a program which knows one of them can compare (K-6.1).
func (b *Both) recordPeers(ctx context.Context, a *app.App) error {
	if b == nil {
		return nil
	}
	return b.connected(ctx, func(lock, pay *pgx.Conn) error {
		_, _, err := instance.RecordPeers(ctx, lock, pay)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == pgerrcode.UndefinedTable {
			a.Warn("the instances' identities are not recorded yet: the other database is not migrated; run dlockctl migrate up --target all")
			return nil
		}
		return err
	})
}
