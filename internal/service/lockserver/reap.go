package lockserver

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
)

const (
	// reapEvery is Options.ReapEvery where nothing else is wanted.
	reapEvery = time.Second
	// reapLimit is how many sessions one transaction ends.
	reapLimit = 100
)

// reap ends lapsed sessions, and makes the journal's partitions ahead (K-11).
func (s *Service) reap(ctx context.Context) {
	every := cmp.Or(s.opts.ReapEvery, reapEvery)
	timer := time.NewTimer(engine.Jitter(every))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for more := true; more && ctx.Err() == nil; {
			reaped, err := s.reapOnce(ctx, reapLimit)
			more = err == nil && reaped.Sessions == reapLimit
		}
		timer.Reset(engine.Jitter(every))
	}
}

// reapOnce is one transaction of the reaper. Whoever waits for a lock that went is
// woken.
func (s *Service) reapOnce(ctx context.Context, limit int) (lockstore.Reaped, error) {
	store, err := s.link.store()
	if err != nil {
		return lockstore.Reaped{}, err
	}
	ctx, cancel := s.opts.within(ctx, readTimeout) // so many sessions are more than one change
	defer cancel()
	reaped, err := store.ReapSessions(ctx, limit)
	s.reaped(reaped, err)
	return reaped, err
}

func (s *Service) reaped(reaped lockstore.Reaped, err error) {
	if err != nil {
		s.link.Failed(err)
		s.log.Warn("reap sessions", slog.String("error", err.Error()))
	}
	if reaped.Sessions > 0 {
		s.metrics.Reaped.Add(float64(reaped.Sessions))
		s.log.Info("sessions_reaped", slog.Int("sessions", reaped.Sessions), slog.Int("locks", reaped.Locks))
	}
	if reaped.Locks > 0 {
		s.engine.LookNow()
	}
}
