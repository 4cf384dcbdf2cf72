package owner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A prepared transaction in the way is named by its name, and not even terminate
// ends it: only who prepared it may decide it.
//
// Clauses: K-7.4
// Mutation: drop the prepared transactions from blockersOf, or the Prepared case of terminate.
func TestPreparedTransactionInTheWay(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	db := pgtest.DB{Server: single.Server, Name: "postgres"}
	exec(t, db.Conn(t, "super"), `ALTER SYSTEM SET max_prepared_transactions = 4`)
	single.Stop(t)
	single.Start(t)
	super := db.Conn(t, "super")
	exec(t, super, `CREATE TABLE busy (n INT)`)
	exec(t, super, `ALTER TABLE busy OWNER TO dlock_owner`)
	exec(t, super, `BEGIN; LOCK TABLE busy; PREPARE TRANSACTION 'left-behind'`)
	conn, err := owner.Open(t.Context(), owner.Options{Config: db.Config(t, "super"), Database: "it", LockTimeout: time.Second, Terminate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	lock := func() error {
		return conn.Run(t.Context(), "s", "lock it", func(ctx context.Context, tx *owner.Tx) error {
			_, err := tx.Do(ctx, "lock", `LOCK TABLE busy`)
			return err
		})
	}
	err = lock()
	blocked, ok := errors.AsType[*owner.BlockedError](err)
	if !ok || len(blocked.Blockers) != 1 || blocked.Blockers[0].Prepared != "left-behind" || !strings.Contains(err.Error(), `prepared transaction "left-behind"`) {
		t.Fatalf("behind a prepared transaction: %v", err)
	}
	exec(t, super, `ROLLBACK PREPARED 'left-behind'`)
	if err := lock(); err != nil {
		t.Errorf("once it was decided: %v", err)
	}
}

// Only the end of a queue is named and ended: the one that holds, not the one that
// waits behind it.
//
// Clauses: K-2.11
// Mutation: name everybody in the queue in blockersOf.
func TestOnlyTheHolderIsEnded(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	holder, waiter := dbs.Lock.Conn(t, "super"), dbs.Lock.Conn(t, "super")
	exec(t, holder, `BEGIN; LOCK TABLE lock_entry IN ROW EXCLUSIVE MODE`)
	waits := make(chan error, 1)
	go func() {
		_, err := waiter.PgConn().Exec(t.Context(), `BEGIN; LOCK TABLE lock_entry IN ACCESS EXCLUSIVE MODE; COMMIT`).ReadAll()
		waits <- err
	}()
	watch := dbs.Lock.Conn(t, "super")
	for waiting := false; !waiting; {
		if err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, int32(waiter.PgConn().PID())).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	conn, err := owner.Open(t.Context(), owner.Options{
		// The one that waited is ended too when it is not done by then.
		Config: dbs.Lock.Config(t, "super"), Database: "lockdb", LockTimeout: 3 * time.Second, Terminate: true,
		After: func(_ context.Context, statement string) error {
			told = append(told, statement)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	err = conn.Run(t.Context(), "s", "lock it", func(ctx context.Context, tx *owner.Tx) error {
		_, err := tx.Do(ctx, "lock", `LOCK TABLE lock_entry IN SHARE ROW EXCLUSIVE MODE`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Errorf("the one that waited was ended: %v", err)
	}
	if err := holder.Ping(t.Context()); err == nil {
		t.Error("the holder was not ended")
	}
	if got := strings.Join(told, ", "); got != "s: lock, s: commit" {
		t.Errorf("the hook was told %q", got)
	}
}

// Whatever the role's defaults, a change is durable when its commit returns and
// waits no longer than it was told.
//
// Clauses: K-1.4
// Mutation: drop settings from once.
func TestSettings(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	config := dbs.Lock.Config(t, "t_operator")
	config.RuntimeParams["synchronous_commit"] = "off"
	config.RuntimeParams["default_transaction_isolation"] = "serializable"
	conn, err := owner.Open(t.Context(), owner.Options{Config: config, Database: "lockdb", LockTimeout: 1234 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	var got string
	err = conn.Run(t.Context(), "s", "look", func(ctx context.Context, tx *owner.Tx) error {
		return tx.QueryRow(ctx, `SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('transaction_isolation'), current_setting('lock_timeout'), current_user)`).Scan(&got)
	})
	if err != nil || got != "on read committed 1234ms dlock_owner" {
		t.Errorf("%q, %v", got, err)
	}
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
