package devenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// superuser is used by this package alone, through the socket; it has no password.
const superuser = "dlock_super"

const dsnFile = "dsn"

func (p *postgres) superConfig(database string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig("sslmode=disable connect_timeout=10")
	if err != nil {
		return nil, fmt.Errorf("prepare a connection: %w", err)
	}
	// Nothing of the caller's PG… variables may lead elsewhere.
	config.Host, config.User, config.Database = p.rec.SocketDir, superuser, database
	config.Port = uint16(p.rec.Port) //nolint:gosec // G115: FreePort stays below 65536
	config.Password, config.TLSConfig, config.Fallbacks, config.ValidateConnect = "", nil, nil, nil
	config.RuntimeParams = map[string]string{"application_name": "dlockctl dev"}
	return config, nil
}

// as runs fn on a connection of the superuser.
func (p *postgres) as(ctx context.Context, database string, fn func(*pgx.Conn) error) (err error) {
	config, err := p.superConfig(database)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", p.name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return fn(conn)
}

// identify makes sure that who answers on the socket is the recorded instance, and records a new one. The caller holds
// the lock.
func (p *postgres) identify(ctx context.Context) error {
	found, err := p.recognise(ctx)
	if err != nil || p.rec.SystemIdentifier == found {
		return err
	}
	p.rec.SystemIdentifier = found
	return p.save(p.dir)
}

// recognise returns the system identifier of who answers on the socket, and fails unless it is the recorded one or none
// is recorded yet. It changes nothing.
func (p *postgres) recognise(ctx context.Context) (found int64, err error) {
	err = p.as(ctx, "postgres", func(conn *pgx.Conn) error {
		facts, err := instance.Read(ctx, conn)
		if err != nil {
			return err
		}
		if p.rec.SystemIdentifier != 0 && p.rec.SystemIdentifier != facts.SystemIdentifier {
			return fmt.Errorf("the server on %s has the system identifier %d, not %d as recorded; somebody exchanged its data folder",
				p.rec.SocketDir, facts.SystemIdentifier, p.rec.SystemIdentifier)
		}
		found = facts.SystemIdentifier
		return nil
	})
	return found, err
}

// provision makes the database, the group roles and the logins. Each step may be repeated.
func (p *postgres) provision(ctx context.Context) error {
	err := p.as(ctx, "postgres", func(conn *pgx.Conn) error {
		var there bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", p.name).Scan(&there); err != nil {
			return fmt.Errorf("look for the database: %w", err)
		}
		if there {
			return nil
		}
		p.env.progress("%s: creating the database", p.name)
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+p.name); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.as(ctx, p.name, func(conn *pgx.Conn) error {
		if _, err := instance.EnsureRoles(ctx, conn); err != nil {
			return err
		}
		// Off: a statement that fails must not carry the password into the server's log.
		script := "SET log_min_error_statement = panic; SET log_min_duration_statement = -1; SET log_statement = none;" +
			fmt.Sprintf("ALTER DATABASE %s OWNER TO %s;", p.name, instance.OwnerRole) +
			fmt.Sprintf("GRANT USAGE, CREATE ON SCHEMA public TO %s;", instance.OwnerRole)
		for _, l := range logins(p.name) {
			password, err := p.writeDSN(l)
			if err != nil {
				return err
			}
			script += l.script(password)
		}
		if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
			return fmt.Errorf("create the logins: %w", err)
		}
		return nil
	})
}

func (p *postgres) readDSN(l login) (string, error) {
	raw, err := os.ReadFile(p.dsnPath(l))
	if errors.Is(err, fs.ErrNotExist) {
		return "", &NotUpError{Name: p.name, Dir: p.env.dir}
	}
	if err != nil {
		return "", fmt.Errorf("read the DSN file: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// status looks at an instance without changing it.
func (p *postgres) status(ctx context.Context) (InstanceStatus, error) {
	there, err := p.load()
	if err != nil || !there {
		return InstanceStatus{Name: p.name, State: Absent}, err
	}
	c := p.cluster()
	s := InstanceStatus{
		Name: p.name, State: Stopped, Version: p.rec.Version, Port: p.rec.Port, DataDir: c.Data(), SocketDir: p.rec.SocketDir,
		DSNFile: p.dsnPath(logins(p.name)[0]), LogFile: c.LogFile(), PGBin: p.rec.Bin, SystemIdentifier: p.rec.SystemIdentifier,
	}
	server, running, err := c.Running(ctx)
	if err != nil || !running {
		return s, err
	}
	s.State, s.PID = Starting, server.PID
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := p.recognise(ctx); err == nil {
		s.State = Running
	}
	return s, nil
}
