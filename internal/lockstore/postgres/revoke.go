package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Revoke deletes the grant the operator saw, with its audit row, or neither.
// FenceAccounts needs the role dlock_operator: the operator log is not written
// by the application.
func (s *Store) Revoke(ctx context.Context, params lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	if err := errors.Join(lockstore.LookupKey(params.Key), lockstore.ByToken(params),
		lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason), validAccounts(params.FenceAccounts)); err != nil {
		return lockstore.LockOutcome{}, err
	}
	r := &revocation{params: params, doing: fmt.Sprintf("revoke lock %q", params.Key)}
	outcome, err := r.run(ctx, s)
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	if outcome.Outcome == lockstore.NotHeld {
		return s.lookAgain(ctx, outcome)
	}
	return outcome, nil
}

func validAccounts(accounts []string) error {
	for _, account := range accounts {
		if _, err := uuid.Parse(account); err != nil || len(account) != 36 {
			return fmt.Errorf("%w: account %q is not a UUID; give an account_id of paydb", lockstore.ErrInvalid, account)
		}
	}
	return nil
}

// lookAgain reads the key in a new statement: while the first one waited, the
// grant may have been deleted and another inserted, which it could not see. A
// row there was granted since the operator looked (K-3.1).
func (s *Store) lookAgain(ctx context.Context, outcome lockstore.LockOutcome) (lockstore.LockOutcome, error) {
	entry, err := s.Show(ctx, outcome.Key)
	if errors.Is(err, lockstore.ErrNotFound) {
		return outcome, nil
	}
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	outcome.Outcome, outcome.Owner, outcome.Token = lockstore.TokenMoved, entry.Owner, entry.Token
	return outcome, nil
}

// revocation is one force-revoke.
type revocation struct {
	params lockstore.RevokeParams
	doing  string
}

func (r *revocation) run(ctx context.Context, s *Store) (lockstore.LockOutcome, error) {
	if !r.params.EndSession && len(r.params.FenceAccounts) == 0 {
		// The plain one is one statement, in one round trip.
		var outcome lockstore.LockOutcome
		err := s.change(ctx, r.doing, r.params.Key, revokeQuery, r.args(), func(rows pgx.Rows) error {
			return scanRows(rows, func() (err error) {
				outcome, err = r.scan(rows)
				return err
			})
		})
		return outcome, err
	}
	asked, err := r.admit(ctx, s)
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	var outcome lockstore.LockOutcome
	err = s.transaction(ctx, r.doing, r.params.Key, func(tx pgx.Tx) (err error) {
		if outcome, err = r.steps(ctx, tx); err == nil && outcome.Fence != 0 {
			err = s.detector.clear(ctx, asked, outcome.Fence, outcome.Fence)
		}
		return err
	})
	if err == nil && outcome.Fence != 0 {
		s.detector.show(outcome.Fence)
	}
	return outcome, err
}

// admit is that of a grant: F is drawn as a grant's token is, and one that was
// issued before fences nobody (K-7.6).
func (r *revocation) admit(ctx context.Context, s *Store) (asked lockstore.Token, err error) {
	if len(r.params.FenceAccounts) == 0 {
		return 0, nil
	}
	conn, err := s.acquireConn(ctx, r.doing)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	return s.admit(ctx, conn.Conn(), r.doing)
}

func (r *revocation) args() []any {
	return []any{r.params.Key, r.params.Token, r.params.Operator, r.params.Reason}
}

func (r *revocation) scan(row pgx.Row) (lockstore.LockOutcome, error) {
	outcome := lockstore.LockOutcome{Key: r.params.Key, Presented: r.params.Token}
	err := row.Scan(&outcome.Outcome, &outcome.AuditID, &outcome.Owner, &outcome.Token)
	return outcome, err
}

// steps are the order of K-3.2: entries against the barrier of a fast-forward,
// gate, session, key, F, delete and audit, operator log.
func (r *revocation) steps(ctx context.Context, tx pgx.Tx) (lockstore.LockOutcome, error) {
	fencing := len(r.params.FenceAccounts) > 0
	if fencing {
		if _, err := tx.Exec(ctx, "LOCK TABLE lock_entry IN ROW EXCLUSIVE MODE"); err != nil {
			return lockstore.LockOutcome{}, err
		}
		if _, err := tx.Exec(ctx, checkGateQuery); err != nil {
			return lockstore.LockOutcome{}, err
		}
	}
	session, err := r.lockSession(ctx, tx)
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	var fence lockstore.Token
	if fencing {
		if _, err := tx.Exec(ctx, lockKeyQuery, r.params.Key); err != nil {
			return lockstore.LockOutcome{}, err
		}
		if err := tx.QueryRow(ctx, "SELECT nextval('fencing_token_seq')").Scan(&fence); err != nil {
			return lockstore.LockOutcome{}, err
		}
	}
	outcome, err := r.scan(tx.QueryRow(ctx, revokeQuery, r.args()...))
	if err != nil || outcome.Outcome != lockstore.Revoked {
		return outcome, err
	}
	outcome.Fence = fence
	if session != nil {
		if err := r.endSession(ctx, tx, *session, &outcome); err != nil {
			return lockstore.LockOutcome{}, err
		}
	}
	if fencing {
		err = r.log(ctx, tx, outcome)
	}
	return outcome, err
}

// lockSession locks the holder's session before its entries, as every writer
// does (K-2.4), when it is to be ended. The key may change hands before that:
// then the token has moved, and the session that was locked is not touched.
func (r *revocation) lockSession(ctx context.Context, tx pgx.Tx) (*uuid.UUID, error) {
	if !r.params.EndSession {
		return nil, nil
	}
	var session uuid.UUID
	err := tx.QueryRow(ctx, entrySessionQuery, r.params.Key).Scan(&session)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, lockSessionQuery, session)
	return &session, err
}

