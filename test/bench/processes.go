package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// processes measures whole programs, from the fork to the end: dlockctl beside
// psql with the same statements, and beside a program that does nothing.
type processes struct {
	dbs        *databases
	statements statements
	psql       string
	programs   *programs

	compared bool
	keys     atomic.Int64
}

func (p *processes) program(name string) string { return p.programs.path(name) }

// prepare builds the programs once, as they are released, and makes sure that
// both sides connect as often.
func (p *processes) prepare(ctx context.Context) error {
	if p.compared {
		return nil
	}
	err := p.programs.build(ctx, program{root, "./cmd/dlockctl", "dlockctl"}, program{".", "./hello", "hello"}, program{".", "./peak", "peak"})
	if err != nil {
		return err
	}
	p.compared = true
	return p.compareConnections(ctx)
}

// runner runs a program to its end.
type runner func(ctx context.Context, env []string, program string, args ...string) (out string, value float64, err error)

// pair acquires and releases a fresh key, a process each, and returns the value
// of each.
type pair func(ctx context.Context, run runner) (acquire, release float64, err error)

// timed returns the wall-clock times, in milliseconds.
func (p *processes) timed() []contender {
	return []contender{
		{
			series: []series{
				{"psql-acquire", "psql -c, acquire", "ms", ""},
				{"psql-pair", "psql -c, acquire and release", "ms", ""},
			},
			measure: both(p.psqlPair),
		},
		{
			series: []series{
				{"dlockctl-acquire", "dlockctl acquire", "ms", "psql-acquire"},
				{"dlockctl-pair", "dlockctl acquire and release", "ms", "psql-pair"},
			},
			measure: both(p.dlockctlPair),
		},
		p.alone(series{"hello", "hello, world", "ms", ""}, timing, "hello"),
		p.alone(series{"dlockctl-version", "dlockctl version", "ms", "hello"}, timing, "dlockctl", "version"),
	}
}

func both(run pair) func(context.Context) ([]float64, error) {
	return func(ctx context.Context) ([]float64, error) {
		acquire, release, err := run(ctx, timing)
		return []float64{acquire, acquire + release}, err
	}
}

// weighed returns the peaks of memory, in MiB.
func (p *processes) weighed() []contender {
	acquire := func(run pair) func(context.Context) ([]float64, error) {
		return func(ctx context.Context) ([]float64, error) {
			acquire, _, err := run(ctx, p.weighing)
			return []float64{acquire}, err
		}
	}
	return []contender{
		{[]series{{"psql-memory", "psql -c, acquire: peak memory", "MiB", ""}}, acquire(p.psqlPair)},
		{[]series{{"dlockctl-memory", "dlockctl acquire: peak memory", "MiB", "psql-memory"}}, acquire(p.dlockctlPair)},
		p.alone(series{"hello-memory", "hello, world: peak memory", "MiB", ""}, p.weighing, "hello"),
		p.alone(series{"dlockctl-version-memory", "dlockctl version: peak memory", "MiB", "hello-memory"}, p.weighing, "dlockctl", "version"),
	}
}

// alone measures a program that connects to nothing.
func (p *processes) alone(s series, run runner, name string, args ...string) contender {
	return contender{series: []series{s}, measure: func(ctx context.Context) ([]float64, error) {
		_, value, err := run(ctx, p.dlockctlEnv(), p.program(name), args...)
		return []float64{value}, err
	}}
}

func (p *processes) freshKey() string { return "w-" + strconv.FormatInt(p.keys.Add(1), 10) }

// dlockctlPair runs acquire and release and returns a value of each.
func (p *processes) dlockctlPair(ctx context.Context, run runner) (acquire, release float64, err error) {
	key := p.freshKey()
	token, acquire, err := run(ctx, p.dlockctlEnv(), p.program("dlockctl"),
		"acquire", key, "--owner", owner, "--session", sessionID, "--ttl", ttl.String(), "-o", "name")
	if err != nil {
		return 0, 0, err
	}
	_, release, err = run(ctx, p.dlockctlEnv(), p.program("dlockctl"), "release", key, "--token", strings.TrimSpace(token), "--fail-if-stale", "-o", "name")
	return acquire, release, err
}

