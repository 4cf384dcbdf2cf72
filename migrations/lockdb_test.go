package migrations_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// Each version of lockdb is applied to tables with rows in them, between its
// assertions before and after.
//
// Clauses: K-9.2, K-9.5
// Mutation: leave a GRANT, an ENABLE ALWAYS or the copy of standing grants out of its migration.
func TestLockdbStepByStep(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			step(t, pgtest.Servers(t, major).Lock.EmptyDB(t).Conn(t, "super"), "lockdb")
		})
	}
}

// The first versions hold the specified DDL and nothing else.
//
// Clauses: K-9.2
// Mutation: change a column of V1 or V2.
func TestLockdbHoldsTheSpecifiedDDL(t *testing.T) {
	t.Parallel()
	specified, err := os.ReadFile("testdata/lockdb/c1_1_2.sql")
	if err != nil {
		t.Fatal(err)
	}
	var ours strings.Builder
	for _, name := range []string{"V1__create_lock_session_and_lock_entry.sql", "V2__create_lock_revocation.sql"} {
		text, err := fs.ReadFile(migrations.FS, "lockdb/"+name)
		if err != nil {
			t.Fatal(err)
		}
		ours.Write(text)
	}
	if diff := cmp.Diff(foldSQL(string(specified)), foldSQL(ours.String())); diff != "" {
		t.Errorf("V1 and V2 are not the specified DDL (-specified +ours):\n%s", diff)
	}
}

var lockdbSpace = regexp.MustCompile(`\s+`)

// foldSQL drops comment lines and folds white space.
func foldSQL(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(lockdbSpace.ReplaceAllString(strings.Join(kept, ""), " "))
}

const (
	lockdbSession = "10000000-0000-4000-8000-00000000000a"
	lockdbGrant   = `INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at) VALUES ($1, 'alice', $2, 1, now() + interval '1 hour')`
)

// lockdb returns a migrated lockdb with one live session, and a superuser's
// connection to it.
func lockdb(t *testing.T, major int) (pgtest.DB, *pgx.Conn) {
	t.Helper()
	db := pgtest.Servers(t, major).Lock.EmptyDB(t)
	conn := db.Conn(t, "super")
	applyAll(t, conn, "lockdb")
	lockdbExec(t, conn, `INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES ($1, 'alice', now() + interval '1 day')`, lockdbSession)
	return db, conn
}

func lockdbExec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// lockdbRefused runs sql in a transaction that is rolled back, and fails unless
// PostgreSQL refuses it with code.
func lockdbRefused(t *testing.T, conn *pgx.Conn, code, sql string) {
	t.Helper()
	if got := lockdbCode(t, conn, sql); got != code {
		t.Errorf("%s: SQLSTATE %q, want %s", sql, got, code)
	}
}

func lockdbCode(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }() // the refusal has ended it already
	_, err = tx.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
	var pgErr *pgconn.PgError
	if err != nil && !errors.As(err, &pgErr) {
		t.Fatalf("%s: %v", sql, err)
	}
	if pgErr == nil {
		return ""
	}
	return pgErr.Code
}

// The audit, the operator log and the journal refuse every change, by every
// login and under the replica role; with the trigger disabled the same
// statement passes.
//
// Clauses: K-3.3, K-3.6, K-11
// Mutation: leave the append-only trigger of a table out, or ENABLE it without ALWAYS.
func TestLockdbAppendOnly(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			_, conn := lockdb(t, major)
			lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
			lockdbExec(t, conn, `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('k', 'o', 1, 'erin', 'why')`)
			lockdbExec(t, conn, `INSERT INTO operator_log (action, operator, reason) VALUES ('test', 'erin', 'why')`)
			attacks := []struct{ table, trigger, sql string }{
				{"lock_revocation", "lock_revocation_append_only", "UPDATE lock_revocation SET reason = 'forged'"},
				{"lock_revocation", "lock_revocation_append_only", "DELETE FROM lock_revocation"},
				{"lock_revocation", "lock_revocation_append_only", "TRUNCATE lock_revocation"},
				{"lock_revocation", "lock_revocation_append_only", "TRUNCATE lock_revocation RESTART IDENTITY CASCADE"},
				{"operator_log", "operator_log_append_only", "UPDATE operator_log SET reason = 'forged'"},
				{"operator_log", "operator_log_append_only", "DELETE FROM operator_log"},
				{"operator_log", "operator_log_append_only", "TRUNCATE operator_log"},
				{"lock_grant", "lock_grant_guard", "UPDATE lock_grant SET owner_id = 'forged'"},
				{"lock_grant", "lock_grant_guard", "UPDATE lock_grant SET owner_id = 'forged', ended = 'released', ended_at = now()"},
				{"lock_grant", "lock_grant_guard", "DELETE FROM lock_grant"},
				{"lock_grant_0", "lock_grant_guard", "DELETE FROM lock_grant_0"},
				{"lock_grant", "lock_grant_no_truncate", "TRUNCATE lock_grant_0"},
				{"lock_grant_0", "lock_grant_no_truncate", "TRUNCATE lock_grant_0"},
			}
			for _, attack := range attacks {
				for _, role := range []string{"SET LOCAL ROLE dlock_owner; ", "", "SET LOCAL session_replication_role = replica; "} {
					lockdbRefused(t, conn, "42501", role+attack.sql)
				}
			}
			// The negative control: nothing else stands in the way.
			for _, table := range []string{"lock_revocation", "operator_log", "lock_grant", "lock_grant_0"} {
				lockdbExec(t, conn, "ALTER TABLE "+table+" DISABLE TRIGGER USER")
			}
			for _, attack := range attacks {
				if code := lockdbCode(t, conn, attack.sql); code != "" {
					t.Errorf("without %s: %s: SQLSTATE %s, want it accepted", attack.trigger, attack.sql, code)
				}
			}
		})
	}
}

