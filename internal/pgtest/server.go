package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/instance"
)

// Server is one running instance.
type Server struct {
	Name  string // "lock", "pay", "single"
	Major int
	Port  int
	// Dir holds data/ and server.log.
	Dir string

	socketDir string
	password  string        // of every test login
	names     *atomic.Int64 // counts the databases made
}

// superuser is the login behind the user name "super".
const superuser = "postgres"

// logins are the test logins and the group role each is a member of.
func logins() map[string]string {
	return map[string]string{
		"t_owner":    instance.OwnerRole,
		"t_lockapp":  "lockapp",
		"t_operator": "dlock_operator",
		"t_auditor":  "dlock_auditor",
		"t_resource": "payapp_resource",
		"t_rail":     "payapp_rail",
	}
}

// startPair makes the two instances by two runs of initdb: a copy would share the system identifier (K-6.1).
func startPair(ctx context.Context, majorVersion int) (Pair, error) {
	var pair Pair
	group, ctx := errgroup.WithContext(ctx)
	for name, server := range map[string]*Server{"lock": &pair.Lock, "pay": &pair.Pay} {
		group.Go(func() error {
			c, err := newCluster(ctx, majorVersion, name)
			if err != nil {
				return err
			}
			s, child, err := boot(ctx, c, name, majorVersion, relaxed())
			if err != nil {
				return err
			}
			atShutdown(func() error { return child.Stop(cluster.Immediate) })
			*server = s
			return nil
		})
	}
	return pair, group.Wait()
}

// newCluster finds the binaries and a folder for an instance.
func newCluster(ctx context.Context, majorVersion int, name string) (cluster.Cluster, error) {
	variable := fmt.Sprintf("DLOCKCTL_TEST_PG%d", majorVersion)
	bin := os.Getenv(variable)
	if bin == "" {
		return cluster.Cluster{}, fmt.Errorf("%s is not set, so there is no PostgreSQL %d to test on; run `make test`, "+
			`or: eval "$(test/postgres.sh)"`, variable, majorVersion)
	}
	account, err := cluster.ResolveAccount("")
	if err != nil {
		return cluster.Cluster{}, err
	}
	version, err := cluster.ReadVersion(ctx, bin, account)
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("%s: %w", variable, err)
	}
	if version.Major != majorVersion {
		return cluster.Cluster{}, fmt.Errorf("%s=%s holds PostgreSQL %s, not %d", variable, bin, version.Text, majorVersion)
	}
	base, err := scratchDir()
	if err != nil {
		return cluster.Cluster{}, err
	}
	dir := filepath.Join(base, name+strconv.Itoa(majorVersion))
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		return cluster.Cluster{}, fmt.Errorf("make the folder of a test server: %w", err)
	}
	return cluster.Cluster{Bin: bin, Dir: dir, Account: account}, nil
}

// relaxed is for servers whose crash nobody tests: they never wait for the disk. synchronous_commit stays on, so that
// a COMMIT still has its meaning to other sessions.
func relaxed() map[string]string {
	return map[string]string{"fsync": "off", "full_page_writes": "off", "autovacuum_naptime": "10min"}
}

// boot makes an instance, starts it, and creates the roles and logins.
func boot(ctx context.Context, c cluster.Cluster, name string, majorVersion int, extra map[string]string) (Server, *cluster.Child, error) {
	fail := func(err error) (Server, *cluster.Child, error) {
		return Server{}, nil, fmt.Errorf("server %s: %w", name, err)
	}
	if err := c.Init(ctx, cluster.InitOptions{Superuser: superuser}); err != nil {
		return fail(err)
	}
	settings := map[string]string{
		"max_connections": "200", "shared_buffers": "32MB", "max_wal_size": "256MB", "wal_level": "logical",
		"max_prepared_transactions": "10", "log_min_messages": "warning", "track_functions": "none",
	}
	for key, value := range extra {
		settings[key] = value
	}
	child, err := startOnFreePort(ctx, c, settings)
	if err != nil {
		return fail(err)
	}
	s := Server{
		Name: name, Major: majorVersion, Port: child.Port, Dir: c.Dir,
		socketDir: c.Run(), password: rand.Text(), names: &atomic.Int64{},
	}
	if err := s.createRoles(ctx); err != nil {
		return fail(errors.Join(err, child.Stop(cluster.Immediate)))
	}
	return s, child, nil
}

func startOnFreePort(ctx context.Context, c cluster.Cluster, settings map[string]string) (*cluster.Child, error) {
	for {
		port, err := cluster.FreePort(ctx)
		if err != nil {
			return nil, err
		}
		if err := configure(c, port, settings); err != nil {
			return nil, err
		}
		child, err := c.StartChild(ctx, port)
		if !errors.Is(err, cluster.ErrPortTaken) {
			return child, err
		}
	}
}

// configure lets in everybody who reaches the socket, which only the owner of its folder does, and over TCP those
// who know the password: other users of the machine do not.
func configure(c cluster.Cluster, port int, settings map[string]string) error {
	return c.Configure(cluster.Config{
		Port: port, Settings: settings,
		HBA: []string{
			"local all all trust",
			"host all all 127.0.0.1/32 scram-sha-256",
			"local replication all trust",
			"host replication all 127.0.0.1/32 scram-sha-256",
		},
	})
}

func (s Server) createRoles(ctx context.Context) error {
	return s.admin(ctx, func(conn *pgx.Conn) error {
		if _, err := instance.EnsureRoles(ctx, conn); err != nil {
			return err
		}
		script := fmt.Sprintf("ALTER ROLE %s PASSWORD '%s';", superuser, s.password)
		for login, group := range logins() {
			script += fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE %s;", login, s.password, group)
		}
		script += "GRANT pg_read_all_stats TO t_auditor, t_operator, t_owner;" // as docs/doctor.md advises whoever looks
		if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
			return fmt.Errorf("create test logins: %w", err)
		}
		return nil
	})
}

// admin runs fn as the superuser, through the socket.
func (s Server) admin(ctx context.Context, fn func(*pgx.Conn) error) error {
	return s.connected(ctx, "postgres", fn)
}

func (s Server) connected(ctx context.Context, database string, fn func(*pgx.Conn) error) (err error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s database=%s sslmode=disable",
		s.socketDir, s.Port, superuser, database))
	if err != nil {
		return fmt.Errorf("connect to test server %s: %w", s.Name, err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to test server %s: %w", s.Name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return fn(conn)
}
