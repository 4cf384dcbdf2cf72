package plant

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
)

// Statement writes the rail's own list of what it paid, as paydb has it: a CSV with
// the header reference,key,amount_minor,currency,status,at, the key being the
// payout's, the status PAID or REJECTED, the time RFC 3339. Name is "healthy", a class
// or variant ("S01" to "S05", see [Statements]) for a list with one break, or
// "near-S01" and so on for the nearest list without one. Of a list without a break
// the fault is zero.
func (w *World) Statement(ctx context.Context, out io.Writer, name string) (Fault, error) {
	fault, err := w.statement(ctx, out, name)
	if err != nil {
		return Fault{}, fmt.Errorf("write the statement %s: %w", name, err)
	}
	return fault, nil
}

// Statements lists the names that [World.Statement] knows.
func Statements() []string { return names("statements") }

func (w *World) statement(ctx context.Context, out io.Writer, name string) (Fault, error) {
	r, err := read("statements", name)
	if err != nil {
		return Fault{}, err
	}
	scenes, err := w.scenes(1)
	if err != nil {
		return Fault{}, err
	}
	var faults []Fault
	err = pgx.BeginFunc(ctx, w.pay, func(tx pgx.Tx) error {
		if err := stage(ctx, tx, "paid", scenes); err != nil {
			return err
		}
		list := "COPY (SELECT l.reference, l.key, l.amount_minor, l.currency, l.status, to_char(l.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') AS at FROM (" +
			r.pay + ") l (reference, key, amount_minor, currency, status, at)) TO STDOUT (FORMAT csv, HEADER)"
		if _, err := tx.Conn().PgConn().CopyTo(ctx, out, list); err != nil {
			return fmt.Errorf("copy it out: %w", err)
		}
		faults, err = r.findings(ctx, tx)
		return err
	})
	if err != nil || len(faults) == 0 {
		return Fault{}, err
	}
	return faults[0], nil
}