// An end is written once: a grant that ended cannot end differently.
//
// Clauses: K-11
// Mutation: drop "OLD.ended IS NULL" from lock_grant_guard.
func TestLockdbGrantEndsOnce(t *testing.T) {
	t.Parallel()
	_, conn := lockdb(t, 16)
	lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
	lockdbExec(t, conn, `DELETE FROM lock_entry`)
	lockdbRefused(t, conn, "42501", "UPDATE lock_grant SET ended = 'revoked', ended_at = now()")
}

// The journal says how each grant ended.
//
// Clauses: K-11
// Mutation: swap two branches of lock_grants_end or lock_grant_move.
func TestLockdbJournalEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ want, end string }{
		{"released", `DELETE FROM lock_entry`},
		{"reaped", `DELETE FROM lock_session`},
		{"expired", `UPDATE lock_entry SET acquired_at = acquired_at; ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_guard;
			UPDATE lock_entry SET acquired_at = now() - interval '2 hours', expires_at = now() - interval '1 hour'; DELETE FROM lock_entry`},
		{"re_entered", `UPDATE lock_entry SET acquired_at = now() - interval '1 second'`},
		{"taken_over", `UPDATE lock_entry SET owner_id = 'bob'`},
		{"revoked", `WITH gone AS (DELETE FROM lock_entry RETURNING *)
			INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) SELECT lock_key, owner_id, fencing_token, 'erin', 'why' FROM gone`},
		{"revoked", `SET LOCAL SESSION AUTHORIZATION t_lockapp; SET LOCAL dlock.ending = 'void'; WITH gone AS (DELETE FROM lock_entry RETURNING *)
			INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) SELECT lock_key, owner_id, fencing_token, 'erin', 'why' FROM gone`},
		{"voided", `SET LOCAL dlock.ending = 'void'; WITH gone AS (DELETE FROM lock_entry RETURNING *)
			INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) SELECT lock_key, owner_id, fencing_token, 'erin', 'why' FROM gone`},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			_, conn := lockdb(t, 16)
			lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
			if _, err := conn.PgConn().Exec(t.Context(), "BEGIN; "+tt.end+"; COMMIT").ReadAll(); err != nil {
				t.Fatal(err)
			}
			var ended string
			if err := conn.QueryRow(t.Context(), `SELECT ended FROM lock_grant ORDER BY fencing_token LIMIT 1`).Scan(&ended); err != nil {
				t.Fatal(err)
			}
			if ended != tt.want {
				t.Errorf("the grant ended %q, want %q", ended, tt.want)
			}
		})
	}
}

