package flyway_test

import (
	"errors"
	"testing"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A file that got past the scanner and ended its own transaction is recorded as
// failed, and never called "nothing of it was applied".
//
// Clauses: K-9.3
// Mutation: drop escaped from runTransactional.
func TestEscapedTransactionIsDirty(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"and then fails":    "CREATE TABLE escaped (x int); COMMIT; SELECT 1/0;",
		"and leaves it so":  "CREATE TABLE escaped (x int); COMMIT;",
		"and begins anew":   "CREATE TABLE escaped (x int); COMMIT; BEGIN; SELECT 1;",
		"anew, then failed": "CREATE TABLE escaped (x int); COMMIT; BEGIN; CREATE TABLE more (x int); COMMIT; SELECT 1/0;",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
			catalogue, err := flyway.Load(folder("V1__x.sql", "SELECT 1;"))
			if err != nil {
				t.Fatal(err)
			}
			flyway.Smuggle(catalogue, text)
			migrator, err := flyway.Open(t.Context(), db.Config(t, "t_owner"), catalogue, flyway.Options{Owner: "dlock_owner"})
			if err != nil {
				t.Fatal(err)
			}
			defer migrator.Close(t.Context())
			_, err = migrator.Up(t.Context())
			failure, ok := errors.AsType[*flyway.MigrationError](err)
			if !ok || !failure.Dirty {
				t.Fatalf("up: %v, want it dirty", err)
			}
			var stands, failed bool
			err = db.Conn(t, "super").QueryRow(t.Context(), `SELECT to_regclass('escaped') IS NOT NULL, NOT bool_and(success) FROM flyway_schema_history`).Scan(&stands, &failed)
			if err != nil || !stands || !failed {
				t.Errorf("the table stands: %t, the row says failed: %t, %v", stands, failed, err)
			}
		})
	}
}
