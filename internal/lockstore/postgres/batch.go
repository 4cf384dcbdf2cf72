package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// batchLockTimeout bounds how long one blocked key delays the others of its
// batch, before it is taken out (K-2.4).
const batchLockTimeout = 50 * time.Millisecond

// AcquireBatch pipelines the specified statement, one for each key, in one
// transaction: the sessions are locked first in order, then the keys in order of
// their bytes, as every writer does (K-2.4). One that fails is taken out with
// its error, and the rest is run again.
func (s *Store) AcquireBatch(ctx context.Context, params []lockstore.AcquireParams) ([]lockstore.AcquireResult, error) {
	results := make([]lockstore.AcquireResult, len(params))
	b := &batch{store: s, params: params, results: results, ids: make([]uuid.UUID, len(params))}
	if err := b.prepare(); err != nil {
		return nil, err
	}
	asked, err := b.grant(ctx)
	if err != nil {
		return nil, err
	}
	if refs := b.granted(); len(refs) > 0 {
		lowest, highest := refs[0].Token, refs[0].Token
		for _, ref := range refs[1:] {
			lowest, highest = min(lowest, ref.Token), max(highest, ref.Token)
		}
		if err := s.show(ctx, doingBatch, asked, lowest, highest, b.granted); err != nil {
			return nil, err
		}
	}
	return results, nil
}

const doingBatch = "acquire a batch of locks"

type batch struct {
	store   *Store
	params  []lockstore.AcquireParams
	ids     []uuid.UUID
	results []lockstore.AcquireResult
	// order holds the places in params still to be run, by key.
	order     []int
	deadlocks int
}

// prepare checks every argument, so that nothing is sent of a batch that is
// wrong in itself, and finds the order.
func (b *batch) prepare() error {
	if len(b.params) == 0 || len(b.params) > lockstore.MaxBatch {
		return fmt.Errorf("%w: a batch of %d keys; give 1 to %d", lockstore.ErrInvalid, len(b.params), lockstore.MaxBatch)
	}
	seen := make(map[string]bool, len(b.params))
	for i, p := range b.params {
		id, err := sessionUUID(p.Session)
		if err := errors.Join(lockstore.ValidKey(p.Key), lockstore.ValidOwner(p.Owner), lockstore.ValidTTL(p.TTL), err); err != nil {
			return err
		}
		if seen[p.Key] {
			return fmt.Errorf("%w: key %q is twice in the batch; give it once", lockstore.ErrInvalid, p.Key)
		}
		seen[p.Key], b.ids[i] = true, id
		b.order = append(b.order, i)
	}
	slices.SortFunc(b.order, func(i, j int) int { return cmp.Compare(b.params[i].Key, b.params[j].Key) })
	return nil
}

// grant tries until all that is left is carried out. The token it returns is what
// the grants' must be above.
func (b *batch) grant(ctx context.Context) (asked lockstore.Token, err error) {
	s := b.store
	conn, err := s.acquireConn(ctx, doingBatch)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	asked, err = s.admit(ctx, conn.Conn(), doingBatch)
	if err != nil {
		return 0, err
	}
	for len(b.order) > 0 {
		failed, err := b.run(ctx, conn.Conn())
		if err == nil {
			break
		}
		if failed < 0 {
			return 0, s.classify(ctx, conn.Conn(), doingBatch, "", err)
		}
		i := b.order[failed]
		key := b.params[i].Key
		b.results[i] = lockstore.AcquireResult{Err: s.classify(ctx, conn.Conn(), fmt.Sprintf("acquire lock %q", key), key, err)}
		b.order = slices.Delete(b.order, failed, failed+1)
	}
	return asked, nil
}

func (b *batch) granted() []lockstore.GrantRef {
	var refs []lockstore.GrantRef
	for _, result := range b.results {
		if result.Err == nil {
			refs = append(refs, lockstore.GrantRef{Key: result.Grant.Key, Token: result.Grant.Token})
		}
	}
	return refs
}

func (b *batch) sessions() []uuid.UUID {
	var ids []uuid.UUID
	for _, i := range b.order {
		ids = append(ids, b.ids[i])
	}
	slices.SortFunc(ids, func(x, y uuid.UUID) int { return bytes.Compare(x[:], y[:]) })
	return slices.Compact(ids)
}

// run tries what is left. It returns the place in order of the statement that
// failed, or -1 when the whole transaction did.
func (b *batch) run(ctx context.Context, conn *pgx.Conn) (failed int, err error) {
	if pgtx.Direct(conn) {
		// Planned once instead of once a key.
		if _, err := conn.Prepare(ctx, acquireQuery, acquireQuery); err != nil {
			return -1, &pgtx.UnsentError{Err: err}
		}
	}
	sent := time.Now()
	queue := &pgx.Batch{}
	queue.Queue(pgtx.Begin)
	queue.Queue(pgtx.Settings, pgtx.Milliseconds(batchLockTimeout))
	queue.Queue(lockLiveSessionsQuery, b.sessions())
	for _, i := range b.order {
		p := b.params[i]
		queue.Queue(acquireQuery, p.Key, p.Owner, [16]byte(b.ids[i]), p.TTL.Seconds())
	}
	queue.Queue("COMMIT")
	failed, err = b.read(conn.SendBatch(ctx, queue), sent)
	if err != nil && !conn.IsClosed() {
		pgtx.Rollback(ctx, conn)
	}
	if hasCode(err, pgerrcode.DeadlockDetected) && b.deadlocks < pgtx.DeadlockTries {
		b.deadlocks++
		return b.run(ctx, conn)
	}
	return failed, err
}

func (b *batch) read(answers pgx.BatchResults, sent time.Time) (failed int, err error) {
	defer func() {
		if closeErr := answers.Close(); err == nil && closeErr != nil {
			failed, err = -1, closeErr
		}
	}()
	for range 3 { // begin, settings, sessions
		if _, err := answers.Exec(); err != nil {
			return -1, err
		}
	}
	for place, i := range b.order {
		result, err := b.readOne(answers, i, sent)
		if err != nil {
			if _, refused := errors.AsType[*pgconn.PgError](err); !refused {
				return -1, err
			}
			return place, err
		}
		b.results[i] = result
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return -1, err
}

func (b *batch) readOne(answers pgx.BatchResults, i int, sent time.Time) (lockstore.AcquireResult, error) {
	p := b.params[i]
	rows, err := answers.Query()
	if err != nil {
		return lockstore.AcquireResult{}, err
	}
	result := lockstore.AcquireResult{Err: &lockstore.HeldError{Key: p.Key}}
	err = scanRows(rows, func() error {
		grant := lockstore.Grant{Key: p.Key, Session: p.Session, TTL: p.TTL, Sent: sent}
		var session pgtype.UUID
		err := rows.Scan(&grant.Token, &grant.Owner, &session, timeTo(&grant.AcquiredAt), timeTo(&grant.ExpiresAt))
		result = lockstore.AcquireResult{Grant: grant}
		return err
	})
	return result, err
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
