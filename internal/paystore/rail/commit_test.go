package rail_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// network breaks once, around a COMMIT, when it is armed.
type network struct {
	armed atomic.Bool
	// after: the server has committed, and only its answer is lost.
	after bool
	// dead: after the cut no connection is possible; while down is set, none is.
	dead bool
	down atomic.Bool
	// refused is told of each connection that is not made; may be nil.
	refused chan struct{}
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	if n.down.Load() {
		select {
		case n.refused <- struct{}{}:
		default:
		}
		return nil, errors.New("the network is down")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, n: n}, nil
}

type cutConn struct {
	net.Conn
	n *network
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.n.down.Load() {
		_ = c.Conn.Close()
	}
	if !bytes.Contains(b, []byte("commit\x00")) || !c.n.armed.CompareAndSwap(true, false) {
		return c.Conn.Write(b)
	}
	if c.n.dead {
		c.n.down.Store(true)
	}
	if c.n.after {
		if _, err := c.Conn.Write(b); err != nil {
			return 0, err
		}
		// What the server says is read, so that it is known to have committed, and
		// kept from the client.
		if _, err := c.Conn.Read(make([]byte, 1024)); err != nil {
			return 0, err
		}
	}
	return len(b), c.Conn.Close()
}

// through is a proxy whose paydb is reached over n, armed for the next COMMIT.
func (b bundle) through(t *testing.T, n *network, opts rail.Options) *rail.Proxy {
	t.Helper()
	config := b.dbs.Pay.Config(t, "t_rail")
	config.DialFunc = n.dial
	p := b.proxyThrough(t, config, opts)
	n.armed.Store(true)
	return p
}

// The answer to the attempt's COMMIT is lost. Only a call that reads its own insert
// back forwards it, once; where that fails nobody forwards it, neither then nor when
// the same token comes again.
//
// Clauses: K-4.11, K-5.3
// Mutation: forward when readBack finds nothing or cannot look; or return its `lost`
// when it finds the row.
func TestLostCommitOfTheAttempt(t *testing.T) {
	t.Parallel()
	t.Run("committed, and read back", func(t *testing.T) {
		t.Parallel()
		eachMajor(t, func(t *testing.T, b bundle) {
			id := b.payout(t, account, 5)
			got, err := b.through(t, &network{after: true}, rail.Options{}).Submit(t.Context(), id, 5)
			if err != nil || got.Outcome != paystore.OutcomeAcked || b.rail.calls() != 1 {
				t.Errorf("%+v, %v, %d calls; want forwarded once", got, err, b.rail.calls())
			}
		})
	})
	t.Run("not committed", func(t *testing.T) {
		t.Parallel()
		eachMajor(t, func(t *testing.T, b bundle) {
			id := b.payout(t, account, 5)
			p := b.through(t, &network{}, rail.Options{})
			_, err := p.Submit(t.Context(), id, 5)
			if !isUnknown(err) || b.rail.calls() != 0 || len(b.attempts(t, id)) != 0 {
				t.Errorf("%v, %d calls, attempts %v; want unknown and nothing sent", err, b.rail.calls(), b.attempts(t, id))
			}
			if got, err := p.Submit(t.Context(), id, 5); err != nil || got.Repeated || b.rail.calls() != 1 {
				t.Errorf("the same token again: %+v, %v, %d calls; want forwarded once", got, err, b.rail.calls())
			}
		})
	})
	t.Run("committed, and paydb is gone", func(t *testing.T) {
		t.Parallel()
		eachMajor(t, func(t *testing.T, b bundle) {
			id := b.payout(t, account, 5)
			n := &network{after: true, dead: true}
			p := b.through(t, n, rail.Options{Timeout: patience})
			if _, err := p.Submit(t.Context(), id, 5); !isUnknown(err) {
				t.Errorf("%v, want unknown", err)
			}
			n.down.Store(false)
			if got, err := p.Submit(t.Context(), id, 5); err != nil || !got.Repeated || got.Outcome != "" {
				t.Errorf("the same token again: %+v, %v; want the attempt, in flight", got, err)
			}
			pgtest.Eventually(t, "the attempt is TIMEOUT", func(ctx context.Context) (bool, error) {
				got, err := p.Ask(ctx, id)
				return got.Outcome == paystore.OutcomeTimeout, err
			})
			if b.rail.calls() != 0 {
				t.Errorf("forwarded %d times on an unknown COMMIT", b.rail.calls())
			}
		})
	})
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*paystore.UnknownOutcomeError](err)
	return ok
}

// paydb is gone when the rail answers: the caller hears what the rail said and that
// it is not recorded, an operator too, and Ask finds it. Where paydb comes back in
// time, nobody notices.
//
// Clauses: K-5.3
// Mutation: return nil for the error of move, or take `unreachable` out of passing.
func TestAnswerWithoutPaydb(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		n := &network{refused: make(chan struct{}, 1)}
		p := b.through(t, n, rail.Options{Persist: patience})
		n.armed.Store(false)
		id, saved := b.payout(t, account, 5), b.payout(t, another, 6)
		b.rail.submit = func(_ context.Context, req rail.Request) (rail.Answer, error) {
			n.down.Store(true)
			return acked(req.Key), nil
		}
		got, err := p.Submit(t.Context(), id, 5)
		if !isUnknown(err) || got.Said.Outcome != paystore.OutcomeAcked || got.Outcome != "" {
			t.Errorf("%+v, %v; want the answer, and that it is not recorded", got, err)
		}
		if diff := cmp.Diff([]string{rail.EventUnrecorded + " 5 0"}, b.seen.lines()); diff != "" {
			t.Error(diff)
		}
		n.down.Store(false)
		b.rail.answerStatus(acked("key-"+id), nil)
		if got, err := p.Ask(t.Context(), id); err != nil || got.Outcome != paystore.OutcomeAcked {
			t.Errorf("asked: %+v, %v", got, err)
		}

		b.rail.submit = func(_ context.Context, req rail.Request) (rail.Answer, error) {
			<-n.refused // of the answer before
			n.down.Store(true)
			go func() { <-n.refused; n.down.Store(false) }()
			return acked(req.Key), nil
		}
		if got, err := p.Submit(t.Context(), saved, 6); err != nil || got.Outcome != paystore.OutcomeAcked {
			t.Errorf("paydb comes back: %+v, %v", got, err)
		}
	})
}

// An attempt that was written too slowly is not forwarded any more: somebody may have
// resolved the payout since.
//
// Clauses: K-4.11
// Mutation: take the look at the deadline out of attend.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		const deadline = patience / 6
		p := b.proxy(t, rail.Options{Timeout: deadline})
		id := b.payout(t, account, 5)
		b.exec(t, rail.Queries()["mark"], account, 4)
		blocker := b.dbs.Pay.Conn(t, "super")
		if _, err := blocker.Exec(t.Context(), `BEGIN; UPDATE rail_high_water SET updated_at = now()`); err != nil {
			t.Fatal(err)
		}
		type result struct {
			attempt rail.Attempt
			err     error
		}
		results := make(chan result, 1)
		go func() {
			got, err := p.Submit(t.Context(), id, 5)
			results <- result{got, err}
		}()
		b.waits(t, "the mark waits past the deadline", deadline)
		if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		got := <-results
		if got.err != nil || got.attempt.Outcome != paystore.OutcomeTimeout || b.rail.calls() != 0 {
			t.Errorf("%+v, %v, %d calls; want TIMEOUT and nothing sent", got.attempt, got.err, b.rail.calls())
		}
	})
}
