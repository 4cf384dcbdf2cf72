package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// NotOldPrimaryError is returned by OldPrimary: what answers there cannot be the primary
// that this lockdb was before, whatever tokens it knows of.
type NotOldPrimaryError struct{ Problem string }

func (e *NotOldPrimaryError) Error() string { return "the old primary: " + e.Problem }

// place is what tells one lockdb from another.
type place struct {
	system      int64
	started     time.Time
	database    uint32
	deployment  string
	paydb       int64 // 0 when nobody has recorded it
	environment string
}

func readPlace(ctx context.Context, tx pgx.Tx) (p place, err error) {
	err = tx.QueryRow(ctx, rewindPlaceQuery).Scan(&p.system, &p.started, &p.database, &p.deployment, &p.paydb, &p.environment)
	return p, err
}

// OldPrimary asks the instance that was the primary before this one, for its tokens are
// the best evidence there is (K-7.2). A login that may read is enough, and a standby will
// do. It returns *NotOldPrimaryError for this very database, and for one of another
// deployment: its tokens would say nothing of this one's.
func (r *Rewinder) OldPrimary(ctx context.Context, config *pgx.ConnConfig) (lockstore.OldPrimary, error) {
	conn, err := owner.Open(ctx, owner.Options{Config: config, Database: "the old primary"})
	if err != nil {
		return lockstore.OldPrimary{}, err
	}
	defer conn.Close(ctx)
	var old lockstore.OldPrimary
	var there place
	err = conn.Read(ctx, "read the old primary", func(tx pgx.Tx) error {
		var standby bool
		if err := tx.QueryRow(ctx, "SELECT pg_is_in_recovery(), now()").Scan(&standby, timeTo(&old.At)); err != nil {
			return err
		}
		if there, err = readPlace(ctx, tx); err != nil {
			return err
		}
		if !standby {
			here, gate, err := readGate(ctx, tx)
			if err != nil {
				return err
			}
			old.Identity, old.Granting = here, gate.Open()
		}
		var highest int64
		return tx.QueryRow(ctx, rewindSourceQuery).Scan(&old.Last, &highest)
	})
	if hasCode(err, pgerrcode.UndefinedTable) {
		err = &NotOldPrimaryError{"what answers there is no lockdb: " + oneOf(err)}
	}
	if err == nil {
		err = r.wasBefore(ctx, there)
	}
	if err != nil {
		return lockstore.OldPrimary{}, err
	}
	return old, nil
}

// oneOf is what the server said.
func oneOf(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Message
	}
	return err.Error()
}

// wasBefore refuses what cannot have been the primary of before. A backup and a standby
// have the deployment's id; a lockdb that was migrated anew, to take over by logical
// replication, has the same paydb beside it, or the records of the one before.
func (r *Rewinder) wasBefore(ctx context.Context, there place) error {
	var here place
	var records bool
	err := r.read(ctx, "read which lockdb this is", func(tx pgx.Tx) (err error) {
		if here, err = readPlace(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, rewindLogOfQuery, there.system).Scan(&records)
	})
	switch {
	case err != nil:
		return err
	case here.system == there.system && here.started.Equal(there.started) && here.database == there.database:
		return &NotOldPrimaryError{fmt.Sprintf("it is this very lockdb, on instance %d: what is to be compared with itself shows nothing", here.system)}
	case here.environment != there.environment && here.environment != "" && there.environment != "":
		return &NotOldPrimaryError{fmt.Sprintf("it is marked as %q, and this lockdb as %q", there.environment, here.environment)}
	case here.deployment == there.deployment || here.paydb == there.paydb && here.paydb != 0 || records:
		return nil
	}
	return &NotOldPrimaryError{fmt.Sprintf("it is another deployment's lockdb, on instance %d: it has another deployment id (%s, and here %s) and another paydb (%d, and here %d), and the operator log here knows nothing of that instance",
		there.system, there.deployment, here.deployment, there.paydb, here.paydb)}
}
