package paystore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var lowestOpenClaimQuery = pgtx.Statement(queryFiles, "lowest_open_claim")

// Querier is what the readers of this package need: a connection, a pool or a
// transaction on paydb.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// LowestOpenClaim returns the lowest fencing token under which a payout was ever
// claimed that is not final (POSTED, FAILED or ABANDONED), and false when there
// is none. What that token's grant was must still be known (K-11).
func LowestOpenClaim(ctx context.Context, q Querier) (token int64, found bool, err error) {
	var lowest *int64
	err = q.QueryRow(ctx, lowestOpenClaimQuery).Scan(&lowest)
	if err != nil {
		return 0, false, fmt.Errorf("find the lowest claim of an open payout: %w", err)
	}
	if lowest == nil {
		return 0, false, nil
	}
	return *lowest, true, nil
}
