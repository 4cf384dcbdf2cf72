package rail_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// What is submitted after Close is refused, and leaves neither mark nor attempt: it can
// be submitted elsewhere.
//
// Clauses: K-4.11
// Mutation: drop the look at closed from enter.
func TestSubmitAfterClose(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	p := b.proxy(t, rail.Options{})
	id := b.payout(t, account, 5)
	p.Close()
	if got, err := p.Submit(t.Context(), id, 5); !isUnreachable(err) || got.SubmissionID != "" {
		t.Errorf("%+v, %v; want it refused", got, err)
	}
	if b.mark(t, account) != 0 || len(b.attempts(t, id)) != 0 || b.rail.calls() != 0 {
		t.Errorf("mark %s, attempts %v, %d calls; want nothing done", b.mark(t, account), b.attempts(t, id), b.rail.calls())
	}
	if got, err := b.proxy(t, rail.Options{}).Submit(t.Context(), id, 5); err != nil || got.Outcome != paystore.OutcomeAcked {
		t.Errorf("elsewhere: %+v, %v", got, err)
	}
}

// A submission that is still being written when Close is called is seen to its end, as
// when its server cut it off: Close does not return before its answer is on record, and
// nothing goes out after it.
//
// Clauses: K-4.11, K-5.3
// Mutation: call enter in forward; or do not count in enter.
func TestCloseWaitsForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		held := heldCommit{reached: make(chan struct{}), free: make(chan struct{})}
		free := sync.OnceFunc(func() { close(held.free) })
		defer free()
		config := b.dbs.Pay.Config(t, "t_rail")
		config.DialFunc = held.dial
		p := b.proxyThrough(t, config, rail.Options{Timeout: time.Minute})
		closed := make(chan struct{})
		b.rail.submit = func(_ context.Context, req rail.Request) (rail.Answer, error) {
			select {
			case <-closed:
				t.Error("it is sent after Close")
			default:
			}
			return acked(req.Key), nil
		}
		id := b.payout(t, account, 5)
		submitted := make(chan error, 1)
		go func() {
			got, err := p.Submit(t.Context(), id, 5)
			if err == nil && got.Outcome != paystore.OutcomeAcked {
				t.Errorf("submitted: %+v", got)
			}
			submitted <- err
		}()
		<-held.reached
		standing := make(chan []string, 1)
		go func() {
			p.Close()
			close(closed)
			lines, err := b.read(context.WithoutCancel(t.Context()), id)
			if err != nil {
				t.Error(err)
			}
			standing <- lines
		}()
		pgtest.Eventually(t, "nothing begins any more", func(ctx context.Context) (bool, error) {
			_, err := p.Submit(ctx, uuid.NewString(), 5)
			return isUnreachable(err), nil
		})
		free()
		if err := <-submitted; err != nil {
			t.Errorf("submit: %v", err)
		}
		if diff := cmp.Diff([]string{"5 ACKED ref-" + ("key-" + id)[:8]}, <-standing); diff != "" || b.rail.calls() != 1 {
			t.Errorf("%d calls; when Close returned there stood (-want +got):\n%s", b.rail.calls(), diff)
		}
	})
}

// heldCommit holds the first COMMIT back.
type heldCommit struct {
	first         sync.Once
	reached, free chan struct{}
}

func (h *heldCommit) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	return &heldConn{conn, h}, err
}

type heldConn struct {
	net.Conn
	h *heldCommit
}

func (c *heldConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) {
		c.h.first.Do(func() {
			close(c.h.reached)
			<-c.h.free
		})
	}
	return c.Conn.Write(b)
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*paystore.UnreachableError](err)
	return ok
}
