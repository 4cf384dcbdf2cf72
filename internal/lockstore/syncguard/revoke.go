package syncguard

import (
	"context"
	"encoding/json"
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

// Revoke deletes the grant the operator saw, with its audit row, or neither: by its
// token, by the hash of its lock id, or by both. Its holder learns of it at its next
// extend or release. Without the audit table it returns *lockstore.UnsafeError, which
// says how to get one.
func (s *Store) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	keys, err := lookupKeys(params.Key)
	if err := errors.Join(err, validGrant(params), lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return lockstore.LockOutcome{}, err
	}
	name := keys[len(keys)-1]
	doing := fmt.Sprintf("revoke lock %q", name)
	switch {
	case params.EndSession:
		return lockstore.LockOutcome{}, noSessions(doing + " with its session")
	case len(params.FenceAccounts) > 0:
		return lockstore.LockOutcome{}, unsupported(doing+" and fence accounts", "a SyncGuard fence counts for its key alone")
	}
	for _, key := range keys {
		var outcome lockstore.LockOutcome
		err = s.change(ctx, doing, key, func(tx pgx.Tx) (err error) {
			outcome, err = s.revoke(ctx, tx, key, params)
			return err
		})
		switch {
		case err != nil:
			return lockstore.LockOutcome{}, err
		case outcome.Outcome != lockstore.NotHeld:
			return outcome, nil
		}
	}
	return lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: name, Presented: params.Token, PresentedHash: params.LockIDHash}, nil
}

// validGrant wants the grant named: a fence that is no token is nobody's name.
func validGrant(params lockstore.RevokeParams) error {
	if params.LockIDHash == "" {
		return lockstore.ValidToken(params.Token)
	}
	err := lockstore.ValidLockIDHash(params.LockIDHash)
	if params.Token != 0 {
		err = errors.Join(err, lockstore.ValidToken(params.Token))
	}
	return err
}

// revoke compares the row under its locks and deletes that very one.
func (s *Store) revoke(ctx context.Context, tx pgx.Tx, key string, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	outcome := lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: key, Presented: params.Token, PresentedHash: params.LockIDHash}
	standing, err := s.locked(ctx, tx, key, s.sql.standing, key)
	if err != nil || !standing.there {
		return outcome, err
	}
	token, text := shownFence(standing.fence)
	outcome.Token, outcome.LockIDHash = token, telemetryHash(standing.lockID)
	if params.Token != 0 && params.Token != token || params.LockIDHash != "" && params.LockIDHash != outcome.LockIDHash {
		outcome.Outcome = lockstore.TokenMoved
		return outcome, nil
	}
	details, err := revokedDetails(outcome.LockIDHash, text)
	if err != nil {
		return outcome, err
	}
	err = tx.QueryRow(ctx, s.sql.revoke, key, standing.lockID, token, params.Operator, params.Reason, details).Scan(&outcome.AuditID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = one(0, nil)
	}
	outcome.Outcome = lockstore.Revoked
	return outcome, err
}

// revokedDetails are what an audit row tells of the grant beside its key and token.
func revokedDetails(lockIDHash, fence string) (string, error) {
	details, err := json.Marshal(struct {
		LockIDHash string `json:"lock_id_hash"`
		Fence      string `json:"fence,omitempty"`
	}{lockIDHash, fence})
	if err != nil {
		return "", fmt.Errorf("write the audit's details: %w", err)
	}
	return string(details), nil
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
	var keys, lockIDs, details []string
	var tokens []int64
	err = scanRows(rows, func(row pgx.Row) error {
		var key, lockID, fence string
		if err := row.Scan(&key, &lockID, &fence); err != nil {
			return err
		}
		token, text := shownFence(fence)
		detail, err := revokedDetails(telemetryHash(lockID), text)
		keys, lockIDs, tokens, details = append(keys, key), append(lockIDs, lockID), append(tokens, int64(token)), append(details, detail)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(keys) != params.Expect {
		return nil, &lockstore.CountMovedError{Expected: params.Expect, Found: len(keys)}
	}
	rows, err = tx.Query(ctx, s.sql.revokeMany, keys, lockIDs, tokens, params.Operator, params.Reason, details)
	if err != nil {
		return nil, err
	}
	outcomes := []lockstore.LockOutcome{}
	err = scanRows(rows, func(row pgx.Row) error {
		o := lockstore.LockOutcome{Outcome: lockstore.Revoked}
		err := row.Scan(&o.AuditID, &o.Key, &o.Token, &o.LockIDHash)
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
