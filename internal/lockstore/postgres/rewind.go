package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

var _ lockstore.Rewinder = (*Rewinder)(nil)

// RewindOptions configure OpenRewinder.
type RewindOptions struct {
	// Options are those of a store. Reading is enough for a plan; what moves or
	// closes anything needs Changing.
	Options
	// LockTimeout of Options bounds each wait; it defaults to
	// owner.DefaultLockTimeout. Terminate ends who is in the way past it.
	Terminate bool
	// After is told every statement; nil for nobody.
	After owner.Hook
}

// Rewinder is lockdb's token source (K-7), on connections of its own.
type Rewinder struct{ conn *owner.Conn }

// OpenRewinder connects to lockdb. It returns the errors of Open, but goes on
// where only the gate, a guard or the sequence is not as a grant needs it.
func OpenRewinder(ctx context.Context, opts RewindOptions) (*Rewinder, error) {
	if opts.Purpose > Changing {
		return nil, fmt.Errorf("%w: a rewinder is opened for reading or changing, since it grants nothing", lockstore.ErrInvalid)
	}
	// The store's preconditions are these, and it is closed again.
	store, err := Open(ctx, opts.Options)
	if err != nil {
		return nil, err
	}
	store.Close()
	conn, err := owner.Open(ctx, owner.Options{
		Config: opts.Config, Database: "lockdb", LockTimeout: opts.LockTimeout, Terminate: opts.Terminate, After: opts.After,
	})
	if err != nil {
		return nil, err
	}
	return &Rewinder{conn: conn}, nil
}

// Fresh is the same through new connections.
func (r *Rewinder) Fresh(ctx context.Context) (lockstore.Rewinder, error) {
	conn, err := r.conn.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	return &Rewinder{conn: conn}, nil
}

// Close closes the connections.
func (r *Rewinder) Close(ctx context.Context) { r.conn.Close(ctx) }

// Rights returns what the login lacks, each as the SQL to run.
func (r *Rewinder) Rights(ctx context.Context) ([]string, error) { return r.conn.Rights(ctx) }

// Identity tells which instance and timeline this is.
func (r *Rewinder) Identity(ctx context.Context) (lockstore.Identity, error) {
	here, _, err := r.gate(ctx)
	return here, err
}

// Gate reads the gate.
func (r *Rewinder) Gate(ctx context.Context) (lockstore.Gate, error) {
	_, gate, err := r.gate(ctx)
	return gate, err
}

func (r *Rewinder) gate(ctx context.Context) (here lockstore.Identity, gate lockstore.Gate, err error) {
	err = r.read(ctx, "read the gate of lockdb", func(tx pgx.Tx) (err error) {
		here, gate, err = readGate(ctx, tx)
		return err
	})
	return here, gate, err
}

func readGate(ctx context.Context, tx pgx.Tx) (here lockstore.Identity, gate lockstore.Gate, err error) {
	var run lockstore.GateRun
	err = tx.QueryRow(ctx, rewindGateQuery).Scan(&here.SystemIdentifier, &here.Timeline,
		&gate.Present, &gate.OpenedOn.SystemIdentifier, &gate.OpenedOn.Timeline,
		&gate.ClosedBy, timeTo(&gate.ClosedAt), &gate.Reason, &run.ID, &run.By, timeTo(&run.At), &run.Reason)
	gate.Here = gate.Present && gate.OpenedOn == here
	if run.ID != "" {
		gate.Run = &run
	}
	return here, gate, err
}

