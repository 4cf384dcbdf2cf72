package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// guarded is a healthy database with SyncGuard's tables, and what a fault does to it.
type guarded struct {
	db     pgtest.DB
	config *pgx.ConnConfig
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{db: pgtest.Servers(t, 16).Lock.EmptyDB(t)}
	g.config = g.db.Config(t, "super")
	g.exec(t, `CREATE SCHEMA app; ALTER DATABASE `+quoted(g.db)+` SET search_path = app, public`)
	g.dlockctl(t, "migrate up --target syncguard --audit")
	return g
}

func (g *guarded) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := g.db.Conn(t, "super").PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// dlockctl runs a command of a fix, word for word; what it asks for is confirmed.
func (g *guarded) dlockctl(t *testing.T, command string) string {
	t.Helper()
	args := strings.Fields(strings.TrimPrefix(command, "dlockctl "))
	if args[1] == "fast-forward" || args[1] == "prune" {
		args = append(args, "--yes")
	}
	streams, out, errOut := ui.Test("", map[string]string{
		"DLOCKCTL_LOCK_DSN": g.db.DSN("super"), "DLOCKCTL_BACKEND": "syncguard", "DLOCKCTL_STATE_DIR": filepath.Join(t.TempDir(), "none"),
	})
	if exit := cli.Run(t.Context(), app.New(streams, args), args); exit != app.OK {
		t.Fatalf("%s: exit %d\n%s%s", command, exit, out, errOut)
	}
	return out.String()
}

// revokeByHash does what the advice says: the two commands in it, one after the other.
func (g *guarded) revokeByHash(t *testing.T, key, advice string) {
	t.Helper()
	const show, revoke = "dlockctl lock show KEY", "dlockctl revoke KEY --reason TEXT --lock-id-hash HASH"
	if !strings.Contains(advice, show) || !strings.Contains(advice, revoke) {
		t.Fatalf("the advice is %q", advice)
	}
	hash := strings.TrimSpace(g.dlockctl(t, strings.ReplaceAll(show, "KEY", key)+" -o json --jq .lock_id_hash"))
	g.dlockctl(t, strings.NewReplacer("KEY", key, "HASH", strings.Trim(hash, `"`)).Replace(revoke)+" --yes")
	g.exec(t, forgetAll)
}

