package floor

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

var (
	raiseQuery      = pgtx.Statement(queryFiles, "raise_floor", "to_token", "operator", "reason", "point")
	floorsQuery     = pgtx.Statement(queryFiles, "floors")
	lockFloorQuery  = pgtx.Statement(queryFiles, "lock_floor", "point")
	gateQuery       = pgtx.Statement(queryFiles, "gate")
	closeGateQuery  = pgtx.Statement(queryFiles, "close_gate", "operator", "reason")
	stopQuery       = pgtx.Statement(queryFiles, "stop_payouts")
	unresolvedQuery = pgtx.Statement(queryFiles, "unresolved")
	openGateQuery   = pgtx.Statement(queryFiles, "open_gate")
	unfinishedQuery = pgtx.Statement(queryFiles, "unfinished", "row_limit")
)

// Point is an enforcement point.
type Point string

// The two points, each with a floor, a path of writes and a barrier of its own.
const (
	Account Point = "account"
	Rail    Point = "rail"
)

// barrierQuery waits for the writers of a point.
func (p Point) barrierQuery() string {
	return pgtx.Statement(queryFiles, "barrier_"+string(p))
}

// Options configure Open.
type Options struct {
	// Options are those of a database. Reading is enough for a plan; what raises
	// a floor or moves the gate needs Changing.
	paystore.Options
	// Terminate ends who is in the way of a lock past the lock timeout.
	Terminate bool
	// After is told every statement; nil for nobody.
	After owner.Hook
}

// Keeper keeps paydb's floors and gate.
type Keeper struct{ conn *owner.Conn }

// Open connects to paydb. It returns the errors of paystore.Open.
func Open(ctx context.Context, opts Options) (*Keeper, error) {
	// The database's preconditions are these, and it is closed again.
	db, err := paystore.Open(ctx, opts.Options)
	if err != nil {
		return nil, err
	}
	db.Close()
	conn, err := owner.Open(ctx, owner.Options{
		Config: opts.Config, Database: "paydb", LockTimeout: opts.LockTimeout, Terminate: opts.Terminate, After: opts.After,
	})
	if err != nil {
		return nil, err
	}
	return &Keeper{conn: conn}, nil
}

// Close closes the connections.
func (k *Keeper) Close(ctx context.Context) { k.conn.Close(ctx) }

// Rights returns what the login lacks, each as the SQL to run.
func (k *Keeper) Rights(ctx context.Context) ([]string, error) { return k.conn.Rights(ctx) }

// Change says who changes something, and why.
type Change struct{ Operator, Reason string }

// Raised is what became of a floor.
type Raised struct {
	Point Point          `json:"point"`
	From  paystore.Token `json:"from_token"`
	To    paystore.Token `json:"to_token"`
	// Moved is false when it stood as high already.
	Moved bool `json:"moved"`
}

// Raise raises the floor of one point, through a transaction of its own; it never
// lowers it.
func (k *Keeper) Raise(ctx context.Context, point Point, to paystore.Token, change Change) (Raised, error) {
	raised := Raised{Point: point}
	err := k.run(ctx, "floor_"+string(point), fmt.Sprintf("raise the floor of %s to %d", point, to), func(ctx context.Context, tx *owner.Tx) error {
		err := tx.QueryRow(ctx, lockFloorQuery, string(point)).Scan(&raised.From)
		if errors.Is(err, pgx.ErrNoRows) {
			return &paystore.UnsafeError{
				Clause:  "K-4.12",
				Problem: fmt.Sprintf("the floor of %s is missing: the point refuses every token", point),
				Fix:     "dlockctl doctor prints the statement that puts it back",
			}
		}
		if err != nil {
			return err
		}
		rows, err := tx.Do(ctx, "raise", raiseQuery, to, change.Operator, change.Reason, string(point))
		raised.To, raised.Moved = max(raised.From, to), rows == 1
		return err
	})
	return raised, err
}

// Barrier returns when every write of the point that read the old floor has
// ended.
func (k *Keeper) Barrier(ctx context.Context, point Point) error {
	return k.run(ctx, "barrier_"+string(point), "wait for the writes under way at the "+string(point), func(ctx context.Context, tx *owner.Tx) error {
		_, err := tx.Do(ctx, "lock", point.barrierQuery())
		return err
	})
}

// Floors returns both floors; a point whose row is missing is not in it.
func (k *Keeper) Floors(ctx context.Context) (map[Point]paystore.Token, error) {
	floors := map[Point]paystore.Token{}
	err := k.read(ctx, "read the floors of paydb", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, floorsQuery)
		if err != nil {
			return err
		}
		var point Point
		var token paystore.Token
		_, err = pgx.ForEachRow(rows, []any{&point, &token}, func() error {
			floors[point] = token
			return nil
		})
		return err //nolint:wrapcheck // read says what was being read
	})
	return floors, err
}

// Unfinished is an account with payouts between their claim and their end.
type Unfinished struct {
	AccountID    string         `json:"account_id"`
	Payouts      int            `json:"payouts"`
	HighestClaim paystore.Token `json:"highest_claim"`
	States       string         `json:"states"`
	Oldest       time.Time      `json:"oldest"`
}

// Unfinished lists at most limit of these accounts, the highest claim first, and
// tells how many there are.
func (k *Keeper) Unfinished(ctx context.Context, limit int) (found []Unfinished, total int, err error) {
	found = []Unfinished{}
	err = k.read(ctx, "list the unfinished payouts", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, unfinishedQuery, limit)
		if err != nil {
			return err
		}
		var u Unfinished
		_, err = pgx.ForEachRow(rows, []any{&u.AccountID, &u.Payouts, &u.HighestClaim, &u.States, &u.Oldest, &total}, func() error {
			u.Oldest = u.Oldest.UTC()
			found = append(found, u)
			return nil
		})
		return err //nolint:wrapcheck // read says what was being read
	})
	return found, total, err
}

func (k *Keeper) read(ctx context.Context, doing string, fn func(pgx.Tx) error) error {
	return primary(k.conn.Read(ctx, doing, fn))
}

func (k *Keeper) run(ctx context.Context, step, doing string, fn func(context.Context, *owner.Tx) error) error {
	return primary(k.conn.Run(ctx, step, doing, fn))
}

// primary says that a demoted server is a standby (K-6.3).
func primary(err error) error {
	if pgtx.HasCode(err, pgerrcode.ReadOnlySQLTransaction) {
		return fmt.Errorf("%w: %w", paystore.ErrNotPrimary, err)
	}
	return err
}
