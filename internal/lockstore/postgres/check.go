package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
	"github.com/dlockctl/dlockctl/migrations"
)

// The versions of lockdb's schema that this package works with.
const (
	MinSchema = 14
	MaxSchema = 14
)

// Guards are the triggers without which nothing is granted, as table.trigger.
// All must be ENABLE ALWAYS: a trigger that the replica role skips guards
// nothing against an apply worker or a restore (K-1.1).
func Guards() []string {
	return []string{
		"lock_entry.lock_entry_gate",
		"lock_entry.lock_entry_order",
		"lock_entry.lock_entry_guard",
		"lock_entry.lock_grant_begin",
		"lock_entry.lock_grant_move",
		"lock_entry.lock_grant_end",
		"lock_session.lock_session_guard",
		"lock_revocation.lock_revocation_append_only",
	}
}

// check refuses a database in which the contract does not hold for the
// purpose, on one connection.
func (s *Store) check(ctx context.Context, opts Options) error {
	conn, err := s.acquireConn(ctx, "connect to lockdb")
	if err != nil {
		return err
	}
	defer conn.Release()
	q := oneTrip{Conn: conn.Conn()}
	facts, err := instance.Read(ctx, q)
	if err != nil {
		return &lockstore.UnreachableError{Doing: "open lockdb", Err: err}
	}
	if err := facts.CheckVersion(); err != nil {
		return fmt.Errorf("open lockdb: %w", err)
	}
	if facts.InRecovery {
		return fmt.Errorf("open lockdb: %w", lockstore.ErrNotPrimary)
	}
	checks := []func() error{func() error { return checkSchema(ctx, q) }}
	if opts.Purpose >= Changing && !opts.AllowSameInstance {
		checks = append(checks, func() error { return checkSeparate(ctx, q, facts, opts.PeerConfig) })
	}
	if opts.Purpose >= Changing {
		checks = append(checks, func() error { return instance.CheckEnvironment(ctx, q, "lockdb", opts.Environment) })
	}
	if opts.Purpose >= Granting {
		checks = append(checks,
			func() error { return checkGuards(ctx, q) },
			func() error { return checkSequence(ctx, q) },
			func() error { return checkGate(ctx, conn.Conn()) },
			func() error { return s.checkSetBack(ctx, conn.Conn()) })
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// oneTrip asks each question in one round trip.
type oneTrip = pgtx.OneTrip

// lockdbFiles are the migrations that this program knows, read once.
var lockdbFiles = sync.OnceValues(func() (*flyway.Catalogue, error) {
	return flyway.Load(flyway.Location{FS: migrations.FS, Dir: "lockdb"})
})

// checkSchema compares the migration history with the files that this program
// knows: a version outside its range, then anything edited, missing or half-done.
func checkSchema(ctx context.Context, q oneTrip) error {
	var locks, pays bool
	if err := q.QueryRow(ctx, checkTablesQuery).Scan(&locks, &pays); err != nil {
		return fmt.Errorf("open lockdb: %w", err)
	}
	wrong := &lockstore.SchemaError{Min: MinSchema, Max: MaxSchema, IsPaydb: pays && !locks}
	if wrong.IsPaydb {
		return wrong
	}
	files, err := lockdbFiles()
	if err != nil {
		return fmt.Errorf("read the migrations of lockdb: %w", err)
	}
	rows, findings, err := flyway.Compare(ctx, q, files, "")
	if err != nil {
		return fmt.Errorf("open lockdb: %w", err)
	}
	// What is pending or from the future is a matter of the range alone.
	findings = slices.DeleteFunc(findings, func(f flyway.Finding) bool {
		return f.Severity != flyway.SeverityError || f.Kind == flyway.KindPending || f.Kind == flyway.KindUnmanaged
	})
	if len(findings) > 0 {
		return fmt.Errorf("open lockdb: %w", &flyway.HistoryError{Table: flyway.TableName, Findings: findings})
	}
	if wrong.Have, _ = flyway.CurrentVersion(rows); wrong.Have < MinSchema || wrong.Have > MaxSchema {
		return wrong
	}
	return nil
}

// checkSeparate refuses locks and money on one instance (K-6.1). It compares
// what `migrate up` recorded, and asks paydb itself where its address is known and
// it answers.
func checkSeparate(ctx context.Context, q oneTrip, facts instance.Facts, peer *pgx.ConnConfig) error {
	recorded, known, err := instance.Peer(ctx, q)
	switch {
	case err != nil:
		return fmt.Errorf("open lockdb: %w", err)
	case known && recorded == facts.SystemIdentifier:
		return lockstore.ErrSameInstance
	case !known && peer == nil:
		return &lockstore.UnsafeError{
			Clause:  "K-6.1",
			Problem: "lockdb does not know the instance of its paydb, so nothing shows that the two are separate",
			Fix:     "run dlockctl migrate up --target all with both databases configured, or set allow_same_instance for a deployment without payments",
		}
	case peer == nil:
		return nil
	}
	payFacts, err := instance.ReadAt(ctx, peer)
	if err != nil && known {
		// paydb is down, and what was recorded of it shows that it is elsewhere:
		// its failures are not this database's (K-6.2).
		return nil
	}
	if err != nil {
		return &lockstore.UnreachableError{Doing: "ask paydb whether it is another instance", Err: err}
	}
	if payFacts.SystemIdentifier == facts.SystemIdentifier {
		return lockstore.ErrSameInstance
	}
	return nil
}

// checkGuards refuses to grant without the triggers that order tokens (K-1.1).
func checkGuards(ctx context.Context, q oneTrip) error {
	rows, err := q.Query(ctx, checkTriggersQuery)
	if err != nil {
		return fmt.Errorf("read the guards of lockdb: %w", err)
	}
	enabled, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read the guards of lockdb: %w", err)
	}
	for _, guard := range Guards() {
		if slices.Contains(enabled, guard) {
			continue
		}
		table, trigger, _ := strings.Cut(guard, ".")
		return &lockstore.UnsafeError{
			Clause:  "K-1.1",
			Problem: fmt.Sprintf("trigger %s on %s is missing or not ENABLE ALWAYS: tokens could be granted out of order", trigger, table),
			Fix:     fmt.Sprintf("run as its owner: ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", table, trigger),
		}
	}
	return nil
}

// checkSequence refuses a token source that can repeat or reorder (K-1.5).
func checkSequence(ctx context.Context, q oneTrip) error {
	var cache, increment int64
	var cycle bool
	var kind, persistence string
	if err := q.QueryRow(ctx, checkSequenceQuery).Scan(&cache, &cycle, &increment, &kind, &persistence); err != nil {
		return fmt.Errorf("read the token sequence of lockdb: %w", err)
	}
	for _, wrong := range []struct {
		is           bool
		problem, fix string
	}{
		{cache != 1, fmt.Sprintf("fencing_token_seq has CACHE %d: connections grant from blocks of their own, out of order", cache), "CACHE 1"},
		{cycle, "fencing_token_seq is CYCLE: it would issue tokens again", "NO CYCLE"},
		{increment != 1, fmt.Sprintf("fencing_token_seq has INCREMENT %d", increment), "INCREMENT BY 1"},
		{kind != "bigint", fmt.Sprintf("fencing_token_seq is of type %s: it runs out", kind), "AS bigint"},
		{persistence != "p", "fencing_token_seq is not logged: a crash restarts it at 1", "SET LOGGED"},
	} {
		if wrong.is {
			return &lockstore.UnsafeError{Clause: "K-1.5", Problem: wrong.problem, Fix: "run as its owner: ALTER SEQUENCE fencing_token_seq " + wrong.fix}
		}
	}
	return nil
}

// checkSetBack asks what the gate cannot know (K-7.6).
func (s *Store) checkSetBack(ctx context.Context, conn *pgx.Conn) error {
	_, err := s.admit(ctx, conn, "open lockdb")
	return err
}

// checkGate asks the gate what the next grant would be told (K-7.4, K-7.6).
func checkGate(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.PgConn().Exec(ctx, pgtx.Begin+"; "+checkGateQuery+"; COMMIT").ReadAll()
	if err != nil && !conn.IsClosed() {
		pgtx.Rollback(ctx, conn)
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == pgerrcode.ObjectNotInPrerequisiteState && pgErr.ConstraintName == "lock_gate" {
		return &lockstore.GrantsClosedError{Reason: pgErr.Message, Hint: pgErr.Hint}
	}
	if err != nil {
		return fmt.Errorf("look at the gate of lockdb: %w", err)
	}
	return nil
}
