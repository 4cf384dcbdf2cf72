package runbook_test

import (
	"context"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

// last are the migrations that the release before this one did not have.
func last() []string {
	return []string{"lockdb/V14__journal_grants_by_statement.sql", "paydb/V22__refuse_posted_without_legs.sql"}
}

// lackingTheLast is the two databases as the release before left them.
func lackingTheLast(t *testing.T) pgtest.Databases {
	t.Helper()
	servers := pgtest.Migrated(t, 16)
	files := make(fstest.MapFS)
	err := fs.WalkDir(migrations.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.FS, name)
		files[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range last() {
		if files[name] == nil {
			t.Fatalf("there is no %s; last() names the newest file of each database", name)
		}
		delete(files, name)
	}
	dbs := pgtest.Databases{Lock: servers.Lock.Server.EmptyDB(t), Pay: servers.Pay.Server.EmptyDB(t)}
	migrate(t, dbs.Lock, files, "lockdb")
	migrate(t, dbs.Pay, files, "paydb", "seed/paydb")
	return dbs
}

func migrate(t *testing.T, db pgtest.DB, files fs.FS, dirs ...string) {
	t.Helper()
	var locations []flyway.Location
	for _, dir := range dirs {
		locations = append(locations, flyway.Location{FS: files, Dir: dir})
	}
	catalogue, err := flyway.Load(locations...)
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := flyway.Open(t.Context(), db.Config(t, "t_owner"), catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrator.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// workOnOldSchema is a program built before the release, which takes and gives back a
// lock by the statements of the contract, without a pause. It must not notice.
func workOnOldSchema(t *testing.T, s *stage) (after func()) {
	t.Helper()
	s.env = append(s.env, "DLOCKCTL_SEED=true")
	conn := s.dbs.Lock.Conn(t, "t_lockapp")
	var highest atomic.Int64
	failed := make(chan error, 1)
	beside(t, func(ctx context.Context) {
		for {
			token, err := once(ctx, conn, "account:old-program", "service-of-before")
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				failed <- err
				return
			case token <= highest.Load():
				t.Errorf("token %d after %d", token, highest.Load())
			}
			highest.Store(token)
		}
	})
	goesOn := func(what string) {
		t.Helper()
		from := highest.Load()
		pgtest.Eventually(t, what, func(context.Context) (bool, error) {
			select {
			case err := <-failed:
				return false, err
			default:
				return highest.Load() > from, nil
			}
		})
	}
	goesOn("the old program works before the migration")
	return func() {
		t.Helper()
		goesOn("the old program works after the migration")
	}
}
