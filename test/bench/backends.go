package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/migrations"
)

// guardSchema holds SyncGuard's tables, beside the migrated ones.
const guardSchema = "guard"

// backends are the three stores that dlockctl itself has, each opened with every
// check of its own, on the same disk, with each grant durable before it is told
// (docs/backends.md). They are compared with the one on PostgreSQL and with nothing
// else: what each promises for its pairs is another thing.
func (b *bench) backends() []contender {
	var all []contender
	for _, clients := range []int{1, 16} {
		plural := "s"
		if clients == 1 {
			plural = ""
		}
		id := func(name string) string { return fmt.Sprintf("backend-%s-%d", name, clients) }
		title := func(name string) string { return fmt.Sprintf("backend %s, %d client%s", name, clients, plural) }
		postgres := id("postgres")
		all = append(all,
			b.rate(postgres, title("postgres"), "", b.openStore, clients, 1),
			b.rate(id("etcd"), title("etcd"), postgres, b.openEtcdStore, clients, 1),
			b.rate(id("syncguard"), title("syncguard"), postgres, b.openSyncGuard, clients, 1))
	}
	return all
}

// openEtcdStore starts a single etcd as openEtcd does. Each worker has a session of
// its own, as a client has.
func (b *bench) openEtcdStore(ctx context.Context, workers int) (s subject, err error) {
	server, err := startEtcd(ctx, filepath.Join(b.dir, "etcd"))
	if err != nil {
		return subject{}, fmt.Errorf("start etcd: %w", err)
	}
	store, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{server.Config().AdvertiseClientUrls[0].String()}, Purpose: etcd.Granting})
	if err != nil {
		server.Close()
		return subject{}, err
	}
	closeBoth := func() {
		store.Close()
		server.Close()
	}
	sessions := make([]lockstore.SessionID, workers)
	for i := range sessions {
		session, err := store.CreateSession(ctx, owner, ttl)
		if err != nil {
			closeBoth()
			return subject{}, err
		}
		sessions[i] = session.ID
	}
	return subject{close: closeBoth, pair: func(ctx context.Context, worker int) error {
		params := request(freshKey("e-", worker))
		params.Session = sessions[worker]
		return storePair(ctx, store, params)
	}}, nil
}

// openSyncGuard makes SyncGuard's tables anew: a counter for each key stays for ever,
// and the next round is not to find those of the one before.
func (b *bench) openSyncGuard(ctx context.Context, workers int) (subject, error) {
	text, err := fs.ReadFile(migrations.FS, "syncguard/V1__create_locks_and_fence_counters.sql")
	if err != nil {
		return subject{}, err
	}
	config, err := pgx.ParseConfig(b.dbs.ownerDSN)
	if err != nil {
		return subject{}, fmt.Errorf("read the DSN: %w", err)
	}
	config.RuntimeParams["search_path"] = guardSchema
	err = connectedBy(ctx, config, func(conn *pgx.Conn) error {
		sql := "DROP SCHEMA IF EXISTS " + guardSchema + " CASCADE; CREATE SCHEMA " + guardSchema + ";" + string(text)
		_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		return err //nolint:wrapcheck // said below
	})
	if err != nil {
		return subject{}, fmt.Errorf("make SyncGuard's tables: %w", err)
	}
	store, err := syncguard.Open(ctx, syncguard.Options{Config: config, MaxConns: int32(workers)}) //nolint:gosec // G115: 16
	if err != nil {
		return subject{}, err
	}
	return subject{close: store.Close, pair: func(ctx context.Context, worker int) error {
		return storePair(ctx, store, lockstore.AcquireParams{Key: freshKey("g-", worker), Owner: owner, TTL: ttl})
	}}, nil
}

// storePair is one acquire and its release.
func storePair(ctx context.Context, store lockstore.Store, params lockstore.AcquireParams) error {
	grant, err := store.Acquire(ctx, params)
	if err != nil {
		return err
	}
	release, err := store.Release(ctx, grant.Key, grant.Token)
	if err == nil && release.Stale {
		err = errors.New("release of " + grant.Key + ": stale")
	}
	return err
}
