package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
)

const (
	// connectTimeout bounds one connection attempt: a black-holed host must end
	// in a finding, not in a hang.
	connectTimeout = 5 * time.Second
	// closeTimeout bounds what is still said to a server when the caller is gone.
	closeTimeout = 2 * time.Second
)

// limits keep a look from hanging behind somebody's ACCESS EXCLUSIVE lock.
const limits = `SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = 0`

// Target is what is looked at.
type Target struct {
	// Lock and Pay are where the databases are. One that is nil is not
	// configured, and its checks are unknown.
	Lock, Pay *pgx.ConnConfig
	// Etcd is the cluster that keeps the locks in place of lockdb, nil where lockdb does.
	Etcd *Cluster
	// SyncGuard is nil unless its tables keep the locks; then nothing else is looked at.
	SyncGuard *SyncGuardTarget
	// AllowSameInstance makes one instance for both a warning.
	AllowSameInstance bool
	// MarkDir is the folder of the outside mark, "" where none is configured.
	MarkDir string
	// Services are those that the configuration names.
	Services []Service
	// Embedded: the databases are those of `dlockctl dev up`.
	Embedded bool
}

// exam is one run.
type exam struct {
	target    Target
	lock, pay *side
	// guard is nil unless SyncGuard's tables keep the locks.
	guard *side
	// etcd is nil unless a cluster keeps the locks.
	etcd etcdHealth
}

// sides are the databases that the checks are about.
func (e *exam) sides() []*side {
	if e.guard != nil {
		return []*side{e.guard}
	}
	return []*side{e.lock, e.pay}
}

// side is one database and the connection to it.
type side struct {
	name   string
	config *pgx.ConnConfig
	conn   *pgx.Conn
	tx     pgx.Tx
	// err is why there is no transaction.
	err error
	// pooled is a *flyway.PoolerError behind a transaction pooler, nil without,
	// and another error when that could not be found out.
	pooled error

	// identity names the database, "" where it could not be asked.
	identity string
	facts    instance.Facts
	factsErr error
	clock    clock
	// login, database and schema are quoted where SQL needs it.
	login, database, schema string
	// migrated reads what the migrations make, once.
	migrated func() (schema, error)
}

// Run looks at every check. The error is the context's own, when it ended
// before the last check; what was seen until then is reported all the same.
func Run(ctx context.Context, target Target) (Report, error) {
	e := &exam{target: target, lock: newSide(LockDB, target.Lock), pay: newSide(PayDB, target.Pay)}
	if target.Etcd != nil {
		e.etcd = newEtcdHealth(target.Etcd)
	}
	if target.SyncGuard != nil {
		e.guard = newSide(SyncGuard, target.SyncGuard.Config)
	}
	var all sync.WaitGroup
	for _, s := range e.sides() {
		all.Go(func() { s.open(ctx) })
		defer s.close(ctx)
	}
	all.Wait()

	checks := checksFor(target)
	if target.SyncGuard != nil {
		checks = SyncGuardChecks()
	}
	results := make([]Result, 0, len(checks))
	for _, c := range checks {
		found, err := c.look(ctx, e)
		if err != nil {
			found = finding{status: Unknown, saw: "could not be read: " + plain(err)}
		}
		results = append(results, Result{
			ID: c.ID, Clause: c.Clause, Severity: c.Severity, Database: c.Database, Title: c.Title,
			Status: found.status, Saw: found.saw, Meaning: c.Meaning, Fix: found.fix,
		})
	}
	reached := []string{}
	for _, s := range e.sides() {
		if s.tx != nil {
			reached = append(reached, s.name)
		}
	}
	if e.etcd != nil {
		if h, err := e.etcd(ctx); err == nil && h.Answers() == nil {
			reached = append(reached, EtcdDB)
		}
	}
	return newReport(results, reached), context.Cause(ctx)
}

func newSide(name string, config *pgx.ConnConfig) *side {
	if config == nil {
		return &side{name: name, err: errNotConfigured} // nothing is looked at
	}
	config = config.Copy()
	// Nothing is left prepared in a server's session, which a pooler may hand to
	// somebody else (K-12.3).
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "dlockctl doctor"
	}
	return &side{name: name, config: config, migrated: sync.OnceValues(func() (schema, error) { return readSchema(name) })}
}

var errNotConfigured = errors.New("not configured")

