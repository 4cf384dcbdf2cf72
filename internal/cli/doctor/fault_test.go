package doctor_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/doctor"
)

// lockFaults are planted one after the other in one lockdb.
func lockFaults() []fault {
	return slices.Concat(sameFaults(doctor.LockDB), []fault{
		{check: "lockdb_peer", sql: `DELETE FROM peer_instance`, saw: "nothing is recorded"},
		{check: "lockdb_peer", sql: `UPDATE peer_instance SET system_identifier = 7`, saw: "it recorded 7"},
		{check: "lockdb_schema", sql: `DELETE FROM flyway_schema_history WHERE version::int >= 14`, saw: "version 13"},
		{check: "lockdb_guards", sql: `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order`, saw: "lock_entry_order on lock_entry is disabled"},
		{check: "lockdb_guards", sql: `ALTER TABLE lock_session ENABLE TRIGGER lock_session_guard`, saw: "not ENABLE ALWAYS"},
		{check: "lockdb_guards", sql: `ALTER TABLE lock_entry ENABLE REPLICA TRIGGER lock_entry_gate`, saw: "replica mode only"},
		{check: "lockdb_guards", sql: `DROP TRIGGER lock_grant_move ON lock_entry; DROP TRIGGER lock_revocation_append_only ON lock_revocation`, saw: "missing"},
		{check: "lockdb_guards", sql: `ALTER TABLE lock_entry ENABLE TRIGGER lock_grant_end_applied`, saw: "lock_grant_end_applied on lock_entry is not ENABLE REPLICA"},
		{check: "lockdb_guards", sql: `DROP TRIGGER lock_grant_guard ON lock_grant`, saw: "lock_grant_guard on lock_grant is missing"},
		{check: "lockdb_guards", sql: `ALTER TABLE lock_grant_0 DISABLE TRIGGER lock_grant_guard`, saw: "lock_grant_guard on lock_grant_0"},
		{check: "lockdb_guards", sql: `DROP TRIGGER lock_grant_no_truncate ON lock_grant_1`, saw: "lock_grant_no_truncate on lock_grant_1"},
		{check: "lockdb_guards", sql: `ALTER TABLE operator_log DISABLE TRIGGER operator_log_chain`, saw: "operator_log_chain"},
		{check: "lockdb_guards", sql: `ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_chain`, saw: "fires always"},
		{check: "lockdb_guards", sql: `DROP TRIGGER lock_entry_order ON lock_entry; CREATE TRIGGER lock_entry_order BEFORE INSERT ON lock_entry FOR EACH STATEMENT EXECUTE FUNCTION lock_entry_gate();
			ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_order`, saw: "runs lock_entry_gate()"},
		{check: "lockdb_functions", sql: `ALTER FUNCTION lock_entry_order() RESET search_path`, saw: "no fixed search_path"},
		{check: "lockdb_functions", sql: `CREATE OR REPLACE FUNCTION lock_entry_order() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`, saw: "another body"},
		{check: "lockdb_functions", sql: `DROP FUNCTION lock_gate_check()`, saw: "missing"},
		{check: "lockdb_functions", sql: `CREATE OR REPLACE FUNCTION lock_grant_extend(ahead INTEGER DEFAULT 2) RETURNS INTEGER LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN 0; END'`, saw: "lock_grant_extend() has another body"},
		{check: "lockdb_sequence", sql: `ALTER SEQUENCE fencing_token_seq CACHE 20`, saw: "CACHE 20"},
		{check: "lockdb_sequence", sql: `ALTER SEQUENCE fencing_token_seq CYCLE`, saw: "CYCLE"},
		{check: "lockdb_sequence", sql: `ALTER SEQUENCE fencing_token_seq INCREMENT BY 2`, saw: "INCREMENT 2"},
		{check: "lockdb_sequence", sql: `ALTER SEQUENCE fencing_token_seq SET UNLOGGED`, saw: "not logged"},
		// A smaller type has a smaller end.
		{check: "lockdb_sequence", sql: `ALTER SEQUENCE fencing_token_seq AS integer`, saw: "integer", also: map[string]doctor.Status{"lockdb_headroom": doctor.Fail}},
		{check: "lockdb_headroom", sql: `ALTER SEQUENCE fencing_token_seq MAXVALUE 1000000`, saw: "ends at 1000000"},
		{
			check: "lockdb_headroom", sql: `ALTER SEQUENCE fencing_token_seq RESTART 9007199254740000`, saw: "9007199254740992",
			cure: `ALTER SEQUENCE fencing_token_seq RESTART 1`, also: map[string]doctor.Status{"lockdb_journal_partition": doctor.Warn},
		},
		{check: "lockdb_gate", sql: `UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'restore drill'`, saw: "closed by erin: restore drill"},
		{check: "lockdb_synchronous_commit", sql: `ALTER DATABASE {db} SET synchronous_commit = 'off'`, warn: true, saw: "off for the database"},
		{check: "lockdb_synchronous_commit", sql: `ALTER ROLE t_lockapp IN DATABASE {db} SET synchronous_commit = 'remote_write'`, warn: true, saw: "role t_lockapp"},
		{check: "lockdb_idle_timeout", sql: `ALTER ROLE t_lockapp IN DATABASE {db} RESET idle_in_transaction_session_timeout`, warn: true, saw: "t_lockapp has none"},
		{check: "lockdb_idle_timeout", sql: `ALTER ROLE t_lockapp IN DATABASE {db} SET idle_in_transaction_session_timeout = 0`, warn: true, saw: "t_lockapp has none"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT UPDATE ON SEQUENCE fencing_token_seq TO lockapp`, saw: "has UPDATE on fencing_token_seq"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT INSERT, UPDATE, DELETE, TRUNCATE ON lock_grant, operator_log, lock_gate, peer_instance TO lockapp`, saw: "has TRUNCATE on lock_grant"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT INSERT (id) ON lock_revocation TO lockapp`, saw: "has INSERT on lock_revocation.id"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT INSERT ON lock_revocation TO lockapp`, saw: "has INSERT on lock_revocation"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT DELETE ON lock_grant_0 TO lockapp`, saw: "lock_grant_0"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT SELECT ON lock_entry TO lockapp WITH GRANT OPTION`, saw: "may grant SELECT on lock_entry"},
		{check: "lockdb_privileges_lockapp", sql: `REVOKE UPDATE ON lock_entry FROM lockapp; REVOKE USAGE ON SEQUENCE fencing_token_seq FROM lockapp`, saw: "lacks UPDATE on lock_entry"},
		{check: "lockdb_privileges_lockapp", sql: `GRANT CREATE ON SCHEMA public TO lockapp`, saw: "has CREATE on schema public"},
		{check: "lockdb_privileges_lockapp", sql: `REVOKE EXECUTE ON FUNCTION lock_grant_extend FROM lockapp`, saw: "lacks EXECUTE on lock_grant_extend"},
		{check: "lockdb_privileges_dlock_operator", sql: `GRANT UPDATE ON operator_log TO dlock_operator`, saw: "has UPDATE on operator_log"},
		{check: "lockdb_privileges_dlock_auditor", sql: `GRANT DELETE ON lock_entry TO dlock_auditor`, saw: "has DELETE on lock_entry"},
		{check: "lockdb_privileges_others", sql: `GRANT SELECT ON lock_entry TO PUBLIC`, saw: "PUBLIC has SELECT on lock_entry"},
		{check: "lockdb_privileges_others", sql: `GRANT EXECUTE ON FUNCTION lock_grant_extend TO PUBLIC`, saw: "PUBLIC has EXECUTE"},
		{check: "lockdb_privileges_others", sql: `GRANT CREATE ON SCHEMA public TO PUBLIC`, saw: "PUBLIC has CREATE on schema", also: map[string]doctor.Status{
			"lockdb_privileges_lockapp": doctor.Fail, "lockdb_privileges_dlock_operator": doctor.Fail, "lockdb_privileges_dlock_auditor": doctor.Fail,
		}},
		{check: "lockdb_privileges_others", sql: `GRANT INSERT ON lock_grant TO t_auditor; GRANT SELECT ON lock_grant TO t_rail`, saw: "t_auditor has INSERT on lock_grant"},
		{check: "lockdb_privileges_others", sql: `GRANT SELECT ON lock_entry TO payapp_rail`, saw: "payapp_rail has SELECT"},
		{check: "lockdb_owner", sql: `ALTER SEQUENCE fencing_token_seq OWNER TO t_owner; ALTER FUNCTION lock_gate_check OWNER TO t_owner; ALTER TABLE lock_gate OWNER TO t_owner`, saw: "lock_gate belongs to t_owner"},
		{check: "lockdb_journal_partition", sql: `DROP TABLE lock_grant_0`, warn: true, saw: "token 1 has none"},
		{check: "lockdb_journal_default", sql: `DROP TABLE lock_grant_0;
			INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES (gen_random_uuid(), 'alice', now() + interval '1 hour');
			INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at) SELECT 'k' || n, 'alice', session_id, 1, now() + interval '1 hour' FROM lock_session, generate_series(1, 3) n;
			SELECT lock_grant_extend()`, warn: true, saw: "stand there"},
		{check: "lockdb_lapsed", warn: true, saw: "1 sessions lapsed", sql: `INSERT INTO lock_session (session_id, owner_id, created_at, expires_at) VALUES (gen_random_uuid(), 'gone', now() - interval '2 hours', now() - interval '1 hour')`},
		{check: "lockdb_mark", saw: "/nowhere", plant: func(_ *testing.T, p *patient) func(*testing.T) { return swap(&p.target.MarkDir, "/nowhere") }},
		{check: "lockdb_mark", saw: "does not say where", sql: `UPDATE outside_mark SET kept = true, kept_since = now()`, cure: `UPDATE outside_mark SET kept = false, kept_since = NULL`},
		// Last, for their cure moves the tokens.
		{check: "lockdb_tokens_ahead", saw: "paydb holds token 5000", plant: func(t *testing.T, p *patient) func(*testing.T) {
			t.Helper()
			p.exec(t, p.dbs.Pay, `INSERT INTO account (account_id, currency, fence) VALUES (gen_random_uuid(), 'EUR', 5000)`)
			return nil
		}},
		{check: "lockdb_gate", sql: `UPDATE lock_gate SET timeline_id = 77`, saw: "on timeline 77"},
		{check: "lockdb_gate", sql: `DELETE FROM lock_gate`, saw: "no gate"},
		{
			check: "lockdb_gate", saw: "a fast-forward that erin began",
			sql: `UPDATE lock_gate SET run_id = gen_random_uuid(), run_by = 'erin', run_at = now(), run_reason = 'cut off'`,
		},
	})
}

