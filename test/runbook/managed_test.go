package runbook_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cloud is a machine whose owner has no superuser and no shell on it, as the customer
// of a managed service: admin may make roles and databases, and hand on what the service
// hands to it. What the provider does, the machine's own superuser does.
type cloud struct {
	*machine

	lock, pay *server
}

// provided makes the two instances that the provider sells, and on them what the customer
// has: group roles, logins, databases and both schemas, all by admin.
func provided(t *testing.T, m *machine) *cloud {
	t.Helper()
	c := &cloud{machine: m}
	for name, s := range map[string]**server{"lockdb": &c.lock, "paydb": &c.pay} {
		*s = c.instance(t, name)
	}
	m.migrated(t, c.lock, c.pay)
	return c
}

// instance is one more, with its roles and an empty database.
func (c *cloud) instance(t *testing.T, database string) *server {
	t.Helper()
	s := c.initdb(t, database)
	logging := ""
	for _, login := range slices.Sorted(maps.Keys(logins())) {
		logging += fmt.Sprintf(` -c "CREATE ROLE %[1]s LOGIN" -c "GRANT %[2]s TO %[1]s"`, login, logins()[login])
	}
	admin := strings.Replace(s.dsn("admin"), "dbname="+database, "dbname=postgres", 1)
	c.do(t, `psql "%[1]s" -v ON_ERROR_STOP=1 -qc 'CREATE ROLE admin LOGIN CREATEDB CREATEROLE' -c 'GRANT pg_signal_backend, pg_read_all_stats TO admin WITH ADMIN OPTION'
psql "%[2]s" -v ON_ERROR_STOP=1 -qc 'CREATE DATABASE %[4]s'
DLOCKCTL_LOCK_DSN="%[3]s" DLOCKCTL_PAY_DSN="%[3]s" dlockctl migrate roles --target %[4]s
psql "%[3]s" -v ON_ERROR_STOP=1 -q %[5]s -c 'GRANT pg_read_all_stats TO t_auditor, t_operator' -c 'ALTER DATABASE %[4]s OWNER TO dlock_owner'`,
		strings.Replace(s.dsn("postgres"), "dbname="+database, "dbname=postgres", 1), admin, s.dsn("admin"), database, logging)
	return s
}

// fork is the same customer's instances once more, from this moment on.
func (c *cloud) fork(t *testing.T) *cloud {
	t.Helper()
	m := newMachine(t, os.Getenv("DLOCKCTL_TEST_PG16"))
	f := &cloud{machine: m, lock: c.lock.copiedTo(t, m), pay: c.pay.copiedTo(t, m)}
	f.lock.start(t)
	f.pay.start(t)
	f.names(f.lock, f.pay)
	return f
}

// names are the page's names, in which no superuser is.
func (c *cloud) names(lock, pay *server) {
	c.works(lock, pay)
	c.env = append(c.env, "LOCKDB_ADMIN="+lock.dsn("admin"), "PAYDB_ADMIN="+pay.dsn("admin"), "LOGINS="+strings.Join(slices.Sorted(maps.Keys(logins())), " "))
}

// snapshot is what the provider restores later: the instance as it is now, which goes on.
func (s *server) snapshot(t *testing.T) *server {
	t.Helper()
	s.stop(t, "fast")
	snap := s.copied(t)
	s.start(t)
	return snap
}

// promoted starts a copy as the provider does a restored instance, or a replica: on a
// timeline of its own.
func (s *server) promoted(t *testing.T) {
	t.Helper()
	s.do(t, `touch %[1]s/data/standby.signal && pg_ctl -D %[1]s/data -s -l %[1]s/log start && pg_ctl -D %[1]s/data -s promote`, s.dir)
}

