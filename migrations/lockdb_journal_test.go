package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// journalStory is what happens to lock_entry, one statement a line, sets and single
// rows, with every way for a grant to begin and to end. S1 and S2 are sessions.
const journalStory = `
INSERT INTO lock_entry SELECT 'many-' || g, 'alice', S1, 1, now(), now() + interval '1 hour' FROM generate_series(1, 20) g
INSERT INTO lock_entry VALUES ('one', 'alice', S1, 1, now(), now() + interval '1 hour')
INSERT INTO lock_entry SELECT 'many-' || g, 'bob', S2, 1, now(), now() + interval '1 hour' FROM generate_series(15, 25) g ON CONFLICT (lock_key) DO UPDATE SET owner_id = EXCLUDED.owner_id WHERE lock_entry.expires_at <= now()
INSERT INTO lock_entry SELECT 'many-' || g, 'alice', S1, 1, now(), now() + interval '1 hour' FROM generate_series(18, 30) g ON CONFLICT (lock_key) DO UPDATE SET acquired_at = now() + interval '1 second' WHERE lock_entry.owner_id = EXCLUDED.owner_id
INSERT INTO lock_entry SELECT 'none', 'alice', S1, 1, now(), now() + interval '1 hour' WHERE false
UPDATE lock_entry SET expires_at = now() + interval '2 hours' WHERE lock_key = 'one'
UPDATE lock_entry SET owner_id = 'bob', session_id = S2 WHERE lock_key IN ('many-1', 'many-2')
DELETE FROM lock_entry WHERE lock_key = 'nobody'
DELETE FROM lock_entry WHERE lock_key = 'one'
DELETE FROM lock_entry WHERE lock_key IN ('many-3', 'many-4', 'many-5')
WITH gone AS (DELETE FROM lock_entry WHERE lock_key IN ('many-6', 'many-7') RETURNING *) INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) SELECT lock_key, owner_id, fencing_token, 'erin', 'why' FROM gone WHERE lock_key = 'many-6'
WITH gone AS (DELETE FROM lock_entry WHERE lock_key = 'many-8' RETURNING *) INSERT INTO lock_entry SELECT 'moved', owner_id, session_id, 1, now(), now() + interval '1 hour' FROM gone
SET dlock.ending = 'void'; WITH gone AS (DELETE FROM lock_entry WHERE lock_key IN ('many-9', 'many-10') RETURNING *) INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) SELECT lock_key, owner_id, fencing_token, 'erin', 'why' FROM gone; RESET dlock.ending
ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_guard; UPDATE lock_entry SET acquired_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' WHERE lock_key IN ('many-11', 'many-12', 'many-13'); ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_guard
DELETE FROM lock_entry WHERE lock_key IN ('many-11', 'many-14')
INSERT INTO lock_entry VALUES ('many-12', 'bob', S2, 1, now(), now() + interval '1 hour') ON CONFLICT (lock_key) DO UPDATE SET owner_id = EXCLUDED.owner_id, session_id = EXCLUDED.session_id, acquired_at = now(), expires_at = EXCLUDED.expires_at WHERE lock_entry.expires_at <= now()
DELETE FROM lock_session WHERE session_id = S2
DELETE FROM lock_session`

// tell has the story happen under a replication role, and returns the journal.
func tell(t *testing.T, conn *pgx.Conn, role string) []string {
	t.Helper()
	lockdbExec(t, conn, `INSERT INTO lock_session VALUES ('`+lockdbSession+`', 'alice', now(), now() + interval '1 day'), ('20000000-0000-4000-8000-000000000000', 'bob', now(), now() + interval '1 day')`)
	lockdbExec(t, conn, "SET session_replication_role = "+role)
	for line := range strings.SplitSeq(strings.TrimSpace(journalStory), "\n") {
		sql := strings.NewReplacer("S1", "'"+lockdbSession+"'", "S2", "'20000000-0000-4000-8000-000000000000'").Replace(line)
		if role == "replica" && strings.HasPrefix(sql, "DELETE FROM lock_session") {
			sql = "SET session_replication_role = origin; " + sql + "; SET session_replication_role = replica" // nothing cascades there
		}
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	lockdbExec(t, conn, "SET session_replication_role = origin")
	rows, err := conn.Query(t.Context(), `SELECT format('%s %s %s %s %s %s', fencing_token, lock_key, owner_id, session_id, granted_at >= now() - interval '1 hour', ended) FROM lock_grant ORDER BY fencing_token`)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return journal
}

// The journal that the statement triggers of V14 write is, grant for grant, the one
// that the row triggers of V7 wrote, and so is that of the replica role, where
// logical apply fires row triggers alone.
//
// Clauses: K-11, K-1.1
// Mutation: leave out a case of lock_grants_end, the look at the replication role in
// lock_grants_begin, or one of the triggers that are that role's.
func TestLockdbJournalByStatement(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		for _, role := range []string{"origin", "replica"} {
			t.Run(fmt.Sprint(major, role), func(t *testing.T) {
				t.Parallel()
				byRow, byStatement := pgtest.Servers(t, major).Lock.EmptyDB(t).Conn(t, "super"), pgtest.Servers(t, major).Lock.EmptyDB(t).Conn(t, "super")
				applyUpTo(t, byRow, "lockdb", 13)
				applyAll(t, byStatement, "lockdb")
				want, got := tell(t, byRow, role), tell(t, byStatement, role)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the journal (-by row +by statement):\n%s", diff)
				}
				endings := map[string]bool{}
				for _, line := range got {
					endings[line[strings.LastIndexByte(line, ' ')+1:]] = true
				}
				if len(endings) != 7 {
					t.Errorf("the story has the endings %v, want all seven", endings)
				}
			})
		}
	}
}

// A plan that a connection has made while the journal was small looks a token up by
// its index, as it must when the journal has grown.
//
// Clauses: K-11
// Mutation: leave out "SET enable_seqscan = off" of lock_grants_end or lock_grant_move.
func TestLockdbJournalLooksTokensUp(t *testing.T) {
	t.Parallel()
	_, conn := lockdb(t, 16)
	scanned := func() (scans int64) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT sum(seq_scan) FROM pg_stat_xact_user_tables WHERE relname LIKE 'lock\_grant%'`).Scan(&scans); err != nil {
			t.Fatal(err)
		}
		return scans
	}
	scans := func(end string) int64 {
		t.Helper()
		lockdbExec(t, conn, lockdbGrant, "a", lockdbSession)
		lockdbExec(t, conn, "VACUUM ANALYZE lock_grant")
		lockdbExec(t, conn, "BEGIN")
		before := scanned()
		lockdbExec(t, conn, end)
		scans := scanned() - before
		lockdbExec(t, conn, "COMMIT")
		lockdbExec(t, conn, "DELETE FROM lock_entry")
		return scans
	}
	for _, way := range []struct{ function, end string }{
		{"lock_grants_end", "DELETE FROM lock_entry"},
		{"lock_grant_move", "UPDATE lock_entry SET owner_id = 'bob'"},
	} {
		if n := scans(way.end); n != 0 {
			t.Errorf("%s: %d scans of the journal, want none", way.end, n)
		}
		// The negative control: it is the setting that keeps the plan from it.
		lockdbExec(t, conn, "ALTER FUNCTION "+way.function+"() RESET enable_seqscan")
		if n := scans(way.end); n == 0 {
			t.Errorf("%s: no scan of the journal without the setting; this test proves nothing", way.end)
		}
	}
}
