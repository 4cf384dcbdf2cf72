package devenv_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// A standby has what was written before it was cut off and nothing later; promoted it
// is where lockdb was, the same system on another timeline, and destroy takes all of
// it away.
//
// Mutation: leave CutOff's wait for the replay or its ALTER SYSTEM out; promote without
// exchanging the folders; drop followers from destroy.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	env, _ := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, 16)})
	for _, call := range []func(context.Context) error{env.StandBy, env.CutOff, env.FailOver} {
		if _, notUp := errors.AsType[*devenv.NotUpError](call(t.Context())); !notUp {
			t.Error("before up: want *NotUpError")
		}
	}
	before := up(t, env).Instances[0]
	dsn := must(env.LockDSN())
	if err := env.StandBy(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "SET ROLE dlock_owner", "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
	if err := env.CutOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "SET ROLE dlock_owner", "INSERT INTO kept VALUES (8)")
	if err := env.FailOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := must(env.LockDSN()); again != dsn {
		t.Error("lockdb has another address")
	}
	if got := query[int](t, dsn, "SELECT sum(n)::int FROM kept"); got != 7 {
		t.Errorf("the standby has %d, want 7", got)
	}
	if got := query[string](t, dsn, "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"); got != "00000002" {
		t.Errorf("timeline %s, want 00000002", got)
	}
	if after := must(env.Status(t.Context())).Instances[0]; after.SystemIdentifier != before.SystemIdentifier || after.State != devenv.Running {
		t.Errorf("before %+v, now %+v", before, after)
	}
	if err := env.StandBy(t.Context()); err != nil {
		t.Errorf("another standby: %v", err)
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(env.Dir()), "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A standby that still streams is stopped and removed with the rest.
//
// Mutation: drop followers from down.
func TestRunningStandbyIsDestroyed(t *testing.T) {
	t.Parallel()
	env, _ := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, 16)})
	up(t, env)
	if err := env.StandBy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(env.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}
