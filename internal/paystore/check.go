package paystore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtx"
	"github.com/dlockctl/dlockctl/migrations"
)

// The versions of paydb's schema that this package works with.
const (
	MinSchema = 22
	MaxSchema = 22
)

// Guards are the triggers without which no money moves, as table.trigger. All
// must be ENABLE ALWAYS: a trigger that the replica role skips guards nothing
// against an apply worker or a restore (K-1.1).
func Guards() []string {
	return []string{
		"account.account_clearing_guard",
		"account.account_floor",
		"account.account_guard",
		"account.account_kept",
		"account_fence_raise.account_fence_raise_append_only",
		"clearing_account.clearing_account_append_only",
		"clearing_account.clearing_account_guard",
		"fence_floor.fence_floor_guard",
		"fence_floor.fence_floor_kept",
		"ledger_entry.ledger_entry_append_only",
		"ledger_entry.ledger_entry_guard",
		"ledger_entry.ledger_posting_guard",
		"opening_balance.opening_balance_append_only",
		"pay_gate.pay_gate_guard",
		"pay_gate.pay_gate_kept",
		"payout.payout_claim_order",
		"payout.payout_claim_record",
		"payout.payout_claim_record_new",
		"payout.payout_clearing_guard",
		"payout.payout_floor",
		"payout.payout_gate",
		"payout.payout_guard",
		"payout.payout_kept",
		"payout.payout_new_guard",
		"payout.payout_posting_guard",
		"payout.payout_rail_guard",
		"payout_claim.payout_claim_append_only",
		"payout_resolution.payout_resolution_append_only",
		"rail_high_water.rail_high_water_floor",
		"rail_high_water.rail_high_water_guard",
		"rail_high_water.rail_high_water_kept",
		"rail_submission.rail_submission_floor",
		"rail_submission.rail_submission_gate",
		"rail_submission.rail_submission_guard",
		"rail_submission.rail_submission_kept",
		"rail_submission.rail_submission_new_guard",
		"rail_submission.rail_submission_state",
	}
}

var (
	checkTablesQuery   = pgtx.Statement(queryFiles, "check_tables")
	checkTriggersQuery = pgtx.Statement(queryFiles, "check_triggers")
)

// check refuses a database in which the contract does not hold for the purpose,
// on one connection.
func (d *DB) check(ctx context.Context, opts Options) error {
	conn, err := d.acquire(ctx, "connect to paydb")
	if err != nil {
		return err
	}
	defer conn.Release()
	q := pgtx.OneTrip{Conn: conn.Conn()}
	facts, err := instance.Read(ctx, q)
	if err != nil {
		return &UnreachableError{Doing: "open paydb", Err: err}
	}
	if err := facts.CheckVersion(); err != nil {
		return fmt.Errorf("open paydb: %w", err)
	}
	if facts.InRecovery {
		return fmt.Errorf("open paydb: %w", ErrNotPrimary)
	}
	if err := checkSchema(ctx, q); err != nil {
		return err
	}
	if opts.Purpose < Changing {
		return nil
	}
	if !opts.AllowSameInstance {
		if err := checkSeparate(ctx, q, facts, opts.PeerConfig); err != nil {
			return err
		}
	}
	if err := instance.CheckEnvironment(ctx, q, "paydb", opts.Environment); err != nil {
		return err
	}
	return checkGuards(ctx, q)
}

// paydbFiles are the migrations that this program knows, read once. The seeds are
// among them, for a database that has them (K-9.4).
var paydbFiles = sync.OnceValues(func() (*flyway.Catalogue, error) {
	return flyway.Load(flyway.Location{FS: migrations.FS, Dir: "paydb"}, flyway.Location{FS: migrations.FS, Dir: "seed/paydb"})
})

// checkSchema compares the migration history with the files that this program
// knows: a version outside its range, then anything edited, missing or half-done.
func checkSchema(ctx context.Context, q pgtx.OneTrip) error {
	var pays, locks bool
	if err := q.QueryRow(ctx, checkTablesQuery).Scan(&pays, &locks); err != nil {
		return fmt.Errorf("open paydb: %w", err)
	}
	wrong := &SchemaError{Min: MinSchema, Max: MaxSchema, IsLockdb: locks && !pays}
	if wrong.IsLockdb {
		return wrong
	}
	files, err := paydbFiles()
	if err != nil {
		return fmt.Errorf("read the migrations of paydb: %w", err)
	}
	rows, findings, err := flyway.Compare(ctx, q, files, "")
	if err != nil {
		return fmt.Errorf("open paydb: %w", err)
	}
	// What is pending or from the future is a matter of the range alone.
	findings = slices.DeleteFunc(findings, func(f flyway.Finding) bool {
		return f.Severity != flyway.SeverityError || f.Kind == flyway.KindPending || f.Kind == flyway.KindUnmanaged
	})
	if len(findings) > 0 {
		return fmt.Errorf("open paydb: %w", &flyway.HistoryError{Table: flyway.TableName, Findings: findings})
	}
	if wrong.Have, _ = flyway.CurrentVersion(rows); wrong.Have < MinSchema || wrong.Have > MaxSchema {
		return wrong
	}
	return nil
}

// checkSeparate refuses locks and money on one instance (K-6.1). It compares
// what `migrate up` recorded, and asks lockdb itself where its address is known
// and it answers.
func checkSeparate(ctx context.Context, q pgtx.OneTrip, facts instance.Facts, peer *pgx.ConnConfig) error {
	recorded, known, err := instance.Peer(ctx, q)
	switch {
	case err != nil:
		return fmt.Errorf("open paydb: %w", err)
	case known && recorded == facts.SystemIdentifier:
		return ErrSameInstance
	case !known && peer == nil:
		return &UnsafeError{
			Clause:  "K-6.1",
			Problem: "paydb does not know the instance of its lockdb, so nothing shows that the two are separate",
			Fix:     "run dlockctl migrate up --target all with both databases configured",
		}
	case peer == nil:
		return nil
	}
	other, err := instance.ReadAt(ctx, peer)
	if err != nil && known {
		// lockdb is down, and what was recorded of it shows that it is elsewhere:
		// its failures are not this database's (K-6.2).
		return nil
	}
	if err != nil {
		return &UnreachableError{Doing: "ask lockdb whether it is another instance", Err: err}
	}
	if other.SystemIdentifier == facts.SystemIdentifier {
		return ErrSameInstance
	}
	return nil
}

// checkGuards refuses to move money without the triggers that bind it.
func checkGuards(ctx context.Context, q pgtx.OneTrip) error {
	rows, err := q.Query(ctx, checkTriggersQuery)
	if err != nil {
		return fmt.Errorf("read the guards of paydb: %w", err)
	}
	enabled, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read the guards of paydb: %w", err)
	}
	for _, guard := range Guards() {
		if slices.Contains(enabled, guard) {
			continue
		}
		table, trigger, _ := strings.Cut(guard, ".")
		return &UnsafeError{
			Clause:  "K-4.10",
			Problem: fmt.Sprintf("trigger %s on %s is missing or not ENABLE ALWAYS: money could move past it", trigger, table),
			Fix:     fmt.Sprintf("run as its owner: ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", table, trigger),
		}
	}
	return nil
}
