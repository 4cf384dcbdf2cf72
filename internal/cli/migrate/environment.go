package migrate

import (
	"context"
	"errors"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
)

// Belongs refuses, before anything is changed, a target that is marked as
// another environment than this: the profile may have the right name and the
// wrong address. One that is not marked, or has no schema yet, is nobody's.
func Belongs(ctx context.Context, environment string, found []Target) error {
	for _, t := range found {
		if t.Name == targetSyncGuard {
			continue // the application's database has no mark of ours
		}
		conn, err := connect(ctx, t.Name, t.Config)
		if err != nil {
			return err
		}
		err = unmarkedOr(instance.CheckEnvironment(ctx, conn, t.Name, environment))
		closeConn(ctx, conn)
		if err != nil {
			return err
		}
	}
	return nil
}

// unmarkedOr takes a database without the table for one without a mark.
func unmarkedOr(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == pgerrcode.UndefinedTable {
		return nil
	}
	return err
}

// mark writes the environment into each target, once.
func mark(ctx context.Context, environment string, found []Target) error {
	if environment == "" {
		return nil
	}
	for _, t := range found {
		if t.Name == targetSyncGuard {
			continue // the application's database has no place for one
		}
		conn, err := connect(ctx, t.Name, t.Config)
		if err != nil {
			return err
		}
		err = instance.MarkEnvironment(ctx, conn, t.Name, environment)
		closeConn(ctx, conn)
		if err != nil {
			return err
		}
	}
	return nil
}

// guard is what stands before every change of a schema: the confirmation of a
// protected profile, its badge, and the environment of each target and of the
// other database, which is told the identity of its peer.
func guard(ctx context.Context, a *app.App, found []Target, both *Both) error {
	if err := a.Protect(); err != nil {
		return err
	}
	a.Badge()
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	return Belongs(ctx, cfg.Environment, append(found[:len(found):len(found)], both.others(found)...))
}

// others is the database of both that is not among found.
func (b *Both) others(found []Target) []Target {
	if b == nil || len(found) != 1 {
		return nil
	}
	if found[0].Name != targetPay {
		return []Target{{Name: targetPay, Config: b.Pay}}
	}
	return []Target{{Name: targetLock, Config: b.Lock}}
}
