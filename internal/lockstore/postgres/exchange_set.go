package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var (
	acquireManyQuery = query("acquire_many", "keys", "owner_ids", "session_ids", "ttls")
	lockKeysQuery    = query("lock_keys", "keys")
)

// bySets tries until all is done at once, or somebody fails who cannot be named.
// What the grants' being closed or a session's death refuses is known by name, and
// the rest is tried at once again; so is the rest of those whose locks others keep.
func (e *exchange) bySets(ctx context.Context, conn *pgx.Conn) (done bool, err error) {
	for len(e.steps) > 0 {
		e.result.Runs++
		err := e.runSet(ctx, conn)
		if hasCode(err, pgerrcode.LockNotAvailable) {
			e.wait = laterLockTimeout
			return e.pastBlocked(ctx, conn)
		}
		if done, told := e.ended(ctx, conn, err); done || told != nil {
			return done, told
		}
		left := len(e.steps)
		refusal := e.store.classify(ctx, conn, e.doing, "", err)
		_, closed := errors.AsType[*lockstore.GrantsClosedError](refusal)
		if dead := errors.Is(refusal, lockstore.ErrSessionLost); closed || dead {
			e.refuse(refusal, func(at int) bool { return closed || !e.live[e.ids[at]] })
		}
		if len(e.steps) == left {
			return false, nil
		}
	}
	return true, nil
}

// ended tells whether all was done, or returns an error that is about all of it.
// Neither means that the server refused some of it, and so did nothing.
func (e *exchange) ended(ctx context.Context, conn *pgx.Conn, err error) (done bool, told error) {
	if refusal, refused := errors.AsType[*pgconn.PgError](err); refused && refusal.SeverityUnlocalized == "ERROR" {
		return false, nil
	}
	return err == nil, e.store.classify(ctx, conn, e.doing, "", err)
}

// runSet tries all of an exchange by one statement for the releases and one for the
// acquires, which costs half of what a statement for each lock does. It fails as a
// whole, and does not say which lock it was.
func (e *exchange) runSet(ctx context.Context, conn *pgx.Conn) error {
	if pgtx.Direct(conn) {
		for _, sql := range []string{acquireManyQuery, releaseManyQuery, lockLiveSessionsQuery, lockKeysQuery, pgtx.Settings} {
			if _, err := conn.Prepare(ctx, sql, sql); err != nil {
				return &pgtx.UnsentError{Err: err}
			}
		}
	}
	sent := time.Now()
	queue := &pgx.Batch{}
	queue.Queue(pgtx.Begin)
	queue.Queue(pgtx.Settings, pgtx.Milliseconds(e.wait))
	queue.Queue(lockLiveSessionsQuery, e.sessions())
	queue.Queue(lockKeysQuery, e.keys())
	e.queueSets(queue)
	queue.Queue("COMMIT")
	err := e.readSet(conn.SendBatch(ctx, queue), sent)
	if err != nil && !conn.IsClosed() {
		pgtx.Rollback(ctx, conn)
	}
	return err
}

// keys are all that are left, once each, in the order of the steps.
func (e *exchange) keys() []string {
	keys := make([]string, len(e.steps))
	for i, step := range e.steps {
		keys[i] = step.key
	}
	return slices.Compact(keys)
}

func (e *exchange) queueSets(queue *pgx.Batch) {
	n := len(e.steps)
	releases, tokens := make([]string, 0, n), make([]int64, 0, n)
	acquires, owners, ids, ttls := make([]string, 0, n), make([]string, 0, n), make([]pgtype.UUID, 0, n), make([]float64, 0, n)
	for _, step := range e.steps {
		switch step.kind {
		case stepLockKey:
		case stepRelease:
			releases, tokens = append(releases, step.key), append(tokens, int64(e.Releases[step.at].Token))
		case stepAcquire:
			p := e.Acquires[step.at]
			acquires, owners, ids, ttls = append(acquires, p.Key), append(owners, p.Owner), append(ids, pgtype.UUID{Bytes: e.ids[step.at], Valid: true}), append(ttls, p.TTL.Seconds())
		}
	}
	if len(releases) > 0 {
		queue.Queue(releaseManyQuery, releases, tokens)
	}
	if len(acquires) > 0 { // the gate is asked by a statement without rows too
		queue.Queue(acquireManyQuery, acquires, owners, ids, ttls)
	}
}

func (e *exchange) has(kind exchangeKind) bool {
	return slices.ContainsFunc(e.steps, func(s exchangeStep) bool { return s.kind == kind })
}

func (e *exchange) readSet(answers pgx.BatchResults, sent time.Time) error {
	for range 2 { // begin, settings
		if _, err := answers.Exec(); err != nil {
			return finish(answers, err)
		}
	}
	if err := e.readSessions(answers); err != nil {
		return finish(answers, err)
	}
	if _, err := answers.Exec(); err != nil { // keys
		return finish(answers, err)
	}
	return e.readChanges(answers, sent)
}

// readChanges reads what queueSets has asked for, and the COMMIT.
func (e *exchange) readChanges(answers pgx.BatchResults, sent time.Time) (err error) {
	defer func() { err = finish(answers, err) }()
	if e.has(stepRelease) {
		if err := e.readReleases(answers); err != nil {
			return err
		}
	}
	if e.has(stepAcquire) {
		if err := e.readAcquires(answers, sent); err != nil {
			return err
		}
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

func (e *exchange) readReleases(answers pgx.BatchResults) error {
	rows, err := answers.Query()
	if err != nil {
		return err
	}
	released := make(map[string]bool, len(e.Releases))
	var key string
	err = scanRows(rows, func() error {
		err := rows.Scan(&key, nil)
		released[key] = true
		return err
	})
	for i, ref := range e.Releases {
		e.result.Releases[i].Release = lockstore.Release{Key: ref.Key, Token: ref.Token, Stale: !released[ref.Key]}
	}
	return err
}

func (e *exchange) readAcquires(answers pgx.BatchResults, sent time.Time) error {
	rows, err := answers.Query()
	if err != nil {
		return err
	}
	places := make(map[string]int, len(e.Acquires))
	for _, step := range e.steps {
		if step.kind == stepAcquire {
			places[step.key] = step.at
			e.result.Acquires[step.at] = lockstore.AcquireResult{Err: &lockstore.HeldError{Key: step.key}}
		}
	}
	var grant lockstore.Grant
	return scanRows(rows, func() error {
		if err := rows.Scan(&grant.Key, &grant.Token, &grant.Owner, timeTo(&grant.AcquiredAt), timeTo(&grant.ExpiresAt)); err != nil {
			return err
		}
		i := places[grant.Key]
		grant.Session, grant.TTL, grant.Sent = e.Acquires[i].Session, e.Acquires[i].TTL, sent
		e.result.Acquires[i] = lockstore.AcquireResult{Grant: grant}
		return nil
	})
}
