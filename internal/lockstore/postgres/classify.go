package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// classify turns what a change ended in into the store's errors. What the
// server refused was not done; what was sent and not answered is unknown, and
// never failed (K-2.9).
func (s *Store) classify(ctx context.Context, conn *pgx.Conn, doing, key string, err error) error {
	if err == nil {
		return nil
	}
	var pgErr *pgconn.PgError
	fate := pgtx.FateOf(err)
	switch {
	case fate == pgtx.Unsent:
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	case fate == pgtx.Unknown:
		return &lockstore.UnknownOutcomeError{Doing: doing, Err: err}
	case !errors.As(err, &pgErr):
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch {
	case pgErr.Code == pgerrcode.ReadOnlySQLTransaction:
		// A demoted primary: every connection of the pool is to it (K-6.3).
		s.pool.Reset()
		return fmt.Errorf("%s: it accepts no writes: %w", doing, lockstore.ErrNotPrimary)
	case pgErr.Code == pgerrcode.LockNotAvailable:
		return s.blocked(ctx, conn, doing, key)
	case pgErr.Code == pgerrcode.QueryCanceled && key != "":
		// A statement_timeout of the role's, shorter than the lock timeout, ends
		// the wait for the same reason.
		if pids, findErr := blockers(ctx, conn, key); findErr == nil && len(pids) > 0 {
			return fmt.Errorf("%s: %w", doing, &lockstore.BlockedError{Key: key, PIDs: pids})
		}
		return fmt.Errorf("%s: %w", doing, err)
	case pgErr.Code == pgerrcode.ForeignKeyViolation && pgErr.ConstraintName == "lock_entry_session_id_fkey":
		return fmt.Errorf("%s: %w", doing, lockstore.ErrSessionLost)
	case pgErr.Code == pgerrcode.ObjectNotInPrerequisiteState && pgErr.ConstraintName == "lock_gate":
		return &lockstore.GrantsClosedError{Reason: pgErr.Message, Hint: pgErr.Hint}
	case pgErr.Code == pgerrcode.UniqueViolation && strings.HasPrefix(pgErr.TableName, "lock_grant"):
		return s.detector.fire(s.detector.shown(), "it drew a token that its own journal has: its sequence was set back")
	case pgErr.Code == pgerrcode.SequenceGeneratorLimitExceeded, pgErr.ConstraintName == "lock_entry_token_max_ck":
		return &lockstore.UnsafeError{
			Clause:  "K-1.6",
			Problem: "the token sequence has passed 2^53, above which no token is accepted: somebody set it there, or a forged token was taken for evidence",
			Fix:     "find out what set it before anything else; audit verify and restore plan show the evidence",
		}
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// blocked names the server processes that keep the key. The refused
// transaction has ended; one that cannot be asked any more names nobody.
func (s *Store) blocked(ctx context.Context, conn *pgx.Conn, doing, key string) error {
	pids, err := blockers(ctx, conn, key)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, errors.Join(&lockstore.BlockedError{Key: key}, err))
	}
	return fmt.Errorf("%s: %w", doing, &lockstore.BlockedError{Key: key, PIDs: pids})
}

func blockers(ctx context.Context, conn *pgx.Conn, key string) ([]int32, error) {
	rows, err := conn.Query(ctx, blockersQuery, key)
	if err != nil {
		return nil, fmt.Errorf("find who blocks %q: %w", key, err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return nil, fmt.Errorf("find who blocks %q: %w", key, err)
	}
	return pids, nil
}

func hasCode(err error, code string) bool { return pgtx.HasCode(err, code) }
