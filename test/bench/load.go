package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// subject is an implementation under load: each worker calls pair in a loop.
type subject struct {
	pair  func(ctx context.Context, worker int) error
	close func()
}

// opener makes a subject with as many connections as there are workers.
type opener func(ctx context.Context, workers int) (subject, error)

// warmUp is for what the first calls pay: connections, statements, the server's
// caches. Everybody has it, pgbench too.
const warmUp = time.Second

// rate opens a subject, warms it up, and returns how many calls of pair all
// workers together finish in a second, and what 1,000 of them cost in processor
// time. Nothing of it is left afterwards, so that the next contender has the machine
// to itself.
func (d *databases) rate(ctx context.Context, open opener, workers int, window time.Duration) (perSecond, seconds float64, err error) {
	s, err := open(ctx, workers)
	if err != nil {
		return 0, 0, err
	}
	defer s.close()
	if _, err := load(ctx, s, workers, warmUp); err != nil {
		return 0, 0, err
	}
	runtime.GC() // what others left behind is not this one's to clear
	return d.weighed(ctx, s, workers, window)
}

func load(ctx context.Context, s subject, workers int, window time.Duration) (float64, error) {
	group, ctx := errgroup.WithContext(ctx)
	var done atomic.Int64
	start := time.Now()
	for worker := range workers {
		group.Go(func() error {
			var mine int64
			defer func() { done.Add(mine) }()
			for time.Since(start) < window {
				if err := s.pair(ctx, worker); err != nil {
					return err
				}
				mine++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	elapsed := time.Since(start) // the last pair's end, not the window's
	if done.Load() == 0 {
		return 0, fmt.Errorf("nothing was finished in %s", window)
	}
	return float64(done.Load()) / elapsed.Seconds(), nil
}
