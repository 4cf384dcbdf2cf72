package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
)

const (
	// cancelGrace is how long a cancelled query may take to say so before its
	// connection is given up: a run that is interrupted ends within a second.
	cancelGrace = 500 * time.Millisecond
	// joinLimit bounds how long a further worker may take to join a snapshot. A full
	// pooler makes it wait for ever.
	joinLimit = 10 * time.Second
)

// snapshot is one state of one database, read by one connection or by several.
type snapshot struct {
	database string
	config   *pgx.ConnConfig
	facts    Snapshot
	// history is what was applied, unread why it could not be read.
	history []flyway.Row
	unread  error
	// sessions are free connections, each in a transaction that sees the state.
	sessions chan *session
	all      []*session
	// lost is why the last renew failed, which may have left none.
	lost error
	// alone says why it has fewer connections than asked for.
	alone string
}

type session struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// readOnly is how every transaction of a run begins (K-8.1, K-8.5).
var readOnly = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// takeSnapshot begins a snapshot and lets further connections join it.
func takeSnapshot(ctx context.Context, database string, config *pgx.ConnConfig, workers int, until time.Time) (*snapshot, error) {
	s := &snapshot{database: database, config: config}
	first, err := begin(ctx, config, "", until)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", database, err)
	}
	s.all = append(s.all, first)
	if s.facts, err = readFacts(ctx, first.tx); err != nil {
		s.close(ctx)
		return nil, fmt.Errorf("read %s: %w", database, err)
	}
	if workers > 1 {
		if err := s.join(ctx, workers, until); err != nil {
			s.close(ctx)
			return nil, err
		}
	}
	s.sessions = make(chan *session, len(s.all))
	for _, one := range s.all {
		s.sessions <- one
	}
	return s, nil
}

// join lets further connections see what the first one sees. A pooler may refuse
// them, or lead them to another server: then the run goes on with those it has.
func (s *snapshot) join(ctx context.Context, workers int, until time.Time) error {
	id, err := s.export(ctx)
	if err != nil {
		return err
	}
	for len(s.all) < workers {
		joining, cancel := context.WithTimeout(ctx, joinLimit)
		one, err := begin(joining, s.config, id, until)
		cancel()
		switch {
		case err == nil:
			s.all = append(s.all, one)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			s.alone = fmt.Sprintf("%s let only %d of %d connections share its snapshot, which each need one of their own: %v",
				s.database, len(s.all), workers, err)
			return nil
		}
	}
	return nil
}

// export names the snapshot of the first connection, for others to join.
func (s *snapshot) export(ctx context.Context) (id string, err error) {
	if err := s.all[0].tx.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&id); err != nil {
		return "", fmt.Errorf("export the snapshot of %s: %w", s.database, err)
	}
	return id, nil
}

// begin connects and begins a transaction, in the exported snapshot if id names one.
func begin(ctx context.Context, config *pgx.ConnConfig, id string, until time.Time) (*session, error) {
	conn, err := pgx.ConnectConfig(ctx, forReading(config))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names host, user and database
	}
	one := &session{conn: conn}
	if err := one.begin(ctx, id, until); err != nil {
		closeConn(ctx, conn)
		return nil, err
	}
	return one, nil
}

func (s *session) begin(ctx context.Context, id string, until time.Time) (err error) {
	if s.tx, err = s.conn.BeginTx(ctx, readOnly); err == nil {
		_, err = s.tx.Exec(ctx, settings(id, until))
	}
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	return nil
}

// again begins a new transaction in the place of the old one, or closes the connection:
// without a transaction it serves nobody.
func (s *session) again(ctx context.Context, id string, until time.Time) error {
	err := s.tx.Rollback(ctx)
	if err != nil {
		err = fmt.Errorf("end a snapshot: %w", err)
	} else {
		err = s.begin(ctx, id, until)
	}
	if err != nil {
		closeConn(ctx, s.conn)
	}
	return err
}

// forReading leaves the caller's configuration as it is.
func forReading(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	// Nothing is prepared by name: a transaction pooler would know it elsewhere only.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	// Or the server would go on with a query that nobody waits for.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelGrace}
	}
	return config
}

// forScans are for a few long queries: compiling each costs more than it gains, and the
// usual work_mem, which is meant for many short ones, sends every join to the disk.
const forScans = "SET LOCAL jit = off; SELECT set_config('work_mem', '32MB', true) WHERE pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('32MB')"

// settings are for this transaction only, so that a pooler may keep its connection.
func settings(id string, until time.Time) string {
	var sql strings.Builder
	if id != "" {
		fmt.Fprintf(&sql, "SET TRANSACTION SNAPSHOT '%s';", strings.ReplaceAll(id, "'", "''"))
	}
	left := max(time.Until(until), time.Millisecond).Milliseconds()
	// A policy that hides a row is an error, not a smaller ledger. A snapshot holds
	// vacuum back, and a worker waits for others while it does: both end by the run's
	// own limit.
	fmt.Fprintf(&sql, "SET LOCAL row_security = off; SET LOCAL statement_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d;", left, left)
	sql.WriteString(forScans)
	return sql.String()
}

