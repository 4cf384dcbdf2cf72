package devenv_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// Variables of the caller's that mean other servers, and are even wrong, do not
// keep the embedded databases from being made, reached or removed.
//
// Mutation: drop forgetOtherServers.
func TestCallersVariablesAreForgotten(t *testing.T) { //nolint:paralleltest // it sets the process's environment
	for name, value := range map[string]string{
		"PGSERVICE": "nosuch", "PGPORT": "abc", "PGSSLROOTCERT": "/nope", "PGCONNECT_TIMEOUT": "abc", "PGTARGETSESSIONATTRS": "bogus",
		"PGOPTIONS": "-c default_transaction_read_only=on", "PGTZ": "x/y", "PGHOST": "/nowhere", "PGUSER": "nobody", "PGPASSWORD": "wrong", "PGSSLMODE": "bogus",
	} {
		t.Setenv(name, value)
	}
	env, err := devenv.Open(devenv.Options{StateDir: folder(t), PGBin: bin(t, 16)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Up(t.Context()); err != nil {
		t.Fatalf("up: %v", err)
	}
	defer func() {
		if err := env.Destroy(t.Context()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}()
	dsn, err := env.LockDSN()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
