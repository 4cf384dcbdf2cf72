package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	payer    = "00000000-0000-4000-8000-000000000001" // EUR 1,000,000 by the seed
	clearing = "00000000-0000-4000-9000-000000000000" // EUR
)

// post pays 100 from payer as it must be: legs and balances together. It is run by
// the superuser without triggers, whose own tests are in migrations.
const post = `
	SET session_replication_role = replica;
	INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key)
	VALUES ('b0000000-0000-0000-0000-000000000001', '` + payer + `', 100, 'EUR', 'POSTED', 'w', 7, 'k');
	INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES
	  (gen_random_uuid(), 'b0000000-0000-0000-0000-000000000001', '` + payer + `', 'DEBIT', 100, 7),
	  (gen_random_uuid(), 'b0000000-0000-0000-0000-000000000001', '` + clearing + `', 'CREDIT', 100, 7);
	UPDATE account SET balance_minor = balance_minor - 100, fence = 7 WHERE account_id = '` + payer + `';
	UPDATE account SET balance_minor = balance_minor + 100 WHERE account_id = '` + clearing + `';`

// empty takes every account away again.
const empty = `SET session_replication_role = replica; ALTER TABLE account DISABLE TRIGGER ALL; DELETE FROM account;
	ALTER TABLE opening_balance DISABLE TRIGGER ALL; DELETE FROM opening_balance;`

// Clauses: K-8.1, K-4.7, K-4.8, K-8.5
// Mutation: swap CREDIT and DEBIT, leave the opening out, sum in BIGINT, or call zero
// accounts clean.
func TestBalanceDrift(t *testing.T) {
	t.Parallel()
	broken := func(change string) string { return post + change }
	for name, tc := range map[string]struct {
		sql  string
		want reconcile.Report
	}{
		"seeded, nothing posted": {"", reconcile.Report{Outcome: reconcile.Clean, Checked: 32, Breaks: none}},
		// The near miss: everything moved, and still agrees.
		"posted": {post, reconcile.Report{Outcome: reconcile.Clean, Checked: 32, Legs: 2, Breaks: none}},
		"one cent too much": {
			broken("UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = '" + payer + "'"),
			reconcile.Report{Outcome: reconcile.Breaks, Checked: 32, Legs: 2, Breaks: []reconcile.Break{{
				AccountID: payer, Currency: "EUR", Fence: 7,
				BalanceMinor: "999901", OpeningMinor: "1000000", CreditMinor: "0", DebitMinor: "100", DriftMinor: "1",
			}}},
		},
		"a credit without its balance": {
			broken("UPDATE account SET balance_minor = balance_minor - 100 WHERE account_id = '" + clearing + "'"),
			reconcile.Report{Outcome: reconcile.Breaks, Checked: 32, Legs: 2, Breaks: []reconcile.Break{{
				AccountID: clearing, Currency: "EUR",
				BalanceMinor: "0", OpeningMinor: "0", CreditMinor: "100", DebitMinor: "0", DriftMinor: "-100",
			}}},
		},
		"sums beyond 64 bits": {
			broken(`INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
				SELECT gen_random_uuid(), gen_random_uuid(), '` + clearing + `', 'CREDIT', 9223372036854775807, 7 FROM generate_series(1, 2)`),
			reconcile.Report{Outcome: reconcile.Breaks, Checked: 32, Legs: 4, Breaks: []reconcile.Break{{
				AccountID: clearing, Currency: "EUR",
				BalanceMinor: "100", OpeningMinor: "0", CreditMinor: "18446744073709551714", DebitMinor: "0", DriftMinor: "-18446744073709551614",
			}}},
		},
		"unanchored is not clean": {
			"INSERT INTO account (account_id, currency) VALUES (gen_random_uuid(), 'EUR')",
			reconcile.Report{Outcome: reconcile.Incomplete, Checked: 32, Unanchored: 1, Breaks: none},
		},
		"unanchored hides no break": {
			broken("INSERT INTO account (account_id, currency) VALUES (gen_random_uuid(), 'EUR'); UPDATE account SET balance_minor = 999999 WHERE account_id = '" + payer + "'"),
			reconcile.Report{Outcome: reconcile.Breaks, Checked: 32, Legs: 2, Unanchored: 1, Breaks: []reconcile.Break{{
				AccountID: payer, Currency: "EUR", Fence: 7,
				BalanceMinor: "999999", OpeningMinor: "1000000", CreditMinor: "0", DebitMinor: "100", DriftMinor: "99",
			}}},
		},
		"no accounts is not clean": {empty, reconcile.Report{Outcome: reconcile.Incomplete, Breaks: none}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				db := pgtest.Migrated(t, major).Pay
				exec(t, db.Conn(t, "super"), tc.sql)
				got, err := reconcile.BalanceDrift(t.Context(), db.Conn(t, "t_auditor"))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("report on PostgreSQL %d (-want +got):\n%s", major, diff)
				}
			}
		})
	}
}

var none = []reconcile.Break{}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// What cannot be read is an error and INCOMPLETE, never clean: a missing right, and a
// policy that hides rows without a word.
//
// Clauses: K-8.1, K-12.1
// Mutation: drop the error, or SET LOCAL row_security = off.
func TestBalanceDriftWithoutARight(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"accounts": "REVOKE SELECT ON account FROM dlock_auditor",
		"legs":     "REVOKE SELECT ON ledger_entry FROM dlock_auditor",
		"openings": "REVOKE SELECT ON opening_balance FROM dlock_auditor",
		"policy":   "ALTER TABLE ledger_entry ENABLE ROW LEVEL SECURITY",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, major := range pgtest.Majors() {
				db := pgtest.Migrated(t, major).Pay
				exec(t, db.Conn(t, "super"), sql)
				got, err := reconcile.BalanceDrift(t.Context(), db.Conn(t, "t_auditor"))
				if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
					t.Errorf("error %v, want permission denied", err)
				}
				if got.Outcome != reconcile.Incomplete {
					t.Errorf("outcome %q on PostgreSQL %d", got.Outcome, major)
				}
			}
		})
	}
}

// Both statements of a run see one moment: what commits between them is in neither.
//
// Clauses: K-8.1
// Mutation: read committed instead of repeatable read.
func TestBalanceDriftReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			t.Parallel()
			db := pgtest.Migrated(t, major).Pay
			writer := db.Conn(t, "super")
			conn := between{db.Conn(t, "t_auditor"), func() {
				exec(t, writer, "UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = '"+payer+"'")
			}}
			got, err := reconcile.BalanceDrift(t.Context(), conn)
			want := reconcile.Report{Outcome: reconcile.Clean, Checked: 32, Breaks: none}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// between does something after the run has begun and before its rule is read.
type between struct {
	*pgx.Conn
	do func()
}

func (b between) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := b.Conn.BeginTx(ctx, options)
	return betweenTx{tx, b.do}, err
}

type betweenTx struct {
	pgx.Tx
	do func()
}

func (b betweenTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	b.do()
	return b.Tx.Query(ctx, sql, args...)
}
