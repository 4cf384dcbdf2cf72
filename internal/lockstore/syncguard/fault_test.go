package syncguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// holding begins a transaction and holds in it what sql takes. It returns the
// process that does.
func holding(t *testing.T, b bundle, sql string) (*pgx.Conn, int32) {
	t.Helper()
	conn := b.db.Conn(t, "t_owner")
	for _, sql := range []string{`BEGIN`, sql} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return conn, int32(conn.PgConn().PID())
}

const (
	holdsAdvisory = `SELECT pg_advisory_xact_lock(hashtext('k'))`
	holdsRow      = `SELECT FROM syncguard_locks WHERE key = 'k' FOR UPDATE`
)

// A change behind another's transaction, be it in the key's advisory lock, where the
// library waits without end, or in its row, is BLOCKED and names the process. Nothing
// is changed, and show names it beforehand.
//
// Clauses: K-2.11
// Mutation: a lock_timeout of zero, or leave the advisory lock out of
// queries/blockers.sql.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{"advisory lock": holdsAdvisory, "row": holdsRow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				opts := options(t, b.db)
				opts.LockTimeout = 50 * time.Millisecond
				store := open(t, opts)
				standing := b.acquire(t, "k", time.Hour)
				_, pid := holding(t, b, hold)
				entry, err := b.store.Show(t.Context(), "k")
				if err != nil || len(entry.BlockedBy) != 1 || entry.BlockedBy[0] != pid {
					t.Errorf("shown %+v, %v, want blocked by %d", entry, err, pid)
				}
				_, acquired := store.Acquire(t.Context(), wants("k", time.Minute))
				_, renewed := store.Renew(t.Context(), "k", standing.Token, 2*time.Hour)
				_, released := store.Release(t.Context(), "k", standing.Token)
				_, revoked := store.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: standing.Token, Operator: "erin", Reason: "stuck"})
				for doing, err := range map[string]error{"acquire": acquired, "renew": renewed, "release": released, "revoke": revoked} {
					blocked, ok := errors.AsType[*lockstore.BlockedError](err)
					if !ok || blocked.Key != "k" || len(blocked.PIDs) != 1 || blocked.PIDs[0] != pid {
						t.Errorf("%s: %v (%+v), want blocked by %d", doing, err, blocked, pid)
					}
				}
				if now, err := b.store.Show(t.Context(), "k"); err != nil || now.Token != standing.Token || now.ExpiresAt != entry.ExpiresAt {
					t.Errorf("shown %+v, %v, want it unchanged", now, err)
				}
			})
		})
	}
}

// The key's advisory lock is the one-argument lock of hashtext, as the library takes
// it and an operator finds it.
//
// Clauses: K-10.2
// Mutation: hashtextextended in queries/lock_key.sql.
func TestAdvisoryKey(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		for key, class := range map[string]int64{"payment:42": 0, "\ud55c": 4294967295} {
			b.acquire(t, key, time.Hour)
			row, _ := holding(t, b, fmt.Sprintf(`SELECT FROM syncguard_locks WHERE key = '%s' FOR UPDATE`, key))
			var group errgroup.Group
			group.Go(func() error {
				_, err := b.store.Renew(t.Context(), key, 1, time.Hour)
				return err
			})
			b.waiting(t, 1)
			found := one[bool](t, b, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = $2
				AND objid::bigint = hashtext($1)::bigint & 4294967295)`, key, class)
			if !found {
				t.Errorf("%s: no advisory lock of class %d on its hashtext", key, class)
			}
			if _, err := row.Exec(t.Context(), `COMMIT`); err != nil {
				t.Fatal(err)
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A try that is given up while it is blocked changes nothing afterwards; the
// library's goes on and acquires.
//
// Clauses: K-10.2
// Mutation: take the locks under a context of their own.
func TestGivenUpWhileBlocked(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	opts := options(t, b.db)
	opts.LockTimeout = time.Hour
	store := open(t, opts)
	other, _ := holding(t, b, holdsAdvisory)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := store.Acquire(ctx, wants("k", time.Minute))
		answer <- err
	}()
	b.waiting(t, 1)
	cancel()
	pgtest.Eventually(t, "the server gives up too", func(ctx context.Context) (bool, error) {
		var waits bool
		err := b.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)`).Scan(&waits)
		return !waits, err
	})
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if _, err := other.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Show(t.Context(), "k"); !errors.Is(err, lockstore.ErrNotFound) {
		t.Errorf("the key: %v, want it free", err)
	}
}

