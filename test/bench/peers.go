package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"cirello.io/pglock"
	_ "github.com/lib/pq" // pglock's driver
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// peerSchema holds pglock's table.
const peerSchema = "peer"

func (b *bench) openPGLock(_ context.Context, workers int) (subject, error) {
	db, err := sql.Open("postgres", b.dbs.ownerDSN+"&search_path="+peerSchema)
	if err != nil {
		return subject{}, fmt.Errorf("open pglock's database: %w", err)
	}
	closeDB := func() { _ = db.Close() } // nothing is under way on it
	db.SetMaxOpenConns(workers)
	db.SetMaxIdleConns(workers)
	// Without heartbeats, which would only cost it.
	client, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(ttl), pglock.WithHeartbeatFrequency(0))
	if err == nil {
		err = client.TryCreateTable()
	}
	if err != nil {
		closeDB()
		return subject{}, fmt.Errorf("open pglock: %w", err)
	}
	return subject{close: closeDB, pair: func(ctx context.Context, worker int) error {
		lock, err := client.AcquireContext(ctx, freshKey("l-", worker))
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if err := client.ReleaseContext(ctx, lock); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		return nil
	}}, nil
}

// openEtcd starts a single etcd with durable settings in this process, on the
// same disk as the databases.
func (b *bench) openEtcd(ctx context.Context, _ int) (subject, error) {
	server, err := startEtcd(ctx, filepath.Join(b.dir, "etcd"))
	if err != nil {
		return subject{}, fmt.Errorf("start etcd: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Config().AdvertiseClientUrls[0].String()}, Context: ctx})
	if err != nil {
		server.Close()
		return subject{}, fmt.Errorf("connect to etcd: %w", err)
	}
	closeBoth := func() {
		_ = client.Close() // nothing is under way on it
		server.Close()
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		closeBoth()
		return subject{}, fmt.Errorf("open an etcd session: %w", err)
	}
	return subject{
		close: func() {
			_ = session.Close() // else its lease lapses
			closeBoth()
		},
		pair: func(ctx context.Context, worker int) error {
			mutex := concurrency.NewMutex(session, "/"+freshKey("e-", worker))
			if err := mutex.Lock(ctx); err != nil {
				return fmt.Errorf("lock: %w", err)
			}
			if err := mutex.Unlock(ctx); err != nil {
				return fmt.Errorf("unlock: %w", err)
			}
			return nil
		},
	}, nil
}

func startEtcd(ctx context.Context, dir string) (*embed.Etcd, error) {
	client, err := freeURL(ctx)
	if err != nil {
		return nil, err
	}
	peer, err := freeURL(ctx)
	if err != nil {
		return nil, err
	}
	// A fresh one each time, since its address is part of what it keeps.
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "fatal" // what fails is returned; an orderly end is logged as an error
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(time.Minute):
		err = errors.New("it was not ready within a minute")
	}
	server.Close()
	return nil, err
}

func freeURL(ctx context.Context) (url.URL, error) {
	port, err := cluster.FreePort(ctx)
	return url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, err
}
