package postgres

import (
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

// laterLockTimeout is what an exchange waits for a lock once a first one has used up
// the time that all of it has.
const laterLockTimeout = time.Millisecond

// Exchange is a batch that gives locks back and takes others in one transaction,
// for a server that works for many callers at once.
type Exchange struct {
	// Releases and Acquires are at most MaxBatch each, a key at most once in either.
	// One that is in both is released first: its next holder is granted it by the
	// very commit that takes it from the last.
	Releases []lockstore.GrantRef
	Acquires []lockstore.AcquireParams
}

// ReleaseResult is one answer of an exchange: a release or its error.
type ReleaseResult struct {
	Release lockstore.Release
	Err     error
}

// ExchangeResult answers each by itself, in the order given.
type ExchangeResult struct {
	Releases []ReleaseResult
	Acquires []lockstore.AcquireResult
	// Runs is how often it was begun: once, once more for all that is blocked, and once
	// for each that was refused for another reason.
	Runs int
}

// Exchange is one transaction: the sessions first, in order, then the keys' advisory
// locks in the order of the keys' bytes, as every writer takes them (K-2.4), then
// one statement that releases and one that acquires, each row as the specified
// statement would. Where a lock is not to be had, all are tried without waiting, and
// those that others keep are taken out together. Where it fails for another reason,
// the specified statements themselves are pipelined, one for each lock, in the same
// order; one that fails is taken out with its error, and the rest is run again. An
// error is about all of it: nothing was done, or nobody knows
// (*lockstore.UnknownOutcomeError).
func (s *Store) Exchange(ctx context.Context, x Exchange) (ExchangeResult, error) {
	result, unshown, err := s.exchange(ctx, "release and acquire a batch of locks", x)
	for i := range result.Acquires {
		if unshown != nil && result.Acquires[i].Err == nil {
			result.Acquires[i] = lockstore.AcquireResult{Err: unshown}
		}
	}
	return result, err
}

// exchange is Exchange; unshown says why its grants are shown to nobody, and were
// given back.
func (s *Store) exchange(ctx context.Context, doing string, x Exchange) (result ExchangeResult, unshown, err error) {
	e := &exchange{
		store: s, doing: doing, Exchange: x, wait: batchLockTimeout,
		result: ExchangeResult{Releases: make([]ReleaseResult, len(x.Releases)), Acquires: make([]lockstore.AcquireResult, len(x.Acquires))},
	}
	if err := e.prepare(); err != nil {
		return ExchangeResult{}, nil, err
	}
	conn, err := s.acquireConn(ctx, doing)
	if err != nil {
		return ExchangeResult{}, nil, err
	}
	defer conn.Release()
	asked, err := e.admit(ctx, conn.Conn())
	if err != nil {
		return ExchangeResult{}, nil, err
	}
	if err := e.carryOut(ctx, conn.Conn()); err != nil {
		return ExchangeResult{}, nil, err
	}
	e.nameHolders(ctx, conn.Conn())
	conn.Release() // showing may have to give back through another
	return e.result, e.show(ctx, asked), nil
}

// exchange is one at work.
type exchange struct {
	Exchange

	store *Store
	// doing is what it does, for its errors.
	doing  string
	result ExchangeResult
	ids    []uuid.UUID
	steps  []exchangeStep
	// wait is how long it waits for a lock: once it has, it hardly waits any more.
	wait time.Duration
	// live are the sessions that the last run found and locked.
	live      map[uuid.UUID]bool
	deadlocks int
}

type exchangeKind int

// The kinds of a step, in the order in which those of one key are carried out.
const (
	stepLockKey exchangeKind = iota
	stepRelease
	stepAcquire
)

// exchangeStep is one statement; at is its place in Releases or Acquires. What
// becomes of a stepLockKey is its acquire's.
type exchangeStep struct {
	key  string
	kind exchangeKind
	at   int
}

// prepare checks every argument, so that nothing is sent of what is wrong in
// itself, and finds the order.
func (e *exchange) prepare() error {
	if n := max(len(e.Releases), len(e.Acquires)); n == 0 || n > lockstore.MaxBatch {
		return fmt.Errorf("%w: a batch of %d releases and %d acquires; give 1 to %d", lockstore.ErrInvalid, len(e.Releases), len(e.Acquires), lockstore.MaxBatch)
	}
	released, acquired := make(map[string]bool, len(e.Releases)), make(map[string]bool, len(e.Acquires))
	for i, ref := range e.Releases {
		if err := errors.Join(lockstore.LookupKey(ref.Key), lockstore.ValidToken(ref.Token), once(released, ref.Key)); err != nil {
			return err
		}
		e.steps = append(e.steps, exchangeStep{ref.Key, stepRelease, i})
	}
	e.ids = make([]uuid.UUID, len(e.Acquires))
	for i, p := range e.Acquires {
		id, err := sessionUUID(p.Session)
		if err := errors.Join(lockstore.ValidKey(p.Key), lockstore.ValidOwner(p.Owner), lockstore.ValidTTL(p.TTL), err, once(acquired, p.Key)); err != nil {
			return err
		}
		e.ids[i] = id
		e.steps = append(e.steps, exchangeStep{p.Key, stepAcquire, i})
		if released[p.Key] {
			e.steps = append(e.steps, exchangeStep{p.Key, stepLockKey, i})
		}
	}
	slices.SortFunc(e.steps, func(a, b exchangeStep) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.kind, b.kind)) })
	return nil
}

