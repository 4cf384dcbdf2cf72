package resolver

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

var witnessQuery = pgtx.Statement(queryFiles, "witness", "payout_id")

// WrongRailError is returned when the rail does not know a payment that it has
// acknowledged: it is another rail, or one that was itself set back. What it does not
// know proves nothing, and nothing was recorded.
type WrongRailError struct {
	// PayoutID is the payment that it must know.
	PayoutID string
}

func (e *WrongRailError) Error() string {
	return fmt.Sprintf("this rail has no record of payout %s, which paydb says it has acknowledged", e.PayoutID)
}

// prove asks the rail, once, about the last other payment that it has acknowledged,
// before "no such payment" is believed: the address of a test rail would set every
// payout free. A paydb without any acknowledged payment proves nothing.
func (r *Resolver) prove(ctx context.Context, payoutID string) error {
	if r.known {
		return nil
	}
	witness := ""
	err := r.db.Read(ctx, "find a payment that the rail has acknowledged", witnessQuery, []any{payoutID}, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error { return rows.Scan(&witness) })
	})
	if err != nil {
		return err
	}
	if witness != "" {
		said, err := r.proxy.Lookup(ctx, witness)
		if err != nil {
			return err
		}
		if said.Outcome == rail.NotFound {
			return &WrongRailError{PayoutID: witness}
		}
	}
	r.known = true
	return nil
}
