package migrations_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

const seedFile = "seed/paydb/R__seed_synthetic_accounts.sql"

// The seed passes every guard as dlock_owner, twice; leaves what stands as it is;
// and leaves every account it made anchored.
//
// Clauses: K-9.4, K-4.7, K-4.8
// Mutation: DO UPDATE SET balance_minor, or openings for accounts that stood before.
func TestPaySeed(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		db := pgtest.Servers(t, major).Pay.EmptyDB(t)
		conn := db.Conn(t, "t_owner")
		applyAll(t, conn, "paydb")
		payExec(t, conn, "SET ROLE dlock_owner")
		// Account 2 stood before, with a balance of its own and nobody's opening.
		payExec(t, conn, "INSERT INTO account (account_id, currency, balance_minor) VALUES ('00000000-0000-4000-8000-000000000002', 'EUR', 7)")
		applyFile(t, conn, seedFile)

		const seeded = `SELECT format('%s accounts, %s openings, %s shards, %s anchored, account 2: %s',
			(SELECT count(*) FROM account), (SELECT count(*) FROM opening_balance),
			(SELECT string_agg(currency || n, ' ' ORDER BY currency) FROM (SELECT currency, count(*) n FROM clearing_account GROUP BY 1) s),
			(SELECT count(*) FROM account JOIN opening_balance o USING (account_id) WHERE balance_minor = o.amount_minor),
			(SELECT balance_minor FROM account WHERE account_id = '00000000-0000-4000-8000-000000000002'))`
		if diff := cmp.Diff("32 accounts, 31 openings, EUR4 GBP4 USD4 shards, 31 anchored, account 2: 7", payString(t, conn, seeded)); diff != "" {
			t.Errorf("after the first run (-want +got):\n%s", diff)
		}
		payExec(t, conn, "UPDATE account SET balance_minor = balance_minor - 5, fence = 3 WHERE account_id = '00000000-0000-4000-8000-000000000001'")
		applyFile(t, conn, seedFile)
		if diff := cmp.Diff("32 accounts, 31 openings, EUR4 GBP4 USD4 shards, 30 anchored, account 2: 7", payString(t, conn, seeded)); diff != "" {
			t.Errorf("after the second run (-want +got):\n%s", diff)
		}
	})
}

func payString(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	var s string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A payout from an account and its naming as a clearing account exclude each other
// while both are under way: whoever comes second waits, and is refused.
//
// Clauses: K-4.7
// Mutation: take FOR UPDATE or FOR KEY SHARE out of V6.
func TestPayClearingAccountsRace(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		const (
			pays = newPayout + "('b9', 'a2', 1, 'EUR', 'k9')"
			name = "INSERT INTO clearing_account VALUES ('a2', 'EUR', 9)"
		)
		for _, race := range []struct{ what, first, second, want string }{
			{"payout first", pays, name, "23514 clearing_account_guard"},
			{"name first", name, pays, "23514 payout_clearing_guard"},
		} {
			t.Run(race.what, func(t *testing.T) {
				t.Parallel()
				db, one := paySchema(t, major, "public")
				payBase(t, one)
				payExec(t, one, "ALTER TABLE payout DISABLE TRIGGER payout_kept; DELETE FROM payout WHERE account_id = '"+id("a", 2)+"'")
				two := db.Conn(t, "super")
				watcher := db.Conn(t, "super")

				tx, err := one.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				payRows(t, tx, 1, race.first)
				second := make(chan error, 1)
				go func() {
					_, err := two.Exec(t.Context(), qualify(race.second, "public"))
					second <- err
				}()
				payWaitBlocked(t, watcher, two.PgConn().PID())
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := refusal(<-second); got != race.want {
					t.Errorf("second: got %q, want %q", got, race.want)
				}
			})
		}
	})
}

// payWaitBlocked waits until another transaction blocks the server process.
func payWaitBlocked(t *testing.T, conn *pgx.Conn, pid uint32) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if payString(t, conn, "SELECT cardinality(pg_blocking_pids($1))::text", pid) != "0" {
			return
		}
	}
	t.Fatal("the second transaction waits for nobody")
}

// A snapshot from before the floor rose cannot carry an old token past it.
//
// Clauses: K-4.12, K-7.8, K-2.11
// Mutation: take the isolation check out of below_fence_floor.
func TestPayFloorUnderRepeatableRead(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, major int) {
		db, super := paySchema(t, major, "public")
		payBase(t, super)
		resource := db.Conn(t, "t_resource")
		tx, err := resource.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		payRows(t, tx, 2, "SELECT FROM fence_floor")
		payRows(t, super, 2, "UPDATE fence_floor SET floor_token = 90, raised_by = 'o', reason = 'fast-forward'")
		payExec(t, super, "BEGIN; LOCK TABLE account IN SHARE ROW EXCLUSIVE MODE; COMMIT")
		if got := attempt(t, tx, qualify("UPDATE account SET fence = 60 WHERE account_id = 'a1'", "public"), false); got != "55000 fence_floor_isolation" {
			t.Errorf("under repeatable read: %s", got)
		}
	})
}
