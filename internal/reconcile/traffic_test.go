package reconcile_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// Grants that are issued, and written at the accounts, while it reads are no break: the
// sequence is read after what was written under its tokens.
//
// Clauses: K-8.3
// Mutation: take lockdb's snapshot, or read the last token, before paydb's snapshot in begin.
func TestTrafficIsNoBreak(t *testing.T) {
	t.Parallel()
	w := healthy(t, 16)
	store, err := postgres.Open(t.Context(), postgres.Options{Config: w.dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Changing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	session, err := store.CreateSession(t.Context(), "alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var group errgroup.Group
	written := 0
	group.Go(func() error {
		for {
			select {
			case <-over:
				return nil
			default:
			}
			grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: "account:" + payer, Owner: "alice", Session: session.ID, TTL: time.Minute})
			if err != nil {
				return err
			}
			if _, err := w.pay.Exec(t.Context(), `UPDATE account SET fence = $1 WHERE account_id = $2`, int64(grant.Token), payer); err != nil {
				return err
			}
			written++
		}
	})
	const runs = 15
	var last int64
	for range runs {
		report := w.run(t, rules("B07", "B08", "B09"))
		if len(report.Findings) != 0 || len(report.Missing) != 0 || report.LastToken < last {
			t.Errorf("%v, %+v, the last token %d after %d", classes(report.Findings), report.Missing, report.LastToken, last)
		}
		last = report.LastToken
	}
	close(over)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if written < runs {
		t.Errorf("%d tokens were written during %d runs", written, runs)
	}
}