func once(seen map[string]bool, key string) error {
	if seen[key] {
		return fmt.Errorf("%w: key %q is twice in the batch; give it once", lockstore.ErrInvalid, key)
	}
	seen[key] = true
	return nil
}

// admit asks whether this connection may be asked for grants. Releases go on
// where it may not.
func (e *exchange) admit(ctx context.Context, conn *pgx.Conn) (asked lockstore.Token, err error) {
	if len(e.Acquires) == 0 {
		return 0, nil
	}
	asked, err = e.store.admit(ctx, conn, e.doing)
	if closed, ok := errors.AsType[*lockstore.GrantsClosedError](err); ok && len(e.Releases) > 0 {
		e.refuse(closed, func(int) bool { return true })
		return 0, nil
	}
	return asked, err
}

// carryOut tries until all that is left is done: all at once, and when that fails,
// one by one.
func (e *exchange) carryOut(ctx context.Context, conn *pgx.Conn) error {
	if done, err := e.bySets(ctx, conn); done || err != nil {
		return err
	}
	for len(e.steps) > 0 {
		e.result.Runs++
		failed, err := e.run(ctx, conn)
		switch {
		case err == nil:
			return nil
		case hasCode(err, pgerrcode.DeadlockDetected) && e.deadlocks < pgtx.DeadlockTries:
			e.deadlocks++
		case failed < 0:
			return e.store.classify(ctx, conn, e.doing, "", err)
		default:
			e.takeOut(ctx, conn, e.steps[failed], err)
		}
		if hasCode(err, pgerrcode.LockNotAvailable) {
			e.wait = laterLockTimeout
		}
	}
	return nil
}

// takeOut answers the step that failed, and with it those that would fail for the
// same reason, each of which would cost another run.
func (e *exchange) takeOut(ctx context.Context, conn *pgx.Conn, step exchangeStep, err error) {
	if step.kind == stepRelease {
		e.result.Releases[step.at].Err = e.store.classify(ctx, conn, fmt.Sprintf("release lock %q", step.key), step.key, err)
		e.steps = slices.DeleteFunc(e.steps, func(s exchangeStep) bool { return s == step })
		return
	}
	err = e.store.classify(ctx, conn, fmt.Sprintf("acquire lock %q", step.key), step.key, err)
	_, closed := errors.AsType[*lockstore.GrantsClosedError](err)
	dead := errors.Is(err, lockstore.ErrSessionLost)
	e.refuse(err, func(at int) bool { return at == step.at || closed || dead && !e.live[e.ids[at]] })
}

// refuse takes acquires out with an error.
func (e *exchange) refuse(err error, which func(at int) bool) {
	e.steps = slices.DeleteFunc(e.steps, func(s exchangeStep) bool {
		if s.kind == stepRelease || !which(s.at) {
			return false
		}
		e.result.Acquires[s.at].Err = err
		return true
	})
}

// run tries what is left. It returns the place in steps of the statement that
// failed, or -1 when the whole transaction did.
func (e *exchange) run(ctx context.Context, conn *pgx.Conn) (failed int, err error) {
	if pgtx.Direct(conn) {
		// Planned once instead of once a key.
		for _, sql := range []string{acquireQuery, releaseQuery, lockLiveSessionsQuery, pgtx.Settings} {
			if _, err := conn.Prepare(ctx, sql, sql); err != nil {
				return -1, &pgtx.UnsentError{Err: err}
			}
		}
	}
	sent := time.Now()
	failed, err = e.read(conn.SendBatch(ctx, e.queue()), sent)
	if err != nil && !conn.IsClosed() {
		pgtx.Rollback(ctx, conn)
	}
	return failed, err
}

