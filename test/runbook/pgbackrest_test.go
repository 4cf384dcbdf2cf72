//go:build pgbackrest

package runbook_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// house is the machine of people with servers of their own, whose user they are: they
// have the files, the backups and the superuser.
type house struct {
	*machine

	lock, pay *server
}

// bin15 is where the programs of a server of 15 are, those of its client with them.
func bin15(t *testing.T) string {
	t.Helper()
	for _, bin := range []string{os.Getenv("DLOCKCTL_TEST_PG15"), "/usr/lib/postgresql/15/bin"} {
		if _, err := os.Stat(filepath.Join(bin, "pg_basebackup")); err == nil {
			return bin
		}
	}
	t.Fatal("pg_basebackup of PostgreSQL 15 is missing: install Debian's package postgresql-15")
	return ""
}

// built makes the two servers, with roles, logins and schemas.
func built(t *testing.T) *house {
	t.Helper()
	h := &house{machine: newMachine(t, bin15(t))}
	h.lock, h.pay = h.server(t, "lockdb"), h.server(t, "paydb")
	h.migrated(t, h.lock, h.pay)
	return h
}

// server is one with its roles and an empty database.
func (h *house) server(t *testing.T, database string) *server {
	t.Helper()
	s := h.initdb(t, database)
	s.as(t, "postgres", func(conn *pgx.Conn) {
		if _, err := instance.EnsureRoles(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		for login, group := range logins() {
			exec1(t, conn, fmt.Sprintf(`CREATE ROLE %s LOGIN IN ROLE %s`, login, group))
		}
		exec1(t, conn, fmt.Sprintf(`CREATE DATABASE %s OWNER %s`, database, instance.OwnerRole))
	})
	return s
}

// newer is a server of 16 on the machine of 15.
func (h *house) newer(t *testing.T, database string) *server {
	t.Helper()
	bin := os.Getenv("DLOCKCTL_TEST_PG16")
	if bin == "" {
		t.Fatal("DLOCKCTL_TEST_PG16 is not set; run: make pgbackrest")
	}
	here := h.env
	defer func() { h.env = here }()
	h.env = append(slices.Clone(here), "PATH="+strings.Join([]string{h.home, bin, bin15(t), os.Getenv("PATH")}, string(os.PathListSeparator)))
	return h.server(t, database)
}

// isOn fails unless the lockdb that the page's names lead to is of that version, and
// the one of before of an older one.
func (h *house) isOn(t *testing.T, major int) {
	t.Helper()
	h.do(t, `test "$(psql "$LOCKDB_ADMIN" -Atc 'SHOW server_version_num')" -ge %[1]d0000
test "$(psql "$OLD_ADMIN" -Atc 'SHOW server_version_num')" -lt %[1]d0000`, major)
}

// as lends a superuser's connection to a database.
func (s *server) as(t *testing.T, database string, use func(*pgx.Conn)) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.Replace(s.dsn("postgres"), "dbname="+s.database, "dbname="+database, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	use(conn)
}

func exec1(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// becomes waits until the server says true.
func (s *server) becomes(t *testing.T, what, sql string, args ...any) {
	t.Helper()
	s.as(t, s.database, func(conn *pgx.Conn) {
		pgtest.Eventually(t, what, func(ctx context.Context) (yes bool, err error) {
			err = conn.QueryRow(ctx, sql, args...).Scan(&yes)
			return yes, err
		})
	})
}

// fork is the same house once more, from this moment on. Its servers archive into a
// repository of pgBackRest, which has one full backup of each, and into a folder.
func (h *house) fork(t *testing.T) *house {
	t.Helper()
	m := newMachine(t, bin15(t))
	f := &house{machine: m, lock: h.lock.copiedTo(t, m), pay: h.pay.copiedTo(t, m)}
	f.works(f.lock, f.pay)
	f.env = append(f.env, "PGBACKREST_CONFIG="+filepath.Join(m.dir, "pgbackrest.conf"), "ARCHIVE="+filepath.Join(m.dir, "archive"), "BACKUPS="+filepath.Join(m.dir, "backups"))
	f.do(t, `mkdir -p $SERVERS/archive $SERVERS/backups $SERVERS/repo $SERVERS/log $SERVERS/lock
cat >$PGBACKREST_CONFIG <<END
[global]
repo1-path=$SERVERS/repo
log-path=$SERVERS/log
lock-path=$SERVERS/lock
log-level-console=error
start-fast=y
compress-level=1
archive-timeout=30
END`)
	for _, s := range []*server{f.lock, f.pay} {
		f.do(t, `cat >>$PGBACKREST_CONFIG <<END
[%[2]s]
pg1-path=%[1]s/data
pg1-socket-path=%[1]s/run
pg1-port=%[3]d
pg1-user=postgres
repo1-retention-full=9
END`, s.dir, s.database, socketPort)
		s.pushes(t)
		s.do(t, `pg_ctl -D %[1]s/data -s -l %[1]s/log start`, s.dir)
	}
	return f
}

// pushes has the server archive into the folder, and into the repository where there is a
// stanza.
func (s *server) pushes(t *testing.T) {
	t.Helper()
	s.do(t, `cat >%[1]s/pgbackrest-archive <<END
#!/bin/sh
set -e
cp "\$1" "$ARCHIVE/\$2"
[ -d $SERVERS/repo/archive/%[2]s ] || exit 0
exec pgbackrest --config=$PGBACKREST_CONFIG --stanza=%[2]s --pg1-path=%[1]s/data archive-push "\$1"
END`, s.dir, s.database)
}

// backedUp makes the stanzas, and a full backup of each.
func (h *house) backedUp(t *testing.T, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		h.do(t, `pgbackrest --stanza=%[1]s stanza-create && pgbackrest --stanza=%[1]s --type=full backup`, s.database)
	}
}

// archives returns when all WAL up to now is archived.
func (s *server) archives(t *testing.T) {
	t.Helper()
	file := s.query(t, "postgres", `SELECT pg_walfile_name(pg_switch_wal())`)
	s.becomes(t, "the WAL is archived", `SELECT coalesce(last_archived_wal >= $1, false) FROM pg_stat_archiver`, file)
}

// momentPassed is the one that comes back: a second that lies wholly behind the backup.
func (h *house) momentPassed(t *testing.T) {
	t.Helper()
	begun := h.lock.query(t, "postgres", `SELECT date_trunc('second', clock_timestamp() + interval '1 second')::text`)
	h.lock.becomes(t, "the second is over", `SELECT clock_timestamp() > $1::timestamptz`, begun)
	h.env = append(h.env, "MOMENT="+begun)
}

// setBack has a lockdb die that is to come back as of before its last grants.
func (h *house) setBack(t *testing.T) {
	t.Helper()
	h.do(t, `dlockctl acquire batch:early --ttl 10m`)
	h.lock.archives(t)
	h.momentPassed(t)
	h.lives(t)
	h.lock.archives(t)
	h.lock.stop(t, "immediate")
}

// forgot fails unless it came back as of the moment: with what was granted before, and
// without what was granted after it.
func (s *server) forgot(t *testing.T) {
	t.Helper()
	keys := s.query(t, "postgres", `SELECT string_agg(lock_key, ' ' ORDER BY fencing_token) FROM lock_grant`)
	if keys != "batch:early runbook:probe" {
		t.Errorf("the journal has grants of %q; the restore did not go to the moment", keys)
	}
}

// page is a page, and what happens before it is opened.
type page struct {
	name    string
	played  []string
	happens func(*testing.T, *house) (after func())
}

// pages are the cases that take servers of one's own.
func pages() []page {
	nothing := func() {}
	return []page{
		{"restore-lockdb.md", []string{plain}, func(t *testing.T, h *house) func() {
			h.do(t, `pg_basebackup -d "$LOCKDB_ADMIN" -D $BACKUPS/base -c fast`)
			h.setBack(t)
			h.do(t, `rm -rf $PGDATA && cp -a $BACKUPS/base $PGDATA`)
			return func() { h.lock.forgot(t) }
		}},
		{"restore-lockdb.md", []string{pgBackRest}, func(t *testing.T, h *house) func() {
			h.backedUp(t, h.lock)
			h.setBack(t)
			return func() { h.lock.forgot(t) }
		}},
		{"restore-paydb.md", []string{pgBackRest}, func(t *testing.T, h *house) func() {
			h.backedUp(t, h.pay)
			h.do(t, "%s\ndlockctl acquire account:00000000-0000-4000-8000-000000000001 --owner executor-1 --ttl 10m", createPayout)
			h.pay.archives(t)
			h.pay.stop(t, "immediate")
			h.env = append(h.env, "DLOCKCTL_RAIL_URL="+payingRail(t, []string{paidSince}))
			return func() { h.pay.paid(t) }
		}},
		{"failover.md", []string{planned}, func(t *testing.T, h *house) func() {
			next := h.follower(t)
			h.do(t, `pg_basebackup -d "$LOCKDB_ADMIN" -D %[1]s/data -c fast -R`, next.dir)
			h.do(t, `pg_ctl -D %[1]s/data -s -l %[1]s/log start`, next.dir)
			h.lives(t)
			h.instead(next)
			return nothing
		}},
		{"failover.md", []string{unplanned}, func(t *testing.T, h *house) func() {
			h.backedUp(t, h.lock)
			next := h.follower(t)
			h.env = append(h.env, "PRIMARY_CONNINFO="+strings.Replace(h.lock.dsn("postgres"), " dbname=lockdb", "", 1))
			h.onlyOn(t, next, "failover.md", standby)
			next.streams(t, h.lock)
			h.lives(t)
			next.do(t, `pg_ctl -D %s/data -s promote`, next.dir)
			h.instead(next)
			return nothing
		}},
		{"clone-for-staging.md", []string{plain}, func(t *testing.T, h *house) func() {
			h.marked(t)
			h.cloned(t)
			return nothing
		}},
		{"clone-for-staging.md", []string{pgBackRest}, func(t *testing.T, h *house) func() {
			h.marked(t)
			h.backedUp(t, h.lock, h.pay)
			h.cloned(t)
			return nothing
		}},
		{"major-upgrade.md", []string{logical, pgBackRest}, func(t *testing.T, h *house) func() {
			h.backedUp(t, h.lock)
			h.lives(t)
			next := h.server(t, "lockdb")
			h.migrated(t, next, h.pay)
			h.instead(next)
			h.socketOf(t, next)
			return nothing
		}},
		{"major-upgrade.md", []string{logical}, func(t *testing.T, h *house) func() {
			h.lives(t)
			next := h.newer(t, "lockdb")
			h.migrated(t, next, h.pay)
			h.instead(next)
			return func() { h.isOn(t, 16) }
		}},
		{"major-upgrade.md", []string{pgUpgrade, pgBackRest}, func(t *testing.T, h *house) func() {
			h.backedUp(t, h.lock)
			h.lives(t)
			next := h.initdb(t, "lockdb")
			next.stop(t, "fast")
			h.instead(next)
			h.socketOf(t, next)
			h.env = append(h.env, "OLD_BIN="+bin15(t), "NEW_BIN="+bin15(t), "OLD_SERVER_OPTIONS=", "NEW_SERVER_OPTIONS=", "PGUSER=postgres")
			return nothing
		}},
	}
}

// follower is a standby's folder, that is empty yet.
func (h *house) follower(t *testing.T) *server {
	t.Helper()
	next := h.folder("lockdb")
	h.do(t, `mkdir -p %[1]s/run && printf '#!/bin/sh\nexit 0\n' >%[1]s/pgbackrest-archive && chmod +x %[1]s/pgbackrest-archive`, next.dir)
	return next
}

// instead goes on with another lockdb; the page has names for the one of before.
func (h *house) instead(next *server) {
	h.env = append(h.env, "OLD_PRIMARY="+h.lock.dsn("t_operator"), "OLD_ADMIN="+h.lock.dsn("postgres"), "OLD_PGDATA="+h.lock.data())
	h.works(next, h.pay)
}

// socketOf lets pgBackRest find the server where it is now, and that find pgBackRest.
func (h *house) socketOf(t *testing.T, s *server) {
	t.Helper()
	s.pushes(t)
	h.env = append(h.env, "PGBACKREST_PG1_SOCKET_PATH="+filepath.Join(s.dir, "run"))
}

// onlyOn runs the blocks of one case of a page, on the host of another server.
func (h *house) onlyOn(t *testing.T, s *server, name, which string) {
	t.Helper()
	there := *h.machine.stage
	there.env = append(append([]string{}, h.env...), "PGDATA="+s.data(), "PGBACKREST_PG1_PATH="+s.data())
	there.runBlocks(t, filepath.Join(folder, name), func(b block) bool { return b.isFor(which) })
}

// streams waits until the standby has come as far as its primary, and cuts it off.
func (s *server) streams(t *testing.T, primary *server) {
	t.Helper()
	lsn := primary.query(t, "postgres", `SELECT pg_current_wal_flush_lsn()::text`)
	s.becomes(t, "the standby has caught up", `SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)`, lsn)
	s.as(t, "postgres", func(conn *pgx.Conn) {
		exec1(t, conn, `ALTER SYSTEM SET primary_conninfo = ''`)
		exec1(t, conn, `ALTER SYSTEM SET restore_command = ''`)
		exec1(t, conn, `SELECT pg_reload_conf()`)
	})
	s.becomes(t, "its receiver is gone", `SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)`)
}

// cloned names the places of a clone that is to be made.
func (h *house) cloned(t *testing.T) {
	t.Helper()
	prodLock, prodPay := h.lock.dsn("postgres"), h.pay.dsn("postgres")
	lock, pay := h.folder("lockdb"), h.folder("paydb")
	h.do(t, `mkdir -p %s/run %s/run`, lock.dir, pay.dir)
	h.works(lock, pay)
	h.env = append(h.env, "PROD_LOCKDB="+prodLock, "PROD_PAYDB="+prodPay, "LOGINS=t_lockapp t_resource t_rail")
}

// Every runbook of restores leads out on servers of one's own, by its own words, from the
// restore on: plain, by pgBackRest, planned and unplanned, by replication and pg_upgrade.
//
// Clauses: K-7.4, K-7.6, K-7.9
// Mutation: leave --type=time, --delta, the freeze or the fast-forward out of a page.
func TestRunbooksWithPgBackRest(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("pgbackrest"); err != nil {
		t.Fatal("pgbackrest is missing; run: make pgbackrest")
	}
	origin := built(t)
	origin.lock.stop(t, "fast")
	origin.pay.stop(t, "fast")
	for _, p := range pages() {
		t.Run(p.name+" "+strings.Join(p.played, " "), func(t *testing.T) {
			t.Parallel()
			h := origin.fork(t)
			after := p.happens(t, h)
			h.run(t, filepath.Join(folder, p.name), p.played...)
			after()
			h.shows(t, `export DLOCKCTL_ENVIRONMENT=$(psql "$LOCKDB_AUDITOR" -Atc 'SELECT environment FROM deployment')
DLOCKCTL_LOCK_DSN=$LOCKDB_AUDITOR DLOCKCTL_PAY_DSN=$PAYDB_AUDITOR dlockctl restore verify`)
		})
	}
}