// A token that stands in the journal is never granted again, and a grant
// outside every partition is not stopped but kept in DEFAULT.
//
// Clauses: K-1.3, K-11
// Mutation: drop the primary key of lock_grant, or its DEFAULT partition.
func TestLockdbJournalRefusesARepeatedToken(t *testing.T) {
	t.Parallel()
	_, conn := lockdb(t, 16)
	lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
	lockdbExec(t, conn, `SELECT setval('fencing_token_seq', 1, false)`) // a rewound sequence
	lockdbRefused(t, conn, "23505", `DELETE FROM lock_entry; INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at)
		VALUES ('b', 'alice', '`+lockdbSession+`', 1, now() + interval '1 hour'), ('c', 'alice', '`+lockdbSession+`', 1, now() + interval '1 hour')`)

	lockdbExec(t, conn, `SELECT setval('fencing_token_seq', 900000000)`)
	lockdbExec(t, conn, lockdbGrant, "far", lockdbSession)
	var partition string
	if err := conn.QueryRow(t.Context(), `SELECT tableoid::regclass::text FROM lock_grant WHERE lock_key = 'far'`).Scan(&partition); err != nil {
		t.Fatal(err)
	}
	if partition != "lock_grant_default" {
		t.Errorf("the grant is in %s, want lock_grant_default", partition)
	}
	// Partitions are made above what DEFAULT holds, as the role that reaps.
	lockdbExec(t, conn, `SET ROLE lockapp`)
	lockdbExec(t, conn, `SELECT lock_grant_extend()`)
	lockdbExec(t, conn, lockdbGrant, "next", lockdbSession)
	if err := conn.QueryRow(t.Context(), `SELECT tableoid::regclass::text FROM lock_grant WHERE lock_key = 'next'`).Scan(&partition); err != nil {
		t.Fatal(err)
	}
	if partition != "lock_grant_18" {
		t.Errorf("the next grant is in %s, want lock_grant_18", partition)
	}
	// Each partition made is a lock until commit: nobody gets thousands.
	var made int
	if err := conn.QueryRow(t.Context(), `SELECT lock_grant_extend(5000)`).Scan(&made); err != nil || made > 9 {
		t.Errorf("asked for 5000, it made %d, %v", made, err)
	}
}

// Each login is refused what it must be refused.
//
// Clauses: K-12.1, K-3.3
// Mutation: grant lockapp UPDATE on the sequence, or INSERT on all of lock_revocation, or leave PUBLIC EXECUTE on lock_grant_begin.
func TestLockdbRolesAreRefused(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			db, _ := lockdb(t, major)
			app := db.Conn(t, "t_lockapp")
			lockdbExec(t, app, lockdbGrant, "a", lockdbSession)
			lockdbExec(t, app, `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('k', 'o', 1, 'erin', 'why')`)
			for _, sql := range []string{
				`SELECT setval('fencing_token_seq', 1)`,
				`ALTER SEQUENCE fencing_token_seq RESTART`,
				`INSERT INTO lock_revocation (id, lock_key, prev_owner, prev_token, operator, reason) VALUES (1, 'k', 'o', 1, 'x', 'y')`,
				`INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, revoked_at) VALUES ('k', 'o', 1, 'x', 'y', now())`,
				`INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, login_role) VALUES ('k', 'o', 1, 'x', 'y', 'z')`,
				`UPDATE lock_revocation SET reason = 'forged'`,
				`DELETE FROM lock_revocation`,
				`TRUNCATE lock_revocation`,
				`SET session_replication_role = replica`,
				`INSERT INTO lock_grant VALUES (9, 'k', 'o', '` + lockdbSession + `', now())`,
				`UPDATE lock_grant SET ended = 'released', ended_at = now()`,
				`INSERT INTO operator_log (action, operator, reason) VALUES ('x', 'y', 'z')`,
				`UPDATE lock_gate SET closed_by = NULL`,
				`UPDATE peer_instance SET system_identifier = 1`,
				`ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`,
				`SET ROLE dlock_owner`,
				`TRUNCATE lock_entry`,
			} {
				lockdbRefused(t, app, "42501", sql)
			}
			// A function that writes the journal as its owner is attached by nobody
			// else: it would record whatever a table of his own says.
			for _, login := range []string{"t_lockapp", "t_auditor", "t_operator"} {
				conn := db.Conn(t, login)
				lockdbExec(t, conn, `CREATE TEMP TABLE forged (fencing_token BIGINT, lock_key TEXT, owner_id TEXT, session_id UUID, acquired_at TIMESTAMPTZ, expires_at TIMESTAMPTZ)`)
				for _, function := range []string{"lock_grant_begin", "lock_grant_move", "lock_grant_end", "lock_grants_begin", "lock_grants_end"} {
					lockdbRefused(t, conn, "42501", `CREATE TRIGGER forge AFTER INSERT OR UPDATE OR DELETE ON forged FOR EACH ROW EXECUTE FUNCTION `+function+`()`)
				}
			}
			auditor := db.Conn(t, "t_auditor")
			lockdbExec(t, auditor, `SELECT count(*) FROM lock_grant, lock_entry, lock_session, lock_revocation, operator_log, lock_gate, fencing_token_seq`)
			for _, sql := range []string{
				`DELETE FROM lock_entry`, `UPDATE lock_session SET owner_id = 'x'`, `SELECT nextval('fencing_token_seq')`,
				`INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('k', 'o', 1, 'x', 'y')`,
				`SELECT lock_grant_extend()`,
			} {
				lockdbRefused(t, auditor, "42501", sql)
			}
			operator := db.Conn(t, "t_operator")
			lockdbRefused(t, operator, "42501", `ALTER SEQUENCE fencing_token_seq RESTART`)
			lockdbRefused(t, operator, "", `SET LOCAL ROLE dlock_owner; ALTER SEQUENCE fencing_token_seq RESTART WITH 1000`)
		})
	}
}

