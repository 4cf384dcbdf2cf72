package rewind_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// archived starts a copy of the model that archives its WAL.
func archived(t *testing.T, database string, major int) (s *server, archive string) {
	t.Helper()
	archive = folder(t, major).Dir
	s = newServer(t, database, major, map[string]string{
		"archive_mode": "on", "archive_command": fmt.Sprintf(`test ! -f "%[1]s/%%f" && cp "%%p" "%[1]s/%%f"`, archive),
	})
	if err := s.own(archive); err != nil {
		t.Fatal(err)
	}
	return s, archive
}

// backup is a base backup, taken while the server runs, as the low-level interface
// has it: it needs no program that the package of PostgreSQL 16 leaves out.
type backup struct {
	from  *server
	major int
	base  *server
}

func (s *server) backup(t *testing.T, major int) backup {
	t.Helper()
	b := backup{from: s, major: major, base: &server{Cluster: folder(t, major), database: s.database}}
	place(s.dsn).brief(t, func(conn *pgx.Conn) {
		execute(t, conn, `SELECT pg_backup_start('rewind', fast => true)`)
		b.base.take(t, s.Data(), []string{"pg_wal", "pg_replslot", "postmaster.pid", "postmaster.opts"}, nil)
		label := value[string](t, conn, `SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)`)
		if err := os.WriteFile(filepath.Join(b.base.Data(), "backup_label"), []byte(label), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	return b
}

// moment names the one that comes back.
const moment = "noon"

// restorePoint names this moment, and returns when the WAL up to it is archived.
func (s *server) restorePoint(t *testing.T) {
	t.Helper()
	conn := place(s.dsn).conn(t)
	execute(t, conn, `SELECT pg_create_restore_point($1)`, moment)
	file := value[string](t, conn, `SELECT pg_walfile_name(pg_switch_wal())`)
	becomes(t, conn, "the WAL is archived", `SELECT coalesce(last_archived_wal >= $1, false) FROM pg_stat_archiver`, file)
}

// restore starts a server from the backup, at the moment named.
func (b backup) restore(t *testing.T, archive string) *server {
	t.Helper()
	s := b.server(t, "recovery.signal", map[string]string{
		"restore_command":      fmt.Sprintf(`cp "%s/%%f" "%%p"`, archive),
		"recovery_target_name": moment, "recovery_target_action": "promote",
		"hot_standby": "off", // ready is recovered
	})
	s.start(t)
	return s
}

// server makes one of the backup, that is told by a file of that name what to do.
func (b backup) server(t *testing.T, signal string, settings map[string]string) *server {
	t.Helper()
	s := &server{Cluster: folder(t, b.major), database: b.base.database, settings: settings}
	s.take(t, b.base.Data(), nil, map[string]string{signal: ""})
	return s
}

// standby is a server that follows another.
type standby struct {
	*server
	primary *server
}

// standby starts one of the backup, behind the server that it was taken of.
func (b backup) standby(t *testing.T) *standby {
	t.Helper()
	s := &standby{
		server: b.server(t, "standby.signal", map[string]string{
			"primary_conninfo": fmt.Sprintf("host=%s port=%d user=postgres", b.from.Run(), port),
		}),
		primary: b.from,
	}
	s.start(t) // ready is ready to be read
	return s
}

func (s *standby) caughtUp(t *testing.T) {
	t.Helper()
	lsn := ask[string](t, s.primary.dsn, `SELECT pg_current_wal_flush_lsn()::text`)
	becomes(t, place(s.dsn).conn(t), "the standby has caught up", `SELECT coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false)`, lsn)
}

// cutOff stops the receiver of the primary's WAL.
func (s *standby) cutOff(t *testing.T) {
	t.Helper()
	conn := place(s.dsn).conn(t)
	execute(t, conn, `ALTER SYSTEM SET primary_conninfo = ''`)
	execute(t, conn, `SELECT pg_reload_conf()`)
	becomes(t, conn, "the receiver is gone", `SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)`)
}

// promote makes it a primary, and returns when it is.
func (s *standby) promote(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if !value[bool](t, conn, `SELECT pg_promote(true, 60)`) {
		t.Fatal("the standby was not promoted within a minute")
	}
}
