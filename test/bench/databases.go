package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/migrations"
)

// Everybody holds under this owner and session, as pgbench's scripts must.
const (
	owner     = "o1"
	sessionID = "c4ca4238-a0b9-2382-0dcc-509a6f75849b"
	ttl       = 30 * time.Second
)

// databases are the two instances of a sitting, as `dlockctl dev` makes them:
// the server's own settings, so that each commit waits for the disk.
type databases struct {
	env     *devenv.Env
	version string
	// sharedBuffers is the server's setting.
	sharedBuffers string
	// ownerDSN may change the schema; lockDSN has the rights of lockapp and no
	// others, as a service does. Both are secrets.
	ownerDSN, lockDSN, payDSN string
}

// makeFolder makes a folder that the servers' user may enter when root calls.
func makeFolder(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "dlockctl-bench-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the databases: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", errors.Join(fmt.Errorf("open the databases' folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

func startDatabases(ctx context.Context, dir, pgBin string, say func(string)) (*databases, error) {
	env, err := devenv.Open(devenv.Options{StateDir: dir, PGBin: pgBin, Progress: say})
	if err != nil {
		return nil, err
	}
	d := &databases{env: env}
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(err, d.destroy(ctx))
	}
	return d, nil
}

func (d *databases) prepare(ctx context.Context) error {
	if _, err := d.env.Up(ctx); err != nil {
		return err
	}
	var err error
	if d.ownerDSN, err = d.env.LockDSN(); err != nil {
		return err
	}
	if d.payDSN, err = d.env.PayDSN(); err != nil {
		return err
	}
	d.lockDSN = d.ownerDSN + "&options=-c%20role%3Dlockapp"
	for dir, dsn := range map[string]string{"lockdb": d.ownerDSN, "paydb": d.payDSN} {
		if err := migrate(ctx, dsn, dir); err != nil {
			return fmt.Errorf("migrate %s: %w", dir, err)
		}
	}
	return connected(ctx, d.ownerDSN, func(lock *pgx.Conn) error {
		return connected(ctx, d.payDSN, func(pay *pgx.Conn) error {
			if _, _, err := instance.RecordPeers(ctx, lock, pay); err != nil {
				return err
			}
			if err := checkDurable(ctx, lock); err != nil {
				return err
			}
			if d.version, err = makeSession(ctx, lock); err != nil {
				return err
			}
			if err := lock.QueryRow(ctx, "SHOW shared_buffers").Scan(&d.sharedBuffers); err != nil {
				return fmt.Errorf("read the server's settings: %w", err)
			}
			// pglock's table has no business among the migrated ones.
			if _, err := lock.Exec(ctx, "CREATE SCHEMA "+peerSchema); err != nil {
				return fmt.Errorf("make a schema for pglock: %w", err)
			}
			return nil
		})
	})
}

func migrate(ctx context.Context, dsn, dir string) (err error) {
	catalogue, err := flyway.Load(flyway.Location{FS: migrations.FS, Dir: dir})
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("read the DSN: %w", err)
	}
	migrator, err := flyway.Open(ctx, config, catalogue, flyway.Options{Owner: instance.OwnerRole})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, migrator.Close(ctx)) }()
	_, err = migrator.Up(ctx)
	return err
}

// checkDurable refuses a server that acknowledges what a crash undoes: its rates
// would be of something else.
func checkDurable(ctx context.Context, conn *pgx.Conn) error {
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			return fmt.Errorf("read the server's settings: %w", err)
		}
		if value != "on" {
			return fmt.Errorf("the server's %s is %s; only durable settings are measured", setting, value)
		}
	}
	return nil
}

func makeSession(ctx context.Context, conn *pgx.Conn) (version string, err error) {
	const insert = `INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES ($1, $2, now() + interval '1 day')
RETURNING current_setting('server_version')`
	if err := conn.QueryRow(ctx, insert, sessionID, owner).Scan(&version); err != nil {
		return "", fmt.Errorf("make the session: %w", err)
	}
	return version, nil
}

func connected(ctx context.Context, dsn string, fn func(*pgx.Conn) error) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("read the DSN: %w", err)
	}
	return connectedBy(ctx, config, fn)
}

func connectedBy(ctx context.Context, config *pgx.ConnConfig, fn func(*pgx.Conn) error) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return fn(conn)
}

// destroy removes the instances, also after a signal.
func (d *databases) destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return d.env.Destroy(ctx)
}

// libpq is how pgbench and psql log in: as everybody else does, and without a
// password on their command line.
func (d *databases) libpq() ([]string, error) {
	config, err := pgx.ParseConfig(d.lockDSN)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	return []string{
		"PGHOST=" + config.Host, fmt.Sprintf("PGPORT=%d", config.Port), "PGUSER=" + config.User, "PGPASSWORD=" + config.Password,
		"PGDATABASE=" + config.Database, "PGSSLMODE=disable", "PGOPTIONS=" + config.RuntimeParams["options"],
	}, nil
}
