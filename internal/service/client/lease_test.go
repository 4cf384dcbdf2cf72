package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/client"
)

// keeper answers as a test has it, and notes when it was asked.
type keeper struct {
	mu       sync.Mutex
	renewed  []time.Time
	beats    []time.Time
	renew    func(ctx context.Context) error
	beat     func(ctx context.Context) error
	howEnded string
}

func (k *keeper) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	k.mu.Lock()
	k.renewed = append(k.renewed, time.Now())
	k.mu.Unlock()
	return lockstore.Grant{Key: key, Token: token, TTL: ttl}, k.renew(ctx)
}

func (k *keeper) Heartbeat(ctx context.Context, id lockstore.SessionID, _ time.Duration) (lockstore.Session, error) {
	k.mu.Lock()
	k.beats = append(k.beats, time.Now())
	k.mu.Unlock()
	return lockstore.Session{ID: id}, k.beat(ctx)
}

func (k *keeper) GrantHistory(_ context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	return lockstore.GrantRecord{Token: token, Ended: k.howEnded}, nil
}

func answer(err error) func(context.Context) error { return func(context.Context) error { return err } }

// hang answers nothing until its caller gives up.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return &lockstore.UnknownOutcomeError{Doing: "renew", Err: ctx.Err()}
}

// pass lets so much of the bubble's own time pass.
func pass(d time.Duration) { <-time.After(d) }

const ttl = 30 * time.Second

func held(session time.Duration) client.LeaseParams {
	now := time.Now()
	return client.LeaseParams{
		Grant:   lockstore.Grant{Key: "k", Token: 7, TTL: ttl, Sent: now},
		Session: lockstore.Session{ID: "s", Sent: now, Remaining: session}, SessionTTL: session,
	}
}

// While lockdb answers, lock and session are asked for at a third of each, and the
// context goes on; closed by its holder it ends with that cause.
//
// Clauses: K-2.10
// Mutation: renew at the whole of the lease (lease.Promise.RenewIn), or leave the heartbeat out of ask.
func TestLeaseRenews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{renew: answer(nil), beat: answer(nil)}
		began := time.Now()
		ctx, l := client.Keep(t.Context(), k, held(2*ttl))
		pass(10 * time.Minute)
		if err := l.Check(); err != nil || ctx.Err() != nil {
			t.Errorf("after ten minutes: %v, %v", err, context.Cause(ctx))
		}
		if left := l.Left(); left < ttl/2 {
			t.Errorf("%s left", left)
		}
		l.Close()
		if cause := context.Cause(ctx); !errors.Is(cause, client.ErrClosed) || !errors.Is(l.Check(), client.ErrClosed) {
			t.Errorf("closed: %v", cause)
		}
		if n := len(k.renewed); n < 59 || n > 61 || k.renewed[0].Sub(began) != ttl/3 {
			t.Errorf("%d renewals, the first after %s", n, k.renewed[0].Sub(began))
		}
		if n := len(k.beats); n < 29 || n > 31 || k.beats[0].Sub(began) != 2*ttl/3 {
			t.Errorf("%d heartbeats, the first after %s", n, k.beats[0].Sub(began))
		}
		pass(time.Minute)
		if n := len(k.renewed); n > 61 {
			t.Errorf("it went on after Close: %d renewals", n)
		}
	})
}

// Whatever keeps a renewal from succeeding, the context ends before lease and session
// can, both counted from before the last request that was answered was sent.
//
// Clauses: K-2.10
// Mutation: count a renewal from its answer, watch no clock while one is under way, or
// leave the session out of left.
func TestLeaseEndsInTime(t *testing.T) {
	t.Parallel()
	down := answer(&lockstore.UnreachableError{Doing: "renew", Err: errors.New("connection refused")})
	for name, c := range map[string]struct {
		session     time.Duration
		renew, beat func(context.Context) error
		cause       error
		by          time.Duration
	}{
		"unreachable":              {time.Hour, down, down, client.ErrBackendDown, ttl},
		"hangs":                    {time.Hour, hang, hang, client.ErrBackendDown, ttl},
		"the session alone":        {ttl / 2, answer(nil), down, client.ErrBackendDown, ttl / 2},
		"the lock alone":           {ttl, hang, answer(nil), client.ErrBackendDown, ttl},
		"the lock is lost":         {time.Hour, answer(lockstore.ErrLockLost), answer(nil), lockstore.ErrLockLost, ttl/3 + time.Second},
		"the session is lost":      {ttl, answer(nil), answer(lockstore.ErrSessionLost), lockstore.ErrSessionLost, ttl/3 + time.Second},
		"a slow answer, then none": {time.Hour, slowly(4 * time.Second), down, client.ErrBackendDown, ttl/3 + ttl},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, l := client.Keep(t.Context(), &keeper{renew: c.renew, beat: c.beat}, held(c.session))
				defer l.Close()
				<-ctx.Done()
				if took := time.Since(began); took >= c.by || took < c.by-2*time.Second {
					t.Errorf("ended after %s, want just before %s", took, c.by)
				}
				if cause := context.Cause(ctx); !errors.Is(cause, c.cause) || errors.Is(cause, client.ErrRevoked) || !errors.Is(l.Check(), c.cause) {
					t.Errorf("cause: %v, want %v", cause, c.cause)
				}
			})
		})
	}
}

// slowly answers once, late, and then hangs.
func slowly(d time.Duration) func(context.Context) error {
	answered := false
	return func(ctx context.Context) error {
		if answered {
			return hang(ctx)
		}
		answered = true
		pass(d)
		return nil
	}
}

// A lock that an operator took away says so; one that cannot be asked about is lost
// all the same, and what ended above the lease is its cause.
//
// Mutation: leave revoked out of heard, or cancel with ErrClosed for the context above.
func TestLeaseSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for ended, want := range map[string]bool{"revoked": true, "taken_over": false} {
			ctx, l := client.Keep(t.Context(), &keeper{renew: answer(lockstore.ErrLockLost), beat: answer(nil), howEnded: ended}, held(time.Hour))
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, lockstore.ErrLockLost) || errors.Is(cause, client.ErrRevoked) != want {
				t.Errorf("%s: %v", ended, cause)
			}
			l.Close()
		}
		above, cancel := context.WithCancelCause(t.Context())
		ctx, l := client.Keep(above, &keeper{renew: answer(nil), beat: answer(nil)}, held(time.Hour))
		reason := errors.New("drained")
		cancel(reason)
		<-ctx.Done()
		l.Close()
		if cause := l.Check(); !errors.Is(cause, reason) || !errors.Is(context.Cause(ctx), reason) {
			t.Errorf("the context above: %v", cause)
		}
	})
}

// A process that stood still knows it from the clock, before any timer fires.
//
// Clauses: K-2.10
// Mutation: leave the clocks out of Check.
func TestLeaseAfterSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := held(time.Hour)
		p.Grant.Sent = time.Now().Add(-time.Minute)
		ctx, l := client.Keep(t.Context(), &keeper{renew: hang, beat: hang}, p)
		defer l.Close()
		if err := l.Check(); !errors.Is(err, lockstore.ErrLockLost) || !errors.Is(err, client.ErrSlept) || ctx.Err() == nil {
			t.Errorf("a lease of a minute ago: %v, %v", err, ctx.Err())
		}
	})
}
