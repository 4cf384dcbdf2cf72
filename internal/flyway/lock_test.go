package flyway_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// publicKey is the lock of "public"."flyway_schema_history", as Flyway computes it.
const publicKey = 77433833903597

// Both kinds of Flyway's lock are respected: the one it takes by default and the
// one of flyway.postgresql.transactional.lock=false.
//
// Clauses: K-9.1
// Mutation: change one letter of the table's name in lockKey.
func TestUpWaitsForFlywaysLock(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"pg_advisory_xact_lock", "pg_advisory_lock"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, db pgtest.DB) {
				foreign := db.Conn(t, "t_owner")
				hold(t, foreign, lock)

				impatient := open(t, db, files(t, base...), func(_ *pgx.ConnConfig, o *flyway.Options) { o.LockTimeout = 300 * time.Millisecond })
				_, err := impatient.Up(t.Context())
				held, ok := errors.AsType[*flyway.LockError](err)
				if !ok {
					t.Fatalf("up: %v, want a LockError", err)
				}
				pid := foreign.PgConn().PID()
				if len(held.Holders) != 1 || uint32(held.Holders[0].PID) != pid || held.Holders[0].Since == nil {
					t.Errorf("holders = %v, want pid %d and since when", held.Holders, pid)
				}
				if !strings.Contains(err.Error(), fmt.Sprintf("pid %d (foreign program) as ", pid)) {
					t.Errorf("error %q does not name pid and application", err)
				}
				if value[bool](t, db, `SELECT to_regclass('flyway_schema_history') IS NOT NULL`) {
					t.Error("something was created without the lock")
				}

				waiting := make(chan string, 8)
				patient := open(t, db, files(t, base...), func(_ *pgx.ConnConfig, o *flyway.Options) {
					o.Progress = func(e flyway.Event) {
						if e.Kind == flyway.EventWaiting {
							waiting <- e.Message
						}
					}
				})
				done := make(chan error, 1)
				go func() {
					_, err := patient.Up(t.Context())
					done <- err
				}()
				if message := <-waiting; !strings.Contains(message, fmt.Sprint(pid)) {
					t.Errorf("waiting for %q, want pid %d", message, pid)
				}
				for _, sql := range []string{"COMMIT", "SELECT pg_advisory_unlock_all()"} {
					if _, err := foreign.Exec(t.Context(), sql); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-done; err != nil {
					t.Errorf("up after the lock was given back: %v", err)
				}
				if locks := value[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); locks != 0 {
					t.Errorf("%d advisory locks are left", locks)
				}
			})
		})
	}
}

func hold(t *testing.T, conn *pgx.Conn, lock string) {
	t.Helper()
	for _, sql := range []string{
		"SET application_name = 'foreign program'", "BEGIN", fmt.Sprintf("SELECT %s(%d)", lock, int64(publicKey)),
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// A waiting migrator obeys its context.
//
// Mutation: drop ctx.Done from acquire.
func TestUpStopsWaitingWithItsContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		hold(t, db.Conn(t, "super"), "pg_advisory_xact_lock")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := open(t, db, files(t, base...), func(_ *pgx.ConnConfig, o *flyway.Options) {
			o.LockTimeout = time.Hour
			o.Progress = func(flyway.Event) { cancel() }
		})
		if _, err := m.Up(ctx); !errors.Is(err, context.Canceled) || !isLocked(err) {
			t.Errorf("up: %v, want a LockError because the context was canceled", err)
		}
	})
}

// Eight processes at once: each version is applied by exactly one of them, and each
// of them succeeds.
//
// Clauses: K-9.1
// Mutation: plan before the lock instead of after it.
func TestEightMigrators(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		const migrators, versions = 8, 12
		var named []string
		for v := range versions {
			named = append(named, fmt.Sprintf("V%d__step.sql", v+1), fmt.Sprintf("CREATE TABLE step%d (id int);", v+1))
		}
		named = append(named, "V99__index.sql", "CREATE INDEX CONCURRENTLY step1_idx ON step1 (id);", "R__view.sql", "CREATE OR REPLACE VIEW v AS SELECT 1 AS x;")
		var running []*process
		for range migrators {
			running = append(running, start(t, db.DSN("t_owner"), named...))
		}
		var applied []string
		for i, p := range running {
			if err := p.Wait(); err != nil {
				t.Errorf("migrator %d: %v: %s", i, err, p.err.String())
			}
			applied = append(applied, strings.Fields(p.out.String())...)
		}
		var want []string
		for i := 0; i < len(named); i += 2 {
			want = append(want, named[i])
		}
		slices.Sort(want)
		slices.Sort(applied)
		if diff := cmp.Diff(want, applied); diff != "" {
			t.Errorf("applied by all together (-want +got):\n%s", diff)
		}
		if rows := history(t, db); len(rows) != len(want) {
			t.Errorf("history has %d rows, want %d: %v", len(rows), len(want), rows)
		}
	})
}

// Kill -9 in the middle: no row, no lock, no table, and the next run succeeds.
//
// Clauses: K-9.3
// Mutation: commit the file before its row.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t, "V1__one.sql", "CREATE TABLE one (id int);"))
		named := []string{
			"V1__one.sql", "CREATE TABLE one (id int);",
			"V2__two.sql", "CREATE TABLE two (id int); ALTER TABLE one ADD COLUMN name text; CREATE TABLE three (id int);",
		}
		blocker := db.Conn(t, "super")
		tx, err := blocker.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE one IN ACCESS SHARE MODE`); err != nil {
			t.Fatal(err)
		}
		child := start(t, db.DSN("t_owner"), named...)
		var backend int
		eventually(t, "the child waits for the table", func() bool {
			backend = value[int](t, db, `SELECT coalesce((SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'one'::regclass), 0)`)
			return backend != 0
		})
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil {
			t.Error("the killed child ended well")
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the child's backend is gone", func() bool {
			return value[int](t, db, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, backend) == 0
		})
		if rows := history(t, db); len(rows) != 1 {
			t.Errorf("history after the kill: %v, want V1 alone", rows)
		}
		if value[bool](t, db, `SELECT to_regclass('two') IS NOT NULL OR to_regclass('three') IS NOT NULL`) {
			t.Error("a table of V2 survived the kill")
		}
		if locks := value[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); locks != 0 {
			t.Errorf("%d advisory locks survived the kill", locks)
		}
		if result := up(t, db, files(t, named...)); result.ToVersion != "2" {
			t.Errorf("next run went to %q, want 2", result.ToVersion)
		}
	})
}