// open connects, and begins the transaction in which everything is read.
func (s *side) open(ctx context.Context) {
	if s.config == nil {
		return
	}
	if s.conn, s.err = pgx.ConnectConfig(ctx, s.config); s.err != nil {
		return
	}
	// Before the transaction, which would hold on to one of the pooler's backends.
	s.pooled = flyway.FindPooler(ctx, s.conn, s.config)
	tx, err := s.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		s.err = fmt.Errorf("begin: %w", err)
		return
	}
	if _, err := tx.Exec(ctx, limits, pgx.QueryExecModeSimpleProtocol); err != nil {
		s.err = fmt.Errorf("begin: %w", err)
		return
	}
	err = tx.QueryRow(ctx, `SELECT quote_ident(session_user), quote_ident(current_database()), coalesce(quote_ident(current_schema()), '')`).Scan(&s.login, &s.database, &s.schema)
	if err != nil {
		s.err = fmt.Errorf("ask who is logged in: %w", err)
		return
	}
	s.tx = tx
	s.factsErr = s.read(ctx, func(tx pgx.Tx) (err error) {
		if s.facts, err = instance.Read(ctx, tx); err == nil {
			s.identity, err = instance.Identity(ctx, tx)
		}
		return err
	})
	s.clock = s.readClock(ctx)
}

func (s *side) close(ctx context.Context) {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx) // it was read only: there is nothing to lose
}

// read runs fn behind a savepoint: what one check may not read is no matter of
// the next one.
func (s *side) read(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.tx, fn)
}

// eachRow runs a query and calls fn after each of its rows was read into the
// variables.
func eachRow(ctx context.Context, tx pgx.Tx, sql string, args, into []any, fn func() error) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, into, fn); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// on makes a look at one database. What keeps it from being read is unknown,
// with what to do about it.
func on(name string, look func(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error)) func(context.Context, *exam) (finding, error) {
	return func(ctx context.Context, e *exam) (finding, error) {
		s := e.side(name)
		if s.tx == nil {
			return e.unread(s), nil
		}
		var found finding
		err := s.read(ctx, func(tx pgx.Tx) (err error) {
			found, err = look(ctx, e, s, tx)
			return err
		})
		if err != nil {
			return finding{Unknown, "could not be read: " + plain(err), s.remedy(err)}, nil
		}
		return found, nil
	}
}

func (e *exam) side(name string) *side {
	switch name {
	case PayDB:
		return e.pay
	case SyncGuard:
		return e.guard
	default:
		return e.lock
	}
}

// unread is the outcome of every look at a database that does not answer.
func (e *exam) unread(s *side) finding {
	if errors.Is(s.err, errNotConfigured) {
		return finding{Unknown, s.name + " is not configured", advice(e.configure(s))}
	}
	return finding{Unknown, s.name + " does not answer", advice("see " + s.name + "_reachable")}
}

func (e *exam) configure(s *side) string {
	flag, variable := "--lock-dsn-file FILE", "DLOCKCTL_LOCK_DSN"
	if s.name == PayDB {
		flag, variable = "--pay-dsn-file FILE", "DLOCKCTL_PAY_DSN"
	}
	return fmt.Sprintf("say where %s is: %s or %s; on a laptop, run dlockctl dev up", s.name, flag, variable)
}

// remedy is the fix of what could not be read, where there is one.
func (s *side) remedy(err error) *Fix {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return nil
	}
	switch {
	case s.name == SyncGuard && pgErr.Code == pgerrcode.InsufficientPrivilege:
		return advice("give the login SELECT on SyncGuard's tables, or use that of the application")
	case s.name == SyncGuard && pgErr.Code == pgerrcode.UndefinedTable:
		return command(guardMigrate)
	}
	switch pgErr.Code {
	case pgerrcode.InsufficientPrivilege:
		return s.sql(Superuser, "GRANT dlock_auditor TO "+s.login)
	case pgerrcode.UndefinedTable, pgerrcode.UndefinedObject, pgerrcode.UndefinedFunction, pgerrcode.UndefinedColumn:
		return command(migrateUp)
	}
	return nil
}

const migrateUp = "dlockctl migrate up --target all"

// sql is a fix of statements, which may be run as one transaction.
func (s *side) sql(as string, statements ...string) *Fix {
	return &Fix{Run: strings.Join(statements, ";\n"), On: s.name, As: as}
}

// ident quotes a name that no server has quoted: quote_ident knows its keywords.
func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// plain is an error as one line, without what a person cannot use.
func plain(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Message
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
