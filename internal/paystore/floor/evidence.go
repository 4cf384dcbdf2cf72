package floor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Reading is what one source of paydb knows of tokens (K-7.2).
type Reading struct {
	Source string
	// Value is the highest token up to the limit, 0 for none, Row where it stands
	// and At when that was written; Above is the highest over the limit.
	Value paystore.Token
	Row   string
	At    time.Time
	Above paystore.Token
	// Unavailable says why it could not be read: never the same as 0.
	Unavailable string
}

// source is one source of paydb. Its query answers with the highest token up to
// the limit, where it stands, since when, and the highest over the limit.
type source struct{ name, file, sql string }

func evidence(name, file string) source {
	return source{name, file, pgtx.Statement(queryFiles, file, "limit_token")}
}

var sources = []source{
	evidence("account.fence", "evidence_account"),
	evidence("rail_high_water.highest_token", "evidence_mark"),
	evidence("ledger_entry.fence", "evidence_leg"),
	evidence("payout.claim_token", "evidence_payout"),
	evidence("payout_claim.claim_token", "evidence_claim"),
	evidence("rail_submission.presented_token", "evidence_submission"),
	evidence("account_fence_raise.raised_to", "evidence_raise"),
	evidence("fence_floor.account", "evidence_floor_account"),
	evidence("fence_floor.rail", "evidence_floor_rail"),
}

// Sources are the names of paydb's sources.
func Sources() []string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.name
	}
	return names
}

// Evidence asks every source in one snapshot for its highest token up to limit,
// each by itself: one that cannot be read is unavailable, and the others are
// still asked.
func (k *Keeper) Evidence(ctx context.Context, limit paystore.Token) (found []Reading, err error) {
	err = k.read(ctx, "read the evidence of paydb", func(tx pgx.Tx) error {
		for _, s := range sources {
			r := Reading{Source: s.name}
			var at *time.Time
			err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { // a savepoint
				return inner.QueryRow(ctx, s.sql, limit).Scan(&r.Value, &r.Row, &at, &r.Above)
			})
			var pgErr *pgconn.PgError
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				r = Reading{Source: s.name, Unavailable: "its row is missing"}
			case errors.As(err, &pgErr) && !tx.Conn().IsClosed():
				r = Reading{Source: s.name, Unavailable: pgErr.Message}
			case err != nil:
				return fmt.Errorf("%s: %w", s.name, err)
			case at != nil:
				r.At = at.UTC()
			}
			found = append(found, r)
		}
		return nil
	})
	return found, err
}
