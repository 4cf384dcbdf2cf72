package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// lockStandby is the instance that (*devenv.Env).StandBy makes.
const lockStandby = devenv.LockDB + "-standby"

// askingConns is how many connections the client has that asks.
const askingConns = 8

// postgres kills a primary by -9, and does at once what the runbook of an unplanned
// fail-over says (docs/runbooks/failover.md) when the old primary is gone for good:
// promote, restore fast-forward.
func (f *failOvers) postgres(ctx context.Context) (values []float64, err error) {
	dir := filepath.Join(f.dir, "failover")
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dbs, err := startDatabases(ctx, dir, f.pgBin, func(string) {})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dbs.destroy(ctx)) }()
	if err := dbs.env.StandBy(ctx); err != nil {
		return nil, err
	}
	r, err := newPromotion(ctx, dbs, f.programs)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.run(ctx)
}

// promotion is one fail-over of lockdb.
type promotion struct {
	dbs      *databases
	programs *programs
	primary  *os.Process
	// standby is its superuser's connection, standbyDSN the operator's.
	standby    *pgx.ConnConfig
	standbyDSN string
	client     *asking
	close      func()
}

func newPromotion(ctx context.Context, dbs *databases, programs *programs) (*promotion, error) {
	status, err := dbs.env.Status(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(status.Instances, func(i devenv.InstanceStatus) bool { return i.Name == devenv.LockDB && i.PID > 0 })
	if at < 0 {
		return nil, errors.New("lockdb does not run")
	}
	primary, err := os.FindProcess(status.Instances[at].PID)
	if err != nil {
		return nil, fmt.Errorf("find the primary: %w", err)
	}
	server, running, err := cluster.Cluster{Dir: filepath.Join(dbs.env.Dir(), lockStandby)}.Running(ctx)
	if err == nil && !running {
		err = errors.New("it does not run")
	}
	if err != nil {
		return nil, fmt.Errorf("find the standby of lockdb: %w", err)
	}
	p := &promotion{dbs: dbs, programs: programs, primary: primary}
	if p.standby, err = socketConfig(server.SocketDir, server.Port, devenv.LockDB); err != nil {
		return nil, err
	}
	if err := p.streams(ctx); err != nil {
		return nil, err
	}
	either, err := url.Parse(dbs.ownerDSN)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	before := either.Host
	either.Host = net.JoinHostPort(either.Hostname(), strconv.Itoa(server.Port))
	p.standbyDSN = either.String()
	// What the roles are given, and a client's address, are as they were.
	either.Host = before + "," + either.Host
	return p, p.connect(ctx, either.String())
}

// connect opens the store with the addresses of both, as a service names them.
func (p *promotion) connect(ctx context.Context, either string) error {
	config, err := pgx.ParseConfig(either + "&target_session_attrs=read-write&options=-c%20role%3Dlockapp")
	if err != nil {
		return errors.New("read the DSN of primary and standby") // pgx's own words would show it
	}
	store, err := postgres.Open(ctx, postgres.Options{Config: config, Purpose: postgres.Granting, MaxConns: askingConns})
	if err != nil {
		return err
	}
	p.close = store.Close
	if p.client, err = newAsking(ctx, store); err != nil {
		store.Close()
		return err
	}
	return nil
}

// streams waits until the standby follows: one that does not is no standby.
func (p *promotion) streams(ctx context.Context) error {
	return connectedBy(ctx, p.standby, func(conn *pgx.Conn) error {
		return becomes(ctx, "the standby streams", askEvery, func(ctx context.Context) (streams bool, err error) {
			err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')").Scan(&streams)
			return streams, err
		})
	})
}

// run returns how long it took until somebody was granted a lock, and until the standby
// was promoted.
func (p *promotion) run(ctx context.Context) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	killed := time.Now()
	if err := p.primary.Kill(); err != nil {
		return nil, fmt.Errorf("kill the primary: %w", err)
	}
	type answer struct {
		at  time.Time
		err error
	}
	first := make(chan answer, 1)
	go func() {
		// Until its servers have noticed, the dead primary may grant once more. A token
		// above the margin is the promoted one's.
		at, err := p.client.firstGrant(ctx, restore.DefaultMargin)
		first <- answer{at, err}
	}()
	promoted, err := p.operate(ctx)
	if err != nil {
		cancel() // nobody will be granted anything
		<-first
		return nil, err
	}
	granted := <-first
	if granted.err != nil {
		return nil, granted.err
	}
	return []float64{milliseconds(granted.at.Sub(killed)), milliseconds(promoted.Sub(killed))}, nil
}

// operate is the runbook, typed by a program.
func (p *promotion) operate(ctx context.Context) (promoted time.Time, err error) {
	err = connectedBy(ctx, p.standby, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_promote(false)"); err != nil {
			return fmt.Errorf("promote the standby: %w", err)
		}
		return becomes(ctx, "the standby is promoted", 5*time.Millisecond, func(ctx context.Context) (yes bool, err error) {
			err = conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery()").Scan(&yes)
			return yes, err
		})
	})
	if err != nil {
		return time.Time{}, err
	}
	promoted = time.Now()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.programs.dir, "DLOCKCTL_LOCK_DSN=" + p.standbyDSN, "DLOCKCTL_PAY_DSN=" + p.dbs.payDSN}
	_, err = execute(ctx, env, nil, p.programs.path("dlockctl"), "restore", "fast-forward", "--reason", "fail-over, measured", "--yes")
	return promoted, err
}
