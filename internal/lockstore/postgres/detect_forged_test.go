package postgres_test

import (
	"context"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// A token that somebody forged in paydb stands there for ever, for a fence is never
// lowered. It closes grants until an operator has said with a fast-forward that it was
// never issued; any other number above the last token still does afterwards.
//
// Clauses: K-1.6, K-7.6
// Mutation: take any token for forged, or none.
func TestForgedTokenOfPaydb(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		const forged lockstore.Token = 9007199254740000
		paid := options(t, b.dbs)
		paid.PayHighest = func(context.Context) (lockstore.Token, error) { return forged, nil }
		_, err := postgres.Open(t.Context(), paid)
		closedFor(t, "before anybody said so", err, "paydb holds", plan)

		b.exec(t, `INSERT INTO operator_log (action, operator, reason, token, details) VALUES ('fast_forward', 'erin', 'forged', 6000,
			'{"evidence": [{"source": "account.fence", "above_limit": "9007199254740000"}, {"source": "ledger_entry.fence"}]}')`)
		store, err := postgres.Open(t.Context(), paid)
		if err != nil {
			t.Fatalf("after it was called forged: %v", err)
		}
		store.Close()
		paid.PayHighest = func(context.Context) (lockstore.Token, error) { return forged - 1, nil }
		_, err = postgres.Open(t.Context(), paid)
		closedFor(t, "another one", err, "paydb holds", plan)
	})
}