func (g *guarded) notOK(t *testing.T) map[string]doctor.Result {
	t.Helper()
	report, err := doctor.Run(t.Context(), doctor.Target{SyncGuard: &doctor.SyncGuardTarget{Config: g.config, Names: tables.Default()}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]doctor.Result{}
	for _, r := range report.Results {
		if r.Status != doctor.OK {
			found[r.ID] = r
		}
	}
	return found
}

// suffer plants the fault, wants exactly its check to find it, runs the fix, and wants
// the database well.
func (g *guarded) suffer(t *testing.T, f guardFault) {
	t.Helper()
	if f.sql != "" {
		g.exec(t, strings.ReplaceAll(f.sql, "{db}", quoted(g.db)))
	}
	want := map[string]doctor.Status{f.check: doctor.Fail}
	if f.warn {
		want[f.check] = doctor.Warn
	}
	maps.Copy(want, f.also)
	found := g.notOK(t)
	if diff := cmp.Diff(want, statuses(found)); diff != "" {
		t.Fatalf("checks that are not ok (-want +got):\n%s%s", diff, said(found))
	}
	r := found[f.check]
	if !strings.Contains(r.Saw, f.saw) {
		t.Errorf("saw %q, want %q in it", r.Saw, f.saw)
	}
	switch {
	case r.Fix == nil:
		t.Fatalf("%s has no fix", f.check)
	case f.revoke != "":
		g.revokeByHash(t, f.revoke, r.Fix.Advice)
	case r.Fix.Run == "" && (r.Fix.Advice == "" || f.cure == ""), r.Fix.Run != "" && f.cure != "":
		t.Fatalf("the fix of %s is %+v, the cure by hand %q", f.check, r.Fix, f.cure)
	case r.Fix.Run == "":
		g.exec(t, strings.ReplaceAll(f.cure, "{db}", quoted(g.db)))
	case r.Fix.On == doctor.Shell:
		g.dlockctl(t, r.Fix.Run)
	case r.Fix.As != doctor.Superuser:
		g.exec(t, "SET ROLE "+r.Fix.As+";"+r.Fix.Run)
	default:
		g.exec(t, r.Fix.Run)
	}
	getsWell(t, r.Fix, g.notOK)
	if f.after != "" {
		var holds bool
		if err := g.db.Conn(t, "super").QueryRow(t.Context(), f.after).Scan(&holds); err != nil || !holds {
			t.Errorf("after the fix %s does not hold (%v)", f.after, err)
		}
	}
}

// guardFault is one thing that goes wrong with SyncGuard's tables.
type guardFault struct {
	// sql plants it, as a superuser. {db} is the database.
	check, sql string
	// cure is what a person does who follows an advice.
	cure string
	warn bool
	saw  string
	also map[string]doctor.Status
	// revoke is the key whose row the advice has taken away.
	revoke string
	// after must hold once it is put right.
	after string
}

const (
	lockRow     = `INSERT INTO syncguard_locks VALUES ('a', 'id', floor(extract(epoch FROM now()) * 1000) + 60000, 0, '%s', 'a');`
	counterRow  = `INSERT INTO syncguard_fence_counters VALUES ('fence:a', %s, 'a');`
	forgetAll   = `TRUNCATE syncguard_locks, syncguard_fence_counters`
	unavailable = doctor.Unknown
)

func rowAt(row, value string) string { return strings.Replace(row, "%s", value, 1) }

func guardFaults() []guardFault {
	return []guardFault{
		{check: "syncguard_indexes", sql: `DROP INDEX idx_syncguard_locks_lock_id`, saw: "the unique index over lock_id is missing"},
		{check: "syncguard_indexes", sql: `DROP INDEX idx_syncguard_locks_expires`, saw: "the index over expires_at_ms is missing"},
		{check: "syncguard_indexes", sql: `ALTER TABLE syncguard_locks DROP CONSTRAINT syncguard_locks_pkey`, saw: "key is not the primary key"},
		{check: "syncguard_tables", sql: `ALTER TABLE syncguard_fence_counters DROP COLUMN key_debug`, saw: "column key_debug text is missing"},
		{check: "syncguard_tables", sql: `ALTER TABLE syncguard_fence_counters SET UNLOGGED`, saw: "is unlogged"},
		{check: "syncguard_tables", sql: `ALTER TABLE syncguard_locks ADD COLUMN owner TEXT`, saw: "column owner text", cure: `ALTER TABLE syncguard_locks DROP COLUMN owner`},
		{
			check: "syncguard_twins", saw: "stands in schema app, which is in use here, and in public",
			sql: `CREATE TABLE public.syncguard_locks (LIKE app.syncguard_locks INCLUDING ALL); CREATE TABLE public.syncguard_fence_counters (LIKE app.syncguard_fence_counters INCLUDING ALL);
				INSERT INTO app.syncguard_fence_counters VALUES ('fence:both', 5, 'both'); INSERT INTO public.syncguard_fence_counters VALUES ('fence:both', 70, 'both'), ('fence:other', 3, 'other')`,
			after: `SELECT string_agg(fence_key || fence, ',' ORDER BY fence_key) = 'fence:both70,fence:other3' FROM app.syncguard_fence_counters`,
		},
		{check: "syncguard_tables", sql: `CREATE RULE keep AS ON DELETE TO syncguard_locks DO INSTEAD NOTHING`, saw: "rule keep"},
		{check: "syncguard_acts", warn: true, sql: `ALTER TABLE syncguard_fence_counters ENABLE ROW LEVEL SECURITY`, saw: "row-level security hides rows from other logins than"},
		{
			check: "syncguard_acts", warn: true, saw: "trigger quiet runs swallow before every INSERT",
			sql: `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER quiet BEFORE INSERT ON syncguard_locks FOR EACH ROW EXECUTE FUNCTION swallow()`,
		},
		{check: "syncguard_isolation", warn: true, sql: `ALTER DATABASE {db} SET default_transaction_isolation = 'repeatable read'`, saw: "repeatable read for the database"},
		{
			check: "syncguard_counters", sql: forgetAll + `;` + rowAt(counterRow, "3") + rowAt(lockRow, "000000000000042"), saw: `the counter of "a" stands at 3, and its lock has 42`,
			after: `SELECT fence > 42 FROM syncguard_fence_counters WHERE fence_key = 'fence:a'`,
		},
		{check: "syncguard_counters", sql: forgetAll + `;` + rowAt(lockRow, "000000000000042"), saw: "stands at 0"},
		{check: "syncguard_counters", sql: forgetAll + `;` + rowAt(counterRow, "-6"), saw: "stands at -6"},
		{check: "syncguard_headroom", warn: true, sql: forgetAll + `;` + rowAt(counterRow, "90000000000001"), saw: "fence:a stands at 90000000000001", cure: forgetAll},
		{check: "syncguard_headroom", sql: forgetAll + `;` + rowAt(counterRow, "900000000000000"), saw: "fence:a stands at 900000000000000", cure: forgetAll},
		{check: "syncguard_rows", warn: true, sql: rowAt(counterRow, "3") + rowAt(lockRow, "0000000000000-5"), saw: "its fence is '0000000000000-5'", cure: forgetAll},
		{check: "syncguard_rows", warn: true, sql: rowAt(counterRow, "3") + rowAt(lockRow, "7"), saw: "its fence is '7'", revoke: "a"},
		{check: "syncguard_rows", warn: true, sql: rowAt(counterRow, "3") + rowAt(lockRow, "000000000000003") + `UPDATE syncguard_locks SET user_key = 'b'`, saw: "its user_key is another", cure: forgetAll},
		{check: "syncguard_rows", warn: true, sql: rowAt(counterRow, "3") + rowAt(lockRow, "000000000000003") + `UPDATE syncguard_locks SET key = U&'cafe\0301', user_key = U&'cafe\0301', fence = '000000000000000'`, saw: "not in the Unicode form NFC", cure: forgetAll},
		{
			check: "syncguard_lapsed", warn: true, saw: "1 leases ended more than a day ago",
			sql: rowAt(counterRow, "3") + rowAt(lockRow, "000000000000003") + `UPDATE syncguard_locks SET expires_at_ms = expires_at_ms - 2 * 86400000`,
		},
		{check: "syncguard_audit", warn: true, sql: `DROP TABLE dlockctl_syncguard_audit; DELETE FROM dlockctl_syncguard_history WHERE version IS NULL`, saw: "there is no table"},
		{check: "syncguard_audit", warn: true, sql: `ALTER TABLE dlockctl_syncguard_audit ENABLE TRIGGER append_only`, saw: "not ENABLE ALWAYS", cure: `ALTER TABLE dlockctl_syncguard_audit ENABLE ALWAYS TRIGGER append_only`},
		{check: "syncguard_connections", warn: true, sql: `ALTER DATABASE {db} CONNECTION LIMIT 4`, saw: "of the 4 that the database lets in"},
		{
			check: "syncguard_tables", saw: "there are no tables", also: map[string]doctor.Status{
				"syncguard_indexes": doctor.Fail, "syncguard_acts": unavailable, "syncguard_counters": unavailable, "syncguard_headroom": unavailable, "syncguard_rows": unavailable, "syncguard_lapsed": unavailable, "syncguard_blockers": unavailable,
			},
			sql: `DROP TABLE syncguard_locks, syncguard_fence_counters, public.syncguard_locks_retired, public.syncguard_fence_counters_retired; DROP TABLE dlockctl_syncguard_history`,
		},
	}
}

// Each fault of SyncGuard's tables is found by its check alone, and the fix that it
// prints, run word for word, puts it right.
//
// Clauses: K-10.2, K-7.2
// Mutation: take a check out of SyncGuardChecks, or a condition out of its query.
func TestFaultsOfSyncGuard(t *testing.T) { //nolint:tparallel // one patient for all
	t.Parallel()
	g := newGuarded(t)
	for _, f := range guardFaults() {
		if !t.Run(f.check, func(t *testing.T) { g.suffer(t, f) }) {
			break
		}
	}
}

// Who keeps a key or a row in an open transaction is named with what it keeps, and is
// left to its program, whatever name its connection goes by: it may be the library's.
//
// Clauses: K-2.11, K-10.2
// Mutation: leave the advisory lock or the table lock out of syncguard_blockers.sql, or
// let guardBlockers terminate what is idle.
func TestBlockersOfSyncGuard(t *testing.T) {
	t.Parallel()
	for _, f := range []struct{ name, application, sql, saw string }{
		{"row", "", `UPDATE syncguard_fence_counters SET fence = fence`, "rows of syncguard_fence_counters"},
		{"key", "shop-web", `SELECT pg_advisory_xact_lock(hashtext('a'))`, "lock 'a'"},
		{"library", "postgres.js", `SELECT pg_advisory_xact_lock(hashtext('a'))`, "postgres.js"},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t)
			holder := g.blocked(t, f.application, f.sql)
			ended := fmt.Sprintf(`SELECT pg_terminate_backend(%d, 5000)`, holder.PgConn().PID()) // as if its program had ended it
			g.suffer(t, guardFault{check: "syncguard_blockers", warn: true, saw: f.saw, cure: ended})
		})
	}
}

