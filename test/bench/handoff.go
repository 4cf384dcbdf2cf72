package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/test/bench/report"
)

const (
	// waiters is how many stand in line for one key.
	waiters = 100
	// drawsLimit is how many tokens a hand-off may draw.
	drawsLimit = 2.2
)

// handOff is how long a lock takes from its release to the next in line: from the
// request that gives it back to the answer that grants it, over HTTP.
func (s *servers) handOff() contender {
	return contender{
		series: []series{
			{"commit-1", "one row's commit, p50", "ms", ""},
			{"handoff-limit", "twice that, and 1 ms", "ms", ""},
			{"handoff", "100 waiters on one key: hand-off, p50", "ms", "handoff-limit"},
			{"handoff-draws-limit", "the limit of tokens drawn", "tokens", ""},
			{"handoff-draws", "tokens drawn by a hand-off", "tokens", "handoff-draws-limit"},
		},
		measure: func(ctx context.Context) (values []float64, err error) {
			running, err := s.start(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, running.stop()) }()
			commit, err := s.commit(ctx)
			if err != nil {
				return nil, err
			}
			handOff, draws, err := s.handOffs(ctx, running.address)
			return []float64{commit, 2*commit + 1, handOff, drawsLimit, draws}, err
		},
	}
}

// commit is the median time of the specified acquire, a transaction of its own.
func (s *servers) commit(ctx context.Context) (float64, error) {
	acquire, err := numbered(s.statements.acquire, "key", "owner_id", "session_id", "ttl_seconds")
	if err != nil {
		return 0, err
	}
	var times []float64
	err = connected(ctx, s.dbs.lockDSN, func(conn *pgx.Conn) error {
		for start := time.Now(); time.Since(start) < s.window; {
			sent := time.Now()
			if _, err := conn.Exec(ctx, acquire, freshKey("o-", 0), owner, sessionID, ttl.Seconds()); err != nil {
				return fmt.Errorf("acquire: %w", err)
			}
			times = append(times, milliseconds(time.Since(sent)))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return report.Median(times), nil
}

// queueing is what those in line tell each other.
type queueing struct {
	mu sync.Mutex
	// released is when the last holder's release was sent.
	released time.Time
	times    []float64
}

func (q *queueing) granted() {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.released.IsZero() {
		q.times = append(q.times, milliseconds(now.Sub(q.released)))
	}
}

func (q *queueing) releasing() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.released = time.Now()
}

// handOffs has so many connections wait for one key and hand it on, and returns
// the median time, and how many tokens each drew.
func (s *servers) handOffs(ctx context.Context, address string) (p50, draws float64, err error) {
	lines, sessions, closeAll, err := connect(ctx, address, waiters)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll()
	key := freshKey("q-", 0)
	q := &queueing{}
	pass := subject{pair: func(_ context.Context, worker int) error {
		token, err := lines[worker].acquire(key, sessions[worker], 60_000)
		if err != nil {
			return err
		}
		q.granted()
		q.releasing()
		return lines[worker].release(key, sessions[worker], token)
	}}
	if _, err := load(ctx, pass, waiters, warmUp); err != nil {
		return 0, 0, err
	}
	q.times, q.released = nil, time.Time{}
	before, err := s.lastToken(ctx)
	if err != nil {
		return 0, 0, err
	}
	if _, err := load(ctx, pass, waiters, s.window); err != nil {
		return 0, 0, err
	}
	after, err := s.lastToken(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(q.times) == 0 {
		return 0, 0, errors.New("nothing was handed on")
	}
	slices.Sort(q.times)
	return report.Median(q.times), float64(after-before) / float64(len(q.times)+1), nil
}

func (s *servers) lastToken(ctx context.Context) (token int64, err error) {
	err = connected(ctx, s.dbs.ownerDSN, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT last_value FROM fencing_token_seq").Scan(&token)
	})
	if err != nil {
		return 0, fmt.Errorf("read the token last drawn: %w", err)
	}
	return token, nil
}
