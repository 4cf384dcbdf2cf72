package flyway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// runTransactional executes the file and writes its row in tx, which already holds
// the lock, and commits: all of it or nothing. It always ends tx.
func (m *Migrator) runTransactional(ctx context.Context, tx pgx.Tx, mig *Migration, rank int32) (time.Duration, error) {
	defer m.rollback(ctx, tx)
	start := m.started(mig)
	var before string
	if err := tx.QueryRow(ctx, currentTransaction).Scan(&before); err != nil {
		return 0, m.failed(mig, err)
	}
	err := m.execute(ctx, mig)
	elapsed := time.Since(start)
	if m.escaped(ctx, before, err) {
		m.rollback(ctx, tx) // whatever transaction it left open
		return 0, m.dirty(ctx, mig, rank, elapsed, errors.Join(errEscaped, err))
	}
	if err != nil {
		return 0, m.failed(mig, err)
	}
	// The file may have changed role or path; the row is written as Flyway would write it.
	if err := m.setUp(ctx, tx, true); err != nil {
		return 0, m.failed(mig, err)
	}
	if err := m.table.insert(ctx, tx, mig.row(rank, elapsed, true)); err != nil {
		return 0, m.failed(mig, err)
	}
	if err := tx.Commit(ctx); err != nil {
		if err = m.settle(ctx, mig, rank, err); err != nil {
			return 0, m.failed(mig, err)
		}
	}
	m.opts.Progress(Event{Kind: EventApplied, Script: mig.Script, Version: mig.Version, Elapsed: elapsed})
	return elapsed, nil
}

const currentTransaction = `SELECT pg_current_xact_id()::text`

var errEscaped = errors.New("the file ended the transaction it ran in: what stands before that is committed")

// escaped tells whether the file that just ran, and failed with err or not, got
// out of the transaction that began as before. The scanner refuses such files; what
// it overlooks must not be called "nothing was applied".
func (m *Migrator) escaped(ctx context.Context, before string, err error) bool {
	if m.conn.IsClosed() {
		return false
	}
	status := m.conn.PgConn().TxStatus()
	if err != nil || status != 'T' {
		return status == 'I'
	}
	var now string
	scanErr := m.conn.QueryRow(ctx, currentTransaction).Scan(&now)
	return scanErr == nil && now != before
}

// settle finds out what became of a COMMIT that returned err. An answer of the server is
// final. Without one the lock tells: once it can be had, the old transaction has
// ended, and its row is there or never will be.
func (m *Migrator) settle(ctx context.Context, mig *Migration, rank int32, commitErr error) error {
	if _, ok := errors.AsType[*pgconn.PgError](commitErr); ok || errors.Is(commitErr, pgx.ErrTxCommitRollback) {
		return commitErr
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.LockTimeout+cleanupTimeout)
	defer cancel()
	unknown := func(err error) error {
		return &UnknownOutcomeError{Script: mig.Script, Err: errors.Join(commitErr, err)}
	}
	_ = m.conn.Close(ctx) // it is broken; what matters is that its backend learns of it
	if err := m.connect(ctx); err != nil {
		return unknown(err)
	}
	tx, err := m.acquire(ctx)
	if err != nil {
		return unknown(err)
	}
	defer m.rollback(ctx, tx)
	if err := m.setUp(ctx, tx, true); err != nil {
		return unknown(err)
	}
	rows, err := m.table.rows(ctx, tx)
	if err != nil {
		return unknown(err)
	}
	for _, row := range rows {
		if row.InstalledRank == rank && row.Script == mig.Script && row.Success {
			return nil
		}
	}
	return fmt.Errorf("the connection was lost before the commit took place: %w", commitErr)
}

// runAlone executes a file that cannot run in a transaction, under the session's
// lock. Its row says how it ended; a failed one is what Flyway would write.
func (m *Migrator) runAlone(ctx context.Context, mig *Migration, rank int32) (time.Duration, error) {
	start := m.started(mig)
	if err := m.setUp(ctx, m.conn, false); err != nil {
		return 0, m.failed(mig, err)
	}
	err := m.execute(ctx, mig)
	if err == nil {
		err = m.checkIndexes(ctx, mig)
	}
	elapsed := time.Since(start)
	if err != nil {
		return 0, m.dirty(ctx, mig, rank, elapsed, err)
	}
	if err := m.record(ctx, mig.row(rank, elapsed, true)); err != nil {
		return 0, m.failed(mig, &UnknownOutcomeError{Script: mig.Script, Err: fmt.Errorf("it ran, but its row could not be written: %w", err)})
	}
	m.opts.Progress(Event{Kind: EventApplied, Script: mig.Script, Version: mig.Version, Elapsed: elapsed})
	return elapsed, nil
}

