package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// batchLockTimeout bounds how long one blocked key delays the others of its
// batch, before it is taken out (K-2.4).
const batchLockTimeout = 50 * time.Millisecond

// AcquireBatch is an exchange without releases: the sessions are locked first in
// order, then the keys in order of their bytes, as every writer does (K-2.4), and one
// that fails has its error, while the rest is carried out.
func (s *Store) AcquireBatch(ctx context.Context, params []lockstore.AcquireParams) ([]lockstore.AcquireResult, error) {
	result, unshown, err := s.exchange(ctx, "acquire a batch of locks", Exchange{Acquires: params})
	if err == nil {
		err = unshown
	}
	if err != nil {
		return nil, err
	}
	return result.Acquires, nil
}

// ReleaseBatch releases many grants, rows locked in key order first (K-2.4).
func (s *Store) ReleaseBatch(ctx context.Context, refs []lockstore.GrantRef) ([]lockstore.Release, error) {
	if len(refs) == 0 || len(refs) > lockstore.MaxBatch {
		return nil, fmt.Errorf("%w: a batch of %d grants; give 1 to %d", lockstore.ErrInvalid, len(refs), lockstore.MaxBatch)
	}
	keys, tokens := make([]string, len(refs)), make([]int64, len(refs))
	for i, ref := range refs {
		if err := errors.Join(lockstore.LookupKey(ref.Key), lockstore.ValidToken(ref.Token)); err != nil {
			return nil, err
		}
		keys[i], tokens[i] = ref.Key, int64(ref.Token)
	}
	released := make(map[lockstore.GrantRef]bool)
	err := s.change(ctx, "release a batch of locks", "", releaseManyQuery, []any{keys, tokens}, func(rows pgx.Rows) error {
		clear(released)
		return scanRows(rows, func() error {
			var ref lockstore.GrantRef
			err := rows.Scan(&ref.Key, &ref.Token)
			released[ref] = true
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	answers := make([]lockstore.Release, len(refs))
	for i, ref := range refs {
		answers[i] = lockstore.Release{Key: ref.Key, Token: ref.Token, Stale: !released[ref]}
		delete(released, ref) // the second of two equal ones found nothing
	}
	return answers, nil
}
