package reconcile_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

var update = flag.Bool("update", false, "write the files under guards, and the table of docs/reconcile.md, anew")

// inTx runs do in a transaction that leaves nothing behind.
func inTx(t *testing.T, db pgtest.DB, do func(pgx.Tx)) {
	t.Helper()
	tx, err := db.Conn(t, "super").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	do(tx)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What D05 looks for is what the migrations make, on every version of PostgreSQL.
//
// Clauses: K-8.4
// Mutation: take a line out of guards/paydb.txt.
func TestGuardsAreTheMigrations(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		dbs := pgtest.Migrated(t, major)
		for name, db := range map[string]pgtest.DB{"paydb": dbs.Pay, "lockdb": dbs.Lock} {
			inTx(t, db, func(tx pgx.Tx) {
				got, err := reconcile.GuardLines(t.Context(), tx)
				if err != nil {
					t.Fatal(err)
				}
				file := "guards/" + name + ".txt"
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("PostgreSQL %d: %s is out of date; run: go test ./internal/reconcile -run TestGuardsAreTheMigrations -update (-want +got):\n%s", major, file, diff)
				}
			})
		}
	}
}

// Each guard is missed when it is gone, or no longer fires; nothing is while all stand.
//
// Clauses: K-8.4
// Mutation: take a part of objects.sql out, a case out of judge, or the clones out of
// onPartitions.
func TestEachGuardIsMissed(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		dbs := pgtest.Migrated(t, major)
		for name, db := range map[string]pgtest.DB{"paydb": dbs.Pay, "lockdb": dbs.Lock} {
			inTx(t, db, func(tx pgx.Tx) {
				if missed := missed(t, name, tx, ""); len(missed) > 0 {
					t.Errorf("%s of PostgreSQL %d is as it must be, and misses %q", name, major, missed)
				}
				for way := range 3 {
					var harm strings.Builder
					var harmed []string
					for _, g := range reconcile.WantedGuards(name) {
						if ways := harms(g); way < len(ways) {
							harm.WriteString(ways[way] + ";\n")
							harmed = append(harmed, name+"."+strings.TrimPrefix(g.Table+"."+g.Name, "."))
						}
					}
					missed := missed(t, name, tx, harm.String())
					for _, subject := range harmed {
						if !slices.Contains(missed, subject) {
							t.Errorf("%s of PostgreSQL %d harmed in way %d does not miss %s", name, major, way, subject)
						}
					}
				}
			})
		}
	}
}

// missed does harm, looks, and puts it right again.
func missed(t *testing.T, database string, tx pgx.Tx, harm string) (subjects []string) {
	t.Helper()
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Exec(t.Context(), harm); err != nil {
		t.Fatalf("%s: %v", harm, err)
	}
	if subjects, err = reconcile.MissedGuards(t.Context(), database, inner); err != nil {
		t.Fatal(err)
	}
	if err := inner.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return subjects
}

// harms are the ways to take a guard away.
func harms(g reconcile.Guard) []string {
	table := "ALTER TABLE " + g.Table + " "
	switch g.Kind {
	case "constraint":
		// A foreign key may have gone with what it points at.
		harms := []string{table + "DROP CONSTRAINT IF EXISTS " + g.Name + " CASCADE"}
		if g.State == "valid" {
			harms = append(harms, "UPDATE pg_constraint SET convalidated = false WHERE conname = '"+g.Name+"' AND conrelid = '"+g.Table+"'::regclass")
		}
		return harms
	case "not null":
		// A primary key's column cannot be without; the catalogue can.
		return []string{"UPDATE pg_attribute SET attnotnull = false WHERE attrelid = '" + g.Table + "'::regclass AND attname = '" + g.Name + "'"}
	case "function":
		return []string{
			"UPDATE pg_proc SET prosrc = prosrc || ' ' WHERE oid = '" + g.Name + "'::regprocedure",
			"UPDATE pg_proc SET proconfig = '{work_mem=64kB}' WHERE oid = '" + g.Name + "'::regprocedure",
		}
	case "unique index":
		return []string{"DROP INDEX " + g.Name, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + g.Name + "'::regclass"}
	default:
		// The clone of a parent's trigger goes with that, and not by itself.
		if g.Table == "lock_grant_default" && g.Name == "lock_grant_guard" {
			return []string{"SELECT 1", table + "DISABLE TRIGGER " + g.Name}
		}
		other := "REPLICA"
		if g.State == "in replica mode only" {
			other = "ALWAYS"
		}
		return []string{"DROP TRIGGER IF EXISTS " + g.Name + " ON " + g.Table, table + "DISABLE TRIGGER " + g.Name, table + "ENABLE " + other + " TRIGGER " + g.Name}
	}
}

// A guard that is another one under the old name, a foreign key that no longer looks,
// a journal's partition without its trigger, and a login for which none fires.
//
// Clauses: K-8.4
// Mutation: take the definition, the state 'disabled', onPartitions or replicaLogins out.
func TestGuardsThatOnlySeemToStand(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		dbs := pgtest.Migrated(t, major)
		for _, tc := range []struct{ database, harm, subject string }{
			{"paydb", "ALTER TABLE ledger_entry DROP CONSTRAINT ledger_amount_ck; ALTER TABLE ledger_entry ADD CONSTRAINT ledger_amount_ck CHECK (amount_minor > -10)", "paydb.ledger_entry.ledger_amount_ck"},
			{"paydb", "DROP INDEX ledger_direction_uidx; CREATE UNIQUE INDEX ledger_direction_uidx ON ledger_entry (payout_id, direction, entry_id)", "paydb.ledger_entry.ledger_direction_uidx"},
			{"paydb", "ALTER TABLE ledger_entry DISABLE TRIGGER ALL", "paydb.ledger_entry.ledger_entry_payout_id_fkey"},
			{"lockdb", "ALTER TABLE lock_grant_0 DISABLE TRIGGER lock_grant_no_truncate", "lockdb.lock_grant_0.lock_grant_no_truncate"},
			{"lockdb", "ALTER TABLE lock_grant_0 DISABLE TRIGGER lock_grant_guard", "lockdb.lock_grant_0.lock_grant_guard"},
			{"paydb", "ALTER ROLE t_resource SET session_replication_role = replica", "paydb.session_replication_role.t_resource"},
		} {
			db := map[string]pgtest.DB{"paydb": dbs.Pay, "lockdb": dbs.Lock}[tc.database]
			inTx(t, db, func(tx pgx.Tx) {
				if missed := missed(t, tc.database, tx, tc.harm); !slices.Contains(missed, tc.subject) {
					t.Errorf("PostgreSQL %d after %q misses %q, not %s", major, tc.harm, missed, tc.subject)
				}
			})
		}
	}
}