// Whatever isolation the database has for default, contention is contention: the
// library answers 40001 to nearly everybody.
//
// Clauses: K-2.11, K-10.2
// Mutation: begin the transaction at the default isolation.
func TestStrictIsolationDefault(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				b.exec(t, fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_isolation = '%s'`, pgx.Identifier{b.db.Name}.Sanitize(), level))
				store := open(t, options(t, b.db))
				var group errgroup.Group
				got := make(chan bool, 64)
				for i := range 64 {
					group.Go(func() error {
						_, err := store.Acquire(t.Context(), wants(fmt.Sprint("k", i%4), time.Hour))
						_, contended := errors.AsType[*lockstore.HeldError](err)
						got <- err == nil
						if contended {
							return nil
						}
						return err
					})
				}
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
				close(got)
				granted := 0
				for ok := range got {
					granted += count(ok)
				}
				if granted != 4 || one[int64](t, b, `SELECT sum(fence)::bigint FROM syncguard_fence_counters`) != 4 {
					t.Errorf("%d of 4 keys granted; contention uses no fence", granted)
				}
			})
		})
	}
}

// What was sent and not answered is unknown, whether it was carried out or not; a
// release may be repeated.
//
// Clauses: K-1.4, K-2.7, K-2.9
// Mutation: answer pgtx.Unknown with a plain error.
func TestLostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		c := pgtest.NewCutter(t, b.db.Server)
		opts := options(t, b.db)
		opts.Config, opts.MaxConns = c.Config(opts.Config), 1
		store := open(t, opts)
		for _, where := range []pgtest.Cut{pgtest.BeforeCommit, pgtest.AfterCommit} {
			c.Cut(where)
			grant, err := store.Acquire(t.Context(), wants("k", time.Hour))
			if !isUnknown(err) || grant.Token != 0 || grant.LockID != "" {
				t.Fatalf("acquire with its answer lost: %+v, %v, want unknown", grant, err)
			}
			if where == pgtest.BeforeCommit {
				if _, err := b.store.Show(t.Context(), "k"); !errors.Is(err, lockstore.ErrNotFound) {
					t.Errorf("a commit that was never sent: %v, want nothing", err)
				}
			}
		}
		pgtest.Eventually(t, "the lost grant stands", func(ctx context.Context) (bool, error) {
			_, err := b.store.Show(ctx, "k")
			return err == nil, nil
		})
		c.Cut(pgtest.AfterCommit)
		if _, err := store.Release(t.Context(), "k", 1); !isUnknown(err) {
			t.Errorf("release with its answer lost: %v, want unknown", err)
		}
		pgtest.Eventually(t, "the release is carried out", func(ctx context.Context) (bool, error) {
			_, err := b.store.Show(ctx, "k")
			return errors.Is(err, lockstore.ErrNotFound), nil
		})
		if released, err := store.Release(t.Context(), "k", 1); err != nil || !released.Stale {
			t.Errorf("release repeated: %+v, %v, want stale", released, err)
		}
	})
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*lockstore.UnknownOutcomeError](err)
	return ok
}

// A grant whose COMMIT is refused is shown to nobody, and nobody is warned of its
// fence.
//
// Clauses: K-1.4
// Mutation: return the grant, or warn, before the COMMIT's answer is read.
func TestNoTokenBeforeCommit(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	opts := options(t, b.db)
	opts.FenceWarning = func(string, lockstore.Token) { t.Error("warned of a fence that was not issued") }
	store := open(t, opts)
	b.exec(t, `INSERT INTO syncguard_fence_counters (fence_key, fence) VALUES ('fence:k', 90000000000001)`)
	b.exec(t, `CREATE FUNCTION refuse_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused at commit'; END $$`)
	b.exec(t, `CREATE CONSTRAINT TRIGGER refuse_at_commit AFTER INSERT ON syncguard_locks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_at_commit()`)
	grant, err := store.Acquire(t.Context(), wants("k", time.Hour))
	if err == nil || isUnknown(err) || grant.Token != 0 || grant.LockID != "" {
		t.Errorf("a grant refused at COMMIT: %+v, %v, want a plain failure and no token", grant, err)
	}
}

// A database that accepts no writes is no primary, at Open where it can be seen and
// at each change.
//
// Clauses: K-6.3
// Mutation: drop the case of 25006 in refusal.
func TestReadOnlyIsNoPrimary(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	config := b.db.Config(t, "t_owner")
	config.RuntimeParams["default_transaction_read_only"] = "on"
	store := open(t, syncguard.Options{Config: config})
	if _, err := store.Acquire(t.Context(), wants("k", time.Hour)); !errors.Is(err, lockstore.ErrNotPrimary) {
		t.Errorf("acquire: %v, want ErrNotPrimary", err)
	}
}
