// Package rewind_test proves the restore order on the real thing: servers that are
// backed up, killed, restored to a moment, promoted, dumped, replicated and copied,
// under the stores that the services stand on, with clients that remember every token
// they were shown and a rail that counts what reaches it.
//
// Each case is played twice, from one disaster on. Without the fast-forward it shows
// the damage: a token comes again, and a holder from before pays. With it neither
// does.
package rewind_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// program is the name under which the test binary is the program.
const program = "dlockctl"

// TestMain is an operator's fast-forward where the test binary was started as one, and
// the program itself where it was started under its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
	}
	if order := os.Getenv(orderVariable); order != "" {
		os.Exit(carryOut(context.Background(), order, os.Stdin, os.Stdout))
	}
	pgtest.Main(m)
}

// place is where a database is, by login: super and the logins of pgtest.
type place func(login string) string

func (p place) config(t *testing.T, login string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(p(login))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// conn is a superuser's, closed when the test ends.
func (p place) conn(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), p.config(t, "super"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // its server may be gone on purpose
	return conn
}

// brief lends a superuser's connection: a database that somebody is connected to
// cannot be cloned.
func (p place) brief(t *testing.T, use func(*pgx.Conn)) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), p.config(t, "super"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	use(conn)
}

func (p place) exec(t *testing.T, sqls ...string) {
	t.Helper()
	p.brief(t, func(conn *pgx.Conn) {
		for _, sql := range sqls {
			execute(t, conn, sql)
		}
	})
}

func execute(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// ask is value through a connection of its own.
func ask[T any](t *testing.T, p place, sql string, args ...any) (v T) {
	t.Helper()
	p.brief(t, func(conn *pgx.Conn) { v = value[T](t, conn, sql, args...) })
	return v
}

// onMajors runs test on every PostgreSQL version supported.
func onMajors(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			test(t, major)
		})
	}
}

// becomes waits until the server says true.
func becomes(t *testing.T, conn *pgx.Conn, what, sql string, args ...any) {
	t.Helper()
	pgtest.Eventually(t, what, func(ctx context.Context) (yes bool, err error) {
		err = conn.QueryRow(ctx, sql, args...).Scan(&yes)
		return yes, err
	})
}