// dirty records a failure outside a transaction and says what it left behind.
func (m *Migrator) dirty(ctx context.Context, mig *Migration, rank int32, elapsed time.Duration, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.LockTimeout+cleanupTimeout)
	defer cancel()
	lost := m.conn.IsClosed()
	if lost {
		// The server may still be at work; its backend holds the lock until it has stopped.
		if err := m.relock(ctx); err != nil {
			return m.failed(mig, &UnknownOutcomeError{Script: mig.Script, Err: errors.Join(cause, err)})
		}
	}
	if err := m.record(ctx, mig.row(rank, elapsed, false)); err != nil {
		return m.failed(mig, &UnknownOutcomeError{Script: mig.Script, Err: errors.Join(cause, err)})
	}
	err := m.failed(mig, cause)
	if failure, ok := errors.AsType[*MigrationError](err); ok {
		failure.Dirty = true
		invalid, readErr := m.invalidIndexes(ctx, mig)
		switch {
		case readErr != nil:
			failure.Leftover = "whether an invalid index was left could not be read"
		case len(invalid) > 0:
			failure.Leftover = "invalid index left behind: DROP INDEX CONCURRENTLY " + strings.Join(invalid, ", ")
		}
	}
	return err
}

// relock replaces a lost connection by one whose session holds the lock.
func (m *Migrator) relock(ctx context.Context) error {
	if err := m.connect(ctx); err != nil {
		return err
	}
	tx, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	defer m.rollback(ctx, tx)
	return m.keepLock(ctx, tx)
}

// record writes the row of a non-transactional file in a statement of its own,
// under the role and path that the file may have changed.
func (m *Migrator) record(ctx context.Context, row Row) error {
	if err := m.reset(ctx); err != nil {
		return err
	}
	if err := m.setUp(ctx, m.conn, false); err != nil {
		return err
	}
	return m.table.insert(ctx, m.conn, row)
}

// execute sends the whole file at once, so that the server splits it, and gives
// errors their place in the file.
func (m *Migrator) execute(ctx context.Context, mig *Migration) error {
	m.running = mig.Script
	defer func() { m.running = "" }()
	results := m.conn.PgConn().Exec(ctx, mig.text)
	done := 0
	for results.NextResult() {
		if _, err := results.ResultReader().Close(); err == nil {
			done++
		}
	}
	if err := results.Close(); err != nil {
		return locate(mig, done, err)
	}
	return nil
}

// locate finds the line of an error: the position PostgreSQL gives, else the
// statement that was running, the one after the done ones.
func locate(mig *Migration, done int, err error) error {
	failure := &MigrationError{Script: mig.Script, Err: err}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && pgErr.Position > 0:
		failure.Line, failure.Column = place(mig.text, int(pgErr.Position))
	case ok && done < len(mig.statements):
		failure.Line = mig.statements[done].line
	}
	if failure.Line > 0 {
		failure.Statement = strings.TrimSpace(strings.Split(mig.text, "\n")[failure.Line-1])
	}
	return failure
}

// place turns PostgreSQL's position, counted in characters from 1, into line and column.
func place(text string, position int) (line, column int) {
	line, column = 1, 1
	for _, char := range text {
		if position--; position <= 0 {
			break
		}
		if column++; char == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}

func (m *Migrator) started(mig *Migration) time.Time {
	m.opts.Progress(Event{Kind: EventStarted, Script: mig.Script, Version: mig.Version})
	return time.Now()
}

// failed tells about the failure and makes sure that the error names the file.
func (m *Migrator) failed(mig *Migration, err error) error {
	_, placed := errors.AsType[*MigrationError](err)
	_, unknown := errors.AsType[*UnknownOutcomeError](err)
	if !placed && !unknown {
		err = &MigrationError{Script: mig.Script, Err: err}
	}
	m.opts.Progress(Event{Kind: EventFailed, Script: mig.Script, Version: mig.Version, Message: err.Error()})
	return err
}

// row is the file as the history stores it.
func (m *Migration) row(rank int32, elapsed time.Duration, success bool) Row {
	return Row{
		InstalledRank: rank, Version: m.Version, Description: m.Description, Type: typeSQL, Script: m.Script,
		Checksum: &m.Checksum, ExecutionTime: int32(elapsed.Milliseconds()), Success: success, //nolint:gosec // 24 days fit
	}
}
