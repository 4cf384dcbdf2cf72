//go:build unix

package services_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// nemesis breaks one thing after another, and puts each right again.
type nemesis struct {
	*fleet

	random *rand.Rand
	done   map[string]int
}

// moves are what it can do; each leaves everything running.
func (n *nemesis) moves() map[string]func(t *testing.T) {
	victim := func() *service { return n.workers[n.random.IntN(len(n.workers))] }
	moves := map[string]func(t *testing.T){
		"kill an executor": func(t *testing.T) { n.again(t, victim(), (*service).kill) },
		"stop an executor past its lease": func(t *testing.T) {
			v := victim()
			v.pause(t)
			n.wait(t, lease+time.Duration(n.random.Int64N(int64(lease))))
			v.goOn(t)
		},
		"terminate an executor": func(t *testing.T) { n.again(t, victim(), (*service).terminate) },
		"kill all executors": func(t *testing.T) {
			for _, w := range n.workers {
				w.kill(t)
			}
			for _, w := range n.workers {
				w.start(t, n.binary)
			}
		},
		"crash lockdb": func(t *testing.T) { n.lockServer.Crash(t); n.lockServer.Start(t) },
		"crash paydb":  func(t *testing.T) { n.payServer.Crash(t); n.payServer.Start(t) },
	}
	for _, s := range []*service{n.sim, n.resource, n.proxy, n.locks} {
		moves["kill "+s.name] = func(t *testing.T) { n.again(t, s, (*service).kill) }
		moves["restart "+s.name] = func(t *testing.T) { n.again(t, s, (*service).terminate) }
		moves["stop "+s.name+" for a while"] = func(t *testing.T) {
			s.pause(t)
			n.wait(t, time.Duration(n.random.Int64N(int64(2*lease))))
			s.goOn(t)
		}
	}
	return moves
}

// again ends a service and starts it again, after a while.
func (n *nemesis) again(t *testing.T, s *service, end func(*service, *testing.T)) {
	t.Helper()
	end(s, t)
	n.wait(t, time.Duration(n.random.Int64N(int64(500*time.Millisecond))))
	s.start(t, n.binary)
}

func (n *nemesis) wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.Context().Done():
	case <-timer.C:
	}
}

// longestRage is how much longer the nemesis goes on, at most, for what has not come of it.
const longestRage = 3 * time.Minute

// rage makes moves in an order of the seed, each at least once, until the time is over and
// enough has come of it.
func (n *nemesis) rage(t *testing.T, d time.Duration, enough func() bool) {
	t.Helper()
	moves := n.moves()
	names := slices.Sorted(maps.Keys(moves))
	began := time.Now()
	wanting := func() bool { return !enough() && time.Since(began) < d+longestRage }
	for turn := 0; time.Since(began) < d || turn < len(names) || wanting(); turn++ {
		if turn%len(names) == 0 {
			n.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		name := names[turn%len(names)]
		moves[name](t)
		n.done[name]++
		n.wait(t, time.Duration(n.random.Int64N(int64(700*time.Millisecond))))
	}
	var told []string
	for _, name := range slices.Sorted(maps.Keys(n.done)) {
		told = append(told, fmt.Sprintf("%s %d", name, n.done[name]))
	}
	t.Logf("the nemesis: %s", strings.Join(told, ", "))
}

// client is somebody who wants payouts made, and repeats what was not answered.
type customer struct {
	*fleet

	mu   sync.Mutex
	made map[string]payapi.Payout // by idempotency key
}

// order makes payouts until it is told to stop, and returns when each is made.
func (c *customer) order(ctx context.Context, stop <-chan struct{}, every time.Duration, random *rand.Rand) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		// Accounts 1 to 7 hold euros, far more than is ordered, or none (migrations/seed): one
		// that others emptied while a payment was in doubt would be K-5.5, a break by itself.
		account := fmt.Sprintf("00000000-0000-4000-8000-%012d", 1+random.IntN(7))
		if err := c.create(ctx, account, fmt.Sprintf("order-%d", n), int64(2+random.IntN(89))); err != nil {
			return err
		}
	}
}

func (c *customer) create(ctx context.Context, account, key string, amount int64) error {
	for {
		p, _, err := c.payments.Create(ctx, payapi.CreatePayout{AccountID: account, AmountMinor: &amount, Currency: "EUR", IdempotencyKey: key})
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.made[key] = p
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("order %s: %w", key, err)
		}
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
}

// settling bounds how long executors need for what a nemesis left them: they leave alone
// for up to a minute what is not decided.
const settling = 5 * time.Minute

// settled waits until every payout has come to its end.
func (f *fleet) settled(t *testing.T) {
	t.Helper()
	db := conn(t, f.pay)
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("payouts: %s", last)
		}
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began, open := time.Now(), 1; open > 0; <-tick.C {
		if time.Since(began) > settling {
			t.Fatalf("not every payout came to its end within %s", settling)
		}
		err := db.QueryRow(t.Context(), `SELECT coalesce(string_agg(state || ' ' || n, ', ' ORDER BY state), ''), coalesce(sum(n) FILTER (WHERE state NOT IN ('POSTED', 'FAILED')), 0)
			FROM (SELECT state, count(*) n FROM payout GROUP BY state) s`).Scan(&last, &open)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("payouts: %s", last)
}