// sameFaults are those of either database.
func sameFaults(database string) []fault {
	shadow := func(function string) string {
		return function + `; ALTER DATABASE {db} SET search_path = public, pg_catalog`
	}
	later := func(seconds string) string {
		return shadow(`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + interval ''` + seconds + `'''`)
	}
	const unshadow = `ALTER DATABASE {db} RESET search_path; `
	return []fault{
		{
			check: database + "_reachable", sql: `REVOKE CONNECT ON DATABASE {db} FROM PUBLIC`, saw: "permission denied for database",
			also: unknownWithout(database),
		},
		{
			check: database + "_version", saw: "PostgreSQL 14.9",
			sql: shadow(`CREATE FUNCTION public.current_setting(what text) RETURNS text LANGUAGE sql AS $$
				SELECT CASE what WHEN 'server_version_num' THEN '140009' WHEN 'server_version' THEN '14.9' ELSE pg_catalog.current_setting(what) END $$`),
			cure: unshadow + `DROP FUNCTION public.current_setting(text)`,
		},
		{
			check: database + "_clock", warn: true, sql: later("5s"), like: `is (4\.[5-9]|5|5\.[1-5])s ahead of this machine`, also: map[string]doctor.Status{"clocks_agree": doctor.Warn},
			cure: unshadow + `DROP FUNCTION public.clock_timestamp()`,
		},
		{
			check: database + "_clock", warn: true, sql: later("-1h"), like: `this machine is (59m59\.[5-9]s|1h0m0s|1h0m0\.[1-5]s) ahead`, also: map[string]doctor.Status{"clocks_agree": doctor.Warn},
			cure: unshadow + `DROP FUNCTION public.clock_timestamp()`,
		},
		{
			check: database + "_schema", saw: "version 900", cure: `DELETE FROM flyway_schema_history WHERE version = '900'`,
			sql: `INSERT INTO flyway_schema_history (installed_rank, version, description, type, script, installed_by, execution_time, success) VALUES (900, '900', 'later', 'SQL', 'V900__later.sql', 'x', 1, true)`,
		},
		{check: database + "_history", sql: `UPDATE flyway_schema_history SET checksum = 1 WHERE version = '3'`, saw: "version 3"},
		{check: database + "_connections", sql: `ALTER DATABASE {db} CONNECTION LIMIT 4`, warn: true, saw: "of the 4 that the database lets in"},
		{check: database + "_long_transactions", warn: true, saw: "idle in transaction", plant: longTransaction(database)},
		{
			check: database + "_history", saw: "failed",
			sql: `UPDATE flyway_schema_history SET success = false WHERE installed_rank = (SELECT max(installed_rank) FROM flyway_schema_history WHERE version IS NOT NULL); INSERT INTO flyway_schema_history
				SELECT installed_rank + 100, version, description, type, script, checksum, installed_by, installed_on, execution_time, true FROM flyway_schema_history WHERE NOT success`,
		},
		{check: database + "_isolation", sql: `ALTER DATABASE {db} SET default_transaction_isolation = 'repeatable read'`, warn: true, saw: "repeatable read for the database"},
		{check: database + "_isolation", sql: `ALTER ROLE t_auditor IN DATABASE {db} SET default_transaction_isolation = 'serializable'`, warn: true, saw: "serializable for role t_auditor"},
	}
}

