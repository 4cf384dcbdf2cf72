package runbook_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// restored does what has happened when a runbook of restores is opened, and returns
// what must be so at its end.
func restored() map[string]func(*testing.T, *stage) (after func()) {
	safe := func() {}
	return map[string]func(*testing.T, *stage) func(){
		"restore-lockdb.md": func(t *testing.T, s *stage) func() { s.setBack(t); return safe },
		"failover.md": func(t *testing.T, s *stage) func() {
			s.env = append(s.env, "OLD_PRIMARY="+s.setBack(t).DSN("t_operator"))
			return safe
		},
		"restore-paydb.md":     forgetPayments,
		"clone-for-staging.md": func(t *testing.T, s *stage) func() { s.clone(t); return safe },
		"major-upgrade.md":     func(t *testing.T, s *stage) func() { s.move(t); return safe },
	}
}

// The cases of the runbooks of restores. Unplanned is played beside every page's own
// blocks here, managed in TestRunbooksOnManagedService, and the others, which take a
// server of one's own and the backup of it, by make pgbackrest.
const (
	unplanned  = "unplanned"
	managed    = "managed"
	plain      = "plain"
	planned    = "planned"
	pgBackRest = "pgbackrest"
	standby    = "standby"
	logical    = "logical"
	pgUpgrade  = "pg_upgrade"
)

func cases() []string {
	return []string{unplanned, managed, plain, planned, pgBackRest, standby, logical, pgUpgrade}
}

// Every runbook of restores ends where locks are granted above everything that
// anybody remembers, by its own words.
//
// Clauses: K-7.4, K-7.6, K-7.9
// Mutation: leave fast-forward, freeze or payout resolve out of a page.
func TestRestoreRunbooks(t *testing.T) {
	t.Parallel()
	for name, restore := range restored() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.useLockdb(s.dbs.Lock)
			after := restore(t, s)
			s.run(t, filepath.Join(folder, name), unplanned)
			after()
			s.shows(t, `DLOCKCTL_LOCK_DSN=$LOCKDB_AUDITOR DLOCKCTL_PAY_DSN=$PAYDB_AUDITOR dlockctl restore verify`)
		})
	}
}