// CloseGate closes the gate for a fast-forward, or freezes it.
func (r *Rewinder) CloseGate(ctx context.Context, change lockstore.GateChange) (gate lockstore.Gate, err error) {
	if err := validChange(change); err != nil {
		return lockstore.Gate{}, err
	}
	err = r.run(ctx, "close_gate", "close the gate of lockdb", func(ctx context.Context, tx *owner.Tx) error {
		if change.Run != "" {
			if _, err := tx.Do(ctx, "close", rewindCloseQuery, change.Run, change.Operator, change.Reason); err != nil {
				return err
			}
		} else {
			frozen, err := tx.Do(ctx, "freeze", rewindFreezeQuery, change.Operator, change.Reason)
			if err != nil {
				return err
			}
			if frozen == 1 {
				if _, err := tx.Do(ctx, "log", logActionQuery, lockstore.ActionFreeze, change.Operator, change.Reason, nil, []byte("{}")); err != nil {
					return err
				}
			}
		}
		_, gate, err = readGate(ctx, tx)
		return err
	})
	return gate, err
}

// OpenGate ends a fast-forward, or thaws.
func (r *Rewinder) OpenGate(ctx context.Context, change lockstore.GateChange) (gate lockstore.Gate, err error) {
	if err := validChange(change); err != nil {
		return lockstore.Gate{}, err
	}
	sql, args, action, token := rewindThawQuery, []any{}, lockstore.ActionThaw, (*lockstore.Token)(nil)
	if change.Run != "" {
		sql, args, action, token = rewindOpenQuery, []any{change.Run}, lockstore.ActionFastForwardDone, null(change.Done)
	}
	err = r.run(ctx, "open_gate", "open the gate of lockdb", func(ctx context.Context, tx *owner.Tx) error {
		opened, err := tx.Do(ctx, "open", sql, args...)
		if err != nil {
			return err
		}
		if _, gate, err = readGate(ctx, tx); err != nil {
			return err
		}
		if opened == 0 {
			return &lockstore.GateMovedError{Gate: gate}
		}
		_, err = tx.Do(ctx, "log", logActionQuery, action, change.Operator, change.Reason, token, []byte("{}"))
		return err
	})
	return gate, err
}

func validChange(change lockstore.GateChange) error {
	return errors.Join(lockstore.ValidOperator(change.Operator), lockstore.ValidReason(change.Reason))
}

// Barrier waits for the grants that began before the gate was closed.
func (r *Rewinder) Barrier(ctx context.Context) error {
	return r.run(ctx, "barrier", "wait for the grants that are under way", func(ctx context.Context, tx *owner.Tx) error {
		_, err := tx.Do(ctx, "lock_entry", rewindBarrierQuery)
		return err
	})
}

// ExtendJournal makes the journal's partition at the token to come.
func (r *Rewinder) ExtendJournal(ctx context.Context) error {
	return r.run(ctx, "journal_partition", "make the journal's partition at the target", func(ctx context.Context, tx *owner.Tx) error {
		_, err := tx.Do(ctx, "extend", extendJournalQuery)
		return err
	})
}

// Deployment is what an outside mark is bound to.
func (r *Rewinder) Deployment(ctx context.Context) (d lockstore.Deployment, err error) {
	err = r.read(ctx, "read the deployment's id", func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, rewindDeploymentQuery).Scan(&d.ID, &d.Kept)
	})
	return d, err
}

// KeepMark records that an outside mark is kept.
func (r *Rewinder) KeepMark(ctx context.Context) error {
	return r.run(ctx, "outside_mark", "record that an outside mark is kept", func(ctx context.Context, tx *owner.Tx) error {
		_, err := tx.Do(ctx, "keep", rewindKeepMarkQuery)
		return err
	})
}

func (r *Rewinder) read(ctx context.Context, doing string, fn func(pgx.Tx) error) error {
	return primary(r.conn.Read(ctx, doing, fn))
}

func (r *Rewinder) run(ctx context.Context, step, doing string, fn func(context.Context, *owner.Tx) error) error {
	return primary(r.conn.Run(ctx, step, doing, fn))
}

// primary says that a demoted server is a standby (K-6.3). Both the statement
// that is refused there and the function that has no insert position say so.
func primary(err error) error {
	if hasCode(err, pgerrcode.ReadOnlySQLTransaction) {
		return fmt.Errorf("%w: %w", lockstore.ErrNotPrimary, err)
	}
	return err
}
