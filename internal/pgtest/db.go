package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// DB is a database of one test.
type DB struct {
	Server Server
	Name   string
}

// EmptyDB makes an empty database, owned by dlock_owner, and drops it when the test ends.
func (s Server) EmptyDB(t testing.TB) DB {
	t.Helper()
	return s.CloneOf(t, "template0")
}

// CloneOf makes a database from a template database of this server, and drops it when the test ends. Nobody may be
// connected to the template.
func (s Server) CloneOf(t testing.TB, template string) DB {
	t.Helper()
	ctx, cancel := detached(t)
	defer cancel()
	db := DB{Server: s, Name: s.newName(t.Name())}
	if err := s.create(ctx, db.Name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := detached(t)
		defer cancel()
		if err := s.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{db.Name}.Sanitize()+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return db
}

// create owns the new database to dlock_owner, who as its owner may create in schema public (pg_database_owner).
func (s Server) create(ctx context.Context, name, template string) error {
	return s.exec(ctx, fmt.Sprintf("CREATE DATABASE %s OWNER %s TEMPLATE %s",
		pgx.Identifier{name}.Sanitize(), instance.OwnerRole, pgx.Identifier{template}.Sanitize()))
}

func (s Server) exec(ctx context.Context, sql string) error {
	return s.admin(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	})
}

// newName makes a database name that shows which test it belongs to.
func (s Server) newName(test string) string {
	name := "t" + strconv.FormatInt(s.names.Add(1), 10) + "_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '_'
	}, test)
	return name[:min(len(name), 63)]
}

// DSN is a connection URL for "super" or one of the test logins: t_owner (member of dlock_owner), t_lockapp (lockapp),
// t_operator (dlock_operator, and through it may SET ROLE dlock_owner), t_auditor (dlock_auditor), t_resource
// (payapp_resource), t_rail (payapp_rail). A program waits a second for paydb where the DSN says nothing, and a busy
// machine may take longer.
func (d DB) DSN(user string) string { return d.dsn(user) + "&connect_timeout=60" }

func (d DB) dsn(user string) string {
	if user == "super" {
		user = superuser
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, d.Server.password),
		Host: "127.0.0.1:" + strconv.Itoa(d.Server.Port), Path: "/" + d.Name, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Config is the parsed DSN, without its connect_timeout and with the test's name as application_name.
func (d DB) Config(t testing.TB, user string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(d.dsn(user))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = applicationName(t)
	return config
}

// Conn is one connection, closed when the test ends.
func (d DB) Conn(t testing.TB, user string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), d.Config(t, user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := detached(t)
		defer cancel()
		_ = conn.Close(ctx) // the test may have cut it on purpose
	})
	return conn
}

// Pool is a pool of connections, closed when the test ends.
func (d DB) Pool(t testing.TB, user string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.dsn(user))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = applicationName(t)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func applicationName(t testing.TB) string {
	name := t.Name()
	return name[:min(len(name), 63)]
}