// shows runs a command that must succeed.
func (s *stage) shows(t *testing.T, command string) {
	t.Helper()
	if out, err := s.shell(t, command); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// setBack puts a copy in lockdb's place that was made before its last grants, on a
// timeline of its own, and returns the one that has them. A template is copied
// exactly, identifiers included; the timeline is what a restore changes.
func (s *stage) setBack(t *testing.T) (lost pgtest.DB) {
	t.Helper()
	copied := swap(t, s.dbs.Lock)
	s.shows(t, "dlockctl acquire account:00000000-0000-4000-8000-000000000001 --ttl 10m")
	s.shows(t, "DLOCKCTL_LOCK_DSN=$LOCKDB_OPERATOR DLOCKCTL_PAY_DSN=$PAYDB_OPERATOR dlockctl revoke account:00000000-0000-4000-8000-000000000001 --any-token --yes "+
		"--reason 'after the backup' --fence-account 00000000-0000-4000-8000-000000000001")
	s.shows(t, "dlockctl acquire account:00000000-0000-4000-8000-000000000002 --ttl 10m")
	lost = copied()
	execute(t, s.dbs.Lock, `UPDATE lock_gate SET timeline_id = timeline_id + 1`)
	return lost
}

// useLockdb goes on with this lockdb.
func (s *stage) useLockdb(db pgtest.DB) {
	s.dbs.Lock = db
	s.env = append(s.env, "DLOCKCTL_LOCK_DSN="+db.DSN("t_lockapp"), "LOCKDB_AUDITOR="+db.DSN("t_auditor"),
		"LOCKDB_OPERATOR="+db.DSN("t_operator"), "LOCKDB_OWNER="+db.DSN("t_owner"))
}

// clone takes both databases for clones of production's, on a timeline of their own.
func (s *stage) clone(t *testing.T) {
	t.Helper()
	for _, db := range []pgtest.DB{s.dbs.Lock, s.dbs.Pay} {
		execute(t, db, `INSERT INTO deployment (environment) VALUES ('prod')`)
	}
	execute(t, s.dbs.Lock, `UPDATE lock_gate SET timeline_id = timeline_id + 1`)
}

// move goes on with a lockdb that was migrated anew, with the audit of the old one:
// what logical replication brings (test/rewind lets it).
func (s *stage) move(t *testing.T) {
	t.Helper()
	old := s.dbs.Lock
	s.env = append(s.env, "OLD_PRIMARY="+old.DSN("t_operator"))
	s.useLockdb(pgtest.Migrated(t, 16).Lock)
	var last int64
	if err := s.dbs.Lock.Conn(t, "super").QueryRow(t.Context(), `SELECT last_value FROM fencing_token_seq`).Scan(&last); err != nil || last != 1 {
		t.Fatalf("the sequence of the new lockdb stands at %d, %v; it is to be behind", last, err)
	}
}

// forgetPayments puts a copy in paydb's place in which payouts are unpaid that the
// rail has paid.
func forgetPayments(t *testing.T, s *stage) (after func()) {
	t.Helper()
	s.shows(t, `dlockctl payout create --account 00000000-0000-4000-8000-000000000001 --amount-minor 70 --currency EUR --idempotency-key paid-since-then`)
	swap(t, s.dbs.Pay)()
	execute(t, s.dbs.Pay, `ALTER TABLE pay_gate DISABLE TRIGGER pay_gate_guard`, `UPDATE pay_gate SET timeline_id = timeline_id + 1`,
		`ALTER TABLE pay_gate ENABLE ALWAYS TRIGGER pay_gate_guard`)
	var paid []string
	super := s.dbs.Pay.Conn(t, "super")
	err := super.QueryRow(t.Context(), `SELECT array_agg(idempotency_key) FROM payout
		WHERE state IN ('RAIL_SUBMITTED', 'RAIL_ACKED', 'RAIL_AMBIGUOUS') OR idempotency_key = 'paid-since-then'`).Scan(&paid)
	if err != nil || len(paid) < 2 {
		t.Fatalf("payouts at the rail: %v, %v", paid, err)
	}
	s.env = append(s.env, "DLOCKCTL_RAIL_URL="+payingRail(t, paid))
	return func() {
		t.Helper()
		var posted int
		err := super.QueryRow(t.Context(), `SELECT count(*) FROM payout WHERE state = 'POSTED' AND idempotency_key = ANY($1)`, paid).Scan(&posted)
		if err != nil || posted != len(paid) {
			t.Errorf("%d of the %d payouts that the rail has paid are posted: %v", posted, len(paid), err)
		}
	}
}

// payingRail has these in its record, and nothing else; nobody may ask it to pay.
func payingRail(t *testing.T, paid []string) (url string) {
	t.Helper()
	rail := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("the rail was asked to %s", r.Method)
		}
		key := r.FormValue("idempotency_key")
		answer := map[string]string{"idempotency_key": key, "outcome": "NOT_FOUND"}
		if slices.Contains(paid, key) {
			answer["outcome"], answer["reference"] = "ACKED", "R-"+key
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(rail.Close)
	return rail.URL + "/v1"
}

// swap copies a database, and returns what puts the copy in its place and tells
// where the database went. Both end every connection.
func swap(t *testing.T, db pgtest.DB) (putBack func() pgtest.DB) {
	t.Helper()
	elsewhere := pgtest.DB{Server: db.Server, Name: "postgres"}
	saved, lost := db.Server.EmptyDB(t), db.Server.EmptyDB(t)
	name := pgx.Identifier{db.Name}.Sanitize()
	ends := `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '` + db.Name + `'`
	execute(t, elsewhere, ends, `DROP DATABASE `+saved.Name, `CREATE DATABASE `+saved.Name+` TEMPLATE `+name+` OWNER dlock_owner`)
	return func() pgtest.DB {
		t.Helper()
		execute(t, elsewhere, ends, `DROP DATABASE `+lost.Name,
			`ALTER DATABASE `+name+` RENAME TO `+lost.Name, `ALTER DATABASE `+saved.Name+` RENAME TO `+name)
		return lost
	}
}

func execute(t *testing.T, db pgtest.DB, statements ...string) {
	t.Helper()
	conn := db.Conn(t, "super")
	defer conn.Close(t.Context())
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
