package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
	"github.com/dlockctl/dlockctl/migrations"
)

// The values of --target.
const (
	targetLock = "lockdb"
	targetPay  = "paydb"
	targetAll  = "all"
)

// Target is one database to migrate.
type Target struct {
	Name   string
	Config *pgx.ConnConfig
	// Seed makes the seeds part of what is applied and looked for (K-9.4).
	Seed bool
	// Brief tells what was applied in one line, not in one a file.
	Brief bool
	// Tables are the names of SyncGuard's tables, and Audit makes the table of what
	// operators do there part of what is applied and looked for.
	Tables tables.Names
	Audit  bool
	// schema is where SyncGuard's tables are, "" where they are still to be made.
	schema string
}

// targets resolves --target, lockdb before paydb.
func targets(ctx context.Context, a *app.App, opts options) ([]Target, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	name, err := namesFor(cfg, opts.target)
	if err != nil {
		return nil, err
	}
	var found []Target
	if name == targetSyncGuard || name == targetAll && cfg.Backend == config.SyncGuard {
		t, err := syncGuardTarget(ctx, a, cfg, opts.audit)
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	} else if opts.audit {
		return nil, app.UsageError("lockdb has its audit without being asked", "--audit is for --target syncguard")
	}
	for _, db := range []struct {
		name string
		conn func() (*pgx.ConnConfig, error)
	}{{targetLock, a.LockConfig}, {targetPay, a.PayConfig}} {
		if name != db.name && (name != targetAll || db.name == targetLock && len(found) > 0) {
			continue
		}
		conn, err := db.conn()
		if err != nil {
			return nil, err
		}
		t := Target{Name: db.name, Config: conn}
		if t.Name == targetPay {
			t.Seed = cfg.Seed
			// The embedded profile stands in no file that could say whether it
			// was seeded; its history does.
			if !t.Seed && cfg.Embedded() {
				if t.Seed, err = Seeded(ctx, conn); err != nil {
					return nil, err
				}
			}
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		return nil, app.UsageError("give lockdb, paydb, all or syncguard", "--target %q is unknown", name)
	}
	return found, nil
}

// oneTarget is targets for a verb that concerns one database only.
func oneTarget(ctx context.Context, a *app.App, opts options) (Target, error) {
	if opts.target == targetAll {
		return Target{}, app.UsageError("give --target lockdb or --target paydb", "--target is missing: this concerns one database")
	}
	found, err := targets(ctx, a, opts)
	if err != nil {
		return Target{}, err
	}
	return found[0], nil
}

// catalogue loads the target's files.
func (t Target) catalogue() (*flyway.Catalogue, error) {
	if t.Name == targetSyncGuard {
		return flyway.Load(t.syncGuardLocations()...)
	}
	locations := []flyway.Location{{FS: migrations.FS, Dir: t.Name}}
	if t.Seed {
		locations = append(locations, seedLocation())
	}
	return flyway.Load(locations...)
}

func seedLocation() flyway.Location {
	return flyway.Location{FS: migrations.FS, Dir: "seed/" + targetPay}
}

// Seeded tells whether one of the seeds stands in the history of paydb.
func Seeded(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	seeds, err := flyway.Load(seedLocation())
	if err != nil {
		return false, fmt.Errorf("read the seeds: %w", err)
	}
	conn, err := connect(ctx, targetPay, config)
	if err != nil {
		return false, err
	}
	defer closeConn(ctx, conn)
	rows, err := flyway.Applied(ctx, conn, "")
	if err != nil {
		return false, fmt.Errorf("read the history of paydb: %w", err)
	}
	return slices.ContainsFunc(rows, func(row flyway.Row) bool {
		return slices.ContainsFunc(seeds.Migrations(), func(m flyway.Migration) bool { return m.Script == row.Script })
	}), nil
}

// with opens the target's migrator for one call.
func (t Target) with(ctx context.Context, a *app.App, lockTimeout time.Duration, use func(*flyway.Migrator) error) error {
	catalogue, err := t.catalogue()
	if err != nil {
		return fmt.Errorf("read the migrations of %s: %w", t.Name, err)
	}
	opts := flyway.Options{LockTimeout: lockTimeout, Owner: instance.OwnerRole, Progress: func(e flyway.Event) { t.progress(a, e) }}
	if t.Name == targetSyncGuard {
		// The application's database: its login owns what it makes, beside whatever is there.
		opts.Owner, opts.Table, opts.Guest, opts.Schema = "", tables.History, true, t.schema
	}
	m, err := flyway.Open(ctx, t.Config, catalogue, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	defer m.Close(ctx) //nolint:errcheck // the transactions have ended; the connection goes with the process
	if err := use(m); err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	return nil
}

// progress says on stderr what a migration is doing.
func (t Target) progress(a *app.App, e flyway.Event) {
	switch e.Kind {
	case flyway.EventApplied:
		if !t.Brief {
			a.Progress(fmt.Sprintf("%s: applied %s in %s", t.Name, e.Script, e.Elapsed.Round(time.Millisecond)))
		}
	case flyway.EventWaiting:
		a.Progress(fmt.Sprintf("%s: waiting: %s", t.Name, e.Message))
	case flyway.EventWarning:
		a.Warn("%s: %s", t.Name, e.Message)
	case flyway.EventNotice:
		a.Note("%s: %s: %s", t.Name, e.Script, e.Message)
	case flyway.EventStarted, flyway.EventFailed:
		// The end of each says more, and a failure is the command's error.
	}
}

func connect(ctx context.Context, name string, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: "connect to " + name, Err: err}
	}
	return conn, nil
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := app.CleanUp(ctx)
	defer cancel()
	_ = conn.Close(ctx) // nothing is under way on it
}
