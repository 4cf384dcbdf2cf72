package devenv_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// A copy put back has what was there when it was made, and nothing later; it ends
// who is connected, keeps the system identifier, and lets everybody in again.
//
// Mutation: leave pg_terminate_backend or ALLOW_CONNECTIONS true out of emptied; send
// the two renames by themselves.
func TestCopyIsPutBack(t *testing.T) {
	t.Parallel()
	env, _ := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, 16)})
	for _, call := range []error{env.CopyLockDB(t.Context()), env.PutBackLockDB(t.Context())} {
		if _, notUp := errors.AsType[*devenv.NotUpError](call); !notUp {
			t.Errorf("before up: %v, want *NotUpError", call)
		}
	}
	before := up(t, env).Instances[0].SystemIdentifier
	dsn := must(env.LockDSN())
	execute(t, dsn, "SET ROLE dlock_owner", "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
	if err := env.PutBackLockDB(t.Context()); err == nil {
		t.Error("a copy that was never made was put back")
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := env.CopyLockDB(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("who was connected still is")
	}
	execute(t, dsn, "SET ROLE dlock_owner", "INSERT INTO kept VALUES (8)", "CREATE TABLE later (n INT)")
	if err := env.PutBackLockDB(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[int](t, dsn, "SELECT sum(n)::int FROM kept"); got != 7 {
		t.Errorf("the copy has %d, want 7", got)
	}
	execute(t, dsn, "SET ROLE dlock_owner", "CREATE TABLE later (n INT)") // the owner of before may create
	if after := must(env.Status(t.Context())).Instances[0].SystemIdentifier; after != before {
		t.Errorf("the system identifier was %d and is %d", before, after)
	}
}