// blocked begins a transaction that keeps what sql takes, and makes the doctor alone
// believe that it is two minutes later.
func (g *guarded) blocked(t *testing.T, application, sql string) *pgx.Conn {
	t.Helper()
	g.exec(t, rowAt(counterRow, "1")+`CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now() + interval ''2 minutes'''`)
	config := g.config.Copy()
	if application != "" {
		config.RuntimeParams["application_name"] = application
	}
	holder, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.PgConn().Conn().Close() })
	if _, err := holder.PgConn().Exec(t.Context(), "BEGIN;"+sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
	g.config.RuntimeParams["search_path"] = "app, public, pg_catalog"
	return holder
}

// One that is at work is cancelled by the fix: its transaction is undone, and its
// connection lives on.
//
// Clauses: K-2.11, K-10.2
// Mutation: let guardBlockers offer nothing, or terminate, for what is active.
func TestActiveBlockerIsCancelled(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	holder := g.blocked(t, "shop-web", `SELECT pg_advisory_xact_lock(hashtext('a'))`)
	behind := g.db.Conn(t, "super")
	if _, err := behind.Exec(t.Context(), `SELECT pg_advisory_lock(7, 7)`); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := holder.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7, 7)`)
		answer <- err
	}()
	pid := int64(holder.PgConn().PID())
	pgtest.Eventually(t, "the holder is at work", func(ctx context.Context) (waits bool, err error) {
		err = behind.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1)`, pid).Scan(&waits)
		return waits, err
	})
	fix := g.notOK(t)["syncguard_blockers"].Fix
	if want := fmt.Sprintf(`SELECT pg_cancel_backend(%d)`, pid); fix == nil || fix.Run != want || fix.As != doctor.Superuser {
		t.Fatalf("the fix is %+v, want %s", fix, want)
	}
	g.exec(t, fix.Run)
	if refused, ok := errors.AsType[*pgconn.PgError](<-answer); !ok || refused.Code != pgerrcode.QueryCanceled {
		t.Errorf("the holder was told %v, want that its statement was cancelled", refused)
	}
	if found := g.notOK(t); len(found) > 0 {
		t.Errorf("after the fix:\n%s", said(found))
	}
	if _, err := holder.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Errorf("its connection: %v", err)
	}
}
