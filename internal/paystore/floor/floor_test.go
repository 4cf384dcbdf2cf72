package floor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func onMajors(t *testing.T, test func(t *testing.T, dbs pgtest.Databases)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.Migrated(t, major))
		})
	}
}

func open(t *testing.T, dbs pgtest.Databases, login string) *floor.Keeper {
	t.Helper()
	k, err := floor.Open(t.Context(), floor.Options{Options: paystore.Options{Config: dbs.Pay.Config(t, login), Purpose: paystore.Changing}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close(context.WithoutCancel(t.Context())) })
	return k
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Every statement is one that PostgreSQL accepts on the migrated schema, and every
// file in queries/ is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files, err := floor.QueryFiles()
	if err != nil {
		t.Fatal(err)
	}
	onMajors(t, func(t *testing.T, dbs pgtest.Databases) {
		conn, queries := dbs.Pay.Conn(t, "t_operator"), floor.Queries()
		for name, sql := range queries {
			if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
				t.Errorf("queries/%s.sql: %v", name, err)
			}
		}
		for _, file := range files {
			if _, used := queries[strings.TrimSuffix(file, ".sql")]; !used {
				t.Errorf("queries/%s is used by nothing", file)
			}
		}
	})
}

var erin = floor.Change{Operator: "erin", Reason: "restored"}

// A floor rises by its own statement and never falls; the other one stays. A point
// without its row is an error, and no role but the owner's raises.
//
// Clauses: K-4.12, K-7.8, K-12.1
// Mutation: drop "point = :point" from raise_floor.sql, or the ErrNoRows case of Raise.
func TestRaise(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, dbs pgtest.Databases) {
		k := open(t, dbs, "t_operator")
		for _, tt := range []struct {
			to, want paystore.Token
			moved    bool
		}{{50, 50, true}, {50, 50, false}, {20, 50, false}, {70, 70, true}} {
			raised, err := k.Raise(t.Context(), floor.Rail, tt.to, erin)
			if err != nil || raised.To != tt.want || raised.Moved != tt.moved {
				t.Errorf("to %d: %+v, %v", tt.to, raised, err)
			}
		}
		if floors, err := k.Floors(t.Context()); err != nil || floors[floor.Rail] != 70 || floors[floor.Account] != 0 {
			t.Errorf("the floors: %v, %v", floors, err)
		}
		for _, login := range []string{"t_resource", "t_rail", "t_auditor"} {
			_, err := open(t, dbs, login).Raise(t.Context(), floor.Rail, 90, erin)
			if rights, ok := errors.AsType[*owner.RightsError](err); !ok || !slices.Equal(rights.Missing, []string{fmt.Sprintf("GRANT dlock_operator TO %q", login)}) {
				t.Errorf("%s raised: %v", login, err)
			}
		}
		super := dbs.Pay.Conn(t, "super")
		exec(t, super, `ALTER TABLE fence_floor DISABLE TRIGGER fence_floor_kept`)
		exec(t, super, `DELETE FROM fence_floor WHERE point = 'rail'`)
		if _, err := k.Raise(t.Context(), floor.Rail, 90, erin); !isUnsafe(err) {
			t.Errorf("without its row: %v", err)
		}
		found, err := k.Evidence(t.Context(), 1<<53)
		if at := slices.IndexFunc(found, func(r floor.Reading) bool { return r.Source == "fence_floor.rail" }); err != nil || found[at].Unavailable == "" {
			t.Errorf("the evidence without its row: %+v, %v", found, err)
		}
	})
}

func isUnsafe(err error) bool {
	_, ok := errors.AsType[*paystore.UnsafeError](err)
	return ok
}

// Closed by hand, paydb's gate stays as the first one left it, and opens when
// nothing is unresolved; without its row it cannot be opened.
//
// Clauses: K-7.9
// Mutation: drop "closed_by IS NULL" from close_gate.sql, or the count of rows from OpenGate.
func TestGate(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, dbs pgtest.Databases) {
		k, super := open(t, dbs, "t_operator"), dbs.Pay.Conn(t, "super")
		if gate, err := k.Gate(t.Context()); err != nil || !gate.Open() {
			t.Fatalf("at first: %+v, %v", gate, err)
		}
		for range 2 {
			gate, err := k.CloseGate(t.Context(), erin)
			if err != nil || gate.Open() || gate.ClosedBy != "erin" {
				t.Errorf("closed: %+v, %v", gate, err)
			}
		}
		if _, err := k.CloseGate(t.Context(), floor.Change{Operator: "mallory", Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		if gate, err := k.Gate(t.Context()); err != nil || gate.ClosedBy != "erin" || gate.ClosedAt.IsZero() {
			t.Errorf("closed by a second one: %+v, %v", gate, err)
		}
		exec(t, super, `INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
			SELECT gen_random_uuid(), account_id, 100, currency, 'k1' FROM account WHERE account_id NOT IN (SELECT account_id FROM clearing_account) LIMIT 1`)
		_, err := k.OpenGate(t.Context())
		if unresolved, ok := errors.AsType[*floor.UnresolvedError](err); !ok || unresolved.Payouts != 1 {
			t.Errorf("with an unresolved payout: %v", err)
		}
		exec(t, super, `UPDATE payout SET state = 'FAILED'`)
		if gate, err := k.OpenGate(t.Context()); err != nil || !gate.Open() {
			t.Errorf("opened: %+v, %v", gate, err)
		}
		exec(t, super, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_kept`)
		exec(t, super, `DELETE FROM pay_gate`)
		if _, err := k.OpenGate(t.Context()); !isUnsafe(err) {
			t.Errorf("without its row: %v", err)
		}
	})
}