// onManagedService does what the provider has done when a page is opened, and returns
// the cases of the page, and what must be so at its end.
func onManagedService() map[string]func(*testing.T, *cloud) (played []string, after func()) {
	safe := func() {}
	lost := func(t *testing.T, c *cloud) {
		t.Helper()
		restored := c.lock.snapshot(t)
		c.lives(t)
		restored.promoted(t)
		c.env = append(c.env, "OLD_PRIMARY="+c.lock.dsn("t_operator"))
		c.names(restored, c.pay)
	}
	return map[string]func(*testing.T, *cloud) ([]string, func()){
		"restore-lockdb.md": func(t *testing.T, c *cloud) ([]string, func()) { lost(t, c); return []string{managed}, safe },
		"failover.md":       func(t *testing.T, c *cloud) ([]string, func()) { lost(t, c); return []string{managed, unplanned}, safe },
		"restore-paydb.md": func(t *testing.T, c *cloud) ([]string, func()) {
			c.do(t, "%s\ndlockctl acquire account:00000000-0000-4000-8000-000000000001 --owner executor-1 --ttl 10m", createPayout)
			restored := c.pay.snapshot(t)
			restored.promoted(t)
			c.names(c.lock, restored)
			c.env = append(c.env, "DLOCKCTL_RAIL_URL="+payingRail(t, []string{paidSince}))
			return []string{managed}, func() { restored.paid(t) }
		},
		"clone-for-staging.md": func(t *testing.T, c *cloud) ([]string, func()) {
			c.marked(t)
			lock, pay := c.lock.snapshot(t), c.pay.snapshot(t)
			lock.promoted(t)
			pay.promoted(t)
			c.names(lock, pay)
			return []string{managed}, func() {}
		},
		"major-upgrade.md": func(t *testing.T, c *cloud) ([]string, func()) {
			c.lives(t)
			next := c.instance(t, "lockdb")
			c.env = append(c.env, "OLD_PRIMARY="+c.lock.dsn("t_operator"))
			c.migrated(t, next, c.pay)
			c.names(next, c.pay)
			return []string{managed}, safe
		},
	}
}

// paidSince is the payout that the rail has paid and a restored paydb does not know of.
const (
	paidSince    = "paid-since-then"
	createPayout = "dlockctl payout create --account 00000000-0000-4000-8000-000000000001 --amount-minor 70 --currency EUR --idempotency-key " + paidSince
)

// lives is what is lost: grants, one of them revoked with its account fenced.
func (m *machine) lives(t *testing.T) {
	t.Helper()
	m.do(t, `dlockctl acquire account:00000000-0000-4000-8000-000000000001 --ttl 10m
DLOCKCTL_LOCK_DSN=$LOCKDB_OPERATOR DLOCKCTL_PAY_DSN=$PAYDB_OPERATOR dlockctl revoke account:00000000-0000-4000-8000-000000000001 --any-token --yes \
  --reason 'after the backup' --fence-account 00000000-0000-4000-8000-000000000001
dlockctl acquire account:00000000-0000-4000-8000-000000000002 --ttl 10m`)
}

// marked makes both databases production's, with a payout that waits to be paid.
func (m *machine) marked(t *testing.T) {
	t.Helper()
	m.do(t, `%s
for db in "$LOCKDB_OWNER" "$PAYDB_OWNER"; do
  psql "$db" -v ON_ERROR_STOP=1 -qc 'SET ROLE dlock_owner' -c "INSERT INTO deployment (environment) VALUES ('prod')"
done`, createPayout)
}

// paid fails unless the payout is posted.
func (s *server) paid(t *testing.T) {
	t.Helper()
	if state := s.query(t, "t_auditor", `SELECT state FROM payout WHERE idempotency_key = $1`, paidSince); state != "POSTED" {
		t.Errorf("what the rail has paid is %s", state)
	}
}

// Every runbook of restores leads out under the rights that a managed service gives: no
// superuser, no file of the server, roles and databases made by a login that may make
// roles. Only what the provider does is done for it.
//
// Clauses: K-7.4, K-7.6, K-7.9, K-9.5, K-12.1
// Mutation: read a file, or set a parameter of the server, in a statement of the restore order.
func TestRunbooksOnManagedService(t *testing.T) {
	t.Parallel()
	sold := provided(t, newMachine(t, os.Getenv("DLOCKCTL_TEST_PG16")))
	sold.lock.stop(t, "fast")
	sold.pay.stop(t, "fast")
	for name, happens := range onManagedService() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sold.fork(t)
			played, after := happens(t, c)
			c.run(t, filepath.Join(folder, name), played...)
			after()
			c.shows(t, `DLOCKCTL_ENVIRONMENT=$(psql "$LOCKDB_AUDITOR" -Atc 'SELECT environment FROM deployment') DLOCKCTL_LOCK_DSN=$LOCKDB_AUDITOR DLOCKCTL_PAY_DSN=$PAYDB_AUDITOR dlockctl restore verify`)
		})
	}
}