// endSession revokes what else hangs on the session, an audit row each, and
// deletes it: three statements, since one lost an audit row to an acquire in the
// middle (K-3.5).
func (r *revocation) endSession(ctx context.Context, tx pgx.Tx, session uuid.UUID, outcome *lockstore.LockOutcome) error {
	also, err := revokeSelected(ctx, tx, lockstore.RevokeManyParams{
		Filter:   lockstore.Filter{Session: lockstore.SessionID(session.String())},
		Operator: r.params.Operator, Reason: r.params.Reason, Expect: -1,
	})
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, deleteSessionsQuery, []uuid.UUID{session}); err != nil {
		return err
	}
	outcome.Session, outcome.SessionEnded, outcome.AlsoRevoked = lockstore.SessionID(session.String()), true, also
	return nil
}

// log records F with what is to be raised to it: a rerun finds what is pending
// there, and a fast-forward takes F for evidence (K-7.2).
func (r *revocation) log(ctx context.Context, tx pgx.Tx, outcome lockstore.LockOutcome) error {
	details, err := json.Marshal(FenceDetails{Key: outcome.Key, PrevToken: outcome.Token, AuditID: outcome.AuditID, Accounts: r.params.FenceAccounts})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, logActionQuery, lockstore.ActionFenceAccount, r.params.Operator, r.params.Reason, outcome.Fence, details)
	return err
}

// FenceDetails are the details of an ActionFenceAccount record.
type FenceDetails struct {
	Key       string          `json:"key"`
	PrevToken lockstore.Token `json:"prev_token"`
	AuditID   int64           `json:"audit_id"`
	// Accounts are those whose fences are to be raised to the record's token.
	Accounts []string `json:"accounts"`
}

// RevokeMany revokes every grant that the filter selects, in key order.
func (s *Store) RevokeMany(ctx context.Context, params lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	if err := errors.Join(lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return nil, err
	}
	if err := errors.Join(lockstore.LookupText("owner", params.Filter.Owner), lockstore.LookupText("prefix", params.Filter.Prefix)); err != nil {
		return nil, err
	}
	if params.Filter.Limit != 0 {
		return nil, fmt.Errorf("%w: a bulk revoke takes all that matches; narrow it instead of limiting it", lockstore.ErrInvalid)
	}
	if f := params.Filter; f.Owner == "" && f.Prefix == "" && f.Session == "" {
		return nil, fmt.Errorf("%w: a bulk revoke without an owner, a session or a prefix would take every lock; narrow it", lockstore.ErrInvalid)
	}
	var outcomes []lockstore.LockOutcome
	err := s.transaction(ctx, "revoke many locks", "", func(tx pgx.Tx) (err error) {
		outcomes, err = revokeSelected(ctx, tx, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// revokeSelected locks what is selected, compares its number unless Expect is
// negative, and revokes exactly that.
func revokeSelected(ctx context.Context, tx pgx.Tx, params lockstore.RevokeManyParams) ([]lockstore.LockOutcome, error) {
	var session *uuid.UUID
	if params.Filter.Session != "" {
		parsed, err := sessionUUID(params.Filter.Session)
		if err != nil {
			return nil, err
		}
		session = &parsed
	}
	rows, err := tx.Query(ctx, selectEntriesQuery, null(params.Filter.Owner), session, null(params.Filter.Prefix), params.Filter.Expired)
	if err != nil {
		return nil, err
	}
	var keys []string
	var tokens []int64
	sessions := make(map[string]lockstore.SessionID)
	err = scanRows(rows, func() error {
		var key, owner string
		var id uuid.UUID
		var token int64
		err := rows.Scan(&key, &owner, &id, &token)
		keys, tokens = append(keys, key), append(tokens, token)
		sessions[key] = lockstore.SessionID(id.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	if params.Expect >= 0 && len(keys) != params.Expect {
		return nil, &lockstore.CountMovedError{Expected: params.Expect, Found: len(keys)}
	}
	audit, err := tx.Query(ctx, revokeManyQuery, keys, tokens, params.Operator, params.Reason)
	if err != nil {
		return nil, err
	}
	outcomes := []lockstore.LockOutcome{}
	err = scanRows(audit, func() error {
		o := lockstore.LockOutcome{Outcome: lockstore.Revoked}
		err := audit.Scan(&o.AuditID, &o.Key, &o.Owner, &o.Token)
		o.Presented, o.Session = o.Token, sessions[o.Key]
		outcomes = append(outcomes, o)
		return err
	})
	if err == nil && len(outcomes) != len(keys) {
		err = fmt.Errorf("revoked %d of %d locked grants", len(outcomes), len(keys))
	}
	return outcomes, err
}

// Prune deletes entries whose lease ended more than olderThan ago; the journal
// has them as expired.
func (s *Store) Prune(ctx context.Context, olderThan time.Duration, limit int) ([]lockstore.Entry, error) {
	if olderThan < 0 || limit < 1 {
		return nil, fmt.Errorf("%w: prune of at most %d entries older than %s; give a limit of at least 1 and an age of at least 0", lockstore.ErrInvalid, limit, olderThan)
	}
	pruned := []lockstore.Entry{}
	err := s.change(ctx, "prune lapsed locks", "", pruneQuery, []any{olderThan.Seconds(), limit}, func(rows pgx.Rows) error {
		pruned = pruned[:0]
		return scanRows(rows, func() error {
			entry := lockstore.Entry{Expired: true}
			var id uuid.UUID
			err := rows.Scan(&entry.Key, &entry.Token, &entry.Owner, &id, timeTo(&entry.AcquiredAt), timeTo(&entry.ExpiresAt))
			entry.Session = lockstore.SessionID(id.String())
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
