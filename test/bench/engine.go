package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

// openEngine is what lock-server does with its callers' acquires and releases,
// without HTTP: it carries out those of many in one transaction.
func (b *bench) openEngine(ctx context.Context, _ int) (subject, error) {
	store, err := b.store(ctx, engine.Connections)
	if err != nil {
		return subject{}, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	e := engine.New(life, engineDB{store}, slog.New(slog.DiscardHandler), uncounted{})
	var running sync.WaitGroup
	running.Go(e.Run)
	closeAll := func() {
		e.Close()
		running.Wait()
		end()
		store.Close()
	}
	return subject{close: closeAll, pair: func(ctx context.Context, worker int) error {
		grant, err := e.Acquire(ctx, request(freshKey("c-", worker)), engine.Wait{})
		if err != nil {
			return err
		}
		release, err := e.Release(ctx, grant.Key, grant.Token)
		if err == nil && release.Stale {
			err = fmt.Errorf("release of %s: stale", grant.Key)
		}
		return err
	}}, nil
}

// engineDB is a lockdb that is always there.
type engineDB struct{ store engine.Database }

func (d engineDB) Changing() (engine.Database, error) { return d.store, nil }
func (engineDB) Granting() error                      { return nil }
func (engineDB) Failed(error)                         {}
func (engineDB) Saw(lockstore.Token)                  {}

// uncounted counts nothing.
type uncounted struct{}

func (uncounted) Granted()                {}
func (uncounted) Contended()              {}
func (uncounted) Released()               {}
func (uncounted) SessionLost()            {}
func (uncounted) Queued(int)              {}
func (uncounted) Waiting(int)             {}
func (uncounted) Batch(int)               {}
func (uncounted) BatchWait(time.Duration) {}
func (uncounted) HandOff(time.Duration)   {}
