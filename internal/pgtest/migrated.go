package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/migrations"
)

// Databases is a migrated lockdb and a migrated paydb, on two instances.
type Databases struct{ Lock, Pay DB }

// The template databases of a server.
const (
	lockTemplate = "template_lockdb"
	payTemplate  = "template_paydb"
)

// Migrated gives a test its own migrated lockdb and paydb, the latter with the seed of synthetic accounts, each
// knowing the other's instance (K-6.1). They are clones of two templates that are migrated once per process and
// version.
func Migrated(t testing.TB, majorVersion int) Databases {
	t.Helper()
	m := serversOf(t, majorVersion)
	m.migrate.Do(func() {
		ctx, cancel := detached(t)
		defer cancel()
		m.migrateErr = makeTemplates(ctx, m.pair)
	})
	if m.migrateErr != nil {
		t.Fatalf("migrate the templates on PostgreSQL %d: %v", majorVersion, m.migrateErr)
	}
	return Databases{Lock: m.pair.Lock.CloneOf(t, lockTemplate), Pay: m.pair.Pay.CloneOf(t, payTemplate)}
}

func makeTemplates(ctx context.Context, pair Pair) error {
	lock, pay := DB{Server: pair.Lock, Name: lockTemplate}, DB{Server: pair.Pay, Name: payTemplate}
	if err := migrate(ctx, lock, "lockdb"); err != nil {
		return err
	}
	if err := migrate(ctx, pay, "paydb", "seed/paydb"); err != nil {
		return err
	}
	return recordPeers(ctx, lock, pay)
}

func migrate(ctx context.Context, db DB, dirs ...string) (err error) {
	if err := db.Server.create(ctx, db.Name, "template0"); err != nil {
		return err
	}
	var locations []flyway.Location
	for _, dir := range dirs {
		locations = append(locations, flyway.Location{FS: migrations.FS, Dir: dir})
	}
	catalogue, err := flyway.Load(locations...)
	if err != nil {
		return fmt.Errorf("load the migrations %v: %w", dirs, err)
	}
	config, err := pgx.ParseConfig(db.DSN("t_owner"))
	if err != nil {
		return fmt.Errorf("migrate %s: %w", db.Name, err)
	}
	migrator, err := flyway.Open(ctx, config, catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		return fmt.Errorf("migrate %s: %w", db.Name, err)
	}
	defer func() { err = errors.Join(err, migrator.Close(ctx)) }()
	if _, err := migrator.Up(ctx); err != nil {
		return fmt.Errorf("migrate %s: %w", db.Name, err)
	}
	return nil
}

// recordPeers closes its connections before the templates are cloned.
func recordPeers(ctx context.Context, lock, pay DB) error {
	return lock.Server.connected(ctx, lock.Name, func(lockConn *pgx.Conn) error {
		return pay.Server.connected(ctx, pay.Name, func(payConn *pgx.Conn) error {
			_, _, err := instance.RecordPeers(ctx, lockConn, payConn)
			return err
		})
	})
}