// dlockctlEnv gives lockdb's address and nothing of the developer's own settings.
func (p *processes) dlockctlEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.programs.dir, "DLOCKCTL_LOCK_DSN=" + p.dbs.lockDSN}
}

// psqlPair runs the same two statements.
func (p *processes) psqlPair(ctx context.Context, run runner) (acquire, release float64, err error) {
	env, err := p.dbs.libpq()
	if err != nil {
		return 0, 0, err
	}
	key := p.freshKey()
	statement, err := literal(p.statements.acquire, key, "")
	if err != nil {
		return 0, 0, err
	}
	row, acquire, err := run(ctx, env, p.psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement)
	if err != nil {
		return 0, 0, err
	}
	token, _, several := strings.Cut(row, "|")
	if !several {
		return 0, 0, fmt.Errorf("psql's acquire of %s answered %q", key, row)
	}
	if statement, err = literal(p.statements.release, key, token); err != nil {
		return 0, 0, err
	}
	released, release, err := run(ctx, env, p.psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement)
	if err == nil && strings.TrimSpace(released) != token {
		err = fmt.Errorf("psql's release of %s answered %q", key, released)
	}
	return acquire, release, err
}

// timing is a runner that returns milliseconds.
func timing(ctx context.Context, env []string, program string, args ...string) (string, float64, error) {
	used, err := execute(ctx, env, nil, program, args...)
	return used.out, milliseconds(used.wall), err
}

// weighing is a runner that returns MiB.
func (p *processes) weighing(ctx context.Context, env []string, program string, args ...string) (out string, mib float64, err error) {
	used, err := p.programs.weigh(ctx, env, program, args...)
	return used.out, used.peakMiB, err
}

// compareConnections refuses to compare programs that do not connect as often,
// by the servers' own count.
func (p *processes) compareConnections(ctx context.Context) error {
	count := func(run pair) (int64, error) {
		before, err := p.connections(ctx)
		if err != nil {
			return 0, err
		}
		if _, _, err := run(ctx, timing); err != nil {
			return 0, err
		}
		after, err := p.connections(ctx)
		return after - before - int64(len(p.instances())), err
	}
	dlockctl, err := count(p.dlockctlPair)
	if err != nil {
		return err
	}
	psql, err := count(p.psqlPair)
	if err != nil {
		return err
	}
	if dlockctl != psql {
		return fmt.Errorf("dlockctl makes %d connections for an acquire and a release, psql %d: they cannot be compared", dlockctl, psql)
	}
	return nil
}

// connections counts the connections ever made to both instances, as soon as all
// others have ended: a server counts a session at the latest when it ends. The
// reader's own is among them and is taken off again by whoever counts before and
// after.
func (p *processes) connections(ctx context.Context) (int64, error) {
	const (
		own    = `SELECT pg_stat_force_next_flush()`
		others = `SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()`
		made   = `SELECT sum(sessions)::bigint FROM pg_stat_database`
	)
	var total int64
	for _, dsn := range p.instances() {
		err := connected(ctx, dsn, func(conn *pgx.Conn) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if _, err := conn.Exec(ctx, own); err != nil {
				return fmt.Errorf("flush the reader's own: %w", err)
			}
			for running := int64(1); running > 0; {
				if err := conn.QueryRow(ctx, others).Scan(&running); err != nil {
					return fmt.Errorf("wait for the other connections to end: %w", err)
				}
			}
			var here int64
			err := conn.QueryRow(ctx, made).Scan(&here)
			total += here
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("count the connections: %w", err)
		}
	}
	return total, nil
}

func (p *processes) instances() []string { return []string{p.dbs.ownerDSN, p.dbs.payDSN} }
