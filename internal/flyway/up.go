package flyway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/golang-migrate/migrate/v4"
)

// AppliedMigration is one file that Up has applied.
type AppliedMigration struct {
	Version       string `json:"version,omitempty"`
	Description   string `json:"description"`
	Script        string `json:"script"`
	ExecutionTime int64  `json:"execution_time_ms"`
}

// Result is what Up did, complete up to the moment it returned an error.
type Result struct {
	Schema      string             `json:"schema"`
	FromVersion string             `json:"from_version"` // "" before the first
	ToVersion   string             `json:"to_version"`
	Applied     []AppliedMigration `json:"applied"`
	Warnings    []Finding          `json:"warnings"`
}

// Up applies every pending file, each under a lock of its own, so that whoever
// waits may go between. Result says what was done also when an error follows: a
// *HistoryError before anything ran out of order, a *LockError, a *MigrationError, an
// *UnknownOutcomeError, a *PoolerError or ErrStandby.
func (m *Migrator) Up(ctx context.Context) (Result, error) {
	result := Result{Schema: m.table.schema, Applied: []AppliedMigration{}, Warnings: []Finding{}}
	if err := m.writable(ctx); err != nil {
		return result, err
	}
	if err := m.ensureHistory(ctx); err != nil {
		return result, err
	}
	d := &driver{ctx: ctx, m: m, planned: func(p *plan) { m.begun(p, &result) }}
	engine, err := migrate.NewWithInstance("flyway", fileSource{m.catalogue}, "flyway", d)
	if err != nil {
		return result, fmt.Errorf("start the migration engine: %w", err)
	}
	// The driver keeps the deadline; the engine's own would abandon a goroutine that takes the lock later.
	engine.LockTimeout = math.MaxInt64

	for {
		err := engine.Steps(1)
		if d.done() && errors.Is(err, fs.ErrNotExist) {
			return result, nil // the engine's only word for "nothing is pending"
		}
		if err != nil {
			return result, err //nolint:wrapcheck // the driver's own errors, passed through by the engine
		}
		result.add(d.next, d.elapsed)
	}
}

// begun notes from where this run starts and what it tolerates.
func (m *Migrator) begun(p *plan, result *Result) {
	result.FromVersion, result.ToVersion = p.current(), p.current()
	for _, f := range p.findings() {
		if f.Severity == SeverityWarning {
			result.Warnings = append(result.Warnings, f)
			m.opts.Progress(Event{Kind: EventWarning, Script: f.Script, Version: f.Version, Message: f.Message})
		}
	}
}

func (r *Result) add(m *Migration, elapsed time.Duration) {
	r.Applied = append(r.Applied, AppliedMigration{
		Version: m.Version, Description: m.Description, Script: m.Script, ExecutionTime: elapsed.Milliseconds(),
	})
	if !m.Repeatable() {
		r.ToVersion = m.Version
	}
}

// ensureHistory creates the table under the lock, as Flyway does: only in a schema
// that holds nothing yet, because what stands there already may be what V1 creates;
// a guest has looked itself.
func (m *Migrator) ensureHistory(ctx context.Context) error {
	exists, err := m.table.exists(ctx, m.conn)
	if err != nil || exists {
		return err
	}
	tx, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	defer m.rollback(ctx, tx)
	if exists, err = m.table.exists(ctx, tx); err != nil || exists {
		return err // another migrator was faster
	}
	empty, err := emptySchema(ctx, tx, m.table.schema)
	if err != nil {
		return err
	}
	if !empty && !m.opts.Guest {
		return &HistoryError{Table: m.table.quoted(), Findings: []Finding{{
			Kind: KindUnmanaged, Severity: SeverityError, Script: "",
			Message: fmt.Sprintf("schema %q is not empty and has no history", m.table.schema),
			Hint:    "check the database; if its content is that of a version, say which with `dlockctl migrate baseline`",
		}}}
	}
	if err := m.setUp(ctx, tx, true); err != nil {
		return err
	}
	if err := m.table.create(ctx, tx, nil); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("create %s: %w", m.table.quoted(), err)
	}
	return nil
}