// longTransaction leaves a transaction open, and has the doctor alone believe that
// it is two minutes later.
func longTransaction(database string) func(*testing.T, *patient) func(*testing.T) {
	return func(t *testing.T, p *patient) func(*testing.T) {
		t.Helper()
		if _, err := p.db(database).Conn(t, "t_auditor").Exec(t.Context(), `BEGIN; SELECT 1`, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		p.exec(t, p.db(database), `CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now() + interval ''2 minutes'''`)
		target := &p.target.Lock
		if database == doctor.PayDB {
			target = &p.target.Pay
		}
		later := (*target).Copy()
		later.RuntimeParams["search_path"] = "public, pg_catalog"
		*target = later
		return nil
	}
}

// unknownWithout are the checks that need the database.
func unknownWithout(database string) map[string]doctor.Status {
	unknown := map[string]doctor.Status{"lockdb_peer": doctor.Unknown, "paydb_peer": doctor.Unknown}
	for _, c := range doctor.Checks() {
		if c.ID != database+"_reachable" && (c.Database == database || c.Database == doctor.Both) {
			unknown[c.ID] = doctor.Unknown
		}
	}
	return unknown
}

// payFaults are planted one after the other in one paydb.
func payFaults() []fault {
	return slices.Concat(sameFaults(doctor.PayDB), []fault{
		{check: "paydb_peer", sql: `UPDATE peer_instance SET system_identifier = 7`, saw: "it recorded 7"},
		{check: "paydb_guards", sql: `ALTER TABLE payout DISABLE TRIGGER payout_guard`, saw: "payout_guard on payout is disabled"},
		{check: "paydb_guards", sql: `ALTER TABLE rail_high_water ENABLE TRIGGER rail_high_water_floor`, saw: "not ENABLE ALWAYS"},
		{check: "paydb_guards", sql: `DROP TRIGGER ledger_entry_append_only ON ledger_entry; DROP TRIGGER account_guard ON account`, saw: "ledger_entry_append_only on ledger_entry is missing"},
		{check: "paydb_functions", sql: `ALTER FUNCTION pay_gate_check(UUID, BOOLEAN) SET search_path = public`, saw: "no fixed search_path"},
		{check: "paydb_functions", sql: `CREATE OR REPLACE FUNCTION below_fence_floor(at_point TEXT, token BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS 'BEGIN RETURN false; END'`, saw: "another body"},
		{check: "paydb_gate", sql: `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'drill'`, saw: "closed by erin"},
		{
			check: "paydb_gate", saw: "knows instance 7", sql: `ALTER TABLE pay_gate DISABLE TRIGGER USER; UPDATE pay_gate SET system_identifier = 7; ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard, ENABLE ALWAYS TRIGGER pay_gate_kept`,
		},
		{
			check: "paydb_floors", saw: "the floor of rail is missing",
			sql: `ALTER TABLE fence_floor DISABLE TRIGGER fence_floor_kept; DELETE FROM fence_floor WHERE point = 'rail'; ALTER TABLE fence_floor ENABLE ALWAYS TRIGGER fence_floor_kept`,
		},
		{
			check: "paydb_floors", saw: "both floors are missing",
			sql: `ALTER TABLE fence_floor DISABLE TRIGGER fence_floor_kept; DELETE FROM fence_floor; ALTER TABLE fence_floor ENABLE ALWAYS TRIGGER fence_floor_kept`,
		},
		{check: "paydb_synchronous_commit", sql: `ALTER DATABASE {db} SET synchronous_commit = 'local'`, saw: "local for the database"},
		{check: "paydb_privileges_payapp", sql: `GRANT SELECT ON rail_high_water TO payapp`, saw: "has SELECT on rail_high_water"},
		{check: "paydb_privileges_payapp_resource", sql: `GRANT SELECT, UPDATE ON rail_high_water TO payapp_resource`, saw: "has UPDATE on rail_high_water"},
		{check: "paydb_privileges_payapp_resource", sql: `REVOKE UPDATE (fence) ON account FROM payapp_resource`, saw: "lacks UPDATE on account.fence"},
		{check: "paydb_privileges_payapp_rail", sql: `GRANT UPDATE (state) ON payout TO payapp_rail`, saw: "has UPDATE on payout.state"},
		{check: "paydb_privileges_dlock_operator", sql: `GRANT UPDATE (balance_minor) ON account TO dlock_operator`, saw: "has UPDATE on account.balance_minor"},
		{check: "paydb_privileges_dlock_auditor", sql: `GRANT INSERT ON payout TO dlock_auditor`, saw: "has INSERT on payout"},
		{check: "paydb_privileges_others", sql: `GRANT EXECUTE ON FUNCTION payout_claim_record TO PUBLIC`, saw: "PUBLIC has EXECUTE"},
		{check: "paydb_privileges_others", sql: `GRANT ALL ON account TO lockapp`, saw: "lockapp has DELETE on account"},
		{check: "paydb_owner", sql: `ALTER TABLE fence_floor OWNER TO t_owner; ALTER FUNCTION account_guard OWNER TO t_owner`, saw: "account_guard() belongs to t_owner"},
	})
}

// Each fault in lockdb is found by its check and by no other, and is gone after
// the printed fix has been run, word for word.
//
// Clauses: K-1.1, K-1.4, K-1.5, K-1.6, K-2.10, K-2.11, K-6.1, K-7.4, K-7.6, K-9.3, K-9.5, K-11, K-12.1
// Mutation: take a check out of the table, or a statement out of a fix.
func TestFaultsOfLockdb(t *testing.T) { //nolint:tparallel // its faults share one patient
	t.Parallel()
	p := newPatient(t)
	for i, f := range lockFaults() {
		if !t.Run(fmt.Sprintf("%s_%d", f.check, i), func(t *testing.T) { p.suffer(t, f) }) {
			break
		}
	}
}

// The same for paydb.
//
// Clauses: K-1.1, K-2.10, K-4.6, K-4.12, K-6.1, K-7.9, K-9.3, K-9.5, K-12.1
// Mutation: take a check out of the table, or a statement out of a fix.
func TestFaultsOfPaydb(t *testing.T) { //nolint:tparallel // its faults share one patient
	t.Parallel()
	p := newPatient(t)
	for i, f := range payFaults() {
		if !t.Run(fmt.Sprintf("%s_%d", f.check, i), func(t *testing.T) { p.suffer(t, f) }) {
			break
		}
	}
}

// No check without a fault that it finds.
func TestEveryCheckHasItsFault(t *testing.T) {
	t.Parallel()
	planted := map[string]bool{}
	for _, f := range slices.Concat(lockFaults(), payFaults(), clusterFaults(), otherFaults()) {
		planted[f.check] = true
	}
	var ids []string
	for _, c := range doctor.Checks() {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	if diff := cmp.Diff(ids, slices.Sorted(maps.Keys(planted))); diff != "" {
		t.Errorf("checks without a fault, or faults of no check (-checks +planted):\n%s", diff)
	}
}