// The guards work where search_path is empty and in a schema of any name, as
// logical apply and a data-only restore need it.
//
// Clauses: K-1.1
// Mutation: leave "SET search_path" off a trigger function.
func TestLockdbGuardsNeedNoSearchPath(t *testing.T) {
	t.Parallel()
	conn := pgtest.Servers(t, 16).Lock.EmptyDB(t).Conn(t, "super")
	lockdbExec(t, conn, `CREATE SCHEMA "Locks" AUTHORIZATION dlock_owner`)
	lockdbExec(t, conn, `SET search_path = "Locks"`)
	applyAll(t, conn, "lockdb")
	lockdbExec(t, conn, `SET search_path = ''`)
	lockdbExec(t, conn, `INSERT INTO "Locks".operator_log (action, operator, reason) VALUES ('test', 'erin', 'why')`)
	lockdbExec(t, conn, `SET session_replication_role = replica`)
	lockdbExec(t, conn, `INSERT INTO "Locks".lock_session (session_id, owner_id, expires_at) VALUES ($1, 'alice', now() + interval '1 day')`, lockdbSession)
	lockdbExec(t, conn, strings.Replace(lockdbGrant, "lock_entry", `"Locks".lock_entry`, 1), "a", lockdbSession)
	lockdbExec(t, conn, `UPDATE "Locks".lock_entry SET owner_id = 'bob'`)
	lockdbExec(t, conn, `UPDATE "Locks".lock_session SET expires_at = now() + interval '2 days'`)
	lockdbExec(t, conn, `SELECT "Locks".lock_grant_extend(5)`)
	lockdbExec(t, conn, `DELETE FROM "Locks".lock_entry`)
	var grants int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM "Locks".lock_grant WHERE ended IS NOT NULL`).Scan(&grants); err != nil {
		t.Fatal(err)
	}
	if grants != 2 {
		t.Errorf("the journal holds %d ended grants, want 2", grants)
	}
}

// A closed gate, an instance or timeline that the gate does not know, and a
// gate without a row grant nothing, by INSERT or by UPDATE; nor does a
// transaction that could not see the gate close.
//
// Clauses: K-7.4, K-7.6
// Mutation: drop lock_entry_gate, or the call of lock_gate_check in lock_entry_guard.
func TestLockdbGate(t *testing.T) {
	t.Parallel()
	_, conn := lockdb(t, 16)
	lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
	grant := `INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at) VALUES ('b', 'alice', '` + lockdbSession + `', 1, now() + interval '1 hour')`
	move := `UPDATE lock_entry SET owner_id = 'bob'`
	renew := `UPDATE lock_entry SET expires_at = now() + interval '3 hours'`
	for _, closed := range []string{
		`UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'restore'`,
		`UPDATE lock_gate SET system_identifier = system_identifier + 1`,
		`UPDATE lock_gate SET timeline_id = timeline_id + 1`,
		`DELETE FROM lock_gate`,
	} {
		lockdbRefused(t, conn, "55000", closed+"; "+grant)
		lockdbRefused(t, conn, "55000", closed+"; "+move)
		lockdbRefused(t, conn, "", closed+"; "+renew+"; DELETE FROM lock_entry")
		// The negative control: it is these triggers that refuse.
		lockdbRefused(t, conn, "", `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_gate; `+closed+"; "+grant)
		lockdbRefused(t, conn, "", `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_guard; `+closed+"; UPDATE lock_entry SET owner_id = 'bob', fencing_token = 7")
	}
	lockdbRefused(t, conn, "", grant)
	lockdbRefused(t, conn, "55000", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; "+grant)
	lockdbRefused(t, conn, "55000", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; "+grant)
}

// Nobody chooses a token, renames a lock, cuts a promise or grants under a
// lapsed session, whatever the statement.
//
// Clauses: K-1, K-1.1, K-2.3, K-2.10
// Mutation: take a branch out of lock_entry_guard, lock_entry_order or lock_session_guard.
func TestLockdbGuardsEveryWriter(t *testing.T) {
	t.Parallel()
	_, conn := lockdb(t, 16)
	lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
	lockdbExec(t, conn, `INSERT INTO lock_session (session_id, owner_id, created_at, expires_at)
		VALUES ('20000000-0000-4000-8000-000000000000', 'bob', now() - interval '2 hours', now() - interval '1 hour')`)
	off := func(trigger string) string { return "ALTER TABLE lock_entry DISABLE TRIGGER " + trigger + "; " }
	raise := func(sql, unless string) string {
		return sql + `; DO $$ BEGIN IF NOT (` + unless + `) THEN RAISE SQLSTATE 'DL001'; END IF; END $$`
	}
	thief := `UPDATE lock_entry SET owner_id = 'thief', fencing_token = 3000000`
	lockdbRefused(t, conn, "", raise(thief, `(SELECT fencing_token FROM lock_entry) < 3000000`))
	lockdbRefused(t, conn, "DL001", off("lock_entry_guard")+raise(thief, `(SELECT fencing_token FROM lock_entry) < 3000000`))

	lockdbRefused(t, conn, "23514", `UPDATE lock_entry SET lock_key = 'b'`)
	lockdbRefused(t, conn, "", off("lock_entry_guard")+`UPDATE lock_entry SET lock_key = 'b'`)

	cut := `UPDATE lock_entry SET expires_at = now() + interval '1 second'`
	lockdbRefused(t, conn, "", raise(cut, `(SELECT expires_at FROM lock_entry) > now() + interval '30 minutes'`))
	lockdbRefused(t, conn, "DL001", off("lock_entry_guard")+raise(cut, `(SELECT expires_at FROM lock_entry) > now() + interval '30 minutes'`))

	cut = `UPDATE lock_session SET expires_at = now() + interval '1 second' WHERE owner_id = 'alice'`
	kept := `(SELECT expires_at FROM lock_session WHERE owner_id = 'alice') > now() + interval '1 hour'`
	lockdbRefused(t, conn, "", raise(cut, kept))
	lockdbRefused(t, conn, "DL001", `ALTER TABLE lock_session DISABLE TRIGGER lock_session_guard; `+raise(cut, kept))

	lapsed := `INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at) VALUES ('b', 'bob', '20000000-0000-4000-8000-000000000000', 8, now() + interval '1 hour')`
	lockdbRefused(t, conn, "23503", lapsed)
	lockdbRefused(t, conn, "", off("lock_entry_order")+lapsed)
	moved := `UPDATE lock_entry SET owner_id = 'bob', session_id = '20000000-0000-4000-8000-000000000000'`
	lockdbRefused(t, conn, "23503", moved)
	lockdbRefused(t, conn, "", off("lock_entry_guard")+moved+", fencing_token = 7")
}

// A role or database that commits asynchronously loses no grant, renewal or
// heartbeat: the triggers raise synchronous_commit for the transaction.
//
// Clauses: K-1.4
// Mutation: take set_config('synchronous_commit', …) out of one of the three triggers.
func TestLockdbCommitsDurably(t *testing.T) {
	t.Parallel()
	_, conn := lockdb(t, 16)
	lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
	check := `; DO $$ BEGIN IF current_setting('synchronous_commit') <> '%s' THEN RAISE SQLSTATE 'DL001'; END IF; END $$`
	for _, change := range []string{
		`INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at) VALUES ('b', 'alice', '` + lockdbSession + `', 1, now() + interval '1 hour')`,
		`UPDATE lock_entry SET expires_at = now() + interval '2 hours'`,
		`UPDATE lock_session SET expires_at = now() + interval '2 days'`,
	} {
		for _, weak := range []string{"off", "local", "remote_write"} {
			lockdbRefused(t, conn, "", "SET LOCAL synchronous_commit = "+weak+"; "+change+fmt.Sprintf(check, "on"))
		}
		lockdbRefused(t, conn, "", "SET LOCAL synchronous_commit = remote_apply; "+change+fmt.Sprintf(check, "remote_apply"))
		lockdbRefused(t, conn, "DL001", "ALTER TABLE lock_entry DISABLE TRIGGER USER; ALTER TABLE lock_session DISABLE TRIGGER USER; SET LOCAL synchronous_commit = off; "+
			strings.Replace(change, ", 1, ", ", 8, ", 1)+fmt.Sprintf(check, "on"))
	}
}
