package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// batchSize is how many keys a batch has.
const batchSize = 64

// bench makes the contenders of the rates.
type bench struct {
	pgbench    string
	dbs        *databases
	statements statements
	dir        string
	window     time.Duration
}

// contenders are all rates: pairs of acquire and release a second, each pair on
// a free key, so that nobody waits for anybody.
func (b *bench) contenders() ([]contender, error) {
	single, err := b.statements.pgbenchScript()
	if err != nil {
		return nil, err
	}
	acquire, err := numbered(b.statements.acquire, "key", "owner_id", "session_id", "ttl_seconds")
	if err != nil {
		return nil, err
	}
	release, err := numbered(b.statements.release, "key", "token")
	if err != nil {
		return nil, err
	}
	loop := b.openPGX(acquire, release)
	return []contender{
		b.rate("pgx-1", "bare pgx loop, 1 connection", "", loop, 1, 1),
		b.rate("store-1", "the store, 1 connection", "pgx-1", b.openStore, 1, 1),
		b.rate("etcd-1", "etcd Mutex, 1 client", "pgx-1", b.openEtcd, 1, 1),
		b.rate("pglock-1", "pglock, 1 connection", "pgx-1", b.openPGLock, 1, 1),
		b.weighedScript("pgbench-16", "pgbench, 16 connections", single, 16),
		b.rate("store-16", "the store, 16 connections", "pgbench-16", b.openStore, 16, 1),
		b.rate("pgx-16", "bare pgx loop, 16 connections", "pgbench-16", loop, 16, 1),
		b.rate("etcd-16", "etcd Mutex, 16 clients", "pgbench-16", b.openEtcd, 16, 1),
		b.rate("pglock-16", "pglock, 16 connections", "pgbench-16", b.openPGLock, 16, 1),
		b.weighedRate("etcd-64", "etcd Mutex, 64 clients", "pgbench-16", b.openEtcd, 64),
		b.weighedRate("engine-64", "lock-server's engine, 64 callers", "pgbench-16", b.openEngine, 64),
		b.script("pgbench-batch64-1", "pgbench, 64 keys in one statement, 1 connection", batchScript, 1, batchSize),
		b.rate("store-batch64-1", "the store, batches of 64, 1 connection", "pgbench-batch64-1", b.openBatch, 1, batchSize),
		b.script("pgbench-batch64-4", "pgbench, 64 keys in one statement, 4 connections", batchScript, 4, batchSize),
		b.rate("store-batch64-4", "the store, batches of 64, 4 connections", "pgbench-batch64-4", b.openBatch, 4, batchSize),
	}, nil
}

const pairsPerSecond = "pairs/s"

// rate is a contender in this program; each call of its pair is so many pairs.
func (b *bench) rate(id, title, reference string, open opener, workers, pairs int) contender {
	return contender{
		series: []series{{id, title, pairsPerSecond, reference}},
		measure: func(ctx context.Context) ([]float64, error) {
			perSecond, _, err := b.dbs.rate(ctx, open, workers, b.window)
			return []float64{perSecond * float64(pairs)}, err
		},
	}
}

// weighedRate is rate, and what its pairs cost in processor time, beside what the
// reference's do.
func (b *bench) weighedRate(id, title, reference string, open opener, workers int) contender {
	return contender{
		series: []series{{id, title, pairsPerSecond, reference}, {id + cpuSuffix, cpuTitle, "s", reference + cpuSuffix}},
		measure: func(ctx context.Context) ([]float64, error) {
			perSecond, seconds, err := b.dbs.rate(ctx, open, workers, b.window)
			return []float64{perSecond, seconds}, err
		},
	}
}

// freshKey is one of a million keys of this worker alone.
func freshKey(prefix string, worker int) string {
	return prefix + strconv.Itoa(worker) + "-" + strconv.Itoa(rand.IntN(1_000_000))
}

// openPGX is the loop that the store is measured against: a connection for each
// worker, statements prepared once by the driver, and nothing around them.
func (b *bench) openPGX(acquire, release string) opener {
	return func(ctx context.Context, workers int) (subject, error) {
		conns := make([]*pgx.Conn, workers)
		closeAll := func() {
			for _, conn := range conns {
				if conn != nil {
					_ = conn.Close(context.WithoutCancel(ctx)) // nothing is under way on it
				}
			}
		}
		for i := range conns {
			var err error
			if conns[i], err = pgx.Connect(ctx, b.dbs.lockDSN); err != nil {
				closeAll()
				return subject{}, fmt.Errorf("connect: %w", err)
			}
		}
		return subject{close: closeAll, pair: func(ctx context.Context, worker int) error {
			conn, key := conns[worker], freshKey("x-", worker)
			var token int64
			var holder string
			var session pgtype.UUID
			var acquired, expires time.Time
			if err := conn.QueryRow(ctx, acquire, key, owner, sessionID, ttl.Seconds()).Scan(&token, &holder, &session, &acquired, &expires); err != nil {
				return fmt.Errorf("acquire: %w", err)
			}
			if err := conn.QueryRow(ctx, release, key, token).Scan(&token); err != nil {
				return fmt.Errorf("release: %w", err)
			}
			return nil
		}}, nil
	}
}

// store opens the store as lock-server does, every check of its guards included.
func (b *bench) store(ctx context.Context, workers int) (*postgres.Store, error) {
	config, err := pgx.ParseConfig(b.dbs.lockDSN)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	return postgres.Open(ctx, postgres.Options{Config: config, Purpose: postgres.Granting, MaxConns: int32(workers)}) //nolint:gosec // G115: 16
}

func request(key string) lockstore.AcquireParams {
	return lockstore.AcquireParams{Key: key, Owner: owner, Session: sessionID, TTL: ttl}
}

func (b *bench) openStore(ctx context.Context, workers int) (subject, error) {
	store, err := b.store(ctx, workers)
	if err != nil {
		return subject{}, err
	}
	return subject{close: store.Close, pair: func(ctx context.Context, worker int) error {
		grant, err := store.Acquire(ctx, request(freshKey("s-", worker)))
		if err != nil {
			return err
		}
		release, err := store.Release(ctx, grant.Key, grant.Token)
		if err == nil && release.Stale {
			err = fmt.Errorf("release of %s: stale", grant.Key)
		}
		return err
	}}, nil
}

func (b *bench) openBatch(ctx context.Context, workers int) (subject, error) {
	store, err := b.store(ctx, workers)
	if err != nil {
		return subject{}, err
	}
	return subject{close: store.Close, pair: func(ctx context.Context, worker int) error {
		return batchPair(ctx, store, freshKey("b-", worker))
	}}, nil
}

func batchPair(ctx context.Context, store lockstore.Store, prefix string) error {
	params := make([]lockstore.AcquireParams, batchSize)
	for i := range params {
		params[i] = request(prefix + "-" + strconv.Itoa(i+1))
	}
	results, err := store.AcquireBatch(ctx, params)
	if err != nil {
		return err
	}
	refs := make([]lockstore.GrantRef, len(results))
	for i, result := range results {
		if result.Err != nil {
			return result.Err
		}
		refs[i] = lockstore.GrantRef{Key: result.Grant.Key, Token: result.Grant.Token}
	}
	releases, err := store.ReleaseBatch(ctx, refs)
	if err != nil {
		return err
	}
	for _, release := range releases {
		if release.Stale {
			return fmt.Errorf("release of %s: stale", release.Key)
		}
	}
	return nil
}