func readFacts(ctx context.Context, tx pgx.Tx) (Snapshot, error) {
	facts, err := instance.Read(ctx, tx)
	if err == nil {
		err = facts.CheckVersion()
	}
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{
		SystemIdentifier: facts.SystemIdentifier, SystemIdentifierStr: strconv.FormatInt(facts.SystemIdentifier, 10),
		Timeline: facts.Timeline, Standby: facts.InRecovery,
	}
	if err := tx.QueryRow(ctx, stateQuery).Scan(&s.At, &s.Xmin, &s.LSN, &s.LagMS, &s.Database); err != nil {
		return Snapshot{}, fmt.Errorf("read the state of the server: %w", err)
	}
	s.At = s.At.UTC()
	return s, nil
}

// behind says how far a standby was behind, "" for a primary.
func (s *snapshot) behind() string {
	lag := time.Duration(s.facts.LagMS) * time.Millisecond
	switch {
	case !s.facts.Standby:
		return ""
	case lag <= 0:
		return s.database + " was read from a standby that has replayed no transaction since its start: how far behind it is cannot be known"
	}
	return fmt.Sprintf("%s was read from a standby, at most %s behind its primary", s.database, lag)
}

// readHistory reads which schema the snapshot shows; D07 and D09 tell that it cannot be
// read.
func (s *snapshot) readHistory(ctx context.Context) {
	s.history, s.unread = s.applied(ctx)
	s.facts.Schema, _ = flyway.CurrentVersion(s.history)
}

// applied is the schema history.
func (s *snapshot) applied(ctx context.Context) (rows []flyway.Row, err error) {
	err = s.with(ctx, func(tx pgx.Tx) (err error) {
		rows, err = flyway.Applied(ctx, tx, "")
		return err
	})
	return rows, err
}

// with lends a free connection; an error leaves the snapshot to others.
func (s *snapshot) with(ctx context.Context, do func(pgx.Tx) error) error {
	one, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer s.give(one)
	return one.apart(ctx, do)
}

// take waits for a free connection. Where none is left nobody would ever give one back.
func (s *snapshot) take(ctx context.Context) (*session, error) {
	if len(s.all) == 0 {
		return nil, fmt.Errorf("no connection to %s is left: %w", s.database, s.lost)
	}
	select {
	case one := <-s.sessions:
		return one, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *snapshot) give(one *session) { s.sessions <- one }

// apart runs do under a savepoint: an error in it leaves the snapshot to others.
func (s *session) apart(ctx context.Context, do func(pgx.Tx) error) error {
	inner, err := s.tx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("set a savepoint: %w", err)
	}
	err = do(inner)
	if err == nil {
		err = inner.Commit(ctx)
	} else if back := inner.Rollback(ctx); back != nil {
		err = errors.Join(err, back)
	}
	return err
}

// renew lets the snapshot show what is true now, on those of its connections that can
// join it: the second look needs no new one, which a pooler may not have. The facts
// stay those of the first. Nobody may be reading.
func (s *snapshot) renew(ctx context.Context, until time.Time) error {
	for range len(s.all) {
		<-s.sessions
	}
	s.dropClosed()
	s.lost = s.beginAgain(ctx, until)
	s.dropClosed()
	for _, one := range s.all {
		s.sessions <- one
	}
	if s.lost != nil {
		return fmt.Errorf("read %s again: %w", s.database, s.lost)
	}
	return nil
}

func (s *snapshot) dropClosed() {
	s.all = slices.DeleteFunc(s.all, func(one *session) bool { return one.conn.IsClosed() })
}

func (s *snapshot) beginAgain(ctx context.Context, until time.Time) error {
	if len(s.all) == 0 {
		one, err := begin(ctx, s.config, "", until)
		if err == nil {
			s.all = []*session{one}
		}
		return err
	}
	if err := s.all[0].again(ctx, "", until); err != nil || len(s.all) == 1 {
		return err
	}
	id, err := s.export(ctx)
	if err != nil {
		return err
	}
	for _, one := range s.all[1:] {
		joining, cancel := context.WithTimeout(ctx, joinLimit)
		_ = one.again(joining, id, until) // the others go on without it
		cancel()
	}
	return nil
}

// close ends the snapshot; there may be none.
func (s *snapshot) close(ctx context.Context) {
	if s == nil {
		return
	}
	for _, one := range s.all {
		closeConn(ctx, one.conn)
	}
}

// closeConn ends the connection and its transaction, also after a cancellation.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	_ = conn.Close(ctx) // it only read
}
