package floor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var (
	highestQuery     = pgtx.Statement(queryFiles, "highest", "limit_token")
	highestMarkQuery = pgtx.Statement(queryFiles, "highest_mark", "limit_token")
)

// cancelWithin is how long the server has to answer that it has stopped, before the
// connection is dropped.
const cancelWithin = 100 * time.Millisecond

// Highest is the highest token up to limit that paydb shows at once, over one
// connection of its own: what a lockdb has to be compared with before it grants
// (K-7.6). [Keeper.Evidence] looks at everything, and takes longer. The context
// bounds it, at the server too.
func Highest(ctx context.Context, config *pgx.ConnConfig, limit paystore.Token) (highest paystore.Token, err error) {
	config = pgtx.Config(config)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // asked once
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelWithin}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, &paystore.UnreachableError{Doing: "connect to paydb", Err: err}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, highestQuery, limit).Scan(&highest); err != nil {
		return 0, fmt.Errorf("read the highest token of paydb: %w", err)
	}
	var mark paystore.Token
	err = conn.QueryRow(ctx, highestMarkQuery, limit).Scan(&mark)
	if err != nil && !owner.Denied(err) {
		return 0, fmt.Errorf("read the rail's highest mark: %w", err)
	}
	return max(highest, mark), nil
}
