package syncguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// pruneAfter is how long past its end the library's own cleanup leaves a row.
const pruneAfter = 2 * time.Second

// Revoke deletes the grant the operator saw, with its audit row, or neither. Its
// holder learns of it at its next extend or release. Without the audit table it
// returns *lockstore.UnsafeError, which says how to get one.
func (s *Store) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	key, err := lookupKey(params.Key)
	if err := errors.Join(err, lockstore.ValidToken(params.Token), lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return lockstore.LockOutcome{}, err
	}
	doing := fmt.Sprintf("revoke lock %q", key)
	switch {
	case params.EndSession:
		return lockstore.LockOutcome{}, noSessions(doing + " with its session")
	case len(params.FenceAccounts) > 0:
		return lockstore.LockOutcome{}, unsupported(doing+" and fence accounts", "a SyncGuard fence counts for its key alone")
	}
	outcome := lockstore.LockOutcome{Key: key, Presented: params.Token}
	err = s.change(ctx, doing, key, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql.lockKey, key); err != nil {
			return err
		}
		var fence string
		err := tx.QueryRow(ctx, s.sql.revoke, key, fenceText(params.Token), params.Token, params.Operator, params.Reason).
			Scan(&outcome.Outcome, &outcome.AuditID, &fence)
		outcome.Token = fenceToken(fence)
		return err
	})
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	return outcome, nil
}

// RevokeMany revokes every grant that the filter selects, in key order.
func (s *Store) RevokeMany(ctx context.Context, params lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	if err := errors.Join(lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return nil, err
	}
	const doing = "revoke many locks"
	prefix, err := narrowed(doing, params.Filter)
	switch {
	case err != nil:
		return nil, err
	case params.Filter.Limit != 0:
		return nil, fmt.Errorf("%w: a bulk revoke takes all that matches; narrow it instead of limiting it", lockstore.ErrInvalid)
	case prefix == "":
		return nil, fmt.Errorf("%w: a bulk revoke without a prefix would take every lock; narrow it", lockstore.ErrInvalid)
	}
	var outcomes []lockstore.LockOutcome
	err = s.change(ctx, doing, "", func(tx pgx.Tx) (err error) {
		outcomes, err = s.revokeSelected(ctx, tx, prefix, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// revokeSelected locks what is selected, compares its number, and revokes exactly
// that.
func (s *Store) revokeSelected(ctx context.Context, tx pgx.Tx, prefix string, params lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	rows, err := tx.Query(ctx, s.sql.selectEntries, null(prefix), params.Filter.Expired, Tolerance.Milliseconds())
	if err != nil {
		return nil, err
	}
	var keys, lockIDs []string
	var tokens []int64
	err = scanRows(rows, func(row pgx.Row) error {
		var key, lockID, fence string
		err := row.Scan(&key, &lockID, &fence)
		keys, lockIDs, tokens = append(keys, key), append(lockIDs, lockID), append(tokens, int64(fenceToken(fence)))
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(keys) != params.Expect {
		return nil, &lockstore.CountMovedError{Expected: params.Expect, Found: len(keys)}
	}
	rows, err = tx.Query(ctx, s.sql.revokeMany, keys, lockIDs, tokens, params.Operator, params.Reason)
	if err != nil {
		return nil, err
	}
	outcomes := []lockstore.LockOutcome{}
	err = scanRows(rows, func(row pgx.Row) error {
		o := lockstore.LockOutcome{Outcome: lockstore.Revoked}
		err := row.Scan(&o.AuditID, &o.Key, &o.Token)
		o.Presented = o.Token
		outcomes = append(outcomes, o)
		return err
	})
	if err == nil && len(outcomes) != len(keys) {
		err = fmt.Errorf("revoked %d of %d locked grants", len(outcomes), len(keys))
	}
	return outcomes, err
}

// Prune deletes rows whose lease ended more than olderThan ago, and at least two
// seconds, as the library's cleanup leaves them. Counters stay for ever.
func (s *Store) Prune(ctx context.Context, olderThan time.Duration, limit int) ([]lockstore.Entry, error) {
	if olderThan < 0 || limit < 1 {
		return nil, fmt.Errorf("%w: prune of at most %d entries older than %s; give a limit of at least 1 and an age of at least 0", lockstore.ErrInvalid, limit, olderThan)
	}
	var pruned []lockstore.Entry
	err := s.change(ctx, "prune lapsed locks", "", func(tx pgx.Tx) error {
		pruned = []lockstore.Entry{}
		rows, err := tx.Query(ctx, s.sql.prune, milliseconds(max(olderThan, pruneAfter)), limit)
		if err != nil {
			return err
		}
		return scanRows(rows, func(row pgx.Row) error {
			entry, err := scanEntry(row)
			pruned = append(pruned, entry)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pruned, func(a, b lockstore.Entry) int { return strings.Compare(a.Key, b.Key) })
	return pruned, nil
}
