package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// askEvery is how often somebody asks for a lock while nobody grants one: it bounds
	// how exact the times are.
	askEvery = 25 * time.Millisecond
	// grantedWithin is when a fail-over is given up, and failOverWithin what else is
	// waited for.
	grantedWithin  = 2 * time.Minute
	failOverWithin = time.Minute
)

// failOvers measures how long nobody is granted a lock after whoever grants was killed:
// on PostgreSQL with what a person has to do done at once by a program, on etcd with
// nothing done. Each round is a fresh pair of databases, or a fresh cluster.
type failOvers struct {
	dir, pgBin string
	programs   *programs
}

func (f *failOvers) group(rounds int) group {
	return group{name: "fail-over", rounds: rounds, prepare: f.prepare, contenders: []contender{
		{
			series: []series{
				{"failover-postgres", "primary killed, standby promoted, fast-forward: first grant", "ms", ""},
				{"failover-postgres-promoted", "the same run: until the standby is promoted", "ms", ""},
			},
			measure: f.postgres,
		},
		{
			series:  []series{{"failover-etcd", "leader of three killed, nothing done: first grant", "ms", "failover-postgres"}},
			measure: f.etcd,
		},
	}}
}

func (f *failOvers) prepare(ctx context.Context) error {
	return f.programs.build(ctx, program{root, "./cmd/dlockctl", "dlockctl"}, program{etcdModule, "./cmd/member", "member"})
}

// asking is a client that was there before the fail-over, and lives through it.
type asking struct {
	store   lockstore.Store
	session lockstore.SessionID
}

// newAsking opens its session, and has it granted a lock a few times, so that its
// connections are there.
func newAsking(ctx context.Context, store lockstore.Store) (*asking, error) {
	session, err := store.CreateSession(ctx, owner, ttl)
	if err != nil {
		return nil, err
	}
	a := &asking{store: store, session: session.ID}
	for range 10 {
		if _, err := a.try(ctx); err != nil {
			return nil, fmt.Errorf("be granted a lock before the fail-over: %w", err)
		}
	}
	return a, nil
}

// try asks for a lock that nobody holds.
func (a *asking) try(ctx context.Context) (lockstore.Token, error) {
	params := request(freshKey("f-", 0))
	params.Session = a.session
	grant, err := a.store.Acquire(ctx, params)
	if errors.Is(err, lockstore.ErrSessionLost) { // a fast-forward voids every session (K-7.5)
		session, err := a.store.CreateSession(ctx, owner, ttl)
		if err != nil {
			return 0, err
		}
		params.Session = session.ID
		grant, err = a.store.Acquire(ctx, params)
		return grant.Token, err
	}
	return grant.Token, err
}

// firstGrant asks again and again, and returns when the first was granted a token above
// the one given. No try waits for another, as those of many clients do not: one that was
// sent to a server just killed may hang until its deadline.
func (a *asking) firstGrant(ctx context.Context, above lockstore.Token) (time.Time, error) {
	var tries sync.WaitGroup
	defer tries.Wait()
	ctx, cancel := context.WithTimeoutCause(ctx, grantedWithin, fmt.Errorf("nobody was granted one within %s", grantedWithin))
	defer cancel()
	granted := make(chan time.Time, 1)
	var last atomic.Pointer[error]
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		tries.Go(func() {
			token, err := a.try(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				last.Store(&err)
			case err == nil && token > above:
				select {
				case granted <- time.Now():
				default: // another was before
				}
			}
		})
		select {
		case at := <-granted:
			return at, nil
		case <-ctx.Done():
			err := context.Cause(ctx)
			if said := last.Load(); said != nil {
				err = fmt.Errorf("%w; the last refusal: %w", err, *said)
			}
			return time.Time{}, fmt.Errorf("ask for a lock after the fail-over: %w", err)
		case <-tick.C:
		}
	}
}

// becomes waits until something is true. What cannot be asked yet is not true yet.
func becomes(ctx context.Context, what string, every time.Duration, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, failOverWithin, fmt.Errorf("it has not come to that within %s", failOverWithin))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		yes, err := ask(ctx)
		if yes && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until %s: %w", what, context.Cause(ctx)), err)
		case <-tick.C:
		}
	}
}
