package migrations_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A new database is made without a word from the server: whoever migrates reads each
// NOTICE as trouble.
//
// Mutation: DROP TRIGGER IF EXISTS, in any file, of one that there never was.
func TestMigrationsRaiseNoNotice(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		for _, dir := range []string{"lockdb", "paydb"} {
			t.Run(fmt.Sprint(dir, major), func(t *testing.T) {
				t.Parallel()
				config := pgtest.Servers(t, major).Lock.EmptyDB(t).Config(t, "super")
				config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { t.Errorf("%s: %s", notice.Severity, notice.Message) }
				conn, err := pgx.ConnectConfig(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.WithoutCancel(t.Context()))
				applyAll(t, conn, dir)
			})
		}
	}
}