func (e *exchange) queue() *pgx.Batch {
	queue := &pgx.Batch{}
	queue.Queue(pgtx.Begin)
	queue.Queue(pgtx.Settings, pgtx.Milliseconds(e.wait))
	queue.Queue(lockLiveSessionsQuery, e.sessions())
	for _, step := range e.steps {
		switch step.kind {
		case stepLockKey:
			queue.Queue(lockKeyQuery, step.key)
		case stepRelease:
			queue.Queue(releaseQuery, step.key, e.Releases[step.at].Token)
		case stepAcquire:
			p := e.Acquires[step.at]
			queue.Queue(acquireQuery, p.Key, p.Owner, [16]byte(e.ids[step.at]), p.TTL.Seconds())
		}
	}
	queue.Queue("COMMIT")
	return queue
}

// sessions are those of the acquires that are left.
func (e *exchange) sessions() []uuid.UUID {
	ids := []uuid.UUID{}
	for _, step := range e.steps {
		if step.kind == stepAcquire {
			ids = append(ids, e.ids[step.at])
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

func (e *exchange) read(answers pgx.BatchResults, sent time.Time) (failed int, err error) {
	defer func() {
		if closeErr := answers.Close(); err == nil && closeErr != nil {
			failed, err = -1, closeErr
		}
	}()
	for range 2 { // begin, settings
		if _, err := answers.Exec(); err != nil {
			return -1, err
		}
	}
	if err := e.readSessions(answers); err != nil {
		return -1, err
	}
	for place, step := range e.steps {
		if err := e.readStep(answers, step, sent); err != nil {
			// A server that goes away says so too, and it is about all of them.
			if refusal, refused := errors.AsType[*pgconn.PgError](err); !refused || refusal.SeverityUnlocalized != "ERROR" {
				return -1, err
			}
			return place, err
		}
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return -1, err
}

func (e *exchange) readSessions(answers pgx.BatchResults) error {
	rows, err := answers.Query()
	if err != nil {
		return err
	}
	e.live = make(map[uuid.UUID]bool, len(e.Acquires))
	return scanRows(rows, func() error {
		var id pgtype.UUID
		err := rows.Scan(&id)
		e.live[id.Bytes] = true
		return err
	})
}

func (e *exchange) readStep(answers pgx.BatchResults, step exchangeStep, sent time.Time) error {
	if step.kind == stepLockKey {
		_, err := answers.Exec()
		return err
	}
	if step.kind == stepRelease {
		tag, err := answers.Exec()
		ref := e.Releases[step.at]
		e.result.Releases[step.at].Release = lockstore.Release{Key: ref.Key, Token: ref.Token, Stale: tag.RowsAffected() == 0}
		return err
	}
	rows, err := answers.Query()
	if err != nil {
		return err
	}
	p := e.Acquires[step.at]
	result := lockstore.AcquireResult{Err: &lockstore.HeldError{Key: p.Key}}
	err = scanRows(rows, func() error {
		grant := lockstore.Grant{Key: p.Key, Session: p.Session, TTL: p.TTL, Sent: sent}
		var session pgtype.UUID
		err := rows.Scan(&grant.Token, &grant.Owner, &session, timeTo(&grant.AcquiredAt), timeTo(&grant.ExpiresAt))
		result = lockstore.AcquireResult{Grant: grant}
		return err
	})
	e.result.Acquires[step.at] = result
	return err
}

// nameHolders says who holds the keys that were contended. One that was let go
// since has nobody to name, and the caller was refused all the same; so is one
// whose holder cannot be read.
func (e *exchange) nameHolders(ctx context.Context, conn *pgx.Conn) {
	held := map[string]*lockstore.HeldError{}
	for _, result := range e.result.Acquires {
		if h, ok := result.Err.(*lockstore.HeldError); ok { //nolint:errorlint // it was made here, bare
			held[h.Key] = h
		}
	}
	if len(held) == 0 {
		return
	}
	keys := make([]string, 0, len(held))
	for key := range held {
		keys = append(keys, key)
	}
	rows, err := conn.Query(ctx, lookQuery, keys)
	if err != nil {
		return
	}
	entries, err := collectLook(rows)
	if err != nil {
		return
	}
	for key, entry := range entries {
		if h := held[key]; !entry.Expired {
			h.Owner, h.Token, h.ExpiresAt, h.Remaining = entry.Owner, entry.Token, entry.ExpiresAt, entry.Remaining
		}
	}
}

// show notes the tokens whose commit has answered, or gives their grants back and
// says why they are shown to nobody. The releases stand either way.
func (e *exchange) show(ctx context.Context, asked lockstore.Token) error {
	var refs []lockstore.GrantRef
	lowest, highest := lockstore.MaxToken, lockstore.Token(0)
	for _, result := range e.result.Acquires {
		if result.Err == nil {
			refs = append(refs, lockstore.GrantRef{Key: result.Grant.Key, Token: result.Grant.Token})
			lowest, highest = min(lowest, result.Grant.Token), max(highest, result.Grant.Token)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return e.store.show(ctx, e.doing, asked, lowest, highest, func() []lockstore.GrantRef { return refs })
}
