package flyway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"
)

const defaultBaseline = "<< Flyway Baseline >>"

// Baseline declares that the schema already is what version describes: files up to
// it never run. It creates the history with the marker that Flyway would write; where
// the same marker stands already it does nothing. Description "" is Flyway's default.
//
// It returns a *HistoryError when the history exists and says anything else, a
// *LockError, a *PoolerError or ErrStandby.
func (m *Migrator) Baseline(ctx context.Context, version, description string) error {
	description = cmp.Or(description, defaultBaseline)
	want, err := parseVersion(version)
	if err != nil || want.none() || len(version) > 50 {
		return fmt.Errorf("%w: baseline version %q is not a version; give one such as 1, at most 50 digits and dots", ErrArgument, version)
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		return fmt.Errorf("%w: baseline description has %d characters; shorten it to %d", ErrArgument, n, maxDescription)
	}
	if err := m.writable(ctx); err != nil {
		return err
	}
	tx, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	defer m.rollback(ctx, tx)
	if err := m.setUp(ctx, tx, true); err != nil {
		return err
	}
	exists, err := m.table.exists(ctx, tx)
	if err != nil {
		return err
	}
	if exists {
		rows, err := m.table.rows(ctx, tx)
		if err != nil {
			return err
		}
		return m.baselined(rows, want, description)
	}
	row := Row{InstalledRank: 1, Version: version, Description: description, Type: typeBaseline, Script: description, Success: true}
	if err := m.table.create(ctx, tx, &row); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("write baseline: %w", err)
	}
	return nil
}

// baselined accepts a history whose marker, in row 1 or after a schema marker in
// row 2, already says the same.
func (m *Migrator) baselined(rows []Row, want version, description string) error {
	message, hint := "already holds migrations", "a baseline comes before the first migration; this schema needs none"
	if len(rows) == 0 {
		message, hint = "exists and is empty", "run `dlockctl migrate up`, or drop the empty table and baseline again"
	}
	at := slices.IndexFunc(rows[:min(2, len(rows))], func(r Row) bool { return r.Type == typeBaseline })
	if at >= 0 {
		marker := rows[at]
		have, err := parseVersion(marker.Version)
		if err == nil && have.compare(want) == 0 && marker.Description == description {
			return nil
		}
		message = fmt.Sprintf("is already baselined at version %s (%s)", marker.Version, marker.Description)
		hint = "a baseline is set once; go on with `dlockctl migrate up`"
	}
	return &HistoryError{Table: m.table.quoted(), Findings: []Finding{{
		Kind: KindUnmanaged, Severity: SeverityError, Version: want.text, Message: "the history " + message, Hint: hint,
	}}}
}
