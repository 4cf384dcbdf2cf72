package devenv

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// The copy of lockdb, and what it has replaced.
const (
	lockCopy = LockDB + "_copy"
	lockLost = LockDB + "_lost"
)

// CopyLockDB copies lockdb, exactly, into a database beside it: the copy has the
// system identifier and the timeline of lockdb, as a plain copy of the data folder
// would. It ends every connection to lockdb.
func (e *Env) CopyLockDB(ctx context.Context) error {
	return e.emptied(ctx, "copy lockdb", fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s OWNER %s", lockCopy, LockDB, instance.OwnerRole))
}

// PutBackLockDB puts the copy in lockdb's place, which is lost, and ends every
// connection to lockdb. There must be a copy.
func (e *Env) PutBackLockDB(ctx context.Context) error {
	// Sent as one, they are one transaction: without a copy lockdb stays.
	return e.emptied(ctx, "put the copy of lockdb back",
		fmt.Sprintf("ALTER DATABASE %s RENAME TO %s; ALTER DATABASE %s RENAME TO %s", LockDB, lockLost, lockCopy, LockDB))
}

// emptied runs a statement while nobody is connected to lockdb, nor can be.
func (e *Env) emptied(ctx context.Context, doing, statement string) error {
	p := e.instance(LockDB)
	there, err := p.load()
	if err != nil {
		return err
	}
	if !there {
		return &NotUpError{Name: LockDB, Dir: e.dir}
	}
	return p.as(ctx, "postgres", func(conn *pgx.Conn) (err error) {
		allow := func(ctx context.Context, allowed bool) error {
			if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %t", LockDB, allowed)); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
			return nil
		}
		if err := allow(ctx, false); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, allow(context.WithoutCancel(ctx), true)) }()
		// With a timeout it waits until they are gone.
		ends := "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + LockDB + "'"
		for _, sql := range []string{ends, statement} {
			if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
		}
		return nil
	})
}
