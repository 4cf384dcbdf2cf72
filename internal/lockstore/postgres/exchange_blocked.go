package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var (
	trySessionsQuery  = query("try_sessions", "session_ids")
	tryKeysQuery      = query("try_keys", "keys")
	tryEntriesQuery   = query("try_entries", "keys", "tokens", "owner_ids", "session_ids")
	blockersManyQuery = query("blockers_many", "keys")
)

// secondLook is how long after the first look those are tried again that others kept:
// a transaction that is no more than busy has ended by then.
const secondLook = 20 * time.Millisecond

// pastBlocked finds out whose locks others keep, without waiting for any, takes those
// out, and does the rest in the same transaction. Whether one is blocked or all but
// one are, the others wait for one lock timeout and one second look (K-2.4).
func (e *exchange) pastBlocked(ctx context.Context, conn *pgx.Conn) (done bool, err error) {
	e.result.Runs++
	sent := time.Now()
	kept, err := e.tryLocks(ctx, conn)
	if err == nil && len(kept) > 0 {
		if err = lockstore.Pause(ctx, secondLook); err == nil {
			kept, err = e.tryAgain(ctx, conn)
		}
	}
	if err != nil {
		pgtx.Rollback(ctx, conn)
		return false, e.store.classify(ctx, conn, e.doing, "", &pgtx.UnsentError{Err: err})
	}
	e.steps = slices.DeleteFunc(e.steps, func(s exchangeStep) bool { return kept[s.change()] })
	if len(e.steps) > 0 {
		queue := &pgx.Batch{}
		e.queueSets(queue)
		queue.Queue("COMMIT")
		err = e.readChanges(conn.SendBatch(ctx, queue), sent)
	}
	if !conn.IsClosed() {
		pgtx.Rollback(ctx, conn)
	}
	e.nameBlockers(ctx, conn, kept)
	return e.ended(ctx, conn, err)
}

// change is the step for whose sake this one is carried out.
func (s exchangeStep) change() exchangeStep {
	if s.kind == stepLockKey {
		s.kind = stepAcquire
	}
	return s
}

// tryLocks begins a transaction that takes every lock which it can have at once, and
// returns the steps that lack one.
func (e *exchange) tryLocks(ctx context.Context, conn *pgx.Conn) (kept map[exchangeStep]bool, err error) {
	queue := &pgx.Batch{}
	queue.Queue(pgtx.Begin)
	queue.Queue(pgtx.Settings, pgtx.Milliseconds(laterLockTimeout))
	e.queueTries(queue)
	answers := conn.SendBatch(ctx, queue)
	for range 2 { // begin, settings
		if _, err := answers.Exec(); err != nil {
			return nil, finish(answers, err)
		}
	}
	kept, err = e.readTries(answers)
	return kept, finish(answers, err)
}

// tryAgain is tryLocks in the transaction that it has begun.
func (e *exchange) tryAgain(ctx context.Context, conn *pgx.Conn) (kept map[exchangeStep]bool, err error) {
	queue := &pgx.Batch{}
	e.queueTries(queue)
	answers := conn.SendBatch(ctx, queue)
	kept, err = e.readTries(answers)
	return kept, finish(answers, err)
}

// finish closes the answers, and returns the first error of theirs.
func finish(answers pgx.BatchResults, err error) error {
	if closeErr := answers.Close(); err == nil {
		return closeErr
	}
	return err
}

func (e *exchange) queueTries(queue *pgx.Batch) {
	var keys, entries []string
	var tokens []*int64
	var owners []*string
	var ids []pgtype.UUID
	for _, step := range e.steps {
		var token *int64
		var owner *string
		var id pgtype.UUID
		switch step.kind {
		case stepLockKey:
			continue
		case stepRelease:
			token = (*int64)(&e.Releases[step.at].Token)
		case stepAcquire:
			keys = append(keys, step.key)
			owner, id = &e.Acquires[step.at].Owner, pgtype.UUID{Bytes: e.ids[step.at], Valid: true}
		}
		entries, tokens, owners, ids = append(entries, step.key), append(tokens, token), append(owners, owner), append(ids, id)
	}
	queue.Queue(trySessionsQuery, e.sessions())
	queue.Queue(tryKeysQuery, keys)
	queue.Queue(tryEntriesQuery, entries, tokens, owners, ids)
}

func (e *exchange) readTries(answers pgx.BatchResults) (kept map[exchangeStep]bool, err error) {
	sessions, keys, entries := map[uuid.UUID]bool{}, map[string]bool{}, map[exchangeStep]bool{}
	e.live = make(map[uuid.UUID]bool, len(e.Acquires))
	var id pgtype.UUID
	var locked, releases bool
	var key string
	err = each(answers, []any{&id, &locked}, func() { e.live[id.Bytes], sessions[id.Bytes] = true, !locked })
	if err == nil {
		err = each(answers, []any{&key}, func() { keys[key] = true })
	}
	if err == nil {
		err = each(answers, []any{&key, &releases}, func() {
			kind := stepAcquire
			if releases {
				kind = stepRelease
			}
			entries[exchangeStep{key: key, kind: kind}] = true
		})
	}
	kept = map[exchangeStep]bool{}
	for _, s := range e.steps {
		acquires := s.kind == stepAcquire
		if entries[exchangeStep{key: s.key, kind: s.kind}] || acquires && (keys[s.key] || sessions[e.ids[s.at]]) {
			kept[s] = true
		}
	}
	return kept, err
}

// each reads the rows of the next answer.
func each(answers pgx.BatchResults, into []any, fn func()) error {
	rows, err := answers.Query()
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		fn()
		return nil
	})
	return err //nolint:wrapcheck // the caller says what was read
}

// nameBlockers answers the steps that were taken out, with the server processes that
// keep their keys. One that has let go since is not named.
func (e *exchange) nameBlockers(ctx context.Context, conn *pgx.Conn, kept map[exchangeStep]bool) {
	if len(kept) == 0 {
		return
	}
	var keys []string
	for s := range kept {
		keys = append(keys, s.key)
	}
	slices.Sort(keys)
	pids := map[string][]int32{}
	if rows, err := conn.Query(ctx, blockersManyQuery, slices.Compact(keys)); err == nil {
		var key string
		var pid int32
		// What cannot be asked any more names nobody, and is blocked all the same.
		_, _ = pgx.ForEachRow(rows, []any{&key, &pid}, func() error {
			pids[key] = append(pids[key], pid)
			return nil
		})
	}
	for s := range kept {
		blocked := &lockstore.BlockedError{Key: s.key, PIDs: pids[s.key]}
		if s.kind == stepRelease {
			e.result.Releases[s.at].Err = fmt.Errorf("release lock %q: %w", s.key, blocked)
		} else {
			e.result.Acquires[s.at].Err = fmt.Errorf("acquire lock %q: %w", s.key, blocked)
		}
	}
}
